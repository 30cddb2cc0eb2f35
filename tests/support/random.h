/* SPDX-License-Identifier: BSD-3-Clause */
/* tests: random numbers that can be had again. The seed is printed; HIRATE_TEST_SEED sets it. */
#ifndef TESTS_SUPPORT_RANDOM_H
#define TESTS_SUPPORT_RANDOM_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct rng {
    uint64_t state;
} rng;

/* `test` is named in the line printed on stderr. */
static inline rng rng_start(const char *test)
{
    const char *given = getenv("HIRATE_TEST_SEED");
    struct timespec now = {0, 0};
    rng r;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    r.state = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
    (void)fprintf(stderr, "%s: HIRATE_TEST_SEED=%" PRIu64 "\n", test, r.state);
    return r;
}

/* SplitMix64. */
static inline uint64_t rng_next(rng *r)
{
    uint64_t z = r->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* 0 … most. */
static inline uint64_t rng_upto(rng *r, uint64_t most)
{
    return most == UINT64_MAX ? rng_next(r) : rng_next(r) % (most + 1);
}

/* 1 … 2^bits - 1, each magnitude about equally often; bits 1 … 63. */
static inline uint64_t rng_magnitude(rng *r, unsigned bits)
{
    unsigned width = 1 + (unsigned)rng_upto(r, bits - 1);
    uint64_t top = UINT64_C(1) << (width - 1);

    return top | (rng_next(r) & (top - 1));
}

#endif
