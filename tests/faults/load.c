/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault matrix: a client under load (see load.h).
 *
 * A timer of the loop submits some requests every 2 ms, and every callback submits another as long as the tick's
 * allowance lasts. Limits, names, costs and operations are drawn at random; some requests are cancelled. Each
 * submission has a place of its own in `asked`, never used again, so that a second callback is seen whenever it comes.
 *
 * All memory of the load's own is mapped before the first measurement, so that whatever is allocated meanwhile is the
 * library's.
 */
#include "load.h"

#include "live.h"
#include "truth.h"

#include "../support/driver.h"
#include "../support/random.h"

#include <hirate/adapters/epoll.h>

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { ASKED_MOST = 1 << 21, WIDE_NAMES = 4000, WIDE_SIZE = 1000, MILLION = 1000000, HELD = 50 };

#define TICK_US 2000
#define AFTER_MS 250                  /* of load after recovery */
#define RECOVERY_US INT64_C(15000000) /* past this it is called none */
#define DRAIN_US INT64_C(20000000)    /* for callbacks once nothing is submitted */
#define END_EVERY_US 60000
#define FAR_TURNS 8 /* enough for a client freed in a callback to be gone */

typedef struct load {
    stage *s;
    report *r;
    hirate_epoll_loop *epoll;
    hirate_loop loop;
    hirate *h; /* NULL: closed or freed */
    void *timer;
    asked *asked; /* ASKED_MOST of them */
    size_t count;
    bound_record *records;
    size_t record_count;
    uint64_t outstanding, double_calls, early_calls, lies;
    uint64_t local[NAMES]; /* admitted locally */
    uint64_t ledger_yes[NAMES], ledger_maybe[NAMES];
    int64_t ledger_left[NAMES];   /* what a peek found; -1: not yet */
    const asked *held, *held_end; /* these must be answered by Redis */
    uint64_t held_good, held_bad;
    unsigned clients; /* made for the load */
    int submitting;   /* depth of calls that submit */
    unsigned per_tick, allowance;
    bool on;       /* the timer and callbacks submit */
    bool counting; /* not in the warm-up */
    bool closed;   /* on_closed came */
    int64_t began_us, end_due_us;
    rng random;
    struct rlimit descriptors;
} load;

static void *mapped(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return at;
}

static int64_t thread_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int phase(const load *l)
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

    l->r->maybe += r->charge == HIRATE_CHARGE_MAYBE;
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

    if (phase(l) == STAGE_BROKEN && !by_redis && !by_caller && r->source != HIRATE_SOURCE_CACHE)
        l->r->degraded++;
    int64_t mended = atomic_load(&l->s->mended_us);
    if (by_redis && l->r->recovery_us < 0 && mended && a->at_us >= mended)
        l->r->recovery_us = stage_now_us() - mended;
    if (a >= l->held && a < l->held_end)
        ++*(by_redis ? &l->held_good : &l->held_bad);
}

/* Close or free the client in here, from time to time, while the fault is on. */
static void end_if_due(load *l, hirate *h)
{
    if (l->s->load.end == END_NONE || phase(l) != STAGE_BROKEN || l->h != h || stage_now_us() < l->end_due_us)
        return;
    l->h = NULL;
    atomic_fetch_add(&l->s->bitten, 1);
    if (l->s->load.end == END_BY_FREE)
        hirate_free(h);
    else if (hirate_close(h, on_closed, l) != 0)
        truth_red(l->r, "hirate_close() in a callback failed");
}

/* The load is one a process. */
static load the;

static void on_result(hirate *h, const hirate_result *result, void *user)
{
    load *l = &the;
    asked *a = user;

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

static const char *name_text(const asked *a, size_t *len)
{
    static char wide[WIDE_SIZE + 1];
    static const char *const few[NAMES] = {"n0", "n1", "n2", "n3"};
    if (a->limit != LIMIT_WIDE) {
        *len = 2;
        return few[a->name];
    }
    *len = WIDE_SIZE;
    snprintf(wide, sizeof wide, "%0*u", WIDE_SIZE, (unsigned)a->name);
    return wide;
}

/* The function's own return value; what is refused was not asked. */
static int submit(load *l, asked what)
{
    if (!l->h || l->count == ASKED_MOST)
        return HIRATE_ECLOSED;
    asked *a = &l->asked[l->count];
    *a = what;
    a->at_us = stage_now_us();
    hirate_request request;
    hirate_request_init(&request);
    request.op = (enum hirate_op)a->op;
    request.limit = &TRUTH_LIMITS[a->limit];
    request.name = name_text(a, &request.name_len);
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
    submit(l, a);
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
static void turn(load *l)
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

static void turns(load *l, int64_t us)
{
    for (int64_t end = stage_now_us() + us; stage_now_us() < end;)
        turn(l);
}

static void drain(load *l)
{
    for (int64_t end = stage_now_us() + DRAIN_US; l->outstanding && stage_now_us() < end;)
        turn(l);
    if (l->outstanding)
        truth_red(l->r, "%llu callbacks never came", (unsigned long long)l->outstanding);
}

static void open_client(load *l)
{
    hirate_options options;
    hirate_options_init(&options);
    options.uri = l->s->uri;
    options.deadline_ms = l->s->load.deadline_ms;
    options.stall_timeout_ms = l->s->load.stall_ms;
    options.connect_timeout_ms = l->s->load.connect_ms;
    if (l->s->load.max_calls)
        options.max_calls = l->s->load.max_calls;
    if (l->s->load.max_call_keys)
        options.max_call_keys = l->s->load.max_call_keys;
    int rc = hirate_new(&l->h, &l->loop, &options);
    if (rc)
        truth_red(l->r, "hirate_new: %s", hirate_strerror(rc));
    l->clients += l->counting;
    l->closed = false;
    l->end_due_us = stage_now_us() + END_EVERY_US;
}

static void count_client(load *l)
{
    hirate_stats stats;
    hirate_stats_init(&stats);
    hirate_get_stats(l->h, &stats);
    l->r->connects += stats.connects;
    if (stats.submitted != stats.answered + stats.pending || stats.pending != 0)
        truth_red(l->r, "statistics: %llu submitted, %llu answered, %llu pending", (unsigned long long)stats.submitted,
                  (unsigned long long)stats.answered, (unsigned long long)stats.pending);
}

static void close_client(load *l)
{
    if (!l->h)
        return;
    if (hirate_close(l->h, on_closed, l) != 0)
        truth_red(l->r, "hirate_close failed");
    l->h = NULL;
    for (int64_t end = stage_now_us() + DRAIN_US; !l->closed && stage_now_us() < end;)
        turn(l);
    if (!l->closed)
        truth_red(l->r, "on_closed never came");
}

/* After a callback has ended the client: wait until it is gone, and make another. */
static void renew_client(load *l)
{
    if (l->h)
        return;
    drain(l);
    for (int i = 0; i < FAR_TURNS; i++)
        turn(l);
    if (l->s->load.end == END_BY_CLOSE && !l->closed)
        truth_red(l->r, "on_closed did not come after the last callback");
    open_client(l);
}

static void open_loop(load *l)
{
    if (hirate_epoll_new(&l->epoll) != 0 || hirate_epoll(&l->loop, l->epoll) != 0) {
        fprintf(stderr, "faults: no event loop\n");
        exit(1);
    }
    l->timer = l->loop.timer_new(l->loop.data, on_tick, l);
}

static void close_loop(load *l)
{
    l->loop.timer_free(l->timer);
    hirate_epoll_free(l->epoll);
}

/* -------------------------------------------------------------------------------------------------- orders -- */

/* A reply that lies in the socket wins over its deadline, however late the loop comes to it. */
static void hold_loop(load *l)
{
    l->on = false;
    drain(l);
    hirate_stats stats;
    hirate_stats_init(&stats);
    hirate_get_stats(l->h, &stats);
    uint64_t calls = stats.calls;
    l->held = &l->asked[l->count];
    for (int i = 0; i < HELD; i++)
        submit(l, (asked){.limit = LIMIT_LEDGER, .name = (uint16_t)(i % NAMES), .cost = 1, .op = HIRATE_OP_ACQUIRE});
    l->held_end = &l->asked[l->count];
    for (int i = 0; i < 100 && stats.calls == calls; i++) {
        turn(l);
        hirate_get_stats(l->h, &stats);
    }
    int64_t us = 3 * l->s->load.deadline_ms * 1000;
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
    drain(l);
    if (l->held_bad || l->held_good != HELD)
        truth_red(l->r, "%llu of %d replies that had arrived lost to their deadline",
                  (unsigned long long)(HELD - l->held_good), HELD);
    atomic_fetch_add(&l->s->bitten, 1);
    l->on = true;
    l->loop.timer_set(l->timer, 0);
}

static void submit_million(load *l)
{
    uint64_t before = l->r->refused;
    for (int i = 0; i < MILLION; i++)
        submit(l, (asked){.limit = (uint8_t)(i % LIMIT_RESET),
                          .name = (uint16_t)(i % NAMES),
                          .cost = 1,
                          .op = HIRATE_OP_ACQUIRE});
    atomic_fetch_add(&l->s->bitten, l->r->refused > before);
}

static void obey(load *l)
{
    struct rlimit none = l->descriptors;
    none.rlim_cur = 3;
    switch (atomic_load(&l->s->order)) {
    case ORDER_TAKE_DESCRIPTORS:
        setrlimit(RLIMIT_NOFILE, &none);
        break;
    case ORDER_GIVE_DESCRIPTORS:
        setrlimit(RLIMIT_NOFILE, &l->descriptors);
        break;
    case ORDER_HOLD_LOOP:
        hold_loop(l);
        break;
    case ORDER_MILLION:
        submit_million(l);
        break;
    default:
        return;
    }
    atomic_store(&l->s->order, ORDER_NONE);
}

/* ------------------------------------------------------------------------------------------------- its course -- */

static void run_phases(load *l)
{
    int64_t after_us = 0;
    for (;;) {
        turn(l);
        obey(l);
        renew_client(l);
        int64_t now = stage_now_us(), mended = atomic_load(&l->s->mended_us);
        if (phase(l) != STAGE_MENDED)
            continue;
        if (!after_us && l->r->recovery_us >= 0)
            after_us = now + (int64_t)AFTER_MS * 1000 * l->s->scale;
        if ((after_us && now >= after_us) || now - mended > RECOVERY_US)
            return;
    }
}

/* What the server says was charged is what was told, give or take what may have been. */
static void check_ledger(load *l)
{
    const hirate_limit *limit = &TRUTH_LIMITS[LIMIT_LEDGER];
    for (unsigned name = 0; name < NAMES; name++) {
        l->ledger_left[name] = -1;
        for (int i = 0; i < 3 && l->ledger_left[name] < 0; i++) {
            submit(l, (asked){.limit = LIMIT_LEDGER, .name = (uint16_t)name, .op = HIRATE_OP_PEEK});
            drain(l);
        }
        if (l->ledger_left[name] < 0) {
            truth_red(l->r, "the ledger could not be read");
            return;
        }
        uint64_t charged = limit->capacity - (uint64_t)l->ledger_left[name];
        uint64_t yes = l->ledger_yes[name], most = yes + l->ledger_maybe[name];
        if (charged > most || (charged < yes && !l->s->losses))
            truth_red(l->r, "%s/%u: the server charged %llu, told were %llu and maybe %llu more", limit->policy, name,
                      (unsigned long long)charged, (unsigned long long)yes, (unsigned long long)(most - yes));
    }
}

/* Each client's local buckets admit their share, and no more. */
static void check_local(load *l)
{
    const hirate_limit *limit = &TRUTH_LIMITS[LIMIT_LOCAL];
    uint64_t us = (uint64_t)(stage_now_us() - l->began_us);
    uint64_t most = limit->capacity / 2 * l->clients + us * limit->rate.tokens / limit->rate.period_us / 2 + 1;
    for (unsigned name = 0; name < NAMES; name++)
        if (l->local[name] > most)
            truth_red(l->r, "%s/%u: %llu admitted locally, at most %llu may be", limit->policy, name,
                      (unsigned long long)l->local[name], (unsigned long long)most);
}

static void check_counts(load *l)
{
    report *r = l->r;
    if (r->callbacks != r->submitted)
        truth_red(r, "%llu submissions, %llu callbacks", (unsigned long long)r->submitted,
                  (unsigned long long)r->callbacks);
    if (l->double_calls)
        truth_red(r, "%llu callbacks came twice", (unsigned long long)l->double_calls);
    if (l->early_calls)
        truth_red(r, "%llu callbacks came inside a call that submits", (unsigned long long)l->early_calls);
    if (l->lies > 1)
        truth_red(r, "%llu results were untrue", (unsigned long long)l->lies);
    if (r->busiest > 1024)
        truth_red(r, "%llu callbacks in one turn", (unsigned long long)r->busiest);
}

/* A client's life before the first measurement: what is allocated once in a process is not the load's. */
static void warm_up(load *l)
{
    open_loop(l);
    open_client(l);
    for (unsigned limit = 0; limit < LIMITS; limit++)
        submit(l, (asked){.limit = (uint8_t)limit, .cost = 0, .op = HIRATE_OP_ACQUIRE});
    drain(l);
    close_client(l);
    close_loop(l);
}

static void load_init(load *l, stage *s)
{
    *l = (load){.s = s, .r = &s->report, .random = {strtoull(getenv("HIRATE_TEST_SEED"), NULL, 10)}};
    l->asked = mapped(sizeof *l->asked * ASKED_MOST);
    l->records = mapped(sizeof *l->records * ASKED_MOST);
    l->per_tick = driver_slow() ? 6 : 16;
    l->r->recovery_us = -1;
    getrlimit(RLIMIT_NOFILE, &l->descriptors);
}

static void enter_namespace(const char *path)
{
    int fd = path[0] ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (path[0] && (fd < 0 || setns(fd, CLONE_NEWNET) != 0)) {
        perror(path);
        exit(1);
    }
    if (fd >= 0)
        close(fd);
}

void load_run(stage *s)
{
    load *l = &the;
    enter_namespace(s->netns);
    load_init(l, s);
    warm_up(l);
    int64_t descriptors = live_descriptors(), bytes = live_bytes();
    l->counting = true;
    l->began_us = stage_now_us();
    open_loop(l);
    open_client(l);
    l->on = true;
    l->loop.timer_set(l->timer, 0);
    atomic_store(&s->loading, 1);
    run_phases(l);
    l->on = false;
    drain(l);
    check_ledger(l);
    turns(l, 1000);
    count_client(l);
    close_client(l);
    close_loop(l);
    s->report.descriptors = live_descriptors() - descriptors;
    s->report.bytes = live_bytes() - bytes;
    check_counts(l);
    check_local(l);
    truth_check_bound(l->records, l->record_count, s->losses, l->r);
    s->report.complete = true;
}
