/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client: the local engine: the limits' pure functions over a hash table of states, in this process.
 *
 * It answers as the scripts do, field by field. An entry, the state of a name under a policy, is known by POLICY:NAME,
 * as its Redis key is; there is one at most, of one kind. It is stored by every acquire after which something that was
 * taken still counts, and expires like a key written with PX: its deadline is the millisecond of the write plus
 * reset_ms, and it is gone once the clock has passed that millisecond.
 *
 * Memory. At most max_keys entries are stored, each in one allocation with its key; a sliding log, and what holds leases, has a
 * second one (log_buffer.h, hold_list.h). Expired ones are found through a heap ordered by deadline. The heap is lazy: an entry stands in it by
 * the deadline it had when the heap was last put in order; an acquire that makes it later leaves the heap alone. So an
 * acquire of a stored entry costs no heap work. One whose time has come is freed if it has expired, else it gets the
 * true deadline and sinks. Every such step is paid for once: by the insertion of what it frees, or by the acquire that
 * moved the deadline it corrects; a flood of names at max_keys finds the heap in order and is refused in constant time.
 * Each new entry frees up to two expired ones: one makes room where there is none, two give back what a burst has left.
 *
 * Invariants: heap[i]->slot == i; heap_deadline <= deadline; heap_count == table.count <= max_keys.
 */
#include "check.h"
#include "decide.h"
#include "error.h"
#include "hash.h"
#include "hold_list.h"
#include "log_buffer.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = HIRATE_POLICY_MAX + 1 + HIRATE_NAME_MAX, FREED_PER_INSERT = 2 };
#define MAX_KEYS_MAX (UINT64_C(1) << 31)

typedef struct entry {
    hr_hash_node node; /* first: a node is its entry */
    union {
        hr_state state; /* its kind is always there; the rest except for */
        struct {
            uint16_t kind;
            hr_log_buffer buffer;
        } log; /* a sliding log */
        struct {
            uint16_t kind;
            int64_t start_us, end_us; /* of a quota's window; start_us of concurrency: at */
            uint64_t used;            /* of a quota */
            hr_hold_list list;
        } holds; /* a quota, concurrency */
    } as;
    int64_t deadline_ms;
    int64_t heap_deadline_ms;
    uint32_t slot;
    uint32_t key_len;
    unsigned char key[];
} entry;

struct hirate_local {
    hr_hash_table table;
    hr_hash_key hash_key;
    entry **heap;
    size_t heap_count;
    size_t heap_room;
    size_t max_keys;
    hirate_limit limit; /* the last one used, which serves again if its size is the one known here: a larger one has
                           bytes to be checked each time, and 0 stands for none */
    hr_policy policy;   /* what it compiled to */
    uint64_t id_seed;   /* of this engine's leases */
    uint32_t id_count;
};

typedef struct key {
    uint64_t hash;
    size_t len;
    unsigned char bytes[KEY_MAX];
} key;

/* ---------------------------------------------------------------------------------------------------- heap -- */

static void heap_put(hirate_local *local, size_t slot, entry *e)
{
    local->heap[slot] = e;
    e->slot = (uint32_t)slot;
}

static void heap_rise(hirate_local *local, entry *e)
{
    size_t slot = e->slot;

    while (slot > 0 && local->heap[(slot - 1) / 2]->heap_deadline_ms > e->heap_deadline_ms) {
        heap_put(local, slot, local->heap[(slot - 1) / 2]);
        slot = (slot - 1) / 2;
    }
    heap_put(local, slot, e);
}

static void heap_sink(hirate_local *local, entry *e)
{
    size_t slot = e->slot;

    for (;;) {
        size_t child = 2 * slot + 1;

        if (child + 1 < local->heap_count &&
            local->heap[child + 1]->heap_deadline_ms < local->heap[child]->heap_deadline_ms)
            child++;
        if (child >= local->heap_count || local->heap[child]->heap_deadline_ms >= e->heap_deadline_ms)
            break;
        heap_put(local, slot, local->heap[child]);
        slot = child;
    }
    heap_put(local, slot, e);
}

/* Room for one more; false: no memory. */
static bool heap_reserve(hirate_local *local)
{
    if (local->heap_count < local->heap_room)
        return true;
    size_t room = local->heap_room == 0 ? 16 : 2 * local->heap_room;
    if (room > SIZE_MAX / sizeof *local->heap)
        return false;
    entry **heap = realloc(local->heap, room * sizeof *heap);
    if (heap == NULL)
        return false;
    local->heap = heap;
    local->heap_room = room;
    return true;
}

static void heap_remove(hirate_local *local, const entry *e)
{
    entry *last = local->heap[--local->heap_count];

    if (last == e)
        return;
    heap_put(local, e->slot, last);
    heap_rise(local, last);
    heap_sink(local, last);
}

/* ------------------------------------------------------------------------------------------------- entries -- */

static int64_t to_ms(int64_t now_us)
{
    return now_us / 1000;
}

static bool same_key(const hr_hash_node *node, const void *probe)
{
    const entry *e = (const entry *)node;
    const key *k = probe;

    return e->key_len == k->len && memcmp(e->key, k->bytes, k->len) == 0;
}

static bool has_holds(unsigned kind)
{
    return kind == HIRATE_KIND_QUOTA || kind == HIRATE_KIND_CONCURRENCY;
}

static void entry_free(entry *e)
{
    if (e->as.state.kind == HIRATE_KIND_SLIDING_LOG)
        hr_log_buffer_free(&e->as.log.buffer);
    else if (has_holds(e->as.state.kind))
        hr_hold_list_free(&e->as.holds.list);
    free(e);
}

static void entry_forget(hirate_local *local, entry *e)
{
    heap_remove(local, e);
    hr_hash_remove(&local->table, &e->node);
    entry_free(e);
}

/* Free up to FREED_PER_INSERT expired entries: at least one, if there is one. */
static void sweep(hirate_local *local, int64_t now_us)
{
    const int64_t now_ms = to_ms(now_us);
    int freed = 0;

    while (freed < FREED_PER_INSERT && local->heap_count > 0 && local->heap[0]->heap_deadline_ms < now_ms) {
        entry *e = local->heap[0];

        if (e->deadline_ms < now_ms) {
            entry_forget(local, e);
            freed++;
        } else {
            e->heap_deadline_ms = e->deadline_ms;
            heap_sink(local, e);
        }
    }
}

/* The stored entry, or NULL; one that has expired is freed. */
static entry *entry_find(hirate_local *local, const key *k, int64_t now_us)
{
    entry *e = (entry *)hr_hash_find(&local->table, k->hash, same_key, k);

    if (e != NULL && e->deadline_ms < to_ms(now_us)) {
        entry_forget(local, e);
        return NULL;
    }
    return e;
}

/* Set *out to a new entry, which is in the table and has the policy's kind, but no state yet. 0 or HIRATE_EOVERLOAD,
 * HIRATE_ENOMEM. */
static int entry_new(hirate_local *local, const key *k, int64_t now_us, entry **out)
{
    sweep(local, now_us);
    if (local->table.count >= local->max_keys)
        return HIRATE_EOVERLOAD;
    entry *e = malloc(sizeof *e + k->len);
    if (e == NULL || !heap_reserve(local)) {
        free(e);
        return HIRATE_ENOMEM;
    }
    memset(&e->as, 0, sizeof e->as);
    e->as.state.kind = local->policy.kind;
    e->key_len = (uint32_t)k->len;
    memcpy(e->key, k->bytes, k->len);
    e->heap_deadline_ms = e->deadline_ms = INT64_MAX;
    heap_put(local, local->heap_count++, e);
    hr_hash_insert(&local->table, &e->node, k->hash);
    *out = e;
    return 0;
}

static hr_state entry_state(const entry *e)
{
    const hr_hold_list *list = &e->as.holds.list;
    hr_state state = {.kind = e->as.state.kind};

    if (state.kind == HIRATE_KIND_SLIDING_LOG)
        state.as.log = hr_log_buffer_view(&e->as.log.buffer);
    else if (state.kind == HIRATE_KIND_QUOTA)
        state.as.window = (hr_fixed_window){e->as.holds.start_us, e->as.holds.end_us, e->as.holds.used,
                                            hr_hold_list_view(list), list->held};
    else if (state.kind == HIRATE_KIND_CONCURRENCY)
        state.as.concurrency = (hr_concurrency){e->as.holds.start_us, hr_hold_list_view(list), list->held};
    else
        return e->as.state;
    return state;
}

/* The units that were taken at this moment become a lease. False: no memory, nothing changed. */
static bool store_leases(hirate_local *local, entry *e, const hr_concurrency_now *moment)
{
    hr_hold_list *list = &e->as.holds.list;
    hr_hold hold = {.until_us = hr_concurrency_until_us(&local->policy, moment), .units = moment->held};

    if (moment->count > moment->leases.count && !hr_hold_list_reserve(list))
        return false;
    hr_hold_list_keep(list, moment->leases.count, moment->shift_us);
    if (moment->count > moment->leases.count) {
        local->id_count++;
        memcpy(hold.id, &local->id_seed, sizeof local->id_seed);
        memcpy(hold.id + sizeof local->id_seed, &local->id_count, sizeof local->id_count);
        hold.units -= list->held;
        hr_hold_list_add(list, &hold);
    }
    e->as.holds.start_us = moment->at_us;
    return true;
}

static void store_quota(entry *e, const hr_fixed_window *window)
{
    hr_hold_list_keep(&e->as.holds.list, window->reservations.count, 0);
    e->as.holds.start_us = window->start_us;
    e->as.holds.end_us = window->end_us;
    e->as.holds.used = window->used;
}

static bool entry_store_state(hirate_local *local, entry *e, const hr_moment *moment)
{
    switch (local->policy.kind) {
    case HIRATE_KIND_SLIDING_LOG:
        return hr_log_buffer_store(&e->as.log.buffer, &moment->log);
    case HIRATE_KIND_QUOTA:
        store_quota(e, &moment->window.window);
        return true;
    case HIRATE_KIND_CONCURRENCY:
        return store_leases(local, e, &moment->concurrency);
    default:
        e->as.state = hr_decide_store(&local->policy, moment);
        return true;
    }
}

/* False: no memory, nothing changed. */
static bool entry_store(hirate_local *local, entry *e, const hr_moment *moment, int64_t now_us, int64_t reset_ms)
{
    if (!entry_store_state(local, e, moment))
        return false;
    e->deadline_ms = to_ms(now_us) + reset_ms;
    if (e->deadline_ms < e->heap_deadline_ms) {
        e->heap_deadline_ms = e->deadline_ms;
        heap_rise(local, e);
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------ requests -- */

/* Compile the limit into local->policy, unless it is the last one again. */
static int use_limit(hirate_local *local, const hirate_limit *limit, hirate_error *error)
{
    if (local->limit.policy != NULL && limit != NULL && hr_limit_same(&local->limit, limit))
        return 0;
    int rc = hr_policy_compile(&local->policy, limit, error);
    if (rc != 0)
        return rc;
    local->limit = *limit;
    local->limit.struct_size = sizeof local->limit; /* what is beyond was looked at, and is zero */
    local->limit.policy = local->policy.name; /* the caller's text may go away */
    return 0;
}

static int check_call(const hirate_local *local, const hirate_request *request, int64_t now_us,
                      const hirate_result *result, hirate_error *error)
{
    if (local == NULL || result == NULL)
        return hr_fail(error, HIRATE_EINVAL, "%s: is NULL; accepted: a pointer", local == NULL ? "local" : "result");
    if (result->struct_size < sizeof *result)
        return hr_fail(error, HIRATE_EINVAL, "result.struct_size: %u; accepted: from %zu, as hirate_result_init() sets",
                       (unsigned)result->struct_size, sizeof *result);
    if (now_us < 0 || (uint64_t)now_us > HIRATE_COST_MAX)
        return hr_fail(error, HIRATE_EINVAL, "now_us: %lld is out of range; accepted: 0 to %llu", (long long)now_us,
                       (unsigned long long)HIRATE_COST_MAX);
    return hr_check_request(request, error);
}

static void key_make(const hirate_local *local, const hirate_request *request, key *k)
{
    size_t policy_len = local->policy.name_len;

    memcpy(k->bytes, local->policy.name, policy_len);
    k->bytes[policy_len] = ':'; /* no policy name holds one, so no two pairs share a key */
    if (request->name_len > 0)
        memcpy(k->bytes + policy_len + 1, request->name, request->name_len);
    k->len = policy_len + 1 + request->name_len;
    k->hash = hr_hash(local->hash_key, k->bytes, k->len);
}

/* Write what an acquire left behind. On failure nothing has changed. */
static int write_back(hirate_local *local, const key *k, entry *e, const hr_moment *moment, int64_t now_us,
                      int64_t reset_ms)
{
    if (reset_ms == 0) {
        if (e != NULL)
            entry_forget(local, e);
        return 0;
    }
    bool is_new = e == NULL;
    if (is_new) {
        int rc = entry_new(local, k, now_us, &e);
        if (rc != 0)
            return rc;
    }
    if (entry_store(local, e, moment, now_us, reset_ms))
        return 0;
    if (is_new)
        entry_forget(local, e);
    return HIRATE_ENOMEM;
}

/* An acquire or a peek; the name's entry, if any, is of the policy's kind. */
static int decide(hirate_local *local, const hirate_request *request, const key *k, entry *e, hirate_result *result)
{
    const int64_t now_us = result->time_us;
    hr_state stored;

    if (e != NULL)
        stored = entry_state(e);
    hr_moment moment = hr_decide_load(&local->policy, e == NULL ? NULL : &stored, now_us);
    hr_decision decision = hr_decide_take(&local->policy, &moment, request->cost);
    if (request->op == HIRATE_OP_ACQUIRE) {
        int rc = write_back(local, k, e, &moment, now_us, decision.reset_ms);
        if (rc != 0)
            return rc;
        if (decision.verdict == HIRATE_ALLOWED && request->cost > 0)
            result->charge = HIRATE_CHARGE_YES;
    }
    result->verdict = decision.verdict;
    result->remaining = decision.remaining;
    result->retry_after_ms = decision.retry_after_ms;
    result->reset_ms = decision.reset_ms;
    result->delay_ms = decision.delay_ms;
    return 0;
}

static int answer(hirate_local *local, const hirate_request *request, hirate_result *result, hirate_error *error)
{
    key k;

    key_make(local, request, &k);
    entry *e = entry_find(local, &k, result->time_us);
    if (request->op == HIRATE_OP_RESET) {
        result->used = e != NULL;
        if (e != NULL)
            entry_forget(local, e);
        return 0;
    }
    if (e != NULL && e->as.state.kind != local->policy.kind)
        return hr_fail(
            error, HIRATE_ESTATE,
            "limit: the name is in use under a %s of this policy name; accepted: the same kind, or a reset first",
            hr_kind_name(e->as.state.kind));
    int rc = decide(local, request, &k, e, result);
    if (rc == HIRATE_EOVERLOAD)
        return hr_fail(error, rc, "max_keys: %zu names are in use; try again when some no longer are", local->max_keys);
    return rc == 0 ? 0 : hr_fail(error, rc, "no memory to remember what is taken");
}

int hirate_local_decide(hirate_local *local, const hirate_request *request, int64_t now_us, hirate_result *result,
                        hirate_error *error)
{
    hirate_result made;
    int rc = check_call(local, request, now_us, result, error);

    if (rc == 0)
        rc = use_limit(local, request->limit, error);
    if (rc != 0)
        return rc;

    memset(&made, 0, sizeof made);
    made.struct_size = result->struct_size; /* still the caller's: what a newer caller has beyond ours stays */
    made.op = request->op;
    made.source = HIRATE_SOURCE_LOCAL;
    made.charge = HIRATE_CHARGE_NO;
    made.cost = request->cost;
    made.time_us = now_us;
    made.policy = request->limit->policy;
    made.reason = "";
    rc = answer(local, request, &made, error);
    if (rc == 0)
        memcpy(result, &made, sizeof made);
    return rc;
}

int hirate_local_new(hirate_local **out, size_t max_keys)
{
    if (out == NULL || max_keys == 0 || max_keys > MAX_KEYS_MAX)
        return HIRATE_EINVAL;
    hirate_local *local = calloc(1, sizeof *local);
    if (local == NULL)
        return HIRATE_ENOMEM;
    /* The table grows with what is stored: a large bound costs nothing until it is used. */
    int rc = hr_hash_init(&local->table, 0);
    if (rc != 0)
        goto fail;
    local->hash_key = hr_hash_key_random();
    local->id_seed = hr_hash_key_random().k0;
    local->max_keys = max_keys;
    *out = local;
    return 0;

fail:
    hirate_local_free(local);
    return rc;
}

void hirate_local_free(hirate_local *local)
{
    if (local == NULL)
        return;
    for (size_t i = 0; i < local->heap_count; i++)
        entry_free(local->heap[i]);
    free(local->heap);
    hr_hash_free(&local->table);
    free(local);
}
