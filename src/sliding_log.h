/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: the sliding log as pure functions of (state, now, cost).
 *
 * State     entries (time, units), oldest first, at most 8192: times rise strictly, 0 … 2^53-1; units >= 1; and used,
 *           the sum of all units, 1 … 8192.
 * Load      at = the newest entry's time, if now is before it by at most the window, else now.
 *           An entry counts while at - time < window; those that no longer do are dropped, for good once stored.
 *           Entries at or later than `at` are one, at `at` (later ones: the clock stepped back by more than the window,
 *           they move to now).
 *           So what counts is older[0 … older_count-1], with times below at, together older_units, and at_units.
 * Left      limit - older_units - at_units (0 if that is negative: the limit was lowered).
 * Take      cost > limit:    denied, never.
 *           cost <= left:    at_units += cost.
 *           else:            denied until so many of the oldest units have gone that it fits:
 *                            need = older_units + at_units + cost - limit;
 *                            time = of the first older entry with which the sum of units from the oldest on is >= need,
 *                            else at;
 *                            retry_after_ms = ceil(((time - now) + window) / 1000).
 * Keep      nothing changes: found again, it has the same `at` and the same units at it.
 * Store     older, then (at, at_units) if at_units > 0; denied too. Nothing if neither: the key is deleted.
 * Expiry    reset_ms = ceil(((newest - now) + window) / 1000): newest is at if at_units > 0, else the last older time.
 */
#ifndef HR_SLIDING_LOG_H
#define HR_SLIDING_LOG_H

#include "policy.h"

#include <stddef.h>

typedef struct hr_sliding_log_entry {
    int64_t time_us;
    uint32_t units;
} hr_sliding_log_entry;

/* As stored. */
typedef struct hr_sliding_log {
    const hr_sliding_log_entry *entries;
    size_t count;
    uint64_t used;
} hr_sliding_log;

/*
 * At the moment of a decision. `older` points into what was loaded.
 *
 * Whoever repeats decisions made elsewhere needs only a first part of `older`, long enough for the largest `need` there
 * was (see Take), with older_units of all of it, and newest_us.
 */
typedef struct hr_sliding_log_now {
    const hr_sliding_log_entry *older;
    size_t older_count;
    uint64_t older_units;
    int64_t newest_us; /* the last older entry's time; not used without one */
    uint64_t at_units;
    int64_t at_us;
    int64_t now_us;
} hr_sliding_log_now;

/* `stored` NULL: the key does not exist. */
hr_sliding_log_now hr_sliding_log_load(const hr_policy *policy, const hr_sliding_log *stored, int64_t now_us);

/* Decide one request of `cost`; what is allowed is added to at_units. */
hr_decision hr_sliding_log_take(const hr_policy *policy, hr_sliding_log_now *moment, uint64_t cost);

int64_t hr_sliding_log_reset_ms(const hr_policy *policy, const hr_sliding_log_now *moment);

#endif
