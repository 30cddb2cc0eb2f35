/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test support: a server for a simulated world (sim.h) that knows the token bucket only as the contract words it, and
 * does with each script call what it is told: that is its fate. Everything it decides is reported, told or not.
 */
#ifndef TESTS_SIMSERVER_H
#define TESTS_SIMSERVER_H

#include "sim.h"

enum fate {
    FATE_ANSWER,      /* decide, answer */
    FATE_LATER,       /* decide, answer after a while; what follows waits behind it */
    FATE_NEVER,       /* decide, say nothing any more on this connection */
    FATE_REFUSE,      /* do nothing, answer with an error that says so */
    FATE_FORGET,      /* the script has become unknown */
    FATE_UNLISTED,    /* decide or not, answer with an error nobody knows */
    FATE_CLOSE_FIRST, /* do nothing, close */
    FATE_CLOSE_AFTER, /* decide, close */
    FATE_PART,        /* decide, answer in part, close */
    FATE_NONSENSE,    /* decide, answer with something else */
    FATE_TWICE,       /* decide, answer, and say the same once more */
    FATE_COUNT
};

/* One acquire that was decided. */
typedef struct decided {
    const char *name;
    size_t name_len;
    const char *policy;
    size_t policy_len;
    uint64_t cost; /* 0: it took nothing, whatever it asked for */
    bool took;
    uint64_t remaining;
    int64_t retry_after_ms, reset_ms, time_us;
} decided;

typedef struct simserver_hooks {
    enum fate (*fate)(void *arg);
    void (*decided)(void *arg, const decided *what);
    void (*disturbed)(void *arg); /* something was not decided, or a connection ended */
    uint64_t (*random)(void *arg, uint64_t most);
    void *arg;
} simserver_hooks;

typedef struct simserver simserver;

simserver *simserver_new(sim *world, const simserver_hooks *hooks);
void simserver_free(simserver *s);
/* Accept, read, decide and write: as much as is there, or, `piecewise`, a random part of what is to be written. */
void simserver_step(simserver *s, bool piecewise);
void simserver_drop(simserver *s);                   /* end every connection */
void simserver_step_clock(simserver *s, int64_t us); /* its clock, against the world's */

#endif
