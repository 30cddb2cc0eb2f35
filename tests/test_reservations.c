/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A quota's reservations: what is held counts as used until its time or the window is over; against a model that finds
 * waits by looking at every end. They are kept in the local engine's list.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "calendar.h"
#include "fixed_window.h"
#include "hold_list.h"
#include "support/random.h"

#include <string.h>

#define SECOND INT64_C(1000000)
#define HOUR (3600 * SECOND)
#define NOW INT64_C(1767225600000000) /* 2026-01-01, a Thursday; a whole number of hours */

static hr_policy quota(uint64_t max, enum hirate_per per)
{
    hirate_limit limit;
    hr_policy policy;

    hirate_limit_quota(&limit, "p", max, per, 0);
    assert_int_equal(hr_policy_compile(&policy, &limit, NULL), 0);
    return policy;
}

/* As it would be stored; nothing if nothing is used or held. */
typedef struct kept {
    int64_t start_us, end_us;
    uint64_t used;
    hr_hold_list list;
    uint64_t made;
} kept;

static hr_fixed_window_now load(const hr_policy *policy, const kept *k, int64_t now_us)
{
    hr_fixed_window stored = {k->start_us, k->end_us, k->used, hr_hold_list_view(&k->list), k->list.held};

    return hr_fixed_window_load(policy, k->used == 0 && k->list.count == 0 ? NULL : &stored, now_us);
}

/* hold_us 0: charge. */
static hr_decision decide(const hr_policy *policy, kept *k, int64_t now_us, uint64_t cost, uint64_t hold_us)
{
    hr_fixed_window_now moment = load(policy, k, now_us);
    size_t found = moment.window.reservations.count;
    hr_decision d = hold_us == 0 ? hr_fixed_window_take(policy, &moment, cost)
                                 : hr_fixed_window_reserve(policy, &moment, cost, hold_us);

    hr_hold_list_keep(&k->list, found, 0);
    if (d.verdict == HIRATE_ALLOWED && cost > 0 && hold_us > 0) {
        hr_hold hold = {.until_us = hr_fixed_window_until_us(&moment, hold_us), .units = cost};

        k->made++;
        memcpy(hold.id, &k->made, sizeof k->made);
        assert_true(hr_hold_list_reserve(&k->list));
        hr_hold_list_add(&k->list, &hold);
    }
    k->start_us = moment.window.start_us;
    k->end_us = moment.window.end_us;
    k->used = moment.window.used;
    assert_int_equal(d.reset_ms == 0, k->used == 0 && k->list.count == 0);
    assert_true(moment.count == k->list.count && moment.window.held == k->list.held);
    assert_int_equal(d.delay_ms, 0);
    return d;
}

/* Refund the first. */
static void refund(kept *k)
{
    hr_hold_list_remove(&k->list, hr_hold_list_view(&k->list).first);
}

static void assert_decision(hr_decision d, enum hirate_verdict verdict, uint64_t remaining, int64_t retry_after_ms,
                            int64_t reset_ms)
{
    assert_int_equal(d.verdict, verdict);
    assert_true(d.remaining == remaining);
    assert_true(d.retry_after_ms == retry_after_ms);
    assert_true(d.reset_ms == reset_ms);
}

static void test_reservation_counts_until_its_time_is_over(void **state)
{
    hr_policy policy = quota(10, HIRATE_PER_HOUR);
    kept k = {.used = 0};

    (void)state;
    assert_decision(decide(&policy, &k, NOW, 4, 10 * SECOND), HIRATE_ALLOWED, 6, 0, 10000);
    assert_decision(decide(&policy, &k, NOW, 4, 5 * SECOND), HIRATE_ALLOWED, 2, 0, 10000);
    assert_decision(decide(&policy, &k, NOW, 3, 0), HIRATE_DENIED, 2, 5000, 10000);
    assert_decision(decide(&policy, &k, NOW, 6, SECOND), HIRATE_DENIED, 2, 5000, 10000);
    assert_decision(decide(&policy, &k, NOW, 7, SECOND), HIRATE_DENIED, 2, 10000, 10000);
    assert_decision(decide(&policy, &k, NOW, 11, SECOND), HIRATE_DENIED, 2, HIRATE_NEVER, 10000);
    assert_decision(decide(&policy, &k, NOW, 0, SECOND), HIRATE_ALLOWED, 2, 0, 10000);
    /* Once something is used it counts to the hour's end, and no earlier end of a reservation makes room for all. */
    assert_decision(decide(&policy, &k, NOW + 1, 2, 0), HIRATE_ALLOWED, 0, 0, 3600000);
    assert_decision(decide(&policy, &k, NOW + 1, 8, 0), HIRATE_DENIED, 0, 10000, 3600000);
    assert_decision(decide(&policy, &k, NOW + 1, 9, 0), HIRATE_DENIED, 0, 3600000, 3600000);
    assert_decision(decide(&policy, &k, NOW + 5 * SECOND - 1, 4, 0), HIRATE_DENIED, 0, 1, 3595001);
    assert_decision(decide(&policy, &k, NOW + 5 * SECOND, 4, 0), HIRATE_ALLOWED, 0, 0, 3595000);
    hr_hold_list_free(&k.list);
}

static void test_reservation_ends_with_its_window(void **state)
{
    hr_policy policy = quota(10, HIRATE_PER_HOUR);
    kept k = {.used = 0};

    (void)state;
    assert_decision(decide(&policy, &k, NOW + HOUR - SECOND, 10, INT64_C(1) << 52), HIRATE_ALLOWED, 0, 0, 1000);
    assert_decision(decide(&policy, &k, NOW + HOUR - 1, 1, 0), HIRATE_DENIED, 0, 1, 1);
    assert_decision(decide(&policy, &k, NOW + HOUR, 10, 1), HIRATE_ALLOWED, 0, 0, 1);
    hr_hold_list_free(&k.list);
}

static void test_reservation_refunded_makes_room(void **state)
{
    hr_policy policy = quota(10, HIRATE_PER_HOUR);
    kept k = {.used = 0};

    (void)state;
    (void)decide(&policy, &k, NOW, 10, SECOND);
    refund(&k);
    assert_decision(decide(&policy, &k, NOW, 10, 0), HIRATE_ALLOWED, 0, 0, 3600000);
    hr_hold_list_free(&k.list);
}

static void test_reservations_are_bounded_in_number(void **state)
{
    hr_policy policy = quota(HIRATE_COST_MAX, HIRATE_PER_HOUR);
    const uint64_t left = HIRATE_COST_MAX - HIRATE_HOLDS_MAX - 1;
    kept k = {.used = 0};

    (void)state;
    for (int64_t i = 0; i < HIRATE_HOLDS_MAX; i++)
        assert_int_equal(decide(&policy, &k, NOW + 1000 * i, 1 + (i == 0), 10 * SECOND).verdict, HIRATE_ALLOWED);
    /* No further one until the first has ended; a charge has room. */
    assert_decision(decide(&policy, &k, NOW + 8192000, 1, SECOND), HIRATE_DENIED, left, 1808, 9999);
    assert_decision(decide(&policy, &k, NOW + 8192000, left + 2, SECOND), HIRATE_DENIED, left, 1808, 9999);
    assert_decision(decide(&policy, &k, NOW + 8192000, left + 3, SECOND), HIRATE_DENIED, left, 1809, 9999);
    assert_decision(decide(&policy, &k, NOW + 8192000, 0, SECOND), HIRATE_ALLOWED, left, 0, 9999);
    assert_decision(decide(&policy, &k, NOW + 10 * SECOND - 1, left, 0), HIRATE_ALLOWED, 0, 0, 3590001);
    assert_decision(decide(&policy, &k, NOW + 10 * SECOND - 1, 1, SECOND), HIRATE_DENIED, 0, 1, 3590001);
    assert_decision(decide(&policy, &k, NOW + 10 * SECOND, 2, SECOND), HIRATE_ALLOWED, 0, 0, 3590000);
    hr_hold_list_free(&k.list);
}

static void test_reservations_largest_are_exact(void **state)
{
    hr_policy policy = quota(HIRATE_COST_MAX, HIRATE_PER_HOUR);
    kept k = {.used = 0};

    (void)state;
    assert_decision(decide(&policy, &k, NOW, HIRATE_COST_MAX - 1, SECOND), HIRATE_ALLOWED, 1, 0, 1000);
    assert_decision(decide(&policy, &k, NOW, HIRATE_COST_MAX, SECOND), HIRATE_DENIED, 1, 1000, 1000);
    assert_decision(decide(&policy, &k, NOW, 1, 0), HIRATE_ALLOWED, 0, 0, 3600000);
    /* Committed beyond the limit while others hold: what is left is nothing, never less. */
    k.used = HIRATE_COST_MAX;
    assert_decision(decide(&policy, &k, NOW, 1, 0), HIRATE_DENIED, 0, 3600000, 3600000);
    assert_decision(decide(&policy, &k, NOW, 0, 0), HIRATE_ALLOWED, 0, 0, 3600000);
    hr_hold_list_free(&k.list);
}

static void test_reservation_stepped_back_keeps_its_end(void **state)
{
    hr_policy policy = quota(10, HIRATE_PER_HOUR);
    kept k = {.used = 0};

    (void)state;
    (void)decide(&policy, &k, NOW, 10, SECOND);
    assert_decision(decide(&policy, &k, NOW - HOUR, 1, 0), HIRATE_DENIED, 0, 3601000, 3601000);
    /* Further: the hour of the moment, and what is held ends with it. */
    assert_decision(decide(&policy, &k, NOW - HOUR - 1, 1, 0), HIRATE_DENIED, 0, 1, 1);
    assert_true(k.end_us == NOW - HOUR);
    assert_decision(decide(&policy, &k, NOW - HOUR, 10, 0), HIRATE_ALLOWED, 0, 0, 3600000);
    hr_hold_list_free(&k.list);
}

/* A window of the future in which nothing is left is no window: that of the moment holds, stored in between or not. */
static void test_reservation_ended_leaves_no_window_behind(void **state)
{
    hr_policy policy = quota(10, HIRATE_PER_HOUR);
    kept k = {.used = 0};

    (void)state;
    (void)decide(&policy, &k, NOW, 1, SECOND);
    (void)decide(&policy, &k, NOW - HOUR / 2, 1, SECOND);
    refund(&k);
    assert_int_equal(k.list.count, 1);
    k.list.holds[k.list.first].until_us =
        NOW - HOUR / 2 + SECOND; /* the one made after the step back is what is left */
    assert_decision(decide(&policy, &k, NOW - HOUR / 2 + SECOND, 10, 0), HIRATE_ALLOWED, 0, 0, 1799000);
    hr_hold_list_free(&k.list);
}

/* ----------------------------------------------------------------------------------------------------- model -- */

/* In the plainest way, in signed 128 bits: reservations in the order in which they were made. */
__extension__ typedef __int128 i128;
enum { STEPS = 70 };
typedef struct model {
    i128 start, end, used;
    struct {
        i128 until, units;
    } holds[STEPS];
    size_t count;
} model;

static i128 model_held(const model *m, i128 when)
{
    i128 held = 0;

    for (size_t i = 0; i < m->count; i++)
        held += m->holds[i].until > when ? m->holds[i].units : 0;
    return held;
}

static void model_bring_to(model *m, int64_t now)
{
    hr_span span = hr_span_calendar(HIRATE_PER_HOUR, 0, now);

    if (now >= m->end)
        m->used = m->count = 0;
    size_t left = 0;
    for (size_t i = 0; i < m->count; i++)
        if (m->holds[i].until > now)
            m->holds[left++] = m->holds[i];
    m->count = left;
    if ((m->used == 0 && m->count == 0) || m->start - now > m->end - m->start) {
        m->start = span.start_us;
        m->end = span.end_us;
    }
}

static int64_t model_retry_ms(const model *m, i128 max, i128 now, i128 cost)
{
    i128 best = m->end;

    for (size_t i = 0; i < m->count; i++) {
        i128 until = m->holds[i].until;
        if (m->used + model_held(m, until) + cost <= max && until < best)
            best = until;
    }
    return (int64_t)((best - now + 999) / 1000);
}

static hr_decision model_decide(model *m, i128 max, int64_t now, i128 cost, i128 hold)
{
    hr_decision d = {.verdict = HIRATE_DENIED};

    model_bring_to(m, now);
    i128 taken = m->used + model_held(m, now);
    if (cost == 0 || taken + cost <= max) {
        d.verdict = HIRATE_ALLOWED;
        taken += cost;
        if (hold == 0) {
            m->used += cost;
        } else if (cost > 0) {
            m->holds[m->count].until = now + hold < m->end ? now + hold : m->end;
            m->holds[m->count++].units = cost;
        }
    } else {
        d.retry_after_ms = cost > max ? HIRATE_NEVER : model_retry_ms(m, max, now, cost);
    }
    i128 latest = m->used > 0 ? m->end : now;
    for (size_t i = 0; i < m->count && m->used == 0; i++)
        latest = m->holds[i].until > latest ? m->holds[i].until : latest;
    d.remaining = taken < max ? (uint64_t)(max - taken) : 0;
    d.reset_ms = (int64_t)(((latest < m->end ? latest : m->end) - now + 999) / 1000);
    return d;
}

static void test_reservations_random_trace_equals_naive_model(void **state)
{
    rng r = rng_start("test_reservations_random_trace_equals_naive_model");

    (void)state;
    for (int i = 0; i < 3000; i++) {
        kept k = {.used = 0};
        model m = {.count = 0};
        uint64_t max = rng_magnitude(&r, 53), pace = rng_magnitude(&r, 32);
        int64_t now_us = NOW;

        for (int step = 0; step < STEPS; step++) {
            if (rng_upto(&r, 20) == 0)
                max = rng_magnitude(&r, 53);
            hr_policy policy = quota(max, HIRATE_PER_HOUR);
            uint64_t cost = rng_upto(&r, 4) ? rng_upto(&r, max / 4 + 1) : rng_upto(&r, HIRATE_COST_MAX);
            uint64_t hold = rng_upto(&r, 3) ? 1 + rng_upto(&r, 10 * pace) : 0;
            hr_decision d = decide(&policy, &k, now_us, cost, hold);
            hr_decision expected = model_decide(&m, (i128)max, now_us, (i128)cost, (i128)hold);

            assert_decision(d, expected.verdict, expected.remaining, expected.retry_after_ms, expected.reset_ms);
            int64_t by = (int64_t)rng_upto(&r, rng_upto(&r, 9) ? pace : (uint64_t)(2 * HOUR));
            now_us += rng_upto(&r, 3) ? by : -by;
        }
        hr_hold_list_free(&k.list);
    }
}

/* What a client does: repeat decisions on a moment of which it knows but one, which ends when the wait is over. */
static void test_reservations_one_of_them_is_enough_to_repeat_decisions(void **state)
{
    rng r = rng_start("test_reservations_one_of_them_is_enough_to_repeat_decisions");
    size_t denied = 0;

    (void)state;
    for (int i = 0; i < 5000; i++) {
        uint64_t max = 1 + rng_upto(&r, 20);
        hr_policy policy = quota(max, HIRATE_PER_HOUR);
        int64_t now_us = NOW;
        kept k = {.used = 0};

        for (uint64_t j = rng_upto(&r, 20); j > 0; j--, now_us += (int64_t)rng_upto(&r, 1500))
            (void)decide(&policy, &k, now_us, rng_upto(&r, 5), rng_upto(&r, 12000));
        now_us -= (int64_t)rng_upto(&r, 12000);
        hr_fixed_window_now moment = load(&policy, &k, now_us);
        for (int j = 0; j < 6; j++) {
            uint64_t cost = rng_upto(&r, max + 1), hold = rng_upto(&r, 1) * (1 + rng_upto(&r, 12000));
            hr_decision whole = decide(&policy, &k, now_us, cost, hold);
            int64_t ends_us = now_us + (whole.retry_after_ms == HIRATE_NEVER ? 0 : 1000 * whole.retry_after_ms);
            hr_hold one = {.until_us = ends_us, .units = rng_upto(&r, 3)};

            moment.window.reservations = (hr_holds){&one, 1};
            hr_decision d = hold == 0 ? hr_fixed_window_take(&policy, &moment, cost)
                                      : hr_fixed_window_reserve(&policy, &moment, cost, hold);
            assert_decision(d, whole.verdict, whole.remaining, whole.retry_after_ms, whole.reset_ms);
            denied += d.verdict == HIRATE_DENIED;
        }
        hr_hold_list_free(&k.list);
    }
    assert_true(denied > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reservation_counts_until_its_time_is_over),
        cmocka_unit_test(test_reservation_ends_with_its_window),
        cmocka_unit_test(test_reservation_refunded_makes_room),
        cmocka_unit_test(test_reservations_are_bounded_in_number),
        cmocka_unit_test(test_reservations_largest_are_exact),
        cmocka_unit_test(test_reservation_stepped_back_keeps_its_end),
        cmocka_unit_test(test_reservation_ended_leaves_no_window_behind),
        cmocka_unit_test(test_reservations_random_trace_equals_naive_model),
        cmocka_unit_test(test_reservations_one_of_them_is_enough_to_repeat_decisions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
