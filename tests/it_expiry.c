/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a key goes, on a real server with a moved clock.
 *
 * Servers forget a key in two ways: at an access, once the millisecond in which it expires is over; and by their active
 * expiry at any time after that, on Redis 8 already from the beginning of that millisecond. That millisecond is counted
 * from the beginning of the one in which the key was written. So what must not be forgotten can be at stake for less
 * than a millisecond: this is about the microseconds on either side.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/random.h"
#include "support/server.h"

#include <string.h>

#define NOON INT64_C(1767268800000000) /* 2026-01-01 12:00 UTC */
#define HOUR_US 3600000000U
#define KEY "hirate:expiry:n"

static server *redis;
static driver d;
static int64_t now_us;

static void set_clock(int64_t us)
{
    now_us = us;
    server_set_clock(redis, us);
}

static int start(void **state)
{
    (void)state;
    static const char *const often[] = {"--hz", "500", NULL}; /* how often active expiry comes by */
    redis = server_start(&(server_options){.fake_clock = true, .args = often});
    set_clock(NOON);
    driver_open(&d, server_uri(redis));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    driver_close(&d);
    server_stop(redis);
    return 0;
}

static hirate_result ask(enum hirate_op op, const hirate_limit *limit, const char *name, uint64_t cost)
{
    answer a = {0};
    size_t called = d.called;
    int rc = op == HIRATE_OP_PEEK    ? driver_peek(&d, &a, limit, name, cost)
             : op == HIRATE_OP_RESET ? driver_reset(&d, &a, limit, name)
                                     : driver_acquire(&d, &a, limit, name, cost);
    assert_int_equal(rc, 0);
    assert_true(driver_wait(&d, called + 1));
    assert_int_equal(a.result.error, HIRATE_OK);
    return a.result;
}

/* ---------------------------------------------------------------------------------------------- active expiry -- */

/* A limit whose uses count for some milliseconds and microseconds; a quota's for up to a week. */
static void random_limit(rng *r, unsigned kind, hirate_limit *limit)
{
    uint64_t most = 1 + rng_upto(r, 5), window = rng_upto(r, 1) ? 1000 + rng_upto(r, 30000) : 5000;
    hirate_rate rate = {1 + rng_upto(r, 2), window};

    switch (kind) {
    case HIRATE_KIND_LEAKY_BUCKET:
        hirate_limit_leaky_bucket(limit, "expiry", most, rate);
        break;
    case HIRATE_KIND_FIXED_WINDOW:
        hirate_limit_fixed_window(limit, "expiry", most, window);
        break;
    case HIRATE_KIND_QUOTA:
        hirate_limit_quota(limit, "expiry", most, (enum hirate_per)(1 + rng_upto(r, 2)), 0);
        break;
    case HIRATE_KIND_SLIDING_LOG:
        hirate_limit_sliding_log(limit, "expiry", most, window);
        break;
    case HIRATE_KIND_SLIDING_WINDOW:
        hirate_limit_sliding_window(limit, "expiry", most, window);
        break;
    default:
        hirate_limit_token_bucket(limit, "expiry", most, rate);
    }
    assert_int_equal(hirate_limit_check(limit, NULL), 0);
}

/* Set the clock, by at least 2 ms forward, and let active expiry see every key. A key whose time comes with that shows
 * that it works; as it takes turns at the keys, it gets some more. */
static void set_clock_and_sweep(int64_t us)
{
    int64_t before = server_info(redis, "stats", "expired_keys"), end = driver_now_ms() + DRIVER_PATIENCE_MS;

    server_ask(redis, "SET passing v PX 1");
    set_clock(us);
    while (server_info(redis, "stats", "expired_keys") == before) {
        assert_true(driver_now_ms() < end);
        driver_run_for(&d, 2);
    }
    driver_run_for(&d, 20);
}

static hirate_result local_ask(hirate_local *local, enum hirate_op op, const hirate_limit *limit, uint64_t cost,
                               int64_t at_us)
{
    hirate_request request;
    hirate_result result;

    hirate_request_init(&request);
    hirate_result_init(&result);
    request.op = op;
    request.limit = limit;
    request.name = "n";
    request.name_len = 1;
    request.cost = cost;
    assert_int_equal(hirate_local_decide(local, &request, at_us, &result, NULL), 0);
    return result;
}

static bool counts_at(hirate_local *local, const hirate_limit *limit, int64_t at_us)
{
    return local_ask(local, HIRATE_OP_PEEK, limit, 0, at_us).reset_ms > 0;
}

/* The last microsecond, in the reset_ms from now, at which what was taken counts. */
static int64_t last_moment(hirate_local *local, const hirate_limit *limit, int64_t reset_ms)
{
    int64_t counts = now_us, free = now_us + reset_ms * 1000;

    assert_true(counts_at(local, limit, counts));
    assert_false(counts_at(local, limit, free));
    while (free - counts > 1) {
        int64_t middle = counts + (free - counts) / 2;
        if (counts_at(local, limit, middle))
            counts = middle;
        else
            free = middle;
    }
    return counts;
}

/* Asked for all there is, which is denied as long as anything counts. */
static void expect_equal_peeks(hirate_local *local, const hirate_limit *limit)
{
    hirate_result got = ask(HIRATE_OP_PEEK, limit, "n", limit->capacity);
    hirate_result want = local_ask(local, HIRATE_OP_PEEK, limit, limit->capacity, now_us);

    assert_int_equal(got.verdict, want.verdict);
    assert_int_equal(got.remaining, want.remaining);
    assert_true(got.retry_after_ms == want.retry_after_ms);
    assert_int_equal(got.reset_ms, want.reset_ms);
}

/* False: its end was too near to tell anything. */
static bool one_use(rng *r, hirate_local *local, unsigned kind)
{
    hirate_limit limit;

    random_limit(r, kind, &limit);
    server_ask(redis, "DEL " KEY);
    set_clock(NOON + (int64_t)rng_upto(r, HOUR_US));
    uint64_t cost = 1 + rng_upto(r, limit.capacity - 1);
    int64_t reset_ms = local_ask(local, HIRATE_OP_ACQUIRE, &limit, cost, now_us).reset_ms;
    assert_int_equal(ask(HIRATE_OP_ACQUIRE, &limit, "n", cost).reset_ms, reset_ms);
    if (reset_ms < 4)
        return false;
    set_clock_and_sweep(last_moment(local, &limit, reset_ms));
    assert_int_equal(server_ask_int(redis, "EXISTS " KEY), 1);
    expect_equal_peeks(local, &limit);
    set_clock(now_us + 1);
    expect_equal_peeks(local, &limit);
    return true;
}

static void test_expiry_active_spares_a_key_while_anything_counts(void **state)
{
    (void)state;
    rng r = rng_start(__func__);
    assert_string_equal(server_ask(redis, "DEBUG SET-ACTIVE-EXPIRE 1"), "OK");
    for (unsigned kind = HIRATE_KIND_TOKEN_BUCKET; kind <= HIRATE_KIND_SLIDING_WINDOW; kind++) {
        for (int seen = 0; seen < (driver_slow() ? 3 : 12);) {
            hirate_local *local;
            assert_int_equal(hirate_local_new(&local, 1), 0);
            seen += one_use(&r, local, kind);
            hirate_local_free(local);
        }
    }
}

/* ---------------------------------------------------------------------------------------------- at an access -- */

/* Use a name at `written_us`, then go to `after_us` after the last microsecond of the millisecond in which its key
 * expires. */
static void use_and_outlive(const hirate_limit *limit, int64_t written_us, int64_t after_us)
{
    server_ask(redis, "DEL " KEY);
    set_clock(written_us);
    int64_t reset_ms = ask(HIRATE_OP_ACQUIRE, limit, "n", 2).reset_ms;
    int64_t last_ms = written_us / 1000 + reset_ms + server_expiry_spare_ms(redis);
    assert_true(reset_ms > 0);
    set_clock(last_ms * 1000 + 999 + after_us);
}

static void expect_key_at_its_end(const hirate_limit *limit, int64_t written_us)
{
    use_and_outlive(limit, written_us, 0);
    hirate_result kept = ask(HIRATE_OP_PEEK, limit, "n", 5), unused = ask(HIRATE_OP_PEEK, limit, "unused", 5);
    assert_int_equal(kept.verdict, HIRATE_ALLOWED);
    assert_int_equal(kept.remaining, unused.remaining);
    assert_int_equal(kept.reset_ms, unused.reset_ms);
    assert_int_equal(ask(HIRATE_OP_RESET, limit, "n", 0).used, 1);
    use_and_outlive(limit, written_us, 1);
    assert_int_equal(ask(HIRATE_OP_RESET, limit, "n", 0).used, 0);
}

static void test_expiry_reset_finds_a_key_until_its_last_millisecond_is_over(void **state)
{
    (void)state;
    static const hirate_limit limits[] = {
        HIRATE_TOKEN_BUCKET("expiry", 5, HIRATE_PER_SECOND(1)), HIRATE_LEAKY_BUCKET("expiry", 5, HIRATE_PER_SECOND(1)),
        HIRATE_FIXED_WINDOW("expiry", 5, HIRATE_SECONDS(1)),    HIRATE_QUOTA("expiry", 5, HIRATE_PER_HOUR, 0),
        HIRATE_SLIDING_LOG("expiry", 5, HIRATE_SECONDS(1)),     HIRATE_SLIDING_WINDOW("expiry", 5, HIRATE_SECONDS(1)),
    };
    static const int64_t phases[] = {0, 1, 500, 999};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        for (size_t j = 0; j < sizeof phases / sizeof *phases; j++)
            expect_key_at_its_end(&limits[i], NOON + phases[j]);
    }
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_expiry_active_spares_a_key_while_anything_counts, start, stop),
        cmocka_unit_test_setup_teardown(test_expiry_reset_finds_a_key_until_its_last_millisecond_is_over, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
