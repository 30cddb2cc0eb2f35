/* SPDX-License-Identifier: BSD-3-Clause */
/* base: when to stop asking a server that does not answer; see breaker.h. */
#include "breaker.h"

bool hr_breaker_is_open(const hr_breaker *breaker)
{
    return breaker->failures >= breaker->threshold;
}

void hr_breaker_failed(hr_breaker *breaker, int64_t now_us, uint32_t random)
{
    bool was_open = hr_breaker_is_open(breaker);
    if (breaker->failures < UINT32_MAX)
        breaker->failures++;
    if (!was_open && hr_breaker_is_open(breaker))
        breaker->probe_us = now_us + hr_backoff_next(&breaker->backoff, random);
}

void hr_breaker_good(hr_breaker *breaker)
{
    breaker->failures = 0;
    hr_backoff_reset(&breaker->backoff);
}

void hr_breaker_probe_now(hr_breaker *breaker, int64_t now_us)
{
    breaker->probe_us = now_us;
}

bool hr_breaker_lets_through(hr_breaker *breaker, int64_t now_us, uint32_t random)
{
    if (!hr_breaker_is_open(breaker))
        return true;
    if (now_us < breaker->probe_us)
        return false;
    breaker->probe_us = now_us + hr_backoff_next(&breaker->backoff, random);
    return true;
}
