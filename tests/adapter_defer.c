/* SPDX-License-Identifier: BSD-3-Clause */
/* What every adapter must do: deferred calls, and what handles do to each other within a turn. */
#include "adapter_suite.h"

#include <string.h>

#define ENDLESS 10000 /* calls after which a test gives up on the others */

static void set(struct adapter_probe *defer)
{
    assert_int_equal(defer->f->loop.defer_set(defer->handle), 0);
}

static void then_set_other(struct adapter_probe *probe)
{
    set(probe->other);
}

static void then_drain_and_set_other(struct adapter_probe *probe)
{
    adapter_drain(probe->fd);
    set(probe->other);
}

static void then_free(struct adapter_probe *probe)
{
    probe->f->loop.defer_free(probe->handle);
    probe->handle = NULL;
}

static void then_free_other(struct adapter_probe *probe)
{
    then_free(probe->other);
}

static void test_defer_set_outside_runs_before_blocking(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe defer = {.then = adapter_then_stop};

    adapter_defer(f, &defer);
    for (int i = 1; i <= 3; i++) {
        set(&defer);
        assert_int_equal(defer.calls, i - 1);
        adapter_run(f);
        assert_int_equal(defer.calls, i);
    }
    f->loop.defer_free(defer.handle);
}

static void test_defer_set_by_watch_runs_before_blocking(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe defer = {.then = adapter_then_stop};
    struct adapter_probe watch = {.then = then_drain_and_set_other, .other = &defer};
    int fds[2];

    adapter_pipe(fds);
    adapter_put(fds[1]);
    adapter_defer(f, &defer);
    adapter_watch(f, &watch, fds[0], HIRATE_READ);
    adapter_run(f);
    assert_int_equal(defer.calls, 1);
    assert_int_equal(watch.calls, 1);
    f->loop.defer_free(defer.handle);
    f->loop.watch_free(watch.handle);
    adapter_pipe_close(fds);
}

static void test_defer_set_by_timer_runs_before_blocking(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe defer = {.then = adapter_then_stop};
    struct adapter_probe timer = {.then = then_set_other, .other = &defer};

    adapter_defer(f, &defer);
    adapter_timer(f, &timer, 1000);
    adapter_run(f);
    assert_int_equal(defer.calls, 1);
    f->loop.defer_free(defer.handle);
    f->loop.timer_free(timer.handle);
}

static void test_defer_set_by_deferred_call_runs_before_blocking(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe third = {.then = adapter_then_stop};
    struct adapter_probe second = {.then = then_set_other, .other = &third};
    struct adapter_probe first = {.then = then_set_other, .other = &second};

    adapter_defer(f, &third);
    adapter_defer(f, &second);
    adapter_defer(f, &first);
    set(&first);
    adapter_run(f);
    assert_int_equal(first.order, 1);
    assert_int_equal(second.order, 2);
    assert_int_equal(third.order, 3);
    f->loop.defer_free(first.handle);
    f->loop.defer_free(second.handle);
    f->loop.defer_free(third.handle);
}

static void test_defer_set_twice_runs_once(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe defer = {0};

    adapter_defer(f, &defer);
    set(&defer);
    set(&defer);
    adapter_turns(f, 5);
    assert_int_equal(defer.calls, 1);
    f->loop.defer_free(defer.handle);
}

/* Three watches and a timer are due; whichever comes first defers. */
static void test_defer_runs_after_what_is_due(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe defer = {.then = adapter_then_stop};
    struct adapter_probe timer = {.then = then_set_other, .other = &defer};
    struct adapter_probe watches[3];
    int fds[3][2];

    adapter_defer(f, &defer);
    adapter_timer(f, &timer, 1000);
    memset(watches, 0, sizeof watches);
    for (int i = 0; i < 3; i++) {
        watches[i].then = then_drain_and_set_other;
        watches[i].other = &defer;
        adapter_pipe(fds[i]);
        adapter_put(fds[i][1]);
        adapter_watch(f, &watches[i], fds[i][0], HIRATE_READ);
    }
    adapter_sleep_us(20000);
    adapter_run(f);
    assert_int_equal(defer.calls, 1);
    assert_int_equal(defer.order, 5);
    f->loop.defer_free(defer.handle);
    f->loop.timer_free(timer.handle);
    for (int i = 0; i < 3; i++) {
        f->loop.watch_free(watches[i].handle);
        adapter_pipe_close(fds[i]);
    }
}

/* Calls that defer each other (or, with other = itself, themselves) without end. */
static void then_go_on(struct adapter_probe *probe)
{
    if (probe->calls >= ENDLESS)
        adapter_stop(probe->f);
    set(probe->other);
}

static void run_endless(struct adapter_fixture *f, struct adapter_probe *first)
{
    struct adapter_probe watch = {.then = adapter_then_stop};
    struct adapter_probe timer = {.then = adapter_then_stop};
    int fds[2];

    adapter_pipe(fds);
    adapter_put(fds[1]);
    set(first);
    adapter_watch(f, &watch, fds[0], HIRATE_READ);
    adapter_run(f);
    assert_true(watch.calls >= 1); /* a loop within another one makes several turns before it stops */
    f->loop.watch_free(watch.handle);
    adapter_pipe_close(fds);

    adapter_timer(f, &timer, 0);
    adapter_run(f);
    assert_int_equal(timer.calls, 1);
    f->loop.timer_free(timer.handle);
    assert_true(first->calls < ENDLESS);
}

static void test_defer_that_defers_itself_leaves_room(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe defer = {.then = then_go_on, .other = &defer};

    adapter_defer(f, &defer);
    run_endless(f, &defer);
    f->loop.defer_free(defer.handle);
}

static void test_defer_two_that_defer_each_other_leave_room(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe pair[2] = {{.then = then_go_on, .other = &pair[1]}, {.then = then_go_on, .other = &pair[0]}};

    adapter_defer(f, &pair[0]);
    adapter_defer(f, &pair[1]);
    run_endless(f, &pair[0]);
    f->loop.defer_free(pair[0].handle);
    f->loop.defer_free(pair[1].handle);
}

static void test_defer_freed_while_set_is_not_called(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe defer = {0};

    adapter_defer(f, &defer);
    set(&defer);
    f->loop.defer_free(defer.handle);
    adapter_turns(f, 5);
    assert_int_equal(defer.calls, 0);
}

static void test_defer_freed_in_its_call_is_gone(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe defer = {.then = then_free};

    adapter_defer(f, &defer);
    set(&defer);
    adapter_turns(f, 5);
    assert_int_equal(defer.calls, 1);
    assert_null(defer.handle);
}

static void then_set_itself_and_free(struct adapter_probe *probe)
{
    set(probe);
    then_free(probe);
}

static void test_defer_set_and_freed_in_its_call_is_gone(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe defer = {.then = then_set_itself_and_free};

    adapter_defer(f, &defer);
    set(&defer);
    adapter_turns(f, 5);
    assert_int_equal(defer.calls, 1);
}

static void test_defer_freed_by_sibling_is_not_called(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe pair[2] = {{.then = then_free_other, .other = &pair[1]},
                                    {.then = then_free_other, .other = &pair[0]}};

    adapter_defer(f, &pair[0]);
    adapter_defer(f, &pair[1]);
    set(&pair[0]);
    set(&pair[1]);
    adapter_turns(f, 5);
    assert_int_equal(pair[0].calls + pair[1].calls, 1);
    f->loop.defer_free(pair[0].handle);
    f->loop.defer_free(pair[1].handle);
}

/* A client that ends inside a callback frees all it has, whatever is due. */
static struct adapter_probe doomed_watch, doomed_timer, doomed_defer;

static void then_free_all(struct adapter_probe *probe)
{
    const hirate_loop *loop = &probe->f->loop;

    loop->watch_free(doomed_watch.handle);
    loop->timer_free(doomed_timer.handle);
    loop->defer_free(doomed_defer.handle);
}

static void free_all_from(struct adapter_fixture *f, struct adapter_probe *killer)
{
    int fds[2];

    memset(&doomed_watch, 0, sizeof doomed_watch);
    memset(&doomed_timer, 0, sizeof doomed_timer);
    memset(&doomed_defer, 0, sizeof doomed_defer);
    killer->then = then_free_all;
    adapter_pipe(fds);
    adapter_put(fds[1]);
    adapter_watch(f, &doomed_watch, fds[0], HIRATE_READ);
    adapter_timer(f, &doomed_timer, 1000);
    adapter_defer(f, &doomed_defer);
    adapter_sleep_us(20000);
    set(&doomed_defer);
    adapter_turns(f, 5);
    assert_int_equal(killer->calls, 1);
    assert_int_equal(killer->order, f->sequence); /* nothing was called after it */
    adapter_pipe_close(fds);
}

static void test_defer_freed_with_all_by_watch_is_not_called(void **state)
{
    free_all_from(*state, &doomed_watch);
}

static void test_defer_freed_with_all_by_timer_is_not_called(void **state)
{
    free_all_from(*state, &doomed_timer);
}

static void test_defer_that_frees_all_is_the_last_call(void **state)
{
    free_all_from(*state, &doomed_defer);
}

int adapter_run_defer_tests(const struct adapter_driver *driver)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_defer_##name, adapter_setup, adapter_teardown)
    const struct CMUnitTest deferred[] = {
        TEST(set_outside_runs_before_blocking),
        TEST(set_by_watch_runs_before_blocking),
        TEST(set_by_timer_runs_before_blocking),
        TEST(set_by_deferred_call_runs_before_blocking),
        TEST(set_twice_runs_once),
        TEST(runs_after_what_is_due),
        TEST(that_defers_itself_leaves_room),
        TEST(two_that_defer_each_other_leave_room),
        TEST(freed_while_set_is_not_called),
        TEST(freed_in_its_call_is_gone),
        TEST(set_and_freed_in_its_call_is_gone),
        TEST(freed_by_sibling_is_not_called),
        TEST(freed_with_all_by_watch_is_not_called),
        TEST(freed_with_all_by_timer_is_not_called),
        TEST(that_frees_all_is_the_last_call),
    };

    adapter_select(driver);
    return cmocka_run_group_tests(deferred, NULL, NULL);
}
