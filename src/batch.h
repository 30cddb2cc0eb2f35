/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: what waits, gathered by key, and the calls made of it.
 *
 * A key object stands in the table while tickets wait for it or a call holds it, and in the queue of ready keys while
 * tickets wait. Forming a call takes ready keys in order, and of each as much of the front of its queue as the call can
 * decide.
 *
 * As an entry: acquires and peeks under one limit, or one reset. What is behind a reset or a change of the limit goes
 * into a later call.
 *
 * As steps, where a request waits for the key that cannot be part of an entry: the tickets' requests one by one, as
 * long as each is at the front of all its keys. Tickets stand in their queues in the order of submission, so the oldest
 * request is at the front of all its keys, and goes.
 *
 * So requests for one key are executed in the order of submission.
 */
#ifndef HR_BATCH_H
#define HR_BATCH_H

#include "call.h"
#include "denials.h"
#include "pool.h"
#include "request.h"

#define HR_CALL_BYTES_MOST 131072 /* of keys in one call, so that the output buffer stays small */

typedef struct hr_name {
    const void *bytes;
    size_t len;
} hr_name;

typedef struct hr_batch {
    hr_hash_key hash_key;
    hr_hash_table table;
    hr_pool pool;
    hr_key *recent;       /* the one asked for last, or NULL */
    hr_key *first, *last; /* ready keys */
    uint32_t ready;       /* how many */
    uint32_t waiting;     /* tickets, over all keys */
    uint32_t repeated;    /* ready keys for which more than one waits */
    uint64_t added;       /* requests so far */
    uint32_t formed;      /* the number of the last call; 1 follows 2^32 - 1 */
    uint32_t key_most, item_most; /* of a call: keys; items and refs (call.h) together */
    hr_call *free_calls, *all_calls;
    bool has_steps;       /* the calls have room for them */
    hr_limits *limits;
    hr_denials denials;
} hr_batch;

/* 0, or HIRATE_ENOMEM; free it in either case. Of the options the max_… are used. */
int hr_batch_init(hr_batch *batch, hr_limits *limits, const hirate_options *options);
void hr_batch_free(hr_batch *batch);

/* Queue a request (op, cost, and each ticket's limit are set) under its names, one for each ticket. 0 with the request
 * WAITING, or HIRATE_ENOMEM. */
int hr_batch_add(hr_batch *batch, hr_request *request, const hr_name *names);
/* Extras for so many parts, 1 … HIRATE_PAIRS_MAX, zeroed; NULL: no memory. From the pool, each part's permit too. */
hr_extra *hr_batch_extra_new(hr_batch *batch, uint32_t count);
void hr_batch_extra_free(hr_batch *batch, hr_extra *extra); /* NULL is fine */
/* Room for a permit of the part, of at most `size` bytes. HIRATE_ENOMEM. */
int hr_batch_make_room_for_permit(hr_batch *batch, hr_part *part, size_t size);
/* The denial that answers an acquire of `cost` on the name without asking, as far as order allows: not while a reset of
 * it is under way. NULL: none. The caller looks at its time. */
const hr_denial *hr_batch_denial(const hr_batch *batch, const hr_limit *limit, const void *name, size_t len,
                                 uint64_t cost);
/* Remember that the script denied `cost` on the key of a call's entry. The rest is taken from `denial`. */
void hr_batch_note_denial(hr_batch *batch, const hr_call_key *entry, hr_denial denial);
/* Let go of a WAITING or CALLED request that is about to be answered. */
void hr_batch_remove(hr_batch *batch, hr_request *request);

/* A call of what is ready, its requests CALLED; NULL when nothing is, or every call is in flight. No further key is
 * begun once it has `keys` of them, 1 … key_most. Where requests are for several keys it may get more: up to key_most, or
 * as many as the first request is for. */
hr_call *hr_batch_form(hr_batch *batch, enum hr_script_how how, uint32_t keys);
/* The call is over; all its items have been answered or taken back. */
void hr_batch_finish(hr_batch *batch, hr_call *call);
/* Nothing was charged: the requests it still has WAIT again, in their keys' queues where they were submitted. Finishes
 * the call. */
void hr_batch_take_back(hr_batch *batch, hr_call *call);

#endif
