/* SPDX-License-Identifier: BSD-3-Clause */
/* policy: the fixed window and the quota; see fixed_window.h. */
#include "fixed_window.h"

#include "calendar.h"

static hr_span span_of(const hr_policy *policy, int64_t now_us)
{
    if (policy->kind == HIRATE_KIND_QUOTA)
        return hr_span_calendar((enum hirate_per)policy->per, policy->offset_us, now_us);
    return hr_span_aligned(policy->window_us, now_us);
}

static void drop_ended(hr_fixed_window *window, int64_t now_us)
{
    while (window->reservations.count > 0 && window->reservations.first->until_us <= now_us) {
        window->held -= window->reservations.first->units;
        window->reservations.first++;
        window->reservations.count--;
    }
}

hr_fixed_window_now hr_fixed_window_load(const hr_policy *policy, const hr_fixed_window *stored, int64_t now_us)
{
    hr_fixed_window_now moment = {.now_us = now_us};
    hr_fixed_window *window = &moment.window;

    if (stored != NULL && now_us < stored->end_us) {
        *window = *stored;
        drop_ended(window, now_us);
    }
    if ((window->used == 0 && window->held == 0) || window->start_us - now_us > window->end_us - window->start_us) {
        hr_span span = span_of(policy, now_us);

        window->start_us = span.start_us;
        window->end_us = span.end_us;
    }
    moment.count = window->reservations.count;
    if (moment.count > 0)
        moment.latest_us = window->reservations.first[moment.count - 1].until_us;
    return moment;
}

/* Until `us`, which is at the latest the window's end. */
static int64_t wait_ms(const hr_fixed_window_now *moment, int64_t us)
{
    return hr_wait_ms((us < moment->window.end_us ? us : moment->window.end_us) - moment->now_us);
}

int64_t hr_fixed_window_reset_ms(const hr_fixed_window_now *moment)
{
    if (moment->window.used > 0)
        return wait_ms(moment, moment->window.end_us);
    return moment->count > 0 ? wait_ms(moment, moment->latest_us) : 0;
}

static uint64_t left_of(const hr_policy *policy, const hr_fixed_window *window)
{
    /* More than the limit may be used: it was lowered, or more was committed than reserved. */
    uint64_t left = policy->capacity > window->used ? policy->capacity - window->used : 0;

    return left > window->held ? left - window->held : 0;
}

/* How long until a cost within the limit, that does not fit now, does; `count` reservations must end too. */
static int64_t retry_ms(const hr_policy *policy, const hr_fixed_window_now *moment, uint64_t cost, uint64_t count)
{
    const hr_fixed_window *window = &moment->window;
    const uint64_t others = policy->capacity - cost; /* so much may be used or held beside it */

    if (window->used > others || moment->count == 0)
        return wait_ms(moment, window->end_us);
    if (window->reservations.count == 0)
        return wait_ms(moment, moment->latest_us);
    const uint64_t held_most = others - window->used;
    const uint64_t units = window->held > held_most ? window->held - held_most : 0;
    return wait_ms(moment, hr_holds_freed_us(&window->reservations, units, count));
}

hr_decision hr_fixed_window_take(const hr_policy *policy, hr_fixed_window_now *moment, uint64_t cost)
{
    hr_decision decision = {.verdict = HIRATE_DENIED};

    if (cost > policy->capacity) {
        decision.retry_after_ms = HIRATE_NEVER;
    } else if (cost <= left_of(policy, &moment->window)) {
        moment->window.used += cost;
        decision.verdict = HIRATE_ALLOWED;
    } else {
        decision.retry_after_ms = retry_ms(policy, moment, cost, 0);
    }
    decision.remaining = left_of(policy, &moment->window);
    decision.reset_ms = hr_fixed_window_reset_ms(moment);
    return decision;
}

int64_t hr_fixed_window_until_us(const hr_fixed_window_now *moment, uint64_t hold_us)
{
    int64_t until_us = moment->now_us + (int64_t)hold_us;

    return until_us < moment->window.end_us ? until_us : moment->window.end_us;
}

static void reserve(hr_fixed_window_now *moment, uint64_t cost, uint64_t hold_us)
{
    int64_t until_us = hr_fixed_window_until_us(moment, hold_us);

    if (moment->count == 0 || until_us > moment->latest_us)
        moment->latest_us = until_us;
    moment->window.held += cost;
    moment->count++;
}

hr_decision hr_fixed_window_reserve(const hr_policy *policy, hr_fixed_window_now *moment, uint64_t cost,
                                    uint64_t hold_us)
{
    hr_decision decision = {.verdict = HIRATE_DENIED};
    const uint64_t over = moment->count >= HIRATE_HOLDS_MAX ? moment->count + 1 - HIRATE_HOLDS_MAX : 0;

    if (cost > policy->capacity) {
        decision.retry_after_ms = HIRATE_NEVER;
    } else if (cost == 0 || (cost <= left_of(policy, &moment->window) && over == 0)) {
        if (cost > 0)
            reserve(moment, cost, hold_us);
        decision.verdict = HIRATE_ALLOWED;
    } else {
        decision.retry_after_ms = retry_ms(policy, moment, cost, over);
    }
    decision.remaining = left_of(policy, &moment->window);
    decision.reset_ms = hr_fixed_window_reset_ms(moment);
    return decision;
}
