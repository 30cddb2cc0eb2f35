/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: a key while something waits for it or is being decided on it. The batch owns and changes it.
 */
#ifndef HR_KEY_H
#define HR_KEY_H

#include "hash.h"
#include "request.h"

typedef struct hr_key {
    hr_hash_node node;
    struct hr_key *prev, *next;      /* ready keys */
    struct hr_ticket *first, *last;  /* waiting, in order of submission */
    struct hr_ticket *requeued;      /* while a call's requests are put back: the last one that was */
    uint32_t waiting;
    uint32_t stepped;                /* of them: only steps can decide them */
    uint32_t resets;                 /* waiting or in flight: what is known of it is about to change */
    uint32_t taken_for, visited_for; /* numbers of the last calls formed with it, and that could have been; 0: none */
    uint16_t calls;                  /* in flight that hold it */
    uint16_t step_key;               /* in the call taken_for: which step key it is, or HR_KEY_HAS_ENTRY */
    uint16_t len, prefix_len;
    char text[];                     /* PREFIX:POLICY:NAME */
} hr_key;

#define HR_KEY_HAS_ENTRY UINT16_MAX

/* What docs/benchmarks.md says of the memory for a pending request rests on this. */
_Static_assert(offsetof(hr_key, text) <= 84, "a key has become larger");

#endif
