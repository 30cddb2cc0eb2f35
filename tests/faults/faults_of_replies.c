/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault matrix: a server whose answers are slow, wrong, refusals or no answers, or that hangs up in the middle. */
#include "relay.h"
#include "truth.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LASTS_MS 500
#define RETRY_MS 25 /* the shortest backoff: half of 50 ms */
#define CALLS 16    /* in flight at once, at most */

/* Neither connections nor what was refused for a while may come faster than the shortest backoff. */
static void check_pace(relay *r, int64_t lasts_ms, int connections, long repeated)
{
    static const char *const repeats[] = {"-LOADING", "-BUSY", "-NOSCRIPT"};
    long most = 3 + (long)(lasts_ms / RETRY_MS);

    if (connections > most)
        truth_red(&r->s->report, "%d connections in %lld ms", connections, (long long)lasts_ms);
    for (size_t i = 0; i < sizeof repeats / sizeof *repeats; i++)
        if (strncmp(r->deed->bytes, repeats[i], strlen(repeats[i])) == 0 && repeated > most * CALLS)
            truth_red(&r->s->report, "%ld calls in %lld ms, all refused", repeated, (long long)lasts_ms);
}

static void run_deed(stage *s, const fault *f)
{
    static relay r;
    const misdeed *m = f->arg;
    int64_t lasts_ms = stage_scaled(s, m->lasts_ms ? m->lasts_ms : LASTS_MS);
    relay_start(&r, s, m, strlen(f->name) % 2 != 0); /* some over TCP, some not */
    stage_open(s, fakeserver_uri(r.fake));
    stage_break(s);
    int64_t began_us = stage_now_us();
    int before = fakeserver_connections(r.fake);
    atomic_store(&r.bad, 1);
    stage_pass(s, lasts_ms);
    atomic_store(&r.bad, 0);
    int connections = fakeserver_connections(r.fake) - before;
    lasts_ms = (stage_now_us() - began_us) / 1000;
    stage_mend(s);
    check_pace(&r, lasts_ms, connections, atomic_load(&s->bitten));
    relay_stop(&r);
}

/* Until each byte of a reply has been the first of a second piece. */
static void run_split(stage *s, const fault *f)
{
    static relay r;
    s->load.max_call_keys = 4;
    relay_start(&r, s, f->arg, true);
    stage_open(s, fakeserver_uri(r.fake));
    stage_break(s);
    atomic_store(&r.bad, 1);
    for (int i = 0; i < 1000 && !atomic_load(&r.whole); i++)
        stage_pass(s, 10);
    if (!atomic_load(&r.whole))
        exit(1);
    atomic_store(&r.bad, 0);
    stage_mend(s);
    relay_stop(&r);
}

/* A hundred arrays, one in the other. */
#define NEST_10 "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"
#define NEST_100 NEST_10 NEST_10 NEST_10 NEST_10 NEST_10 NEST_10 NEST_10 NEST_10 NEST_10 NEST_10

#define DEED(mode, bytes) (&(const misdeed){mode, bytes, 0, 0})
#define DEED_FOR(mode, bytes, ms) (&(const misdeed){mode, bytes, 0, ms})
#define FAULT(name, felt, deed)                                                                                        \
    {                                                                                                                  \
        name, 0, felt, run_deed, deed                                                                                  \
    }

#define REFUSED (FELT_DEGRADED | FELT_UNCHARGED)

static const fault FAULTS[] = {
    FAULT("replies byte by byte", FELT_BITTEN, DEED(SLOWLY, "")),
    {"replies split at every byte", 0, FELT_BITTEN | FELT_UNSEEN, run_split, DEED(SPLIT, "")},
    FAULT("replies after the deadline", FELT_DEGRADED, DEED_FOR(LATE, "", 1000)),
    FAULT("garbage at accept", FELT_DEGRADED, DEED(AT_ACCEPT, "HTTP/1.1 400 Bad Request\r\n\r\n")),
    FAULT("garbage instead of a reply", FELT_DEGRADED, DEED(INSTEAD, "\x16\x03\x01\x02 nothing known\r\n")),
    FAULT("unsolicited reply at accept", FELT_DEGRADED, DEED(AT_ACCEPT, "+OK\r\n:1\r\n")),
    FAULT("unsolicited error at accept", FELT_DEGRADED, DEED(AT_ACCEPT, "-ERR max number of clients reached\r\n")),
    FAULT("unsolicited reply ahead", FELT_RECONNECT, DEED(AHEAD, ":1\r\n")),
    FAULT("unsolicited reply behind", FELT_RECONNECT, DEED(BEHIND, "$24\r\n012345678901234567890123\r\n")),
    FAULT("push ahead of a reply", FELT_RECONNECT, DEED(AHEAD, ">2\r\n$10\r\ninvalidate\r\n*-1\r\n")),
    FAULT("push behind a reply", FELT_RECONNECT, DEED(BEHIND, ">2\r\n$10\r\ninvalidate\r\n*-1\r\n")),
    FAULT("nil, status, integer, array", FELT_DEGRADED, DEED(INSTEAD, "$-1\r\n+OK\r\n:7\r\n*1\r\n:1\r\n")),
    FAULT("header of a 2 GB string", FELT_DEGRADED, DEED(INSTEAD, "$2000000000\r\nabc")),
    FAULT("header of 2147483647 elements", FELT_DEGRADED, DEED(INSTEAD, "*2147483647\r\n:1\r\n")),
    FAULT("header of a negative length", FELT_DEGRADED, DEED(INSTEAD, "$-2147483648\r\n")),
    FAULT("arrays nested a hundred deep", FELT_DEGRADED, DEED(INSTEAD, NEST_100 ":1\r\n")),
    FAULT("a line without end", FELT_DEGRADED, DEED(FLOOD, "")),
    FAULT("length one too small", FELT_DEGRADED, DEED(SHORTER, "")),
    FAULT("length one too great", FELT_DEGRADED, DEED(LONGER, "")),
    FAULT("closed when accepted", FELT_DEGRADED, DEED(CLOSE_ACCEPTED, "")),
    FAULT("closed with a call half read", FELT_DEGRADED, DEED(CLOSE_HALF_READ, "")),
    FAULT("closed with a call read", FELT_DEGRADED, DEED(CLOSE_READ, "")),
    FAULT("closed with a call run", FELT_DEGRADED, DEED(CLOSE_RUN, "")),
    FAULT("closed with a reply half said", FELT_DEGRADED, DEED(CLOSE_HALF_SAID, "")),
    FAULT("closed after a reply", FELT_RECONNECT, DEED(CLOSE_SAID, "")),
    FAULT("LOADING", REFUSED, DEED_FOR(INSTEAD, "-LOADING Redis is loading the dataset in memory\r\n", 800)),
    FAULT("BUSY", REFUSED, DEED_FOR(INSTEAD, "-BUSY Redis is busy running a script.\r\n", 800)),
    FAULT("OOM", REFUSED, DEED(INSTEAD, "-OOM command not allowed when used memory > 'maxmemory'.\r\n")),
    FAULT("READONLY", REFUSED, DEED(INSTEAD, "-READONLY You can't write against a read only replica.\r\n")),
    FAULT("NOAUTH", REFUSED, DEED(INSTEAD, "-NOAUTH Authentication required.\r\n")),
    FAULT("NOSCRIPT, always", REFUSED, DEED_FOR(INSTEAD, "-NOSCRIPT No matching script.\r\n", 800)),
    FAULT("an unknown error", FELT_DEGRADED, DEED(INSTEAD, "-SURPRISE nobody knows this one\r\n")),
    FAULT("greeting refused: LOADING", FELT_DEGRADED, DEED_FOR(IN_GREETING, "-LOADING Redis is loading\r\n", 800)),
    FAULT("greeting refused: NOAUTH", FELT_DEGRADED,
          DEED_FOR(IN_GREETING, "-NOAUTH Authentication required.\r\n", 800)),
};

const fault_list FAULTS_OF_REPLIES = {FAULTS, sizeof FAULTS / sizeof *FAULTS};
