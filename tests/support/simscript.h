/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test support: what lua/acquire.lua does, in C, for a simulated server: it reads a call as the wire has it and
 * decides what it asks by the policies' own functions, one request after the other, each from what is stored then; so
 * nothing it tells of a request was ever put together from runs or from what was found before. For unit tests, as it
 * uses the library's inside.
 */
#ifndef TESTS_SIMSCRIPT_H
#define TESTS_SIMSCRIPT_H

#include "joint.h"
#include "resp.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct simscript_arg {
    const char *at;
    size_t len;
} simscript_arg;

/* One of the keys of a request that was decided. */
typedef struct decided_key {
    char policy[16], name[8]; /* here these are short texts */
    bool shadow, took;
    hr_decision decision;
    int64_t until_us; /* of what it holds; 0: nothing */
} decided_key;

/* A request that was decided: an acquire, a peek or one with a permit. Peeks of a bucket or window alone are not
 * seen. */
typedef struct decided {
    enum hirate_op op;
    uint64_t cost; /* 0: it took nothing, whatever it asked for, or it is a release, renewal or refund */
    unsigned char id[HR_HOLD_ID_SIZE]; /* of what it holds or uses */
    bool holds;
    int done;       /* with a permit: 1 done, 0 there is no such hold, 2 late */
    bool unwritten; /* of something to be written one of its keys at least could not be: that one is as before */
    size_t count;
    decided_key keys[HIRATE_PAIRS_MAX]; /* of an acquire or peek in the order of the script: shadows last */
    hr_joint joint;                     /* of a permit only the decision is there: how things stand afterwards */
    int64_t now_us;
} decided;

typedef struct simscript_hooks {
    /* What is wrong with a key in this call: 0 nothing, -1 it holds something else, -2 a command on it is refused. Of a
     * key of steps also 1 and 2: so it turns out to be when it is to be written. */
    int (*spoiled)(void *arg, const simscript_arg *key);
    void (*decided)(void *arg, const decided *what);
    void *arg;
} simscript_hooks;

typedef struct simscript simscript;

simscript *simscript_new(const simscript_hooks *hooks); /* either hook may be NULL; trouble ends the process */
void simscript_free(simscript *s);
void simscript_forget(simscript *s); /* every key */

/* Decide a call; what the script returns is appended to `reply`. */
void simscript_call(simscript *s, const simscript_arg *keys, size_t key_count, const simscript_arg *ops, int64_t now_us,
                    bytes *reply);

/* Is something held by this id? */
bool simscript_holds(const simscript *s, const unsigned char id[HR_HOLD_ID_SIZE], int64_t now_us);

#endif
