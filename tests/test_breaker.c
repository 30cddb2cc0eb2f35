/* SPDX-License-Identifier: BSD-3-Clause */
/* The breaker alone: when it opens, whom it lets through, when it closes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "breaker.h"

#define MIDDLE 0x80000000u /* the random word that leaves a backoff step as it is */

static void fail_times(hr_breaker *b, int times, int64_t now_us)
{
    for (int i = 0; i < times; i++)
        hr_breaker_failed(b, now_us, MIDDLE);
}

static void test_breaker_below_threshold_stays_closed(void **state)
{
    (void)state;
    hr_breaker b = {.threshold = 3};
    fail_times(&b, 2, 0);
    assert_false(hr_breaker_is_open(&b));
    for (int i = 0; i < 10; i++)
        assert_true(hr_breaker_lets_through(&b, 0, MIDDLE));
    hr_breaker_good(&b); /* failures count only in a row */
    fail_times(&b, 2, 0);
    assert_false(hr_breaker_is_open(&b));
}

static void test_breaker_open_lets_probes_through_ever_more_rarely(void **state)
{
    (void)state;
    hr_breaker b = {.threshold = 3};
    int64_t step = HR_BACKOFF_FIRST_US, now = 1000;
    fail_times(&b, 3, now);
    assert_true(hr_breaker_is_open(&b));
    for (int i = 0; i < 10; i++) {
        assert_false(hr_breaker_lets_through(&b, now, MIDDLE));
        assert_false(hr_breaker_lets_through(&b, now + step - 1, MIDDLE));
        now += step;
        assert_true(hr_breaker_lets_through(&b, now, MIDDLE));
        fail_times(&b, 1, now); /* the probe's own failure changes nothing more */
        step = step * 2 < HR_BACKOFF_MOST_US ? step * 2 : HR_BACKOFF_MOST_US;
    }
    assert_int_equal(step, HR_BACKOFF_MOST_US);
}

static void test_breaker_good_decision_closes_it(void **state)
{
    (void)state;
    hr_breaker b = {.threshold = 1};
    fail_times(&b, 5, 0);
    hr_breaker_good(&b);
    assert_false(hr_breaker_is_open(&b));
    assert_true(hr_breaker_lets_through(&b, 0, MIDDLE));
    fail_times(&b, 1, 0); /* and the backoff has started over */
    assert_true(hr_breaker_lets_through(&b, HR_BACKOFF_FIRST_US, MIDDLE));
}

static void test_breaker_probe_now_lets_one_through(void **state)
{
    (void)state;
    hr_breaker b = {.threshold = 1};
    fail_times(&b, 1, 0);
    hr_breaker_probe_now(&b, 7);
    assert_true(hr_breaker_lets_through(&b, 7, MIDDLE));
    assert_false(hr_breaker_lets_through(&b, 7, MIDDLE));
}

static void test_breaker_failures_without_end_do_not_wrap(void **state)
{
    (void)state;
    hr_breaker b = {.threshold = 5, .failures = UINT32_MAX - 1};
    fail_times(&b, 4, 0);
    assert_true(hr_breaker_is_open(&b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_breaker_below_threshold_stays_closed),
        cmocka_unit_test(test_breaker_open_lets_probes_through_ever_more_rarely),
        cmocka_unit_test(test_breaker_good_decision_closes_it),
        cmocka_unit_test(test_breaker_probe_now_lets_one_through),
        cmocka_unit_test(test_breaker_failures_without_end_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
