/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies that no script of ours makes, to a call with everything in it: refused as a whole, or at least answered
 * once each with something that can be told, and never read past their end (a sanitizer sees it).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "answers.h"
#include "permit.h"
#include "support/answering.h"
#include "support/random.h"

#include <math.h>

static const hirate_limit EACH[] = {
    HIRATE_TOKEN_BUCKET("token", 5, HIRATE_PER_SECOND(1)), HIRATE_LEAKY_BUCKET("leaky", 5, HIRATE_PER_SECOND(1)),
    HIRATE_FIXED_WINDOW("window", 5, HIRATE_MINUTES(1)),   HIRATE_QUOTA("quota", 5, HIRATE_PER_HOUR, 0),
    HIRATE_SLIDING_LOG("log", 5, HIRATE_SECONDS(10)),      HIRATE_SLIDING_WINDOW("sliding", 5, HIRATE_SECONDS(10)),
    HIRATE_CONCURRENCY("slots", 5, HIRATE_SECONDS(10)),
};
enum { TOKEN, LEAKY, WINDOW, QUOTA, LOG, SLIDING, SLOTS, KINDS };
static hirate_limit shadows[KINDS];

static void make_shadows(void)
{
    static const char *const names[KINDS] = {"token-s", "leaky-s",   "window-s", "quota-s",
                                             "log-s",   "sliding-s", "slots-s"};

    for (size_t i = 0; i < KINDS; i++) {
        shadows[i] = EACH[i];
        shadows[i].policy = names[i];
        shadows[i].flags = HIRATE_LIMIT_SHADOW;
    }
}

/* ------------------------------------------------------------------------------------ a call, and a right reply -- */

static void use_permits(answering *w)
{
    char text[HIRATE_PERMIT_SIZE];
    hr_permit permit = {.prefix = "p", .id = "some permit", .until_us = NOW + 1000, .name_len = 3, .name = "bob"};

    for (enum hirate_op op = HIRATE_OP_RELEASE; op <= HIRATE_OP_REFUND; op++) {
        permit.limit = EACH[op == HIRATE_OP_RELEASE || op == HIRATE_OP_RENEW ? SLOTS : QUOTA];
        hr_permit_write(text, &permit);
        ask_with(w, op, text, 3);
    }
}

/* Of every kind an entry and a step, resets, permits, shadows, peeks; what is reserved and what is held. */
static void ask_everything(answering *w)
{
    const hirate_limit *limits[2 * KINDS];
    hirate_request request;

    for (size_t i = 0; i < KINDS; i++) {
        limits[i] = &EACH[i];
        limits[KINDS + i] = &shadows[i];
        request = on(&EACH[i], 1);
        request.name = "entry";
        request.name_len = 5;
        if (i != SLOTS)
            submit(w, &request);
        request.cost = 4;
        request.op = HIRATE_OP_PEEK;
        if (i != SLOTS)
            submit(w, &request);
        request.name = "reset";
        request.op = HIRATE_OP_RESET;
        submit(w, &request);
    }
    ask_several(w, HIRATE_OP_ACQUIRE, limits, 2 * KINDS, 1, 0);
    ask_several(w, HIRATE_OP_ACQUIRE, limits, 2 * KINDS, 2, 1000000);
    ask_several(w, HIRATE_OP_PEEK, limits, 2 * KINDS, 3, 0);
    ask_several(w, HIRATE_OP_ACQUIRE, limits, 2 * KINDS, 4, 0);
    ask(w, HIRATE_OP_ACQUIRE, &EACH[SLOTS], 6);
    ask(w, HIRATE_OP_ACQUIRE, &EACH[TOKEN], 0);
    use_permits(w);
    form(w);
}

static void say_found(answering *w, const hr_policy *policy)
{
    switch (policy->kind) {
    case HIRATE_KIND_FIXED_WINDOW:
        SAY(w, 1, NOW + 7000);
        break;
    case HIRATE_KIND_QUOTA:
        SAY(w, 1, NOW + 60000000, 1, 1, NOW + 5000);
        break;
    case HIRATE_KIND_SLIDING_LOG:
        SAY(w, NOW, 0, 1, NOW - 1000);
        break;
    case HIRATE_KIND_SLIDING_WINDOW:
        SAY(w, NOW, 1, 1);
        break;
    case HIRATE_KIND_CONCURRENCY:
        SAY(w, 1, 1, NOW + 5000, NOW);
        break;
    default:
        SAY(w, BUCKET(4000000));
    }
}

static bool tells_waits(const hr_policy *policy)
{
    return policy->kind == HIRATE_KIND_QUOTA || policy->kind == HIRATE_KIND_SLIDING_LOG ||
           policy->kind == HIRATE_KIND_CONCURRENCY;
}

static void say_step(answering *w, const hr_step *step)
{
    const hr_step_ref *refs = &w->call->refs[step->first];

    if (step->op >= HIRATE_OP_RELEASE) {
        SAY(w, 1);
        say_found(w, &refs[0].limit->policy);
        return;
    }
    for (uint32_t i = 0; i < step->count; i++) {
        if (tells_waits(&refs[i].limit->policy))
            SAY(w, NOW + 2000);
    }
}

static void say_everything(answering *w)
{
    const hr_call *call = w->call;

    for (uint32_t i = 0; i < call->key_count; i++) {
        const hr_call_key *entry = &call->keys[i];
        if (call->items[entry->first].op == HIRATE_OP_RESET) {
            SAY(w, 1);
            continue;
        }
        say_found(w, &entry->limit->policy);
        for (uint32_t run = 0; tells_waits(&entry->limit->policy) && run < entry->runs; run++)
            SAY(w, 0);
    }
    for (uint32_t i = 0; i < call->step_key_count; i++)
        say_found(w, &call->step_keys[i].limit->policy);
    for (uint32_t i = 0; i < call->step_count; i++)
        say_step(w, &call->steps[i]);
    for (uint32_t i = 0; i < call->step_key_count; i++)
        SAY(w, 0);
}

/* ------------------------------------------------------------------------------------------- what may be told -- */

static void assert_permits(const hr_request *r)
{
    for (uint32_t i = 0; r->extra && i < r->extra->count; i++) {
        const hr_part *part = &r->extra->parts[i];
        hr_permit permit;
        if (!r->extra->decided || !part->took || !part->permit)
            continue;
        assert_int_equal(hr_permit_read(&permit, part->permit, NULL), 0);
        assert_memory_equal(permit.id, r->extra->id, sizeof permit.id);
    }
}

static void assert_tellable(const hr_request *r)
{
    const hr_answer *a = &r->answer;
    bool admission = r->op == HIRATE_OP_ACQUIRE || r->op == HIRATE_OP_PEEK;

    assert_true(a->error == 0 || a->error == HIRATE_ESTATE || a->error == HIRATE_EREDIS ||
                (a->error == HIRATE_ENOENT && r->op == HIRATE_OP_COMMIT));
    assert_int_equal(a->source, a->error ? HIRATE_SOURCE_NONE : HIRATE_SOURCE_REDIS);
    if (a->error || !admission)
        assert_true(a->error == 0 || a->verdict == HIRATE_VERDICT_NONE);
    else
        assert_true(a->verdict == HIRATE_ALLOWED || a->verdict == HIRATE_DENIED);
    assert_true(a->charge != HIRATE_CHARGE_YES || (a->verdict == HIRATE_ALLOWED && r->cost > 0));
    assert_true(a->charge != HIRATE_CHARGE_MAYBE || (a->error && r->extra && r->extra->count > 1));
    assert_true(a->remaining <= 5 || a->error);
    assert_true(a->retry_after_ms >= 0 && a->reset_ms >= 0 && a->delay_ms >= 0);
    assert_true(a->verdict != HIRATE_ALLOWED || a->retry_after_ms == 0);
    assert_permits(r);
}

/* Everything is answered, once. */
static void assert_answered(answering *w, size_t asked)
{
    hr_request r;

    while (next_answer(w, &r)) {
        assert_tellable(&r);
        let_go(w, &r);
        asked--;
    }
    assert_int_equal(asked, 0);
    assert_int_equal(w->dispatch.requests.pending, w->dispatch.own_pending);
}

/* Ask everything, change the right reply, hear it. */
static bool heard(void (*change)(double *numbers, size_t count, void *arg), void *arg)
{
    answering *w = answering_new();

    ask_everything(w);
    size_t asked = w->dispatch.requests.pending;
    say_everything(w);
    change(w->numbers, w->count, arg);
    bool ok = hear(w, w->numbers, w->count * sizeof(double), true);
    if (ok) {
        assert_answered(w, asked);
    } else {
        hr_request *request;
        for (uint32_t i = 0; i < hr_call_requests(w->call); i++) { /* not one was answered */
            assert_non_null(request = hr_call_request(w->call, i));
            assert_int_equal(request->state, HR_REQUEST_CALLED);
            hr_batch_remove(&w->dispatch.batch, request);
            hr_requests_answer(&w->dispatch.requests, request, &(hr_answer){.error = HIRATE_EPROTOCOL});
        }
        hr_batch_finish(&w->dispatch.batch, w->call);
    }
    answering_free(w);
    return ok;
}

/* ---------------------------------------------------------------------------------------------------- the tests -- */

static void change_nothing(double *numbers, size_t count, void *arg)
{
    (void)numbers;
    *(size_t *)arg = count;
}

static size_t numbers_of_everything(void)
{
    size_t count = 0;

    assert_true(heard(change_nothing, &count));
    assert_true(count > 100);
    return count;
}

static void test_right_reply_answers_everything(void **state)
{
    (void)state;
    numbers_of_everything();
}

static void test_reply_cut_anywhere_is_refused(void **state)
{
    answering *w = answering_new();

    (void)state;
    ask_everything(w);
    say_everything(w);
    for (size_t len = 0; len < w->count * sizeof(double); len++)
        assert_false(hear(w, w->numbers, len, false));
    end_reply(w);
    answering_free(w);
}

static void test_reply_with_more_behind_it_is_refused(void **state)
{
    static const double mores[] = {0, 1, -1, -2, (double)NOW};
    answering *w = answering_new();

    (void)state;
    ask_everything(w);
    say_everything(w);
    for (size_t i = 0; i < sizeof mores / sizeof *mores; i++) {
        w->numbers[w->count] = mores[i];
        for (size_t more = 1; more <= sizeof(double); more++)
            assert_false(hear(w, w->numbers, w->count * sizeof(double) + more, false));
    }
    end_reply(w);
    answering_free(w);
}

typedef struct one_number {
    size_t at;
    double value;
} one_number;

static void change_one(double *numbers, size_t count, void *arg)
{
    const one_number *one = arg;

    assert_true(one->at < count);
    numbers[one->at] = one->value;
}

static void test_number_that_is_no_count_is_refused_anywhere(void **state)
{
    static const double bad[] = {-3, -0.5, 0.5, 1e300, -1e300, 9007199254740994.0, INFINITY, -INFINITY, NAN};
    size_t count = numbers_of_everything();

    (void)state;
    for (one_number one = {.at = 0}; one.at < count; one.at++) {
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            one.value = bad[i];
            if (heard(change_one, &one))
                fail_msg("number %zu may be %g", one.at, one.value);
        }
    }
}

/* Others may be right or not; what is answered can be told. */
static void test_number_out_of_place_does_no_harm(void **state)
{
    static const double odd[] = {-2,
                                 -1,
                                 0,
                                 1,
                                 2,
                                 5,
                                 8192,
                                 8193,
                                 4294967295.0,
                                 4294967296.0,
                                 9007199254740991.0,
                                 9007199254740992.0,
                                 (double)NOW - 1,
                                 (double)NOW,
                                 (double)NOW + 1};
    size_t count = numbers_of_everything(), ok = 0;

    (void)state;
    for (one_number one = {.at = 0}; one.at < count; one.at++) {
        for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
            one.value = odd[i];
            ok += heard(change_one, &one);
        }
    }
    assert_true(ok > count);
}

static void change_some(double *numbers, size_t count, void *arg)
{
    static const double any[] = {-2, -1, 0, 0, 1, 2, 3, 5, 8192, 5000000, 9007199254740991.0, 9007199254740992.0};
    rng *r = arg;

    for (uint64_t times = 1 + rng_upto(r, 8); times > 0; times--) {
        size_t at = 2 + (size_t)rng_upto(r, count - 3);
        numbers[at] = rng_upto(r, 3) ? any[rng_upto(r, sizeof any / sizeof *any - 1)]
                                     : (double)(NOW - 20000000 + (int64_t)rng_upto(r, 100000000));
    }
}

static void test_some_numbers_at_random_do_no_harm(void **state)
{
    rng r = rng_start("test_some_numbers_at_random_do_no_harm");
    size_t ok = 0;

    (void)state;
    for (int i = 0; i < 3000; i++)
        ok += heard(change_some, &r);
    assert_true(ok > 0 && ok < 3000);
}

/* A key that is not right leaves out what its steps say, so most numbers stand elsewhere. */
static void test_numbers_left_out_or_put_in_do_no_harm(void **state)
{
    rng r = rng_start("test_numbers_left_out_or_put_in_do_no_harm");

    (void)state;
    for (int i = 0; i < 2000; i++) {
        answering *w = answering_new();
        ask_everything(w);
        size_t asked = w->dispatch.requests.pending, at;
        say_everything(w);
        for (uint64_t times = rng_upto(&r, 2); times > 0; times--) {
            at = 2 + (size_t)rng_upto(&r, w->count - 3);
            memmove(&w->numbers[at], &w->numbers[at + 1], (w->count-- - at - 1) * sizeof(double));
        }
        for (uint64_t times = rng_upto(&r, 2); times > 0; times--) {
            at = 2 + (size_t)rng_upto(&r, w->count - 3);
            memmove(&w->numbers[at + 1], &w->numbers[at], (w->count++ - at) * sizeof(double));
        }
        change_some(w->numbers, w->count, &r);
        if (hear(w, w->numbers, w->count * sizeof(double), true)) {
            assert_answered(w, asked);
        } else {
            hr_answer_call(&w->dispatch, w->call, (hr_answer){.error = HIRATE_EPROTOCOL, .text = ""});
            hr_batch_finish(&w->dispatch.batch, w->call);
        }
        answering_free(w);
    }
}

static int set_up(void **state)
{
    (void)state;
    make_shadows();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_reply_answers_everything),
        cmocka_unit_test(test_reply_cut_anywhere_is_refused),
        cmocka_unit_test(test_reply_with_more_behind_it_is_refused),
        cmocka_unit_test(test_number_that_is_no_count_is_refused_anywhere),
        cmocka_unit_test(test_number_out_of_place_does_no_harm),
        cmocka_unit_test(test_some_numbers_at_random_do_no_harm),
        cmocka_unit_test(test_numbers_left_out_or_put_in_do_no_harm),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
