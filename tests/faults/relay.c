/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault matrix: a scripted server in front of a real one (see relay.h). */
#include "relay.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { FLOOD_CHUNK = 65536, FLOOD_CHUNKS = 48, GREETING = 1 /* ROLE alone: no password, no database */ };

static void sleep_us(long us)
{
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}

static bool say(fake_conn *conn, const misdeed *m)
{
    return fake_write(conn, m->bytes, m->len ? m->len : strlen(m->bytes));
}

static bool flood(fake_conn *conn)
{
    static char chunk[FLOOD_CHUNK];
    memset(chunk, 'a', sizeof chunk);
    for (int i = 0; i < FLOOD_CHUNKS; i++)
        if (!fake_write(conn, i == 0 ? "+" : chunk, i == 0 ? 1 : sizeof chunk))
            return false;
    return true;
}

/* A string's `$LEN` with another LEN. Errors and other kinds stay as they are. */
static bool say_wrong_length(fake_conn *conn, const bytes *reply, int by)
{
    char head[32];
    const char *line = memchr(reply->data, '\n', reply->len);
    if (reply->data[0] != '$' || !line)
        return fake_write(conn, reply->data, reply->len);
    int len = snprintf(head, sizeof head, "$%ld\r\n", strtol(reply->data + 1, NULL, 10) + by);
    return fake_write(conn, head, (size_t)len) &&
           fake_write(conn, line + 1, reply->len - (size_t)(line + 1 - reply->data));
}

static bool say_split(relay *r, fake_conn *conn, const bytes *reply)
{
    size_t at = (size_t)atomic_fetch_add(&r->split, 1);
    if (at >= reply->len) {
        atomic_store(&r->whole, 1);
        atomic_store(&r->split, 2);
        at = 1;
    }
    bool ok = fake_write(conn, reply->data, at);
    sleep_us(500);
    return ok && fake_write(conn, reply->data + at, reply->len - at);
}

/* Answer conn->command, a script call, which the real server is to run. */
static bool misbehave_running(relay *r, fake_conn *conn, bytes *reply)
{
    const misdeed *m = r->deed;
    if (m->mode == AHEAD && !say(conn, m))
        return false;
    if (!fake_relay(conn, reply))
        return false;
    switch (m->mode) {
    case SHORTER:
        return say_wrong_length(conn, reply, -1);
    case LONGER:
        return say_wrong_length(conn, reply, 1);
    case SLOWLY:
        return fake_write_slowly(conn, reply->data, reply->len);
    case SPLIT:
        return say_split(r, conn, reply);
    case LATE:
        sleep_us((long)(r->s->load.deadline_ms + 50) * 1000);
        break;
    case CLOSE_RUN:
        return false;
    case CLOSE_HALF_SAID:
        fake_write(conn, reply->data, reply->len / 2);
        return false;
    default:
        break;
    }
    if (!fake_write(conn, reply->data, reply->len) || m->mode == CLOSE_SAID)
        return false;
    return m->mode != BEHIND || say(conn, m);
}

static bool misbehave(relay *r, fake_conn *conn, bytes *reply)
{
    atomic_fetch_add(&r->s->bitten, 1);
    switch (r->deed->mode) {
    case INSTEAD:
    case IN_GREETING:
        return say(conn, r->deed);
    case FLOOD:
        return flood(conn);
    case CLOSE_READ:
        return false;
    default:
        return misbehave_running(r, conn, reply);
    }
}

/* Close with a part of a call read and the rest of it waiting. */
static void read_half(relay *r, fake_conn *conn)
{
    char some[10];
    struct pollfd wait = {.fd = conn->stream.fd, .events = POLLIN};
    if (poll(&wait, 1, 1000) > 0 && recv(conn->stream.fd, some, sizeof some, 0) > 0)
        atomic_fetch_add(&r->s->bitten, 1);
}

static bool begins_with_connection(enum misdeed_mode mode)
{
    return mode == AT_ACCEPT || mode == IN_GREETING || mode == CLOSE_ACCEPTED || mode == CLOSE_HALF_READ;
}

/* What is wrong before the first command is read. False: close. */
static bool accept_badly(relay *r, fake_conn *conn)
{
    if (r->deed->mode == CLOSE_ACCEPTED || r->deed->mode == AT_ACCEPT)
        atomic_fetch_add(&r->s->bitten, 1);
    if (r->deed->mode == CLOSE_ACCEPTED)
        return false;
    return r->deed->mode != AT_ACCEPT || say(conn, r->deed);
}

static void serve(fake_conn *conn, void *arg)
{
    relay *r = arg;
    enum misdeed_mode mode = r->deed->mode;
    bool began_bad = atomic_load(&r->bad) != 0, open = !began_bad || accept_badly(r, conn);
    bytes reply = {0};
    for (int commands = 0; open; commands++) {
        bool bad = atomic_load(&r->bad) != 0;
        if (began_bad && bad && mode == CLOSE_HALF_READ && commands == GREETING) {
            read_half(r, conn);
            break;
        }
        bytes_clear(&reply);
        if (!fake_read(conn))
            break;
        bad = atomic_load(&r->bad) != 0;
        if (bad && !began_bad && begins_with_connection(mode))
            break; /* so that there is another connection */
        if (bad && mode != AT_ACCEPT && mode != CLOSE_HALF_READ && fake_is_script(conn) == (mode != IN_GREETING))
            open = misbehave(r, conn, &reply);
        else
            open = fake_relay(conn, &reply) && fake_write(conn, reply.data, reply.len);
    }
    bytes_free(&reply);
}

void relay_start(relay *r, stage *s, const misdeed *deed, bool tcp)
{
    *r = (relay){.s = s, .deed = deed, .split = 1, .redis = server_start(NULL)};
    r->fake = fakeserver_start(
        &(fakeserver_options){.tcp = tcp, .upstream = server_path(r->redis), .script = serve, .arg = r});
}

void relay_stop(relay *r)
{
    fakeserver_stop(r->fake);
    server_stop(r->redis);
}
