/* SPDX-License-Identifier: BSD-3-Clause */
/* policy: a limit of any kind; see decide.h. */
#include "decide.h"

#include <assert.h>

hr_moment hr_decide_load(const hr_policy *policy, const hr_state *stored, int64_t now_us)
{
    assert(stored == NULL || stored->kind == policy->kind);
    switch (policy->kind) {
    case HIRATE_KIND_FIXED_WINDOW:
    case HIRATE_KIND_QUOTA:
        return (hr_moment){.window = hr_fixed_window_load(policy, stored == NULL ? NULL : &stored->as.window, now_us)};
    case HIRATE_KIND_SLIDING_LOG:
        return (hr_moment){.log = hr_sliding_log_load(policy, stored == NULL ? NULL : &stored->as.log, now_us)};
    case HIRATE_KIND_SLIDING_WINDOW:
        return (hr_moment){.sliding =
                               hr_sliding_window_load(policy, stored == NULL ? NULL : &stored->as.sliding, now_us)};
    case HIRATE_KIND_CONCURRENCY:
        return (hr_moment){.concurrency =
                               hr_concurrency_load(policy, stored == NULL ? NULL : &stored->as.concurrency, now_us)};
    default:
        return (hr_moment){.bucket = hr_token_bucket_load(policy, stored == NULL ? NULL : &stored->as.bucket, now_us)};
    }
}

hr_decision hr_decide_take(const hr_policy *policy, hr_moment *moment, uint64_t cost)
{
    switch (policy->kind) {
    case HIRATE_KIND_LEAKY_BUCKET:
        return hr_leaky_bucket_take(policy, &moment->bucket, cost);
    case HIRATE_KIND_FIXED_WINDOW:
    case HIRATE_KIND_QUOTA:
        return hr_fixed_window_take(policy, &moment->window, cost);
    case HIRATE_KIND_SLIDING_LOG:
        return hr_sliding_log_take(policy, &moment->log, cost);
    case HIRATE_KIND_SLIDING_WINDOW:
        return hr_sliding_window_take(policy, &moment->sliding, cost);
    case HIRATE_KIND_CONCURRENCY:
        return hr_concurrency_take(policy, &moment->concurrency, cost);
    default:
        return hr_token_bucket_take(policy, &moment->bucket, cost);
    }
}

hr_decision hr_decide_hold(const hr_policy *policy, hr_moment *moment, uint64_t cost, uint64_t hold_us)
{
    if (policy->kind == HIRATE_KIND_QUOTA && hold_us > 0)
        return hr_fixed_window_reserve(policy, &moment->window, cost, hold_us);
    return hr_decide_take(policy, moment, cost);
}

int64_t hr_decide_until_us(const hr_policy *policy, const hr_moment *moment, uint64_t hold_us)
{
    if (policy->kind == HIRATE_KIND_CONCURRENCY)
        return hr_concurrency_until_us(policy, &moment->concurrency);
    return hr_fixed_window_until_us(&moment->window, hold_us);
}

void hr_decide_keep(const hr_policy *policy, hr_moment *moment, int64_t now_us)
{
    if (policy->kind == HIRATE_KIND_TOKEN_BUCKET || policy->kind == HIRATE_KIND_LEAKY_BUCKET)
        hr_token_bucket_keep(policy, &moment->bucket, now_us);
}
