/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mixed_load URI PREFIX MILLISECONDS SEED FILE storm|calm: one client of the mixed run (mixed.sh). Random requests over
 * the limits of support/mixed.h in bursts with pauses, each recorded; what is held is renewed, given back, charged, or
 * left to end.
 *
 * storm: some requests have no time, some are canceled, some clients close over what is pending. calm: every answer is
 * awaited.
 */
#include "support/mixed.h"
#include "support/random.h"

#include <hirate/adapters/epoll.h>

#include <err.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    IN_FLIGHT_MOST = 1000,
    BURST_MOST = 40,
    PAUSE_MOST_MS = 40,
    TASKS = 2048,
    PERMIT_SIZE = 256,
    QUOTA_NAMES_FOR_S = 3
};

/* What is to be done with a permit, and when. */
typedef struct task {
    enum { FREE = 0, WAITING, SUBMITTED } state;
    uint32_t record;
    uint8_t pair;
    int64_t due_us;
    char permit[PERMIT_SIZE];
} task;

static struct {
    hirate *h;
    hirate_epoll_loop *ep;
    mixed_file *file;
    rng random;
    bool calm, over;
    bool closed;
    uint32_t answered;
    uint64_t last_id; /* of an acquire that may be canceled */
    task tasks[TASKS];
} load;

static uint64_t below(uint64_t n)
{
    return rng_upto(&load.random, n - 1);
}

static bool one_in(uint64_t n)
{
    return below(n) == 0;
}

static int64_t clock_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* --------------------------------------------------------------------------------------------------- records -- */

/* NULL: the file is full. */
static mixed_record *begin_record(enum hirate_op op)
{
    uint32_t count = load.file->count;
    if (count == MIXED_RECORDS_MAX)
        return NULL;
    mixed_record *r = &load.file->records[count];
    r->op = (uint8_t)op;
    r->submitted_us = clock_us(CLOCK_REALTIME);
    return r;
}

static void on_answer(hirate *h, const hirate_result *result, void *user);

/* From here on the request counts as submitted. */
static void submit(hirate_request *request, mixed_record *r)
{
    uint64_t id;
    request->op = (enum hirate_op)r->op;
    request->cost = r->cost;
    request->hold_us = r->hold_us;
    request->cb = on_answer;
    request->user = r;
    load.file->count++;
    if (hirate_submit(load.h, request, &id) != 0)
        errx(1, "hirate_submit: %s", hirate_last_error(load.h));
    if (!mixed_has_permit(r))
        load.last_id = id;
}

/* --------------------------------------------------------------------------------------------------- permits -- */

static void add_task(const mixed_record *r, uint8_t pair, const char *permit)
{
    const hirate_limit *limit = &MIXED_LIMITS[r->pairs[pair].limit].limit;
    bool lease = limit->kind == HIRATE_KIND_CONCURRENCY;
    uint64_t lasts_us = lease ? limit->lease_us : r->hold_us;

    for (uint32_t i = 0; i < TASKS; i++) {
        task *t = &load.tasks[i];
        if (t->state != FREE)
            continue;
        if (strlen(permit) >= sizeof t->permit)
            errx(1, "a permit of %zu bytes", strlen(permit));
        t->state = WAITING;
        t->record = (uint32_t)(r - load.file->records);
        t->pair = pair;
        t->due_us = clock_us(CLOCK_MONOTONIC) + (int64_t)below(lasts_us + lasts_us / 4 + 1); /* now and then too late */
        memcpy(t->permit, permit, strlen(permit) + 1);
        return;
    } /* no room: it is left to end */
}

/* 0: leave it to end by itself. */
static enum hirate_op random_use(const mixed_limit *limit)
{
    uint64_t dice = below(100);
    if (limit->limit.kind == HIRATE_KIND_CONCURRENCY)
        return dice < 50 ? HIRATE_OP_RELEASE : dice < 80 ? HIRATE_OP_RENEW : HIRATE_OP_INVALID;
    if (limit->never_charged)
        return dice < 60 ? HIRATE_OP_REFUND : HIRATE_OP_INVALID;
    return dice < 50 ? HIRATE_OP_COMMIT : dice < 80 ? HIRATE_OP_REFUND : HIRATE_OP_INVALID;
}

static void use_permit(task *t)
{
    const mixed_record *of = &load.file->records[t->record];
    const mixed_pair *pair = &of->pairs[t->pair];
    enum hirate_op op = random_use(&MIXED_LIMITS[pair->limit]);
    mixed_record *r = op ? begin_record(op) : NULL;
    hirate_request request;

    t->state = FREE;
    if (!r)
        return;
    t->state = SUBMITTED;
    r->of = t->record;
    r->of_pair = t->pair;
    r->task = (uint16_t)(t - load.tasks);
    r->pair_count = 1;
    r->pairs[0] = (mixed_pair){.limit = pair->limit, .name = pair->name};
    if (op == HIRATE_OP_COMMIT) /* less, the same, or more */
        r->cost = one_in(3) ? of->cost : (uint32_t)below(2 * of->cost + 1);
    hirate_request_init(&request);
    request.permit = t->permit;
    submit(&request, r);
}

static void use_permits(void)
{
    int64_t now_us = clock_us(CLOCK_MONOTONIC);
    for (uint32_t i = 0; i < TASKS; i++) {
        if (load.tasks[i].state == WAITING && load.tasks[i].due_us <= now_us)
            use_permit(&load.tasks[i]);
    }
}

/* What is not answered is tried again, mostly; what is renewed goes on; now and then something is done twice. */
static void go_on(const mixed_record *r)
{
    task *t = &load.tasks[r->task];
    bool unknown = r->error && r->error != HIRATE_ENOENT;
    bool renewed = r->op == HIRATE_OP_RENEW && r->verdict == HIRATE_ALLOWED;
    bool again = unknown ? !one_in(3) : renewed || one_in(8);

    t->state = again ? WAITING : FREE;
    if (again)
        t->due_us = clock_us(CLOCK_MONOTONIC) + (renewed ? (int64_t)below(500000) : 0);
}

/* --------------------------------------------------------------------------------------------------- answers -- */

static uint32_t clip(uint64_t n)
{
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static void note_limits(mixed_record *r, const hirate_result *result)
{
    for (uint32_t i = 0; i < r->pair_count; i++) {
        mixed_pair *pair = &r->pairs[i];
        const hirate_limit_result *said = hirate_result_limit(result, i);
        if (!said && !mixed_has_permit(r))
            continue;
        pair->remaining = clip(said ? said->remaining : result->remaining);
        if (!said)
            continue;
        if (strcmp(said->policy, MIXED_LIMITS[pair->limit].limit.policy) != 0)
            errx(1, "%s answered as %s", MIXED_LIMITS[pair->limit].limit.policy, said->policy);
        pair->verdict = (uint8_t)said->verdict;
        pair->took = r->op == HIRATE_OP_ACQUIRE && r->cost > 0 && result->verdict == HIRATE_ALLOWED &&
                     said->verdict == HIRATE_ALLOWED;
        pair->permit = said->permit[0] != '\0';
    }
}

static void on_answer(hirate *h, const hirate_result *result, void *user)
{
    mixed_record *r = user;
    (void)h;
    r->time_us = result->time_us;
    r->verdict = (uint8_t)result->verdict;
    r->source = (uint8_t)result->source;
    r->charge = (uint8_t)result->charge;
    r->used = result->used != 0;
    r->late = result->late != 0;
    r->shadow_denied = (uint8_t)result->shadow_denied;
    r->error = (int8_t)result->error;
    note_limits(r, result);
    r->callbacks++; /* last */
    load.answered++;
    if (mixed_has_permit(r)) {
        go_on(r);
        return;
    }
    for (uint8_t i = 0; i < r->pair_count; i++) {
        if (r->pairs[i].permit && !load.over)
            add_task(r, i, hirate_result_limit(result, i)->permit);
    }
}

/* -------------------------------------------------------------------------------------------------- requests -- */

/* A quota's names change every few seconds, as what is used up stays so for an hour. */
static uint8_t random_name(const mixed_limit *limit)
{
    uint64_t first = 0;
    if (limit->limit.kind == HIRATE_KIND_QUOTA)
        first = (uint64_t)(clock_us(CLOCK_REALTIME) / HIRATE_SECONDS(QUOTA_NAMES_FOR_S)) % (MIXED_NAMES / limit->names);
    return (uint8_t)(first * limit->names + below(limit->names));
}

static bool is_there(const mixed_record *r, const mixed_pair *pair)
{
    for (uint32_t i = 0; i < r->pair_count; i++) {
        if (r->pairs[i].limit == pair->limit && r->pairs[i].name == pair->name)
            return true;
    }
    return false;
}

static void random_pairs(mixed_record *r)
{
    uint64_t count = one_in(2) ? 1 : 2 + below(MIXED_PAIRS - 1);
    while (r->pair_count < count) {
        mixed_pair pair = {.limit = (uint8_t)below(MIXED_LIMIT_COUNT)};
        pair.name = random_name(&MIXED_LIMITS[pair.limit]);
        if (!is_there(r, &pair))
            r->pairs[r->pair_count++] = pair;
    }
}

static uint32_t random_cost(uint64_t capacity)
{
    switch (below(24)) {
    case 0:
        return 0;
    case 1:
        return (uint32_t)below(capacity + 2);
    case 2:
        return (uint32_t)(capacity / 2);
    default:
        return 1 + (uint32_t)below(3);
    }
}

/* How long to reserve for; 0 where that is not possible, or not wanted. */
static uint64_t random_hold_us(const mixed_record *r)
{
    bool quota = false, must = false;
    for (uint32_t i = 0; i < r->pair_count; i++) {
        const mixed_limit *limit = &MIXED_LIMITS[r->pairs[i].limit];
        quota = quota || limit->limit.kind == HIRATE_KIND_QUOTA;
        must = must || limit->never_charged;
    }
    return quota && (must || !one_in(3)) ? 1 + below(MIXED_HOLD_MOST_US) : 0;
}

static void submit_one(void)
{
    mixed_record *r = begin_record(one_in(12) ? HIRATE_OP_PEEK : HIRATE_OP_ACQUIRE);
    char names[MIXED_PAIRS][HIRATE_NAME_INT_SIZE];
    hirate_pair pairs[MIXED_PAIRS];
    hirate_request request;

    if (!r)
        return;
    random_pairs(r);
    for (uint32_t i = 0; i < r->pair_count; i++)
        pairs[i] = (hirate_pair){&MIXED_LIMITS[r->pairs[i].limit].limit, names[i],
                                 hirate_name_u64(names[i], r->pairs[i].name)};
    r->cost = random_cost(pairs[0].limit->capacity);
    if (r->op == HIRATE_OP_ACQUIRE)
        r->hold_us = random_hold_us(r);
    hirate_request_init(&request);
    request.limit = pairs[0].limit;
    request.name = pairs[0].name;
    request.name_len = pairs[0].name_len;
    request.more = r->pair_count > 1 ? pairs + 1 : NULL;
    request.more_count = r->pair_count - 1u;
    if (!load.calm && one_in(50))
        request.deadline_ms = 1 + (int64_t)below(3);
    submit(&request, r);
}

/* -------------------------------------------------------------------------------------------------- the load -- */

static void turn(int ms)
{
    struct pollfd wait = {.fd = hirate_epoll_fd(load.ep), .events = POLLIN};
    poll(&wait, 1, ms);
    if (hirate_epoll_process(load.ep) < 0)
        errx(1, "hirate_epoll_process");
}

static void burst(void)
{
    for (uint64_t left = 1 + below(BURST_MOST); left > 0 && load.file->count - load.answered < IN_FLIGHT_MOST; left--)
        submit_one();
    if (!load.calm && one_in(8)) {
        if (one_in(2)) /* so that it is written */
            turn(0);
        hirate_cancel(load.h, load.last_id); /* if it is not answered yet */
    }
}

static void run_for(int64_t us)
{
    for (int64_t now = clock_us(CLOCK_MONOTONIC), end = now + us; now < end; now = clock_us(CLOCK_MONOTONIC)) {
        burst();
        turn(0);
        int64_t until = now + (int64_t)below(PAUSE_MOST_MS + 1) * 1000;
        do {
            use_permits();
            turn(1);
        } while (clock_us(CLOCK_MONOTONIC) < until);
    }
    load.over = true;
    if (!load.calm && one_in(3)) {
        burst();
        turn(0);
        return; /* to close over it */
    }
    for (int64_t end = clock_us(CLOCK_MONOTONIC) + HIRATE_MINUTES(1);
         load.answered < load.file->count && clock_us(CLOCK_MONOTONIC) < end;)
        turn(100);
}

static void on_closed(void *user)
{
    (void)user;
    load.closed = true;
}

static void open_client(const char *uri, const char *prefix)
{
    hirate_loop loop;
    hirate_options options;
    hirate_options_init(&options);
    options.uri = uri;
    options.prefix = prefix;
    options.deadline_ms = 30000; /* every answer counts, also of a slow machine */
    if (hirate_epoll_new(&load.ep) || hirate_epoll(&loop, load.ep) || hirate_new(&load.h, &loop, &options))
        errx(1, "cannot make a client");
}

int main(int argc, char **argv)
{
    if (argc != 7)
        errx(2, "usage: mixed_load URI PREFIX MILLISECONDS SEED FILE storm|calm");
    load.random.state = strtoull(argv[4], NULL, 10);
    load.file = mixed_file_make(argv[5]);
    load.calm = strcmp(argv[6], "calm") == 0;
    open_client(argv[1], argv[2]);
    run_for(strtoll(argv[3], NULL, 10) * 1000);
    if (hirate_close(load.h, on_closed, NULL))
        errx(1, "hirate_close");
    while (!load.closed)
        turn(100);
    hirate_epoll_free(load.ep);
    load.file->ended = true;
    return 0;
}
