/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link: one connection to one server, kept standing.
 *
 * States
 *     WAITING     no connection; the next attempt is due at `due_us` (at once after hr_link_start)
 *     RESOLVING   a name is being resolved
 *     CONNECTING  a socket is connecting to addresses.list[next - 1]
 *     GREETING    AUTH, SELECT and ROLE are written, not all answered
 *     UP          calls can be sent
 *     CLOSED      only freeing is left
 * Each attempt ends in UP or, by an error or connect_timeout, in WAITING with a longer backoff (CONNECTING first tries
 * the next address). UP ends in WAITING when the connection ends or stalls.
 *
 * hiredis frees its context by itself, inside its own calls. So nothing here is freed or begun inside a hiredis
 * callback: these only take notes, and after each call into hiredis settle() looks at what became of the context.
 */
#ifndef HR_LINK_H
#define HR_LINK_H

#include "hirate.h"
#include "uri.h"

#include <stdbool.h>

typedef struct hr_link hr_link;

/* The part of a call that the link needs; embedded in the owner's. */
typedef struct hr_link_call {
    uint64_t end; /* bytes of output up to and with this call */
} hr_link_call;

typedef struct hr_link_reply {
    bool is_string; /* a bulk string: `data`. Neither: some other kind of reply */
    bool is_error;  /* an error: `data` is its text */
    const char *data;
    size_t len;
} hr_link_reply;

/*
 * What the owner is told. Inside reply, lost, up and down it may only ask the link (now, round trip, due, retry, is up),
 * and call hr_link_good and hr_link_abandon; inside settled, and only there, it may do everything, also free the link.
 */
typedef struct hr_link_events {
    /* One for each call sent, in order, each exactly once: its reply, or that none will come. */
    void (*reply)(void *arg, hr_link_call *call, const hr_link_reply *reply);
    void (*lost)(void *arg, hr_link_call *call, bool written); /* written: completely, so it may have been executed */
    void (*up)(void *arg);
    /* An attempt failed or the connection ended. HIRATE_ECONNECT: it may be different next time. Other codes: the
     * server answered and will not have us (HIRATE_EAUTH, HIRATE_EREDIS). */
    void (*down)(void *arg, int error, const char *reason);
    /* The loop called the link, and all of the above has been said. */
    void (*settled)(void *arg);
    /* Something is to be done in hr_link_tick(), soon; may come at any moment outside the link's own calls. */
    void (*wake)(void *arg);
} hr_link_events;

typedef struct hr_link_config {
    hr_uri uri; /* moved into the link */
    int64_t connect_timeout_us;
    int64_t stall_timeout_us;
    hirate_resolve_fn *resolve;
    void *resolve_user;
} hr_link_config;

/* 0 with *out set and config->uri taken over, or HIRATE_ENOMEM. `loop` must outlive the link. */
int hr_link_new(hr_link **out, const hirate_loop *loop, hr_link_config *config, const hr_link_events *events, void *arg);
/* Every call outstanding is reported lost, nothing else is. NULL is fine. */
void hr_link_free(hr_link *link);

bool hr_link_is_up(const hr_link *link);
/* The moment by which hr_link_tick() wants to be called; HR_CLOCK_FAR: none. */
int64_t hr_link_due_us(const hr_link *link);
/* When the next attempt to connect is due, or may be at the earliest while this connection is not over yet. */
int64_t hr_link_retry_us(const hr_link *link);
/* The clock as of the entry from the loop or the owner that is under way, or the last one. */
int64_t hr_link_now_us(const hr_link *link);
/* How long this connection's greeting took to be answered. */
int64_t hr_link_round_trip_us(const hr_link *link);
/* Do what is due. */
void hr_link_tick(hr_link *link, int64_t now_us);

/* Queue a call; only while up. 0: reply or lost will come. HIRATE_ENOMEM or HIRATE_ECONNECT: neither will. The command has a
 * NUL behind it. */
int hr_link_send(hr_link *link, hr_link_call *call, const char *command, size_t len, int64_t now_us);
/* Write what was queued, as far as the socket takes it. */
void hr_link_flush(hr_link *link, int64_t now_us);
/* Do what the socket is ready for, without blocking, above all read what has arrived; before deadlines are held against it. */
void hr_link_read_arrived(hr_link *link, int64_t now_us);
/* The server decided something: the backoff starts over. */
void hr_link_good(hr_link *link);
/* The connection is to end, with this reason; it does when the link settles. */
void hr_link_abandon(hr_link *link, int error, const char *reason);

#endif
