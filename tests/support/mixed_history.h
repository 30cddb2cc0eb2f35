/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test support: what the clients of the mixed run recorded (mixed.h), made into what happened to each key, by the
 * server's clock.
 *
 * What is not known for sure counts for as little as it can have: what was charged = maybe, or in flight when its
 * client was killed, took nothing; a lease whose release was not answered ended when that was submitted, at the latest
 * when its time was over; a reservation whose commit was not answered counts from then on for no more than the amount.
 * So whatever was really used or held, it was no less: what breaks a limit by these counts, broke it.
 */
#ifndef TESTS_MIXED_HISTORY_H
#define TESTS_MIXED_HISTORY_H

#include "mixed.h"

#define MIXED_UNTOLD UINT32_MAX

typedef struct mixed_event {
    int64_t time_us;
    uint32_t rank;      /* 0: came by itself; else which client's */
    uint32_t order;     /* in which that client submitted it */
    bool asked;         /* the answer to an acquire or peek; else units came back, or a commit charged */
    uint32_t remaining; /* as it was told; MIXED_UNTOLD */
    /* asked */
    uint32_t cost;
    bool allowed; /* by this limit */
    bool taken;   /* by all of them: of a peek it would have been */
    bool took;
    bool holds; /* what it took is a lease or reservation */
    /* otherwise */
    int64_t held, used; /* what is added to them; of what a commit charged … */
    int64_t excess;     /* … so much is more than was reserved */
} mixed_event;

/* What happened to one name under one limit. */
typedef struct mixed_key {
    mixed_event *events; /* in order, once the history is complete */
    size_t count, room;
    size_t unknown; /* requests of which it is not known whether they did anything */
    size_t wrong;   /* contradictions among the answers; printed */
} mixed_key;

typedef struct mixed_history {
    mixed_key keys[32][MIXED_NAMES]; /* by limit and name */
} mixed_history;

/* Add what client `number` (each another) recorded; then, once all are added, put it in order. */
void mixed_history_add(mixed_history *history, const mixed_file *file, uint32_t number);
void mixed_history_complete(mixed_history *history);
void mixed_history_free(mixed_history *history);

/* Was the request answered by Redis: decided, and it is known how? */
bool mixed_is_decided(const mixed_record *r);

#endif
