/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: what waits, gathered by key, and the calls made of it.
 *
 * A key object stands in the table while requests wait for it or a call holds it, and in the queue of ready keys while
 * requests wait. Forming a call takes ready keys in order, and of each the front run of requests that one entry of the
 * script can decide: acquires and peeks under one limit, or one reset. What is behind a reset or a change of the limit
 * goes into a later call, so requests for one key are executed in the order of submission.
 *
 * A call keeps its own copy of what it asked, so requests may be answered (deadline, cancel, close) while it is in flight;
 * the reply is then still read right for the others.
 */
#ifndef HR_BATCH_H
#define HR_BATCH_H

#include "denials.h"
#include "hash.h"
#include "link.h"
#include "pool.h"
#include "request.h"
#include "script.h"

#define HR_CALL_BYTES_MOST 131072 /* of keys in one call, so that the output buffer stays small */

typedef struct hr_key {
    hr_hash_node node;
    struct hr_key *prev, *next;        /* ready keys */
    struct hr_request *first, *last;   /* waiting, in order of submission */
    uint32_t waiting;
    uint32_t calls;                    /* in flight that hold it */
    uint32_t resets;                   /* waiting or in flight: what is known of it is about to change */
    uint64_t taken_for;                /* number of the last call formed with it */
    uint16_t len, prefix_len;
    char text[];                       /* PREFIX:POLICY:NAME */
} hr_key;

typedef struct hr_call_item {
    hr_request *request; /* NULL once it was answered otherwise */
    uint64_t cost;
    uint8_t op; /* enum hirate_op */
} hr_call_item;

typedef struct hr_call_key {
    hr_key *key;
    hr_limit *limit; /* one use of it, as its requests may be answered and gone before the reply */
    uint32_t first, count; /* items */
    uint32_t runs;         /* of them, as they were encoded */
} hr_call_key;

/* Which run of a call's entry an item belongs to. Items are visited in order, from a zeroed struct. */
typedef struct hr_run_walk {
    uint32_t runs; /* begun so far: the item's run is runs - 1 */
    uint64_t units;
    uint8_t op;
} hr_run_walk;

typedef struct hr_call {
    hr_link_call link; /* first: the link knows a call by it */
    struct hr_call *next;
    enum hr_script_how how;
    uint32_t number;
    uint32_t key_count, item_count;
    size_t key_bytes;
    int64_t sent_us;
    hr_call_key *keys;
    hr_call_item *items;
} hr_call;

typedef struct hr_batch {
    hr_hash_key hash_key;
    hr_hash_table table;
    hr_pool pool;
    hr_key *first, *last; /* ready keys */
    uint32_t ready;       /* how many */
    uint32_t waiting;     /* requests, over all keys */
    uint64_t added;       /* requests so far */
    uint64_t formed;      /* calls so far */
    uint32_t key_most, item_most; /* of a call */
    hr_call *free_calls;
    hr_limits *limits;
    hr_denials denials;
} hr_batch;

/* 0, or HIRATE_ENOMEM; free it in either case. Of the options the max_… are used. */
int hr_batch_init(hr_batch *batch, hr_limits *limits, const hirate_options *options);
void hr_batch_free(hr_batch *batch);

/* Queue a request (op, cost and limit are set) under its name. 0 with the request WAITING, or HIRATE_ENOMEM. */
int hr_batch_add(hr_batch *batch, hr_request *request, const void *name, size_t len);
/* The denial that answers an acquire of `cost` on the name without asking, as far as order allows: not while a reset of it is
 * under way. NULL: none. The caller looks at its time. */
const hr_denial *hr_batch_denial(const hr_batch *batch, const hr_limit *limit, const void *name, size_t len, uint64_t cost);
/* Remember that the script denied `cost` on the key of a call's entry. The rest is taken from `denial`. */
void hr_batch_note_denial(hr_batch *batch, const hr_call_key *entry, hr_denial denial);
/* Let go of a WAITING or CALLED request that is about to be answered. */
void hr_batch_remove(hr_batch *batch, hr_request *request);

/* A call of what is ready, its requests CALLED; NULL when nothing is, or every call is in flight. */
hr_call *hr_batch_form(hr_batch *batch, enum hr_script_how how);
/* Write it as a command; HIRATE_ENOMEM if there is no memory. */
int hr_batch_encode(hr_call *call, hr_script_call *out);
/* Go to the next item. False: it is part of no run, as what it takes needs no asking. */
bool hr_batch_walk(hr_run_walk *walk, const hr_policy *policy, const hr_call_item *item);
/* The call is over; all its items have been answered or taken back. */
void hr_batch_finish(hr_batch *batch, hr_call *call);
/* Nothing was charged: the requests it still has WAIT again, in their keys' queues where they were submitted. Finishes the
 * call. */
void hr_batch_take_back(hr_batch *batch, hr_call *call);

#endif
