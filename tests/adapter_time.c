/* SPDX-License-Identifier: BSD-3-Clause */
/* What every adapter must do: timers. Nothing is asserted of how late one may be. */
#include "adapter_suite.h"

#include <string.h>

static void then_free(struct adapter_probe *probe)
{
    probe->f->loop.timer_free(probe->handle);
    probe->handle = NULL;
}

static void then_free_other(struct adapter_probe *probe)
{
    then_free(probe->other);
}

static void test_timer_is_never_early(void **state)
{
    struct adapter_fixture *f = *state;
    static const int64_t delays_us[] = {0, 1, 999, 1000, 1001, 1500, 3700, 4000, 12345};
    struct adapter_probe probe = {.then = adapter_then_stop};

    adapter_timer(f, &probe, -1);
    for (int round = 0; round < 10; round++) {
        for (size_t i = 0; i < sizeof delays_us / sizeof *delays_us; i++) {
            int64_t before_ns = adapter_now_ns();

            assert_int_equal(f->loop.timer_set(probe.handle, delays_us[i]), 0);
            adapter_run(f);
            assert_true(probe.called_ns - before_ns >= delays_us[i] * 1000);
        }
    }
    f->loop.timer_free(probe.handle);
}

/* A callback that takes long leaves a loop with an old idea of the time. */
static void then_dawdle_and_set_other(struct adapter_probe *probe)
{
    adapter_sleep_us(30000);
    probe->called_ns = adapter_now_ns();
    assert_int_equal(probe->f->loop.timer_set(probe->other->handle, 10000), 0);
}

static void test_timer_set_in_a_long_callback_is_not_early(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe late = {.then = adapter_then_stop};
    struct adapter_probe dawdler = {.then = then_dawdle_and_set_other, .other = &late};

    adapter_timer(f, &late, -1);
    adapter_timer(f, &dawdler, 0);
    adapter_run(f);
    assert_int_equal(late.calls, 1);
    assert_true(late.called_ns - dawdler.called_ns >= 10000000);
    f->loop.timer_free(late.handle);
    f->loop.timer_free(dawdler.handle);
}

static void test_timer_set_before_an_idle_loop_is_not_early(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe probe = {.then = adapter_then_stop};
    int64_t before_ns;

    adapter_timer(f, &probe, -1);
    adapter_turns(f, 1);
    adapter_sleep_us(30000);
    before_ns = adapter_now_ns();
    assert_int_equal(f->loop.timer_set(probe.handle, 10000), 0);
    adapter_run(f);
    assert_true(probe.called_ns - before_ns >= 10000000);
    f->loop.timer_free(probe.handle);
}

/* A coarse clock is behind by more or less; which, changes with the moment. */
static void test_timer_set_well_before_the_loop_runs_is_not_early(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe probe = {.then = adapter_then_stop};

    adapter_timer(f, &probe, -1);
    for (int i = 0; i < 40; i++) {
        int64_t before_ns;

        adapter_sleep_us(i * 370 % 4000);
        before_ns = adapter_now_ns();
        assert_int_equal(f->loop.timer_set(probe.handle, 10000), 0);
        adapter_sleep_us(5000);
        adapter_run(f);
        assert_true(probe.called_ns - before_ns >= 10000000);
    }
    f->loop.timer_free(probe.handle);
}

static void test_timer_fires_once(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe probe = {.then = adapter_then_stop};

    adapter_timer(f, &probe, 1000);
    adapter_run(f);
    adapter_sleep_us(5000);
    adapter_turns(f, 5);
    assert_int_equal(probe.calls, 1);
    f->loop.timer_free(probe.handle);
}

static void test_timer_set_again_replaces(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe later = {0};
    struct adapter_probe sooner = {.then = adapter_then_stop};

    adapter_timer(f, &later, 1000);
    adapter_timer(f, &sooner, 60000000);
    assert_int_equal(f->loop.timer_set(later.handle, 60000000), 0);
    assert_int_equal(f->loop.timer_set(sooner.handle, 20000), 0);
    adapter_run(f);
    assert_int_equal(later.calls, 0);
    assert_int_equal(sooner.calls, 1);
    f->loop.timer_free(later.handle);
    f->loop.timer_free(sooner.handle);
}

static void test_timer_disarmed_stays_silent(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe probe = {0};

    adapter_timer(f, &probe, 1000);
    assert_int_equal(f->loop.timer_set(probe.handle, -1), 0);
    assert_int_equal(f->loop.timer_set(probe.handle, INT64_MIN), 0);
    adapter_sleep_us(10000);
    adapter_turns(f, 5);
    assert_int_equal(probe.calls, 0);
    f->loop.timer_free(probe.handle);
}

static void then_disarm_other(struct adapter_probe *probe)
{
    assert_int_equal(probe->f->loop.timer_set(probe->other->handle, -1), 0);
}

/* Both are due; the first to be called withdraws the other. */
static void run_two_due(struct adapter_fixture *f, void (*then)(struct adapter_probe *))
{
    struct adapter_probe probes[2] = {{.then = then, .other = &probes[1]}, {.then = then, .other = &probes[0]}};

    adapter_timer(f, &probes[0], 1000);
    adapter_timer(f, &probes[1], 1000);
    adapter_sleep_us(20000);
    adapter_turns(f, 5);
    assert_int_equal(probes[0].calls + probes[1].calls, 1);
    f->loop.timer_free(probes[0].handle);
    f->loop.timer_free(probes[1].handle);
}

static void test_timer_disarmed_by_due_sibling_stays_silent(void **state)
{
    run_two_due(*state, then_disarm_other);
}

static void test_timer_freed_by_due_sibling_stays_silent(void **state)
{
    run_two_due(*state, then_free_other);
}

static void test_timer_freed_in_its_callback_is_gone(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe probe = {.then = then_free};

    adapter_timer(f, &probe, 0);
    adapter_sleep_us(10000);
    adapter_turns(f, 5);
    assert_int_equal(probe.calls, 1);
    assert_null(probe.handle);
}

static void test_timer_far_away_is_accepted_and_silent(void **state)
{
    struct adapter_fixture *f = *state;
    static const int64_t delays_us[] = {INT64_MAX, INT64_MAX - 1, INT64_MAX / 1000, INT64_C(86400000000)};
    struct adapter_probe probe = {0};

    adapter_timer(f, &probe, -1);
    for (size_t i = 0; i < sizeof delays_us / sizeof *delays_us; i++) {
        assert_int_equal(f->loop.timer_set(probe.handle, delays_us[i]), 0);
        adapter_sleep_us(2000);
        adapter_turns(f, 3);
        assert_int_equal(probe.calls, 0);
    }
    f->loop.timer_free(probe.handle);
}

static void then_set_itself(struct adapter_probe *probe)
{
    if (probe->calls >= 10000)
        adapter_stop(probe->f);
    assert_int_equal(probe->f->loop.timer_set(probe->handle, 0), 0);
}

static void test_timer_of_zero_leaves_room_for_descriptors(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe timer = {.then = then_set_itself};
    struct adapter_probe watch = {.then = adapter_then_stop};
    int fds[2];

    adapter_pipe(fds);
    adapter_put(fds[1]);
    adapter_timer(f, &timer, 0);
    adapter_watch(f, &watch, fds[0], HIRATE_READ);
    adapter_run(f);
    assert_int_equal(watch.calls, 1);
    assert_true(timer.calls < 10000);
    f->loop.timer_free(timer.handle);
    f->loop.watch_free(watch.handle);
    adapter_pipe_close(fds);
}

/* Both came up while the program was elsewhere. */
static void test_timer_due_with_a_readable_socket_comes_second(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe timer = {.then = adapter_then_stop};
    struct adapter_probe watch = {0};
    int fds[2];

    adapter_pipe(fds);
    adapter_watch(f, &watch, fds[0], HIRATE_READ);
    adapter_turns(f, 1);
    adapter_timer(f, &timer, 1000); /* no turn in between: it would be due in that one on a slow machine */
    adapter_sleep_us(20000);
    adapter_put(fds[1]);
    adapter_run(f);
    assert_int_equal(timer.calls, 1);
    assert_true(watch.calls >= 1);
    assert_int_equal(timer.order, watch.calls + 1);
    f->loop.timer_free(timer.handle);
    f->loop.watch_free(watch.handle);
    adapter_pipe_close(fds);
}

static void test_timer_many_all_fire(void **state)
{
    enum { MANY = 100 };
    struct adapter_fixture *f = *state;
    static struct adapter_probe probes[MANY];

    memset(probes, 0, sizeof probes);
    for (int i = 0; i < MANY; i++)
        adapter_timer(f, &probes[i], (i * 37) % 1000);
    for (int i = 0; i < MANY; i += 3)
        assert_int_equal(f->loop.timer_set(probes[i].handle, -1), 0);
    adapter_sleep_us(20000);
    adapter_turns(f, 5);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(probes[i].calls, i % 3 != 0);
        f->loop.timer_free(probes[i].handle);
    }
}

int adapter_run_timer_tests(const struct adapter_driver *driver)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_timer_##name, adapter_setup, adapter_teardown)
    const struct CMUnitTest timers[] = {
        TEST(is_never_early),
        TEST(set_in_a_long_callback_is_not_early),
        TEST(set_before_an_idle_loop_is_not_early),
        TEST(set_well_before_the_loop_runs_is_not_early),
        TEST(fires_once),
        TEST(set_again_replaces),
        TEST(disarmed_stays_silent),
        TEST(disarmed_by_due_sibling_stays_silent),
        TEST(freed_by_due_sibling_stays_silent),
        TEST(freed_in_its_callback_is_gone),
        TEST(far_away_is_accepted_and_silent),
        TEST(of_zero_leaves_room_for_descriptors),
        TEST(due_with_a_readable_socket_comes_second),
        TEST(many_all_fire),
    };

    adapter_select(driver);
    return cmocka_run_group_tests(timers, NULL, NULL);
}
