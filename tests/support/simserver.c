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

enum { CONNS_MOST = 16, KEYS_MOST = 64, ARGS_MOST = 300, EPOCH_US = 1700000000 };

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

typedef struct bucket {
    char key[64];
    size_t len;
    bool there;
    uint64_t u, p;
    int64_t ts, expires_us;
} bucket;

typedef struct arg {
    const char *at;
    size_t len;
} arg;

struct simserver {
    sim *world;
    simserver_hooks hooks;
    conn conns[CONNS_MOST];
    bucket keys[KEYS_MOST];
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

/* ------------------------------------------------------------------------------------------------ token buckets -- */

static bucket *find(simserver *s, const arg *key)
{
    must(key->len < sizeof s->keys->key, "a long key");
    for (bucket *b = s->keys; b < s->keys + KEYS_MOST; b++) {
        if (!b->len) {
            memcpy(b->key, key->at, key->len);
            b->len = key->len;
            return b;
        }
        if (b->len == key->len && memcmp(b->key, key->at, key->len) == 0)
            return b;
    }
    must(false, "too many keys");
    return NULL;
}

static int64_t up(uint64_t a, uint64_t b)
{
    return (int64_t)((a + b - 1) / b);
}

/* The integers of a MessagePack array. */
typedef struct ops {
    const unsigned char *at, *end;
} ops;

static uint64_t big_endian(ops *o, int len)
{
    uint64_t value = 0;
    must(o->end - o->at >= len, "operations that end early");
    while (len--)
        value = value << 8 | *o->at++;
    return value;
}

static void open_array(ops *o)
{
    uint64_t tag = big_endian(o, 1);
    if (tag == 0xdc)
        big_endian(o, 2);
    else if (tag == 0xdd)
        big_endian(o, 4);
    else
        must(tag >= 0x90 && tag < 0xa0, "operations that are no array");
}

static int64_t next_op(ops *o)
{
    uint64_t tag = big_endian(o, 1);
    if (tag < 0x80)
        return (int64_t)tag;
    if (tag == 0xff)
        return -1;
    must(tag >= 0xcc && tag <= 0xd3, "an operation that is no number");
    const int size = 1 << (tag & 3), unused = 64 - 8 * size;
    const uint64_t value = big_endian(o, size);
    return tag <= 0xcf ? (int64_t)value : (int64_t)(value << unused) >> unused;
}

typedef struct rate {
    uint64_t n, p, full;
} rate;

static void report(simserver *s, const arg *key, const rate *r, uint64_t take, bool took, uint64_t u, uint64_t lag,
                   int64_t now)
{
    const char *policy = memchr(key->at, ':', key->len);
    must(policy != NULL, "a key without a policy");
    policy++;
    const char *name = memchr(policy, ':', key->len - (size_t)(policy - key->at));
    must(name != NULL, "a key without a name");
    decided d = {.policy = policy, .policy_len = (size_t)(name - policy), .name = name + 1};
    d.name_len = key->len - (size_t)(d.name - key->at);
    d.cost = take / r->p;
    d.took = took;
    d.remaining = u / r->p;
    d.retry_after_ms = took || !take ? 0 : up(take - u + lag, 1000 * r->n);
    d.reset_ms = u == r->full ? 0 : up(r->full - u + lag, 1000 * r->n);
    d.time_us = now;
    s->hooks.decided(s->hooks.arg, &d);
}

static void add_double(bytes *to, double value)
{
    bytes_add(to, &value, sizeof value); /* tests run on little-endian machines */
}

static void decide_key(simserver *s, const arg *key, const rate *r, ops *o, int64_t now, bytes *out)
{
    int64_t op = next_op(o);
    bucket *b = find(s, key);
    if (b->there && now >= b->expires_us)
        b->there = false;
    if (op == -1) {
        add_double(out, b->there);
        b->there = false;
        return;
    }
    must(!b->there || b->p == r->p, "a limit that changed");
    uint64_t u = b->there ? b->u : r->full;
    int64_t ts = b->there ? b->ts : now;
    int64_t at = now < ts && (uint64_t)(ts - now) * r->n <= r->full ? ts : now;
    if (at > ts)
        u = u + (uint64_t)(at - ts) * r->n < r->full ? u + (uint64_t)(at - ts) * r->n : r->full;
    uint64_t lag = (uint64_t)(at - now) * r->n;
    if (lag)
        add_double(out, -3);
    add_double(out, (double)u);
    if (lag)
        add_double(out, (double)lag);
    if (op == 0)
        return;
    for (int64_t run = 0; run < (op < 0 ? 1 : op); run++) {
        uint64_t take = op < 0 ? (uint64_t)(-1 - op) : (uint64_t)next_op(o);
        for (int64_t left = op < 0 ? 1 : next_op(o); left > 0; left--) {
            bool took = take && take <= u;
            if (took)
                u -= take;
            else if (!take && u == r->full)
                at = now, lag = 0;
            report(s, key, r, take, took, u, lag, now);
        }
    }
    b->there = u < r->full;
    b->u = u;
    b->p = r->p;
    b->ts = at;
    b->expires_us = now + 1000 * up(r->full - u + lag, 1000 * r->n);
}

/* Decide a script call; the reply as the wire has it. */
static void decide(simserver *s, const arg *args, size_t argc, bytes *reply)
{
    size_t keys = strtoul(args[2].at, NULL, 10);
    must(argc == keys + 4, "arguments that do not add up");
    ops o = {(const unsigned char *)args[3 + keys].at, (const unsigned char *)args[3 + keys].at + args[3 + keys].len};
    int64_t now = EPOCH_US * INT64_C(1000000) + sim_now_us(s->world) + s->clock_us;
    bytes out = {0};
    char head[32];

    open_array(&o);
    add_double(&out, (double)now);
    add_double(&out, (double)next_op(&o));
    for (size_t k = 0; k < keys;) {
        must(next_op(&o) == HIRATE_KIND_TOKEN_BUCKET, "a kind it does not know");
        rate r = {.n = (uint64_t)next_op(&o)};
        r.p = (uint64_t)next_op(&o);
        r.full = (uint64_t)next_op(&o);
        for (size_t end = k + (size_t)next_op(&o); k < end; k++)
            decide_key(s, &args[3 + k], &r, &o, now, &out);
    }
    must(o.at == o.end, "operations left over");
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

static void script_call(simserver *s, conn *c, const arg *args, size_t argc)
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

static void command(simserver *s, conn *c, const arg *args, size_t argc)
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
static size_t parse(const char *at, size_t len, arg *args, size_t *argc)
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
    arg args[ARGS_MOST];
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

simserver *simserver_new(sim *world, const simserver_hooks *hooks)
{
    simserver *s = calloc(1, sizeof *s);
    must(s != NULL, "no memory");
    s->world = world;
    s->hooks = *hooks;
    for (conn *c = s->conns; c < s->conns + CONNS_MOST; c++)
        c->fd = -1;
    return s;
}

void simserver_free(simserver *s)
{
    simserver_drop(s);
    free(s);
}
