/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: the limits a client has met, each checked and compiled once and known by its value.
 *
 * The address of the caller's hirate_limit serves only as a hint where to look first; the value is always compared, as
 * the caller may build another limit at the same address.
 */
#ifndef HR_LIMIT_SET_H
#define HR_LIMIT_SET_H

#include "hash.h"
#include "policy.h"

#define HR_LIMIT_SET_HINTS 64
#define HR_LIMITS_IDLE  256 /* limits nobody uses that are kept all the same */
#define HR_COUNTERS_MOST 4096 /* policy names that are counted */

/* What one policy name has come to; shared by all limits that have it, kept as long as the client. */
typedef struct hr_counters {
    hr_hash_node node;
    hirate_policy_stats stats; /* without `waiting` */
    uint64_t answered;
    char name[HIRATE_POLICY_SIZE];
} hr_counters;

typedef struct hr_limit {
    hr_hash_node node;
    uint32_t uses;      /* pending requests and the like */
    hirate_limit value; /* its policy is the text in `policy` below */
    hirate_limit share; /* for HIRATE_ON_FAILURE_LOCAL */
    hr_policy policy;
    hr_counters *counters; /* NULL: too many names */
    uint64_t name_hash;  /* of policy.name: equal for all limits that share keys */
    uint16_t prefix_len; /* of "PREFIX:POLICY:" */
    char prefix[2 * HIRATE_POLICY_SIZE + 1];
} hr_limit;

static inline bool hr_limit_is_shadow(const hr_limit *limit)
{
    return (limit->value.flags & HIRATE_LIMIT_SHADOW) != 0;
}

typedef struct hr_limits {
    hr_hash_key hash_key;
    hr_hash_table table;
    size_t idle;
    hr_hash_table counters;
    struct {
        const hirate_limit *address;
        hr_limit *limit;
    } hints[HR_LIMIT_SET_HINTS];
    char key_prefix[HIRATE_POLICY_SIZE];
} hr_limits;

int hr_limits_init(hr_limits *limits, const char *key_prefix); /* 0 or HIRATE_ENOMEM */
void hr_limits_free(hr_limits *limits);
/* The limit with this value, with one more use. 0, HIRATE_EINVAL (*error) or HIRATE_ENOMEM. */
int hr_limits_use(hr_limits *limits, const hirate_limit *from, hr_limit **out, hirate_error *error);
/* The same with keys under another prefix (a permit's), at most HIRATE_POLICY_MAX bytes. */
int hr_limits_use_under(hr_limits *limits, const char *key_prefix, const hirate_limit *from, hr_limit **out,
                        hirate_error *error);
void hr_limits_done(hr_limits *limits, hr_limit *limit);
/* The counters of a policy name; NULL: none. */
const hr_counters *hr_limits_counters(const hr_limits *limits, const char *policy);

#endif
