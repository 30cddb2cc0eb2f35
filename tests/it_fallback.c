/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What becomes of acquires that Redis cannot answer: each on_failure, the breaker and its probes, the counters.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/server.h"

#include <string.h>

#define DAILY HIRATE_RATE(1, HIRATE_DAYS(1))

static const hirate_limit ERROR = HIRATE_TOKEN_BUCKET("f-error", 10, DAILY);
static const hirate_limit OPEN = HIRATE_TOKEN_BUCKET_WITH("f-open", 10, DAILY, 0, HIRATE_FAIL_OPEN);
static const hirate_limit SHUT = HIRATE_TOKEN_BUCKET_WITH("f-closed", 10, DAILY, 0, HIRATE_FAIL_CLOSED);
static const hirate_limit HALF = HIRATE_TOKEN_BUCKET_WITH("f-local", 10, DAILY, 0, HIRATE_FAIL_LOCAL(1, 2));

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

static void open_client(driver *d, int64_t deadline_ms, uint32_t breaker_failures)
{
    hirate_options options;
    hirate_options_init(&options);
    options.uri = server_uri(redis);
    options.deadline_ms = deadline_ms;
    options.breaker_failures = breaker_failures;
    driver_open_with(d, &options, NULL);
}

/* A client that has been served once, and whose server is then gone. */
static void open_and_lose_server(driver *d)
{
    answer a;
    open_client(d, DRIVER_PATIENCE_MS / 2, 1000000);
    driver_ask(d, &a, &ERROR, "warm", 0);
    assert_int_equal(a.result.error, 0);
    server_kill(redis);
}

static void ask_within(driver *d, answer *a, const hirate_limit *limit, enum hirate_op op, uint64_t cost, int64_t ms)
{
    hirate_request request;
    size_t before = d->called;
    hirate_request_init(&request);
    request.op = op;
    request.limit = limit;
    request.name = "n";
    request.name_len = 1;
    request.cost = cost;
    request.deadline_ms = ms;
    memset(a, 0, sizeof *a);
    assert_int_equal(driver_submit(d, &request, a, NULL), 0);
    assert_true(driver_wait(d, before + 1));
    assert_int_equal(a->calls, 1);
}

static void close_and_restart(driver *d)
{
    driver_close(d);
    server_restart(redis);
}

static void test_failure_error_gives_no_verdict(void **state)
{
    (void)state;
    driver d;
    answer a;
    open_and_lose_server(&d);
    ask_within(&d, &a, &ERROR, HIRATE_OP_ACQUIRE, 1, 50);
    assert_int_equal(a.result.error, HIRATE_ECONNECT);
    assert_int_equal(a.result.verdict, HIRATE_VERDICT_NONE);
    assert_int_equal(a.result.source, HIRATE_SOURCE_NONE);
    assert_int_equal(a.result.cause, 0);
    close_and_restart(&d);
}

static void test_failure_open_allows_and_says_why(void **state)
{
    (void)state;
    driver d;
    answer a;
    open_and_lose_server(&d);
    for (int i = 0; i < 20; i++) {
        ask_within(&d, &a, &OPEN, HIRATE_OP_ACQUIRE, 10, 5);
        assert_int_equal(a.result.error, 0);
        assert_int_equal(a.result.verdict, HIRATE_ALLOWED);
        assert_int_equal(a.result.source, HIRATE_SOURCE_FAIL_OPEN);
        assert_int_equal(a.result.charge, HIRATE_CHARGE_NO);
        assert_int_equal(a.result.cause, HIRATE_ECONNECT);
        assert_int_equal(a.result.remaining, 0);
        assert_true(strlen(a.reason) > 0);
    }
    close_and_restart(&d);
}

static void test_failure_closed_denies_until_the_next_probe(void **state)
{
    (void)state;
    driver d;
    answer a;
    open_and_lose_server(&d);
    ask_within(&d, &a, &SHUT, HIRATE_OP_ACQUIRE, 1, 50);
    assert_int_equal(a.result.error, 0);
    assert_int_equal(a.result.verdict, HIRATE_DENIED);
    assert_int_equal(a.result.source, HIRATE_SOURCE_FAIL_CLOSED);
    assert_int_equal(a.result.cause, HIRATE_ECONNECT);
    assert_true(a.result.retry_after_ms >= 1 && a.result.retry_after_ms <= 1000);
    close_and_restart(&d);
}

static void test_failure_cost_above_capacity_is_never(void **state)
{
    (void)state;
    static const hirate_limit *const limits[] = {&OPEN, &SHUT, &HALF};
    driver d;
    answer a;
    open_and_lose_server(&d);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        ask_within(&d, &a, limits[i], HIRATE_OP_ACQUIRE, 11, 5);
        assert_int_equal(a.result.verdict, HIRATE_DENIED);
        assert_true(a.result.retry_after_ms == HIRATE_NEVER);
    }
    close_and_restart(&d);
}

static void test_failure_local_admits_its_share(void **state)
{
    (void)state;
    driver d;
    answer a;
    open_and_lose_server(&d);
    for (int i = 0; i < 8; i++) {
        ask_within(&d, &a, &HALF, HIRATE_OP_ACQUIRE, 1, 5);
        assert_int_equal(a.result.source, HIRATE_SOURCE_LOCAL);
        assert_int_equal(a.result.cause, HIRATE_ECONNECT);
        assert_int_equal(a.result.charge, HIRATE_CHARGE_NO);
        assert_int_equal(a.result.verdict, i < 5 ? HIRATE_ALLOWED : HIRATE_DENIED);
        assert_int_equal(a.result.remaining, i < 5 ? 4 - i : 0);
    }
    assert_true(a.result.retry_after_ms > 86400000 && a.result.retry_after_ms <= 2 * 86400000); /* half the rate */
    ask_within(&d, &a, &HALF, HIRATE_OP_ACQUIRE, 6, 5); /* above the share, not above the limit */
    assert_int_equal(a.result.verdict, HIRATE_DENIED);
    assert_true(a.result.retry_after_ms <= 1000);
    close_and_restart(&d);
}

typedef struct whole {
    hirate_limit_result limits[2];
    uint32_t count;
} whole;

static void keep_limits(driver *d, answer *a)
{
    whole *w = a->arg;
    (void)d;
    for (w->count = 0; w->count < 2 && hirate_result_limit(&a->result, w->count); w->count++)
        w->limits[w->count] = *hirate_result_limit(&a->result, w->count);
}

static void ask_both(driver *d, answer *a, whole *w, const hirate_limit *first, const hirate_limit *second,
                     uint64_t cost)
{
    hirate_pair more = {second, "b", 1};
    hirate_request request;
    size_t before = d->called;
    hirate_request_init(&request);
    request.limit = first;
    request.name = "b";
    request.name_len = 1;
    request.cost = cost;
    request.deadline_ms = 5;
    request.more = &more;
    request.more_count = 1;
    *a = (answer){.then = keep_limits, .arg = w};
    assert_int_equal(driver_submit(d, &request, a, NULL), 0);
    assert_true(driver_wait(d, before + 1));
    assert_int_equal(a->result.source, HIRATE_SOURCE_LOCAL);
    assert_int_equal(w->count, 2);
}

/* Of several, the one that bound is told, and each waits for itself. */
static void test_failure_local_of_several_is_as_each_share_says(void **state)
{
    static const hirate_limit wide = HIRATE_TOKEN_BUCKET_WITH("f-wide", 100, DAILY, 0, HIRATE_FAIL_LOCAL(1, 2));
    (void)state;
    driver d;
    answer a;
    whole w;
    open_and_lose_server(&d);
    ask_both(&d, &a, &w, &wide, &HALF, 4);
    assert_int_equal(a.result.verdict, HIRATE_ALLOWED);
    assert_int_equal(a.result.remaining, 1);
    assert_string_equal(a.policy, "f-local");
    ask_both(&d, &a, &w, &wide, &HALF, 2);
    assert_int_equal(a.result.verdict, HIRATE_DENIED);
    assert_string_equal(a.policy, "f-local");
    assert_int_equal(w.limits[0].verdict, HIRATE_ALLOWED);
    assert_int_equal(w.limits[0].retry_after_ms, 0);
    assert_true(w.limits[1].retry_after_ms == a.result.retry_after_ms && a.result.retry_after_ms > 86400000);
    ask_both(&d, &a, &w, &wide, &HALF, 6); /* above the share, not above the limit */
    assert_int_equal(a.result.verdict, HIRATE_DENIED);
    assert_true(w.limits[1].retry_after_ms == a.result.retry_after_ms && a.result.retry_after_ms <= 1000);
    close_and_restart(&d);
}

/* A wait that is known is not shortened by one that is until Redis is asked again. */
static void test_failure_local_of_several_waits_for_the_longest(void **state)
{
    static const hirate_limit wide = HIRATE_TOKEN_BUCKET_WITH("f-wide", 100, DAILY, 0, HIRATE_FAIL_LOCAL(1, 2));
    static const hirate_limit same = HIRATE_TOKEN_BUCKET_WITH("f-same", 100, DAILY, 0, HIRATE_FAIL_LOCAL(1, 2));
    (void)state;
    driver d;
    answer a;
    whole w;
    open_and_lose_server(&d);
    ask_both(&d, &a, &w, &wide, &same, 48);
    assert_int_equal(a.result.verdict, HIRATE_ALLOWED);
    ask_both(&d, &a, &w, &HALF, &wide, 6); /* above one share, more than is left of the other */
    assert_int_equal(a.result.verdict, HIRATE_DENIED);
    assert_true(w.limits[0].retry_after_ms <= 1000);
    assert_true(w.limits[1].retry_after_ms > 86400000);
    assert_true(a.result.retry_after_ms == w.limits[1].retry_after_ms);
    close_and_restart(&d);
}

static void test_failure_of_several_cost_above_one_capacity_names_that_limit(void **state)
{
    static const hirate_limit wide = HIRATE_TOKEN_BUCKET_WITH("f-wide", 100, DAILY, 0, HIRATE_FAIL_OPEN);
    const hirate_pair more = {&OPEN, "n", 1};
    (void)state;
    driver d;
    answer a = {.calls = 0};
    hirate_request request;
    open_and_lose_server(&d);
    size_t before = d.called;
    hirate_request_init(&request);
    request.limit = &wide;
    request.name = "n";
    request.name_len = 1;
    request.cost = 11;
    request.deadline_ms = 5;
    request.more = &more;
    request.more_count = 1;
    assert_int_equal(driver_submit(&d, &request, &a, NULL), 0);
    assert_true(driver_wait(&d, before + 1));
    assert_int_equal(a.result.verdict, HIRATE_DENIED);
    assert_true(a.result.retry_after_ms == HIRATE_NEVER);
    assert_string_equal(a.policy, "f-open");
    close_and_restart(&d);
}

static void test_failure_peek_and_reset_get_the_error(void **state)
{
    (void)state;
    driver d;
    answer a;
    open_and_lose_server(&d);
    ask_within(&d, &a, &OPEN, HIRATE_OP_PEEK, 1, 5);
    assert_int_equal(a.result.error, HIRATE_ECONNECT);
    ask_within(&d, &a, &OPEN, HIRATE_OP_RESET, 1, 5);
    assert_int_equal(a.result.error, HIRATE_ECONNECT);
    close_and_restart(&d);
}

static void test_failure_written_is_maybe_charged_all_the_same(void **state)
{
    (void)state;
    driver d;
    answer a;
    open_client(&d, DRIVER_PATIENCE_MS / 2, 1000000);
    driver_ask(&d, &a, &OPEN, "warm", 0);
    server_pause(redis);
    ask_within(&d, &a, &OPEN, HIRATE_OP_ACQUIRE, 1, 50);
    assert_int_equal(a.result.verdict, HIRATE_ALLOWED);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_MAYBE);
    assert_int_equal(a.result.cause, HIRATE_EDEADLINE);
    server_resume(redis);
    driver_close(&d);
}

static void test_failure_foreign_state_is_covered(void **state)
{
    (void)state;
    driver d;
    answer a;
    open_client(&d, DRIVER_PATIENCE_MS / 2, 5);
    server_ask(redis, "SET hirate:f-closed:n x");
    for (int i = 0; i < 10; i++) { /* one key's fault opens no breaker */
        ask_within(&d, &a, &SHUT, HIRATE_OP_ACQUIRE, 1, DRIVER_PATIENCE_MS / 2);
        assert_int_equal(a.result.verdict, HIRATE_DENIED);
        assert_int_equal(a.result.cause, HIRATE_ESTATE);
        driver_ask(&d, &a, &SHUT, "other", 0);
        assert_int_equal(a.result.source, HIRATE_SOURCE_REDIS);
    }
    server_ask(redis, "DEL hirate:f-closed:n");
    driver_close(&d);
}

static void test_failure_cancel_and_close_are_not_covered(void **state)
{
    (void)state;
    driver d;
    answer a = {0}, b = {0};
    hirate_request request;
    uint64_t id;
    open_and_lose_server(&d);
    hirate_request_init(&request);
    request.limit = &OPEN;
    assert_int_equal(driver_submit(&d, &request, &a, &id), 0);
    assert_int_equal(hirate_cancel(d.h, id), 0);
    assert_true(driver_wait(&d, d.called + 1));
    assert_int_equal(a.result.error, HIRATE_ECANCELED);
    assert_int_equal(driver_submit(&d, &request, &b, &id), 0);
    close_and_restart(&d);
    assert_int_equal(b.calls, 1);
    assert_int_equal(b.result.error, HIRATE_ECLOSED);
}

/* ------------------------------------------------------------------------------------------------ the breaker -- */

static void test_breaker_open_answers_at_once_and_recovers(void **state)
{
    (void)state;
    driver d;
    answer a;
    open_client(&d, DRIVER_PATIENCE_MS / 2, 3);
    driver_ask(&d, &a, &OPEN, "warm", 0);
    server_kill(redis);
    driver_run_for(&d, 1000); /* the attempts to connect fail, and count */
    for (int i = 0; i < 50; i++) { /* by its deadline it would take half a minute each */
        ask_within(&d, &a, &OPEN, HIRATE_OP_ACQUIRE, 1, 0);
        assert_int_equal(a.result.source, HIRATE_SOURCE_FAIL_OPEN);
        assert_true(a.at_ms - a.submitted_ms < DRIVER_PATIENCE_MS / 4);
    }
    ask_within(&d, &a, &ERROR, HIRATE_OP_ACQUIRE, 1, 0);
    assert_int_equal(a.result.error, HIRATE_ECONNECT);
    server_restart(redis);
    int64_t end = driver_now_ms() + DRIVER_PATIENCE_MS;
    do {
        driver_run_for(&d, 20);
        ask_within(&d, &a, &OPEN, HIRATE_OP_ACQUIRE, 1, 0);
    } while (a.result.source != HIRATE_SOURCE_REDIS && driver_now_ms() < end);
    assert_int_equal(a.result.source, HIRATE_SOURCE_REDIS);
    for (int i = 0; i < 5; i++) { /* closed again: everything is asked */
        ask_within(&d, &a, &SHUT, HIRATE_OP_ACQUIRE, 0, 0);
        assert_int_equal(a.result.source, HIRATE_SOURCE_REDIS);
    }
    driver_close(&d);
}

static void test_breaker_open_on_a_standing_connection_probes(void **state)
{
    (void)state;
    driver d;
    answer a;
    open_client(&d, DRIVER_PATIENCE_MS / 2, 3);
    driver_ask(&d, &a, &SHUT, "warm", 1);
    assert_int_equal(a.result.source, HIRATE_SOURCE_REDIS);
    server_ask(redis, "CONFIG SET maxmemory 1");
    hirate_stats before, after;
    hirate_stats_init(&before);
    hirate_stats_init(&after);
    for (int i = 0; i < 3; i++) {
        driver_ask(&d, &a, &SHUT, "full", 1);
        assert_int_equal(a.result.cause, HIRATE_EREDIS);
    }
    hirate_get_stats(d.h, &before);
    for (int i = 0; i < 1000; i++) {
        driver_ask(&d, &a, &SHUT, "full", 1);
        assert_int_equal(a.result.source, HIRATE_SOURCE_FAIL_CLOSED);
        assert_int_equal(a.result.cause, HIRATE_EREDIS);
        assert_true(strstr(a.reason, "OOM") != NULL || strlen(a.reason) > 0);
    }
    hirate_get_stats(d.h, &after);
    assert_true(after.calls - before.calls < 500); /* probes only */
    assert_int_equal(after.connects, 1);
    server_ask(redis, "CONFIG SET maxmemory 0");
    int64_t end = driver_now_ms() + DRIVER_PATIENCE_MS;
    do {
        driver_run_for(&d, 20);
        driver_ask(&d, &a, &SHUT, "full", 1);
    } while (a.result.source != HIRATE_SOURCE_REDIS && driver_now_ms() < end);
    assert_int_equal(a.result.verdict, HIRATE_ALLOWED);
    assert_int_equal(a.result.remaining, 9); /* none of the refused was charged */
    driver_close(&d);
}

/* ----------------------------------------------------------------------------------------------- the counters -- */

static void test_policy_stats_count_by_source(void **state)
{
    (void)state;
    driver d;
    answer a;
    hirate_policy_stats s;
    server_ask(redis, "FLUSHALL");
    open_client(&d, DRIVER_PATIENCE_MS / 2, 1000000);
    hirate_policy_stats_init(&s);
    assert_int_equal(hirate_get_policy_stats(d.h, "f-open", &s), HIRATE_ENOENT);
    for (int i = 0; i < 12; i++)
        driver_ask(&d, &a, &OPEN, "n", 1);
    ask_within(&d, &a, &OPEN, HIRATE_OP_RESET, 0, 0);
    server_pause(redis);
    ask_within(&d, &a, &OPEN, HIRATE_OP_ACQUIRE, 1, 20);
    ask_within(&d, &a, &OPEN, HIRATE_OP_PEEK, 1, 20);
    assert_int_equal(hirate_get_policy_stats(d.h, "f-open", &s), 0);
    assert_int_equal(s.submitted, 15);
    assert_int_equal(s.allowed_redis, 10);
    assert_int_equal(s.denied_redis, 2);
    assert_int_equal(s.resets, 1);
    assert_int_equal(s.allowed_open, 1);
    assert_int_equal(s.maybe, 1);
    assert_int_equal(s.errors, 1);
    assert_int_equal(s.waiting, 0);
    server_resume(redis);
    driver_close(&d);
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failure_error_gives_no_verdict),
        cmocka_unit_test(test_failure_open_allows_and_says_why),
        cmocka_unit_test(test_failure_closed_denies_until_the_next_probe),
        cmocka_unit_test(test_failure_cost_above_capacity_is_never),
        cmocka_unit_test(test_failure_local_admits_its_share),
        cmocka_unit_test(test_failure_local_of_several_is_as_each_share_says),
        cmocka_unit_test(test_failure_local_of_several_waits_for_the_longest),
        cmocka_unit_test(test_failure_of_several_cost_above_one_capacity_names_that_limit),
        cmocka_unit_test(test_failure_peek_and_reset_get_the_error),
        cmocka_unit_test(test_failure_written_is_maybe_charged_all_the_same),
        cmocka_unit_test(test_failure_foreign_state_is_covered),
        cmocka_unit_test(test_failure_cancel_and_close_are_not_covered),
        cmocka_unit_test(test_breaker_open_answers_at_once_and_recovers),
        cmocka_unit_test(test_breaker_open_on_a_standing_connection_probes),
        cmocka_unit_test(test_policy_stats_count_by_source),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
