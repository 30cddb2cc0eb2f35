/* SPDX-License-Identifier: BSD-3-Clause */
/* Replies of the script, right and wrong: the head, each kind's part of it, resets, foreign values, the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "script.h"
#include "support/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER = 5, PARTS_MOST = 8 };

static const double NOON = 1700000000123456.0; /* `now` of every reply here, unless it is what is tested */
static const double TIME_MOST = 9007199254740992.0, COUNT_MOST = 9007199254740991.0;

/* What no part may hold. */
static const double NO_INTEGERS[] = {-4, -1.5, -0.5, 0.5, 1e15 + 0.5, 1e300, -1e300, INFINITY, -INFINITY, NAN};

static const hr_policy BUCKET = {.kind = HIRATE_KIND_TOKEN_BUCKET, .capacity = 4, .n = 1, .p = 25, .full = 100};
static const hr_policy LEAKY = {.kind = HIRATE_KIND_LEAKY_BUCKET, .capacity = 4, .n = 1, .p = 25, .full = 100};
static const hr_policy FIXED = {.kind = HIRATE_KIND_FIXED_WINDOW, .capacity = 9, .window_us = 1000000};
static const hr_policy QUOTA = {.kind = HIRATE_KIND_QUOTA, .capacity = 9, .per = HIRATE_PER_DAY};
static const hr_policy LEASES = {.kind = HIRATE_KIND_CONCURRENCY, .capacity = 9, .lease_us = 1000000};
static const hr_policy LOG = {.kind = HIRATE_KIND_SLIDING_LOG, .capacity = 9, .window_us = 1000000};
static const hr_policy SLIDING = {
    .kind = HIRATE_KIND_SLIDING_WINDOW, .capacity = 9, .window_us = 1000000, .tick_us = 1, .window = 1000000};

/* A reply of exactly so many doubles, on the heap, so that a sanitizer sees what is read past it. */
typedef struct written {
    char *bytes;
    size_t len;
    hr_script_reply reply;
} written;

static void put_double(char *to, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    for (unsigned i = 0; i < 8; i++)
        to[i] = (char)(bits >> (8 * i) & 0xff);
}

static void write_reply(written *w, const double *values, size_t count)
{
    w->len = (2 + count) * sizeof(double);
    w->bytes = malloc(w->len);
    assert_non_null(w->bytes);
    put_double(w->bytes, NOON);
    put_double(w->bytes + 8, NUMBER);
    for (size_t i = 0; i < count; i++)
        put_double(w->bytes + 8 * (2 + i), values[i]);
    assert_true(hr_script_reply_begin(&w->reply, w->bytes, w->len, NUMBER));
}

/* What `values` are as the only key's part. */
static int what_is(const hr_policy *policy, uint32_t runs, const double *values, size_t count, hr_moment *moment)
{
    written w;

    write_reply(&w, values, count);
    hr_script_found found = hr_script_next(&w.reply, policy, runs);
    if (moment)
        *moment = found.moment;
    free(w.bytes);
    return (int)found.what;
}

#define WHAT(policy, ...)                                                                                              \
    what_is((policy), 0, (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double), NULL)

/* ------------------------------------------------------------------------------------------------------ the head -- */

static bool head_ok(double now, double echo, uint32_t number, int64_t *now_us)
{
    char bytes[16];
    hr_script_reply reply;

    put_double(bytes, now);
    put_double(bytes + 8, echo);
    bool ok = hr_script_reply_begin(&reply, bytes, sizeof bytes, number);
    if (ok) {
        assert_true(hr_script_reply_ended(&reply));
        *now_us = reply.now_us;
    }
    return ok;
}

static void test_reply_time_is_an_integer_below_2_53(void **state)
{
    int64_t now_us = -7;

    (void)state;
    for (size_t i = 0; i < sizeof NO_INTEGERS / sizeof NO_INTEGERS[0]; i++)
        assert_false(head_ok(NO_INTEGERS[i], NUMBER, NUMBER, &now_us));
    assert_false(head_ok(-1, NUMBER, NUMBER, &now_us));
    assert_false(head_ok(TIME_MOST, NUMBER, NUMBER, &now_us));
    assert_true(head_ok(NOON, NUMBER, NUMBER, &now_us));
    assert_true(now_us == INT64_C(1700000000123456));
    assert_true(head_ok(COUNT_MOST, NUMBER, NUMBER, &now_us));
    assert_true(now_us == INT64_C(9007199254740991));
    assert_true(head_ok(0, NUMBER, NUMBER, &now_us));
    assert_true(now_us == 0);
}

static void test_reply_carries_its_calls_number(void **state)
{
    static const double bad[] = {0, 6, -5, 5.5, 5 + 4294967296.0, 1e300, INFINITY, NAN};
    int64_t now_us = -7;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(head_ok(1, bad[i], NUMBER, &now_us));
    assert_true(now_us == -7);
    assert_true(head_ok(1, 0, 0, &now_us));
    assert_true(head_ok(1, UINT32_MAX, UINT32_MAX, &now_us));
    assert_false(head_ok(1, 4294967296.0, 0, &now_us));
}

static void test_reply_head_is_sixteen_bytes(void **state)
{
    char bytes[16] = {0};
    hr_script_reply reply;

    (void)state;
    for (size_t len = 0; len < sizeof bytes; len++)
        assert_false(hr_script_reply_begin(&reply, bytes, len, 0));
    assert_false(hr_script_reply_begin(&reply, NULL, 0, 0));
    assert_true(hr_script_reply_begin(&reply, bytes, sizeof bytes, 0));
}

/* ----------------------------------------------------------------------------------------------- each kind's part --
 */

/* Of each kind parts that are right, and how many doubles they have. */
static const struct {
    const hr_policy *policy;
    uint32_t runs;
    size_t count;
    double values[PARTS_MOST];
} RIGHT[] = {
    {&BUCKET, 1, 1, {100}},
    {&BUCKET, 3, 3, {-3, 0, 100}},
    {&LEAKY, 1, 3, {-3, 17, 4}},
    {&FIXED, 1, 2, {0, 1700000000123457.0}},
    {&FIXED, 1, 2, {9007199254740991.0, 9007199254740992.0}},
    {&QUOTA, 1, 6, {5, 1700000000123457.0, 0, 0, 0, 0}},
    {&QUOTA, 2, 7, {0, 1700000000123457.0, 9, 2, 1700000000123457.0, 0, 1700000000123457.0}},
    {&LEASES, 0, 4, {0, 0, 0, 1700000000123456.0}},
    {&LEASES, 0, 4, {8192, 8192, 1700000000123457.0, 1700000000123457.0}},
    {&LOG, 0, 4, {1700000000123456.0, 0, 0, 0}},
    {&LOG, 2, 6, {1700000000123456.0, 8192, 8192, 1700000000123455.0, 0, 9007199254740992.0}},
    {&SLIDING, 1, 3, {1700000000000000.0, 9007199254740991.0, 0}},
    {&SLIDING, 1, 3, {1700000000000000.0, 0, 9007199254740991.0}},
};

static void test_part_that_is_right_is_read_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof RIGHT / sizeof RIGHT[0]; i++) {
        hr_script_found found;
        written w;
        write_reply(&w, RIGHT[i].values, RIGHT[i].count);
        found = hr_script_next(&w.reply, RIGHT[i].policy, RIGHT[i].runs);
        assert_int_equal(found.what, HR_FOUND_MOMENT);
        assert_true(hr_script_reply_ended(&w.reply));
        free(w.bytes);
    }
}

static void test_part_that_is_too_short_is_invalid(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof RIGHT / sizeof RIGHT[0]; i++) {
        for (size_t count = 0; count < RIGHT[i].count; count++)
            assert_int_equal(what_is(RIGHT[i].policy, RIGHT[i].runs, RIGHT[i].values, count, NULL), HR_FOUND_INVALID);
    }
}

static void test_part_cut_within_a_number_is_invalid(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof RIGHT / sizeof RIGHT[0]; i++) {
        for (size_t cut = 1; cut < sizeof(double); cut++) {
            written w;
            write_reply(&w, RIGHT[i].values, RIGHT[i].count);
            w.reply.end -= cut;
            assert_int_equal(hr_script_next(&w.reply, RIGHT[i].policy, RIGHT[i].runs).what, HR_FOUND_INVALID);
            assert_false(hr_script_reply_ended(&w.reply));
            free(w.bytes);
        }
    }
}

static void test_part_with_a_number_more_is_not_the_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof RIGHT / sizeof RIGHT[0]; i++) {
        written w;
        double values[PARTS_MOST + 1] = {0};
        memcpy(values, RIGHT[i].values, sizeof RIGHT[i].values);
        values[RIGHT[i].count] = 0;
        write_reply(&w, values, RIGHT[i].count + 1);
        assert_int_equal(hr_script_next(&w.reply, RIGHT[i].policy, RIGHT[i].runs).what, HR_FOUND_MOMENT);
        assert_false(hr_script_reply_ended(&w.reply));
        free(w.bytes);
    }
}

static void test_minus_two_alone_is_refused(void **state)
{
    (void)state;
    static const double minus_two = -2;
    for (size_t i = 0; i < sizeof RIGHT / sizeof RIGHT[0]; i++)
        assert_int_equal(what_is(RIGHT[i].policy, RIGHT[i].runs, &minus_two, 1, NULL), HR_FOUND_REFUSED);
}

static void test_part_with_what_is_no_count_is_invalid(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof RIGHT / sizeof RIGHT[0]; i++) {
        for (size_t at = 0; at < RIGHT[i].count; at++) {
            double values[PARTS_MOST];
            memcpy(values, RIGHT[i].values, sizeof values);
            for (size_t bad = 0; bad < sizeof NO_INTEGERS / sizeof NO_INTEGERS[0]; bad++) {
                values[at] = NO_INTEGERS[bad];
                assert_int_equal(what_is(RIGHT[i].policy, RIGHT[i].runs, values, RIGHT[i].count, NULL),
                                 HR_FOUND_INVALID);
            }
            values[at] = -1; /* alone, and only in the first place, it says: something else */
            assert_int_equal(what_is(RIGHT[i].policy, RIGHT[i].runs, values, RIGHT[i].count, NULL),
                             at ? HR_FOUND_INVALID : HR_FOUND_FOREIGN);
        }
    }
}

static void test_minus_one_is_a_whole_part_of_every_kind(void **state)
{
    static const double values[] = {-1, -3, 3, 4};

    (void)state;
    for (size_t i = 0; i < sizeof RIGHT / sizeof RIGHT[0]; i++) {
        written w;
        assert_int_equal(what_is(RIGHT[i].policy, RIGHT[i].runs, values, 1, NULL), HR_FOUND_FOREIGN);
        write_reply(&w, values, 4);
        assert_int_equal(hr_script_next(&w.reply, RIGHT[i].policy, RIGHT[i].runs).what, HR_FOUND_FOREIGN);
        hr_script_found next = hr_script_next(&w.reply, &BUCKET, 1);
        assert_int_equal(next.what, HR_FOUND_MOMENT);
        assert_true(next.moment.bucket.units == 3 && next.moment.bucket.lag == 4);
        assert_true(hr_script_reply_ended(&w.reply));
        free(w.bytes);
    }
}

static void test_bucket_holds_full_at_most(void **state)
{
    static const double values[] = {-3, 17, 83};
    hr_moment moment;

    (void)state;
    assert_int_equal(what_is(&BUCKET, 1, values, 3, &moment), HR_FOUND_MOMENT);
    assert_true(moment.bucket.units == 17 && moment.bucket.lag == 83);
    assert_true(moment.bucket.at == INT64_C(1700000000123456));
    assert_int_equal(WHAT(&BUCKET, -3, 100, 100), HR_FOUND_MOMENT);
    assert_int_equal(WHAT(&BUCKET, 101), HR_FOUND_INVALID);
    assert_int_equal(WHAT(&BUCKET, -3, 101, 1), HR_FOUND_INVALID);
    assert_int_equal(WHAT(&BUCKET, -3, 0, 101), HR_FOUND_INVALID);
    assert_int_equal(WHAT(&BUCKET, -3, 100, 0), HR_FOUND_INVALID);
    assert_int_equal(WHAT(&LEAKY, 101), HR_FOUND_INVALID);
    const hr_policy none = {.kind = HIRATE_KIND_TOKEN_BUCKET, .n = 1, .p = 1, .full = 0};
    assert_int_equal(WHAT(&none, 0), HR_FOUND_MOMENT);
    assert_int_equal(WHAT(&none, 1), HR_FOUND_INVALID);
}

static void test_window_ends_after_now(void **state)
{
    const double values[] = {7, NOON + 1};
    hr_moment moment;

    (void)state;
    assert_int_equal(what_is(&FIXED, 1, values, 2, &moment), HR_FOUND_MOMENT);
    assert_true(moment.window.window.used == 7 && moment.window.now_us == INT64_C(1700000000123456));
    assert_true(moment.window.window.end_us == INT64_C(1700000000123457));
    assert_int_equal(WHAT(&FIXED, 7, NOON), HR_FOUND_INVALID);
    assert_int_equal(WHAT(&QUOTA, 7, NOON - 1, 0, 0, 0), HR_FOUND_INVALID);
    assert_int_equal(WHAT(&QUOTA, 7, TIME_MOST, 0, 0, 0), HR_FOUND_MOMENT);
    assert_int_equal(WHAT(&QUOTA, 7, TIME_MOST + 2, 0, 0, 0), HR_FOUND_INVALID);
    assert_int_equal(WHAT(&FIXED, TIME_MOST, TIME_MOST), HR_FOUND_INVALID);
}

static void test_holds_are_as_many_as_hold_something(void **state)
{
    const double values[] = {7, 3, NOON + 5, NOON + 1};
    hr_moment moment;

    (void)state;
    assert_int_equal(what_is(&LEASES, 0, values, 4, &moment), HR_FOUND_MOMENT);
    assert_true(moment.concurrency.held == 7 && moment.concurrency.count == 3);
    assert_true(moment.concurrency.latest_us == INT64_C(1700000000123461));
    assert_true(moment.concurrency.at_us == INT64_C(1700000000123457));
    assert_true(moment.concurrency.now_us == INT64_C(1700000000123456));
    assert_int_equal(WHAT(&LEASES, 0, 1, NOON, NOON), HR_FOUND_INVALID);
    assert_int_equal(WHAT(&LEASES, 1, 0, NOON, NOON), HR_FOUND_INVALID);
    assert_int_equal(WHAT(&LEASES, 2, 3, NOON, NOON), HR_FOUND_INVALID);
    assert_int_equal(WHAT(&LEASES, 8193, 8193, NOON, NOON), HR_FOUND_INVALID);
    assert_int_equal(WHAT(&LEASES, 1, 1, TIME_MOST + 2, NOON), HR_FOUND_INVALID);
    assert_int_equal(WHAT(&LEASES, 1, 1, NOON, NOON - 1), HR_FOUND_INVALID);
    assert_int_equal(WHAT(&QUOTA, 7, TIME_MOST, 1, 2, NOON), HR_FOUND_INVALID);
    assert_int_equal(WHAT(&QUOTA, 7, TIME_MOST, TIME_MOST, 1, NOON), HR_FOUND_INVALID);
}

static void test_sliding_window_holds_now_or_comes_next(void **state)
{
    const double values[] = {NOON - 123456, 3, 4};
    hr_moment moment;

    (void)state;
    assert_int_equal(what_is(&SLIDING, 1, values, 3, &moment), HR_FOUND_MOMENT);
    assert_true(moment.sliding.window.start_us == INT64_C(1700000000000000));
    assert_true(moment.sliding.window.prev == 3 && moment.sliding.window.cur == 4);
    assert_true(moment.sliding.window.window_us == SLIDING.window_us);
    assert_int_equal(WHAT(&SLIDING, NOON, 3, 4), HR_FOUND_MOMENT);
    assert_int_equal(WHAT(&SLIDING, NOON - 999999, 3, 4), HR_FOUND_MOMENT);
    assert_int_equal(WHAT(&SLIDING, NOON - 1000000, 3, 4), HR_FOUND_INVALID);
    assert_int_equal(WHAT(&SLIDING, NOON + 1000000, 3, 4), HR_FOUND_MOMENT);
    assert_int_equal(WHAT(&SLIDING, NOON + 1000001, 3, 4), HR_FOUND_INVALID);
    assert_int_equal(WHAT(&SLIDING, NOON, TIME_MOST, 0), HR_FOUND_INVALID);
    assert_int_equal(WHAT(&SLIDING, NOON, 0, TIME_MOST), HR_FOUND_INVALID);
}

static void test_log_holds_8192_units_and_a_wait_for_each_run(void **state)
{
    const double values[] = {NOON, 3, 4, NOON - 5, 0, NOON - 9, TIME_MOST};
    written w;

    (void)state;
    write_reply(&w, values, 7);
    hr_script_found found = hr_script_next(&w.reply, &LOG, 3);
    assert_int_equal(found.what, HR_FOUND_MOMENT);
    assert_true(found.moment.log.at_units == 3 && found.moment.log.older_units == 4);
    assert_true(found.moment.log.at_us == INT64_C(1700000000123456));
    assert_true(found.moment.log.newest_us == INT64_C(1700000000123451));
    assert_true(hr_script_wait(found.waits, 0) == 0);
    assert_true(hr_script_wait(found.waits, 1) == INT64_C(1700000000123447));
    assert_true(hr_script_wait(found.waits, 2) == INT64_C(9007199254740992));
    assert_true(hr_script_reply_ended(&w.reply));
    free(w.bytes);
    assert_int_equal(WHAT(&LOG, NOON, 8193, 0, 0), HR_FOUND_INVALID);
    assert_int_equal(WHAT(&LOG, NOON, 0, 8193, 0), HR_FOUND_INVALID);
    assert_int_equal(WHAT(&LOG, TIME_MOST + 2, 0, 0, 0), HR_FOUND_INVALID);
    assert_int_equal(WHAT(&LOG, NOON, 0, 0, TIME_MOST + 2), HR_FOUND_INVALID);
}

/* --------------------------------------------------------------------------------------------- resets, many keys -- */

static void test_reset_is_zero_one_or_minus_one(void **state)
{
    static const double bad[] = {2, 1e300};
    static const double good[] = {0, 1, -1};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        written w;
        write_reply(&w, &good[i], 1);
        hr_script_found found = hr_script_next_reset(&w.reply);
        assert_int_equal(found.what, i == 2 ? HR_FOUND_FOREIGN : HR_FOUND_RESET);
        assert_int_equal(found.used, i == 1);
        assert_true(hr_script_reply_ended(&w.reply));
        assert_int_equal(hr_script_next_reset(&w.reply).what, HR_FOUND_INVALID); /* there is no more */
        free(w.bytes);
    }
    for (size_t i = 0; i < 2 + sizeof NO_INTEGERS / sizeof NO_INTEGERS[0]; i++) {
        written w;
        write_reply(&w, i < 2 ? &bad[i] : &NO_INTEGERS[i - 2], 1);
        assert_int_equal(hr_script_next_reset(&w.reply).what, HR_FOUND_INVALID);
        free(w.bytes);
    }
}

static void test_keys_of_every_kind_are_read_one_after_the_other(void **state)
{
    const double values[] = {100, 1, 7, NOON + 1, -1, NOON, 3, 4, NOON - 5, 0, NOON, 3, 4, 0};
    written w;

    (void)state;
    write_reply(&w, values, sizeof values / sizeof values[0]);
    assert_true(hr_script_next(&w.reply, &BUCKET, 2).moment.bucket.units == 100);
    assert_int_equal(hr_script_next_reset(&w.reply).used, 1);
    assert_true(hr_script_next(&w.reply, &FIXED, 1).moment.window.window.used == 7);
    assert_int_equal(hr_script_next(&w.reply, &QUOTA, 1).what, HR_FOUND_FOREIGN);
    assert_true(hr_script_next(&w.reply, &LOG, 1).moment.log.at_units == 3);
    assert_true(hr_script_next(&w.reply, &SLIDING, 1).moment.sliding.window.cur == 4);
    assert_false(hr_script_reply_ended(&w.reply));
    assert_int_equal(hr_script_next_reset(&w.reply).what, HR_FOUND_RESET);
    assert_true(hr_script_reply_ended(&w.reply));
    free(w.bytes);
}

/* Whatever the bytes: nothing past them is read (a sanitizer sees it), and what is invalid does not end a reply. */
static void test_random_bytes_are_read_within_their_bounds(void **state)
{
    static const hr_policy *const policies[] = {&BUCKET, &LEAKY, &FIXED, &QUOTA, &LOG, &SLIDING, &LEASES};
    rng r = rng_start("test_random_bytes_are_read_within_their_bounds");

    (void)state;
    for (int round = 0; round < 20000; round++) {
        size_t len = (size_t)rng_upto(&r, 80);
        char *bytes = malloc(len + !len);
        assert_non_null(bytes);
        for (size_t i = 0; i < len; i++)
            bytes[i] = (char)(rng_upto(&r, 3) ? 0 : rng_next(&r) & 0xff);
        hr_script_reply reply = {.at = bytes, .end = bytes + len, .now_us = INT64_C(1700000000123456)};
        while (!hr_script_reply_ended(&reply)) {
            const char *before = reply.at;
            const hr_policy *policy = policies[rng_upto(&r, 6)];
            hr_script_found found = rng_upto(&r, 4) ? hr_script_next(&reply, policy, (uint32_t)rng_upto(&r, 3))
                                                    : hr_script_next_reset(&reply);
            assert_true(reply.at <= reply.end);
            if (found.what == HR_FOUND_INVALID)
                break;
            assert_true(reply.at > before);
        }
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reply_time_is_an_integer_below_2_53),
        cmocka_unit_test(test_reply_carries_its_calls_number),
        cmocka_unit_test(test_reply_head_is_sixteen_bytes),
        cmocka_unit_test(test_part_that_is_right_is_read_whole),
        cmocka_unit_test(test_part_that_is_too_short_is_invalid),
        cmocka_unit_test(test_part_cut_within_a_number_is_invalid),
        cmocka_unit_test(test_part_with_a_number_more_is_not_the_end),
        cmocka_unit_test(test_minus_two_alone_is_refused),
        cmocka_unit_test(test_part_with_what_is_no_count_is_invalid),
        cmocka_unit_test(test_minus_one_is_a_whole_part_of_every_kind),
        cmocka_unit_test(test_bucket_holds_full_at_most),
        cmocka_unit_test(test_window_ends_after_now),
        cmocka_unit_test(test_holds_are_as_many_as_hold_something),
        cmocka_unit_test(test_sliding_window_holds_now_or_comes_next),
        cmocka_unit_test(test_log_holds_8192_units_and_a_wait_for_each_run),
        cmocka_unit_test(test_reset_is_zero_one_or_minus_one),
        cmocka_unit_test(test_keys_of_every_kind_are_read_one_after_the_other),
        cmocka_unit_test(test_random_bytes_are_read_within_their_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
