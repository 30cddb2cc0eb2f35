/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Concurrency: what is held and when it comes back, the clock stepping back, changes; against a model that finds waits
 * by looking at every lease's end. Leases are kept in the local engine's list.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "concurrency.h"
#include "hold_list.h"
#include "support/random.h"

#include <string.h>

#define SECOND INT64_C(1000000)
#define NOW INT64_C(1767225600000000)

static hr_policy compile(uint64_t max, int64_t lease_us)
{
    hirate_limit limit;
    hr_policy policy;

    hirate_limit_concurrency(&limit, "p", max, (uint64_t)lease_us);
    assert_int_equal(hr_policy_compile(&policy, &limit, NULL), 0);
    return policy;
}

/* As it would be stored; nothing without leases. */
typedef struct kept {
    int64_t at_us;
    hr_hold_list list;
    uint64_t made;
} kept;

static hr_concurrency_now load(const hr_policy *policy, const kept *k, int64_t now_us)
{
    hr_concurrency stored = {k->at_us, hr_hold_list_view(&k->list), k->list.held};

    return hr_concurrency_load(policy, k->list.count == 0 ? NULL : &stored, now_us);
}

static hr_decision decide(const hr_policy *policy, kept *k, int64_t now_us, uint64_t cost)
{
    hr_concurrency_now moment = load(policy, k, now_us);
    size_t found = moment.leases.count;
    hr_decision d = hr_concurrency_take(policy, &moment, cost);

    hr_hold_list_keep(&k->list, found, moment.shift_us);
    if (d.verdict == HIRATE_ALLOWED && cost > 0) {
        hr_hold hold = {.until_us = hr_concurrency_until_us(policy, &moment), .units = cost};

        k->made++;
        memcpy(hold.id, &k->made, sizeof k->made);
        assert_true(hr_hold_list_reserve(&k->list));
        hr_hold_list_add(&k->list, &hold);
    }
    k->at_us = moment.at_us;
    assert_int_equal(d.reset_ms == 0, k->list.count == 0);
    assert_true(moment.count == k->list.count && moment.held == k->list.held);
    assert_int_equal(d.delay_ms, 0);
    return d;
}

static void release(kept *k, uint64_t number)
{
    unsigned char id[HR_HOLD_ID_SIZE] = {0};

    memcpy(id, &number, sizeof number);
    const hr_hold *hold = hr_hold_list_find(&k->list, id, 0);
    assert_non_null(hold);
    hr_hold_list_remove(&k->list, hold);
}

static void assert_decision(hr_decision d, enum hirate_verdict verdict, uint64_t remaining, int64_t retry_after_ms,
                            int64_t reset_ms)
{
    assert_int_equal(d.verdict, verdict);
    assert_true(d.remaining == remaining);
    assert_true(d.retry_after_ms == retry_after_ms);
    assert_true(d.reset_ms == reset_ms);
}

static void test_leases_are_held_until_they_end(void **state)
{
    hr_policy policy = compile(3, SECOND);
    kept k = {.at_us = 0};

    (void)state;
    assert_decision(decide(&policy, &k, NOW, 1), HIRATE_ALLOWED, 2, 0, 1000);
    assert_decision(decide(&policy, &k, NOW + 300001, 2), HIRATE_ALLOWED, 0, 0, 1000);
    assert_decision(decide(&policy, &k, NOW + 300001, 1), HIRATE_DENIED, 0, 700, 1000);
    assert_decision(decide(&policy, &k, NOW + 300001, 2), HIRATE_DENIED, 0, 1000, 1000);
    assert_decision(decide(&policy, &k, NOW + 999999, 1), HIRATE_DENIED, 0, 1, 301);
    assert_decision(decide(&policy, &k, NOW + 999999, 0), HIRATE_ALLOWED, 0, 0, 301);
    assert_decision(decide(&policy, &k, NOW + SECOND, 2), HIRATE_DENIED, 1, 301, 301);
    assert_decision(decide(&policy, &k, NOW + SECOND, 1), HIRATE_ALLOWED, 0, 0, 1000);
    assert_decision(decide(&policy, &k, NOW + 2 * SECOND, 0), HIRATE_ALLOWED, 3, 0, 0);
    hr_hold_list_free(&k.list);
}

static void test_leases_released_make_room_at_once(void **state)
{
    hr_policy policy = compile(3, SECOND);
    kept k = {.at_us = 0};

    (void)state;
    (void)decide(&policy, &k, NOW, 1);
    (void)decide(&policy, &k, NOW + 1, 2);
    release(&k, 1);
    assert_decision(decide(&policy, &k, NOW + 2, 2), HIRATE_DENIED, 1, 1000, 1000);
    assert_decision(decide(&policy, &k, NOW + 2, 1), HIRATE_ALLOWED, 0, 0, 1000);
    hr_hold_list_free(&k.list);
}

static void test_leases_cost_above_limit_is_never(void **state)
{
    hr_policy policy = compile(3, SECOND), none = compile(0, SECOND);
    kept k = {.at_us = 0};

    (void)state;
    assert_decision(decide(&policy, &k, NOW, 4), HIRATE_DENIED, 3, HIRATE_NEVER, 0);
    assert_decision(decide(&none, &k, NOW, 0), HIRATE_ALLOWED, 0, 0, 0);
    assert_decision(decide(&none, &k, NOW, 1), HIRATE_DENIED, 0, HIRATE_NEVER, 0);
    (void)decide(&policy, &k, NOW, 3);
    assert_decision(decide(&policy, &k, NOW, HIRATE_COST_MAX), HIRATE_DENIED, 0, HIRATE_NEVER, 1000);
    hr_hold_list_free(&k.list);
}

static void test_leases_largest_limit_and_time_are_exact(void **state)
{
    hr_policy policy = compile(HIRATE_COST_MAX, INT64_C(1) << 52);
    const int64_t late = INT64_C(1) << 52, whole_ms = ((INT64_C(1) << 52) + 999) / 1000;
    kept k = {.at_us = 0};

    (void)state;
    assert_decision(decide(&policy, &k, late, HIRATE_COST_MAX - 1), HIRATE_ALLOWED, 1, 0, whole_ms);
    assert_decision(decide(&policy, &k, late, HIRATE_COST_MAX), HIRATE_DENIED, 1, whole_ms, whole_ms);
    assert_decision(decide(&policy, &k, late, 1), HIRATE_ALLOWED, 0, 0, whole_ms);
    hr_hold_list_free(&k.list);
}

static void test_leases_are_bounded_in_number(void **state)
{
    hr_policy policy = compile(HIRATE_COST_MAX, SECOND);
    kept k = {.at_us = 0};

    (void)state;
    for (int64_t i = 0; i < HIRATE_HOLDS_MAX; i++)
        assert_int_equal(decide(&policy, &k, NOW + i, 1 + (i == 0)).verdict, HIRATE_ALLOWED);
    /* Units there would be. One lease must end; for more than is left without it, a second one. */
    const uint64_t left = HIRATE_COST_MAX - HIRATE_HOLDS_MAX - 1;
    assert_decision(decide(&policy, &k, NOW + 8192, 1), HIRATE_DENIED, 0, 992, 1000);
    assert_decision(decide(&policy, &k, NOW + 8192, left + 2), HIRATE_DENIED, 0, 992, 1000);
    assert_decision(decide(&policy, &k, NOW + 999999, left + 3), HIRATE_DENIED, 0, 1, 9);
    assert_decision(decide(&policy, &k, NOW + 999999, 0), HIRATE_ALLOWED, 0, 0, 9);
    assert_decision(decide(&policy, &k, NOW + SECOND, left + 3), HIRATE_DENIED, left + 2, 1, 9);
    assert_decision(decide(&policy, &k, NOW + SECOND, 1), HIRATE_ALLOWED, 0, 0, 1000);
    hr_hold_list_free(&k.list);
}

static void test_leases_stepped_back_end_when_they_were_to(void **state)
{
    hr_policy policy = compile(3, SECOND);
    kept k = {.at_us = 0};

    (void)state;
    (void)decide(&policy, &k, NOW, 3);
    assert_decision(decide(&policy, &k, NOW - SECOND, 1), HIRATE_DENIED, 0, 2000, 2000);
    assert_true(k.at_us == NOW);
    assert_decision(decide(&policy, &k, NOW + SECOND - 1, 1), HIRATE_DENIED, 0, 1, 1);
    assert_decision(decide(&policy, &k, NOW + SECOND, 3), HIRATE_ALLOWED, 0, 0, 1000);
    hr_hold_list_free(&k.list);
}

static void test_leases_stepped_back_further_move_with_the_clock(void **state)
{
    hr_policy policy = compile(3, SECOND);
    kept k = {.at_us = 0};

    (void)state;
    (void)decide(&policy, &k, NOW, 1);
    (void)decide(&policy, &k, NOW + 400000, 2);
    /* At NOW + 0.4 s they had 0.6 and 1 s to go. */
    assert_decision(decide(&policy, &k, NOW - SECOND, 1), HIRATE_DENIED, 0, 600, 1000);
    assert_decision(decide(&policy, &k, NOW - SECOND, 2), HIRATE_DENIED, 0, 1000, 1000);
    assert_decision(decide(&policy, &k, NOW - 400001, 1), HIRATE_DENIED, 0, 1, 401);
    assert_decision(decide(&policy, &k, NOW - 400000, 1), HIRATE_ALLOWED, 0, 0, 1000);
    hr_hold_list_free(&k.list);
}

/* Taken while the clock is behind, then behind by so much that leases move: it has at least its lease time to go. */
static void test_leases_taken_after_a_step_back_survive_another(void **state)
{
    hr_policy policy = compile(3, SECOND);
    kept k = {.at_us = 0};

    (void)state;
    (void)decide(&policy, &k, NOW, 1);
    assert_decision(decide(&policy, &k, NOW - SECOND, 2), HIRATE_ALLOWED, 0, 0, 2000);
    assert_decision(decide(&policy, &k, NOW - 3 * SECOND, 1), HIRATE_DENIED, 0, 1000, 1000);
    assert_decision(decide(&policy, &k, NOW - 2 * SECOND - 1, 1), HIRATE_DENIED, 0, 1, 1);
    assert_decision(decide(&policy, &k, NOW - 2 * SECOND, 3), HIRATE_ALLOWED, 0, 0, 1000);
    hr_hold_list_free(&k.list);
}

static void test_leases_changed_limit_and_lease_keep_what_is_held(void **state)
{
    hr_policy ten = compile(10, 10 * SECOND), five = compile(5, SECOND);
    kept k = {.at_us = 0};

    (void)state;
    (void)decide(&ten, &k, NOW, 4);
    (void)decide(&ten, &k, NOW, 4);
    assert_decision(decide(&five, &k, NOW + 1, 1), HIRATE_DENIED, 0, 10000, 10000);
    assert_decision(decide(&five, &k, NOW + 1, 0), HIRATE_ALLOWED, 0, 0, 10000);
    assert_decision(decide(&ten, &k, NOW + 1, 2), HIRATE_ALLOWED, 0, 0, 10000);
    release(&k, 1);
    /* A shorter lease ends before those that were there. */
    assert_decision(decide(&ten, &k, NOW + 2, 1), HIRATE_ALLOWED, 3, 0, 10000);
    assert_decision(decide(&five, &k, NOW + 2, 0), HIRATE_ALLOWED, 0, 0, 10000);
    release(&k, 2);
    assert_decision(decide(&five, &k, NOW + 2, 1), HIRATE_ALLOWED, 1, 0, 10000);
    assert_decision(decide(&five, &k, NOW + 2, 2), HIRATE_DENIED, 1, 1000, 10000);
    assert_decision(decide(&five, &k, NOW + SECOND + 2, 2), HIRATE_ALLOWED, 0, 0, 9000);
    hr_hold_list_free(&k.list);
}

/* ----------------------------------------------------------------------------------------------------- model -- */

/* In the plainest way, in signed 128 bits: leases in the order in which they were made. */
__extension__ typedef __int128 i128;
enum { LEASES = 70 };
typedef struct model {
    i128 at;
    struct {
        i128 until, units;
    } leases[LEASES];
    size_t count;
} model;

static i128 model_held(const model *m, i128 when)
{
    i128 held = 0;

    for (size_t i = 0; i < m->count; i++)
        held += m->leases[i].until > when ? m->leases[i].units : 0;
    return held;
}

static void model_bring_to(model *m, i128 lease, i128 now)
{
    size_t left = 0;
    i128 shift = 0;

    if (m->count == 0 || now >= m->at)
        m->at = now;
    if (m->at - now > lease) {
        shift = now - m->at;
        m->at = now;
    }
    for (size_t i = 0; i < m->count; i++) {
        m->leases[i].until += shift;
        if (m->leases[i].until > now)
            m->leases[left++] = m->leases[i];
    }
    m->count = left;
}

/* The first end of a lease by which it fits. */
static int64_t model_retry_ms(const model *m, i128 max, i128 now, i128 cost)
{
    i128 best = -1;

    for (size_t i = 0; i < m->count; i++) {
        i128 until = m->leases[i].until;
        if (model_held(m, until) + cost <= max && (best < 0 || until < best))
            best = until;
    }
    return (int64_t)((best - now + 999) / 1000);
}

static hr_decision model_decide(model *m, i128 max, i128 lease, i128 now, i128 cost)
{
    hr_decision d = {.verdict = HIRATE_DENIED};
    i128 latest = now;

    model_bring_to(m, lease, now);
    i128 held = model_held(m, now);
    if (cost == 0 || held + cost <= max) {
        d.verdict = HIRATE_ALLOWED;
        held += cost;
        if (cost > 0) {
            m->leases[m->count].until = m->at + lease;
            m->leases[m->count++].units = cost;
        }
    } else {
        d.retry_after_ms = cost > max ? HIRATE_NEVER : model_retry_ms(m, max, now, cost);
    }
    for (size_t i = 0; i < m->count; i++)
        latest = m->leases[i].until > latest ? m->leases[i].until : latest;
    d.remaining = held < max ? (uint64_t)(max - held) : 0;
    d.reset_ms = (int64_t)((latest - now + 999) / 1000);
    return d;
}

static void test_leases_random_trace_equals_naive_model(void **state)
{
    rng r = rng_start("test_leases_random_trace_equals_naive_model");

    (void)state;
    for (int i = 0; i < 3000; i++) {
        kept k = {.at_us = 0};
        model m = {.count = 0};
        uint64_t max = rng_magnitude(&r, 53), lease = rng_magnitude(&r, 50);
        int64_t now_us = NOW;

        for (int step = 0; step < LEASES; step++) {
            if (rng_upto(&r, 20) == 0)
                max = rng_magnitude(&r, 53);
            if (rng_upto(&r, 20) == 0)
                lease = rng_magnitude(&r, 50);
            hr_policy policy = compile(max, (int64_t)lease);
            uint64_t cost = rng_upto(&r, 4) ? rng_upto(&r, max / 4 + 1) : rng_upto(&r, HIRATE_COST_MAX);
            hr_decision d = decide(&policy, &k, now_us, cost);
            hr_decision expected = model_decide(&m, (i128)max, (i128)lease, now_us, (i128)cost);

            assert_decision(d, expected.verdict, expected.remaining, expected.retry_after_ms, expected.reset_ms);
            int64_t by = (int64_t)rng_upto(&r, rng_upto(&r, 3) ? lease / 4 + 1 : lease + lease / 3);
            now_us += rng_upto(&r, 3) ? by : -by;
            if (now_us < 0 || now_us > INT64_C(1) << 52)
                now_us = NOW;
        }
        hr_hold_list_free(&k.list);
    }
}

/*
 * Real time beside a clock that is set back now and then. No lease ends before its lease time of real time is over;
 * without a step back none lasts for longer, and after one none for more than two.
 */
static void test_leases_random_steps_back_never_end_one_early(void **state)
{
    rng r = rng_start("test_leases_random_steps_back_never_end_one_early");
    enum { MADE = 60, BITS = 50 };

    (void)state;
    for (int i = 0; i < 2000; i++) {
        int64_t lease = 1 + (int64_t)rng_magnitude(&r, 30), real_us = 0, behind_us = 0, stepped_us = 0, made_us[MADE];
        hr_policy policy = compile(HIRATE_COST_MAX, lease);
        kept k = {.at_us = 0};
        int made = 0;

        while (made < MADE) {
            int64_t now_us = NOW + real_us - behind_us;
            /* The units of each are a power of two that no other there has, so that what is held tells which are. */
            uint64_t held = HIRATE_COST_MAX - decide(&policy, &k, now_us, 0).remaining;

            for (int j = made < BITS ? 0 : made - BITS; j < made; j++) {
                bool is_held = (held & UINT64_C(1) << (j % BITS)) != 0;
                int64_t since_us = made_us[j] > stepped_us ? made_us[j] : stepped_us;

                if (real_us - made_us[j] < lease)
                    assert_true(is_held);
                else if (behind_us == 0 || real_us - since_us >= 2 * lease)
                    assert_false(is_held);
            }
            if ((held & UINT64_C(1) << (made % BITS)) == 0) {
                assert_int_equal(decide(&policy, &k, now_us, UINT64_C(1) << (made % BITS)).verdict, HIRATE_ALLOWED);
                made_us[made++] = real_us;
            }
            real_us += (int64_t)rng_upto(&r, (uint64_t)lease / 5 + 1);
            if (rng_upto(&r, 9) == 0) {
                behind_us += (int64_t)rng_upto(&r, 2 * (uint64_t)lease);
                stepped_us = real_us;
            }
        }
        hr_hold_list_free(&k.list);
    }
}

/* What a client does: repeat decisions on a moment of which it knows one lease, which ends when the wait is over. */
static void test_leases_one_of_them_is_enough_to_repeat_decisions(void **state)
{
    rng r = rng_start("test_leases_one_of_them_is_enough_to_repeat_decisions");
    size_t denied = 0;

    (void)state;
    for (int i = 0; i < 5000; i++) {
        uint64_t max = 1 + rng_upto(&r, 20), lease = 1 + rng_upto(&r, 9000);
        hr_policy policy = compile(max, (int64_t)lease);
        int64_t now_us = NOW;
        kept k = {.at_us = 0};

        for (uint64_t j = rng_upto(&r, 20); j > 0; j--, now_us += (int64_t)rng_upto(&r, 1500))
            (void)decide(&policy, &k, now_us, rng_upto(&r, 5));
        policy = compile(max, (int64_t)(1 + rng_upto(&r, 9000)));
        now_us -= (int64_t)rng_upto(&r, 12000);
        hr_concurrency_now moment = load(&policy, &k, now_us);
        moment.shift_us = 0; /* the one's end is said as it is */
        for (int j = 0; j < 6; j++) {
            uint64_t cost = rng_upto(&r, max + 1);
            hr_decision whole = decide(&policy, &k, now_us, cost);
            int64_t ends_us = now_us + (whole.retry_after_ms == HIRATE_NEVER ? 0 : 1000 * whole.retry_after_ms);
            hr_hold one = {.until_us = ends_us, .units = rng_upto(&r, 3)};

            moment.leases = (hr_holds){&one, 1};
            hr_decision d = hr_concurrency_take(&policy, &moment, cost);
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
        cmocka_unit_test(test_leases_are_held_until_they_end),
        cmocka_unit_test(test_leases_released_make_room_at_once),
        cmocka_unit_test(test_leases_cost_above_limit_is_never),
        cmocka_unit_test(test_leases_largest_limit_and_time_are_exact),
        cmocka_unit_test(test_leases_are_bounded_in_number),
        cmocka_unit_test(test_leases_stepped_back_end_when_they_were_to),
        cmocka_unit_test(test_leases_stepped_back_further_move_with_the_clock),
        cmocka_unit_test(test_leases_taken_after_a_step_back_survive_another),
        cmocka_unit_test(test_leases_changed_limit_and_lease_keep_what_is_held),
        cmocka_unit_test(test_leases_random_trace_equals_naive_model),
        cmocka_unit_test(test_leases_random_steps_back_never_end_one_early),
        cmocka_unit_test(test_leases_one_of_them_is_enough_to_repeat_decisions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
