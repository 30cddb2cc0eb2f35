/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: checks a limit and reduces it to the units in which it is decided.
 *
 * The scripts compute in doubles, whose integers are exact up to 2^53. What they form is bounded like this:
 *
 *     full - units + lag   <= 2·C·p          <= 2^53   hence C <= 2^52 / p
 *     1000·n                                 <= 2^53   the units that return in a millisecond
 *     1000·C·p / n         <= 1000·2^52 / 1  <  2^63   a wait fits 64 bits; implied by the first, see below
 *
 *     now + window                           <= 2^53   hence window <= 2^52, for a clock that has not passed 2^52
 *     used + cost                                      is not formed: cost is compared with limit - used
 *     now + lease, now + hold                <= 2^53   as for windows
 *     limit·window in ticks                  <= 2^52   of a sliding window: with weights that are products
 */
#include "policy.h"

#include "duration.h"
#include "error.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

__extension__ typedef unsigned __int128 u128;

#define FLAGS_KNOWN (HIRATE_LIMIT_CACHE_DENIALS | HIRATE_LIMIT_SHADOW)
#define FULL_MAX (UINT64_C(1) << 52)
#define SHARE_MAX 1000000
#define RATE_MAX HIRATE_COST_MAX /* 2^53 - 1 */
#define RETURN_MAX ((UINT64_C(1) << 53) / 1000)

enum { OFFSET_MAX = 24 * 60 - 1 };

static const char *const kind_names[] = {
    [HIRATE_KIND_TOKEN_BUCKET] = "token-bucket", [HIRATE_KIND_LEAKY_BUCKET] = "leaky-bucket",
    [HIRATE_KIND_FIXED_WINDOW] = "fixed-window", [HIRATE_KIND_QUOTA] = "quota",
    [HIRATE_KIND_SLIDING_LOG] = "sliding-log",   [HIRATE_KIND_SLIDING_WINDOW] = "sliding-window",
    [HIRATE_KIND_CONCURRENCY] = "concurrency",
};
enum { KINDS = sizeof kind_names / sizeof kind_names[0] };

static_assert((u128)1000 * FULL_MAX <= (u128)1 << 63, "a wait of any bucket that is exact fits 64 bits");

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

const char *hr_kind_name(unsigned kind)
{
    return kind < KINDS ? kind_names[kind] : NULL;
}

static bool is_bucket(const hirate_limit *limit)
{
    return limit->kind == HIRATE_KIND_TOKEN_BUCKET || limit->kind == HIRATE_KIND_LEAKY_BUCKET;
}

int64_t hr_wait_ms(int64_t us)
{
    return us <= 0 ? 0 : us / 1000 + (us % 1000 != 0);
}

int hr_policy_name_ok(const char *text)
{
    size_t len = 0;

    if (text == NULL)
        return 0;
    for (; text[len] != '\0'; len++) {
        char c = text[len];
        bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
                  c == '-';

        if (!ok || len == HIRATE_POLICY_MAX)
            return 0;
    }
    return len > 0;
}

/* --------------------------------------------------------------------------------------------- exactness -- */

static bool is_exact(hirate_rate rate, uint64_t capacity)
{
    uint64_t g = gcd(rate.tokens, rate.period_us);

    return rate.tokens / g <= RETURN_MAX && (u128)capacity * (rate.period_us / g) <= FULL_MAX;
}

/*
 * The nearest number of tokens with which a rate that returns too much is exact; 0 if there is none in reach. First
 * what is close by, where a common divisor with the period brings n down, then the most that each small divisor allows.
 */
static uint64_t nearest_tokens(hirate_rate rate, uint64_t capacity)
{
    enum { REACH = 2048, DIVISOR_MAX = 1000 }; /* N / RETURN_MAX is at most about 1000 */
    const uint64_t period_us = rate.period_us;
    const uint64_t asked = rate.tokens;

    for (uint64_t step = 1; step <= REACH; step++) {
        hirate_rate below = {asked - step, period_us};
        hirate_rate above = {asked + step, period_us};

        if (is_exact(below, capacity))
            return below.tokens;
        if (above.tokens <= RATE_MAX && is_exact(above, capacity))
            return above.tokens;
    }
    for (uint64_t divisor = DIVISOR_MAX; divisor > 0; divisor--) {
        hirate_rate most = {RETURN_MAX * divisor, period_us};

        if (period_us % divisor == 0 && most.tokens < asked && is_exact(most, capacity))
            return most.tokens;
    }
    return 0;
}

static int fail_rate(hirate_rate rate, uint64_t capacity, hirate_error *error)
{
    char text[HR_RATE_TEXT_SIZE];
    char near_text[HR_RATE_TEXT_SIZE];
    hirate_rate near = {nearest_tokens(rate, capacity), rate.period_us};

    hr_rate_format(text, rate);
    if (near.tokens == 0)
        return hr_fail(error, HIRATE_EINVAL,
                       "rate: %s returns too many tokens to stay exact; accepted: at most %" PRIu64
                       " tokens a microsecond",
                       text, RETURN_MAX);
    hr_rate_format(near_text, near);
    return hr_fail(error, HIRATE_EINVAL, "rate: %s returns too many tokens to stay exact; the nearest that works is %s",
                   text, near_text);
}

/* ------------------------------------------------------------------------------------------------- checks -- */

static int check_header(const hirate_limit *limit, hirate_error *error)
{
    if (limit == NULL)
        return hr_fail(error, HIRATE_EINVAL, "limit: is NULL; accepted: a limit");
    int rc = hr_struct_check("limit", limit, limit->struct_size, sizeof *limit, sizeof *limit, error);
    if (rc != 0)
        return rc;
    if (limit->version != HIRATE_LIMIT_VERSION)
        return hr_fail(error, HIRATE_EINVAL, "limit.version: %u is not known; accepted: %d", (unsigned)limit->version,
                       HIRATE_LIMIT_VERSION);
    if (hr_kind_name(limit->kind) == NULL)
        return hr_fail(error, HIRATE_EINVAL,
                       "limit.kind: %u is not known; accepted: 1 (token bucket) to %d (concurrency)",
                       (unsigned)limit->kind, (int)HIRATE_KIND_CONCURRENCY);
    if (limit->flags & ~FLAGS_KNOWN)
        return hr_fail(error, HIRATE_EINVAL,
                       "limit.flags: %#" PRIx32 "; accepted: HIRATE_LIMIT_CACHE_DENIALS, HIRATE_LIMIT_SHADOW or 0",
                       limit->flags);
    for (size_t i = 0; i < sizeof limit->reserved / sizeof limit->reserved[0]; i++)
        if (limit->reserved[i] != 0)
            return hr_fail(error, HIRATE_EINVAL, "limit.reserved: element %zu is %" PRIu64 "; accepted: 0", i,
                           limit->reserved[i]);
    return 0;
}

static int check_name(const hirate_limit *limit, hirate_error *error)
{
    if (limit->policy == NULL)
        return hr_fail(error, HIRATE_EINVAL, "policy: is NULL; accepted: 1 to 64 of A-Z a-z 0-9 . _ -");
    if (!hr_policy_name_ok(limit->policy))
        return hr_fail(error, HIRATE_EINVAL, "policy: '%.*s' is not a name; accepted: 1 to 64 of A-Z a-z 0-9 . _ -",
                       HIRATE_POLICY_SIZE, limit->policy);
    return 0;
}

static int check_bucket(const hirate_limit *limit, hirate_error *error)
{
    if (limit->capacity > FULL_MAX)
        return hr_fail(error, HIRATE_EINVAL, "capacity: %" PRIu64 " is too large; accepted: 0 to %" PRIu64,
                       limit->capacity, FULL_MAX);
    if (limit->rate.tokens == 0 || limit->rate.tokens > RATE_MAX)
        return hr_fail(error, HIRATE_EINVAL,
                       "rate: %" PRIu64 " tokens a period is out of range; accepted: 1 to %" PRIu64, limit->rate.tokens,
                       RATE_MAX);
    if (limit->rate.period_us == 0 || limit->rate.period_us > RATE_MAX)
        return hr_fail(error, HIRATE_EINVAL,
                       "rate: a period of %" PRIu64 " microseconds is out of range; accepted: 1 to %" PRIu64,
                       limit->rate.period_us, RATE_MAX);
    return 0;
}

static int check_count(const hirate_limit *limit, hirate_error *error)
{
    const uint64_t most = limit->kind == HIRATE_KIND_SLIDING_LOG ? HIRATE_LOG_MAX : HIRATE_COST_MAX;

    if (limit->capacity > most)
        return hr_fail(error, HIRATE_EINVAL, "limit: %" PRIu64 " is too large for a %s; accepted: 0 to %" PRIu64,
                       limit->capacity, hr_kind_name(limit->kind), most);
    return 0;
}

/* `name`: of the field. */
static int check_length(const char *name, uint64_t length_us, hirate_error *error)
{
    if (length_us == 0 || length_us > HR_WINDOW_MAX)
        return hr_fail(error, HIRATE_EINVAL, "%s: %" PRIu64 " microseconds is out of range; accepted: 1 to %" PRIu64,
                       name, length_us, HR_WINDOW_MAX);
    return 0;
}

static int check_calendar(const hirate_limit *limit, hirate_error *error)
{
    if (limit->per == HIRATE_PER_NONE || limit->per > HIRATE_PER_MONTH)
        return hr_fail(error, HIRATE_EINVAL, "per: %" PRIu32 " is not known; accepted: hour, day, week, month (1 to 4)",
                       limit->per);
    if (limit->offset_minutes < -OFFSET_MAX || limit->offset_minutes > OFFSET_MAX)
        return hr_fail(error, HIRATE_EINVAL,
                       "offset: %" PRId32 " minutes is out of range; accepted: -%d to %d (-23:59 to +23:59)",
                       limit->offset_minutes, (int)OFFSET_MAX, (int)OFFSET_MAX);
    return 0;
}

/* A field that the kind has no use for was meant for another kind. */
static int check_unused(const hirate_limit *limit, hirate_error *error)
{
    const bool quota = limit->kind == HIRATE_KIND_QUOTA, concurrency = limit->kind == HIRATE_KIND_CONCURRENCY;
    const bool bucket = is_bucket(limit), window = !bucket && !quota && !concurrency;
    const char *field = NULL;

    if (!bucket && (limit->rate.tokens != 0 || limit->rate.period_us != 0))
        field = "rate";
    else if (!window && limit->window_us != 0)
        field = "window";
    else if (!quota && limit->per != 0)
        field = "per";
    else if (!quota && limit->offset_minutes != 0)
        field = "offset";
    else if (!concurrency && limit->lease_us != 0)
        field = "lease";
    if (field != NULL)
        return hr_fail(error, HIRATE_EINVAL, "%s: given to a %s, which has none; accepted: 0", field,
                       hr_kind_name(limit->kind));
    return 0;
}

static int check_fields(const hirate_limit *limit, hirate_error *error)
{
    int rc = check_name(limit, error);

    if (rc != 0)
        return rc;
    if (is_bucket(limit)) {
        rc = check_bucket(limit, error);
    } else {
        rc = check_count(limit, error);
        if (rc == 0 && limit->kind == HIRATE_KIND_QUOTA)
            rc = check_calendar(limit, error);
        else if (rc == 0 && limit->kind == HIRATE_KIND_CONCURRENCY)
            rc = check_length("lease", limit->lease_us, error);
        else if (rc == 0)
            rc = check_length("window", limit->window_us, error);
    }
    return rc != 0 ? rc : check_unused(limit, error);
}

/* A remembered denial must be what Redis would say: not where units may come back at any time, nor where none is
 * meant. */
static int check_flags(const hirate_limit *limit, hirate_error *error)
{
    if ((limit->flags & HIRATE_LIMIT_CACHE_DENIALS) == 0)
        return 0;
    if (limit->kind == HIRATE_KIND_CONCURRENCY)
        return hr_fail(error, HIRATE_EINVAL,
                       "cache-denials: given to a concurrency limit, whose leases may end at any time; accepted: with "
                       "the other kinds only");
    if ((limit->flags & HIRATE_LIMIT_SHADOW) != 0)
        return hr_fail(error, HIRATE_EINVAL,
                       "cache-denials: given with shadow, which never denies; accepted: one of the two");
    return 0;
}

static int check_on_failure(const hirate_limit *limit, hirate_error *error)
{
    bool local = limit->on_failure == HIRATE_ON_FAILURE_LOCAL;

    if (limit->on_failure > HIRATE_ON_FAILURE_LOCAL)
        return hr_fail(error, HIRATE_EINVAL,
                       "on-failure: %u is not known; accepted: error, open, closed, local (0 to 3)",
                       (unsigned)limit->on_failure);
    if (!local && (limit->local_share_num != 0 || limit->local_share_den != 0))
        return hr_fail(error, HIRATE_EINVAL, "local-share: given without on-failure=local; accepted: with it only");
    if (local && (limit->local_share_num == 0 || limit->local_share_num > limit->local_share_den ||
                  limit->local_share_den > SHARE_MAX))
        return hr_fail(error, HIRATE_EINVAL, "local-share: %u/%u; accepted: NUM/DEN with 1 <= NUM <= DEN <= %u",
                       (unsigned)limit->local_share_num, (unsigned)limit->local_share_den, (unsigned)SHARE_MAX);
    return 0;
}

/* The parts of compiling in which the arithmetic is bounded. */
static int compile_bucket(hr_policy *policy, const hirate_limit *limit, hirate_error *error)
{
    uint64_t g = gcd(limit->rate.tokens, limit->rate.period_us);

    policy->n = limit->rate.tokens / g;
    policy->p = limit->rate.period_us / g;
    if (policy->n > RETURN_MAX)
        return fail_rate(limit->rate, limit->capacity, error);
    if ((u128)limit->capacity * policy->p > FULL_MAX) {
        char text[HR_RATE_TEXT_SIZE];

        hr_rate_format(text, limit->rate);
        return hr_fail(error, HIRATE_EINVAL,
                       "capacity: %" PRIu64 " is too large for rate %s; the largest that stays exact is %" PRIu64,
                       limit->capacity, text, FULL_MAX / policy->p);
    }
    policy->full = limit->capacity * policy->p;
    return 0;
}

/* The finest tick of which the window is a whole number and in which limit·window is exact. */
static int compile_ticks(hr_policy *policy, const hirate_limit *limit, hirate_error *error)
{
    uint64_t largest = 0;

    for (uint64_t tick = 1; tick <= 1000000 && limit->window_us % tick == 0; tick *= 1000) {
        policy->tick_us = tick;
        policy->window = limit->window_us / tick;
        largest = HR_WINDOW_MAX / policy->window;
        if (limit->capacity <= largest)
            return 0;
    }
    char text[HR_DURATION_TEXT_SIZE];

    hr_duration_format(text, limit->window_us);
    return hr_fail(error, HIRATE_EINVAL,
                   "limit: %" PRIu64 " is too large for window %s; the largest that stays exact is %" PRIu64,
                   limit->capacity, text, largest);
}

static int compile(hr_policy *policy, const hirate_limit *limit, hirate_error *error)
{
    memset(policy, 0, sizeof *policy);
    policy->kind = limit->kind;
    policy->capacity = limit->capacity;
    policy->lease_us = limit->lease_us;
    policy->window_us = limit->window_us;
    policy->offset_us = INT64_C(60000000) * limit->offset_minutes;
    policy->per = (uint16_t)limit->per;
    policy->name_len = (uint8_t)strlen(limit->policy);
    memcpy(policy->name, limit->policy, policy->name_len);
    if (is_bucket(limit))
        return compile_bucket(policy, limit, error);
    return limit->kind == HIRATE_KIND_SLIDING_WINDOW ? compile_ticks(policy, limit, error) : 0;
}

/* Reduced as far as it goes; 0 tokens where it still does not fit. */
static hirate_rate share_of_rate(const hirate_limit *limit)
{
    uint64_t g = gcd(limit->local_share_num, limit->local_share_den);
    uint64_t num = limit->local_share_num / g, den = limit->local_share_den / g;
    uint64_t tokens = limit->rate.tokens, period = limit->rate.period_us;

    g = gcd(tokens, period);
    tokens /= g, period /= g;
    g = gcd(tokens, den);
    tokens /= g, den /= g;
    g = gcd(num, period);
    num /= g, period /= g;
    if ((u128)tokens * num > RATE_MAX || (u128)period * den > RATE_MAX)
        return (hirate_rate){0, 0};
    return (hirate_rate){tokens * num, period * den};
}

hirate_limit hr_limit_local_share(const hirate_limit *limit)
{
    hirate_limit share = *limit;

    share.struct_size = (uint32_t)sizeof share;
    share.flags = limit->flags & HIRATE_LIMIT_SHADOW;
    share.on_failure = HIRATE_ON_FAILURE_ERROR;
    share.local_share_num = share.local_share_den = 0;
    share.capacity = (uint64_t)((u128)limit->capacity * limit->local_share_num / limit->local_share_den);
    if (is_bucket(limit))
        share.rate = share_of_rate(limit);
    return share;
}

int hr_policy_compile(hr_policy *policy, const hirate_limit *limit, hirate_error *error)
{
    hr_policy made, of_share;
    int rc = check_header(limit, error);

    if (rc == 0)
        rc = check_fields(limit, error);
    if (rc == 0)
        rc = check_flags(limit, error);
    if (rc == 0)
        rc = check_on_failure(limit, error);
    if (rc == 0)
        rc = compile(&made, limit, error);
    if (rc == 0 && limit->on_failure == HIRATE_ON_FAILURE_LOCAL) {
        hirate_limit share = hr_limit_local_share(limit);
        if ((is_bucket(limit) && share.rate.tokens == 0) || compile(&of_share, &share, NULL) != 0)
            rc = hr_fail(error, HIRATE_EINVAL,
                         "local-share: %u/%u of this rate is not exact; accepted: a share with smaller numbers, as 1/1",
                         (unsigned)limit->local_share_num, (unsigned)limit->local_share_den);
    }
    if (rc == 0)
        *policy = made;
    return rc;
}

bool hr_limit_same(const hirate_limit *a, const hirate_limit *b)
{
    /* From capacity on there are only numbers, without gaps. */
    const size_t from = offsetof(hirate_limit, capacity);

    return b->struct_size == a->struct_size && b->version == a->version && b->kind == a->kind && b->policy != NULL &&
           memcmp((const char *)a + from, (const char *)b + from, sizeof *a - from) == 0 &&
           strcmp(a->policy, b->policy) == 0;
}

bool hr_policy_decides_alike(const hr_policy *a, const hr_policy *b)
{
    return a->kind == b->kind && a->capacity == b->capacity && a->n == b->n && a->p == b->p &&
           a->lease_us == b->lease_us && a->window_us == b->window_us && a->tick_us == b->tick_us &&
           a->offset_us == b->offset_us && a->per == b->per; /* from these follow the others */
}

int hirate_limit_check(const hirate_limit *limit, hirate_error *error)
{
    hr_policy policy;

    return hr_policy_compile(&policy, limit, error);
}
