/* SPDX-License-Identifier: BSD-3-Clause */
/* Cancelling, closing and freeing, at every awkward moment: each request is answered exactly once, and never inside the
 * call that submitted it. Refused calls have it_refused.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/server.h"
#include "support/threads.h"

#include <stdio.h>
#include <string.h>

static const hirate_limit LIMIT = HIRATE_TOKEN_BUCKET("life", 1000000, HIRATE_RATE(1, HIRATE_HOURS(1)));

enum { MANY = 300 };

static server *redis;
static answer answers[MANY];
static uint64_t ids[MANY];

static int start(void **state)
{
    (void)state;
    redis = server_start(&(server_options){.tcp = true});
    return 0;
}

static int stop(void **state)
{
    server_stop(redis);
    return threads_end(state);
}

static int clear(void **state)
{
    (void)state;
    server_ask(redis, "FLUSHALL");
    memset(answers, 0, sizeof answers);
    memset(ids, 0, sizeof ids);
    return 0;
}

static void submit_all(driver *d, size_t n, answer_fn *then)
{
    for (size_t i = 0; i < n; i++) {
        hirate_request request;
        char name[16];
        hirate_request_init(&request);
        request.limit = &LIMIT;
        request.name = name;
        request.name_len = (size_t)snprintf(name, sizeof name, "n%zu", i % 7);
        answers[i].then = then;
        assert_int_equal(driver_submit(d, &request, &answers[i], &ids[i]), 0);
        assert_true(ids[i] != 0);
    }
}

static void expect_each_once(const driver *d, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(answers[i].calls, 1);
    assert_int_equal(d->called, n);
    assert_int_equal(d->too_early, 0);
}

/* -------------------------------------------------------------------------------------------------- cancelling -- */

static void test_cancel_before_writing_is_not_charged(void **state)
{
    (void)state;
    driver d;
    answer after;
    driver_open(&d, server_uri(redis));
    submit_all(&d, MANY, NULL);
    for (size_t i = 0; i < MANY; i += 3)
        assert_int_equal(hirate_cancel(d.h, ids[i]), 0);
    assert_int_equal(d.called, 0);
    assert_true(driver_wait(&d, MANY));
    expect_each_once(&d, MANY);
    for (size_t i = 0; i < MANY; i++) {
        bool cancelled = i % 3 == 0;
        assert_int_equal(answers[i].result.id, ids[i]);
        assert_int_equal(answers[i].result.error, cancelled ? HIRATE_ECANCELED : HIRATE_OK);
        assert_int_equal(answers[i].result.charge, cancelled ? HIRATE_CHARGE_NO : HIRATE_CHARGE_YES);
        assert_int_equal(answers[i].result.verdict, cancelled ? HIRATE_VERDICT_NONE : HIRATE_ALLOWED);
    }
    driver_ask(&d, &after, &LIMIT, "n0", 1);
    uint64_t taken = 0;
    for (size_t i = 0; i < MANY; i += 7)
        taken += i % 3 != 0;
    assert_int_equal(after.result.remaining, 1000000 - taken - 1);
    driver_close(&d);
}

static void test_cancel_after_writing_may_be_charged(void **state)
{
    (void)state;
    driver d;
    answer warm, after;
    driver_open(&d, server_uri(redis));
    driver_ask(&d, &warm, &LIMIT, "warm", 1);
    server_pause(redis);
    submit_all(&d, 7, NULL);
    driver_turn(&d, 0); /* written */
    assert_int_equal(hirate_cancel(d.h, ids[0]), 0);
    assert_int_equal(answers[0].calls, 0);
    assert_true(driver_wait(&d, 2));
    assert_int_equal(answers[0].calls, 1);
    assert_int_equal(answers[0].result.error, HIRATE_ECANCELED);
    assert_int_equal(answers[0].result.charge, HIRATE_CHARGE_MAYBE);
    server_resume(redis);
    assert_true(driver_wait(&d, 8));
    for (size_t i = 1; i < 7; i++)
        assert_int_equal(answers[i].result.verdict, HIRATE_ALLOWED);
    driver_ask(&d, &after, &LIMIT, "n0", 1);
    assert_int_equal(after.result.remaining, 999998); /* it was charged, and only once */
    assert_int_equal(answers[0].calls, 1);
    driver_close(&d);
}

static void test_cancel_stale_id_is_enoent(void **state)
{
    (void)state;
    driver d;
    driver_open(&d, server_uri(redis));
    assert_int_equal(hirate_cancel(d.h, 0), HIRATE_ENOENT);
    assert_int_equal(hirate_cancel(d.h, UINT64_MAX), HIRATE_ENOENT);
    submit_all(&d, 10, NULL);
    assert_int_equal(hirate_cancel(d.h, ids[3]), 0);
    assert_int_equal(hirate_cancel(d.h, ids[3]), HIRATE_ENOENT);
    assert_true(driver_wait(&d, 10));
    for (int i = 0; i < 10; i++)
        assert_int_equal(hirate_cancel(d.h, ids[i]), HIRATE_ENOENT);
    /* Their memory serves again, their ids do not. */
    for (int round = 0; round < 20; round++) {
        uint64_t old[10];
        memcpy(old, ids, sizeof old);
        memset(answers, 0, sizeof answers);
        size_t before = d.called;
        submit_all(&d, 10, NULL);
        for (int i = 0; i < 10; i++)
            assert_int_equal(hirate_cancel(d.h, old[i]), HIRATE_ENOENT);
        assert_true(driver_wait(&d, before + 10));
        for (int i = 0; i < 10; i++)
            assert_int_equal(answers[i].result.error, HIRATE_OK);
    }
    driver_close(&d);
}

static void cancel_all(driver *d, answer *a)
{
    assert_int_equal(hirate_cancel(d->h, a->result.id), HIRATE_ENOENT); /* this one is answered */
    for (size_t i = 0; i < MANY; i++)
        (void)hirate_cancel(d->h, ids[i]); /* 0 or HIRATE_ENOENT: it may have been decided */
}

static void test_cancel_from_a_callback_each_answered_once(void **state)
{
    (void)state;
    driver d;
    driver_open(&d, server_uri(redis));
    submit_all(&d, MANY, NULL);
    answers[MANY / 2].then = cancel_all;
    assert_true(driver_wait(&d, MANY));
    driver_run_for(&d, 20);
    expect_each_once(&d, MANY);
    driver_close(&d);
}

/* ----------------------------------------------------------------------------------------------------- closing -- */

static void close_here(driver *d, answer *a)
{
    (void)a;
    assert_int_equal(hirate_close(d->h, driver_on_closed, d), 0);
    assert_int_equal(hirate_close(d->h, driver_on_closed, d), HIRATE_ECLOSED);
    assert_int_equal(d->closed, 0);
}

static void free_here(driver *d, answer *a)
{
    (void)a;
    hirate_free(d->h);
    assert_int_equal(d->closed, 0);
}

static void close_and_submit_here(driver *d, answer *a)
{
    answer unused = {0};
    close_here(d, a);
    assert_int_equal(driver_acquire(d, &unused, &LIMIT, "too late", 1), HIRATE_ECLOSED);
}

/* `end` is run in callback number `at` of MANY; all the same each is answered once, by verdict or HIRATE_ECLOSED. */
static void ended_inside(answer_fn *end, size_t at, bool on_closed)
{
    driver d;
    clear(NULL);
    driver_open(&d, server_uri(redis));
    submit_all(&d, MANY, NULL);
    answers[at].then = end;
    int64_t patience = driver_now_ms() + DRIVER_PATIENCE_MS;
    while ((d.called < MANY || (on_closed && !d.closed)) && driver_now_ms() < patience)
        driver_turn(&d, 100);
    driver_run_for(&d, 20);
    expect_each_once(&d, MANY);
    assert_int_equal(d.closed, on_closed);
    for (size_t i = 0; i < MANY; i++)
        if (answers[i].result.error) {
            assert_int_equal(answers[i].result.error, HIRATE_ECLOSED);
            assert_int_equal(answers[i].result.verdict, HIRATE_VERDICT_NONE);
        }
    driver_free_loop(&d);
}

static void test_close_inside_callbacks_each_answered_once(void **state)
{
    (void)state;
    static const size_t places[] = {0, 1, MANY / 2, MANY - 2, MANY - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        ended_inside(close_here, places[i], true);
        ended_inside(close_and_submit_here, places[i], true);
        ended_inside(free_here, places[i], false);
    }
}

static void test_close_answers_what_is_pending_before_on_closed(void **state)
{
    (void)state;
    driver d;
    answer warm, unused = {0};
    driver_open(&d, server_uri(redis));
    driver_ask(&d, &warm, &LIMIT, "warm", 1);
    server_pause(redis);
    submit_all(&d, 50, NULL);
    driver_turn(&d, 0);
    int rc = hirate_close(d.h, driver_on_closed, &d);
    assert_int_equal(rc, 0);
    assert_int_equal(d.called, 1);
    assert_int_equal(d.closed, 0);
    assert_int_equal(driver_acquire(&d, &unused, &LIMIT, "closing", 1), HIRATE_ECLOSED);
    assert_int_equal(hirate_cancel(d.h, ids[0]) == 0, false);
    int64_t end = driver_now_ms() + DRIVER_PATIENCE_MS;
    while (!d.closed && driver_now_ms() < end)
        driver_turn(&d, 100);
    assert_int_equal(d.closed, 1);
    assert_int_equal(d.called, 51);
    for (size_t i = 0; i < 50; i++) {
        assert_int_equal(answers[i].calls, 1);
        assert_int_equal(answers[i].result.error, HIRATE_ECLOSED);
        assert_int_equal(answers[i].result.charge, HIRATE_CHARGE_MAYBE);
    }
    server_resume(redis);
    driver_free_loop(&d);
}

static void test_close_before_anything_was_written_charges_nothing(void **state)
{
    (void)state;
    driver d;
    driver_open(&d, server_uri(redis));
    submit_all(&d, 50, NULL);
    driver_close(&d);
    for (size_t i = 0; i < 50; i++) {
        assert_int_equal(answers[i].calls, 1);
        assert_int_equal(answers[i].result.error, HIRATE_ECLOSED);
        assert_int_equal(answers[i].result.charge, HIRATE_CHARGE_NO);
    }
    assert_int_equal(server_ask_int(redis, "DBSIZE"), 0);
}

/* At every stage of connecting: so many turns after the beginning. */
static void test_close_while_connecting_or_resolving_each_answered_once(void **state)
{
    (void)state;
    char uris[4][128];
    snprintf(uris[0], sizeof uris[0], "%s", server_uri(redis));
    snprintf(uris[1], sizeof uris[1], "%s", server_tcp_uri(redis, "127.0.0.1"));
    snprintf(uris[2], sizeof uris[2], "%s", server_tcp_uri(redis, "localhost"));
    snprintf(uris[3], sizeof uris[3], "redis://does-not-exist.invalid:6380");
    for (size_t u = 0; u < 4; u++)
        for (int turns = 0; turns < 8; turns++) {
            driver d;
            clear(NULL);
            driver_open(&d, uris[u]);
            submit_all(&d, 5, NULL);
            for (int i = 0; i < turns; i++)
                driver_turn(&d, i % 2);
            driver_close(&d);
            expect_each_once(&d, 5);
        }
}

static void test_close_again_or_null_is_refused(void **state)
{
    (void)state;
    driver d;
    assert_int_equal(hirate_close(NULL, NULL, NULL), HIRATE_EINVAL);
    driver_open(&d, server_uri(redis));
    assert_int_equal(hirate_close(d.h, driver_on_closed, &d), 0);
    assert_int_equal(hirate_close(d.h, NULL, NULL), HIRATE_ECLOSED);
    int64_t end = driver_now_ms() + DRIVER_PATIENCE_MS;
    while (!d.closed && driver_now_ms() < end)
        driver_turn(&d, 100);
    assert_int_equal(d.closed, 1);
    driver_free_loop(&d);
}

/* ----------------------------------------------------------------------------------------------------- freeing -- */

static void test_free_answers_everything_inside(void **state)
{
    (void)state;
    hirate_free(NULL);
    for (int turns = 0; turns < 6; turns++) { /* 0: the loop never ran */
        driver d;
        clear(NULL);
        driver_open(&d, server_uri(redis));
        if (turns > 3)
            server_pause(redis);
        submit_all(&d, MANY, NULL);
        for (int i = 0; i < turns; i++)
            driver_turn(&d, 1);
        hirate_free(d.h);
        server_resume(redis);
        expect_each_once(&d, MANY);
        if (turns == 0)
            for (size_t i = 0; i < MANY; i++) {
                assert_int_equal(answers[i].result.error, HIRATE_ECLOSED);
                assert_int_equal(answers[i].result.charge, HIRATE_CHARGE_NO);
            }
        driver_free_loop(&d);
    }
}

static void test_free_while_closing_runs_on_closed(void **state)
{
    (void)state;
    driver d;
    driver_open(&d, server_uri(redis));
    submit_all(&d, 20, NULL);
    assert_int_equal(hirate_close(d.h, driver_on_closed, &d), 0);
    hirate_free(d.h);
    assert_int_equal(d.closed, 1);
    expect_each_once(&d, 20);
    driver_free_loop(&d);
}

/* -------------------------------------------------------------------------------------------------- submitting -- */

static void submit_next(driver *d, answer *a)
{
    size_t i = (size_t)(a - answers) + 1;
    if (i == MANY)
        return;
    answers[i].then = submit_next;
    assert_int_equal(driver_acquire(d, &answers[i], &LIMIT, "chain", 1), 0);
    assert_int_equal(answers[i].calls, 0);
}

static void test_submit_from_callbacks_is_answered_later(void **state)
{
    (void)state;
    driver d;
    driver_open(&d, server_uri(redis));
    answers[0].then = submit_next;
    assert_int_equal(driver_acquire(&d, &answers[0], &LIMIT, "chain", 1), 0);
    assert_true(driver_wait(&d, MANY));
    expect_each_once(&d, MANY);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(answers[i].result.remaining, 999999 - i);
    driver_close(&d);
}

static void test_submit_limit_and_name_are_copied(void **state)
{
    (void)state;
    driver d;
    driver_open(&d, server_uri(redis));
    for (size_t i = 0; i < 50; i++) {
        char policy[16] = "copied", name[16];
        hirate_limit limit;
        hirate_limit_token_bucket(&limit, policy, 100 + i, (hirate_rate){1, 3600000000});
        snprintf(name, sizeof name, "n%zu", i);
        assert_int_equal(driver_acquire(&d, &answers[i], &limit, name, 1), 0);
        memset(policy, 'X', sizeof policy - 1);
        memset(name, 'Y', sizeof name - 1);
        memset(&limit, 0xff, sizeof limit);
    }
    assert_true(driver_wait(&d, 50));
    for (size_t i = 0; i < 50; i++) {
        assert_int_equal(answers[i].result.error, HIRATE_OK);
        assert_int_equal(answers[i].result.remaining, 99 + i);
        assert_string_equal(answers[i].policy, "copied");
    }
    assert_int_equal(server_ask_int(redis, "EXISTS hirate:copied:n49"), 1);
    driver_close(&d);
}

static void test_several_clients_share_a_loop(void **state)
{
    (void)state;
    enum { CLIENTS = 5 };
    driver d[CLIENTS];
    for (size_t c = 0; c < CLIENTS; c++) {
        hirate_options options;
        hirate_options_init(&options);
        options.uri = c % 2 ? server_uri(redis) : server_tcp_uri(redis, "127.0.0.1");
        options.deadline_ms = DRIVER_PATIENCE_MS / 2;
        driver_open_with(&d[c], &options, c ? &d[0] : NULL);
    }
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(driver_acquire(&d[i % CLIENTS], &answers[i], &LIMIT, "shared", 1), 0);
    for (size_t c = 0; c < CLIENTS; c++)
        assert_true(driver_wait(&d[c], MANY / CLIENTS));
    static bool seen[MANY];
    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < MANY; i++) { /* one bucket: no two got the same token */
        assert_int_equal(answers[i].calls, 1);
        size_t place = 999999 - answers[i].result.remaining;
        assert_true(place < MANY && !seen[place]);
        seen[place] = true;
    }
    for (size_t c = CLIENTS; c-- > 0;)
        driver_close(&d[c]);
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_cancel_before_writing_is_not_charged, clear),
        cmocka_unit_test_setup(test_cancel_after_writing_may_be_charged, clear),
        cmocka_unit_test_setup(test_cancel_stale_id_is_enoent, clear),
        cmocka_unit_test_setup(test_cancel_from_a_callback_each_answered_once, clear),
        cmocka_unit_test_setup(test_close_inside_callbacks_each_answered_once, clear),
        cmocka_unit_test_setup(test_close_answers_what_is_pending_before_on_closed, clear),
        cmocka_unit_test_setup(test_close_before_anything_was_written_charges_nothing, clear),
        cmocka_unit_test_setup(test_close_while_connecting_or_resolving_each_answered_once, clear),
        cmocka_unit_test_setup(test_close_again_or_null_is_refused, clear),
        cmocka_unit_test_setup(test_free_answers_everything_inside, clear),
        cmocka_unit_test_setup(test_free_while_closing_runs_on_closed, clear),
        cmocka_unit_test_setup(test_submit_from_callbacks_is_answered_later, clear),
        cmocka_unit_test_setup(test_submit_limit_and_name_are_copied, clear),
        cmocka_unit_test_setup(test_several_clients_share_a_loop, clear),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
