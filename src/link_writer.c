/* SPDX-License-Identifier: BSD-3-Clause */
/* link: what goes out; see link_writer.h. */
#include "link_writer.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* Without memory hiredis may have queued the command but not its callback, or the callback but not the command; each
 * would give everything after it its neighbour's reply. A command can be taken back, a callback cannot. */
enum hr_queued hr_link_queue(redisAsyncContext *hiredis, redisCallbackFn *callback, void *privdata, const char *command,
                             size_t len)
{
    redisContext *c = &hiredis->c;
    sds *out = &c->obuf;
    size_t before = sdslen(*out);
    const redisCallback *last = hiredis->replies.tail;
    bool was_well = !c->err;

    if (redisAsyncFormattedCommand(hiredis, callback, privdata, command, len) != REDIS_OK) {
        if (was_well) /* as it is now; but from 1.0 on hiredis would read no replies any more */
            hiredis->err = c->err = 0;
        return HR_NOT_QUEUED;
    }
    bool gathered = sdslen(*out) == before + len, expected = hiredis->replies.tail != last;
    if (expected)
        return gathered ? HR_QUEUED : HR_QUEUED_HALF;
    if (gathered) {
        (*out)[before] = '\0';
        sdssetlen(*out, before);
    }
    return HR_NOT_QUEUED;
}

int hr_link_write(redisContext *hiredis, bool secret)
{
    sds gathered = hiredis->obuf;
    size_t len = sdslen(gathered);
    if (!len)
        return 0;
    if (hiredis->err) /* it would not read the answers */
        return ECONNABORTED;
    ssize_t sent = send(hiredis->fd, gathered, len, MSG_NOSIGNAL);
    if (sent < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : errno;
    size_t left = len - (size_t)sent;
    memmove(gathered, gathered + sent, left);
    if (secret)
        explicit_bzero(gathered + left, (size_t)sent);
    gathered[left] = '\0';
    sdssetlen(gathered, left);
    return 0;
}
