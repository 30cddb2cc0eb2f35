/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: the fixed window and the quota as pure functions of (state, now, cost). They differ in which window holds a
 * moment: a multiple of the length since 1970, or the calendar's (calendar.h).
 *
 * State     start, end, used. start < end; the window may be a past or (the clock stepped back) a coming one.
 *           -2^42 <= start (a quota's, at an offset, just after 1970; otherwise >= 0), end <= 2^53.
 *           used <= 2^53-1, at least 1 unless something is reserved.
 *           A quota has reservations too (holds.h): held units count as used until their time or the window is over.
 * Load      absent or now >= end:         the window that holds now, nothing used or held.
 *           start - now > end - start:    the clock stepped back by more than a window: the window that holds now; used
 *                                         and what is held stay.
 *           else:                         what is stored, also after a change of the length: the window ends as it
 *                                         would have.
 *           Reservations whose time is over (until <= now) are dropped. If that leaves nothing used and nothing held it
 *           is as if absent: the window that holds now.
 * Left      limit - used - held. (0 where that would be negative, as the limit was lowered or a commit went beyond it:
 *           a cost of 0 is always allowed.)
 * Take      cost > limit:                 denied, never.
 *           cost <= left:                 used += cost.
 *           else:                         denied until so many reservations have ended that it fits, at the latest
 *                                         until end: until held - (limit - used - cost) units have come back, if used +
 *                                         cost <= limit.
 * Reserve   the same, but held += cost, until now + its time, at the latest until end (cost = 0: no reservation). With
 *           HIRATE_HOLDS_MAX of them there is none more until one has ended; that does not count against Left.
 * Keep      nothing changes: what has nothing used or held holds now already.
 * Store     start, end, used and the reservations; denied too. Nothing if used and held are 0: the key is deleted.
 * Expiry    reset_ms = ceil((end - now) / 1000) if used > 0; else when the last reservation ends, at the latest at end.
 */
#ifndef HR_FIXED_WINDOW_H
#define HR_FIXED_WINDOW_H

#include "holds.h"
#include "policy.h"

/* As stored. */
typedef struct hr_fixed_window {
    int64_t start_us, end_us;
    uint64_t used;
    hr_holds reservations;
    uint64_t held; /* units of all of them, at most 2^53-1 */
} hr_fixed_window;

/*
 * At the moment of a decision: what would be stored, and the moment. Of `window`, `reservations` are those loaded, less
 * what has ended, without what was reserved since.
 *
 * How long a denial waits is told from `reservations` alone, or without any from latest_us. So after something was
 * reserved at this moment it may be wrong. Whoever repeats decisions made elsewhere needs but one, which ends when the
 * wait is over; what units it has does not matter.
 */
typedef struct hr_fixed_window_now {
    hr_fixed_window window;
    uint64_t count;    /* of reservations, those made at this moment too */
    int64_t latest_us; /* when the last of them ends; not used without one */
    int64_t now_us;
} hr_fixed_window_now;

/* `stored` NULL: the key does not exist. Takes as many steps as reservations have ended. */
hr_fixed_window_now hr_fixed_window_load(const hr_policy *policy, const hr_fixed_window *stored, int64_t now_us);

/* Decide one request of `cost`; what is allowed is added to used. */
hr_decision hr_fixed_window_take(const hr_policy *policy, hr_fixed_window_now *moment, uint64_t cost);

/* When a reservation for hold_us, 1 … 2^52, that is made at this moment ends. */
int64_t hr_fixed_window_until_us(const hr_fixed_window_now *moment, uint64_t hold_us);

/* Decide one reservation for hold_us: what is allowed is added to held, count and latest_us. */
hr_decision hr_fixed_window_reserve(const hr_policy *policy, hr_fixed_window_now *moment, uint64_t cost,
                                    uint64_t hold_us);

int64_t hr_fixed_window_reset_ms(const hr_fixed_window_now *moment);

#endif
