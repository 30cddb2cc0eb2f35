/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test support: a client on the epoll loop, run until so many callbacks have come, each recorded.
 *
 * An `answer` is the `user` of one request: `calls` counts its callbacks, so that none and two are both seen.
 */
#ifndef TESTS_DRIVER_H
#define TESTS_DRIVER_H

#include <hirate/hirate.h>

#include <hirate/adapters/epoll.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DRIVER_PATIENCE_MS 60000 /* how long anything may take before a test gives up; never an expectation */

typedef struct driver driver;
typedef struct answer answer;

/* Run inside a request's callback, after it was recorded. */
typedef void answer_fn(driver *d, answer *a);

struct answer {
    driver *driver;
    int calls;
    hirate_result result; /* policy and reason point to what follows */
    char policy[HIRATE_POLICY_SIZE];
    char reason[HIRATE_REASON_MAX + 1];
    size_t order;         /* callbacks of this driver before this one */
    int64_t at_ms;        /* when, by driver_now_ms() */
    int64_t submitted_ms; /* likewise */
    answer_fn *then;      /* NULL: none. Set it before submitting */
    void *arg;            /* for `then` */
};

struct driver {
    hirate_epoll_loop *epoll;
    hirate_loop loop;
    hirate *h;        /* NULL once closed */
    size_t called;    /* callbacks run */
    size_t rooms;     /* on_room run */
    size_t closed;    /* on_closed run */
    bool submitting;  /* inside a call that takes a callback: none may come */
    size_t too_early; /* callbacks that came all the same */
    bool shares_loop; /* the loop is another driver's */
};

/* Set up a driver with its own loop, or with that of `other`. `options` NULL: the defaults with `uri`. Any failure
 * ends the test. */
void driver_open(driver *d, const char *uri);
void driver_open_with(driver *d, hirate_options *options, driver *other); /* takes over options->on_room and user */

/* Submit through the driver, so that an early callback is noticed. The functions' own return value. */
int driver_submit(driver *d, hirate_request *request, answer *a, uint64_t *id);
int driver_acquire(driver *d, answer *a, const hirate_limit *limit, const char *name, uint64_t cost);
int driver_peek(driver *d, answer *a, const hirate_limit *limit, const char *name, uint64_t cost);
int driver_reset(driver *d, answer *a, const hirate_limit *limit, const char *name);

/* Run the loop until `called` (since driver_open) callbacks have run. False: DRIVER_PATIENCE_MS went by. */
bool driver_wait(driver *d, size_t called);
void driver_run_for(driver *d, int64_t ms); /* run the loop for about so long */
void driver_turn(driver *d, int64_t ms);    /* one turn, waiting for up to `ms` */

/* One request from start to end; the answer is in *a. Ends the test when it is refused or never answered. */
void driver_ask(driver *d, answer *a, const hirate_limit *limit, const char *name, uint64_t cost);

/* Close the client and run the loop until it is closed; free the loop if it is its own. */
void driver_close(driver *d);
void driver_free_loop(driver *d);  /* after hirate_free() or an own hirate_close() */
void driver_on_closed(void *user); /* a hirate_closed_cb for a `driver *` */

int64_t driver_now_ms(void);
bool driver_slow(void); /* HIRATE_SLOW is set: a sanitizer or valgrind; do less */

#endif
