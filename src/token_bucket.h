/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: the token bucket as pure functions of (state, now, cost).
 *
 * Every kind of limit has such functions. decide.h picks among them; together they are the twin of lua/acquire.lua.
 *
 * A decision has two steps, as in the script: bring the stored state to `now` (hr_token_bucket_load), then take from
 * it once for each request decided at that moment (hr_token_bucket_take). The client repeats the second step on the
 * `units` and `lag` that the script reports, and so gives each request of a call its own exact verdict.
 */
#ifndef HR_TOKEN_BUCKET_H
#define HR_TOKEN_BUCKET_H

#include "policy.h"

#include <stdbool.h>

/* As stored. p: units in a token when it was stored, which a live change of the rate makes differ from policy->p. */
typedef struct hr_token_bucket {
    uint64_t units; /* 0 … 2^52 */
    uint64_t p;
    int64_t ts; /* microseconds */
} hr_token_bucket;

/* A bucket at the moment of a decision. lag = (at - now)·n: units that must return before the clock is back at `at`,
 * 0 unless the clock stepped back. 0 <= units, lag <= full. */
typedef struct hr_token_bucket_now {
    uint64_t units;
    uint64_t lag;
    int64_t at; /* becomes ts */
} hr_token_bucket_now;

/* `stored` NULL: the key does not exist, the bucket is full. */
hr_token_bucket_now hr_token_bucket_load(const hr_policy *policy, const hr_token_bucket *stored, int64_t now_us);

/* Decide one request of `cost`; what is allowed is taken from bucket->units. */
hr_decision hr_token_bucket_take(const hr_policy *policy, hr_token_bucket_now *bucket, uint64_t cost);

/* What becomes of it by being stored and found again at the same moment: a full bucket is not kept, so it has no lag. Between
 * acquires that are decided together. */
void hr_token_bucket_keep(const hr_policy *policy, hr_token_bucket_now *bucket, int64_t now_us);

/* reset_ms: ceil((full - units + lag) / (1000·n)), 0 when full. The expiry to store with. */
int64_t hr_token_bucket_reset_ms(const hr_policy *policy, const hr_token_bucket_now *bucket);

#endif
