/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests: a batch with requests over one or several keys, and a naive model of it: one list of all that waits, in the
 * order of submission. Each function does the same to both. A call is checked against the list as it is formed;
 * check_counts compares what is counted. After the headers of cmocka.
 */
#ifndef TESTS_SUPPORT_STEPPING_H
#define TESTS_SUPPORT_STEPPING_H

#include "batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Policy "a" has limits that decide alike (0 to 2) and one that does not. Which policy each has: POLICY_OF. */
enum { A, A_SHADOW, A_OPEN, A_OTHER, C, C_SHADOW, Q, L, B, LIMITS };
enum { POLICIES = 5, NAMES = 4, KEYS = POLICIES * NAMES, REQUESTS = 300, CALLS_MOST = 8 };

static const hirate_limit LIMIT[LIMITS] = {
    [A] = HIRATE_TOKEN_BUCKET("a", 6, HIRATE_RATE(1, HIRATE_SECONDS(3))),
    [A_SHADOW] =
        HIRATE_TOKEN_BUCKET_WITH("a", 6, HIRATE_RATE(2, HIRATE_SECONDS(6)), HIRATE_LIMIT_SHADOW, HIRATE_FAIL_ERROR),
    [A_OPEN] = HIRATE_TOKEN_BUCKET_WITH("a", 6, HIRATE_RATE(1, HIRATE_SECONDS(3)), 0, HIRATE_FAIL_OPEN),
    [A_OTHER] = HIRATE_TOKEN_BUCKET("a", 5, HIRATE_RATE(1, HIRATE_SECONDS(3))),
    [C] = HIRATE_CONCURRENCY("c", 9, HIRATE_SECONDS(10)),
    [C_SHADOW] = HIRATE_CONCURRENCY_WITH("c", 9, HIRATE_SECONDS(10), HIRATE_LIMIT_SHADOW, HIRATE_FAIL_ERROR),
    [Q] = HIRATE_QUOTA("q", 9, HIRATE_PER_DAY, 0),
    [L] = HIRATE_SLIDING_LOG("l", 9, HIRATE_MINUTES(1)),
    [B] = HIRATE_LEAKY_BUCKET("b", 9, HIRATE_PER_SECOND(2)),
};
static const size_t POLICY_OF[LIMITS] = {0, 0, 0, 0, 1, 1, 2, 3, 4};
static const char *const NAME[NAMES] = {"", "x", "y", "a longer name"};

typedef struct pair {
    size_t limit, name;
} pair;

typedef struct asked {
    hr_request request; /* first: a request is its asked */
    bool used;
    uint32_t count;
    pair pairs[HIRATE_PAIRS_MAX];
    uint64_t waits_since, patience; /* in calls formed: it goes before so many more are */
} asked;

typedef struct stepping {
    hr_limits limits;
    hr_batch batch;
    hr_script_call wire;
    asked asked[REQUESTS];
    asked *waiting[REQUESTS]; /* the model */
    size_t waiting_count;
    hr_call *in_flight[CALLS_MOST];
    size_t in_flight_count;
    size_t calls;             /* made */
    uint32_t keys;            /* of the next call, but for those that requests over several keys bring */
    uint64_t formed, several; /* calls so far; requests over several keys that were part of them */
} stepping;

static inline stepping *stepping_new(uint32_t calls, uint32_t key_most, uint32_t item_most)
{
    stepping *f = calloc(1, sizeof *f);
    hirate_options options;

    assert_non_null(f);
    hirate_options_init(&options);
    options.max_calls = calls;
    options.max_call_keys = key_most;
    options.max_call_acquires = item_most;
    assert_int_equal(hr_limits_init(&f->limits, "p"), 0);
    assert_int_equal(hr_batch_init(&f->batch, &f->limits, &options), 0);
    f->calls = calls;
    f->keys = key_most;
    return f;
}

static inline void stepping_free(stepping *f)
{
    hr_batch_free(&f->batch);
    hr_limits_free(&f->limits);
    hr_script_free(&f->wire);
    free(f);
}

/* ------------------------------------------------------------------------------------------------- submitting -- */

static inline asked *unused(stepping *f)
{
    for (size_t i = 0; i < REQUESTS; i++) {
        if (!f->asked[i].used)
            return &f->asked[i];
    }
    return NULL;
}

static inline size_t key_of(const pair *p)
{
    return POLICY_OF[p->limit] * NAMES + p->name;
}

static inline bool is_permit(unsigned op)
{
    return op != HIRATE_OP_ACQUIRE && op != HIRATE_OP_PEEK && op != HIRATE_OP_RESET;
}

/* As submit.c does. */
static inline bool needs_extra(unsigned op, const pair *pairs, uint32_t count)
{
    const hirate_limit *limit = &LIMIT[pairs[0].limit];
    return count > 1 || is_permit(op) ||
           (op != HIRATE_OP_RESET && (limit->kind == HIRATE_KIND_CONCURRENCY || (limit->flags & HIRATE_LIMIT_SHADOW)));
}

static inline int use_limits(stepping *f, asked *a)
{
    hr_request *request = &a->request;
    int rc = 0;

    if (needs_extra(request->op, a->pairs, a->count)) {
        request->extra = hr_batch_extra_new(&f->batch, a->count);
        if (!request->extra)
            return HIRATE_ENOMEM;
    }
    for (uint32_t i = 0; i < a->count && !rc; i++)
        rc = hr_limits_use(&f->limits, &LIMIT[a->pairs[i].limit], &hr_request_ticket(request, i)->limit, NULL);
    for (uint32_t i = 0; i < a->count && !rc && request->extra; i++) {
        if (LIMIT[a->pairs[i].limit].kind != HIRATE_KIND_CONCURRENCY || request->op != HIRATE_OP_ACQUIRE)
            continue;
        request->extra->holds = true;
        rc = hr_batch_make_room_for_permit(&f->batch, &request->extra->parts[i], 100);
    }
    return rc;
}

static inline void let_limits_go(stepping *f, asked *a)
{
    for (uint32_t i = 0; i < hr_request_tickets(&a->request); i++) {
        hr_limit *limit = hr_request_ticket(&a->request, i)->limit;
        if (limit)
            hr_limits_done(&f->limits, limit);
    }
    hr_batch_extra_free(&f->batch, a->request.extra);
    a->request.extra = NULL;
    a->request.state = HR_REQUEST_FREE;
    a->used = false;
}

/* Submit. HIRATE_ENOMEM: there is no trace of it. */
static inline int try_ask(stepping *f, unsigned op, uint64_t cost, const pair *pairs, uint32_t count, asked **out)
{
    asked *a = unused(f);
    hr_name names[HIRATE_PAIRS_MAX];

    assert_non_null(a);
    memset(a, 0, sizeof *a);
    a->count = count;
    a->request.op = (uint8_t)op;
    a->request.cost = cost;
    for (uint32_t i = 0; i < count; i++) {
        a->pairs[i] = pairs[i];
        names[i] = (hr_name){NAME[pairs[i].name], strlen(NAME[pairs[i].name])};
    }
    int rc = use_limits(f, a);
    if (!rc)
        rc = hr_batch_add(&f->batch, &a->request, names);
    if (rc) {
        let_limits_go(f, a);
        return rc;
    }
    assert_int_equal(a->request.state, HR_REQUEST_WAITING);
    a->used = true;
    if (a->request.extra) {
        memset(a->request.extra->id, (int)(a->request.number & 0x7f), sizeof a->request.extra->id);
        a->request.extra->hold_us = is_permit(op) ? 0 : a->request.number;
        a->request.extra->until_us = (int64_t)a->request.number;
    }
    /* Whoever is older goes before it, and each of those, once it is the oldest, before every key had its turn. */
    a->waits_since = f->formed;
    a->patience = (f->waiting_count + 1) * (KEYS + 1);
    f->waiting[f->waiting_count++] = a;
    *out = a;
    return 0;
}

static inline asked *ask(stepping *f, unsigned op, uint64_t cost, const pair *pairs, uint32_t count)
{
    asked *a = NULL;

    assert_int_equal(try_ask(f, op, cost, pairs, count, &a), 0);
    return a;
}

/* At a cost of 1. The pairs as {limit, name}, {limit, name} … */
#define ASK(f, op, ...)                                                                                                \
    ask((f), (op), 1, (const pair[]){__VA_ARGS__}, (uint32_t)(sizeof((const pair[]){__VA_ARGS__}) / sizeof(pair)))

/* -------------------------------------------------------------------------------------------------- answering -- */

static inline void leave_waiting(stepping *f, const asked *a)
{
    size_t i = 0;

    while (f->waiting[i] != a)
        assert_true(++i < f->waiting_count);
    memmove(&f->waiting[i], &f->waiting[i + 1], (--f->waiting_count - i) * sizeof f->waiting[0]);
}

/* As when it is canceled. */
static inline void take_out(stepping *f, asked *a)
{
    if (a->request.state == HR_REQUEST_WAITING)
        leave_waiting(f, a);
    hr_batch_remove(&f->batch, &a->request);
    let_limits_go(f, a);
}

static inline void leave_flight(stepping *f, const hr_call *call)
{
    size_t i = 0;

    while (f->in_flight[i] != call)
        assert_true(++i < f->in_flight_count);
    f->in_flight[i] = f->in_flight[--f->in_flight_count];
}

static inline void finish(stepping *f, hr_call *call)
{
    for (uint32_t i = 0; i < hr_call_requests(call); i++) {
        hr_request *request = hr_call_request(call, i);
        if (!request)
            continue;
        take_out(f, (asked *)request);
        assert_null(hr_call_request(call, i));
    }
    leave_flight(f, call);
    hr_batch_finish(&f->batch, call);
}

static inline void wait_again(stepping *f, asked *a)
{
    size_t at = f->waiting_count++;

    for (; at > 0 && f->waiting[at - 1]->request.number > a->request.number; at--)
        f->waiting[at] = f->waiting[at - 1];
    f->waiting[at] = a;
}

static inline void take_back(stepping *f, hr_call *call)
{
    for (uint32_t i = 0; i < hr_call_requests(call); i++) {
        if (hr_call_request(call, i))
            wait_again(f, (asked *)hr_call_request(call, i));
    }
    leave_flight(f, call);
    hr_batch_take_back(&f->batch, call);
    for (size_t i = 0; i < f->waiting_count; i++) { /* older ones than there were may be ahead now */
        assert_int_equal(f->waiting[i]->request.state, HR_REQUEST_WAITING);
        f->waiting[i]->waits_since = f->formed;
        f->waiting[i]->patience = (i + 1) * (KEYS + 1);
    }
}

/* ----------------------------------------------------------------------------------------------------- a call -- */

static inline bool is_nth_key(const hr_key *key, size_t k)
{
    static const char policies[] = "acqlb";
    char text[64];

    (void)snprintf(text, sizeof text, "p:%c:%s", policies[k / NAMES], NAME[k % NAMES]);
    return key->len == strlen(text) && memcmp(key->text, text, key->len) == 0;
}

static inline void check_item(const hr_call *call, const hr_call_key *entry, const hr_call_item *item)
{
    const asked *a = (const asked *)item->request;

    assert_null(a->request.extra);
    assert_true(is_nth_key(entry->key, key_of(&a->pairs[0])));
    assert_ptr_equal(a->request.ticket.key, entry->key);
    assert_ptr_equal(a->request.ticket.limit, entry->limit);
    assert_true(item->cost == a->request.cost && item->op == a->request.op);
    assert_true(entry->count == 1 || !hr_call_is_reset(call, entry));
}

static inline void check_step(const hr_call *call, const hr_step *step)
{
    hr_request *request = step->request;
    const asked *a = (const asked *)request;
    const hr_extra *extra = request->extra;
    bool seen[HIRATE_PAIRS_MAX] = {false}, shadow_seen = false;

    assert_int_equal(step->count, a->count);
    assert_true(step->cost == request->cost && step->op == request->op);
    assert_int_equal(step->holds, extra && extra->holds);
    if (extra) {
        assert_true(step->hold_us == extra->hold_us && step->until_us == extra->until_us);
        assert_memory_equal(step->id, extra->id, sizeof step->id);
    }
    for (uint32_t i = 0; i < step->count; i++) {
        const hr_step_ref *ref = &call->refs[step->first + i];
        const hr_ticket *ticket = hr_request_ticket(request, ref->part);
        assert_false(seen[ref->part]);
        seen[ref->part] = true;
        assert_ptr_equal(ref->limit, ticket->limit);
        assert_true(ref->key < call->step_key_count);
        assert_ptr_equal(call->step_keys[ref->key].key, ticket->key);
        assert_true(is_nth_key(ticket->key, key_of(&a->pairs[ref->part])));
        assert_true(hr_policy_decides_alike(&call->step_keys[ref->key].limit->policy, &ref->limit->policy));
        assert_int_equal(ref->shadow, (LIMIT[a->pairs[ref->part].limit].flags & HIRATE_LIMIT_SHADOW) != 0);
        assert_true(ref->shadow || !shadow_seen);
        shadow_seen = ref->shadow;
    }
}

static inline void check_parts(const hr_call *call)
{
    uint32_t items = 0, refs = 0;

    for (uint32_t i = 0; i < call->key_count; i++) {
        assert_int_equal(call->keys[i].first, items);
        assert_true(call->keys[i].count > 0);
        for (uint32_t end = items + call->keys[i].count; items < end; items++)
            check_item(call, &call->keys[i], &call->items[items]);
    }
    assert_int_equal(items, call->item_count);
    for (uint32_t i = 0; i < call->step_count; i++) {
        assert_int_equal(call->steps[i].first, refs);
        check_step(call, &call->steps[i]);
        refs += call->steps[i].count;
    }
    assert_int_equal(refs, call->ref_count);
}

static inline const hr_key *nth_key(const hr_call *call, uint32_t i)
{
    return i < call->key_count ? call->keys[i].key : call->step_keys[i - call->key_count].key;
}

static inline void check_keys(const stepping *f, const hr_call *call)
{
    uint32_t count = call->key_count + call->step_key_count;
    size_t bytes = 0;

    for (uint32_t i = 0; i < count; i++) {
        bytes += nth_key(call, i)->len;
        for (uint32_t j = 0; j < i; j++)
            assert_ptr_not_equal(nth_key(call, i), nth_key(call, j));
    }
    assert_true(call->key_bytes == bytes);
    assert_true(hr_call_requests(call) > 0);
    bool several = false;
    for (uint32_t i = 0; i < call->step_count; i++)
        several = several || call->steps[i].count > 1;
    assert_true(several || count <= f->keys);
    if (hr_call_requests(call) > 1) {
        assert_true(count <= f->batch.key_most);
        assert_true(call->item_count + call->ref_count <= f->batch.item_most);
    }
}

static inline bool has_key(const asked *a, size_t k)
{
    for (uint32_t i = 0; i < a->count; i++) {
        if (key_of(&a->pairs[i]) == k)
            return true;
    }
    return false;
}

/* What the call has of each key is the front of what waits for it. */
static inline void check_order(const stepping *f, const hr_call *call)
{
    for (size_t k = 0; k < KEYS; k++) {
        size_t at = 0;
        for (uint32_t i = 0; i < hr_call_requests(call); i++) {
            const asked *a = (const asked *)hr_call_request(call, i);
            if (!has_key(a, k))
                continue;
            while (at < f->waiting_count && !has_key(f->waiting[at], k))
                at++;
            assert_true(at < f->waiting_count);
            assert_ptr_equal(f->waiting[at++], a);
        }
    }
}

/* Form a call, which is checked; NULL: none can be. */
static inline hr_call *form(stepping *f)
{
    bool possible = f->waiting_count > 0 && f->in_flight_count < f->calls;
    hr_call *call = hr_batch_form(&f->batch, HR_SCRIPT_BY_SHA, f->keys);

    assert_int_equal(call != NULL, possible);
    if (!call)
        return NULL;
    f->in_flight[f->in_flight_count++] = call;
    f->formed++;
    for (uint32_t i = 0; i < hr_call_requests(call); i++)
        assert_int_equal(hr_call_request(call, i)->state, HR_REQUEST_CALLED);
    check_parts(call);
    check_keys(f, call);
    check_order(f, call);
    for (uint32_t i = 0; i < hr_call_requests(call); i++) {
        const asked *a = (const asked *)hr_call_request(call, i);
        f->several += a->count > 1;
        leave_waiting(f, a);
    }
    for (size_t i = 0; i < f->waiting_count; i++)
        assert_true(f->formed - f->waiting[i]->waits_since < f->waiting[i]->patience);
    return call;
}

/* ----------------------------------------------------------------------------------------------------- counts -- */

static inline size_t uses_of_limits(const stepping *f)
{
    size_t uses = 0;

    for (size_t i = 0; i <= f->limits.table.mask; i++) {
        for (const hr_hash_node *node = f->limits.table.buckets[i]; node; node = node->next)
            uses += ((const hr_limit *)node)->uses;
    }
    return uses;
}

/* What should be counted of the key. */
static inline hr_key count_key(const stepping *f, const hr_key *key)
{
    hr_key want = {.waiting = 0};
    size_t k = 0;

    while (!is_nth_key(key, k))
        assert_true(++k < KEYS);
    for (size_t i = 0; i < f->waiting_count; i++) {
        const asked *a = f->waiting[i];
        want.waiting += has_key(a, k);
        want.stepped += has_key(a, k) && a->request.extra;
        want.resets += has_key(a, k) && a->request.op == HIRATE_OP_RESET;
    }
    for (size_t c = 0; c < f->in_flight_count; c++) {
        const hr_call *call = f->in_flight[c];
        for (uint32_t i = 0; i < call->key_count + call->step_key_count; i++) {
            bool held = nth_key(call, i) == key;
            want.calls += held;
            want.resets += held && i < call->key_count && hr_call_is_reset(call, &call->keys[i]);
        }
    }
    return want;
}

static inline void check_key_counts(const stepping *f)
{
    size_t ready = 0;

    for (size_t i = 0; i <= f->batch.table.mask; i++) {
        for (const hr_hash_node *node = f->batch.table.buckets[i]; node; node = node->next) {
            const hr_key *key = (const hr_key *)node;
            hr_key want = count_key(f, key);
            assert_int_equal(key->waiting, want.waiting);
            assert_int_equal(key->stepped, want.stepped);
            assert_int_equal(key->calls, want.calls);
            assert_int_equal(key->resets, want.resets);
            assert_true(key->waiting || key->calls);
            ready += key->waiting > 0;
        }
    }
    assert_int_equal(f->batch.ready, ready);
    for (const hr_key *key = f->batch.first; key; key = key->next) {
        assert_true(key->waiting > 0);
        assert_ptr_equal(key->next ? key->next->prev : f->batch.last, key);
        ready--;
    }
    assert_int_equal(ready, 0);
}

static inline void check_counts(const stepping *f)
{
    size_t waiting = 0, uses = 0;

    for (size_t i = 0; i < REQUESTS; i++)
        uses += f->asked[i].used ? f->asked[i].count : 0;
    for (size_t i = 0; i < f->waiting_count; i++)
        waiting += f->waiting[i]->count;
    for (size_t c = 0; c < f->in_flight_count; c++)
        uses += f->in_flight[c]->key_count + f->in_flight[c]->step_key_count + f->in_flight[c]->ref_count;
    assert_int_equal(f->batch.waiting, waiting);
    assert_int_equal(uses_of_limits(f), uses);
    check_key_counts(f);
}

/* Every object of every slab is in a free list. */
static inline void assert_pool_unused(hr_pool *pool)
{
    size_t slabs = 0;

    for (size_t i = 0, size = 64; i < HR_POOL_CLASSES; i++, size *= 2) {
        const size_t in_slab = (16384 - 64) / size;
        size_t count = 0;
        void *taken = NULL;
        for (void *object; pool->free[i]; taken = object, count++) {
            object = hr_pool_get(pool, size);
            memcpy(object, &taken, sizeof taken);
        }
        assert_int_equal(count % in_slab, 0);
        slabs += count / in_slab;
        for (void *next; taken; taken = next) {
            memcpy(&next, taken, sizeof next);
            hr_pool_put(pool, taken, size);
        }
    }
    for (const hr_pool_slab *slab = pool->slabs; slab; slab = slab->next)
        slabs--;
    assert_int_equal(slabs, 0);
}

/* Everything answered: nothing may be left anywhere. */
static inline void drain(stepping *f)
{
    while (f->in_flight_count)
        finish(f, f->in_flight[0]);
    for (hr_call *call; (call = form(f)) != NULL;)
        finish(f, call);
    check_counts(f);
    assert_int_equal(f->batch.waiting, 0);
    assert_int_equal(f->batch.ready, 0);
    assert_int_equal(f->batch.table.count, 0);
    assert_int_equal(uses_of_limits(f), 0);
    assert_int_equal(f->limits.idle, f->limits.table.count);
    assert_pool_unused(&f->batch.pool);
}

#endif
