/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random traces through the local engine and through a real server with a moved clock: equal, field by field.
 *
 * A trace is a series of turns. In each the clock moves (not at all, by microseconds, to the very moment an earlier
 * answer promised or just before it, far ahead, or back), then one or many requests are submitted, which travel
 * together. Limits change live: several share one policy name.
 *
 * Each name has a local engine of its own: an engine may forget one expired bucket while it looks at another, the
 * server (whose active expiry is off) does so only when the key is touched, and a clock that steps back can tell.
 *
 * For the same reason both must forget a key at the same moment. Where the script lets keys live a millisecond longer
 * than reset_ms, since the server's active expiry would take them a millisecond early, the trace sees that it did and
 * then takes that millisecond off again. it_expiry.c is about what happens in it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/random.h"
#include "support/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEW_YEAR INT64_C(1767225600000000)
#define DAY INT64_C(86400000000)

enum { NAMES = 6, LIMITS = 4, TURN_MAX = 400 };

typedef struct trace {
    rng random;
    server *redis;
    driver d;
    hirate_local *local[NAMES];
    hirate_limit limits[LIMITS]; /* of one policy: going from one to another is a live change */
    size_t limit[NAMES];         /* in force for the name */
    int64_t now_us;
    int64_t promised_us; /* a moment an answer spoke of */
    bool back;           /* the clock may step back */
    uint64_t compared;
} trace;

typedef struct expectation {
    answer got;
    hirate_request request;
    hirate_result want;
    int name;
} expectation;

static expectation turn[TURN_MAX];
static const char *const names[NAMES] = {"ann", "bob", "cyd", "dan", "eve", ""};

static uint64_t below(trace *t, uint64_t n)
{
    return rng_upto(&t->random, n - 1);
}

/* A number of up to 2^bits, small ones as likely as large ones. */
static uint64_t any_size(trace *t, unsigned bits)
{
    return rng_next(&t->random) >> (63 - below(t, bits));
}

static void random_limit(trace *t, unsigned kind, hirate_limit *limit)
{
    static const uint64_t periods[] = {1, 7, 1000, 13000, 999983, 1000000, 3000000, 60000000, UINT64_C(86400000000)};
    do {
        uint64_t most = below(t, 8) == 0 ? below(t, 3) : any_size(t, below(t, 3) ? 12 : 50);
        uint64_t period = periods[below(t, sizeof periods / sizeof *periods)];
        uint64_t window = below(t, 2) ? period : 1 + any_size(t, 40);
        hirate_rate rate = {1 + any_size(t, below(t, 2) ? 8 : 40), period};
        switch (kind) {
        case HIRATE_KIND_LEAKY_BUCKET:
            hirate_limit_leaky_bucket(limit, "trace", most, rate);
            break;
        case HIRATE_KIND_FIXED_WINDOW:
            hirate_limit_fixed_window(limit, "trace", most, window);
            break;
        case HIRATE_KIND_QUOTA:
            hirate_limit_quota(limit, "trace", most, (enum hirate_per)(1 + below(t, 4)),
                               (int32_t)below(t, 2879) - 1439);
            break;
        case HIRATE_KIND_SLIDING_LOG:
            hirate_limit_sliding_log(limit, "trace", most % 400, window);
            break;
        case HIRATE_KIND_SLIDING_WINDOW:
            hirate_limit_sliding_window(limit, "trace", most, window);
            break;
        default:
            hirate_limit_token_bucket(limit, "trace", most, rate);
        }
    } while (hirate_limit_check(limit, NULL) != 0);
}

static uint64_t random_cost(trace *t, uint64_t capacity)
{
    switch (below(t, 10)) {
    case 0:
        return 0;
    case 1:
        return capacity;
    case 2:
        return capacity + 1;
    case 3:
        return capacity - capacity / 3;
    case 4:
        return any_size(t, 53);
    case 5:
        return capacity / 7;
    default:
        return 1 + below(t, 3);
    }
}

static int64_t random_step(trace *t)
{
    switch (below(t, t->back ? 12 : 8)) {
    case 0:
    case 1:
        return 0;
    case 2:
        return (int64_t)below(t, 10);
    case 3:
        return t->promised_us > t->now_us ? t->promised_us - t->now_us : 1;
    case 4:
        return t->promised_us > t->now_us ? t->promised_us - t->now_us - 1 : 1000;
    case 5:
        return (int64_t)any_size(t, 36);
    case 6:
        return (int64_t)below(t, 2000000);
    case 7:
        return (int64_t)below(t, 1000) * 1000;
    case 8:
        return -(int64_t)below(t, 10);
    case 9:
        return -(int64_t)any_size(t, 36);
    case 10:
        return -(int64_t)below(t, 2000000);
    default:
        return -(int64_t)below(t, 1000) * 1000;
    }
}

static void move_clock(trace *t)
{
    t->now_us += random_step(t);
    if (t->now_us < NEW_YEAR - 300 * DAY || t->now_us > NEW_YEAR + 3000 * DAY)
        t->now_us = NEW_YEAR;
    server_set_clock(t->redis, t->now_us);
}

static void random_request(trace *t, expectation *e)
{
    memset(e, 0, sizeof *e);
    e->name = (int)below(t, NAMES);
    if (below(t, 20) == 0)
        t->limit[e->name] = below(t, LIMITS);
    const hirate_limit *limit = &t->limits[t->limit[e->name]];
    uint64_t dice = below(t, 100);
    hirate_request_init(&e->request);
    e->request.op = dice < 82 ? HIRATE_OP_ACQUIRE : dice < 95 ? HIRATE_OP_PEEK : HIRATE_OP_RESET;
    e->request.limit = limit;
    e->request.name = names[e->name];
    e->request.name_len = strlen(names[e->name]);
    e->request.cost = random_cost(t, limit->capacity);
}

static void explain(const trace *t, const expectation *e)
{
    const hirate_limit *limit = e->request.limit;
    print_error("kind %d, window %" PRIu64 ", op %d, cost %" PRIu64 ", name '%s' at %" PRId64 ", capacity=%" PRIu64
                " rate=%" PRIu64 "/%" PRIu64 "us, after %" PRIu64 " equal answers; error %d %s\n",
                (int)limit->kind, limit->window_us, (int)e->request.op, e->request.cost, names[e->name], t->now_us,
                limit->capacity, limit->rate.tokens, limit->rate.period_us, t->compared, e->got.result.error,
                e->got.reason);
}

static void compare(trace *t, const expectation *e)
{
    const hirate_result *want = &e->want, *got = &e->got.result;
    if (e->got.calls != 1 || got->error != want->error || got->verdict != want->verdict ||
        got->remaining != want->remaining || got->retry_after_ms != want->retry_after_ms ||
        got->reset_ms != want->reset_ms || got->used != want->used)
        explain(t, e);
    assert_int_equal(e->got.calls, 1);
    assert_int_equal(got->error, want->error);
    assert_int_equal(got->op, want->op);
    assert_int_equal(got->verdict, want->verdict);
    assert_int_equal(got->remaining, want->remaining);
    assert_true(got->retry_after_ms == want->retry_after_ms);
    assert_int_equal(got->reset_ms, want->reset_ms);
    assert_int_equal(got->delay_ms, want->delay_ms);
    assert_int_equal(got->charge, want->charge);
    if (got->op != HIRATE_OP_RESET)
        assert_int_equal(got->cost, want->cost);
    assert_int_equal(got->used, want->used);
    assert_int_equal(got->time_us, want->time_us);
    assert_string_equal(e->got.policy, want->policy);
    assert_int_equal(got->source, HIRATE_SOURCE_REDIS);
    assert_int_equal(want->source, HIRATE_SOURCE_LOCAL);
    t->compared++;
}

/* A key written in this turn lives for the reset_ms of its last acquire, and does not exist where that is 0 or a reset
 * came last. */
static void compare_expiry(const trace *t, const expectation *last)
{
    const char *name = names[last->name];
    int64_t ttl = server_ask_int(t->redis, "PTTL hirate:trace:%s", name);
    if (!server_expiry_fits(t->redis, ttl, last->want.reset_ms))
        explain(t, last);
    assert_true(server_expiry_fits(t->redis, ttl, last->want.reset_ms));
    int64_t spare = server_expiry_spare_ms(t->redis);
    if (ttl > 0 && spare)
        assert_int_equal(server_ask_int(t->redis, "PEXPIRE hirate:trace:%s %" PRId64, name, ttl - spare), 1);
}

static void compare_expiries(const trace *t, size_t n)
{
    const expectation *last[NAMES] = {NULL};
    for (size_t i = 0; i < n; i++) {
        if (turn[i].request.op != HIRATE_OP_PEEK)
            last[turn[i].name] = &turn[i];
    }
    for (int i = 0; i < NAMES; i++) {
        if (last[i])
            compare_expiry(t, last[i]);
    }
}

static void one_turn(trace *t)
{
    size_t n = below(t, 3) ? 1 + below(t, 3) : 1 + below(t, TURN_MAX);
    size_t before = t->d.called;
    move_clock(t);
    for (size_t i = 0; i < n; i++) {
        expectation *e = &turn[i];
        random_request(t, e);
        hirate_result_init(&e->want);
        assert_int_equal(hirate_local_decide(t->local[e->name], &e->request, t->now_us, &e->want, NULL), 0);
        assert_int_equal(driver_submit(&t->d, &e->request, &e->got, NULL), 0);
    }
    assert_true(driver_wait(&t->d, before + n));
    for (size_t i = 0; i < n; i++)
        compare(t, &turn[i]);
    compare_expiries(t, n);
    const hirate_result *last = &turn[n - 1].want;
    int64_t promise =
        last->retry_after_ms && last->retry_after_ms != HIRATE_NEVER ? last->retry_after_ms : last->reset_ms;
    t->promised_us = promise < DAY ? t->now_us + promise * 1000 : 0;
}

/* All limits of a round are of one kind: states of another are no matter of arithmetic. */
static void run_round(trace *t, unsigned kind)
{
    for (int i = 0; i < LIMITS; i++)
        random_limit(t, kind, &t->limits[i]);
    for (int i = 0; i < NAMES; i++) {
        t->limit[i] = 0;
        assert_int_equal(hirate_local_new(&t->local[i], 4), 0);
    }
    for (int i = 0; i < (driver_slow() ? 40 : 150); i++)
        one_turn(t);
    for (int i = 0; i < NAMES; i++)
        hirate_local_free(t->local[i]);
    server_ask(t->redis, "FLUSHALL");
}

static void run_trace(const char *test, bool back)
{
    trace t = {.random = rng_start(test), .now_us = NEW_YEAR, .back = back};
    t.redis = server_start(&(server_options){.fake_clock = true});
    server_set_clock(t.redis, t.now_us);
    driver_open(&t.d, server_uri(t.redis));
    answer warm; /* a script not known yet may be sent again out of order; that is not to be met here */
    random_limit(&t, HIRATE_KIND_TOKEN_BUCKET, &t.limits[0]);
    driver_ask(&t.d, &warm, &t.limits[0], "warm", 0);
    for (int round = 0; round < (driver_slow() ? 1 : 6); round++) {
        for (unsigned kind = HIRATE_KIND_TOKEN_BUCKET; kind <= HIRATE_KIND_SLIDING_WINDOW; kind++)
            run_round(&t, kind);
    }
    assert_int_equal(t.d.too_early, 0);
    print_message("%" PRIu64 " answers equal\n", t.compared);
    driver_close(&t.d);
    server_stop(t.redis);
}

static void test_trace_clock_moves_on_answers_equal(void **state)
{
    (void)state;
    run_trace(__func__, false);
}

static void test_trace_clock_steps_back_answers_equal(void **state)
{
    (void)state;
    run_trace(__func__, true);
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trace_clock_moves_on_answers_equal),
        cmocka_unit_test(test_trace_clock_steps_back_answers_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
