/* SPDX-License-Identifier: BSD-3-Clause */
/* loops: those built in, the default first. */
#include "loops.h"

#include <string.h>

#ifdef HIRATE_HAVE_LIBEVENT
extern const cli_loop cli_loop_libevent;
#define NAME_LIBEVENT "libevent, "
#else
#define NAME_LIBEVENT ""
#endif
#ifdef HIRATE_HAVE_LIBEV
extern const cli_loop cli_loop_libev;
#define NAME_LIBEV "libev, "
#else
#define NAME_LIBEV ""
#endif
extern const cli_loop cli_loop_epoll;

static const cli_loop *const LOOPS[] = {
#ifdef HIRATE_HAVE_LIBEVENT
    &cli_loop_libevent,
#endif
#ifdef HIRATE_HAVE_LIBEV
    &cli_loop_libev,
#endif
    &cli_loop_epoll,
};

const cli_loop *cli_loop_find(const char *name)
{
    if (name == NULL)
        return LOOPS[0];
    for (size_t i = 0; i < sizeof LOOPS / sizeof LOOPS[0]; i++)
        if (strcmp(LOOPS[i]->name, name) == 0)
            return LOOPS[i];
    return NULL;
}

const char *cli_loop_names(void)
{
    return NAME_LIBEVENT NAME_LIBEV "epoll";
}
