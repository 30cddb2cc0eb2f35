/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault matrix: what only the client's own process can do to it (see load_client.h). */
#include "load_client.h"

#include <stdatomic.h>
#include <time.h>

enum { MILLION = 1000000 };
enum { HELD = 3072 }; /* full calls, and replies of more than hiredis reads at once */

/* Replies that lie in the socket win over their deadlines, however late the loop comes to them. */
static void hold_loop(load *l)
{
    int64_t us = 3 * l->s->load.deadline_ms * 1000;
    uint64_t answered = 0;
    hirate_stats stats;

    load_off(l);
    load_drain(l);
    l->held = l->held_end = &l->asked[l->count];
    l->held_good = l->held_bad = 0;
    for (int i = 0; i < HELD; i++)
        l->held_end += load_submit(l, (asked){.limit = LIMIT_WIDE, .name = (uint16_t)i, .op = HIRATE_OP_ACQUIRE}) == 0;
    hirate_stats_init(&stats);
    hirate_get_stats(l->h, &stats);
    answered = stats.answered;
    load_turn(l); /* which writes them all, as nothing was in flight */
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
    hirate_get_stats(l->h, &stats);
    atomic_fetch_add(&l->s->bitten, stats.answered == answered);
    load_drain(l);
    if (l->held_bad || l->held_good != HELD)
        truth_red(l->r, "%llu of %d replies that had arrived lost to their deadline",
                  (unsigned long long)(HELD - l->held_good), HELD);
    load_on(l);
}

static void submit_million(load *l)
{
    uint64_t before = l->r->refused;
    for (int i = 0; i < MILLION; i++)
        load_submit(l, (asked){.limit = (uint8_t)(i % LIMIT_RESET),
                               .name = (uint16_t)(i % NAMES),
                               .cost = 1,
                               .op = HIRATE_OP_ACQUIRE});
    atomic_fetch_add(&l->s->bitten, l->r->refused > before);
}

void load_obey(load *l)
{
    struct rlimit none = l->descriptors;
    none.rlim_cur = 3;
    switch (atomic_load(&l->s->order)) {
    case ORDER_TAKE_DESCRIPTORS:
        setrlimit(RLIMIT_NOFILE, &none);
        break;
    case ORDER_GIVE_DESCRIPTORS:
        setrlimit(RLIMIT_NOFILE, &l->descriptors);
        break;
    case ORDER_HOLD_LOOP:
        hold_loop(l);
        break;
    case ORDER_MILLION:
        submit_million(l);
        break;
    default:
        return;
    }
    atomic_store(&l->s->order, ORDER_NONE);
}
