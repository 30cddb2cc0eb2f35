/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The token bucket's properties, on random limits and states, against what DESIGN promises rather than how it is
 * computed. The naive model counts in 1/P of a token without reducing N/P, in 128 bits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/random.h"
#include "token_bucket.h"

__extension__ typedef __int128 i128;

#define NOW INT64_C(1767225600000000)

static hr_policy compile(uint64_t capacity, uint64_t tokens, uint64_t period_us)
{
    hirate_limit limit;
    hr_policy policy;

    hirate_limit_token_bucket(&limit, "p", capacity, (hirate_rate){tokens, period_us});
    assert_int_equal(hr_policy_compile(&policy, &limit, NULL), 0);
    return policy;
}

/* A limit that is exact, over the whole range of magnitudes; *rate as it was written, not reduced. */
static hr_policy random_policy(rng *r, hirate_rate *rate)
{
    hirate_limit limit;
    hr_policy policy;

    do {
        unsigned bits = 1 + (unsigned)rng_upto(r, 51);
        uint64_t multiple = rng_magnitude(r, 10); /* so that there is something to reduce */

        *rate = (hirate_rate){rng_magnitude(r, 43) * multiple, rng_magnitude(r, 43) * multiple};
        hirate_limit_token_bucket(&limit, "p", rng_magnitude(r, bits) - 1, *rate);
    } while (hr_policy_compile(&policy, &limit, NULL) != 0);
    return policy;
}

/* A stored state, its ts as far before or, for about a fill time, after NOW as makes a difference. */
static hr_token_bucket random_state(rng *r, const hr_policy *policy)
{
    uint64_t fill_us = policy->full / policy->n + 2;
    uint64_t most = fill_us < INT64_C(1) << 50 ? fill_us : UINT64_C(1) << 50;
    int64_t away = (int64_t)rng_upto(r, most + most / 4);
    hr_token_bucket stored = {rng_upto(r, policy->full), policy->p, NOW + (rng_upto(r, 1) ? away : -away)};

    return stored;
}

static hr_decision decide(const hr_policy *policy, hr_token_bucket *stored, int64_t now_us, uint64_t cost)
{
    hr_token_bucket_now bucket = hr_token_bucket_load(policy, stored, now_us);
    hr_decision decision = hr_token_bucket_take(policy, &bucket, cost);

    stored->units = bucket.units;
    stored->p = policy->p;
    stored->ts = bucket.at;
    return decision;
}

static void assert_same(const hr_decision *a, const hr_decision *b)
{
    assert_int_equal(a->verdict, b->verdict);
    assert_true(a->remaining == b->remaining);
    assert_true(a->retry_after_ms == b->retry_after_ms);
    assert_true(a->reset_ms == b->reset_ms);
    assert_true(a->delay_ms == b->delay_ms);
}

static uint64_t random_cost(rng *r, const hr_policy *policy)
{
    switch (rng_upto(r, 5)) {
    case 0:
        return rng_upto(r, 1);
    case 1:
        return policy->capacity + rng_upto(r, 1);
    case 2:
        return rng_upto(r, HIRATE_COST_MAX);
    default:
        return rng_upto(r, policy->capacity);
    }
}

/* --------------------------------------------------------------------------------------------- fixed cases -- */

static void test_bucket_absent_is_full(void **state)
{
    hr_policy policy = compile(20, 1, 3000000);
    hr_token_bucket_now bucket = hr_token_bucket_load(&policy, NULL, NOW);

    (void)state;
    assert_true(bucket.units == policy.full);
    assert_true(bucket.lag == 0);
    assert_true(bucket.at == NOW);
    assert_int_equal(hr_token_bucket_reset_ms(&policy, &bucket), 0);
}

static void test_bucket_cost_zero_is_allowed_and_takes_nothing(void **state)
{
    hr_policy policy = compile(5, 1, 1000000);
    hr_token_bucket stored = {0, policy.p, NOW};
    hr_decision d = decide(&policy, &stored, NOW, 0);

    (void)state;
    assert_int_equal(d.verdict, HIRATE_ALLOWED);
    assert_true(d.remaining == 0 && stored.units == 0);
    assert_int_equal(d.reset_ms, 5000);
}

static void test_bucket_cost_above_capacity_is_never(void **state)
{
    hr_policy policy = compile(5, 1, 1000000);
    static const uint64_t costs[] = {6, HIRATE_COST_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++) {
        hr_token_bucket stored = {policy.full, policy.p, NOW};
        hr_decision d = decide(&policy, &stored, NOW, costs[i]);

        assert_int_equal(d.verdict, HIRATE_DENIED);
        assert_true(d.retry_after_ms == HIRATE_NEVER);
        assert_true(d.remaining == 5 && d.reset_ms == 0);
    }
}

static void test_bucket_clock_stepped_back_waits_until_it_returns(void **state)
{
    hr_policy policy = compile(10, 1, 100000);
    hr_token_bucket stored = {0, policy.p, NOW};

    (void)state;
    /* 400 ms back: 100 ms for a token after the 400 until NOW. */
    hr_decision d = decide(&policy, &stored, NOW - 400000, 1);
    assert_int_equal(d.verdict, HIRATE_DENIED);
    assert_int_equal(d.retry_after_ms, 500);
    assert_int_equal(d.reset_ms, 1400);
    assert_true(stored.ts == NOW);
    /* One fill time exactly, then one microsecond more: the clock was set. */
    assert_int_equal(decide(&policy, &stored, NOW - 1000000, 1).retry_after_ms, 1100);
    assert_true(stored.ts == NOW);
    assert_int_equal(decide(&policy, &stored, NOW - 1000001, 1).retry_after_ms, 100);
    assert_true(stored.ts == NOW - 1000001);
}

static void test_bucket_idle_for_longest_time_is_full(void **state)
{
    hr_policy policy = compile(1, HIRATE_COST_MAX / 1001, 1);
    hr_token_bucket stored = {0, policy.p, 0};

    (void)state;
    /* Elapsed · n is far above 64 bits. */
    assert_true(decide(&policy, &stored, (int64_t)HIRATE_COST_MAX, 0).remaining == 1);
    stored = (hr_token_bucket){0, policy.p, (int64_t)HIRATE_COST_MAX};
    assert_true(decide(&policy, &stored, 0, 1).verdict == HIRATE_DENIED);
    assert_true(stored.ts == 0);
}

/* -------------------------------------------------------------------------------------------- live changes -- */

static void test_bucket_lowered_capacity_keeps_no_more(void **state)
{
    hr_policy high = compile(100, 1, 1000000);
    hr_policy low = compile(10, 1, 1000000);
    hr_token_bucket stored = {high.full - high.p, high.p, NOW};

    (void)state;
    assert_true(decide(&low, &stored, NOW, 1).remaining == 9);
    /* Raised again: what was cut is gone, and grows back at the rate. */
    assert_true(decide(&high, &stored, NOW + 2000000, 0).remaining == 11);
}

static void test_bucket_changed_rate_refills_time_since_at_the_new(void **state)
{
    hr_policy before = compile(100, 1, 1000000);
    hr_policy after = compile(100, 1, 3000000);
    hr_token_bucket stored = {7 * before.p + before.p / 2, before.p, NOW};

    (void)state;
    hr_decision d = decide(&after, &stored, NOW + 6000000, 0);
    assert_true(d.remaining == 9);
    assert_true(stored.units == 9 * after.p + after.p / 2); /* half a token stays half a token */
    assert_true(stored.p == after.p);
}

static void test_bucket_changed_unit_overflowing_is_full(void **state)
{
    hr_policy after = compile(1, 1, UINT64_C(1) << 52);
    hr_token_bucket stored = {UINT64_C(1) << 52, 1, NOW};

    (void)state;
    assert_true(decide(&after, &stored, NOW, 0).remaining == 1);
    assert_true(stored.units == after.full);
}

static void test_bucket_random_live_change_keeps_whole_tokens(void **state)
{
    rng r = rng_start("test_bucket_random_live_change_keeps_whole_tokens");

    (void)state;
    for (int i = 0; i < 50000; i++) {
        hirate_rate rate;
        hr_policy before = random_policy(&r, &rate);
        hr_policy after = random_policy(&r, &rate);
        hr_token_bucket stored = {rng_upto(&r, before.full), before.p, NOW};
        uint64_t tokens = stored.units / before.p;
        uint64_t rest = stored.units % before.p;
        hr_token_bucket_now bucket = hr_token_bucket_load(&after, &stored, NOW);

        if (tokens >= after.capacity) {
            assert_true(bucket.units == after.full);
            continue;
        }
        assert_true(bucket.units / after.p == tokens);
        if (before.p == after.p)
            continue;
        /* The fraction to within a unit and what doubles lose in two roundings. */
        i128 exact = (i128)rest * after.p / before.p;
        i128 off = (i128)(bucket.units % after.p) - exact;
        assert_true(off >= -1 && off <= 1);
    }
}

/* ---------------------------------------------------------------------------------------------- properties -- */

static void test_bucket_random_waiting_retry_after_is_exact(void **state)
{
    rng r = rng_start("test_bucket_random_waiting_retry_after_is_exact");
    size_t waited = 0;
    size_t lagged = 0;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        hirate_rate rate;
        hr_policy policy = random_policy(&r, &rate);
        hr_token_bucket stored = random_state(&r, &policy);
        uint64_t cost = random_cost(&r, &policy);
        bool behind = stored.ts > NOW;
        hr_decision d = decide(&policy, &stored, NOW, cost);

        assert_int_equal(d.retry_after_ms == HIRATE_NEVER, cost > policy.capacity);
        assert_int_equal(d.verdict == HIRATE_ALLOWED, d.retry_after_ms == 0);
        if (d.verdict == HIRATE_ALLOWED || d.retry_after_ms == HIRATE_NEVER || d.retry_after_ms > INT64_C(1) << 50)
            continue;
        hr_token_bucket early = stored;
        assert_int_equal(decide(&policy, &early, NOW + 1000 * (d.retry_after_ms - 1), cost).verdict, HIRATE_DENIED);
        assert_int_equal(decide(&policy, &stored, NOW + 1000 * d.retry_after_ms, cost).verdict, HIRATE_ALLOWED);
        waited++;
        lagged += behind && stored.ts > NOW;
    }
    assert_true(waited > 1000 && lagged > 100);
}

static void test_bucket_random_reset_is_exact(void **state)
{
    rng r = rng_start("test_bucket_random_reset_is_exact");
    size_t waited = 0;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        hirate_rate rate;
        hr_policy policy = random_policy(&r, &rate);
        hr_token_bucket stored = random_state(&r, &policy);
        hr_decision d = decide(&policy, &stored, NOW, random_cost(&r, &policy));

        assert_int_equal(d.reset_ms == 0, stored.units == policy.full);
        if (d.reset_ms == 0 || d.reset_ms > INT64_C(1) << 50)
            continue;
        hr_token_bucket_now early = hr_token_bucket_load(&policy, &stored, NOW + 1000 * (d.reset_ms - 1));
        hr_token_bucket_now then = hr_token_bucket_load(&policy, &stored, NOW + 1000 * d.reset_ms);
        assert_true(early.units < policy.full);
        assert_true(then.units == policy.full && then.lag == 0);
        waited++;
    }
    assert_true(waited > 1000);
}

/* In 1/P of a token, P the period as written: capacity·P when full, N more each microsecond. */
typedef struct model {
    i128 full, units, n, p;
    int64_t ts;
} model;

static i128 ceil_div(i128 a, i128 b)
{
    return (a + b - 1) / b;
}

static hr_decision model_decide(model *m, uint64_t capacity, int64_t now_us, uint64_t cost)
{
    hr_decision d = {HIRATE_DENIED, 0, 0, 0, 0};
    int64_t at = now_us < m->ts && (i128)(m->ts - now_us) * m->n <= m->full ? m->ts : now_us;
    i128 lag = (i128)(at - now_us) * m->n;

    if (at > m->ts)
        m->units += (i128)(at - m->ts) * m->n;
    if (m->units > m->full)
        m->units = m->full;
    m->ts = at;
    if (cost > capacity) {
        d.retry_after_ms = HIRATE_NEVER;
    } else if ((i128)cost * m->p <= m->units) {
        d.verdict = HIRATE_ALLOWED;
        m->units -= (i128)cost * m->p;
    } else {
        d.retry_after_ms = (int64_t)ceil_div((i128)cost * m->p - m->units + lag, 1000 * m->n);
    }
    d.remaining = (uint64_t)(m->units / m->p);
    d.reset_ms = m->units == m->full ? 0 : (int64_t)ceil_div(m->full - m->units + lag, 1000 * m->n);
    return d;
}

/* Around a wait, a fill time, or any; a fifth of them back. */
static int64_t random_step(rng *r, const hr_policy *policy)
{
    uint64_t fill_us = policy->full / policy->n;
    uint64_t most = fill_us < INT64_C(1) << 48 ? fill_us + fill_us / 8 + 2 : UINT64_C(1) << 48;
    int64_t step = (int64_t)(rng_upto(r, 2) ? rng_upto(r, most / (1 + rng_upto(r, 20))) : rng_upto(r, 1));

    return rng_upto(r, 4) == 0 ? -step : step;
}

static void test_bucket_random_trace_equals_naive_model(void **state)
{
    rng r = rng_start("test_bucket_random_trace_equals_naive_model");

    (void)state;
    for (int i = 0; i < 2000; i++) {
        hirate_rate rate;
        hr_policy policy = random_policy(&r, &rate);
        hr_token_bucket stored = {policy.full, policy.p, NOW};
        i128 full = (i128)policy.capacity * rate.period_us;
        model m = {full, full, rate.tokens, rate.period_us, NOW};
        int64_t now_us = NOW;

        for (int step = 0; step < 50; step++) {
            uint64_t cost = random_cost(&r, &policy);
            hr_decision d = decide(&policy, &stored, now_us, cost);
            hr_decision expected = model_decide(&m, policy.capacity, now_us, cost);

            assert_same(&d, &expected);
            now_us += random_step(&r, &policy);
        }
    }
}

enum { TRACE = 200 };
typedef struct admitted {
    int64_t time_us;
    uint64_t cost;
} admitted;

/* In every interval of the trace: p times what was admitted <= full + n · its length. */
static void assert_within_bound(const hr_policy *policy, const admitted trace[TRACE])
{
    for (size_t from = 0; from < TRACE; from++) {
        i128 units = 0;

        for (size_t to = from; to < TRACE; to++) {
            units += (i128)trace[to].cost * policy->p;
            assert_true(units <=
                        (i128)policy->full + (i128)(trace[to].time_us - trace[from].time_us) * (i128)policy->n);
        }
    }
}

static void test_bucket_random_trace_never_admits_more_than_bound(void **state)
{
    rng r = rng_start("test_bucket_random_trace_never_admits_more_than_bound");
    admitted trace[TRACE];

    (void)state;
    for (int i = 0; i < 300; i++) {
        hirate_rate rate;
        hr_policy policy = random_policy(&r, &rate);
        hr_token_bucket stored = {policy.full, policy.p, NOW};
        int64_t now_us = NOW;

        for (size_t k = 0; k < TRACE; k++) {
            uint64_t cost = random_cost(&r, &policy);
            int64_t step = random_step(&r, &policy);
            hr_decision d = decide(&policy, &stored, now_us, cost);

            trace[k] = (admitted){now_us, d.verdict == HIRATE_ALLOWED ? cost : 0};
            now_us += step < 0 ? -step : step;
        }
        assert_within_bound(&policy, trace);
    }
}

/* What is admitted is paid for by the clock going forward, however it goes back in between. */
static void test_bucket_random_steps_back_mint_nothing(void **state)
{
    rng r = rng_start("test_bucket_random_steps_back_mint_nothing");

    (void)state;
    for (int i = 0; i < 2000; i++) {
        hirate_rate rate;
        hr_policy policy = random_policy(&r, &rate);
        hr_token_bucket stored = {policy.full, policy.p, NOW};
        i128 room = policy.full;
        int64_t now_us = NOW;

        for (int k = 0; k < 100; k++) {
            uint64_t cost = random_cost(&r, &policy);

            if (decide(&policy, &stored, now_us, cost).verdict == HIRATE_ALLOWED)
                room -= (i128)cost * policy.p;
            assert_true(room >= 0);
            int64_t step = random_step(&r, &policy);
            now_us += step;
            if (step > 0)
                room += (i128)step * policy.n;
        }
    }
}

/* The client takes again and again from what one call loaded: as if each had come alone at that moment. */
static void test_bucket_taken_repeatedly_equals_separate_decisions(void **state)
{
    rng r = rng_start("test_bucket_taken_repeatedly_equals_separate_decisions");

    (void)state;
    for (int i = 0; i < 5000; i++) {
        hirate_rate rate;
        hr_policy policy = random_policy(&r, &rate);
        hr_token_bucket stored = random_state(&r, &policy);
        hr_token_bucket_now bucket = hr_token_bucket_load(&policy, &stored, NOW);

        for (int k = 0; k < 10; k++) {
            uint64_t cost = random_cost(&r, &policy);
            hr_decision together = hr_token_bucket_take(&policy, &bucket, cost);
            hr_decision alone = decide(&policy, &stored, NOW, cost);

            assert_same(&together, &alone);
            assert_true(stored.units == bucket.units && stored.ts == bucket.at);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bucket_absent_is_full),
        cmocka_unit_test(test_bucket_cost_zero_is_allowed_and_takes_nothing),
        cmocka_unit_test(test_bucket_cost_above_capacity_is_never),
        cmocka_unit_test(test_bucket_clock_stepped_back_waits_until_it_returns),
        cmocka_unit_test(test_bucket_idle_for_longest_time_is_full),
        cmocka_unit_test(test_bucket_lowered_capacity_keeps_no_more),
        cmocka_unit_test(test_bucket_changed_rate_refills_time_since_at_the_new),
        cmocka_unit_test(test_bucket_changed_unit_overflowing_is_full),
        cmocka_unit_test(test_bucket_random_live_change_keeps_whole_tokens),
        cmocka_unit_test(test_bucket_random_waiting_retry_after_is_exact),
        cmocka_unit_test(test_bucket_random_reset_is_exact),
        cmocka_unit_test(test_bucket_random_trace_equals_naive_model),
        cmocka_unit_test(test_bucket_random_trace_never_admits_more_than_bound),
        cmocka_unit_test(test_bucket_random_steps_back_mint_nothing),
        cmocka_unit_test(test_bucket_taken_repeatedly_equals_separate_decisions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
