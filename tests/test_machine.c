/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client driven at random through a simulated world (support/sim.h): submissions of every kind, over one limit or
 * several, with and without permits, cancels, resets, time, a server that fails in every way it can, and close. What
 * comes of it is held against the contract:
 *
 *     every accepted request is answered exactly once, none inside the call that submitted it; no deadline comes early,
 *         although the coarse clock may lag;
 *     what is told to be charged was taken, what is told not to be charged never is, nothing is taken twice;
 *     a verdict by Redis is the one that the server reached, to the last figure and for each limit; one in its stead is
 *         that of the strictest on_failure;
 *     a name's requests are decided in the order of submission while nothing has to be sent again;
 *     a permit stands for what the server holds; nobody but who has it uses it, and it ends once; what nobody was told
 *         of is given back;
 *     submitted = answered + pending, for each policy too; ids are never used again, nothing is left behind.
 *
 * HIRATE_TEST_SEED repeats a run, HIRATE_MACHINE_RUNS makes more of them.
 */
#include "machine/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 1000 };

void broken(const machine *m, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "BROKEN, HIRATE_TEST_SEED=%llu: ", (unsigned long long)m->seed);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

uint64_t roll(machine *m, uint64_t most)
{
    return rng_upto(&m->random, most);
}

/* ------------------------------------------------------------------------------------------ the server's hooks -- */

static uint64_t on_random(void *arg, uint64_t most)
{
    return roll(arg, most);
}

static enum fate on_fate(void *arg)
{
    machine *m = arg;
    return m->calm || roll(m, 9) ? FATE_ANSWER : (enum fate)roll(m, FATE_COUNT - 1);
}

static void on_disturbed(void *arg)
{
    ((machine *)arg)->disturbances++;
}

static int on_spoiled(void *arg, const simscript_arg *key)
{
    static const int wrong[] = {-2, -1, 1, 2};
    machine *m = arg;
    (void)key;
    return m->calm || roll(m, 49) ? 0 : wrong[roll(m, 3)];
}

static void on_closed(void *user)
{
    ((machine *)user)->closed = true;
}

/* --------------------------------------------------------------------------------------------------- the steps -- */

static void check_stats(const machine *m)
{
    hirate_stats stats;
    hirate_stats_init(&stats);
    hirate_get_stats(m->h, &stats);
    CHECK(m, stats.submitted == m->count && stats.answered == m->answered && stats.pending == m->count - m->answered,
          "statistics: %llu submitted, %llu answered, %llu pending; here %zu and %zu",
          (unsigned long long)stats.submitted, (unsigned long long)stats.answered, (unsigned long long)stats.pending,
          m->count, m->answered);
    for (int i = 0; i < POLICIES; i++) {
        hirate_policy_stats of;
        hirate_policy_stats_init(&of);
        if (hirate_get_policy_stats(m->h, POLICY_NAMES[i], &of) == HIRATE_ENOENT)
            continue;
        CHECK(m, of.submitted == m->submitted_by[i] && of.waiting == m->submitted_by[i] - m->answered_by[i],
              "statistics of %s: %llu submitted, %llu waiting; here %llu and %llu answered", POLICY_NAMES[i],
              (unsigned long long)of.submitted, (unsigned long long)of.waiting, (unsigned long long)m->submitted_by[i],
              (unsigned long long)m->answered_by[i]);
    }
}

static void turn_all(machine *m, bool piecewise)
{
    sim_settle(m->world);
    simserver_step(m->server, piecewise);
    sim_settle(m->world);
}

static void step(machine *m)
{
    switch (roll(m, 39)) {
    case 0:
        if (m->count)
            machine_cancel(m, &m->asked[roll(m, m->count - 1)]);
        break;
    case 1:
        sim_pass(m->world, (int64_t)roll(m, 2000000));
        break;
    case 2:
        simserver_drop(m->server);
        break;
    case 3:
        sim_listen(m->world, roll(m, 3) != 0);
        break;
    case 4:
        simserver_step_clock(m->server, (int64_t)roll(m, 200000) - 100000);
        break;
    case 5:
        for (uint64_t i = roll(m, 150); i > 0 && m->count < ASKED_MOST - 1000; i--) /* some are left for the end */
            machine_submit(m, false);
        break;
    case 6:
        sim_turn(m->world);
        break;
    case 7:
    case 8:
    case 9:
    case 10:
    case 11:
    case 12:
    case 13:
    case 14:
        machine_submit(m, false);
        break;
    default:
        sim_pass(m->world, (int64_t)roll(m, 50000));
        turn_all(m, roll(m, 1));
    }
    check_stats(m);
}

/* Nothing fails any more: everything comes to its end, and is decided again. */
static void calm_down(machine *m)
{
    m->calm = true;
    sim_listen(m->world, true);
    for (int i = 0; i < 10000 && m->answered < m->count; i++) {
        sim_pass(m->world, 20000);
        turn_all(m, false);
    }
    CHECK(m, m->answered == m->count, "%zu of %zu are not answered", m->count - m->answered, m->count);
    uint64_t before = m->verdicts;
    for (int i = 0; i < 500 && m->verdicts == before; i++) {
        if (m->answered == m->count)
            machine_submit(m, true);
        sim_pass(m->world, 20000);
        turn_all(m, false);
    }
    CHECK(m, m->verdicts > before, "nothing is decided although nothing fails any more (%zu asked)", m->count);
}

/* Those of the requests from `from` on that the server decided and their callers heard nothing of: it holds nothing
 * for them. */
static void check_given_back(machine *m, size_t from)
{
    for (size_t i = from; i < m->count; i++) {
        const outcome *o = machine_outcome(m, &m->asked[i]);
        if (!o || !o->times || !o->what.holds || m->asked[i].charge != HIRATE_CHARGE_MAYBE)
            continue;
        CHECK(m, !simserver_holds(m->server, o->what.id), "what nobody was told of is held");
        m->given_back++;
    }
}

/* Leases that are canceled while they are decided. */
static void cancel_leases(machine *m)
{
    size_t from = m->count;
    for (int i = 0; i < 5; i++)
        machine_submit(m, true);
    sim_settle(m->world);
    for (size_t i = from; i < m->count; i++)
        machine_cancel(m, &m->asked[i]);
    for (int i = 0; i < 20; i++) {
        turn_all(m, false);
        sim_pass(m->world, 1000);
    }
    check_given_back(m, from);
}

static void close_client(machine *m)
{
    size_t from = m->count;
    for (uint64_t i = roll(m, 30); i > 0; i--)
        machine_submit(m, roll(m, 1));
    if (roll(m, 1))
        sim_turn(m->world);
    if (roll(m, 3)) {
        bool answers = roll(m, 3);
        CHECK(m, hirate_close(m->h, on_closed, m) == 0, "close");
        for (int i = 0; i < 1000 && !m->closed; i++) {
            if (answers)
                simserver_step(m->server, false);
            sim_settle(m->world);
            sim_pass(m->world, 1000);
        }
        CHECK(m, m->closed, "on_closed did not come");
        simserver_step(m->server, false); /* what was written is decided all the same */
        if (answers)
            check_given_back(m, from);
    } else {
        hirate_free(m->h);
        simserver_step(m->server, false);
    }
    CHECK(m, m->answered == m->count, "closed with %zu not answered", m->count - m->answered);
    CHECK(m, sim_handles(m->world) == 0, "%zu handles of the loop are left", sim_handles(m->world));
    for (int i = 0; i < ALIKE; i++)
        CHECK(m, m->alike_yes[i] <= m->alike_took[i] && m->alike_took[i] <= m->alike_yes[i] + m->alike_maybe[i],
              "alike %d: %llu taken, %llu told, %llu perhaps", i, (unsigned long long)m->alike_took[i],
              (unsigned long long)m->alike_yes[i], (unsigned long long)m->alike_maybe[i]);
}

/* ------------------------------------------------------------------------------------------------------- a run -- */

typedef struct seen {
    uint64_t verdicts, errors, several, permits_used, fallbacks, given_back;
} seen;

static void open_world(machine *m)
{
    hirate_options options;

    m->world = sim_new(m->seed);
    sim_keep_calendar(m->world);
    sim_lag(m->world, roll(m, 1) ? 0 : (int64_t)roll(m, 100000));
    m->server = simserver_new(
        m->world, &(simserver_hooks){on_fate, on_disturbed, on_random, m, {on_spoiled, machine_on_decided, m}});
    m->asked = calloc(ASKED_MOST, sizeof *m->asked);
    m->outcomes = calloc(COSTS, sizeof *m->outcomes);
    memset(m->asked_for, -1, sizeof m->asked_for);
    memset(m->last_decided, -1, sizeof m->last_decided);
    hirate_options_init(&options);
    options.deadline_ms = DEADLINE_MS;
    options.uri = sim_uri(m->world);
    options.max_pending = roll(m, 1) ? 65536 : 50;
    options.max_calls = 1 + (uint32_t)roll(m, 3);
    options.max_call_keys = 1 + (uint32_t)roll(m, roll(m, 1) ? 255 : 19);
    options.max_call_acquires = 1 + (uint32_t)roll(m, roll(m, 1) ? 1023 : 20);
    CHECK(m, hirate_new(&m->h, sim_loop(m->world), &options) == 0, "hirate_new");
}

static void run(uint64_t seed, seen *sum)
{
    machine *m = calloc(1, sizeof *m);

    if (!m)
        abort();
    m->seed = m->random.state = seed;
    open_world(m);
    for (int i = 0; i < STEPS; i++)
        step(m);
    calm_down(m);
    cancel_leases(m);
    close_client(m);
    sum->verdicts += m->verdicts;
    sum->errors += m->errors;
    sum->several += m->several;
    sum->permits_used += m->permits_used;
    sum->fallbacks += m->fallbacks;
    sum->given_back += m->given_back;
    simserver_free(m->server);
    sim_free(m->world);
    free(m->outcomes);
    free(m->asked);
    free(m);
}

int main(void)
{
    const char *wanted = getenv("HIRATE_MACHINE_RUNS");
    long runs = wanted ? atol(wanted) : getenv("HIRATE_SLOW") ? 10 : 100;
    rng first = rng_start("test_machine");
    seen sum = {0};
    for (long i = 0; i < runs; i++) /* each by its own seed, the first by the one that is printed */
        run(first.state + (uint64_t)i, &sum);
    printf("%ld runs, %llu verdicts, %llu errors, %llu by on_failure, %llu over several limits, %llu with a permit, "
           "%llu given back\n",
           runs, (unsigned long long)sum.verdicts, (unsigned long long)sum.errors, (unsigned long long)sum.fallbacks,
           (unsigned long long)sum.several, (unsigned long long)sum.permits_used, (unsigned long long)sum.given_back);
    bool ok = sum.verdicts && sum.errors && sum.several && sum.permits_used && sum.fallbacks && sum.given_back;
    printf("%d passed, %d failed\n", ok, !ok);
    return ok ? 0 : 1;
}
