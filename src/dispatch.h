/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: when what waits is sent, and what each outcome means for it.
 *
 * The life of one request
 *     submit   checked, given a slot, a deadline and a place in its keys' queues     (submit.c)
 *     flush    at the end of the loop turn, or once it fills a call before callbacks run: calls of what has gathered
 *                                                                                    (hr_dispatch_flush, batch.c)
 *     reply    the call's verdicts, each in its request's answer                     (on_reply, verdicts.c)
 *     deliver  the client runs the callbacks of what is answered                     (results.c)
 * A deadline, a cancel or a close may answer it at any point before the reply (answers.c); a lost connection or a
 * refusal answers it or puts it back into its queues, depending on whether it can have been charged.
 *
 * Group commit. With no call in flight a flush sends at once. While calls are in flight, requests gather until a reply
 * makes room or a call has as many keys as it is to take. So latency is one round trip when idle, and calls grow under
 * load.
 *
 * What Redis cannot answer is decided by the limit's on_failure (fallback.h). After failures in a row the breaker
 * opens: what is submitted then is answered at once, but for a probe now and then; what waits already keeps its
 * deadline.
 *
 * The script is called by its SHA1. Where the server does not know it, and every call in flight has been answered, one
 * call carries the text and the others wait for its reply. So what was refused is decided in its order.
 */
#ifndef HR_DISPATCH_H
#define HR_DISPATCH_H

#include "backoff.h"
#include "batch.h"
#include "breaker.h"
#include "fallback.h"
#include "link.h"
#include "request.h"
#include "script.h"

typedef struct hr_dispatch {
    hr_requests requests;
    hr_limits limits;
    hr_batch batch;
    hr_link *link;
    hr_script_call wire;    /* where each call is written */

    uint32_t in_flight;     /* calls */
    uint32_t call_most;
    bool room;              /* a reply came since the last flush */
    bool from_idle;         /* when this flush began nothing was in flight, nor had just come back */
    int64_t round_trip_us;  /* of this connection */
    int64_t last_sent_us;   /* when the last call was sent, of so many keys */
    uint32_t last_keys;
    int64_t late_us;        /* for about how long the server had been done with the last two when their answers were read */
    bool text_needed;       /* the server does not know the script */
    bool text_in_flight;
    bool losing;            /* a call's connection is ending */
    int64_t pause_until_us; /* after LOADING and the like: send nothing before */
    hr_backoff pause;       /* how long the next one is */
    uint64_t random;
    int64_t now_us;         /* of the entry under way; the client sets it, and what the link tells */
    int64_t deadline_ms;    /* of a request that names none */

    hr_breaker breaker;
    int last_failure;       /* HIRATE_E…: what it answers while open */
    hr_fallback fallback;

    hr_reason *obstacle; /* why nothing is sent: no connection, LOADING and the like; NULL: none, or not known */
    hirate_stats stats;

    unsigned char hold_seed[8]; /* with hold_count: the id of what an acquire holds */
    uint32_t hold_count;
    uint32_t own_pending; /* requests of our own, which have no callback: to give back what nobody has heard of */
    bool closing, closed; /* hr_dispatch_close() was called; it is over, and the link gone */
} hr_dispatch;

/* Deadlines of requests of our own. */
#define HR_LINGER_MS    100  /* while the client closes, which waits for them */
#define HR_GIVE_BACK_MS 1000

/* 0 or HIRATE_ENOMEM; hr_dispatch_free in either case. Takes over config->uri when it succeeds. */
int hr_dispatch_init(hr_dispatch *dispatch, const hirate_options *options, const hirate_loop *loop,
                     hr_link_config *config, void (*settled)(void *arg), void (*wake)(void *arg), void *arg);
/* Every request has been delivered before. */
void hr_dispatch_free(hr_dispatch *dispatch);

/* Give a request its deadline and its places, one for each name. HIRATE_ENOMEM: it has neither. */
int hr_dispatch_enqueue(hr_dispatch *dispatch, hr_request *request, const hr_name *names, int64_t deadline_ms);
/* 0, or HIRATE_ENOENT. */
int hr_dispatch_cancel(hr_dispatch *dispatch, uint64_t id);
/* At the end of a turn. */
void hr_dispatch_flush(hr_dispatch *dispatch);
/* Before callbacks run: send what fills a call, so that the server goes on meanwhile. Not where a deadline has passed:
 * the end of the turn answers what is late before it sends. */
void hr_dispatch_flush_full(hr_dispatch *dispatch);
/* Look after the connection, read what has arrived, then answer what is past its deadline. */
void hr_dispatch_tick(hr_dispatch *dispatch);
/* When hr_dispatch_tick() or hr_dispatch_flush() is next needed. */
int64_t hr_dispatch_due_us(const hr_dispatch *dispatch);
/* Answer everything pending with HIRATE_ECLOSED and end the connection. With `linger` this may take HR_LINGER_MS, in
 * which what is held and was not told is given back: it is over when `closed` is set, until then call it again whenever
 * the loop comes by. Not inside the link. */
void hr_dispatch_close(hr_dispatch *dispatch, bool linger);

#endif
