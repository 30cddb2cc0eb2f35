/* SPDX-License-Identifier: BSD-3-Clause */
/* What every adapter must do: say when it cannot. What a refusal leaks is found by the sanitizers and valgrind. */
#include "adapter_suite.h"

#include <unistd.h>

static void *new_watch(struct adapter_fixture *f, int fd)
{
    return f->loop.watch_new(f->loop.data, fd, adapter_on_ready, NULL);
}

static void test_fault_interface_is_complete(void **state)
{
    struct adapter_fixture *f = *state;
    const hirate_loop *loop = &f->loop;

    assert_int_equal(loop->struct_size, sizeof *loop);
    assert_int_equal(loop->version, HIRATE_LOOP_VERSION);
    assert_non_null(loop->watch_new);
    assert_non_null(loop->watch_set);
    assert_non_null(loop->watch_free);
    assert_non_null(loop->timer_new);
    assert_non_null(loop->timer_set);
    assert_non_null(loop->timer_free);
    assert_non_null(loop->defer_new);
    assert_non_null(loop->defer_set);
    assert_non_null(loop->defer_free);
}

static void test_fault_free_of_null_does_nothing(void **state)
{
    struct adapter_fixture *f = *state;

    f->loop.watch_free(NULL);
    f->loop.timer_free(NULL);
    f->loop.defer_free(NULL);
    adapter_turns(f, 1);
    assert_int_equal(f->sequence, 0);
}

static void test_fault_handle_without_callback_is_refused(void **state)
{
    struct adapter_fixture *f = *state;

    assert_null(f->loop.watch_new(f->loop.data, STDIN_FILENO, NULL, NULL));
    assert_null(f->loop.timer_new(f->loop.data, NULL, NULL));
    assert_null(f->loop.defer_new(f->loop.data, NULL, NULL));
}

static void test_fault_bad_descriptor_is_refused(void **state)
{
    struct adapter_fixture *f = *state;
    void *watch;
    int fds[2];

    assert_null(new_watch(f, -1));
    adapter_pipe(fds);
    adapter_pipe_close(fds);
    watch = new_watch(f, fds[0]);
    if (watch == NULL)
        return;
    assert_true(f->loop.watch_set(watch, HIRATE_READ) < 0);
    f->loop.watch_free(watch);
}

/* Fail the first allocation, then the second, … until all goes well. Returns how many failures were told. */
static int count_refusals(struct adapter_fixture *f, int (*attempt)(struct adapter_fixture *))
{
    for (int after = 0;; after++) {
        int failed;
        int rc;

        adapter_fail_allocation(after);
        rc = attempt(f);
        failed = adapter_allocation_failed();
        adapter_fail_allocation(-1);
        if (!failed) {
            assert_int_equal(rc, 0);
            return after;
        }
        assert_true(rc < 0);
    }
}

static int attempt_watch(struct adapter_fixture *f)
{
    void *watch = new_watch(f, STDERR_FILENO);

    if (watch == NULL)
        return -1;
    f->loop.watch_free(watch);
    return 0;
}

static int attempt_timers(struct adapter_fixture *f)
{
    enum { SOME = 20 }; /* enough for what the adapter keeps of them to grow */
    void *timers[SOME];
    int made = 0;
    int rc = 0;

    while (made < SOME && rc == 0) {
        timers[made] = f->loop.timer_new(f->loop.data, adapter_on_due, NULL);
        if (timers[made] == NULL)
            rc = -1;
        else
            rc = f->loop.timer_set(timers[made++], 60000000);
    }
    while (made > 0)
        f->loop.timer_free(timers[--made]);
    return rc;
}

static int attempt_defer(struct adapter_fixture *f)
{
    void *defer = f->loop.defer_new(f->loop.data, adapter_on_due, NULL);

    if (defer == NULL)
        return -1;
    f->loop.defer_free(defer);
    return 0;
}

static void test_fault_without_memory_is_told(void **state)
{
    struct adapter_fixture *f = *state;

    assert_true(count_refusals(f, attempt_watch) >= 1);
    assert_true(count_refusals(f, attempt_timers) >= 20);
    assert_true(count_refusals(f, attempt_defer) >= 1);
    adapter_turns(f, 3);
    assert_int_equal(f->sequence, 0);
}

/* A connection that comes and goes, as when a server is down: nothing may pile up. */
static void test_fault_reconnecting_leaves_nothing(void **state)
{
    struct adapter_fixture *f = *state;

    for (int i = 0; i < 1000; i++) {
        struct adapter_probe watch = {.then = adapter_then_stop};
        struct adapter_probe timer = {0};
        struct adapter_probe defer = {0};
        int fds[2];

        adapter_pipe(fds);
        adapter_put(fds[1]);
        adapter_timer(f, &timer, 60000000);
        adapter_defer(f, &defer);
        adapter_watch(f, &watch, fds[0], HIRATE_READ);
        assert_int_equal(f->loop.defer_set(defer.handle), 0);
        adapter_run(f);
        assert_int_equal(watch.calls, 1);
        f->loop.watch_free(watch.handle);
        f->loop.timer_free(timer.handle);
        f->loop.defer_free(defer.handle);
        adapter_pipe_close(fds);
    }
}

int adapter_run_fault_tests(const struct adapter_driver *driver)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_fault_##name, adapter_setup, adapter_teardown)
    const struct CMUnitTest faults[] = {
        TEST(interface_is_complete),     TEST(free_of_null_does_nothing), TEST(handle_without_callback_is_refused),
        TEST(bad_descriptor_is_refused), TEST(without_memory_is_told),    TEST(reconnecting_leaves_nothing),
    };

    adapter_select(driver);
    return cmocka_run_group_tests(faults, NULL, NULL);
}
