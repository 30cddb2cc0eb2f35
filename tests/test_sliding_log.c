/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sliding log against a model that remembers each unit with its time and finds waits by trying every millisecond;
 * and that no interval holds more than the limit, however the clock goes. Entries are kept in the local engine's
 * buffer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "log_buffer.h"
#include "support/random.h"

#include <string.h>

#define SECOND INT64_C(1000000)
#define NOW INT64_C(1767225600000000)

static hr_policy compile(uint64_t max, int64_t window_us)
{
    hirate_limit limit;
    hr_policy policy;

    hirate_limit_sliding_log(&limit, "p", max, (uint64_t)window_us);
    assert_int_equal(hr_policy_compile(&policy, &limit, NULL), 0);
    return policy;
}

static hr_decision decide(const hr_policy *policy, hr_log_buffer *buffer, int64_t now_us, uint64_t cost)
{
    hr_sliding_log stored = hr_log_buffer_view(buffer);
    hr_sliding_log_now moment = hr_sliding_log_load(policy, stored.count == 0 ? NULL : &stored, now_us);
    hr_decision d = hr_sliding_log_take(policy, &moment, cost);

    assert_true(hr_log_buffer_store(buffer, &moment));
    assert_int_equal(d.reset_ms == 0, buffer->used == 0);
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

static void test_log_entry_counts_for_one_window(void **state)
{
    hr_policy policy = compile(3, SECOND);
    hr_log_buffer buffer = {NULL, 0, 0, 0, 0};

    (void)state;
    assert_decision(decide(&policy, &buffer, NOW, 1), HIRATE_ALLOWED, 2, 0, 1000);
    assert_decision(decide(&policy, &buffer, NOW + 1, 2), HIRATE_ALLOWED, 0, 0, 1000);
    assert_decision(decide(&policy, &buffer, NOW + 2, 1), HIRATE_DENIED, 0, 1000, 1000);
    assert_decision(decide(&policy, &buffer, NOW + 2, 2), HIRATE_DENIED, 0, 1000, 1000);
    assert_decision(decide(&policy, &buffer, NOW + SECOND - 1, 1), HIRATE_DENIED, 0, 1, 1);
    assert_decision(decide(&policy, &buffer, NOW + SECOND, 2), HIRATE_DENIED, 1, 1, 1);
    assert_decision(decide(&policy, &buffer, NOW + SECOND, 1), HIRATE_ALLOWED, 0, 0, 1000);
    assert_decision(decide(&policy, &buffer, NOW + SECOND, 4), HIRATE_DENIED, 0, HIRATE_NEVER, 1000);
    assert_decision(decide(&policy, &buffer, NOW + 2 * SECOND, 0), HIRATE_ALLOWED, 3, 0, 0);
    hr_log_buffer_free(&buffer);
}

static void test_log_equal_times_are_one_entry(void **state)
{
    hr_policy policy = compile(8192, SECOND);
    hr_log_buffer buffer = {NULL, 0, 0, 0, 0};

    (void)state;
    for (int i = 0; i < 8192; i++)
        assert_int_equal(decide(&policy, &buffer, NOW, 1).verdict, HIRATE_ALLOWED);
    assert_int_equal(buffer.count, 1);
    assert_int_equal(buffer.entries[buffer.first].units, 8192);
    assert_decision(decide(&policy, &buffer, NOW, 1), HIRATE_DENIED, 0, 1000, 1000);
    hr_log_buffer_free(&buffer);
}

static void test_log_memory_is_bounded_and_entries_survive_moves(void **state)
{
    enum { MAX = HIRATE_LOG_MAX };
    hr_policy policy = compile(MAX, MAX); /* one a microsecond, all the time */
    hr_log_buffer buffer = {NULL, 0, 0, 0, 0};

    (void)state;
    for (int64_t i = 0; i < 10 * MAX; i++) {
        hr_decision d = decide(&policy, &buffer, NOW + i, 1);

        assert_int_equal(d.verdict, HIRATE_ALLOWED);
        assert_true(buffer.room <= HR_LOG_ROOM_MAX && buffer.first + buffer.count <= buffer.room);
        assert_true(buffer.entries[buffer.first].time_us == NOW + (i < MAX ? 0 : i - MAX + 1));
        assert_true(buffer.entries[buffer.first + buffer.count - 1].time_us == NOW + i);
        assert_true(d.remaining == (i < MAX ? (uint64_t)(MAX - 1 - i) : 0));
    }
    assert_int_equal(buffer.count, MAX);
    hr_log_buffer_free(&buffer);
    assert_null(buffer.entries);
}

static void test_log_stepped_back_counts_from_the_newest(void **state)
{
    hr_policy policy = compile(3, SECOND);
    hr_log_buffer buffer = {NULL, 0, 0, 0, 0};

    (void)state;
    (void)decide(&policy, &buffer, NOW, 1);
    (void)decide(&policy, &buffer, NOW + 500000, 1);
    /* Back by a window: reckoned at the newest, and so is what is taken. */
    assert_decision(decide(&policy, &buffer, NOW + 500000 - SECOND, 1), HIRATE_ALLOWED, 0, 0, 2000);
    assert_int_equal(buffer.count, 2);
    assert_decision(decide(&policy, &buffer, NOW + 500000 - SECOND, 1), HIRATE_DENIED, 0, 1500, 2000);
    /* A microsecond more: what is later moves to now. */
    assert_decision(decide(&policy, &buffer, NOW + 499999 - SECOND, 1), HIRATE_DENIED, 0, 1000, 1000);
    assert_int_equal(buffer.count, 1);
    assert_int_equal(buffer.used, 3);
    hr_log_buffer_free(&buffer);
}

/* What had gone does not come back with the clock. */
static void test_log_stepped_back_forgotten_stays_forgotten(void **state)
{
    hr_policy policy = compile(3, SECOND);
    hr_log_buffer buffer = {NULL, 0, 0, 0, 0};

    (void)state;
    (void)decide(&policy, &buffer, NOW, 2);
    (void)decide(&policy, &buffer, NOW + 900000, 1);
    assert_decision(decide(&policy, &buffer, NOW + SECOND, 3), HIRATE_DENIED, 2, 900, 900);
    assert_decision(decide(&policy, &buffer, NOW + 950000, 2), HIRATE_ALLOWED, 0, 0, 1000);
    hr_log_buffer_free(&buffer);
}

static void test_log_changed_limit_and_window_keep_what_counts(void **state)
{
    hr_policy ten = compile(10, SECOND), five = compile(5, SECOND), longer = compile(10, 2 * SECOND);
    hr_log_buffer buffer = {NULL, 0, 0, 0, 0};

    (void)state;
    (void)decide(&ten, &buffer, NOW, 4);
    (void)decide(&ten, &buffer, NOW + 100000, 4);
    assert_decision(decide(&five, &buffer, NOW + 200000, 1), HIRATE_DENIED, 0, 800, 900);
    assert_decision(decide(&five, &buffer, NOW + 200000, 2), HIRATE_DENIED, 0, 900, 900);
    assert_decision(decide(&longer, &buffer, NOW + 200000, 3), HIRATE_DENIED, 2, 1800, 1900);
    assert_decision(decide(&longer, &buffer, NOW + 200000, 2), HIRATE_ALLOWED, 0, 0, 2000);
    assert_decision(decide(&five, &buffer, NOW + SECOND, 1), HIRATE_DENIED, 0, 100, 200);
    hr_log_buffer_free(&buffer);
}

static void test_log_longest_window_is_exact(void **state)
{
    const int64_t longest = INT64_C(1) << 52;
    hr_policy policy = compile(1, longest);
    hr_log_buffer buffer = {NULL, 0, 0, 0, 0};

    (void)state;
    (void)decide(&policy, &buffer, longest - 1, 1);
    assert_decision(decide(&policy, &buffer, 0, 1), HIRATE_DENIED, 0, (2 * longest - 1 + 999) / 1000,
                    (2 * longest - 1 + 999) / 1000);
    hr_log_buffer_free(&buffer);
}

/* ------------------------------------------------------------------------------------------------ naive model -- */

enum { UNITS = 64 };
typedef struct model {
    int64_t at[UNITS]; /* of each unit, oldest first */
    int count;
} model;

/* DESIGN's words: which units count, and from when now is reckoned. */
static int64_t model_load(model *m, int64_t window_us, int64_t now_us)
{
    int64_t t = now_us, newest = m->count > 0 ? m->at[m->count - 1] : now_us;
    int kept = 0;

    if (now_us < newest && newest - now_us <= window_us)
        t = newest;
    for (int i = 0; i < m->count; i++) {
        int64_t at = m->at[i] > t ? t : m->at[i];
        if (at > t - window_us)
            m->at[kept++] = at;
    }
    m->count = kept;
    return t;
}

static bool model_take(model *m, int max, int64_t window_us, int64_t now_us, int cost)
{
    int64_t t = model_load(m, window_us, now_us);

    if (cost > 0 && m->count + cost > max)
        return false;
    for (int i = 0; i < cost; i++)
        m->at[m->count++] = t;
    return true;
}

static hr_decision model_decide(model *m, int max, int64_t window_us, int64_t now_us, int cost)
{
    hr_decision d = {.verdict = HIRATE_DENIED};

    if (model_take(m, max, window_us, now_us, cost))
        d.verdict = HIRATE_ALLOWED;
    else if (cost > max)
        d.retry_after_ms = HIRATE_NEVER;
    for (model copy = *m; d.verdict == HIRATE_DENIED && d.retry_after_ms != HIRATE_NEVER; copy = *m) {
        d.retry_after_ms++;
        if (model_take(&copy, max, window_us, now_us + 1000 * d.retry_after_ms, cost))
            break;
    }
    d.remaining = m->count < max ? (uint64_t)(max - m->count) : 0;
    for (model copy = *m; copy.count > 0;) {
        d.reset_ms++;
        (void)model_load(&copy, window_us, now_us + 1000 * d.reset_ms);
    }
    return d;
}

static void test_log_random_trace_equals_naive_model(void **state)
{
    rng r = rng_start("test_log_random_trace_equals_naive_model");

    (void)state;
    for (int i = 0; i < 2000; i++) {
        hr_log_buffer buffer = {NULL, 0, 0, 0, 0};
        model m = {{0}, 0};
        uint64_t max = rng_upto(&r, 20), window_us = 1 + rng_upto(&r, 20000);
        int64_t now_us = NOW;

        for (int step = 0; step < 60; step++) {
            if (rng_upto(&r, 20) == 0)
                max = rng_upto(&r, 20);
            if (rng_upto(&r, 20) == 0)
                window_us = 1 + rng_upto(&r, 20000);
            hr_policy policy = compile(max, (int64_t)window_us);
            uint64_t cost = rng_upto(&r, rng_upto(&r, 3) ? max / 3 + 1 : max + 1);
            hr_decision d = decide(&policy, &buffer, now_us, cost);
            hr_decision expected = model_decide(&m, (int)max, (int64_t)window_us, now_us, (int)cost);

            assert_decision(d, expected.verdict, expected.remaining, expected.retry_after_ms, expected.reset_ms);
            int64_t by = (int64_t)rng_upto(&r, rng_upto(&r, 2) ? window_us / 5 : 2 * window_us);
            now_us += rng_upto(&r, 4) ? by : -by;
        }
        hr_log_buffer_free(&buffer);
    }
}

/* While the clock has gone forward by less than a window at most the limit is admitted, however it goes back in
 * between. */
static void test_log_random_trace_never_admits_more_in_any_window(void **state)
{
    enum { STEPS = 200 };
    rng r = rng_start("test_log_random_trace_never_admits_more_in_any_window");

    (void)state;
    for (int i = 0; i < 1000; i++) {
        uint64_t max = 1 + rng_upto(&r, 30), window_us = 1 + rng_upto(&r, 1000);
        bool steady = rng_upto(&r, 1);
        hr_policy policy = compile(max, (int64_t)window_us);
        hr_log_buffer buffer = {NULL, 0, 0, 0, 0};
        int64_t now_us = NOW;
        uint64_t forward[STEPS], admitted[STEPS], gone = 0;

        for (int k = 0; k < STEPS; k++) {
            uint64_t cost = rng_upto(&r, max / 2 + 1), within = 0;

            forward[k] = gone;
            admitted[k] = decide(&policy, &buffer, now_us, cost).verdict == HIRATE_ALLOWED ? cost : 0;
            for (int before = k; before >= 0 && gone - forward[before] < window_us; before--)
                within += admitted[before];
            assert_true(within <= max);
            uint64_t by = rng_upto(&r, window_us / 8 + 1);
            bool back = !steady && rng_upto(&r, 4) == 0;
            now_us += back ? -(int64_t)(rng_upto(&r, 20) * by) : (int64_t)by;
            gone += back ? 0 : by;
        }
        hr_log_buffer_free(&buffer);
    }
}

static void test_log_twice_the_limit_does_not_pass_around_an_edge(void **state)
{
    hr_policy policy = compile(100, SECOND);
    hr_log_buffer buffer = {NULL, 0, 0, 0, 0};
    int allowed = 0;

    (void)state;
    for (int64_t i = -100; i < 100; i++)
        allowed += decide(&policy, &buffer, NOW + i, 1).verdict == HIRATE_ALLOWED;
    assert_int_equal(allowed, 100);
    hr_log_buffer_free(&buffer);
}

/* Whoever repeats decisions has only the oldest entries, as many as the largest need asks for. */
static void test_log_first_part_of_it_is_enough_to_repeat_decisions(void **state)
{
    enum { COSTS = 8 };
    rng r = rng_start("test_log_first_part_of_it_is_enough_to_repeat_decisions");

    (void)state;
    for (int i = 0; i < 20000; i++) {
        uint64_t max = 1 + rng_upto(&r, 40), costs[COSTS], need = 0, sum = 0;
        hr_policy policy = compile(max, 10000);
        hr_log_buffer buffer = {NULL, 0, 0, 0, 0};
        int64_t now_us = NOW;
        hr_decision decisions[COSTS];

        for (uint64_t k = rng_upto(&r, 30); k > 0; k--, now_us += (int64_t)rng_upto(&r, 1500))
            (void)decide(&policy, &buffer, now_us, rng_upto(&r, 5));
        now_us -= (int64_t)rng_upto(&r, 12000);
        hr_sliding_log stored = hr_log_buffer_view(&buffer);
        const hr_sliding_log_now found = hr_sliding_log_load(&policy, stored.count ? &stored : NULL, now_us);
        hr_sliding_log_now whole = found, part = found;
        for (int k = 0; k < COSTS; k++) {
            uint64_t used = whole.older_units + whole.at_units;

            costs[k] = rng_upto(&r, max + 1);
            if (costs[k] <= max && used + costs[k] > max + need)
                need = used + costs[k] - max;
            decisions[k] = hr_sliding_log_take(&policy, &whole, costs[k]);
        }
        for (part.older_count = 0; part.older_count < found.older_count && sum < need; part.older_count++)
            sum += found.older[part.older_count].units;
        for (int k = 0; k < COSTS; k++) {
            hr_decision d = hr_sliding_log_take(&policy, &part, costs[k]);
            assert_decision(d, decisions[k].verdict, decisions[k].remaining, decisions[k].retry_after_ms,
                            decisions[k].reset_ms);
        }
        hr_log_buffer_free(&buffer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_entry_counts_for_one_window),
        cmocka_unit_test(test_log_equal_times_are_one_entry),
        cmocka_unit_test(test_log_memory_is_bounded_and_entries_survive_moves),
        cmocka_unit_test(test_log_stepped_back_counts_from_the_newest),
        cmocka_unit_test(test_log_stepped_back_forgotten_stays_forgotten),
        cmocka_unit_test(test_log_changed_limit_and_window_keep_what_counts),
        cmocka_unit_test(test_log_longest_window_is_exact),
        cmocka_unit_test(test_log_random_trace_equals_naive_model),
        cmocka_unit_test(test_log_random_trace_never_admits_more_in_any_window),
        cmocka_unit_test(test_log_twice_the_limit_does_not_pass_around_an_edge),
        cmocka_unit_test(test_log_first_part_of_it_is_enough_to_repeat_decisions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
