/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs of a sliding log: peeks are runs of their own, and something is written if anything was acquired. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/batching.h"

enum { LOG = POLICIES, A = HIRATE_OP_ACQUIRE, P = HIRATE_OP_PEEK, ITEMS_MOST = 6 };

typedef struct item {
    int op; /* 0: none */
    uint64_t cost;
} item;

/* `ops`: what is sent of the key, behind the number of runs. `run_of`: for each item its run, from 1; 0: none yet. */
static void assert_runs(const item *items, uint32_t runs, const char *ops, size_t len, const uint32_t *run_of)
{
    static const char head[] = "\x05\x06\xce\x03\x93\x87\x00\x01"; /* kind, limit, window, one key */
    fixture *f = fixture_new(1, 8, 16);
    hr_run_walk walk = {0};

    for (size_t i = 0; i < ITEMS_MOST && items[i].op; i++)
        add(f, (enum hirate_op)items[i].op, LOG, 1, items[i].cost);
    hr_call *call = form(f);
    assert_int_equal(hr_call_encode(call, &f->wire), 0);
    assert_int_equal(call->keys[0].runs, runs);
    assert_int_equal(f->wire.ops.len, 1 + sizeof head - 1 + 1 + len);
    assert_memory_equal(f->wire.ops.data + 1, head, sizeof head - 1);
    assert_int_equal(f->wire.ops.data[sizeof head], runs);
    assert_memory_equal(f->wire.ops.data + 1 + sizeof head, ops, len);
    for (uint32_t i = 0; i < call->item_count; i++) {
        (void)hr_call_walk(&walk, &call->keys[0].limit->policy, &call->items[i]);
        assert_int_equal(walk.runs, run_of[i]);
    }
    drain(f);
    fixture_free(f);
}

static void test_log_peek_is_a_run_that_takes_nothing(void **state)
{
    (void)state;
    assert_runs((item[ITEMS_MOST]){{P, 2}}, 1, "\x02\x00", 2, (uint32_t[]){1});
    assert_runs((item[ITEMS_MOST]){{P, 2}, {P, 2}, {P, 3}}, 2, "\x02\x00\x03\x00", 4, (uint32_t[]){1, 1, 2});
}

static void test_log_peek_that_needs_no_asking_is_no_run(void **state)
{
    (void)state;
    assert_runs((item[ITEMS_MOST]){{P, 0}, {P, 7}, {P, HIRATE_COST_MAX}}, 0, "", 0, (uint32_t[]){0, 0, 0});
    assert_runs((item[ITEMS_MOST]){{P, 0}, {A, 1}, {P, 7}, {A, 1}}, 1, "\x01\x02", 2, (uint32_t[]){0, 1, 1, 1});
}

static void test_log_peek_between_acquires_parts_them(void **state)
{
    (void)state;
    assert_runs((item[ITEMS_MOST]){{A, 1}, {A, 1}, {P, 1}, {A, 1}, {A, 2}}, 4, "\x01\x02\x01\x00\x01\x01\x02\x01", 8,
                (uint32_t[]){1, 1, 2, 3, 4});
}

static void test_log_acquire_of_nothing_is_written_behind_peeks(void **state)
{
    (void)state;
    assert_runs((item[ITEMS_MOST]){{P, 3}, {A, 0}}, 2, "\x03\x00\x00\x01", 4, (uint32_t[]){1, 1});
    assert_runs((item[ITEMS_MOST]){{P, 3}, {A, 7}, {P, 4}}, 3, "\x03\x00\x04\x00\x00\x01", 6, (uint32_t[]){1, 1, 2});
}

static void test_log_acquire_of_nothing_is_written_once(void **state)
{
    (void)state;
    assert_runs((item[ITEMS_MOST]){{A, 0}}, 1, "\x00\x01", 2, (uint32_t[]){1});
    assert_runs((item[ITEMS_MOST]){{A, 7}, {P, 3}, {A, 0}}, 2, "\x00\x01\x03\x00", 4, (uint32_t[]){1, 2, 2});
    assert_runs((item[ITEMS_MOST]){{P, 3}, {A, 0}, {A, 2}}, 2, "\x03\x00\x02\x01", 4, (uint32_t[]){1, 1, 2});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_peek_is_a_run_that_takes_nothing),
        cmocka_unit_test(test_log_peek_that_needs_no_asking_is_no_run),
        cmocka_unit_test(test_log_peek_between_acquires_parts_them),
        cmocka_unit_test(test_log_acquire_of_nothing_is_written_behind_peeks),
        cmocka_unit_test(test_log_acquire_of_nothing_is_written_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
