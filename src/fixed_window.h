/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: the fixed window and the quota as pure functions of (state, now, cost). They differ in which window holds a
 * moment: a multiple of the length since 1970, or the calendar's (calendar.h).
 *
 * State     start, end, used. start < end; the window may be a past or (the clock stepped back) a coming one.
 *           -2^42 <= start (a quota's, at an offset, just after 1970; otherwise >= 0), end <= 2^53.
 *           1 <= used <= 2^53-1.
 * Load      absent or now >= end:         the window that holds now, nothing used.
 *           start - now > end - start:    the clock stepped back by more than a window: the window that holds now, used
 *                                         stays.
 *           else:                         what is stored, also after a change of the length: the window ends as it
 *                                         would have.
 * Take      cost > limit:                 denied, never.
 *           cost <= limit - used:         used += cost. (limit - used is 0 where it would be negative, as the limit was
 *                                         lowered: a cost of 0 is always allowed.)
 *           else:                         denied until end.
 * Keep      nothing changes: what has used = 0 holds now already.
 * Store     start, end, used; denied too. Nothing if used = 0: the key is deleted.
 * Expiry    reset_ms = ceil((end - now) / 1000) if used > 0.
 */
#ifndef HR_FIXED_WINDOW_H
#define HR_FIXED_WINDOW_H

#include "policy.h"

/* As stored. */
typedef struct hr_fixed_window {
    int64_t start_us, end_us;
    uint64_t used;
} hr_fixed_window;

/* At the moment of a decision: what would be stored, and the moment. */
typedef struct hr_fixed_window_now {
    hr_fixed_window window;
    int64_t now_us;
} hr_fixed_window_now;

/* `stored` NULL: the key does not exist. */
hr_fixed_window_now hr_fixed_window_load(const hr_policy *policy, const hr_fixed_window *stored, int64_t now_us);

/* Decide one request of `cost`; what is allowed is added to used. */
hr_decision hr_fixed_window_take(const hr_policy *policy, hr_fixed_window_now *moment, uint64_t cost);

int64_t hr_fixed_window_reset_ms(const hr_fixed_window_now *moment);

#endif
