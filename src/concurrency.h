/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: concurrency as pure functions of (state, now, cost).
 *
 * State     at, the clock when it was last written; leases, each with its units and when it ends: at most HIRATE_HOLDS_MAX.
 * Load      now >= at:                at = now.
 *           at - now <= lease time:   the clock stepped back: `at` stays ahead of it and every lease ends when it was to.
 *           else:                     it stepped back further: the leases move with it, each has as long to go as it had at
 *                                     `at`; at = now.
 *           Leases whose end has come are dropped, for good once stored. So a step back never ends a lease early, and delays
 *           its end by at most one lease time.
 * Left      limit - held (0 if that is negative: the limit was lowered); nothing if there are HIRATE_HOLDS_MAX leases.
 * Take      cost > limit:    denied, never.
 *           cost = 0:        allowed, and no lease.
 *           cost <= left:    held += cost, one lease more, which ends at now + lease time.
 *           else:            denied until so many of those that end first have ended that it fits.
 * Keep      nothing changes.
 * Store     at and the leases; denied too. Nothing without leases: the key is deleted.
 * Expiry    reset_ms = ceil((latest - now) / 1000), latest the last lease's end.
 *
 * A lease keeps the end it was given when the limit's lease time changes; a renewal gives it the new one.
 */
#ifndef HR_CONCURRENCY_H
#define HR_CONCURRENCY_H

#include "holds.h"
#include "policy.h"

/* As stored. */
typedef struct hr_concurrency {
    int64_t at_us;
    hr_holds leases;
    uint64_t held; /* units of all of them */
} hr_concurrency;

/*
 * At the moment of a decision. `leases` points into what was loaded: what has not ended, without what was taken since.
 *
 * Whoever repeats decisions made elsewhere needs of `leases` only one, which ends when a denial's wait is over.
 */
typedef struct hr_concurrency_now {
    hr_holds leases;
    int64_t shift_us; /* to add to their ends: 0, or negative where they moved */
    uint64_t held;    /* units of all leases, those taken at this moment too */
    uint64_t count;   /* of them */
    int64_t latest_us; /* when the last of them ends; not used without one */
    int64_t at_us;    /* becomes at */
    int64_t now_us;
} hr_concurrency_now;

/* `stored` NULL: the key does not exist. */
hr_concurrency_now hr_concurrency_load(const hr_policy *policy, const hr_concurrency *stored, int64_t now_us);

/* Decide one request of `cost`; what is allowed is added to held, count and latest_us. */
hr_decision hr_concurrency_take(const hr_policy *policy, hr_concurrency_now *moment, uint64_t cost);

int64_t hr_concurrency_reset_ms(const hr_concurrency_now *moment);

#endif
