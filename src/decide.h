/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: a limit of any kind: the steps of a decision (load, then take or hold, then keep) of the policy's own kind.
 *
 * Everything here is plain data, copied freely: a peek takes from a copy, and several limits can be tried on copies
 * before any of them is taken from. What a copy of a moment points to, a log's entries or holds, is what was loaded.
 */
#ifndef HR_DECIDE_H
#define HR_DECIDE_H

#include "concurrency.h"
#include "fixed_window.h"
#include "leaky_bucket.h"
#include "sliding_log.h"
#include "sliding_window.h"
#include "token_bucket.h"

/* What a name has stored. */
typedef struct hr_state {
    uint16_t kind; /* which member: enum hirate_kind */
    union {
        hr_token_bucket bucket; /* token bucket, leaky bucket */
        hr_fixed_window window; /* fixed window, quota */
        hr_sliding_log log;
        hr_sliding_window sliding;
        hr_concurrency concurrency;
    } as;
} hr_state;

/* A name at the moment of a decision. */
typedef union hr_moment {
    hr_token_bucket_now bucket;
    hr_fixed_window_now window;
    hr_sliding_log_now log;
    hr_sliding_window_now sliding;
    hr_concurrency_now concurrency;
} hr_moment;

/* `stored` NULL: absent; otherwise its kind is the policy's. */
hr_moment hr_decide_load(const hr_policy *policy, const hr_state *stored, int64_t now_us);
hr_decision hr_decide_take(const hr_policy *policy, hr_moment *moment, uint64_t cost);
/* The same, but under a quota reserve for hold_us, at most 2^52; 0: charge. */
hr_decision hr_decide_hold(const hr_policy *policy, hr_moment *moment, uint64_t cost, uint64_t hold_us);
/* Is what an acquire takes under this policy held: a lease or, with hold_us > 0, a quota's reservation? */
static inline bool hr_decide_holds(const hr_policy *policy, uint64_t hold_us)
{
    return policy->kind == HIRATE_KIND_CONCURRENCY || (policy->kind == HIRATE_KIND_QUOTA && hold_us > 0);
}
/* When a lease, or a reservation for hold_us, that is made at this moment ends. */
int64_t hr_decide_until_us(const hr_policy *policy, const hr_moment *moment, uint64_t hold_us);
/* Between acquires that are decided together: as if it were stored and found again at the same moment. */
void hr_decide_keep(const hr_policy *policy, hr_moment *moment, int64_t now_us);

#endif
