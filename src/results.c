/* SPDX-License-Identifier: BSD-3-Clause */
/* client: an answer as the caller sees it; see results.h. */
#include "results.h"

/* ------------------------------------------------------------------------------------------------- counting -- */

static bool is_admission(enum hirate_op op)
{
    return op == HIRATE_OP_ACQUIRE || op == HIRATE_OP_PEEK;
}

static void count(hirate_stats *stats, const hr_answer *answer, enum hirate_op op)
{
    stats->answered++;
    if (answer->error)
        stats->errors++;
    else if (is_admission(op))
        ++*(answer->verdict == HIRATE_ALLOWED ? &stats->allowed : &stats->denied);
}

static void count_verdict(hirate_policy_stats *stats, enum hirate_source source, enum hirate_verdict verdict)
{
    bool allowed = verdict == HIRATE_ALLOWED;
    switch (source) {
    case HIRATE_SOURCE_REDIS:
        ++*(allowed ? &stats->allowed_redis : &stats->denied_redis);
        break;
    case HIRATE_SOURCE_LOCAL:
        ++*(allowed ? &stats->allowed_local : &stats->denied_local);
        break;
    case HIRATE_SOURCE_CACHE:
        stats->denied_cache++;
        break;
    case HIRATE_SOURCE_FAIL_OPEN:
        stats->allowed_open++;
        break;
    case HIRATE_SOURCE_FAIL_CLOSED:
        stats->denied_closed++;
        break;
    case HIRATE_SOURCE_NONE:
        break;
    }
}

static void count_by_policy(hr_counters *counters, const hr_answer *answer, enum hirate_op op,
                            enum hirate_verdict verdict)
{
    if (!counters)
        return;
    hirate_policy_stats *stats = &counters->stats;
    counters->answered++;
    stats->maybe += answer->charge == HIRATE_CHARGE_MAYBE;
    if (answer->error)
        stats->errors++;
    else if (is_admission(op))
        count_verdict(stats, answer->source, verdict);
    else
        ++*(op == HIRATE_OP_RESET ? &stats->resets : &stats->permits);
}

/* All limits of a request count what it came to; a shadow what itself said. */
static void count_by_policies(const hr_answer *answer, enum hirate_op op, const hr_limit *limit, const hr_extra *extra)
{
    if (!extra) {
        count_by_policy(limit->counters, answer, op, answer->verdict);
        return;
    }
    for (uint32_t i = 0; i < extra->count; i++) {
        const hr_part *part = &extra->parts[i];
        bool own = extra->decided && hr_limit_is_shadow(part->ticket.limit);
        count_by_policy(part->ticket.limit->counters, answer, op, own ? part->decision.verdict : answer->verdict);
    }
}

/* --------------------------------------------------------------------------------------------------- results -- */

static hirate_limit_result said_by(const hr_limit *limit, const hr_decision *decision, const char *permit)
{
    return (hirate_limit_result){
        .struct_size = sizeof(hirate_limit_result),
        .verdict = decision->verdict,
        .shadow = hr_limit_is_shadow(limit),
        .policy_kind = limit->policy.kind,
        .policy = limit->policy.name,
        .remaining = decision->remaining,
        .retry_after_ms = decision->retry_after_ms,
        .reset_ms = decision->reset_ms,
        .delay_ms = decision->delay_ms,
        .permit = permit,
    };
}

static void add_parts(hirate_result *result, const hr_extra *extra, hirate_limit_result *said)
{
    result->limit_count = extra->count;
    result->shadow_denied = extra->shadows_denied;
    result->policy = extra->parts[extra->bound].ticket.limit->policy.name;
    for (uint32_t i = 0; i < extra->count; i++) {
        const hr_part *part = &extra->parts[i];
        const char *permit = part->took && part->permit ? part->permit : "";
        if (!result->permit[0])
            result->permit = permit;
        if (extra->decided)
            said[i] = said_by(part->ticket.limit, &part->decision, permit);
    }
    if (extra->decided)
        result->limits = said;
}

/* What the limits have said, where they have: into said[], one for each, and from there into the result. */
static void add_limits(hirate_result *result, const hr_limit *limit, const hr_extra *extra, hirate_limit_result *said)
{
    const hr_decision whole = {result->verdict, result->remaining, result->retry_after_ms, result->reset_ms,
                               result->delay_ms};
    result->limit_count = 1;
    if (extra)
        add_parts(result, extra, said);
    if (!result->limits && result->limit_count == 1 && result->verdict != HIRATE_VERDICT_NONE &&
        (result->source == HIRATE_SOURCE_REDIS || result->source == HIRATE_SOURCE_LOCAL)) {
        said[0] = said_by(limit, &whole, result->permit);
        result->limits = said;
    }
}

static void let_go(hr_dispatch *dispatch, hr_limit *limit, hr_extra *extra)
{
    if (!extra) {
        hr_limits_done(&dispatch->limits, limit);
        return;
    }
    for (uint32_t i = 0; i < extra->count; i++)
        hr_limits_done(&dispatch->limits, extra->parts[i].ticket.limit);
    hr_batch_extra_free(&dispatch->batch, extra);
}

/* ----------------------------------------------------------------------------------------------- delivering -- */

void hr_result_drop(hr_dispatch *dispatch, hr_request *request)
{
    dispatch->own_pending--;
    hr_reason_drop(request->answer.reason);
    let_go(dispatch, NULL, request->extra);
    hr_requests_put(&dispatch->requests, request);
}

void hr_result_deliver(hirate *h, hr_dispatch *dispatch, hr_request *request)
{
    const hr_answer *answer = &request->answer;
    hr_reason *reason = answer->reason;
    hr_extra *extra = request->extra;
    hr_limit *limit = extra ? extra->parts[0].ticket.limit : request->ticket.limit;
    hirate_cb *cb = request->cb;
    void *user = request->user;
    hirate_limit_result said[HIRATE_PAIRS_MAX];
    hirate_result result = {
        .struct_size = sizeof result,
        .error = answer->error,
        .op = (enum hirate_op)request->op,
        .verdict = answer->verdict,
        .source = answer->source,
        .charge = answer->charge,
        .id = request->id,
        .cost = request->cost,
        .remaining = answer->remaining,
        .retry_after_ms = answer->retry_after_ms,
        .reset_ms = answer->reset_ms,
        .delay_ms = answer->delay_ms,
        .time_us = answer->time_us,
        .used = answer->used,
        .policy = limit->policy.name,
        .reason = reason ? reason->text : answer->text,
        .cause = answer->cause,
        .permit = "",
        .late = answer->late,
    };
    add_limits(&result, limit, extra, said);
    count(&dispatch->stats, answer, result.op);
    count_by_policies(answer, result.op, limit, extra);
    hr_requests_put(&dispatch->requests, request);
    cb(h, &result, user);
    let_go(dispatch, limit, extra);
    hr_reason_drop(reason);
}
