/* SPDX-License-Identifier: BSD-3-Clause */
/* Test support: what happened to each key (see mixed_history.h). */
#include "mixed_history.h"

#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A lease or reservation, while the requests with its permit are gone through in the order of submission. */
typedef struct hold {
    mixed_key *key;
    const hirate_limit *limit;
    const mixed_record *of;
    uint32_t rank;
    int64_t level;     /* units that it still counts for */
    int64_t until_us;  /* when it ends by itself, if no renewal that was not answered put it off */
    int64_t latest_us; /* when it ends at the latest */
    int64_t maybe_us;  /* INT64_MAX; or since when it may be gone, as a request was not answered */
    int64_t least;     /* INT64_MAX; or the smallest amount that may have been committed then … */
    bool refund;       /* … unless this was done instead */
    bool over;
} hold;

bool mixed_is_decided(const mixed_record *r)
{
    return r->callbacks > 0 && r->source == HIRATE_SOURCE_REDIS && !r->error;
}

static mixed_event *add_event(mixed_key *key)
{
    if (key->count == key->room) {
        key->room = key->room ? 2 * key->room : 64;
        key->events = realloc(key->events, key->room * sizeof *key->events);
        if (!key->events)
            err(1, "events");
    }
    mixed_event *event = &key->events[key->count++];
    *event = (mixed_event){.remaining = MIXED_UNTOLD};
    return event;
}

/* ----------------------------------------------------------------------------------------------------- holds -- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void wrong(const hold *h, const mixed_record *r, const char *what)
{
    h->key->wrong++;
    printf("%s %u: %s: %" PRId64 " units held at %" PRId64 " until %" PRId64 ", answered at %" PRId64 "\n",
           h->limit->policy, (unsigned)h->of->pairs[r->of_pair].name, what, h->level, h->of->time_us, h->until_us,
           r->time_us);
}

/* Units that come back by themselves. */
static void give_back(hold *h, int64_t time_us, int64_t units)
{
    if (units == 0)
        return;
    mixed_event *event = add_event(h->key);
    event->time_us = time_us;
    event->held = -units;
    h->level -= units;
}

static void end_by_itself(hold *h)
{
    if (!h->over)
        give_back(h, earlier(h->until_us, h->maybe_us), h->level);
    h->over = true;
}

/* What the answer to a request with its permit tells. */
static mixed_event *add_answer(hold *h, const mixed_record *r, int64_t used)
{
    mixed_event *event = add_event(h->key);
    event->time_us = r->time_us;
    event->rank = h->rank;
    event->order = (uint32_t)(r - (h->of - r->of)); /* its place in the file */
    event->used = used;
    event->remaining = r->error ? MIXED_UNTOLD : r->pairs[0].remaining;
    return event;
}

static void end_with(hold *h, const mixed_record *r, int64_t used)
{
    mixed_event *event = add_answer(h, r, used);
    if (!h->over)
        event->held = -h->level;
    event->excess = used > h->level && !h->over ? used - h->level : h->over ? used : 0;
    h->level = 0;
    h->over = true;
}

static void expect_alive(const hold *h, const mixed_record *r)
{
    if (h->over || r->time_us >= h->latest_us)
        wrong(h, r, "it is there after its end");
}

static void expect_gone(const hold *h, const mixed_record *r)
{
    if (!h->over && r->time_us < h->until_us && h->maybe_us == INT64_MAX)
        wrong(h, r, "it is gone before its end");
}

static void use_lease(hold *h, const mixed_record *r)
{
    bool renews = r->op == HIRATE_OP_RENEW;

    if (!mixed_is_decided(r)) {
        h->key->unknown++;
        if (renews)
            h->latest_us = INT64_MAX;
        else
            h->maybe_us = earlier(h->maybe_us, r->submitted_us);
        return;
    }
    bool was_there = renews ? r->verdict == HIRATE_ALLOWED : r->used != 0;
    if (!was_there) {
        expect_gone(h, r);
        end_by_itself(h);
        add_answer(h, r, 0);
        return;
    }
    expect_alive(h, r);
    if (!renews) {
        end_with(h, r, 0);
        return;
    }
    h->maybe_us = INT64_MAX; /* it was not released */
    h->until_us = h->latest_us = r->time_us + (int64_t)h->limit->lease_us;
    add_answer(h, r, 0);
}

/* Not answered: it counts for no more than what it may have become. */
static void maybe_use_reservation(hold *h, const mixed_record *r)
{
    int64_t amount = r->op == HIRATE_OP_COMMIT ? r->cost : 0;

    h->key->unknown++;
    h->maybe_us = earlier(h->maybe_us, r->submitted_us);
    h->least = earlier(h->least, amount);
    h->refund = h->refund || r->op == HIRATE_OP_REFUND;
    if (!h->over && r->submitted_us < h->until_us && amount < h->level)
        give_back(h, r->submitted_us, h->level - amount);
}

/* Known to be gone before its time: what may have been committed was, if nothing else can have ended it. */
static void find_gone(hold *h, const mixed_record *r)
{
    expect_gone(h, r);
    end_with(h, r, !h->over && h->maybe_us != INT64_MAX && !h->refund ? h->least : 0);
}

static void use_reservation(hold *h, const mixed_record *r)
{
    bool commits = r->op == HIRATE_OP_COMMIT, gone = r->callbacks > 0 && r->error == HIRATE_ENOENT;

    if (!gone && !mixed_is_decided(r)) {
        maybe_use_reservation(h, r);
    } else if (r->time_us >= h->until_us) {
        give_back(h, h->until_us, h->level);
        h->over = true;
        if (gone || (commits ? !r->late : r->used))
            wrong(h, r, "it is not over after its end");
        end_with(h, r, commits && !gone ? r->cost : 0);
    } else if (gone || (!commits && !r->used)) {
        find_gone(h, r);
    } else {
        expect_alive(h, r);
        if (commits && r->late)
            wrong(h, r, "it is late before its end");
        end_with(h, r, commits ? r->cost : 0);
    }
}

/* ------------------------------------------------------------------------------------------ requests by hold -- */

typedef struct uses {
    const mixed_record **at; /* requests with a permit, by what it stands for, then by order */
    size_t count, next;
} uses;

static int by_hold(const void *a, const void *b)
{
    const mixed_record *x = *(const mixed_record *const *)a, *y = *(const mixed_record *const *)b;
    if (x->of != y->of)
        return x->of < y->of ? -1 : 1;
    if (x->of_pair != y->of_pair)
        return x->of_pair < y->of_pair ? -1 : 1;
    return x < y ? -1 : 1;
}

static uses sort_uses(const mixed_file *file)
{
    uses u = {calloc(file->count + 1, sizeof *u.at), 0, 0};
    if (!u.at)
        err(1, "uses");
    for (uint32_t i = 0; i < file->count; i++) {
        if (mixed_has_permit(&file->records[i]))
            u.at[u.count++] = &file->records[i];
    }
    qsort(u.at, u.count, sizeof *u.at, by_hold);
    return u;
}

/* Those with the permit of record i and its pair, one at a time. Records and pairs are to be asked for in order. */
static const mixed_record *next_use(uses *u, uint32_t i, uint8_t pair)
{
    if (u->next == u->count || u->at[u->next]->of != i || u->at[u->next]->of_pair != pair)
        return NULL;
    return u->at[u->next++];
}

static void follow_hold(hold *h, uses *u, uint32_t i, uint8_t pair)
{
    const mixed_record *r;
    if (h->limit->kind == HIRATE_KIND_CONCURRENCY)
        h->until_us = h->of->time_us + (int64_t)h->limit->lease_us;
    else
        h->until_us = earlier(h->of->time_us + (int64_t)h->of->hold_us, mixed_quota_end_us(h->limit, h->of->time_us));
    h->latest_us = h->until_us;
    while ((r = next_use(u, i, pair)) != NULL) {
        if (h->limit->kind == HIRATE_KIND_CONCURRENCY)
            use_lease(h, r);
        else
            use_reservation(h, r);
    }
    if (!h->over && h->level > 0 && h->limit->kind == HIRATE_KIND_QUOTA)
        h->maybe_us = INT64_MAX; /* what it may have become counts until then */
    end_by_itself(h);
}

/* --------------------------------------------------------------------------------------------------- adding -- */

static void add_pair(mixed_history *history, const mixed_file *file, uint32_t rank, uint32_t i, uint8_t pair_index,
                     uses *u)
{
    const mixed_record *r = &file->records[i];
    const mixed_pair *pair = &r->pairs[pair_index];
    const hirate_limit *limit = &MIXED_LIMITS[pair->limit].limit;
    mixed_key *key = &history->keys[pair->limit][pair->name];

    if (!mixed_is_decided(r)) {
        key->unknown += r->callbacks == 0 || r->charge == HIRATE_CHARGE_MAYBE;
        return;
    }
    mixed_event *event = add_event(key);
    event->asked = true;
    event->time_us = r->time_us;
    event->rank = rank;
    event->order = i;
    event->remaining = pair->remaining;
    event->cost = r->cost;
    event->allowed = pair->verdict == HIRATE_ALLOWED;
    event->taken = event->allowed && r->verdict == HIRATE_ALLOWED;
    event->took = pair->took;
    event->holds =
        pair->took && (limit->kind == HIRATE_KIND_CONCURRENCY || (limit->kind == HIRATE_KIND_QUOTA && r->hold_us));
    if (!event->holds)
        return;
    hold h = {
        .key = key, .limit = limit, .of = r, .rank = rank, .level = r->cost, .maybe_us = INT64_MAX, .least = INT64_MAX};
    follow_hold(&h, u, i, pair_index);
}

void mixed_history_add(mixed_history *history, const mixed_file *file, uint32_t number)
{
    uses u = sort_uses(file);

    for (uint32_t i = 0; i < file->count; i++) {
        const mixed_record *r = &file->records[i];
        for (uint8_t pair = 0; pair < r->pair_count && !mixed_has_permit(r); pair++)
            add_pair(history, file, number + 1, i, pair, &u);
    }
    if (u.next != u.count)
        errx(1, "a request has a permit that nothing gave");
    free(u.at);
}

static int by_time(const void *a, const void *b)
{
    const mixed_event *x = a, *y = b;
    if (x->time_us != y->time_us)
        return x->time_us < y->time_us ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

void mixed_history_complete(mixed_history *history)
{
    for (size_t limit = 0; limit < MIXED_LIMIT_COUNT; limit++) {
        for (size_t name = 0; name < MIXED_NAMES; name++) {
            mixed_key *key = &history->keys[limit][name];
            if (key->count)
                qsort(key->events, key->count, sizeof *key->events, by_time);
        }
    }
}

void mixed_history_free(mixed_history *history)
{
    for (size_t limit = 0; limit < MIXED_LIMIT_COUNT; limit++) {
        for (size_t name = 0; name < MIXED_NAMES; name++)
            free(history->keys[limit][name].events);
    }
    memset(history, 0, sizeof *history);
}
