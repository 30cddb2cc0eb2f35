/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hirate: asynchronous, distributed rate limiting on Redis.
 *
 * One acquire asks "may NAME do this, at this COST, under this LIMIT?". It is submitted without blocking,
 * decided by a script on the Redis server's clock, and answered by exactly one callback from the caller's own
 * event loop.
 *
 * Threads: a client, its loop and everything submitted to it belong to one thread. Different clients may live
 * in different threads; the library has no global state.
 *
 * Return values: 0 or a negative HIRATE_E… code. From a call that takes a callback, 0 means exactly one
 * callback comes, later, from the loop, never inside the call; negative means none comes and nothing was
 * charged. What is wrong, and what would be accepted, is said by hirate_last_error() or the hirate_error that
 * was passed in.
 *
 * Structs that may grow begin with their size and a version; hirate_result, which only the library fills in, with its
 * size alone. Set them up with the macros and functions below and new fields will get their defaults; fields are only
 * ever appended, those of hirate_limit in place of its reserved words, so its size stays. hirate_rate and hirate_error
 * have neither and stay as they are.
 */
#ifndef HIRATE_H
#define HIRATE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HIRATE_API __attribute__((visibility("default")))
#else
#define HIRATE_API
#endif

#define HIRATE_VERSION "0.1.0"

/* ---------------------------------------------------------------------------------------------- constants -- */

#define HIRATE_NAME_MAX   1024 /* bytes in a name; 0 is allowed, and any byte is */
#define HIRATE_POLICY_MAX 64   /* bytes in a policy name or prefix: [A-Za-z0-9._-], at least one */
#define HIRATE_POLICY_SIZE (HIRATE_POLICY_MAX + 1)
#define HIRATE_COST_MAX   UINT64_C(9007199254740991) /* 2^53 - 1 */
#define HIRATE_LOG_MAX    8192                       /* the largest limit of a sliding log */
#define HIRATE_HOLDS_MAX  8192                       /* leases or reservations that one name holds at once, at most */
#define HIRATE_PAIRS_MAX  16                         /* limits that one request names, at most */
#define HIRATE_PERMIT_MAX 2047                       /* bytes in a permit: [A-Za-z0-9_-] */
#define HIRATE_PERMIT_SIZE (HIRATE_PERMIT_MAX + 1)
#define HIRATE_NEVER      INT64_MAX                  /* retry_after_ms: no waiting helps */
#define HIRATE_REASON_MAX 255                        /* bytes in a reason or an error text */

/* Every error, returned by a call or found in hirate_result.error. */
enum hirate_error_code {
    HIRATE_OK = 0,
    HIRATE_EINVAL = -1,    /* an argument is wrong; the text names it and what is accepted */
    HIRATE_ENOMEM = -2,    /* no memory */
    HIRATE_ELOOP = -3,     /* the event loop refused a watch, timer or deferred call */
    HIRATE_ECLOSED = -4,   /* the client is closing or closed */
    HIRATE_ECANCELED = -5, /* hirate_cancel() */
    HIRATE_ENOENT = -6,    /* no pending request has this id: it was answered, or never was. Of a commit: its
                              reservation is gone although its time is not over; charge = no */
    HIRATE_EOVERLOAD = -7, /* max_pending requests are pending; try again after on_room */
    HIRATE_EDEADLINE = -8, /* no answer within the deadline; charge = maybe if it was written to Redis, else no */
    HIRATE_ECONNECT = -9,  /* no usable connection within the deadline; charge = no */
    HIRATE_ELOST = -10,    /* the connection ended after the request was written; charge = maybe */
    HIRATE_EAUTH = -11,    /* Redis refused the credentials, the database or a permission; charge = no */
    HIRATE_ESTATE = -12,   /* a key holds something that is not this kind of limit's state; charge = no, or maybe where
                              that showed only after another of the request's keys had been written */
    HIRATE_EREDIS = -13,   /* Redis answered with an error; the reason begins with its text */
    HIRATE_EPROTOCOL = -14 /* what came back is not an answer of this library's scripts; charge = maybe */
};

enum hirate_kind { /* of a limit */
    HIRATE_KIND_INVALID = 0,
    HIRATE_KIND_TOKEN_BUCKET = 1,
    HIRATE_KIND_LEAKY_BUCKET = 2,
    HIRATE_KIND_FIXED_WINDOW = 3,
    HIRATE_KIND_QUOTA = 4,
    HIRATE_KIND_SLIDING_LOG = 5,
    HIRATE_KIND_SLIDING_WINDOW = 6,
    HIRATE_KIND_CONCURRENCY = 7
};

enum hirate_per { /* the windows of a quota */
    HIRATE_PER_NONE = 0,
    HIRATE_PER_HOUR = 1,
    HIRATE_PER_DAY = 2,
    HIRATE_PER_WEEK = 3, /* from Monday */
    HIRATE_PER_MONTH = 4
};

enum hirate_op { /* of a request */
    HIRATE_OP_INVALID = 0,
    HIRATE_OP_ACQUIRE = 1, /* take `cost` if there is room for it */
    HIRATE_OP_PEEK = 2,    /* answer as an acquire would, taking and writing nothing */
    HIRATE_OP_RESET = 3,   /* forget what was used, leases and reservations too */
    /* With a permit: */
    HIRATE_OP_RELEASE = 4, /* a lease: its units come back */
    HIRATE_OP_RENEW = 5,   /* a lease: it ends its whole lease time from now */
    HIRATE_OP_COMMIT = 6,  /* a reservation: charge the actual amount, `cost`, in its stead */
    HIRATE_OP_REFUND = 7   /* a reservation: charge nothing */
};

enum hirate_verdict {
    HIRATE_VERDICT_NONE = 0, /* an error, a reset, a release or a refund */
    HIRATE_ALLOWED = 1,
    HIRATE_DENIED = 2
};

enum hirate_source { /* who decided */
    HIRATE_SOURCE_NONE = 0,
    HIRATE_SOURCE_REDIS = 1,
    HIRATE_SOURCE_LOCAL = 2,      /* this process: the local engine, on_failure's local share, or, where Redis could not
                                     answer, a cost above the capacity or limit (denied, HIRATE_NEVER) */
    HIRATE_SOURCE_CACHE = 3,      /* this client, which remembered a denial by Redis */
    HIRATE_SOURCE_FAIL_OPEN = 4,  /* Redis could not answer, and the limit says: allow */
    HIRATE_SOURCE_FAIL_CLOSED = 5 /* Redis could not answer, and the limit says: deny */
};

/* What becomes of an acquire that Redis cannot answer. All other requests get the error whatever this says. */
enum hirate_on_failure {
    HIRATE_ON_FAILURE_ERROR = 0,  /* no verdict: the caller decides */
    HIRATE_ON_FAILURE_OPEN = 1,   /* allowed, remaining 0: admits without bound while Redis is away */
    HIRATE_ON_FAILURE_CLOSED = 2, /* denied until the client asks Redis again (retry_after_ms) */
    HIRATE_ON_FAILURE_LOCAL = 3   /* decided in this process by local_share of the limit (a bucket's capacity and rate,
                                     a window's limit): each process admits at most that share, beside what Redis
                                     admitted */
};

enum hirate_charge { /* was the cost taken? */
    HIRATE_CHARGE_NO = 0,
    HIRATE_CHARGE_YES = 1,
    HIRATE_CHARGE_MAYBE = 2 /* it was written and no answer came; only of what takes something */
};

/* --------------------------------------------------------------------------------------------------- limits -- */

/* `tokens` every `period_us` microseconds, refilled continuously. Each 1 … 2^53-1. */
typedef struct hirate_rate {
    uint64_t tokens;
    uint64_t period_us;
} hirate_rate;

/*
 * A limit: what is allowed to each name. A plain constant; copied by every call that takes one and known by its
 * value, so it may be static, on the stack or built anew for each call. Initialise it with a macro below, a
 * hirate_limit_…() function or hirate_limit_parse(). Fields that its kind does not use are zero.
 *
 *     token bucket    capacity, rate                     takes a cost while there are tokens; they return at the rate
 *     leaky bucket    capacity, rate                     the same as a queue that drains at the rate: what is allowed
 *                                                        is told when its turn comes (delay_ms)
 *     fixed window    capacity, window_us                in each window; around an edge twice the limit may pass
 *     quota           capacity, per, offset_minutes      in each hour, day, week or month of the calendar
 *     sliding log     capacity, window_us                in any interval as long as the window; remembers each acquire
 *     sliding window  capacity, window_us                about the same from two counters: what the window before took
 *                                                        counts in proportion to how much of it still overlaps
 *     concurrency     capacity, lease_us                 held at once: each acquire is a lease that ends when it is
 *                                                        released, at the latest after lease_us
 */
typedef struct hirate_limit {
    uint32_t struct_size;
    uint16_t version;
    uint16_t kind;        /* enum hirate_kind */
    const char *policy;   /* its name: part of the Redis key. 1 … 64 of [A-Za-z0-9._-] */
    uint64_t capacity;    /* a bucket: most tokens it holds, and the largest burst: 0 … 2^52. A window: its limit L,
                             what may be used in it: 0 … 2^53-1; of a sliding log 0 … 8192; of a sliding window
                             0 … 2^52. Of concurrency what may be held at once: 0 … 2^53-1. 0 lets only cost 0 pass */
    hirate_rate rate;     /* a bucket: refill */
    uint32_t flags;       /* HIRATE_LIMIT_…, or 0 */
    uint32_t on_failure;  /* enum hirate_on_failure */
    uint32_t local_share_num, local_share_den; /* for HIRATE_ON_FAILURE_LOCAL: 1 <= num <= den <= 1000000; 0 with the
                                                  others. The share has floor(capacity·num/den) */
    uint64_t window_us;   /* fixed window, sliding log, sliding window: its length, 1 … 2^52 (142 years) */
    int32_t offset_minutes; /* quota: the calendar's offset from UTC, east positive: -1439 … 1439 */
    uint32_t per;         /* quota: enum hirate_per */
    uint64_t lease_us;    /* concurrency: how long a lease lasts, 1 … 2^52 */
    uint64_t reserved[3]; /* zero */
} hirate_limit;

/*
 * Remember denials: once Redis has denied a name with retry_after_ms, acquires of it that cost at least as much are
 * denied by the client itself, with the wait that remains (source = cache), until one millisecond before that time is
 * over; it is counted on the monotonic clock from when the call was written. A flood on a denied name then costs Redis
 * nothing.
 *
 * Such a denial is what Redis would answer too, unless meanwhile the name was reset by another client (a reset by this
 * one is noticed), the limit was raised by one with other values, the state was lost (flush, eviction, restart,
 * failover), or the server's clock was set forward. time_us is 0 in these results, remaining and reset_ms are as of the
 * denial.
 *
 * Only acquires under this limit alone are answered so, not those that name several or reserve; and of a quota's
 * denials only those are remembered that came while nothing was reserved. Refused with concurrency, whose leases may
 * end at any time, and with HIRATE_LIMIT_SHADOW.
 */
#define HIRATE_LIMIT_CACHE_DENIALS UINT32_C(1)

/*
 * A shadow limit never denies. It takes its cost where it has room and the other limits of the request allow, and what
 * it would have denied is told apart (hirate_result.shadow_denied, hirate_limit_result): for trying a limit out on live
 * traffic.
 */
#define HIRATE_LIMIT_SHADOW UINT32_C(2)

#define HIRATE_LIMIT_VERSION 1

/* 0, or a compile-time error (a negative array size) when `ok` is false. C11 and C++17. */
#define HIRATE_CHECK_(ok) (0 * sizeof(char[(ok) ? 1 : -1]))
#define HIRATE_POSITIVE_(n) ((uint64_t)(n) + HIRATE_CHECK_((n) > 0 && (n) <= INT64_C(9007199254740991)))
#define HIRATE_POSITIVE_U32_(n) ((uint32_t)(n) + (uint32_t)HIRATE_CHECK_((n) > 0 && (n) <= 1000000))
#define HIRATE_CAPACITY_(n) ((uint64_t)(n) + HIRATE_CHECK_((n) >= 0 && (n) <= INT64_C(4503599627370496)))
#define HIRATE_COUNT_(n) ((uint64_t)(n) + HIRATE_CHECK_((n) >= 0 && (n) <= INT64_C(9007199254740991)))
#define HIRATE_LOG_COUNT_(n) ((uint64_t)(n) + HIRATE_CHECK_((n) >= 0 && (n) <= HIRATE_LOG_MAX))
#define HIRATE_WINDOW_(w) ((uint64_t)(w) + HIRATE_CHECK_((w) > 0 && (w) <= INT64_C(4503599627370496)))
/* The length of window w in the coarsest ticks that it is a whole number of; 1 where w is out of range. */
#define HIRATE_TICKS_(w)                                                                                              \
    ((w) <= 0 ? 1 : (w) % 1000000 == 0 ? (w) / 1000000 : (w) % 1000 == 0 ? (w) / 1000 : (w))
#define HIRATE_SLIDING_COUNT_(n, w)                                                                                   \
    ((uint64_t)(n) + HIRATE_CHECK_((n) >= 0 && (n) <= INT64_C(4503599627370496) / HIRATE_TICKS_(w)))
#define HIRATE_OFFSET_(m) ((int32_t)(m) + (int32_t)HIRATE_CHECK_((m) >= -1439 && (m) <= 1439))
#define HIRATE_PER_(p) ((uint32_t)(p) + (uint32_t)HIRATE_CHECK_((p) >= HIRATE_PER_HOUR && (p) <= HIRATE_PER_MONTH))
#define HIRATE_LIMIT_SIZE_(name)                                                                                      \
    ((uint32_t)(sizeof(hirate_limit) + HIRATE_CHECK_(sizeof("" name) > 1 && sizeof("" name) <= HIRATE_POLICY_SIZE)))
#define HIRATE_LIMIT_HEAD_(name, kind) HIRATE_LIMIT_SIZE_(name), HIRATE_LIMIT_VERSION, kind, "" name

/* Durations in microseconds, from whole numbers of the unit. */
#define HIRATE_MICROSECONDS(n) (INT64_C(1) * (n))
#define HIRATE_MILLISECONDS(n) (INT64_C(1000) * (n))
#define HIRATE_SECONDS(n)      (INT64_C(1000000) * (n))
#define HIRATE_MINUTES(n)      (INT64_C(60000000) * (n))
#define HIRATE_HOURS(n)        (INT64_C(3600000000) * (n))
#define HIRATE_DAYS(n)         (INT64_C(86400000000) * (n))

/* A rate of `n` tokens a period, from constants. Zero, negative or above 2^53-1 does not compile. */
#define HIRATE_RATE(n, period) { HIRATE_POSITIVE_(n), HIRATE_POSITIVE_(period) }
#define HIRATE_PER_SECOND(n)   HIRATE_RATE(n, HIRATE_SECONDS(1))

/*
 * A token bucket: starts full with `cap` tokens, refills at `rate`, an acquire takes its cost or is denied.
 * `name` is a string literal of 1 … 64 bytes, `cap` a constant 0 … 2^52, `rate` HIRATE_RATE or
 * HIRATE_PER_SECOND; what breaks these does not compile. The rest is checked at first use (hirate_limit_check).
 *
 *     static const hirate_limit LOGINS =
 *         HIRATE_TOKEN_BUCKET("login", 20, HIRATE_RATE(1, HIRATE_SECONDS(3)));
 */
#define HIRATE_TOKEN_BUCKET(name, cap, rate)                                                                          \
    { HIRATE_LIMIT_HEAD_(name, HIRATE_KIND_TOKEN_BUCKET), HIRATE_CAPACITY_(cap), rate, 0, 0, 0, 0, 0, 0, 0,           \
      0, { 0, 0, 0 } }

/*
 * A leaky bucket, the same bucket used as a queue: what is allowed also gets delay_ms, when its turn comes if `rate` is
 * how fast it is worked off.
 */
#define HIRATE_LEAKY_BUCKET(name, cap, rate)                                                                          \
    { HIRATE_LIMIT_HEAD_(name, HIRATE_KIND_LEAKY_BUCKET), HIRATE_CAPACITY_(cap), rate, 0, 0, 0, 0, 0, 0, 0,           \
      0, { 0, 0, 0 } }

/*
 * A fixed window: `max` in each window of `window` (HIRATE_MINUTES(1), as above: constant microseconds, 1 … 2^52),
 * which begin at its multiples since 1970. `max` is a constant 0 … 2^53-1.
 */
#define HIRATE_FIXED_WINDOW(name, max, window)                                                                        \
    { HIRATE_LIMIT_HEAD_(name, HIRATE_KIND_FIXED_WINDOW), HIRATE_COUNT_(max), { 0, 0 }, 0, 0, 0, 0,                   \
      HIRATE_WINDOW_(window), 0, 0, 0, { 0, 0, 0 } }

/*
 * A quota: `max` in each calendar window: `per` is HIRATE_PER_HOUR, _DAY, _WEEK (from Monday) or _MONTH, at
 * `offset_minutes` from UTC: -1439 … 1439, 0 for UTC, 330 for +05:30. Offsets do not change with summer time.
 */
#define HIRATE_QUOTA(name, max, per, offset_minutes)                                                                  \
    { HIRATE_LIMIT_HEAD_(name, HIRATE_KIND_QUOTA), HIRATE_COUNT_(max), { 0, 0 }, 0, 0, 0, 0, 0,                       \
      HIRATE_OFFSET_(offset_minutes), HIRATE_PER_(per), 0, { 0, 0, 0 } }

/*
 * A sliding log: never more than `max` in any interval as long as `window`, exactly. `max` is a constant 0 … 8192:
 * every acquire that still counts is remembered.
 */
#define HIRATE_SLIDING_LOG(name, max, window)                                                                         \
    { HIRATE_LIMIT_HEAD_(name, HIRATE_KIND_SLIDING_LOG), HIRATE_LOG_COUNT_(max), { 0, 0 }, 0, 0, 0, 0,                \
      HIRATE_WINDOW_(window), 0, 0, 0, { 0, 0, 0 } }

/*
 * A sliding window: about the same from two counters. It takes what the window before used as spread evenly over it, so
 * it may admit more or less than `max` in an interval as long as `window`: never 2·max, and nearly so only where a
 * burst of `max` ends at an edge and as much again is taken while it fades over the next window, never at once.
 * Reckoned in ticks, the finest of 1 us, 1 ms, 1 s that divides `window` and keeps max·ticks <= 2^52; where none does
 * it does not compile.
 */
#define HIRATE_SLIDING_WINDOW(name, max, window)                                                                      \
    { HIRATE_LIMIT_HEAD_(name, HIRATE_KIND_SLIDING_WINDOW), HIRATE_SLIDING_COUNT_(max, window), { 0, 0 }, 0, 0, 0, 0, \
      HIRATE_WINDOW_(window), 0, 0, 0, { 0, 0, 0 } }

/*
 * Concurrency: at most `max` held at once, a constant 0 … 2^53-1, in at most HIRATE_HOLDS_MAX leases of a name. What is
 * acquired (hirate_result.permit names the lease) is held until it is released, or for `lease` (constant microseconds,
 * 1 … 2^52): so what a crashed holder held comes back.
 */
#define HIRATE_CONCURRENCY(name, max, lease)                                                                          \
    { HIRATE_LIMIT_HEAD_(name, HIRATE_KIND_CONCURRENCY), HIRATE_COUNT_(max), { 0, 0 }, 0, 0, 0, 0, 0, 0, 0,           \
      HIRATE_WINDOW_(lease), { 0, 0, 0 } }

/*
 * The same with more: `flags` HIRATE_LIMIT_… or 0, `on_failure` one of these:
 *     HIRATE_FAIL_ERROR, HIRATE_FAIL_OPEN, HIRATE_FAIL_CLOSED, HIRATE_FAIL_LOCAL(num, den)
 */
#define HIRATE_TOKEN_BUCKET_WITH(name, cap, rate, flags, on_failure)                                                  \
    { HIRATE_LIMIT_HEAD_(name, HIRATE_KIND_TOKEN_BUCKET), HIRATE_CAPACITY_(cap), rate, flags, on_failure, 0, 0, 0,    \
      0, { 0, 0, 0 } }
#define HIRATE_LEAKY_BUCKET_WITH(name, cap, rate, flags, on_failure)                                                  \
    { HIRATE_LIMIT_HEAD_(name, HIRATE_KIND_LEAKY_BUCKET), HIRATE_CAPACITY_(cap), rate, flags, on_failure, 0, 0, 0,    \
      0, { 0, 0, 0 } }
#define HIRATE_FIXED_WINDOW_WITH(name, max, window, flags, on_failure)                                                \
    { HIRATE_LIMIT_HEAD_(name, HIRATE_KIND_FIXED_WINDOW), HIRATE_COUNT_(max), { 0, 0 }, flags, on_failure,            \
      HIRATE_WINDOW_(window), 0, 0, 0, { 0, 0, 0 } }
#define HIRATE_QUOTA_WITH(name, max, per, offset_minutes, flags, on_failure)                                          \
    { HIRATE_LIMIT_HEAD_(name, HIRATE_KIND_QUOTA), HIRATE_COUNT_(max), { 0, 0 }, flags, on_failure, 0,                \
      HIRATE_OFFSET_(offset_minutes), HIRATE_PER_(per), 0, { 0, 0, 0 } }
#define HIRATE_SLIDING_LOG_WITH(name, max, window, flags, on_failure)                                                 \
    { HIRATE_LIMIT_HEAD_(name, HIRATE_KIND_SLIDING_LOG), HIRATE_LOG_COUNT_(max), { 0, 0 }, flags, on_failure,         \
      HIRATE_WINDOW_(window), 0, 0, 0, { 0, 0, 0 } }
#define HIRATE_SLIDING_WINDOW_WITH(name, max, window, flags, on_failure)                                              \
    { HIRATE_LIMIT_HEAD_(name, HIRATE_KIND_SLIDING_WINDOW), HIRATE_SLIDING_COUNT_(max, window), { 0, 0 }, flags,      \
      on_failure, HIRATE_WINDOW_(window), 0, 0, 0, { 0, 0, 0 } }
#define HIRATE_CONCURRENCY_WITH(name, max, lease, flags, on_failure)                                                  \
    { HIRATE_LIMIT_HEAD_(name, HIRATE_KIND_CONCURRENCY), HIRATE_COUNT_(max), { 0, 0 }, flags, on_failure, 0, 0, 0,    \
      HIRATE_WINDOW_(lease), { 0, 0, 0 } }
#define HIRATE_FAIL_ERROR  HIRATE_ON_FAILURE_ERROR, 0, 0
#define HIRATE_FAIL_OPEN   HIRATE_ON_FAILURE_OPEN, 0, 0
#define HIRATE_FAIL_CLOSED HIRATE_ON_FAILURE_CLOSED, 0, 0
#define HIRATE_FAIL_LOCAL(num, den)                                                                                   \
    HIRATE_ON_FAILURE_LOCAL, HIRATE_POSITIVE_U32_(num), (uint32_t)(den) + (uint32_t)HIRATE_CHECK_((den) >= (num))

/* What went wrong in a call: the code and one line of text naming the field and what is accepted. */
typedef struct hirate_error {
    int code;
    char text[HIRATE_REASON_MAX + 1];
} hirate_error;

/* Fill in *limit from run-time values. `policy` is kept as a pointer. Cannot fail; values are checked at use. */
HIRATE_API void hirate_limit_token_bucket(hirate_limit *limit, const char *policy, uint64_t capacity,
                                          hirate_rate rate);
HIRATE_API void hirate_limit_leaky_bucket(hirate_limit *limit, const char *policy, uint64_t capacity,
                                          hirate_rate rate);
HIRATE_API void hirate_limit_fixed_window(hirate_limit *limit, const char *policy, uint64_t max, uint64_t window_us);
HIRATE_API void hirate_limit_quota(hirate_limit *limit, const char *policy, uint64_t max, enum hirate_per per,
                                   int32_t offset_minutes);
HIRATE_API void hirate_limit_sliding_log(hirate_limit *limit, const char *policy, uint64_t max, uint64_t window_us);
HIRATE_API void hirate_limit_sliding_window(hirate_limit *limit, const char *policy, uint64_t max,
                                            uint64_t window_us);
HIRATE_API void hirate_limit_concurrency(hirate_limit *limit, const char *policy, uint64_t max, uint64_t lease_us);

/*
 * Check every field, also that all arithmetic stays exact (below 2^53). A bucket, with N/P reduced to n/p by their
 * greatest common divisor: 2·C·p <= 2^53, 1000·n <= 2^53 and 1000·C·p/n <= 2^63. A sliding window: limit·window <= 2^52
 * in some tick. 0, or HIRATE_EINVAL with *error naming the field (as in the text form below: a window's capacity is its
 * `limit`) and, where there is one, the nearest value that works. `error` may be NULL.
 */
HIRATE_API int hirate_limit_check(const hirate_limit *limit, hirate_error *error);

/*
 * Read a limit from text: `NAME ALGORITHM key=value …`, as in "login token-bucket capacity=20 rate=1/3s":
 *
 *     NAME token-bucket capacity=C rate=N/DURATION       NAME fixed-window limit=L window=DURATION
 *     NAME leaky-bucket capacity=C rate=N/DURATION       NAME sliding-log limit=L window=DURATION
 *     NAME quota limit=L per=hour|day|week|month         NAME sliding-window limit=L window=DURATION
 *         [offset=+HH:MM or -HH:MM]                      NAME concurrency limit=L lease=DURATION
 *
 * With any of them a further `cache-denials=yes` sets HIRATE_LIMIT_CACHE_DENIALS, `shadow=yes` sets
 * HIRATE_LIMIT_SHADOW, `on-failure=error|open|closed|local` on_failure, and `local-share=NUM/DEN` the share (1/1 if
 * left out). Durations are a whole number (1 if left out) and one of us ms s m h d. The name is stored in `policy`, to
 * which limit->policy then points. 0, or HIRATE_EINVAL (*error says why; *limit and policy are unchanged).
 */
HIRATE_API int hirate_limit_parse(const char *spec, hirate_limit *limit, char policy[HIRATE_POLICY_SIZE],
                                  hirate_error *error);

/* ---------------------------------------------------------------------------------------------- event loops -- */

enum hirate_events { HIRATE_READ = 1, HIRATE_WRITE = 2 };

typedef void hirate_ready_fn(void *arg, unsigned events); /* events: HIRATE_READ | HIRATE_WRITE, those ready */
typedef void hirate_due_fn(void *arg);

/*
 * What the library needs of an event loop. Filled in by an adapter (<hirate/adapters/…h>), or by you for a loop
 * of your own; copied by hirate_new(). `data` and what it points to must outlive the client.
 *
 * Each *_new returns a handle, or NULL when the loop refuses it (no memory, too many descriptors). Each *_set
 * returns 0 or a negative HIRATE_E… code. Each *_free stops and frees its handle; it may be called from inside
 * that handle's own callback, after whose return the adapter must not touch the handle. No callback may run
 * inside any of these functions.
 */
typedef struct hirate_loop {
    uint32_t struct_size;
    uint32_t version;
    void *data;

    /* Watch a descriptor, level-triggered. Starts with no events; `events` 0 pauses. Hang-up and error count as
     * every event asked for. The descriptor is still open when its watch is freed. */
    void *(*watch_new)(void *data, int fd, hirate_ready_fn *ready, void *arg);
    int (*watch_set)(void *watch, unsigned events);
    void (*watch_free)(void *watch);

    /* One shot, `delay_us` from now (0: next turn); setting it again replaces, negative disarms. Never early. */
    void *(*timer_new)(void *data, hirate_due_fn *due, void *arg);
    int (*timer_set)(void *timer, int64_t delay_us);
    void (*timer_free)(void *timer);

    /* Run once, after the callbacks that are due now and before the loop blocks again; setting it twice is
     * setting it once. May be set from anywhere in the loop's thread, also while the loop is not running. One that is
     * set inside a deferred call runs after the loop has looked at its descriptors again, without blocking. */
    void *(*defer_new)(void *data, hirate_due_fn *due, void *arg);
    int (*defer_set)(void *defer);
    void (*defer_free)(void *defer);
} hirate_loop;

#define HIRATE_LOOP_VERSION 1

/* -------------------------------------------------------------------------------------------------- clients -- */

typedef struct hirate hirate;
typedef struct hirate_result hirate_result;

/* The answer to one request. *result and what it points to are valid until the callback returns. The callback
 * may submit, cancel, reset, close or free, for the same client too. */
typedef void hirate_cb(hirate *h, const hirate_result *result, void *user);
typedef void hirate_closed_cb(void *user);
typedef void hirate_room_cb(hirate *h, void *user);

/* What one limit of a request said. In a denied request nothing was taken from any; one that had room says so
 * (allowed). struct_size is the library's own. */
typedef struct hirate_limit_result {
    uint32_t struct_size;
    enum hirate_verdict verdict; /* this limit's own. A shadow's too: denied means that it had no room, took nothing */
    int shadow;                  /* 1: HIRATE_LIMIT_SHADOW */
    uint32_t policy_kind;        /* enum hirate_kind */
    const char *policy;
    uint64_t remaining;          /* these as in hirate_result */
    int64_t retry_after_ms, reset_ms, delay_ms;
    const char *permit;          /* what was taken from this limit is a lease or a reservation: its permit; else "" */
} hirate_limit_result;

struct hirate_result {
    uint32_t struct_size;
    int error;              /* 0, or HIRATE_E…: then there is no verdict */
    enum hirate_op op;      /* what was asked */
    enum hirate_verdict verdict;
    enum hirate_source source;
    enum hirate_charge charge; /* yes: `cost` was taken. A denial, a peek and a cost of 0 take nothing */
    uint64_t id;            /* as hirate_submit() gave it; 0 from the local engine */
    uint64_t cost;          /* as submitted */
    uint64_t remaining;     /* whole tokens, or how much of the limit, left after this decision */
    int64_t retry_after_ms; /* denied: after exactly this wait the same request succeeds if nobody else takes
                               anything, a millisecond earlier it does not. HIRATE_NEVER: cost above the
                               capacity or limit, or a renewal of what has ended. Allowed: 0 */
    int64_t reset_ms;       /* until nothing that was taken counts any more, rounded up; the key expires then */
    int64_t delay_ms;       /* allowed by a leaky bucket: how long to wait before going on; else 0 */
    int64_t time_us;        /* the deciding clock, microseconds since 1970; 0: unknown */
    int used;               /* a reset: 1 if there was something to forget; a release or refund: 1 if it was held */
    const char *policy;     /* the limit's name; of several the one that bound: denied, the one to wait for longest;
                               allowed, the one with the least remaining */
    const char *reason;     /* an error or cause: fixed text, or at most 200 bytes from the server; otherwise "" */
    int cause;              /* a verdict without Redis (fail-open, fail-closed, local): the error that on_failure met;
                               `charge` is then of Redis. Otherwise 0 */
    const char *permit;     /* an acquire took a lease or made a reservation: its permit, NUL-terminated, [A-Za-z0-9_-];
                               of several limits the first such one's. Otherwise "" */
    int late;               /* a commit: 1 if the reservation's time or window was over, and the current window
                               was charged */
    uint32_t shadow_denied; /* how many shadow limits would have denied */
    uint32_t limit_count;   /* limits asked, 1 unless the request named more */
    const hirate_limit_result *limits; /* what each said, in the request's order. NULL where not all of them have: an
                                          error, fail-open, fail-closed, cache, local where only some decide locally;
                                          and where there is no verdict: a reset, release or refund. Use
                                          hirate_result_limit() */
};

/* What limit `i` said, from 0, in the order of the request; NULL: there is none (see hirate_result.limits). */
HIRATE_API const hirate_limit_result *hirate_result_limit(const hirate_result *result, uint32_t i);

/*
 * A name resolution under way. hirate_resolved() must be called exactly once for it, from the loop's thread, with
 * 0 and a list of addresses as getaddrinfo() makes them (port included; copied, the first 8 are used in order), or
 * with a negative HIRATE_E… code and NULL. It may come inside the resolve function, and after the client is gone.
 */
typedef struct hirate_resolution hirate_resolution;
struct addrinfo;
HIRATE_API void hirate_resolved(hirate_resolution *resolution, int rc, const struct addrinfo *addresses);
/* Start resolving `host` (valid during the call). 0: hirate_resolved() will be called or already was; negative:
 * it will not be. */
typedef int hirate_resolve_fn(void *user, const char *host, uint16_t port, hirate_resolution *resolution);

/* How a client works. Set up with hirate_options_init(), change what you like; copied by hirate_new(). */
typedef struct hirate_options {
    uint32_t struct_size;
    uint32_t version;
    const char *uri;            /* redis://[[user]:password@]host[:port][/db] (host also [IPv6]) or
                                   unix://[[user]:password@]/path.sock[?db=N]; user and password percent-encoded.
                                   Default redis://127.0.0.1:6379 */
    const char *prefix;         /* of every key, PREFIX:POLICY:NAME. Default "hirate" */
    int64_t deadline_ms;        /* of a request that names none: 1 … 86400000. Default 1000 */
    int64_t connect_timeout_ms; /* connect and greet: 1 … 86400000. Default 1000 */
    int64_t stall_timeout_ms;   /* replies owed and no byte moved for so long: reconnect. 1 … 86400000. Default 3000 */
    uint32_t max_pending;       /* requests waiting or in flight: 1 … 4194304. Default 65536 */
    uint32_t max_calls;         /* script calls in flight: 1 … 64; more than two only while full of distinct
                                   names. Default 6 */
    uint32_t max_call_keys;     /* keys (a name under a limit) one call decides: 1 … 256, or as many as one request is
                                   for; fewer while they repeat, so that what waits gathers. Default 128 */
    uint32_t max_call_acquires; /* requests one call decides: 1 … 1024. Default 1024 */
    uint32_t max_denials;       /* denials remembered, see HIRATE_LIMIT_CACHE_DENIALS: 1 … 4194304, rounded up to a
                                   power of two, at least 4. Default 65536 */
    uint32_t breaker_failures;  /* after so many failures in a row (attempts to connect, calls without an answer or
                                   with an error) what is submitted is answered at once, by on_failure, with the last
                                   failure as error or cause; now and then one request is let through as a probe, after
                                   50 ms at first and at most a second later on. 1 … 1000000. Default 5 */
    uint32_t max_local_keys;    /* names in use under limits of HIRATE_ON_FAILURE_LOCAL; past it further ones are
                                   denied. Each takes about 100 bytes and its key; one of a sliding log, with L its
                                   share of the limit, up to 40·L + 64 more, never above 160 KiB; one of concurrency 32
                                   to 80 more for each lease, never above 320 KiB (see the local engine).
                                   1 … 4194304. Default 65536 */
    hirate_room_cb *on_room;    /* after HIRATE_EOVERLOAD, once there is room for at least a quarter of
                                   max_pending; from the loop. NULL: none */
    hirate_resolve_fn *resolve; /* NULL: getaddrinfo() on a detached thread */
    void *user;                 /* for on_room and resolve */
} hirate_options;

#define HIRATE_OPTIONS_VERSION 1

/* A limit and the name it is asked for. */
typedef struct hirate_pair {
    const hirate_limit *limit;
    const void *name; /* any bytes; may be NULL when name_len is 0 */
    size_t name_len;  /* 0 … 1024 */
} hirate_pair;

/*
 * What is asked. Set up with hirate_request_init(); copied by hirate_submit(), limits, names and the permit too.
 *
 * Several limits (`more`): an acquire takes its cost from each of them or from none, decided in one step; a peek says
 * what such an acquire would. The same policy name with the same name twice is refused. The result is the whole's:
 * remaining is the smallest, retry_after_ms (HIRATE_NEVER above all), reset_ms and delay_ms are the largest of the
 * limits that are not shadows. Where all are shadows it is allowed, with remaining and reset_ms over them.
 *
 * Permits. An acquire under a concurrency limit takes a lease; under a quota with `hold_us` it makes a reservation: the
 * cost counts as used until it is committed (the actual amount is charged in its stead, more or less than reserved,
 * beyond the limit if need be), refunded, or its time or the quota's window is over. A cost of 0 takes neither, and has
 * no permit. The permit in the result stands for it: text that any process may keep, pass on and use, with a client of
 * whatever prefix on the same Redis; but where on_failure took it locally (source local), with this client only. It is
 * not a secret and not signed. What it says about the limit is as of the acquire. One that is no permit, or stands for
 * a reservation where a lease's is asked for or the other way round, is HIRATE_EINVAL at submission.
 *     release   used: 1 if it was held, 0 if it had ended
 *     renew     allowed, or denied (HIRATE_NEVER) if it had ended
 *     commit    allowed, and charged; late: the reservation had ended, the current window was charged. HIRATE_ENOENT:
 *               it is gone before its time: committed, refunded or reset; so an unanswered commit can be tried again
 *               within its time
 *     refund    used: 1 if it was there
 * An acquire that was written, but is answered before Redis' verdict comes (canceled, past its deadline, the connection
 * lost, the client closed), may have taken a lease or reservation: the client gives it back by itself if it can.
 */
typedef struct hirate_request {
    uint32_t struct_size;
    uint32_t version;
    enum hirate_op op;         /* default acquire */
    const hirate_limit *limit;
    const void *name;          /* any bytes; may be NULL when name_len is 0 */
    size_t name_len;           /* 0 … 1024 */
    uint64_t cost;             /* tokens, or units of the limit: 0 … 2^53-1; of a commit the amount to charge; not used
                                  by a reset, release, renew or refund. Default 1 */
    int64_t deadline_ms;       /* from submission, 1 … 86400000; 0 (default): the client's */
    hirate_cb *cb;             /* never NULL */
    void *user;
    const hirate_pair *more;   /* acquire, peek: further limits that must admit too, more_count of them. Default NULL */
    size_t more_count;         /* 0 … HIRATE_PAIRS_MAX - 1 */
    uint64_t hold_us;          /* acquire: reserve under the quotas among the limits, for so long, 1 … 2^52 us; there
                                  must be one. Under one that holds HIRATE_HOLDS_MAX reservations it is denied.
                                  0 (default): charge */
    const char *permit;        /* release, renew, commit, refund: the permit, NUL-terminated; limit and name are not
                                  used then. With any other operation NULL (default) */
} hirate_request;

#define HIRATE_REQUEST_VERSION 1

/* Counts since hirate_new(). submitted = answered + pending, always. */
typedef struct hirate_stats {
    uint32_t struct_size;
    uint32_t version;
    uint64_t submitted;  /* requests accepted */
    uint64_t answered;   /* callbacks run */
    uint64_t allowed;
    uint64_t denied;
    uint64_t errors;     /* answered with an error */
    uint64_t refused;    /* HIRATE_EOVERLOAD */
    uint64_t calls;      /* script calls written */
    uint64_t call_acquires; /* requests those calls decided or were to decide; calls and these include what the client
                               gives back by itself, which is counted nowhere else */
    uint64_t connects;   /* connections that came to stand */
    uint64_t pending;    /* accepted and not answered yet */
} hirate_stats;

#define HIRATE_STATS_VERSION 1

/* The same for one policy name, over all limits that share it. By what decided: redis, local, cache, fail-open and
 * fail-closed. A request over several limits counts with each of them by what it came to as a whole; but with a shadow
 * by what that said itself, where it was asked. */
typedef struct hirate_policy_stats {
    uint32_t struct_size;
    uint32_t version;
    uint64_t submitted;
    uint64_t allowed_redis, allowed_local, allowed_open;
    uint64_t denied_redis, denied_local, denied_cache, denied_closed;
    uint64_t errors;  /* answered without a verdict, for which an error was the reason */
    uint64_t maybe;   /* of all: charge = maybe */
    uint64_t resets;  /* done */
    uint64_t waiting; /* accepted and not answered yet */
    uint64_t permits; /* releases, renewals, commits and refunds done */
} hirate_policy_stats;

#define HIRATE_POLICY_STATS_VERSION 1

/* Fill in the defaults. Call through the macros, which pass the size the caller was compiled with. */
HIRATE_API void hirate_options_init_sized(hirate_options *options, size_t size);
HIRATE_API void hirate_request_init_sized(hirate_request *request, size_t size);
HIRATE_API void hirate_stats_init_sized(hirate_stats *stats, size_t size);
HIRATE_API void hirate_policy_stats_init_sized(hirate_policy_stats *stats, size_t size);
#define hirate_options_init(o) hirate_options_init_sized((o), sizeof *(o))
#define hirate_request_init(r) hirate_request_init_sized((r), sizeof *(r))
#define hirate_stats_init(s)   hirate_stats_init_sized((s), sizeof *(s))
#define hirate_policy_stats_init(s) hirate_policy_stats_init_sized((s), sizeof *(s))

/* Check every field, without connecting. 0, or HIRATE_EINVAL with *error (may be NULL) naming the field and what
 * is accepted, never a password. `options` NULL stands for the defaults. */
HIRATE_API int hirate_options_check(const hirate_options *options, hirate_error *error);

/*
 * Make a client on `loop` (copied) with `options` (NULL: defaults; copied). It connects once the loop runs, and
 * again by itself whenever the connection ends. 0 with *out set, or with *out unchanged HIRATE_EINVAL (`out` or `loop`
 * is NULL, the loop is of another size or version or lacks a function, or else hirate_options_check() says why),
 * HIRATE_ENOMEM or HIRATE_ELOOP. An unreachable server is no error here.
 */
HIRATE_API int hirate_new(hirate **out, const hirate_loop *loop, const hirate_options *options);

/*
 * Submit a request. 0: its callback comes exactly once; *id (may be NULL) names it for hirate_cancel().
 * HIRATE_EINVAL (hirate_last_error() names the field), HIRATE_EOVERLOAD, HIRATE_ECLOSED, HIRATE_ENOMEM or
 * HIRATE_ELOOP: no callback, nothing charged. May be called from any callback.
 * Requests for one (policy, name) take effect in the order of submission, except what had to be sent again.
 */
HIRATE_API int hirate_submit(hirate *h, const hirate_request *request, uint64_t *id);

/* Short for hirate_submit() with the client's deadline. */
HIRATE_API int hirate_acquire(hirate *h, const hirate_limit *limit, const void *name, size_t name_len, uint64_t cost,
                              hirate_cb *cb, void *user);
HIRATE_API int hirate_peek(hirate *h, const hirate_limit *limit, const void *name, size_t name_len, uint64_t cost,
                           hirate_cb *cb, void *user);
HIRATE_API int hirate_reset(hirate *h, const hirate_limit *limit, const void *name, size_t name_len, hirate_cb *cb,
                            void *user);

/* With a permit (see hirate_request; copied), short for hirate_submit() with the client's deadline.
 * `amount`: 0 … 2^53-1. */
HIRATE_API int hirate_release(hirate *h, const char *permit, hirate_cb *cb, void *user);
HIRATE_API int hirate_renew(hirate *h, const char *permit, hirate_cb *cb, void *user);
HIRATE_API int hirate_commit(hirate *h, const char *permit, uint64_t amount, hirate_cb *cb, void *user);
HIRATE_API int hirate_refund(hirate *h, const char *permit, hirate_cb *cb, void *user);

/* The decimal text of an integer, the name it stands for: hirate_acquire(h, &L, buf, hirate_name_u64(buf, id), …).
 * Returns the length; no NUL is written. */
#define HIRATE_NAME_INT_SIZE 20
HIRATE_API size_t hirate_name_u64(char buf[HIRATE_NAME_INT_SIZE], uint64_t value);
HIRATE_API size_t hirate_name_i64(char buf[HIRATE_NAME_INT_SIZE], int64_t value);

/* Give up on a pending request: its callback comes, later, with HIRATE_ECANCELED; charge = maybe if it was written
 * already and takes something, else no. HIRATE_ENOENT: it has been decided or answered already, or never was, or the
 * client is closing. HIRATE_ELOOP: the loop refused the deferred call, and nothing has changed. HIRATE_EINVAL: `h` is
 * NULL. */
HIRATE_API int hirate_cancel(hirate *h, uint64_t id);

/*
 * Close: everything pending is answered HIRATE_ECLOSED (charge as for cancel), later, from the loop; then on_closed
 * (may be NULL) runs, after which the client is gone. No reply is awaited, but for at most 100 ms those to what gives
 * back leases and reservations that nobody has been told of. Otherwise this on_closed does not run:
 * HIRATE_ECLOSED when already closing; HIRATE_ELOOP: the loop refused the deferred call, the client stays open and may
 * be closed again or freed; HIRATE_EINVAL: `h` is NULL.
 */
HIRATE_API int hirate_close(hirate *h, hirate_closed_cb *on_closed, void *user);

/*
 * Free now, for a loop that will not run again: everything pending is answered HIRATE_ECLOSED inside this call, then
 * an on_closed given before runs. Called from one of the client's callbacks it acts as hirate_close(). NULL is fine.
 */
HIRATE_API void hirate_free(hirate *h);

/* Why the last failed call on this client failed, one line; "" before any. Valid until the next call. */
HIRATE_API const char *hirate_last_error(const hirate *h);

/* *stats must have been set up with its init macro. */
HIRATE_API void hirate_get_stats(const hirate *h, hirate_stats *stats);
/* 0, or HIRATE_ENOENT: this client has not met the policy (or has met more than 4,096, and this one came after). */
HIRATE_API int hirate_get_policy_stats(const hirate *h, const char *policy, hirate_policy_stats *stats);

/* --------------------------------------------------------------------------------------------- local engine -- */

/*
 * The same limits decided in this process, at once, without Redis: for tests, simulations, single-process use.
 * Time is an argument, so any clock will do. One thread at a time. Memory is bounded by max_keys names in use, each
 * about 100 bytes and its key. Of a sliding log of limit L each has further 16 bytes for each time at which something
 * was taken that still counts, or with its room to grow at most 40·L + 64, and never more than 160 KiB. Of concurrency,
 * or a quota with reservations, each has 32 bytes for each lease or reservation it holds, or with its room to grow at
 * most 80·N + 64 if it has held N at once, and never more than 320 KiB. A full bucket, a window in which nothing
 * counts, and a name that holds nothing is forgotten, as it needs no memory.
 */
typedef struct hirate_local hirate_local;

/* max_keys: 1 … 2^31. 0, HIRATE_EINVAL or HIRATE_ENOMEM with *out unchanged. */
HIRATE_API int hirate_local_new(hirate_local **out, size_t max_keys);

/*
 * Decide `request` (its cb, user and deadline are not used) at now_us, microseconds since 1970, 0 … 2^53-1; it may
 * step back. 0 with *result filled in; of an acquire, peek or reset result->policy points to the limit's own text, what
 * else it points to is valid until the next call on `local`. Permits are this engine's own: they are no use to a
 * client, nor a client's here. HIRATE_EINVAL (error, which may be NULL, says why), HIRATE_EOVERLOAD (max_keys names are
 * in use), HIRATE_ESTATE (the name was used under a limit of the same policy name and another kind, and that still
 * counts: a reset forgets it), HIRATE_ENOENT (a commit whose reservation is gone before its time) or HIRATE_ENOMEM:
 * nothing was taken. result->struct_size must be set by hirate_result_init().
 */
HIRATE_API int hirate_local_decide(hirate_local *local, const hirate_request *request, int64_t now_us,
                                   hirate_result *result, hirate_error *error);
HIRATE_API void hirate_local_free(hirate_local *local);
HIRATE_API void hirate_result_init_sized(hirate_result *result, size_t size);
#define hirate_result_init(r) hirate_result_init_sized((r), sizeof *(r))

/* ---------------------------------------------------------------------------------------------- limits files -- */

/*
 * Limits read from a file: one limit a line, as hirate_limit_parse() reads it. Lines with nothing but spaces and tabs,
 * and those whose first other character is '#', are passed over; so is a carriage return at the end of a line. At most
 * 4,096 limits, no two of one name, in at most 1 MiB. One thread at a time; reading blocks.
 */
typedef struct hirate_limits hirate_limits;

/* Read the file at `path` (copied), all of it. 0 with *out set, to be freed; or with *out unchanged HIRATE_EINVAL,
 * *error (may be NULL) naming the file, line and field, or why it cannot be read, or HIRATE_ENOMEM. */
HIRATE_API int hirate_limits_load(hirate_limits **out, const char *path, hirate_error *error);
/* Read the same path again. 0: from now on these limits are the new ones, all of them. HIRATE_EINVAL or HIRATE_ENOMEM,
 * as above: nothing has changed. */
HIRATE_API int hirate_limits_reload(hirate_limits *limits, hirate_error *error);
/* The limit of this name, or NULL; and the i-th in the file's order, from 0, or NULL. Valid, with the name that it
 * points to, until the next successful reload or the free: look it up for each request, or copy both. */
HIRATE_API const hirate_limit *hirate_limits_find(const hirate_limits *limits, const char *policy);
HIRATE_API const hirate_limit *hirate_limits_at(const hirate_limits *limits, size_t i);
HIRATE_API void hirate_limits_free(hirate_limits *limits); /* NULL is fine */

/* -------------------------------------------------------------------------------------------------- naming -- */

/* Static texts; never NULL. */
HIRATE_API const char *hirate_strerror(int code);
HIRATE_API const char *hirate_verdict_name(enum hirate_verdict verdict); /* "allowed" "denied" "error" */
HIRATE_API const char *hirate_source_name(enum hirate_source source);    /* "redis" "local" "cache"
                                                                            "fail-open" "fail-closed" "none" */
HIRATE_API const char *hirate_charge_name(enum hirate_charge charge);    /* "yes" "no" "maybe" */
HIRATE_API const char *hirate_version(void);

#ifdef __cplusplus
}
#endif
#endif
