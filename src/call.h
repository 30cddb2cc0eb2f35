/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: one call of the script: what it asks, in its own memory, and how that is written.
 *
 * A call keeps its own copy of what it asked, so requests may be answered (deadline, cancel, close) while it is in
 * flight; the reply is then still read right for the others.
 *
 * Entries decide what asks for one key alone, all of a key's at once; each of their items is a request. Steps come
 * after them, one after the other: requests over several keys, those that hold something and those with a permit, and
 * what else waits for the same keys. A key has either an entry or steps.
 */
#ifndef HR_CALL_H
#define HR_CALL_H

#include "key.h"
#include "link.h"
#include "request.h"
#include "script.h"

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
    bool alike;            /* all items are acquires of the same cost */
} hr_call_key;

typedef struct hr_step_key {
    hr_key *key;
    hr_limit *limit; /* one use of it; those of the refs decide alike */
    hr_moment moment;            /* when the reply is read: what was found, then what has become of it */
    enum hr_script_what found;   /* HR_FOUND_MOMENT, or why there is none */
    enum hr_script_what written; /* the same of what was written in the end */
} hr_step_key;

typedef struct hr_step_ref {
    hr_limit *limit; /* one use of it */
    uint32_t key;    /* which of the step keys */
    uint32_t part;   /* of the request */
    bool shadow;     /* of a step these come last */
} hr_step_ref;

typedef struct hr_step {
    hr_request *request; /* NULL once it was answered otherwise */
    uint64_t cost, hold_us;
    int64_t until_us;
    uint32_t first, count; /* refs */
    uint8_t op;            /* enum hirate_op */
    bool holds;
    unsigned char id[HR_HOLD_ID_SIZE];
} hr_step;

typedef struct hr_call {
    hr_link_call link; /* first: the link knows a call by it */
    struct hr_call *next, *all_next; /* free calls; all calls */
    enum hr_script_how how;
    uint32_t number;         /* comes back in the reply */
    size_t key_bytes;        /* of all its keys */
    int64_t sent_us;         /* when it was given to the link */
    bool alone;              /* no other was in flight then */
    uint32_t key_count, item_count;
    uint32_t step_key_count, step_count, ref_count;
    hr_call_key *keys;
    hr_call_item *items;
    hr_step_key *step_keys; /* NULL, with the next two, until steps were first asked for */
    hr_step *steps;
    hr_step_ref *refs;
} hr_call;

/* Which run of a call's entry an item belongs to. Items are visited in order, from a zeroed struct. */
typedef struct hr_run_walk {
    uint32_t runs; /* begun so far: the item's run is runs - 1 */
    uint64_t units;
    uint8_t op;
} hr_run_walk;

/* Room for so many keys and requests. NULL: no memory. */
hr_call *hr_call_new(uint32_t key_most, uint32_t item_most);
/* And for steps: so many of each, and of keys HIRATE_PAIRS_MAX more. HIRATE_ENOMEM: none yet. */
int hr_call_make_room_for_steps(hr_call *call, uint32_t key_most, uint32_t item_most);
void hr_call_free(hr_call *call); /* NULL is fine */

/* Its requests, of entries and then of steps: i counts from 0 to hr_call_requests() - 1; NULL where one was answered
 * otherwise. */
static inline uint32_t hr_call_requests(const hr_call *call)
{
    return call->item_count + call->step_count;
}

static inline hr_request *hr_call_request(const hr_call *call, uint32_t i)
{
    return i < call->item_count ? call->items[i].request : call->steps[i - call->item_count].request;
}

static inline uint32_t hr_call_keys(const hr_call *call)
{
    return call->key_count + call->step_key_count;
}

/* Go to the next item. False: it is part of no run, as what it takes needs no asking. */
bool hr_call_walk(hr_run_walk *walk, const hr_policy *policy, const hr_call_item *item);
bool hr_call_is_reset(const hr_call *call, const hr_call_key *entry);
/* Write it as a command, into out->command. 0, or HIRATE_ENOMEM. */
int hr_call_encode(hr_call *call, hr_script_call *out);

#endif
