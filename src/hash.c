/* SPDX-License-Identifier: BSD-3-Clause */
/* base: SipHash-1-3 and a chained hash table whose nodes live inside its members. */
#include "hash.h"

#include "hirate.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

hr_hash_key hr_hash_key_random(void)
{
    hr_hash_key key;

    /* Never wait for entropy: early in a boot a guessable key is better than a program that hangs. */
    if (getrandom(&key, sizeof key, GRND_NONBLOCK) == (ssize_t)sizeof key)
        return key;

    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    key.k0 = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
    key.k1 = (uint64_t)(uintptr_t)&key;
    return key;
}

/* ------------------------------------------------------------------------------------------------- SipHash -- */

/* Inlined by hand: this runs for every acquire, and v[] is to stay in registers. */
#define INLINE static inline __attribute__((always_inline))

INLINE uint64_t rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

INLINE void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

INLINE void sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

/* Little-endian whatever the machine. */
INLINE uint64_t read_word(const unsigned char *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return le64toh(word);
}

/* The last 0 … 7 bytes. */
INLINE uint64_t read_rest(const unsigned char *bytes, size_t len)
{
    uint64_t word = 0;
    for (size_t i = len; i-- > 0;)
        word = word << 8 | bytes[i];
    return word;
}

uint64_t hr_hash(hr_hash_key key, const void *bytes, size_t len)
{
    uint64_t v[4] = {
        key.k0 ^ UINT64_C(0x736f6d6570736575),
        key.k1 ^ UINT64_C(0x646f72616e646f6d),
        key.k0 ^ UINT64_C(0x6c7967656e657261),
        key.k1 ^ UINT64_C(0x7465646279746573),
    };
    const unsigned char *in = bytes;
    size_t left = len;

    for (; left >= 8; in += 8, left -= 8)
        sip_word(v, read_word(in));
    sip_word(v, read_rest(in, left) | (uint64_t)len << 56);

    v[2] ^= 0xff;
    sip_round(v);
    sip_round(v);
    sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* --------------------------------------------------------------------------------------------------- table -- */

enum { BUCKETS_MIN = 16 };

/* The power of two >= expected, or 0 when that many pointers cannot be addressed. */
static size_t round_up(size_t expected)
{
    size_t buckets = BUCKETS_MIN;

    while (buckets < expected) {
        if (buckets > SIZE_MAX / sizeof(hr_hash_node *) / 2)
            return 0;
        buckets *= 2;
    }
    return buckets;
}

int hr_hash_init(hr_hash_table *table, size_t expected)
{
    size_t buckets = round_up(expected);

    if (buckets == 0)
        return HIRATE_ENOMEM;
    hr_hash_node **array = calloc(buckets, sizeof *array);
    if (array == NULL)
        return HIRATE_ENOMEM;
    table->buckets = array;
    table->mask = buckets - 1;
    table->count = 0;
    return 0;
}

void hr_hash_free(hr_hash_table *table)
{
    free(table->buckets);
    memset(table, 0, sizeof *table);
}

hr_hash_node *hr_hash_find(const hr_hash_table *table, uint64_t hash, hr_hash_same_fn *same, const void *probe)
{
    hr_hash_node *node = table->buckets[hash & table->mask];

    while (node != NULL && (node->hash != hash || !same(node, probe)))
        node = node->next;
    return node;
}

static void link_node(hr_hash_table *table, hr_hash_node *node)
{
    hr_hash_node **head = &table->buckets[node->hash & table->mask];

    node->next = *head;
    *head = node;
}

/* Twice the buckets. Where there is no memory for them the table works on as it is. */
static void grow(hr_hash_table *table)
{
    hr_hash_table larger;

    if (hr_hash_init(&larger, 2 * (table->mask + 1)) != 0)
        return;
    for (size_t i = 0; i <= table->mask; i++) {
        hr_hash_node *node = table->buckets[i];

        while (node != NULL) {
            hr_hash_node *next = node->next;

            link_node(&larger, node);
            node = next;
        }
    }
    larger.count = table->count;
    free(table->buckets);
    *table = larger;
}

void hr_hash_insert(hr_hash_table *table, hr_hash_node *node, uint64_t hash)
{
    if (table->count > table->mask)
        grow(table);
    node->hash = hash;
    link_node(table, node);
    table->count++;
}

void hr_hash_remove(hr_hash_table *table, hr_hash_node *node)
{
    hr_hash_node **at = &table->buckets[node->hash & table->mask];

    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    node->next = NULL;
    table->count--;
}
