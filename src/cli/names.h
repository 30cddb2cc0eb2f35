/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * names: which of N names a benchmark asks for next, uniformly or by Zipf's law.
 *
 * Pseudo-random from a fixed seed, so that runs compare. Name k of 0 … N-1 has under Zipf weight 1/(k+1)^S: 0 is the
 * most frequent. Drawing is constant time: uniform by one multiplication, Zipf by an alias table (Walker, Vose) of 12
 * bytes a name.
 */
#ifndef CLI_NAMES_H
#define CLI_NAMES_H

#include <stdint.h>

typedef struct cli_names {
    uint64_t state;  /* of the generator */
    uint64_t count;  /* 1 … 2^31 */
    double *keep;    /* keep[k]: probability that column k stands for k itself; NULL: uniform */
    uint32_t *alias; /* else it stands for alias[k] */
} cli_names;

/* `s` 0 is uniform. 0, or -1 without memory for the table. */
int cli_names_init(cli_names *names, uint64_t count, double s);
void cli_names_free(cli_names *names);
uint64_t cli_names_next(cli_names *names);

#endif
