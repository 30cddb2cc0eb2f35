/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: several limits decided together at one moment, all or nothing.
 *
 * Limits that are not shadows all allow, or nothing is taken anywhere. If they do, shadows that have room take too.
 * What the whole says is over the limits that are not shadows: remaining the smallest, the others the largest; the
 * limit that bound is, of those that deny, the first with the longest wait; else the first with the least remaining.
 * Where all are shadows it is allowed, and remaining, reset and what bound are over them.
 */
#ifndef HR_JOINT_H
#define HR_JOINT_H

#include "decide.h"

typedef struct hr_joint_part {
    const hr_policy *policy;
    bool shadow;
    hr_moment *moment; /* becomes what is left; of a peek a copy */
    /* what comes of it */
    hr_decision decision; /* its own, also where others deny; where nothing was taken, of what there is */
    bool took;
} hr_joint_part;

typedef struct hr_joint {
    hr_decision whole;
    uint32_t bound; /* which part */
    uint32_t shadows_denied;
    bool took; /* something, anywhere */
} hr_joint;

/* Decide an acquire of `cost` over parts[0 … count), count >= 1; under quotas reserve for hold_us, 0: charge. */
hr_joint hr_joint_decide(hr_joint_part *parts, uint32_t count, uint64_t cost, uint64_t hold_us);

/* The whole of parts whose decisions are made. `took` stays false. */
hr_joint hr_joint_sum_up(const hr_joint_part *parts, uint32_t count);

#endif
