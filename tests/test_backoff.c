/* SPDX-License-Identifier: BSD-3-Clause */
/* Delays: their bounds, how they grow, that they start over; the random words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backoff.h"
#include "support/random.h"

static const int64_t STEPS[] = {50000, 100000, 200000, 400000, 800000, 1000000, 1000000, 1000000};
enum { STEP_COUNT = sizeof STEPS / sizeof STEPS[0] };

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void test_smallest_word_gives_half_the_step(void **state)
{
    hr_backoff backoff = {0};

    (void)state;
    for (size_t i = 0; i < STEP_COUNT; i++)
        assert_true(hr_backoff_next(&backoff, 0) == STEPS[i] / 2);
}

static void test_middle_word_gives_the_step(void **state)
{
    hr_backoff backoff = {0};

    (void)state;
    for (size_t i = 0; i < STEP_COUNT; i++)
        assert_true(hr_backoff_next(&backoff, UINT32_C(1) << 31) == STEPS[i]);
}

static void test_largest_word_stays_below_one_and_a_half(void **state)
{
    hr_backoff backoff = {0};

    (void)state;
    for (size_t i = 0; i < STEP_COUNT; i++) {
        int64_t delay = hr_backoff_next(&backoff, UINT32_MAX);
        assert_true(delay <= 1000000);
        assert_true(delay == least(STEPS[i] * 3 / 2 - 1, 1000000));
    }
}

static void test_random_words_stay_in_bounds(void **state)
{
    rng r = rng_start("test_random_words_stay_in_bounds");

    (void)state;
    for (int round = 0; round < 1000; round++) {
        hr_backoff backoff = {0};

        for (size_t i = 0; i < 20; i++) {
            int64_t step = STEPS[i < STEP_COUNT ? i : STEP_COUNT - 1];
            int64_t delay = hr_backoff_next(&backoff, (uint32_t)rng_next(&r));
            assert_true(delay >= step / 2);
            assert_true(delay <= least(step * 3 / 2, 1000000));
        }
    }
}

static void test_reset_starts_over(void **state)
{
    hr_backoff backoff = {0};

    (void)state;
    for (int i = 0; i < 10; i++)
        (void)hr_backoff_next(&backoff, 0);
    hr_backoff_reset(&backoff);
    assert_true(hr_backoff_next(&backoff, 0) == 25000);
    assert_true(hr_backoff_next(&backoff, 0) == 50000);
}

static void test_endless_failures_stay_at_the_top(void **state)
{
    hr_backoff backoff = {UINT32_MAX - 1};

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_true(hr_backoff_next(&backoff, 0) == 500000);
}

static void test_random_words_are_xorshift(void **state)
{
    /* x ^= x << 13, x ^= x >> 7, x ^= x << 17 from 1: 1082269761, 1152992998833853505, 11177516664432764457 */
    uint64_t x = 1;

    (void)state;
    assert_true(hr_random_next(&x) == 0);
    assert_true(x == UINT64_C(1082269761));
    assert_true(hr_random_next(&x) == UINT64_C(1152992998833853505) >> 32);
    assert_true(x == UINT64_C(1152992998833853505));
    assert_true(hr_random_next(&x) == UINT64_C(11177516664432764457) >> 32);
    assert_true(x == UINT64_C(11177516664432764457));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smallest_word_gives_half_the_step),
        cmocka_unit_test(test_middle_word_gives_the_step),
        cmocka_unit_test(test_largest_word_stays_below_one_and_a_half),
        cmocka_unit_test(test_random_words_stay_in_bounds),
        cmocka_unit_test(test_reset_starts_over),
        cmocka_unit_test(test_endless_failures_stay_at_the_top),
        cmocka_unit_test(test_random_words_are_xorshift),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
