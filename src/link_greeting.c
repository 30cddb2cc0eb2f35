/* SPDX-License-Identifier: BSD-3-Clause */
/* link: what is said on a new connection; see link_greeting.h. */
#include "link_greeting.h"

#include "bytes.h"
#include "error.h"
#include "link_writer.h"
#include "refusal.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_MOST 200 /* bytes of a server's text */

typedef struct command {
    int argc;
    const char *argv[3];
    size_t len[3];
} command;

static void add_arg(command *c, const char *text, size_t len)
{
    c->argv[c->argc] = text;
    c->len[c->argc++] = len;
}

/* As the wire has it. Not by hiredis, of which some versions leak when they have no memory for it. */
static void format(const command *c, hr_bytes *out)
{
    hr_bytes_add(out, "*", 1);
    hr_bytes_add_number(out, (uint64_t)c->argc);
    for (int i = 0; i < c->argc; i++) {
        hr_bytes_add(out, "\r\n$", 3);
        hr_bytes_add_number(out, c->len[i]);
        hr_bytes_add(out, "\r\n", 2);
        hr_bytes_add(out, c->argv[i], c->len[i]);
    }
    hr_bytes_add(out, "\r\n", 3); /* with its NUL, which hiredis may look at */
}

static int queue(hr_greeting *greeting, enum hr_greeting_step step, const command *c, redisAsyncContext *hiredis,
                 redisCallbackFn *on_reply)
{
    hr_bytes text = {0};

    format(c, &text);
    bool queued =
        !text.failed && hr_link_queue(hiredis, on_reply, NULL, text.data, text.len - 1) == HR_QUEUED;
    if (text.data)
        explicit_bzero(text.data, text.len); /* it may be a password */
    hr_bytes_free(&text);
    if (!queued)
        return HIRATE_ENOMEM;
    greeting->steps[greeting->count++] = step;
    return 0;
}

static int queue_auth(hr_greeting *greeting, const hr_uri *uri, redisAsyncContext *hiredis, redisCallbackFn *on_reply)
{
    command c = {0};
    if (!uri->password)
        return 0;
    add_arg(&c, "AUTH", 4);
    if (uri->user)
        add_arg(&c, uri->user, uri->user_len);
    add_arg(&c, uri->password, uri->password_len);
    return queue(greeting, HR_GREETING_AUTH, &c, hiredis, on_reply);
}

static int queue_select(hr_greeting *greeting, const hr_uri *uri, redisAsyncContext *hiredis, redisCallbackFn *on_reply)
{
    command c = {0};
    char db[12];
    if (!uri->db)
        return 0;
    snprintf(db, sizeof db, "%u", (unsigned)uri->db);
    add_arg(&c, "SELECT", 6);
    add_arg(&c, db, strlen(db));
    return queue(greeting, HR_GREETING_SELECT, &c, hiredis, on_reply);
}

int hr_greeting_write(hr_greeting *greeting, const hr_uri *uri, redisAsyncContext *hiredis, redisCallbackFn *on_reply)
{
    command role = {0};

    *greeting = (hr_greeting){0};
    add_arg(&role, "ROLE", 4);
    int rc = queue_auth(greeting, uri, hiredis, on_reply);
    if (!rc)
        rc = queue_select(greeting, uri, hiredis, on_reply);
    return rc ? rc : queue(greeting, HR_GREETING_ROLE, &role, hiredis, on_reply);
}

uint32_t hr_greeting_left(const hr_greeting *greeting)
{
    return greeting->count - greeting->answered;
}

enum hr_greeting_step hr_greeting_next(hr_greeting *greeting)
{
    return greeting->answered < greeting->count ? greeting->steps[greeting->answered++] : HR_GREETING_INVALID;
}

static int shown(size_t len)
{
    return len < SHOWN_MOST ? (int)len : SHOWN_MOST;
}

/* An error in place of an answer. */
static int refused(enum hr_greeting_step step, const char *text, size_t len, hirate_error *error)
{
    hr_refusal refusal = hr_refusal_of(text, len);
    text = hr_refusal_text(text, &len);

    if (refusal.error != HIRATE_EAUTH && refusal.action != HR_REFUSAL_ANSWER) /* it may be different next time */
        return hr_fail(error, HIRATE_ECONNECT, "%.*s", shown(len), text);
    /* ROLE may be forbidden or unknown to the server: then a replica shows itself when it refuses to write. */
    if (step == HR_GREETING_ROLE && refusal.action == HR_REFUSAL_ANSWER)
        return 0;
    return hr_fail(error, HIRATE_EAUTH, "%.*s", shown(len), text);
}

int hr_greeting_answered(enum hr_greeting_step step, int type, const char *text, size_t len, hirate_error *error)
{
    if (type == REDIS_REPLY_ERROR)
        return refused(step, text, len, error);
    if (step == HR_GREETING_ROLE) {
        if (type == REDIS_REPLY_ARRAY && text && len == 6 && memcmp(text, "master", 6) == 0)
            return 0;
        return hr_fail(error, HIRATE_EREDIS, "READONLY the server is not a primary");
    }
    if (type == REDIS_REPLY_STATUS && text && len == 2 && memcmp(text, "OK", 2) == 0)
        return 0;
    return hr_fail(error, HIRATE_ECONNECT, "the server does not answer as Redis does");
}
