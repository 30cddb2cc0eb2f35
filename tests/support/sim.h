/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test support: a world for one client in which nothing happens by itself. A hirate_loop written out by hand, a clock
 * that only sim_pass() moves, no randomness but a seed's, and the server's side of the client's connections to play.
 *
 * clock_gettime() and getrandom() are defined here for the whole program, so the client sees this world's time.
 */
#ifndef TESTS_SIM_H
#define TESTS_SIM_H

#include <hirate/hirate.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sim sim;

sim *sim_new(uint64_t seed); /* one at a time; trouble ends the process */
void sim_free(sim *s);

const char *sim_uri(const sim *s); /* a unix socket that listens, or does not: sim_listen() */
const hirate_loop *sim_loop(sim *s);
void sim_listen(sim *s, bool on);

/* Run what is ready, without time passing: descriptors, timers that are due, deferred calls. True: something ran. */
bool sim_turn(sim *s);
void sim_settle(sim *s);           /* turns, until nothing is ready */
void sim_pass(sim *s, int64_t us); /* let time pass; nothing runs */
void sim_keep_calendar(sim *s);    /* from now on the time of day is this world's too, and not the fuzzer's own */
int64_t sim_now_us(const sim *s);
void sim_lag(sim *s, int64_t us);         /* the coarse clock is so far behind */
int64_t sim_next_us(const sim *s); /* when the next timer is due; INT64_MAX: none is set */
size_t sim_handles(const sim *s);  /* watches, timers and deferred calls that were not freed */

/* The server's side: descriptors that do not block. */
int sim_accept(sim *s); /* the next connection, or -1 */

#endif
