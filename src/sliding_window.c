/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: the sliding window; see sliding_window.h.
 *
 * Every product here is of at most limit and W, so at most 2^52. Whether prev·E <= room is decided as E <= floor(room /
 * prev), which is the same for whole numbers, and exact in doubles too: room <= 2^52.
 */
#include "sliding_window.h"

#include "calendar.h"

static uint64_t add_clipped(uint64_t a, uint64_t b)
{
    return a + b > HIRATE_COST_MAX ? HIRATE_COST_MAX : a + b;
}

hr_sliding_window_now hr_sliding_window_load(const hr_policy *policy, const hr_sliding_window *stored, int64_t now_us)
{
    const int64_t window_us = (int64_t)policy->window_us;
    const int64_t start_us = hr_span_aligned(policy->window_us, now_us).start_us;
    hr_sliding_window_now moment = {{policy->window_us, start_us, 0, 0}, now_us};

    if (stored == NULL)
        return moment;
    if (stored->window_us != policy->window_us || stored->start_us - now_us > window_us) {
        moment.window.cur = add_clipped(stored->cur, stored->prev);
    } else if (stored->start_us >= start_us) {
        moment.window = *stored;
    } else if (stored->start_us == start_us - window_us) {
        moment.window.prev = stored->cur;
    }
    return moment;
}

/* Ticks from the moment, or the window's start if that is later, to the window's end: 1 … W. */
static uint64_t ticks_to_end(const hr_policy *policy, const hr_sliding_window_now *moment)
{
    if (moment->now_us <= moment->window.start_us)
        return policy->window;
    return policy->window - (uint64_t)(moment->now_us - moment->window.start_us) / policy->tick_us;
}

static uint64_t left_of(const hr_policy *policy, const hr_sliding_window_now *moment)
{
    const hr_sliding_window *w = &moment->window;
    uint64_t to_end = ticks_to_end(policy, moment);

    if (w->cur >= policy->capacity)
        return 0;
    uint64_t room = (policy->capacity - w->cur) * policy->window;
    if (w->prev > 0 && to_end > room / w->prev)
        return 0;
    return (room - w->prev * to_end) / policy->window;
}

/* For cost <= capacity, more than what is left. */
static int64_t retry_ms(const hr_policy *policy, const hr_sliding_window_now *moment, uint64_t cost)
{
    const hr_sliding_window *w = &moment->window;
    const int64_t window_us = (int64_t)policy->window_us;
    int64_t end_us = (w->start_us - moment->now_us) + window_us; /* from now */
    uint64_t before;                                             /* ticks before the end of this or the next window */

    if (w->cur <= policy->capacity - cost) { /* prev > 0 then, or it would fit */
        before = (policy->capacity - w->cur - cost) * policy->window / w->prev;
    } else {
        before = (policy->capacity - cost) * policy->window / w->cur;
        end_us += window_us;
    }
    return hr_wait_ms(end_us - (int64_t)(before * policy->tick_us));
}

int64_t hr_sliding_window_reset_ms(const hr_sliding_window_now *moment)
{
    const hr_sliding_window *w = &moment->window;
    int64_t windows = w->cur > 0 ? 2 : w->prev > 0 ? 1 : 0;

    return windows == 0 ? 0 : hr_wait_ms((w->start_us - moment->now_us) + windows * (int64_t)w->window_us);
}

hr_decision hr_sliding_window_take(const hr_policy *policy, hr_sliding_window_now *moment, uint64_t cost)
{
    hr_decision decision = {.verdict = HIRATE_DENIED};
    uint64_t left = left_of(policy, moment);

    if (cost > policy->capacity) {
        decision.retry_after_ms = HIRATE_NEVER;
    } else if (cost <= left) {
        moment->window.cur += cost;
        left -= cost;
        decision.verdict = HIRATE_ALLOWED;
    } else {
        decision.retry_after_ms = retry_ms(policy, moment, cost);
    }
    decision.remaining = left;
    decision.reset_ms = hr_sliding_window_reset_ms(moment);
    return decision;
}
