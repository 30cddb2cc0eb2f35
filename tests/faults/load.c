/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault matrix: the client's course, and what is held against it at the end (see load.h).
 *
 * All memory of the load's own is mapped before the first measurement, so that whatever is allocated meanwhile is the
 * library's.
 */
#include "load.h"

#include "live.h"
#include "load_client.h"

#include "../support/driver.h"

#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define AFTER_MS 250                  /* of load after recovery */
#define RECOVERY_US INT64_C(15000000) /* past this it is called none */

static void *mapped(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return at;
}

static void turns(load *l, int64_t us)
{
    for (int64_t end = stage_now_us() + us; stage_now_us() < end;)
        load_turn(l);
}

/* What the client counts by policy is what its callbacks were told. */
static void check_policies(load *l)
{
    uint64_t submitted = 0, maybe = 0, waiting = 0;
    for (size_t i = 0; i < LIMITS; i++) {
        hirate_policy_stats stats;
        hirate_policy_stats_init(&stats);
        if (hirate_get_policy_stats(l->h, TRUTH_LIMITS[i].policy, &stats) != 0)
            continue;
        submitted += stats.submitted;
        maybe += stats.maybe;
        waiting += stats.waiting;
    }
    if (submitted != l->r->submitted || maybe != l->r->maybe || waiting)
        truth_red(l->r, "statistics by policy: %llu submitted, %llu maybe charged, %llu waiting",
                  (unsigned long long)submitted, (unsigned long long)maybe, (unsigned long long)waiting);
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

static void run_phases(load *l)
{
    int64_t after_us = 0;
    for (;;) {
        load_turn(l);
        load_obey(l);
        load_renew_client(l);
        int64_t now = stage_now_us(), mended = atomic_load(&l->s->mended_us);
        if (load_phase(l) != STAGE_MENDED)
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
            load_submit(l, (asked){.limit = LIMIT_LEDGER, .name = (uint16_t)name, .op = HIRATE_OP_PEEK});
            load_drain(l);
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
    load_open_loop(l);
    load_open_client(l);
    for (unsigned limit = 0; limit < LIMITS; limit++)
        load_submit(l, (asked){.limit = (uint8_t)limit, .cost = 0, .op = HIRATE_OP_ACQUIRE});
    load_drain(l);
    load_close_client(l);
    load_close_loop(l);
}

/* What the fault does not fix is drawn, half the time away from its default: no breaker, one that opens at once, small
 * calls. */
static void choose_options(load *l)
{
    static const uint32_t failures[] = {5, 5, 1, 1000000}, keys[] = {128, 128, 128, 2}, calls[] = {3, 3, 1, 16};
    uint64_t dice = rng_next(&l->random);

    l->breaker_failures = failures[dice % 4];
    if (!l->s->load.max_calls)
        l->s->load.max_calls = calls[(dice >> 8) % 4];
    if (!l->s->load.max_call_keys)
        l->s->load.max_call_keys = keys[(dice >> 16) % 4];
}

/* The same seed means another load for each fault. */
static uint64_t seed_of(const char *name)
{
    uint64_t seed = strtoull(getenv("HIRATE_TEST_SEED"), NULL, 10);
    for (; *name; name++)
        seed = (seed ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return seed;
}

static void load_init(load *l, stage *s)
{
    *l = (load){.s = s, .r = &s->report, .random = {seed_of(s->name)}};
    l->asked = mapped(sizeof *l->asked * ASKED_MOST);
    l->records = mapped(sizeof *l->records * ASKED_MOST);
    l->per_tick = driver_slow() ? 6 : 16;
    l->r->recovery_us = -1;
    choose_options(l);
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
    static load the;
    load *l = &the;

    enter_namespace(s->netns);
    load_init(l, s);
    warm_up(l);
    int64_t descriptors = live_descriptors(), bytes = live_bytes();
    l->counting = true;
    l->began_us = stage_now_us();
    load_open_loop(l);
    load_open_client(l);
    load_on(l);
    atomic_store(&s->loading, 1);
    run_phases(l);
    load_off(l);
    load_drain(l);
    check_ledger(l);
    turns(l, 1000);
    count_client(l);
    if (l->s->load.end == END_NONE) /* otherwise there were several clients */
        check_policies(l);
    load_close_client(l);
    load_close_loop(l);
    s->report.descriptors = live_descriptors() - descriptors;
    s->report.bytes = live_bytes() - bytes;
    check_counts(l);
    check_local(l);
    truth_check_bound(l->records, l->record_count, s->losses, l->r);
    s->report.complete = true;
}
