/* SPDX-License-Identifier: BSD-3-Clause */
/* Test support: a server for a simulated world (see simserver.h). */
#include "simserver.h"

#include "resp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNS_MOST = 16, ARGS_MOST = 300, EPOCH_S = 1700000000 };

/* What is to be written, from `from` on, once `at_us` has come. */
typedef struct piece {
    int64_t at_us;
    bytes data;
    bool then_close;
    struct piece *next;
} piece;

typedef struct conn {
    int fd; /* -1: none */
    bytes in;
    bool mute;
    piece *first;
} conn;

struct simserver {
    sim *world;
    simserver_hooks hooks;
    conn conns[CONNS_MOST];
    simscript *script;
    int64_t clock_us; /* ahead of the world's */
    bool knows_script;
};

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "simulated server: %s\n", what);
    abort();
}

static uint64_t pick(simserver *s, uint64_t most)
{
    return s->hooks.random(s->hooks.arg, most);
}

/* Decide a script call; the reply as the wire has it. */
static void decide(simserver *s, const simscript_arg *args, size_t argc, bytes *reply)
{
    size_t keys = strtoul(args[2].at, NULL, 10);
    bytes out = {0};
    char head[32];

    must(argc == keys + 4, "arguments that do not add up");
    simscript_call(s->script, &args[3], keys, &args[3 + keys], simserver_now_us(s), &out);
    snprintf(head, sizeof head, "$%zu\r\n", out.len);
    bytes_add_text(reply, head);
    bytes_add(reply, out.data, out.len);
    bytes_add_text(reply, "\r\n");
    bytes_free(&out);
}

/* --------------------------------------------------------------------------------------------------- the fates -- */

static void say(simserver *s, conn *c, bytes *text, int64_t delay_us, bool then_close)
{
    piece *p = calloc(1, sizeof *p), **end = &c->first;
    must(p != NULL, "no memory");
    *p = (piece){.at_us = sim_now_us(s->world) + delay_us, .data = *text, .then_close = then_close};
    *text = (bytes){0};
    while (*end)
        end = &(*end)->next;
    *end = p;
}

static const char *const REFUSALS[] = {
    "-LOADING Redis is loading the dataset in memory\r\n",
    "-BUSY Redis is busy running a script.\r\n",
    "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    "-READONLY You can't write against a read only replica.\r\n",
    "-MISCONF Redis is configured to save RDB snapshots\r\n",
    "-CLUSTERDOWN Hash slot not served\r\n",
    "-ERR Error running script (call to f_0): @user_script:24: -OOM command not allowed\r\n",
};
static const char *const NONSENSE[] = {"+OK\r\n",         ":7\r\n",         "$-1\r\n", "*1\r\n$1\r\nx\r\n",
                                       "$3\r\nabc\r\n",   "$0\r\n\r\n",     "*-1\r\n", "HTTP/1.1 400 Bad Request\r\n",
                                       "$9999999999\r\n", "*2147483647\r\n"};

#define PICK(list) (list)[pick(s, sizeof(list) / sizeof *(list)-1)]

static void script_call(simserver *s, conn *c, const simscript_arg *args, size_t argc)
{
    bool by_text = strncasecmp(args[0].at, "EVAL\r", 5) == 0;
    enum fate fate = s->hooks.fate(s->hooks.arg);
    bytes reply = {0};

    if (fate == FATE_FORGET)
        s->knows_script = false;
    if (fate == FATE_CLOSE_FIRST || fate == FATE_REFUSE || (!by_text && !s->knows_script)) {
        s->hooks.disturbed(s->hooks.arg);
        if (fate != FATE_CLOSE_FIRST)
            bytes_add_text(&reply, fate == FATE_REFUSE ? PICK(REFUSALS) : "-NOSCRIPT No matching script.\r\n");
        say(s, c, &reply, 0, fate == FATE_CLOSE_FIRST);
        return;
    }
    s->knows_script = true;
    if (fate != FATE_UNLISTED || pick(s, 1))
        decide(s, args, argc, &reply);
    if (fate == FATE_UNLISTED || fate == FATE_NONSENSE || fate == FATE_CLOSE_AFTER)
        bytes_clear(&reply);
    if (fate == FATE_UNLISTED)
        bytes_add_text(&reply, "-WHATEVER this may be\r\n");
    if (fate == FATE_NONSENSE)
        bytes_add_text(&reply, PICK(NONSENSE));
    if (fate == FATE_TWICE) {
        bytes once = reply;
        reply = (bytes){0};
        bytes_add(&reply, once.data, once.len);
        bytes_add(&reply, once.data, once.len);
        bytes_free(&once);
    }
    if (fate == FATE_PART)
        reply.len = pick(s, reply.len - 1);
    if (fate != FATE_ANSWER && fate != FATE_LATER)
        s->hooks.disturbed(s->hooks.arg);
    c->mute |= fate == FATE_NEVER;
    say(s, c, &reply, fate == FATE_LATER ? (int64_t)pick(s, 3000000) : 0,
        fate == FATE_PART || fate == FATE_CLOSE_AFTER || fate == FATE_NONSENSE);
}

static void command(simserver *s, conn *c, const simscript_arg *args, size_t argc)
{
    bytes reply = {0};
    if (strncasecmp(args[0].at, "EVAL", 4) == 0) {
        script_call(s, c, args, argc);
        return;
    }
    bytes_add_text(&reply, "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"); /* ROLE: nothing else is asked */
    say(s, c, &reply, 0, false);
}

/* ------------------------------------------------------------------------------------------------ the connections --
 */

/* The length of the complete command at `at`, with its arguments; 0: it is not complete. */
static size_t parse(const char *at, size_t len, simscript_arg *args, size_t *argc)
{
    const char *p = at, *end = at + len;
    char *line_end = memchr(p, '\n', len);
    if (!line_end)
        return 0;
    must(*p == '*', "no command");
    *argc = strtoul(p + 1, NULL, 10);
    must(*argc > 0 && *argc < ARGS_MOST, "too many arguments");
    p = line_end + 1;
    for (size_t i = 0; i < *argc; i++) {
        line_end = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
        if (!line_end)
            return 0;
        args[i].len = strtoul(p + 1, NULL, 10);
        args[i].at = line_end + 1;
        if ((size_t)(end - args[i].at) < args[i].len + 2)
            return 0;
        p = args[i].at + args[i].len + 2;
    }
    return (size_t)(p - at);
}

static void close_conn(simserver *s, conn *c)
{
    if (c->fd < 0)
        return;
    close(c->fd);
    c->fd = -1;
    bytes_free(&c->in);
    while (c->first) {
        piece *next = c->first->next;
        bytes_free(&c->first->data);
        free(c->first);
        c->first = next;
    }
    s->hooks.disturbed(s->hooks.arg);
}

/* False: the connection has ended, and everything that came on it is decided. */
static bool read_commands(simserver *s, conn *c)
{
    char buffer[65536];
    ssize_t got;
    while ((got = recv(c->fd, buffer, sizeof buffer, 0)) > 0)
        bytes_add(&c->in, buffer, (size_t)got);
    bool open = got < 0 && (errno == EAGAIN || errno == EINTR);
    size_t used = 0, len, argc;
    simscript_arg args[ARGS_MOST];
    while (used < c->in.len && (len = parse(c->in.data + used, c->in.len - used, args, &argc)) > 0) {
        command(s, c, args, argc);
        used += len;
    }
    bytes rest = {0};
    bytes_add(&rest, c->in.data + used, c->in.len - used);
    bytes_free(&c->in);
    c->in = rest;
    return open;
}

/* False: the connection is to end. */
static bool write_pieces(simserver *s, conn *c, bool piecewise)
{
    while (c->first && !c->mute && c->first->at_us <= sim_now_us(s->world)) {
        piece *p = c->first;
        size_t part = piecewise && p->data.len ? 1 + pick(s, p->data.len - 1) : p->data.len;
        ssize_t sent = part ? send(c->fd, p->data.data, part, MSG_NOSIGNAL) : 0;
        if (sent < 0)
            return errno == EAGAIN;
        if ((size_t)sent < p->data.len) {
            p->data.len -= (size_t)sent;
            memmove(p->data.data, p->data.data + sent, p->data.len);
            return true;
        }
        bool over = p->then_close;
        c->first = p->next;
        bytes_free(&p->data);
        free(p);
        if (over)
            return false;
    }
    return true;
}

void simserver_step(simserver *s, bool piecewise)
{
    for (conn *c = s->conns; c < s->conns + CONNS_MOST; c++) {
        if (c->fd < 0 && (c->fd = sim_accept(s->world)) >= 0)
            c->mute = false;
        if (c->fd >= 0 && (!read_commands(s, c) || !write_pieces(s, c, piecewise)))
            close_conn(s, c);
    }
}

void simserver_drop(simserver *s)
{
    for (conn *c = s->conns; c < s->conns + CONNS_MOST; c++)
        close_conn(s, c);
}

void simserver_step_clock(simserver *s, int64_t us)
{
    s->clock_us += us;
}

int64_t simserver_now_us(const simserver *s)
{
    return EPOCH_S * INT64_C(1000000) + sim_now_us(s->world) + s->clock_us;
}

bool simserver_holds(const simserver *s, const unsigned char id[HR_HOLD_ID_SIZE])
{
    return simscript_holds(s->script, id, simserver_now_us(s));
}

simserver *simserver_new(sim *world, const simserver_hooks *hooks)
{
    simserver *s = calloc(1, sizeof *s);
    must(s != NULL, "no memory");
    s->world = world;
    s->hooks = *hooks;
    s->script = simscript_new(&hooks->script);
    for (conn *c = s->conns; c < s->conns + CONNS_MOST; c++)
        c->fd = -1;
    return s;
}

void simserver_free(simserver *s)
{
    simserver_drop(s);
    simscript_free(s->script);
    free(s);
}
