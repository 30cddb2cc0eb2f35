/* SPDX-License-Identifier: BSD-3-Clause */
/* tests: the state machine of test_machine.c: what it asks (ask.c) and what it holds the answers against (hear.c). */
#ifndef TESTS_MACHINE_H
#define TESTS_MACHINE_H

#include "permit.h"

#include "../support/random.h"
#include "../support/simserver.h"

#include <stdarg.h>

/*
 * Every acquire and peek has a cost of its own, and every commit an amount of its own, COSTS at most, so each is
 * known by it wherever it is met. But those on a key of the alike all cost 1.
 */
enum { ASKED_MOST = 4000, COSTS = 4001, PERMITS_MOST = 200, POLICIES = 8, ALIKE = 2, PAIRS_MOST = 5, CAPACITY = 9000 };
enum { NAMES = 40, NAMES_HOT = 2 }; /* of each policy */
enum { SMALL = POLICIES - 1 }; /* the policy of the alike */
enum { SMALL_CAPACITY = 20, DEADLINE_MS = 1000 };

typedef struct machine machine;

/* What was asked of one limit. */
typedef struct asked_pair {
    uint8_t policy, variant;
    char name;
} asked_pair;

typedef struct asked {
    machine *m;
    uint64_t id;
    enum hirate_op op;
    uint32_t count; /* of pairs; 0: with a permit */
    asked_pair pairs[PAIRS_MOST];
    int permit; /* which; -1: none */
    bool alike;
    uint64_t cost, hold_us;
    int64_t due_us; /* its deadline */
    uint64_t disturbances; /* when it was submitted */
    int calls;
    enum hirate_charge charge;
} asked;

/* What the server decided of one cost. */
typedef struct outcome {
    int times;
    decided what;
} outcome;

/* A permit that was told. By operation: how often it was asked for, and what the server said to it. */
typedef struct held_permit {
    char text[HIRATE_PERMIT_SIZE];
    unsigned char id[HR_HOLD_ID_SIZE];
    bool lease, local;
    int asked[HIRATE_OP_REFUND + 1], done[HIRATE_OP_REFUND + 1], gone[HIRATE_OP_REFUND + 1];
} held_permit;

struct machine {
    uint64_t seed;
    rng random;
    sim *world;
    simserver *server;
    hirate *h;
    asked *asked;
    size_t count, answered;
    bool submitting, closed, calm;
    uint64_t disturbances, costs_used;
    int asked_for[COSTS];          /* by cost: which acquire or peek, or commit; -1: none */
    outcome *outcomes;             /* by cost */
    int last_decided[POLICIES][NAMES]; /* by key: which was asked */
    held_permit permits[PERMITS_MOST];
    size_t permit_count;
    uint64_t alike_took[ALIKE], alike_yes[ALIKE], alike_maybe[ALIKE];
    uint64_t submitted_by[POLICIES], answered_by[POLICIES];                  /* policy */
    uint64_t verdicts, errors, several, permits_used, fallbacks, given_back; /* how often each was seen */
};

void broken(const machine *m, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));

#define CHECK(m, ok, ...)                                                                                              \
    do {                                                                                                               \
        if (!(ok))                                                                                                     \
            broken(m, __VA_ARGS__);                                                                                    \
    } while (0)

uint64_t roll(machine *m, uint64_t most);

static inline int machine_policy_of(const held_permit *permit)
{
    return permit->lease ? HIRATE_KIND_CONCURRENCY - 1 : HIRATE_KIND_QUOTA - 1;
}

/* What the server decided of it; NULL: its cost does not tell. */
static inline const outcome *machine_outcome(const machine *m, const asked *a)
{
    bool tells = !a->alike && a->cost > 0 && a->cost < COSTS && a->op != HIRATE_OP_RESET;
    return tells ? &m->outcomes[a->cost] : NULL;
}

extern const char *const POLICY_NAMES[POLICIES];
const hirate_limit *machine_limit(const asked_pair *pair);

/* Submit one request of any kind, or, if `lease`, an acquire that takes a lease. */
void machine_submit(machine *m, bool lease);
void machine_cancel(machine *m, asked *a);

/* The server's word and the client's. */
void machine_on_decided(void *arg, const decided *what);
void machine_on_answer(hirate *h, const hirate_result *r, void *user);

#endif
