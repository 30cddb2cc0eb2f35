/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: a checked limit, ready to decide. Pure: no clock, no I/O, no memory of its own.
 *
 * Units of buckets. With N tokens every P microseconds and g = gcd(N, P): n = N/g, p = P/g. One token is p units, n
 * units return each microsecond, a full bucket holds full = capacity·p. Everything is an exact integer below 2^53, so
 * that the scripts, which compute in doubles, reach the same results.
 *
 * Windows are in microseconds, at most 2^52; with a clock below 2^52 (until 2112) every time, also that at which a
 * window ends, is an exact integer in a double. A sliding window's is in ticks too, so that capacity·window <= 2^52.
 */
#ifndef HR_POLICY_H
#define HR_POLICY_H

#include "hirate.h"

#include <stdbool.h>

#define HR_WINDOW_MAX (UINT64_C(1) << 52)

typedef struct hr_policy {
    uint64_t capacity; /* of a bucket: tokens; of a window: its limit; of concurrency: how much is held at once */
    /* buckets */
    uint64_t n;    /* units that return each microsecond */
    uint64_t p;    /* units in a token */
    uint64_t full; /* capacity * p <= 2^52 */
    /* concurrency */
    uint64_t lease_us; /* how long a lease lasts */
    /* windows */
    uint64_t window_us; /* its length; 0: a quota's */
    uint64_t tick_us;   /* sliding window: 1, 1000 or 1000000, a divisor of window_us */
    uint64_t window;    /* sliding window: window_us / tick_us; capacity * window <= 2^52 */
    int64_t offset_us;  /* quota: local time = UTC + this */
    uint16_t per;       /* quota: enum hirate_per */
    uint16_t kind;
    uint8_t name_len;
    char name[HIRATE_POLICY_SIZE];
} hr_policy;

/* Check `limit` (see hirate_limit_check) and compile it into *policy. 0, or HIRATE_EINVAL with *policy unchanged. */
int hr_policy_compile(hr_policy *policy, const hirate_limit *limit, hirate_error *error);

/* Is `text` 1 … 64 of [A-Za-z0-9._-]? For policy names and prefixes. */
int hr_policy_name_ok(const char *text);

/* "token-bucket" and so on, as in the text form of a limit; NULL: no kind this library knows. */
const char *hr_kind_name(unsigned kind);

/* Are two limits the same value? `a` has been compiled; `b` may be anything. */
bool hr_limit_same(const hirate_limit *a, const hirate_limit *b);

/* Do two limits decide alike? They may differ in name, flags and on_failure. */
bool hr_policy_decides_alike(const hr_policy *a, const hr_policy *b);

/* The limit that HIRATE_ON_FAILURE_LOCAL decides by: floor(capacity·num/den), and that share of a bucket's rate.
 * `limit` has been compiled. Its policy is the same pointer. */
hirate_limit hr_limit_local_share(const hirate_limit *limit);

/* The answer to one request, in the units of hirate_result. */
typedef struct hr_decision {
    enum hirate_verdict verdict;
    uint64_t remaining;
    int64_t retry_after_ms;
    int64_t reset_ms;
    int64_t delay_ms;
} hr_decision;

/* ceil(us / 1000), for us > 0: the milliseconds in which so many microseconds have passed; else 0. */
int64_t hr_wait_ms(int64_t us);

#endif
