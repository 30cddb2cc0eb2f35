/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test support: what a table of states (local_table.h) has of one key, to be put back later as if nothing had
 * happened.
 */
#ifndef TESTS_SNAPSHOT_H
#define TESTS_SNAPSHOT_H

#include "local_table.h"

typedef struct snapshot {
    bool there;
    hr_state state; /* its lists are the snapshot's own */
    int64_t deadline_ms;
    void *list;
} snapshot;

/* `entry` NULL: nothing is stored. Trouble ends the process. */
snapshot snapshot_take(const hr_local_entry *entry);
/* `entry` is what is stored now, or NULL. Frees the snapshot. */
void snapshot_put_back(snapshot *s, hr_local_table *table, const hr_local_key *key, hr_local_entry *entry,
                       int64_t now_us);

#endif
