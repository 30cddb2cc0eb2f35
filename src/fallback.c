/* SPDX-License-Identifier: BSD-3-Clause */
/* request: what becomes of an acquire that Redis cannot answer; see fallback.h. */
#include "fallback.h"

#include "clock.h"

#include <string.h>

void hr_fallback_free(hr_fallback *fallback)
{
    hirate_local_free(fallback->local);
    fallback->local = NULL;
}

bool hr_fallback_covers(int error)
{
    switch (error) {
    case HIRATE_EDEADLINE:
    case HIRATE_ECONNECT:
    case HIRATE_ELOST:
    case HIRATE_EAUTH:
    case HIRATE_ESTATE:
    case HIRATE_EREDIS:
    case HIRATE_EPROTOCOL:
    case HIRATE_ENOMEM:
        return true;
    default:
        return false;
    }
}

static void deny(hr_answer *answer, int64_t retry_after_ms)
{
    answer->verdict = HIRATE_DENIED;
    answer->retry_after_ms = retry_after_ms;
}

/* ------------------------------------------------------------------------------------------------ by the share -- */

static int decide(hr_fallback *fallback, const hirate_request *request, hirate_result *result, hirate_error *error)
{
    hirate_result_init(result);
    int rc = fallback->local ? 0 : hirate_local_new(&fallback->local, fallback->local_most);
    return rc ? rc : hirate_local_decide(fallback->local, request, hr_clock_read(CLOCK_REALTIME), result, error);
}

static void take_over(const hirate_result *result, hr_answer *answer)
{
    answer->verdict = result->verdict;
    answer->remaining = result->remaining;
    answer->retry_after_ms = result->retry_after_ms;
    answer->reset_ms = result->reset_ms;
    answer->delay_ms = result->delay_ms;
    answer->time_us = result->time_us;
    answer->used = result->used;
}

static void take_over_part(hr_part *part, const hirate_limit_result *said, uint64_t cost, int64_t probe_ms)
{
    size_t len = strlen(said->permit);
    part->decision =
        (hr_decision){said->verdict, said->remaining, said->retry_after_ms, said->reset_ms, said->delay_ms};
    if (said->retry_after_ms == HIRATE_NEVER && cost <= part->ticket.limit->policy.capacity)
        part->decision.retry_after_ms = probe_ms; /* above the share, not above the limit */
    part->took = len > 0;
    if (len > 0)
        memcpy(part->permit, said->permit, len + 1); /* shorter than one with a prefix */
}

/* The tickets that decide locally, as one request to the local engine. Returns how many. */
static uint32_t local_pairs(const hr_fallback_request *request, hirate_pair pairs[HIRATE_PAIRS_MAX],
                            uint32_t parts[HIRATE_PAIRS_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < hr_request_tickets(request->request); i++) {
        const hr_limit *limit = hr_request_ticket(request->request, i)->limit;
        if (limit->value.on_failure != HIRATE_ON_FAILURE_LOCAL)
            continue;
        parts[count] = i;
        pairs[count++] = (hirate_pair){&limit->share, request->names[i].bytes, request->names[i].len};
    }
    return count;
}

/* How long a denial waits: what is above a share, but not above its limit, until Redis is asked again. */
static int64_t retry_ms(const hirate_result *result, int64_t probe_ms)
{
    int64_t longest = 0;

    for (uint32_t i = 0; i < result->limit_count; i++) {
        const hirate_limit_result *said = hirate_result_limit(result, i);
        int64_t ms = said->retry_after_ms == HIRATE_NEVER ? probe_ms : said->retry_after_ms;
        if (!said->shadow && ms > longest)
            longest = ms;
    }
    return longest;
}

static void take_over_parts(hr_extra *extra, const hirate_result *result, const uint32_t *parts, uint64_t cost,
                            int64_t probe_ms)
{
    bool bound = false;

    for (uint32_t i = 0; i < result->limit_count; i++) {
        const hirate_limit_result *said = hirate_result_limit(result, i);
        take_over_part(&extra->parts[parts[i]], said, cost, probe_ms);
        if (!bound && strcmp(said->policy, result->policy) == 0) {
            extra->bound = parts[i];
            bound = true;
        }
    }
    extra->decided = result->limit_count == extra->count;
    extra->shadows_denied = result->shadow_denied;
}

/* By this process' share of the limits. Without room or memory for another name: denied until Redis is asked again. */
static void decide_locally(hr_fallback *fallback, const hr_fallback_request *request, hr_answer *answer)
{
    hr_request *asked = request->request;
    hirate_pair pairs[HIRATE_PAIRS_MAX];
    uint32_t parts[HIRATE_PAIRS_MAX];
    hirate_request local_request;
    hirate_result result;

    uint32_t count = local_pairs(request, pairs, parts);
    answer->source = HIRATE_SOURCE_LOCAL;
    hirate_request_init(&local_request);
    local_request.limit = pairs[0].limit;
    local_request.name = pairs[0].name;
    local_request.name_len = pairs[0].name_len;
    local_request.more = &pairs[1];
    local_request.more_count = count - 1;
    local_request.cost = asked->cost;
    for (uint32_t i = 0; i < count; i++) {
        if (pairs[i].limit->kind == HIRATE_KIND_QUOTA && asked->extra)
            local_request.hold_us = asked->extra->hold_us;
    }
    if (decide(fallback, &local_request, &result, NULL)) {
        deny(answer, request->probe_ms);
        return;
    }
    take_over(&result, answer);
    answer->retry_after_ms = retry_ms(&result, request->probe_ms);
    if (asked->extra)
        take_over_parts(asked->extra, &result, parts, asked->cost, request->probe_ms);
}

/* -------------------------------------------------------------------------------------------------- on failure -- */

/* Which limits have a say: those that are not shadows; all, where there are none. */
static bool all_are_shadows(hr_request *request)
{
    for (uint32_t i = 0; i < hr_request_tickets(request); i++) {
        if (!hr_limit_is_shadow(hr_request_ticket(request, i)->limit))
            return false;
    }
    return true;
}

/* *never: for one of them the cost is too much at any time; the first such is the one that bound. */
static enum hirate_on_failure strictest(hr_request *request, bool *never)
{
    static const int strictness[] = {[HIRATE_ON_FAILURE_OPEN] = 0,
                                     [HIRATE_ON_FAILURE_LOCAL] = 1,
                                     [HIRATE_ON_FAILURE_CLOSED] = 2,
                                     [HIRATE_ON_FAILURE_ERROR] = 3};
    enum hirate_on_failure how = HIRATE_ON_FAILURE_OPEN;
    const bool only_shadows = all_are_shadows(request);

    *never = false;
    for (uint32_t i = 0; i < hr_request_tickets(request); i++) {
        const hr_limit *limit = hr_request_ticket(request, i)->limit;
        if (hr_limit_is_shadow(limit) && !only_shadows)
            continue;
        if (strictness[limit->value.on_failure] > strictness[how])
            how = (enum hirate_on_failure)limit->value.on_failure;
        if (only_shadows || *never || request->cost <= limit->policy.capacity)
            continue;
        *never = true;
        if (request->extra)
            request->extra->bound = i;
    }
    return how;
}

void hr_fallback_decide(hr_fallback *fallback, const hr_fallback_request *request, hr_answer *answer)
{
    bool never;
    enum hirate_on_failure how = strictest(request->request, &never);
    if (how == HIRATE_ON_FAILURE_ERROR)
        return;
    answer->cause = answer->error;
    answer->error = 0;
    answer->source = how == HIRATE_ON_FAILURE_OPEN ? HIRATE_SOURCE_FAIL_OPEN : HIRATE_SOURCE_FAIL_CLOSED;
    if (never) {
        answer->source = HIRATE_SOURCE_LOCAL; /* that needs no asking */
        deny(answer, HIRATE_NEVER);
    } else if (how == HIRATE_ON_FAILURE_OPEN || all_are_shadows(request->request)) {
        answer->source = HIRATE_SOURCE_FAIL_OPEN;
        answer->verdict = HIRATE_ALLOWED;
    } else if (how == HIRATE_ON_FAILURE_CLOSED) {
        deny(answer, request->probe_ms);
    } else {
        decide_locally(fallback, request, answer);
    }
}

int hr_fallback_use_permit(hr_fallback *fallback, enum hirate_op op, const char *permit, uint64_t amount,
                           hr_answer *answer, hirate_error *error)
{
    hirate_request request;
    hirate_result result;

    hirate_request_init(&request);
    request.op = op;
    request.permit = permit;
    request.cost = amount;
    int rc = decide(fallback, &request, &result, error);
    if (rc == HIRATE_EINVAL)
        return rc;
    *answer = (hr_answer){.error = rc, .source = rc ? HIRATE_SOURCE_NONE : HIRATE_SOURCE_LOCAL, .text = ""};
    if (rc) {
        answer->text = rc == HIRATE_ENOENT ? HR_REASON_GONE : hirate_strerror(rc);
    } else {
        take_over(&result, answer);
        answer->charge = result.charge;
        answer->late = result.late;
    }
    return 0;
}
