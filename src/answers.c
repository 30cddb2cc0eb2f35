/* SPDX-License-Identifier: BSD-3-Clause */
/* request: how a request is answered without a verdict by Redis; see answers.h. */
#include "answers.h"

#include <string.h>

/* Until Redis will be asked again, as far as can be said now. */
static int64_t probe_ms(const hr_dispatch *dispatch)
{
    int64_t due = hr_breaker_is_open(&dispatch->breaker) ? dispatch->breaker.probe_us : 0;
    if (dispatch->losing || !hr_link_is_up(dispatch->link)) {
        int64_t retry_us = hr_link_retry_us(dispatch->link);
        due = retry_us > due ? retry_us : due;
    }
    int64_t ms = hr_wait_ms(due - dispatch->now_us);
    return ms > 0 ? ms : 1;
}

void hr_answer_on_failure(hr_dispatch *dispatch, hr_request *request, const hr_name *names, hr_answer *with)
{
    if (!hr_fallback_covers(with->error))
        return;
    const hr_fallback_request failed = {.request = request, .names = names, .probe_ms = probe_ms(dispatch)};
    hr_fallback_decide(&dispatch->fallback, &failed, with);
}

void hr_answer_note_failure(hr_dispatch *dispatch, int error)
{
    dispatch->last_failure = error;
    hr_breaker_failed(&dispatch->breaker, dispatch->now_us, hr_random_next(&dispatch->random));
}

/* --------------------------------------------------------------------------------------------- giving back -- */

static hr_name name_of(const hr_key *key)
{
    return (hr_name){key->text + key->prefix_len, (size_t)(key->len - key->prefix_len)};
}

/* Without memory or room it is left to end by itself. */
static void give_back(hr_dispatch *dispatch, const hr_request *from, const hr_part *part)
{
    hr_limit *limit = part->ticket.limit;
    hr_request *request = hr_requests_get(&dispatch->requests);

    if (!request)
        return;
    request->cb = NULL;
    request->op = limit->policy.kind == HIRATE_KIND_QUOTA ? HIRATE_OP_REFUND : HIRATE_OP_RELEASE;
    request->cost = 0;
    request->extra = hr_batch_extra_new(&dispatch->batch, 1);
    if (!request->extra)
        goto fail;
    memcpy(request->extra->id, from->extra->id, sizeof request->extra->id);
    request->extra->holds = true;
    request->extra->parts[0].ticket.limit = limit;
    const hr_name name = name_of(part->ticket.key);
    int64_t deadline_ms = dispatch->now_us / 1000 + (dispatch->closing ? HR_LINGER_MS : HR_GIVE_BACK_MS);
    if (hr_dispatch_enqueue(dispatch, request, &name, deadline_ms))
        goto fail;
    limit->uses++;
    dispatch->own_pending++;
    return;

fail:
    hr_batch_extra_free(&dispatch->batch, request->extra);
    request->extra = NULL;
    hr_requests_put(&dispatch->requests, request);
}

static void give_back_all(hr_dispatch *dispatch, const hr_request *request)
{
    const hr_extra *extra = request->extra;
    for (uint32_t i = 0; i < extra->count; i++) {
        if (hr_decide_holds(&extra->parts[i].ticket.limit->policy, extra->hold_us))
            give_back(dispatch, request, &extra->parts[i]);
    }
}

/* Can it have taken a hold that is not told? Not with a charge of no, as then Redis has not decided it. */
static bool may_hold(const hr_request *request, const hr_answer *with)
{
    return request->op == HIRATE_OP_ACQUIRE && request->extra && request->extra->holds &&
           request->state == HR_REQUEST_CALLED && with->charge != HIRATE_CHARGE_NO &&
           with->source != HIRATE_SOURCE_REDIS;
}

/* ------------------------------------------------------------------------------------------------- answering -- */

static void names_of(hr_request *request, hr_name names[HIRATE_PAIRS_MAX])
{
    for (uint32_t i = 0; i < hr_request_tickets(request); i++)
        names[i] = name_of(hr_request_ticket(request, i)->key);
}

void hr_answer_with(hr_dispatch *dispatch, hr_request *request, hr_answer with)
{
    if (may_hold(request, &with))
        give_back_all(dispatch, request);
    if (request->op == HIRATE_OP_ACQUIRE && with.error) {
        hr_name names[HIRATE_PAIRS_MAX];
        names_of(request, names);
        hr_answer_on_failure(dispatch, request, names, &with);
    }
    hr_batch_remove(&dispatch->batch, request);
    hr_requests_answer(&dispatch->requests, request, &with);
}

static enum hirate_charge charge_of_unanswered(const hr_request *request)
{
    bool takes = request->op == HIRATE_OP_ACQUIRE || request->op == HIRATE_OP_COMMIT;
    return request->state == HR_REQUEST_CALLED && takes && request->cost ? HIRATE_CHARGE_MAYBE : HIRATE_CHARGE_NO;
}

void hr_answer_error(hr_dispatch *dispatch, hr_request *request, int error, const char *text)
{
    hr_answer with = {.error = error, .charge = charge_of_unanswered(request), .text = text};
    hr_answer_with(dispatch, request, with);
}

void hr_answer_call(hr_dispatch *dispatch, hr_call *call, hr_answer with)
{
    enum hirate_charge charge = with.charge;
    for (uint32_t i = 0; i < hr_call_requests(call); i++) {
        hr_request *request = hr_call_request(call, i);
        if (!request)
            continue;
        with.charge = charge == HIRATE_CHARGE_NO ? charge : charge_of_unanswered(request);
        hr_answer_with(dispatch, request, with);
    }
}
