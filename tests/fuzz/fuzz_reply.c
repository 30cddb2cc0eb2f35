/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzing: what a server sends, in which pieces and when. A whole client in a simulated world (support/sim.h); the
 * input says what happens next: submissions, bytes as they are, replies that are right or nearly, time, the end of the
 * connection. Whatever it is, every request is answered exactly once and nothing is left.
 *
 * The first byte: bit 0, greet properly by itself. Then steps, a byte each: the low three bits say what, the others
 * how; some take further bytes.
 */
#include "fuzz.h"

#include "../support/sim.h"

#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ASKED_MOST = 64, CALLS_MOST = 256, ONE_TOKEN = 1000000, FULL = 10 * ONE_TOKEN };
enum { SUBMIT, BYTES, REPLY, TIME, CLOSE, CANCEL, TURN, NEARLY };

static const char PRIMARY[] = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"; /* what ROLE gets */
static const hirate_limit LIMIT = HIRATE_TOKEN_BUCKET("fuzz", 10, HIRATE_PER_SECOND(1));

typedef struct input {
    const uint8_t *at, *end;
} input;

typedef struct call {
    uint64_t number;
    size_t keys;
} call;

typedef struct state {
    sim *world;
    hirate *h;
    int fd; /* the server's side; -1: none */
    bool greets, submitting;
    int calls[ASKED_MOST]; /* callbacks, by request */
    uint64_t ids[ASKED_MOST];
    size_t asked, answered;
    char in[65536]; /* what the client wrote and was not looked at */
    size_t in_len;
    call owed[CALLS_MOST];
    size_t owed_first, owed_end;
    int closed;
} state;

static uint8_t next(input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static state *current; /* callbacks' `user` says which request */

static void on_answer(hirate *h, const hirate_result *result, void *user)
{
    state *s = current;
    (void)h;
    FUZZ_CHECK(!s->submitting);
    FUZZ_CHECK(s->calls[(uintptr_t)user]++ == 0);
    FUZZ_CHECK((result->error != 0) == (result->verdict == HIRATE_VERDICT_NONE && result->op != HIRATE_OP_RESET) ||
               result->op == HIRATE_OP_RESET);
    FUZZ_CHECK(result->charge != HIRATE_CHARGE_YES || result->verdict == HIRATE_ALLOWED);
    FUZZ_CHECK(result->remaining <= LIMIT.capacity && result->retry_after_ms >= 0 && result->reset_ms >= 0);
    for (const char *c = result->reason; *c; c++)
        FUZZ_CHECK((unsigned char)*c >= 0x20 && *c != 0x7f);
    s->answered++;
}

static void on_closed(void *user)
{
    ((state *)user)->closed++;
}

static void submit(state *s, unsigned how)
{
    static const enum hirate_op OPS[] = {HIRATE_OP_ACQUIRE, HIRATE_OP_ACQUIRE, HIRATE_OP_PEEK, HIRATE_OP_RESET};
    char name = (char)('a' + how % 3);
    hirate_request request;
    if (s->asked == ASKED_MOST)
        return;
    hirate_request_init(&request);
    request.op = OPS[how / 3 % 4];
    request.limit = &LIMIT;
    request.name = &name;
    request.name_len = 1;
    request.cost = how / 12;
    request.cb = on_answer;
    request.user = (void *)(uintptr_t)s->asked;
    s->submitting = true;
    FUZZ_CHECK(hirate_submit(s->h, &request, &s->ids[s->asked]) == 0);
    s->submitting = false;
    s->asked++;
}

/* ----------------------------------------------------------------------------------------------- the server's side --
 */

static void disconnect(state *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    s->in_len = s->owed_first = s->owed_end = 0;
}

static void say(state *s, const void *data, size_t len)
{
    if (s->fd >= 0 && len && send(s->fd, data, len, MSG_NOSIGNAL) < 0)
        disconnect(s);
}

/* A MessagePack number, the call's, right behind the array's header. */
static uint64_t call_number(const unsigned char *ops)
{
    uint64_t value = 0;
    ops += *ops == 0xdc ? 3 : *ops == 0xdd ? 5 : 1;
    int len = *ops < 0x80 ? 0 : 1 << (*ops - 0xcc);
    if (!len)
        return *ops;
    while (len--)
        value = value << 8 | *++ops;
    return value;
}

/* One whole command at `at`: its length, and the call it makes, if it makes one. 0: it is not whole. */
static size_t look_at(const char *at, size_t len, call *made)
{
    const char *p = at, *end = at + len, *line = memchr(p, '\n', len), *last = NULL;
    if (!line)
        return 0;
    size_t argc = strtoul(p + 1, NULL, 10);
    p = line + 1;
    for (size_t i = 0; i < argc; i++) {
        line = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
        size_t bytes = line ? strtoul(p + 1, NULL, 10) : 0;
        if (!line || (size_t)(end - line - 1) < bytes + 2)
            return 0;
        last = line + 1;
        p = last + bytes + 2;
    }
    *made = argc > 4 ? (call){call_number((const unsigned char *)last), argc - 4} : (call){0, 0};
    return (size_t)(p - at);
}

static void read_client(state *s)
{
    if (s->fd < 0)
        s->fd = sim_accept(s->world);
    if (s->fd < 0)
        return;
    ssize_t got = recv(s->fd, s->in + s->in_len, sizeof s->in - s->in_len, 0);
    if (got == 0) {
        disconnect(s);
        return;
    }
    s->in_len += got > 0 ? (size_t)got : 0;
    call made;
    for (size_t len; s->fd >= 0 && (len = look_at(s->in, s->in_len, &made)) > 0;) {
        memmove(s->in, s->in + len, s->in_len - len);
        s->in_len -= len;
        if (made.keys && s->owed_end < CALLS_MOST)
            s->owed[s->owed_end++] = made;
        else if (!made.keys && s->greets)
            say(s, PRIMARY, sizeof PRIMARY - 1);
    }
}

/* What answers the oldest call, with every key full or with nearly nothing left. */
static size_t right_reply(state *s, bool full, char *to, size_t room)
{
    if (s->owed_first == s->owed_end)
        return 0;
    call c = s->owed[s->owed_first++];
    size_t len = 16 + 16 * c.keys;
    int head = snprintf(to, room, "$%zu\r\n", len);
    if ((size_t)head + len + 2 > room)
        return 0;
    double *numbers = calloc(2 + 2 * c.keys, sizeof *numbers);
    FUZZ_CHECK(numbers != NULL);
    numbers[0] = 1700000000e6 + (double)sim_now_us(s->world);
    numbers[1] = (double)c.number;
    for (size_t i = 0; i < c.keys; i++)
        numbers[2 + 2 * i] = full ? FULL : 1;
    memcpy(to + head, numbers, len);
    memcpy(to + head + len, "\r\n", 2);
    free(numbers);
    return (size_t)head + len + 2;
}

static void say_in_two(state *s, const char *data, size_t len, size_t split)
{
    split = len ? split % (len + 1) : 0;
    say(s, data, split);
    sim_settle(s->world);
    say(s, data + split, len - split);
}

static void reply(state *s, input *in, unsigned how, bool nearly)
{
    char text[8192];
    size_t len = right_reply(s, how & 1, text, sizeof text);
    size_t split = next(in);
    if (nearly && len) {
        size_t at = next(in) % len;
        text[at] = (char)(text[at] ^ next(in));
    }
    say_in_two(s, text, len, split);
}

static void step(state *s, input *in)
{
    uint8_t what = next(in);
    unsigned how = what >> 3;
    size_t len;

    switch (what & 7) {
    case SUBMIT:
        submit(s, how);
        break;
    case BYTES:
        len = next(in);
        len = len < (size_t)(in->end - in->at) ? len : (size_t)(in->end - in->at);
        say_in_two(s, (const char *)in->at, len, how);
        in->at += len;
        break;
    case REPLY:
    case NEARLY:
        reply(s, in, how, (what & 7) == NEARLY);
        break;
    case TIME:
        sim_pass(s->world, (int64_t)next(in) << how % 16);
        break;
    case CLOSE:
        disconnect(s);
        break;
    case CANCEL:
        if (s->asked)
            hirate_cancel(s->h, s->ids[how % s->asked]);
        break;
    case TURN:
        sim_turn(s->world);
        break;
    }
    if ((what & 7) != SUBMIT) {
        sim_settle(s->world);
        read_client(s);
    }
}

static void finish(state *s)
{
    for (int i = 0; i < 100 && s->answered < s->asked; i++) {
        sim_pass(s->world, 50000);
        sim_settle(s->world);
        read_client(s);
    }
    FUZZ_CHECK(s->answered == s->asked);
    submit(s, 12);
    FUZZ_CHECK(hirate_close(s->h, on_closed, s) == 0);
    sim_settle(s->world);
    for (int i = 0; i < 10 && !s->closed; i++) {
        sim_pass(s->world, 50000);
        sim_settle(s->world);
    }
    FUZZ_CHECK(s->closed == 1 && s->answered == s->asked);
    FUZZ_CHECK(sim_handles(s->world) == 0);
}

int FUZZ_TARGET(reply)(const uint8_t *data, size_t size)
{
    static state s;
    input in = {data, data + size};
    hirate_options options;

    s = (state){.fd = -1, .world = sim_new(1)};
    current = &s;
    s.greets = next(&in) & 1;
    hirate_options_init(&options);
    options.uri = sim_uri(s.world);
    FUZZ_CHECK(hirate_new(&s.h, sim_loop(s.world), &options) == 0);
    sim_settle(s.world);
    read_client(&s);
    sim_settle(s.world);
    while (in.at < in.end)
        step(&s, &in);
    finish(&s);
    disconnect(&s);
    sim_free(s.world);
    return 0;
}
