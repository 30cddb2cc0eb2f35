/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: names that were denied, and until when asking Redis again would only be denied again.
 *
 * For limits with HIRATE_LIMIT_CACHE_DENIALS. A denial of cost c with retry_after r holds from the moment its call was written
 * until r - 1 ms later, for this limit, this name and every cost from c up: Redis decided later than that moment, so its own
 * wait ends later than ours. A set-associative table of a fixed number of entries; where a set is full, the denial that ends
 * first makes room.
 */
#ifndef HR_DENIALS_H
#define HR_DENIALS_H

#include "limit_set.h"
#include "pool.h"

#define HR_DENIALS_WAYS     4
#define HR_DENIALS_EARLY_US 1000

typedef struct hr_denial {
    hr_limit *limit; /* one use of it; NULL: the entry is empty */
    char *key;       /* PREFIX:POLICY:NAME, from the pool */
    uint64_t hash;
    uint64_t cost;
    uint64_t remaining;
    int64_t until_us; /* monotonic; denies before it */
    int64_t reset_us; /* when nothing taken counts any more */
    uint16_t key_len;
} hr_denial;

typedef struct hr_denials {
    hr_denial *entries; /* NULL until the first denial */
    size_t sets;        /* a power of two */
    hr_limits *limits;
    hr_pool pool;
} hr_denials;

/* Cannot fail; `most` entries are made when the first denial comes. */
void hr_denials_init(hr_denials *denials, hr_limits *limits, uint32_t most);
void hr_denials_free(hr_denials *denials);
/* The denial that answers an acquire of `cost`, whatever the time; NULL: none. `hash` is the key's, as the
 * batch reckons it (batch.c: hash_of) and as the denial was noted with. */
const hr_denial *hr_denials_find(const hr_denials *denials, uint64_t hash, const hr_limit *limit, const void *name,
                                 size_t len, uint64_t cost);
/* Remember one, instead of an older one of the same limit and key. Without memory it is forgotten. */
void hr_denials_note(hr_denials *denials, const hr_denial *denial);
/* Forget this key's, of every limit. */
void hr_denials_clear(hr_denials *denials, uint64_t hash, const char *key, size_t len);

#endif
