/* SPDX-License-Identifier: BSD-3-Clause */
/* request: the limits a client has met; see limit_set.h. */
#include "limit_set.h"

#include <stdlib.h>
#include <string.h>

static bool same_node(const hr_hash_node *node, const void *probe)
{
    const hr_limit *limit = (const hr_limit *)node, *other = probe;
    return limit->prefix_len == other->prefix_len && memcmp(limit->prefix, other->prefix, limit->prefix_len) == 0 &&
           hr_limit_same(&limit->value, &other->value);
}

static bool is_named(const hr_hash_node *node, const void *probe)
{
    return strcmp(((const hr_counters *)node)->name, probe) == 0;
}

int hr_limits_init(hr_limits *limits, const char *key_prefix)
{
    memset(limits, 0, sizeof *limits);
    limits->hash_key = hr_hash_key_random();
    memcpy(limits->key_prefix, key_prefix, strlen(key_prefix) + 1);
    int rc = hr_hash_init(&limits->table, 16);
    return rc ? rc : hr_hash_init(&limits->counters, 16);
}

/* The table with its members, whose node comes first. */
static void free_table(hr_hash_table *table)
{
    for (size_t i = 0; table->buckets && i <= table->mask; i++) {
        for (hr_hash_node *node = table->buckets[i]; node;) {
            hr_hash_node *next = node->next;
            free(node);
            node = next;
        }
    }
    hr_hash_free(table);
}

void hr_limits_free(hr_limits *limits)
{
    free_table(&limits->table);
    free_table(&limits->counters);
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

static int compile(hr_limits *limits, hr_limit *new, const hirate_limit *from, hirate_error *error)
{
    int rc = hr_policy_compile(&new->policy, from, error);
    if (rc)
        return rc;
    new->value = *from;
    new->value.struct_size = sizeof new->value; /* what is beyond was looked at, and is zero */
    new->value.policy = new->policy.name;
    if (from->on_failure == HIRATE_ON_FAILURE_LOCAL)
        new->share = hr_limit_local_share(&new->value);
    new->name_hash = hr_hash(limits->hash_key, new->policy.name, new->policy.name_len);
    return 0;
}

static hr_counters *counters_of(hr_limits *limits, const hr_limit *limit)
{
    hr_hash_node *node = hr_hash_find(&limits->counters, limit->name_hash, is_named, limit->policy.name);
    if (node)
        return (hr_counters *)node;
    hr_counters *new = limits->counters.count < HR_COUNTERS_MOST ? calloc(1, sizeof *new) : NULL;
    if (new) {
        memcpy(new->name, limit->policy.name, sizeof new->name);
        hr_hash_insert(&limits->counters, &new->node, limit->name_hash);
    }
    return new;
}

static uint64_t hash_of(const hr_limits *limits, const hr_limit *limit)
{
    const hirate_limit *value = &limit->value;
    uint64_t values[] = {value->capacity,
                         value->rate.tokens,
                         value->rate.period_us,
                         value->kind,
                         value->flags,
                         value->on_failure,
                         value->local_share_num,
                         value->local_share_den,
                         value->per,
                         value->window_us,
                         value->lease_us,
                         (uint64_t)(int64_t)value->offset_minutes};

    return hr_hash(limits->hash_key, values, sizeof values) ^ limit->name_hash;
}

/* Add a limit like this one; NULL: no memory. */
static hr_limit *add(hr_limits *limits, const hr_limit *like, uint64_t hash)
{
    hr_limit *new = malloc(sizeof *new);

    if (!new)
        return NULL;
    *new = *like;
    new->value.policy = new->policy.name;
    if (new->share.policy)
        new->share.policy = new->policy.name;
    new->counters = counters_of(limits, new);
    hr_hash_insert(&limits->table, &new->node, hash);
    limits->idle++;
    return new;
}

/* One that is known needs no memory, as permits are looked up here each time. */
static int look_up(hr_limits *limits, const char *key_prefix, const hirate_limit *from, hr_limit **out,
                   hirate_error *error)
{
    hr_limit probe;

    memset(&probe, 0, sizeof probe);
    int rc = compile(limits, &probe, from, error);
    if (rc)
        return rc;
    write_prefix(&probe, key_prefix);
    uint64_t hash = hash_of(limits, &probe);
    hr_limit *limit = (hr_limit *)hr_hash_find(&limits->table, hash, same_node, &probe);
    if (!limit)
        limit = add(limits, &probe, hash);
    if (!limit)
        return HIRATE_ENOMEM;
    *out = limit;
    return 0;
}

const hr_counters *hr_limits_counters(const hr_limits *limits, const char *policy)
{
    uint64_t hash = hr_hash(limits->hash_key, policy, strlen(policy));
    return (const hr_counters *)hr_hash_find(&limits->counters, hash, is_named, policy);
}

static void use(hr_limits *limits, hr_limit *limit)
{
    if (limit->uses++ == 0)
        limits->idle--;
}

int hr_limits_use(hr_limits *limits, const hirate_limit *from, hr_limit **out, hirate_error *error)
{
    size_t hint = hint_of(from);
    hr_limit *limit = limits->hints[hint].limit;

    if (!limit || limits->hints[hint].address != from || !hr_limit_same(&limit->value, from)) {
        int rc = look_up(limits, limits->key_prefix, from, &limit, error);
        if (rc)
            return rc;
        limits->hints[hint].address = from;
        limits->hints[hint].limit = limit;
    }
    use(limits, limit);
    *out = limit;
    return 0;
}

int hr_limits_use_under(hr_limits *limits, const char *key_prefix, const hirate_limit *from, hr_limit **out,
                        hirate_error *error)
{
    int rc = look_up(limits, key_prefix, from, out, error);
    if (!rc)
        use(limits, *out);
    return rc;
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
