/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test support: the one promise that counts, checked from records. In any interval of the server's clock what was
 * admitted is at most capacity + rate * interval; exactly, in integers.
 *
 * bound_load writes records, one process each; bound_check reads the files of all together. Names are numbers, and each
 * number stands for a limit, so that both sides know it.
 */
#ifndef TESTS_BOUND_H
#define TESTS_BOUND_H

#include <hirate/hirate.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BOUND_NAMES 50

typedef struct bound_record {
    int64_t time_us; /* the server's */
    uint32_t cost;
    uint16_t name;
    uint8_t verdict; /* enum hirate_verdict; none: an error */
    uint8_t charge;  /* enum hirate_charge */
} bound_record;

/* The last record of a file: how many requests were submitted, and that the process came to its end. */
#define BOUND_END_NAME UINT16_MAX
bound_record bound_end(uint64_t submitted);

const hirate_limit *bound_limit(unsigned name); /* of a name below BOUND_NAMES */

/* The interval with the least room left, of all that begin and end with an admission. All in units: `p` of them are one
 * token and `n` return each microsecond. */
typedef struct bound_worst {
    bool any;        /* was anything admitted? */
    int64_t slack;   /* allowed - used; negative: the promise was broken */
    int64_t used;    /* admitted in that interval */
    int64_t allowed; /* capacity + rate * interval */
    int64_t length_us;
    int64_t p;
} bound_worst;

/* Check the records of one name (others are passed over); `records` must be sorted by time. O(count). */
bound_worst bound_check(const bound_record *records, size_t count, unsigned name, const hirate_limit *limit);

/* For qsort(): by time. */
int bound_by_time(const void *a, const void *b);

#endif
