/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base: many deadlines, few distinct moments.
 *
 * What one loop turn submits mostly shares a deadline. Nodes that share one form a ring; one of them, the leader,
 * stands in a binary heap. Adding to the ring of the moment added last and removing any node but a lone leader are
 * O(1); the rest is O(log moments).
 */
#ifndef HR_DEADLINES_H
#define HR_DEADLINES_H

#include <stddef.h>
#include <stdint.h>

typedef struct hr_deadline {
    int64_t at_ms;
    struct hr_deadline *prev, *next; /* the ring */
    uint32_t heap_index;             /* HR_DEADLINE_FOLLOWER unless it leads */
} hr_deadline;

#define HR_DEADLINE_FOLLOWER UINT32_MAX

typedef struct hr_deadlines {
    hr_deadline **heap;
    uint32_t count, size;
    hr_deadline *recent; /* the leader added to last, or NULL */
} hr_deadlines;

/* A zeroed struct is empty. Free only the heap; nodes are the caller's. */
void hr_deadlines_free(hr_deadlines *deadlines);
/* 0, or HIRATE_ENOMEM with nothing changed. */
int hr_deadlines_add(hr_deadlines *deadlines, hr_deadline *node, int64_t at_ms);
/* The node must be in. */
void hr_deadlines_remove(hr_deadlines *deadlines, hr_deadline *node);
/* The earliest, or NULL. */
hr_deadline *hr_deadlines_first(const hr_deadlines *deadlines);

#endif
