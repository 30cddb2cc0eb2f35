/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test support: what every event loop has to carry, told without naming one. Each it_loop_*.c brings its loop, and its
 * own translation unit, as the headers of some event libraries cannot be included together.
 */
#ifndef TESTS_SCENARIO_H
#define TESTS_SCENARIO_H

#include <hirate/hirate.h>

#include "server.h"

typedef struct scenario {
    server *redis;
    hirate_loop loop;
    void (*turn)(void *base); /* block until something happens, run its callbacks, return */
    void *base;
} scenario;

/* Each uses cmocka's assertions and leaves the loop as it found it: empty. */
void scenario_login(const scenario *s);          /* twenty of twenty-one */
void scenario_thousand_names(const scenario *s); /* each answered once, as if alone */
void scenario_deadline(const scenario *s);       /* timers: a stopped server */
void scenario_reconnects(const scenario *s);     /* watches: cut off again and again */
void scenario_close_pending(const scenario *s);  /* closing with requests under way, from a callback too */
void scenario_two_clients(const scenario *s);

/* All of the above. */
void scenario_run_all(const scenario *s);

#endif
