/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client driven at random through a simulated world (support/sim.h): submissions of every kind, cancels, resets,
 * time, a server that fails in every way it can, and close. What comes of it is held against the contract:
 *
 *     every accepted request is answered exactly once, none inside the call that submitted it;
 *     what is told to be charged was taken, what is told not to be charged never is, nothing is taken twice;
 *     a verdict by Redis is the one that the server reached, to the last figure;
 *     a name's acquires are decided in the order of submission while nothing has to be sent again;
 *     submitted = answered + pending, ids are never used again, nothing is left behind.
 *
 * HIRATE_TEST_SEED repeats a run, HIRATE_MACHINE_RUNS makes more of them.
 */
#include "support/random.h"
#include "support/simserver.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 1000, UNIQUE = 3, ALIKE = 2, REQUESTS_MOST = 4000, COST_MOST = REQUESTS_MOST };

/* On names of the first no two acquires cost the same, so each is known by its cost; on the other's each costs 1. */
static const hirate_limit WIDE = HIRATE_TOKEN_BUCKET("wide", 2000, HIRATE_PER_SECOND(500));
static const hirate_limit SMALL = HIRATE_TOKEN_BUCKET("small", 20, HIRATE_PER_SECOND(10));

typedef struct machine machine;

typedef struct asked {
    machine *m;
    uint64_t id;
    enum hirate_op op;
    int name; /* UNIQUE and above: of the alike */
    uint64_t cost;
    uint64_t disturbances; /* when it was submitted */
    int calls;
    enum hirate_charge charge;
} asked;

typedef struct outcome {
    int times;
    decided what;
} outcome;

struct machine {
    uint64_t seed;
    rng random;
    sim *world;
    simserver *server;
    hirate *h;
    asked *asked;
    size_t count, answered;
    bool submitting, closed, calm;
    uint64_t disturbances, last_id;
    uint64_t next_cost[UNIQUE], last_decided[UNIQUE];
    outcome *outcomes[UNIQUE]; /* by cost */
    uint64_t alike_took[ALIKE], alike_yes[ALIKE], alike_maybe[ALIKE];
    uint64_t verdicts, errors;
};

static void broken(const machine *m, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
static void broken(const machine *m, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "BROKEN, HIRATE_TEST_SEED=%llu: ", (unsigned long long)m->seed);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

#define CHECK(m, ok, ...)                                                                                              \
    do {                                                                                                               \
        if (!(ok))                                                                                                     \
            broken(m, __VA_ARGS__);                                                                                    \
    } while (0)

static uint64_t roll(machine *m, uint64_t most)
{
    return rng_upto(&m->random, most);
}

/* --------------------------------------------------------------------------------------- what the server says -- */

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

static const asked *asked_for(const machine *m, int name, uint64_t cost)
{
    for (size_t i = 0; i < m->count; i++)
        if (m->asked[i].op == HIRATE_OP_ACQUIRE && m->asked[i].name == name && m->asked[i].cost == cost)
            return &m->asked[i];
    return NULL;
}

static void on_decided(void *arg, const decided *what)
{
    machine *m = arg;
    int name = what->name[0] - '0';
    if (!what->cost)
        return;
    if (name >= UNIQUE) {
        m->alike_took[name - UNIQUE] += what->took;
        return;
    }
    outcome *o = &m->outcomes[name][what->cost];
    const asked *a = asked_for(m, name, what->cost);
    CHECK(m, a != NULL, "the server decided what nobody asked for: name %d, cost %llu", name,
          (unsigned long long)what->cost);
    CHECK(m, !o->times, "name %d, cost %llu was decided twice", name, (unsigned long long)what->cost);
    CHECK(m, !a->calls || a->charge != HIRATE_CHARGE_NO || !what->took,
          "name %d, cost %llu was taken after it was told not to be", name, (unsigned long long)what->cost);
    CHECK(m, what->cost > m->last_decided[name] || a->disturbances != m->disturbances,
          "name %d, cost %llu was decided after cost %llu", name, (unsigned long long)what->cost,
          (unsigned long long)m->last_decided[name]);
    m->last_decided[name] = what->cost;
    o->times++;
    o->what = *what;
}

/* --------------------------------------------------------------------------------------- what the client says -- */

static void check_verdict(const machine *m, const asked *a, const hirate_result *r)
{
    if (a->op == HIRATE_OP_ACQUIRE && a->name < UNIQUE && a->cost && a->cost <= WIDE.capacity) {
        const outcome *o = &m->outcomes[a->name][a->cost];
        CHECK(m, o->times == 1, "name %d, cost %llu has a verdict that Redis did not reach", a->name,
              (unsigned long long)a->cost);
        CHECK(m, (r->verdict == HIRATE_ALLOWED) == o->what.took, "name %d, cost %llu: another verdict", a->name,
              (unsigned long long)a->cost);
        CHECK(m,
              r->remaining == o->what.remaining && r->retry_after_ms == o->what.retry_after_ms &&
                  r->reset_ms == o->what.reset_ms && r->time_us == o->what.time_us,
              "name %d, cost %llu: remaining %llu retry %lld reset %lld time %lld, not %llu %lld %lld %lld", a->name,
              (unsigned long long)a->cost, (unsigned long long)r->remaining, (long long)r->retry_after_ms,
              (long long)r->reset_ms, (long long)r->time_us, (unsigned long long)o->what.remaining,
              (long long)o->what.retry_after_ms, (long long)o->what.reset_ms, (long long)o->what.time_us);
    }
    if (a->op == HIRATE_OP_ACQUIRE)
        CHECK(m, (r->charge == HIRATE_CHARGE_YES) == (r->verdict == HIRATE_ALLOWED && a->cost),
              "verdict and charge differ");
    else
        CHECK(m, r->charge == HIRATE_CHARGE_NO, "a charge for what takes nothing");
    uint64_t capacity = a->name < UNIQUE ? WIDE.capacity : SMALL.capacity;
    if (a->op != HIRATE_OP_RESET && a->cost > capacity)
        CHECK(m, r->verdict == HIRATE_DENIED && r->retry_after_ms == HIRATE_NEVER, "more than fits, and not never");
}

static void check_error(const machine *m, const asked *a, const hirate_result *r)
{
    CHECK(m, r->error < 0 && r->verdict == HIRATE_VERDICT_NONE && r->charge != HIRATE_CHARGE_YES, "an odd error");
    CHECK(m, r->reason[0] != '\0', "an error without a reason");
    if (a->op != HIRATE_OP_ACQUIRE || !a->cost)
        CHECK(m, r->charge == HIRATE_CHARGE_NO, "perhaps a charge for what takes nothing");
    else if (a->name < UNIQUE && r->charge == HIRATE_CHARGE_NO)
        CHECK(m, !m->outcomes[a->name][a->cost].times || !m->outcomes[a->name][a->cost].what.took,
              "name %d, cost %llu was taken, and is told not to be: %s", a->name, (unsigned long long)a->cost,
              r->reason);
}

static void submit(machine *m);

static void on_answer(hirate *h, const hirate_result *r, void *user)
{
    asked *a = user;
    machine *m = a->m;
    CHECK(m, h == m->h && !m->submitting, "a callback inside a call");
    CHECK(m, !a->calls++, "a second callback");
    CHECK(m, r->op == a->op && r->cost == a->cost && r->id == a->id, "another request's answer");
    a->charge = r->charge;
    m->answered++;
    if (a->op == HIRATE_OP_ACQUIRE && a->name >= UNIQUE) {
        m->alike_yes[a->name - UNIQUE] += r->charge == HIRATE_CHARGE_YES;
        m->alike_maybe[a->name - UNIQUE] += r->charge == HIRATE_CHARGE_MAYBE;
    }
    if (r->error)
        check_error(m, a, r);
    else
        check_verdict(m, a, r);
    *(r->error ? &m->errors : &m->verdicts) += 1;
    if (!m->calm && !roll(m, 7))
        submit(m);
}

static void on_closed(void *user)
{
    ((machine *)user)->closed = true;
}

/* --------------------------------------------------------------------------------------------------- the steps -- */

static void submit(machine *m)
{
    static const char NAMES[] = "01234";
    if (m->count == REQUESTS_MOST)
        return;
    asked *a = &m->asked[m->count];
    *a = (asked){.m = m, .op = HIRATE_OP_ACQUIRE, .cost = 1, .disturbances = m->disturbances};
    a->name = (int)roll(m, UNIQUE + ALIKE - 1);
    uint64_t what = roll(m, 19);
    if (what < 2)
        a->op = HIRATE_OP_PEEK;
    else if (what < 4)
        a->op = HIRATE_OP_RESET;
    else if (a->name < UNIQUE)
        a->cost = what == 4 ? 0 : ++m->next_cost[a->name];
    else if (what == 5)
        a->cost = SMALL.capacity + 1;
    hirate_request request;
    hirate_request_init(&request);
    request.op = a->op;
    request.limit = a->name < UNIQUE ? &WIDE : &SMALL;
    request.name = &NAMES[a->name];
    request.name_len = 1;
    request.cost = a->cost;
    request.deadline_ms = roll(m, 3) ? 0 : 1 + (int64_t)roll(m, 400);
    request.cb = on_answer;
    request.user = a;
    m->count++;
    bool before = m->submitting;
    m->submitting = true;
    int rc = hirate_submit(m->h, &request, &a->id);
    m->submitting = before;
    if (rc == HIRATE_EOVERLOAD) {
        m->count--;
        return;
    }
    CHECK(m, rc == 0, "submit: %s", hirate_last_error(m->h));
    for (const asked *b = m->asked; b < a; b++)
        CHECK(m, b->id != a->id, "an id for the second time");
}

static void cancel(machine *m)
{
    if (!m->count)
        return;
    const asked *a = &m->asked[roll(m, m->count - 1)];
    m->submitting = true;
    int rc = hirate_cancel(m->h, a->id);
    m->submitting = false;
    CHECK(m, rc == 0 || rc == HIRATE_ENOENT, "cancel: %s", hirate_strerror(rc));
    CHECK(m, rc == HIRATE_ENOENT || !a->calls, "what was answered could be canceled");
}

static void check_stats(const machine *m)
{
    hirate_stats stats;
    hirate_stats_init(&stats);
    hirate_get_stats(m->h, &stats);
    CHECK(m, stats.submitted == m->count && stats.answered == m->answered && stats.pending == m->count - m->answered,
          "statistics: %llu submitted, %llu answered, %llu pending; here %zu and %zu",
          (unsigned long long)stats.submitted, (unsigned long long)stats.answered, (unsigned long long)stats.pending,
          m->count, m->answered);
}

static void step(machine *m)
{
    switch (roll(m, 39)) {
    case 0:
        cancel(m);
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
        for (uint64_t i = roll(m, 40); i > 0; i--)
            submit(m);
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
        submit(m);
        break;
    default:
        sim_pass(m->world, (int64_t)roll(m, 50000));
        sim_settle(m->world);
        simserver_step(m->server, roll(m, 1));
        sim_settle(m->world);
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
        sim_settle(m->world);
        simserver_step(m->server, false);
        sim_settle(m->world);
    }
    CHECK(m, m->answered == m->count, "%zu of %zu are not answered", m->count - m->answered, m->count);
    uint64_t before = m->verdicts;
    for (int i = 0; i < 500 && m->verdicts == before; i++) {
        if (m->answered == m->count)
            submit(m);
        sim_pass(m->world, 20000);
        sim_settle(m->world);
        simserver_step(m->server, false);
        sim_settle(m->world);
    }
    CHECK(m, m->verdicts > before, "nothing is decided although nothing fails any more");
}

static void close_client(machine *m)
{
    for (uint64_t i = roll(m, 30); i > 0; i--)
        submit(m);
    if (roll(m, 1))
        sim_turn(m->world);
    if (roll(m, 3)) {
        CHECK(m, hirate_close(m->h, on_closed, m) == 0, "close");
        for (int i = 0; i < 1000 && !m->closed; i++) {
            sim_settle(m->world);
            sim_pass(m->world, 1000);
        }
        CHECK(m, m->closed, "on_closed did not come");
    } else {
        hirate_free(m->h);
    }
    CHECK(m, m->answered == m->count, "closed with %zu not answered", m->count - m->answered);
    CHECK(m, sim_handles(m->world) == 0, "%zu handles of the loop are left", sim_handles(m->world));
    simserver_step(m->server, false); /* what was written is decided all the same */
    for (int i = 0; i < ALIKE; i++)
        CHECK(m, m->alike_yes[i] <= m->alike_took[i] && m->alike_took[i] <= m->alike_yes[i] + m->alike_maybe[i],
              "alike %d: %llu taken, %llu told, %llu perhaps", i, (unsigned long long)m->alike_took[i],
              (unsigned long long)m->alike_yes[i], (unsigned long long)m->alike_maybe[i]);
}

static void run(uint64_t seed, uint64_t *verdicts, uint64_t *errors)
{
    machine m = {.seed = seed, .random = {seed}};
    hirate_options options;

    m.world = sim_new(seed);
    m.server = simserver_new(m.world, &(simserver_hooks){on_fate, on_decided, on_disturbed, on_random, &m});
    m.asked = calloc(REQUESTS_MOST, sizeof *m.asked);
    for (int i = 0; i < UNIQUE; i++)
        m.outcomes[i] = calloc(COST_MOST + 1, sizeof **m.outcomes);
    hirate_options_init(&options);
    options.uri = sim_uri(m.world);
    options.max_pending = roll(&m, 1) ? 65536 : 50;
    options.max_calls = 1 + (uint32_t)roll(&m, 3);
    options.max_call_keys = 1 + (uint32_t)roll(&m, 5);
    options.max_call_acquires = 1 + (uint32_t)roll(&m, 20);
    CHECK(&m, hirate_new(&m.h, sim_loop(m.world), &options) == 0, "hirate_new");
    for (int i = 0; i < STEPS; i++)
        step(&m);
    calm_down(&m);
    close_client(&m);
    *verdicts += m.verdicts;
    *errors += m.errors;
    simserver_free(m.server);
    sim_free(m.world);
    for (int i = 0; i < UNIQUE; i++)
        free(m.outcomes[i]);
    free(m.asked);
}

int main(void)
{
    const char *wanted = getenv("HIRATE_MACHINE_RUNS");
    long runs = wanted ? atol(wanted) : getenv("HIRATE_SLOW") ? 10 : 100;
    rng first = rng_start("test_machine");
    uint64_t verdicts = 0, errors = 0;
    for (long i = 0; i < runs; i++) /* each by its own seed, the first by the one that is printed */
        run(first.state + (uint64_t)i, &verdicts, &errors);
    printf("%ld runs, %llu verdicts, %llu errors\n", runs, (unsigned long long)verdicts, (unsigned long long)errors);
    bool ok = verdicts > 0 && errors > 0;
    printf("%d passed, %d failed\n", ok, !ok);
    return ok ? 0 : 1;
}
