/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link: what goes out. Commands gather in hiredis' output buffer, each with its callback in hiredis' queue; they are
 * written from there without hiredis, whose own write may raise SIGPIPE and replaces the buffer each time.
 */
#ifndef HR_LINK_WRITER_H
#define HR_LINK_WRITER_H

#include "hiredis_compat.h"

#include <stdbool.h>

enum hr_queued {
    HR_QUEUED,
    HR_NOT_QUEUED,  /* no memory: nothing was queued, the callback will not come */
    HR_QUEUED_HALF, /* no memory: the callback without the command; it comes when the connection ends, which it must */
};

/* Queue a command, which has a NUL behind it. */
enum hr_queued hr_link_queue(redisAsyncContext *hiredis, redisCallbackFn *callback, void *privdata, const char *command,
                             size_t len);
/* Write what has gathered, as far as the socket takes it now; the rest moves to the front. 0, or an errno after which
 * the connection is of no use. `secret`: the buffer, which is kept, is to keep nothing of what was written. */
int hr_link_write(redisContext *hiredis, bool secret);

#endif
