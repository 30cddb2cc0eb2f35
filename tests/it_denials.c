/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remembered denials (HIRATE_LIMIT_CACHE_DENIALS): what is answered without asking, what is not, and that it is never
 * longer than Redis would deny.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/random.h"
#include "support/server.h"

#include <stdio.h>
#include <string.h>

#define CACHED HIRATE_LIMIT_CACHE_DENIALS

static const hirate_limit SLOW =
    HIRATE_TOKEN_BUCKET_WITH("slow", 10, HIRATE_RATE(1, HIRATE_HOURS(1)), CACHED, HIRATE_FAIL_ERROR);
static const hirate_limit SLOW_RAISED =
    HIRATE_TOKEN_BUCKET_WITH("slow", 20, HIRATE_RATE(1, HIRATE_HOURS(1)), CACHED, HIRATE_FAIL_ERROR);
static const hirate_limit FAST =
    HIRATE_TOKEN_BUCKET_WITH("fast", 3, HIRATE_RATE(1, HIRATE_MILLISECONDS(20)), CACHED, HIRATE_FAIL_ERROR);
/* Of every kind, so short that denials end all the time. (A quota's window is a fixed one; its edge is too far away.)
 */
static const hirate_limit SHORT[] = {
    HIRATE_TOKEN_BUCKET_WITH("short", 3, HIRATE_RATE(1, HIRATE_MILLISECONDS(20)), CACHED, HIRATE_FAIL_ERROR),
    HIRATE_LEAKY_BUCKET_WITH("short", 3, HIRATE_RATE(1, HIRATE_MILLISECONDS(20)), CACHED, HIRATE_FAIL_ERROR),
    HIRATE_FIXED_WINDOW_WITH("short", 3, HIRATE_MILLISECONDS(40), CACHED, HIRATE_FAIL_ERROR),
    HIRATE_SLIDING_LOG_WITH("short", 3, HIRATE_MILLISECONDS(40), CACHED, HIRATE_FAIL_ERROR),
    HIRATE_SLIDING_WINDOW_WITH("short", 3, HIRATE_MILLISECONDS(40), CACHED, HIRATE_FAIL_ERROR),
};
static const hirate_limit PLAIN = HIRATE_TOKEN_BUCKET("plain", 1, HIRATE_RATE(1, HIRATE_HOURS(1)));

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

static int clear(void **state)
{
    (void)state;
    server_ask(redis, "FLUSHALL");
    return 0;
}

static void open_client(driver *d)
{
    hirate_options options;
    hirate_options_init(&options);
    options.uri = server_uri(redis);
    options.deadline_ms = DRIVER_PATIENCE_MS / 2;
    driver_open_with(d, &options, NULL);
}

static uint64_t calls_of(const driver *d)
{
    hirate_stats stats;
    hirate_stats_init(&stats);
    hirate_get_stats(d->h, &stats);
    return stats.calls;
}

static void exhaust(driver *d, const hirate_limit *limit, const char *name)
{
    answer a;
    driver_ask(d, &a, limit, name, limit->capacity);
    assert_int_equal(a.result.verdict, HIRATE_ALLOWED);
    driver_ask(d, &a, limit, name, 1);
    assert_int_equal(a.result.verdict, HIRATE_DENIED);
    assert_int_equal(a.result.source, HIRATE_SOURCE_REDIS);
}

static void expect_cached(driver *d, const hirate_limit *limit, const char *name, uint64_t cost)
{
    answer a;
    driver_ask(d, &a, limit, name, cost);
    assert_int_equal(a.result.verdict, HIRATE_DENIED);
    assert_int_equal(a.result.source, HIRATE_SOURCE_CACHE);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_NO);
    assert_int_equal(a.result.time_us, 0);
    assert_true(a.result.retry_after_ms >= 1 && a.result.retry_after_ms <= 3600000);
}

static void expect_asked(driver *d, const hirate_limit *limit, const char *name, uint64_t cost)
{
    answer a;
    driver_ask(d, &a, limit, name, cost);
    assert_int_equal(a.result.error, 0);
    assert_int_equal(a.result.source, HIRATE_SOURCE_REDIS);
}

static void test_denials_flood_asks_redis_nothing(void **state)
{
    (void)state;
    driver d;
    open_client(&d);
    exhaust(&d, &SLOW, "flood");
    uint64_t before = calls_of(&d);
    int64_t commands = server_info(redis, "stats", "total_commands_processed");
    for (int i = 0; i < 1000; i++)
        expect_cached(&d, &SLOW, "flood", 1 + (uint64_t)(i % 10));
    assert_int_equal(calls_of(&d), before);
    /* The server's own count: only this test's question before was added. */
    assert_true(server_info(redis, "stats", "total_commands_processed") - commands <= 1);
    driver_close(&d);
}

static void test_denials_cover_only_what_was_denied(void **state)
{
    (void)state;
    driver d;
    answer a;
    open_client(&d);
    driver_ask(&d, &a, &SLOW, "n", 6);
    driver_ask(&d, &a, &SLOW, "n", 5); /* 4 left */
    assert_int_equal(a.result.verdict, HIRATE_DENIED);
    expect_cached(&d, &SLOW, "n", 5);
    expect_cached(&d, &SLOW, "n", 6);
    expect_asked(&d, &SLOW, "n", 4); /* a smaller cost */
    expect_asked(&d, &SLOW, "n", 0);
    expect_asked(&d, &SLOW, "m", 5);        /* another name */
    expect_asked(&d, &SLOW, "n", 11);       /* never, which is more than the denial says */
    expect_asked(&d, &SLOW_RAISED, "n", 5); /* another limit of the same name */
    driver_close(&d);
}

static void test_denials_of_a_plain_limit_are_not_remembered(void **state)
{
    (void)state;
    driver d;
    open_client(&d);
    exhaust(&d, &PLAIN, "n");
    for (int i = 0; i < 5; i++)
        expect_asked(&d, &PLAIN, "n", 1);
    driver_close(&d);
}

static void test_denials_peek_asks(void **state)
{
    (void)state;
    driver d;
    answer a = {0};
    open_client(&d);
    exhaust(&d, &SLOW, "n");
    size_t before = d.called;
    assert_int_equal(driver_peek(&d, &a, &SLOW, "n", 1), 0);
    assert_true(driver_wait(&d, before + 1));
    assert_int_equal(a.result.source, HIRATE_SOURCE_REDIS);
    driver_close(&d);
}

static void test_denials_reset_is_noticed_in_order(void **state)
{
    (void)state;
    driver d;
    answer denied = {0}, reset = {0}, after = {0};
    open_client(&d);
    exhaust(&d, &SLOW, "n");
    size_t before = d.called;
    /* In one turn: denied from memory, then the reset, then an acquire that must not be denied from memory. */
    assert_int_equal(driver_acquire(&d, &denied, &SLOW, "n", 1), 0);
    assert_int_equal(driver_reset(&d, &reset, &SLOW, "n"), 0);
    assert_int_equal(driver_acquire(&d, &after, &SLOW, "n", 1), 0);
    assert_true(driver_wait(&d, before + 3));
    assert_int_equal(denied.result.source, HIRATE_SOURCE_CACHE);
    assert_int_equal(reset.result.used, 1);
    assert_int_equal(after.result.verdict, HIRATE_ALLOWED);
    assert_int_equal(after.result.remaining, 9);
    expect_asked(&d, &SLOW, "n", 1);
    driver_close(&d);
}

static void test_denials_decided_before_a_reset_are_not_remembered(void **state)
{
    (void)state;
    driver d;
    answer full = {0}, denied = {0}, reset = {0};
    open_client(&d);
    driver_ask(&d, &full, &SLOW, "warm", 0);
    size_t before = d.called;
    memset(&full, 0, sizeof full);
    assert_int_equal(driver_acquire(&d, &full, &SLOW, "n", 10), 0);
    assert_int_equal(driver_acquire(&d, &denied, &SLOW, "n", 1), 0);
    assert_int_equal(driver_reset(&d, &reset, &SLOW, "n"), 0);
    assert_true(driver_wait(&d, before + 3));
    assert_int_equal(denied.result.verdict, HIRATE_DENIED);
    assert_int_equal(reset.result.used, 1);
    expect_asked(&d, &SLOW, "n", 1);
    driver_close(&d);
}

static void test_denials_end_in_time(void **state)
{
    (void)state;
    driver d;
    answer a;
    open_client(&d);
    /* Asked again and again while the bucket fills: once what the denial said has passed, Redis is asked, and allows.
     */
    for (int round = 0; round < (driver_slow() ? 5 : 25); round++) {
        char name[16];
        int64_t until_ms;
        snprintf(name, sizeof name, "t%d", round);
        driver_ask(&d, &a, &FAST, name, 3);
        driver_ask(&d, &a, &FAST, name, 3);
        until_ms = driver_now_ms() + a.result.retry_after_ms;
        while (a.result.verdict == HIRATE_DENIED && driver_now_ms() <= until_ms)
            driver_ask(&d, &a, &FAST, name, 3);
        driver_run_for(&d, 3); /* what Redis denied just before the end is remembered too */
        if (a.result.verdict == HIRATE_DENIED)
            driver_ask(&d, &a, &FAST, name, 3);
        assert_int_equal(a.result.source, HIRATE_SOURCE_REDIS);
        assert_int_equal(a.result.verdict, HIRATE_ALLOWED);
    }
    driver_close(&d);
}

/* Two clients, one with and one without memory, ask about the same names: whatever is denied from memory, Redis denies
 * at that moment too (a peek by the other client). Returns how many such denials were checked. */
static uint64_t check_against_redis(driver *d, driver *other, const hirate_limit *limit, rng *random)
{
    uint64_t checked = 0;
    for (int i = 0; i < (driver_slow() ? 300 : 3000); i++) {
        answer a, truth;
        char name[16];
        uint64_t cost = 1 + rng_upto(random, 2);
        snprintf(name, sizeof name, "r%d", (int)rng_upto(random, 4));
        driver_ask(d, &a, limit, name, cost);
        if (a.result.source != HIRATE_SOURCE_CACHE)
            continue;
        /* The answer was given before this question reaches Redis; so ask what the name had then, from what it has now:
         * the wait that Redis still sees, and the time since, make up at least what was promised. */
        int64_t asked_ms = a.submitted_ms; /* the denial was found then, however late it came */
        memset(&truth, 0, sizeof truth);
        size_t before = other->called;
        assert_int_equal(driver_peek(other, &truth, limit, name, cost), 0);
        assert_true(driver_wait(other, before + 1));
        int64_t passed_ms = driver_now_ms() - asked_ms + 1;
        int64_t still = truth.result.verdict == HIRATE_DENIED ? truth.result.retry_after_ms : 0;
        assert_true(still > 0 || passed_ms >= 1);
        /* Redis got this question a moment later, when a wait of a millisecond or two may be over. */
        if (passed_ms <= 1 && a.result.retry_after_ms >= 3) {
            assert_int_equal(truth.result.verdict, HIRATE_DENIED);
            checked++;
        }
    }
    return checked;
}

static void test_denials_never_deny_what_redis_would_allow(void **state)
{
    (void)state;
    driver d, other;
    rng random = rng_start(__func__);
    open_client(&d);
    open_client(&other);
    for (size_t i = 0; i < sizeof SHORT / sizeof SHORT[0]; i++) {
        server_ask(redis, "FLUSHALL");
        uint64_t checked = check_against_redis(&d, &other, &SHORT[i], &random);
        print_message("kind %u: %d denials from memory checked\n", (unsigned)SHORT[i].kind, (int)checked);
    }
    driver_close(&d);
    driver_close(&other);
}

/* Until the edge of a window that is far away, as long as the denial said. */
static void test_denials_of_every_kind_are_remembered_for_their_own_kind(void **state)
{
    (void)state;
    static const hirate_limit far[] = {
        HIRATE_LEAKY_BUCKET_WITH("far-lb", 3, HIRATE_RATE(1, HIRATE_HOURS(1)), CACHED, HIRATE_FAIL_ERROR),
        HIRATE_FIXED_WINDOW_WITH("far-fw", 3, HIRATE_DAYS(36500), CACHED, HIRATE_FAIL_ERROR),
        HIRATE_QUOTA_WITH("far-q", 3, HIRATE_PER_MONTH, 0, CACHED, HIRATE_FAIL_ERROR),
        HIRATE_SLIDING_LOG_WITH("far-sl", 3, HIRATE_DAYS(1), CACHED, HIRATE_FAIL_ERROR),
        HIRATE_SLIDING_WINDOW_WITH("far-sw", 3, HIRATE_DAYS(1), CACHED, HIRATE_FAIL_ERROR),
    };
    driver d;
    open_client(&d);
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        answer first, again;
        driver_ask(&d, &first, &far[i], "n", 2);
        driver_ask(&d, &first, &far[i], "n", 2);
        assert_int_equal(first.result.verdict, HIRATE_DENIED);
        assert_int_equal(first.result.source, HIRATE_SOURCE_REDIS);
        driver_ask(&d, &again, &far[i], "n", 3);
        assert_int_equal(again.result.verdict, HIRATE_DENIED);
        assert_int_equal(again.result.source, HIRATE_SOURCE_CACHE);
        assert_int_equal(again.result.remaining, 1);
        assert_true(again.result.retry_after_ms <= first.result.retry_after_ms);
        expect_asked(&d, &far[i], "n", 1);
        expect_asked(&d, &far[i], "n", 4); /* never */
    }
    driver_close(&d);
}

static void test_denials_beyond_the_bound_are_forgotten(void **state)
{
    (void)state;
    driver d;
    hirate_options options;
    answer a;
    hirate_options_init(&options);
    options.uri = server_uri(redis);
    options.deadline_ms = DRIVER_PATIENCE_MS / 2;
    options.max_denials = 8;
    driver_open_with(&d, &options, NULL);
    int cached = 0, names = 200;
    for (int i = 0; i < names; i++) {
        char name[16];
        snprintf(name, sizeof name, "b%d", i);
        exhaust(&d, &SLOW, name);
    }
    for (int i = 0; i < names; i++) {
        char name[16];
        snprintf(name, sizeof name, "b%d", i);
        driver_ask(&d, &a, &SLOW, name, 10);
        assert_int_equal(a.result.verdict, HIRATE_DENIED);
        cached += a.result.source == HIRATE_SOURCE_CACHE;
    }
    assert_true(cached <= names / 2);
    driver_close(&d);
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_denials_flood_asks_redis_nothing, clear),
        cmocka_unit_test_setup(test_denials_cover_only_what_was_denied, clear),
        cmocka_unit_test_setup(test_denials_of_a_plain_limit_are_not_remembered, clear),
        cmocka_unit_test_setup(test_denials_peek_asks, clear),
        cmocka_unit_test_setup(test_denials_reset_is_noticed_in_order, clear),
        cmocka_unit_test_setup(test_denials_decided_before_a_reset_are_not_remembered, clear),
        cmocka_unit_test_setup(test_denials_end_in_time, clear),
        cmocka_unit_test_setup(test_denials_never_deny_what_redis_would_allow, clear),
        cmocka_unit_test_setup(test_denials_of_every_kind_are_remembered_for_their_own_kind, clear),
        cmocka_unit_test_setup(test_denials_beyond_the_bound_are_forgotten, clear),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
