/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test support: each kind of limit once more, for what is known (see mixed_model.h).
 *
 * The numbers are those of MIXED_LIMITS: small, so that no product comes near 2^63 and a sliding window's tick is a
 * microsecond.
 */
#include "mixed_model.h"

#include "bound.h"

#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PRINTED_MOST = 5 };

typedef struct model {
    const hirate_limit *limit;
    int64_t capacity;
    const mixed_event *events;
    int64_t now_us;
    int64_t n, p;             /* a bucket: p units are one token, n return each microsecond */
    int64_t units;            /* a bucket: there are; may be negative once it is broken */
    int64_t start_us, end_us; /* a window: the present one */
    int64_t used, excess;     /* in it; of a sliding window, in this one … */
    int64_t before;           /* … and in that before */
    int64_t held;
    size_t recent;        /* events: the first of those that took something within one window from now … */
    int64_t recent_units; /* … and what they took, with those since */
} model;

static bool is_bucket(const hirate_limit *limit)
{
    return limit->kind == HIRATE_KIND_TOKEN_BUCKET || limit->kind == HIRATE_KIND_LEAKY_BUCKET;
}

static bool is_sliding(const hirate_limit *limit)
{
    return limit->kind == HIRATE_KIND_SLIDING_LOG || limit->kind == HIRATE_KIND_SLIDING_WINDOW;
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static model begin_model(const hirate_limit *limit, const mixed_key *key)
{
    model m = {.limit = limit, .capacity = (int64_t)limit->capacity, .events = key->events};
    if (is_bucket(limit)) {
        int64_t tokens = (int64_t)limit->rate.tokens, period_us = (int64_t)limit->rate.period_us,
                g = gcd(tokens, period_us);
        m.n = tokens / g;
        m.p = period_us / g;
        m.units = m.capacity * m.p;
    }
    return m;
}

/* ------------------------------------------------------------------------------------------------------ time -- */

static void refill(model *m, int64_t now_us)
{
    int64_t full = m->capacity * m->p, more = now_us - m->now_us;
    m->units = more > full / m->n || m->units + more * m->n > full ? full : m->units + more * m->n;
}

static void begin_window(model *m, int64_t now_us)
{
    int64_t window_us = m->limit->kind == HIRATE_KIND_QUOTA ? HIRATE_HOURS(1) : (int64_t)m->limit->window_us;
    int64_t last_us = m->start_us;

    if (now_us < m->end_us)
        return;
    m->end_us = m->limit->kind == HIRATE_KIND_QUOTA ? mixed_quota_end_us(m->limit, now_us)
                                                    : (now_us / window_us + 1) * window_us;
    m->start_us = m->end_us - window_us;
    m->before = m->start_us == last_us + window_us ? m->used : 0;
    m->used = m->excess = 0;
}

/* Of a sliding log what is a window old has gone; of a sliding window, in an interval that is closed, what is older. */
static void forget_old(model *m, int64_t now_us)
{
    int64_t since_us = now_us - (int64_t)m->limit->window_us + (m->limit->kind == HIRATE_KIND_SLIDING_LOG);
    for (; m->events[m->recent].time_us < since_us; m->recent++)
        m->recent_units -= m->events[m->recent].took ? m->events[m->recent].cost : 0;
}

static void advance(model *m, const mixed_event *event)
{
    if (is_bucket(m->limit))
        refill(m, event->time_us);
    else if (m->limit->kind != HIRATE_KIND_CONCURRENCY && m->limit->kind != HIRATE_KIND_SLIDING_LOG)
        begin_window(m, event->time_us);
    if (is_sliding(m->limit))
        forget_old(m, event->time_us);
    m->now_us = event->time_us;
}

/* ------------------------------------------------------------------------------------------------------ room -- */

/* Of the window before, so much is still within one window from now, and counts in proportion. */
static int64_t overlap_us(const model *m)
{
    return m->end_us - m->now_us;
}

static int64_t room(const model *m)
{
    int64_t left, window_us = (int64_t)m->limit->window_us;

    switch (m->limit->kind) {
    case HIRATE_KIND_SLIDING_LOG:
        left = m->capacity - m->recent_units;
        break;
    case HIRATE_KIND_SLIDING_WINDOW: /* before * overlap + (used + left) * window <= capacity * window */
        left = (m->capacity - m->used) * window_us - m->before * overlap_us(m);
        left = left > 0 ? left / window_us : 0;
        break;
    case HIRATE_KIND_CONCURRENCY:
    case HIRATE_KIND_QUOTA:
    case HIRATE_KIND_FIXED_WINDOW:
        left = m->capacity - m->used - m->held;
        break;
    default:
        left = m->units > 0 ? m->units / m->p : 0;
    }
    return left > 0 ? left : 0;
}

static void take(model *m, const mixed_event *event)
{
    if (is_bucket(m->limit))
        m->units -= event->cost * m->p;
    else if (event->holds)
        m->held += event->cost;
    else
        m->used += event->cost;
    m->recent_units += event->cost;
}

static double share(const model *m)
{
    double capacity = (double)m->capacity;
    if (m->limit->kind == HIRATE_KIND_SLIDING_LOG)
        return (double)m->recent_units / capacity;
    if (m->limit->kind == HIRATE_KIND_SLIDING_WINDOW)
        return ((double)m->used + (double)m->before * (double)overlap_us(m) / (double)m->limit->window_us) / capacity;
    return (double)(m->used + m->held) / capacity;
}

/* ---------------------------------------------------------------------------------------------------- checks -- */

static void broken(mixed_figures *figures, const model *m, const mixed_event *event, const char *name, const char *what)
{
    if (figures->broken++ < PRINTED_MOST)
        printf("%s %s: %s: at %" PRId64 " room for %" PRId64 ", cost %" PRIu32 ", remaining %" PRIu32
               " (client %" PRIu32 ", request %" PRIu32 ")\n",
               m->limit->policy, name, what, event->time_us, room(m), event->cost, event->remaining, event->rank,
               event->order);
}

static void check_remaining(mixed_figures *figures, const model *m, const mixed_event *event, const char *name,
                            bool all_known)
{
    int64_t left = room(m) - (event->asked && event->taken && !event->took ? event->cost : 0);
    if (event->remaining == MIXED_UNTOLD)
        return;
    if (event->remaining > left)
        broken(figures, m, event, name, "more is told to remain than does");
    else if (all_known && event->remaining != left)
        broken(figures, m, event, name, "less is told to remain than does");
    figures->exact += all_known && event->remaining == left;
}

static void check_asked(mixed_figures *figures, model *m, const mixed_event *event, const char *name, bool all_known)
{
    int64_t left = room(m);

    figures->denied += !event->allowed;
    if (event->allowed && event->cost > left)
        broken(figures, m, event, name, "allowed without room");
    if (!event->allowed && event->cost <= left && (all_known || event->cost == 0))
        broken(figures, m, event, name, "denied with room");
    if (!event->took)
        return;
    take(m, event);
    figures->admitted++;
    figures->units += event->cost;
    if (!is_bucket(m->limit) && share(m) > figures->worst)
        figures->worst = share(m);
    if (m->limit->kind == HIRATE_KIND_SLIDING_WINDOW) {
        double interval = (double)m->recent_units / (double)m->capacity;
        figures->worst_interval = interval > figures->worst_interval ? interval : figures->worst_interval;
        if (m->recent_units > 2 * m->capacity)
            broken(figures, m, event, name, "twice the limit in one window's length");
    }
}

static void check_change(mixed_figures *figures, model *m, const mixed_event *event, const char *name)
{
    m->held += event->held;
    m->used += event->used;
    m->excess += event->excess;
    figures->excess += (uint64_t)event->excess;
    if (m->held < 0)
        broken(figures, m, event, name, "more came back than was held");
    if (m->limit->kind == HIRATE_KIND_QUOTA && event->used && m->used + m->held > m->capacity + m->excess)
        broken(figures, m, event, name, "more is used than the limit and what commits went beyond");
}

/* A bucket's admissions against its bound, in every interval. */
static void check_intervals(mixed_figures *figures, const model *m, const mixed_key *key, const char *name)
{
    bound_record *records = calloc(key->count + 1, sizeof *records);
    size_t count = 0;

    if (!records)
        err(1, "records");
    for (size_t i = 0; i < key->count; i++) {
        const mixed_event *event = &key->events[i];
        if (event->took)
            records[count++] =
                (bound_record){.time_us = event->time_us, .cost = event->cost, .verdict = HIRATE_ALLOWED};
    }
    bound_worst worst = bound_check(records, count, 0, m->limit);
    free(records);
    if (!worst.any)
        return;
    double used = (double)worst.used / (double)worst.allowed;
    figures->worst = used > figures->worst ? used : figures->worst;
    if (worst.slack < 0) {
        figures->broken++;
        printf("%s %s: %" PRId64 " of %" PRId64 " units in %" PRId64 " us\n", m->limit->policy, name, worst.used,
               worst.allowed, worst.length_us);
    }
}

void mixed_model_check(const hirate_limit *limit, const mixed_key *key, const char *name, mixed_figures *figures)
{
    model m = begin_model(limit, key);
    const bool all_known = key->unknown == 0;

    for (size_t i = 0; i < key->count; i++) {
        const mixed_event *event = &key->events[i];
        if (i == 0)
            m.now_us = event->time_us;
        advance(&m, event);
        if (event->asked)
            check_asked(figures, &m, event, name, all_known);
        else
            check_change(figures, &m, event, name);
        check_remaining(figures, &m, event, name, all_known);
    }
    if (is_bucket(limit))
        check_intervals(figures, &m, key, name);
    figures->broken += key->wrong;
}
