/* SPDX-License-Identifier: BSD-3-Clause */
/* request: what waits, gathered by key, and the calls made of it; see batch.h. */
#include "batch.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------- the calls -- */

static hr_call *call_new(uint32_t key_most, uint32_t item_most)
{
    hr_call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    call->keys = calloc(key_most, sizeof *call->keys);
    call->items = calloc(item_most, sizeof *call->items);
    if (call->keys && call->items)
        return call;
    free(call->keys);
    free(call->items);
    free(call);
    return NULL;
}

int hr_batch_init(hr_batch *batch, hr_limits *limits, const hirate_options *options)
{
    memset(batch, 0, sizeof *batch);
    batch->limits = limits;
    hr_denials_init(&batch->denials, limits, options->max_denials);
    batch->hash_key = hr_hash_key_random();
    batch->key_most = options->max_call_keys;
    batch->item_most = options->max_call_acquires;
    for (uint32_t i = 0; i < options->max_calls; i++) {
        hr_call *call = call_new(batch->key_most, batch->item_most);
        if (!call)
            return HIRATE_ENOMEM;
        call->next = batch->free_calls;
        batch->free_calls = call;
    }
    return hr_hash_init(&batch->table, 1024);
}

void hr_batch_free(hr_batch *batch)
{
    while (batch->free_calls) {
        hr_call *next = batch->free_calls->next;
        free(batch->free_calls->keys);
        free(batch->free_calls->items);
        free(batch->free_calls);
        batch->free_calls = next;
    }
    hr_denials_free(&batch->denials);
    hr_hash_free(&batch->table);
    hr_pool_free(&batch->pool);
}

/* -------------------------------------------------------------------------------------------------- the keys -- */

typedef struct probe {
    const hr_limit *limit;
    const void *name;
    size_t len;
} probe;

static bool is_key(const hr_hash_node *node, const void *arg)
{
    const hr_key *key = (const hr_key *)node;
    const probe *p = arg;
    return key->prefix_len == p->limit->prefix_len && key->len == p->limit->prefix_len + p->len &&
           memcmp(key->text, p->limit->prefix, key->prefix_len) == 0 &&
           (p->len == 0 || memcmp(key->text + key->prefix_len, p->name, p->len) == 0);
}

static size_t key_size(size_t len)
{
    return sizeof(hr_key) + len;
}

static uint64_t hash_of(const hr_batch *batch, const hr_limit *limit, const void *name, size_t len)
{
    return hr_hash(batch->hash_key, name, len) ^ limit->name_hash;
}

static hr_key *find_key(const hr_batch *batch, uint64_t hash, const hr_limit *limit, const void *name, size_t len)
{
    probe p = {limit, name, len};
    return (hr_key *)hr_hash_find(&batch->table, hash, is_key, &p);
}

static hr_key *key_of(hr_batch *batch, const hr_limit *limit, const void *name, size_t len)
{
    uint64_t hash = hash_of(batch, limit, name, len);
    hr_key *key = find_key(batch, hash, limit, name, len);

    if (key)
        return key;
    key = hr_pool_get(&batch->pool, key_size(limit->prefix_len + len));
    if (!key)
        return NULL;
    memset(key, 0, sizeof *key);
    key->prefix_len = limit->prefix_len;
    key->len = (uint16_t)(limit->prefix_len + len);
    memcpy(key->text, limit->prefix, limit->prefix_len);
    if (len)
        memcpy(key->text + limit->prefix_len, name, len);
    hr_hash_insert(&batch->table, &key->node, hash);
    return key;
}

static void drop_key_if_unused(hr_batch *batch, hr_key *key)
{
    if (key->waiting || key->calls)
        return;
    hr_hash_remove(&batch->table, &key->node);
    hr_pool_put(&batch->pool, key, key_size(key->len));
}

static void make_ready(hr_batch *batch, hr_key *key)
{
    key->next = NULL;
    key->prev = batch->last;
    *(batch->last ? &batch->last->next : &batch->first) = key;
    batch->last = key;
    batch->ready++;
}

static void make_unready(hr_batch *batch, hr_key *key)
{
    *(key->prev ? &key->prev->next : &batch->first) = key->next;
    *(key->next ? &key->next->prev : &batch->last) = key->prev;
    batch->ready--;
}

/* Put a request into its key's queue before `next`, or at the end. */
static void enqueue(hr_batch *batch, hr_key *key, hr_request *request, hr_request *next)
{
    hr_request *prev = next ? next->prev : key->last;

    request->next = next;
    request->prev = prev;
    *(prev ? &prev->next : &key->first) = request;
    *(next ? &next->prev : &key->last) = request;
    request->key = key;
    request->state = HR_REQUEST_WAITING;
    key->resets += request->op == HIRATE_OP_RESET;
    batch->waiting++;
    if (key->waiting++ == 0)
        make_ready(batch, key);
}

static void dequeue(hr_batch *batch, hr_request *request)
{
    hr_key *key = request->key;

    *(request->prev ? &request->prev->next : &key->first) = request->next;
    *(request->next ? &request->next->prev : &key->last) = request->prev;
    key->resets -= request->op == HIRATE_OP_RESET;
    batch->waiting--;
    if (--key->waiting == 0)
        make_unready(batch, key);
}

int hr_batch_add(hr_batch *batch, hr_request *request, const void *name, size_t len)
{
    hr_key *key = key_of(batch, request->limit, name, len);
    if (!key)
        return HIRATE_ENOMEM;
    request->number = ++batch->added;
    enqueue(batch, key, request, NULL);
    return 0;
}

void hr_batch_remove(hr_batch *batch, hr_request *request)
{
    if (request->state == HR_REQUEST_CALLED) {
        request->item->request = NULL;
        return;
    }
    hr_key *key = request->key;
    dequeue(batch, request);
    drop_key_if_unused(batch, key);
}

/* ------------------------------------------------------------------------------------------- remembered denials -- */

const hr_denial *hr_batch_denial(const hr_batch *batch, const hr_limit *limit, const void *name, size_t len, uint64_t cost)
{
    if (!batch->denials.entries)
        return NULL;
    uint64_t hash = hash_of(batch, limit, name, len);
    const hr_denial *denial = hr_denials_find(&batch->denials, hash, limit, name, len, cost);
    if (!denial)
        return NULL;
    const hr_key *key = find_key(batch, hash, limit, name, len);
    return key && key->resets ? NULL : denial;
}

void hr_batch_note_denial(hr_batch *batch, const hr_call_key *entry, hr_denial denial)
{
    hr_key *key = entry->key;
    if (key->resets)
        return; /* decided before the reset that is under way */
    denial.limit = entry->limit;
    denial.hash = key->node.hash;
    denial.key = key->text;
    denial.key_len = key->len;
    hr_denials_note(&batch->denials, &denial);
}

/* --------------------------------------------------------------------------------------------- forming calls -- */

/* Can `request` be decided in the same entry of the script as what was taken from its key before it? */
static bool goes_along(const hr_request *first, const hr_request *request)
{
    return first->op != HIRATE_OP_RESET && request->op != HIRATE_OP_RESET && first->limit == request->limit;
}

static bool is_reset(const hr_call *call, const hr_call_key *entry)
{
    return call->items[entry->first].op == HIRATE_OP_RESET;
}

/* Move the front run of a ready key into the call. */
static void take_key(hr_batch *batch, hr_call *call, hr_key *key)
{
    hr_call_key *entry = &call->keys[call->key_count++];
    const hr_request *first = key->first;

    *entry = (hr_call_key){.key = key, .limit = first->limit, .first = call->item_count};
    while (key->first && call->item_count < batch->item_most) {
        hr_request *request = key->first;
        if (request != first && !goes_along(first, request))
            break;
        dequeue(batch, request);
        hr_call_item *item = &call->items[call->item_count++];
        *item = (hr_call_item){request, request->cost, request->op};
        request->item = item;
        request->state = HR_REQUEST_CALLED;
        entry->count++;
    }
    entry->limit->uses++;
    key->resets += is_reset(call, entry);
    key->calls++;
    key->taken_for = batch->formed;
    call->key_bytes += key->len;
    if (key->waiting) { /* the rest has its turn after the others */
        make_unready(batch, key);
        make_ready(batch, key);
    }
}

hr_call *hr_batch_form(hr_batch *batch, enum hr_script_how how)
{
    hr_call *call = batch->free_calls;
    if (!call || !batch->first)
        return NULL;
    batch->free_calls = call->next;
    batch->formed++;
    call->number = (uint32_t)batch->formed;
    call->how = how;
    call->key_count = call->item_count = 0;
    call->key_bytes = 0;
    while (batch->first && batch->first->taken_for != batch->formed && call->key_count < batch->key_most &&
           call->item_count < batch->item_most && call->key_bytes < HR_CALL_BYTES_MOST)
        take_key(batch, call, batch->first);
    return call;
}

/* ------------------------------------------------------------------------------------------------- encoding -- */

/* What an item takes if there is room, in the script's units: nothing with a cost of 0 or above the limit. */
static uint64_t units_of(const hr_call_item *item, const hr_policy *policy)
{
    if (item->cost > policy->capacity)
        return 0;
    bool is_bucket = policy->kind == HIRATE_KIND_TOKEN_BUCKET || policy->kind == HIRATE_KIND_LEAKY_BUCKET;
    return is_bucket ? item->cost * policy->p : item->cost;
}

/* Equal takes in a row are a run. Acquires that take nothing are one only in the first place, where it matters (see
 * lua/acquire.lua); later they do not interrupt one. Peeks are none, except under a sliding log, whose waits only the server
 * can tell. */
bool hr_batch_walk(hr_run_walk *walk, const hr_policy *policy, const hr_call_item *item)
{
    uint64_t units = units_of(item, policy);
    bool peek = item->op == HIRATE_OP_PEEK, nothing = units == 0;

    if (peek && (nothing || policy->kind != HIRATE_KIND_SLIDING_LOG))
        return false;
    if (nothing && walk->runs > 0)
        return false;
    if (walk->runs == 0 || walk->units != units || walk->op != item->op) {
        walk->runs++;
        walk->units = units;
        walk->op = item->op;
    }
    return true;
}

static bool only_peeks(const hr_call *call, const hr_call_key *entry)
{
    for (uint32_t i = 0; i < entry->count; i++) {
        if (call->items[entry->first + i].op != HIRATE_OP_PEEK)
            return false;
    }
    return true;
}

/* Under a sliding log peeks may come before an acquire that takes nothing. Then it is no run, and must be one all the same, as
 * it writes: at the end, where no other does. */
static bool needs_touch(const hr_call *call, const hr_call_key *entry, const hr_policy *policy)
{
    hr_run_walk walk = {0};

    for (uint32_t i = 0; i < entry->count; i++) {
        const hr_call_item *item = &call->items[entry->first + i];
        if (hr_batch_walk(&walk, policy, item) && item->op == HIRATE_OP_ACQUIRE)
            return false;
    }
    return !only_peeks(call, entry);
}

/* Visit the runs; each is written if `out` is given. Returns how many there are. */
static uint32_t encode_runs(const hr_call *call, const hr_call_key *entry, hr_script_call *out)
{
    const hr_policy *policy = &entry->limit->policy;
    hr_run_walk walk = {0};
    uint32_t count = 0;

    for (uint32_t i = 0; i < entry->count; i++) {
        const hr_call_item *item = &call->items[entry->first + i];
        hr_run_walk before = walk;
        if (!hr_batch_walk(&walk, policy, item))
            continue;
        if (walk.runs != before.runs && before.runs && out)
            hr_script_run(out, before.units, count);
        if (walk.runs != before.runs)
            count = 0;
        count += item->op == HIRATE_OP_ACQUIRE;
    }
    if (walk.runs && out)
        hr_script_run(out, walk.units, count);
    return walk.runs;
}

static void encode_entry(const hr_call *call, hr_call_key *entry, hr_script_call *out)
{
    hr_script_key(out, entry->key->text, entry->key->len);
    if (is_reset(call, entry)) {
        hr_script_reset(out);
        return;
    }
    const hr_policy *policy = &entry->limit->policy;
    bool touch = policy->kind == HIRATE_KIND_SLIDING_LOG && needs_touch(call, entry, policy);
    uint32_t runs = encode_runs(call, entry, NULL);
    entry->runs = runs + touch;
    if (entry->runs == 0) {
        hr_script_peek(out);
        return;
    }
    hr_script_acquires(out, entry->runs);
    encode_runs(call, entry, out);
    if (touch)
        hr_script_run(out, 0, 1);
}

int hr_batch_encode(hr_call *call, hr_script_call *out)
{
    hr_script_begin(out, call->number);
    for (uint32_t i = 0; i < call->key_count;) {
        const hr_limit *limit = call->keys[i].limit;
        uint32_t end = i + 1;
        while (end < call->key_count && call->keys[end].limit == limit)
            end++;
        hr_script_limit(out, &limit->policy, end - i);
        for (; i < end; i++)
            encode_entry(call, &call->keys[i], out);
    }
    return hr_script_finish(out, call->how);
}

/* ----------------------------------------------------------------------------------------------- after a call -- */

void hr_batch_finish(hr_batch *batch, hr_call *call)
{
    for (uint32_t i = 0; i < call->key_count; i++) {
        hr_key *key = call->keys[i].key;
        if (is_reset(call, &call->keys[i])) {
            key->resets--;
            hr_denials_clear(&batch->denials, key->node.hash, key->text, key->len);
        }
        hr_limits_done(batch->limits, call->keys[i].limit);
        key->calls--;
        drop_key_if_unused(batch, key);
    }
    call->next = batch->free_calls;
    batch->free_calls = call;
}

/* Among those that wait already there may be later ones, and earlier ones of a call that was refused before this one. */
static void take_back_entry(hr_batch *batch, hr_call *call, const hr_call_key *entry)
{
    hr_request *next = entry->key->first;

    for (uint32_t i = 0; i < entry->count; i++) {
        hr_request *request = call->items[entry->first + i].request;
        if (!request)
            continue;
        while (next && next->number < request->number)
            next = next->next;
        enqueue(batch, entry->key, request, next);
    }
}

void hr_batch_take_back(hr_batch *batch, hr_call *call)
{
    for (uint32_t i = 0; i < call->key_count; i++)
        take_back_entry(batch, call, &call->keys[i]);
    hr_batch_finish(batch, call);
}
