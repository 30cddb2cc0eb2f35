/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * raw_hiredis SOCKET SHA NAMES IN-FLIGHT COUNT: what a careful program does without hirate: one redisAsyncCommand of
 * plain.lua an acquire, IN-FLIGHT of them outstanding on one connection, each reply sending the next. Ends with one
 * JSON object. SHA is that of plain.lua, loaded before.
 *
 * One descriptor on epoll; commands are formatted from arguments and lengths, hiredis' fastest way.
 */
#include "load.h"

#include <errno.h>
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <sys/epoll.h>

typedef struct load {
    redisAsyncContext *redis;
    const char *sha;
    load_count count;
    int epoll;
    uint32_t events;
    bool watched;
} load;

/* ---------------------------------------------------------------------------------------- hiredis on one epoll -- */

static void watch(load *l, uint32_t events)
{
    struct epoll_event event = {.events = events};
    if (l->watched && events == l->events)
        return;
    if (epoll_ctl(l->epoll, l->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, l->redis->c.fd, &event) != 0)
        err(1, "epoll_ctl");
    l->watched = true;
    l->events = events;
}

static void add_read(void *arg)
{
    load *l = arg;
    watch(l, l->events | EPOLLIN);
}

static void del_read(void *arg)
{
    load *l = arg;
    watch(l, l->events & ~(uint32_t)EPOLLIN);
}

static void add_write(void *arg)
{
    load *l = arg;
    watch(l, l->events | EPOLLOUT);
}

static void del_write(void *arg)
{
    load *l = arg;
    watch(l, l->events & ~(uint32_t)EPOLLOUT);
}

static void turn(load *l)
{
    struct epoll_event event;
    int n = epoll_wait(l->epoll, &event, 1, -1);
    if (n < 0 && errno != EINTR)
        err(1, "epoll_wait");
    if (n == 1 && event.events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        redisAsyncHandleRead(l->redis);
    if (n == 1 && event.events & EPOLLOUT)
        redisAsyncHandleWrite(l->redis);
}

/* ------------------------------------------------------------------------------------------------------- the load --
 */

static void on_reply(redisAsyncContext *redis, void *reply, void *user);

static void submit(load *l)
{
    char key[32];
    int len = snprintf(key, sizeof key, "plain:%" PRIu64, load_next_name(&l->count));
    const char *arguments[] = {"EVALSHA", l->sha, "1", key, "1000000", "1000000", "1"};
    const size_t lengths[] = {7, 40, 1, (size_t)len, 7, 7, 1};
    if (redisAsyncCommandArgv(l->redis, on_reply, l, 7, (const char **)arguments, lengths) != REDIS_OK)
        errx(1, "redisAsyncCommandArgv: %s", l->redis->errstr);
}

static void on_reply(redisAsyncContext *redis, void *reply, void *user)
{
    load *l = user;
    const redisReply *r = reply;
    if (!r || r->type != REDIS_REPLY_INTEGER)
        errx(1, "no verdict: %s", !r ? redis->errstr : r->type == REDIS_REPLY_ERROR ? r->str : "not an integer");
    load_answered(&l->count, r->integer >= 0);
    if (load_wants_more(&l->count))
        submit(l);
}

static void connect_to(load *l, const char *socket)
{
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->redis = redisAsyncConnectUnix(socket);
    if (l->epoll < 0 || !l->redis || l->redis->err)
        errx(1, "no connection to %s", socket);
    l->redis->ev.data = l;
    l->redis->ev.addRead = add_read;
    l->redis->ev.delRead = del_read;
    l->redis->ev.addWrite = add_write;
    l->redis->ev.delWrite = del_write;
}

int main(int argc, char **argv)
{
    load l = {.epoll = -1};
    if (argc != 6)
        errx(2, "usage: raw_hiredis SOCKET SHA NAMES IN-FLIGHT COUNT");
    l.sha = argv[2];
    load_init(&l.count, argv[3], argv[4], argv[5]);

    connect_to(&l, argv[1]);
    while (load_wants_another(&l.count))
        submit(&l);
    while (!load_is_done(&l.count))
        turn(&l);
    load_print(&l.count, l.count.answered);
    redisAsyncFree(l.redis);
    return 0;
}
