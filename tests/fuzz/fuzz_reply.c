/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzing: what a server sends, in which pieces and when. A whole client in a simulated world (support/sim.h); the
 * input says what happens next: submissions of every kind, bytes as they are, replies that are right (support/
 * simscript.h) or nearly, time, the end of the connection. Whatever it is, every request is answered exactly once and
 * nothing is left.
 *
 * The first byte: bit 0, greet properly by itself. Then steps, a byte each: the low three bits say what, the others
 * how; some take further bytes.
 */
#include "fuzz.h"

#include "../support/sim.h"
#include "../support/simscript.h"

#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ASKED_MOST = 64, CALLS_MOST = 256, KEYS_MOST = 256, PERMITS_MOST = 8, CAPACITY = 10 };
enum { SUBMIT, BYTES, REPLY, TIME, CLOSE, CANCEL, TURN, NEARLY };

static const char PRIMARY[] = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"; /* what ROLE gets */
static const hirate_limit LIMIT = HIRATE_TOKEN_BUCKET("fuzz", CAPACITY, HIRATE_PER_SECOND(1));
static const hirate_limit MORE[] = {
    HIRATE_TOKEN_BUCKET("token", CAPACITY, HIRATE_PER_SECOND(1)),
    HIRATE_CONCURRENCY("slots", CAPACITY, HIRATE_SECONDS(1)),
    HIRATE_QUOTA("quota", CAPACITY, HIRATE_PER_HOUR, 0),
    HIRATE_SLIDING_LOG("log", CAPACITY, HIRATE_SECONDS(1)),
    HIRATE_FIXED_WINDOW_WITH("tried", CAPACITY, HIRATE_SECONDS(1), HIRATE_LIMIT_SHADOW, HIRATE_FAIL_ERROR),
    HIRATE_LEAKY_BUCKET("leaky", CAPACITY, HIRATE_PER_SECOND(1)),
    HIRATE_FIXED_WINDOW("window", CAPACITY, HIRATE_SECONDS(1)),
    HIRATE_SLIDING_WINDOW("sliding", CAPACITY, HIRATE_SECONDS(1)),
    HIRATE_CONCURRENCY_WITH("own", CAPACITY, HIRATE_SECONDS(1), 0, HIRATE_FAIL_LOCAL(1, 1)),
    HIRATE_TOKEN_BUCKET_WITH("open", CAPACITY, HIRATE_PER_SECOND(1), 0, HIRATE_FAIL_OPEN),
    HIRATE_CONCURRENCY_WITH("watched", CAPACITY, HIRATE_SECONDS(1), HIRATE_LIMIT_SHADOW, HIRATE_FAIL_ERROR),
};
enum { LIMITS = sizeof MORE / sizeof *MORE, PAIRS = 4 };

typedef struct input {
    const uint8_t *at, *end;
} input;

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
    bytes owed[CALLS_MOST]; /* commands that make a call */
    size_t owed_first, owed_end;
    simscript *script; /* what would be the server's */
    char permits[PERMITS_MOST][HIRATE_PERMIT_SIZE];
    bool of_lease[PERMITS_MOST];
    size_t permit_count;
    int closed;
} state;

static uint8_t next(input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

static state *current; /* callbacks' `user` says which request */

static void keep_permit(state *s, const hirate_limit_result *limit)
{
    if (!limit || !limit->permit[0] || s->permit_count == PERMITS_MOST)
        return;
    FUZZ_CHECK(strlen(limit->permit) < HIRATE_PERMIT_SIZE);
    s->of_lease[s->permit_count] = limit->policy_kind == HIRATE_KIND_CONCURRENCY;
    memcpy(s->permits[s->permit_count++], limit->permit, strlen(limit->permit) + 1);
}

static void check_limits(state *s, const hirate_result *result)
{
    for (uint32_t i = 0; result->limits && i < result->limit_count; i++) {
        const hirate_limit_result *limit = hirate_result_limit(result, i);
        FUZZ_CHECK(limit->remaining <= CAPACITY && limit->retry_after_ms >= 0 && limit->reset_ms >= 0);
        FUZZ_CHECK(limit->verdict == HIRATE_ALLOWED || limit->verdict == HIRATE_DENIED);
        FUZZ_CHECK(!limit->permit[0] || limit->verdict == HIRATE_ALLOWED);
        keep_permit(s, limit);
    }
}

static bool gives_no_verdict(enum hirate_op op)
{
    return op == HIRATE_OP_RESET || op == HIRATE_OP_RELEASE || op == HIRATE_OP_REFUND;
}

static void on_answer(hirate *h, const hirate_result *result, void *user)
{
    state *s = current;
    (void)h;
    FUZZ_CHECK(!s->submitting);
    FUZZ_CHECK(s->calls[(uintptr_t)user]++ == 0);
    FUZZ_CHECK((result->verdict == HIRATE_VERDICT_NONE) == (result->error != 0 || gives_no_verdict(result->op)));
    FUZZ_CHECK(result->charge != HIRATE_CHARGE_YES || result->verdict == HIRATE_ALLOWED);
    FUZZ_CHECK(result->remaining <= CAPACITY && result->retry_after_ms >= 0 && result->reset_ms >= 0);
    FUZZ_CHECK(result->delay_ms >= 0 && result->shadow_denied <= result->limit_count);
    for (const char *c = result->reason; *c; c++)
        FUZZ_CHECK((unsigned char)*c >= 0x20 && *c != 0x7f);
    check_limits(s, result);
    s->answered++;
}

static void on_closed(void *user)
{
    ((state *)user)->closed++;
}

static void submit_request(state *s, hirate_request *request)
{
    request->cb = on_answer;
    request->user = (void *)(uintptr_t)s->asked;
    s->submitting = true;
    FUZZ_CHECK(hirate_submit(s->h, request, &s->ids[s->asked]) == 0);
    s->submitting = false;
    s->asked++;
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
    submit_request(s, &request);
}

/* Over up to PAIRS limits, perhaps to hold something. */
static void submit_several(state *s, unsigned how, unsigned which, uint64_t cost)
{
    hirate_pair pairs[PAIRS];
    hirate_request request;
    size_t count = 1 + how % PAIRS;
    bool has_quota = false;

    for (size_t i = 0; i < count; i++) {
        pairs[i] = (hirate_pair){&MORE[(which + i) % LIMITS], "a", which / LIMITS % 2};
        has_quota |= pairs[i].limit->kind == HIRATE_KIND_QUOTA;
    }
    hirate_request_init(&request);
    request.op = how & 16 ? HIRATE_OP_PEEK : HIRATE_OP_ACQUIRE;
    request.limit = pairs[0].limit;
    request.name = pairs[0].name;
    request.name_len = pairs[0].name_len;
    request.more = &pairs[1];
    request.more_count = count - 1;
    request.cost = cost;
    if (has_quota && request.op == HIRATE_OP_ACQUIRE && how & 8)
        request.hold_us = 1 + 100000 * (uint64_t)which;
    submit_request(s, &request);
}

static void use_permit(state *s, unsigned which, uint64_t amount)
{
    size_t i = which % s->permit_count;
    bool ends = which & 128;
    hirate_request request;

    hirate_request_init(&request);
    request.op =
        s->of_lease[i] ? (ends ? HIRATE_OP_RELEASE : HIRATE_OP_RENEW) : (ends ? HIRATE_OP_COMMIT : HIRATE_OP_REFUND);
    request.permit = s->permits[i];
    request.cost = amount;
    submit_request(s, &request);
}

static void submit_more(state *s, unsigned how, unsigned which, uint64_t cost)
{
    if (s->asked == ASKED_MOST)
        return;
    if (how & 4 && s->permit_count)
        use_permit(s, which, cost);
    else
        submit_several(s, how, which, cost);
}

/* ----------------------------------------------------------------------------------------------- the server's side --
 */

static void disconnect(state *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
    for (size_t i = 0; i < s->owed_end; i++)
        bytes_free(&s->owed[i]);
    s->in_len = s->owed_first = s->owed_end = 0;
}

static void say(state *s, const void *data, size_t len)
{
    if (s->fd >= 0 && len && send(s->fd, data, len, MSG_NOSIGNAL) < 0)
        disconnect(s);
}

/* One whole command at `at`: its length, and its arguments, as far as there is room for them. 0: it is not whole. */
static size_t look_at(const char *at, size_t len, simscript_arg *args, size_t room, size_t *argc)
{
    const char *p = at, *end = at + len, *line = memchr(p, '\n', len);
    if (!line)
        return 0;
    *argc = strtoul(p + 1, NULL, 10);
    p = line + 1;
    for (size_t i = 0; i < *argc; i++) {
        line = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
        size_t arg_len = line ? strtoul(p + 1, NULL, 10) : 0;
        if (!line || (size_t)(end - line - 1) < arg_len + 2)
            return 0;
        if (i < room)
            args[i] = (simscript_arg){line + 1, arg_len};
        p = line + 1 + arg_len + 2;
    }
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
    size_t argc;
    for (size_t len; s->fd >= 0 && (len = look_at(s->in, s->in_len, NULL, 0, &argc)) > 0;) {
        if (argc > 4 && s->owed_end < CALLS_MOST) {
            s->owed[s->owed_end] = (bytes){0};
            bytes_add(&s->owed[s->owed_end++], s->in, len);
        }
        memmove(s->in, s->in + len, s->in_len - len);
        s->in_len -= len;
        if (argc <= 4 && s->greets)
            say(s, PRIMARY, sizeof PRIMARY - 1);
    }
}

/* What answers the oldest call: the string's head and its numbers. `full`: every key is as if never used. */
static bytes right_reply(state *s, bool full, size_t *head_len)
{
    simscript_arg args[KEYS_MOST + 4];
    bytes numbers = {0}, reply = {0};
    char head[32];
    size_t argc;

    *head_len = 0;
    if (s->owed_first == s->owed_end)
        return reply;
    const bytes *command = &s->owed[s->owed_first++];
    FUZZ_CHECK(look_at(command->data, command->len, args, KEYS_MOST + 4, &argc) == command->len &&
               argc <= KEYS_MOST + 4);
    if (full)
        simscript_forget(s->script);
    simscript_call(s->script, &args[3], argc - 4, &args[argc - 1], INT64_C(1700000000000000) + sim_now_us(s->world),
                   &numbers);
    *head_len = (size_t)snprintf(head, sizeof head, "$%zu\r\n", numbers.len);
    bytes_add_text(&reply, head);
    bytes_add(&reply, numbers.data, numbers.len);
    bytes_add_text(&reply, "\r\n");
    bytes_free(&numbers);
    return reply;
}

static void say_in_two(state *s, const char *data, size_t len, size_t split)
{
    split = len ? split % (len + 1) : 0;
    say(s, data, split);
    sim_settle(s->world);
    say(s, data + split, len - split);
}

/* Another byte, or a whole number that is something else. */
static void spoil(bytes *reply, size_t head_len, input *in, bool number)
{
    static const double ODD[] = {-3, -2, -1, 0, 1, 2, 10, 11, 8193, 1e300, 9007199254740991.0, 9007199254740992.0};
    size_t at = next(in);
    uint8_t what = next(in);

    if (number) {
        size_t count = (reply->len - head_len - 2) / sizeof *ODD;
        memcpy(reply->data + head_len + at % count * sizeof *ODD, &ODD[what % (sizeof ODD / sizeof *ODD)], sizeof *ODD);
        return;
    }
    at %= reply->len;
    reply->data[at] = (char)(reply->data[at] ^ what);
}

static void reply(state *s, input *in, unsigned how, bool nearly)
{
    size_t head_len;
    bytes text = right_reply(s, how & 1, &head_len);
    size_t split = next(in);
    if (nearly && text.len)
        spoil(&text, head_len, in, how & 2);
    if (text.len)
        say_in_two(s, text.data, text.len, split);
    bytes_free(&text);
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
        if (how) {
            unsigned which = next(in);
            submit_more(s, how, which, next(in) % (CAPACITY + 3U));
            return;
        }
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

    memset(&s, 0, sizeof s);
    s.fd = -1;
    s.world = sim_new(1);
    s.script = simscript_new(&(simscript_hooks){NULL, NULL, NULL});
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
    simscript_free(s.script);
    sim_free(s.world);
    return 0;
}
