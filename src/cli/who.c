/* SPDX-License-Identifier: BSD-3-Clause */
/* who: whom a request is about. */
#include "who.h"

#include <string.h>

void cli_who_copy(cli_who *to, unsigned char *bytes, const cli_who *from)
{
    to->count = from->count;
    for (size_t i = 0; i < from->count; i++) {
        size_t len = from->names[i].len;
        if (len > 0)
            memcpy(bytes, from->names[i].bytes, len);
        to->names[i] = (cli_name){bytes, len};
        bytes += len;
    }
}
