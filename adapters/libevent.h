/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hirate on libevent (2.1 and later).
 *
 *     hirate_loop loop;
 *     int rc = hirate_libevent(&loop, base);
 *     if (rc == 0)
 *         rc = hirate_new(&h, &loop, &options);
 *
 * Header-only: link libevent_core yourself. Everything runs at the base's default priority.
 *
 * Three things libevent does not have, and what stands for them:
 * - A hook that runs before the loop blocks. A deferred call is a timer of length zero: libevent looks at the
 *   descriptors without blocking, runs what they bring, then the timer. An event made active by hand would save
 *   that look, but calls that defer each other would then keep the loop from its descriptors, and on a base with
 *   several priorities it would either interrupt lower ones after each callback or starve behind higher ones.
 * - Timers that are never early. libevent reckons with a coarse clock that it reads once a turn, milliseconds
 *   behind. So each timer knows its deadline on the exact clock and waits again when it is woken before it.
 * - Changing what an event waits for in one system call. A watch is two events, one a direction.
 */
#ifndef HIRATE_ADAPTERS_LIBEVENT_H
#define HIRATE_ADAPTERS_LIBEVENT_H

#include <event2/event.h>
#include <event2/util.h>
#include <hirate/hirate.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct hirate_libevent_watch_ {
    struct event *read;
    struct event *write;
    hirate_ready_fn *ready;
    void *arg;
} hirate_libevent_watch_;

/* A timer or, without a clock, a deferred call. */
typedef struct hirate_libevent_call_ {
    struct event *event;
    struct evutil_monotonic_timer *clock;
    int64_t deadline_us; /* on that clock */
    hirate_due_fn *due;
    void *arg;
} hirate_libevent_call_;

/* -------------------------------------------------------------------------------------------------- watches -- */

/* The callback may free the watch, so nothing comes after it. */
static inline void hirate_libevent_on_ready_(evutil_socket_t fd, short what, void *arg)
{
    hirate_libevent_watch_ *w = (hirate_libevent_watch_ *)arg;

    (void)fd;
    w->ready(w->arg, (what & EV_READ) ? (unsigned)HIRATE_READ : (unsigned)HIRATE_WRITE);
}

static inline void hirate_libevent_watch_free_(void *watch)
{
    hirate_libevent_watch_ *w = (hirate_libevent_watch_ *)watch;

    if (w == NULL)
        return;
    if (w->read != NULL)
        event_free(w->read);
    if (w->write != NULL)
        event_free(w->write);
    free(w);
}

static inline void *hirate_libevent_watch_new_(void *data, int fd, hirate_ready_fn *ready, void *arg)
{
    struct event_base *base = (struct event_base *)data;
    hirate_libevent_watch_ *w;

    if (fd < 0 || ready == NULL)
        return NULL;
    w = (hirate_libevent_watch_ *)calloc(1, sizeof *w);
    if (w == NULL)
        return NULL;
    w->ready = ready;
    w->arg = arg;
    w->read = event_new(base, fd, EV_READ | EV_PERSIST, hirate_libevent_on_ready_, w);
    w->write = event_new(base, fd, EV_WRITE | EV_PERSIST, hirate_libevent_on_ready_, w);
    if (w->read == NULL || w->write == NULL) {
        hirate_libevent_watch_free_(w);
        return NULL;
    }
    return w;
}

static inline int hirate_libevent_wait_for_(struct event *event, short what, int wanted)
{
    int waiting = event_pending(event, what, NULL) != 0;

    if (waiting == wanted)
        return 0;
    return (wanted ? event_add(event, NULL) : event_del(event)) == 0 ? 0 : HIRATE_ELOOP;
}

/* What is no longer wanted is also withdrawn from the callbacks that are already due. */
static inline int hirate_libevent_watch_set_(void *watch, unsigned events)
{
    hirate_libevent_watch_ *w = (hirate_libevent_watch_ *)watch;
    int read_rc = hirate_libevent_wait_for_(w->read, EV_READ, (events & HIRATE_READ) != 0);
    int write_rc = hirate_libevent_wait_for_(w->write, EV_WRITE, (events & HIRATE_WRITE) != 0);

    return read_rc != 0 ? read_rc : write_rc;
}

/* ----------------------------------------------------------------------------------------------------- time -- */

/* The exact clock, rounded down to the microsecond. */
static inline int hirate_libevent_now_(hirate_libevent_call_ *c, int64_t *now_us)
{
    struct timeval tv;

    if (evutil_gettime_monotonic(c->clock, &tv) != 0)
        return HIRATE_ELOOP;
    *now_us = (int64_t)tv.tv_sec * 1000000 + (int64_t)tv.tv_usec;
    return 0;
}

static inline int hirate_libevent_sleep_(hirate_libevent_call_ *c, int64_t delay_us)
{
    struct timeval tv;

    memset(&tv, 0, sizeof tv);
    tv.tv_sec = (time_t)(delay_us / 1000000);
    tv.tv_usec = (suseconds_t)(delay_us % 1000000);
    return event_add(c->event, &tv) == 0 ? 0 : HIRATE_ELOOP;
}

/* Woken early: sleep for the rest. A timer whose clock or event fails here is rather early than lost. The callback
 * may free the timer, so nothing comes after it. */
static inline void hirate_libevent_on_due_(evutil_socket_t fd, short what, void *arg)
{
    hirate_libevent_call_ *c = (hirate_libevent_call_ *)arg;
    int64_t now_us;

    (void)fd;
    (void)what;
    if (c->clock != NULL && hirate_libevent_now_(c, &now_us) == 0 && now_us < c->deadline_us &&
        hirate_libevent_sleep_(c, c->deadline_us - now_us) == 0)
        return;
    c->due(c->arg);
}

static inline void hirate_libevent_call_free_(void *call)
{
    hirate_libevent_call_ *c = (hirate_libevent_call_ *)call;

    if (c == NULL)
        return;
    if (c->event != NULL)
        event_free(c->event);
    if (c->clock != NULL)
        evutil_monotonic_timer_free(c->clock);
    free(c);
}

static inline hirate_libevent_call_ *hirate_libevent_call_new_(void *data, hirate_due_fn *due, void *arg)
{
    struct event_base *base = (struct event_base *)data;
    hirate_libevent_call_ *c;

    if (due == NULL)
        return NULL;
    c = (hirate_libevent_call_ *)calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    c->due = due;
    c->arg = arg;
    c->event = event_new(base, -1, 0, hirate_libevent_on_due_, c);
    if (c->event == NULL) {
        hirate_libevent_call_free_(c);
        return NULL;
    }
    return c;
}

static inline void *hirate_libevent_timer_new_(void *data, hirate_due_fn *due, void *arg)
{
    hirate_libevent_call_ *c = hirate_libevent_call_new_(data, due, arg);

    if (c == NULL)
        return NULL;
    c->clock = evutil_monotonic_timer_new();
    if (c->clock == NULL || evutil_configure_monotonic_time(c->clock, EV_MONOT_PRECISE) != 0) {
        hirate_libevent_call_free_(c);
        return NULL;
    }
    return c;
}

/* The clock is rounded down, so one microsecond more makes up for it. */
static inline int hirate_libevent_timer_set_(void *timer, int64_t delay_us)
{
    hirate_libevent_call_ *c = (hirate_libevent_call_ *)timer;
    int64_t now_us;

    if (delay_us < 0)
        return event_del(c->event) == 0 ? 0 : HIRATE_ELOOP;
    if (hirate_libevent_now_(c, &now_us) != 0)
        return HIRATE_ELOOP;
    c->deadline_us = now_us;
    if (delay_us > 0)
        c->deadline_us = delay_us < INT64_MAX - 1 - now_us ? now_us + delay_us + 1 : INT64_MAX;
    return hirate_libevent_sleep_(c, delay_us);
}

static inline void *hirate_libevent_defer_new_(void *data, hirate_due_fn *due, void *arg)
{
    return hirate_libevent_call_new_(data, due, arg);
}

static inline int hirate_libevent_defer_set_(void *defer)
{
    hirate_libevent_call_ *c = (hirate_libevent_call_ *)defer;

    return event_pending(c->event, EV_TIMEOUT, NULL) ? 0 : hirate_libevent_sleep_(c, 0);
}

/* ------------------------------------------------------------------------------------------------------ loop -- */

/*
 * Fill in *loop so that clients made on it run on `base`, which must outlive them and belongs to their thread.
 * Cannot fail but for NULL arguments: HIRATE_EINVAL, with *loop unchanged.
 */
static inline int hirate_libevent(hirate_loop *loop, struct event_base *base)
{
    if (loop == NULL || base == NULL)
        return HIRATE_EINVAL;
    memset(loop, 0, sizeof *loop);
    loop->struct_size = (uint32_t)sizeof *loop;
    loop->version = HIRATE_LOOP_VERSION;
    loop->data = base;
    loop->watch_new = hirate_libevent_watch_new_;
    loop->watch_set = hirate_libevent_watch_set_;
    loop->watch_free = hirate_libevent_watch_free_;
    loop->timer_new = hirate_libevent_timer_new_;
    loop->timer_set = hirate_libevent_timer_set_;
    loop->timer_free = hirate_libevent_call_free_;
    loop->defer_new = hirate_libevent_defer_new_;
    loop->defer_set = hirate_libevent_defer_set_;
    loop->defer_free = hirate_libevent_call_free_;
    return 0;
}

#endif
