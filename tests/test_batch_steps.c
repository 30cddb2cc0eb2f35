/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests over several keys, and others that only steps can decide: how they are made into calls, rule by rule; no
 * memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/nomem.h"
#include "support/stepping.h"

enum { ACQUIRE = HIRATE_OP_ACQUIRE, PEEK = HIRATE_OP_PEEK, RESET = HIRATE_OP_RESET, RELEASE = HIRATE_OP_RELEASE };
enum { NONE, X, Y, LONG }; /* names */

static void close_stepping(stepping *f)
{
    drain(f);
    stepping_free(f);
}

/* ---------------------------------------------------------------------------------------- what goes together -- */

static void test_several_keys_are_one_step(void **state)
{
    stepping *f = stepping_new(1, 8, 8);

    (void)state;
    asked *a = ASK(f, ACQUIRE, {A, X}, {C, Y}, {B, X});
    const hr_call *call = form(f);
    assert_int_equal(call->key_count, 0);
    assert_int_equal(call->step_key_count, 3);
    assert_int_equal(call->step_count, 1);
    assert_int_equal(call->ref_count, 3);
    assert_ptr_equal(call->steps[0].request, &a->request);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(call->refs[i].part, i);
    close_stepping(f);
}

static void test_shadows_come_last(void **state)
{
    stepping *f = stepping_new(1, 8, 8);
    static const uint32_t parts[] = {1, 3, 0, 2};

    (void)state;
    ASK(f, ACQUIRE, {A_SHADOW, X}, {B, X}, {C_SHADOW, X}, {Q, X});
    const hr_call *call = form(f);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(call->refs[i].part, parts[i]);
        assert_int_equal(call->refs[i].shadow, i >= 2);
    }
    close_stepping(f);
}

static void test_plain_ones_of_a_key_with_steps_are_steps(void **state)
{
    stepping *f = stepping_new(1, 8, 8);

    (void)state;
    ASK(f, ACQUIRE, {A, X});
    ASK(f, ACQUIRE, {A, X}, {B, X});
    ASK(f, PEEK, {A, X});
    ASK(f, ACQUIRE, {A, Y}); /* another key: an entry */
    const hr_call *call = form(f);
    assert_int_equal(call->step_count, 3);
    assert_int_equal(call->step_key_count, 2);
    assert_int_equal(call->key_count, 1);
    assert_int_equal(call->item_count, 1);
    close_stepping(f);
}

static void test_key_without_steps_is_an_entry(void **state)
{
    stepping *f = stepping_new(2, 8, 8);

    (void)state;
    asked *a = ASK(f, ACQUIRE, {A, X}, {B, X});
    ASK(f, ACQUIRE, {A, X});
    take_out(f, a);
    const hr_call *call = form(f);
    assert_int_equal(call->step_count, 0);
    assert_int_equal(call->key_count, 1);
    close_stepping(f);
}

static void test_limits_that_decide_alike_share_a_call(void **state)
{
    stepping *f = stepping_new(1, 8, 8);

    (void)state;
    ASK(f, ACQUIRE, {A, X}, {B, X});
    ASK(f, ACQUIRE, {A_SHADOW, X}, {B, X});
    ASK(f, ACQUIRE, {A_OPEN, X});
    ASK(f, ACQUIRE, {C, X});
    ASK(f, ACQUIRE, {C_SHADOW, X});
    const hr_call *call = form(f);
    assert_int_equal(call->step_count, 5);
    assert_int_equal(call->step_key_count, 3);
    close_stepping(f);
}

static void test_limits_that_decide_otherwise_take_turns(void **state)
{
    stepping *f = stepping_new(3, 8, 8);

    (void)state;
    ASK(f, ACQUIRE, {A, X}, {B, X});
    ASK(f, ACQUIRE, {A_OTHER, X}, {B, Y});
    ASK(f, ACQUIRE, {A, X}, {B, Y});
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(form(f)->step_count, 1);
    close_stepping(f);
}

static void test_reset_parts_steps(void **state)
{
    stepping *f = stepping_new(3, 8, 8);

    (void)state;
    ASK(f, ACQUIRE, {A, X}, {B, X});
    ASK(f, RESET, {A, X});
    ASK(f, ACQUIRE, {A, X}, {B, X});
    assert_int_equal(form(f)->step_count, 1);
    const hr_call *call = form(f);
    assert_int_equal(call->step_count, 0);
    assert_int_equal(call->items[0].op, RESET);
    assert_int_equal(form(f)->step_count, 1);
    close_stepping(f);
}

/* The second is the first of B's key, but not of A's. */
static void test_request_waits_until_it_is_first_everywhere(void **state)
{
    stepping *f = stepping_new(3, 8, 8);

    (void)state;
    ASK(f, RESET, {A, X});
    const asked *both = ASK(f, ACQUIRE, {B, X}, {A, X});
    const asked *behind = ASK(f, ACQUIRE, {B, X});
    const hr_call *call = form(f);
    assert_int_equal(hr_call_requests(call), 1);
    call = form(f);
    assert_int_equal(call->step_count, 2);
    assert_ptr_equal(call->steps[0].request, &both->request);
    assert_ptr_equal(call->steps[1].request, &behind->request);
    close_stepping(f);
}

static void test_permit_goes_with_what_its_key_waits_for(void **state)
{
    stepping *f = stepping_new(1, 8, 8);

    (void)state;
    const asked *release = ASK(f, RELEASE, {C, X});
    const asked *acquire = ASK(f, ACQUIRE, {C, X});
    const hr_call *call = form(f);
    assert_int_equal(call->step_key_count, 1);
    assert_ptr_equal(call->steps[0].request, &release->request);
    assert_ptr_equal(call->steps[1].request, &acquire->request);
    close_stepping(f);
}

/* ------------------------------------------------------------------------------------------------------ room -- */

static void test_request_is_in_a_call_whole_or_not_at_all(void **state)
{
    stepping *f = stepping_new(2, 3, 8);

    (void)state;
    ASK(f, ACQUIRE, {A, X}, {B, X});
    ASK(f, ACQUIRE, {A, Y}, {B, Y});
    assert_int_equal(form(f)->step_count, 1);
    assert_int_equal(form(f)->step_count, 1);
    close_stepping(f);
    f = stepping_new(2, 8, 3);
    ASK(f, ACQUIRE, {A, X}, {B, X});
    ASK(f, ACQUIRE, {A, X}, {B, X});
    assert_int_equal(form(f)->step_count, 1);
    assert_int_equal(form(f)->step_count, 1);
    close_stepping(f);
}

static void test_request_larger_than_a_call_goes_alone(void **state)
{
    stepping *f = stepping_new(3, 1, 1);
    pair pairs[HIRATE_PAIRS_MAX];

    (void)state;
    for (size_t i = 0; i < HIRATE_PAIRS_MAX; i++)
        pairs[i] = (pair){(const size_t[]){A, C, Q, L}[i / NAMES], i % NAMES};
    ASK(f, ACQUIRE, {B, X});
    ask(f, ACQUIRE, 1, pairs, HIRATE_PAIRS_MAX);
    ASK(f, ACQUIRE, {A, X});
    uint32_t refs = 0;
    for (size_t i = 0; i < 3; i++) {
        const hr_call *call = form(f);
        assert_int_equal(hr_call_requests(call), 1);
        refs += call->ref_count;
    }
    assert_true(refs >= HIRATE_PAIRS_MAX);
    close_stepping(f);
}

/* One key always has work for the front of a call, in which there is then no room left for the request. */
static void test_request_is_not_kept_out_by_a_busy_key(void **state)
{
    stepping *f = stepping_new(1, 2, 8);

    (void)state;
    ASK(f, ACQUIRE, {A, X});
    ASK(f, RESET, {A, X});
    const asked *both = ASK(f, ACQUIRE, {B, X}, {B, Y});
    for (int i = 0; both->request.state == HR_REQUEST_WAITING; i++) {
        assert_true(i < 3);
        ASK(f, ACQUIRE, {A, X});
        ASK(f, RESET, {A, X});
        finish(f, form(f));
    }
    close_stepping(f);
}

/* As above, with a key whose requests take up the room themselves. */
static void test_key_is_not_kept_out_by_steps_that_fill_calls(void **state)
{
    stepping *f = stepping_new(1, 8, 3);

    (void)state;
    ASK(f, ACQUIRE, {A, X}, {B, X});
    ASK(f, ACQUIRE, {A, X}, {B, X});
    const asked *other = ASK(f, ACQUIRE, {Q, X}, {L, X});
    for (int i = 0; other->request.state == HR_REQUEST_WAITING; i++) {
        assert_true(i < 3);
        ASK(f, ACQUIRE, {A, X}, {B, X});
        finish(f, form(f));
    }
    close_stepping(f);
}

/* Requests over 16 keys with the longest names, all at the front of one key. */
static void test_long_keys_of_steps_end_a_call(void **state)
{
    enum { COUNT = 17, LEN = HIRATE_NAME_MAX };
    stepping *f = stepping_new(3, 256, 1024);
    static char texts[HIRATE_PAIRS_MAX][LEN];
    hr_name names[HIRATE_PAIRS_MAX];
    size_t taken = 0;

    (void)state;
    for (size_t n = 0; n < COUNT; n++) {
        hr_request *request = &f->asked[n].request;
        request->op = HIRATE_OP_ACQUIRE;
        request->extra = hr_batch_extra_new(&f->batch, HIRATE_PAIRS_MAX);
        for (size_t i = 0; i < HIRATE_PAIRS_MAX; i++) {
            memset(texts[i], 'n', LEN);
            texts[i][0] = (char)i;
            texts[i][1] = (char)(i ? n : 0); /* the first is the same for all */
            names[i] = (hr_name){texts[i], LEN};
            assert_int_equal(hr_limits_use(&f->limits, &LIMIT[A], &request->extra->parts[i].ticket.limit, NULL), 0);
        }
        assert_int_equal(hr_batch_add(&f->batch, request, names), 0);
    }
    for (hr_call *call; (call = hr_batch_form(&f->batch, HR_SCRIPT_BY_SHA, f->keys)) != NULL; taken += call->step_count)
        assert_true(call->key_bytes < HR_CALL_BYTES_MOST + HIRATE_PAIRS_MAX * (LEN + 4));
    assert_int_equal(taken, COUNT);
    stepping_free(f);
}

/* ------------------------------------------------------------------------------------- answered and taken back -- */

static void test_canceled_while_waiting_lets_the_others_go(void **state)
{
    stepping *f = stepping_new(1, 8, 8);

    (void)state;
    asked *first = ASK(f, ACQUIRE, {A, X}, {B, X});
    ASK(f, ACQUIRE, {A, X});
    ASK(f, ACQUIRE, {B, X});
    take_out(f, first);
    check_counts(f);
    const hr_call *call = form(f);
    assert_int_equal(call->step_count, 0);
    assert_int_equal(call->key_count, 2);
    close_stepping(f);
}

static void test_canceled_while_called_keeps_its_part_of_the_call(void **state)
{
    stepping *f = stepping_new(1, 8, 8);
    hr_script_call before = {0};

    (void)state;
    asked *first = ASK(f, ACQUIRE, {C, X}, {A_SHADOW, X}, {B, X}), *second = ASK(f, RELEASE, {C, X});
    hr_call *call = form(f);
    assert_int_equal(hr_call_encode(call, &before), 0);
    take_out(f, first);
    take_out(f, second);
    check_counts(f);
    assert_int_equal(uses_of_limits(f), 4 + 3); /* the call's own: for each ref, for each key */
    assert_int_equal(hr_call_encode(call, &f->wire), 0);
    assert_int_equal(f->wire.command.len, before.command.len);
    assert_memory_equal(f->wire.command.data, before.command.data, before.command.len);
    hr_script_free(&before);
    take_back(f, call); /* nobody is left to wait again */
    assert_int_equal(f->batch.waiting, 0);
    close_stepping(f);
}

static void test_taken_back_goes_before_what_came_since(void **state)
{
    stepping *f = stepping_new(1, 8, 8);

    (void)state;
    const asked *first = ASK(f, ACQUIRE, {A, X}, {B, X});
    asked *gone = ASK(f, ACQUIRE, {A, X}, {Q, X});
    const asked *second = ASK(f, ACQUIRE, {B, X}, {Q, X});
    hr_call *call = form(f);
    const asked *since = ASK(f, ACQUIRE, {Q, X}, {A, X});
    take_out(f, gone);
    take_back(f, call);
    check_counts(f);
    call = form(f);
    assert_int_equal(call->step_count, 2);
    assert_ptr_equal(call->steps[0].request, &first->request);
    assert_ptr_equal(call->steps[1].request, &second->request);
    finish(f, call);
    assert_ptr_equal(form(f)->steps[0].request, &since->request);
    close_stepping(f);
}

/* What was submitted between two requests of one call may wait again before these do. */
static void test_taken_back_goes_around_what_was_submitted_in_between(void **state)
{
    stepping *f = stepping_new(2, 8, 2);

    (void)state;
    const asked *first = ASK(f, ACQUIRE, {A, X}), *second = NULL;
    ASK(f, ACQUIRE, {A, X});
    hr_call *one = form(f); /* the first two */
    second = ASK(f, ACQUIRE, {A, X});
    hr_call *two = form(f); /* the third */
    take_out(f, (asked *)one->items[1].request);
    take_back(f, one);
    const asked *last = ASK(f, ACQUIRE, {A, X});
    one = form(f); /* the first and the last */
    assert_int_equal(one->item_count, 2);
    take_back(f, two);
    take_back(f, one);
    one = form(f);
    assert_ptr_equal(one->items[0].request, &first->request);
    assert_ptr_equal(one->items[1].request, &second->request);
    assert_ptr_equal(form(f)->items[0].request, &last->request);
    close_stepping(f);
}

/* --------------------------------------------------------------------------------------------------- no memory -- */

static const pair SEVERAL[] = {{C, X}, {A, X}, {C_SHADOW, Y}, {Q, X}, {L, LONG}};

/* Without memory for a policy's counters, or for a larger table, it goes on all the same. */
static void test_submitting_with_each_allocation_failing_leaves_nothing(void **state)
{
    int refused = 0;

    (void)state;
    for (int n = 0, failed = true; failed; n++) {
        stepping *f = stepping_new(2, 8, 8);
        asked *a;
        nomem_after(n);
        int rc = try_ask(f, ACQUIRE, 1, SEVERAL, 5, &a);
        failed = nomem_end();
        assert_true(rc == 0 || (failed && rc == HIRATE_ENOMEM));
        refused += rc != 0;
        if (rc)
            assert_pool_unused(&f->batch.pool);
        check_counts(f);
        ask(f, ACQUIRE, 1, SEVERAL, 5); /* and now it works */
        check_counts(f);
        close_stepping(f);
    }
    assert_true(refused >= 2 * 3 + 2 + 5); /* room for steps in either call, extras and keys, the limits */
}

/* As above, with memory for the first `room` objects of the size of a key: some of the keys, then no more. */
static void test_submitting_with_memory_for_some_keys_leaves_nothing(void **state)
{
    enum { KEY_CLASS = 128, ROOM_MOST = 16 };
    size_t room = 0;

    (void)state;
    for (int rc = HIRATE_ENOMEM; rc; room++) {
        stepping *f = stepping_new(2, 8, 8);
        void *first[ROOM_MOST];
        asked *a;
        take_out(f, ask(f, ACQUIRE, 1, SEVERAL, 5)); /* the other sizes have memory */
        for (size_t i = 0; f->batch.pool.free[1]; i++) {
            void *object = hr_pool_get(&f->batch.pool, KEY_CLASS);
            if (i < ROOM_MOST)
                first[i] = object;
        }
        for (size_t i = 0; i < room; i++)
            hr_pool_put(&f->batch.pool, first[i], KEY_CLASS);
        nomem_after(0);
        rc = try_ask(f, ACQUIRE, 1, SEVERAL, 5, &a);
        assert_int_equal(nomem_end(), rc != 0);
        check_counts(f);
        assert_int_equal(f->batch.table.count, rc ? 0 : 5);
        assert_true(room < ROOM_MOST);
        if (!rc)
            take_out(f, a);
        stepping_free(f);
    }
    assert_true(room >= 5);
}

static void test_form_finish_and_take_back_need_no_memory(void **state)
{
    stepping *f = stepping_new(2, 8, 8);

    (void)state;
    for (size_t i = 0; i < 3; i++)
        ask(f, ACQUIRE, 1, SEVERAL, 5);
    nomem_after(0);
    take_back(f, form(f));
    finish(f, form(f));
    drain(f);
    assert_false(nomem_end());
    stepping_free(f);
}

static void test_encode_with_each_allocation_failing_is_no_memory(void **state)
{
    stepping *f = stepping_new(1, 8, 8);
    int failures = 0;

    (void)state;
    ask(f, ACQUIRE, 1, SEVERAL, 5);
    hr_call *call = form(f);
    for (bool failed = true; failed; failures += failed) {
        hr_script_call wire = {0};
        nomem_after(failures);
        int rc = hr_call_encode(call, &wire);
        failed = nomem_end();
        assert_int_equal(rc, failed ? HIRATE_ENOMEM : 0);
        assert_int_equal(hr_call_encode(call, &wire), 0);
        hr_script_free(&wire);
    }
    assert_true(failures >= 3);
    close_stepping(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_several_keys_are_one_step),
        cmocka_unit_test(test_shadows_come_last),
        cmocka_unit_test(test_plain_ones_of_a_key_with_steps_are_steps),
        cmocka_unit_test(test_key_without_steps_is_an_entry),
        cmocka_unit_test(test_limits_that_decide_alike_share_a_call),
        cmocka_unit_test(test_limits_that_decide_otherwise_take_turns),
        cmocka_unit_test(test_reset_parts_steps),
        cmocka_unit_test(test_request_waits_until_it_is_first_everywhere),
        cmocka_unit_test(test_permit_goes_with_what_its_key_waits_for),
        cmocka_unit_test(test_request_is_in_a_call_whole_or_not_at_all),
        cmocka_unit_test(test_request_larger_than_a_call_goes_alone),
        cmocka_unit_test(test_request_is_not_kept_out_by_a_busy_key),
        cmocka_unit_test(test_key_is_not_kept_out_by_steps_that_fill_calls),
        cmocka_unit_test(test_long_keys_of_steps_end_a_call),
        cmocka_unit_test(test_canceled_while_waiting_lets_the_others_go),
        cmocka_unit_test(test_canceled_while_called_keeps_its_part_of_the_call),
        cmocka_unit_test(test_taken_back_goes_before_what_came_since),
        cmocka_unit_test(test_taken_back_goes_around_what_was_submitted_in_between),
        cmocka_unit_test(test_submitting_with_each_allocation_failing_leaves_nothing),
        cmocka_unit_test(test_submitting_with_memory_for_some_keys_leaves_nothing),
        cmocka_unit_test(test_form_finish_and_take_back_need_no_memory),
        cmocka_unit_test(test_encode_with_each_allocation_failing_is_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
