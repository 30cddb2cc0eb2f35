/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: a checked limit, ready to decide. Pure: no clock, no I/O, no memory of its own.
 *
 * Units. With N tokens every P microseconds and g = gcd(N, P): n = N/g, p = P/g. One token is p units, n units
 * return each microsecond, a full bucket holds full = capacity·p. Everything is an exact integer below 2^53, so that
 * the scripts, which compute in doubles, reach the same results.
 */
#ifndef HR_POLICY_H
#define HR_POLICY_H

#include "hirate.h"

#include <stdbool.h>

typedef struct hr_policy {
    uint64_t capacity;
    uint64_t n;    /* units that return each microsecond */
    uint64_t p;    /* units in a token */
    uint64_t full; /* capacity * p <= 2^52 */
    uint16_t kind;
    uint8_t name_len;
    char name[HIRATE_POLICY_SIZE];
} hr_policy;

/* Check `limit` (see hirate_limit_check) and compile it into *policy. 0, or HIRATE_EINVAL with *policy unchanged. */
int hr_policy_compile(hr_policy *policy, const hirate_limit *limit, hirate_error *error);

/* Is `text` 1 … 64 of [A-Za-z0-9._-]? For policy names and prefixes. */
int hr_policy_name_ok(const char *text);

/* Are two limits the same value? `a` has been compiled; `b` may be anything. */
bool hr_limit_same(const hirate_limit *a, const hirate_limit *b);

/* The limit that HIRATE_ON_FAILURE_LOCAL decides by; `limit` has been compiled. Its policy is the same pointer. */
hirate_limit hr_limit_local_share(const hirate_limit *limit);

/* The answer to one request, in the units of hirate_result. */
typedef struct hr_decision {
    enum hirate_verdict verdict;
    uint64_t remaining;
    int64_t retry_after_ms;
    int64_t reset_ms;
    int64_t delay_ms;
} hr_decision;

#endif
