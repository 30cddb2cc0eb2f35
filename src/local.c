/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: the local engine: the limits' pure functions over a hash table of buckets, in this process.
 *
 * It answers as the scripts do, field by field. A bucket is known by POLICY:NAME, as its Redis key is. It is stored by
 * every acquire that does not leave it full, and expires like a key written with PX: its deadline is the millisecond of
 * the write plus reset_ms, and it is gone once the clock has passed that millisecond.
 *
 * Memory. At most max_keys buckets are stored, each in one allocation with its key. Expired ones are found through
 * a heap ordered by deadline. The heap is lazy: an entry carries the deadline its bucket had when the heap was last put
 * in order; an acquire that makes it later leaves the heap alone. So an acquire of a stored bucket costs no heap work.
 * An entry whose time has come is freed if its bucket has expired, else it gets the true deadline and sinks. Every such
 * step is paid for once: by the insertion of what it frees, or by the acquire that moved the deadline it corrects; a
 * flood of names at max_keys finds the heap in order and is refused in constant time. Each new bucket frees up
 * to two expired ones: one makes room where there is none, two give back what a burst has left.
 *
 * Invariants: heap[i]->slot == i; heap_deadline <= deadline; heap_count == table.count <= max_keys.
 */
#include "check.h"
#include "error.h"
#include "hash.h"
#include "token_bucket.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_MAX = HIRATE_POLICY_MAX + 1 + HIRATE_NAME_MAX, FREED_PER_INSERT = 2 };
#define MAX_KEYS_MAX (UINT64_C(1) << 31)

typedef struct bucket {
    hr_hash_node node; /* first: a node is its bucket */
    hr_token_bucket state;
    int64_t deadline_ms;
    int64_t heap_deadline_ms;
    uint32_t slot;
    uint32_t key_len;
    unsigned char key[];
} bucket;

struct hirate_local {
    hr_hash_table table;
    hr_hash_key hash_key;
    bucket **heap;
    size_t heap_count;
    size_t heap_room;
    size_t max_keys;
    hirate_limit limit; /* the last one used, which serves again if its size is the one known here: a larger one has
                           bytes to be checked each time, and 0 stands for none */
    hr_policy policy;   /* what it compiled to */
};

typedef struct key {
    uint64_t hash;
    size_t len;
    unsigned char bytes[KEY_MAX];
} key;

/* ---------------------------------------------------------------------------------------------------- heap -- */

static void heap_put(hirate_local *local, size_t slot, bucket *b)
{
    local->heap[slot] = b;
    b->slot = (uint32_t)slot;
}

static void heap_rise(hirate_local *local, bucket *b)
{
    size_t slot = b->slot;

    while (slot > 0 && local->heap[(slot - 1) / 2]->heap_deadline_ms > b->heap_deadline_ms) {
        heap_put(local, slot, local->heap[(slot - 1) / 2]);
        slot = (slot - 1) / 2;
    }
    heap_put(local, slot, b);
}

static void heap_sink(hirate_local *local, bucket *b)
{
    size_t slot = b->slot;

    for (;;) {
        size_t child = 2 * slot + 1;

        if (child + 1 < local->heap_count &&
            local->heap[child + 1]->heap_deadline_ms < local->heap[child]->heap_deadline_ms)
            child++;
        if (child >= local->heap_count || local->heap[child]->heap_deadline_ms >= b->heap_deadline_ms)
            break;
        heap_put(local, slot, local->heap[child]);
        slot = child;
    }
    heap_put(local, slot, b);
}

/* Room for one more; false: no memory. */
static bool heap_reserve(hirate_local *local)
{
    if (local->heap_count < local->heap_room)
        return true;
    size_t room = local->heap_room == 0 ? 16 : 2 * local->heap_room;
    if (room > SIZE_MAX / sizeof *local->heap)
        return false;
    bucket **heap = realloc(local->heap, room * sizeof *heap);
    if (heap == NULL)
        return false;
    local->heap = heap;
    local->heap_room = room;
    return true;
}

static void heap_remove(hirate_local *local, const bucket *b)
{
    bucket *last = local->heap[--local->heap_count];

    if (last == b)
        return;
    heap_put(local, b->slot, last);
    heap_rise(local, last);
    heap_sink(local, last);
}

/* ------------------------------------------------------------------------------------------------- buckets -- */

static int64_t to_ms(int64_t now_us)
{
    return now_us / 1000;
}

static bool same_key(const hr_hash_node *node, const void *probe)
{
    const bucket *b = (const bucket *)node;
    const key *k = probe;

    return b->key_len == k->len && memcmp(b->key, k->bytes, k->len) == 0;
}

static void bucket_forget(hirate_local *local, bucket *b)
{
    heap_remove(local, b);
    hr_hash_remove(&local->table, &b->node);
    free(b);
}

/* Free up to FREED_PER_INSERT expired buckets: at least one, if there is one. */
static void sweep(hirate_local *local, int64_t now_us)
{
    const int64_t now_ms = to_ms(now_us);
    int freed = 0;

    while (freed < FREED_PER_INSERT && local->heap_count > 0 && local->heap[0]->heap_deadline_ms < now_ms) {
        bucket *b = local->heap[0];

        if (b->deadline_ms < now_ms) {
            bucket_forget(local, b);
            freed++;
        } else {
            b->heap_deadline_ms = b->deadline_ms;
            heap_sink(local, b);
        }
    }
}

/* The stored bucket, or NULL; one that has expired is freed. */
static bucket *bucket_find(hirate_local *local, const key *k, int64_t now_us)
{
    bucket *b = (bucket *)hr_hash_find(&local->table, k->hash, same_key, k);

    if (b != NULL && b->deadline_ms < to_ms(now_us)) {
        bucket_forget(local, b);
        return NULL;
    }
    return b;
}

/* Set *out to a new bucket, which is in the table but has no state yet. 0 or HIRATE_EOVERLOAD, HIRATE_ENOMEM. */
static int bucket_new(hirate_local *local, const key *k, int64_t now_us, bucket **out)
{
    sweep(local, now_us);
    if (local->table.count >= local->max_keys)
        return HIRATE_EOVERLOAD;
    bucket *b = malloc(sizeof *b + k->len);
    if (b == NULL || !heap_reserve(local)) {
        free(b);
        return HIRATE_ENOMEM;
    }
    b->key_len = (uint32_t)k->len;
    memcpy(b->key, k->bytes, k->len);
    b->heap_deadline_ms = b->deadline_ms = INT64_MAX;
    heap_put(local, local->heap_count++, b);
    hr_hash_insert(&local->table, &b->node, k->hash);
    *out = b;
    return 0;
}

static void bucket_store(hirate_local *local, bucket *b, const hr_token_bucket_now *state, int64_t now_us,
                         int64_t reset_ms)
{
    b->state.units = state->units;
    b->state.p = local->policy.p;
    b->state.ts = state->at;
    b->deadline_ms = to_ms(now_us) + reset_ms;
    if (b->deadline_ms < b->heap_deadline_ms) {
        b->heap_deadline_ms = b->deadline_ms;
        heap_rise(local, b);
    }
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
static int write_back(hirate_local *local, const key *k, bucket *b, const hr_token_bucket_now *state, int64_t now_us,
                      int64_t reset_ms)
{
    if (reset_ms == 0) {
        if (b != NULL)
            bucket_forget(local, b);
        return 0;
    }
    if (b == NULL) {
        int rc = bucket_new(local, k, now_us, &b);
        if (rc != 0)
            return rc;
    }
    bucket_store(local, b, state, now_us, reset_ms);
    return 0;
}

static int decide(hirate_local *local, const hirate_request *request, int64_t now_us, hirate_result *result)
{
    key k;

    key_make(local, request, &k);
    bucket *b = bucket_find(local, &k, now_us);
    if (request->op == HIRATE_OP_RESET) {
        result->used = b != NULL;
        if (b != NULL)
            bucket_forget(local, b);
        return 0;
    }

    hr_token_bucket_now state = hr_token_bucket_load(&local->policy, b == NULL ? NULL : &b->state, now_us);
    hr_decision decision = hr_token_bucket_take(&local->policy, &state, request->cost);
    if (request->op == HIRATE_OP_ACQUIRE) {
        int rc = write_back(local, &k, b, &state, now_us, decision.reset_ms);
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

int hirate_local_decide(hirate_local *local, const hirate_request *request, int64_t now_us, hirate_result *result,
                        hirate_error *error)
{
    hirate_result answer;
    int rc = check_call(local, request, now_us, result, error);

    if (rc == 0)
        rc = use_limit(local, request->limit, error);
    if (rc != 0)
        return rc;

    memset(&answer, 0, sizeof answer);
    answer.struct_size = result->struct_size; /* still the caller's: what a newer caller has beyond ours stays */
    answer.op = request->op;
    answer.source = HIRATE_SOURCE_LOCAL;
    answer.charge = HIRATE_CHARGE_NO;
    answer.cost = request->cost;
    answer.time_us = now_us;
    answer.policy = request->limit->policy;
    answer.reason = "";
    rc = decide(local, request, now_us, &answer);
    if (rc == HIRATE_EOVERLOAD)
        return hr_fail(error, rc, "max_keys: %zu buckets are in use; try again when some are full", local->max_keys);
    if (rc != 0)
        return hr_fail(error, rc, "no memory for one more bucket");
    memcpy(result, &answer, sizeof answer);
    return 0;
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
        free(local->heap[i]);
    free(local->heap);
    hr_hash_free(&local->table);
    free(local);
}
