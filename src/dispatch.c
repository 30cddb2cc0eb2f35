/* SPDX-License-Identifier: BSD-3-Clause */
/* request: when what waits is sent, and what each outcome means for it; see dispatch.h. */
#include "dispatch.h"

#include "clock.h"
#include "error.h"
#include "refusal.h"

#include <stdlib.h>
#include <string.h>

/* With so many calls in flight the server always has one to go on with, as long as it answers one by one. What makes it answer
 * several at once, and then wait for us, is that they reach it in one read (16 KiB); only full calls of distinct keys are that
 * long, and for them the window is max_calls. Measured in docs/benchmarks.md. */
#define CALLS_GATHERING 3

/* Why, where the reason is always the same. */
static const char CANCELED[] = "canceled";
static const char CLOSED[] = "the client was closed";
static const char LATE[] = "no answer within the deadline";
static const char NOT_SENT[] = "not sent within the deadline";
static const char NOT_CONNECTED[] = "no connection to Redis within the deadline";
static const char LOST[] = "the connection ended before the answer";
static const char FOREIGN[] = "the key holds something that is not this kind of limit's state";
static const char NONSENSE[] = "the server's reply is not an answer of this library's script";
static const char BROKEN[] = "Redis has not answered for a while";
static const char REFUSED[] = "the server answered with an error";
static const char REFUSED_HERE[] = "the server refused a command on this key, after others of the same call";
static const char NO_MEMORY[] = "no memory to send";

/* --------------------------------------------------------------------------------------------- the obstacle -- */

static void clear_obstacle(hr_dispatch *dispatch)
{
    hr_reason_drop(dispatch->obstacle);
    dispatch->obstacle = NULL;
}

static void set_obstacle(hr_dispatch *dispatch, const char *text, size_t len)
{
    clear_obstacle(dispatch);
    dispatch->obstacle = hr_reason_new(text, len);
}

/* ------------------------------------------------------------------------------------------------- answering -- */

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

/* What an error means for an acquire under this limit: its on_failure, where that has a say. */
static void apply_on_failure(hr_dispatch *dispatch, const hr_limit *limit, const void *name, size_t len, uint64_t cost,
                             hr_answer *with)
{
    const hr_fallback_request failed = {
        .limit = limit, .name = name, .name_len = len, .cost = cost, .probe_ms = probe_ms(dispatch)};
    if (hr_fallback_covers(with->error))
        hr_fallback_decide(&dispatch->fallback, &failed, with);
}

static void answer(hr_dispatch *dispatch, hr_request *request, hr_answer with)
{
    const hr_key *key = request->key;
    if (request->op == HIRATE_OP_ACQUIRE && with.error)
        apply_on_failure(dispatch, request->limit, key->text + key->prefix_len, (size_t)(key->len - key->prefix_len),
                         request->cost, &with);
    hr_batch_remove(&dispatch->batch, request);
    hr_requests_answer(&dispatch->requests, request, &with);
}

static void failed(hr_dispatch *dispatch, int error)
{
    dispatch->last_failure = error;
    hr_breaker_failed(&dispatch->breaker, dispatch->now_us, hr_random_next(&dispatch->random));
}

static enum hirate_charge charge_of_unanswered(const hr_request *request)
{
    return request->state == HR_REQUEST_CALLED && request->op == HIRATE_OP_ACQUIRE && request->cost
               ? HIRATE_CHARGE_MAYBE
               : HIRATE_CHARGE_NO;
}

static void answer_error(hr_dispatch *dispatch, hr_request *request, int error, const char *text)
{
    hr_answer with = {.error = error, .charge = charge_of_unanswered(request), .text = text};
    answer(dispatch, request, with);
}

/* The same error for all that is left in a call. A charge of no holds for all; maybe only for what takes something. */
static void answer_call(hr_dispatch *dispatch, hr_call *call, hr_answer with)
{
    enum hirate_charge charge = with.charge;
    for (uint32_t i = 0; i < call->item_count; i++) {
        hr_request *request = call->items[i].request;
        if (!request)
            continue;
        with.charge = charge == HIRATE_CHARGE_NO ? charge : charge_of_unanswered(request);
        answer(dispatch, request, with);
    }
}

static void answer_expired(hr_dispatch *dispatch, hr_request *request)
{
    if (request->state == HR_REQUEST_CALLED) {
        answer_error(dispatch, request, HIRATE_EDEADLINE, LATE);
        return;
    }
    hr_answer with = {.error = HIRATE_EDEADLINE, .text = NOT_SENT, .reason = dispatch->obstacle};
    if (!hr_link_is_up(dispatch->link)) {
        with.error = HIRATE_ECONNECT;
        with.text = NOT_CONNECTED;
    }
    answer(dispatch, request, with);
}

/* ------------------------------------------------------------------------------------------- remembered denials -- */

static void note_denial(hr_dispatch *dispatch, const hr_call *call, const hr_call_key *entry, const hr_call_item *item,
                        const hr_decision *decision)
{
    hr_denial denial = {
        .cost = item->cost,
        .remaining = decision->remaining,
        .until_us = call->sent_us + decision->retry_after_ms * 1000 - HR_DENIALS_EARLY_US,
        .reset_us = call->sent_us + decision->reset_ms * 1000,
    };
    hr_batch_note_denial(&dispatch->batch, entry, denial);
}

/* If it is known that Redis would deny this, say so in its stead. */
static bool answer_from_denial(hr_dispatch *dispatch, const hirate_request *from, const hr_limit *limit, hr_answer *with)
{
    if (!(limit->value.flags & HIRATE_LIMIT_CACHE_DENIALS) || from->op != HIRATE_OP_ACQUIRE || from->cost > limit->policy.capacity)
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

/* --------------------------------------------------------------------------------------------------- verdicts -- */

/* Of a sliding log the server has told, for each run, what a denial waits for: it stands for all older entries. */
static void set_oldest(hr_moment *moment, const hr_script_found *found, const hr_run_walk *walk,
                       hr_sliding_log_entry *oldest)
{
    if (!walk->runs)
        return;
    *oldest = (hr_sliding_log_entry){hr_script_wait(found->waits, walk->runs - 1), UINT32_MAX};
    moment->log.older = oldest;
    moment->log.older_count = 1;
}

static void answer_decided(hr_dispatch *dispatch, hr_call_item *item, const hr_decision *decision, int64_t now_us)
{
    if (!item->request)
        return;
    bool took = decision->verdict == HIRATE_ALLOWED && item->op == HIRATE_OP_ACQUIRE && item->cost;
    hr_answer with = {
        .verdict = decision->verdict,
        .source = HIRATE_SOURCE_REDIS,
        .charge = took ? HIRATE_CHARGE_YES : HIRATE_CHARGE_NO,
        .remaining = decision->remaining,
        .retry_after_ms = decision->retry_after_ms,
        .reset_ms = decision->reset_ms,
        .delay_ms = decision->delay_ms,
        .time_us = now_us,
        .text = "",
    };
    hr_request *request = item->request;
    item->request = NULL;
    hr_requests_answer(&dispatch->requests, request, &with);
}

/* Repeat, item by item, what the script has decided. */
static void decide_entry(hr_dispatch *dispatch, hr_call *call, const hr_call_key *entry, const hr_script_found *found,
                         int64_t now_us)
{
    const hr_policy *policy = &entry->limit->policy;
    bool remembers = (entry->limit->value.flags & HIRATE_LIMIT_CACHE_DENIALS) != 0;
    hr_moment moment = found->moment, copy;
    hr_sliding_log_entry oldest;
    hr_run_walk walk = {0};

    for (uint32_t i = 0; i < entry->count; i++) {
        hr_call_item *item = &call->items[entry->first + i];
        bool peek = item->op == HIRATE_OP_PEEK;
        if (policy->kind == HIRATE_KIND_SLIDING_LOG) {
            hr_batch_walk(&walk, policy, item);
            set_oldest(&moment, found, &walk, &oldest);
        }
        if (peek)
            copy = moment;
        hr_decision decision = hr_decide_take(policy, peek ? &copy : &moment, item->cost);
        if (!peek) {
            hr_decide_keep(policy, &moment, now_us);
            if (remembers && decision.verdict == HIRATE_DENIED && decision.retry_after_ms != HIRATE_NEVER)
                note_denial(dispatch, call, entry, item, &decision);
        }
        answer_decided(dispatch, item, &decision, now_us);
    }
}

static void answer_entry(hr_dispatch *dispatch, hr_call *call, const hr_call_key *entry, const hr_script_found *found,
                         int64_t now_us)
{
    if (found->what == HR_FOUND_MOMENT) {
        decide_entry(dispatch, call, entry, found, now_us);
        return;
    }
    for (uint32_t i = 0; i < entry->count; i++) {
        hr_request *request = call->items[entry->first + i].request;
        hr_answer with = {.time_us = now_us, .text = FOREIGN};
        if (!request)
            continue;
        if (found->what == HR_FOUND_RESET) {
            with.source = HIRATE_SOURCE_REDIS;
            with.used = found->used;
            with.text = "";
        } else if (found->what == HR_FOUND_FOREIGN) {
            with.error = HIRATE_ESTATE;
        } else {
            with.error = HIRATE_EREDIS;
            with.text = REFUSED_HERE;
        }
        answer(dispatch, request, with);
    }
}

static hr_script_found next_found(hr_script_reply *reply, const hr_call *call, const hr_call_key *entry)
{
    return call->items[entry->first].op == HIRATE_OP_RESET ? hr_script_next_reset(reply)
                                                           : hr_script_next(reply, &entry->limit->policy, entry->runs);
}

/* Is every key's part something the script can have said? */
static bool reply_makes_sense(const hr_call *call, const hr_link_reply *reply, hr_script_reply *out)
{
    if (!reply->is_string || !hr_script_reply_begin(out, reply->data, reply->len, call->number))
        return false;
    hr_script_reply rest = *out;
    for (uint32_t i = 0; i < call->key_count; i++) {
        if (next_found(&rest, call, &call->keys[i]).what == HR_FOUND_INVALID)
            return false;
    }
    return hr_script_reply_ended(&rest);
}

static void decided(hr_dispatch *dispatch, hr_call *call, hr_script_reply reply)
{
    for (uint32_t i = 0; i < call->key_count; i++) {
        hr_script_found found = next_found(&reply, call, &call->keys[i]);
        answer_entry(dispatch, call, &call->keys[i], &found, reply.now_us);
    }
    hr_batch_finish(&dispatch->batch, call);
    if (call->how == HR_SCRIPT_BY_TEXT)
        dispatch->text_needed = false;
    clear_obstacle(dispatch);
    hr_backoff_reset(&dispatch->hold);
    hr_breaker_good(&dispatch->breaker);
    hr_link_good(dispatch->link);
}

/* --------------------------------------------------------------------------------------- what the link tells -- */

static void hold(hr_dispatch *dispatch)
{
    if (dispatch->now_us >= dispatch->hold_until_us)
        dispatch->hold_until_us =
            dispatch->now_us + hr_backoff_next(&dispatch->hold, hr_random_next(&dispatch->random));
}

static void refused(hr_dispatch *dispatch, hr_call *call, const hr_link_reply *reply)
{
    hr_refusal refusal = hr_refusal_of(reply->data, reply->len);
    size_t len = reply->len;
    const char *text = len ? hr_refusal_text(reply->data, &len) : NULL;

    if (refusal.action == HR_REFUSAL_LOAD && call->how == HR_SCRIPT_BY_SHA) {
        dispatch->text_needed = true;
        hr_batch_take_back(&dispatch->batch, call);
        return;
    }
    if (refusal.error != HIRATE_ESTATE)
        failed(dispatch, refusal.error);
    if (refusal.action == HR_REFUSAL_LOAD) /* the text did not help either */
        hold(dispatch);
    if (refusal.action == HR_REFUSAL_WAIT) {
        set_obstacle(dispatch, text, len);
        hold(dispatch);
        hr_batch_take_back(&dispatch->batch, call);
        return;
    }
    hr_answer with = {.error = refusal.error, .charge = refusal.charge, .text = REFUSED};
    if (len)
        with.reason = hr_reason_new(text, len);
    answer_call(dispatch, call, with);
    hr_reason_drop(with.reason);
    hr_batch_finish(&dispatch->batch, call);
    if (refusal.action == HR_REFUSAL_RECONNECT)
        hr_link_abandon(dispatch->link, HIRATE_ECONNECT, "the server refuses to decide");
}

static void call_ended(hr_dispatch *dispatch, const hr_call *call)
{
    dispatch->in_flight--;
    dispatch->room = true;
    if (call->how == HR_SCRIPT_BY_TEXT)
        dispatch->text_in_flight = false;
}

static void on_reply(void *arg, hr_link_call *link_call, const hr_link_reply *reply)
{
    hr_dispatch *dispatch = arg;
    hr_call *call = (hr_call *)link_call;
    hr_script_reply parts;

    dispatch->now_us = hr_link_now_us(dispatch->link);
    call_ended(dispatch, call);
    if (reply->is_error) {
        refused(dispatch, call, reply);
    } else if (reply_makes_sense(call, reply, &parts)) {
        decided(dispatch, call, parts);
    } else {
        failed(dispatch, HIRATE_EPROTOCOL);
        answer_call(dispatch, call,
                    (hr_answer){.error = HIRATE_EPROTOCOL, .charge = HIRATE_CHARGE_MAYBE, .text = NONSENSE});
        hr_batch_finish(&dispatch->batch, call);
        hr_link_abandon(dispatch->link, HIRATE_ECONNECT, NONSENSE);
    }
}

static void on_lost(void *arg, hr_link_call *link_call, bool written)
{
    hr_dispatch *dispatch = arg;
    hr_call *call = (hr_call *)link_call;

    dispatch->now_us = hr_link_now_us(dispatch->link);
    call_ended(dispatch, call);
    if (!written && !dispatch->closed) {
        hr_batch_take_back(&dispatch->batch, call);
        return;
    }
    dispatch->losing = true; /* the link does not know yet */
    answer_call(dispatch, call, (hr_answer){.error = HIRATE_ELOST, .charge = HIRATE_CHARGE_MAYBE, .text = LOST});
    dispatch->losing = false;
    hr_batch_finish(&dispatch->batch, call);
}

static void on_up(void *arg)
{
    hr_dispatch *dispatch = arg;
    dispatch->now_us = hr_link_now_us(dispatch->link);
    dispatch->stats.connects++;
    dispatch->text_needed = false; /* perhaps another server: ask by SHA1 first */
    dispatch->room = true;
    hr_breaker_probe_now(&dispatch->breaker, dispatch->now_us);
    clear_obstacle(dispatch);
}

/* The server will not have us: say so to everything that waits, instead of at its deadline. */
static void answer_waiting(hr_dispatch *dispatch, int error)
{
    hr_answer with = {.error = error, .text = NOT_CONNECTED, .reason = dispatch->obstacle};
    while (dispatch->batch.first)
        answer(dispatch, dispatch->batch.first->first, with);
}

static void on_down(void *arg, int error, const char *reason)
{
    hr_dispatch *dispatch = arg;
    char text[HIRATE_REASON_MAX + 1];
    static const char CONNECT[] = "no connection to Redis: ";

    dispatch->now_us = hr_link_now_us(dispatch->link);
    size_t head = error == HIRATE_ECONNECT ? sizeof CONNECT - 1 : 0, len = strlen(reason);
    if (len > HIRATE_REASON_MAX - head)
        len = HIRATE_REASON_MAX - head;
    memcpy(text, CONNECT, head);
    memcpy(text + head, reason, len);
    set_obstacle(dispatch, text, head + len);
    failed(dispatch, error);
    if (error != HIRATE_ECONNECT)
        answer_waiting(dispatch, error);
}

/* --------------------------------------------------------------------------------------------------- sending -- */

static bool call_would_be_full(const hr_dispatch *dispatch)
{
    return dispatch->batch.ready >= dispatch->batch.key_most || dispatch->batch.waiting >= dispatch->batch.item_most;
}

/* What waits is mostly for distinct keys: gathering longer would not make a call decide more for each key. */
static bool keys_are_distinct(const hr_dispatch *dispatch)
{
    return 4 * (uint64_t)dispatch->batch.waiting < 5 * (uint64_t)dispatch->batch.ready;
}

static bool may_send(const hr_dispatch *dispatch)
{
    if (!dispatch->batch.ready || dispatch->text_in_flight || dispatch->in_flight >= dispatch->call_most)
        return false;
    if (dispatch->text_needed || dispatch->in_flight == 0)
        return true;
    if (dispatch->in_flight < CALLS_GATHERING)
        return dispatch->room || call_would_be_full(dispatch);
    return call_would_be_full(dispatch) && keys_are_distinct(dispatch);
}

/* Form one call and give it to the link; false when that failed. */
static bool send_call(hr_dispatch *dispatch)
{
    enum hr_script_how how = dispatch->text_needed ? HR_SCRIPT_BY_TEXT : HR_SCRIPT_BY_SHA;
    hr_call *call = hr_batch_form(&dispatch->batch, how);
    if (!call)
        return false;
    int rc = hr_batch_encode(call, &dispatch->wire);
    if (!rc)
        rc = hr_link_send(dispatch->link, &call->link, dispatch->wire.command.data, dispatch->wire.command.len,
                          dispatch->now_us);
    if (rc == HIRATE_ENOMEM) { /* nothing was sent; waiting would not help */
        answer_call(dispatch, call, (hr_answer){.error = rc, .charge = HIRATE_CHARGE_NO, .text = NO_MEMORY});
        hr_batch_finish(&dispatch->batch, call);
        return false;
    }
    if (rc) {
        hr_batch_take_back(&dispatch->batch, call);
        return false;
    }
    call->sent_us = dispatch->now_us;
    dispatch->stats.calls++;
    dispatch->stats.call_acquires += call->item_count;
    dispatch->in_flight++;
    dispatch->text_in_flight = how == HR_SCRIPT_BY_TEXT;
    return true;
}

void hr_dispatch_flush(hr_dispatch *dispatch)
{
    if (dispatch->closed)
        return;
    if (hr_link_is_up(dispatch->link) && dispatch->now_us >= dispatch->hold_until_us) {
        while (may_send(dispatch) && send_call(dispatch))
            continue;
        dispatch->room = false;
    }
    hr_link_flush(dispatch->link, dispatch->now_us);
}

/* ------------------------------------------------------------------------------------------------ the client -- */

int hr_dispatch_init(hr_dispatch *dispatch, const hirate_options *options, const hirate_loop *loop,
                     hr_link_config *config, void (*settled)(void *arg), void (*wake)(void *arg), void *arg)
{
    /* The client's first member is the dispatch, so one argument serves both. */
    const hr_link_events events = {
        .reply = on_reply, .lost = on_lost, .up = on_up, .down = on_down, .settled = settled, .wake = wake};

    memset(dispatch, 0, sizeof *dispatch);
    dispatch->call_most = options->max_calls;
    dispatch->breaker.threshold = options->breaker_failures;
    dispatch->fallback.local_most = options->max_local_keys;
    dispatch->random = hr_hash_key_random().k0 | 1;
    int rc = hr_requests_init(&dispatch->requests, options->max_pending);
    if (!rc)
        rc = hr_limits_init(&dispatch->limits, options->prefix);
    if (!rc)
        rc = hr_batch_init(&dispatch->batch, &dispatch->limits, options);
    if (!rc)
        rc = hr_link_new(&dispatch->link, loop, config, &events, arg);
    return rc;
}

void hr_dispatch_free(hr_dispatch *dispatch)
{
    hr_link_free(dispatch->link);
    hr_batch_free(&dispatch->batch);
    hr_limits_free(&dispatch->limits);
    hr_requests_free(&dispatch->requests);
    hr_script_free(&dispatch->wire);
    hr_fallback_free(&dispatch->fallback);
    clear_obstacle(dispatch);
}

/* While the breaker is open: the answer that is given at once. */
static bool answer_from_breaker(hr_dispatch *dispatch, const hirate_request *from, const hr_limit *limit, hr_answer *with)
{
    if (!hr_breaker_is_open(&dispatch->breaker))
        return false;
    dispatch->now_us = hr_clock_now_us();
    if (hr_link_is_up(dispatch->link) &&
        hr_breaker_lets_through(&dispatch->breaker, dispatch->now_us, hr_random_next(&dispatch->random)))
        return false;
    *with = (hr_answer){.error = dispatch->last_failure, .text = BROKEN, .reason = dispatch->obstacle};
    if (from->op == HIRATE_OP_ACQUIRE)
        apply_on_failure(dispatch, limit, from->name, from->name_len, from->cost, with);
    return true;
}

static void accepted(hr_dispatch *dispatch, const hr_request *request, uint64_t *id)
{
    dispatch->stats.submitted++;
    if (request->limit->counters)
        request->limit->counters->stats.submitted++;
    if (id)
        *id = request->id;
}

int hr_dispatch_submit(hr_dispatch *dispatch, const hirate_request *from, int64_t deadline_ms, uint64_t *id,
                       hirate_error *error)
{
    hr_limit *limit;
    int rc = hr_limits_use(&dispatch->limits, from->limit, &limit, error);
    if (rc)
        return rc == HIRATE_ENOMEM ? hr_fail(error, rc, "no memory for the limit") : rc;

    hr_request *request = hr_requests_get(&dispatch->requests);
    if (!request) {
        hr_limits_done(&dispatch->limits, limit);
        return hr_fail(error, HIRATE_ENOMEM, "no memory for the request");
    }
    request->limit = limit;
    request->cb = from->cb;
    request->user = from->user;
    request->cost = from->cost;
    request->op = (uint8_t)from->op;
    hr_answer known;
    if (answer_from_denial(dispatch, from, limit, &known) || answer_from_breaker(dispatch, from, limit, &known)) {
        hr_requests_answer_new(&dispatch->requests, request, &known);
        accepted(dispatch, request, id);
        return 0;
    }
    rc = hr_deadlines_add(&dispatch->requests.deadlines, &request->deadline, deadline_ms);
    if (!rc) {
        rc = hr_batch_add(&dispatch->batch, request, from->name, from->name_len);
        if (rc)
            hr_deadlines_remove(&dispatch->requests.deadlines, &request->deadline);
    }
    if (rc) {
        hr_requests_put(&dispatch->requests, request);
        hr_limits_done(&dispatch->limits, limit);
        return hr_fail(error, rc, "no memory for the request");
    }
    accepted(dispatch, request, id);
    return 0;
}

int hr_dispatch_cancel(hr_dispatch *dispatch, uint64_t id)
{
    hr_request *request = hr_requests_find(&dispatch->requests, id);
    if (!request || request->state == HR_REQUEST_DONE)
        return HIRATE_ENOENT;
    answer_error(dispatch, request, HIRATE_ECANCELED, CANCELED);
    return 0;
}

static hr_request *first_due(const hr_dispatch *dispatch)
{
    hr_deadline *first = hr_deadlines_first(&dispatch->requests.deadlines);
    return first && first->at_ms * 1000 <= dispatch->now_us ? (hr_request *)first : NULL;
}

void hr_dispatch_tick(hr_dispatch *dispatch)
{
    if (dispatch->closed)
        return;
    if (first_due(dispatch)) /* an answer that has arrived wins over its deadline */
        hr_link_read_arrived(dispatch->link, dispatch->now_us);
    bool unanswered = false;
    for (hr_request *request; (request = first_due(dispatch)) != NULL;) {
        unanswered |= request->state == HR_REQUEST_CALLED;
        answer_expired(dispatch, request);
    }
    if (unanswered)
        failed(dispatch, HIRATE_EDEADLINE);
    hr_link_tick(dispatch->link, dispatch->now_us);
}

int64_t hr_dispatch_due_us(const hr_dispatch *dispatch)
{
    if (dispatch->closed)
        return HR_CLOCK_FAR;
    int64_t due = hr_link_due_us(dispatch->link);
    const hr_deadline *first = hr_deadlines_first(&dispatch->requests.deadlines);
    if (first && first->at_ms * 1000 < due)
        due = first->at_ms * 1000;
    if (dispatch->batch.ready && dispatch->hold_until_us > dispatch->now_us && dispatch->hold_until_us < due)
        due = dispatch->hold_until_us;
    return due;
}

void hr_dispatch_close(hr_dispatch *dispatch)
{
    dispatch->closed = true;
    for (hr_deadline *first; (first = hr_deadlines_first(&dispatch->requests.deadlines)) != NULL;)
        answer_error(dispatch, (hr_request *)first, HIRATE_ECLOSED, CLOSED);
    hr_link_free(dispatch->link);
    dispatch->link = NULL;
}
