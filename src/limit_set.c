/* SPDX-License-Identifier: BSD-3-Clause */
/* request: the limits a client has met; see limit_set.h. */
#include "limit_set.h"

#include <stdlib.h>
#include <string.h>

static bool reserved_is_zero(const hirate_limit *from)
{
    uint64_t any = 0;
    for (size_t i = 0; i < sizeof from->reserved / sizeof *from->reserved; i++)
        any |= from->reserved[i];
    return any == 0;
}

/* What makes two limits the same. `from` may be anything: what is not known to be right goes to hr_policy_compile. */
static bool same_value(const hr_limit *limit, const hirate_limit *from)
{
    return from->struct_size == sizeof *from && from->version == HIRATE_LIMIT_VERSION && from->policy &&
           reserved_is_zero(from) && limit->policy.capacity == from->capacity && limit->rate.tokens == from->rate.tokens &&
           limit->rate.period_us == from->rate.period_us && limit->policy.kind == from->kind &&
           limit->flags == from->flags &&
           strcmp(limit->policy.name, from->policy) == 0;
}

static bool same_node(const hr_hash_node *node, const void *probe)
{
    const hr_limit *limit = (const hr_limit *)node;
    const hr_limit *other = probe;
    return limit->policy.capacity == other->policy.capacity && limit->rate.tokens == other->rate.tokens &&
           limit->rate.period_us == other->rate.period_us && limit->policy.kind == other->policy.kind &&
           limit->flags == other->flags &&
           strcmp(limit->policy.name, other->policy.name) == 0;
}

int hr_limits_init(hr_limits *limits, const char *key_prefix)
{
    memset(limits, 0, sizeof *limits);
    limits->hash_key = hr_hash_key_random();
    memcpy(limits->key_prefix, key_prefix, strlen(key_prefix) + 1);
    return hr_hash_init(&limits->table, 16);
}

void hr_limits_free(hr_limits *limits)
{
    for (size_t i = 0; limits->table.buckets && i <= limits->table.mask; i++) {
        for (hr_hash_node *node = limits->table.buckets[i]; node;) {
            hr_hash_node *next = node->next;
            free(node);
            node = next;
        }
    }
    hr_hash_free(&limits->table);
}

static size_t hint_of(const hirate_limit *from)
{
    return (size_t)((uintptr_t)from / sizeof(void *) * UINT64_C(0x9e3779b97f4a7c15) >> 32) % HR_LIMIT_SET_HINTS;
}

static void forget_hints(hr_limits *limits, const hr_limit *limit)
{
    for (size_t i = 0; i < HR_LIMIT_SET_HINTS; i++) {
        if (limits->hints[i].limit == limit)
            limits->hints[i].limit = NULL;
    }
}

/* KEY_PREFIX:POLICY: */
static void write_prefix(hr_limit *limit, const char *key_prefix)
{
    size_t n = strlen(key_prefix), m = limit->policy.name_len;
    memcpy(limit->prefix, key_prefix, n);
    limit->prefix[n] = ':';
    memcpy(limit->prefix + n + 1, limit->policy.name, m);
    limit->prefix[n + 1 + m] = ':';
    limit->prefix_len = (uint16_t)(n + m + 2);
}

static int look_up(hr_limits *limits, const hirate_limit *from, hr_limit **out, hirate_error *error)
{
    hr_limit *new = calloc(1, sizeof *new);
    if (!new)
        return HIRATE_ENOMEM;
    int rc = hr_policy_compile(&new->policy, from, error);
    if (rc) {
        free(new);
        return rc;
    }
    new->rate = from->rate;
    new->flags = from->flags;
    new->name_hash = hr_hash(limits->hash_key, new->policy.name, new->policy.name_len);
    uint64_t values[] = {from->capacity, from->rate.tokens, from->rate.period_us, from->kind, from->flags};
    uint64_t hash = hr_hash(limits->hash_key, values, sizeof values) ^ new->name_hash;
    hr_hash_node *known = hr_hash_find(&limits->table, hash, same_node, new);
    if (known) {
        free(new);
        *out = (hr_limit *)known;
        return 0;
    }
    write_prefix(new, limits->key_prefix);
    hr_hash_insert(&limits->table, &new->node, hash);
    limits->idle++;
    *out = new;
    return 0;
}

int hr_limits_use(hr_limits *limits, const hirate_limit *from, hr_limit **out, hirate_error *error)
{
    size_t hint = hint_of(from);
    hr_limit *limit = limits->hints[hint].limit;

    if (!limit || limits->hints[hint].address != from || !same_value(limit, from)) {
        int rc = look_up(limits, from, &limit, error);
        if (rc)
            return rc;
        limits->hints[hint].address = from;
        limits->hints[hint].limit = limit;
    }
    if (limit->uses++ == 0)
        limits->idle--;
    *out = limit;
    return 0;
}

void hr_limits_done(hr_limits *limits, hr_limit *limit)
{
    if (--limit->uses > 0 || ++limits->idle <= HR_LIMITS_IDLE)
        return;
    limits->idle--;
    forget_hints(limits, limit);
    hr_hash_remove(&limits->table, &limit->node);
    free(limit);
}
