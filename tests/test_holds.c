/* SPDX-License-Identifier: BSD-3-Clause */
/* When held units come back; and the local engine's list of them, against a plain sorted array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hold_list.h"
#include "support/random.h"

#include <string.h>

static hr_hold make(int64_t until_us, uint64_t units, uint64_t number)
{
    hr_hold hold = {.until_us = until_us, .units = units};

    memcpy(hold.id, &number, sizeof number);
    return hold;
}

static void add(hr_hold_list *list, hr_hold hold)
{
    assert_true(hr_hold_list_reserve(list));
    hr_hold_list_add(list, &hold);
}

/* --------------------------------------------------------------------------------------------- coming back -- */

static void test_holds_come_back_in_the_order_of_their_ends(void **state)
{
    const hr_hold holds[] = {make(10, 2, 1), make(20, 1, 2), make(20, 3, 3), make(30, 1, 4)};
    const hr_holds list = {holds, 4};
    static const struct {
        uint64_t units, count;
        int64_t us;
    } cases[] = {
        {0, 0, 10}, {1, 0, 10}, {2, 0, 10}, {3, 0, 20}, {6, 0, 20}, {7, 0, 30}, {0, 1, 10},
        {0, 2, 20}, {0, 3, 20}, {0, 4, 30}, {3, 1, 20}, {1, 2, 20}, {6, 4, 30}, {7, 1, 30},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(hr_holds_freed_us(&list, cases[i].units, cases[i].count), cases[i].us);
}

static void test_holds_too_short_a_list_tells_its_last_end(void **state)
{
    const hr_hold holds[] = {make(10, 2, 1), make(20, 1, 2)};
    const hr_holds two = {holds, 2}, one = {holds, 1};

    (void)state;
    assert_int_equal(hr_holds_freed_us(&two, 4, 0), 20);
    assert_int_equal(hr_holds_freed_us(&two, 0, 3), 20);
    assert_int_equal(hr_holds_freed_us(&one, HIRATE_COST_MAX, HIRATE_HOLDS_MAX), 10);
}

static void test_holds_largest_units_add_up(void **state)
{
    const hr_hold holds[] = {make(1, HIRATE_COST_MAX, 1), make(2, HIRATE_COST_MAX, 2), make(3, 1, 3)};
    const hr_holds list = {holds, 3};

    (void)state;
    assert_int_equal(hr_holds_freed_us(&list, HIRATE_COST_MAX, 0), 1);
    assert_int_equal(hr_holds_freed_us(&list, HIRATE_COST_MAX + 1, 0), 2);
    assert_int_equal(hr_holds_freed_us(&list, 2 * HIRATE_COST_MAX + 1, 0), 3);
}

/* ---------------------------------------------------------------------------------------------------- list -- */

static void test_list_keeps_those_of_one_time_in_their_order(void **state)
{
    hr_hold_list list = {.holds = NULL};
    static const uint64_t numbers[] = {4, 1, 2, 5, 3};
    static const int64_t untils[] = {30, 20, 20, 30, 20};

    (void)state;
    for (size_t i = 0; i < 5; i++)
        add(&list, make(untils[i], 1, numbers[i]));
    hr_holds view = hr_hold_list_view(&list);
    assert_int_equal(view.count, 5);
    for (uint64_t i = 0; i < 5; i++)
        assert_memory_equal(view.first[i].id, &(uint64_t){i + 1}, sizeof(uint64_t));
    hr_hold_list_free(&list);
    assert_int_equal(hr_hold_list_view(&list).count, 0);
}

static void test_list_is_full_at_its_bound(void **state)
{
    hr_hold_list list = {.holds = NULL};

    (void)state;
    /* Several times around: those in front end, and as many more come. */
    for (int64_t i = 0; i < 5 * HIRATE_HOLDS_MAX; i++) {
        if (list.count == HIRATE_HOLDS_MAX)
            hr_hold_list_keep(&list, HIRATE_HOLDS_MAX - 1, 0);
        add(&list, make(i, 1, (uint64_t)i));
        assert_true(list.room <= HR_HOLD_ROOM_MAX && list.first + list.count <= list.room);
    }
    assert_int_equal(list.count, HIRATE_HOLDS_MAX);
    assert_int_equal(list.room, HR_HOLD_ROOM_MAX);
    assert_true(hr_hold_list_view(&list).first->until_us == 4 * HIRATE_HOLDS_MAX);
    hr_hold_list_free(&list);
}

/* The same in the plainest way. */
typedef struct model {
    hr_hold holds[200];
    size_t count;
} model;

static void model_remove(model *m, size_t i)
{
    m->count--;
    memmove(m->holds + i, m->holds + i + 1, (m->count - i) * sizeof m->holds[0]);
}

static void model_add(model *m, hr_hold hold)
{
    size_t at = 0;

    while (at < m->count && m->holds[at].until_us <= hold.until_us)
        at++;
    memmove(m->holds + at + 1, m->holds + at, (m->count - at) * sizeof m->holds[0]);
    m->holds[at] = hold;
    m->count++;
}

static void assert_same(const hr_hold_list *list, const model *m)
{
    hr_holds view = hr_hold_list_view(list);
    uint64_t held = 0;

    assert_int_equal(view.count, m->count);
    for (size_t i = 0; i < m->count; i++) {
        assert_true(view.first[i].until_us == m->holds[i].until_us && view.first[i].units == m->holds[i].units);
        assert_memory_equal(view.first[i].id, m->holds[i].id, HR_HOLD_ID_SIZE);
        held += m->holds[i].units;
    }
    assert_true(list->held == held);
}

/* By its id, whether it ends at the time that is said or not. */
static const hr_hold *find(const hr_hold_list *list, const hr_hold *hold, int64_t until_us)
{
    const hr_hold *found = hr_hold_list_find(list, hold->id, until_us);

    if (found != NULL)
        assert_memory_equal(found->id, hold->id, HR_HOLD_ID_SIZE);
    return found;
}

static void test_list_random_changes_equal_naive_model(void **state)
{
    rng r = rng_start("test_list_random_changes_equal_naive_model");

    (void)state;
    for (int round = 0; round < 200; round++) {
        hr_hold_list list = {.holds = NULL};
        model m = {.count = 0};
        uint64_t number = 0, range = rng_magnitude(&r, 20);

        for (int step = 0; step < 500; step++) {
            uint64_t what = rng_upto(&r, 9);
            size_t i = m.count > 0 ? rng_upto(&r, m.count - 1) : 0;

            if (what < 6 && m.count < 200) {
                hr_hold hold = make((int64_t)rng_upto(&r, range) + step, rng_magnitude(&r, 53), ++number);
                assert_null(find(&list, &hold, hold.until_us));
                model_add(&m, hold);
                add(&list, hold);
            } else if (what == 8 && m.count > 0) {
                hr_hold moved = m.holds[i];
                const hr_hold *hold = find(&list, &moved, moved.until_us);
                moved.until_us = (int64_t)rng_upto(&r, range) + step;
                model_remove(&m, i);
                model_add(&m, moved);
                hr_hold_list_move(&list, hold, moved.until_us);
            } else if (what < 8 && m.count > 0) {
                int64_t said = rng_upto(&r, 1) ? m.holds[i].until_us : (int64_t)rng_upto(&r, range);
                const hr_hold *hold = find(&list, &m.holds[i], said);
                assert_non_null(hold);
                hr_hold_list_remove(&list, hold);
                model_remove(&m, i);
            } else if (what == 9) {
                int64_t shift_us = rng_upto(&r, 2) ? 0 : -(int64_t)rng_upto(&r, 100);
                hr_hold_list_keep(&list, m.count - i, shift_us);
                while (i-- > 0)
                    model_remove(&m, 0);
                for (size_t k = 0; k < m.count; k++)
                    m.holds[k].until_us += shift_us;
            }
            assert_same(&list, &m);
        }
        hr_hold_list_free(&list);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holds_come_back_in_the_order_of_their_ends),
        cmocka_unit_test(test_holds_too_short_a_list_tells_its_last_end),
        cmocka_unit_test(test_holds_largest_units_add_up),
        cmocka_unit_test(test_list_keeps_those_of_one_time_in_their_order),
        cmocka_unit_test(test_list_is_full_at_its_bound),
        cmocka_unit_test(test_list_random_changes_equal_naive_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
