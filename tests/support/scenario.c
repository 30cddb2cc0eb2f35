/* SPDX-License-Identifier: BSD-3-Clause */
/* Test support: what every event loop has to carry (see scenario.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "driver.h"
#include "scenario.h"

#include <stdio.h>
#include <string.h>

static const hirate_limit LOGINS = HIRATE_TOKEN_BUCKET("login", 20, HIRATE_RATE(1, HIRATE_SECONDS(3)));
static const hirate_limit MANY = HIRATE_TOKEN_BUCKET("many", 3, HIRATE_RATE(1, HIRATE_DAYS(1)));

enum { REQUESTS = 4000, NAMES = 1000 };

typedef struct tally {
    size_t called, allowed, denied, errors, closed;
    int64_t retry_after_ms; /* of the last denial */
    int error;              /* the last one */
    hirate *close_me;       /* closed in the first callback */
} tally;

static void on_closed(void *user)
{
    tally *t = user;
    t->closed++;
}

static void on_answer(hirate *h, const hirate_result *result, void *user)
{
    tally *t = user;
    t->called++;
    t->allowed += result->verdict == HIRATE_ALLOWED;
    t->denied += result->verdict == HIRATE_DENIED;
    if (result->verdict == HIRATE_DENIED)
        t->retry_after_ms = result->retry_after_ms;
    t->errors += result->error != 0;
    if (result->error)
        t->error = result->error;
    if (t->close_me) {
        assert_ptr_equal(t->close_me, h);
        t->close_me = NULL;
        assert_int_equal(hirate_close(h, on_closed, t), 0);
    }
}

static hirate *open_client(const scenario *s, int64_t deadline_ms)
{
    hirate *h = NULL;
    hirate_options options;
    hirate_options_init(&options);
    options.uri = server_uri(s->redis);
    options.deadline_ms = deadline_ms;
    assert_int_equal(hirate_new(&h, &s->loop, &options), 0);
    return h;
}

static void run_until(const scenario *s, const size_t *count, size_t wanted)
{
    int64_t end = driver_now_ms() + DRIVER_PATIENCE_MS;
    while (*count < wanted && driver_now_ms() < end)
        s->turn(s->base);
    assert_int_equal(*count, wanted);
}

static void close_client(const scenario *s, hirate *h, tally *t)
{
    size_t called = t->called;
    assert_int_equal(hirate_close(h, on_closed, t), 0);
    assert_int_equal(t->closed, 0);
    run_until(s, &t->closed, 1);
    assert_int_equal(t->called, called);
}

static void submit_within(hirate *h, const hirate_limit *limit, const char *name, int64_t deadline_ms, tally *t)
{
    size_t called = t->called;
    hirate_request request;
    hirate_request_init(&request);
    request.limit = limit;
    request.name = name;
    request.name_len = strlen(name);
    request.deadline_ms = deadline_ms;
    request.cb = on_answer;
    request.user = t;
    assert_int_equal(hirate_submit(h, &request, NULL), 0);
    assert_int_equal(t->called, called);
}

static void submit(hirate *h, const hirate_limit *limit, const char *name, tally *t)
{
    submit_within(h, limit, name, 0, t);
}

void scenario_login(const scenario *s)
{
    tally t = {0};
    server_ask(s->redis, "FLUSHALL");
    hirate *h = open_client(s, DRIVER_PATIENCE_MS / 2);
    for (int i = 0; i < 21; i++)
        submit(h, &LOGINS, "203.0.113.7", &t);
    run_until(s, &t.called, 21);
    assert_int_equal(t.allowed, 20);
    assert_int_equal(t.denied, 1);
    assert_int_equal(t.retry_after_ms, 3000); /* submitted in one turn, decided at one moment */
    close_client(s, h, &t);
}

void scenario_thousand_names(const scenario *s)
{
    tally t = {0};
    server_ask(s->redis, "FLUSHALL");
    hirate *h = open_client(s, DRIVER_PATIENCE_MS / 2);
    size_t n = 0;
    while (n < REQUESTS) { /* some a turn */
        for (size_t i = 0; i < 700 && n < REQUESTS; i++, n++) {
            char name[16];
            snprintf(name, sizeof name, "n%zu", n % NAMES);
            submit(h, &MANY, name, &t);
        }
        s->turn(s->base);
    }
    run_until(s, &t.called, REQUESTS);
    assert_int_equal(t.allowed, 3 * NAMES);
    assert_int_equal(t.denied, REQUESTS - 3 * NAMES);
    close_client(s, h, &t);
}

void scenario_deadline(const scenario *s)
{
    tally t = {0};
    hirate *h = open_client(s, DRIVER_PATIENCE_MS / 2);
    submit(h, &MANY, "deadline", &t);
    run_until(s, &t.called, 1);
    server_pause(s->redis);
    int64_t begin = driver_now_ms();
    submit_within(h, &MANY, "deadline", 200, &t);
    run_until(s, &t.called, 2);
    assert_true(driver_now_ms() - begin >= 199);
    assert_int_equal(t.error, HIRATE_EDEADLINE);
    server_resume(s->redis);
    close_client(s, h, &t);
}

void scenario_reconnects(const scenario *s)
{
    tally t = {0};
    hirate *h = open_client(s, DRIVER_PATIENCE_MS / 2);
    size_t rounds = driver_slow() ? 3 : 20;
    for (size_t i = 0; i < rounds; i++) {
        submit(h, &MANY, "cut", &t);
        run_until(s, &t.called, i + 1);
        server_ask(s->redis, "CLIENT KILL TYPE normal SKIPME yes");
    }
    assert_true(t.allowed + t.denied > 0);
    close_client(s, h, &t);
}

void scenario_close_pending(const scenario *s)
{
    for (int inside = 0; inside < 2; inside++) {
        tally t = {0};
        hirate *h = open_client(s, DRIVER_PATIENCE_MS / 2);
        submit(h, &MANY, "close", &t);
        run_until(s, &t.called, 1);
        t.close_me = inside ? h : NULL;
        for (int i = 0; i < 100; i++)
            submit(h, &MANY, "close", &t);
        if (!inside)
            assert_int_equal(hirate_close(h, on_closed, &t), 0);
        run_until(s, &t.closed, 1);
        assert_int_equal(t.called, 101);
    }
}

void scenario_two_clients(const scenario *s)
{
    tally a = {0}, b = {0};
    server_ask(s->redis, "FLUSHALL");
    hirate *first = open_client(s, DRIVER_PATIENCE_MS / 2), *second = open_client(s, DRIVER_PATIENCE_MS / 2);
    for (int i = 0; i < 20; i++) {
        submit(first, &LOGINS, "both", &a);
        submit(second, &LOGINS, "both", &b);
    }
    run_until(s, &a.called, 20);
    run_until(s, &b.called, 20);
    assert_int_equal(a.allowed + b.allowed, 20);
    close_client(s, first, &a);
    submit(second, &MANY, "still there", &b);
    run_until(s, &b.called, 21);
    assert_int_equal(b.errors, 0);
    close_client(s, second, &b);
}

void scenario_run_all(const scenario *s)
{
    scenario_login(s);
    scenario_thousand_names(s);
    scenario_deadline(s);
    scenario_reconnects(s);
    scenario_close_pending(s);
    scenario_two_clients(s);
}
