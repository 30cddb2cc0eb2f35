/* SPDX-License-Identifier: BSD-3-Clause */
/* request: what becomes of an acquire that Redis cannot answer; see fallback.h. */
#include "fallback.h"

#include "clock.h"

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

/* By this process' share of the limit. Without room or memory for another name: denied until Redis is asked again. */
static void decide_locally(hr_fallback *fallback, const hr_fallback_request *request, hr_answer *answer)
{
    hirate_request local_request;
    hirate_result result;

    answer->source = HIRATE_SOURCE_LOCAL;
    hirate_request_init(&local_request);
    hirate_result_init(&result);
    local_request.limit = &request->limit->share;
    local_request.name = request->name;
    local_request.name_len = request->name_len;
    local_request.cost = request->cost;
    int rc = fallback->local ? 0 : hirate_local_new(&fallback->local, fallback->local_most);
    if (!rc)
        rc = hirate_local_decide(fallback->local, &local_request, hr_clock_read(CLOCK_REALTIME), &result, NULL);
    if (rc) {
        deny(answer, request->probe_ms);
        return;
    }
    answer->verdict = result.verdict;
    answer->remaining = result.remaining;
    answer->retry_after_ms = result.retry_after_ms;
    answer->reset_ms = result.reset_ms;
    answer->delay_ms = result.delay_ms;
    answer->time_us = result.time_us;
    if (result.retry_after_ms == HIRATE_NEVER) /* above the share, not above the limit */
        answer->retry_after_ms = request->probe_ms;
}

void hr_fallback_decide(hr_fallback *fallback, const hr_fallback_request *request, hr_answer *answer)
{
    enum hirate_on_failure how = (enum hirate_on_failure)request->limit->value.on_failure;
    if (how == HIRATE_ON_FAILURE_ERROR)
        return;
    answer->cause = answer->error;
    answer->error = 0;
    answer->source = how == HIRATE_ON_FAILURE_OPEN ? HIRATE_SOURCE_FAIL_OPEN : HIRATE_SOURCE_FAIL_CLOSED;
    if (request->cost > request->limit->policy.capacity) {
        answer->source = HIRATE_SOURCE_LOCAL; /* that needs no asking */
        deny(answer, HIRATE_NEVER);
    } else if (how == HIRATE_ON_FAILURE_OPEN) {
        answer->verdict = HIRATE_ALLOWED;
    } else if (how == HIRATE_ON_FAILURE_CLOSED) {
        deny(answer, request->probe_ms);
    } else {
        decide_locally(fallback, request, answer);
    }
}
