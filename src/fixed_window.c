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

hr_fixed_window_now hr_fixed_window_load(const hr_policy *policy, const hr_fixed_window *stored, int64_t now_us)
{
    hr_fixed_window_now moment = {.now_us = now_us};
    bool ended = stored == NULL || now_us >= stored->end_us;

    if (!ended)
        moment.window = *stored;
    if (ended || stored->start_us - now_us > stored->end_us - stored->start_us) {
        hr_span span = span_of(policy, now_us);

        moment.window.start_us = span.start_us;
        moment.window.end_us = span.end_us;
    }
    return moment;
}

int64_t hr_fixed_window_reset_ms(const hr_fixed_window_now *moment)
{
    return moment->window.used == 0 ? 0 : hr_wait_ms(moment->window.end_us - moment->now_us);
}

hr_decision hr_fixed_window_take(const hr_policy *policy, hr_fixed_window_now *moment, uint64_t cost)
{
    hr_decision decision = {.verdict = HIRATE_DENIED};
    uint64_t *used = &moment->window.used;
    /* More than the limit may be used: it was lowered. */
    uint64_t left = policy->capacity > *used ? policy->capacity - *used : 0;

    if (cost > policy->capacity) {
        decision.retry_after_ms = HIRATE_NEVER;
    } else if (cost <= left) {
        *used += cost;
        left -= cost;
        decision.verdict = HIRATE_ALLOWED;
    } else {
        decision.retry_after_ms = hr_wait_ms(moment->window.end_us - moment->now_us);
    }
    decision.remaining = left;
    decision.reset_ms = hr_fixed_window_reset_ms(moment);
    return decision;
}
