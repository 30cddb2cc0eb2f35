/* SPDX-License-Identifier: BSD-3-Clause */
/* policy: limits from run-time values; nothing is checked here. */
#include "hirate.h"

#include <string.h>

static void begin(hirate_limit *limit, enum hirate_kind kind, const char *policy, uint64_t capacity)
{
    memset(limit, 0, sizeof *limit);
    limit->struct_size = (uint32_t)sizeof *limit;
    limit->version = HIRATE_LIMIT_VERSION;
    limit->kind = (uint16_t)kind;
    limit->policy = policy;
    limit->capacity = capacity;
}

void hirate_limit_token_bucket(hirate_limit *limit, const char *policy, uint64_t capacity, hirate_rate rate)
{
    begin(limit, HIRATE_KIND_TOKEN_BUCKET, policy, capacity);
    limit->rate = rate;
}

void hirate_limit_leaky_bucket(hirate_limit *limit, const char *policy, uint64_t capacity, hirate_rate rate)
{
    begin(limit, HIRATE_KIND_LEAKY_BUCKET, policy, capacity);
    limit->rate = rate;
}

void hirate_limit_fixed_window(hirate_limit *limit, const char *policy, uint64_t max, uint64_t window_us)
{
    begin(limit, HIRATE_KIND_FIXED_WINDOW, policy, max);
    limit->window_us = window_us;
}

void hirate_limit_quota(hirate_limit *limit, const char *policy, uint64_t max, enum hirate_per per,
                        int32_t offset_minutes)
{
    begin(limit, HIRATE_KIND_QUOTA, policy, max);
    limit->per = (uint32_t)per;
    limit->offset_minutes = offset_minutes;
}

void hirate_limit_sliding_log(hirate_limit *limit, const char *policy, uint64_t max, uint64_t window_us)
{
    begin(limit, HIRATE_KIND_SLIDING_LOG, policy, max);
    limit->window_us = window_us;
}

void hirate_limit_sliding_window(hirate_limit *limit, const char *policy, uint64_t max, uint64_t window_us)
{
    begin(limit, HIRATE_KIND_SLIDING_WINDOW, policy, max);
    limit->window_us = window_us;
}

void hirate_limit_concurrency(hirate_limit *limit, const char *policy, uint64_t max, uint64_t lease_us)
{
    begin(limit, HIRATE_KIND_CONCURRENCY, policy, max);
    limit->lease_us = lease_us;
}
