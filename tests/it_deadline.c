/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deadlines: each acquire has its own, by the client's clock and never early; what comes late is dropped and touches
 * nobody else; what had come in time counts, however late the loop looks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/fakeserver.h"
#include "support/server.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const hirate_limit LIMIT = HIRATE_TOKEN_BUCKET("late", 1000, HIRATE_RATE(1, HIRATE_DAYS(1)));

static server *redis;

static int start(void **state)
{
    (void)state;
    redis = server_start(NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    server_stop(redis);
    return 0;
}

static void submit(driver *d, answer *a, const char *name, int64_t deadline_ms)
{
    hirate_request request;
    hirate_request_init(&request);
    request.limit = &LIMIT;
    request.name = name;
    request.name_len = strlen(name);
    request.deadline_ms = deadline_ms;
    assert_int_equal(driver_submit(d, &request, a, NULL), 0);
}

/* A client with patience: no stall timeout within a test. */
static void open_patient(driver *d, const char *uri)
{
    hirate_options options;
    hirate_options_init(&options);
    options.uri = uri;
    options.deadline_ms = DRIVER_PATIENCE_MS / 2;
    options.stall_timeout_ms = DRIVER_PATIENCE_MS;
    options.connect_timeout_ms = DRIVER_PATIENCE_MS;
    driver_open_with(d, &options, NULL);
}

static void expect_deadline(const answer *a, int64_t deadline_ms)
{
    assert_int_equal(a->calls, 1);
    assert_int_equal(a->result.error, HIRATE_EDEADLINE);
    assert_int_equal(a->result.verdict, HIRATE_VERDICT_NONE);
    assert_int_equal(a->result.source, HIRATE_SOURCE_NONE);
    assert_true(strlen(a->reason) > 0);
    assert_true(a->at_ms - a->submitted_ms >= deadline_ms - 1); /* both readings are rounded down */
}

static void test_deadline_each_has_its_own_and_none_is_early(void **state)
{
    (void)state;
    driver d;
    enum { N = 40 };
    answer a[N] = {0}, warm;
    open_patient(&d, server_uri(redis));
    driver_ask(&d, &warm, &LIMIT, "own", 1);
    server_pause(redis);
    for (int i = 0; i < N; i++)
        submit(&d, &a[i], "own", 20 * (1 + i * 7 % N)); /* in no order */
    assert_true(driver_wait(&d, 1 + N));
    for (int i = 0; i < N; i++)
        expect_deadline(&a[i], 20 * (1 + i * 7 % N));
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            if (i * 7 % N < k * 7 % N)
                assert_true(a[i].order < a[k].order);
    server_resume(redis);
    driver_close(&d);
}

static void test_deadline_written_is_maybe_charged(void **state)
{
    (void)state;
    driver d;
    answer warm, a = {0}, peek = {0};
    open_patient(&d, server_uri(redis));
    driver_ask(&d, &warm, &LIMIT, "maybe", 1);
    server_pause(redis);
    submit(&d, &a, "maybe", 100);
    assert_true(driver_wait(&d, 2));
    expect_deadline(&a, 100);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_MAYBE);
    server_resume(redis);
    /* It was, here: the server got to it after all. */
    assert_int_equal(driver_peek(&d, &peek, &LIMIT, "maybe", 0), 0);
    assert_true(driver_wait(&d, 3));
    assert_int_equal(peek.result.error, HIRATE_OK);
    assert_int_equal(peek.result.remaining, 998);
    assert_int_equal(a.calls, 1);
    driver_close(&d);
}

static void test_deadline_late_reply_leaves_neighbours_alone(void **state)
{
    (void)state;
    driver d;
    enum { N = 200 };
    static answer a[N];
    answer warm;
    memset(a, 0, sizeof a);
    open_patient(&d, server_uri(redis));
    driver_ask(&d, &warm, &LIMIT, "warm", 1);
    server_pause(redis);
    for (int i = 0; i < N; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i % 50);
        submit(&d, &a[i], name, i % 3 ? DRIVER_PATIENCE_MS / 2 : 100);
    }
    size_t hasty = (N + 2) / 3;
    assert_true(driver_wait(&d, 1 + hasty));
    server_resume(redis);
    assert_true(driver_wait(&d, 1 + N));
    driver_run_for(&d, 50);
    uint64_t least[50];
    for (int i = 0; i < 50; i++)
        least[i] = 1000;
    for (int i = 0; i < N; i++) {
        if (i % 3 == 0) {
            expect_deadline(&a[i], 100);
            continue;
        }
        assert_int_equal(a[i].calls, 1);
        assert_int_equal(a[i].result.error, HIRATE_OK);
        assert_int_equal(a[i].result.verdict, HIRATE_ALLOWED);
        assert_true(a[i].result.remaining < least[i % 50]); /* in order of submission */
        least[i % 50] = a[i].result.remaining;
    }
    assert_int_equal(d.called, 1 + N);
    hirate_stats stats;
    hirate_stats_init(&stats);
    hirate_get_stats(d.h, &stats);
    assert_int_equal(stats.connects, 1); /* nobody's deadline is a reason to drop the connection */
    assert_int_equal(stats.pending, 0);
    driver_close(&d);
}

static void test_deadline_waiting_for_its_turn_is_not_charged(void **state)
{
    (void)state;
    driver d;
    answer warm, first = {0}, behind[5] = {0}, after;
    hirate_options options;
    hirate_options_init(&options);
    options.uri = server_uri(redis);
    options.stall_timeout_ms = DRIVER_PATIENCE_MS;
    options.max_calls = 1;
    driver_open_with(&d, &options, NULL);
    driver_ask(&d, &warm, &LIMIT, "turn", 1);
    server_pause(redis);
    submit(&d, &first, "turn", 200);
    driver_turn(&d, 20);
    for (int i = 0; i < 5; i++)
        submit(&d, &behind[i], "turn", 200);
    assert_true(driver_wait(&d, 7));
    server_resume(redis);
    assert_int_equal(first.result.charge, HIRATE_CHARGE_MAYBE);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(behind[i].calls, 1);
        assert_true(behind[i].result.error < 0);
        assert_int_equal(behind[i].result.charge, HIRATE_CHARGE_NO);
    }
    driver_ask(&d, &after, &LIMIT, "turn", 1);
    assert_int_equal(after.result.error, HIRATE_OK);
    assert_int_equal(after.result.remaining, 997);
    driver_close(&d);
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* The reply lies in the socket and the deadline has passed when the loop comes back: the reply counts. */
static void test_deadline_reply_that_had_arrived_wins(void **state)
{
    (void)state;
    driver d;
    answer warm;
    open_patient(&d, server_uri(redis));
    driver_ask(&d, &warm, &LIMIT, "held", 1);
    for (uint64_t i = 0; i < 5; i++) {
        answer a = {0};
        int64_t executed = server_info(redis, "commandstats", "cmdstat_evalsha");
        submit(&d, &a, "held", 500);
        driver_turn(&d, 0); /* written */
        int64_t end = driver_now_ms() + DRIVER_PATIENCE_MS;
        while (server_info(redis, "commandstats", "cmdstat_evalsha") == executed && driver_now_ms() < end)
            sleep_ms(5);
        if (a.calls == 0)
            sleep_ms(1000); /* twice the deadline: something held the loop up */
        assert_true(driver_wait(&d, 2 + i));
        assert_int_equal(a.result.error, HIRATE_OK);
        assert_int_equal(a.result.verdict, HIRATE_ALLOWED);
        assert_int_equal(a.result.remaining, 998 - i);
    }
    driver_close(&d);
}

/* The same for the stall time-out: a loop that was held up is no server that stopped answering. */
static void test_stall_loop_held_up_keeps_the_connection(void **state)
{
    (void)state;
    driver d;
    answer warm, a = {0};
    hirate_options options;
    hirate_stats stats;
    hirate_options_init(&options);
    options.uri = server_uri(redis);
    options.deadline_ms = DRIVER_PATIENCE_MS / 2;
    options.stall_timeout_ms = 300;
    driver_open_with(&d, &options, NULL);
    driver_ask(&d, &warm, &LIMIT, "stalled", 1);
    submit(&d, &a, "stalled", DRIVER_PATIENCE_MS / 2);
    hirate_epoll_process(d.epoll); /* written; the answer comes while nobody looks */
    if (!a.calls) {
        sleep_ms(900);
        assert_true(driver_wait(&d, 2));
    }
    assert_int_equal(a.result.error, HIRATE_OK);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_YES);
    hirate_stats_init(&stats);
    hirate_get_stats(d.h, &stats);
    assert_int_equal(stats.connects, 1);
    driver_close(&d);
}

typedef struct held_back {
    atomic_bool release;
} held_back;

/* Relay everything; keep the answer to a script call back until released. */
static void hold_back(fake_conn *conn, void *arg)
{
    held_back *h = arg;
    bytes reply = {0};
    while (fake_read(conn)) {
        bytes_clear(&reply);
        if (!fake_relay(conn, &reply))
            break;
        while (fake_is_script(conn) && conn->scripts > 2 && !atomic_load(&h->release))
            sleep_ms(2);
        if (!fake_write(conn, reply.data, reply.len))
            break;
    }
    bytes_free(&reply);
}

/* A server that makes no progress at all is given up, and what was written there is never sent again. */
static void test_deadline_stalled_connection_is_replaced_and_nothing_sent_twice(void **state)
{
    (void)state;
    static held_back held; /* outlives a failing test, as its thread does */
    fakeserver *f =
        fakeserver_start(&(fakeserver_options){.upstream = server_path(redis), .script = hold_back, .arg = &held});
    driver d;
    answer warm, a = {0}, peek = {0};
    hirate_options options;
    hirate_options_init(&options);
    options.uri = fakeserver_uri(f);
    options.deadline_ms = DRIVER_PATIENCE_MS / 2;
    options.stall_timeout_ms = 300;
    driver_open_with(&d, &options, NULL);
    server_ask(redis, "SCRIPT FLUSH");
    driver_ask(&d, &warm, &LIMIT, "stall", 1); /* takes two calls: EVALSHA is refused first */
    assert_int_equal(warm.result.error, HIRATE_OK);
    submit(&d, &a, "stall", DRIVER_PATIENCE_MS / 2);
    assert_true(driver_wait(&d, 2));
    assert_int_equal(a.result.error, HIRATE_ELOST);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_MAYBE);
    atomic_store(&held.release, true);
    assert_int_equal(driver_peek(&d, &peek, &LIMIT, "stall", 0), 0);
    assert_true(driver_wait(&d, 3));
    assert_int_equal(peek.result.error, HIRATE_OK);
    assert_int_equal(peek.result.remaining, 998); /* charged once */
    assert_true(fakeserver_connections(f) >= 2);
    driver_close(&d);
    fakeserver_stop(f);
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stall_loop_held_up_keeps_the_connection),
        cmocka_unit_test(test_deadline_each_has_its_own_and_none_is_early),
        cmocka_unit_test(test_deadline_written_is_maybe_charged),
        cmocka_unit_test(test_deadline_late_reply_leaves_neighbours_alone),
        cmocka_unit_test(test_deadline_waiting_for_its_turn_is_not_charged),
        cmocka_unit_test(test_deadline_reply_that_had_arrived_wins),
        cmocka_unit_test(test_deadline_stalled_connection_is_replaced_and_nothing_sent_twice),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
