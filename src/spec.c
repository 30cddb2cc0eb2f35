/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: reads a limit from text, `NAME token-bucket capacity=C rate=N/DURATION` and optional keys.
 *
 * Strict, as a limit that is not quite the one that was meant does harm in silence: every word must be known, every
 * key given once, every number written in digits. Words are separated by spaces and tabs. The result is built apart
 * and handed over only when all of it has been checked.
 */
#include "duration.h"
#include "error.h"
#include "policy.h"

#include <inttypes.h>
#include <string.h>

#define SPEC_SYNTAX "NAME token-bucket capacity=C rate=N/DURATION [cache-denials=yes] [on-failure=error|open|closed|local [local-share=NUM/DEN]]"
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
    uint64_t capacity;
    hirate_rate rate;
    uint32_t flags;
    uint32_t on_failure;
    uint64_t share_num, share_den; /* 0: not given */
    unsigned seen; /* a bit for each of keys[] */
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

static int read_algorithm(word w, hirate_error *error)
{
    if (w.len == 0)
        return hr_fail(error, HIRATE_EINVAL, "algorithm: missing after the name; accepted: token-bucket");
    if (!word_is(w, "token-bucket"))
        return hr_fail(error, HIRATE_EINVAL, "algorithm: '%.*s' is not known; accepted: token-bucket", quote_len(w),
                       w.text);
    return 0;
}

static int read_capacity(spec *out, word value, hirate_error *error)
{
    if (!hr_number_parse(value.text, value.len, &out->capacity) || out->capacity > UINT64_C(1) << 52)
        return hr_fail(error, HIRATE_EINVAL,
                       "capacity: '%.*s' is not accepted; accepted: a whole number, 0 to %" PRIu64, quote_len(value),
                       value.text, UINT64_C(1) << 52);
    return 0;
}

static int read_rate(spec *out, word value, hirate_error *error)
{
    const char *slash = memchr(value.text, '/', value.len);
    size_t tokens_len = slash == NULL ? 0 : (size_t)(slash - value.text);

    if (slash == NULL || !hr_number_parse(value.text, tokens_len, &out->rate.tokens) || out->rate.tokens == 0 ||
        out->rate.tokens > HIRATE_COST_MAX ||
        !hr_duration_parse(slash + 1, value.len - tokens_len - 1, &out->rate.period_us))
        return hr_fail(error, HIRATE_EINVAL,
                       "rate: '%.*s' is not accepted; accepted: N/DURATION as 50/s, 1/3s, 7/13ms: N from 1, then a "
                       "whole number from 1 or none and us ms s m h d, both below 2^53",
                       quote_len(value), value.text);
    return 0;
}

static int read_cache_denials(spec *out, word value, hirate_error *error)
{
    if (!word_is(value, "yes"))
        return hr_fail(error, HIRATE_EINVAL, "cache-denials: '%.*s' is not accepted; accepted: yes, or leave it out",
                       quote_len(value), value.text);
    out->flags |= HIRATE_LIMIT_CACHE_DENIALS;
    return 0;
}

static int read_on_failure(spec *out, word value, hirate_error *error)
{
    static const char *const names[] = {"error", "open", "closed", "local"};

    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (word_is(value, names[i])) {
            out->on_failure = i; /* in the order of enum hirate_on_failure */
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

    if (slash == NULL || !hr_number_parse(value.text, num_len, &out->share_num) ||
        !hr_number_parse(slash + 1, value.len - num_len - 1, &out->share_den) || out->share_num == 0 ||
        out->share_num > out->share_den || out->share_den > 1000000)
        return hr_fail(error, HIRATE_EINVAL,
                       "local-share: '%.*s' is not accepted; accepted: NUM/DEN with 1 <= NUM <= DEN <= 1000000",
                       quote_len(value), value.text);
    return 0;
}

static const struct key {
    const char *name;
    const char *accepted;
    read_value_fn *read;
    bool optional;
} keys[] = {
    {"capacity", "capacity=C, a whole number of tokens from 0", read_capacity, false},
    {"rate", "rate=N/DURATION, as 50/s, 1/3s or 7/13ms", read_rate, false},
    {"cache-denials", "cache-denials=yes", read_cache_denials, true},
    {"on-failure", "on-failure=error|open|closed|local", read_on_failure, true},
    {"local-share", "local-share=NUM/DEN", read_local_share, true},
};
enum { KEYS = sizeof keys / sizeof keys[0] };

static int read_pair(spec *out, word w, hirate_error *error)
{
    const char *equals = memchr(w.text, '=', w.len);
    word name = {w.text, equals == NULL ? w.len : (size_t)(equals - w.text)};
    size_t i = 0;

    while (i < KEYS && !word_is(name, keys[i].name))
        i++;
    if (i == KEYS)
        return hr_fail(error, HIRATE_EINVAL, "'%.*s': unknown key; accepted: capacity, rate, cache-denials, on-failure, local-share", quote_len(name),
                       name.text);
    if (equals == NULL)
        return hr_fail(error, HIRATE_EINVAL, "%s: has no value; accepted: %s", keys[i].name, keys[i].accepted);
    if ((out->seen & 1U << i) != 0)
        return hr_fail(error, HIRATE_EINVAL, "%s: given twice; accepted: once", keys[i].name);
    out->seen |= 1U << i;
    word value = {equals + 1, w.len - name.len - 1};
    return keys[i].read(out, value, error);
}

static int read_spec(spec *out, const char *text, hirate_error *error)
{
    const char *rest = text;
    int rc = read_name(out, next_word(&rest), error);

    if (rc == 0)
        rc = read_algorithm(next_word(&rest), error);
    for (word w = next_word(&rest); rc == 0 && w.len > 0; w = next_word(&rest))
        rc = read_pair(out, w, error);
    for (size_t i = 0; rc == 0 && i < KEYS; i++)
        if (!keys[i].optional && (out->seen & 1U << i) == 0)
            rc = hr_fail(error, HIRATE_EINVAL, "%s: missing; accepted: %s", keys[i].name, keys[i].accepted);
    return rc;
}

int hirate_limit_parse(const char *text, hirate_limit *limit, char policy[HIRATE_POLICY_SIZE], hirate_error *error)
{
    spec out = {.capacity = 0};
    hirate_limit made;

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
    hirate_limit_token_bucket(&made, out.name, out.capacity, out.rate);
    made.flags = out.flags;
    made.on_failure = out.on_failure;
    made.local_share_num = (uint32_t)out.share_num;
    made.local_share_den = (uint32_t)out.share_den;
    if (made.on_failure == HIRATE_ON_FAILURE_LOCAL && out.share_den == 0)
        made.local_share_num = made.local_share_den = 1;
    rc = hirate_limit_check(&made, error);
    if (rc != 0)
        return rc;
    memcpy(policy, out.name, sizeof out.name);
    made.policy = policy;
    *limit = made;
    return 0;
}
