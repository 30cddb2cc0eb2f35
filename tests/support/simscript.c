/* SPDX-License-Identifier: BSD-3-Clause */
/* Test support: what lua/acquire.lua does, in C (see simscript.h). */
#include "simscript.h"

#include "local_table.h"
#include "snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS_MOST = 4096, STEP_KEYS_MOST = 256 + HIRATE_PAIRS_MAX };
enum { FOREIGN = -1 };
#define DAY_US INT64_C(86400000000)

/* A key of the call, under the limit that it is asked for with. */
typedef struct place {
    const simscript_arg *text;
    hr_policy policy; /* its name: PREFIX:POLICY, so that the table's key is Redis' */
    hr_local_key key;
    int spoiled; /* it was found so: -1, -2 */
    int refuses; /* and so it is when it is written: -1, -2 */
    bool written;
    snapshot before; /* where it refuses */
} place;

struct simscript {
    simscript_hooks hooks;
    hr_local_table table;
    const unsigned char *at, *end; /* of the operations */
    int64_t now_us;
    bytes *reply;
    place places[STEP_KEYS_MOST]; /* of the steps' keys */
    size_t place_count;
};

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "simulated script: %s\n", what);
    abort();
}

/* -------------------------------------------------------------------------------------------- what the wire has -- */

static uint64_t big_endian(simscript *s, int len)
{
    uint64_t value = 0;
    must(s->end - s->at >= len, "operations that end early");
    while (len--)
        value = value << 8 | *s->at++;
    return value;
}

static void open_array(simscript *s)
{
    uint64_t tag = big_endian(s, 1);
    if (tag == 0xdc)
        big_endian(s, 2);
    else if (tag == 0xdd)
        big_endian(s, 4);
    else
        must(tag >= 0x90 && tag < 0xa0, "operations that are no array");
}

static int64_t next_op(simscript *s)
{
    uint64_t tag = big_endian(s, 1);
    if (tag < 0x80)
        return (int64_t)tag;
    if (tag == 0xff)
        return -1;
    must(tag >= 0xcc && tag <= 0xd3, "an operation that is no number");
    const int size = 1 << (tag & 3), unused = 64 - 8 * size;
    const uint64_t value = big_endian(s, size);
    return tag <= 0xcf ? (int64_t)value : (int64_t)(value << unused) >> unused;
}

static uint64_t next_count(simscript *s)
{
    int64_t op = next_op(s);
    must(op >= 0, "a count below 0");
    return (uint64_t)op;
}

/* A string of this length into `to`; false: there is a 0 in its place. */
static bool next_string(simscript *s, void *to, size_t len)
{
    uint64_t tag = big_endian(s, 1);
    if (tag == 0)
        return false;
    must(tag == (0xa0 | len) && (size_t)(s->end - s->at) >= len, "an operation that is no string of this length");
    memcpy(to, s->at, len);
    s->at += len;
    return true;
}

static void tell(simscript *s, double value)
{
    bytes_add(s->reply, &value, sizeof value); /* tests run on little-endian machines */
}

/* A limit as it is told: kind and parameters. */
static hr_policy next_limit(simscript *s, int64_t kind)
{
    hirate_limit limit = {
        .struct_size = sizeof limit, .version = HIRATE_LIMIT_VERSION, .kind = (uint16_t)kind, .policy = "x"};
    uint64_t a = next_count(s), b = next_count(s), tick = 1;
    hr_policy policy;

    limit.capacity = a;
    switch (kind) {
    case HIRATE_KIND_FIXED_WINDOW:
    case HIRATE_KIND_SLIDING_LOG:
        limit.window_us = b;
        break;
    case HIRATE_KIND_QUOTA:
        limit.per = (uint32_t)b;
        limit.offset_minutes = (int32_t)((next_op(s) - DAY_US) / 60000000);
        break;
    case HIRATE_KIND_SLIDING_WINDOW:
        limit.window_us = b;
        tick = next_count(s);
        break;
    case HIRATE_KIND_CONCURRENCY:
        limit.lease_us = b;
        break;
    default:
        limit.rate = (hirate_rate){a, b};
        limit.capacity = next_count(s) / b;
    }
    must(hr_policy_compile(&policy, &limit, NULL) == 0, "a limit that is none");
    must(kind != HIRATE_KIND_SLIDING_WINDOW || policy.tick_us == tick, "another tick");
    return policy;
}

static place place_of(simscript *s, const simscript_arg *text, const hr_policy *policy)
{
    place p = {.text = text, .policy = *policy};
    const char *name = memchr(text->at, ':', text->len);

    name = name ? memchr(name + 1, ':', text->len - (size_t)(name + 1 - text->at)) : NULL;
    must(name != NULL && (size_t)(name - text->at) < sizeof p.policy.name,
         "a key without a name, or too long a policy");
    p.policy.name_len = (uint8_t)(name - text->at);
    memcpy(p.policy.name, text->at, p.policy.name_len);
    p.policy.name[p.policy.name_len] = 0;
    int wrong = s->hooks.spoiled ? s->hooks.spoiled(s->hooks.arg, text) : 0;
    p.spoiled = wrong < 0 ? wrong : 0;
    p.refuses = wrong > 0 ? -wrong : 0;
    return p;
}

/* The place's key in the table. Made anew each time, as it points to the place. */
static hr_local_entry *entry_of(simscript *s, place *p)
{
    const char *name = p->text->at + p->policy.name_len + 1;

    p->key = hr_local_table_key(&s->table, &p->policy, name, p->text->len - p->policy.name_len - 1U);
    return hr_local_table_find(&s->table, &p->key, s->now_us);
}

/* -------------------------------------------------------------------------------------------- what is stored -- */

static hr_moment load(simscript *s, place *p)
{
    const hr_local_entry *entry = entry_of(s, p);
    hr_state state;

    if (!entry)
        return hr_decide_load(&p->policy, NULL, s->now_us);
    must(entry->kind == p->policy.kind, "a policy of two kinds");
    state = hr_local_entry_state(entry);
    return hr_decide_load(&p->policy, &state, s->now_us);
}

static int64_t reset_of(const place *p, const hr_moment *moment)
{
    hr_moment copy = *moment;
    return hr_decide_take(&p->policy, &copy, 0).reset_ms;
}

/* What the moment has become is stored, or forgotten where nothing counts. */
static void store(simscript *s, place *p, hr_moment *moment, const hr_hold *made)
{
    hr_local_entry *entry = entry_of(s, p);
    int64_t reset_ms = reset_of(p, moment);

    if (reset_ms == 0) {
        if (entry)
            hr_local_table_forget(&s->table, entry);
        return;
    }
    must(entry || hr_local_table_add(&s->table, &p->key, p->policy.kind, s->now_us, &entry) == 0, "too many keys");
    must(hr_local_entry_reserve(entry, moment, made != NULL), "no memory");
    hr_local_entry_store(entry, &p->policy, moment, made);
    hr_local_table_expire(&s->table, entry, s->now_us, reset_ms);
}

static hr_holds holds_of(const hr_policy *policy, const hr_moment *moment)
{
    if (policy->kind == HIRATE_KIND_CONCURRENCY)
        return moment->concurrency.leases;
    return policy->kind == HIRATE_KIND_QUOTA ? moment->window.window.reservations : (hr_holds){NULL, 0};
}

static bool has_wait(const hr_policy *policy)
{
    return policy->kind == HIRATE_KIND_QUOTA || policy->kind == HIRATE_KIND_SLIDING_LOG ||
           policy->kind == HIRATE_KIND_CONCURRENCY;
}

/* When so many of the holds have ended that `cost` has room beside `other` units that stay, and one more hold, if
 * one is to be made. */
static int64_t hold_wait_us(const hr_policy *policy, const hr_moment *moment, uint64_t other, uint64_t held,
                            uint64_t cost, bool makes_one)
{
    hr_holds holds = holds_of(policy, moment);
    int64_t shift_us = policy->kind == HIRATE_KIND_CONCURRENCY ? moment->concurrency.shift_us : 0;

    for (size_t i = 0; i < holds.count; i++) {
        held -= holds.first[i].units;
        if (other + held + cost <= policy->capacity && (!makes_one || holds.count - i - 1 < HIRATE_HOLDS_MAX))
            return holds.first[i].until_us + shift_us;
    }
    must(false, "a denial that nothing will end");
    return 0;
}

/* What a denial of `cost`, not above the limit, waits for. */
static int64_t wait_us(const hr_policy *policy, const hr_moment *moment, uint64_t cost, bool reserves)
{
    const hr_fixed_window_now *window = &moment->window;
    const hr_sliding_log_now *log = &moment->log;

    if (policy->kind == HIRATE_KIND_CONCURRENCY)
        return hold_wait_us(policy, moment, 0, moment->concurrency.held, cost, true);
    if (policy->kind == HIRATE_KIND_QUOTA) {
        if (window->window.used + cost > policy->capacity)
            return window->window.end_us;
        int64_t ends_us = hold_wait_us(policy, moment, window->window.used, window->window.held, cost, reserves);
        return ends_us < window->window.end_us ? ends_us : window->window.end_us;
    }
    uint64_t left = log->older_units + log->at_units;
    for (size_t i = 0; i < log->older_count; i++) {
        left -= log->older[i].units;
        if (left + cost <= policy->capacity)
            return log->older[i].time_us;
    }
    return log->at_us;
}

/* ------------------------------------------------------------------------------------------------- what is told -- */

static void tell_found(simscript *s, const hr_policy *policy, const hr_moment *moment)
{
    const hr_fixed_window_now *window = &moment->window;
    const hr_concurrency_now *leases = &moment->concurrency;
    const hr_sliding_log_now *log = &moment->log;

    switch (policy->kind) {
    case HIRATE_KIND_FIXED_WINDOW:
    case HIRATE_KIND_QUOTA:
        tell(s, (double)window->window.used);
        tell(s, (double)window->window.end_us);
        if (policy->kind == HIRATE_KIND_FIXED_WINDOW)
            break;
        tell(s, (double)window->window.held);
        tell(s, (double)window->count);
        tell(s, (double)(window->latest_us < window->window.end_us ? window->latest_us : window->window.end_us));
        break;
    case HIRATE_KIND_SLIDING_LOG:
        tell(s, (double)log->at_us);
        tell(s, (double)log->at_units);
        tell(s, (double)log->older_units);
        tell(s, (double)log->newest_us);
        break;
    case HIRATE_KIND_SLIDING_WINDOW:
        tell(s, (double)moment->sliding.window.start_us);
        tell(s, (double)moment->sliding.window.prev);
        tell(s, (double)moment->sliding.window.cur);
        break;
    case HIRATE_KIND_CONCURRENCY:
        tell(s, (double)leases->held);
        tell(s, (double)leases->count);
        tell(s, (double)leases->latest_us);
        tell(s, (double)leases->at_us);
        break;
    default:
        if (moment->bucket.lag)
            tell(s, -3);
        tell(s, (double)moment->bucket.units);
        if (moment->bucket.lag)
            tell(s, (double)moment->bucket.lag);
    }
}

static void name_key(decided_key *to, const place *p)
{
    const char *policy = strchr(p->policy.name, ':');
    size_t name_len = p->text->len - p->policy.name_len - 1U;

    must(policy != NULL && strlen(policy + 1) < sizeof to->policy && name_len < sizeof to->name, "too long a name");
    memcpy(to->policy, policy + 1, strlen(policy + 1) + 1);
    memcpy(to->name, p->text->at + p->policy.name_len + 1, name_len);
    to->name[name_len] = 0;
}

static void report(simscript *s, const decided *what)
{
    if (s->hooks.decided)
        s->hooks.decided(s->hooks.arg, what);
}

/* ----------------------------------------------------------------------------------------------------- acquires -- */

/* An acquire or peek over several places, and what comes of it. */
typedef struct trial {
    decided what;
    uint64_t hold_us;
    place *places[HIRATE_PAIRS_MAX];
    hr_moment after[HIRATE_PAIRS_MAX];
    int64_t waits[HIRATE_PAIRS_MAX]; /* 0: there is room for it, or there never will be */
} trial;

static void keep(simscript *s, trial *t, size_t i)
{
    place *p = t->places[i];
    decided_key *key = &t->what.keys[i];
    bool makes = key->took &&
                 (p->policy.kind == HIRATE_KIND_CONCURRENCY || (p->policy.kind == HIRATE_KIND_QUOTA && t->hold_us > 0));
    hr_hold hold = {.units = t->what.cost};

    if (makes) {
        must(t->what.holds, "a hold without an id");
        hold.until_us = key->until_us = hr_decide_until_us(&p->policy, &t->after[i], t->hold_us);
        memcpy(hold.id, t->what.id, sizeof hold.id);
    }
    store(s, p, &t->after[i], makes ? &hold : NULL);
}

static int64_t wait_of(const trial *t, size_t i, const hr_moment *before, const hr_decision *decision)
{
    const hr_policy *policy = &t->places[i]->policy;

    if (!has_wait(policy) || decision->verdict == HIRATE_ALLOWED || decision->retry_after_ms == HIRATE_NEVER)
        return 0;
    return wait_us(policy, before, t->what.cost, t->hold_us > 0);
}

/* Decide what->op of what->cost over what->count places. */
static void decide(simscript *s, trial *t)
{
    hr_moment before[HIRATE_PAIRS_MAX];
    hr_joint_part parts[HIRATE_PAIRS_MAX];
    decided *what = &t->what;

    what->now_us = s->now_us;
    for (size_t i = 0; i < what->count; i++) {
        name_key(&what->keys[i], t->places[i]);
        before[i] = t->after[i] = load(s, t->places[i]);
        parts[i] =
            (hr_joint_part){.policy = &t->places[i]->policy, .shadow = what->keys[i].shadow, .moment = &t->after[i]};
    }
    what->joint = hr_joint_decide(parts, (uint32_t)what->count, what->cost, t->hold_us);
    for (size_t i = 0; i < what->count; i++) {
        what->keys[i].decision = parts[i].decision;
        t->waits[i] = wait_of(t, i, &before[i], &parts[i].decision);
        what->keys[i].took = parts[i].took && what->op == HIRATE_OP_ACQUIRE;
        if (what->op != HIRATE_OP_ACQUIRE)
            continue;
        keep(s, t, i);
        t->places[i]->written = true;
        what->unwritten |= t->places[i]->refuses != 0;
    }
    report(s, what);
}

/* ------------------------------------------------------------------------------------------------------ entries -- */

static uint64_t unit_of(const hr_policy *policy)
{
    return policy->kind == HIRATE_KIND_TOKEN_BUCKET || policy->kind == HIRATE_KIND_LEAKY_BUCKET ? policy->p : 1;
}

/* `count` acquires of as much, or with 0 a peek; when a denial of it will have room. */
static int64_t decide_run(simscript *s, place *p, uint64_t units, uint64_t count)
{
    trial t = {
        .what = {.op = count ? HIRATE_OP_ACQUIRE : HIRATE_OP_PEEK, .cost = units / unit_of(&p->policy), .count = 1},
        .places = {p}};
    int64_t wait = 0;

    for (uint64_t i = 0; i < count + !count; i++) {
        decide(s, &t);
        if (!wait)
            wait = t.waits[0];
    }
    return wait;
}

static void decide_key(simscript *s, const simscript_arg *text, const hr_policy *policy)
{
    place p = place_of(s, text, policy);
    int64_t runs = next_op(s);

    p.refuses = 0; /* that would be told at once, as -2 */

    if (p.spoiled) {
        for (int64_t i = 0; i < 2 * runs; i++)
            next_op(s);
        tell(s, p.spoiled);
        return;
    }
    if (runs == -1) {
        hr_local_entry *entry = entry_of(s, &p);
        tell(s, entry != NULL);
        if (entry)
            hr_local_table_forget(&s->table, entry);
        return;
    }
    hr_moment found = load(s, &p);
    tell_found(s, policy, &found);
    for (int64_t i = 0; i < (runs < 0 ? 1 : runs); i++) {
        uint64_t units = runs < 0 ? (uint64_t)(-1 - runs) : next_count(s); /* one acquire has a short form */
        int64_t wait = decide_run(s, &p, units, runs < 0 ? 1 : next_count(s));
        if (has_wait(policy))
            tell(s, (double)wait);
    }
}

/* -------------------------------------------------------------------------------------------------------- steps -- */

static place *next_place(simscript *s)
{
    uint64_t number = next_count(s);
    must(number >= 1 && number <= s->place_count, "a step for a key that is none of the steps'");
    return &s->places[number - 1];
}

/* The cost is told in units of each: 2^53 where it is above the limit. */
static void next_refs(simscript *s, trial *t, uint64_t real)
{
    uint64_t cost = HIRATE_COST_MAX, units[HIRATE_PAIRS_MAX];

    for (size_t i = 0; i < t->what.count; i++) {
        t->places[i] = next_place(s);
        t->what.keys[i].shadow = i >= real;
        units[i] = next_count(s);
        if (units[i] != UINT64_C(1) << 53)
            cost = units[i] / unit_of(&t->places[i]->policy);
    }
    for (size_t i = 0; i < t->what.count; i++) {
        const hr_policy *policy = &t->places[i]->policy;
        must(units[i] == (cost > policy->capacity ? UINT64_C(1) << 53 : cost * unit_of(policy)),
             "a cost told in two ways");
    }
    t->what.cost = cost;
}

static void step_over_keys(simscript *s, enum hirate_op op)
{
    trial t = {.what = {.op = op}};
    char hold[HR_HOLD_ID_SIZE + sizeof(double)];
    double hold_us;
    bool spoiled = false;

    t.what.holds = next_string(s, hold, sizeof hold);
    if (t.what.holds) {
        memcpy(t.what.id, hold, sizeof t.what.id);
        memcpy(&hold_us, hold + sizeof t.what.id, sizeof hold_us);
        t.hold_us = (uint64_t)hold_us;
    }
    uint64_t real = next_count(s);
    t.what.count = real + next_count(s);
    must(t.what.count >= 1 && t.what.count <= HIRATE_PAIRS_MAX, "a step of no or too many keys");
    next_refs(s, &t, real);
    for (size_t i = 0; i < t.what.count; i++)
        spoiled |= t.places[i]->spoiled != 0;
    if (spoiled)
        return;
    decide(s, &t);
    for (size_t i = 0; i < t.what.count; i++) {
        if (has_wait(&t.places[i]->policy))
            tell(s, (double)t.waits[i]);
    }
}

/* The place's hold of this id, if it has not ended. */
static const hr_hold *find_hold(simscript *s, place *p, const unsigned char *id)
{
    hr_moment moment = load(s, p);
    hr_holds holds = holds_of(&p->policy, &moment);

    for (size_t i = 0; i < holds.count; i++) {
        if (memcmp(holds.first[i].id, id, HR_HOLD_ID_SIZE) == 0)
            return &holds.first[i];
    }
    return NULL;
}

/* Take it out of what is stored, from which what has ended is gone then. */
static hr_hold take_out(simscript *s, place *p, const hr_hold *hold)
{
    hr_moment moment = load(s, p);
    hr_hold copy = *hold;

    hr_local_entry *entry = entry_of(s, p);
    hr_local_entry_store(entry, &p->policy, &moment, NULL);
    hold = hr_hold_list_find(&entry->as.window.holds, copy.id, copy.until_us);
    hr_hold_list_remove(&entry->as.window.holds, hold);
    return copy;
}

static void charge(hr_moment *moment, uint64_t amount)
{
    uint64_t *used = &moment->window.window.used;
    *used = amount > HIRATE_COST_MAX - *used ? HIRATE_COST_MAX : *used + amount;
}

static void use_permit(simscript *s, place *p, decided *what, int64_t until_us)
{
    const hr_hold *hold = find_hold(s, p, what->id);
    bool late = !hold && what->op == HIRATE_OP_COMMIT && s->now_us >= until_us;
    hr_hold held = {.units = 0};

    what->done = late ? 2 : hold != NULL;
    if (!what->done)
        return;
    p->written = true;
    what->unwritten = p->refuses != 0;
    if (hold)
        held = take_out(s, p, hold);
    hr_moment moment = load(s, p);
    if (what->op == HIRATE_OP_RENEW) {
        held.until_us = what->keys[0].until_us = hr_concurrency_until_us(&p->policy, &moment.concurrency);
        moment.concurrency.held += held.units;
        if (moment.concurrency.latest_us < held.until_us)
            moment.concurrency.latest_us = held.until_us;
        moment.concurrency.count++;
        store(s, p, &moment, &held);
        return;
    }
    if (what->op == HIRATE_OP_COMMIT)
        charge(&moment, what->cost);
    store(s, p, &moment, NULL);
}

static void step_with_permit(simscript *s, enum hirate_op op)
{
    decided what = {.op = op, .holds = true, .count = 1, .now_us = s->now_us};
    place *p = next_place(s);
    int64_t until_us = 0;

    must(next_string(s, what.id, sizeof what.id), "a permit without an id");
    if (op == HIRATE_OP_COMMIT) {
        what.cost = next_count(s);
        until_us = next_op(s);
    }
    if (p->spoiled)
        return;
    name_key(&what.keys[0], p);
    use_permit(s, p, &what, until_us);
    hr_moment after = load(s, p);
    tell(s, what.done);
    tell_found(s, &p->policy, &after);
    what.joint.whole = hr_decide_take(&p->policy, &after, 0);
    report(s, &what);
}

static void take_steps(simscript *s, const simscript_arg *keys, size_t key_count)
{
    static const enum hirate_op ops[] = {HIRATE_OP_INVALID, HIRATE_OP_ACQUIRE, HIRATE_OP_PEEK,  HIRATE_OP_RELEASE,
                                         HIRATE_OP_RENEW,   HIRATE_OP_COMMIT,  HIRATE_OP_REFUND};

    must(key_count <= STEP_KEYS_MOST, "too many keys of steps");
    for (s->place_count = 0; s->place_count < key_count;) {
        hr_policy policy = next_limit(s, next_op(s));
        for (uint64_t left = next_count(s); left > 0; left--) {
            place *p = &s->places[s->place_count];
            must(s->place_count < key_count, "more keys than there are");
            *p = place_of(s, &keys[s->place_count++], &policy);
            hr_moment found = load(s, p);
            p->before = snapshot_take(p->refuses ? entry_of(s, p) : NULL);
            if (p->spoiled)
                tell(s, p->spoiled);
            else
                tell_found(s, &policy, &found);
        }
    }
    while (s->at < s->end) {
        uint64_t step = next_count(s);
        must(step >= 1 && step < sizeof ops / sizeof *ops, "a step of no kind");
        if (step <= 2)
            step_over_keys(s, ops[step]);
        else
            step_with_permit(s, ops[step]);
    }
    for (size_t i = 0; i < s->place_count; i++) {
        place *p = &s->places[i];
        tell(s, p->written ? p->refuses : 0);
        if (p->refuses)
            snapshot_put_back(&p->before, &s->table, &p->key, entry_of(s, p), s->now_us);
    }
}

/* ----------------------------------------------------------------------------------------------------- the whole -- */

void simscript_call(simscript *s, const simscript_arg *keys, size_t key_count, const simscript_arg *ops, int64_t now_us,
                    bytes *reply)
{
    s->at = (const unsigned char *)ops->at;
    s->end = s->at + ops->len;
    s->now_us = now_us;
    s->reply = reply;
    open_array(s);
    tell(s, (double)now_us);
    tell(s, (double)next_count(s));
    for (size_t k = 0; k < key_count;) {
        int64_t kind = next_op(s);
        if (kind == 0) {
            take_steps(s, &keys[k], key_count - k);
            break;
        }
        hr_policy policy = next_limit(s, kind);
        for (size_t end = k + (size_t)next_count(s); k < end; k++) {
            must(k < key_count, "more keys than there are");
            decide_key(s, &keys[k], &policy);
        }
    }
    must(s->at == s->end, "operations left over");
}

bool simscript_holds(const simscript *s, const unsigned char id[HR_HOLD_ID_SIZE], int64_t now_us)
{
    for (size_t i = 0; i < s->table.heap_count; i++) {
        const hr_local_entry *entry = s->table.heap[i];
        if (entry->kind != HIRATE_KIND_QUOTA && entry->kind != HIRATE_KIND_CONCURRENCY)
            continue;
        hr_holds holds = hr_hold_list_view(&entry->as.window.holds);
        for (size_t k = 0; k < holds.count; k++) {
            if (memcmp(holds.first[k].id, id, HR_HOLD_ID_SIZE) == 0 && holds.first[k].until_us > now_us)
                return true;
        }
    }
    return false;
}

void simscript_forget(simscript *s)
{
    while (s->table.heap_count)
        hr_local_table_forget(&s->table, s->table.heap[0]);
}

simscript *simscript_new(const simscript_hooks *hooks)
{
    simscript *s = calloc(1, sizeof *s);

    must(s != NULL && hr_local_table_init(&s->table, KEYS_MOST) == 0, "no memory");
    s->hooks = *hooks;
    return s;
}

void simscript_free(simscript *s)
{
    if (!s)
        return;
    hr_local_table_free(&s->table);
    free(s);
}
