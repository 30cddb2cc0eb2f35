/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The checker of the mixed run: it accepts what is just within each limit, catches a single unit beyond, and takes what
 * is not known for as little as it can have been.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/mixed_model.h"

#include <stdlib.h>
#include <string.h>

#define NOON INT64_C(1767268800000000) /* 2026-01-01 12:00 UTC: every window that divides a minute begins here */
#define LATER HIRATE_MILLISECONDS(50)  /* within every window, hold and lease */

enum { RECORDS = 16, NAME = 1 };

/* One client's records. What is decided takes `at`, from NOON, as the time both of its submission and of its answer. */
typedef struct run {
    mixed_file *file;
    uint8_t limit;
} run;

static run begin(const char *policy)
{
    run r = {calloc(1, sizeof *r.file + RECORDS * sizeof *r.file->records), 0};
    assert_non_null(r.file);
    while (strcmp(MIXED_LIMITS[r.limit].limit.policy, policy) != 0)
        r.limit++;
    return r;
}

static const hirate_limit *limit_of(const run *r)
{
    return &MIXED_LIMITS[r->limit].limit;
}

static mixed_record *add(run *r, enum hirate_op op, int64_t at, uint32_t cost)
{
    mixed_record *record = &r->file->records[r->file->count++];
    assert_true(r->file->count <= RECORDS);
    record->op = (uint8_t)op;
    record->submitted_us = record->time_us = NOON + at;
    record->cost = cost;
    record->pair_count = 1;
    record->source = HIRATE_SOURCE_REDIS;
    record->callbacks = 1;
    record->pairs[0] = (mixed_pair){.limit = r->limit, .name = NAME, .remaining = MIXED_UNTOLD};
    return record;
}

static mixed_record *admit(run *r, int64_t at, uint32_t cost)
{
    mixed_record *record = add(r, HIRATE_OP_ACQUIRE, at, cost);
    record->verdict = record->pairs[0].verdict = HIRATE_ALLOWED;
    record->pairs[0].took = cost > 0;
    return record;
}

static mixed_record *deny(run *r, int64_t at, uint32_t cost)
{
    mixed_record *record = add(r, HIRATE_OP_ACQUIRE, at, cost);
    record->verdict = record->pairs[0].verdict = HIRATE_DENIED;
    return record;
}

static mixed_record *use(run *r, enum hirate_op op, const mixed_record *of, int64_t at, uint32_t amount)
{
    mixed_record *record = add(r, op, at, amount);
    record->of = (uint32_t)(of - r->file->records);
    record->verdict = op == HIRATE_OP_RENEW || op == HIRATE_OP_COMMIT ? HIRATE_ALLOWED : HIRATE_VERDICT_NONE;
    record->used = 1;
    return record;
}

static void not_answered(mixed_record *record)
{
    record->callbacks = 0;
    record->time_us = 0;
    record->source = HIRATE_SOURCE_NONE;
}

/* Check, and forget. */
static mixed_figures check(run *r)
{
    mixed_history *history = calloc(1, sizeof *history);
    mixed_figures figures = {0};
    assert_non_null(history);
    mixed_history_add(history, r->file, 0);
    mixed_history_complete(history);
    mixed_model_check(limit_of(r), &history->keys[r->limit][NAME], "1", &figures);
    mixed_history_free(history);
    free(history);
    free(r->file);
    r->file = NULL;
    return figures;
}

static void expect_broken(run *r, uint64_t broken)
{
    mixed_figures figures = check(r);
    assert_int_equal(figures.broken, broken);
}

/* -------------------------------------------------------------------------------------------------- each kind -- */

/* The first of them at NOON; the last, of one unit, at `at`. True: it was within the limit. */
static bool fits(const char *policy, uint32_t first, int64_t at)
{
    run r = begin(policy);
    admit(&r, 0, first);
    admit(&r, at, 1);
    mixed_figures figures = check(&r);
    assert_int_equal(figures.admitted, 2);
    assert_int_equal(figures.units, first + 1);
    return figures.broken == 0;
}

static void test_mixed_limit_itself_is_within_and_a_unit_more_is_not(void **state)
{
    (void)state;
    for (size_t i = 0; i < MIXED_LIMIT_COUNT; i++) {
        const hirate_limit *limit = &MIXED_LIMITS[i].limit;
        assert_true(fits(limit->policy, (uint32_t)limit->capacity - 1, 1));
        assert_false(fits(limit->policy, (uint32_t)limit->capacity, 1));
    }
}

/* When it fits again after all was used at NOON, and that a microsecond earlier it does not. */
static void expect_free_from(const char *policy, int64_t at)
{
    run r = begin(policy);
    uint32_t all = (uint32_t)limit_of(&r)->capacity;
    free(r.file);
    assert_true(fits(policy, all, at));
    assert_false(fits(policy, all, at - 1));
}

static void test_mixed_room_returns_at_its_moment(void **state)
{
    (void)state;
    expect_free_from("token", HIRATE_MILLISECONDS(25));
    expect_free_from("token-fast", 1858); /* 13000 / 7 = 1857.1 */
    expect_free_from("leaky", 16667);
    expect_free_from("fixed", HIRATE_MILLISECONDS(300));
    expect_free_from("quota", HIRATE_HOURS(1));
    expect_free_from("quota-wide", HIRATE_MINUTES(15)); /* at +05:45 */
    expect_free_from("log", HIRATE_MILLISECONDS(500));
    expect_free_from("sliding", HIRATE_MILLISECONDS(400) + 8000); /* a fiftieth of the next window */
    expect_free_from("slots", HIRATE_MILLISECONDS(400));
}

static void test_mixed_sliding_window_counts_what_was_taken_within_its_length(void **state)
{
    (void)state;
    run r = begin("sliding");
    admit(&r, HIRATE_MILLISECONDS(399), 50);
    admit(&r, HIRATE_MILLISECONDS(799), 49);
    mixed_figures figures = check(&r);
    assert_int_equal(figures.broken, 0);
    assert_true(figures.worst_interval > 1.979 && figures.worst_interval < 1.981);
}

/* ----------------------------------------------------------------------------------------------------- leases -- */

/* All slots are taken at NOON; returns the lease. */
static const mixed_record *take_all(run *r)
{
    *r = begin("slots");
    return admit(r, 0, 10);
}

static void test_mixed_released_units_are_free_from_then(void **state)
{
    (void)state;
    run r;
    use(&r, HIRATE_OP_RELEASE, take_all(&r), LATER, 0);
    admit(&r, LATER + 1, 10);
    expect_broken(&r, 0);
    use(&r, HIRATE_OP_RELEASE, take_all(&r), LATER, 0);
    admit(&r, LATER - 1, 10);
    expect_broken(&r, 1);
}

static void test_mixed_renewed_lease_lasts_from_then(void **state)
{
    (void)state;
    for (int64_t before = 0; before < 2; before++) {
        run r;
        use(&r, HIRATE_OP_RENEW, take_all(&r), LATER, 0);
        admit(&r, LATER + HIRATE_MILLISECONDS(400) - before, 1);
        expect_broken(&r, before ? 1 : 0);
    }
}

static void test_mixed_unanswered_release_may_have_ended_it_from_its_submission(void **state)
{
    (void)state;
    for (int64_t before = 0; before < 2; before++) {
        run r;
        not_answered(use(&r, HIRATE_OP_RELEASE, take_all(&r), LATER, 0));
        admit(&r, LATER - before, 10);
        expect_broken(&r, before ? 1 : 0);
    }
}

static void test_mixed_unanswered_release_that_was_not_done_did_not_end_it(void **state)
{
    (void)state;
    run r;
    const mixed_record *lease = take_all(&r);
    not_answered(use(&r, HIRATE_OP_RELEASE, lease, LATER, 0));
    use(&r, HIRATE_OP_RELEASE, lease, LATER + 10, 0);
    admit(&r, LATER + 5, 1);
    expect_broken(&r, 1);
}

static void test_mixed_lease_that_is_gone_early_or_there_late_is_wrong(void **state)
{
    (void)state;
    static const int64_t lease_us = HIRATE_MILLISECONDS(400);
    run r;
    use(&r, HIRATE_OP_RELEASE, take_all(&r), lease_us - 1, 0)->used = 0;
    expect_broken(&r, 1);
    use(&r, HIRATE_OP_RENEW, take_all(&r), lease_us - 1, 0)->verdict = HIRATE_DENIED;
    expect_broken(&r, 1);
    use(&r, HIRATE_OP_RELEASE, take_all(&r), lease_us, 0);
    expect_broken(&r, 1);
    use(&r, HIRATE_OP_RENEW, take_all(&r), lease_us, 0);
    assert_true(check(&r).broken > 0);
    use(&r, HIRATE_OP_RELEASE, take_all(&r), lease_us, 0)->used = 0;
    expect_broken(&r, 0);
}

/* ----------------------------------------------------------------------------------------------- reservations -- */

/* Of 300 there are 200 reserved, at NOON for 100 ms. */
static const mixed_record *reserve(run *r)
{
    *r = begin("quota");
    mixed_record *record = admit(r, 0, 200);
    record->hold_us = HIRATE_MILLISECONDS(100);
    return record;
}

/* What is left after a request with the permit was done, or was not answered. */
static void expect_left(enum hirate_op op, uint32_t amount, bool answered, int64_t at, uint32_t left)
{
    for (uint32_t more = 0; more < 2; more++) {
        run r;
        mixed_record *done = use(&r, op, reserve(&r), LATER, amount);
        if (!answered)
            not_answered(done);
        admit(&r, at, left + more);
        expect_broken(&r, more);
    }
}

static void test_mixed_commit_charges_its_amount_and_frees_the_rest(void **state)
{
    (void)state;
    static const int64_t over = HIRATE_MILLISECONDS(100);
    expect_left(HIRATE_OP_COMMIT, 50, true, LATER - 1, 100);
    expect_left(HIRATE_OP_COMMIT, 50, true, LATER + 1, 250);
    expect_left(HIRATE_OP_COMMIT, 250, true, over, 50);
    expect_left(HIRATE_OP_REFUND, 0, true, LATER + 1, 300);
    expect_left(HIRATE_OP_COMMIT, 50, false, LATER + 1, 250);
    expect_left(HIRATE_OP_COMMIT, 250, false, LATER + 1, 100);
    expect_left(HIRATE_OP_COMMIT, 250, false, over, 300);
    expect_left(HIRATE_OP_REFUND, 0, false, LATER + 1, 300);
}

static void test_mixed_commit_beyond_the_limit_is_excess(void **state)
{
    (void)state;
    run r;
    const mixed_record *reserved = reserve(&r);
    admit(&r, 1, 100);
    use(&r, HIRATE_OP_COMMIT, reserved, LATER, 230);
    mixed_figures figures = check(&r);
    assert_int_equal(figures.broken, 0);
    assert_int_equal(figures.excess, 30);
}

static void test_mixed_commit_that_was_done_unheard_is_charged_once_it_is_found_gone(void **state)
{
    (void)state;
    for (uint32_t more = 0; more < 2; more++) {
        run r;
        const mixed_record *reserved = reserve(&r);
        not_answered(use(&r, HIRATE_OP_COMMIT, reserved, LATER, 250));
        mixed_record *again = use(&r, HIRATE_OP_COMMIT, reserved, LATER + 10, 250);
        again->error = HIRATE_ENOENT;
        again->source = HIRATE_SOURCE_NONE;
        admit(&r, LATER + 11, 50 + more);
        expect_broken(&r, more);
    }
}

static void test_mixed_late_commit_is_right_only_after_the_end(void **state)
{
    (void)state;
    static const int64_t over = HIRATE_MILLISECONDS(100);
    for (unsigned late = 0; late < 2; late++) {
        for (int64_t before = 0; before < 2; before++) {
            run r;
            use(&r, HIRATE_OP_COMMIT, reserve(&r), over - before, 10)->late = (uint8_t)late;
            expect_broken(&r, (late != 0) == (before != 0) ? 1 : 0);
        }
    }
}

static void test_mixed_reservation_that_is_gone_without_a_reason_is_wrong(void **state)
{
    (void)state;
    run r;
    mixed_record *gone = use(&r, HIRATE_OP_COMMIT, reserve(&r), LATER, 10);
    gone->error = HIRATE_ENOENT;
    gone->source = HIRATE_SOURCE_NONE;
    expect_broken(&r, 1);
    use(&r, HIRATE_OP_REFUND, reserve(&r), LATER, 0)->used = 0;
    expect_broken(&r, 1);
}

/* ------------------------------------------------------------------------------------------- what is told, known -- */

static void test_mixed_more_remaining_than_there_is_is_caught(void **state)
{
    (void)state;
    for (size_t i = 0; i < MIXED_LIMIT_COUNT; i++) {
        const hirate_limit *limit = &MIXED_LIMITS[i].limit;
        for (uint32_t more = 0; more < 2; more++) {
            run r = begin(limit->policy);
            admit(&r, 0, 2)->pairs[0].remaining = (uint32_t)limit->capacity - 2 + more;
            mixed_figures figures = check(&r);
            assert_int_equal(figures.broken, more);
            assert_int_equal(figures.exact, 1 - more);
        }
    }
}

static void test_mixed_answers_must_be_exact_where_all_is_known(void **state)
{
    (void)state;
    run r = begin("fixed");
    admit(&r, 0, 2)->pairs[0].remaining = 37; /* 38 would be right */
    deny(&r, 1, 38);
    expect_broken(&r, 2);
    r = begin("fixed");
    admit(&r, 0, 2)->pairs[0].remaining = 37;
    deny(&r, 1, 38);
    not_answered(admit(&r, 0, 1));
    mixed_figures figures = check(&r);
    assert_int_equal(figures.broken, 0);
    assert_int_equal(figures.exact, 0);
    assert_int_equal(figures.admitted, 1);
    assert_int_equal(figures.denied, 1);
}

static void test_mixed_maybe_charged_is_no_admission(void **state)
{
    (void)state;
    run r = begin("fixed");
    mixed_record *lost = add(&r, HIRATE_OP_ACQUIRE, 0, 10);
    lost->error = HIRATE_ELOST;
    lost->charge = HIRATE_CHARGE_MAYBE;
    admit(&r, 1, 40);
    mixed_figures figures = check(&r);
    assert_int_equal(figures.broken, 0);
    assert_int_equal(figures.units, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixed_limit_itself_is_within_and_a_unit_more_is_not),
        cmocka_unit_test(test_mixed_room_returns_at_its_moment),
        cmocka_unit_test(test_mixed_sliding_window_counts_what_was_taken_within_its_length),
        cmocka_unit_test(test_mixed_released_units_are_free_from_then),
        cmocka_unit_test(test_mixed_renewed_lease_lasts_from_then),
        cmocka_unit_test(test_mixed_unanswered_release_may_have_ended_it_from_its_submission),
        cmocka_unit_test(test_mixed_unanswered_release_that_was_not_done_did_not_end_it),
        cmocka_unit_test(test_mixed_lease_that_is_gone_early_or_there_late_is_wrong),
        cmocka_unit_test(test_mixed_commit_charges_its_amount_and_frees_the_rest),
        cmocka_unit_test(test_mixed_commit_beyond_the_limit_is_excess),
        cmocka_unit_test(test_mixed_commit_that_was_done_unheard_is_charged_once_it_is_found_gone),
        cmocka_unit_test(test_mixed_late_commit_is_right_only_after_the_end),
        cmocka_unit_test(test_mixed_reservation_that_is_gone_without_a_reason_is_wrong),
        cmocka_unit_test(test_mixed_more_remaining_than_there_is_is_caught),
        cmocka_unit_test(test_mixed_answers_must_be_exact_where_all_is_known),
        cmocka_unit_test(test_mixed_maybe_charged_is_no_admission),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
