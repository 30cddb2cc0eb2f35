/* SPDX-License-Identifier: BSD-3-Clause */
/* adapters/libev.h: what every adapter must do, and what is libev's own. */
#include "adapter_suite.h"

#include <stdlib.h>
#include <string.h>
#define calloc(count, size) adapter_calloc((count), (size))
#include <hirate/adapters/libev.h>
#undef calloc

static int attach(void *ev, hirate_loop *loop)
{
    return hirate_libev(loop, ev);
}

static void *open_loop(void)
{
    return ev_loop_new(EVFLAG_AUTO);
}

static void *open_poll_loop(void)
{
    return ev_loop_new(EVBACKEND_POLL | EVFLAG_NOENV);
}

static void run(void *ev)
{
    ev_run(ev, 0);
}

static void stop(void *ev)
{
    ev_break(ev, EVBREAK_ONE);
}

static void turn(void *ev)
{
    ev_run(ev, EVRUN_NOWAIT);
}

static void close_loop(void *ev)
{
    ev_loop_destroy(ev);
}

static const struct adapter_driver automatic = {open_loop, attach, run, stop, turn, close_loop};
static const struct adapter_driver on_poll = {open_poll_loop, attach, run, stop, turn, close_loop};

static void test_libev_null_arguments_are_refused(void **state)
{
    struct ev_loop *ev = ev_loop_new(EVFLAG_AUTO);
    hirate_loop loop;
    hirate_loop before;

    (void)state;
    memset(&loop, 7, sizeof loop);
    before = loop;
    assert_non_null(ev);
    assert_int_equal(hirate_libev(NULL, ev), HIRATE_EINVAL);
    assert_int_equal(hirate_libev(&loop, NULL), HIRATE_EINVAL);
    assert_memory_equal(&loop, &before, sizeof loop);
    ev_loop_destroy(ev);
}

static void test_libev_default_loop_is_taken(void **state)
{
    struct adapter_fixture f = {0};
    struct adapter_probe defer = {0};

    (void)state;
    f.state = EV_DEFAULT;
    assert_non_null(f.state);
    assert_int_equal(hirate_libev(&f.loop, EV_DEFAULT), 0);
    adapter_defer(&f, &defer);
    assert_int_equal(f.loop.defer_set(defer.handle), 0);
    ev_run(EV_DEFAULT_ 0);
    assert_int_equal(defer.calls, 1);
    f.loop.defer_free(defer.handle);
    ev_loop_destroy(EV_DEFAULT);
}

/* Called when nothing else is active: the loop must not end before the call. The second call of the same iteration
 * has to keep the loop alive by itself. */
static void then_set_itself_once(struct adapter_probe *probe)
{
    if (probe->calls == 1)
        assert_int_equal(probe->f->loop.defer_set(probe->handle), 0);
}

static void test_libev_run_ends_after_lone_deferred_calls(void **state)
{
    struct adapter_fixture f = {0};
    struct adapter_probe defer = {.then = then_set_itself_once};

    (void)state;
    f.state = ev_loop_new(EVFLAG_AUTO);
    assert_non_null(f.state);
    assert_int_equal(hirate_libev(&f.loop, f.state), 0);
    adapter_defer(&f, &defer);
    assert_int_equal(f.loop.defer_set(defer.handle), 0);
    ev_run(f.state, 0);
    assert_int_equal(defer.calls, 2);
    f.loop.defer_free(defer.handle);
    ev_loop_destroy(f.state);
}

/* Watchers of the program's own that defer: whichever kind it is, the loop must not block first. */
static void set_deferred(struct adapter_probe *defer)
{
    assert_int_equal(defer->f->loop.defer_set(defer->handle), 0);
}

static void on_prepare(struct ev_loop *ev, ev_prepare *w, int revents)
{
    (void)revents;
    ev_prepare_stop(ev, w);
    set_deferred(w->data);
}

static void on_check(struct ev_loop *ev, ev_check *w, int revents)
{
    (void)revents;
    ev_check_stop(ev, w);
    set_deferred(w->data);
}

static void on_idle(struct ev_loop *ev, ev_idle *w, int revents)
{
    (void)revents;
    ev_idle_stop(ev, w);
    set_deferred(w->data);
}

static void test_libev_deferred_in_prepare_runs_before_blocking(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe defer = {.then = adapter_then_stop};
    ev_prepare prepare;

    adapter_defer(f, &defer);
    for (int priority = EV_MINPRI; priority <= EV_MAXPRI; priority++) {
        ev_prepare_init(&prepare, on_prepare);
        ev_set_priority(&prepare, priority);
        prepare.data = &defer;
        ev_prepare_start(f->state, &prepare);
        adapter_run(f);
    }
    assert_int_equal(defer.calls, EV_MAXPRI - EV_MINPRI + 1);
    f->loop.defer_free(defer.handle);
}

static void test_libev_deferred_in_check_runs_before_blocking(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe defer = {.then = adapter_then_stop};
    struct adapter_probe timer = {0};
    ev_check check;

    adapter_defer(f, &defer);
    ev_check_init(&check, on_check);
    check.data = &defer;
    ev_check_start(f->state, &check);
    adapter_timer(f, &timer, 1000); /* something must wake the loop, or it never checks */
    adapter_run(f);
    assert_int_equal(defer.calls, 1);
    f->loop.timer_free(timer.handle);
    f->loop.defer_free(defer.handle);
}

static void test_libev_deferred_in_idle_runs_before_blocking(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe defer = {.then = adapter_then_stop};
    ev_idle idle;

    adapter_defer(f, &defer);
    ev_idle_init(&idle, on_idle);
    idle.data = &defer;
    ev_idle_start(f->state, &idle);
    adapter_run(f);
    assert_int_equal(defer.calls, 1);
    f->loop.defer_free(defer.handle);
}

/* It has run in this iteration, before the loop blocks; now a prepare watcher sets it again. */
static void then_stop_at_second(struct adapter_probe *defer)
{
    if (defer->calls == 2)
        adapter_stop(defer->f);
}

static void test_libev_deferred_again_before_blocking_runs_first(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe defer = {.then = then_stop_at_second};
    ev_prepare prepare;

    adapter_defer(f, &defer);
    ev_prepare_init(&prepare, on_prepare);
    prepare.data = &defer;
    ev_prepare_start(f->state, &prepare);
    set_deferred(&defer);
    adapter_run(f);
    assert_int_equal(defer.calls, 2);
    f->loop.defer_free(defer.handle);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_libev_##name, adapter_setup, adapter_teardown)
    const struct CMUnitTest own[] = {
        cmocka_unit_test(test_libev_null_arguments_are_refused),
        cmocka_unit_test(test_libev_default_loop_is_taken),
        cmocka_unit_test(test_libev_run_ends_after_lone_deferred_calls),
        TEST(deferred_in_prepare_runs_before_blocking),
        TEST(deferred_in_check_runs_before_blocking),
        TEST(deferred_in_idle_runs_before_blocking),
        TEST(deferred_again_before_blocking_runs_first),
    };
    const struct adapter_driver *drivers[] = {&automatic, &on_poll};
    int failed = 0;

    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++) {
        failed += adapter_run_watch_tests(drivers[i]);
        failed += adapter_run_timer_tests(drivers[i]);
        failed += adapter_run_defer_tests(drivers[i]);
        failed += adapter_run_fault_tests(drivers[i]);
    }
    failed += cmocka_run_group_tests(own, NULL, NULL);
    return failed != 0;
}
