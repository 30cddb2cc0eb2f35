/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * script: what an error reply to a call means; see refusal.h.
 *
 * The script makes every check of a key before that key's write, raises what its first write raises, and from then on takes
 * what is refused as the answer for that key alone. So each code listed here was answered with nothing charged. A code that is
 * not listed may have come from anywhere: maybe.
 */
#include "refusal.h"

#include <stdbool.h>
#include <string.h>

typedef struct known {
    const char *prefix; /* of the error's text */
    hr_refusal refusal;
} known;

/* All of them: charge = no. */
static const known TABLE[] = {
    {.prefix = "NOSCRIPT", .refusal = {.action = HR_REFUSAL_LOAD, .error = HIRATE_EREDIS}},
    {.prefix = "LOADING", .refusal = {.action = HR_REFUSAL_WAIT, .error = HIRATE_EREDIS}},
    {.prefix = "BUSY", .refusal = {.action = HR_REFUSAL_WAIT, .error = HIRATE_EREDIS}},
    {.prefix = "TRYAGAIN", .refusal = {.action = HR_REFUSAL_WAIT, .error = HIRATE_EREDIS}},
    {.prefix = "READONLY", .refusal = {.action = HR_REFUSAL_RECONNECT, .error = HIRATE_EREDIS}},
    {.prefix = "MASTERDOWN", .refusal = {.action = HR_REFUSAL_RECONNECT, .error = HIRATE_EREDIS}},
    {.prefix = "NOAUTH", .refusal = {.action = HR_REFUSAL_RECONNECT, .error = HIRATE_EAUTH}},
    {.prefix = "WRONGPASS", .refusal = {.action = HR_REFUSAL_RECONNECT, .error = HIRATE_EAUTH}},
    {.prefix = "NOPERM", .refusal = {.action = HR_REFUSAL_ANSWER, .error = HIRATE_EAUTH}},
    /* NOPERM as it is said from inside a script: by Redis 7.0, and from 7.2 on and by Valkey */
    {.prefix = "ERR The user executing the script", .refusal = {.action = HR_REFUSAL_ANSWER, .error = HIRATE_EAUTH}},
    {.prefix = "ERR ACL failure in script", .refusal = {.action = HR_REFUSAL_ANSWER, .error = HIRATE_EAUTH}},
    {.prefix = "OOM", .refusal = {.action = HR_REFUSAL_ANSWER, .error = HIRATE_EREDIS}},
    {.prefix = "MISCONF", .refusal = {.action = HR_REFUSAL_ANSWER, .error = HIRATE_EREDIS}},
    {.prefix = "NOREPLICAS", .refusal = {.action = HR_REFUSAL_ANSWER, .error = HIRATE_EREDIS}},
    {.prefix = "MOVED", .refusal = {.action = HR_REFUSAL_ANSWER, .error = HIRATE_EREDIS}},
    {.prefix = "ASK", .refusal = {.action = HR_REFUSAL_ANSWER, .error = HIRATE_EREDIS}},
    {.prefix = "CROSSSLOT", .refusal = {.action = HR_REFUSAL_ANSWER, .error = HIRATE_EREDIS}},
    {.prefix = "CLUSTERDOWN", .refusal = {.action = HR_REFUSAL_ANSWER, .error = HIRATE_EREDIS}},
    {.prefix = "WRONGTYPE", .refusal = {.action = HR_REFUSAL_ANSWER, .error = HIRATE_ESTATE}},
    {.prefix = "ERR unknown command", .refusal = {.action = HR_REFUSAL_ANSWER, .error = HIRATE_EREDIS}},
    {.prefix = "ERR Unknown Redis command called from", .refusal = {.action = HR_REFUSAL_ANSWER, .error = HIRATE_EREDIS}},
    {.prefix = "ERR This Redis command is not allowed from", .refusal = {.action = HR_REFUSAL_ANSWER, .error = HIRATE_EREDIS}},
    /* said at accept, before the server closes */
    {.prefix = "ERR max number of clients reached", .refusal = {.action = HR_REFUSAL_RECONNECT, .error = HIRATE_EREDIS}},
    {.prefix = "DENIED", .refusal = {.action = HR_REFUSAL_RECONNECT, .error = HIRATE_EREDIS}}, /* protected mode */
};

static const hr_refusal UNLISTED = {
    .action = HR_REFUSAL_ANSWER, .error = HIRATE_EREDIS, .charge = HIRATE_CHARGE_MAYBE};

static bool starts(const char *text, size_t len, const char *prefix)
{
    size_t n = strlen(prefix);
    if (len < n || memcmp(text, prefix, n) != 0)
        return false;
    /* a prefix that is one word is a whole word */
    return strchr(prefix, ' ') || len == n || text[n] == ' ';
}

/* Where the wrapped error of an old server begins, or `text` itself. */
static const char *unwrap(const char *text, size_t len)
{
    static const char WRAPPER[] = "ERR Error running script";
    const char *end = text + len;

    if (!starts(text, len, WRAPPER))
        return text;
    for (const char *at = text; end - at > 3; at++) {
        if (memcmp(at, ": -", 3) == 0)
            return at + 3;
    }
    /* without a code: "…: @user_script: 12: Unknown Redis command …" */
    const char *last = text;
    for (const char *at = text; end - at > 2; at++) {
        if (at[0] == ':' && at[1] == ' ')
            last = at + 2;
    }
    return last;
}

hr_refusal hr_refusal_of(const char *text, size_t len)
{
    const char *inner = unwrap(text, len);
    size_t inner_len = len - (size_t)(inner - text);
    bool wrapped = inner != text;

    for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++) {
        const char *prefix = TABLE[i].prefix;
        /* what an old server wraps has lost its "ERR " */
        bool lost = wrapped && strncmp(prefix, "ERR ", 4) == 0 && starts(inner, inner_len, prefix + 4);
        if (lost || starts(inner, inner_len, prefix))
            return TABLE[i].refusal;
    }
    return UNLISTED;
}

const char *hr_refusal_text(const char *text, size_t *len)
{
    static const char QUOTED[] = "with args beginning with";
    if (!*len)
        return text;
    const char *inner = unwrap(text, *len);
    *len -= (size_t)(inner - text);
    const char *quoted = memmem(inner, *len, QUOTED, sizeof QUOTED - 1);
    if (quoted)
        *len = (size_t)(quoted - inner);
    return inner;
}
