/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: one request, an acquire, say, from submission to its callback.
 *
 * States
 *     FREE     in the free list
 *     WAITING  its tickets in its keys' queues, not part of a call
 *     CALLED   part of a call that was given to the link
 *     DONE     answered, in the queue of answers until its callback has run
 * WAITING and CALLED requests have a deadline; a DONE one has not, so nothing can answer it again.
 *
 * An id is the number of a slot and how often that slot has been used. A slot whose count is used up is not used again,
 * so ids never repeat.
 */
#ifndef HR_REQUEST_H
#define HR_REQUEST_H

#include "deadlines.h"
#include "decide.h"
#include "hirate.h"
#include "limit_set.h"

#include <stdbool.h>

#define HR_REQUESTS_MOST (1u << 22) /* pending, and the bits of a slot in an id */

enum hr_request_state { HR_REQUEST_FREE, HR_REQUEST_WAITING, HR_REQUEST_CALLED, HR_REQUEST_DONE };

/* A text from the server or the system that several answers share. */
typedef struct hr_reason {
    uint32_t references;
    char text[];
} hr_reason;

typedef struct hr_answer {
    int error;
    int cause; /* of a verdict by on_failure: the error, HIRATE_E…; else 0 */
    enum hirate_verdict verdict;
    enum hirate_source source;
    enum hirate_charge charge;
    int used;
    int late;
    uint64_t remaining;
    int64_t retry_after_ms, reset_ms, delay_ms, time_us;
    const char *text;  /* static */
    hr_reason *reason; /* says it better, unless NULL */
} hr_answer;

/* The reason of HIRATE_ENOENT. */
#define HR_REASON_GONE "the reservation is gone before its time: committed, refunded or reset"

struct hr_key;
struct hr_request;

/* A request's place at one of its keys. */
typedef struct hr_ticket {
    struct hr_ticket *prev, *next; /* WAITING: in the key's queue */
    struct hr_key *key;            /* WAITING and CALLED */
    struct hr_request *request;
    hr_limit *limit; /* one use of it, until the callback has run */
} hr_ticket;

/* One of the limits of a request that is more than one plain ticket. */
typedef struct hr_part {
    hr_ticket ticket;
    hr_decision decision; /* DONE, unless there is no verdict by the limits: its own */
    char *permit;         /* room for one, permit_size bytes, if what is taken here is a hold; else NULL */
    uint16_t permit_size;
    bool took; /* something; then the permit, if there is room for one, is written */
} hr_part;

/* What a request over several limits, one that holds something, or one with a permit has beyond others. From the
 * batch's pool. */
typedef struct hr_extra {
    uint32_t count; /* parts */
    bool holds;     /* may take a lease or a reservation, known by `id`; or, with a permit, is about it */
    bool decided;   /* the parts' decisions stand */
    unsigned char id[HR_HOLD_ID_SIZE];
    uint64_t hold_us;  /* of reservations; 0: charge */
    int64_t until_us;  /* of a commit's reservation */
    uint32_t shadows_denied;
    uint32_t bound; /* which part */
    hr_part parts[];
} hr_extra;

typedef struct hr_request {
    hr_deadline deadline;    /* first: a deadline is its request */
    struct hr_request *next; /* DONE and FREE; while the client closes: in a list of its own requests */
    struct hr_request **called_as; /* CALLED: where the call has it, NULL there once it is answered otherwise */
    uint64_t number;         /* of its submission: the order within its keys */
    hr_ticket ticket;        /* its only one, unless there are extras: they have it then */
    hr_extra *extra;         /* NULL: none */
    hirate_cb *cb;           /* NULL: one of the client's own */
    void *user;
    uint64_t id;
    uint64_t cost;
    uint8_t op;    /* enum hirate_op */
    uint8_t state; /* enum hr_request_state */
    hr_answer answer;
} hr_request;

typedef struct hr_requests {
    hr_request **chunks;
    uint32_t slots, most; /* made so far, allowed */
    uint32_t pending;     /* not FREE */
    hr_request *free;
    hr_deadlines deadlines;
    hr_request *first_done, *last_done;
    uint32_t done; /* length of that queue */
} hr_requests;

int hr_requests_init(hr_requests *requests, uint32_t most); /* 0 or HIRATE_ENOMEM */
void hr_requests_free(hr_requests *requests);

/* Its tickets: one, or one for each of its parts. */
static inline uint32_t hr_request_tickets(const hr_request *request)
{
    return request->extra ? request->extra->count : 1;
}

static inline hr_ticket *hr_request_ticket(hr_request *request, uint32_t i)
{
    return request->extra ? &request->extra->parts[i].ticket : &request->ticket;
}

/* A new request with its id, not yet in any state. NULL: no memory. The caller has checked pending < most. */
hr_request *hr_requests_get(hr_requests *requests);
/* Back among the free ones; it has no deadline and is in no queue. */
void hr_requests_put(hr_requests *requests, hr_request *request);
/* The request with this id, unless it is free. */
hr_request *hr_requests_find(const hr_requests *requests, uint64_t id);
/* DONE with this answer (whose reason gets one more reference). Its owner has let go of it: it is in no key's queue and
 * no call. */
void hr_requests_answer(hr_requests *requests, hr_request *request, const hr_answer *answer);
/* The same where the answer, without a reason, stands in request->answer already. */
void hr_requests_answered(hr_requests *requests, hr_request *request);
/* The same as the first for a new one, which has no deadline yet. */
void hr_requests_answer_new(hr_requests *requests, hr_request *request, const hr_answer *answer);
/* The oldest answered one, taken from the queue; NULL: none. */
hr_request *hr_requests_next_done(hr_requests *requests);

/* At most 200 bytes of `text`, made printable as by hr_fail. One reference; NULL without memory. */
hr_reason *hr_reason_new(const char *text, size_t len);
void hr_reason_drop(hr_reason *reason); /* NULL is fine */

#endif
