/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: units that are held until they are given back or their time is over: a concurrency limit's leases, a quota's
 * reservations.
 *
 * A list is sorted by the time at which its holds end, earliest first, those of one time in the order in which they
 * were made. A hold is known by its id: drawn by whoever acquires, so that none is ever used twice, however many
 * processes do.
 */
#ifndef HR_HOLDS_H
#define HR_HOLDS_H

#include "hirate.h"

#include <stddef.h>

#define HR_HOLD_ID_SIZE 12

typedef struct hr_hold {
    int64_t until_us; /* it ends at this time: no longer held when now >= until_us */
    uint64_t units;   /* 1 … 2^53-1 */
    unsigned char id[HR_HOLD_ID_SIZE];
} hr_hold;

/* A sorted list, or of one the first part. It belongs to whoever made it. */
typedef struct hr_holds {
    const hr_hold *first;
    size_t count; /* at most HIRATE_HOLDS_MAX */
} hr_holds;

/*
 * When so many have ended that `units` have come back and `count` holds are gone: the time at which one of the list
 * ends; its last one's where the list is too short to tell. The list has at least one. Takes as many steps as must end.
 */
int64_t hr_holds_freed_us(const hr_holds *holds, uint64_t units, uint64_t count);

#endif
