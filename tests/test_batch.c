/* SPDX-License-Identifier: BSD-3-Clause */
/* What waits, by key, and the calls made of it: rule by rule; remembered denials; no memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/batching.h"
#include "support/nomem.h"

/* -------------------------------------------------------------------------------------------------- the rules -- */

static void test_nothing_waiting_forms_nothing(void **state)
{
    fixture *f = fixture_new(1, 8, 8);

    (void)state;
    assert_null(form(f));
    drain(f);
    fixture_free(f);
}

static void test_no_call_left_forms_nothing(void **state)
{
    fixture *f = fixture_new(1, 8, 8);

    (void)state;
    add(f, HIRATE_OP_ACQUIRE, 0, 1, 1);
    assert_non_null(form(f));
    add(f, HIRATE_OP_ACQUIRE, 0, 1, 1);
    assert_null(form(f));
    drain(f);
    fixture_free(f);
}

static void test_same_key_goes_together(void **state)
{
    fixture *f = fixture_new(1, 8, 8);

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        add(f, HIRATE_OP_ACQUIRE, 0, 1, 1);
        add(f, HIRATE_OP_PEEK, 0, 2, 1);
    }
    const hr_call *call = form(f);
    assert_int_equal(call->key_count, 2);
    assert_int_equal(call->item_count, 6);
    assert_int_equal(call->keys[0].count, 3);
    drain(f);
    fixture_free(f);
}

static void test_reset_stands_alone_between_its_neighbours(void **state)
{
    fixture *f = fixture_new(3, 8, 8);

    (void)state;
    add(f, HIRATE_OP_ACQUIRE, 0, 1, 1);
    add(f, HIRATE_OP_RESET, 0, 1, 0);
    add(f, HIRATE_OP_RESET, 0, 1, 0);
    add(f, HIRATE_OP_ACQUIRE, 0, 1, 2);
    static const uint8_t ops[] = {HIRATE_OP_ACQUIRE, HIRATE_OP_RESET, HIRATE_OP_RESET};
    for (size_t i = 0; i < 3; i++) {
        const hr_call *call = form(f);
        assert_int_equal(call->item_count, 1);
        assert_int_equal(call->items[0].op, ops[i]);
    }
    drain(f);
    fixture_free(f);
}

static void test_other_limit_of_the_same_key_waits_for_the_next_call(void **state)
{
    fixture *f = fixture_new(2, 8, 8);

    (void)state;
    const hr_request *one = add(f, HIRATE_OP_ACQUIRE, 0, 1, 1);
    const hr_request *two = add(f, HIRATE_OP_ACQUIRE, 1, 1, 1);
    const hr_call *first = form(f), *second = form(f);
    assert_int_equal(first->item_count, 1);
    assert_ptr_equal(first->items[0].request, one);
    assert_int_equal(second->item_count, 1);
    assert_ptr_equal(second->items[0].request, two);
    assert_ptr_equal(first->keys[0].key, second->keys[0].key);
    drain(f);
    fixture_free(f);
}

static void test_key_with_more_waits_behind_the_others(void **state)
{
    fixture *f = fixture_new(3, 1, 2);

    (void)state;
    for (size_t i = 0; i < 3; i++)
        add(f, HIRATE_OP_ACQUIRE, 0, 1, 1);
    const hr_request *other = add(f, HIRATE_OP_ACQUIRE, 0, 2, 1);
    assert_int_equal(form(f)->item_count, 2);
    assert_ptr_equal(form(f)->items[0].request, other);
    assert_int_equal(form(f)->item_count, 1);
    drain(f);
    fixture_free(f);
}

static void test_names_and_policies_do_not_run_into_each_other(void **state)
{
    fixture *f = fixture_new(1, 64, 64);

    (void)state;
    for (size_t name = 0; name < NAMES; name++) {
        add(f, HIRATE_OP_ACQUIRE, 0, name, 1);
        add(f, HIRATE_OP_ACQUIRE, 2, name, 1);
    }
    hr_call *call = form(f);
    assert_int_equal(call->key_count, KEYS);
    check_call(f, call);
    drain(f);
    fixture_free(f);
}

static void test_long_keys_end_a_call(void **state)
{
    enum { COUNT = 300, LEN = HIRATE_NAME_MAX };
    fixture *f = fixture_new(3, 256, 1024);
    char name[LEN];
    uint32_t taken = 0;

    (void)state;
    memset(name, 'n', sizeof name);
    for (size_t i = 0; i < COUNT; i++) {
        hr_request *request = &f->requests[i];
        memcpy(name, &i, sizeof i);
        request->op = HIRATE_OP_ACQUIRE;
        f->used[i] = true;
        assert_int_equal(hr_limits_use(&f->limits, &LIMITS[0], &request->ticket.limit, NULL), 0);
        assert_int_equal(hr_batch_add(&f->batch, request, &(hr_name){name, sizeof name}), 0);
    }
    for (hr_call *call; (call = form(f)) != NULL; taken += call->key_count)
        assert_true(call->key_bytes < HR_CALL_BYTES_MOST + LEN + 4);
    assert_int_equal(taken, COUNT);
    assert_int_equal(f->in_flight_count, 3);
    drain(f);
    fixture_free(f);
}

static void test_answered_while_called_keeps_its_part_of_the_call(void **state)
{
    fixture *f = fixture_new(1, 8, 8);
    hr_script_call before = {0};

    (void)state;
    hr_request *first = add(f, HIRATE_OP_ACQUIRE, 0, 1, 2);
    hr_request *second = add(f, HIRATE_OP_ACQUIRE, 0, 1, 3);
    hr_call *call = form(f);
    assert_int_equal(hr_call_encode(call, &before), 0);
    take_out(f, first);
    take_out(f, second);
    assert_null(call->items[0].request);
    assert_int_equal(most_use(f), 1); /* the call's own */
    assert_int_equal(hr_call_encode(call, &f->wire), 0);
    assert_int_equal(f->wire.command.len, before.command.len);
    assert_memory_equal(f->wire.command.data, before.command.data, before.command.len);
    hr_script_free(&before);
    take_back(f, call); /* nobody is left to wait again */
    assert_int_equal(f->batch.waiting, 0);
    drain(f);
    fixture_free(f);
}

static void test_taken_back_goes_before_what_came_since(void **state)
{
    fixture *f = fixture_new(1, 8, 8);

    (void)state;
    hr_request *first = add(f, HIRATE_OP_ACQUIRE, 0, 1, 1), *gone = add(f, HIRATE_OP_ACQUIRE, 0, 1, 2);
    hr_request *second = add(f, HIRATE_OP_ACQUIRE, 0, 1, 3);
    hr_call *call = form(f);
    const hr_request *since = add(f, HIRATE_OP_ACQUIRE, 0, 1, 4);
    take_out(f, gone);
    take_back(f, call);
    call = form(f);
    assert_int_equal(call->item_count, 3);
    assert_ptr_equal(call->items[0].request, first);
    assert_ptr_equal(call->items[1].request, second);
    assert_ptr_equal(call->items[2].request, since);
    drain(f);
    fixture_free(f);
}

static void assert_ops(fixture *f, const char *ops, size_t len)
{
    hr_call *call = form(f);

    assert_int_equal(hr_call_encode(call, &f->wire), 0);
    assert_true(call->number < 0x80);
    /* behind the call's number, kind 1, n = 1, p = 3000000, full = 18000000 and one key */
    assert_int_equal(f->wire.ops.len, 14 + len);
    assert_int_equal(f->wire.ops.data[0], call->number);
    assert_memory_equal(f->wire.ops.data + 1, "\x01\x01\xce\x00\x2d\xc6\xc0\xce\x01\x12\xa8\x80\x01", 13);
    assert_memory_equal(f->wire.ops.data + 14, ops, len);
    drain(f);
}

static void test_runs_of_equal_costs_are_written_once(void **state)
{
    static const char two_runs[] = "\x02\xce\x00\x2d\xc6\xc0\x03\xce\x00\x5b\x8d\x80\x01";
    fixture *f = fixture_new(1, 8, 16);

    (void)state;
    add(f, HIRATE_OP_PEEK, 0, 1, 2);
    add(f, HIRATE_OP_ACQUIRE, 0, 1, 1);
    add(f, HIRATE_OP_PEEK, 0, 1, 5);
    add(f, HIRATE_OP_ACQUIRE, 0, 1, 1);
    add(f, HIRATE_OP_ACQUIRE, 0, 1, 7); /* above the capacity */
    add(f, HIRATE_OP_ACQUIRE, 0, 1, HIRATE_COST_MAX);
    add(f, HIRATE_OP_ACQUIRE, 0, 1, 1);
    add(f, HIRATE_OP_ACQUIRE, 0, 1, 2);
    assert_ops(f, two_runs, sizeof two_runs - 1);
    add(f, HIRATE_OP_PEEK, 0, 1, 1);
    add(f, HIRATE_OP_PEEK, 0, 1, 0);
    assert_ops(f, "\x00", 1);
    add(f, HIRATE_OP_RESET, 0, 1, 1);
    assert_ops(f, "\xff", 1);
    fixture_free(f);
}

static void test_first_acquire_that_takes_nothing_is_written(void **state)
{
    static const char ahead[] = "\x02\x00\x01\xce\x00\x2d\xc6\xc0\x01";
    fixture *f = fixture_new(1, 8, 16);

    (void)state;
    add(f, HIRATE_OP_ACQUIRE, 0, 1, 7);
    add(f, HIRATE_OP_ACQUIRE, 0, 1, 0);
    add(f, HIRATE_OP_ACQUIRE, 0, 1, 1);
    add(f, HIRATE_OP_ACQUIRE, 0, 1, 0);
    assert_ops(f, ahead, sizeof ahead - 1);
    add(f, HIRATE_OP_ACQUIRE, 0, 1, 0);
    assert_ops(f, "\x01\x00\x01", 3);
    fixture_free(f);
}

static void test_each_call_has_a_number_of_its_own(void **state)
{
    fixture *f = fixture_new(3, 1, 1);
    uint32_t numbers[3];

    (void)state;
    f->batch.formed = UINT32_MAX - 1; /* it goes round, past the 0 of a key that was in no call */
    for (size_t i = 0; i < 3; i++) {
        add(f, HIRATE_OP_ACQUIRE, 0, i, 1);
        numbers[i] = form(f)->number;
    }
    assert_int_equal(numbers[0], UINT32_MAX);
    assert_int_equal(numbers[1], 1);
    assert_int_equal(numbers[2], 2);
    drain(f);
    fixture_free(f);
}

/* ------------------------------------------------------------------------------------------ remembered denials -- */

static const hr_denial *denial_of(const fixture *f, const hr_limit *limit, uint64_t cost)
{
    return hr_batch_denial(&f->batch, limit, "x", 1, cost);
}

/* As dispatch does when a reply denies `cost`. */
static void deny(fixture *f, const hr_call *call, uint64_t cost)
{
    hr_batch_note_denial(&f->batch, &call->keys[0], (hr_denial){.cost = cost, .remaining = 1, .until_us = 5});
}

static void test_denial_holds_for_its_limit_name_and_higher_costs(void **state)
{
    fixture *f = fixture_new(1, 8, 8);
    hr_request *request = add(f, HIRATE_OP_ACQUIRE, 0, 1, 3);
    const hr_limit *limit = request->ticket.limit;
    hr_call *call = form(f);

    (void)state;
    assert_null(denial_of(f, limit, 3));
    deny(f, call, 3);
    finish(f, call);
    assert_non_null(denial_of(f, limit, 3));
    assert_true(denial_of(f, limit, 4)->remaining == 1);
    assert_null(denial_of(f, limit, 2));
    assert_null(hr_batch_denial(&f->batch, limit, "y", 1, 3));
    request = add(f, HIRATE_OP_ACQUIRE, 1, 1, 3);
    assert_null(denial_of(f, request->ticket.limit, 3));
    take_out(f, request);
    fixture_free(f);
}

static void test_denial_is_hidden_by_a_reset_and_gone_after_it(void **state)
{
    fixture *f = fixture_new(1, 8, 8);
    const hr_limit *limit = add(f, HIRATE_OP_ACQUIRE, 0, 1, 3)->ticket.limit;
    hr_call *call = form(f);

    (void)state;
    deny(f, call, 3);
    finish(f, call);
    hr_request *reset = add(f, HIRATE_OP_RESET, 0, 1, 0);
    assert_null(denial_of(f, limit, 3)); /* while it waits */
    take_out(f, reset);
    assert_non_null(denial_of(f, limit, 3)); /* it was canceled */
    add(f, HIRATE_OP_RESET, 0, 1, 0);
    call = form(f);
    assert_null(denial_of(f, limit, 3)); /* while it is decided */
    take_back(f, call);
    assert_null(denial_of(f, limit, 3));
    finish(f, form(f));
    assert_null(denial_of(f, limit, 3));
    drain(f);
    fixture_free(f);
}

static void test_denial_decided_before_a_pending_reset_is_not_kept(void **state)
{
    fixture *f = fixture_new(2, 8, 8);
    const hr_limit *limit = add(f, HIRATE_OP_ACQUIRE, 0, 1, 3)->ticket.limit;
    hr_call *call = form(f);

    (void)state;
    hr_request *reset = add(f, HIRATE_OP_RESET, 0, 1, 0);
    hr_call *resetting = form(f);
    take_out(f, reset); /* canceled too late: it is in flight */
    deny(f, call, 3);
    finish(f, call);
    finish(f, resetting);
    assert_null(denial_of(f, limit, 3));
    drain(f);
    fixture_free(f);
}

/* -------------------------------------------------------------------------------------------------- no memory -- */

static void test_init_with_each_allocation_failing_frees_all(void **state)
{
    hr_limits limits;
    hr_batch batch;
    hirate_options options = options_of(3, 8, 8);
    int failures = 0;

    (void)state;
    assert_int_equal(hr_limits_init(&limits, "p"), 0);
    for (bool failed = true; failed; failures += failed) {
        nomem_after(failures);
        int rc = hr_batch_init(&batch, &limits, &options);
        failed = nomem_end();
        assert_int_equal(rc, failed ? HIRATE_ENOMEM : 0);
        hr_batch_free(&batch);
    }
    assert_int_equal(failures, 3 * 3 + 1);
    hr_limits_free(&limits);
}

static void test_add_without_memory_leaves_nothing(void **state)
{
    fixture *f = fixture_new(1, 8, 8);
    hr_request request = {.op = HIRATE_OP_ACQUIRE, .cost = 1};

    (void)state;
    assert_int_equal(hr_limits_use(&f->limits, &LIMITS[0], &request.ticket.limit, NULL), 0);
    nomem_after(0);
    assert_int_equal(hr_batch_add(&f->batch, &request, &(hr_name){"x", 1}), HIRATE_ENOMEM);
    assert_true(nomem_end());
    assert_int_equal(request.state, HR_REQUEST_FREE);
    assert_int_equal(request.ticket.limit->uses, 1);
    hr_limits_done(&f->limits, request.ticket.limit);
    check_counts(f);
    add(f, HIRATE_OP_ACQUIRE, 0, 1, 1);
    check_counts(f);
    drain(f);
    fixture_free(f);
}

static void test_form_finish_and_take_back_need_no_memory(void **state)
{
    fixture *f = fixture_new(2, 8, 8);

    (void)state;
    for (size_t name = 0; name < NAMES; name++)
        add(f, HIRATE_OP_ACQUIRE, 0, name, 1);
    nomem_after(0);
    take_back(f, form(f));
    finish(f, form(f));
    drain(f);
    assert_false(nomem_end());
    fixture_free(f);
}

static void test_encode_with_each_allocation_failing_is_no_memory(void **state)
{
    fixture *f = fixture_new(1, 8, 8);
    int failures = 0;

    (void)state;
    add(f, HIRATE_OP_ACQUIRE, 0, 1, 1);
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
    assert_int_equal(failures, 3);
    drain(f);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_waiting_forms_nothing),
        cmocka_unit_test(test_no_call_left_forms_nothing),
        cmocka_unit_test(test_same_key_goes_together),
        cmocka_unit_test(test_reset_stands_alone_between_its_neighbours),
        cmocka_unit_test(test_other_limit_of_the_same_key_waits_for_the_next_call),
        cmocka_unit_test(test_key_with_more_waits_behind_the_others),
        cmocka_unit_test(test_names_and_policies_do_not_run_into_each_other),
        cmocka_unit_test(test_long_keys_end_a_call),
        cmocka_unit_test(test_answered_while_called_keeps_its_part_of_the_call),
        cmocka_unit_test(test_taken_back_goes_before_what_came_since),
        cmocka_unit_test(test_runs_of_equal_costs_are_written_once),
        cmocka_unit_test(test_first_acquire_that_takes_nothing_is_written),
        cmocka_unit_test(test_each_call_has_a_number_of_its_own),
        cmocka_unit_test(test_denial_holds_for_its_limit_name_and_higher_costs),
        cmocka_unit_test(test_denial_is_hidden_by_a_reset_and_gone_after_it),
        cmocka_unit_test(test_denial_decided_before_a_pending_reset_is_not_kept),
        cmocka_unit_test(test_init_with_each_allocation_failing_frees_all),
        cmocka_unit_test(test_add_without_memory_leaves_nothing),
        cmocka_unit_test(test_form_finish_and_take_back_need_no_memory),
        cmocka_unit_test(test_encode_with_each_allocation_failing_is_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
