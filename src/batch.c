/* SPDX-License-Identifier: BSD-3-Clause */
/* request: what waits, gathered by key, and the calls made of it; see batch.h. */
#include "batch.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------- the calls -- */

int hr_batch_init(hr_batch *batch, hr_limits *limits, const hirate_options *options)
{
    memset(batch, 0, sizeof *batch);
    batch->limits = limits;
    hr_denials_init(&batch->denials, limits, options->max_denials);
    batch->hash_key = hr_hash_key_random();
    batch->key_most = options->max_call_keys;
    batch->item_most = options->max_call_acquires;
    for (uint32_t i = 0; i < options->max_calls; i++) {
        hr_call *call = hr_call_new(batch->key_most, batch->item_most);
        if (!call)
            return HIRATE_ENOMEM;
        call->next = call->all_next = batch->free_calls;
        batch->free_calls = batch->all_calls = call;
    }
    return hr_hash_init(&batch->table, 1024);
}

void hr_batch_free(hr_batch *batch)
{
    while (batch->all_calls) {
        hr_call *next = batch->all_calls->all_next;
        hr_call_free(batch->all_calls);
        batch->all_calls = next;
    }
    hr_denials_free(&batch->denials);
    hr_hash_free(&batch->table);
    hr_pool_free(&batch->pool);
}

static int make_room_for_steps(hr_batch *batch)
{
    for (hr_call *call = batch->all_calls; call && !batch->has_steps; call = call->all_next) {
        int rc = hr_call_make_room_for_steps(call, batch->key_most, batch->item_most);
        if (rc)
            return rc;
    }
    batch->has_steps = true;
    return 0;
}

/* ------------------------------------------------------------------------------------------------- the extras -- */

static size_t extra_size(uint32_t count)
{
    return sizeof(hr_extra) + count * sizeof(hr_part);
}

_Static_assert(sizeof(hr_extra) + HIRATE_PAIRS_MAX * sizeof(hr_part) <= HR_POOL_LARGEST, "extras fit the pool");

hr_extra *hr_batch_extra_new(hr_batch *batch, uint32_t count)
{
    hr_extra *extra = make_room_for_steps(batch) ? NULL : hr_pool_get(&batch->pool, extra_size(count));
    if (!extra)
        return NULL;
    memset(extra, 0, extra_size(count));
    extra->count = count;
    return extra;
}

int hr_batch_make_room_for_permit(hr_batch *batch, hr_part *part, size_t size)
{
    part->permit = hr_pool_get(&batch->pool, size);
    part->permit_size = (uint16_t)size;
    return part->permit ? 0 : HIRATE_ENOMEM;
}

void hr_batch_extra_free(hr_batch *batch, hr_extra *extra)
{
    if (!extra)
        return;
    for (uint32_t i = 0; i < extra->count; i++) {
        if (extra->parts[i].permit)
            hr_pool_put(&batch->pool, extra->parts[i].permit, extra->parts[i].permit_size);
    }
    hr_pool_put(&batch->pool, extra, extra_size(extra->count));
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
    return offsetof(hr_key, text) + len;
}

static uint64_t hash_of(const hr_batch *batch, const hr_limit *limit, const void *name, size_t len)
{
    return hr_hash(batch->hash_key, name, len) ^ limit->name_hash;
}

/* The same name again, as in a flood, needs no hashing. */
static hr_key *recent_key(const hr_batch *batch, const hr_limit *limit, const void *name, size_t len)
{
    hr_key *key = batch->recent;
    if (!key || key->len != limit->prefix_len + len || key->prefix_len != limit->prefix_len)
        return NULL;
    if (len && (key->text[key->len - 1] != ((const char *)name)[len - 1] ||
                memcmp(key->text + key->prefix_len, name, len) != 0))
        return NULL;
    return memcmp(key->text, limit->prefix, key->prefix_len) == 0 ? key : NULL;
}

static hr_key *find_key(const hr_batch *batch, uint64_t hash, const hr_limit *limit, const void *name, size_t len)
{
    probe p = {limit, name, len};
    return (hr_key *)hr_hash_find(&batch->table, hash, is_key, &p);
}

static hr_key *key_of(hr_batch *batch, const hr_limit *limit, const void *name, size_t len)
{
    hr_key *key = recent_key(batch, limit, name, len);
    if (key)
        return key;
    uint64_t hash = hash_of(batch, limit, name, len);
    key = find_key(batch, hash, limit, name, len);
    if (key) {
        batch->recent = key;
        return key;
    }
    key = hr_pool_get(&batch->pool, key_size(limit->prefix_len + len));
    if (!key)
        return NULL;
    memset(key, 0, offsetof(hr_key, text));
    key->prefix_len = limit->prefix_len;
    key->len = (uint16_t)(limit->prefix_len + len);
    memcpy(key->text, limit->prefix, limit->prefix_len);
    if (len)
        memcpy(key->text + limit->prefix_len, name, len);
    hr_hash_insert(&batch->table, &key->node, hash);
    batch->recent = key;
    return key;
}

static void drop_key_if_unused(hr_batch *batch, hr_key *key)
{
    if (key->waiting || key->calls)
        return;
    if (batch->recent == key)
        batch->recent = NULL;
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

/* Put a ticket into its key's queue before `next`, or at the end. */
static void enqueue(hr_batch *batch, hr_key *key, hr_ticket *ticket, hr_ticket *next)
{
    hr_ticket *prev = next ? next->prev : key->last;

    ticket->next = next;
    ticket->prev = prev;
    *(prev ? &prev->next : &key->first) = ticket;
    *(next ? &next->prev : &key->last) = ticket;
    ticket->key = key;
    ticket->request->state = HR_REQUEST_WAITING;
    key->resets += ticket->request->op == HIRATE_OP_RESET;
    key->stepped += ticket->request->extra != NULL;
    batch->waiting++;
    batch->repeated += key->waiting == 1;
    if (key->waiting++ == 0)
        make_ready(batch, key);
}

static void dequeue(hr_batch *batch, hr_ticket *ticket)
{
    hr_key *key = ticket->key;

    *(ticket->prev ? &ticket->prev->next : &key->first) = ticket->next;
    *(ticket->next ? &ticket->next->prev : &key->last) = ticket->prev;
    key->resets -= ticket->request->op == HIRATE_OP_RESET;
    key->stepped -= ticket->request->extra != NULL;
    batch->waiting--;
    if (--key->waiting == 0)
        make_unready(batch, key);
    batch->repeated -= key->waiting == 1;
}

/* Take back the first `count` tickets of a request that cannot be queued whole. */
static void unqueue(hr_batch *batch, hr_request *request, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        hr_ticket *ticket = hr_request_ticket(request, i);
        dequeue(batch, ticket);
        drop_key_if_unused(batch, ticket->key);
    }
}

static int add_ticket(hr_batch *batch, hr_request *request, hr_ticket *ticket, const hr_name *name)
{
    hr_key *key = key_of(batch, ticket->limit, name->bytes, name->len);
    if (!key)
        return HIRATE_ENOMEM;
    ticket->request = request;
    enqueue(batch, key, ticket, NULL);
    return 0;
}

int hr_batch_add(hr_batch *batch, hr_request *request, const hr_name *names)
{
    request->number = ++batch->added;
    if (!request->extra)
        return add_ticket(batch, request, &request->ticket, names);
    for (uint32_t i = 0; i < request->extra->count; i++) {
        int rc = add_ticket(batch, request, &request->extra->parts[i].ticket, &names[i]);
        if (rc) {
            unqueue(batch, request, i);
            return rc;
        }
    }
    return 0;
}

void hr_batch_remove(hr_batch *batch, hr_request *request)
{
    if (request->state == HR_REQUEST_CALLED)
        *request->called_as = NULL;
    else
        unqueue(batch, request, hr_request_tickets(request));
}

/* ------------------------------------------------------------------------------------------- remembered denials -- */

const hr_denial *hr_batch_denial(const hr_batch *batch, const hr_limit *limit, const void *name, size_t len,
                                 uint64_t cost)
{
    if (!batch->denials.entries)
        return NULL;
    uint64_t hash = hash_of(batch, limit, name, len);
    const hr_denial *denial = hr_denials_find(&batch->denials, hash, limit, name, len, cost);
    if (!denial)
        return NULL;
    const hr_key *key = batch->table.count ? find_key(batch, hash, limit, name, len) : NULL;
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

/* Can `ticket` be decided in the same entry of the script as what was taken from its key before it? */
static bool goes_along(const hr_ticket *ticket, const hr_limit *limit, enum hirate_op first_op)
{
    return !ticket->request->extra && first_op != HIRATE_OP_RESET && ticket->request->op != HIRATE_OP_RESET &&
           ticket->limit == limit;
}

static void put_into_call(hr_batch *batch, hr_call *call, hr_key *key)
{
    key->calls++;
    key->taken_for = batch->formed;
    call->key_bytes += key->len;
}

static uint32_t requests_of(const hr_call *call)
{
    return call->item_count + call->ref_count;
}

/* Move the front run of a ready key into the call. */
static void take_entry(hr_batch *batch, hr_call *call, hr_key *key)
{
    hr_call_key *entry = &call->keys[call->key_count++];
    hr_ticket *ticket = key->first;
    hr_limit *limit = ticket->limit;
    enum hirate_op op = (enum hirate_op)ticket->request->op;

    const uint64_t cost = ticket->request->cost;
    *entry = (hr_call_key){.key = key, .limit = limit, .first = call->item_count, .alike = true};
    do {
        hr_request *request = ticket->request;
        entry->alike &= request->op == HIRATE_OP_ACQUIRE && request->cost == cost;
        dequeue(batch, ticket);
        hr_call_item *item = &call->items[call->item_count++];
        *item = (hr_call_item){request, request->cost, request->op};
        request->called_as = &item->request;
        request->state = HR_REQUEST_CALLED;
        entry->count++;
        ticket = key->first;
    } while (ticket && requests_of(call) < batch->item_most && goes_along(ticket, limit, op));
    entry->limit->uses++;
    key->resets += op == HIRATE_OP_RESET;
    key->step_key = HR_KEY_HAS_ENTRY;
    put_into_call(batch, call, key);
}

/* Is this request the next of all its keys, and can it go along with what the call has of them? */
static bool is_next(const hr_batch *batch, const hr_call *call, hr_request *request)
{
    for (uint32_t i = 0; i < hr_request_tickets(request); i++) {
        const hr_ticket *ticket = hr_request_ticket(request, i);
        const hr_key *key = ticket->key;
        if (key->first != ticket)
            return false;
        if (key->taken_for == batch->formed &&
            (key->step_key == HR_KEY_HAS_ENTRY ||
             !hr_policy_decides_alike(&call->step_keys[key->step_key].limit->policy, &ticket->limit->policy)))
            return false;
    }
    return true;
}

/* Is there room for it? Alone it always has. */
static bool fits(const hr_batch *batch, const hr_call *call, hr_request *request)
{
    uint32_t count = hr_request_tickets(request), new_keys = 0;

    if (!requests_of(call))
        return true;
    for (uint32_t i = 0; i < count; i++)
        new_keys += hr_request_ticket(request, i)->key->taken_for != batch->formed;
    return call->key_count + call->step_key_count + new_keys <= batch->key_most &&
           requests_of(call) + count <= batch->item_most && (!new_keys || call->key_bytes < HR_CALL_BYTES_MOST);
}

static uint32_t step_key_of(hr_batch *batch, hr_call *call, const hr_ticket *ticket)
{
    hr_key *key = ticket->key;
    if (key->taken_for == batch->formed)
        return key->step_key;
    key->step_key = (uint16_t)call->step_key_count++;
    call->step_keys[key->step_key] = (hr_step_key){.key = key, .limit = ticket->limit};
    ticket->limit->uses++;
    put_into_call(batch, call, key);
    return key->step_key;
}

/* The shadows among a request's limits, or the others. */
static void take_refs(hr_batch *batch, hr_call *call, hr_request *request, bool shadows)
{
    for (uint32_t i = 0; i < hr_request_tickets(request); i++) {
        hr_ticket *ticket = hr_request_ticket(request, i);
        bool shadow = hr_limit_is_shadow(ticket->limit);
        if (shadow != shadows)
            continue;
        dequeue(batch, ticket);
        call->refs[call->ref_count++] =
            (hr_step_ref){.limit = ticket->limit, .key = step_key_of(batch, call, ticket), .part = i, .shadow = shadow};
        ticket->limit->uses++;
    }
}

static void take_step(hr_batch *batch, hr_call *call, hr_request *request)
{
    const hr_extra *extra = request->extra;
    hr_step *step = &call->steps[call->step_count++];

    *step = (hr_step){.request = request, .cost = request->cost, .op = request->op, .first = call->ref_count};
    if (extra) {
        step->holds = extra->holds;
        step->hold_us = extra->hold_us;
        step->until_us = extra->until_us;
        memcpy(step->id, extra->id, sizeof step->id);
    }
    step->count = hr_request_tickets(request);
    take_refs(batch, call, request, false);
    take_refs(batch, call, request, true);
    request->called_as = &step->request;
    request->state = HR_REQUEST_CALLED;
}

/* As much of a key's front as can be steps of this call. A reset is an entry, alone in a call with its key. False:
 * there is no room for the next. */
static bool take_steps(hr_batch *batch, hr_call *call, hr_key *key)
{
    while (key->first) {
        hr_request *request = key->first->request;
        if (request->op == HIRATE_OP_RESET) {
            if (key->taken_for != batch->formed)
                take_entry(batch, call, key);
            return true;
        }
        if (!is_next(batch, call, request))
            return true;
        if (!fits(batch, call, request))
            return false;
        take_step(batch, call, request);
    }
    return true;
}

static void begin_call(hr_batch *batch, hr_call *call, enum hr_script_how how)
{
    batch->free_calls = call->next;
    if (++batch->formed == 0)
        batch->formed = 1;
    call->number = batch->formed;
    call->how = how;
    call->key_count = call->item_count = 0;
    call->step_key_count = call->step_count = call->ref_count = 0;
    call->key_bytes = 0;
}

static bool has_room(const hr_batch *batch, const hr_call *call, uint32_t keys)
{
    return call->key_count + call->step_key_count < keys && requests_of(call) < batch->item_most &&
           call->key_bytes < HR_CALL_BYTES_MOST;
}

/* A key whose next request is too large for what is left of the call ends it, and is the first of the next call:
 * there it fits. */
hr_call *hr_batch_form(hr_batch *batch, enum hr_script_how how, uint32_t keys)
{
    hr_call *call = batch->free_calls;
    hr_key *key;

    if (!call || !batch->first)
        return NULL;
    begin_call(batch, call, how);
    while ((key = batch->first) != NULL && key->visited_for != batch->formed && has_room(batch, call, keys)) {
        const uint32_t before = requests_of(call);
        key->visited_for = batch->formed;
        if (key->stepped || key->taken_for == batch->formed) {
            if (!take_steps(batch, call, key) && requests_of(call) == before)
                break;
        } else {
            take_entry(batch, call, key);
        }
        if (key->waiting) { /* the rest has its turn after the others */
            make_unready(batch, key);
            make_ready(batch, key);
        }
    }
    return call;
}

/* ----------------------------------------------------------------------------------------------- after a call -- */

static void let_key_go(hr_batch *batch, hr_key *key, hr_limit *limit)
{
    hr_limits_done(batch->limits, limit);
    key->calls--;
    drop_key_if_unused(batch, key);
}

void hr_batch_finish(hr_batch *batch, hr_call *call)
{
    for (uint32_t i = 0; i < call->key_count; i++) {
        hr_key *key = call->keys[i].key;
        if (hr_call_is_reset(call, &call->keys[i])) {
            key->resets--;
            hr_denials_clear(&batch->denials, key->node.hash, key->text, key->len);
        }
        let_key_go(batch, key, call->keys[i].limit);
    }
    for (uint32_t i = 0; i < call->ref_count; i++)
        hr_limits_done(batch->limits, call->refs[i].limit);
    for (uint32_t i = 0; i < call->step_key_count; i++)
        let_key_go(batch, call->step_keys[i].key, call->step_keys[i].limit);
    call->next = batch->free_calls;
    batch->free_calls = call;
}

/* To where it was submitted. Others that wait may be anywhere, also between two of the same call: of an earlier
 * call that was refused after this one was formed. */
static void requeue(hr_batch *batch, hr_ticket *ticket)
{
    hr_key *key = ticket->key;
    const uint64_t number = ticket->request->number;
    hr_ticket *next = key->requeued ? key->requeued : key->first;

    if (key->requeued) {
        while (next->prev && next->prev->request->number > number)
            next = next->prev;
    } else {
        while (next && next->request->number < number)
            next = next->next;
    }
    enqueue(batch, key, ticket, next);
    key->requeued = ticket;
}

/* From the last request on, so that the place of each is found from where the one behind it went. */
void hr_batch_take_back(hr_batch *batch, hr_call *call)
{
    for (uint32_t i = 0; i < call->key_count; i++)
        call->keys[i].key->requeued = NULL;
    for (uint32_t i = 0; i < call->step_key_count; i++)
        call->step_keys[i].key->requeued = NULL;
    for (uint32_t i = hr_call_requests(call); i-- > 0;) {
        hr_request *request = hr_call_request(call, i);
        for (uint32_t j = 0; request && j < hr_request_tickets(request); j++)
            requeue(batch, hr_request_ticket(request, j));
    }
    hr_batch_finish(batch, call);
}
