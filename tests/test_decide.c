/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is promised of every kind of limit, on states that random traces lead to: forward and back in time, with costs
 * from nothing to more than the limit, and with limits that change on the way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "decide.h"
#include "hold_list.h"
#include "log_buffer.h"
#include "support/random.h"

#include <stdlib.h>
#include <string.h>

#define NOW INT64_C(1767225600000000)
#define LATEST (INT64_C(1) << 52)

/* A name's state, as it would be kept. */
typedef struct kept {
    bool exists;
    hr_state state; /* without entries and holds */
    hr_log_buffer buffer;
    hr_hold_list list;
} kept;

static bool has_holds(const hr_policy *policy)
{
    return policy->kind == HIRATE_KIND_QUOTA || policy->kind == HIRATE_KIND_CONCURRENCY;
}

static void kept_free(kept *k)
{
    hr_log_buffer_free(&k->buffer);
    hr_hold_list_free(&k->list);
}

static hr_moment load(const hr_policy *policy, kept *k, int64_t now_us)
{
    if (policy->kind == HIRATE_KIND_SLIDING_LOG)
        k->state.as.log = hr_log_buffer_view(&k->buffer);
    if (policy->kind == HIRATE_KIND_QUOTA) {
        k->state.as.window.reservations = hr_hold_list_view(&k->list);
        k->state.as.window.held = k->list.held;
    }
    if (policy->kind == HIRATE_KIND_CONCURRENCY) {
        k->state.as.concurrency.leases = hr_hold_list_view(&k->list);
        k->state.as.concurrency.held = k->list.held;
    }
    k->state.kind = policy->kind;
    return hr_decide_load(policy, k->exists ? &k->state : NULL, now_us);
}

static hr_state store(const hr_policy *policy, const hr_moment *moment)
{
    hr_state state = {.kind = policy->kind};

    if (policy->kind == HIRATE_KIND_FIXED_WINDOW)
        state.as.window = moment->window.window;
    else if (policy->kind == HIRATE_KIND_SLIDING_WINDOW)
        state.as.sliding = moment->sliding.window;
    else
        state.as.bucket = (hr_token_bucket){moment->bucket.units, policy->p, moment->bucket.at};
    return state;
}

/* A lease, or a reservation for hold_us, has been made of `cost` at this moment if it is above 0. */
static void store_holds(const hr_policy *policy, kept *k, const hr_moment *moment, uint64_t cost, uint64_t hold_us)
{
    bool leases = policy->kind == HIRATE_KIND_CONCURRENCY;
    hr_hold hold = {.until_us = hr_decide_until_us(policy, moment, hold_us), .units = cost};

    hr_hold_list_keep(&k->list, leases ? moment->concurrency.leases.count : moment->window.window.reservations.count,
                      leases ? moment->concurrency.shift_us : 0);
    if (cost > 0) {
        assert_true(hr_hold_list_reserve(&k->list));
        hr_hold_list_add(&k->list, &hold);
    }
    if (leases)
        k->state.as.concurrency.at_us = moment->concurrency.at_us;
    else
        k->state.as.window = moment->window.window;
}

static hr_decision decide_hold(const hr_policy *policy, kept *k, int64_t now_us, uint64_t cost, uint64_t hold_us)
{
    hr_moment moment = load(policy, k, now_us);
    hr_decision d = hr_decide_hold(policy, &moment, cost, hold_us);
    bool held = d.verdict == HIRATE_ALLOWED && (policy->kind == HIRATE_KIND_CONCURRENCY || hold_us > 0);

    k->exists = d.reset_ms != 0;
    if (policy->kind == HIRATE_KIND_SLIDING_LOG)
        assert_true(hr_log_buffer_store(&k->buffer, &moment.log));
    else if (has_holds(policy))
        store_holds(policy, k, &moment, held ? cost : 0, hold_us);
    else
        k->state = store(policy, &moment);
    return d;
}

static hr_decision decide(const hr_policy *policy, kept *k, int64_t now_us, uint64_t cost)
{
    return decide_hold(policy, k, now_us, cost, 0);
}

static hr_decision peek(const hr_policy *policy, kept *k, int64_t now_us, uint64_t cost)
{
    hr_moment moment = load(policy, k, now_us);

    return hr_decide_take(policy, &moment, cost);
}

/* A limit of `kind`; *length_us: about the time in which it comes back. */
static hr_policy random_policy(rng *r, unsigned kind, uint64_t *length_us)
{
    hirate_limit limit;
    hr_policy policy;

    do {
        uint64_t max = rng_upto(r, 2) ? rng_upto(r, 30) : rng_magnitude(r, 50);
        uint64_t window_us = rng_magnitude(r, 45);
        hirate_rate rate = {rng_magnitude(r, 20), rng_magnitude(r, 30)};

        hirate_limit_token_bucket(&limit, "p", max, rate);
        limit.kind = (uint16_t)kind;
        if (kind == HIRATE_KIND_FIXED_WINDOW)
            hirate_limit_fixed_window(&limit, "p", max, window_us);
        else if (kind == HIRATE_KIND_QUOTA)
            hirate_limit_quota(&limit, "p", max, (enum hirate_per)(1 + rng_upto(r, 3)),
                               (int32_t)rng_upto(r, 2 * 1439) - 1439);
        else if (kind == HIRATE_KIND_SLIDING_LOG)
            hirate_limit_sliding_log(&limit, "p", max % 41, window_us);
        else if (kind == HIRATE_KIND_SLIDING_WINDOW)
            hirate_limit_sliding_window(&limit, "p", max, window_us);
        else if (kind == HIRATE_KIND_CONCURRENCY)
            hirate_limit_concurrency(&limit, "p", max, window_us);
    } while (hr_policy_compile(&policy, &limit, NULL) != 0);
    *length_us = policy.n > 0           ? policy.full / policy.n + 1
                 : policy.window_us > 0 ? policy.window_us
                 : policy.lease_us > 0  ? policy.lease_us
                                        : 86400000000;
    return policy;
}

static uint64_t random_cost(rng *r, const hr_policy *policy)
{
    switch (rng_upto(r, 6)) {
    case 0:
        return rng_upto(r, 1);
    case 1:
        return policy->capacity + rng_upto(r, 1);
    case 2:
        return rng_upto(r, policy->capacity);
    default:
        return rng_upto(r, policy->capacity / 3 + 1);
    }
}

/* From now on within about `length_us`, or a little more, or back. */
static int64_t random_step(rng *r, int64_t now_us, uint64_t length_us)
{
    uint64_t most = length_us < UINT64_C(1) << 48 ? length_us : UINT64_C(1) << 48;
    int64_t by = (int64_t)rng_upto(r, rng_upto(r, 2) ? most / 10 + 1 : most + most / 4 + 1);
    int64_t next = rng_upto(r, 3) ? now_us + by : now_us - by;

    return next < 0 || next > LATEST ? NOW : next;
}

/* Along random traces of one kind, call `check` at each step on what is kept, which it may not change. */
typedef void check_fn(rng *r, const hr_policy *policy, kept *k, int64_t now_us, size_t *checked);

static void along_traces(const char *name, check_fn *check)
{
    rng r = rng_start(name);

    for (unsigned kind = HIRATE_KIND_TOKEN_BUCKET; kind <= HIRATE_KIND_CONCURRENCY; kind++) {
        size_t checked = 0;

        for (int i = 0; i < 2000; i++) {
            uint64_t length_us;
            hr_policy policy = random_policy(&r, kind, &length_us);
            kept k = {.exists = false};
            int64_t now_us = NOW;

            for (int step = 0; step < 20; step++) {
                if (rng_upto(&r, 15) == 0)
                    policy = random_policy(&r, kind, &length_us);
                check(&r, &policy, &k, now_us, &checked);
                uint64_t hold_us = kind == HIRATE_KIND_QUOTA && rng_upto(&r, 3) ? 1 + rng_upto(&r, length_us / 5) : 0;
                (void)decide_hold(&policy, &k, now_us, random_cost(&r, &policy), hold_us);
                now_us = random_step(&r, now_us, length_us);
            }
            kept_free(&k);
        }
        if (checked < 1000)
            fail_msg("%s: only %zu checked of kind %u", name, checked, kind);
    }
}

static void *duplicate(const void *from, size_t size)
{
    void *to = malloc(size);

    assert_non_null(to);
    return memcpy(to, from, size);
}

static kept kept_copy(const kept *k)
{
    kept copy = *k;

    if (copy.buffer.room > 0)
        copy.buffer.entries = duplicate(k->buffer.entries, copy.buffer.room * sizeof *copy.buffer.entries);
    if (copy.list.room > 0)
        copy.list.holds = duplicate(k->list.holds, copy.list.room * sizeof *copy.list.holds);
    return copy;
}

/* Deciding at `later_us` what was decided, and stored, at now_us; what is kept stays as it is. */
static hr_decision decide_later(const hr_policy *policy, const kept *k, int64_t now_us, uint64_t cost, int64_t later_us,
                                uint64_t later_cost)
{
    kept copy = kept_copy(k);

    (void)decide(policy, &copy, now_us, cost);
    hr_decision d = decide(policy, &copy, later_us, later_cost);
    kept_free(&copy);
    return d;
}

static void check_retry(rng *r, const hr_policy *policy, kept *k, int64_t now_us, size_t *checked)
{
    uint64_t cost = random_cost(r, policy);
    hr_decision d = peek(policy, k, now_us, cost);

    assert_int_equal(d.retry_after_ms == HIRATE_NEVER, cost > policy->capacity);
    assert_int_equal(d.verdict == HIRATE_ALLOWED, d.retry_after_ms == 0);
    assert_true(cost > 0 || d.verdict == HIRATE_ALLOWED);
    if (d.verdict == HIRATE_ALLOWED || d.retry_after_ms == HIRATE_NEVER || d.retry_after_ms > LATEST / 1000)
        return;
    int64_t then_us = now_us + 1000 * d.retry_after_ms;
    assert_int_equal(decide_later(policy, k, now_us, cost, then_us - 1000, cost).verdict, HIRATE_DENIED);
    assert_int_equal(decide_later(policy, k, now_us, cost, then_us, cost).verdict, HIRATE_ALLOWED);
    /* In between nothing is allowed either; and asking in between, which is stored, delays nothing. */
    int64_t between_us = now_us + (int64_t)rng_upto(r, (uint64_t)(then_us - 1000 - now_us));
    hr_decision between = decide_later(policy, k, now_us, cost, between_us, cost);
    assert_int_equal(between.verdict, HIRATE_DENIED);
    assert_true(between.retry_after_ms == (then_us - between_us) / 1000 ||
                between.retry_after_ms == (then_us - between_us) / 1000 + 1 ||
                between.retry_after_ms == (then_us - between_us) / 1000 - 1);
    (*checked)++;
}

/* Of a reservation too, which needs room in the list and may last for less or more than others. */
static void check_retry_of_hold(rng *r, const hr_policy *policy, kept *k, int64_t now_us, size_t *checked)
{
    uint64_t cost = random_cost(r, policy), hold_us = 1 + rng_upto(r, UINT64_C(1) << 52);
    kept at_once = kept_copy(k), too_early = kept_copy(k);
    hr_decision d = decide_hold(policy, &at_once, now_us, cost, hold_us);

    if (d.verdict == HIRATE_DENIED && d.retry_after_ms <= LATEST / 1000) {
        int64_t then_us = now_us + 1000 * d.retry_after_ms;
        (void)decide_hold(policy, &too_early, now_us, cost, hold_us);
        assert_int_equal(decide_hold(policy, &too_early, then_us - 1000, cost, hold_us).verdict, HIRATE_DENIED);
        assert_int_equal(decide_hold(policy, &at_once, then_us, cost, hold_us).verdict, HIRATE_ALLOWED);
    }
    (*checked)++;
    kept_free(&at_once);
    kept_free(&too_early);
}

static void test_kinds_waiting_retry_after_of_a_hold_is_exact(void **state)
{
    (void)state;
    along_traces("test_kinds_waiting_retry_after_of_a_hold_is_exact", check_retry_of_hold);
}

static void test_kinds_waiting_retry_after_is_exact(void **state)
{
    (void)state;
    along_traces("test_kinds_waiting_retry_after_is_exact", check_retry);
}

static void check_reset(rng *r, const hr_policy *policy, kept *k, int64_t now_us, size_t *checked)
{
    uint64_t cost = random_cost(r, policy);
    hr_decision d = peek(policy, k, now_us, cost);

    if (d.reset_ms == 0 || d.reset_ms > LATEST / 1000)
        return;
    int64_t then_us = now_us + 1000 * d.reset_ms;
    assert_true(decide_later(policy, k, now_us, cost, then_us - 1000, 0).reset_ms > 0);
    hr_decision then = decide_later(policy, k, now_us, cost, then_us, 0);
    assert_true(then.reset_ms == 0 && then.remaining == policy->capacity);
    assert_true(d.retry_after_ms == HIRATE_NEVER || d.retry_after_ms <= d.reset_ms);
    (*checked)++;
}

static void test_kinds_reset_is_exact(void **state)
{
    (void)state;
    along_traces("test_kinds_reset_is_exact", check_reset);
}

/* Remaining is what can be taken: exactly that much is allowed, one more is not. */
static void check_remaining(rng *r, const hr_policy *policy, kept *k, int64_t now_us, size_t *checked)
{
    uint64_t remaining = peek(policy, k, now_us, 0).remaining;

    (void)r;
    assert_true(remaining <= policy->capacity);
    hr_decision all = peek(policy, k, now_us, remaining);
    assert_int_equal(all.verdict, HIRATE_ALLOWED);
    assert_true(all.remaining == 0);
    hr_decision more = peek(policy, k, now_us, remaining + 1);
    assert_int_equal(more.verdict, HIRATE_DENIED);
    assert_true(more.remaining == remaining);
    (*checked)++;
}

static void test_kinds_remaining_is_what_can_be_taken(void **state)
{
    (void)state;
    along_traces("test_kinds_remaining_is_what_can_be_taken", check_remaining);
}

/* A clock that steps back, by however much, adds nothing. */
static void check_step_back(rng *r, const hr_policy *policy, kept *k, int64_t now_us, size_t *checked)
{
    hr_decision now = peek(policy, k, now_us, 0);
    int64_t back_us = now_us - (int64_t)(rng_upto(r, 1) ? rng_magnitude(r, 46) : rng_upto(r, 1000));

    if (back_us < 0)
        return;
    /* Also when it was acquired at now, and so stored, before. */
    assert_true(peek(policy, k, back_us, 0).remaining <= now.remaining);
    assert_true(decide_later(policy, k, now_us, 0, back_us, 0).remaining <= now.remaining);
    assert_int_equal(decide_later(policy, k, now_us, 0, back_us, now.remaining + 1).verdict, HIRATE_DENIED);
    *checked += now.remaining < policy->capacity;
}

static void test_kinds_step_back_adds_nothing(void **state)
{
    (void)state;
    along_traces("test_kinds_step_back_adds_nothing", check_step_back);
}

/*
 * Taken one after the other from what was loaded once, or loaded and stored each time: no difference, but for the wait for a
 * lease or reservation that was made in between, which a moment does not know.
 */
static void check_together(rng *r, const hr_policy *policy, kept *k, int64_t now_us, size_t *checked)
{
    enum { COSTS = 4 };
    kept copy = kept_copy(k); /* its list stays where the moment points to */
    hr_moment moment = load(policy, k, now_us);
    bool made = false;

    for (int i = 0; i < COSTS; i++) {
        uint64_t cost = random_cost(r, policy), hold_us = rng_upto(r, 1) * (1 + rng_upto(r, UINT64_C(1) << 40));
        hr_decision together = hr_decide_hold(policy, &moment, cost, hold_us);
        hr_decision alone = decide_hold(policy, &copy, now_us, cost, hold_us);

        hr_decide_keep(policy, &moment, now_us);
        assert_int_equal(alone.verdict, together.verdict);
        assert_true(alone.remaining == together.remaining && alone.delay_ms == together.delay_ms);
        assert_true(alone.reset_ms == together.reset_ms);
        assert_true(alone.retry_after_ms == together.retry_after_ms || made);
        made =
            made || (alone.verdict == HIRATE_ALLOWED && cost > 0 &&
                     (policy->kind == HIRATE_KIND_CONCURRENCY || (policy->kind == HIRATE_KIND_QUOTA && hold_us > 0)));
    }
    kept_free(&copy);
    (*checked)++;
}

static void test_kinds_decided_together_equals_one_by_one(void **state)
{
    (void)state;
    along_traces("test_kinds_decided_together_equals_one_by_one", check_together);
}

/* A change of the limit neither gives back what was used nor takes what was not. */
static void test_kinds_raised_and_lowered_again_is_as_before(void **state)
{
    rng r = rng_start("test_kinds_raised_and_lowered_again_is_as_before");

    (void)state;
    for (unsigned kind = HIRATE_KIND_TOKEN_BUCKET; kind <= HIRATE_KIND_CONCURRENCY; kind++) {
        for (int i = 0; i < 2000; i++) {
            uint64_t length_us, used;
            hr_policy policy = random_policy(&r, kind, &length_us);
            kept k = {.exists = false};

            if (policy.capacity < 2)
                continue;
            used = decide(&policy, &k, NOW, 1 + rng_upto(&r, policy.capacity - 1)).remaining;
            used = policy.capacity - used;
            hr_policy other = policy;
            other.capacity = policy.capacity - 1;
            other.full = other.capacity * other.p;
            hr_decision d = peek(&other, &k, NOW, 0);
            /* A bucket loses what no longer fits into it; a window's use stands against the new limit. */
            uint64_t left = policy.n > 0 ? policy.capacity - used
                                         : other.capacity - (used < other.capacity ? used : other.capacity);
            assert_true(d.remaining == (left < other.capacity ? left : other.capacity));
            assert_true(peek(&policy, &k, NOW, 0).remaining == policy.capacity - used);
            kept_free(&k);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds_waiting_retry_after_is_exact),
        cmocka_unit_test(test_kinds_waiting_retry_after_of_a_hold_is_exact),
        cmocka_unit_test(test_kinds_reset_is_exact),
        cmocka_unit_test(test_kinds_remaining_is_what_can_be_taken),
        cmocka_unit_test(test_kinds_step_back_adds_nothing),
        cmocka_unit_test(test_kinds_decided_together_equals_one_by_one),
        cmocka_unit_test(test_kinds_raised_and_lowered_again_is_as_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
