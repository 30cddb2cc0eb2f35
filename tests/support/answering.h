/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests: a dispatch without a connection: requests are submitted as a client does, a call is formed of them, and the test says
 * what the server replies, number by number. After the headers of cmocka.
 */
#ifndef TESTS_SUPPORT_ANSWERING_H
#define TESTS_SUPPORT_ANSWERING_H

#include "submit.h"
#include "verdicts.h"

#include <stdlib.h>
#include <string.h>

#define NOW INT64_C(1700000000000000) /* what the server's clock says, a whole second */

enum { NUMBERS_MOST = 400, ASKED_MOST = 64 };

typedef struct answering {
    hr_dispatch dispatch;
    hirate_loop loop; /* nothing is asked of it */
    hr_call *call;
    double numbers[NUMBERS_MOST]; /* of the reply */
    size_t count;
    uint64_t ids[ASKED_MOST]; /* of what was submitted since the last call */
    size_t asked;
} answering;

static inline void nothing(void *arg)
{
    (void)arg;
}

static inline answering *answering_new(void)
{
    answering *w = calloc(1, sizeof *w);
    hirate_options options;
    hr_link_config config = {.connect_timeout_us = 1000000, .stall_timeout_us = 1000000};

    assert_non_null(w);
    hirate_options_init(&options);
    options.prefix = "p";
    options.max_calls = 1;
    assert_int_equal(hr_dispatch_init(&w->dispatch, &options, &w->loop, &config, nothing, nothing, w), 0);
    w->dispatch.now_us = 5000000;
    return w;
}

/* Take the next answer, as the client does, but for the callback. The extra of *answered, if any, lives until let_go(). */
static inline bool next_answer(answering *w, hr_request *answered)
{
    hr_request *request = hr_requests_next_done(&w->dispatch.requests);

    if (!request)
        return false;
    *answered = *request;
    hr_requests_put(&w->dispatch.requests, request);
    return true;
}

static inline void let_go(answering *w, hr_request *answered)
{
    for (uint32_t i = 0; i < hr_request_tickets(answered); i++)
        hr_limits_done(&w->dispatch.limits, hr_request_ticket(answered, i)->limit);
    hr_batch_extra_free(&w->dispatch.batch, answered->extra);
    hr_reason_drop(answered->answer.reason);
}

/* With everything answered and delivered nothing is left. */
static inline void answering_free(answering *w)
{
    hr_request answered;

    while (next_answer(w, &answered))
        let_go(w, &answered);
    while (w->dispatch.batch.first) { /* what is to be given back */
        hr_request *own = w->dispatch.batch.first->first->request;
        assert_null(own->cb);
        hr_batch_remove(&w->dispatch.batch, own);
        hr_deadlines_remove(&w->dispatch.requests.deadlines, &own->deadline);
        let_go(w, own);
        hr_requests_put(&w->dispatch.requests, own);
    }
    assert_int_equal(w->dispatch.requests.pending, 0);
    assert_int_equal(w->dispatch.batch.waiting, 0);
    assert_int_equal(w->dispatch.batch.table.count, 0);
    assert_int_equal(w->dispatch.limits.idle, w->dispatch.limits.table.count);
    hr_dispatch_free(&w->dispatch);
    free(w);
}

/* -------------------------------------------------------------------------------------------------- requests -- */

static inline void unused_cb(hirate *h, const hirate_result *result, void *user)
{
    (void)h, (void)result, (void)user;
}

static inline hirate_request on(const hirate_limit *limit, uint64_t cost)
{
    hirate_request request;

    hirate_request_init(&request);
    request.limit = limit;
    request.name = "ann";
    request.name_len = 3;
    request.cost = cost;
    return request;
}

static inline void submit(answering *w, hirate_request *request)
{
    hirate_error error = {0, ""};

    request->cb = unused_cb;
    if (hr_submit(&w->dispatch, request, &w->ids[w->asked++], &error))
        fail_msg("%s", error.text);
}

static inline void ask(answering *w, enum hirate_op op, const hirate_limit *limit, uint64_t cost)
{
    hirate_request request = on(limit, cost);

    request.op = op;
    submit(w, &request);
}

static inline void ask_several(answering *w, enum hirate_op op, const hirate_limit *const *limits, size_t count,
                               uint64_t cost, uint64_t hold_us)
{
    hirate_request request = on(limits[0], cost);
    hirate_pair more[HIRATE_PAIRS_MAX];

    for (size_t i = 1; i < count; i++)
        more[i - 1] = (hirate_pair){limits[i], "ann", 3};
    request.op = op;
    request.more = more;
    request.more_count = count - 1;
    request.hold_us = hold_us;
    submit(w, &request);
}

static inline void ask_with(answering *w, enum hirate_op op, const char *permit, uint64_t amount)
{
    hirate_request request = on(NULL, amount);

    request.op = op;
    request.permit = permit;
    submit(w, &request);
}

/* --------------------------------------------------------------------------------------------------- replies -- */

/* One call of all that waits; the reply begins with the time and its number. */
static inline void form(answering *w)
{
    w->call = hr_batch_form(&w->dispatch.batch, HR_SCRIPT_BY_SHA, w->dispatch.batch.key_most);
    assert_non_null(w->call);
    assert_int_equal(w->dispatch.batch.waiting, 0);
    assert_int_equal(hr_call_encode(w->call, &w->dispatch.wire), 0);
    w->asked = 0;
    w->numbers[0] = (double)NOW;
    w->numbers[1] = w->call->number;
    w->count = 2;
}

static inline void say_numbers(answering *w, const double *numbers, size_t count)
{
    assert_true(w->count + count <= NUMBERS_MOST);
    memcpy(&w->numbers[w->count], numbers, count * sizeof *numbers);
    w->count += count;
}

#define SAY(w, ...)                                                                                                    \
    say_numbers((w), (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

/* What is found of a bucket. */
#define BUCKET(units) (units)
#define BUCKET_LAG(units, lag) -3, (units), (lag)

/* Exactly `len` bytes on the heap, so that a sanitizer sees what is read past them. */
static inline char *exactly(const void *bytes, size_t len)
{
    char *copy = malloc(len ? len : 1);

    assert_non_null(copy);
    if (len)
        memcpy(copy, bytes, len);
    return copy;
}

/* Is the call's reply one if it has the first `len` bytes of `numbers`? Then it is answered if `answers`, and over. */
static inline bool hear(answering *w, const double *numbers, size_t len, bool answers)
{
    char *bytes = exactly(numbers, len); /* tests run on little-endian machines */
    const hr_link_reply reply = {.is_string = true, .data = bytes, .len = len};
    hr_script_reply parts;
    bool ok = hr_verdicts_check(w->call, &reply, &parts);

    if (ok && answers) {
        hr_verdicts_answer(&w->dispatch, w->call, parts);
        hr_batch_finish(&w->dispatch.batch, w->call);
        w->call = NULL;
    }
    free(bytes);
    return ok;
}

/* The reply is what was said: answer. */
static inline void end_reply(answering *w)
{
    assert_true(hear(w, w->numbers, w->count * sizeof(double), true));
}

#endif
