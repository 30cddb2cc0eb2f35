/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: reads a limit from text, `NAME ALGORITHM key=value …`: which keys an algorithm has stands in algorithms[].
 *
 * Strict, as a limit that is not quite the one that was meant does harm in silence: every word must be known, every
 * key given once, every number written in digits. Words are separated by spaces and tabs. The result is built apart
 * and handed over only when all of it has been checked.
 */
#include "duration.h"
#include "error.h"
#include "policy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SPEC_SYNTAX "NAME ALGORITHM key=value ..., as in 'login token-bucket capacity=20 rate=1/3s'"
enum {
    SPEC_LEN_MAX = 4096,
    QUOTE_LEN_MAX = 64 /* bytes of a user's word that an error text repeats */
};

typedef struct word {
    const char *text;
    size_t len;
} word;

/* What was read so far, and what the text has given. */
typedef struct spec {
    char name[HIRATE_POLICY_SIZE];
    hirate_limit limit; /* its policy is not set yet */
    unsigned seen;      /* a bit for each of keys[] */
} spec;

typedef int read_value_fn(spec *out, word value, hirate_error *error);

static int quote_len(word w)
{
    return (int)(w.len < QUOTE_LEN_MAX ? w.len : QUOTE_LEN_MAX);
}

static bool word_is(word w, const char *text)
{
    return strlen(text) == w.len && memcmp(w.text, text, w.len) == 0;
}

/* The next word of *rest, which moves past it; empty at the end. */
static word next_word(const char **rest)
{
    word w;

    w.text = *rest + strspn(*rest, " \t");
    w.len = strcspn(w.text, " \t");
    *rest = w.text + w.len;
    return w;
}

/* -------------------------------------------------------------------------------------------------- fields -- */

static int read_name(spec *out, word w, hirate_error *error)
{
    if (w.len > 0 && w.len <= HIRATE_POLICY_MAX)
        memcpy(out->name, w.text, w.len);
    if (!hr_policy_name_ok(out->name))
        return hr_fail(error, HIRATE_EINVAL, "policy: '%.*s' is not a name; accepted: 1 to 64 of A-Z a-z 0-9 . _ -",
                       quote_len(w), w.text);
    return 0;
}

static int read_count(word value, const char *key, uint64_t most, uint64_t *count, hirate_error *error)
{
    if (!hr_number_parse(value.text, value.len, count) || *count > most)
        return hr_fail(error, HIRATE_EINVAL, "%s: '%.*s' is not accepted; accepted: a whole number, 0 to %" PRIu64, key,
                       quote_len(value), value.text, most);
    return 0;
}

static int read_capacity(spec *out, word value, hirate_error *error)
{
    return read_count(value, "capacity", UINT64_C(1) << 52, &out->limit.capacity, error);
}

static int read_limit(spec *out, word value, hirate_error *error)
{
    uint64_t most = out->limit.kind == HIRATE_KIND_SLIDING_LOG ? HIRATE_LOG_MAX : HIRATE_COST_MAX;

    return read_count(value, "limit", most, &out->limit.capacity, error);
}

static int read_rate(spec *out, word value, hirate_error *error)
{
    const char *slash = memchr(value.text, '/', value.len);
    size_t tokens_len = slash == NULL ? 0 : (size_t)(slash - value.text);
    hirate_rate *rate = &out->limit.rate;

    if (slash == NULL || !hr_number_parse(value.text, tokens_len, &rate->tokens) || rate->tokens == 0 ||
        rate->tokens > HIRATE_COST_MAX || !hr_duration_parse(slash + 1, value.len - tokens_len - 1, &rate->period_us))
        return hr_fail(error, HIRATE_EINVAL,
                       "rate: '%.*s' is not accepted; accepted: N/DURATION as 50/s, 1/3s, 7/13ms: N from 1, then a "
                       "whole number from 1 or none and us ms s m h d, both below 2^53",
                       quote_len(value), value.text);
    return 0;
}

static int read_length(word value, const char *key, uint64_t *length_us, hirate_error *error)
{
    if (!hr_duration_parse(value.text, value.len, length_us) || *length_us > HR_WINDOW_MAX)
        return hr_fail(error, HIRATE_EINVAL,
                       "%s: '%.*s' is not accepted; accepted: a duration as 1s, 90s, 7m: a whole number from 1 or "
                       "none and us ms s m h d, up to 2^52 us (52124d)",
                       key, quote_len(value), value.text);
    return 0;
}

static int read_window(spec *out, word value, hirate_error *error)
{
    return read_length(value, "window", &out->limit.window_us, error);
}

static int read_lease(spec *out, word value, hirate_error *error)
{
    return read_length(value, "lease", &out->limit.lease_us, error);
}

static int read_per(spec *out, word value, hirate_error *error)
{
    static const char *const names[] = {"hour", "day", "week", "month"};

    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (word_is(value, names[i])) {
            out->limit.per = HIRATE_PER_HOUR + i; /* in the order of enum hirate_per */
            return 0;
        }
    }
    return hr_fail(error, HIRATE_EINVAL, "per: '%.*s' is not known; accepted: hour, day, week, month", quote_len(value),
                   value.text);
}

static int read_offset(spec *out, word value, hirate_error *error)
{
    if (!hr_offset_parse(value.text, value.len, &out->limit.offset_minutes))
        return hr_fail(error, HIRATE_EINVAL,
                       "offset: '%.*s' is not accepted; accepted: +HH:MM or -HH:MM, as +05:30, up to 23:59",
                       quote_len(value), value.text);
    return 0;
}

static int read_flag(spec *out, word value, const char *key, uint32_t flag, hirate_error *error)
{
    if (!word_is(value, "yes"))
        return hr_fail(error, HIRATE_EINVAL, "%s: '%.*s' is not accepted; accepted: yes, or leave it out", key,
                       quote_len(value), value.text);
    out->limit.flags |= flag;
    return 0;
}

static int read_cache_denials(spec *out, word value, hirate_error *error)
{
    return read_flag(out, value, "cache-denials", HIRATE_LIMIT_CACHE_DENIALS, error);
}

static int read_shadow(spec *out, word value, hirate_error *error)
{
    return read_flag(out, value, "shadow", HIRATE_LIMIT_SHADOW, error);
}

static int read_on_failure(spec *out, word value, hirate_error *error)
{
    static const char *const names[] = {"error", "open", "closed", "local"};

    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (word_is(value, names[i])) {
            out->limit.on_failure = i; /* in the order of enum hirate_on_failure */
            return 0;
        }
    }
    return hr_fail(error, HIRATE_EINVAL, "on-failure: '%.*s' is not known; accepted: error, open, closed, local",
                   quote_len(value), value.text);
}

static int read_local_share(spec *out, word value, hirate_error *error)
{
    const char *slash = memchr(value.text, '/', value.len);
    size_t num_len = slash == NULL ? 0 : (size_t)(slash - value.text);
    uint64_t num, den;

    if (slash == NULL || !hr_number_parse(value.text, num_len, &num) ||
        !hr_number_parse(slash + 1, value.len - num_len - 1, &den) || num == 0 || num > den || den > 1000000)
        return hr_fail(error, HIRATE_EINVAL,
                       "local-share: '%.*s' is not accepted; accepted: NUM/DEN with 1 <= NUM <= DEN <= 1000000",
                       quote_len(value), value.text);
    out->limit.local_share_num = (uint32_t)num;
    out->limit.local_share_den = (uint32_t)den;
    return 0;
}

/* In the order in which missing ones are named. */
enum { CAPACITY, RATE, LIMIT, WINDOW, PER, OFFSET, LEASE, CACHE_DENIALS, SHADOW, ON_FAILURE, LOCAL_SHARE, KEYS };

static const struct key {
    const char *name;
    const char *accepted;
    read_value_fn *read;
} keys[KEYS] = {
    [CAPACITY] = {"capacity", "capacity=C, a whole number of tokens from 0", read_capacity},
    [RATE] = {"rate", "rate=N/DURATION, as 50/s, 1/3s or 7/13ms", read_rate},
    [LIMIT] = {"limit", "limit=L, a whole number from 0", read_limit},
    [WINDOW] = {"window", "window=DURATION, as 1s, 90s or 7m", read_window},
    [PER] = {"per", "per=hour|day|week|month", read_per},
    [OFFSET] = {"offset", "offset=+HH:MM or -HH:MM", read_offset},
    [LEASE] = {"lease", "lease=DURATION, as 30s or 5m", read_lease},
    [CACHE_DENIALS] = {"cache-denials", "cache-denials=yes", read_cache_denials},
    [SHADOW] = {"shadow", "shadow=yes", read_shadow},
    [ON_FAILURE] = {"on-failure", "on-failure=error|open|closed|local", read_on_failure},
    [LOCAL_SHARE] = {"local-share", "local-share=NUM/DEN", read_local_share},
};

#define BIT(key) (1U << (key))
#define ANY (BIT(CACHE_DENIALS) | BIT(SHADOW) | BIT(ON_FAILURE) | BIT(LOCAL_SHARE)) /* optional for every algorithm */

/* By kind; each is named as hr_kind_name() does. */
static const struct algorithm {
    unsigned required, optional; /* bits of keys[] */
} algorithms[] = {
    [HIRATE_KIND_TOKEN_BUCKET] = {BIT(CAPACITY) | BIT(RATE), ANY},
    [HIRATE_KIND_LEAKY_BUCKET] = {BIT(CAPACITY) | BIT(RATE), ANY},
    [HIRATE_KIND_FIXED_WINDOW] = {BIT(LIMIT) | BIT(WINDOW), ANY},
    [HIRATE_KIND_QUOTA] = {BIT(LIMIT) | BIT(PER), BIT(OFFSET) | ANY},
    [HIRATE_KIND_SLIDING_LOG] = {BIT(LIMIT) | BIT(WINDOW), ANY},
    [HIRATE_KIND_SLIDING_WINDOW] = {BIT(LIMIT) | BIT(WINDOW), ANY},
    [HIRATE_KIND_CONCURRENCY] = {BIT(LIMIT) | BIT(LEASE), ANY},
};
enum { ALGORITHMS = sizeof algorithms / sizeof algorithms[0] };

static void list_append(char *list, size_t size, const char *name)
{
    size_t len = strlen(list);

    (void)snprintf(list + len, size - len, "%s%s", len == 0 ? "" : ", ", name);
}

static int read_algorithm(spec *out, word w, hirate_error *error)
{
    char list[HIRATE_REASON_MAX] = "";

    for (unsigned kind = 1; kind < ALGORITHMS; kind++) {
        if (word_is(w, hr_kind_name(kind))) {
            out->limit.kind = (uint16_t)kind;
            return 0;
        }
        list_append(list, sizeof list, hr_kind_name(kind));
    }
    if (w.len == 0)
        return hr_fail(error, HIRATE_EINVAL, "algorithm: missing after the name; accepted: %s", list);
    return hr_fail(error, HIRATE_EINVAL, "algorithm: '%.*s' is not known; accepted: %s", quote_len(w), w.text, list);
}

/* A key this algorithm does not have: nobody's, or another's. */
static int fail_key(const spec *out, word name, hirate_error *error)
{
    const struct algorithm *algorithm = &algorithms[out->limit.kind];
    char list[HIRATE_REASON_MAX] = "";

    for (unsigned i = 0; i < KEYS; i++)
        if (((algorithm->required | algorithm->optional) & BIT(i)) != 0)
            list_append(list, sizeof list, keys[i].name);
    return hr_fail(error, HIRATE_EINVAL, "'%.*s': unknown key for %s; accepted: %s", quote_len(name), name.text,
                   hr_kind_name(out->limit.kind), list);
}

static int read_pair(spec *out, word w, hirate_error *error)
{
    const struct algorithm *algorithm = &algorithms[out->limit.kind];
    const char *equals = memchr(w.text, '=', w.len);
    word name = {w.text, equals == NULL ? w.len : (size_t)(equals - w.text)};
    unsigned i = 0;

    while (i < KEYS && !word_is(name, keys[i].name))
        i++;
    if (i == KEYS || ((algorithm->required | algorithm->optional) & BIT(i)) == 0)
        return fail_key(out, name, error);
    if (equals == NULL)
        return hr_fail(error, HIRATE_EINVAL, "%s: has no value; accepted: %s", keys[i].name, keys[i].accepted);
    if ((out->seen & BIT(i)) != 0)
        return hr_fail(error, HIRATE_EINVAL, "%s: given twice; accepted: once", keys[i].name);
    out->seen |= BIT(i);
    word value = {equals + 1, w.len - name.len - 1};
    return keys[i].read(out, value, error);
}

static int read_spec(spec *out, const char *text, hirate_error *error)
{
    const char *rest = text;
    int rc = read_name(out, next_word(&rest), error);

    if (rc == 0)
        rc = read_algorithm(out, next_word(&rest), error);
    for (word w = next_word(&rest); rc == 0 && w.len > 0; w = next_word(&rest))
        rc = read_pair(out, w, error);
    for (unsigned i = 0; rc == 0 && i < KEYS; i++)
        if ((algorithms[out->limit.kind].required & ~out->seen & BIT(i)) != 0)
            rc = hr_fail(error, HIRATE_EINVAL, "%s: missing; accepted: %s", keys[i].name, keys[i].accepted);
    return rc;
}

int hirate_limit_parse(const char *text, hirate_limit *limit, char policy[HIRATE_POLICY_SIZE], hirate_error *error)
{
    spec out = {.seen = 0};

    if (text == NULL || limit == NULL || policy == NULL)
        return hr_fail(error, HIRATE_EINVAL, "%s: is NULL; accepted: a pointer",
                       text == NULL ? "spec" : (limit == NULL ? "limit" : "policy"));
    if (strnlen(text, SPEC_LEN_MAX + 1) > SPEC_LEN_MAX)
        return hr_fail(error, HIRATE_EINVAL, "spec: longer than %d bytes; accepted: %s", (int)SPEC_LEN_MAX,
                       SPEC_SYNTAX);
    if (text[strspn(text, " \t")] == '\0')
        return hr_fail(error, HIRATE_EINVAL, "spec: is empty; accepted: %s", SPEC_SYNTAX);
    int rc = read_spec(&out, text, error);
    if (rc != 0)
        return rc;
    out.limit.struct_size = (uint32_t)sizeof out.limit;
    out.limit.version = HIRATE_LIMIT_VERSION;
    out.limit.policy = out.name;
    if (out.limit.on_failure == HIRATE_ON_FAILURE_LOCAL && out.limit.local_share_den == 0)
        out.limit.local_share_num = out.limit.local_share_den = 1;
    rc = hirate_limit_check(&out.limit, error);
    if (rc != 0)
        return rc;
    memcpy(policy, out.name, sizeof out.name);
    *limit = out.limit;
    limit->policy = policy;
    return 0;
}
