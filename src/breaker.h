/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base: when to stop asking a server that does not answer. Pure: time and the random word are arguments.
 *
 * Closed: everything is asked. After `threshold` failures in a row it opens: then one request is let through as a probe when a
 * backoff has passed, and the next only after a longer one. A good decision closes it.
 */
#ifndef HR_BREAKER_H
#define HR_BREAKER_H

#include "backoff.h"

#include <stdbool.h>

typedef struct hr_breaker {
    uint32_t threshold;
    uint32_t failures; /* in a row */
    int64_t probe_us;  /* open: the next probe is due */
    hr_backoff backoff;
} hr_breaker; /* zeroed but for the threshold: closed */

bool hr_breaker_is_open(const hr_breaker *breaker);
void hr_breaker_failed(hr_breaker *breaker, int64_t now_us, uint32_t random);
void hr_breaker_good(hr_breaker *breaker);
/* Something has changed for the better: the next request is a probe. */
void hr_breaker_probe_now(hr_breaker *breaker, int64_t now_us);
/* May a request be asked? While open, true makes it the probe. */
bool hr_breaker_lets_through(hr_breaker *breaker, int64_t now_us, uint32_t random);

#endif
