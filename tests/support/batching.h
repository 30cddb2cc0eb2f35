/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests: a batch with its limits, requests for it, and a naive model of what waits in it: a list for each key. Each
 * function does the same to both; check_call and check_counts compare them. After the headers of cmocka.
 */
#ifndef TESTS_SUPPORT_BATCHING_H
#define TESTS_SUPPORT_BATCHING_H

#include "batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POLICIES = 3, NAMES = 9, KEYS = 2 * NAMES, REQUESTS = 400 };

/* The first two share their keys. */
static const hirate_limit LIMITS[POLICIES + 1] = {
    HIRATE_TOKEN_BUCKET("a", 6, HIRATE_RATE(1, HIRATE_SECONDS(3))),
    HIRATE_TOKEN_BUCKET("a", 4, HIRATE_RATE(3, HIRATE_MICROSECONDS(7))),
    HIRATE_TOKEN_BUCKET("b", 5, HIRATE_PER_SECOND(2)),
    HIRATE_SLIDING_LOG("a", 6, HIRATE_MINUTES(1)), /* not for those who reckon with buckets */
};
static const char *const NAME[NAMES] = {"", "x", "y", "z", ":", "a", "b:", "xx", "a long name of some bytes"};

typedef struct queue {
    hr_request *list[REQUESTS];
    size_t count;
} queue;

typedef struct fixture {
    hr_limits limits;
    hr_batch batch;
    hr_script_call wire;
    hr_request requests[REQUESTS];
    size_t key_of[REQUESTS];
    bool used[REQUESTS];
    queue waiting[KEYS]; /* the model */
    hr_call *in_flight[64];
    size_t in_flight_count, calls;
    uint32_t keys; /* of the next call */
} fixture;

static inline hirate_options options_of(uint32_t calls, uint32_t key_most, uint32_t item_most)
{
    hirate_options options;

    hirate_options_init(&options);
    options.max_calls = calls;
    options.max_call_keys = key_most;
    options.max_call_acquires = item_most;
    return options;
}

static inline fixture *fixture_new(uint32_t calls, uint32_t key_most, uint32_t item_most)
{
    fixture *f = calloc(1, sizeof *f);
    hirate_options options = options_of(calls, key_most, item_most);

    assert_non_null(f);
    assert_int_equal(hr_limits_init(&f->limits, "p"), 0);
    assert_int_equal(hr_batch_init(&f->batch, &f->limits, &options), 0);
    f->calls = calls;
    f->keys = key_most;
    return f;
}

static inline void fixture_free(fixture *f)
{
    hr_batch_free(&f->batch);
    hr_limits_free(&f->limits);
    hr_script_free(&f->wire);
    free(f);
}

static inline size_t index_of(const fixture *f, const hr_request *request)
{
    return (size_t)(request - f->requests);
}

static inline hr_request *unused_request(fixture *f)
{
    for (size_t i = 0; i < REQUESTS; i++) {
        if (!f->used[i])
            return &f->requests[i];
    }
    return NULL;
}

static inline hr_request *add(fixture *f, enum hirate_op op, size_t limit, size_t name, uint64_t cost)
{
    hr_request *request = unused_request(f);
    size_t key = (limit == 2 ? NAMES : 0) + name;

    assert_non_null(request);
    memset(request, 0, sizeof *request);
    request->op = (uint8_t)op;
    request->cost = cost;
    assert_int_equal(hr_limits_use(&f->limits, &LIMITS[limit], &request->ticket.limit, NULL), 0);
    assert_int_equal(hr_batch_add(&f->batch, request, &(hr_name){NAME[name], strlen(NAME[name])}), 0);
    assert_int_equal(request->state, HR_REQUEST_WAITING);
    f->used[index_of(f, request)] = true;
    f->key_of[index_of(f, request)] = key;
    f->waiting[key].list[f->waiting[key].count++] = request;
    return request;
}

/* The request is answered: its place and its use of the limit are free. */
static inline void forget(fixture *f, hr_request *request)
{
    hr_limits_done(&f->limits, request->ticket.limit);
    request->state = HR_REQUEST_FREE;
    f->used[index_of(f, request)] = false;
}

static inline void leave_queue(queue *q, const hr_request *request)
{
    for (size_t i = 0; i < q->count; i++) {
        if (q->list[i] == request) {
            memmove(&q->list[i], &q->list[i + 1], (q->count - i - 1) * sizeof q->list[0]);
            q->count--;
            return;
        }
    }
    fail_msg("a request is not in its queue");
}

static inline void take_out(fixture *f, hr_request *request)
{
    if (request->state == HR_REQUEST_WAITING)
        leave_queue(&f->waiting[f->key_of[index_of(f, request)]], request);
    hr_batch_remove(&f->batch, request);
    forget(f, request);
}

static inline size_t most_use(const fixture *f)
{
    size_t uses = 0;

    for (size_t i = 0; f->limits.table.buckets && i <= f->limits.table.mask; i++) {
        for (const hr_hash_node *node = f->limits.table.buckets[i]; node; node = node->next)
            uses += ((const hr_limit *)node)->uses;
    }
    return uses;
}

static inline hr_call *form(fixture *f)
{
    hr_call *call = hr_batch_form(&f->batch, HR_SCRIPT_BY_SHA, f->keys);

    if (call)
        f->in_flight[f->in_flight_count++] = call;
    return call;
}

static inline void leave_flight(fixture *f, const hr_call *call)
{
    size_t i = 0;

    while (f->in_flight[i] != call)
        i++;
    f->in_flight[i] = f->in_flight[--f->in_flight_count];
}

static inline void finish(fixture *f, hr_call *call)
{
    for (uint32_t i = 0; i < call->item_count; i++) {
        hr_request *request = call->items[i].request;
        if (!request)
            continue;
        hr_batch_remove(&f->batch, request);
        assert_null(call->items[i].request);
        forget(f, request);
    }
    leave_flight(f, call);
    hr_batch_finish(&f->batch, call);
}

static inline void take_back(fixture *f, hr_call *call)
{
    for (uint32_t i = 0; i < call->item_count; i++) {
        hr_request *request = call->items[i].request;
        if (!request)
            continue;
        queue *q = &f->waiting[f->key_of[index_of(f, request)]];
        size_t at = 0; /* where it was submitted */
        while (at < q->count && q->list[at]->number < request->number)
            at++;
        memmove(&q->list[at + 1], &q->list[at], (q->count - at) * sizeof q->list[0]);
        q->list[at] = request;
        q->count++;
    }
    leave_flight(f, call);
    hr_batch_take_back(&f->batch, call);
}

/* Everything answered: nothing may be left anywhere. */
static inline void drain(fixture *f)
{
    while (f->in_flight_count)
        finish(f, f->in_flight[0]);
    for (hr_call *call; (call = form(f)) != NULL;)
        finish(f, call);
    for (size_t k = 0; k < KEYS; k++)
        f->waiting[k].count = 0;
    assert_int_equal(f->batch.waiting, 0);
    assert_int_equal(f->batch.ready, 0);
    assert_null(f->batch.first);
    assert_null(f->batch.last);
    assert_int_equal(f->batch.table.count, 0);
    assert_int_equal(most_use(f), 0);
    assert_int_equal(f->limits.idle, f->limits.table.count);
}

/* Each entry is the front of its key's queue, as long as one entry may be. */
static inline void check_call_entry(fixture *f, const hr_call *call, const hr_call_key *entry)
{
    const hr_request *first = call->items[entry->first].request;
    size_t k = f->key_of[index_of(f, first)];
    queue *q = &f->waiting[k];
    char text[64];

    (void)snprintf(text, sizeof text, "p:%s:%s", k < NAMES ? "a" : "b", NAME[k % NAMES]);
    assert_int_equal(entry->key->len, strlen(text));
    assert_memory_equal(entry->key->text, text, entry->key->len);
    assert_true(entry->count >= 1 && entry->count <= q->count);
    for (uint32_t i = 0; i < entry->count; i++) {
        const hr_call_item *item = &call->items[entry->first + i];
        assert_ptr_equal(item->request, q->list[i]);
        assert_int_equal(item->request->state, HR_REQUEST_CALLED);
        assert_true(item->cost == q->list[i]->cost && item->op == q->list[i]->op);
        assert_ptr_equal(q->list[i]->ticket.limit, entry->limit);
        assert_true(entry->count == 1 || item->op != HIRATE_OP_RESET);
    }
    q->count -= entry->count;
    memmove(&q->list[0], &q->list[entry->count], q->count * sizeof q->list[0]);
    /* It ends at a barrier, or at the end of the call. */
    assert_true(q->count == 0 || first->op == HIRATE_OP_RESET || q->list[0]->op == HIRATE_OP_RESET ||
                q->list[0]->ticket.limit != first->ticket.limit || call->item_count == f->batch.item_most);
}

static inline void check_call(fixture *f, const hr_call *call)
{
    uint32_t items = 0;
    bool all_taken = true;

    assert_true(call->key_count >= 1 && call->key_count <= f->keys);
    assert_true(call->item_count <= f->batch.item_most);
    for (uint32_t i = 0; i < call->key_count; i++) {
        assert_int_equal(call->keys[i].first, items);
        items += call->keys[i].count;
        for (uint32_t j = 0; j < i; j++)
            assert_ptr_not_equal(call->keys[j].key, call->keys[i].key);
        check_call_entry(f, call, &call->keys[i]);
    }
    assert_int_equal(items, call->item_count);
    for (const hr_key *key = f->batch.first; key; key = key->next)
        all_taken = all_taken && key->taken_for == f->batch.formed;
    assert_true(all_taken || call->key_count == f->keys || call->item_count == f->batch.item_most);
}

static inline bool is_held(const fixture *f, size_t k)
{
    char text[64];
    size_t len = (size_t)snprintf(text, sizeof text, "p:%s:%s", k < NAMES ? "a" : "b", NAME[k % NAMES]);

    for (size_t c = 0; c < f->in_flight_count; c++) {
        for (uint32_t i = 0; i < f->in_flight[c]->key_count; i++) {
            const hr_key *key = f->in_flight[c]->keys[i].key;
            if (key->len == len && memcmp(key->text, text, len) == 0)
                return true;
        }
    }
    return false;
}

/* Resets of a ready key: those that wait, and those that a call holds. */
static inline uint32_t resets_of(const fixture *f, const hr_key *key)
{
    uint32_t resets = 0;

    for (const hr_ticket *ticket = key->first; ticket; ticket = ticket->next)
        resets += ticket->request->op == HIRATE_OP_RESET;
    for (size_t c = 0; c < f->in_flight_count; c++) {
        const hr_call *call = f->in_flight[c];
        for (uint32_t i = 0; i < call->key_count; i++)
            resets += call->keys[i].key == key && call->items[call->keys[i].first].op == HIRATE_OP_RESET;
    }
    return resets;
}

static inline void check_counts(const fixture *f)
{
    size_t waiting = 0, ready = 0, keys = 0, uses = 0, seen = 0;

    for (size_t k = 0; k < KEYS; k++) {
        waiting += f->waiting[k].count;
        ready += f->waiting[k].count != 0;
        keys += f->waiting[k].count != 0 || is_held(f, k);
    }
    for (size_t i = 0; i < REQUESTS; i++)
        uses += f->used[i];
    for (size_t c = 0; c < f->in_flight_count; c++)
        uses += f->in_flight[c]->key_count;
    for (const hr_key *key = f->batch.first; key; key = key->next) {
        assert_ptr_equal(key->next ? key->next->prev : f->batch.last, key);
        assert_int_equal(key->resets, resets_of(f, key));
        seen++;
    }
    assert_int_equal(f->batch.waiting, waiting);
    assert_int_equal(f->batch.ready, ready);
    assert_int_equal(seen, ready);
    assert_int_equal(f->batch.table.count, keys);
    assert_int_equal(most_use(f), uses);
}

#endif
