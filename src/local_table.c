/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client: what the local engine remembers; see local_table.h.
 *
 * Memory. At most max_keys entries are stored, each in one allocation with its key; a sliding log, and what holds
 * leases or reservations, has a second one (log_buffer.h, hold_list.h). Expired ones are found through a heap ordered
 * by deadline. The heap is lazy: an entry stands in it by the deadline it had when the heap was last put in order; a
 * store that makes it later leaves the heap alone. So storing to an entry costs no heap work. One whose time has come
 * is freed if it has expired, else it gets the true deadline and sinks. Every such step is paid for once: by the
 * insertion of what it frees, or by the store that moved the deadline it corrects; a flood of names at max_keys finds
 * the heap in order and is refused in constant time. Each new entry frees up to two expired ones: one makes room where
 * there is none, two give back what a burst has left.
 *
 * Invariants: heap[i]->slot == i; heap_deadline <= deadline; heap_count == entries.count <= max_keys.
 */
#include "local_table.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = HIRATE_POLICY_MAX + 1 + HIRATE_NAME_MAX, FREED_PER_INSERT = 2 };

/* ---------------------------------------------------------------------------------------------------- heap -- */

static void heap_put(hr_local_table *table, size_t slot, hr_local_entry *e)
{
    table->heap[slot] = e;
    e->slot = (uint32_t)slot;
}

static void heap_rise(hr_local_table *table, hr_local_entry *e)
{
    size_t slot = e->slot;

    while (slot > 0 && table->heap[(slot - 1) / 2]->heap_deadline_ms > e->heap_deadline_ms) {
        heap_put(table, slot, table->heap[(slot - 1) / 2]);
        slot = (slot - 1) / 2;
    }
    heap_put(table, slot, e);
}

static void heap_sink(hr_local_table *table, hr_local_entry *e)
{
    size_t slot = e->slot;

    for (;;) {
        size_t child = 2 * slot + 1;

        if (child + 1 < table->heap_count &&
            table->heap[child + 1]->heap_deadline_ms < table->heap[child]->heap_deadline_ms)
            child++;
        if (child >= table->heap_count || table->heap[child]->heap_deadline_ms >= e->heap_deadline_ms)
            break;
        heap_put(table, slot, table->heap[child]);
        slot = child;
    }
    heap_put(table, slot, e);
}

/* Room for one more; false: no memory. */
static bool heap_reserve(hr_local_table *table)
{
    if (table->heap_count < table->heap_room)
        return true;
    size_t room = table->heap_room == 0 ? 16 : 2 * table->heap_room;
    if (room > SIZE_MAX / sizeof *table->heap)
        return false;
    hr_local_entry **heap = realloc(table->heap, room * sizeof *heap);
    if (heap == NULL)
        return false;
    table->heap = heap;
    table->heap_room = room;
    return true;
}

static void heap_remove(hr_local_table *table, const hr_local_entry *e)
{
    hr_local_entry *last = table->heap[--table->heap_count];

    if (last == e)
        return;
    heap_put(table, e->slot, last);
    heap_rise(table, last);
    heap_sink(table, last);
}

/* ------------------------------------------------------------------------------------------------- entries -- */

static int64_t to_ms(int64_t now_us)
{
    return now_us / 1000;
}

static bool has_holds(unsigned kind)
{
    return kind == HIRATE_KIND_QUOTA || kind == HIRATE_KIND_CONCURRENCY;
}

static void entry_free(hr_local_entry *e)
{
    if (e->kind == HIRATE_KIND_SLIDING_LOG)
        hr_log_buffer_free(&e->as.log);
    else if (has_holds(e->kind))
        hr_hold_list_free(&e->as.window.holds);
    free(e);
}

static void key_write(unsigned char *to, const hr_local_key *key)
{
    memcpy(to, key->policy, key->policy_len);
    to[key->policy_len] = ':'; /* no policy name holds one, so no two pairs share a key */
    if (key->name_len > 0)
        memcpy(to + key->policy_len + 1, key->name, key->name_len);
}

static bool same_key(const hr_hash_node *node, const void *probe)
{
    const hr_local_entry *e = (const hr_local_entry *)node;
    const hr_local_key *k = probe;

    return e->key_len == k->policy_len + 1 + k->name_len && memcmp(e->key, k->policy, k->policy_len) == 0 &&
           e->key[k->policy_len] == ':' &&
           (k->name_len == 0 || memcmp(e->key + k->policy_len + 1, k->name, k->name_len) == 0);
}

hr_local_key hr_local_table_key(const hr_local_table *table, const hr_policy *policy, const void *name, size_t len)
{
    hr_local_key key = {.policy = policy->name, .name = name, .policy_len = policy->name_len, .name_len = len};
    unsigned char bytes[KEY_MAX];

    key_write(bytes, &key);
    key.hash = hr_hash(table->hash_key, bytes, key.policy_len + 1 + len);
    return key;
}

void hr_local_table_forget(hr_local_table *table, hr_local_entry *e)
{
    heap_remove(table, e);
    hr_hash_remove(&table->entries, &e->node);
    entry_free(e);
}

/* Free up to FREED_PER_INSERT expired entries: at least one, if there is one. */
static void sweep(hr_local_table *table, int64_t now_us)
{
    const int64_t now_ms = to_ms(now_us);
    int freed = 0;

    while (freed < FREED_PER_INSERT && table->heap_count > 0 && table->heap[0]->heap_deadline_ms < now_ms) {
        hr_local_entry *e = table->heap[0];

        if (e->deadline_ms < now_ms) {
            hr_local_table_forget(table, e);
            freed++;
        } else {
            e->heap_deadline_ms = e->deadline_ms;
            heap_sink(table, e);
        }
    }
}

hr_local_entry *hr_local_table_find(hr_local_table *table, const hr_local_key *key, int64_t now_us)
{
    hr_local_entry *e = (hr_local_entry *)hr_hash_find(&table->entries, key->hash, same_key, key);

    if (e != NULL && e->deadline_ms < to_ms(now_us)) {
        hr_local_table_forget(table, e);
        return NULL;
    }
    return e;
}

int hr_local_table_add(hr_local_table *table, const hr_local_key *key, uint16_t kind, int64_t now_us,
                       hr_local_entry **out)
{
    const size_t key_len = key->policy_len + 1 + key->name_len;

    sweep(table, now_us);
    if (table->entries.count >= table->max_keys)
        return HIRATE_EOVERLOAD;
    hr_local_entry *e = malloc(sizeof *e + key_len);
    if (e == NULL || !heap_reserve(table)) {
        free(e);
        return HIRATE_ENOMEM;
    }
    memset(e, 0, sizeof *e);
    e->kind = kind;
    e->key_len = (uint16_t)key_len;
    key_write(e->key, key);
    e->heap_deadline_ms = e->deadline_ms = INT64_MAX;
    heap_put(table, table->heap_count++, e);
    hr_hash_insert(&table->entries, &e->node, key->hash);
    *out = e;
    return 0;
}

int hr_local_table_init(hr_local_table *table, size_t max_keys)
{
    memset(table, 0, sizeof *table);
    table->hash_key = hr_hash_key_random();
    table->max_keys = max_keys;
    return hr_hash_init(&table->entries, 0);
}

void hr_local_table_free(hr_local_table *table)
{
    for (size_t i = 0; i < table->heap_count; i++)
        entry_free(table->heap[i]);
    free(table->heap);
    hr_hash_free(&table->entries);
}

/* -------------------------------------------------------------------------------------------------- states -- */

hr_state hr_local_entry_state(const hr_local_entry *e)
{
    const hr_hold_list *holds = &e->as.window.holds;
    hr_state state = {.kind = e->kind};

    switch (e->kind) {
    case HIRATE_KIND_SLIDING_LOG:
        state.as.log = hr_log_buffer_view(&e->as.log);
        break;
    case HIRATE_KIND_SLIDING_WINDOW:
        state.as.sliding = e->as.sliding;
        break;
    case HIRATE_KIND_FIXED_WINDOW:
    case HIRATE_KIND_QUOTA:
        state.as.window = (hr_fixed_window){e->as.window.start_us, e->as.window.end_us, e->as.window.used,
                                            hr_hold_list_view(holds), holds->held};
        break;
    case HIRATE_KIND_CONCURRENCY:
        state.as.concurrency = (hr_concurrency){e->as.window.start_us, hr_hold_list_view(holds), holds->held};
        break;
    default:
        state.as.bucket = e->as.bucket;
    }
    return state;
}

bool hr_local_entry_reserve(hr_local_entry *e, hr_moment *moment, bool hold)
{
    if (e->kind == HIRATE_KIND_SLIDING_LOG)
        return hr_log_buffer_reserve(&e->as.log, &moment->log);
    return !hold || hr_hold_list_reserve(&e->as.window.holds);
}

void hr_local_entry_store(hr_local_entry *e, const hr_policy *policy, const hr_moment *moment, const hr_hold *made)
{
    const hr_fixed_window *window = &moment->window.window;
    const hr_concurrency_now *leases = &moment->concurrency;

    switch (e->kind) {
    case HIRATE_KIND_SLIDING_LOG:
        (void)hr_log_buffer_store(&e->as.log, &moment->log); /* there is room */
        break;
    case HIRATE_KIND_SLIDING_WINDOW:
        e->as.sliding = moment->sliding.window;
        break;
    case HIRATE_KIND_FIXED_WINDOW:
    case HIRATE_KIND_QUOTA:
        e->as.window.start_us = window->start_us;
        e->as.window.end_us = window->end_us;
        e->as.window.used = window->used;
        hr_hold_list_keep(&e->as.window.holds, window->reservations.count, 0);
        break;
    case HIRATE_KIND_CONCURRENCY:
        e->as.window.start_us = leases->at_us;
        hr_hold_list_keep(&e->as.window.holds, leases->leases.count, leases->shift_us);
        break;
    default:
        e->as.bucket = (hr_token_bucket){moment->bucket.units, policy->p, moment->bucket.at};
    }
    if (made != NULL)
        hr_hold_list_add(&e->as.window.holds, made);
}

void hr_local_table_expire(hr_local_table *table, hr_local_entry *e, int64_t now_us, int64_t reset_ms)
{
    e->deadline_ms = to_ms(now_us) + reset_ms;
    if (e->deadline_ms < e->heap_deadline_ms) {
        e->heap_deadline_ms = e->deadline_ms;
        heap_rise(table, e);
    }
}
