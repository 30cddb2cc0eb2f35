/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base: a keyed hash for names that strangers choose, and an intrusive hash table.
 *
 * The hash is SipHash-1-3 (Aumasson, Bernstein: "SipHash: a fast short-input PRF", 2012) under a key drawn at
 * random per table, so nobody outside can make names collide.
 */
#ifndef HR_HASH_H
#define HR_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hr_hash_key {
    uint64_t k0, k1;
} hr_hash_key;

/* From getrandom(); falls back on the clock and an address where that fails. */
hr_hash_key hr_hash_key_random(void);
uint64_t hr_hash(hr_hash_key key, const void *bytes, size_t len);

/* A member embeds one of these. */
typedef struct hr_hash_node {
    struct hr_hash_node *next;
    uint64_t hash;
} hr_hash_node;

/* Chained; a power of two buckets; grows by itself so that chains stay short, never shrinks. Owns only its array. */
typedef struct hr_hash_table {
    hr_hash_node **buckets;
    size_t mask;  /* buckets - 1; buckets is never 0 after init */
    size_t count; /* members */
} hr_hash_table;

int hr_hash_init(hr_hash_table *table, size_t expected); /* 0 or HIRATE_ENOMEM; rounds up to a power of two */
void hr_hash_free(hr_hash_table *table);                 /* the array only; a zeroed table is fine */

typedef bool hr_hash_same_fn(const hr_hash_node *node, const void *probe);

/* The member with this hash for which same(node, probe), or NULL. */
hr_hash_node *hr_hash_find(const hr_hash_table *table, uint64_t hash, hr_hash_same_fn *same, const void *probe);
/* Insert; the caller knows it is not there. Growing may fail for want of memory: then chains get longer, no more. */
void hr_hash_insert(hr_hash_table *table, hr_hash_node *node, uint64_t hash);
/* Remove a member; it must be one. */
void hr_hash_remove(hr_hash_table *table, hr_hash_node *node);

#endif
