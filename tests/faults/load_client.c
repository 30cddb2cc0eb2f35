/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault matrix: a client under load (see load_client.h).
 *
 * A timer of the loop submits some requests every 2 ms, and every callback submits another as long as the tick's
 * allowance lasts. Limits, names, costs and operations are drawn at random; some requests are cancelled. Each
 * submission has a place of its own in `asked`, never used again, so that a second callback is seen whenever it comes.
 */
#include "load_client.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WIDE_NAMES = 4000, WIDE_SIZE = 1000, NARROW_SIZE = 8 };

#define TICK_US 2000
#define DRAIN_US INT64_C(20000000) /* for callbacks once nothing is submitted */
#define END_EVERY_US 60000
#define FAR_TURNS 8 /* enough for a client freed in a callback to be gone */

static int64_t thread_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int load_phase(const load *l)
{
    return atomic_load(&l->s->phase);
}

/* ------------------------------------------------------------------------------------------------- callbacks -- */

static void submit_random(load *l);

static void on_closed(void *user)
{
    load *l = user;
    l->closed = true;
}

/* A moved clock: its hour is taken out again, so that the bound is of the time that really passed. */
static int64_t straightened(int64_t server_us)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t ahead = server_us - ((int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    if (ahead > STAGE_CLOCK_STEP_US / 2)
        return server_us - STAGE_CLOCK_STEP_US;
    return ahead < -STAGE_CLOCK_STEP_US / 2 ? server_us + STAGE_CLOCK_STEP_US : server_us;
}

static void account(load *l, const asked *a, const hirate_result *r)
{
    bool admitted = r->verdict == HIRATE_ALLOWED && a->op == HIRATE_OP_ACQUIRE;
    int why = r->error ? r->error : r->cause;
    bool refused = why == HIRATE_EREDIS || why == HIRATE_EAUTH || why == HIRATE_ESTATE;

    l->r->maybe += r->charge == HIRATE_CHARGE_MAYBE;
    l->r->refused_maybe += r->charge == HIRATE_CHARGE_MAYBE && refused;
    if (a->limit == LIMIT_LEDGER && r->charge == HIRATE_CHARGE_YES)
        l->ledger_yes[a->name] += a->cost;
    if (a->limit == LIMIT_LEDGER && r->charge == HIRATE_CHARGE_MAYBE)
        l->ledger_maybe[a->name] += a->cost;
    if (a->limit == LIMIT_LOCAL && r->source == HIRATE_SOURCE_LOCAL && admitted)
        l->local[a->name] += a->cost;
    if (a->limit < BOUNDED && r->source == HIRATE_SOURCE_REDIS && admitted)
        l->records[l->record_count++] = (bound_record){.time_us = straightened(r->time_us),
                                                       .cost = a->cost,
                                                       .name = (uint16_t)(a->limit * NAMES + a->name),
                                                       .verdict = HIRATE_ALLOWED,
                                                       .charge = (uint8_t)r->charge};
}

static void note_course(load *l, const asked *a, const hirate_result *r)
{
    bool by_redis = r->source == HIRATE_SOURCE_REDIS;
    bool by_caller = r->error == HIRATE_ECANCELED || r->error == HIRATE_ECLOSED;

    if (!by_redis && !by_caller && r->source != HIRATE_SOURCE_CACHE) {
        l->r->without_redis++;
        l->r->degraded += load_phase(l) == STAGE_BROKEN;
    }
    int64_t mended = atomic_load(&l->s->mended_us);
    if (by_redis && l->r->recovery_us < 0 && mended && a->at_us >= mended)
        l->r->recovery_us = stage_now_us() - mended;
    if (a >= l->held && a < l->held_end)
        ++*(by_redis ? &l->held_good : &l->held_bad);
}

/* Close or free the client in here, from time to time, while the fault is on. */
static void end_if_due(load *l, hirate *h)
{
    if (l->s->load.end == END_NONE || load_phase(l) != STAGE_BROKEN || l->h != h || stage_now_us() < l->end_due_us)
        return;
    l->h = NULL;
    atomic_fetch_add(&l->s->bitten, 1);
    if (l->s->load.end == END_BY_FREE)
        hirate_free(h);
    else if (hirate_close(h, on_closed, l) != 0)
        truth_red(l->r, "hirate_close() in a callback failed");
}

static void on_result(hirate *h, const hirate_result *result, void *user)
{
    asked *a = user;
    load *l = a->load;

    if (a->calls++) {
        l->double_calls++;
        return;
    }
    l->outstanding--;
    l->early_calls += l->submitting > 0;
    const char *lie = truth_lie(a, result);
    if (lie && l->lies++ == 0)
        truth_red(l->r, "%s: %s, error %d source %s charge %s cause %d op %d", lie, result->policy, result->error,
                  hirate_source_name(result->source), hirate_charge_name(result->charge), result->cause, a->op);
    if (!l->counting)
        return;
    l->r->callbacks++;
    account(l, a, result);
    note_course(l, a, result);
    if (a->limit == LIMIT_LEDGER && a->op == HIRATE_OP_PEEK && !l->on && result->source == HIRATE_SOURCE_REDIS)
        l->ledger_left[a->name] = (int64_t)result->remaining;
    end_if_due(l, h);
    if (l->on && l->allowance) {
        l->allowance--;
        submit_random(l);
    }
}

/* ------------------------------------------------------------------------------------------------ submitting -- */

static const char *name_text(const load *l, const asked *a, size_t *len)
{
    static char wide[WIDE_SIZE + 1];
    static const char *const few[NAMES] = {"n0", "n1", "n2", "n3"};
    if (a->limit != LIMIT_WIDE) {
        *len = 2;
        return few[a->name];
    }
    *len = l->s->load.wide ? WIDE_SIZE : NARROW_SIZE;
    snprintf(wide, sizeof wide, "%0*u", (int)*len, (unsigned)a->name);
    return wide;
}

/* The function's own return value; what is refused was not asked. */
int load_submit(load *l, asked what)
{
    if (!l->h || l->count == ASKED_MOST)
        return HIRATE_ECLOSED;
    asked *a = &l->asked[l->count];
    *a = what;
    a->load = l;
    a->at_us = stage_now_us();
    hirate_request request;
    hirate_request_init(&request);
    request.op = (enum hirate_op)a->op;
    request.limit = &TRUTH_LIMITS[a->limit];
    request.name = name_text(l, a, &request.name_len);
    request.cost = a->cost;
    request.cb = on_result;
    request.user = a;
    l->submitting++;
    int rc = hirate_submit(l->h, &request, &a->id);
    l->submitting--;
    if (rc == 0) {
        l->count++;
        l->outstanding++;
        l->r->submitted += l->counting;
    } else if (rc == HIRATE_EOVERLOAD) {
        l->r->refused++;
    } else if (rc != HIRATE_ECLOSED) {
        truth_red(l->r, "hirate_submit: %s", hirate_strerror(rc));
    }
    return rc;
}

static void cancel_some(load *l)
{
    size_t back = rng_upto(&l->random, 30) + 1;
    if (!l->h || back > l->count || l->asked[l->count - back].calls)
        return;
    int rc = hirate_cancel(l->h, l->asked[l->count - back].id);
    if (rc != 0 && rc != HIRATE_ENOENT && rc != HIRATE_ECLOSED)
        truth_red(l->r, "hirate_cancel: %s", hirate_strerror(rc));
}

static void submit_random(load *l)
{
    uint64_t dice = rng_next(&l->random);
    asked a = {.cost = dice % 8 == 0 ? 3 : 1, .op = HIRATE_OP_ACQUIRE, .name = (uint16_t)((dice >> 8) % NAMES)};
    a.limit = (uint8_t)((dice >> 16) % (LIMIT_RESET + 1));
    if (l->s->load.wide && (dice >> 24) % 4 != 0) {
        a.limit = LIMIT_WIDE;
        a.name = (uint16_t)((dice >> 32) % WIDE_NAMES);
    }
    if ((dice >> 48) % 16 == 0)
        a.op = HIRATE_OP_PEEK;
    else if (a.limit == LIMIT_RESET && (dice >> 52) % 4 == 0)
        a.op = HIRATE_OP_RESET;
    load_submit(l, a);
    if ((dice >> 56) % 64 == 0)
        cancel_some(l);
}

static void on_tick(void *arg)
{
    load *l = arg;
    if (!l->on)
        return;
    l->allowance = l->per_tick;
    for (unsigned i = 0; i < l->per_tick; i++)
        submit_random(l);
    l->loop.timer_set(l->timer, TICK_US);
}

/* --------------------------------------------------------------------------------------------------- running -- */

/* One turn of the loop, as hirate_epoll_run() makes them; measured. */
void load_turn(load *l)
{
    uint64_t callbacks = l->r->callbacks;
    int64_t before = thread_us();
    int rc = hirate_epoll_turn_(l->epoll, hirate_epoll_link_alone_(&l->epoll->deferred) ? 5 : 0);
    int64_t held = thread_us() - before;

    if (rc < 0)
        truth_red(l->r, "the event loop failed");
    if (!l->counting)
        return;
    if (held > l->r->hold_us)
        l->r->hold_us = held;
    if (l->r->callbacks - callbacks > l->r->busiest)
        l->r->busiest = l->r->callbacks - callbacks;
}

void load_drain(load *l)
{
    for (int64_t end = stage_now_us() + DRAIN_US; l->outstanding && stage_now_us() < end;)
        load_turn(l);
    if (l->outstanding)
        truth_red(l->r, "%llu callbacks never came", (unsigned long long)l->outstanding);
}

void load_open_client(load *l)
{
    hirate_options options;
    hirate_options_init(&options);
    options.uri = l->s->uri;
    options.deadline_ms = l->s->load.deadline_ms;
    options.stall_timeout_ms = l->s->load.stall_ms;
    options.connect_timeout_ms = l->s->load.connect_ms;
    options.max_calls = l->s->load.max_calls;
    options.max_call_keys = l->s->load.max_call_keys;
    options.breaker_failures = l->breaker_failures;
    int rc = hirate_new(&l->h, &l->loop, &options);
    if (rc)
        truth_red(l->r, "hirate_new: %s", hirate_strerror(rc));
    l->clients += l->counting;
    l->closed = false;
    l->end_due_us = stage_now_us() + END_EVERY_US;
}

void load_close_client(load *l)
{
    if (!l->h)
        return;
    if (hirate_close(l->h, on_closed, l) != 0)
        truth_red(l->r, "hirate_close failed");
    l->h = NULL;
    for (int64_t end = stage_now_us() + DRAIN_US; !l->closed && stage_now_us() < end;)
        load_turn(l);
    if (!l->closed)
        truth_red(l->r, "on_closed never came");
}

/* After a callback has ended the client: wait until it is gone, and make another. */
void load_renew_client(load *l)
{
    if (l->h)
        return;
    load_drain(l);
    for (int i = 0; i < FAR_TURNS; i++)
        load_turn(l);
    if (l->s->load.end == END_BY_CLOSE && !l->closed)
        truth_red(l->r, "on_closed did not come after the last callback");
    load_open_client(l);
}

void load_open_loop(load *l)
{
    if (hirate_epoll_new(&l->epoll) != 0 || hirate_epoll(&l->loop, l->epoll) != 0) {
        fprintf(stderr, "faults: no event loop\n");
        exit(1);
    }
    l->timer = l->loop.timer_new(l->loop.data, on_tick, l);
}

void load_close_loop(load *l)
{
    l->loop.timer_free(l->timer);
    hirate_epoll_free(l->epoll);
}

void load_on(load *l)
{
    l->on = true;
    l->loop.timer_set(l->timer, 0);
}

void load_off(load *l)
{
    l->on = false;
}
