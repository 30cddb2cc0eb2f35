/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test support: one run of torture.c, shared by the plain part of a client's life and that which holds
 * (torture_holds.c).
 */
#ifndef TESTS_TORTURE_RUN_H
#define TESTS_TORTURE_RUN_H

#include "resp.h"
#include "torture.h"

#include <hirate/hirate.h>

#include <hirate/adapters/epoll.h>

#include <stdbool.h>

#define ANSWERS_MOST 4096 /* most of them ask whether the breaker lets a probe through */
#define NAMES 2

extern const hirate_limit TORTURE_TOKENS;

typedef struct run run;

typedef void torture_heard_fn(run *r, const hirate_result *result);

typedef struct answer {
    run *run;
    int name;                /* whose tokens are taken: index, or -1: not counted */
    torture_heard_fn *heard; /* counts what else there is; NULL: nothing */
    int calls;
    bool accepted;
} answer;

/* What the server holds, by what was told: at least, and at most. */
typedef struct span {
    uint64_t least, most;
} span;

struct run {
    const torture *t;
    const char *label;
    const char *path; /* of the server's socket */
    const char *uri;
    bool lasting;
    hirate_epoll_loop *ep;
    hirate_loop loop;
    hirate *h;
    bool submitting, closed;
    answer answers[ANSWERS_MOST];
    int count, accepted, called, late, ok;
    char names[NAMES][32];
    uint64_t yes[NAMES], maybe[NAMES]; /* tokens, by the charge that was told */
    span leased, reserved, used;
    char lease[HIRATE_PERMIT_SIZE], reservation[HIRATE_PERMIT_SIZE]; /* permits; "": none was told */
    int failures;
};

void torture_complain(run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A command on a connection of the test's own. The reply's text in *text; nothing fails meanwhile. */
void torture_ask(run *r, bytes *text, size_t argc, const char *const *argv);
/* Submit, with a deadline and callback of the run's; false: it was refused, as it may be. `id` may be NULL. */
bool torture_submit(run *r, hirate_request *request, int name, torture_heard_fn *heard, uint64_t *id);
void torture_turn(run *r, int ms);
void torture_wait(run *r); /* until everything is answered */

/* Several limits, a lease that is released and one that is canceled, a reservation that is committed. */
void torture_hold(run *r);
void torture_hold_at_close(run *r); /* a lease whose answer nobody waits for */
void torture_check_held(run *r);    /* what the server holds, against what was told */

#endif
