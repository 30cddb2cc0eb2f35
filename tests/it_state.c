/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What lies under a key before us. A value that is not a token bucket's state is an error for its own requests only:
 * nothing is charged, value and expiry stay, neighbours in the same call are served. Values that are such a state, but
 * an odd one, are read within bounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/server.h"

#include <endian.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NOON INT64_C(1767268800000000)
#define KEY "hirate:login:victim"

static const hirate_limit LOGINS = HIRATE_TOKEN_BUCKET("login", 20, HIRATE_RATE(1, HIRATE_SECONDS(3)));
#define UNITS_PER_TOKEN 3000000

enum { STATE_LEN = 26 };

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

static int clear(void **state)
{
    (void)state;
    server_ask(redis, "FLUSHALL");
    server_set_clock(redis, NOON);
    return 0;
}

/* ------------------------------------------------------------------------------------------------------ values -- */

static void put_double(char *at, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = htole64(bits);
    memcpy(at, &bits, sizeof bits);
}

/* 0xB1, version * 16 + kind, p, units, at. */
static void pack(char out[STATE_LEN], unsigned char kind, double p, double units, double at)
{
    out[0] = (char)0xB1;
    out[1] = (char)kind;
    put_double(out + 2, p);
    put_double(out + 10, units);
    put_double(out + 18, at);
}

static void set_key(const char *value, size_t len, int64_t ttl_ms)
{
    char ttl[24];
    snprintf(ttl, sizeof ttl, "%" PRId64, ttl_ms);
    const char *const argv[] = {"SET", KEY, value, "PX", ttl};
    const size_t lens[] = {3, strlen(KEY), len, 2, strlen(ttl)};
    assert_string_equal(server_ask_args(redis, ttl_ms ? 5 : 3, argv, lens, NULL), "OK");
}

static void expect_key(const char *value, size_t len, int64_t ttl_ms)
{
    size_t got;
    const char *now = server_ask_args(redis, 2, (const char *const[]){"GET", KEY}, NULL, &got);
    assert_int_equal(got, len);
    assert_int_equal(memcmp(now, value, len), 0);
    assert_int_equal(server_ask_int(redis, "PTTL " KEY), ttl_ms ? ttl_ms : -1);
}

/* Ask for the victim in every way, among neighbours, in one turn: the victim's are refused, the neighbours' are not. */
static void expect_refused(bool reset_too)
{
    driver d;
    answer before = {0}, victim[4] = {0}, after = {0}, reset = {0};
    driver_open(&d, server_uri(redis));
    assert_int_equal(driver_acquire(&d, &before, &LOGINS, "before", 1), 0);
    assert_int_equal(driver_acquire(&d, &victim[0], &LOGINS, "victim", 1), 0);
    assert_int_equal(driver_acquire(&d, &victim[1], &LOGINS, "victim", 0), 0);
    assert_int_equal(driver_acquire(&d, &victim[2], &LOGINS, "victim", 21), 0);
    assert_int_equal(driver_acquire(&d, &after, &LOGINS, "after", 1), 0);
    assert_int_equal(driver_peek(&d, &victim[3], &LOGINS, "victim", 1), 0);
    assert_true(driver_wait(&d, 6));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(victim[i].result.error, HIRATE_ESTATE);
        assert_int_equal(victim[i].result.verdict, HIRATE_VERDICT_NONE);
        assert_int_equal(victim[i].result.charge, HIRATE_CHARGE_NO);
        assert_true(strlen(victim[i].reason) > 0);
        assert_null(strstr(victim[i].reason, "victim"));
    }
    assert_int_equal(before.result.error, HIRATE_OK);
    assert_int_equal(before.result.remaining, 19);
    assert_int_equal(after.result.error, HIRATE_OK);
    assert_int_equal(after.result.remaining, 19);
    if (reset_too) {
        assert_int_equal(driver_reset(&d, &reset, &LOGINS, "victim"), 0);
        assert_true(driver_wait(&d, 7));
        assert_int_equal(reset.result.error, HIRATE_ESTATE);
    }
    driver_close(&d);
    server_ask(redis, "DEL hirate:login:before hirate:login:after");
}

static void test_state_foreign_string_is_refused_and_kept(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        size_t len;
    } values[] = {
        {"x", 1},    {"", 0},        {"0", 1}, {"20", 2}, {"1767268800", 10}, {"abcdefghijklmnopqrstuvwxyz", 26},
        {"\xb1", 1}, {"\x11\xb1", 2}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (int64_t ttl = 0; ttl <= 12345; ttl += 12345) {
            set_key(values[i].value, values[i].len, ttl);
            expect_refused(true);
            expect_key(values[i].value, values[i].len, ttl);
        }
}

static void test_state_foreign_type_is_refused_and_kept(void **state)
{
    (void)state;
    static const struct {
        const char *make, *type;
    } keys[] = {{"LPUSH " KEY " a b", "list"},
                {"HSET " KEY " f v", "hash"},
                {"SADD " KEY " m", "set"},
                {"ZADD " KEY " 1 m", "zset"},
                {"XADD " KEY " * f v", "stream"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        server_ask(redis, "%s", keys[i].make);
        assert_int_equal(server_ask_int(redis, "PEXPIRE " KEY " 54321"), 1);
        expect_refused(true);
        assert_string_equal(server_ask(redis, "TYPE " KEY), keys[i].type);
        assert_int_equal(server_ask_int(redis, "PTTL " KEY), 54321);
        server_ask(redis, "DEL " KEY);
    }
}

/* Ours by its first byte, but not a token bucket of a version we know, or with impossible fields. */
static void test_state_damaged_or_newer_is_refused_and_kept(void **state)
{
    (void)state;
    static const struct {
        unsigned char kind;
        double p, units, at;
    } states[] = {
        {0x12, UNITS_PER_TOKEN, 5, NOON},
        {0x10, UNITS_PER_TOKEN, 5, NOON},
        {0x21, UNITS_PER_TOKEN, 5, NOON},
        {0xF1, UNITS_PER_TOKEN, 5, NOON},
        {0x11, 0, 5, NOON},
        {0x11, -1, 5, NOON},
        {0x11, 0.5, 5, NOON},
        {0x11, (double)NAN, 5, NOON},
        {0x11, (double)INFINITY, 5, NOON},
        {0x11, 18014398509481984.0, 5, NOON},
        {0x11, UNITS_PER_TOKEN, -1, NOON},
        {0x11, UNITS_PER_TOKEN, 1.5, NOON},
        {0x11, UNITS_PER_TOKEN, (double)NAN, NOON},
        {0x11, UNITS_PER_TOKEN, -(double)INFINITY, NOON},
        {0x11, UNITS_PER_TOKEN, 1e300, NOON},
        {0x11, UNITS_PER_TOKEN, 5, -1},
        {0x11, UNITS_PER_TOKEN, 5, 0.25},
        {0x11, UNITS_PER_TOKEN, 5, (double)NAN},
        {0x11, UNITS_PER_TOKEN, 5, (double)INFINITY},
        {0x11, UNITS_PER_TOKEN, 5, 1e17},
    };
    char value[STATE_LEN + 1] = {0};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        pack(value, states[i].kind, states[i].p, states[i].units, states[i].at);
        set_key(value, STATE_LEN, 777);
        expect_refused(false);
        expect_key(value, STATE_LEN, 777);
    }
    pack(value, 0x11, UNITS_PER_TOKEN, 5 * UNITS_PER_TOKEN, NOON);
    for (size_t len = 2; len <= STATE_LEN + 1; len++)
        if (len != STATE_LEN) {
            set_key(value, len, 777);
            expect_refused(false);
            expect_key(value, len, 777);
        }
}

static void test_state_reset_deletes_ours_of_any_version(void **state)
{
    (void)state;
    static const unsigned char kinds[] = {0x11, 0x12, 0x21};
    char value[STATE_LEN];
    for (size_t i = 0; i < sizeof kinds; i++) {
        driver d;
        answer reset = {0}, again = {0};
        pack(value, kinds[i], UNITS_PER_TOKEN, 0, NOON);
        set_key(value, sizeof value, 0);
        driver_open(&d, server_uri(redis));
        assert_int_equal(driver_reset(&d, &reset, &LOGINS, "victim"), 0);
        assert_int_equal(driver_reset(&d, &again, &LOGINS, "victim"), 0);
        assert_true(driver_wait(&d, 2));
        assert_int_equal(reset.result.error, HIRATE_OK);
        assert_int_equal(reset.result.used, 1);
        assert_int_equal(again.result.used, 0);
        assert_int_equal(server_ask_int(redis, "EXISTS " KEY), 0);
        driver_close(&d);
    }
}

/* --------------------------------------------------------------------------------------------------- odd but ours --
 */

static answer acquire_from(double p, double units, double at)
{
    driver d;
    answer a;
    char value[STATE_LEN];
    pack(value, 0x11, p, units, at);
    set_key(value, sizeof value, 3600000);
    driver_open(&d, server_uri(redis));
    driver_ask(&d, &a, &LOGINS, "victim", 1);
    driver_close(&d);
    assert_int_equal(a.result.error, HIRATE_OK);
    assert_true(server_expiry_fits(redis, server_ask_int(redis, "PTTL " KEY), a.result.reset_ms));
    return a;
}

static void test_state_written_is_one_packed_value(void **state)
{
    (void)state;
    driver d;
    answer a;
    char want[STATE_LEN];
    driver_open(&d, server_uri(redis));
    driver_ask(&d, &a, &LOGINS, "victim", 1);
    driver_close(&d);
    pack(want, 0x11, UNITS_PER_TOKEN, 19.0 * UNITS_PER_TOKEN, NOON);
    expect_key(want, sizeof want, 3000);
}

static void test_state_fuller_than_full_counts_as_full(void **state)
{
    (void)state;
    answer a = acquire_from(UNITS_PER_TOKEN, 4503599627370496.0, NOON);
    assert_int_equal(a.result.verdict, HIRATE_ALLOWED);
    assert_int_equal(a.result.remaining, 19);
}

static void test_state_of_long_ago_is_full(void **state)
{
    (void)state;
    answer a = acquire_from(UNITS_PER_TOKEN, 0, 0);
    assert_int_equal(a.result.remaining, 19);
}

static void test_state_ahead_of_the_clock_locks_out_for_one_fill_time_at_most(void **state)
{
    (void)state;
    answer a = acquire_from(UNITS_PER_TOKEN, 0, NOON + 60e6); /* just within: waits for that moment */
    assert_int_equal(a.result.verdict, HIRATE_DENIED);
    assert_int_equal(a.result.retry_after_ms, 63000);
    assert_int_equal(a.result.reset_ms, 120000);
    a = acquire_from(UNITS_PER_TOKEN, 0, NOON + 60e6 + 1); /* beyond: refills from now */
    assert_int_equal(a.result.verdict, HIRATE_DENIED);
    assert_int_equal(a.result.retry_after_ms, 3000);
    a = acquire_from(UNITS_PER_TOKEN, 0, 9007199254740991.0);
    assert_int_equal(a.result.retry_after_ms, 3000);
}

static void test_state_of_another_rate_keeps_whole_tokens(void **state)
{
    (void)state;
    answer a = acquire_from(7, 7 * 12 + 6, NOON); /* twelve tokens and six sevenths */
    assert_int_equal(a.result.remaining, 11);
    assert_int_equal(a.result.reset_ms, 9 * 3000 - 3000 * 6 / 7);
}

/* A bucket that a lower capacity makes full is deleted by whoever asks next; that the clock had been ahead of it goes
 * with it. So it does when those who ask travel in one call. */
static void test_state_full_by_a_lower_capacity_is_made_anew_in_one_call_as_in_two(void **state)
{
    (void)state;
    static const hirate_limit high = HIRATE_TOKEN_BUCKET("login", 10, HIRATE_PER_SECOND(1));
    static const hirate_limit low = HIRATE_TOKEN_BUCKET("login", 2, HIRATE_PER_SECOND(1));
    for (int together = 0; together < 2; together++) {
        driver d;
        answer first, full = {0}, taken = {0}, peek = {0};
        clear(NULL);
        driver_open(&d, server_uri(redis));
        driver_ask(&d, &first, &high, "victim", 5);
        server_set_clock(redis, NOON - 1000000);
        assert_int_equal(driver_acquire(&d, &full, &low, "victim", 0), 0);
        assert_true(together || driver_wait(&d, 2));
        assert_int_equal(driver_acquire(&d, &taken, &low, "victim", 1), 0);
        assert_true(driver_wait(&d, 3));
        assert_int_equal(driver_peek(&d, &peek, &low, "victim", 2), 0);
        assert_true(driver_wait(&d, 4));
        assert_int_equal(full.result.reset_ms, 0);
        assert_int_equal(taken.result.remaining, 1);
        assert_int_equal(taken.result.reset_ms, 1000);
        assert_int_equal(peek.result.retry_after_ms, 1000);
        assert_int_equal(server_ask_int(redis, "PTTL " KEY), 1000);
        driver_close(&d);
    }
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_state_foreign_string_is_refused_and_kept, clear),
        cmocka_unit_test_setup(test_state_foreign_type_is_refused_and_kept, clear),
        cmocka_unit_test_setup(test_state_damaged_or_newer_is_refused_and_kept, clear),
        cmocka_unit_test_setup(test_state_reset_deletes_ours_of_any_version, clear),
        cmocka_unit_test_setup(test_state_written_is_one_packed_value, clear),
        cmocka_unit_test_setup(test_state_fuller_than_full_counts_as_full, clear),
        cmocka_unit_test_setup(test_state_of_long_ago_is_full, clear),
        cmocka_unit_test_setup(test_state_ahead_of_the_clock_locks_out_for_one_fill_time_at_most, clear),
        cmocka_unit_test_setup(test_state_of_another_rate_keeps_whole_tokens, clear),
        cmocka_unit_test_setup(test_state_full_by_a_lower_capacity_is_made_anew_in_one_call_as_in_two, clear),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
