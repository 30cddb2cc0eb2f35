/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies with steps, made into answers: what each request gets, case by case. Hostile ones: test_verdicts_hostile.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "permit.h"
#include "support/answering.h"

#define ID_SIZE HR_HOLD_ID_SIZE

static const hirate_limit TENANT = HIRATE_TOKEN_BUCKET("tenant", 5, HIRATE_PER_SECOND(1));
static const hirate_limit SERVICE = HIRATE_FIXED_WINDOW("service", 3, HIRATE_MINUTES(1));
static const hirate_limit TRIED =
    HIRATE_FIXED_WINDOW_WITH("tried", 2, HIRATE_MINUTES(1), HIRATE_LIMIT_SHADOW, HIRATE_FAIL_ERROR);
static const hirate_limit SLOTS = HIRATE_CONCURRENCY("slots", 3, HIRATE_SECONDS(10));
static const hirate_limit MONTH = HIRATE_QUOTA("month", 100, HIRATE_PER_HOUR, 0);
static const hirate_limit LOG = HIRATE_SLIDING_LOG("log", 3, HIRATE_SECONDS(10));
static const hirate_limit OPEN = HIRATE_TOKEN_BUCKET_WITH("tenant", 5, HIRATE_PER_SECOND(1), 0, HIRATE_FAIL_OPEN);

static const enum hirate_op ACQUIRE = HIRATE_OP_ACQUIRE, PEEK = HIRATE_OP_PEEK;
enum { TOKEN = 1000000 }; /* units, of TENANT */

/* ------------------------------------------------------------------------------------------------- assertions -- */

/* Of a whole: nothing of an error. */
static void assert_verdict(const hr_answer *a, enum hirate_verdict verdict, enum hirate_charge charge,
                           uint64_t remaining, int64_t retry_after_ms, int64_t reset_ms)
{
    assert_int_equal(a->error, 0);
    assert_int_equal(a->verdict, verdict);
    assert_int_equal(a->charge, charge);
    assert_int_equal(a->source, HIRATE_SOURCE_REDIS);
    assert_int_equal(a->remaining, remaining);
    assert_true(a->retry_after_ms == retry_after_ms);
    assert_true(a->reset_ms == reset_ms);
    assert_true(a->time_us == NOW);
}

static void expect(answering *w, enum hirate_verdict verdict, enum hirate_charge charge, uint64_t remaining,
                   int64_t retry_after_ms, int64_t reset_ms)
{
    hr_request r;

    assert_true(next_answer(w, &r));
    assert_verdict(&r.answer, verdict, charge, remaining, retry_after_ms, reset_ms);
    let_go(w, &r);
}

static void expect_error(answering *w, int error, enum hirate_charge charge)
{
    hr_request r;

    assert_true(next_answer(w, &r));
    assert_int_equal(r.answer.error, error);
    assert_int_equal(r.answer.verdict, HIRATE_VERDICT_NONE);
    assert_int_equal(r.answer.charge, charge);
    assert_int_equal(r.answer.source, HIRATE_SOURCE_NONE);
    assert_true(r.answer.text[0] != 0);
    assert_true(!r.extra || !r.extra->decided);
    let_go(w, &r);
}

static void assert_part(const hr_request *r, uint32_t i, enum hirate_verdict verdict, uint64_t remaining,
                        int64_t retry_after_ms, bool took)
{
    const hr_part *part = &r->extra->parts[i];

    assert_true(r->extra->decided);
    assert_int_equal(part->decision.verdict, verdict);
    assert_int_equal(part->decision.remaining, remaining);
    assert_true(part->decision.retry_after_ms == retry_after_ms);
    assert_int_equal(part->took, took);
}

/* The permit of one of its parts. */
static hr_permit permit_of(const hr_request *r, uint32_t i)
{
    hr_permit permit;
    hirate_error error;

    assert_non_null(r->extra->parts[i].permit);
    assert_true(strlen(r->extra->parts[i].permit) < r->extra->parts[i].permit_size);
    if (hr_permit_read(&permit, r->extra->parts[i].permit, &error))
        fail_msg("%s", error.text);
    assert_memory_equal(permit.id, r->extra->id, ID_SIZE);
    assert_string_equal(permit.prefix, "p");
    assert_int_equal(permit.name_len, 3);
    assert_memory_equal(permit.name, "ann", 3);
    return permit;
}

/* The text of a permit for SLOTS or MONTH. */
static const char *text_of(const hirate_limit *limit)
{
    static char texts[2][HIRATE_PERMIT_SIZE];
    char *text = texts[limit == &MONTH];
    hr_permit permit = {.limit = *limit, .prefix = "p", .id = "some permit", .until_us = NOW + 1000};

    permit.name_len = 3;
    memcpy(permit.name, "ann", 3);
    hr_permit_write(text, &permit);
    return text;
}

/* -------------------------------------------------------------------------------------------- several limits -- */

static void test_all_allow_and_each_takes(void **state)
{
    static const hirate_limit *const limits[] = {&TENANT, &SERVICE};
    answering *w = answering_new();
    hr_request r;

    (void)state;
    ask_several(w, ACQUIRE, limits, 2, 2, 0);
    ask_several(w, ACQUIRE, limits, 2, 1, 0); /* after the first */
    form(w);
    SAY(w, BUCKET(5 * TOKEN), 0, NOW + 7000);
    SAY(w, 0, 0);
    end_reply(w);
    assert_true(next_answer(w, &r));
    assert_verdict(&r.answer, HIRATE_ALLOWED, HIRATE_CHARGE_YES, 1, 0, 2000);
    assert_int_equal(r.extra->bound, 1);
    assert_part(&r, 0, HIRATE_ALLOWED, 3, 0, true);
    assert_part(&r, 1, HIRATE_ALLOWED, 1, 0, true);
    let_go(w, &r);
    expect(w, HIRATE_ALLOWED, HIRATE_CHARGE_YES, 0, 0, 3000);
    answering_free(w);
}

static void test_one_denies_and_none_takes(void **state)
{
    static const hirate_limit *const limits[] = {&TENANT, &SERVICE};
    answering *w = answering_new();
    hr_request r;

    (void)state;
    ask_several(w, ACQUIRE, limits, 2, 2, 0);
    ask(w, ACQUIRE, &TENANT, 4); /* nothing was taken there */
    form(w);
    SAY(w, BUCKET(4 * TOKEN), 2, NOW + 7000);
    SAY(w, 0, 0);
    end_reply(w);
    assert_true(next_answer(w, &r));
    assert_verdict(&r.answer, HIRATE_DENIED, HIRATE_CHARGE_NO, 1, 7, 1000);
    assert_int_equal(r.extra->bound, 1);
    assert_part(&r, 0, HIRATE_ALLOWED, 4, 0, false);
    assert_part(&r, 1, HIRATE_DENIED, 1, 7, false);
    let_go(w, &r);
    expect(w, HIRATE_ALLOWED, HIRATE_CHARGE_YES, 0, 0, 5000);
    answering_free(w);
}

static void test_cost_above_one_limit_is_never(void **state)
{
    static const hirate_limit *const limits[] = {&TENANT, &SERVICE};
    answering *w = answering_new();

    (void)state;
    ask_several(w, ACQUIRE, limits, 2, 4, 0);
    form(w);
    SAY(w, BUCKET(0), 0, NOW + 7000); /* four tokens need 4 s */
    SAY(w, 0, 0);
    end_reply(w);
    expect(w, HIRATE_DENIED, HIRATE_CHARGE_NO, 0, HIRATE_NEVER, 5000);
    answering_free(w);
}

static void test_peek_answers_and_takes_nothing(void **state)
{
    static const hirate_limit *const limits[] = {&TENANT, &SERVICE};
    answering *w = answering_new();

    (void)state;
    ask_several(w, PEEK, limits, 2, 3, 0);
    ask_several(w, ACQUIRE, limits, 2, 3, 0);
    form(w);
    SAY(w, BUCKET(5 * TOKEN), 0, NOW + 7000);
    SAY(w, 0, 0);
    end_reply(w);
    expect(w, HIRATE_ALLOWED, HIRATE_CHARGE_NO, 0, 0, 3000);
    expect(w, HIRATE_ALLOWED, HIRATE_CHARGE_YES, 0, 0, 3000);
    answering_free(w);
}

static void test_shadow_that_denies_is_told_and_takes_nothing(void **state)
{
    static const hirate_limit *const limits[] = {&TRIED, &TENANT};
    answering *w = answering_new();
    hr_request r;

    (void)state;
    ask_several(w, ACQUIRE, limits, 2, 1, 0);
    ask(w, ACQUIRE, &TRIED, 1);
    form(w);
    SAY(w, BUCKET(5 * TOKEN), 2, NOW + 7000); /* the real one's key first */
    SAY(w, 0, 0);
    end_reply(w);
    assert_true(next_answer(w, &r));
    assert_verdict(&r.answer, HIRATE_ALLOWED, HIRATE_CHARGE_YES, 4, 0, 1000);
    assert_int_equal(r.extra->shadows_denied, 1);
    assert_int_equal(r.extra->bound, 1);
    assert_part(&r, 0, HIRATE_DENIED, 0, 7, false);
    assert_part(&r, 1, HIRATE_ALLOWED, 4, 0, true);
    let_go(w, &r);
    assert_true(next_answer(w, &r)); /* alone it allows, and has taken nothing */
    assert_verdict(&r.answer, HIRATE_ALLOWED, HIRATE_CHARGE_NO, 0, 0, 7);
    assert_int_equal(r.extra->shadows_denied, 1);
    let_go(w, &r);
    answering_free(w);
}

/* Each tells its own wait, in the order of the script: real ones, then shadows. */
static void test_waits_are_told_for_each_of_the_keys(void **state)
{
    static const hirate_limit *const limits[] = {&SLOTS, &TENANT, &LOG, &MONTH};
    answering *w = answering_new();
    hr_request r;

    (void)state;
    ask_several(w, ACQUIRE, limits, 4, 2, 0);
    form(w);
    SAY(w, 3, 2, NOW + 9000000, NOW);    /* held, leases, latest, at */
    SAY(w, BUCKET(5 * TOKEN));           /* units, lag */
    SAY(w, NOW, 0, 3, NOW - 1000000);    /* at, at units, older, newest */
    SAY(w, 99, NOW + 60000000, 0, 0, 0); /* used, end, held, holds, latest */
    SAY(w, NOW + 4000000, NOW - 2000000, NOW + 60000000);
    SAY(w, 0, 0, 0, 0);
    end_reply(w);
    assert_true(next_answer(w, &r));
    assert_verdict(&r.answer, HIRATE_DENIED, HIRATE_CHARGE_NO, 0, 60000, 60000);
    assert_int_equal(r.extra->bound, 3);
    assert_part(&r, 0, HIRATE_DENIED, 0, 4000, false);
    assert_part(&r, 1, HIRATE_ALLOWED, 5, 0, false);
    assert_part(&r, 2, HIRATE_DENIED, 0, 8000, false);
    assert_part(&r, 3, HIRATE_DENIED, 1, 60000, false);
    let_go(w, &r);
    answering_free(w);
}

static void test_limits_that_decide_alike_share_what_was_found(void **state)
{
    static const hirate_limit *const strict[] = {&TENANT, &SERVICE}, *const lenient[] = {&OPEN, &SERVICE};
    answering *w = answering_new();

    (void)state;
    ask_several(w, ACQUIRE, strict, 2, 1, 0);
    ask_several(w, ACQUIRE, lenient, 2, 1, 0);
    form(w);
    assert_int_equal(w->call->step_key_count, 2);
    SAY(w, BUCKET(5 * TOKEN), 0, NOW + 7000);
    SAY(w, 0, 0);
    end_reply(w);
    expect(w, HIRATE_ALLOWED, HIRATE_CHARGE_YES, 2, 0, 1000);
    expect(w, HIRATE_ALLOWED, HIRATE_CHARGE_YES, 1, 0, 2000);
    answering_free(w);
}

/* A bucket that was left full is forgotten, and with it that the clock stepped back. */
static void test_full_bucket_is_found_anew_by_the_next_step(void **state)
{
    static const hirate_limit *const limits[] = {&TENANT, &SERVICE};
    answering *w = answering_new();

    (void)state;
    ask_several(w, PEEK, limits, 2, 5, 0);
    ask_several(w, ACQUIRE, limits, 2, 0, 0);
    ask(w, ACQUIRE, &TENANT, 1);
    form(w);
    SAY(w, BUCKET_LAG(5 * TOKEN, TOKEN), 0, NOW + 7000); /* a second behind */
    SAY(w, 0, 0);
    end_reply(w);
    expect(w, HIRATE_DENIED, HIRATE_CHARGE_NO, 3, HIRATE_NEVER, 0);
    expect(w, HIRATE_ALLOWED, HIRATE_CHARGE_NO, 3, 0, 0);
    expect(w, HIRATE_ALLOWED, HIRATE_CHARGE_YES, 4, 0, 1000);
    answering_free(w);
}

static void test_answered_otherwise_still_counts_for_the_others(void **state)
{
    static const hirate_limit *const limits[] = {&TENANT, &SERVICE};
    answering *w = answering_new();
    hr_request r;

    (void)state;
    ask_several(w, ACQUIRE, limits, 2, 2, 0);
    uint64_t id = w->ids[0];
    ask_several(w, ACQUIRE, limits, 2, 2, 0);
    form(w);
    assert_int_equal(hr_dispatch_cancel(&w->dispatch, id), 0);
    assert_true(next_answer(w, &r));
    assert_int_equal(r.answer.charge, HIRATE_CHARGE_MAYBE);
    let_go(w, &r);
    SAY(w, BUCKET(5 * TOKEN), 0, NOW + 7000);
    SAY(w, 0, 0);
    end_reply(w);
    expect(w, HIRATE_DENIED, HIRATE_CHARGE_NO, 1, 7, 2000);
    assert_false(next_answer(w, &r));
    answering_free(w);
}

/* ----------------------------------------------------------------------------------------------- holds, permits -- */

static void test_lease_has_a_permit(void **state)
{
    static const hirate_limit *const limits[] = {&TENANT, &SLOTS};
    answering *w = answering_new();
    hr_request r;

    (void)state;
    ask_several(w, ACQUIRE, limits, 2, 2, 0);
    form(w);
    SAY(w, BUCKET(5 * TOKEN), 1, 1, NOW + 500, NOW + 100); /* it is a step back: at is ahead */
    SAY(w, 0, 0, 0);
    end_reply(w);
    assert_true(next_answer(w, &r));
    assert_verdict(&r.answer, HIRATE_ALLOWED, HIRATE_CHARGE_YES, 0, 0, 10001);
    assert_null(r.extra->parts[0].permit);
    hr_permit permit = permit_of(&r, 1);
    assert_true(permit.until_us == NOW + 100 + 10000000);
    assert_int_equal(permit.limit.kind, HIRATE_KIND_CONCURRENCY);
    assert_true(permit.limit.capacity == 3 && permit.limit.lease_us == 10000000);
    assert_string_equal(permit.policy, "slots");
    let_go(w, &r);
    answering_free(w);
}

static void test_reservation_has_a_permit_and_no_charge_is_one(void **state)
{
    static const hirate_limit *const limits[] = {&MONTH, &SERVICE};
    answering *w = answering_new();
    hr_request r;

    (void)state;
    ask_several(w, ACQUIRE, limits, 2, 2, 5000000);
    ask_several(w, ACQUIRE, limits, 2, 1, 0); /* charges */
    form(w);
    SAY(w, 7, NOW + 60000000, 0, 0, 0, 0, NOW + 7000);
    SAY(w, 0, 0);
    SAY(w, 0, 0);
    end_reply(w);
    assert_true(next_answer(w, &r));
    assert_verdict(&r.answer, HIRATE_ALLOWED, HIRATE_CHARGE_YES, 1, 0, 60000);
    hr_permit permit = permit_of(&r, 0);
    assert_true(permit.until_us == NOW + 5000000);
    assert_string_equal(permit.policy, "month");
    assert_null(r.extra->parts[1].permit);
    let_go(w, &r);
    assert_true(next_answer(w, &r));
    assert_verdict(&r.answer, HIRATE_ALLOWED, HIRATE_CHARGE_YES, 0, 0, 60000);
    assert_null(r.extra->parts[0].permit);
    assert_int_equal(r.extra->parts[0].decision.remaining, 90);
    let_go(w, &r);
    answering_free(w);
}

static void test_reservation_ends_with_its_window(void **state)
{
    static const hirate_limit *const limits[] = {&MONTH};
    answering *w = answering_new();
    hr_request r;

    (void)state;
    ask_several(w, ACQUIRE, limits, 1, 2, HIRATE_DAYS(1));
    form(w);
    SAY(w, 0, NOW + 60000000, 0, 0, 0);
    SAY(w, 0);
    SAY(w, 0);
    end_reply(w);
    assert_true(next_answer(w, &r));
    assert_verdict(&r.answer, HIRATE_ALLOWED, HIRATE_CHARGE_YES, 98, 0, 60000);
    assert_true(permit_of(&r, 0).until_us == NOW + 60000000);
    let_go(w, &r);
    answering_free(w);
}

static void test_release_says_whether_it_was_held(void **state)
{
    answering *w = answering_new();
    hr_request r;

    (void)state;
    ask_with(w, HIRATE_OP_RELEASE, text_of(&SLOTS), 0);
    ask_with(w, HIRATE_OP_RELEASE, text_of(&SLOTS), 0);
    ask(w, ACQUIRE, &SLOTS, 3); /* of what the last one left */
    form(w);
    SAY(w, 2, 1, NOW + 5000, NOW);
    SAY(w, 1, 0, 0, 0, NOW); /* done: what is there then */
    SAY(w, 0, 0, 0, 0, NOW); /* gone */
    SAY(w, 0, 0);
    end_reply(w);
    for (int used = 1; used >= 0; used--) {
        assert_true(next_answer(w, &r));
        assert_verdict(&r.answer, HIRATE_VERDICT_NONE, HIRATE_CHARGE_NO, 3, 0, 0);
        assert_int_equal(r.answer.used, used);
        let_go(w, &r);
    }
    expect(w, HIRATE_ALLOWED, HIRATE_CHARGE_YES, 0, 0, 10000);
    answering_free(w);
}

static void test_renewal_is_allowed_or_never_will_be(void **state)
{
    answering *w = answering_new();

    (void)state;
    ask_with(w, HIRATE_OP_RENEW, text_of(&SLOTS), 0);
    ask_with(w, HIRATE_OP_RENEW, text_of(&SLOTS), 0);
    form(w);
    SAY(w, 2, 1, NOW + 5000, NOW);
    SAY(w, 1, 2, 1, NOW + 10000000, NOW);
    SAY(w, 0, 2, 1, NOW + 10000000, NOW);
    SAY(w, 0);
    end_reply(w);
    expect(w, HIRATE_ALLOWED, HIRATE_CHARGE_NO, 1, 0, 10000);
    expect(w, HIRATE_DENIED, HIRATE_CHARGE_NO, 1, HIRATE_NEVER, 10000);
    answering_free(w);
}

static void test_commit_charges_is_late_or_gone(void **state)
{
    answering *w = answering_new();
    hr_request r;

    (void)state;
    for (int i = 0; i < 3; i++)
        ask_with(w, HIRATE_OP_COMMIT, text_of(&MONTH), 30);
    ask_with(w, HIRATE_OP_COMMIT, text_of(&MONTH), 0);
    form(w);
    SAY(w, 0, NOW + 60000000, 5, 1, NOW + 5000);
    SAY(w, 1, 30, NOW + 60000000, 0, 0, 0);
    SAY(w, 2, 60, NOW + 60000000, 0, 0, 0);
    SAY(w, 0, 60, NOW + 60000000, 0, 0, 0);
    SAY(w, 1, 60, NOW + 60000000, 0, 0, 0);
    SAY(w, 0);
    end_reply(w);
    for (int late = 0; late < 2; late++) {
        assert_true(next_answer(w, &r));
        assert_verdict(&r.answer, HIRATE_ALLOWED, HIRATE_CHARGE_YES, late ? 40 : 70, 0, 60000);
        assert_int_equal(r.answer.late, late);
        let_go(w, &r);
    }
    expect_error(w, HIRATE_ENOENT, HIRATE_CHARGE_NO);
    expect(w, HIRATE_ALLOWED, HIRATE_CHARGE_NO, 40, 0, 60000);
    answering_free(w);
}

static void test_refund_says_whether_it_was_there(void **state)
{
    answering *w = answering_new();
    hr_request r;

    (void)state;
    ask_with(w, HIRATE_OP_REFUND, text_of(&MONTH), 0);
    ask_with(w, HIRATE_OP_REFUND, text_of(&MONTH), 0);
    form(w);
    SAY(w, 0, NOW + 60000000, 5, 1, NOW + 5000);
    SAY(w, 1, 0, NOW + 60000000, 0, 0, 0);
    SAY(w, 0, 0, NOW + 60000000, 0, 0, 0);
    SAY(w, 0);
    end_reply(w);
    for (int used = 1; used >= 0; used--) {
        assert_true(next_answer(w, &r));
        assert_verdict(&r.answer, HIRATE_VERDICT_NONE, HIRATE_CHARGE_NO, 100, 0, 0);
        assert_int_equal(r.answer.used, used);
        let_go(w, &r);
    }
    answering_free(w);
}

/* ------------------------------------------------------------------------------------- keys that are not right -- */

static void test_foreign_key_is_an_error_for_what_needs_it(void **state)
{
    static const hirate_limit *const bad[] = {&TENANT, &SERVICE}, *const good[] = {&TENANT, &LOG};

    (void)state;
    for (int what = -1; what >= -2; what--) {
        answering *w = answering_new();
        ask_several(w, ACQUIRE, bad, 2, 2, 0);
        ask_several(w, ACQUIRE, good, 2, 1, 0); /* of a bucket from which nothing was taken */
        ask_several(w, PEEK, bad, 2, 1, 0);
        form(w);
        SAY(w, BUCKET(5 * TOKEN), what, NOW, 0, 0, 0);
        SAY(w, 0); /* the second step's wait: the first and third have none */
        SAY(w, 0, 0, 0);
        end_reply(w);
        expect_error(w, what == -1 ? HIRATE_ESTATE : HIRATE_EREDIS, HIRATE_CHARGE_NO);
        expect(w, HIRATE_ALLOWED, HIRATE_CHARGE_YES, 2, 0, 10000);
        expect_error(w, what == -1 ? HIRATE_ESTATE : HIRATE_EREDIS, HIRATE_CHARGE_NO);
        answering_free(w);
    }
}

static void test_permit_on_a_foreign_key_is_an_error(void **state)
{
    answering *w = answering_new();

    (void)state;
    ask_with(w, HIRATE_OP_RELEASE, text_of(&SLOTS), 0);
    form(w);
    SAY(w, -1);
    SAY(w, 0);
    end_reply(w);
    expect_error(w, HIRATE_ESTATE, HIRATE_CHARGE_NO);
    answering_free(w);
}

/* One key alone: nothing was charged. With others, which were written: who knows. */
static void test_key_that_was_not_written_may_leave_a_charge_elsewhere(void **state)
{
    static const hirate_limit *const both[] = {&TENANT, &SERVICE};

    (void)state;
    for (int what = -1; what >= -2; what--) {
        answering *w = answering_new();
        ask_several(w, ACQUIRE, both, 2, 1, 0);
        ask_several(w, ACQUIRE, both, 2, 4, 0); /* denied: takes nothing */
        ask_several(w, PEEK, both, 2, 1, 0);    /* needs no writing */
        ask(w, ACQUIRE, &TENANT, 1);
        ask(w, ACQUIRE, &SERVICE, 1);
        form(w);
        SAY(w, BUCKET(5 * TOKEN), 0, NOW + 7000);
        SAY(w, 0, what);
        end_reply(w);
        int error = what == -1 ? HIRATE_ESTATE : HIRATE_EREDIS;
        expect_error(w, error, HIRATE_CHARGE_MAYBE);
        expect_error(w, error, HIRATE_CHARGE_NO);
        expect(w, HIRATE_ALLOWED, HIRATE_CHARGE_NO, 1, 0, 2000);
        expect(w, HIRATE_ALLOWED, HIRATE_CHARGE_YES, 3, 0, 2000);
        expect_error(w, error, HIRATE_CHARGE_NO);
        answering_free(w);
    }
}

static void test_permit_on_a_key_that_was_not_written_is_an_error(void **state)
{
    answering *w = answering_new();

    (void)state;
    ask_with(w, HIRATE_OP_COMMIT, text_of(&MONTH), 30);
    form(w);
    SAY(w, 0, NOW + 60000000, 5, 1, NOW + 5000);
    SAY(w, 1, 30, NOW + 60000000, 0, 0, 0);
    SAY(w, -2);
    end_reply(w);
    expect_error(w, HIRATE_EREDIS, HIRATE_CHARGE_NO);
    answering_free(w);
}

/* Written to the lease's key or not: with a charge of maybe it is given back. */
static void test_lease_that_is_not_told_is_given_back(void **state)
{
    static const hirate_limit *const both[] = {&SLOTS, &SERVICE};
    answering *w = answering_new();

    (void)state;
    ask_several(w, ACQUIRE, both, 2, 1, 0);
    form(w);
    SAY(w, 0, 0, 0, NOW, 0, NOW + 7000);
    SAY(w, 0);
    SAY(w, 0, -2);
    end_reply(w);
    expect_error(w, HIRATE_EREDIS, HIRATE_CHARGE_MAYBE);
    assert_int_equal(w->dispatch.own_pending, 1);
    w->call = hr_batch_form(&w->dispatch.batch, HR_SCRIPT_BY_SHA, w->dispatch.batch.key_most);
    assert_int_equal(w->call->step_count, 1);
    assert_int_equal(w->call->steps[0].op, HIRATE_OP_RELEASE);
    hr_batch_take_back(&w->dispatch.batch, w->call);
    answering_free(w);
}

static void test_other_calls_and_other_replies_are_refused(void **state)
{
    answering *w = answering_new();
    hr_script_reply parts;

    (void)state;
    ask(w, ACQUIRE, &SLOTS, 1);
    form(w);
    SAY(w, 0, 0, 0, NOW);
    SAY(w, 0);
    SAY(w, 0);
    hr_link_reply reply = {.is_string = false, .data = (const char *)w->numbers, .len = w->count * sizeof(double)};
    assert_false(hr_verdicts_check(w->call, &reply, &parts));
    w->numbers[1]++;
    assert_false(hear(w, w->numbers, w->count * sizeof(double), false));
    w->numbers[1]--;
    end_reply(w);
    expect(w, HIRATE_ALLOWED, HIRATE_CHARGE_YES, 2, 0, 10000);
    answering_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_allow_and_each_takes),
        cmocka_unit_test(test_one_denies_and_none_takes),
        cmocka_unit_test(test_cost_above_one_limit_is_never),
        cmocka_unit_test(test_peek_answers_and_takes_nothing),
        cmocka_unit_test(test_shadow_that_denies_is_told_and_takes_nothing),
        cmocka_unit_test(test_waits_are_told_for_each_of_the_keys),
        cmocka_unit_test(test_limits_that_decide_alike_share_what_was_found),
        cmocka_unit_test(test_full_bucket_is_found_anew_by_the_next_step),
        cmocka_unit_test(test_answered_otherwise_still_counts_for_the_others),
        cmocka_unit_test(test_lease_has_a_permit),
        cmocka_unit_test(test_reservation_has_a_permit_and_no_charge_is_one),
        cmocka_unit_test(test_reservation_ends_with_its_window),
        cmocka_unit_test(test_release_says_whether_it_was_held),
        cmocka_unit_test(test_renewal_is_allowed_or_never_will_be),
        cmocka_unit_test(test_commit_charges_is_late_or_gone),
        cmocka_unit_test(test_refund_says_whether_it_was_there),
        cmocka_unit_test(test_foreign_key_is_an_error_for_what_needs_it),
        cmocka_unit_test(test_permit_on_a_foreign_key_is_an_error),
        cmocka_unit_test(test_key_that_was_not_written_may_leave_a_charge_elsewhere),
        cmocka_unit_test(test_permit_on_a_key_that_was_not_written_is_an_error),
        cmocka_unit_test(test_lease_that_is_not_told_is_given_back),
        cmocka_unit_test(test_other_calls_and_other_replies_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
