/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault matrix: a scripted server between the client and a real one, which passes everything on until it is to
 * misbehave. */
#ifndef TESTS_FAULTS_RELAY_H
#define TESTS_FAULTS_RELAY_H

#include "stage.h"

#include "../support/fakeserver.h"

enum misdeed_mode {
    INSTEAD = 1,    /* the bytes come instead of the answer to a script call, which is not run */
    AHEAD,          /* before the right answer */
    BEHIND,         /* after it */
    AT_ACCEPT,      /* before anything was asked */
    IN_GREETING,    /* instead of the answers to the greeting */
    FLOOD,          /* 3 MiB without an end of the line */
    SHORTER,        /* the right answer in a string whose length is one too small */
    LONGER,         /* … too great */
    SLOWLY,         /* the right answer, byte by byte */
    SPLIT,          /* the right answer in two pieces, at another byte each time */
    LATE,           /* the right answer, after the deadline */
    CLOSE_ACCEPTED, /* close … at once */
    CLOSE_HALF_READ,
    CLOSE_READ,
    CLOSE_RUN, /* the real server has answered */
    CLOSE_HALF_SAID,
    CLOSE_SAID
};

typedef struct misdeed {
    enum misdeed_mode mode;
    const char *bytes;
    size_t len;       /* 0: strlen(bytes) */
    int64_t lasts_ms; /* 0: 400 */
} misdeed;

typedef struct relay {
    stage *s;
    const misdeed *deed;
    server *redis;
    fakeserver *fake;
    _Atomic int bad;   /* misbehave */
    _Atomic int split; /* SPLIT: where, the next time; the whole length has been gone through at `whole` */
    _Atomic int whole;
} relay;

void relay_start(relay *r, stage *s, const misdeed *deed, bool tcp);
void relay_stop(relay *r);

#endif
