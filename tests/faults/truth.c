/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault matrix: what may be said about a request, and what may be admitted (see truth.h). */
#include "truth.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const hirate_limit TRUTH_LIMITS[LIMITS] = {
    [LIMIT_ERROR] = HIRATE_TOKEN_BUCKET_WITH("faults-error", 100, HIRATE_PER_SECOND(50), 0, HIRATE_FAIL_ERROR),
    [LIMIT_OPEN] = HIRATE_TOKEN_BUCKET_WITH("faults-open", 100, HIRATE_PER_SECOND(50), 0, HIRATE_FAIL_OPEN),
    [LIMIT_CLOSED] = HIRATE_TOKEN_BUCKET_WITH("faults-closed", 100, HIRATE_PER_SECOND(50), HIRATE_LIMIT_CACHE_DENIALS,
                                              HIRATE_FAIL_CLOSED),
    [LIMIT_LOCAL] = HIRATE_TOKEN_BUCKET_WITH("faults-local", 100, HIRATE_PER_SECOND(50), 0, HIRATE_FAIL_LOCAL(1, 2)),
    [LIMIT_LEDGER] = HIRATE_TOKEN_BUCKET("faults-ledger", 50000, HIRATE_RATE(1, HIRATE_DAYS(1))),
    [LIMIT_RESET] = HIRATE_TOKEN_BUCKET("faults-reset", 100, HIRATE_PER_SECOND(50)),
    [LIMIT_WIDE] = HIRATE_TOKEN_BUCKET("faults-wide", 100, HIRATE_PER_SECOND(50)),
};

void truth_red(report *r, const char *format, ...)
{
    size_t len = strlen(r->why);
    va_list args;
    va_start(args, format);
    vsnprintf(r->why + len, sizeof r->why - len, format, args);
    va_end(args);
    len = strlen(r->why);
    if (len + 1 < sizeof r->why)
        memcpy(r->why + len, "\n", 2);
}

/* ------------------------------------------------------------------------------------------------ one result -- */

static const char *lie_in_error(const asked *a, const hirate_result *r)
{
    bool by_caller = r->error == HIRATE_ECANCELED || r->error == HIRATE_ECLOSED;
    bool never_charged = r->error == HIRATE_ECONNECT || r->error == HIRATE_EAUTH || r->error == HIRATE_ESTATE;

    if (r->verdict != HIRATE_VERDICT_NONE || r->source != HIRATE_SOURCE_NONE)
        return "an error with a verdict";
    if (!r->reason[0])
        return "an error without a reason";
    if (r->cause)
        return "an error with a cause";
    if (a->op == HIRATE_OP_ACQUIRE && TRUTH_LIMITS[a->limit].on_failure != HIRATE_ON_FAILURE_ERROR && !by_caller)
        return "an error although on_failure has a verdict";
    if (r->charge == HIRATE_CHARGE_YES || (r->charge != HIRATE_CHARGE_NO && never_charged))
        return "an error that says the wrong thing about the charge";
    return NULL;
}

static const char *lie_of_redis(const asked *a, const hirate_result *r)
{
    bool takes = a->op == HIRATE_OP_ACQUIRE && r->verdict == HIRATE_ALLOWED && a->cost;

    if (r->cause || r->time_us <= 0)
        return "a decision by Redis with a cause or without a time";
    if (a->op == HIRATE_OP_RESET)
        return r->verdict == HIRATE_VERDICT_NONE && r->charge == HIRATE_CHARGE_NO ? NULL : "a reset with a verdict";
    if (r->verdict != HIRATE_ALLOWED && r->verdict != HIRATE_DENIED)
        return "a decision without a verdict";
    if (r->charge != (takes ? HIRATE_CHARGE_YES : HIRATE_CHARGE_NO))
        return "a decision by Redis that says the wrong thing about the charge";
    if (r->remaining > TRUTH_LIMITS[a->limit].capacity || (takes && r->remaining >= TRUTH_LIMITS[a->limit].capacity))
        return "more remains than there can be";
    if (r->verdict == HIRATE_DENIED ? r->retry_after_ms < 1 : r->retry_after_ms != 0)
        return "a retry_after_ms that does not fit the verdict";
    return NULL;
}

/* What on_failure decided, or the memory of a denial. */
static const char *lie_without_redis(const asked *a, const hirate_result *r)
{
    const hirate_limit *limit = &TRUTH_LIMITS[a->limit];
    bool ok = a->op == HIRATE_OP_ACQUIRE && r->charge != HIRATE_CHARGE_YES;

    if (r->source == HIRATE_SOURCE_CACHE) {
        ok = ok && r->verdict == HIRATE_DENIED && (limit->flags & HIRATE_LIMIT_CACHE_DENIALS) && !r->cause &&
             r->charge == HIRATE_CHARGE_NO && r->retry_after_ms >= 1;
        return ok ? NULL : "a remembered denial that is none";
    }
    ok = ok && r->cause < 0;
    if (r->source == HIRATE_SOURCE_FAIL_OPEN)
        ok = ok && limit->on_failure == HIRATE_ON_FAILURE_OPEN && r->verdict == HIRATE_ALLOWED && r->remaining == 0;
    else if (r->source == HIRATE_SOURCE_FAIL_CLOSED)
        ok = ok && limit->on_failure == HIRATE_ON_FAILURE_CLOSED && r->verdict == HIRATE_DENIED &&
             r->retry_after_ms >= 1;
    else
        ok = ok && r->source == HIRATE_SOURCE_LOCAL && limit->on_failure == HIRATE_ON_FAILURE_LOCAL &&
             (r->verdict == HIRATE_ALLOWED || r->verdict == HIRATE_DENIED);
    return ok ? NULL : "a verdict without Redis that is not the limit's on_failure";
}

const char *truth_lie(const asked *a, const hirate_result *r)
{
    if (strcmp(r->policy, TRUTH_LIMITS[a->limit].policy) != 0 || (int)r->op != a->op || r->id != a->id)
        return "a result of another request";
    if (a->op != HIRATE_OP_RESET && r->cost != a->cost)
        return "another cost than was submitted";
    if (r->error)
        return lie_in_error(a, r);
    return r->source == HIRATE_SOURCE_REDIS ? lie_of_redis(a, r) : lie_without_redis(a, r);
}

/* ------------------------------------------------------------------------------------------------- the bound -- */

static void check_name(const bound_record *records, size_t count, unsigned name, unsigned losses, report *out)
{
    const hirate_limit *limit = &TRUTH_LIMITS[name / NAMES];
    bound_worst worst = bound_check(records, count, name, limit);
    if (!worst.any)
        return;
    int64_t full = (int64_t)limit->capacity * worst.p;
    uint64_t seen = worst.slack < 0 ? (uint64_t)((full - 1 - worst.slack) / full) : 0;
    if (seen > out->losses_seen)
        out->losses_seen = seen;
    if (seen > losses)
        truth_red(out, "%s/%u: admitted %lld in %lld us, %lld with %u losses", limit->policy, name % NAMES,
                  (long long)(worst.used / worst.p), (long long)worst.length_us,
                  (long long)((worst.allowed + full * losses) / worst.p), losses);
}

void truth_check_bound(bound_record *records, size_t count, unsigned losses, report *out)
{
    qsort(records, count, sizeof *records, bound_by_time);
    int64_t length = count ? records[count - 1].time_us - records[0].time_us : 0;
    for (size_t i = 0; i < count; i++)
        out->allowed += records[i].cost;
    for (unsigned name = 0; name < BOUNDED * NAMES; name++) {
        const hirate_limit *limit = &TRUTH_LIMITS[name / NAMES];
        out->bound += limit->capacity * (1 + losses) + (uint64_t)length * limit->rate.tokens / limit->rate.period_us;
        check_name(records, count, name, losses, out);
    }
}
