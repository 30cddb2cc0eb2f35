/* SPDX-License-Identifier: BSD-3-Clause */
/* The checker of recorded admissions: it accepts what is just within bounds and catches a single token beyond. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/bound.h"
#include "support/random.h"

#include <stdlib.h>

#define BEGIN INT64_C(1767225600000000)

/* Ten tokens, 3 every 2 µs: n = 3, p = 2. */
static const hirate_limit TEN = HIRATE_TOKEN_BUCKET("ten", 10, HIRATE_RATE(3, HIRATE_MICROSECONDS(2)));

static bound_record allowed(int64_t at_us, uint32_t cost)
{
    return (bound_record){BEGIN + at_us, cost, 7, HIRATE_ALLOWED, HIRATE_CHARGE_YES};
}

static void test_bound_exact_use_has_no_slack(void **state)
{
    (void)state;
    const bound_record records[] = {allowed(0, 10), allowed(2, 3), allowed(4, 3), allowed(10, 9)};
    bound_worst worst = bound_check(records, 4, 7, &TEN);
    assert_true(worst.any);
    assert_int_equal(worst.slack, 0);
    assert_int_equal(worst.p, 2);
}

static void test_bound_one_token_too_many_is_caught(void **state)
{
    (void)state;
    bound_record records[] = {allowed(0, 10), allowed(2, 3), allowed(4, 3), allowed(10, 9)};
    for (size_t i = 0; i < 4; i++) {
        records[i].cost++;
        bound_worst worst = bound_check(records, 4, 7, &TEN);
        assert_int_equal(worst.slack, -2);
        records[i].cost--;
    }
    records[3].time_us--; /* a microsecond too early: one and a half tokens */
    assert_int_equal(bound_check(records, 4, 7, &TEN).slack, -3);
}

static void test_bound_same_microsecond_adds_up(void **state)
{
    (void)state;
    const bound_record records[] = {allowed(5, 4), allowed(5, 4), allowed(5, 3)};
    bound_worst worst = bound_check(records, 3, 7, &TEN);
    assert_int_equal(worst.slack, -2);
    assert_int_equal(worst.used, 22);
    assert_int_equal(worst.length_us, 0);
}

static void test_bound_violation_in_the_middle_is_found(void **state)
{
    (void)state;
    const bound_record records[] = {allowed(0, 1), allowed(1000, 6), allowed(1001, 6), allowed(5000, 1)};
    bound_worst worst = bound_check(records, 4, 7, &TEN);
    assert_int_equal(worst.slack, 20 + 3 - 24);
    assert_int_equal(worst.length_us, 1);
}

static void test_bound_denials_errors_and_other_names_do_not_count(void **state)
{
    (void)state;
    bound_record records[] = {allowed(0, 10), allowed(0, 10), allowed(0, 10), allowed(0, 0)};
    records[1].verdict = HIRATE_DENIED;
    records[2].name = 8;
    bound_worst worst = bound_check(records, 4, 7, &TEN);
    assert_int_equal(worst.slack, 0);
    records[0].verdict = HIRATE_VERDICT_NONE;
    assert_false(bound_check(records, 4, 7, &TEN).any);
    assert_false(bound_check(records, 0, 7, &TEN).any);
}

/* Every pair of records, one by one. */
static int64_t slack_by_hand(const bound_record *records, size_t count)
{
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        int64_t used = 0;
        for (size_t j = i; j < count; j++) {
            used += (int64_t)records[j].cost * 2;
            int64_t slack = 20 + 3 * (records[j].time_us - records[i].time_us) - used;
            least = slack < least ? slack : least;
        }
    }
    return least;
}

static void test_bound_random_records_agree_with_every_pair(void **state)
{
    (void)state;
    rng r = rng_start(__func__);
    for (int round = 0; round < 500; round++) {
        bound_record records[40];
        size_t count = 1 + rng_upto(&r, 39);
        for (size_t i = 0; i < count; i++)
            records[i] = allowed((int64_t)rng_upto(&r, 60), 1 + (uint32_t)rng_upto(&r, 5));
        qsort(records, count, sizeof *records, bound_by_time);
        assert_int_equal(bound_check(records, count, 7, &TEN).slack, slack_by_hand(records, count));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bound_exact_use_has_no_slack),
        cmocka_unit_test(test_bound_one_token_too_many_is_caught),
        cmocka_unit_test(test_bound_same_microsecond_adds_up),
        cmocka_unit_test(test_bound_violation_in_the_middle_is_found),
        cmocka_unit_test(test_bound_denials_errors_and_other_names_do_not_count),
        cmocka_unit_test(test_bound_random_records_agree_with_every_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
