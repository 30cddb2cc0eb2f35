/* SPDX-License-Identifier: BSD-3-Clause */
/* A login guard, as in the README, on a real server whose clock is moved: who gets in, and when again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/server.h"

#include <string.h>

#define NOON INT64_C(1767268800000000)

static const hirate_limit LOGINS = HIRATE_TOKEN_BUCKET("login", 20, HIRATE_RATE(1, HIRATE_SECONDS(3)));

static server *redis;

static int start(void **state)
{
    (void)state;
    redis = server_start(&(server_options){.fake_clock = true});
    return 0;
}

static int stop(void **state)
{
    (void)state;
    server_stop(redis);
    return 0;
}

static void use_up(driver *d, const char *name)
{
    answer a;
    for (int i = 0; i < 20; i++) {
        driver_ask(d, &a, &LOGINS, name, 1);
        assert_int_equal(a.result.error, HIRATE_OK);
        assert_int_equal(a.result.verdict, HIRATE_ALLOWED);
        assert_int_equal(a.result.remaining, 19 - i);
        assert_int_equal(a.result.reset_ms, (i + 1) * 3000);
    }
}

static void test_login_twenty_first_is_denied_for_three_seconds(void **state)
{
    (void)state;
    driver d;
    answer a;
    driver_open(&d, server_uri(redis));
    server_set_clock(redis, NOON);
    use_up(&d, "203.0.113.7");
    driver_ask(&d, &a, &LOGINS, "203.0.113.7", 1);
    assert_int_equal(a.result.verdict, HIRATE_DENIED);
    assert_int_equal(a.result.remaining, 0);
    assert_int_equal(a.result.retry_after_ms, 3000);
    assert_int_equal(a.result.reset_ms, 60000);
    driver_close(&d);
}

static void test_login_one_passes_exactly_then_and_not_before(void **state)
{
    (void)state;
    static const struct {
        int64_t after_us;
        enum hirate_verdict verdict;
        int64_t retry_after_ms;
    } steps[] = {{2999000, HIRATE_DENIED, 1},    {2999999, HIRATE_DENIED, 1}, {3000000, HIRATE_ALLOWED, 0},
                 {3000000, HIRATE_DENIED, 3000}, {5999999, HIRATE_DENIED, 1}, {6000000, HIRATE_ALLOWED, 0}};
    driver d;
    answer a;
    driver_open(&d, server_uri(redis));
    server_set_clock(redis, NOON);
    use_up(&d, "waits");
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        server_set_clock(redis, NOON + steps[i].after_us);
        driver_ask(&d, &a, &LOGINS, "waits", 1);
        assert_int_equal(a.result.verdict, steps[i].verdict);
        assert_int_equal(a.result.retry_after_ms, steps[i].retry_after_ms);
        assert_int_equal(a.result.time_us, NOON + steps[i].after_us);
    }
    driver_close(&d);
}

static void test_login_result_tells_who_decided_and_what_was_taken(void **state)
{
    (void)state;
    driver d;
    answer a = {0}, b = {0}, c = {0};
    hirate_request request;
    uint64_t id = 0;
    driver_open(&d, server_uri(redis));
    server_set_clock(redis, NOON);
    hirate_request_init(&request);
    request.limit = &LOGINS;
    request.name = "fields";
    request.name_len = 6;
    request.cost = 15;
    assert_int_equal(driver_submit(&d, &request, &a, &id), 0);
    assert_int_equal(driver_acquire(&d, &b, &LOGINS, "fields", 6), 0);
    assert_int_equal(driver_acquire(&d, &c, &LOGINS, "fields", 0), 0);
    assert_true(driver_wait(&d, 3));

    assert_true(id != 0);
    assert_int_equal(a.result.id, id);
    assert_int_equal(a.result.op, HIRATE_OP_ACQUIRE);
    assert_int_equal(a.result.source, HIRATE_SOURCE_REDIS);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_YES);
    assert_int_equal(a.result.cost, 15);
    assert_int_equal(a.result.time_us, NOON);
    assert_int_equal(a.result.delay_ms, 0);
    assert_string_equal(a.policy, "login");
    assert_string_equal(a.reason, "");
    assert_true(a.result.struct_size >= sizeof(hirate_result));

    assert_int_equal(b.result.verdict, HIRATE_DENIED);
    assert_int_equal(b.result.charge, HIRATE_CHARGE_NO);
    assert_int_equal(b.result.source, HIRATE_SOURCE_REDIS);
    assert_int_equal(b.result.remaining, 5);
    assert_int_equal(b.result.retry_after_ms, 3000);
    assert_true(b.result.id != id);

    assert_int_equal(c.result.verdict, HIRATE_ALLOWED);
    assert_int_equal(c.result.charge, HIRATE_CHARGE_NO); /* a cost of 0 takes nothing */
    assert_int_equal(d.too_early, 0);
    driver_close(&d);
}

static void test_login_cost_above_capacity_is_never(void **state)
{
    (void)state;
    driver d;
    answer a;
    driver_open(&d, server_uri(redis));
    server_set_clock(redis, NOON);
    driver_ask(&d, &a, &LOGINS, "greedy", 21);
    assert_int_equal(a.result.verdict, HIRATE_DENIED);
    assert_true(a.result.retry_after_ms == HIRATE_NEVER);
    assert_int_equal(a.result.reset_ms, 0);
    assert_int_equal(server_ask_int(redis, "EXISTS hirate:login:greedy"), 0);
    driver_ask(&d, &a, &LOGINS, "greedy", HIRATE_COST_MAX);
    assert_true(a.result.retry_after_ms == HIRATE_NEVER);
    driver_close(&d);
}

static void test_login_peek_takes_nothing_and_reset_tells_use(void **state)
{
    (void)state;
    driver d;
    answer peek = {0}, acquire = {0}, again = {0}, reset = {0}, unused = {0}, fresh = {0};
    driver_open(&d, server_uri(redis));
    server_set_clock(redis, NOON);
    assert_int_equal(driver_peek(&d, &peek, &LOGINS, "ops", 20), 0);
    assert_int_equal(driver_acquire(&d, &acquire, &LOGINS, "ops", 5), 0);
    assert_int_equal(driver_peek(&d, &again, &LOGINS, "ops", 20), 0);
    assert_int_equal(driver_reset(&d, &reset, &LOGINS, "ops"), 0);
    assert_int_equal(driver_reset(&d, &unused, &LOGINS, "ops"), 0);
    assert_int_equal(driver_peek(&d, &fresh, &LOGINS, "ops", 1), 0);
    assert_true(driver_wait(&d, 6));
    assert_int_equal(peek.result.op, HIRATE_OP_PEEK);
    assert_int_equal(peek.result.verdict, HIRATE_ALLOWED);
    assert_int_equal(peek.result.charge, HIRATE_CHARGE_NO);
    assert_int_equal(acquire.result.remaining, 15);
    assert_int_equal(again.result.verdict, HIRATE_DENIED);
    assert_int_equal(again.result.retry_after_ms, 15000);
    assert_int_equal(again.result.remaining, 15);
    assert_int_equal(reset.result.op, HIRATE_OP_RESET);
    assert_int_equal(reset.result.verdict, HIRATE_VERDICT_NONE);
    assert_int_equal(reset.result.error, HIRATE_OK);
    assert_int_equal(reset.result.used, 1);
    assert_int_equal(unused.result.used, 0);
    assert_int_equal(fresh.result.verdict, HIRATE_ALLOWED);
    assert_int_equal(server_ask_int(redis, "EXISTS hirate:login:ops"), 0);
    driver_close(&d);
}

static void test_login_names_of_any_bytes_have_keys_of_their_own(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t len;
    } names[] = {{NULL, 0}, {"\0", 1}, {"\0\0", 2}, {"a:b", 3}, {"a\r\nb", 4}, {"\xff\xfe", 2}, {"{x}", 3}, {" ", 1}};
    enum { NAMES = sizeof names / sizeof *names };
    driver d;
    answer a[2 * NAMES] = {0};
    hirate_options options;
    hirate_options_init(&options);
    options.uri = server_uri(redis);
    options.prefix = "other.pre-fix_1";
    driver_open_with(&d, &options, NULL);
    server_set_clock(redis, NOON);
    for (size_t i = 0; i < 2 * NAMES; i++) {
        hirate_request request;
        hirate_request_init(&request);
        request.limit = &LOGINS;
        request.name = names[i % NAMES].name;
        request.name_len = names[i % NAMES].len;
        assert_int_equal(driver_submit(&d, &request, &a[i], NULL), 0);
    }
    assert_true(driver_wait(&d, 2 * NAMES));
    for (size_t i = 0; i < 2 * NAMES; i++)
        assert_int_equal(a[i].result.remaining, i < NAMES ? 19 : 18);
    for (size_t i = 0; i < NAMES; i++) {
        char key[64] = "other.pre-fix_1:login:";
        size_t len = strlen(key) + names[i].len;
        if (names[i].len)
            memcpy(key + strlen(key), names[i].name, names[i].len);
        const char *const argv[] = {"EXISTS", key};
        assert_string_equal(server_ask_args(redis, 2, argv, (const size_t[]){6, len}, NULL), "1");
    }
    driver_close(&d);
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_login_twenty_first_is_denied_for_three_seconds),
        cmocka_unit_test(test_login_one_passes_exactly_then_and_not_before),
        cmocka_unit_test(test_login_result_tells_who_decided_and_what_was_taken),
        cmocka_unit_test(test_login_cost_above_capacity_is_never),
        cmocka_unit_test(test_login_peek_takes_nothing_and_reset_tells_use),
        cmocka_unit_test(test_login_names_of_any_bytes_have_keys_of_their_own),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
