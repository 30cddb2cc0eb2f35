/* SPDX-License-Identifier: BSD-3-Clause */
/* What the adapters' tests share: the fixture, probes, pipes, the clock and allocations that fail. */
#include "adapter_suite.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define GUARD_US INT64_C(10000000)

static const struct adapter_driver *selected;
static int allocations_left = -1;
static int allocation_failed;

/* -------------------------------------------------------------------------------------------------- fixture -- */

static void on_guard(void *arg)
{
    struct adapter_fixture *f = arg;

    f->expired = 1;
    adapter_stop(f);
}

void adapter_select(const struct adapter_driver *driver)
{
    selected = driver;
}

int adapter_setup(void **state)
{
    struct adapter_fixture *f = calloc(1, sizeof *f);

    if (f == NULL)
        return -1;
    f->state = selected->open();
    assert_non_null(f->state);
    assert_int_equal(selected->attach(f->state, &f->loop), 0);
    f->guard = f->loop.timer_new(f->loop.data, on_guard, f);
    assert_non_null(f->guard);
    *state = f;
    return 0;
}

int adapter_teardown(void **state)
{
    struct adapter_fixture *f = *state;

    f->loop.timer_free(f->guard);
    selected->close(f->state);
    free(f);
    return 0;
}

void adapter_run(struct adapter_fixture *f)
{
    assert_int_equal(f->loop.timer_set(f->guard, GUARD_US), 0);
    selected->run(f->state);
    assert_int_equal(f->loop.timer_set(f->guard, -1), 0);
    assert_false(f->expired);
}

void adapter_stop(struct adapter_fixture *f)
{
    selected->stop(f->state);
}

void adapter_turns(struct adapter_fixture *f, int turns)
{
    while (turns-- > 0)
        selected->turn(f->state);
}

/* --------------------------------------------------------------------------------------------------- probes -- */

static void called(struct adapter_probe *probe)
{
    probe->calls++;
    probe->called_ns = adapter_now_ns();
    probe->order = ++probe->f->sequence;
    if (probe->then != NULL)
        probe->then(probe);
}

void adapter_on_ready(void *arg, unsigned events)
{
    struct adapter_probe *probe = arg;

    assert_int_not_equal(events, 0);
    probe->events |= events;
    called(probe);
}

void adapter_on_due(void *arg)
{
    called(arg);
}

void adapter_then_stop(struct adapter_probe *probe)
{
    adapter_stop(probe->f);
}

void adapter_watch(struct adapter_fixture *f, struct adapter_probe *probe, int fd, unsigned events)
{
    probe->f = f;
    probe->fd = fd;
    probe->handle = f->loop.watch_new(f->loop.data, fd, adapter_on_ready, probe);
    assert_non_null(probe->handle);
    assert_int_equal(f->loop.watch_set(probe->handle, events), 0);
}

void adapter_timer(struct adapter_fixture *f, struct adapter_probe *probe, int64_t delay_us)
{
    probe->f = f;
    probe->handle = f->loop.timer_new(f->loop.data, adapter_on_due, probe);
    assert_non_null(probe->handle);
    assert_int_equal(f->loop.timer_set(probe->handle, delay_us), 0);
}

void adapter_defer(struct adapter_fixture *f, struct adapter_probe *probe)
{
    probe->f = f;
    probe->handle = f->loop.defer_new(f->loop.data, adapter_on_due, probe);
    assert_non_null(probe->handle);
}

/* ------------------------------------------------------------------------------------- descriptors and time -- */

void adapter_pipe(int fds[2])
{
    assert_int_equal(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
}

void adapter_pipe_close(int fds[2])
{
    assert_int_equal(close(fds[0]), 0);
    assert_int_equal(close(fds[1]), 0);
}

void adapter_put(int fd)
{
    assert_int_equal(write(fd, "x", 1), 1);
}

void adapter_drain(int fd)
{
    char buffer[512];

    while (read(fd, buffer, sizeof buffer) > 0)
        continue;
}

static int64_t read_ns(clockid_t clock)
{
    struct timespec now;

    assert_int_equal(clock_gettime(clock, &now), 0);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t adapter_now_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

static void sleep_us(int64_t us)
{
    struct timespec left = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

    while (nanosleep(&left, &left) != 0)
        assert_int_equal(errno, EINTR);
}

void adapter_sleep_us(int64_t us)
{
    int64_t end = adapter_now_ns() + us * 1000;

    sleep_us(us);
    while (read_ns(CLOCK_MONOTONIC_COARSE) < end) /* loops may go by this clock, which lags on a busy machine */
        sleep_us(500);
}

/* ----------------------------------------------------------------------------------------------- allocation -- */

void adapter_fail_allocation(int after)
{
    allocations_left = after;
    allocation_failed = 0;
}

int adapter_allocation_failed(void)
{
    return allocation_failed;
}

static int may_allocate(void)
{
    if (allocations_left < 0 || allocations_left-- > 0)
        return 1;
    allocation_failed = 1;
    return 0;
}

void *adapter_malloc(size_t size)
{
    return may_allocate() ? malloc(size) : NULL;
}

void *adapter_calloc(size_t count, size_t size)
{
    return may_allocate() ? calloc(count, size) : NULL;
}

void *adapter_realloc(void *old, size_t size)
{
    return may_allocate() ? realloc(old, size) : NULL;
}
