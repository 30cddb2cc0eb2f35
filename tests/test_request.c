/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests: ids that never repeat, the queue of answers, shared reasons, no memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "request.h"
#include "support/nomem.h"
#include "support/random.h"

#include <stdlib.h>
#include <string.h>

static hr_requests *requests_new(uint32_t most)
{
    hr_requests *requests = malloc(sizeof *requests);

    assert_non_null(requests);
    assert_int_equal(hr_requests_init(requests, most), 0);
    return requests;
}

static void requests_free(hr_requests *requests)
{
    hr_requests_free(requests);
    free(requests);
}

/* As a submit does. */
static hr_request *get_waiting(hr_requests *requests, int64_t at_ms)
{
    hr_request *request = hr_requests_get(requests);

    assert_non_null(request);
    assert_int_equal(hr_deadlines_add(&requests->deadlines, &request->deadline, at_ms), 0);
    request->state = HR_REQUEST_WAITING;
    return request;
}

static void test_ids_are_found_while_pending_and_never_again(void **state)
{
    enum { MOST = 300, USES = 5 };
    hr_requests *requests = requests_new(MOST);
    static uint64_t ids[MOST * USES];
    size_t count = 0;

    (void)state;
    for (int use = 0; use < USES; use++) {
        hr_request *live[MOST];

        for (size_t i = 0; i < MOST; i++) {
            live[i] = get_waiting(requests, 1);
            assert_true(live[i]->id != 0);
            assert_null(live[i]->ticket.key);
            ids[count++] = live[i]->id;
            assert_ptr_equal(hr_requests_find(requests, live[i]->id), live[i]);
        }
        assert_int_equal(requests->pending, MOST);
        for (size_t i = 0; i < MOST; i++) {
            hr_deadlines_remove(&requests->deadlines, &live[i]->deadline);
            hr_requests_put(requests, live[i]);
            live[i]->ticket.key = NULL;
        }
        for (size_t i = 0; i < count; i++)
            assert_null(hr_requests_find(requests, ids[i]));
    }
    assert_int_equal(requests->pending, 0);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++)
            assert_true(ids[i] != ids[j]);
    }
    requests_free(requests);
}

static void test_ids_that_never_were_are_not_found(void **state)
{
    hr_requests *requests = requests_new(10);

    (void)state;
    assert_null(hr_requests_find(requests, 0));
    hr_request *request = get_waiting(requests, 1);
    assert_null(hr_requests_find(requests, 0));
    assert_null(hr_requests_find(requests, request->id + 1));
    assert_null(hr_requests_find(requests, request->id + HR_REQUESTS_MOST));
    assert_null(hr_requests_find(requests, request->id - HR_REQUESTS_MOST));
    assert_null(hr_requests_find(requests, HR_REQUESTS_MOST - 1));
    assert_null(hr_requests_find(requests, UINT64_MAX));
    requests_free(requests);
}

static void test_slot_whose_ids_are_used_up_is_not_used_again(void **state)
{
    hr_requests *requests = requests_new(256);
    hr_request *request = hr_requests_get(requests);
    uint64_t slot = request->id % HR_REQUESTS_MOST, top = UINT64_MAX / HR_REQUESTS_MOST * HR_REQUESTS_MOST;

    (void)state;
    request->id = top - HR_REQUESTS_MOST + slot; /* the last but one */
    hr_requests_put(requests, request);
    assert_ptr_equal(hr_requests_get(requests), request);
    assert_true(request->id == top + slot);
    request->state = HR_REQUEST_WAITING;
    assert_ptr_equal(hr_requests_find(requests, top + slot), request);
    hr_requests_put(requests, request);
    assert_null(hr_requests_find(requests, top + slot));
    for (int i = 0; i < 255; i++)
        assert_ptr_not_equal(hr_requests_get(requests), request);
    assert_null(hr_requests_get(requests));
    assert_int_equal(requests->pending, 255);
    requests_free(requests);
}

static void test_most_slots_have_distinct_ids(void **state)
{
    hr_requests *requests = requests_new(HR_REQUESTS_MOST);
    hr_request *request = NULL;

    (void)state;
    /* Only the last chunk, as all of them need a gigabyte. */
    requests->slots = HR_REQUESTS_MOST - 256;
    for (int i = 0; i < 256; i++) {
        request = hr_requests_get(requests);
        assert_non_null(request);
        assert_true(request->id == UINT64_C(2) * HR_REQUESTS_MOST - 256 + (uint64_t)i);
        request->state = HR_REQUEST_WAITING;
        assert_ptr_equal(hr_requests_find(requests, request->id), request);
    }
    assert_null(hr_requests_get(requests));
    requests_free(requests);
}

static void test_answers_come_in_order_without_deadline(void **state)
{
    enum { COUNT = 600 };
    rng r = rng_start("test_answers_come_in_order_without_deadline");
    hr_requests *requests = requests_new(COUNT);
    hr_request *waiting[COUNT], *order[COUNT];
    size_t answered = 0, delivered = 0, left = COUNT;

    (void)state;
    assert_null(hr_requests_next_done(requests));
    for (size_t i = 0; i < COUNT; i++)
        waiting[i] = get_waiting(requests, (int64_t)rng_upto(&r, 5));
    while (delivered < COUNT) {
        if (left && rng_upto(&r, 1)) {
            size_t i = (size_t)rng_upto(&r, left - 1);
            hr_answer answer = {.remaining = answered};
            order[answered++] = waiting[i];
            hr_requests_answer(requests, waiting[i], &answer);
            assert_int_equal(waiting[i]->state, HR_REQUEST_DONE);
            assert_ptr_equal(hr_requests_find(requests, waiting[i]->id), waiting[i]);
            waiting[i] = waiting[--left];
        } else {
            hr_request *request = hr_requests_next_done(requests);
            if (delivered == answered) {
                assert_null(request);
                continue;
            }
            assert_ptr_equal(request, order[delivered]);
            assert_true(request->answer.remaining == delivered);
            hr_requests_put(requests, request);
            delivered++;
        }
        assert_int_equal(requests->done, answered - delivered);
        assert_int_equal(requests->pending, COUNT - delivered);
        hr_deadline *first = hr_deadlines_first(&requests->deadlines);
        assert_int_equal(first == NULL, left == 0);
        assert_true(first == NULL || ((hr_request *)first)->state == HR_REQUEST_WAITING);
    }
    requests_free(requests);
}

static void test_tickets_are_its_own_or_those_of_its_parts(void **state)
{
    hr_request request = {.id = 0};
    hr_extra *extra = calloc(1, sizeof *extra + 3 * sizeof *extra->parts);

    (void)state;
    assert_int_equal(hr_request_tickets(&request), 1);
    assert_ptr_equal(hr_request_ticket(&request, 0), &request.ticket);
    extra->count = 3;
    request.extra = extra;
    assert_int_equal(hr_request_tickets(&request), 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_ptr_equal(hr_request_ticket(&request, i), &extra->parts[i].ticket);
    free(extra);
}

static void test_reason_is_shared_and_freed_with_its_last_user(void **state)
{
    hr_requests *requests = requests_new(3);
    hr_reason *reason = hr_reason_new("LOADING", 7);
    hr_answer answer = {.error = HIRATE_EREDIS, .reason = reason};

    (void)state;
    for (int64_t i = 0; i < 3; i++)
        hr_requests_answer(requests, get_waiting(requests, i), &answer);
    assert_int_equal(reason->references, 4);
    hr_reason_drop(reason);
    for (uint32_t left = 3; left > 0; left--) {
        hr_request *request = hr_requests_next_done(requests);
        assert_int_equal(request->answer.reason->references, left);
        assert_string_equal(request->answer.reason->text, "LOADING");
        hr_reason_drop(request->answer.reason); /* a leak or a double free would be seen under valgrind */
        hr_requests_put(requests, request);
    }
    hr_reason_drop(NULL);
    requests_free(requests);
}

static void test_reason_is_cut_and_without_control_bytes(void **state)
{
    char text[300];

    (void)state;
    hr_reason *reason = hr_reason_new("a\r\n\t\x1b[31m\x7f\0b", 12);
    assert_memory_equal(reason->text, "a????[31m??b", 13);
    hr_reason_drop(reason);
    reason = hr_reason_new("", 0);
    assert_string_equal(reason->text, "");
    hr_reason_drop(reason);
    memset(text, 'x', sizeof text);
    for (size_t len = 199; len <= sizeof text; len += len < 202 ? 1 : 98) {
        reason = hr_reason_new(text, len);
        assert_int_equal(strlen(reason->text), len < 200 ? len : 200);
        hr_reason_drop(reason);
    }
}

static void test_each_allocation_failing_is_no_memory_and_later_works(void **state)
{
    hr_requests requests;

    (void)state;
    nomem_after(0);
    assert_int_equal(hr_requests_init(&requests, 1000), HIRATE_ENOMEM);
    assert_true(nomem_end());
    hr_requests_free(&requests);
    assert_int_equal(hr_requests_init(&requests, 1000), 0);
    nomem_after(0);
    assert_null(hr_requests_get(&requests));
    assert_true(nomem_end());
    assert_int_equal(requests.pending, 0);
    assert_int_equal(requests.slots, 0);
    for (int i = 0; i < 256; i++)
        assert_non_null(hr_requests_get(&requests));
    nomem_after(0);
    assert_null(hr_requests_get(&requests));
    assert_true(nomem_end());
    assert_int_equal(requests.pending, 256);
    assert_non_null(hr_requests_get(&requests));
    assert_int_equal(requests.pending, 257);
    nomem_after(0);
    assert_null(hr_reason_new("x", 1));
    assert_true(nomem_end());
    hr_requests_free(&requests);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_are_found_while_pending_and_never_again),
        cmocka_unit_test(test_ids_that_never_were_are_not_found),
        cmocka_unit_test(test_slot_whose_ids_are_used_up_is_not_used_again),
        cmocka_unit_test(test_most_slots_have_distinct_ids),
        cmocka_unit_test(test_answers_come_in_order_without_deadline),
        cmocka_unit_test(test_tickets_are_its_own_or_those_of_its_parts),
        cmocka_unit_test(test_reason_is_shared_and_freed_with_its_last_user),
        cmocka_unit_test(test_reason_is_cut_and_without_control_bytes),
        cmocka_unit_test(test_each_allocation_failing_is_no_memory_and_later_works),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
