/* SPDX-License-Identifier: BSD-3-Clause */
/* The leaky bucket is the token bucket, and tells what is allowed when its turn comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "leaky_bucket.h"
#include "support/random.h"

#define NOW INT64_C(1767225600000000)

static hr_policy compile(uint64_t capacity, uint64_t tokens, uint64_t period_us)
{
    hirate_limit limit;
    hr_policy policy;

    hirate_limit_leaky_bucket(&limit, "p", capacity, (hirate_rate){tokens, period_us});
    assert_int_equal(hr_policy_compile(&policy, &limit, NULL), 0);
    return policy;
}

static void test_leaky_bucket_allowed_waits_for_those_before(void **state)
{
    hr_policy policy = compile(5, 1, 1000000);
    hr_token_bucket_now bucket = hr_token_bucket_load(&policy, NULL, NOW);
    static const int64_t delays[] = {0, 1000, 3000};
    static const uint64_t costs[] = {1, 2, 2};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        hr_decision d = hr_leaky_bucket_take(&policy, &bucket, costs[i]);
        assert_int_equal(d.verdict, HIRATE_ALLOWED);
        assert_int_equal(d.delay_ms, delays[i]);
    }
    hr_decision d = hr_leaky_bucket_take(&policy, &bucket, 1);
    assert_int_equal(d.verdict, HIRATE_DENIED);
    assert_int_equal(d.delay_ms, 0);
    assert_int_equal(d.retry_after_ms, 1000);
    /* Nothing to take stands at the end of the queue. */
    assert_int_equal(hr_leaky_bucket_take(&policy, &bucket, 0).delay_ms, 5000);
    assert_int_equal(hr_leaky_bucket_take(&policy, &bucket, 6).delay_ms, 0);
}

static void test_leaky_bucket_delay_counts_a_clock_stepped_back(void **state)
{
    hr_policy policy = compile(5, 1, 1000000);
    hr_token_bucket stored = {3 * policy.p, policy.p, NOW};
    hr_token_bucket_now bucket = hr_token_bucket_load(&policy, &stored, NOW - 400000);

    (void)state;
    assert_int_equal(hr_leaky_bucket_take(&policy, &bucket, 1).delay_ms, 2400);
}

static void test_leaky_bucket_random_is_a_token_bucket_with_delay(void **state)
{
    rng r = rng_start("test_leaky_bucket_random_is_a_token_bucket_with_delay");

    (void)state;
    for (int i = 0; i < 50000; i++) {
        hr_policy policy = compile(rng_upto(&r, 50), rng_magnitude(&r, 8), rng_magnitude(&r, 30));
        hr_token_bucket stored = {rng_upto(&r, policy.full), policy.p, NOW};
        int64_t now_us = NOW - 1000 + (int64_t)rng_magnitude(&r, 30);
        hr_token_bucket_now leaky = hr_token_bucket_load(&policy, &stored, now_us);
        hr_token_bucket_now token = leaky;
        uint64_t cost = rng_upto(&r, 51);
        int64_t before = hr_token_bucket_reset_ms(&policy, &token);
        hr_decision a = hr_leaky_bucket_take(&policy, &leaky, cost);
        hr_decision b = hr_token_bucket_take(&policy, &token, cost);

        assert_int_equal(a.verdict, b.verdict);
        assert_true(a.remaining == b.remaining && a.retry_after_ms == b.retry_after_ms && a.reset_ms == b.reset_ms);
        assert_true(a.delay_ms == (a.verdict == HIRATE_ALLOWED ? before : 0));
        assert_true(leaky.units == token.units && leaky.lag == token.lag && leaky.at == token.at);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leaky_bucket_allowed_waits_for_those_before),
        cmocka_unit_test(test_leaky_bucket_delay_counts_a_clock_stepped_back),
        cmocka_unit_test(test_leaky_bucket_random_is_a_token_bucket_with_delay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
