/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client: what the local engine remembers: a hash table of entries, each the state of a name under a policy, that
 * expire.
 *
 * An entry is known by POLICY:NAME, as its Redis key is; there is one at most, of one kind. It expires like a key
 * written with PX: its deadline is the millisecond of the write plus reset_ms, and it is gone once the clock has passed
 * that millisecond.
 */
#ifndef HR_LOCAL_TABLE_H
#define HR_LOCAL_TABLE_H

#include "decide.h"
#include "hash.h"
#include "hold_list.h"
#include "log_buffer.h"

typedef struct hr_local_entry {
    hr_hash_node node; /* first: a node is its entry */
    union {
        hr_token_bucket bucket;    /* token bucket, leaky bucket */
        hr_sliding_window sliding; /* sliding window */
        hr_log_buffer log;         /* sliding log */
        struct {
            int64_t start_us, end_us; /* of concurrency: start_us is `at` */
            uint64_t used;
            hr_hold_list holds; /* empty, of a fixed window */
        } window;               /* fixed window, quota, concurrency */
    } as;
    int64_t deadline_ms;
    int64_t heap_deadline_ms;
    uint32_t slot; /* in the heap */
    uint16_t kind;
    uint16_t key_len;
    unsigned char key[];
} hr_local_entry;

typedef struct hr_local_table {
    hr_hash_table entries;
    hr_hash_key hash_key;
    hr_local_entry **heap;
    size_t heap_count;
    size_t heap_room;
    size_t max_keys;
} hr_local_table;

/* It points to what it was made of. */
typedef struct hr_local_key {
    uint64_t hash;
    const char *policy;
    const void *name;
    size_t policy_len, name_len;
} hr_local_key;

/* 0 or HIRATE_ENOMEM. The table grows with what is stored: a large bound costs nothing until it is used. */
int hr_local_table_init(hr_local_table *table, size_t max_keys);
void hr_local_table_free(hr_local_table *table); /* a zeroed one is fine */

hr_local_key hr_local_table_key(const hr_local_table *table, const hr_policy *policy, const void *name, size_t len);

/* The stored entry, or NULL; one that has expired is freed. */
hr_local_entry *hr_local_table_find(hr_local_table *table, const hr_local_key *key, int64_t now_us);

/*
 * Set *out to a new entry of this kind, which has no state yet and does not expire. Frees what has expired, but never
 * what was found at now_us. 0, or HIRATE_EOVERLOAD (max_keys are stored) or HIRATE_ENOMEM.
 */
int hr_local_table_add(hr_local_table *table, const hr_local_key *key, uint16_t kind, int64_t now_us,
                       hr_local_entry **out);

void hr_local_table_forget(hr_local_table *table, hr_local_entry *entry);

/* What a policy of the entry's kind loads; what it points to is valid until the entry is reserved for, stored to or
 * forgotten. */
hr_state hr_local_entry_state(const hr_local_entry *entry);

/*
 * Have room for what `moment`, loaded from this entry (or from none, and the entry is new), has become, and if `hold`
 * for one lease or reservation more. False: no memory. What is stored stays as it is; of `moment` the list of holds may
 * have moved away, so that it is good only for being stored.
 */
bool hr_local_entry_reserve(hr_local_entry *entry, hr_moment *moment, bool hold);

/* Store what `moment` has become, for which there is room, with the hold that was made, or NULL. */
void hr_local_entry_store(hr_local_entry *entry, const hr_policy *policy, const hr_moment *moment, const hr_hold *made);

/* It was stored at now_us, and expires after reset_ms, more than 0. */
void hr_local_table_expire(hr_local_table *table, hr_local_entry *entry, int64_t now_us, int64_t reset_ms);

#endif
