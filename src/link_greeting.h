/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link: what is said on a new connection before anything else: AUTH and SELECT where the URI asks for them, then ROLE,
 * since a replica would decide on old state and refuse the write. Calls wait for all the answers: without AUTH they would
 * be refused, without SELECT they would be charged in another database.
 */
#ifndef HR_LINK_GREETING_H
#define HR_LINK_GREETING_H

#include "hiredis_compat.h"
#include "uri.h"

enum hr_greeting_step { HR_GREETING_INVALID, HR_GREETING_AUTH, HR_GREETING_SELECT, HR_GREETING_ROLE };

typedef struct hr_greeting {
    enum hr_greeting_step steps[3];
    uint32_t count, answered;
} hr_greeting;

/* Queue the commands. 0, or HIRATE_ENOMEM: the connection is not to be used. */
int hr_greeting_write(hr_greeting *greeting, const hr_uri *uri, redisAsyncContext *hiredis, redisCallbackFn *on_reply);
uint32_t hr_greeting_left(const hr_greeting *greeting);
/* The step that the next reply answers. */
enum hr_greeting_step hr_greeting_next(hr_greeting *greeting);
/* 0, or why the server will not do, with *error filled in. `text`: the reply's, or its first element's; may be NULL. */
int hr_greeting_answered(enum hr_greeting_step step, int type, const char *text, size_t len, hirate_error *error);

#endif
