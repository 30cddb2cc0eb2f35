/* SPDX-License-Identifier: BSD-3-Clause */
/* tests: what the state machine asks (see machine.h). */
#include "machine.h"

#include <string.h>

enum { VARIANTS = 6 };

const char *const POLICY_NAMES[POLICIES] = {"token", "leaky", "window", "quota", "log", "sliding", "slots", "small"};

/* The last entry is that of the alike. */
static const hirate_limit LIMITS[POLICIES] = {
    HIRATE_TOKEN_BUCKET("token", CAPACITY, HIRATE_PER_SECOND(2000)),
    HIRATE_LEAKY_BUCKET("leaky", CAPACITY, HIRATE_PER_SECOND(3000)),
    HIRATE_FIXED_WINDOW("window", CAPACITY, HIRATE_SECONDS(3)),
    HIRATE_QUOTA("quota", 40 * CAPACITY, HIRATE_PER_HOUR, 30),
    HIRATE_SLIDING_LOG("log", HIRATE_LOG_MAX, HIRATE_SECONDS(4)),
    HIRATE_SLIDING_WINDOW("sliding", CAPACITY, HIRATE_SECONDS(4)),
    HIRATE_CONCURRENCY("slots", CAPACITY, HIRATE_SECONDS(5)),
    HIRATE_TOKEN_BUCKET("small", SMALL_CAPACITY, HIRATE_PER_SECOND(10)),
};

/* They share keys, and decide alike. */
const hirate_limit *machine_limit(const asked_pair *pair)
{
    static hirate_limit made[POLICIES][VARIANTS];
    hirate_limit *limit = &made[pair->policy][pair->variant];

    *limit = LIMITS[pair->policy];
    switch (pair->variant) {
    case 1:
        limit->flags = HIRATE_LIMIT_SHADOW;
        break;
    case 2:
        limit->on_failure = HIRATE_ON_FAILURE_OPEN;
        break;
    case 3:
        limit->on_failure = HIRATE_ON_FAILURE_CLOSED;
        break;
    case 4:
        limit->on_failure = HIRATE_ON_FAILURE_LOCAL;
        limit->local_share_num = 1;
        limit->local_share_den = 2;
        break;
    case 5:
        limit->flags = HIRATE_LIMIT_SHADOW;
        limit->on_failure = HIRATE_ON_FAILURE_LOCAL;
        limit->local_share_num = limit->local_share_den = 1;
        break;
    default:
        break;
    }
    return limit;
}

/* One that nothing has been asked at; 0: they are used up. COSTS is a prime, so none comes twice. */
static uint64_t next_cost(machine *m)
{
    if (m->costs_used == COSTS - 1)
        return 0;
    uint64_t cost = ++m->costs_used * 1597 % COSTS;
    m->asked_for[cost] = (int)m->count;
    return cost;
}

static asked_pair random_pair(machine *m)
{
    asked_pair pair = {.policy = (uint8_t)roll(m, SMALL - 1)};
    pair.name = (char)('0' + roll(m, (roll(m, 3) ? NAMES_HOT : NAMES) - 1));
    pair.variant = (uint8_t)(roll(m, 2) ? 0 : roll(m, VARIANTS - 1));
    return pair;
}

static bool has_policy(const asked *a, uint32_t count, uint8_t policy)
{
    for (uint32_t i = 0; i < count; i++) {
        if (a->pairs[i].policy == policy)
            return true;
    }
    return false;
}

static void ask_pairs(machine *m, asked *a)
{
    uint32_t wanted = roll(m, 1) ? 1 : 1 + (uint32_t)roll(m, PAIRS_MOST - 1);

    for (int tries = 0; tries < 20 && a->count < wanted; tries++) {
        asked_pair pair = random_pair(m);
        if (!has_policy(a, a->count, pair.policy)) /* so a result's limits are known by their policy */
            a->pairs[a->count++] = pair;
    }
    if (a->op == HIRATE_OP_ACQUIRE && has_policy(a, a->count, HIRATE_KIND_QUOTA - 1) && roll(m, 1))
        a->hold_us = 1 + roll(m, 10000000);
}

static void ask_alike(machine *m, asked *a)
{
    a->alike = true;
    a->count = 1;
    a->pairs[0] = (asked_pair){.policy = SMALL, .name = (char)('2' + roll(m, ALIKE - 1))};
    a->pairs[0].variant = (uint8_t)(roll(m, 7) ? 0 : roll(m, VARIANTS - 1));
    a->cost = roll(m, 19) ? 1 : roll(m, 1) ? 0 : SMALL_CAPACITY + 1;
}

static bool ask_permit(machine *m, asked *a)
{
    if (!m->permit_count)
        return false;
    a->permit = (int)roll(m, m->permit_count - 1);
    const held_permit *p = &m->permits[a->permit];
    a->op = p->lease ? (roll(m, 1) ? HIRATE_OP_RELEASE : HIRATE_OP_RENEW)
                     : (roll(m, 1) ? HIRATE_OP_COMMIT : HIRATE_OP_REFUND);
    if (a->op == HIRATE_OP_COMMIT)
        a->cost = next_cost(m);
    return a->op != HIRATE_OP_COMMIT || a->cost;
}

static void ask_lease(asked *a)
{
    a->count = 2;
    a->pairs[0] = (asked_pair){.policy = HIRATE_KIND_CONCURRENCY - 1, .name = '0'};
    a->pairs[1] = (asked_pair){.policy = HIRATE_KIND_TOKEN_BUCKET - 1, .name = '1'};
}

static bool choose(machine *m, asked *a, bool lease)
{
    uint64_t what = lease ? 99 : roll(m, 39);

    *a = (asked){.m = m, .op = HIRATE_OP_ACQUIRE, .permit = -1, .disturbances = m->disturbances};
    if (what < 8 && ask_permit(m, a))
        return true;
    a->op = HIRATE_OP_ACQUIRE;
    a->permit = -1;
    if (what < 16) {
        ask_alike(m, a);
        if (what < 10)
            a->op = what < 9 ? HIRATE_OP_PEEK : HIRATE_OP_RESET;
        return true;
    }
    if (what < 19)
        a->op = HIRATE_OP_PEEK;
    if (lease)
        ask_lease(a);
    else
        ask_pairs(m, a);
    if (what == 19 && a->count == 1) {
        a->op = HIRATE_OP_RESET;
        a->hold_us = 0;
        return true;
    }
    if (what == 20)
        return true; /* a cost of 0 */
    a->cost = what == 21 ? 41 * CAPACITY : next_cost(m);
    return a->cost > 0;
}

static hirate_request request_for(machine *m, asked *a, hirate_pair *more, char *name)
{
    hirate_request request;

    hirate_request_init(&request);
    request.op = a->op;
    request.cost = a->cost;
    request.hold_us = a->hold_us;
    request.cb = machine_on_answer;
    request.user = a;
    request.deadline_ms = roll(m, 3) ? 0 : 1 + (int64_t)roll(m, 400);
    a->due_us = sim_now_us(m->world) + 1000 * (request.deadline_ms ? request.deadline_ms : DEADLINE_MS);
    if (a->permit >= 0) {
        request.permit = m->permits[a->permit].text;
        return request;
    }
    for (uint32_t i = 0; i < a->count; i++) {
        name[i] = a->pairs[i].name;
        if (i)
            more[i - 1] = (hirate_pair){machine_limit(&a->pairs[i]), &name[i], 1};
    }
    request.limit = machine_limit(&a->pairs[0]);
    request.name = name;
    request.name_len = 1;
    request.more = more;
    request.more_count = a->count - 1;
    return request;
}

static void count_submitted(machine *m, const asked *a)
{
    for (uint32_t i = 0; i < a->count; i++)
        m->submitted_by[a->pairs[i].policy]++;
    if (a->permit >= 0) {
        m->submitted_by[machine_policy_of(&m->permits[a->permit])]++;
        m->permits[a->permit].asked[a->op]++;
    }
    m->several += a->count > 1;
}

void machine_submit(machine *m, bool lease)
{
    char names[PAIRS_MOST];
    hirate_pair more[PAIRS_MOST];

    if (m->count == ASKED_MOST)
        return;
    asked *a = &m->asked[m->count];
    if (!choose(m, a, lease))
        return;
    const hirate_request request = request_for(m, a, more, names);
    m->count++;
    bool before = m->submitting;
    m->submitting = true;
    int rc = hirate_submit(m->h, &request, &a->id);
    m->submitting = before;
    if (rc == HIRATE_EOVERLOAD) {
        m->count--;
        if (!a->alike && a->cost < COSTS)
            m->asked_for[a->cost] = -1;
        return;
    }
    CHECK(m, rc == 0, "submit: %s", hirate_last_error(m->h));
    count_submitted(m, a);
    for (const asked *b = m->asked; b < a; b++)
        CHECK(m, b->id != a->id, "an id for the second time");
}

void machine_cancel(machine *m, asked *a)
{
    m->submitting = true;
    int rc = hirate_cancel(m->h, a->id);
    m->submitting = false;
    CHECK(m, rc == 0 || rc == HIRATE_ENOENT, "cancel: %s", hirate_strerror(rc));
    CHECK(m, rc == HIRATE_ENOENT || !a->calls, "what was answered could be canceled");
}
