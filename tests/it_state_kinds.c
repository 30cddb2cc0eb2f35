/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What lies under a key before us, for each kind of limit: another kind's state, a newer version, a part of a state,
 * fields out of range. All of it is an error of that key's requests only; value and expiry stay, and a reset deletes
 * it. it_state.c does the same for values that are not ours, and for token buckets field by field.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/random.h"
#include "support/server.h"

#include <endian.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NOON INT64_C(1767268800000000)
#define KEY "hirate:it:victim"

enum { KINDS = 6, STATE_MOST = 64, FIELDS_MOST = 4, TTL_MS = 777 };

static const hirate_limit LIMITS[KINDS] = {
    HIRATE_TOKEN_BUCKET("it", 20, HIRATE_RATE(1, HIRATE_SECONDS(3))),
    HIRATE_LEAKY_BUCKET("it", 20, HIRATE_RATE(1, HIRATE_SECONDS(3))),
    HIRATE_FIXED_WINDOW("it", 20, HIRATE_SECONDS(60)),
    HIRATE_QUOTA("it", 20, HIRATE_PER_DAY, 0),
    HIRATE_SLIDING_LOG("it", 20, HIRATE_SECONDS(60)),
    HIRATE_SLIDING_WINDOW("it", 20, HIRATE_SECONDS(60)),
};

/* A state as stored: its head, for a log the units before its first entry, then doubles (of a log each with its sum).
 */
typedef struct stored {
    unsigned char head;
    size_t count;
    double fields[FIELDS_MOST];
    uint32_t base, sums[FIELDS_MOST];
} stored;

/* One state of each kind that is right; eight of twenty are used. */
static const stored RIGHT[KINDS] = {
    {0x11, 3, {3000000, 36000000, NOON}, 0, {0}},
    {0x12, 3, {3000000, 36000000, NOON}, 0, {0}},
    {0x13, 3, {NOON, NOON + 60000000, 8}, 0, {0}},
    {0x14, 3, {NOON - 43200000000, NOON + 43200000000, 8}, 0, {0}},
    {0x15, 1, {NOON}, 4294967290, {2}}, /* its sums have wrapped */
    {0x16, 4, {60000000, NOON, 0, 8}, 0, {0}},
};

static server *redis;
static driver d;

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

static int open_client(void **state)
{
    (void)state;
    server_ask(redis, "FLUSHALL");
    server_set_clock(redis, NOON);
    driver_open(&d, server_uri(redis));
    return 0;
}

static int close_client(void **state)
{
    (void)state;
    hirate_stats stats;
    hirate_stats_init(&stats);
    hirate_get_stats(d.h, &stats);
    driver_close(&d);
    return stats.connects <= 1 ? 0 : -1; /* whatever was found, the connection stood */
}

/* ------------------------------------------------------------------------------------------------------ values -- */

static size_t put_number(char *at, uint64_t bits, size_t size)
{
    bits = htole64(bits);
    memcpy(at, &bits, size);
    return size;
}

static size_t pack(char out[STATE_MOST], const stored *s)
{
    bool log = (s->head & 0x0f) == 5;
    size_t len = 2;

    memset(out, 0, STATE_MOST);
    out[0] = (char)0xB1;
    out[1] = (char)s->head;
    if (log)
        len += put_number(out + len, s->base, 4);
    for (size_t i = 0; i < s->count; i++) {
        uint64_t bits;
        memcpy(&bits, &s->fields[i], sizeof bits);
        len += put_number(out + len, bits, 8);
        if (log)
            len += put_number(out + len, s->sums[i], 4);
    }
    return len;
}

static void set_key(const char *value, size_t len)
{
    char ttl[24];
    snprintf(ttl, sizeof ttl, "%d", TTL_MS);
    const char *const argv[] = {"SET", KEY, value, "PX", ttl};
    const size_t lens[] = {3, strlen(KEY), len, 2, strlen(ttl)};
    assert_string_equal(server_ask_args(redis, 5, argv, lens, NULL), "OK");
}

static void expect_kept(const char *value, size_t len)
{
    size_t got;
    const char *now = server_ask_args(redis, 2, (const char *const[]){"GET", KEY}, NULL, &got);
    assert_int_equal(got, len);
    assert_memory_equal(now, value, len);
    assert_int_equal(server_ask_int(redis, "PTTL " KEY), TTL_MS);
}

static void expect_estate(const answer *a)
{
    assert_int_equal(a->result.error, HIRATE_ESTATE);
    assert_int_equal(a->result.verdict, HIRATE_VERDICT_NONE);
    assert_int_equal(a->result.charge, HIRATE_CHARGE_NO);
}

/* In one turn, between neighbours of the same kind and the next: the victim is refused, they are not. Then a reset. */
static void expect_refused(size_t kind, const char *value, size_t len)
{
    answer near[2] = {{0}}, victim[4] = {{0}}, reset = {0};
    const hirate_limit *limit = &LIMITS[kind];
    size_t before = d.called;

    set_key(value, len);
    assert_int_equal(driver_acquire(&d, &near[0], limit, "before", 1), 0);
    assert_int_equal(driver_acquire(&d, &victim[0], limit, "victim", 1), 0);
    assert_int_equal(driver_acquire(&d, &victim[1], limit, "victim", 0), 0);
    assert_int_equal(driver_acquire(&d, &victim[2], limit, "victim", 20), 0);
    assert_int_equal(driver_peek(&d, &victim[3], limit, "victim", 1), 0);
    assert_int_equal(driver_acquire(&d, &near[1], &LIMITS[(kind + 1) % KINDS], "after", 1), 0);
    assert_true(driver_wait(&d, before + 6));
    for (int i = 0; i < 4; i++)
        expect_estate(&victim[i]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(near[i].result.error, HIRATE_OK);
        assert_int_equal(near[i].result.remaining, 19);
    }
    memset(&victim[0], 0, sizeof victim[0]); /* a peek by itself looks, and writes nothing, in a way of its own */
    assert_int_equal(driver_peek(&d, &victim[0], limit, "victim", 1), 0);
    assert_true(driver_wait(&d, before + 7));
    expect_estate(&victim[0]);
    expect_kept(value, len);
    assert_int_equal(driver_reset(&d, &reset, limit, "victim"), 0);
    assert_true(driver_wait(&d, before + 8));
    assert_int_equal(reset.result.error, HIRATE_OK);
    assert_int_equal(reset.result.used, 1);
    assert_int_equal(server_ask_int(redis, "DBSIZE"), 2);
    server_ask(redis, "FLUSHALL");
}

static void expect_state_refused(size_t kind, const stored *s)
{
    char value[STATE_MOST];
    size_t len = pack(value, s);
    expect_refused(kind, value, len);
}

/* ------------------------------------------------------------------------------------------------------- cases -- */

static void test_state_right_of_each_kind_is_read(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < KINDS; kind++) {
        char value[STATE_MOST];
        answer a;
        set_key(value, pack(value, &RIGHT[kind]));
        driver_ask(&d, &a, &LIMITS[kind], "victim", 1);
        assert_int_equal(a.result.error, HIRATE_OK);
        assert_int_equal(a.result.remaining, 11);
        assert_true(server_expiry_fits(redis, server_ask_int(redis, "PTTL " KEY), a.result.reset_ms));
    }
}

/* Byte for byte what the comment in lua/acquire.lua says: the next version has to read it. */
static void test_state_written_for_each_kind_is_as_described(void **state)
{
    (void)state;
    static const stored want[KINDS] = {
        {0x11, 3, {3000000, 36000000, NOON}, 0, {0}},
        {0x12, 3, {3000000, 36000000, NOON}, 0, {0}},
        {0x13, 3, {NOON, NOON + 60000000, 8}, 0, {0}},
        {0x14, 3, {NOON - 43200000000, NOON + 43200000000, 8}, 0, {0}},
        {0x15, 1, {NOON}, 0, {8}},
        {0x16, 4, {60000000, NOON, 0, 8}, 0, {0}},
    };
    for (size_t kind = 0; kind < KINDS; kind++) {
        char value[STATE_MOST];
        size_t len = pack(value, &want[kind]), got;
        answer a;
        driver_ask(&d, &a, &LIMITS[kind], "victim", 8);
        const char *now = server_ask_args(redis, 2, (const char *const[]){"GET", KEY}, NULL, &got);
        assert_int_equal(got, len);
        assert_memory_equal(now, value, len);
        server_ask(redis, "FLUSHALL");
    }
}

static void test_state_of_another_kind_or_version_is_refused_and_kept(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < KINDS; kind++) {
        for (unsigned head = 0; head < 256; head += head < 0x20 ? 1 : 13) {
            stored s = RIGHT[kind];
            char value[STATE_MOST];
            size_t len = pack(value, &s);
            if (head == s.head)
                continue;
            value[1] = (char)head;
            expect_refused(kind, value, len);
        }
        for (size_t other = 0; other < KINDS; other++) {
            if (other != kind)
                expect_state_refused(kind, &RIGHT[other]);
        }
    }
}

static void test_state_of_another_length_is_refused_and_kept(void **state)
{
    (void)state;
    for (size_t kind = 0; kind < KINDS; kind++) {
        char value[STATE_MOST];
        size_t whole = pack(value, &RIGHT[kind]);
        for (size_t len = 2; len <= whole + 3; len++) {
            if (len != whole)
                expect_refused(kind, value, len);
        }
    }
}

static void test_state_with_a_field_out_of_range_is_refused_and_kept(void **state)
{
    (void)state;
    static const double bad[] = {
        -1, 0.5, 1e300, -1e300, 9007199254740994.0, (double)INFINITY, -(double)INFINITY, (double)NAN};
    static const struct {
        size_t kind, field;
        double value;
    } cases[] = {
        {2, 0, -4398046511105.0},
        {2, 0, NOON + 60000000},
        {2, 1, NOON},
        {2, 2, 0},
        {2, 2, 9007199254740992.0},
        {3, 0, -4398046511105.0},
        {3, 2, 0},
        {4, 0, 9007199254740992.0},
        {5, 0, 0},
        {5, 0, 4503599627370497.0},
        {5, 0, 7},
        {5, 1, NOON + 1},
        {5, 1, 9007199254740992.0},
        {5, 2, 9007199254740992.0},
        {5, 3, 0},
        {5, 3, 9007199254740992.0},
    };
    for (size_t kind = 0; kind < KINDS; kind++) {
        for (size_t field = 0; field < RIGHT[kind].count; field++) {
            for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
                stored s = RIGHT[kind];
                if ((kind == 2 || kind == 3) && field == 0 && i == 0)
                    continue; /* a window may begin just before 1970 */
                s.fields[field] = bad[i];
                expect_state_refused(kind, &s);
            }
        }
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stored s = RIGHT[cases[i].kind];
        s.fields[cases[i].field] = cases[i].value;
        expect_state_refused(cases[i].kind, &s);
    }
}

static void test_state_of_a_log_that_does_not_rise_is_refused_and_kept(void **state)
{
    (void)state;
    static const stored logs[] = {
        {0x15, 1, {NOON}, 7, {7}},                                  /* no units */
        {0x15, 1, {NOON}, 0, {8193}},                               /* too many */
        {0x15, 1, {NOON}, 7, {6}},                                  /* 2^32 - 1 */
        {0x15, 2, {NOON, NOON - 1}, 0, {1, 2}},                     /* the first is later than the last */
        {0x15, 2, {NOON, NOON + 1}, 0, {1, 1}},                     /* two entries, one unit */
        {0x15, 3, {NOON - 3, NOON - 1.5, NOON - 1}, 0, {1, 2, 20}}, /* what a denial would wait for */
        {0x15, 2, {NOON - 30000000, NOON - 60000000}, 0, {18, 20}},
        {0x15,
         3,
         {NOON - 30000000, NOON - 29000000, NOON - 60000000},
         0,
         {17, 18, 20}},                                               /* it would expire in the past */
        {0x15, 3, {NOON - 61000000, NOON - 2, NOON}, 0, {30, 2, 20}}, /* fewer units than before */
    };
    for (size_t i = 0; i < sizeof logs / sizeof logs[0]; i++) {
        char value[STATE_MOST];
        size_t len = pack(value, &logs[i]);
        answer a;
        set_key(value, len);
        driver_ask(&d, &a, &LIMITS[4], "victim", 2);
        expect_estate(&a);
        expect_kept(value, len);
    }
}

/* Bytes changed at random: an error of that key, or an answer; never one of the connection, and no other key suffers.
 */
static void test_state_damaged_at_random_harms_nobody_else(void **state)
{
    (void)state;
    rng r = rng_start(__func__);
    size_t refused = 0, rounds = driver_slow() ? 300 : 4000;
    for (size_t i = 0; i < rounds; i++) {
        size_t kind = (size_t)rng_upto(&r, KINDS - 1);
        stored s = RIGHT[kind];
        char value[STATE_MOST];
        answer victim[2] = {{0}}, near = {0};
        if (kind == 4)
            s = (stored){0x15, 4, {NOON - 3e6, NOON - 2e6, NOON - 1e6, NOON}, 0, {5, 9, 17, 20}};
        size_t len = pack(value, &s), before = d.called;
        for (uint64_t n = 1 + rng_upto(&r, 2); n > 0; n--)
            value[2 + rng_upto(&r, len - 3)] ^= (char)(1 << rng_upto(&r, 7));
        set_key(value, len);
        assert_int_equal(driver_acquire(&d, &victim[0], &LIMITS[kind], "victim", 1 + rng_upto(&r, 19)), 0);
        assert_int_equal(driver_peek(&d, &victim[1], &LIMITS[kind], "victim", 1 + rng_upto(&r, 19)), 0);
        assert_int_equal(driver_acquire(&d, &near, &LIMITS[0], "near", 0), 0);
        assert_true(driver_wait(&d, before + 3));
        if (near.result.error || victim[0].result.error == HIRATE_EPROTOCOL) {
            print_error("round %zu, a limit of kind %u, state", i, (unsigned)LIMITS[kind].kind);
            for (size_t at = 0; at < len; at++)
                print_error(" %02x", (unsigned char)value[at]);
            print_error("\n");
        }
        assert_int_equal(near.result.error, HIRATE_OK);
        assert_true(victim[0].result.error == HIRATE_OK || victim[0].result.error == HIRATE_ESTATE);
        assert_int_equal(victim[1].result.error, victim[0].result.error);
        refused += victim[0].result.error != HIRATE_OK;
        if (victim[0].result.error)
            expect_kept(value, len);
    }
    assert_true(refused > rounds / 10 && refused < rounds);
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_state_right_of_each_kind_is_read, open_client, close_client),
        cmocka_unit_test_setup_teardown(test_state_written_for_each_kind_is_as_described, open_client, close_client),
        cmocka_unit_test_setup_teardown(test_state_of_another_kind_or_version_is_refused_and_kept, open_client,
                                        close_client),
        cmocka_unit_test_setup_teardown(test_state_of_another_length_is_refused_and_kept, open_client, close_client),
        cmocka_unit_test_setup_teardown(test_state_with_a_field_out_of_range_is_refused_and_kept, open_client,
                                        close_client),
        cmocka_unit_test_setup_teardown(test_state_of_a_log_that_does_not_rise_is_refused_and_kept, open_client,
                                        close_client),
        cmocka_unit_test_setup_teardown(test_state_damaged_at_random_harms_nobody_else, open_client, close_client),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
