/* SPDX-License-Identifier: BSD-3-Clause */
/* link: one connection to one server, kept standing; see link.h for its states. */
#include "link.h"

#include "backoff.h"
#include "clock.h"
#include "error.h"
#include "hash.h"
#include "link_greeting.h"
#include "link_reader.h"
#include "link_writer.h"
#include "resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define READER_MOST 2097152 /* bytes hiredis may gather before a reply is complete */
#define LINE_MOST 65536 /* the same of a reply that is one line, whose end it looks for anew with each read */
#define READS_AT_ONCE 64    /* of 16 KiB, when looking for what has arrived already */
#define CONNECT_BYTES 16384 /* several times what hiredis allocates for a connection */

static const char TOO_SLOW[] = "connecting took too long";

enum state { WAITING, RESOLVING, CONNECTING, GREETING, UP, CLOSED };

struct hr_link {
    enum state state;
    const hirate_loop *loop;
    hr_link_config config;
    hr_link_events events;
    void *arg;

    redisAsyncContext *hiredis; /* NULL: none; hiredis' cleanup hook clears it */
    void *watch;                /* of its socket */
    unsigned wanted, watched;   /* events hiredis wants, events asked of the loop */
    bool connected;             /* the connect callback said so */
    bool settling;              /* settle() is at work */

    hr_link_reader reader;
    hr_greeting greeting;
    uint64_t queued; /* bytes given to hiredis on this connection */

    hirate_resolution *resolution;
    void *resolution_watch;
    hr_addresses addresses;
    uint32_t next; /* address to try */

    hr_backoff backoff;
    uint64_t random;
    int64_t due_us;      /* WAITING: next attempt; RESOLVING … GREETING: give up */
    int64_t progress_us; /* UP: when bytes moved last */
    int64_t now_us;      /* of the entry under way */
    int64_t greeted_us, round_trip_us;

    hirate_error failure; /* why the connection is to end, or ended; code 0: not known */
    bool abandoned;       /* it is to end */
};

/* ------------------------------------------------------------------------------------- hiredis' event hooks -- */

static void hook_add_read(void *arg)
{
    ((hr_link *)arg)->wanted |= HIRATE_READ;
}

static void hook_del_read(void *arg)
{
    ((hr_link *)arg)->wanted &= ~(unsigned)HIRATE_READ;
}

static void hook_add_write(void *arg)
{
    ((hr_link *)arg)->wanted |= HIRATE_WRITE;
}

static void hook_del_write(void *arg)
{
    ((hr_link *)arg)->wanted &= ~(unsigned)HIRATE_WRITE;
}

/* hiredis is about to close the socket and free the context. */
static void hook_cleanup(void *arg)
{
    hr_link *link = arg;
    link->hiredis = NULL;
    if (link->watch)
        link->loop->watch_free(link->watch);
    link->watch = NULL;
    link->wanted = link->watched = 0;
}

/* ------------------------------------------------------------------------------------------- taking notes -- */

static void note(hr_link *link, int error, const char *reason)
{
    if (!link->failure.code)
        hr_fail(&link->failure, error, "%s", reason);
}

void hr_link_abandon(hr_link *link, int error, const char *reason)
{
    note(link, error, reason);
    link->abandoned = true;
}

static void note_hiredis_error(hr_link *link, const redisAsyncContext *hiredis)
{
    if (link->reader.refused[0])
        note(link, HIRATE_ECONNECT, link->reader.refused);
    else if (hiredis->c.err)
        note(link, HIRATE_ECONNECT, hiredis->c.errstr[0] ? hiredis->c.errstr : "the connection failed");
}

static void on_connect(const redisAsyncContext *hiredis, int status)
{
    hr_link *link = hiredis->data;
    if (status == REDIS_OK)
        link->connected = true;
    else
        note_hiredis_error(link, hiredis);
}

static void on_disconnect(const redisAsyncContext *hiredis, int status)
{
    if (status != REDIS_OK)
        note_hiredis_error(hiredis->data, hiredis);
}

static uint64_t bytes_written(const hr_link *link, const redisAsyncContext *hiredis)
{
    return link->queued - sdslen(hiredis->c.obuf);
}

static void on_reply(redisAsyncContext *hiredis, void *object, void *privdata)
{
    hr_link *link = hiredis->data;
    hr_link_call *call = privdata;
    const redisReply *reply = object;

    if (!reply)
        note_hiredis_error(link, hiredis);
    else
        link->reader.outstanding--;
    if (!reply || link->abandoned) { /* what follows a reply that made no sense may be anyone's */
        link->events.lost(link->arg, call, call->end <= bytes_written(link, hiredis));
        return;
    }
    hr_link_reply seen = {
        .is_string = reply->type == REDIS_REPLY_STRING,
        .is_error = reply->type == REDIS_REPLY_ERROR,
        .data = reply->str,
        .len = reply->len,
    };
    link->events.reply(link->arg, call, &seen);
}

static void on_greeting_reply(redisAsyncContext *hiredis, void *object, void *privdata)
{
    hr_link *link = hiredis->data;
    const redisReply *reply = object;
    (void)privdata;

    if (!reply) {
        note_hiredis_error(link, hiredis);
        return;
    }
    enum hr_greeting_step step = hr_greeting_next(&link->greeting);
    link->reader.outstanding--;
    if (step == HR_GREETING_ROLE)
        link->reader.arrays--;
    hirate_error error;
    if (hr_greeting_answered(step, reply->type, reply->str, reply->len, &error))
        hr_link_abandon(link, error.code, error.text);
}

/* -------------------------------------------------------------------------------------- into the next state -- */

static void settle(hr_link *link, int64_t now_us);

static void wait_before_next(hr_link *link, int64_t now_us)
{
    link->state = WAITING;
    link->due_us = now_us + hr_backoff_next(&link->backoff, hr_random_next(&link->random));
}

static void stop_resolving(hr_link *link)
{
    if (link->resolution_watch)
        link->loop->watch_free(link->resolution_watch);
    link->resolution_watch = NULL;
    hr_resolution_drop(link->resolution);
    link->resolution = NULL;
}

/* The attempt or connection is over: say so, try again later. */
static void fail(hr_link *link, int64_t now_us)
{
    hirate_error why = link->failure;

    stop_resolving(link);
    if (!why.code)
        hr_fail(&why, HIRATE_ECONNECT, "the server closed the connection");
    link->failure = (hirate_error){0};
    link->abandoned = false;
    wait_before_next(link, now_us);
    link->events.down(link->arg, why.code, why.text);
}

/* Until 1.0 hiredis ends the process when it has no memory to connect. So see to it that there is some. */
static bool has_memory_to_connect(void)
{
    void *volatile block = malloc(CONNECT_BYTES);
    free(block);
    return block != NULL;
}

static redisAsyncContext *open_socket(hr_link *link)
{
    char host[NI_MAXHOST], service[NI_MAXSERV];

    if (!has_memory_to_connect())
        return NULL;
    if (link->config.uri.is_unix)
        return redisAsyncConnectUnix(link->config.uri.host);
    const hr_address *address = &link->addresses.list[link->next - 1];
    if (getnameinfo((const struct sockaddr *)&address->sockaddr, address->len, host, sizeof host, service,
                    sizeof service, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return NULL;
    return redisAsyncConnect(host, atoi(service));
}

static void adopt(hr_link *link, redisAsyncContext *hiredis)
{
    int on = 1, fd = hiredis->c.fd;

    fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (!link->config.uri.is_unix)
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    hiredis->data = link;
    hiredis->ev.data = link;
    hiredis->ev.addRead = hook_add_read;
    hiredis->ev.delRead = hook_del_read;
    hiredis->ev.addWrite = hook_add_write;
    hiredis->ev.delWrite = hook_del_write;
    hiredis->ev.cleanup = hook_cleanup;
    hr_link_reader_clear(&link->reader);
    hr_link_reader_attach(&link->reader, hiredis->c.reader);
    link->hiredis = hiredis;
    link->connected = false;
    link->queued = 0;
    redisAsyncSetConnectCallback(hiredis, on_connect);
    redisAsyncSetDisconnectCallback(hiredis, on_disconnect);
}

static void on_ready(void *arg, unsigned events);

/* Begin to connect to the next address, if there is one. false: there is none, or it failed at once. */
static bool connect_next(hr_link *link, int64_t now_us)
{
    if (link->next >= (link->config.uri.is_unix ? 1 : link->addresses.count))
        return false;
    link->next++;
    link->due_us = now_us + link->config.connect_timeout_us; /* each address has its own time */
    link->failure = (hirate_error){0}; /* the last address' failure is the one that is told */
    redisAsyncContext *hiredis = open_socket(link);
    if (!hiredis) {
        note(link, HIRATE_ECONNECT, "no memory to connect");
        return false;
    }
    if (hiredis->err || hiredis->c.err) {
        note(link, HIRATE_ECONNECT, hiredis->c.errstr);
        redisAsyncFree(hiredis);
        return false;
    }
    adopt(link, hiredis);
    link->watch = link->loop->watch_new(link->loop->data, hiredis->c.fd, on_ready, link);
    if (!link->watch)
        hr_link_abandon(link, HIRATE_ECONNECT, "the event loop refused to watch the socket");
    link->state = CONNECTING;
    return true;
}

static void on_resolution_ready(void *arg, unsigned events)
{
    hr_link *link = arg;
    (void)events;
    link->now_us = hr_clock_now_us();
    settle(link, link->now_us);
    link->events.settled(link->arg);
}

static int start_resolving(hr_link *link)
{
    const hr_link_config *config = &link->config;
    int rc = hr_resolve_start(&link->resolution, config->uri.host, config->uri.port, config->resolve,
                              config->resolve_user, link->events.wake, link->arg);
    if (rc)
        return rc;
    int fd = hr_resolution_fd(link->resolution);
    if (fd < 0)
        return 0;
    link->resolution_watch = link->loop->watch_new(link->loop->data, fd, on_resolution_ready, link);
    return link->resolution_watch ? link->loop->watch_set(link->resolution_watch, HIRATE_READ) : HIRATE_ELOOP;
}

static void start_attempt(hr_link *link, int64_t now_us)
{
    link->due_us = now_us + link->config.connect_timeout_us;
    link->next = 0;
    link->state = RESOLVING;
    if (link->config.uri.is_unix || hr_resolve_literal(link->config.uri.host, link->config.uri.port, &link->addresses))
        return;
    if (start_resolving(link))
        hr_link_abandon(link, HIRATE_ECONNECT, "name resolution could not be started");
}

static void greet(hr_link *link, int64_t now_us)
{
    int rc = hr_greeting_write(&link->greeting, &link->config.uri, link->hiredis, on_greeting_reply);
    link->reader.outstanding = link->reader.arrays = 0;
    if (rc) {
        hr_link_abandon(link, HIRATE_ECONNECT, "no memory to greet the server");
        return;
    }
    link->reader.outstanding = hr_greeting_left(&link->greeting);
    link->reader.arrays = 1; /* ROLE's */
    link->queued = sdslen(link->hiredis->c.obuf);
    link->greeted_us = now_us;
    link->state = GREETING;
}

/* --------------------------------------------------------------------------- what became of it, and what next -- */

/* RESOLVING: once addresses are there, connect. */
static bool step_resolving(hr_link *link)
{
    int rc = 0;
    if (link->resolution && !hr_resolution_done(link->resolution, &rc, &link->addresses))
        return false;
    stop_resolving(link);
    if (rc)
        hr_link_abandon(link, HIRATE_ECONNECT, "the server's name could not be resolved");
    else
        link->state = CONNECTING;
    return true;
}

/* Move on by one state if something calls for it; false: nothing does. */
static bool step(hr_link *link, int64_t now_us)
{
    if (link->abandoned && link->hiredis) {
        redisAsyncFree(link->hiredis); /* says lost for each call */
        return true;
    }
    if (link->abandoned) {
        if (link->state != WAITING)
            fail(link, now_us);
        link->abandoned = false;
        return false;
    }
    switch (link->state) {
    case WAITING:
        if (now_us < link->due_us)
            return false;
        start_attempt(link, now_us);
        return true;
    case RESOLVING:
        return step_resolving(link);
    case CONNECTING:
        if (!link->hiredis) {
            if (!connect_next(link, now_us) && link->next >= (link->config.uri.is_unix ? 1 : link->addresses.count))
                fail(link, now_us);
            return link->state == CONNECTING;
        }
        if (link->connected)
            greet(link, now_us);
        return link->connected;
    case GREETING:
        if (!link->hiredis) {
            fail(link, now_us);
        } else if (!hr_greeting_left(&link->greeting)) {
            link->state = UP;
            link->progress_us = now_us;
            link->round_trip_us = now_us - link->greeted_us;
            link->events.up(link->arg);
        }
        return false;
    case UP:
        if (!link->hiredis)
            fail(link, now_us);
        return false;
    case CLOSED:
        break;
    }
    return false;
}

static void watch_what_is_wanted(hr_link *link)
{
    if (!link->watch || link->watched == link->wanted)
        return;
    if (link->loop->watch_set(link->watch, link->wanted))
        hr_link_abandon(link, HIRATE_ECONNECT, "the event loop refused to watch the socket");
    else
        link->watched = link->wanted;
}

/* After each call into hiredis or the resolver: go on until nothing more is to be done now. */
static void settle(hr_link *link, int64_t now_us)
{
    if (link->settling)
        return;
    link->settling = true;
    do {
        while (step(link, now_us))
            continue;
        watch_what_is_wanted(link);
    } while (link->abandoned);
    link->settling = false;
}

/* ----------------------------------------------------------------------------------------------- the socket -- */

static void read_some(hr_link *link, int64_t now_us)
{
    link->progress_us = now_us;
    redisAsyncHandleRead(link->hiredis);
    if (!link->hiredis)
        return;
    const redisReader *reader = link->hiredis->c.reader;
    size_t gathered = reader->len - reader->pos;
    if (gathered > READER_MOST)
        hr_link_abandon(link, HIRATE_ECONNECT, "a reply of more than 2 MiB");
    else if (gathered > LINE_MOST && reader->buf[reader->pos] != '$')
        hr_link_abandon(link, HIRATE_ECONNECT, "a line of more than 64 KiB");
}

static bool has_arrived(const hr_link *link)
{
    struct pollfd ready = {.fd = link->hiredis->c.fd, .events = POLLIN};
    return poll(&ready, 1, 0) > 0;
}

/* The server may have answered before it went: read that before the connection ends. */
static void write_failed(hr_link *link, int error, int64_t now_us)
{
    hirate_error why;

    for (int i = 0; i < READS_AT_ONCE && link->hiredis && !link->abandoned && has_arrived(link); i++)
        read_some(link, now_us);
    errno = error;
    hr_fail(&why, HIRATE_ECONNECT, "%m"); /* strerror() is not for threads */
    if (link->hiredis)
        hr_link_abandon(link, why.code, why.text);
}

static void write_some(hr_link *link, int64_t now_us)
{
    if (!link->connected) { /* nothing has gathered yet: this only tells whether it is now */
        redisAsyncHandleWrite(link->hiredis);
        return;
    }
    uint64_t before = bytes_written(link, link->hiredis);
    int error = hr_link_write(&link->hiredis->c, link->state == GREETING);
    if (error) {
        write_failed(link, error, now_us);
        return;
    }
    if (bytes_written(link, link->hiredis) != before)
        link->progress_us = now_us;
    if (!sdslen(link->hiredis->c.obuf))
        hook_del_write(link);
}

static void on_ready(void *arg, unsigned events)
{
    hr_link *link = arg;
    int64_t now_us = link->now_us = hr_clock_now_us();

    if (link->hiredis && (events & HIRATE_READ))
        read_some(link, now_us);
    if (link->hiredis && !link->abandoned && (events & HIRATE_WRITE))
        write_some(link, now_us);
    settle(link, now_us);
    link->events.settled(link->arg);
}

/* Do what the loop would do once it looks at the socket. False: there is nothing to do. */
static bool look_at_socket(hr_link *link, int64_t now_us)
{
    if (!link->hiredis || link->abandoned)
        return false;
    bool may_write = (link->wanted & HIRATE_WRITE) != 0;
    struct pollfd ready = {.fd = link->hiredis->c.fd, .events = (short)(may_write ? POLLIN | POLLOUT : POLLIN)};
    if (poll(&ready, 1, 0) <= 0)
        return false;
    if (ready.revents & ~POLLOUT)
        read_some(link, now_us);
    if (link->hiredis && !link->abandoned && may_write && (ready.revents & ~POLLIN))
        write_some(link, now_us);
    return true;
}

void hr_link_read_arrived(hr_link *link, int64_t now_us)
{
    link->now_us = now_us;
    for (int i = 0; i < READS_AT_ONCE && look_at_socket(link, now_us); i++)
        settle(link, now_us);
    settle(link, now_us);
}

int hr_link_send(hr_link *link, hr_link_call *call, const char *command, size_t len, int64_t now_us)
{
    if (!hr_link_is_up(link))
        return HIRATE_ECONNECT;
    if (!link->reader.outstanding)
        link->progress_us = now_us; /* waiting begins here */
    switch (hr_link_queue(link->hiredis, on_reply, call, command, len)) {
    case HR_QUEUED:
        break;
    case HR_NOT_QUEUED:
        return HIRATE_ENOMEM;
    case HR_QUEUED_HALF: /* it is lost without having been written */
        call->end = UINT64_MAX;
        hr_link_abandon(link, HIRATE_ECONNECT, "no memory to send");
        return 0;
    }
    link->queued += len;
    link->reader.outstanding++;
    call->end = link->queued;
    return 0;
}

void hr_link_flush(hr_link *link, int64_t now_us)
{
    link->now_us = now_us;
    if (hr_link_is_up(link) && (link->wanted & HIRATE_WRITE))
        write_some(link, now_us);
    settle(link, now_us);
}

/* ------------------------------------------------------------------------------------------------ the owner -- */

int hr_link_new(hr_link **out, const hirate_loop *loop, hr_link_config *config, const hr_link_events *events, void *arg)
{
    hr_link *link = calloc(1, sizeof *link);
    if (!link)
        return HIRATE_ENOMEM;
    link->loop = loop;
    link->config = *config;
    config->uri = (hr_uri){0};
    link->events = *events;
    link->arg = arg;
    link->random = hr_hash_key_random().k0 | 1;
    link->due_us = INT64_MIN;
    *out = link;
    return 0;
}

void hr_link_free(hr_link *link)
{
    if (!link)
        return;
    link->state = CLOSED;
    stop_resolving(link);
    if (link->hiredis)
        redisAsyncFree(link->hiredis);
    hr_link_reader_free(&link->reader);
    hr_uri_free(&link->config.uri);
    free(link);
}

bool hr_link_is_up(const hr_link *link)
{
    return link->state == UP && link->hiredis && !link->abandoned;
}

int64_t hr_link_due_us(const hr_link *link)
{
    if (link->state == UP)
        return link->reader.outstanding ? link->progress_us + link->config.stall_timeout_us : HR_CLOCK_FAR;
    return link->due_us;
}

/* The next one may do better; settle() goes on to it. */
static void give_up_address(hr_link *link)
{
    note(link, HIRATE_ECONNECT, TOO_SLOW);
    if (link->hiredis)
        redisAsyncFree(link->hiredis);
}

int64_t hr_link_retry_us(const hr_link *link)
{
    return link->state == WAITING ? link->due_us : link->now_us + HR_BACKOFF_FIRST_US;
}

int64_t hr_link_now_us(const hr_link *link)
{
    return link->now_us;
}

int64_t hr_link_round_trip_us(const hr_link *link)
{
    return link->round_trip_us;
}

void hr_link_tick(hr_link *link, int64_t now_us)
{
    link->now_us = now_us;
    bool waits = link->state == WAITING;
    if (!waits && now_us >= hr_link_due_us(link))
        hr_link_read_arrived(link, now_us); /* perhaps only the loop was held up */
    bool late = now_us >= hr_link_due_us(link);
    if (late && link->state == UP)
        hr_link_abandon(link, HIRATE_ECONNECT, "the server stopped answering");
    else if (late && link->state == CONNECTING)
        give_up_address(link);
    else if (late && !waits && link->state != WAITING)
        hr_link_abandon(link, HIRATE_ECONNECT, TOO_SLOW);
    settle(link, now_us);
}

void hr_link_good(hr_link *link)
{
    hr_backoff_reset(&link->backoff);
}
