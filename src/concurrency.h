/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: concurrency as pure functions of (state, now, cost).
 *
 * State     at, the clock when it was last written; leases, each with its units and when it ends: 1 … HIRATE_HOLDS_MAX
 *           of them, all of which end after `at`.
 * Load      absent or now >= at:      at = now.
 *           at - now <= lease time:   the clock stepped back: `at` stays ahead of it, and every lease ends when it
 *                                     was to.
 *           else:                     it stepped back further: the leases move with it, each has as long to go as it
 *                                     had at `at`; at = now.
 *           Leases whose end has come (until <= now) are dropped, for good once stored.
 * Left      limit - held (0 if that is negative: the limit was lowered); nothing if there are HIRATE_HOLDS_MAX leases.
 * Take      cost > limit:    denied, never.
 *           cost = 0:        allowed, and no lease.
 *           cost <= left:    held += cost, one lease more, which ends at `at` + lease time.
 *           else:            denied until so many of those that end first have ended that it fits: that held - (limit -
 *                            cost) units have come back and there is one lease less than HIRATE_HOLDS_MAX.
 * Keep      nothing changes: where `at` is ahead there is a lease, so it is stored.
 * Store     at and the leases; denied too. Nothing without leases: the key is deleted.
 * Expiry    reset_ms = ceil((latest - now) / 1000), latest the last lease's end; 0 without one.
 *
 * A step back of the clock never ends a lease early, and after one none lasts for more than two lease times; for that
 * they end after `at` and not after `now`. A lease keeps the end it was given when the limit's lease time changes; a
 * renewal gives it a new one, `at` + lease time.
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
 * How long a denial waits is told from `leases` alone, or without any from latest_us. So after something was taken at
 * this moment it may be wrong. Whoever repeats decisions made elsewhere needs but one, which ends when the wait is
 * over; what units it has does not matter.
 */
typedef struct hr_concurrency_now {
    hr_holds leases;
    int64_t shift_us;  /* to add to their ends: 0, or negative where they moved */
    uint64_t held;     /* units of all leases, those taken at this moment too; at most 2^53-1 */
    uint64_t count;    /* of them */
    int64_t latest_us; /* when the last of them ends; not used without one */
    int64_t at_us;     /* becomes at */
    int64_t now_us;
} hr_concurrency_now;

/* `stored` NULL: the key does not exist. Takes as many steps as leases have ended. */
hr_concurrency_now hr_concurrency_load(const hr_policy *policy, const hr_concurrency *stored, int64_t now_us);

/* When a lease that is taken, or renewed, at this moment ends: `at` + lease time. */
int64_t hr_concurrency_until_us(const hr_policy *policy, const hr_concurrency_now *moment);

/* Decide one request of `cost`; what is allowed is added to held, count and latest_us. */
hr_decision hr_concurrency_take(const hr_policy *policy, hr_concurrency_now *moment, uint64_t cost);

int64_t hr_concurrency_reset_ms(const hr_concurrency_now *moment);

#endif
