/* SPDX-License-Identifier: BSD-3-Clause */
/* adapters/epoll.h: what every adapter must do, and what its own loop promises. */
#include "adapter_suite.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#define calloc(count, size) adapter_calloc((count), (size))
#define realloc(old, size) adapter_realloc((old), (size))
#include <hirate/adapters/epoll.h>
#undef calloc
#undef realloc

static void *open_loop(void)
{
    hirate_epoll_loop *ep = NULL;

    return hirate_epoll_new(&ep) == 0 ? ep : NULL;
}

static int attach(void *ep, hirate_loop *loop)
{
    return hirate_epoll(loop, ep);
}

static void run(void *ep)
{
    assert_int_equal(hirate_epoll_run(ep), 0);
}

static void stop(void *ep)
{
    hirate_epoll_stop(ep);
}

/* One turn: process() makes as many as it takes. */
static void turn(void *ep)
{
    assert_true(hirate_epoll_turn_(ep, 0) >= 0);
}

static void close_loop(void *ep)
{
    hirate_epoll_free(ep);
}

static int is_readable(struct adapter_fixture *f, int timeout_ms)
{
    struct pollfd pollfd = {hirate_epoll_fd(f->state), POLLIN, 0};

    return poll(&pollfd, 1, timeout_ms);
}

/* The same loop inside another one, here poll(2). It stops when a probe says so. */
static int foreign_stopped;

static void run_in_foreign_loop(void *ep)
{
    struct pollfd pollfd = {hirate_epoll_fd(ep), POLLIN, 0};

    foreign_stopped = 0;
    while (!foreign_stopped) {
        assert_int_equal(poll(&pollfd, 1, -1), 1);
        assert_true(hirate_epoll_process(ep) >= 0);
    }
}

static void stop_foreign_loop(void *ep)
{
    (void)ep;
    foreign_stopped = 1;
}

static const struct adapter_driver own_loop = {open_loop, attach, run, stop, turn, close_loop};
static const struct adapter_driver foreign_loop = {open_loop,         attach, run_in_foreign_loop,
                                                   stop_foreign_loop, turn,   close_loop};

static void test_epoll_null_arguments_are_refused(void **state)
{
    struct adapter_fixture *f = *state;
    hirate_loop before = f->loop;

    assert_int_equal(hirate_epoll_new(NULL), HIRATE_EINVAL);
    assert_int_equal(hirate_epoll(NULL, f->state), HIRATE_EINVAL);
    assert_int_equal(hirate_epoll(&f->loop, NULL), HIRATE_EINVAL);
    assert_memory_equal(&f->loop, &before, sizeof before);
    assert_int_equal(hirate_epoll_fd(NULL), HIRATE_EINVAL);
    assert_int_equal(hirate_epoll_process(NULL), HIRATE_EINVAL);
    assert_int_equal(hirate_epoll_run(NULL), HIRATE_EINVAL);
    hirate_epoll_stop(NULL);
    hirate_epoll_free(NULL);
}

/* With 0, 1 and 2 descriptors left a loop, which takes three, is refused and keeps none of them. */
static void test_epoll_without_descriptors_is_refused(void **state)
{
    struct rlimit before, limit;
    int lowest = dup(STDIN_FILENO);

    (void)state;
    assert_true(lowest >= 0);
    assert_int_equal(close(lowest), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    limit = before;
    for (int left = 0; left <= 3; left++) {
        hirate_epoll_loop *ep = NULL;
        int rc;

        limit.rlim_cur = (rlim_t)(lowest + left);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        rc = hirate_epoll_new(&ep);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        if (left < 3) {
            assert_int_equal(rc, HIRATE_ELOOP);
            assert_int_equal(errno, EMFILE);
            assert_null(ep);
        } else {
            assert_int_equal(rc, 0);
            hirate_epoll_free(ep);
        }
        assert_int_equal(dup(STDIN_FILENO), lowest);
        assert_int_equal(close(lowest), 0);
    }
}

static void test_epoll_without_memory_is_refused(void **state)
{
    hirate_epoll_loop *ep = NULL;

    (void)state;
    adapter_fail_allocation(0);
    assert_int_equal(hirate_epoll_new(&ep), HIRATE_ENOMEM);
    adapter_fail_allocation(-1);
    assert_null(ep);
}

static void test_epoll_fd_tells_what_there_is_to_do(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe watch = {0};
    struct adapter_probe timer = {0};
    struct adapter_probe defer = {0};
    int fds[2];

    adapter_pipe(fds);
    adapter_watch(f, &watch, fds[0], HIRATE_READ);
    adapter_timer(f, &timer, -1);
    adapter_defer(f, &defer);
    assert_int_equal(is_readable(f, 0), 0);
    assert_int_equal(hirate_epoll_process(f->state), 0);

    assert_int_equal(f->loop.defer_set(defer.handle), 0);
    assert_int_equal(is_readable(f, 0), 1);
    assert_int_equal(hirate_epoll_process(f->state), 1);
    assert_int_equal(is_readable(f, 0), 0);

    adapter_put(fds[1]);
    assert_int_equal(is_readable(f, 0), 1);
    assert_int_equal(hirate_epoll_process(f->state), 1);
    adapter_drain(fds[0]);
    assert_int_equal(is_readable(f, 0), 0);

    assert_int_equal(f->loop.timer_set(timer.handle, 1000), 0);
    assert_int_equal(is_readable(f, -1), 1);
    assert_int_equal(hirate_epoll_process(f->state), 1);
    assert_int_equal(is_readable(f, 0), 0);

    f->loop.watch_free(watch.handle);
    f->loop.timer_free(timer.handle);
    f->loop.defer_free(defer.handle);
    adapter_pipe_close(fds);
}

/* A hang-up that nobody waits for must not keep the descriptor readable. */
static void test_epoll_fd_is_quiet_about_paused_hangup(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe watch = {0};
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    adapter_watch(f, &watch, fds[0], HIRATE_READ);
    assert_int_equal(close(fds[1]), 0);
    assert_int_equal(is_readable(f, 0), 1);
    assert_int_equal(f->loop.watch_set(watch.handle, 0), 0);
    assert_int_equal(is_readable(f, 0), 0);
    f->loop.watch_free(watch.handle);
    assert_int_equal(close(fds[0]), 0);
}

/* What a turn defers is run by the same process(), without the event descriptor. */
static void then_set_other(struct adapter_probe *probe)
{
    assert_int_equal(probe->f->loop.defer_set(probe->other->handle), 0);
}

static void test_epoll_process_runs_what_it_deferred(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe last = {0};
    struct adapter_probe defer = {.then = then_set_other, .other = &last};
    struct adapter_probe timer = {.then = then_set_other, .other = &defer};

    adapter_defer(f, &last);
    adapter_defer(f, &defer);
    adapter_timer(f, &timer, 0);
    assert_int_equal(is_readable(f, -1), 1);
    assert_int_equal(hirate_epoll_process(f->state), 3);
    assert_int_equal(last.calls, 1);
    assert_int_equal(is_readable(f, 0), 0);
    f->loop.timer_free(timer.handle);
    f->loop.defer_free(defer.handle);
    f->loop.defer_free(last.handle);
}

static void test_epoll_process_is_bounded_and_says_there_is_more(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe defer = {.then = then_set_other, .other = &defer};

    adapter_defer(f, &defer);
    assert_int_equal(f->loop.defer_set(defer.handle), 0);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(hirate_epoll_process(f->state), HIRATE_EPOLL_TURNS_);
        assert_int_equal(defer.calls, i * HIRATE_EPOLL_TURNS_);
        assert_int_equal(is_readable(f, 0), 1);
    }
    defer.then = NULL;
    assert_int_equal(hirate_epoll_process(f->state), 1);
    assert_int_equal(is_readable(f, 0), 0);
    f->loop.defer_free(defer.handle);
}

static void then_enter_again(struct adapter_probe *probe)
{
    assert_int_equal(hirate_epoll_process(probe->f->state), HIRATE_EINVAL);
    assert_int_equal(hirate_epoll_run(probe->f->state), HIRATE_EINVAL);
}

static void test_epoll_entered_from_callback_is_refused(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe defer = {.then = then_enter_again};

    adapter_defer(f, &defer);
    assert_int_equal(f->loop.defer_set(defer.handle), 0);
    assert_int_equal(hirate_epoll_process(f->state), 1);
    f->loop.defer_free(defer.handle);
}

static void test_epoll_stopped_before_run_returns_at_once(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe defer = {.then = adapter_then_stop};

    hirate_epoll_stop(f->state);
    assert_int_equal(hirate_epoll_run(f->state), 0);
    adapter_defer(f, &defer);
    assert_int_equal(f->loop.defer_set(defer.handle), 0);
    adapter_run(f); /* and the one after is not stopped any more */
    assert_int_equal(defer.calls, 1);
    f->loop.defer_free(defer.handle);
}

static void then_stop_and_set_itself(struct adapter_probe *probe)
{
    adapter_stop(probe->f);
    assert_int_equal(probe->f->loop.defer_set(probe->handle), 0);
}

static void test_epoll_deferred_when_stopped_is_kept(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe defer = {.then = then_stop_and_set_itself};

    adapter_defer(f, &defer);
    assert_int_equal(f->loop.defer_set(defer.handle), 0);
    adapter_run(f);
    assert_int_equal(defer.calls, 1);
    assert_int_equal(is_readable(f, 0), 1);
    defer.then = NULL;
    assert_int_equal(hirate_epoll_process(f->state), 1);
    f->loop.defer_free(defer.handle);
}

static hirate_epoll_loop *signalled;

static void on_alarm(int number)
{
    (void)number;
    hirate_epoll_stop(signalled);
}

static void test_epoll_stopped_by_signal_handler_returns(void **state)
{
    struct adapter_fixture *f = *state;
    struct itimerval soon = {{0, 0}, {0, 20000}};
    struct sigaction action, before;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    signalled = f->state;
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
    adapter_run(f);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
}

/* Timers set, moved and withdrawn at random come in the order of their deadlines. */
static int64_t last_deadline_ns;

static void then_compare_deadline(struct adapter_probe *probe)
{
    int64_t deadline_ns = ((hirate_epoll_timer_ *)probe->handle)->deadline_ns;

    assert_true(deadline_ns >= last_deadline_ns);
    last_deadline_ns = deadline_ns;
}

static void test_epoll_timers_come_in_order(void **state)
{
    enum { MANY = 200 };
    struct adapter_fixture *f = *state;
    static struct adapter_probe probes[MANY];
    unsigned seed = (unsigned)time(NULL);
    int armed = 0;

    print_message("seed %u\n", seed);
    memset(probes, 0, sizeof probes);
    for (int i = 0; i < MANY; i++) {
        probes[i].then = then_compare_deadline;
        adapter_timer(f, &probes[i], rand_r(&seed) % 5000);
    }
    for (int i = 0; i < 10 * MANY; i++)
        assert_int_equal(f->loop.timer_set(probes[rand_r(&seed) % MANY].handle, rand_r(&seed) % 5000 - 500), 0);
    for (int i = 0; i < MANY; i++)
        armed += ((hirate_epoll_timer_ *)probes[i].handle)->place != HIRATE_EPOLL_IDLE_;
    last_deadline_ns = 0;
    adapter_sleep_us(20000);
    adapter_turns(f, 1);
    assert_int_equal(f->sequence, armed);
    for (int i = 0; i < MANY; i++)
        f->loop.timer_free(probes[i].handle);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_epoll_##name, adapter_setup, adapter_teardown)
    const struct CMUnitTest own[] = {
        TEST(null_arguments_are_refused),
        cmocka_unit_test(test_epoll_without_descriptors_is_refused),
        cmocka_unit_test(test_epoll_without_memory_is_refused),
        TEST(fd_tells_what_there_is_to_do),
        TEST(fd_is_quiet_about_paused_hangup),
        TEST(process_runs_what_it_deferred),
        TEST(process_is_bounded_and_says_there_is_more),
        TEST(entered_from_callback_is_refused),
        TEST(stopped_before_run_returns_at_once),
        TEST(deferred_when_stopped_is_kept),
        TEST(stopped_by_signal_handler_returns),
        TEST(timers_come_in_order),
    };
    const struct adapter_driver *drivers[] = {&foreign_loop, &own_loop};
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
