/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: the sliding window, approximate, from two counters, as pure functions of (state, now, cost).
 *
 * What the window before used (prev) counts in proportion to how much of it the interval that ends now still overlaps;
 * what this one used (cur) counts in full. Times are whole ticks of tick_us, W = window in ticks, limit·W <= 2^52.
 *
 * State     window (its length in microseconds, 1 … 2^52), start (a multiple of it, 0 … 2^53-1), prev and cur,
 *           0 … 2^53-1, at least one of them above 0.
 * Load      S = the multiple of window that holds now.
 *           absent:                       S, 0, 0.
 *           stored window differs, or
 *           start - now > window:         S, prev 0, cur = min(cur + prev, 2^53-1).
 *           start > now:                  what is stored; it is reckoned as at its start.
 *           start = S:                    what is stored.
 *           start = S - window:           S, prev = cur, cur 0.
 *           earlier:                      S, 0, 0.
 * Left      E = ticks from the moment to the window's end: W if now <= start, else W - floor((now - start) / tick_us).
 *           room = (limit - cur)·W.
 *           cur >= limit:                 0.
 *           prev > 0 and
 *           E > floor(room / prev):       0. (prev·E may not be exact, if the limit was lowered; the floor is.)
 *           else:                         floor((room - prev·E) / W).
 * Take      cost > limit:                 denied, never.
 *           cost <= left:                 cur += cost, remaining = left - cost.
 *           else, cost + cur <= limit:    denied until this window's end less Q ticks,
 *                                         Q = floor((limit - cur - cost)·W / prev);
 *           else:                         denied until the next window's end less Q ticks,
 *                                         Q = floor((limit - cost)·W / cur).
 *           retry_after_ms = ceil(((start - now) + (1 or 2)·window - Q·tick_us) / 1000).
 * Keep      nothing changes: what has neither prev nor cur holds now already.
 * Store     window, start, prev, cur; denied too. Nothing if prev = cur = 0: the key is deleted.
 * Expiry    reset_ms = ceil(((start - now) + 2·window) / 1000) if cur > 0, else with 1·window if prev > 0.
 *
 * With window > 2^53 / 3 (95 years) the last sum may not be exact in a double after the clock stepped back; no such
 * window after the first begins before 2065.
 */
#ifndef HR_SLIDING_WINDOW_H
#define HR_SLIDING_WINDOW_H

#include "policy.h"

/* As stored. */
typedef struct hr_sliding_window {
    uint64_t window_us;
    int64_t start_us;
    uint64_t prev, cur;
} hr_sliding_window;

/* At the moment of a decision: what would be stored, and the moment. */
typedef struct hr_sliding_window_now {
    hr_sliding_window window;
    int64_t now_us;
} hr_sliding_window_now;

/* `stored` NULL: the key does not exist. */
hr_sliding_window_now hr_sliding_window_load(const hr_policy *policy, const hr_sliding_window *stored, int64_t now_us);

/* Decide one request of `cost`; what is allowed is added to cur. */
hr_decision hr_sliding_window_take(const hr_policy *policy, hr_sliding_window_now *moment, uint64_t cost);

int64_t hr_sliding_window_reset_ms(const hr_sliding_window_now *moment);

#endif
