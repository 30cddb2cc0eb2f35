/* SPDX-License-Identifier: BSD-3-Clause */
/* adapters/libevent.h: what every adapter must do, and what is libevent's own. */
#include "adapter_suite.h"

#include <stdlib.h>
#include <string.h>
#define calloc(count, size) adapter_calloc((count), (size))
#include <hirate/adapters/libevent.h>
#undef calloc

static int attach(void *base, hirate_loop *loop)
{
    return hirate_libevent(loop, base);
}

static void *open_base(void)
{
    return event_base_new();
}

static void *open_base_with_priorities(void)
{
    struct event_base *base = event_base_new();

    if (base != NULL && event_base_priority_init(base, 5) != 0) {
        event_base_free(base);
        return NULL;
    }
    return base;
}

static void run(void *base)
{
    assert_int_equal(event_base_dispatch(base), 0);
}

static void stop(void *base)
{
    assert_int_equal(event_base_loopexit(base, NULL), 0);
}

/* Without EVLOOP_ONCE it would go on for as long as something is due. */
static void turn(void *base)
{
    assert_true(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK) >= 0);
}

static void close_base(void *base)
{
    event_base_free(base);
}

static const struct adapter_driver plain = {open_base, attach, run, stop, turn, close_base};
static const struct adapter_driver with_priorities = {open_base_with_priorities, attach, run, stop, turn, close_base};

static void test_libevent_null_arguments_are_refused(void **state)
{
    struct event_base *base = event_base_new();
    hirate_loop loop;
    hirate_loop before;

    (void)state;
    memset(&loop, 7, sizeof loop);
    before = loop;
    assert_non_null(base);
    assert_int_equal(hirate_libevent(NULL, base), HIRATE_EINVAL);
    assert_int_equal(hirate_libevent(&loop, NULL), HIRATE_EINVAL);
    assert_memory_equal(&loop, &before, sizeof loop);
    event_base_free(base);
}

/* Nothing else is pending, yet the loop must not end before the call; then it ends by itself. */
static void test_libevent_dispatch_runs_a_lone_deferred_call(void **state)
{
    struct adapter_fixture f = {0};
    struct adapter_probe defer = {0};

    (void)state;
    f.state = event_base_new();
    assert_non_null(f.state);
    assert_int_equal(hirate_libevent(&f.loop, f.state), 0);
    adapter_defer(&f, &defer);
    assert_int_equal(f.loop.defer_set(defer.handle), 0);
    assert_int_equal(event_base_dispatch(f.state), 1); /* nothing is left */
    assert_int_equal(defer.calls, 1);
    f.loop.defer_free(defer.handle);
    event_base_free(f.state);
}

/* With several priorities libevent runs only the highest that has something due in each turn. */
static void test_libevent_deferred_call_does_not_starve(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe defer = {.then = adapter_then_stop};
    struct adapter_probe busy = {0};
    int fds[2];

    adapter_pipe(fds);
    adapter_put(fds[1]);
    adapter_watch(f, &busy, fds[0], HIRATE_READ);
    adapter_defer(f, &defer);
    assert_int_equal(f->loop.defer_set(defer.handle), 0);
    adapter_run(f);
    assert_int_equal(defer.calls, 1);
    assert_true(busy.calls < 10);
    f->loop.defer_free(defer.handle);
    f->loop.watch_free(busy.handle);
    adapter_pipe_close(fds);
}

/* Callbacks of a lower priority that each defer still share one deferred call. */
static void on_low(evutil_socket_t fd, short what, void *defer)
{
    struct adapter_probe *probe = defer;

    (void)fd;
    (void)what;
    probe->f->sequence++;
    assert_int_equal(probe->f->loop.defer_set(probe->handle), 0);
}

static void test_libevent_low_priorities_share_a_deferred_call(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe defer = {.then = adapter_then_stop};
    struct event *low[3];

    adapter_defer(f, &defer);
    for (int i = 0; i < 3; i++) {
        low[i] = event_new(f->state, -1, 0, on_low, &defer);
        assert_non_null(low[i]);
        assert_int_equal(event_priority_set(low[i], 4), 0);
        event_active(low[i], EV_TIMEOUT, 0);
    }
    adapter_run(f);
    assert_int_equal(defer.calls, 1);
    assert_int_equal(defer.order, 4);
    for (int i = 0; i < 3; i++)
        event_free(low[i]);
    f->loop.defer_free(defer.handle);
}

/* libevent warns about a bad descriptor, which a test hands it on purpose. */
static void on_log(int severity, const char *text)
{
    (void)severity;
    (void)text;
}

int main(void)
{
    const struct CMUnitTest own[] = {
        cmocka_unit_test(test_libevent_null_arguments_are_refused),
        cmocka_unit_test(test_libevent_dispatch_runs_a_lone_deferred_call),
        cmocka_unit_test_setup_teardown(test_libevent_deferred_call_does_not_starve, adapter_setup, adapter_teardown),
        cmocka_unit_test_setup_teardown(test_libevent_low_priorities_share_a_deferred_call, adapter_setup,
                                        adapter_teardown),
    };
    const struct adapter_driver *drivers[] = {&plain, &with_priorities};
    int failed = 0;

    event_set_log_callback(on_log);
    event_set_mem_functions(adapter_malloc, adapter_realloc, free);
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++) {
        failed += adapter_run_watch_tests(drivers[i]);
        failed += adapter_run_timer_tests(drivers[i]);
        failed += adapter_run_defer_tests(drivers[i]);
        failed += adapter_run_fault_tests(drivers[i]);
    }
    failed += cmocka_run_group_tests(own, NULL, NULL);
    libevent_global_shutdown();
    return failed != 0;
}
