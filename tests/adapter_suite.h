/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What every adapter must do, as tests over the loop interface alone. A driver says how to make and run its loop;
 * each test gets a loop of its own. Nothing here needs libhirate.
 *
 * A probe is a handle with the callback that counts its calls and then does what the test asks for.
 */
#ifndef HIRATE_TESTS_ADAPTER_SUITE_H
#define HIRATE_TESTS_ADAPTER_SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <hirate/hirate.h>

struct adapter_driver {
    void *(*open)(void);                           /* a loop, or NULL */
    int (*attach)(void *state, hirate_loop *loop); /* the adapter's entry point */
    void (*run)(void *state);                      /* until stop; blocks while there is nothing to do */
    void (*stop)(void *state);
    void (*turn)(void *state); /* what is due, without blocking */
    void (*close)(void *state);
};

struct adapter_fixture {
    void *state;
    hirate_loop loop;
    void *guard; /* a timer that ends a run in which nothing else does */
    int expired;
    int sequence; /* calls so far */
};

struct adapter_probe {
    struct adapter_fixture *f;
    void *handle;
    int fd; /* of a watch */
    void (*then)(struct adapter_probe *probe);
    struct adapter_probe *other;
    int calls;
    int order;       /* f->sequence at the last call */
    unsigned events; /* all that were reported */
    int64_t called_ns;
};

/* For the tests of one driver. Each returns how many failed. */
int adapter_run_watch_tests(const struct adapter_driver *driver);
int adapter_run_timer_tests(const struct adapter_driver *driver);
int adapter_run_defer_tests(const struct adapter_driver *driver);
int adapter_run_fault_tests(const struct adapter_driver *driver);

/* Which loop adapter_setup() makes. */
void adapter_select(const struct adapter_driver *driver);
int adapter_setup(void **state);
int adapter_teardown(void **state);

/* Run until a probe stops the loop; fails when nothing did for ten seconds. */
void adapter_run(struct adapter_fixture *f);
void adapter_stop(struct adapter_fixture *f);
void adapter_turns(struct adapter_fixture *f, int turns);

/* Make the probe's handle; these fail the test when the adapter refuses. */
void adapter_watch(struct adapter_fixture *f, struct adapter_probe *probe, int fd, unsigned events);
void adapter_timer(struct adapter_fixture *f, struct adapter_probe *probe, int64_t delay_us);
void adapter_defer(struct adapter_fixture *f, struct adapter_probe *probe);

/* Callbacks of probes, and some things to do then. */
void adapter_on_ready(void *probe, unsigned events);
void adapter_on_due(void *probe);
void adapter_then_stop(struct adapter_probe *probe);

/* A pipe that does not block: [0] reads, [1] writes. */
void adapter_pipe(int fds[2]);
void adapter_pipe_close(int fds[2]);
void adapter_put(int fd);
void adapter_drain(int fd);

int64_t adapter_now_ns(void);
void adapter_sleep_us(int64_t us);

/* Allocation that fails once `after` more were made; negative: never. Adapters are compiled to use it. */
void adapter_fail_allocation(int after);
int adapter_allocation_failed(void); /* did it, since adapter_fail_allocation()? */
void *adapter_malloc(size_t size);
void *adapter_calloc(size_t count, size_t size);
void *adapter_realloc(void *old, size_t size);

#endif
