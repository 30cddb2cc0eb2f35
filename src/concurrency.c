/* SPDX-License-Identifier: BSD-3-Clause */
/* policy: concurrency; see concurrency.h. */
#include "concurrency.h"

hr_concurrency_now hr_concurrency_load(const hr_policy *policy, const hr_concurrency *stored, int64_t now_us)
{
    hr_concurrency_now moment = {.at_us = now_us, .now_us = now_us};

    if (stored == NULL)
        return moment;
    if (stored->at_us > now_us) {
        if (stored->at_us - now_us <= (int64_t)policy->lease_us)
            moment.at_us = stored->at_us;
        else
            moment.shift_us = now_us - stored->at_us;
    }
    moment.leases = stored->leases;
    moment.held = stored->held;
    while (moment.leases.count > 0 && moment.leases.first->until_us + moment.shift_us <= now_us) {
        moment.held -= moment.leases.first->units;
        moment.leases.first++;
        moment.leases.count--;
    }
    moment.count = moment.leases.count;
    if (moment.count > 0)
        moment.latest_us = moment.leases.first[moment.count - 1].until_us + moment.shift_us;
    return moment;
}

int64_t hr_concurrency_reset_ms(const hr_concurrency_now *moment)
{
    return moment->count == 0 ? 0 : hr_wait_ms(moment->latest_us - moment->now_us);
}

static uint64_t left_of(const hr_policy *policy, const hr_concurrency_now *moment)
{
    if (moment->count >= HIRATE_HOLDS_MAX || moment->held >= policy->capacity)
        return 0;
    return policy->capacity - moment->held;
}

int64_t hr_concurrency_until_us(const hr_policy *policy, const hr_concurrency_now *moment)
{
    return moment->at_us + (int64_t)policy->lease_us;
}

static void take(const hr_policy *policy, hr_concurrency_now *moment, uint64_t cost)
{
    int64_t until_us = hr_concurrency_until_us(policy, moment);

    if (cost == 0)
        return;
    if (moment->count == 0 || until_us > moment->latest_us)
        moment->latest_us = until_us;
    moment->held += cost;
    moment->count++;
}

/* How long until a cost within the limit, that does not fit now, does. */
static int64_t retry_ms(const hr_policy *policy, const hr_concurrency_now *moment, uint64_t cost)
{
    const uint64_t others = policy->capacity - cost; /* so much may be held beside it */
    const uint64_t units = moment->held > others ? moment->held - others : 0;
    const uint64_t count = moment->count >= HIRATE_HOLDS_MAX ? moment->count + 1 - HIRATE_HOLDS_MAX : 0;

    if (moment->leases.count == 0)
        return hr_wait_ms(moment->latest_us - moment->now_us);
    return hr_wait_ms(hr_holds_freed_us(&moment->leases, units, count) + moment->shift_us - moment->now_us);
}

hr_decision hr_concurrency_take(const hr_policy *policy, hr_concurrency_now *moment, uint64_t cost)
{
    hr_decision decision = {.verdict = HIRATE_DENIED};

    if (cost > policy->capacity) {
        decision.retry_after_ms = HIRATE_NEVER;
    } else if (cost <= left_of(policy, moment)) {
        take(policy, moment, cost);
        decision.verdict = HIRATE_ALLOWED;
    } else {
        decision.retry_after_ms = retry_ms(policy, moment, cost);
    }
    decision.remaining = left_of(policy, moment);
    decision.reset_ms = hr_concurrency_reset_ms(moment);
    return decision;
}
