/* SPDX-License-Identifier: BSD-3-Clause */
/* request: how a request is accepted; see submit.h. */
#include "submit.h"

#include "answers.h"
#include "clock.h"
#include "error.h"
#include "permit.h"

#include <string.h>

static const char BROKEN[] = "Redis has not answered for a while";

/* ---------------------------------------------------------------------------------------------- limits and holds -- */

static hirate_pair pair_of(const hirate_request *from, uint32_t i)
{
    return i ? from->more[i - 1] : (hirate_pair){from->limit, from->name, from->name_len};
}

/* Can it not be part of an entry of the script? A wrong limit, which is found later, may be anything. */
static bool needs_extra(const hirate_request *from)
{
    return from->more_count || from->hold_us || hr_op_uses_permit(from->op) ||
           (from->op != HIRATE_OP_RESET &&
            (from->limit->kind == HIRATE_KIND_CONCURRENCY || (from->limit->flags & HIRATE_LIMIT_SHADOW)));
}

static void draw_id(hr_dispatch *dispatch, unsigned char id[HR_HOLD_ID_SIZE])
{
    if (dispatch->hold_count++ == 0) { /* the first, and when all numbers have been used */
        uint64_t seed = hr_hash_key_random().k0;
        memcpy(dispatch->hold_seed, &seed, sizeof dispatch->hold_seed);
    }
    memcpy(id, dispatch->hold_seed, sizeof dispatch->hold_seed);
    memcpy(id + sizeof dispatch->hold_seed, &dispatch->hold_count, sizeof dispatch->hold_count);
}

static int make_room_for_permit(hr_dispatch *dispatch, hr_part *part, size_t name_len)
{
    const hr_limit *limit = part->ticket.limit;
    return hr_batch_make_room_for_permit(&dispatch->batch, part, hr_permit_size(limit->prefix_len - 2u + name_len));
}

static int add_holds(hr_dispatch *dispatch, hr_request *request, const hirate_request *from)
{
    hr_extra *extra = request->extra;
    int rc = 0;

    extra->hold_us = from->hold_us;
    for (uint32_t i = 0; i < extra->count && !rc && from->op == HIRATE_OP_ACQUIRE && from->cost; i++) {
        if (!hr_decide_holds(&extra->parts[i].ticket.limit->policy, from->hold_us))
            continue;
        rc = make_room_for_permit(dispatch, &extra->parts[i], pair_of(from, i).name_len);
        if (!extra->holds)
            draw_id(dispatch, extra->id);
        extra->holds = true;
    }
    return rc;
}

static void let_limits_go(hr_dispatch *dispatch, hr_request *request)
{
    for (uint32_t i = 0; request->extra && i < request->extra->count; i++) {
        hr_limit *limit = request->extra->parts[i].ticket.limit;
        if (limit)
            hr_limits_done(&dispatch->limits, limit);
    }
    hr_batch_extra_free(&dispatch->batch, request->extra);
    request->extra = NULL;
}

/* ---------------------------------------------------------------------------------------------------- permits -- */

static int read_permit(hr_permit *permit, const hirate_request *from, hirate_error *error)
{
    int rc = hr_permit_read(permit, from->permit, error);
    return rc ? rc : hr_permit_check_op(permit, from->op, error);
}

static int take_permit(hr_dispatch *dispatch, hr_request *request, const hr_permit *permit, hirate_error *error)
{
    hr_extra *extra = request->extra;
    memcpy(extra->id, permit->id, sizeof extra->id);
    extra->holds = true;
    extra->until_us = permit->until_us;
    const char *prefix = permit->prefix[0] ? permit->prefix : dispatch->limits.key_prefix;
    return hr_limits_use_under(&dispatch->limits, prefix, &permit->limit, &extra->parts[0].ticket.limit, error);
}

/* ---------------------------------------------------------------------------------------------- answers at once -- */

/* If it is known that Redis would deny this, say so in its stead. */
static bool answer_from_denial(hr_dispatch *dispatch, const hirate_request *from, const hr_request *request,
                               hr_answer *with)
{
    const hr_limit *limit = request->ticket.limit;
    if (request->extra || !(limit->value.flags & HIRATE_LIMIT_CACHE_DENIALS) || from->op != HIRATE_OP_ACQUIRE ||
        from->cost > limit->policy.capacity)
        return false;
    const hr_denial *denial = hr_batch_denial(&dispatch->batch, limit, from->name, from->name_len, from->cost);
    if (!denial)
        return false;
    int64_t now_us = hr_clock_now_us();
    if (now_us >= denial->until_us)
        return false;
    *with = (hr_answer){
        .verdict = HIRATE_DENIED,
        .source = HIRATE_SOURCE_CACHE,
        .charge = HIRATE_CHARGE_NO,
        .remaining = denial->remaining,
        .retry_after_ms = hr_wait_ms(denial->until_us + HR_DENIALS_EARLY_US - now_us),
        .reset_ms = hr_wait_ms(denial->reset_us - now_us),
        .text = "",
    };
    return true;
}

/* While the breaker is open. */
static bool answer_from_breaker(hr_dispatch *dispatch, hr_request *request, const hr_name *names, hr_answer *with)
{
    if (!hr_breaker_is_open(&dispatch->breaker))
        return false;
    dispatch->now_us = hr_clock_now_us();
    if (hr_link_is_up(dispatch->link) &&
        hr_breaker_lets_through(&dispatch->breaker, dispatch->now_us, hr_random_next(&dispatch->random)))
        return false;
    *with = (hr_answer){.error = dispatch->last_failure, .text = BROKEN, .reason = dispatch->obstacle};
    if (request->op == HIRATE_OP_ACQUIRE)
        hr_answer_on_failure(dispatch, request, names, with);
    return true;
}

/* --------------------------------------------------------------------------------------------------- accepting -- */

static int use_limits(hr_dispatch *dispatch, hr_request *request, const hirate_request *from, const hr_permit *permit,
                      hr_name *names, hirate_error *error)
{
    int rc = 0;

    request->extra = hr_batch_extra_new(&dispatch->batch, (uint32_t)from->more_count + 1);
    if (!request->extra)
        return HIRATE_ENOMEM;
    if (hr_op_uses_permit(from->op)) {
        names[0] = (hr_name){permit->name, permit->name_len};
        return take_permit(dispatch, request, permit, error);
    }
    for (uint32_t i = 0; i < request->extra->count && !rc; i++) {
        hirate_pair pair = pair_of(from, i);
        names[i] = (hr_name){pair.name, pair.name_len};
        rc = hr_limits_use(&dispatch->limits, pair.limit, &request->extra->parts[i].ticket.limit, error);
        if (rc && rc != HIRATE_ENOMEM && i)
            rc = hr_fail(error, rc, "more[%u].%s", (unsigned)i - 1, error->text);
    }
    return rc ? rc : add_holds(dispatch, request, from);
}

/* Rounded up, so that no deadline comes early. Not by the coarse clock, which is cheaper: it is behind by a tick, or by
 * many where the processor that keeps it is held up, as a virtual one may be. */
static int64_t deadline_ms_of(const hr_dispatch *dispatch, const hirate_request *from)
{
    int64_t within_ms = from->deadline_ms ? from->deadline_ms : dispatch->deadline_ms;
    return (hr_clock_now_us() + 999) / 1000 + within_ms;
}

/* Queue it, or answer it at once where that can be done. */
static int take_in(hr_dispatch *dispatch, hr_request *request, const hirate_request *from, const hr_name *names)
{
    hr_answer known;

    if (!answer_from_denial(dispatch, from, request, &known) && !answer_from_breaker(dispatch, request, names, &known))
        return hr_dispatch_enqueue(dispatch, request, names, deadline_ms_of(dispatch, from));
    hr_requests_answer_new(&dispatch->requests, request, &known);
    return 0;
}

/* What an entry of the script can decide. */
static int submit_plain(hr_dispatch *dispatch, hr_request *request, const hirate_request *from, hirate_error *error)
{
    const hr_name name = {from->name, from->name_len};

    request->extra = NULL;
    int rc = hr_limits_use(&dispatch->limits, from->limit, &request->ticket.limit, error);
    if (rc)
        return rc;
    rc = take_in(dispatch, request, from, &name);
    if (rc)
        hr_limits_done(&dispatch->limits, request->ticket.limit);
    return rc;
}

static int submit_extra(hr_dispatch *dispatch, hr_request *request, const hirate_request *from, hirate_error *error)
{
    hr_permit permit;
    hr_name names[HIRATE_PAIRS_MAX];
    hr_answer known;

    int rc = hr_op_uses_permit(from->op) ? read_permit(&permit, from, error) : 0;
    if (rc)
        return rc;
    rc = use_limits(dispatch, request, from, &permit, names, error);
    const bool own = hr_op_uses_permit(from->op) && !permit.prefix[0]; /* of what this process took by itself */
    if (!rc && own)
        rc = hr_fallback_use_permit(&dispatch->fallback, from->op, from->permit, from->cost, &known, error);
    if (!rc && own)
        hr_requests_answer_new(&dispatch->requests, request, &known);
    else if (!rc)
        rc = take_in(dispatch, request, from, names);
    if (rc)
        let_limits_go(dispatch, request);
    return rc;
}

static int fill_in(hr_dispatch *dispatch, hr_request *request, const hirate_request *from, hirate_error *error)
{
    request->cb = from->cb;
    request->user = from->user;
    request->op = (uint8_t)from->op;
    request->cost = from->cost;
    return needs_extra(from) ? submit_extra(dispatch, request, from, error)
                             : submit_plain(dispatch, request, from, error);
}

static void accepted(hr_dispatch *dispatch, hr_request *request, uint64_t *id)
{
    dispatch->stats.submitted++;
    for (uint32_t i = 0; i < hr_request_tickets(request); i++) {
        hr_counters *counters = hr_request_ticket(request, i)->limit->counters;
        if (counters)
            counters->stats.submitted++;
    }
    if (id)
        *id = request->id;
}

int hr_submit(hr_dispatch *dispatch, const hirate_request *from, uint64_t *id, hirate_error *error)
{
    hr_request *request = hr_requests_get(&dispatch->requests);
    int rc = request ? fill_in(dispatch, request, from, error) : HIRATE_ENOMEM;

    if (!rc) {
        accepted(dispatch, request, id);
        return 0;
    }
    if (request)
        hr_requests_put(&dispatch->requests, request);
    return rc == HIRATE_ENOMEM ? hr_fail(error, rc, "no memory for the request") : rc;
}
