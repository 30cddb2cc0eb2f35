/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * script: what an error reply to a call means; see refusal.h.
 *
 * The script makes every check before its first write, and Redis refuses a script's writes (OOM, MISCONF, READONLY,
 * NOREPLICAS) at the first one. So each code listed here was answered with nothing charged. A code that is not listed
 * may have come from anywhere: maybe.
 */
#include "refusal.h"

#include <stdbool.h>
#include <string.h>

typedef struct known {
    const char *prefix; /* of the error's text */
    hr_refusal refusal;
} known;

#define NO HIRATE_CHARGE_NO

static const known TABLE[] = {
    {"NOSCRIPT", {HR_REFUSAL_LOAD, HIRATE_EREDIS, NO}},
    {"LOADING", {HR_REFUSAL_WAIT, HIRATE_EREDIS, NO}},
    {"BUSY", {HR_REFUSAL_WAIT, HIRATE_EREDIS, NO}},
    {"TRYAGAIN", {HR_REFUSAL_WAIT, HIRATE_EREDIS, NO}},
    {"READONLY", {HR_REFUSAL_RECONNECT, HIRATE_EREDIS, NO}},
    {"MASTERDOWN", {HR_REFUSAL_RECONNECT, HIRATE_EREDIS, NO}},
    {"NOAUTH", {HR_REFUSAL_RECONNECT, HIRATE_EAUTH, NO}},
    {"WRONGPASS", {HR_REFUSAL_RECONNECT, HIRATE_EAUTH, NO}},
    {"NOPERM", {HR_REFUSAL_ANSWER, HIRATE_EAUTH, NO}},
    /* NOPERM as it is said from inside a script: by Redis 7.0, and from 7.2 on and by Valkey */
    {"ERR The user executing the script", {HR_REFUSAL_ANSWER, HIRATE_EAUTH, NO}},
    {"ERR ACL failure in script", {HR_REFUSAL_ANSWER, HIRATE_EAUTH, NO}},
    {"OOM", {HR_REFUSAL_ANSWER, HIRATE_EREDIS, NO}},
    {"MISCONF", {HR_REFUSAL_ANSWER, HIRATE_EREDIS, NO}},
    {"NOREPLICAS", {HR_REFUSAL_ANSWER, HIRATE_EREDIS, NO}},
    {"MOVED", {HR_REFUSAL_ANSWER, HIRATE_EREDIS, NO}},
    {"ASK", {HR_REFUSAL_ANSWER, HIRATE_EREDIS, NO}},
    {"CROSSSLOT", {HR_REFUSAL_ANSWER, HIRATE_EREDIS, NO}},
    {"CLUSTERDOWN", {HR_REFUSAL_ANSWER, HIRATE_EREDIS, NO}},
    {"WRONGTYPE", {HR_REFUSAL_ANSWER, HIRATE_ESTATE, NO}},
    {"ERR unknown command", {HR_REFUSAL_ANSWER, HIRATE_EREDIS, NO}},
    {"ERR Unknown Redis command called from", {HR_REFUSAL_ANSWER, HIRATE_EREDIS, NO}},
    {"ERR This Redis command is not allowed from", {HR_REFUSAL_ANSWER, HIRATE_EREDIS, NO}},
    /* said at accept, before the server closes */
    {"ERR max number of clients reached", {HR_REFUSAL_RECONNECT, HIRATE_EREDIS, NO}},
    {"DENIED", {HR_REFUSAL_RECONNECT, HIRATE_EREDIS, NO}}, /* protected mode */
};

static const hr_refusal UNLISTED = {HR_REFUSAL_ANSWER, HIRATE_EREDIS, HIRATE_CHARGE_MAYBE};

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
    if (!len)
        return UNLISTED;
    const char *inner = unwrap(text, len);
    size_t inner_len = len - (size_t)(inner - text);

    for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++) {
        const char *prefix = TABLE[i].prefix;
        if (starts(inner, inner_len, prefix))
            return TABLE[i].refusal;
        /* what an old server wraps has lost its "ERR " */
        if (inner != text && strncmp(prefix, "ERR ", 4) == 0 && starts(inner, inner_len, prefix + 4))
            return TABLE[i].refusal;
    }
    return UNLISTED;
}

const char *hr_refusal_text(const char *text, size_t *len)
{
    const char *inner = unwrap(text, *len);
    *len -= (size_t)(inner - text);
    return inner;
}
