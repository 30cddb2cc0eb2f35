/* SPDX-License-Identifier: BSD-3-Clause */
/* base: the monotonic clock, in microseconds. Everything else takes `now` as an argument. */
#ifndef HR_CLOCK_H
#define HR_CLOCK_H

#include <stdint.h>
#include <time.h>

#define HR_CLOCK_FAR INT64_MAX /* a moment that never comes */

static inline int64_t hr_clock_read(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static inline int64_t hr_clock_now_us(void)
{
    return hr_clock_read(CLOCK_MONOTONIC);
}

#endif
