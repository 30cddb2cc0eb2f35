/* SPDX-License-Identifier: BSD-3-Clause */
/* script: how a reply of lua/acquire.lua is read; see script.h. */
#include "script.h"

#include <string.h>

#define TIME_MAX (UINT64_C(1) << 53) /* microseconds; a window may end there */

/* Where a number that cannot be negative is expected. */
#define FOREIGN     (-1.0)
#define REFUSED     (-2.0)
#define LAG_FOLLOWS (-3.0)

static double read_double(const char *from)
{
    uint64_t bits = 0;
    double value;

    for (unsigned i = 8; i-- > 0;)
        bits = bits << 8 | (unsigned char)from[i];
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The next number, an integer 0 … most; not-a-number fails every comparison. */
static bool next_integer(hr_script_reply *reply, uint64_t most, uint64_t *out)
{
    if (reply->end - reply->at < (ptrdiff_t)sizeof(double))
        return false;
    double value = read_double(reply->at);
    if (!(value >= 0 && value <= (double)most && (double)(uint64_t)value >= value))
        return false;
    reply->at += sizeof(double);
    *out = (uint64_t)value;
    return true;
}

bool hr_script_reply_begin(hr_script_reply *out, const char *reply, size_t len, uint32_t number)
{
    uint64_t now, echo;

    if (!len) /* an empty string has no bytes to point at */
        return false;
    *out = (hr_script_reply){.at = reply, .end = reply + len};
    if (!next_integer(out, HIRATE_COST_MAX, &now) || !next_integer(out, UINT32_MAX, &echo))
        return false;
    out->now_us = (int64_t)now;
    return echo == number;
}

/* ----------------------------------------------------------------------------------------------- the kinds -- */

/* Is the next number this one? */
static bool next_is(const hr_script_reply *reply, double wanted)
{
    if (reply->end - reply->at < (ptrdiff_t)sizeof(double))
        return false;
    double value = read_double(reply->at);
    return value >= wanted && value <= wanted;
}

static bool next_bucket(hr_script_reply *reply, const hr_policy *policy, hr_token_bucket_now *bucket)
{
    bucket->at = reply->now_us;
    bucket->lag = 0;
    if (!next_is(reply, LAG_FOLLOWS))
        return next_integer(reply, policy->full, &bucket->units);
    reply->at += sizeof(double);
    return next_integer(reply, policy->full, &bucket->units) && next_integer(reply, policy->full, &bucket->lag) &&
           bucket->lag > 0;
}

static bool next_window(hr_script_reply *reply, hr_fixed_window_now *moment)
{
    uint64_t end;
    *moment = (hr_fixed_window_now){.now_us = reply->now_us};
    if (!next_integer(reply, HIRATE_COST_MAX, &moment->window.used) || !next_integer(reply, TIME_MAX, &end))
        return false;
    moment->window.start_us = 0; /* which window it is was decided there */
    moment->window.end_us = (int64_t)end;
    return end > (uint64_t)reply->now_us;
}

static bool next_holds(hr_script_reply *reply, uint64_t *held, uint64_t *count, int64_t *latest_us)
{
    uint64_t latest;
    if (!next_integer(reply, HIRATE_COST_MAX, held) || !next_integer(reply, HIRATE_HOLDS_MAX, count) ||
        !next_integer(reply, TIME_MAX, &latest))
        return false;
    *latest_us = (int64_t)latest;
    return *held >= *count && (*count == 0) == (*held == 0);
}

static bool next_quota(hr_script_reply *reply, hr_fixed_window_now *moment)
{
    return next_window(reply, moment) && next_holds(reply, &moment->window.held, &moment->count, &moment->latest_us);
}

static bool next_concurrency(hr_script_reply *reply, hr_concurrency_now *moment)
{
    uint64_t at;
    *moment = (hr_concurrency_now){.now_us = reply->now_us};
    if (!next_holds(reply, &moment->held, &moment->count, &moment->latest_us) || !next_integer(reply, TIME_MAX, &at))
        return false;
    moment->at_us = (int64_t)at;
    return at >= (uint64_t)reply->now_us;
}

static bool next_sliding(hr_script_reply *reply, const hr_policy *policy, hr_sliding_window_now *moment)
{
    uint64_t start;
    moment->now_us = reply->now_us;
    moment->window.window_us = policy->window_us;
    if (!next_integer(reply, TIME_MAX, &start) || !next_integer(reply, HIRATE_COST_MAX, &moment->window.prev) ||
        !next_integer(reply, HIRATE_COST_MAX, &moment->window.cur))
        return false;
    moment->window.start_us = (int64_t)start;
    /* now is in this window, or before it by at most its length */
    return reply->now_us - moment->window.start_us < (int64_t)policy->window_us &&
           moment->window.start_us - reply->now_us <= (int64_t)policy->window_us;
}

static bool next_waits(hr_script_reply *reply, uint32_t runs, hr_script_found *found)
{
    uint64_t wait;

    found->waits = reply->at;
    for (uint32_t i = 0; i < runs; i++) {
        if (!next_integer(reply, TIME_MAX, &wait))
            return false;
    }
    return true;
}

static bool next_log(hr_script_reply *reply, hr_sliding_log_now *moment)
{
    uint64_t at, newest;

    *moment = (hr_sliding_log_now){.now_us = reply->now_us};
    if (!next_integer(reply, TIME_MAX, &at) || !next_integer(reply, HIRATE_LOG_MAX, &moment->at_units) ||
        !next_integer(reply, HIRATE_LOG_MAX, &moment->older_units) || !next_integer(reply, TIME_MAX, &newest))
        return false;
    moment->at_us = (int64_t)at;
    moment->newest_us = (int64_t)newest;
    return true;
}

/* ------------------------------------------------------------------------------------------------- the keys -- */

/* -1 and -2 stand alone, for a key that nothing was done to. Else HR_FOUND_INVALID, with nothing read. */
static enum hr_script_what next_exception(hr_script_reply *reply)
{
    if (reply->end - reply->at < (ptrdiff_t)sizeof(double) || read_double(reply->at) >= 0)
        return HR_FOUND_INVALID; /* nearly always, and soon seen */
    enum hr_script_what found = next_is(reply, FOREIGN)   ? HR_FOUND_FOREIGN
                                : next_is(reply, REFUSED) ? HR_FOUND_REFUSED
                                                          : HR_FOUND_INVALID;
    if (found != HR_FOUND_INVALID)
        reply->at += sizeof(double);
    return found;
}

static bool next_moment(hr_script_reply *reply, const hr_policy *policy, uint32_t runs, hr_script_found *found)
{
    switch (policy->kind) {
    case HIRATE_KIND_FIXED_WINDOW:
        return next_window(reply, &found->moment.window);
    case HIRATE_KIND_QUOTA:
        return next_quota(reply, &found->moment.window) && next_waits(reply, runs, found);
    case HIRATE_KIND_SLIDING_LOG:
        return next_log(reply, &found->moment.log) && next_waits(reply, runs, found);
    case HIRATE_KIND_CONCURRENCY:
        return next_concurrency(reply, &found->moment.concurrency);
    case HIRATE_KIND_SLIDING_WINDOW:
        return next_sliding(reply, policy, &found->moment.sliding);
    default:
        return next_bucket(reply, policy, &found->moment.bucket);
    }
}

hr_script_found hr_script_next(hr_script_reply *reply, const hr_policy *policy, uint32_t runs)
{
    hr_script_found found = {.what = HR_FOUND_INVALID};
    enum hr_script_what exception = next_exception(reply);

    if (exception)
        found.what = exception;
    else if (next_moment(reply, policy, runs, &found))
        found.what = HR_FOUND_MOMENT;
    return found;
}

hr_script_found hr_script_next_reset(hr_script_reply *reply)
{
    hr_script_found found = {.what = HR_FOUND_INVALID};
    enum hr_script_what exception = next_exception(reply);
    uint64_t used = 0;

    if (exception)
        found.what = exception;
    else if (next_integer(reply, 1, &used))
        found.what = HR_FOUND_RESET;
    found.used = (int)used;
    return found;
}

bool hr_script_reply_ended(const hr_script_reply *reply)
{
    return reply->at == reply->end;
}

int64_t hr_script_wait(const char *waits, uint32_t run)
{
    return (int64_t)read_double(waits + run * sizeof(double));
}

bool hr_script_tells_waits(const hr_policy *policy)
{
    return policy->kind == HIRATE_KIND_QUOTA || policy->kind == HIRATE_KIND_SLIDING_LOG ||
           policy->kind == HIRATE_KIND_CONCURRENCY;
}

void hr_script_set_wait(const hr_policy *policy, hr_moment *moment, int64_t wait_us, hr_script_stand_in *stand_in)
{
    if (policy->kind == HIRATE_KIND_SLIDING_LOG) {
        stand_in->entry = (hr_sliding_log_entry){wait_us, UINT32_MAX};
        moment->log.older = &stand_in->entry;
        moment->log.older_count = 1;
        return;
    }
    hr_holds *holds =
        policy->kind == HIRATE_KIND_QUOTA ? &moment->window.window.reservations : &moment->concurrency.leases;
    stand_in->hold = (hr_hold){.until_us = wait_us, .units = UINT64_MAX};
    *holds = (hr_holds){&stand_in->hold, 1};
}

/* ------------------------------------------------------------------------------------------------- of steps -- */

bool hr_script_next_wait(hr_script_reply *reply, int64_t *wait_us)
{
    uint64_t wait;
    if (!next_integer(reply, TIME_MAX, &wait))
        return false;
    *wait_us = (int64_t)wait;
    return true;
}

bool hr_script_next_outcome(hr_script_reply *reply, enum hr_script_outcome *outcome)
{
    uint64_t code;
    if (!next_integer(reply, HR_OUTCOME_LATE, &code))
        return false;
    *outcome = (enum hr_script_outcome)code;
    return true;
}

bool hr_script_next_written(hr_script_reply *reply, enum hr_script_what *what)
{
    uint64_t zero;
    *what = next_exception(reply);
    if (*what == HR_FOUND_INVALID && next_integer(reply, 0, &zero))
        *what = HR_FOUND_MOMENT;
    return *what != HR_FOUND_INVALID;
}
