/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines against a naive model; leaders with followers, the moment added last, no memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "deadlines.h"
#include "hirate.h"
#include "support/nomem.h"
#include "support/random.h"

#include <stdbool.h>
#include <stdlib.h>

enum { NODES = 300 };

typedef struct model {
    hr_deadlines deadlines;
    hr_deadline nodes[NODES];
    bool in[NODES];
} model;

static model *model_new(void)
{
    model *m = calloc(1, sizeof *m);

    assert_non_null(m);
    return m;
}

static void model_free(model *m)
{
    hr_deadlines_free(&m->deadlines);
    free(m);
}

static void add(model *m, size_t i, int64_t at_ms)
{
    assert_int_equal(hr_deadlines_add(&m->deadlines, &m->nodes[i], at_ms), 0);
    m->in[i] = true;
}

static void take_out(model *m, size_t i)
{
    hr_deadlines_remove(&m->deadlines, &m->nodes[i]);
    m->in[i] = false;
}

/* The ring of one heap entry: its length. */
static size_t check_ring(const hr_deadline *leader)
{
    size_t len = 1;

    for (const hr_deadline *node = leader->next; node != leader; node = node->next, len++) {
        assert_true(node->at_ms == leader->at_ms);
        assert_true(node->heap_index == HR_DEADLINE_FOLLOWER);
        assert_ptr_equal(node->next->prev, node);
    }
    assert_ptr_equal(leader->next->prev, leader);
    return len;
}

static void check(const model *m)
{
    const hr_deadlines *d = &m->deadlines;
    size_t members = 0, expected = 0;
    int64_t least = INT64_MAX;

    for (uint32_t i = 0; i < d->count; i++) {
        assert_int_equal(d->heap[i]->heap_index, i);
        assert_true(i == 0 || d->heap[(i - 1) / 2]->at_ms <= d->heap[i]->at_ms);
        members += check_ring(d->heap[i]);
    }
    for (size_t i = 0; i < NODES; i++) {
        if (!m->in[i])
            continue;
        expected++;
        least = m->nodes[i].at_ms < least ? m->nodes[i].at_ms : least;
    }
    assert_int_equal(members, expected);
    assert_true(d->recent == NULL || d->heap[d->recent->heap_index] == d->recent);
    const hr_deadline *first = hr_deadlines_first(d);
    assert_int_equal(first == NULL, expected == 0);
    assert_true(first == NULL || (first->at_ms == least && m->in[first - m->nodes]));
}

static void test_first_of_none_is_null(void **state)
{
    hr_deadlines none = {0};

    (void)state;
    assert_null(hr_deadlines_first(&none));
    hr_deadlines_free(&none);
}

static void test_add_equal_moments_share_one_heap_entry(void **state)
{
    model *m = model_new();

    (void)state;
    for (size_t i = 0; i < NODES; i++)
        add(m, i, 1000);
    assert_int_equal(m->deadlines.count, 1);
    check(m);
    model_free(m);
}

static void test_remove_leader_leaves_its_followers(void **state)
{
    model *m = model_new();

    (void)state;
    add(m, 0, 20);
    add(m, 1, 10);
    add(m, 2, 10);
    add(m, 3, 10);
    for (size_t left = 3; left > 0; left--) {
        hr_deadline *first = hr_deadlines_first(&m->deadlines);

        assert_true(first->at_ms == 10);
        assert_int_equal(m->deadlines.count, 2);
        take_out(m, (size_t)(first - m->nodes));
        check(m);
    }
    assert_ptr_equal(hr_deadlines_first(&m->deadlines), &m->nodes[0]);
    model_free(m);
}

static void test_remove_recent_with_followers_passes_it_on(void **state)
{
    model *m = model_new();

    (void)state;
    add(m, 0, 10);
    add(m, 1, 10);
    take_out(m, 0);
    assert_ptr_equal(m->deadlines.recent, &m->nodes[1]);
    add(m, 2, 10);
    assert_int_equal(m->deadlines.count, 1);
    check(m);
    model_free(m);
}

static void test_remove_lone_recent_is_forgotten(void **state)
{
    model *m = model_new();

    (void)state;
    add(m, 0, 10);
    take_out(m, 0);
    assert_null(m->deadlines.recent);
    check(m);
    add(m, 0, 10); /* would join the ring of what has gone */
    assert_int_equal(m->deadlines.count, 1);
    check(m);
    model_free(m);
}

static void test_extreme_moments_are_in_order(void **state)
{
    model *m = model_new();

    (void)state;
    add(m, 0, INT64_MAX);
    add(m, 1, INT64_MIN);
    add(m, 2, 0);
    check(m);
    take_out(m, 1);
    assert_ptr_equal(hr_deadlines_first(&m->deadlines), &m->nodes[2]);
    take_out(m, 2);
    assert_ptr_equal(hr_deadlines_first(&m->deadlines), &m->nodes[0]);
    model_free(m);
}

static void test_drained_comes_in_order(void **state)
{
    rng r = rng_start("test_drained_comes_in_order");
    model *m = model_new();
    int64_t last = INT64_MIN;
    size_t drained = 0;

    (void)state;
    for (size_t i = 0; i < NODES; i++)
        add(m, i, (int64_t)rng_next(&r));
    for (hr_deadline *first; (first = hr_deadlines_first(&m->deadlines)) != NULL; drained++) {
        assert_true(first->at_ms >= last);
        last = first->at_ms;
        hr_deadlines_remove(&m->deadlines, first);
    }
    assert_int_equal(drained, NODES);
    model_free(m);
}

/* Which node to remove: any, the earliest, or the leader added to last. */
static size_t pick(const model *m, rng *r)
{
    uint64_t how = rng_upto(r, 3);

    if (how == 0 && m->deadlines.count)
        return (size_t)(hr_deadlines_first(&m->deadlines) - m->nodes);
    if (how == 1 && m->deadlines.recent)
        return (size_t)(m->deadlines.recent - m->nodes);
    return (size_t)rng_upto(r, NODES - 1);
}

static void test_random_matches_model(void **state)
{
    rng r = rng_start("test_random_matches_model");

    (void)state;
    for (int round = 0; round < 40; round++) {
        model *m = model_new();
        uint64_t moments = rng_magnitude(&r, 10), more = 1 + rng_upto(&r, 2);
        int64_t at_ms = 0;

        for (int step = 0; step < 1000; step++) {
            size_t i = rng_upto(&r, 3) <= more ? (size_t)rng_upto(&r, NODES - 1) : pick(m, &r);

            if (rng_upto(&r, 2) == 0)
                at_ms = (int64_t)rng_upto(&r, moments);
            if (m->in[i])
                take_out(m, i);
            else
                add(m, i, at_ms);
            check(m);
        }
        model_free(m);
    }
}

static void test_add_without_memory_changes_nothing(void **state)
{
    model *m = model_new();
    int failures = 0;

    (void)state;
    for (size_t i = 0; i < NODES; i++) {
        for (int n = 0;; n++, failures++) {
            nomem_after(n);
            int rc = hr_deadlines_add(&m->deadlines, &m->nodes[i], (int64_t)(NODES - i));
            if (!nomem_end()) {
                assert_int_equal(rc, 0);
                m->in[i] = true;
                break;
            }
            assert_int_equal(rc, HIRATE_ENOMEM);
            check(m);
        }
        check(m);
    }
    assert_true(failures >= 3); /* 64, 128, 256, 512 */
    model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_of_none_is_null),
        cmocka_unit_test(test_add_equal_moments_share_one_heap_entry),
        cmocka_unit_test(test_remove_leader_leaves_its_followers),
        cmocka_unit_test(test_remove_recent_with_followers_passes_it_on),
        cmocka_unit_test(test_remove_lone_recent_is_forgotten),
        cmocka_unit_test(test_extreme_moments_are_in_order),
        cmocka_unit_test(test_drained_comes_in_order),
        cmocka_unit_test(test_random_matches_model),
        cmocka_unit_test(test_add_without_memory_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
