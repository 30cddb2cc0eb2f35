/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: the token bucket in exact integers.
 *
 * With full <= 2^52, units, lag <= full and 1000·n <= 2^53 every sum here is below 2^54, so 64 bits do. The products
 * of a time and n, and of old tokens and a new p, may need more and are formed in 128. Only a change of p on a live key
 * uses doubles, on the fraction of a token, rounding exactly as the script does: this file is compiled with
 * -ffp-contract=off and, on 32-bit x86, needs SSE arithmetic.
 */
#include "token_bucket.h"

#include <assert.h>
#include <float.h>

static_assert(FLT_EVAL_METHOD == 0, "doubles must be computed as doubles, as the script does");

__extension__ typedef unsigned __int128 u128;

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The value, or `most` where it is larger. */
static uint64_t clip(u128 value, uint64_t most)
{
    return value > most ? most : (uint64_t)value;
}

/* ceil(units / (1000·n)): the milliseconds in which so many units return. */
static int64_t wait_ms(const hr_policy *policy, uint64_t units)
{
    uint64_t per_ms = 1000 * policy->n;

    return (int64_t)(units / per_ms + (units % per_ms != 0));
}

/* Stored units in units of the policy: whole tokens are kept exactly, the fraction to the nearest unit below. */
static uint64_t convert(const hr_policy *policy, const hr_token_bucket *stored)
{
    if (stored->p == policy->p)
        return min_u64(stored->units, policy->full);

    uint64_t tokens = stored->units / stored->p;
    uint64_t rest = stored->units % stored->p;
    uint64_t fraction = (uint64_t)((double)rest / (double)stored->p * (double)policy->p);
    return clip((u128)tokens * policy->p + min_u64(policy->p - 1, fraction), policy->full);
}

hr_token_bucket_now hr_token_bucket_load(const hr_policy *policy, const hr_token_bucket *stored, int64_t now_us)
{
    hr_token_bucket_now bucket = {policy->full, 0, now_us};

    if (stored == NULL)
        return bucket;
    assert(stored->p > 0);
    bucket.units = convert(policy, stored);
    if (now_us >= stored->ts) {
        u128 returned = (u128)(uint64_t)(now_us - stored->ts) * policy->n;

        bucket.units = clip(bucket.units + returned, policy->full);
        return bucket;
    }
    /* The clock stepped back. Wait for it to come back to ts, unless that takes longer than to fill a bucket. */
    u128 lag = (u128)(uint64_t)(stored->ts - now_us) * policy->n;
    if (lag <= policy->full) {
        bucket.lag = (uint64_t)lag;
        bucket.at = stored->ts;
    }
    return bucket;
}

int64_t hr_token_bucket_reset_ms(const hr_policy *policy, const hr_token_bucket_now *bucket)
{
    if (bucket->units == policy->full)
        return 0;
    return wait_ms(policy, policy->full - bucket->units + bucket->lag);
}

hr_decision hr_token_bucket_take(const hr_policy *policy, hr_token_bucket_now *bucket, uint64_t cost)
{
    hr_decision decision = {HIRATE_DENIED, 0, 0, 0, 0};

    if (cost > policy->capacity) {
        decision.retry_after_ms = HIRATE_NEVER;
    } else if (cost * policy->p <= bucket->units) {
        bucket->units -= cost * policy->p;
        decision.verdict = HIRATE_ALLOWED;
    } else {
        decision.retry_after_ms = wait_ms(policy, cost * policy->p - bucket->units + bucket->lag);
    }
    decision.remaining = bucket->units / policy->p;
    decision.reset_ms = hr_token_bucket_reset_ms(policy, bucket);
    return decision;
}

void hr_token_bucket_keep(const hr_policy *policy, hr_token_bucket_now *bucket, int64_t now_us)
{
    if (bucket->units != policy->full)
        return;
    bucket->lag = 0;
    bucket->at = now_us;
}
