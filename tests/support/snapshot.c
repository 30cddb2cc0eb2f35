/* SPDX-License-Identifier: BSD-3-Clause */
/* Test support: what a table of states has of one key, to be put back (see snapshot.h). */
#include "snapshot.h"

#include <stdlib.h>
#include <string.h>

static void *copy_of(const void *list, size_t size)
{
    void *copy = malloc(size + 1);

    if (!copy)
        abort();
    if (size)
        memcpy(copy, list, size);
    return copy;
}

static hr_holds *holds_of(hr_state *state)
{
    return state->kind == HIRATE_KIND_CONCURRENCY ? &state->as.concurrency.leases : &state->as.window.reservations;
}

snapshot snapshot_take(const hr_local_entry *entry)
{
    snapshot s = {.there = entry != NULL};

    if (!entry)
        return s;
    s.state = hr_local_entry_state(entry);
    s.deadline_ms = entry->deadline_ms;
    if (s.state.kind == HIRATE_KIND_SLIDING_LOG) {
        hr_sliding_log *log = &s.state.as.log;
        s.list = copy_of(log->entries, log->count * sizeof *log->entries);
        log->entries = s.list;
    } else if (s.state.kind == HIRATE_KIND_QUOTA || s.state.kind == HIRATE_KIND_CONCURRENCY) {
        hr_holds *holds = holds_of(&s.state);
        s.list = copy_of(holds->first, holds->count * sizeof *holds->first);
        holds->first = s.list;
    }
    return s;
}

static void add_holds(hr_hold_list *list, const hr_holds *holds)
{
    for (size_t i = 0; i < holds->count; i++) {
        if (!hr_hold_list_reserve(list))
            abort();
        hr_hold_list_add(list, &holds->first[i]);
    }
}

/* A buffer that takes over a copy of the log. */
static hr_log_buffer buffer_of(const hr_sliding_log *log)
{
    uint32_t count = (uint32_t)log->count;

    return (hr_log_buffer){.entries = copy_of(log->entries, count * sizeof *log->entries),
                           .count = count,
                           .room = count,
                           .used = (uint32_t)log->used};
}

static void fill(hr_local_entry *entry, hr_state *state)
{
    switch (state->kind) {
    case HIRATE_KIND_SLIDING_LOG:
        entry->as.log = buffer_of(&state->as.log);
        break;
    case HIRATE_KIND_SLIDING_WINDOW:
        entry->as.sliding = state->as.sliding;
        break;
    case HIRATE_KIND_CONCURRENCY:
        entry->as.window.start_us = state->as.concurrency.at_us;
        add_holds(&entry->as.window.holds, holds_of(state));
        break;
    case HIRATE_KIND_FIXED_WINDOW:
    case HIRATE_KIND_QUOTA:
        entry->as.window.start_us = state->as.window.start_us;
        entry->as.window.end_us = state->as.window.end_us;
        entry->as.window.used = state->as.window.used;
        if (state->kind == HIRATE_KIND_QUOTA)
            add_holds(&entry->as.window.holds, holds_of(state));
        break;
    default:
        entry->as.bucket = state->as.bucket;
    }
}

void snapshot_put_back(snapshot *s, hr_local_table *table, const hr_local_key *key, hr_local_entry *entry,
                       int64_t now_us)
{
    if (entry)
        hr_local_table_forget(table, entry);
    if (s->there) {
        if (hr_local_table_add(table, key, s->state.kind, now_us, &entry))
            abort();
        fill(entry, &s->state);
        hr_local_table_expire(table, entry, now_us, s->deadline_ms - now_us / 1000);
    }
    free(s->list);
    *s = (snapshot){.there = false};
}
