/* SPDX-License-Identifier: BSD-3-Clause */
/* base: delays before trying again; see backoff.h. */
#include "backoff.h"

int64_t hr_backoff_next(hr_backoff *backoff, uint32_t random)
{
    int64_t step = HR_BACKOFF_FIRST_US;
    for (uint32_t i = 0; i < backoff->failures && step < HR_BACKOFF_MOST_US; i++)
        step *= 2;
    if (step > HR_BACKOFF_MOST_US)
        step = HR_BACKOFF_MOST_US;
    if (backoff->failures < UINT32_MAX)
        backoff->failures++;
    int64_t delay = step / 2 + (int64_t)((uint64_t)step * random >> 32);
    return delay < HR_BACKOFF_MOST_US ? delay : HR_BACKOFF_MOST_US;
}

void hr_backoff_reset(hr_backoff *backoff)
{
    backoff->failures = 0;
}

uint32_t hr_random_next(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return (uint32_t)(x >> 32);
}
