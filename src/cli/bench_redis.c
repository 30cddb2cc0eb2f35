/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench: acquires through a client.
 *
 * Closed loop (default): --in-flight acquires are outstanding; each answer submits the next. One that failed is
 * repeated from the next tick, so that an absent server is not asked in a busy loop. The first of them are submitted
 * before the measured part, as a million take a good part of a second, in which nothing can be answered; their
 * latencies count from its beginning.
 *
 * Open loop (--rate): each turn of the loop submits what the rate wants submitted by then, and the loop never blocks:
 * to be woken by a timer takes longer, on a virtual machine several times, than an answer. Latency counts from the
 * moment each was due, not from when it got its turn, so that a stall shows up in full. At most --in-flight (default
 * here 65,536) are outstanding; what finds no room counts as an error, submitted or not.
 *
 * The clock is read once for up to CLOCK_EVERY answers of a turn: a latency may be off by the time those take, a few
 * microseconds. Slots are made once; nothing is allocated per acquire.
 *
 * States, by fields: warming up with one acquire after the other, so that server and client have seen some, for a moment
 * or until one fails; the last of them fills the flight and sets begin_ns; measuring while `measuring`; then draining
 * until nothing is in flight or drain_ns has come.
 */
#include "bench.h"
#include "say.h"

#include <stdlib.h>

enum { WARMING_ANSWERS = 64, WARMING_NS = 20000000 };
enum { CLOCK_EVERY = 16, OPEN_IN_FLIGHT = 65536, OPEN_TICK_US = 0, CLOSED_TICK_US = 10000 };

struct load;

typedef struct slot {
    struct load *load;
    struct slot *next; /* in load->idle */
    int64_t since_ns;
} slot;

typedef struct load {
    cli_bench_run *run;
    cli_client client;
    void *timer, *defer;
    slot *slots;
    slot *idle; /* not in flight */
    uint64_t in_flight;
    int64_t now_ns;      /* the clock as last read in this turn */
    unsigned clock_uses; /* left before it is read again; 0 also at the start of a turn */
    bool measuring, draining;
    unsigned warmed; /* answers before measuring */
    int64_t warm_ns; /* when warming up ends at the latest */
    uint64_t issued; /* open loop: due since begin_ns and taken care of */
    int64_t drain_ns;
} load;

/* ------------------------------------------------------------------------------------------------------- clock -- */

static int64_t turn_clock(load *l)
{
    if (l->clock_uses == 0) {
        l->now_ns = cli_monotonic_ns();
        l->clock_uses = CLOCK_EVERY;
        /* Should this fail, the clock is a turn old at worst, until it has been used up. */
        l->client.loop.defer_set(l->defer);
    }
    l->clock_uses--;
    return l->now_ns;
}

/* The turn is over; what comes next may come much later. */
static void on_turn_end(void *arg)
{
    load *l = arg;
    l->clock_uses = 0;
}

/* -------------------------------------------------------------------------------------------------- submitting -- */

static void put_idle(load *l, slot *s)
{
    s->next = l->idle;
    l->idle = s;
}

static slot *take_idle(load *l)
{
    slot *s = l->idle;
    l->idle = s->next;
    return s;
}

/* Submit an acquire of the next name from a slot that is in no list. */
static void submit(load *l, slot *s, int64_t since_ns)
{
    char name[HIRATE_NAME_INT_SIZE];
    cli_bench_run *run = l->run;
    s->since_ns = since_ns;
    cli_bench_name(run, name);
    run->request.request.user = s;
    int rc = hirate_submit(l->client.h, &run->request.request, NULL);
    if (rc == 0) {
        run->submitted++;
        l->in_flight++;
        return;
    }
    run->errors++;
    cli_bench_note(run, hirate_strerror(rc));
    put_idle(l, s);
}

/* Open loop: what is due by now. */
static void submit_due(load *l, int64_t now)
{
    uint64_t due = cli_bench_due(l->run, now);
    for (; l->issued < due; l->issued++) {
        if (l->idle != NULL) {
            submit(l, take_idle(l), cli_bench_due_ns(l->run, l->issued));
            continue;
        }
        l->run->errors++;
        cli_bench_note(l->run, "more in flight than --in-flight allows");
    }
}

/* Closed loop: everything that is idle. Once round, as what is refused becomes idle again. */
static void submit_idle(load *l, int64_t now)
{
    slot *s = l->idle;
    l->idle = NULL;
    while (s != NULL) {
        slot *next = s->next;
        submit(l, s, now);
        s = next;
    }
}

static void submit_more(load *l, int64_t now)
{
    if (l->run->args->rate > 0)
        submit_due(l, now);
    else
        submit_idle(l, now);
}

/* ---------------------------------------------------------------------------------------------------- phases -- */

static void set_tick(load *l)
{
    if (l->client.loop.timer_set(l->timer, l->run->args->rate > 0 ? OPEN_TICK_US : CLOSED_TICK_US) != 0)
        cli_client_stop(&l->client);
}

static void begin(load *l, int64_t now)
{
    if (l->run->args->rate == 0)
        submit_idle(l, now);
    l->clock_uses = 0;
    cli_bench_begin(l->run, turn_clock(l));
    l->measuring = true;
    set_tick(l); /* an open load begins now, not when the timer of the warming up runs out */
}

/* From the beginning of the measured part, for what was submitted before it. */
static int64_t latency_of(const load *l, const slot *s, int64_t now)
{
    return now - (s->since_ns > l->run->begin_ns ? s->since_ns : l->run->begin_ns);
}

/* Stop measuring and submitting; what is in flight is answered by its deadline. */
static void drain(load *l, int64_t now)
{
    cli_bench_run *run = l->run;
    if (run->begin_ns == 0)
        run->begin_ns = now;
    run->end_ns = now;
    l->measuring = false;
    l->draining = true;
    l->drain_ns = now + (run->args->deadline_ms + 1000) * 1000000;
    if (l->in_flight == 0)
        cli_client_stop(&l->client);
}

/* The first answer may come late, so the time counts from then. */
static bool is_warming(load *l, const hirate_result *result, int64_t now)
{
    if (l->warmed++ == 0)
        l->warm_ns = now + WARMING_NS;
    return result->verdict != HIRATE_VERDICT_NONE && l->warmed < WARMING_ANSWERS && now < l->warm_ns;
}

static void on_answer(hirate *h, const hirate_result *result, void *user)
{
    (void)h;
    slot *s = user;
    load *l = s->load;
    int64_t now = turn_clock(l);
    l->in_flight--;
    cli_bench_count(l->run, result->verdict);
    if (result->verdict == HIRATE_VERDICT_NONE) {
        cli_bench_note(l->run, *result->reason != '\0' ? result->reason : hirate_strerror(result->error));
    } else if (l->measuring) {
        l->run->measured++;
        cli_histogram_add(&l->run->latency, latency_of(l, s, now));
    }
    if (l->measuring && result->verdict != HIRATE_VERDICT_NONE && l->run->args->rate == 0) {
        submit(l, s, now);
        return;
    }
    if (!l->measuring && !l->draining && is_warming(l, result, now)) {
        submit(l, s, now);
        return;
    }
    put_idle(l, s);
    if (!l->measuring && !l->draining)
        begin(l, now);
    else if (l->draining && l->in_flight == 0)
        cli_client_stop(&l->client);
}

static void on_tick(void *arg)
{
    load *l = arg;
    int64_t now = cli_monotonic_ns();
    if (l->draining && (now >= l->drain_ns || l->in_flight == 0)) {
        cli_client_stop(&l->client);
        return;
    }
    if (!l->draining && (l->measuring ? cli_bench_over(l->run, now) : cli_bench_interrupted()))
        drain(l, now);
    if (l->measuring) {
        submit_more(l, now);
        cli_bench_progress(l->run, now);
    }
    set_tick(l);
}

/* ----------------------------------------------------------------------------------------------- setting it up -- */

static int open_load(load *l, uint64_t count)
{
    l->slots = calloc(count, sizeof *l->slots);
    if (l->slots == NULL)
        return cli_fail(CLI_NO_VERDICT, "%s", hirate_strerror(HIRATE_ENOMEM));
    for (uint64_t i = count; i-- > 0;) {
        l->slots[i].load = l;
        put_idle(l, &l->slots[i]);
    }
    int rc = cli_client_open(&l->client, l->run->args, (uint32_t)count);
    if (rc != 0)
        return cli_fail(CLI_NO_VERDICT, "%s", hirate_strerror(rc));
    const hirate_loop *loop = &l->client.loop;
    l->timer = loop->timer_new(loop->data, on_tick, l);
    l->defer = loop->defer_new(loop->data, on_turn_end, l);
    if (l->timer == NULL || l->defer == NULL || loop->timer_set(l->timer, CLOSED_TICK_US) != 0)
        return cli_fail(CLI_NO_VERDICT, "%s", hirate_strerror(HIRATE_ELOOP));
    return 0;
}

static void close_load(load *l)
{
    const hirate_loop *loop = &l->client.loop;
    hirate_stats stats;
    hirate_stats_init(&stats);
    l->measuring = false;
    l->draining = true;
    if (l->client.h != NULL) {
        hirate_get_stats(l->client.h, &stats);
        l->run->calls = stats.calls;
        l->run->call_acquires = stats.call_acquires;
        l->run->connects = stats.connects;
    }
    cli_client_drop(&l->client);
    if (l->timer != NULL)
        loop->timer_free(l->timer);
    if (l->defer != NULL)
        loop->defer_free(l->defer);
    cli_client_close(&l->client);
    free(l->slots);
}

int cli_bench_redis(cli_bench_run *run)
{
    uint64_t count = run->args->in_flight != 0 ? run->args->in_flight : run->args->rate > 0 ? OPEN_IN_FLIGHT : 256;
    load l = {.run = run};
    run->request.request.cb = on_answer;
    int rc = open_load(&l, count);
    if (rc == 0) {
        submit(&l, take_idle(&l), cli_monotonic_ns());
        rc = cli_client_run(&l.client);
    }
    close_load(&l);
    return rc;
}
