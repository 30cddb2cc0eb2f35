/* SPDX-License-Identifier: BSD-3-Clause */
/* base: many deadlines, few distinct moments; see deadlines.h. */
#include "deadlines.h"

#include "hirate.h"

#include <stdlib.h>

void hr_deadlines_free(hr_deadlines *deadlines)
{
    free(deadlines->heap);
    *deadlines = (hr_deadlines){0};
}

static void place(hr_deadlines *deadlines, uint32_t index, hr_deadline *node)
{
    deadlines->heap[index] = node;
    node->heap_index = index;
}

static void sift_up(hr_deadlines *deadlines, uint32_t index, hr_deadline *node)
{
    while (index > 0) {
        uint32_t parent = (index - 1) / 2;
        if (deadlines->heap[parent]->at_ms <= node->at_ms)
            break;
        place(deadlines, index, deadlines->heap[parent]);
        index = parent;
    }
    place(deadlines, index, node);
}

static void sift_down(hr_deadlines *deadlines, uint32_t index, hr_deadline *node)
{
    for (;;) {
        uint32_t child = 2 * index + 1;
        if (child >= deadlines->count)
            break;
        if (child + 1 < deadlines->count && deadlines->heap[child + 1]->at_ms < deadlines->heap[child]->at_ms)
            child++;
        if (deadlines->heap[child]->at_ms >= node->at_ms)
            break;
        place(deadlines, index, deadlines->heap[child]);
        index = child;
    }
    place(deadlines, index, node);
}

static int make_room(hr_deadlines *deadlines)
{
    if (deadlines->count < deadlines->size)
        return 0;
    uint32_t size = deadlines->size ? deadlines->size * 2 : 64;
    hr_deadline **heap = realloc(deadlines->heap, size * sizeof *heap);
    if (!heap)
        return HIRATE_ENOMEM;
    deadlines->heap = heap;
    deadlines->size = size;
    return 0;
}

int hr_deadlines_add(hr_deadlines *deadlines, hr_deadline *node, int64_t at_ms)
{
    hr_deadline *leader = deadlines->recent;

    node->at_ms = at_ms;
    if (leader && leader->at_ms == at_ms) {
        node->heap_index = HR_DEADLINE_FOLLOWER;
        node->next = leader;
        node->prev = leader->prev;
        leader->prev->next = node;
        leader->prev = node;
        return 0;
    }
    int rc = make_room(deadlines);
    if (rc)
        return rc;
    node->prev = node->next = node;
    sift_up(deadlines, deadlines->count++, node);
    deadlines->recent = node;
    return 0;
}

/* Take a lone leader out of the heap; the last element fills its place. */
static void remove_leader(hr_deadlines *deadlines, hr_deadline *node)
{
    uint32_t index = node->heap_index;
    hr_deadline *moved = deadlines->heap[--deadlines->count];

    if (deadlines->recent == node)
        deadlines->recent = NULL;
    if (moved == node)
        return;
    if (index > 0 && deadlines->heap[(index - 1) / 2]->at_ms > moved->at_ms)
        sift_up(deadlines, index, moved);
    else
        sift_down(deadlines, index, moved);
}

void hr_deadlines_remove(hr_deadlines *deadlines, hr_deadline *node)
{
    hr_deadline *next = node->next;

    if (node->heap_index == HR_DEADLINE_FOLLOWER || next != node) {
        node->prev->next = next;
        next->prev = node->prev;
        if (node->heap_index != HR_DEADLINE_FOLLOWER) { /* the next one leads, from the same place */
            place(deadlines, node->heap_index, next);
            if (deadlines->recent == node)
                deadlines->recent = next;
        }
        return;
    }
    remove_leader(deadlines, node);
}

hr_deadline *hr_deadlines_first(const hr_deadlines *deadlines)
{
    return deadlines->count ? deadlines->heap[0] : NULL;
}
