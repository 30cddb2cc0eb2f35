/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault matrix: what one fault is, and the stage it is played on.
 *
 * Each fault has two processes of its own. The director starts servers, breaks and mends them; the client keeps a
 * hirate client under load (load.c) and does nothing else, so that its descriptors, its allocations and the time it
 * holds its loop are those of the library. They share a `stage`. So a crash ends one line of the table, not the table.
 *
 * Phases
 *     SET_UP   the director prepares; the client waits
 *     CALM     the load runs, nothing is broken
 *     BROKEN   the fault is on
 *     MENDED   it is gone, since mended_us; the client ends by itself once it has recovered, and leaves its report
 * Times are microseconds of CLOCK_MONOTONIC, which both processes share.
 */
#ifndef TESTS_FAULTS_STAGE_H
#define TESTS_FAULTS_STAGE_H

#include "../support/server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum stage_phase { STAGE_SET_UP = 0, STAGE_CALM, STAGE_BROKEN, STAGE_MENDED };

/* What only the client's process can do; done between two turns of its loop. */
enum stage_order {
    ORDER_NONE = 0,
    ORDER_TAKE_DESCRIPTORS, /* RLIMIT_NOFILE so low that no descriptor can be opened */
    ORDER_GIVE_DESCRIPTORS,
    ORDER_HOLD_LOOP, /* submit, write, do not turn for three deadlines: the replies must win */
    ORDER_MILLION    /* a million submissions in one turn */
};

enum stage_end { END_NONE = 0, END_BY_CLOSE, END_BY_FREE };

#define STAGE_WHY_SIZE 1024
#define STAGE_CLOCK_STEP_US                                                                                            \
    INT64_C(3600000000) /* how far a server's clock is set, so that records can be put right                           \
                         */

/* What the client found out. */
typedef struct report {
    bool complete;
    uint64_t submitted, refused, callbacks;
    uint64_t allowed;       /* by Redis, of the names whose bound is checked, in tokens */
    uint64_t bound;         /* most that may be */
    uint64_t losses_seen;   /* losses of state that the records need at least; the most of any name */
    uint64_t maybe;         /* answers with charge = maybe */
    uint64_t degraded;      /* answers without Redis while broken */
    uint64_t without_redis; /* at any time */
    uint64_t refused_maybe; /* refused by the server, and yet charge = maybe */
    uint64_t connects;
    int64_t hold_us;          /* longest turn, by the thread's processor time */
    uint64_t busiest;         /* callbacks in one turn, most */
    int64_t recovery_us;      /* from mended to a good answer to what was submitted after; negative: none came */
    int64_t descriptors;      /* more than before */
    int64_t bytes;            /* live allocations, more than before */
    char why[STAGE_WHY_SIZE]; /* what is wrong, a line each; empty: nothing */
} report;

/* How the load is to be; the defaults are set before the fault's own function runs. */
typedef struct stage_load {
    int64_t deadline_ms, stall_ms, connect_ms;
    uint32_t max_calls, max_call_keys;
    bool wide;          /* thousands of names of 1000 bytes each, so that output piles up */
    enum stage_end end; /* while broken: every 60 ms the client is closed or freed inside a callback, and made anew */
} stage_load;

typedef struct stage {
    _Atomic int phase;
    _Atomic int order;
    _Atomic int loading; /* the load has begun */
    _Atomic int64_t mended_us;
    _Atomic long bitten; /* how often the fault was seen to do its work */
    const char *name;    /* the fault\'s */
    unsigned scale;      /* 1; more: everything takes longer */
    unsigned losses;     /* of state, that the fault may cause */
    char uri[160];
    char netns[64]; /* the client's network namespace; empty: the director's */
    stage_load load;
    char note[160]; /* why the fault was passed over; empty: it was not */
    server *moved;  /* the director's: its clock is kept going, moved by clock_us */
    int64_t clock_us;
    pid_t client;
    report report;
} stage;

/* How a fault shows, so that one that did nothing is not taken for one that did no harm. Together, where more apply. */
enum fault_felt {
    FELT_DEGRADED = 1,  /* some answers came without Redis */
    FELT_RECONNECT = 2, /* there was more than one connection */
    FELT_BITTEN = 4,    /* the director counted */
    FELT_UNSEEN = 8,    /* and not at all in the answers: each came from Redis */
    FELT_UNCHARGED = 16 /* what the server refuses is known not to have been charged */
};

typedef struct fault {
    const char *name;
    unsigned losses;
    unsigned felt; /* FELT_… */
    void (*run)(stage *s, const struct fault *f);
    const void *arg;
} fault;

typedef struct fault_list {
    const fault *faults;
    size_t count;
} fault_list;

extern const fault_list FAULTS_OF_PROCESS, FAULTS_OF_REFUSAL, FAULTS_OF_NETWORK, FAULTS_OF_REPLIES, FAULTS_OF_HOST;

/* ------------------------------------------------------------------------------ for a fault's run(), in the director
 * -- */

void stage_open(stage *s, const char *uri);        /* let the load begin, and run calmly for a while */
void stage_open_broken(stage *s, const char *uri); /* the same with the fault already on */
void stage_break(stage *s);
void stage_pass(stage *s, int64_t ms); /* wait; a moved clock goes on meanwhile */
int64_t stage_scaled(const stage *s, int64_t ms);
void stage_order(stage *s, enum stage_order order); /* and wait until it is done */
void stage_mend(stage *s);                          /* the fault is gone: wait for the client's end */
void stage_pass_over(stage *s, const char *why);    /* the fault cannot be had here */

/* ------------------------------------------------------------------------------------------------------ for both -- */

int64_t stage_now_us(void);

/* Begin to play `f`, in processes of its own; the caller owns *s, which must be shared memory, zeroed. The process to
 * wait for. */
pid_t stage_begin(stage *s, const fault *f);
/* With that process' status: was it played to its end, or passed over? */
bool stage_was_played(const stage *s, int status);

#endif
