/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every kind of limit on a real server whose clock is moved: waits and expiry are exact, a full log stays cheap,
 * kinds travel together, and a call names the keys it uses. A window's edge, holds and several limits: it_edges.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/fakeserver.h"
#include "support/random.h"
#include "support/server.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOON INT64_C(1767268800000000) /* 2026-01-01 12:00 UTC, also a multiple of a minute */

enum { KINDS = 6, LOG_ENTRY = 12, LOG_HEAD = 6 };

static server *redis;
static driver d;
static int64_t now_us;

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

static void set_clock(int64_t us)
{
    now_us = us;
    server_set_clock(redis, us);
}

static int open_client(void **state)
{
    (void)state;
    answer warm;
    static const hirate_limit any = HIRATE_TOKEN_BUCKET("warm", 1, HIRATE_PER_SECOND(1));
    server_ask(redis, "FLUSHALL");
    set_clock(NOON);
    driver_open(&d, server_uri(redis));
    driver_ask(&d, &warm, &any, "warm", 0); /* the script is known from here on */
    return 0;
}

static int close_client(void **state)
{
    (void)state;
    driver_close(&d);
    return 0;
}

/* ----------------------------------------------------------------------------------------------- exact waiting -- */

/* A small limit: one in which random costs meet denials of every sort. */
static void random_limit(rng *r, unsigned kind, hirate_limit *limit)
{
    uint64_t most = 1 + rng_upto(r, 30), window = 1 + rng_upto(r, rng_upto(r, 1) ? 5000 : 100000000);
    hirate_rate rate = {1 + rng_upto(r, 9), 1 + rng_upto(r, 3000000)};

    switch (kind) {
    case HIRATE_KIND_LEAKY_BUCKET:
        hirate_limit_leaky_bucket(limit, "wait", most, rate);
        break;
    case HIRATE_KIND_FIXED_WINDOW:
        hirate_limit_fixed_window(limit, "wait", most, window);
        break;
    case HIRATE_KIND_QUOTA:
        hirate_limit_quota(limit, "wait", most, (enum hirate_per)(1 + rng_upto(r, 3)),
                           (int32_t)rng_upto(r, 2878) - 1439);
        break;
    case HIRATE_KIND_SLIDING_LOG:
        hirate_limit_sliding_log(limit, "wait", most, window);
        break;
    case HIRATE_KIND_SLIDING_WINDOW:
        hirate_limit_sliding_window(limit, "wait", most, window);
        break;
    default:
        hirate_limit_token_bucket(limit, "wait", most, rate);
    }
    assert_int_equal(hirate_limit_check(limit, NULL), 0);
}

static void ask(answer *a, const hirate_limit *limit, const char *name, uint64_t cost)
{
    driver_ask(&d, a, limit, name, cost);
    assert_int_equal(a->result.error, HIRATE_OK);
}

static void expect_expiry(const answer *a, const char *key)
{
    int64_t ttl = server_ask_int(redis, "PTTL %s", key);
    assert_true(server_expiry_fits(redis, ttl, a->result.reset_ms));
}

/* The clock's next step: of the order of `reset_ms`, sometimes back. */
static void step_clock(rng *r, int64_t reset_ms)
{
    uint64_t about = (uint64_t)(reset_ms > 100000000 ? 100000000 : reset_ms) * 1000 + 1;
    int64_t by = (int64_t)rng_upto(r, rng_upto(r, 3) ? about / 8 : about);

    set_clock(rng_upto(r, 6) ? now_us + by : now_us - by);
}

/* Denied at every moment before the wait is over, as the last one shows; allowed at its end. */
static void expect_exact_wait(const hirate_limit *limit, uint64_t cost, int64_t wait_ms)
{
    answer early, due;
    int64_t from = now_us;

    assert_true(wait_ms >= 1);
    set_clock(from + (wait_ms - 1) * 1000);
    ask(&early, limit, "n", cost);
    assert_int_equal(early.result.verdict, HIRATE_DENIED);
    assert_int_equal(early.result.retry_after_ms, 1);
    set_clock(from + wait_ms * 1000);
    ask(&due, limit, "n", cost);
    assert_int_equal(due.result.verdict, HIRATE_ALLOWED);
    expect_expiry(&due, "hirate:wait:n");
}

/* A name with a random history, up to a denial that can be waited for. */
static size_t one_history(rng *r, unsigned kind)
{
    hirate_limit limit;
    size_t waited = 0;

    random_limit(r, kind, &limit);
    server_ask(redis, "DEL hirate:wait:n");
    set_clock(NOON + (int64_t)rng_upto(r, UINT64_C(31536000000000)));
    for (int step = 0; step < 25; step++) {
        answer a;
        uint64_t cost = rng_upto(r, rng_upto(r, 2) ? limit.capacity / 2 + 1 : limit.capacity + 1);
        ask(&a, &limit, "n", cost);
        expect_expiry(&a, "hirate:wait:n");
        if (a.result.verdict == HIRATE_DENIED) {
            assert_int_equal(a.result.retry_after_ms == HIRATE_NEVER, cost > limit.capacity);
            if (cost <= limit.capacity) {
                expect_exact_wait(&limit, cost, a.result.retry_after_ms);
                waited++;
            }
        }
        step_clock(r, a.result.reset_ms);
    }
    return waited;
}

static void test_wait_of_each_kind_is_exact_and_expiry_is_reset_ms(void **state)
{
    (void)state;
    rng r = rng_start(__func__);
    for (unsigned kind = HIRATE_KIND_TOKEN_BUCKET; kind <= HIRATE_KIND_SLIDING_WINDOW; kind++) {
        size_t waited = 0;
        for (int i = 0; i < (driver_slow() ? 3 : 40); i++)
            waited += one_history(&r, kind);
        print_message("kind %u: %zu waits exact\n", kind, waited);
        assert_true(waited >= 3);
    }
}

static void test_key_is_gone_when_nothing_counts_any_more(void **state)
{
    (void)state;
    static const hirate_limit limits[KINDS] = {
        HIRATE_TOKEN_BUCKET("gone", 5, HIRATE_PER_SECOND(1)), HIRATE_LEAKY_BUCKET("gone", 5, HIRATE_PER_SECOND(1)),
        HIRATE_FIXED_WINDOW("gone", 5, HIRATE_SECONDS(1)),    HIRATE_QUOTA("gone", 5, HIRATE_PER_HOUR, 0),
        HIRATE_SLIDING_LOG("gone", 5, HIRATE_SECONDS(1)),     HIRATE_SLIDING_WINDOW("gone", 5, HIRATE_SECONDS(1)),
    };
    for (size_t i = 0; i < KINDS; i++) {
        answer a;
        set_clock(NOON);
        server_ask(redis, "DEL hirate:gone:n");
        ask(&a, &limits[i], "n", 0); /* took nothing: no key */
        assert_int_equal(a.result.reset_ms, 0);
        expect_expiry(&a, "hirate:gone:n");
        ask(&a, &limits[i], "n", 3);
        int64_t reset_ms = a.result.reset_ms;
        assert_true(reset_ms > 0);
        set_clock(NOON + (reset_ms - 1) * 1000);
        assert_int_equal(server_ask_int(redis, "EXISTS hirate:gone:n"), 1);
        set_clock(NOON + (reset_ms + 1) * 1000); /* Redis keeps a key through its last millisecond */
        assert_int_equal(server_ask_int(redis, "EXISTS hirate:gone:n"), 0);
        ask(&a, &limits[i], "n", 5);
        assert_int_equal(a.result.verdict, HIRATE_ALLOWED);
    }
}

/* ------------------------------------------------------------------------------------------------- a full log -- */

static const hirate_limit LARGE = HIRATE_SLIDING_LOG("large", 8192, HIRATE_HOURS(1));

/* A log of 8192 entries of one unit, the newest at NOON, one each millisecond. */
static void fill_log(const char *key)
{
    size_t len = LOG_HEAD + (size_t)LOG_ENTRY * 8192;
    char *value = calloc(1, len);
    assert_non_null(value);
    memcpy(value, "\xb1\x15", 2);
    for (uint32_t i = 0; i < 8192; i++) {
        double time = (double)(NOON - 1000 * (8191 - (int64_t)i));
        uint32_t sum = htole32(i + 1);
        uint64_t bits;
        memcpy(&bits, &time, sizeof bits);
        bits = htole64(bits);
        memcpy(value + LOG_HEAD + i * LOG_ENTRY, &bits, 8);
        memcpy(value + LOG_HEAD + i * LOG_ENTRY + 8, &sum, 4);
    }
    const char *const argv[] = {"SET", key, value, "PX", "3600000"};
    const size_t lens[] = {3, strlen(key), len, 2, 7};
    assert_string_equal(server_ask_args(redis, 5, argv, lens, NULL), "OK");
    free(value);
}

static void test_log_that_is_full_answers_by_its_oldest_units(void **state)
{
    (void)state;
    answer a;
    fill_log("hirate:large:n");
    for (uint64_t cost = 1; cost <= 8192; cost = cost * 3 + 1) {
        ask(&a, &LARGE, "n", cost); /* waits for that many of the oldest */
        assert_int_equal(a.result.verdict, HIRATE_DENIED);
        assert_int_equal(a.result.remaining, 0);
        assert_int_equal(a.result.retry_after_ms, 3600000 - 8192 + (int64_t)cost);
        assert_int_equal(a.result.reset_ms, 3600000);
    }
    assert_int_equal(server_ask_int(redis, "STRLEN hirate:large:n"), LOG_HEAD + LOG_ENTRY * 8192);
    /* What no longer counts goes: as the first 100 end, one entry of 100 takes their place. */
    set_clock(NOON + (3600000 - 8192 + 100) * INT64_C(1000));
    ask(&a, &LARGE, "n", 101);
    assert_int_equal(a.result.verdict, HIRATE_DENIED);
    assert_int_equal(a.result.retry_after_ms, 1);
    ask(&a, &LARGE, "n", 100);
    assert_int_equal(a.result.verdict, HIRATE_ALLOWED);
    assert_int_equal(a.result.remaining, 0);
    assert_int_equal(server_ask_int(redis, "STRLEN hirate:large:n"), LOG_HEAD + LOG_ENTRY * (8192 - 100 + 1));
}

/* The calls of commands so far, of each but those that this test sends itself. */
static int64_t commands(void)
{
    static const char *const names[] = {"mget", "time", "exists", "set", "psetex", "del", "get", "evalsha", "eval"};
    int64_t sum = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char field[32];
        snprintf(field, sizeof field, "cmdstat_%s", names[i]);
        sum += server_info(redis, "commandstats", field);
    }
    return sum;
}

static void test_log_that_is_full_takes_as_few_commands_as_an_empty_one(void **state)
{
    (void)state;
    enum { TURN = 200 };
    static answer many[TURN];
    for (int full = 0; full < 2; full++) {
        size_t before = d.called;
        memset(many, 0, sizeof many);
        if (full)
            fill_log("hirate:large:n");
        else
            server_ask(redis, "SET hirate:warm:unused x");
        int64_t counted = commands();
        for (int i = 0; i < TURN; i++)
            assert_int_equal(driver_acquire(&d, &many[i], &LARGE, full ? "n" : "m", 1 + (uint64_t)i % 3), 0);
        assert_true(driver_wait(&d, before + TURN));
        assert_int_equal(many[TURN - 1].result.verdict, full ? HIRATE_DENIED : HIRATE_ALLOWED);
        assert_int_equal(commands() - counted, 4); /* EVALSHA, MGET, TIME and PSETEX or SET */
    }
}

static void test_log_counts_weights_as_so_many_units(void **state)
{
    (void)state;
    static const hirate_limit limit = HIRATE_SLIDING_LOG("weights", 10, HIRATE_SECONDS(10));
    answer a;
    for (uint64_t cost = 1; cost <= 4; cost++) { /* 1 + 2 + 3 + 4, a second apart */
        ask(&a, &limit, "n", cost);
        assert_int_equal(a.result.verdict, HIRATE_ALLOWED);
        set_clock(now_us + 1000000);
    }
    assert_int_equal(a.result.remaining, 0);
    static const int64_t waits_ms[] = {6000, 7000, 7000, 8000, 8000, 8000, 9000, 9000, 9000, 9000};
    for (uint64_t cost = 1; cost <= 10; cost++) {
        ask(&a, &limit, "n", cost);
        assert_int_equal(a.result.retry_after_ms, waits_ms[cost - 1]);
    }
}

/* Each run of a call has a wait of its own, and peeks between acquires see what these took. */
static void test_log_answers_peeks_and_acquires_of_one_call_one_by_one(void **state)
{
    (void)state;
    static const hirate_limit limit = HIRATE_SLIDING_LOG("mixed", 5, HIRATE_SECONDS(10));
    static const struct {
        bool peek;
        uint64_t cost;
        enum hirate_verdict verdict;
        uint64_t remaining;
        int64_t retry_ms;
    } asked[] = {
        {true, 5, HIRATE_DENIED, 3, 9000},          {true, 3, HIRATE_ALLOWED, 0, 0},
        {false, 0, HIRATE_ALLOWED, 3, 0},           {false, 2, HIRATE_ALLOWED, 1, 0},
        {true, 2, HIRATE_DENIED, 1, 9000},          {true, 4, HIRATE_DENIED, 1, 10000},
        {false, 6, HIRATE_DENIED, 1, HIRATE_NEVER}, {false, 3, HIRATE_DENIED, 1, 9000},
        {false, 1, HIRATE_ALLOWED, 0, 0},           {false, 3, HIRATE_DENIED, 0, 10000},
    };
    enum { COUNT = sizeof asked / sizeof asked[0] };
    answer first, a[COUNT] = {{0}};
    ask(&first, &limit, "n", 2);
    set_clock(NOON + 1000000);
    size_t before = d.called;
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal((asked[i].peek ? driver_peek : driver_acquire)(&d, &a[i], &limit, "n", asked[i].cost), 0);
    assert_true(driver_wait(&d, before + COUNT));
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(a[i].result.error, HIRATE_OK);
        assert_int_equal(a[i].result.verdict, asked[i].verdict);
        assert_int_equal(a[i].result.remaining, asked[i].remaining);
        assert_true(a[i].result.retry_after_ms == asked[i].retry_ms);
    }
}

/* --------------------------------------------------------------------------------------------- kinds together -- */

static const hirate_limit EACH[KINDS] = {
    HIRATE_TOKEN_BUCKET("tb", 11, HIRATE_PER_SECOND(1)), HIRATE_LEAKY_BUCKET("lb", 12, HIRATE_PER_SECOND(1)),
    HIRATE_FIXED_WINDOW("fw", 13, HIRATE_SECONDS(60)),   HIRATE_QUOTA("q", 14, HIRATE_PER_MONTH, -60),
    HIRATE_SLIDING_LOG("sl", 15, HIRATE_SECONDS(60)),    HIRATE_SLIDING_WINDOW("sw", 16, HIRATE_SECONDS(60)),
};

static void submit_each(driver *to, answer (*a)[3])
{
    static const char *const names[] = {"a", "b", ""};
    for (size_t name = 0; name < 3; name++) {
        for (size_t kind = 0; kind < KINDS; kind++)
            assert_int_equal(driver_acquire(to, &a[kind][name], &EACH[kind], names[name], 1 + name), 0);
    }
}

static void expect_each(answer (*a)[3])
{
    for (size_t kind = 0; kind < KINDS; kind++) {
        for (size_t name = 0; name < 3; name++) {
            assert_int_equal(a[kind][name].result.error, HIRATE_OK);
            assert_int_equal(a[kind][name].result.verdict, HIRATE_ALLOWED);
            assert_int_equal(a[kind][name].result.remaining, EACH[kind].capacity - 1 - name);
        }
    }
}

static void test_kinds_submitted_together_travel_in_one_call(void **state)
{
    (void)state;
    answer a[KINDS][3] = {{{0}}};
    hirate_stats before, after;
    hirate_stats_init(&before);
    hirate_stats_init(&after);
    hirate_get_stats(d.h, &before);
    submit_each(&d, a);
    assert_true(driver_wait(&d, d.called + 3 * KINDS));
    expect_each(a);
    hirate_get_stats(d.h, &after);
    assert_int_equal(after.calls - before.calls, 1);
    for (size_t kind = 0; kind < KINDS; kind++) {
        for (size_t name = 0; name < 3; name++)
            assert_int_equal(a[kind][name].result.time_us, a[0][0].result.time_us);
    }
}

/* What a call was sent with: a copy of the last script call through the relay. */
typedef struct seen_call {
    size_t argc;
    char *argv[64];
    size_t len[64];
} seen_call;

static void remember_call(fake_conn *conn, void *arg)
{
    seen_call *seen = arg;
    bytes reply = {0};
    while (fake_read(conn)) {
        if (fake_is_script(conn) && conn->command.argc <= 64) {
            for (size_t i = 0; i < seen->argc; i++)
                free(seen->argv[i]);
            seen->argc = conn->command.argc;
            for (size_t i = 0; i < seen->argc; i++) {
                seen->len[i] = conn->command.len[i];
                seen->argv[i] = malloc(seen->len[i] + 1);
                if (seen->argv[i])
                    memcpy(seen->argv[i], resp_arg(&conn->command, i), seen->len[i] + 1);
            }
        }
        bytes_clear(&reply);
        if (!fake_relay(conn, &reply) || !fake_write(conn, reply.data, reply.len))
            break;
    }
    bytes_free(&reply);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The lines of `text`, sorted; returns how many. */
static size_t sorted_lines(char *text, char *lines[], size_t most)
{
    size_t count = 0;
    for (char *line = strtok(text, "\n"); line && count < most; line = strtok(NULL, "\n"))
        lines[count++] = line;
    qsort(lines, count, sizeof *lines, by_text);
    return count;
}

/* A proxy or a cluster asks the server which keys a command has: they must be all that it touches. */
static void test_call_of_every_kind_names_all_its_keys(void **state)
{
    (void)state;
    seen_call seen = {0};
    driver through;
    answer a[KINDS][3] = {{{0}}};
    const char *argv[66] = {"COMMAND", "GETKEYS"};
    size_t len[66] = {7, 7};
    char *named[32], *there[32];

    server_ask(redis, "FLUSHALL");
    fakeserver *f =
        fakeserver_start(&(fakeserver_options){.upstream = server_path(redis), .script = remember_call, .arg = &seen});
    driver_open(&through, fakeserver_uri(f));
    submit_each(&through, a);
    assert_true(driver_wait(&through, 3 * KINDS));
    expect_each(a);
    driver_close(&through);
    fakeserver_stop(f);
    for (size_t i = 0; i < seen.argc; i++) {
        argv[2 + i] = seen.argv[i];
        len[2 + i] = seen.len[i];
    }
    char *answered = strdup(server_ask_args(redis, 2 + seen.argc, argv, len, NULL));
    char *keys = strdup(server_ask(redis, "KEYS *"));
    size_t count = sorted_lines(answered, named, 32);
    assert_int_equal(count, 3 * KINDS);
    assert_int_equal(sorted_lines(keys, there, 32), count);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(named[i], there[i]);
    for (size_t i = 0; i < seen.argc; i++)
        free(seen.argv[i]);
    free(answered);
    free(keys);
}

int main(void)
{
    if (!server_available())
        return 77;
#define WITH_CLIENT(test) cmocka_unit_test_setup_teardown(test, open_client, close_client)
    const struct CMUnitTest tests[] = {
        WITH_CLIENT(test_wait_of_each_kind_is_exact_and_expiry_is_reset_ms),
        WITH_CLIENT(test_key_is_gone_when_nothing_counts_any_more),
        WITH_CLIENT(test_log_that_is_full_answers_by_its_oldest_units),
        WITH_CLIENT(test_log_that_is_full_takes_as_few_commands_as_an_empty_one),
        WITH_CLIENT(test_log_counts_weights_as_so_many_units),
        WITH_CLIENT(test_log_answers_peeks_and_acquires_of_one_call_one_by_one),
        WITH_CLIENT(test_kinds_submitted_together_travel_in_one_call),
        WITH_CLIENT(test_call_of_every_kind_names_all_its_keys),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
