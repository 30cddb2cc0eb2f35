/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault matrix: the limits the load uses, and what may be said about a request for one of them.
 */
#ifndef TESTS_FAULTS_TRUTH_H
#define TESTS_FAULTS_TRUTH_H

#include "stage.h"

#include "../support/bound.h"

#include <hirate/hirate.h>

enum { LIMIT_ERROR = 0, LIMIT_OPEN, LIMIT_CLOSED, LIMIT_LOCAL, LIMIT_LEDGER, LIMIT_RESET, LIMIT_WIDE, LIMITS };
enum { BOUNDED = LIMIT_LEDGER, NAMES = 4 }; /* the limits before LEDGER have their bound checked, name by name */

/* Each on_failure, small enough to be used up at once. LEDGER hardly refills: what was charged can be read off the
 * server. */
extern const hirate_limit TRUTH_LIMITS[LIMITS];

/* What was submitted. */
typedef struct asked {
    int64_t at_us;
    uint64_t id;
    uint32_t cost;
    uint16_t name;
    uint8_t limit;
    uint8_t op;
    uint8_t calls; /* callbacks */
} asked;

/* NULL, or what cannot be true about this result. */
const char *truth_lie(const asked *a, const hirate_result *r);

/* Admissions by Redis, each its own record; `name` is limit * NAMES + name. Sorts them. Fills in allowed, bound and
 * losses_seen, and says in `why` where `losses` do not suffice. */
void truth_check_bound(bound_record *records, size_t count, unsigned losses, report *out);

void truth_red(report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
