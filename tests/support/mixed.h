/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test support: the limits of the mixed run, and what its clients record.
 *
 * mixed_load is one client; it records in a file that it maps, so that what it noted is there however it ends. A record
 * is begun before its request is submitted and finished in its callback, which it counts last. mixed_check reads the
 * files of all clients together.
 */
#ifndef TESTS_MIXED_H
#define TESTS_MIXED_H

#include <hirate/hirate.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MIXED_PAIRS 4             /* limits of one request, at most */
#define MIXED_NAMES 64            /* names under one limit, at most; each is a number below */
#define MIXED_RECORDS_MAX 400000u /* of one client; its file is sparse */
#define MIXED_HOLD_MOST_US 800000 /* the longest that a reservation is asked for */

typedef struct mixed_limit {
    hirate_limit limit;
    uint8_t names;      /* at one time */
    bool never_charged; /* a quota of which there are only reservations, never committed */
    bool may_not_deny;  /* so wide that it need not have denied anything */
} mixed_limit;

extern const mixed_limit MIXED_LIMITS[];
extern const size_t MIXED_LIMIT_COUNT;

/* How long anything that was taken once counts, at most. */
int64_t mixed_lasts_us(const hirate_limit *limit);

/* The end of the window of a quota, by the hour, that holds now. */
int64_t mixed_quota_end_us(const hirate_limit *limit, int64_t now_us);

const char *mixed_kind_name(const hirate_limit *limit);

/* What one of its limits said. */
typedef struct mixed_pair {
    uint8_t limit, name;
    uint8_t verdict; /* enum hirate_verdict; none: it did not say */
    bool took;       /* something was taken from it */
    bool permit;     /* and there is a permit for it */
    uint32_t remaining;
} mixed_pair;

typedef struct mixed_record {
    int64_t submitted_us; /* by the real clock, which is the server's, before it was submitted */
    int64_t time_us;      /* the server's, when it was decided; 0: unknown */
    uint64_t hold_us;     /* an acquire: to reserve of quotas; 0: charge */
    uint32_t cost;        /* of a commit the amount */
    uint32_t of;          /* with a permit: it is that of this record … */
    uint8_t of_pair;      /* … and of this of its pairs */
    uint8_t op;           /* enum hirate_op */
    uint8_t pair_count;   /* with a permit: 1 */
    uint8_t verdict, source, charge;
    uint8_t used, late, shadow_denied;
    int8_t error;
    uint16_t task; /* the client's own */
    mixed_pair pairs[MIXED_PAIRS];
    _Atomic uint8_t callbacks; /* how many came; 0: the rest of the answer is not there */
} mixed_record;

typedef struct mixed_file {
    _Atomic uint32_t count;
    _Atomic bool ended;  /* the client came to its end */
    _Atomic bool killed; /* it was killed instead, on purpose */
    mixed_record records[];
} mixed_file;

#define MIXED_FILE_SIZE (sizeof(mixed_file) + MIXED_RECORDS_MAX * sizeof(mixed_record))

/* Make the file, or map one that is there. Ends the program with a message if that fails. */
mixed_file *mixed_file_make(const char *path);
mixed_file *mixed_file_map(const char *path);

static inline bool mixed_has_permit(const mixed_record *r)
{
    return r->op != HIRATE_OP_ACQUIRE && r->op != HIRATE_OP_PEEK;
}

#endif
