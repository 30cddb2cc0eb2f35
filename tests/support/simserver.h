/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test support: a server for a simulated world (sim.h) that really decides (simscript.h), and does with each script
 * call what it is told: that is its fate. Everything it decides is reported, told or not.
 */
#ifndef TESTS_SIMSERVER_H
#define TESTS_SIMSERVER_H

#include "sim.h"
#include "simscript.h"

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

typedef struct simserver_hooks {
    enum fate (*fate)(void *arg);
    void (*disturbed)(void *arg); /* something was not decided, or a connection ended */
    uint64_t (*random)(void *arg, uint64_t most);
    void *arg;
    simscript_hooks script;
} simserver_hooks;

typedef struct simserver simserver;

simserver *simserver_new(sim *world, const simserver_hooks *hooks);
void simserver_free(simserver *s);
/* Accept, read, decide and write: as much as is there, or, `piecewise`, a random part of what is to be written. */
void simserver_step(simserver *s, bool piecewise);
void simserver_drop(simserver *s);                   /* end every connection */
void simserver_step_clock(simserver *s, int64_t us); /* its clock, against the world's */
int64_t simserver_now_us(const simserver *s);
bool simserver_holds(const simserver *s, const unsigned char id[HR_HOLD_ID_SIZE]); /* something, by this id */

#endif
