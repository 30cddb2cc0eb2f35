/* SPDX-License-Identifier: BSD-3-Clause */
/* request: when what waits is sent, and what each outcome means for it; see dispatch.h. */
#include "dispatch.h"

#include "answers.h"
#include "clock.h"
#include "refusal.h"
#include "verdicts.h"

#include <string.h>

/* With so many calls in flight the server has one to go on with while we go through the answers of the other; and what
 * waits meanwhile gathers by key, so fewer in flight make each decide more. Where keys are distinct there is nothing to
 * gather: the window is max_calls. See docs/benchmarks.md. */
#define CALLS_GATHERING 2

/* While keys repeat, a call takes this part of those that are ready. A key in flight cannot gather into its call any
 * more: the smaller the part of them in flight, the more each gathers, and the more one read and one write decide. */
#define CALL_KEYS_PART 16

/* But at least as many as keep the server busy for a round trip, until the call after the next gets there, or for as long
 * as the host's loop left it idle just now; and so many that what a call costs beside its keys is not felt. See
 * docs/benchmarks.md. */
#define KEY_US          3 /* a server takes about so long for a key */
#define CALL_KEYS_LEAST 16

/* How long a round trip is, is seen from calls that were alone, of not more keys than this. */
#define SMALL_CALL_KEYS 4

/* Why, where the reason is always the same. */
static const char CANCELED[] = "canceled";
static const char CLOSED[] = "the client was closed";
static const char LATE[] = "no answer within the deadline";
static const char NOT_SENT[] = "not sent within the deadline";
static const char NOT_CONNECTED[] = "no connection to Redis within the deadline";
static const char LOST[] = "the connection ended before the answer";
static const char NONSENSE[] = "the server's reply is not an answer of this library's script";
static const char REFUSED[] = "the server answered with an error";
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

static void answer_expired(hr_dispatch *dispatch, hr_request *request)
{
    if (request->state == HR_REQUEST_CALLED) {
        hr_answer_error(dispatch, request, HIRATE_EDEADLINE, LATE);
        return;
    }
    hr_answer with = {.error = HIRATE_EDEADLINE, .text = NOT_SENT, .reason = dispatch->obstacle};
    if (!hr_link_is_up(dispatch->link)) {
        with.error = HIRATE_ECONNECT;
        with.text = NOT_CONNECTED;
    }
    hr_answer_with(dispatch, request, with);
}

/* ---------------------------------------------------------------------------------------------------- replies -- */

static void decided(hr_dispatch *dispatch, hr_call *call, hr_script_reply reply)
{
    hr_verdicts_answer(dispatch, call, reply);
    hr_batch_finish(&dispatch->batch, call);
    if (call->how == HR_SCRIPT_BY_TEXT)
        dispatch->text_needed = false;
    clear_obstacle(dispatch);
    hr_backoff_reset(&dispatch->pause);
    hr_breaker_good(&dispatch->breaker);
    hr_link_good(dispatch->link);
}

/* --------------------------------------------------------------------------------------- what the link tells -- */

static void pause_sending(hr_dispatch *dispatch)
{
    if (dispatch->now_us >= dispatch->pause_until_us)
        dispatch->pause_until_us =
            dispatch->now_us + hr_backoff_next(&dispatch->pause, hr_random_next(&dispatch->random));
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
        hr_answer_note_failure(dispatch, refusal.error);
    if (refusal.action == HR_REFUSAL_LOAD) /* the text did not help either */
        pause_sending(dispatch);
    if (refusal.action == HR_REFUSAL_WAIT) {
        set_obstacle(dispatch, text, len);
        pause_sending(dispatch);
        hr_batch_take_back(&dispatch->batch, call);
        return;
    }
    hr_answer with = {.error = refusal.error, .charge = refusal.charge, .text = REFUSED};
    if (len)
        with.reason = hr_reason_new(text, len);
    hr_answer_call(dispatch, call, with);
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

/* A shorter one is believed, a longer one little by little, as something may have delayed it. */
static void note_round_trip(hr_dispatch *dispatch, const hr_call *call)
{
    if (!call->alone || hr_call_keys(call) > SMALL_CALL_KEYS)
        return;
    const int64_t longer_us = dispatch->now_us - call->sent_us - dispatch->round_trip_us;
    dispatch->round_trip_us += longer_us < 0 ? longer_us : longer_us / 64;
}

static void on_reply(void *arg, hr_link_call *link_call, const hr_link_reply *reply)
{
    hr_dispatch *dispatch = arg;
    hr_call *call = (hr_call *)link_call;
    hr_script_reply parts;

    dispatch->now_us = hr_link_now_us(dispatch->link);
    call_ended(dispatch, call);
    note_round_trip(dispatch, call);
    if (dispatch->in_flight == 0)
        dispatch->late_us = dispatch->now_us - dispatch->last_sent_us - 2 * (int64_t)dispatch->last_keys * KEY_US;
    if (reply->is_error) {
        refused(dispatch, call, reply);
    } else if (hr_verdicts_check(call, reply, &parts)) {
        decided(dispatch, call, parts);
    } else {
        hr_answer_note_failure(dispatch, HIRATE_EPROTOCOL);
        hr_answer_call(dispatch, call,
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
    hr_answer_call(dispatch, call, (hr_answer){.error = HIRATE_ELOST, .charge = HIRATE_CHARGE_MAYBE, .text = LOST});
    dispatch->losing = false;
    hr_batch_finish(&dispatch->batch, call);
}

static void on_up(void *arg)
{
    hr_dispatch *dispatch = arg;
    dispatch->now_us = hr_link_now_us(dispatch->link);
    dispatch->stats.connects++;
    dispatch->text_needed = false; /* perhaps another server: ask by SHA1 first */
    dispatch->room = false;
    dispatch->round_trip_us = hr_link_round_trip_us(dispatch->link);
    hr_breaker_probe_now(&dispatch->breaker, dispatch->now_us);
    clear_obstacle(dispatch);
}

/* The server will not have us: say so to everything that waits, instead of at its deadline. */
static void answer_waiting(hr_dispatch *dispatch, int error)
{
    hr_answer with = {.error = error, .text = NOT_CONNECTED, .reason = dispatch->obstacle};
    while (dispatch->batch.first)
        hr_answer_with(dispatch, dispatch->batch.first->first->request, with);
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
    hr_answer_note_failure(dispatch, error);
    if (error != HIRATE_ECONNECT)
        answer_waiting(dispatch, error);
}

/* --------------------------------------------------------------------------------------------------- sending -- */

/* What waits is mostly for distinct keys: gathering longer would not make a call decide more for each key. */
static bool keys_are_distinct(const hr_dispatch *dispatch)
{
    return 8 * (uint64_t)dispatch->batch.repeated < dispatch->batch.ready;
}

static uint32_t clamp(int64_t value, uint32_t least, uint32_t most)
{
    if (value > most)
        return most;
    return value > least ? (uint32_t)value : least;
}

/* How many the next call takes. */
static uint32_t call_keys(const hr_dispatch *dispatch)
{
    const uint32_t ready = dispatch->batch.ready, most = dispatch->batch.key_most;
    const uint32_t least = CALL_KEYS_LEAST < most ? CALL_KEYS_LEAST : most;

    if (dispatch->call_most == 1 || keys_are_distinct(dispatch))
        return most;
    if (dispatch->from_idle) /* all goes at once, in two calls */
        return clamp(dispatch->in_flight ? ready : (ready + 1) / 2, least, most);
    const int64_t away_us = dispatch->late_us > dispatch->round_trip_us ? dispatch->late_us : dispatch->round_trip_us;
    return clamp(ready / CALL_KEYS_PART, clamp(away_us / KEY_US, least, most), most);
}

static bool call_would_be_full(const hr_dispatch *dispatch)
{
    return dispatch->batch.ready >= call_keys(dispatch) || dispatch->batch.waiting >= dispatch->batch.item_most;
}

static bool may_send(const hr_dispatch *dispatch)
{
    if (!dispatch->batch.ready || dispatch->text_in_flight || dispatch->in_flight >= dispatch->call_most)
        return false;
    if (dispatch->in_flight == 0)
        return true;
    if (dispatch->text_needed)
        return false; /* the calls that were sent without it are about to be refused, and go first */
    if (dispatch->in_flight < CALLS_GATHERING)
        return dispatch->room || dispatch->from_idle || call_would_be_full(dispatch);
    return call_would_be_full(dispatch) && keys_are_distinct(dispatch);
}

/* Form one call and give it to the link; false when that failed. */
static bool send_call(hr_dispatch *dispatch)
{
    enum hr_script_how how = dispatch->text_needed ? HR_SCRIPT_BY_TEXT : HR_SCRIPT_BY_SHA;
    hr_call *call = hr_batch_form(&dispatch->batch, how, call_keys(dispatch));
    if (!call)
        return false;
    int rc = hr_call_encode(call, &dispatch->wire);
    if (!rc)
        rc = hr_link_send(dispatch->link, &call->link, dispatch->wire.command.data, dispatch->wire.command.len,
                          dispatch->now_us);
    if (rc == HIRATE_ENOMEM) { /* nothing was sent; waiting would not help */
        hr_answer_call(dispatch, call, (hr_answer){.error = rc, .charge = HIRATE_CHARGE_NO, .text = NO_MEMORY});
        hr_batch_finish(&dispatch->batch, call);
        return false;
    }
    if (rc) {
        hr_batch_take_back(&dispatch->batch, call);
        return false;
    }
    call->sent_us = dispatch->now_us;
    call->alone = dispatch->in_flight == 0;
    dispatch->last_sent_us = dispatch->now_us;
    dispatch->last_keys = hr_call_keys(call);
    dispatch->stats.calls++;
    dispatch->stats.call_acquires += hr_call_requests(call);
    dispatch->in_flight++;
    dispatch->text_in_flight = how == HR_SCRIPT_BY_TEXT;
    return true;
}

static bool can_send(const hr_dispatch *dispatch)
{
    return !dispatch->closed && hr_link_is_up(dispatch->link) && dispatch->now_us >= dispatch->pause_until_us;
}

static hr_request *first_due(const hr_dispatch *dispatch)
{
    hr_deadline *first = hr_deadlines_first(&dispatch->requests.deadlines);
    return first && first->at_ms * 1000 <= dispatch->now_us ? (hr_request *)first : NULL;
}

/* A call is written before the next is formed. The server reads all that has arrived and answers it together. So calls
 * that arrive together come back together, and the server is idle while we go through their answers. */
static void send_one_by_one(hr_dispatch *dispatch, bool only_full)
{
    dispatch->from_idle = dispatch->in_flight == 0 && !dispatch->room;
    while (can_send(dispatch) && (!only_full || call_would_be_full(dispatch)) && may_send(dispatch) &&
           send_call(dispatch))
        hr_link_flush(dispatch->link, dispatch->now_us);
}

void hr_dispatch_flush_full(hr_dispatch *dispatch)
{
    if (!first_due(dispatch))
        send_one_by_one(dispatch, true);
}

void hr_dispatch_flush(hr_dispatch *dispatch)
{
    if (dispatch->closed)
        return;
    send_one_by_one(dispatch, false);
    if (can_send(dispatch)) {
        dispatch->room = false;
        dispatch->late_us = 0;
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
    dispatch->deadline_ms = options->deadline_ms;
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

int hr_dispatch_enqueue(hr_dispatch *dispatch, hr_request *request, const hr_name *names, int64_t deadline_ms)
{
    int rc = hr_deadlines_add(&dispatch->requests.deadlines, &request->deadline, deadline_ms);
    if (rc)
        return rc;
    rc = hr_batch_add(&dispatch->batch, request, names);
    if (rc)
        hr_deadlines_remove(&dispatch->requests.deadlines, &request->deadline);
    return rc;
}

int hr_dispatch_cancel(hr_dispatch *dispatch, uint64_t id)
{
    hr_request *request = hr_requests_find(&dispatch->requests, id);
    if (!request || request->state == HR_REQUEST_DONE)
        return HIRATE_ENOENT;
    hr_answer_error(dispatch, request, HIRATE_ECANCELED, CANCELED);
    return 0;
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
        hr_answer_note_failure(dispatch, HIRATE_EDEADLINE);
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
    if (dispatch->batch.ready && dispatch->pause_until_us > dispatch->now_us && dispatch->pause_until_us < due)
        due = dispatch->pause_until_us;
    return due;
}

/* Those of our own are put into the list *ours instead, without a deadline; `ours` NULL: answered too. */
static void answer_all(hr_dispatch *dispatch, hr_request **ours)
{
    for (hr_deadline *first; (first = hr_deadlines_first(&dispatch->requests.deadlines)) != NULL;) {
        hr_request *request = (hr_request *)first;
        if (request->cb || !ours) {
            hr_answer_error(dispatch, request, HIRATE_ECLOSED, CLOSED);
            continue;
        }
        hr_deadlines_remove(&dispatch->requests.deadlines, first);
        request->next = *ours;
        *ours = request;
    }
}

/* The callers' requests are answered; those of our own get as long as may be waited for them. */
static void begin_closing(hr_dispatch *dispatch)
{
    hr_request *ours = NULL, *next;

    dispatch->closing = true;
    answer_all(dispatch, &ours);
    for (; ours; ours = next) {
        next = ours->next;
        if (!hr_deadlines_add(&dispatch->requests.deadlines, &ours->deadline, dispatch->now_us / 1000 + HR_LINGER_MS))
            continue;
        hr_batch_remove(&dispatch->batch, ours);
        hr_requests_answer_new(&dispatch->requests, ours, &(hr_answer){.error = HIRATE_ENOMEM, .text = CLOSED});
    }
}

void hr_dispatch_close(hr_dispatch *dispatch, bool linger)
{
    if (!dispatch->closing)
        begin_closing(dispatch);
    if (linger && dispatch->own_pending && hr_link_is_up(dispatch->link))
        return;
    if (!linger)
        hr_dispatch_flush(dispatch); /* as far as the socket takes it */
    dispatch->closed = true;
    answer_all(dispatch, NULL);
    hr_link_free(dispatch->link);
    dispatch->link = NULL;
}
