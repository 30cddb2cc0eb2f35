/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault matrix: the load's parts. load_client.c is the client, what it is asked and what is made of its answers;
 * load_orders.c what only its process can do; load.c its course, from the first measurement to the last.
 */
#ifndef TESTS_FAULTS_LOAD_CLIENT_H
#define TESTS_FAULTS_LOAD_CLIENT_H

#include "stage.h"
#include "truth.h"

#include "../support/random.h"

#include <hirate/adapters/epoll.h>

#include <sys/resource.h>

enum { ASKED_MOST = 1 << 21 };

typedef struct load {
    stage *s;
    report *r;
    hirate_epoll_loop *epoll;
    hirate_loop loop;
    hirate *h; /* NULL: closed or freed */
    void *timer;
    asked *asked; /* ASKED_MOST of them */
    size_t count;
    bound_record *records;
    size_t record_count;
    uint64_t outstanding, double_calls, early_calls, lies;
    uint64_t local[NAMES]; /* admitted locally */
    uint64_t ledger_yes[NAMES], ledger_maybe[NAMES];
    int64_t ledger_left[NAMES];   /* what a peek found; -1: not yet */
    const asked *held, *held_end; /* these must be answered by Redis */
    uint64_t held_good, held_bad;
    unsigned clients; /* made for the load */
    int submitting;   /* depth of calls that submit */
    unsigned per_tick, allowance;
    uint32_t breaker_failures;
    bool on;       /* the timer and callbacks submit */
    bool counting; /* not in the warm-up */
    bool closed;   /* on_closed came */
    int64_t began_us, end_due_us;
    rng random;
    struct rlimit descriptors;
} load;

int load_phase(const load *l);

/* Submit; the function's own return value. What is refused was not asked. */
int load_submit(load *l, asked what);

/* Let the timer and the callbacks submit; stop them. */
void load_on(load *l);
void load_off(load *l);

/* One turn of the loop, measured; as many as it takes until every callback has come. */
void load_turn(load *l);
void load_drain(load *l);

void load_open_loop(load *l);
void load_close_loop(load *l);
void load_open_client(load *l);
void load_close_client(load *l); /* and wait until it is gone */
void load_renew_client(load *l); /* if a callback has ended it */

/* Do what the stage orders, if it does. */
void load_obey(load *l);

#endif
