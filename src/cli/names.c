/* SPDX-License-Identifier: BSD-3-Clause */
/* names: which of N names a benchmark asks for next, uniformly or by Zipf's law. */
#include "names.h"

#include <math.h>
#include <stdlib.h>

#define SEED UINT64_C(0x6869726174650001)

/* A Weyl sequence put through two rounds of multiply and shift (splitmix64). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Turn keep[] from weights with mean 1 into an alias table: each column that is too low is topped up by one that is too
 * high. `order` holds the low ones from its front and the high ones from its back. */
static void build_table(cli_names *names, uint32_t *order)
{
    size_t low = 0, high = names->count;
    for (size_t k = 0; k < names->count; k++)
        order[names->keep[k] < 1 ? low++ : --high] = (uint32_t)k;
    /* order[0 … low) are low, order[high … count) high; they meet, as every column is in one of them. */
    while (low > 0 && high < names->count) {
        uint32_t l = order[--low], h = order[high];
        names->alias[l] = h;
        names->keep[h] -= 1 - names->keep[l];
        if (names->keep[h] < 1) {
            high++;
            order[low++] = h;
        }
    }
    /* What is left is 1 but for rounding. */
    while (low > 0)
        names->keep[order[--low]] = 1;
    while (high < names->count)
        names->keep[order[high++]] = 1;
}

int cli_names_init(cli_names *names, uint64_t count, double s)
{
    *names = (cli_names){.state = SEED, .count = count};
    if (!(s > 0))
        return 0;
    uint32_t *order = calloc(count, sizeof *order);
    names->keep = calloc(count, sizeof *names->keep);
    names->alias = calloc(count, sizeof *names->alias);
    if (order == NULL || names->keep == NULL || names->alias == NULL) {
        free(order);
        cli_names_free(names);
        return -1;
    }
    double sum = 0;
    for (size_t k = 0; k < count; k++)
        sum += names->keep[k] = pow((double)k + 1, -s);
    for (size_t k = 0; k < count; k++)
        names->keep[k] *= (double)count / sum;
    build_table(names, order);
    free(order);
    return 0;
}

void cli_names_free(cli_names *names)
{
    free(names->keep);
    free(names->alias);
    names->keep = NULL;
    names->alias = NULL;
}

uint64_t cli_names_next(cli_names *names)
{
    uint64_t random = next_random(&names->state);
    uint64_t column = ((random >> 32) * names->count) >> 32;
    if (names->keep == NULL)
        return column;
    double part = (double)(next_random(&names->state) >> 11) * 0x1p-53;
    return part < names->keep[column] ? column : names->alias[column];
}
