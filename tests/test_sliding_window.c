/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sliding window against a model in 128 bits that forms DESIGN's products as they stand and finds waits by trying,
 * and against the same steps in doubles, as a script computes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sliding_window.h"
#include "support/random.h"

#include <math.h>
#include <string.h>

__extension__ typedef __int128 i128;

#define SECOND INT64_C(1000000)
#define NOW INT64_C(1767225600000000)

static hr_policy compile(uint64_t max, uint64_t window_us)
{
    hirate_limit limit;
    hr_policy policy;

    hirate_limit_sliding_window(&limit, "p", max, window_us);
    assert_int_equal(hr_policy_compile(&policy, &limit, NULL), 0);
    return policy;
}

/* As a store would: what has neither counter is not kept. */
static hr_decision decide(const hr_policy *policy, hr_sliding_window *stored, int64_t now_us, uint64_t cost)
{
    bool empty = stored->prev == 0 && stored->cur == 0;
    hr_sliding_window_now moment = hr_sliding_window_load(policy, empty ? NULL : stored, now_us);
    hr_decision d = hr_sliding_window_take(policy, &moment, cost);

    *stored = moment.window;
    assert_int_equal(d.reset_ms == 0, stored->prev == 0 && stored->cur == 0);
    assert_int_equal(d.delay_ms, 0);
    return d;
}

static void assert_decision(hr_decision d, enum hirate_verdict verdict, uint64_t remaining, int64_t retry_after_ms,
                            int64_t reset_ms)
{
    assert_int_equal(d.verdict, verdict);
    assert_true(d.remaining == remaining);
    assert_true(d.retry_after_ms == retry_after_ms);
    assert_true(d.reset_ms == reset_ms);
}

static void test_sliding_previous_window_counts_in_proportion(void **state)
{
    hr_policy policy = compile(10, (uint64_t)SECOND);
    hr_sliding_window stored = {0, 0, 0, 0};

    (void)state;
    assert_decision(decide(&policy, &stored, NOW + 900000, 10), HIRATE_ALLOWED, 0, 0, 1100);
    /* A token a tenth of a second from the next window's start on. */
    assert_decision(decide(&policy, &stored, NOW + 900000, 1), HIRATE_DENIED, 0, 200, 1100);
    assert_decision(decide(&policy, &stored, NOW + 1099999, 1), HIRATE_DENIED, 0, 1, 901);
    assert_decision(decide(&policy, &stored, NOW + 1100000, 1), HIRATE_ALLOWED, 0, 0, 1900);
    assert_decision(decide(&policy, &stored, NOW + 1500000, 10), HIRATE_DENIED, 4, 1500, 1500);
    assert_decision(decide(&policy, &stored, NOW + 1500000, 11), HIRATE_DENIED, 4, HIRATE_NEVER, 1500);
    assert_decision(decide(&policy, &stored, NOW + 3000000, 0), HIRATE_ALLOWED, 10, 0, 0);
}

static void test_sliding_ticks_are_the_finest_that_fit(void **state)
{
    static const struct {
        uint64_t max, window_us, tick_us;
    } cases[] = {
        {10, 1000000, 1},
        {UINT64_C(4503599627), 1000000, 1},
        {UINT64_C(4503599628), 1000000, 1000},
        {UINT64_C(4503599627370), 1000000, 1000},
        {UINT64_C(4503599627371), 1000000, 1000000},
        {UINT64_C(1) << 52, 1000000, 1000000},
        {1000, UINT64_C(2592000000000), 1},
        {1000000, UINT64_C(2592000000000), 1000},
        {2000000, UINT64_C(2592000000000), 1000000},
        {1, UINT64_C(1) << 52, 1},
        {0, 1, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hr_policy policy = compile(cases[i].max, cases[i].window_us);
        assert_true(policy.tick_us == cases[i].tick_us);
        assert_true(policy.window * policy.tick_us == cases[i].window_us);
    }
}

static void test_sliding_stepped_back_is_reckoned_at_the_start(void **state)
{
    hr_policy policy = compile(10, (uint64_t)SECOND);
    hr_sliding_window stored = {(uint64_t)SECOND, NOW, 4, 5};

    (void)state;
    assert_decision(decide(&policy, &stored, NOW - SECOND, 2), HIRATE_DENIED, 1, 1250, 3000);
    assert_decision(decide(&policy, &stored, NOW - 1, 1), HIRATE_ALLOWED, 0, 0, 2001);
    /* Further back: all of it counts, in the window of the moment. */
    assert_decision(decide(&policy, &stored, NOW - SECOND - 1, 1), HIRATE_DENIED, 0, 101, 1001);
    assert_true(stored.start_us == NOW - 2 * SECOND && stored.prev == 0 && stored.cur == 10);
}

static void test_sliding_changed_window_keeps_what_was_used(void **state)
{
    hr_policy longer = compile(20, (uint64_t)(10 * SECOND));
    hr_sliding_window stored = {(uint64_t)SECOND, NOW + SECOND, 4, 5};

    (void)state;
    assert_decision(decide(&longer, &stored, NOW + 1500000, 1), HIRATE_ALLOWED, 10, 0, 18500);
    assert_true(stored.window_us == 10000000 && stored.start_us == NOW && stored.prev == 0 && stored.cur == 10);
}

static void test_sliding_lowered_limit_does_not_overflow(void **state)
{
    hr_policy low = compile(1000, UINT64_C(2592000000000)); /* in microseconds; 2^52 used were in seconds */
    const int64_t start = NOW - NOW % INT64_C(2592000000000);
    hr_sliding_window stored = {UINT64_C(2592000000000), start, HIRATE_COST_MAX, HIRATE_COST_MAX};

    (void)state;
    hr_decision d = decide(&low, &stored, NOW, 1);
    assert_int_equal(d.verdict, HIRATE_DENIED);
    assert_true(d.remaining == 0);
    /* (999·W) / (2^53 - 1) rounds to 0 ticks before the end of the next window. */
    assert_true(d.retry_after_ms == (start + 2 * INT64_C(2592000000000) - NOW) / 1000);
    stored = (hr_sliding_window){1, 0, HIRATE_COST_MAX, HIRATE_COST_MAX}; /* another window: added up, at most 2^53-1 */
    (void)decide(&low, &stored, NOW, 1);
    assert_true(stored.cur == HIRATE_COST_MAX && stored.prev == 0);
}

/* Fixed windows let 2·L pass here. */
static void test_sliding_twice_the_limit_does_not_pass_around_an_edge(void **state)
{
    hr_policy policy = compile(100, (uint64_t)SECOND);
    hr_sliding_window stored = {0, 0, 0, 0};
    int allowed = 0;

    (void)state;
    for (int64_t i = -100; i < 100; i++)
        allowed += decide(&policy, &stored, NOW + i, 1).verdict == HIRATE_ALLOWED;
    assert_int_equal(allowed, 100);
}

/* ------------------------------------------------------------------------------------------------ naive model -- */

typedef struct model {
    i128 window_us, index, prev, cur; /* window_us 0: nothing stored */
} model;

static i128 model_left_of(const model *m, i128 max, i128 tick, i128 t)
{
    i128 window = m->window_us / tick;
    i128 e = t - m->index * window;
    i128 left = max * window - m->prev * (window - e) - m->cur * window;

    return left < 0 ? 0 : left / window;
}

/* Bring it to now; the moment in ticks that it is reckoned at. */
static i128 model_load(model *m, i128 window_us, i128 tick, i128 now_us)
{
    i128 window = window_us / tick, t = now_us / tick, i = t / window;

    if (m->window_us == 0) {
        *m = (model){window_us, i, 0, 0};
    } else if (m->window_us != window_us || m->index * window - t > window) {
        i128 all = m->cur + m->prev;
        *m = (model){window_us, i, 0, all < (i128)HIRATE_COST_MAX ? all : (i128)HIRATE_COST_MAX};
    } else if (m->index > i) {
        return m->index * window;
    } else if (m->index < i) {
        *m = (model){window_us, i, m->index == i - 1 ? m->cur : 0, 0};
    }
    return t;
}

static bool model_take(model *m, const hr_policy *policy, i128 now_us, i128 cost, i128 *left)
{
    i128 t = model_load(m, (i128)policy->window_us, (i128)policy->tick_us, now_us);
    bool allowed = cost == 0 || (i128)model_left_of(m, (i128)policy->capacity, (i128)policy->tick_us, t) >= cost;

    if (allowed)
        m->cur += cost;
    *left = model_left_of(m, (i128)policy->capacity, (i128)policy->tick_us, t);
    return allowed;
}

static hr_decision model_decide(model *m, const hr_policy *policy, int64_t now_us, uint64_t cost, bool find_waits)
{
    hr_decision d = {.verdict = HIRATE_DENIED};
    i128 left, ignored;

    if (model_take(m, policy, now_us, (i128)cost, &left))
        d.verdict = HIRATE_ALLOWED;
    else if (cost > policy->capacity)
        d.retry_after_ms = HIRATE_NEVER;
    d.remaining = (uint64_t)left;
    for (model copy = *m; find_waits && d.verdict == HIRATE_DENIED && d.retry_after_ms != HIRATE_NEVER; copy = *m) {
        d.retry_after_ms++;
        if (model_take(&copy, policy, now_us + 1000 * d.retry_after_ms, (i128)cost, &ignored))
            break;
    }
    for (model copy = *m; find_waits && (copy.prev > 0 || copy.cur > 0); copy = *m) {
        d.reset_ms++;
        (void)model_load(&copy, (i128)policy->window_us, (i128)policy->tick_us, now_us + 1000 * d.reset_ms);
        if (copy.prev == 0 && copy.cur == 0)
            break;
    }
    if (m->prev == 0 && m->cur == 0)
        m->window_us = 0;
    return d;
}

static void test_sliding_random_trace_equals_naive_model(void **state)
{
    rng r = rng_start("test_sliding_random_trace_equals_naive_model");

    (void)state;
    for (int i = 0; i < 1500; i++) {
        hr_sliding_window stored = {0, 0, 0, 0};
        model m = {0, 0, 0, 0};
        uint64_t max = rng_upto(&r, 30), window_us = 1 + rng_upto(&r, 20000);
        int64_t now_us = NOW;

        for (int step = 0; step < 60; step++) {
            if (rng_upto(&r, 20) == 0)
                max = rng_upto(&r, 1) ? rng_upto(&r, 30) : rng_magnitude(&r, 37); /* up to 2^37: ticks of 1 us */
            if (rng_upto(&r, 20) == 0)
                window_us = rng_upto(&r, 3) ? 1 + rng_upto(&r, 20000) : 1000 * (1 + rng_upto(&r, 20));
            hr_policy policy = compile(max, window_us);
            uint64_t cost = rng_upto(&r, rng_upto(&r, 3) ? max / 3 + 1 : max + 1);
            hr_decision d = decide(&policy, &stored, now_us, cost);
            hr_decision expected = model_decide(&m, &policy, now_us, cost, true);

            assert_decision(d, expected.verdict, expected.remaining, expected.retry_after_ms, expected.reset_ms);
            int64_t by = (int64_t)rng_upto(&r, rng_upto(&r, 2) ? window_us / 5 : 3 * window_us);
            now_us += rng_upto(&r, 4) ? by : -by;
        }
    }
}

/* A limit up to the bound of exactness, in any tick. */
static hr_policy random_policy(rng *r)
{
    static const uint64_t ticks[] = {1, 1000, 1000000};
    uint64_t tick = ticks[rng_upto(r, 2)];
    uint64_t window_us = tick * rng_magnitude(r, tick == 1 ? 52 : tick == 1000 ? 42 : 32);
    uint64_t most = HR_WINDOW_MAX / (window_us / tick);

    return compile(rng_upto(r, 3) ? rng_magnitude(r, 52) % (most + 1) : most, window_us);
}

static void test_sliding_random_large_values_equal_naive_model(void **state)
{
    rng r = rng_start("test_sliding_random_large_values_equal_naive_model");

    (void)state;
    for (int i = 0; i < 20000; i++) {
        hr_policy policy = random_policy(&r);
        hr_sliding_window stored = {0, 0, 0, 0};
        model m = {0, 0, 0, 0};
        int64_t now_us = NOW;

        for (int step = 0; step < 20; step++) {
            uint64_t cost = rng_upto(&r, 3) ? rng_upto(&r, policy.capacity) : policy.capacity / (1 + rng_upto(&r, 9));
            hr_decision d = decide(&policy, &stored, now_us, cost);
            hr_decision expected = model_decide(&m, &policy, now_us, cost, false);

            assert_int_equal(d.verdict, expected.verdict);
            assert_true(d.remaining == expected.remaining);
            int64_t by = (int64_t)rng_upto(&r, policy.window_us);
            now_us += rng_upto(&r, 5) ? by : -by;
            if (now_us < 0 || now_us > INT64_C(1) << 52)
                now_us = NOW;
        }
    }
}

/* ---------------------------------------------------------------------------- as a script computes, in doubles -- */

typedef struct in_doubles {
    double window, start, prev, cur;
} in_doubles;

static void doubles_load(in_doubles *s, bool absent, double window, double now)
{
    double start = now - fmod(now, window);

    if (absent)
        *s = (in_doubles){window, start, 0, 0};
    else if (s->window != window || s->start - now > window)
        *s = (in_doubles){window, start, 0, fmin(s->cur + s->prev, 9007199254740991.0)};
    else if (s->start < start)
        *s = (in_doubles){window, start, s->start == start - window ? s->cur : 0, 0};
}

static hr_decision doubles_take(in_doubles *s, double max, double ticks, double tick, double now, double cost)
{
    hr_decision d = {.verdict = HIRATE_DENIED};
    double left = 0, to_end = now <= s->start ? ticks : ticks - floor((now - s->start) / tick);

    if (s->cur < max) {
        double room = (max - s->cur) * ticks;
        if (s->prev == 0 || to_end <= floor(room / s->prev))
            left = floor((room - s->prev * to_end) / ticks);
    }
    double retry = 0, reset = 0;
    if (cost > max)
        d.retry_after_ms = HIRATE_NEVER;
    else if (cost <= left)
        s->cur += cost, left -= cost, d.verdict = HIRATE_ALLOWED;
    else if (s->cur + cost <= max)
        retry = (s->start - now) + s->window - floor((max - s->cur - cost) * ticks / s->prev) * tick;
    else
        retry = (s->start - now) + 2 * s->window - floor((max - cost) * ticks / s->cur) * tick;
    if (s->cur > 0)
        reset = (s->start - now) + 2 * s->window;
    else if (s->prev > 0)
        reset = (s->start - now) + s->window;
    if (d.retry_after_ms == 0)
        d.retry_after_ms = (int64_t)ceil(retry / 1000);
    d.reset_ms = (int64_t)ceil(reset / 1000);
    d.remaining = (uint64_t)left;
    return d;
}

static void test_sliding_in_doubles_is_the_same(void **state)
{
    rng r = rng_start("test_sliding_in_doubles_is_the_same");
    size_t denied = 0;

    (void)state;
    for (int i = 0; i < 300000; i++) {
        hr_policy policy = random_policy(&r);
        double window = (double)policy.window_us, max = (double)policy.capacity;
        int64_t now_us = (int64_t)rng_upto(&r, UINT64_C(1) << 51);
        int64_t length = (int64_t)policy.window_us;
        bool absent = rng_upto(&r, 9) == 0;
        int64_t start_us = now_us - now_us % length + length * ((int64_t)rng_upto(&r, 3) - 2);
        if (length > (INT64_C(1) << 53) / 3 && start_us > now_us)
            start_us -= length; /* see sliding_window.h */
        hr_sliding_window stored = {policy.window_us, start_us < 0 ? 0 : start_us, 0, 0};

        if (rng_upto(&r, 20) == 0)
            stored.window_us = rng_magnitude(&r, 52);
        stored.prev = rng_upto(&r, 3) ? rng_upto(&r, policy.capacity + 1) : rng_upto(&r, HIRATE_COST_MAX);
        stored.cur = rng_upto(&r, 3) ? rng_upto(&r, policy.capacity + 1) : rng_upto(&r, HIRATE_COST_MAX);
        in_doubles s = {(double)stored.window_us, (double)stored.start_us, (double)stored.prev, (double)stored.cur};
        hr_sliding_window_now moment = hr_sliding_window_load(&policy, absent ? NULL : &stored, now_us);
        doubles_load(&s, absent, window, (double)now_us);
        for (int k = 0; k < 3; k++) {
            uint64_t cost = rng_upto(&r, policy.capacity + 1) >> rng_upto(&r, 5);
            hr_decision d = hr_sliding_window_take(&policy, &moment, cost);
            hr_decision other =
                doubles_take(&s, max, (double)policy.window, (double)policy.tick_us, (double)now_us, (double)cost);

            assert_decision(other, d.verdict, d.remaining, d.retry_after_ms, d.reset_ms);
            assert_true(s.start == (double)moment.window.start_us && s.prev == (double)moment.window.prev &&
                        s.cur == (double)moment.window.cur);
            denied += d.verdict == HIRATE_DENIED && d.retry_after_ms != HIRATE_NEVER;
        }
    }
    assert_true(denied > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sliding_previous_window_counts_in_proportion),
        cmocka_unit_test(test_sliding_ticks_are_the_finest_that_fit),
        cmocka_unit_test(test_sliding_stepped_back_is_reckoned_at_the_start),
        cmocka_unit_test(test_sliding_changed_window_keeps_what_was_used),
        cmocka_unit_test(test_sliding_lowered_limit_does_not_overflow),
        cmocka_unit_test(test_sliding_twice_the_limit_does_not_pass_around_an_edge),
        cmocka_unit_test(test_sliding_random_trace_equals_naive_model),
        cmocka_unit_test(test_sliding_random_large_values_equal_naive_model),
        cmocka_unit_test(test_sliding_in_doubles_is_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
