/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fixed window and the quota: edges, steps back, changes, and that no window holds more than the limit. A quota's
 * reservations stand in test_reservations.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "calendar.h"
#include "fixed_window.h"
#include "support/random.h"

#include <string.h>

#define SECOND INT64_C(1000000)
#define NOW INT64_C(1767225600000000) /* 2026-01-01, a Thursday; a whole number of seconds, minutes, hours and days */

static hr_policy compile(hirate_limit limit)
{
    hr_policy policy;

    assert_int_equal(hr_policy_compile(&policy, &limit, NULL), 0);
    return policy;
}

static hr_policy window(uint64_t max, int64_t window_us)
{
    hirate_limit limit;

    hirate_limit_fixed_window(&limit, "p", max, (uint64_t)window_us);
    return compile(limit);
}

static hr_policy quota(uint64_t max, enum hirate_per per, int32_t offset_minutes)
{
    hirate_limit limit;

    hirate_limit_quota(&limit, "p", max, per, offset_minutes);
    return compile(limit);
}

/* As a store would: used 0 is not kept. */
static hr_decision decide(const hr_policy *policy, hr_fixed_window *stored, int64_t now_us, uint64_t cost)
{
    hr_fixed_window_now moment = hr_fixed_window_load(policy, stored->used == 0 ? NULL : stored, now_us);
    hr_decision d = hr_fixed_window_take(policy, &moment, cost);

    *stored = moment.window;
    assert_int_equal(d.reset_ms == 0, stored->used == 0);
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

static void test_window_is_used_up_and_begins_anew(void **state)
{
    hr_policy policy = window(3, SECOND);
    hr_fixed_window stored = {.used = 0};

    (void)state;
    assert_decision(decide(&policy, &stored, NOW + 300001, 2), HIRATE_ALLOWED, 1, 0, 700);
    assert_decision(decide(&policy, &stored, NOW + 300001, 2), HIRATE_DENIED, 1, 700, 700);
    assert_decision(decide(&policy, &stored, NOW + 300001, 1), HIRATE_ALLOWED, 0, 0, 700);
    assert_decision(decide(&policy, &stored, NOW + 999999, 1), HIRATE_DENIED, 0, 1, 1);
    assert_decision(decide(&policy, &stored, NOW + 999999, 0), HIRATE_ALLOWED, 0, 0, 1);
    assert_decision(decide(&policy, &stored, NOW + SECOND, 1), HIRATE_ALLOWED, 2, 0, 1000);
}

static void test_window_cost_above_limit_is_never(void **state)
{
    hr_policy policy = window(3, SECOND), none = window(0, SECOND);
    hr_fixed_window stored = {.used = 0};

    (void)state;
    assert_decision(decide(&policy, &stored, NOW, 4), HIRATE_DENIED, 3, HIRATE_NEVER, 0);
    assert_decision(decide(&policy, &stored, NOW, 1), HIRATE_ALLOWED, 2, 0, 1000);
    assert_decision(decide(&policy, &stored, NOW, HIRATE_COST_MAX), HIRATE_DENIED, 2, HIRATE_NEVER, 1000);
    stored.used = 0;
    assert_decision(decide(&none, &stored, NOW, 0), HIRATE_ALLOWED, 0, 0, 0);
    assert_decision(decide(&none, &stored, NOW, 1), HIRATE_DENIED, 0, HIRATE_NEVER, 0);
}

static void test_window_largest_limit_is_exact(void **state)
{
    hr_policy policy = window(HIRATE_COST_MAX, SECOND);
    hr_fixed_window stored = {.used = 0};

    (void)state;
    assert_decision(decide(&policy, &stored, NOW, HIRATE_COST_MAX - 1), HIRATE_ALLOWED, 1, 0, 1000);
    assert_decision(decide(&policy, &stored, NOW, HIRATE_COST_MAX), HIRATE_DENIED, 1, 1000, 1000);
    assert_decision(decide(&policy, &stored, NOW, 1), HIRATE_ALLOWED, 0, 0, 1000);
}

static void test_window_stepped_back_stands_up_to_its_length(void **state)
{
    hr_policy policy = window(3, SECOND);
    hr_fixed_window stored = {.used = 0};

    (void)state;
    (void)decide(&policy, &stored, NOW + 500000, 2);
    /* The window began at NOW: a second before it still stands, a microsecond more and it is that of the moment. */
    assert_decision(decide(&policy, &stored, NOW - SECOND, 2), HIRATE_DENIED, 1, 2000, 2000);
    assert_true(stored.start_us == NOW);
    assert_decision(decide(&policy, &stored, NOW - SECOND - 1, 2), HIRATE_DENIED, 1, 1, 1);
    assert_true(stored.start_us == NOW - 2 * SECOND && stored.end_us == NOW - SECOND && stored.used == 2);
    assert_decision(decide(&policy, &stored, NOW - SECOND, 2), HIRATE_ALLOWED, 1, 0, 1000);
}

static void test_window_changed_length_applies_from_the_next(void **state)
{
    hr_policy second = window(10, SECOND), minute = window(10, 60 * SECOND);
    hr_fixed_window stored = {.used = 0};

    (void)state;
    (void)decide(&second, &stored, NOW, 4);
    assert_decision(decide(&minute, &stored, NOW + 1, 1), HIRATE_ALLOWED, 5, 0, 1000);
    assert_decision(decide(&minute, &stored, NOW + SECOND, 1), HIRATE_ALLOWED, 9, 0, 59000);
    assert_decision(decide(&second, &stored, NOW + 2 * SECOND, 1), HIRATE_ALLOWED, 8, 0, 58000);
}

static void test_window_changed_limit_keeps_what_was_used(void **state)
{
    hr_policy ten = window(10, SECOND), five = window(5, SECOND);
    hr_fixed_window stored = {.used = 0};

    (void)state;
    (void)decide(&ten, &stored, NOW, 8);
    assert_decision(decide(&five, &stored, NOW, 1), HIRATE_DENIED, 0, 1000, 1000);
    assert_decision(decide(&five, &stored, NOW, 0), HIRATE_ALLOWED, 0, 0, 1000);
    assert_decision(decide(&ten, &stored, NOW, 2), HIRATE_ALLOWED, 0, 0, 1000);
}

static void test_quota_begins_with_the_calendar(void **state)
{
    hr_policy month = quota(5, HIRATE_PER_MONTH, 540), week = quota(5, HIRATE_PER_WEEK, 0);
    hr_fixed_window stored = {.used = 0};

    (void)state;
    /* At +09:00 it is nine in the morning; the month is 31 days less that. */
    assert_decision(decide(&month, &stored, NOW, 5), HIRATE_ALLOWED, 0, 0, (31 * 24 - 9) * INT64_C(3600000));
    assert_decision(decide(&month, &stored, NOW, 1), HIRATE_DENIED, 0, (31 * 24 - 9) * INT64_C(3600000),
                    (31 * 24 - 9) * INT64_C(3600000));
    /* A change of the calendar: the month stands. */
    assert_int_equal(decide(&week, &stored, NOW + 7 * 86400 * SECOND, 1).verdict, HIRATE_DENIED);
    stored.used = 0;
    assert_decision(decide(&week, &stored, NOW, 1), HIRATE_ALLOWED, 4, 0, 4 * INT64_C(86400000)); /* Monday the 5th */
}

/* 2·L pass in a moment, half of them on each side of an edge. */
static void test_window_twice_the_limit_passes_around_an_edge(void **state)
{
    hr_policy policy = window(100, SECOND);
    hr_fixed_window stored = {.used = 0};
    int allowed = 0;

    (void)state;
    for (int64_t i = -100; i < 100; i++)
        allowed += decide(&policy, &stored, NOW + i, 1).verdict == HIRATE_ALLOWED;
    assert_int_equal(allowed, 200);
}

/* In the plainest way: by DESIGN's words, in signed 128 bits. */
__extension__ typedef __int128 i128;
typedef struct model {
    i128 start, end, used;
} model;

static hr_decision model_decide(model *m, i128 max, i128 length, i128 now, i128 cost)
{
    hr_decision d = {.verdict = HIRATE_DENIED};

    if (now >= m->end)
        m->used = 0;
    if (m->used == 0 || m->start - now > m->end - m->start) {
        m->start = now / length * length;
        m->end = m->start + length;
    }
    i128 wait = (m->end - now + 999) / 1000;
    if (cost == 0 || m->used + cost <= max) {
        m->used += cost;
        d.verdict = HIRATE_ALLOWED;
    } else {
        d.retry_after_ms = cost > max ? HIRATE_NEVER : (int64_t)wait;
    }
    d.remaining = m->used < max ? (uint64_t)(max - m->used) : 0;
    d.reset_ms = m->used > 0 ? (int64_t)wait : 0;
    return d;
}

static void test_window_random_trace_equals_naive_model(void **state)
{
    rng r = rng_start("test_window_random_trace_equals_naive_model");

    (void)state;
    for (int i = 0; i < 3000; i++) {
        hr_fixed_window stored = {.used = 0};
        model m = {0, 0, 0};
        uint64_t max = rng_magnitude(&r, 53), length = rng_magnitude(&r, 50);
        int64_t now_us = NOW;

        for (int step = 0; step < 60; step++) {
            if (rng_upto(&r, 20) == 0)
                max = rng_magnitude(&r, 53);
            if (rng_upto(&r, 20) == 0)
                length = rng_magnitude(&r, 50);
            hr_policy policy = window(max, (int64_t)length);
            uint64_t cost = rng_upto(&r, 3) ? rng_upto(&r, max / 2 + 1) : rng_upto(&r, HIRATE_COST_MAX);
            hr_decision d = decide(&policy, &stored, now_us, cost);
            hr_decision expected = model_decide(&m, (i128)max, (i128)length, now_us, (i128)cost);

            assert_decision(d, expected.verdict, expected.remaining, expected.retry_after_ms, expected.reset_ms);
            int64_t by = (int64_t)rng_upto(&r, length + length / 3);
            now_us += rng_upto(&r, 3) ? by : -by;
            if (now_us < 0 || now_us > INT64_C(1) << 52)
                now_us = NOW;
        }
    }
}

static void test_window_random_trace_never_admits_more_in_one(void **state)
{
    rng r = rng_start("test_window_random_trace_never_admits_more_in_one");

    (void)state;
    for (int i = 0; i < 1000; i++) {
        bool calendar = rng_upto(&r, 1);
        uint64_t max = rng_upto(&r, 20);
        hr_policy policy = calendar ? quota(max, (enum hirate_per)(1 + rng_upto(&r, 3)), (int32_t)rng_upto(&r, 1439))
                                    : window(max, (int64_t)rng_magnitude(&r, 40));
        hr_fixed_window stored = {.used = 0};
        hr_span span = {0, 0};
        uint64_t admitted = 0;
        int64_t now_us = NOW;

        for (int k = 0; k < 200; k++) {
            if (now_us >= span.end_us) {
                span = calendar ? hr_span_calendar((enum hirate_per)policy.per, policy.offset_us, now_us)
                                : hr_span_aligned(policy.window_us, now_us);
                admitted = 0;
            }
            uint64_t cost = rng_upto(&r, max / 3 + 1);
            if (decide(&policy, &stored, now_us, cost).verdict == HIRATE_ALLOWED)
                admitted += cost;
            assert_true(admitted <= max);
            now_us += (int64_t)rng_upto(&r, (uint64_t)(span.end_us - span.start_us) / 20);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_window_is_used_up_and_begins_anew),
        cmocka_unit_test(test_window_cost_above_limit_is_never),
        cmocka_unit_test(test_window_largest_limit_is_exact),
        cmocka_unit_test(test_window_stepped_back_stands_up_to_its_length),
        cmocka_unit_test(test_window_changed_length_applies_from_the_next),
        cmocka_unit_test(test_window_changed_limit_keeps_what_was_used),
        cmocka_unit_test(test_quota_begins_with_the_calendar),
        cmocka_unit_test(test_window_twice_the_limit_passes_around_an_edge),
        cmocka_unit_test(test_window_random_trace_equals_naive_model),
        cmocka_unit_test(test_window_random_trace_never_admits_more_in_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
