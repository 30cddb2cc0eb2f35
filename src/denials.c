/* SPDX-License-Identifier: BSD-3-Clause */
/* request: names that were denied; see denials.h. */
#include "denials.h"

#include <stdlib.h>
#include <string.h>

void hr_denials_init(hr_denials *denials, hr_limits *limits, uint32_t most)
{
    *denials = (hr_denials){.limits = limits, .sets = 1};
    while (denials->sets * HR_DENIALS_WAYS < most)
        denials->sets *= 2;
}

static void empty(hr_denials *denials, hr_denial *entry)
{
    hr_pool_put(&denials->pool, entry->key, entry->key_len);
    hr_limits_done(denials->limits, entry->limit);
    entry->limit = NULL;
}

void hr_denials_free(hr_denials *denials)
{
    for (size_t i = 0; denials->entries && i < denials->sets * HR_DENIALS_WAYS; i++) {
        if (denials->entries[i].limit)
            empty(denials, &denials->entries[i]);
    }
    free(denials->entries);
    denials->entries = NULL;
    hr_pool_free(&denials->pool);
}

static hr_denial *set_of(const hr_denials *denials, uint64_t hash)
{
    return denials->entries + (hash & (denials->sets - 1)) * HR_DENIALS_WAYS;
}

static bool same_key(const hr_denial *entry, uint64_t hash, const char *key, size_t len)
{
    return entry->limit && entry->hash == hash && entry->key_len == len && memcmp(entry->key, key, len) == 0;
}

const hr_denial *hr_denials_find(const hr_denials *denials, uint64_t hash, const hr_limit *limit, const void *name,
                                 size_t len, uint64_t cost)
{
    if (!denials->entries)
        return NULL;
    const hr_denial *entry = set_of(denials, hash);
    for (int way = 0; way < HR_DENIALS_WAYS; way++, entry++) {
        if (entry->limit == limit && entry->hash == hash && cost >= entry->cost &&
            entry->key_len == limit->prefix_len + len &&
            (len == 0 || memcmp(entry->key + limit->prefix_len, name, len) == 0))
            return entry;
    }
    return NULL;
}

/* The entry to write: this limit's and key's own, an empty one, or the one that ends first. */
static hr_denial *place_for(const hr_denials *denials, const hr_denial *denial)
{
    hr_denial *set = set_of(denials, denial->hash), *best = set;
    for (hr_denial *entry = set; entry < set + HR_DENIALS_WAYS; entry++) {
        if (entry->limit == denial->limit && same_key(entry, denial->hash, denial->key, denial->key_len))
            return entry;
        if (best->limit && (!entry->limit || entry->until_us < best->until_us))
            best = entry;
    }
    return best;
}

void hr_denials_note(hr_denials *denials, const hr_denial *denial)
{
    if (!denials->entries)
        denials->entries = calloc(denials->sets * HR_DENIALS_WAYS, sizeof *denials->entries);
    if (!denials->entries)
        return;
    hr_denial *entry = place_for(denials, denial);
    if (entry->limit)
        empty(denials, entry);
    char *key = hr_pool_get(&denials->pool, denial->key_len);
    if (!key)
        return;
    memcpy(key, denial->key, denial->key_len);
    *entry = *denial;
    entry->key = key;
    entry->limit->uses++; /* it has one already, its request's */
}

void hr_denials_clear(hr_denials *denials, uint64_t hash, const char *key, size_t len)
{
    if (!denials->entries)
        return;
    hr_denial *entry = set_of(denials, hash);
    for (int way = 0; way < HR_DENIALS_WAYS; way++, entry++) {
        if (same_key(entry, hash, key, len))
            empty(denials, entry);
    }
}
