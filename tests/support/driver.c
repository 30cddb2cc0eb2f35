/* SPDX-License-Identifier: BSD-3-Clause */
/* Test support: a client on the epoll loop (see driver.h). */
#include "driver.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "driver: %s\n", what);
    exit(1); /* not abort(): servers are stopped at exit */
}

int64_t driver_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool driver_slow(void)
{
    const char *slow = getenv("HIRATE_SLOW");
    return slow && *slow && strcmp(slow, "0") != 0;
}

/* ------------------------------------------------------------------------------------------- opening, closing -- */

static void on_room(hirate *h, void *user)
{
    driver *d = user;
    check(h == d->h, "on_room for another client");
    d->rooms++;
}

void driver_on_closed(void *user)
{
    driver *d = user;
    d->closed++;
    d->h = NULL;
}

void driver_open_with(driver *d, hirate_options *options, driver *other)
{
    *d = (driver){.shares_loop = other != NULL};
    if (other) {
        d->epoll = other->epoll;
        d->loop = other->loop;
    } else {
        check(hirate_epoll_new(&d->epoll) == 0, "hirate_epoll_new");
        check(hirate_epoll(&d->loop, d->epoll) == 0, "hirate_epoll");
    }
    options->on_room = on_room;
    options->user = d;
    int rc = hirate_new(&d->h, &d->loop, options);
    if (rc) {
        hirate_error error = {0};
        hirate_options_check(options, &error);
        fprintf(stderr, "hirate_new: %s: %s\n", hirate_strerror(rc), error.text);
        exit(1);
    }
}

void driver_open(driver *d, const char *uri)
{
    hirate_options options;
    hirate_options_init(&options);
    options.uri = uri;
    options.deadline_ms = DRIVER_PATIENCE_MS / 2; /* tests of deadlines name their own */
    driver_open_with(d, &options, NULL);
}

void driver_free_loop(driver *d)
{
    if (!d->shares_loop && d->epoll)
        hirate_epoll_free(d->epoll);
    d->epoll = NULL;
}

void driver_close(driver *d)
{
    check(hirate_close(d->h, driver_on_closed, d) == 0, "hirate_close");
    int64_t end = driver_now_ms() + DRIVER_PATIENCE_MS;
    while (!d->closed && driver_now_ms() < end)
        driver_turn(d, 100);
    check(d->closed == 1, "on_closed did not come");
    driver_free_loop(d);
}

/* ------------------------------------------------------------------------------------------------ submitting -- */

static void on_answer(hirate *h, const hirate_result *result, void *user)
{
    answer *a = user;
    driver *d = a->driver;
    check(h == d->h, "a callback names another client");
    a->calls++;
    a->result = *result;
    snprintf(a->policy, sizeof a->policy, "%s", result->policy);
    snprintf(a->reason, sizeof a->reason, "%s", result->reason);
    a->result.policy = a->policy;
    a->result.reason = a->reason;
    a->order = d->called++;
    a->at_ms = driver_now_ms();
    d->too_early += d->submitting;
    if (a->then)
        a->then(d, a);
}

int driver_submit(driver *d, hirate_request *request, answer *a, uint64_t *id)
{
    a->driver = d;
    a->submitted_ms = driver_now_ms();
    request->cb = on_answer;
    request->user = a;
    bool before = d->submitting;
    d->submitting = true;
    int rc = hirate_submit(d->h, request, id);
    d->submitting = before;
    return rc;
}

static int submit(driver *d, answer *a, enum hirate_op op, const hirate_limit *limit, const char *name, uint64_t cost)
{
    hirate_request request;
    hirate_request_init(&request);
    request.op = op;
    request.limit = limit;
    request.name = name;
    request.name_len = strlen(name);
    request.cost = cost;
    return driver_submit(d, &request, a, NULL);
}

int driver_acquire(driver *d, answer *a, const hirate_limit *limit, const char *name, uint64_t cost)
{
    return submit(d, a, HIRATE_OP_ACQUIRE, limit, name, cost);
}

int driver_peek(driver *d, answer *a, const hirate_limit *limit, const char *name, uint64_t cost)
{
    return submit(d, a, HIRATE_OP_PEEK, limit, name, cost);
}

int driver_reset(driver *d, answer *a, const hirate_limit *limit, const char *name)
{
    return submit(d, a, HIRATE_OP_RESET, limit, name, 1);
}

/* --------------------------------------------------------------------------------------------------- running -- */

void driver_turn(driver *d, int64_t ms)
{
    struct pollfd wait = {.fd = hirate_epoll_fd(d->epoll), .events = POLLIN};
    poll(&wait, 1, ms > 0 ? (int)ms : 0);
    check(hirate_epoll_process(d->epoll) >= 0, "hirate_epoll_process");
}

bool driver_wait(driver *d, size_t called)
{
    int64_t end = driver_now_ms() + DRIVER_PATIENCE_MS;
    while (d->called < called) {
        if (driver_now_ms() > end) {
            fprintf(stderr, "driver: %zu of %zu callbacks came\n", d->called, called);
            return false;
        }
        driver_turn(d, 100);
    }
    return true;
}

void driver_run_for(driver *d, int64_t ms)
{
    int64_t end = driver_now_ms() + ms;
    for (int64_t left = ms; left > 0; left = end - driver_now_ms())
        driver_turn(d, left);
}

void driver_ask(driver *d, answer *a, const hirate_limit *limit, const char *name, uint64_t cost)
{
    *a = (answer){0};
    size_t before = d->called;
    check(driver_acquire(d, a, limit, name, cost) == 0, "an acquire was refused");
    check(driver_wait(d, before + 1) && a->calls == 1, "an acquire was not answered");
}
