/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: the sliding log; see sliding_log.h.
 *
 * Loading costs as many steps as entries have gone or move, both of which happen once to an entry that is stored; a
 * denial as many as must go before it fits.
 */
#include "sliding_log.h"

static int64_t wait_ms(const hr_policy *policy, const hr_sliding_log_now *moment, int64_t time_us)
{
    return hr_wait_ms((time_us - moment->now_us) + (int64_t)policy->window_us);
}

hr_sliding_log_now hr_sliding_log_load(const hr_policy *policy, const hr_sliding_log *stored, int64_t now_us)
{
    const int64_t window_us = (int64_t)policy->window_us;
    hr_sliding_log_now moment = {.at_us = now_us, .now_us = now_us};

    if (stored == NULL || stored->count == 0)
        return moment;
    const hr_sliding_log_entry *first = stored->entries;
    const hr_sliding_log_entry *end = first + stored->count;
    if (now_us < end[-1].time_us && end[-1].time_us - now_us <= window_us)
        moment.at_us = end[-1].time_us;
    moment.older_units = stored->used;
    while (end > first && end[-1].time_us >= moment.at_us) {
        end--;
        moment.at_units += end->units;
        moment.older_units -= end->units;
    }
    while (first < end && moment.at_us - first->time_us >= window_us) {
        moment.older_units -= first->units;
        first++;
    }
    if (first < end) {
        moment.older = first;
        moment.older_count = (size_t)(end - first);
        moment.newest_us = end[-1].time_us;
    }
    return moment;
}

int64_t hr_sliding_log_reset_ms(const hr_policy *policy, const hr_sliding_log_now *moment)
{
    if (moment->at_units > 0)
        return wait_ms(policy, moment, moment->at_us);
    return moment->older_units > 0 ? wait_ms(policy, moment, moment->newest_us) : 0;
}

/* When the `need` oldest units have all gone. */
static int64_t retry_ms(const hr_policy *policy, const hr_sliding_log_now *moment, uint64_t need)
{
    uint64_t gone = 0;

    for (size_t i = 0; i < moment->older_count; i++) {
        gone += moment->older[i].units;
        if (gone >= need)
            return wait_ms(policy, moment, moment->older[i].time_us);
    }
    return wait_ms(policy, moment, moment->at_us);
}

hr_decision hr_sliding_log_take(const hr_policy *policy, hr_sliding_log_now *moment, uint64_t cost)
{
    hr_decision decision = {.verdict = HIRATE_DENIED};
    uint64_t used = moment->older_units + moment->at_units;
    uint64_t left = policy->capacity > used ? policy->capacity - used : 0;

    if (cost > policy->capacity) {
        decision.retry_after_ms = HIRATE_NEVER;
    } else if (cost <= left) {
        moment->at_units += cost;
        left -= cost;
        decision.verdict = HIRATE_ALLOWED;
    } else {
        decision.retry_after_ms = retry_ms(policy, moment, used + cost - policy->capacity);
    }
    decision.remaining = left;
    decision.reset_ms = hr_sliding_log_reset_ms(policy, moment);
    return decision;
}
