/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * who: whom a request is about.
 */
#ifndef CLI_WHO_H
#define CLI_WHO_H

#include <hirate/hirate.h>

/* Any bytes, whoever owns them; len <= HIRATE_NAME_MAX. */
typedef struct cli_name {
    const void *bytes;
    size_t len;
} cli_name;

/* One name for all limits of a request, or one for each in their order. */
typedef struct cli_who {
    size_t count;
    cli_name names[HIRATE_PAIRS_MAX];
} cli_who;

/* The name that limit i is asked for; count is not 0. */
static inline const cli_name *cli_who_at(const cli_who *who, size_t i)
{
    return &who->names[who->count == 1 ? 0 : i];
}

/* Copy *from, and its names into `bytes`, which has HIRATE_NAME_MAX for each of them. */
void cli_who_copy(cli_who *to, unsigned char *bytes, const cli_who *from);

#endif
