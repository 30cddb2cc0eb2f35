/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hirate on libev (4.0 and later, with its default features).
 *
 *     hirate_loop loop;
 *     int rc = hirate_libev(&loop, EV_DEFAULT);
 *     if (rc == 0)
 *         rc = hirate_new(&h, &loop, &options);
 *
 * Header-only: link libev yourself.
 *
 * libev runs what is pending from the highest priority to the lowest and, within one, the latest first. So the
 * order the library relies on is made of priorities: watches have the default one, timers a lower one (a socket
 * that became readable is read before its deadline strikes), deferred calls the lowest.
 *
 * A deferred call is a watcher that is never started but fed: libev runs whatever was fed before it blocks,
 * whoever fed it. When it has run in this iteration already it waits for the next one, so that calls which defer
 * each other cannot keep the loop from its descriptors; an idle watcher keeps the loop from blocking meanwhile.
 *
 * libev does not report a failed start: it aborts when it has no memory left, unless the program replaced its
 * allocator or error callback.
 */
#ifndef HIRATE_ADAPTERS_LIBEV_H
#define HIRATE_ADAPTERS_LIBEV_H

#include <ev.h>
#include <fcntl.h>
#include <hirate/hirate.h>
#include <stdlib.h>
#include <string.h>

/* How a loop is passed to libev and to its callbacks: not at all where it was built for a single one. */
#if EV_MULTIPLICITY
#define HIRATE_LIBEV_A_(ev) (ev),
#define HIRATE_LIBEV_P_ struct ev_loop *ev,
#define HIRATE_LIBEV_UNUSED_ (void)ev
#define HIRATE_LIBEV_CALL_(fn, ev) fn(ev)
#define HIRATE_LIBEV_IS_LOOP_(ev) ((ev) != NULL)
#else
#define HIRATE_LIBEV_A_(ev)
#define HIRATE_LIBEV_P_
#define HIRATE_LIBEV_UNUSED_ (void)0
#define HIRATE_LIBEV_CALL_(fn, ev) fn()
#define HIRATE_LIBEV_IS_LOOP_(ev) ((void)(ev), 1)
#endif

/* One above the lowest where there are priorities. */
#define HIRATE_LIBEV_TIMER_PRI_ (EV_MINPRI < EV_MAXPRI ? EV_MINPRI + 1 : EV_MINPRI)

typedef struct hirate_libev_watch_ {
    ev_io io; /* first: libev hands it to the callback */
    struct ev_loop *ev;
    hirate_ready_fn *ready;
    void *arg;
} hirate_libev_watch_;

typedef struct hirate_libev_timer_ {
    ev_timer timer; /* first */
    struct ev_loop *ev;
    hirate_due_fn *due;
    void *arg;
} hirate_libev_timer_;

/* Waiting: `call` is pending, or `turn` is active or pending. */
typedef struct hirate_libev_defer_ {
    ev_timer call; /* first; never started, only fed */
    ev_idle turn;
    struct ev_loop *ev;
    hirate_due_fn *due;
    void *arg;
    int has_run;
    unsigned iteration; /* has_run: in which it did last */
} hirate_libev_defer_;

/* -------------------------------------------------------------------------------------------------- watches -- */

/* EV_ERROR: the descriptor is bad and libev stopped watching it. The callback may free the watch, so nothing comes
 * after it. */
static inline void hirate_libev_on_ready_(HIRATE_LIBEV_P_ ev_io *io, int revents)
{
    hirate_libev_watch_ *w = (hirate_libev_watch_ *)(void *)io;
    unsigned ready = 0;

    HIRATE_LIBEV_UNUSED_;
    if (revents & (EV_READ | EV_ERROR))
        ready |= (unsigned)HIRATE_READ;
    if (revents & (EV_WRITE | EV_ERROR))
        ready |= (unsigned)HIRATE_WRITE;
    if (!(io->events & EV_READ))
        ready &= ~(unsigned)HIRATE_READ;
    if (!(io->events & EV_WRITE))
        ready &= ~(unsigned)HIRATE_WRITE;
    if (ready != 0)
        w->ready(w->arg, ready);
}

/* libev would report a closed descriptor only later, so ask the system now. */
static inline void *hirate_libev_watch_new_(void *data, int fd, hirate_ready_fn *ready, void *arg)
{
    hirate_libev_watch_ *w;

    if (fd < 0 || ready == NULL || fcntl(fd, F_GETFD) < 0)
        return NULL;
    w = (hirate_libev_watch_ *)calloc(1, sizeof *w);
    if (w == NULL)
        return NULL;
    w->ev = (struct ev_loop *)data;
    w->ready = ready;
    w->arg = arg;
    ev_io_init(&w->io, hirate_libev_on_ready_, fd, 0);
    return w;
}

/* Stopping also withdraws a callback that is already due; libev tells the system of the last change only. */
static inline int hirate_libev_watch_set_(void *watch, unsigned events)
{
    hirate_libev_watch_ *w = (hirate_libev_watch_ *)watch;
    int fd = w->io.fd;
    int wanted = 0;

    if (events & HIRATE_READ)
        wanted |= EV_READ;
    if (events & HIRATE_WRITE)
        wanted |= EV_WRITE;
    ev_io_stop(HIRATE_LIBEV_A_(w->ev) & w->io);
    ev_io_set(&w->io, fd, wanted);
    if (wanted != 0)
        ev_io_start(HIRATE_LIBEV_A_(w->ev) & w->io);
    return 0;
}

static inline void hirate_libev_watch_free_(void *watch)
{
    hirate_libev_watch_ *w = (hirate_libev_watch_ *)watch;

    if (w == NULL)
        return;
    ev_io_stop(HIRATE_LIBEV_A_(w->ev) & w->io);
    free(w);
}

/* --------------------------------------------------------------------------------------------------- timers -- */

static inline void hirate_libev_on_due_(HIRATE_LIBEV_P_ ev_timer *timer, int revents)
{
    hirate_libev_timer_ *t = (hirate_libev_timer_ *)(void *)timer;

    HIRATE_LIBEV_UNUSED_;
    (void)revents;
    t->due(t->arg);
}

static inline void *hirate_libev_timer_new_(void *data, hirate_due_fn *due, void *arg)
{
    hirate_libev_timer_ *t;

    if (due == NULL)
        return NULL;
    t = (hirate_libev_timer_ *)calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    t->ev = (struct ev_loop *)data;
    t->due = due;
    t->arg = arg;
    ev_timer_init(&t->timer, hirate_libev_on_due_, 0., 0.);
    ev_set_priority(&t->timer, HIRATE_LIBEV_TIMER_PRI_);
    return t;
}

/* libev reckons from when it last looked at the clock, which would make the timer early; so it looks again. */
static inline int hirate_libev_timer_set_(void *timer, int64_t delay_us)
{
    hirate_libev_timer_ *t = (hirate_libev_timer_ *)timer;

    ev_timer_stop(HIRATE_LIBEV_A_(t->ev) & t->timer);
    if (delay_us < 0)
        return 0;
    HIRATE_LIBEV_CALL_(ev_now_update, t->ev);
    ev_timer_set(&t->timer, (ev_tstamp)delay_us * 1e-6, 0.);
    ev_timer_start(HIRATE_LIBEV_A_(t->ev) & t->timer);
    return 0;
}

static inline void hirate_libev_timer_free_(void *timer)
{
    hirate_libev_timer_ *t = (hirate_libev_timer_ *)timer;

    if (t == NULL)
        return;
    ev_timer_stop(HIRATE_LIBEV_A_(t->ev) & t->timer);
    free(t);
}

/* ------------------------------------------------------------------------------------------- deferred calls -- */

static inline void hirate_libev_on_call_(HIRATE_LIBEV_P_ ev_timer *call, int revents)
{
    hirate_libev_defer_ *d = (hirate_libev_defer_ *)(void *)call;

    HIRATE_LIBEV_UNUSED_;
    (void)revents;
    d->has_run = 1;
    d->iteration = HIRATE_LIBEV_CALL_(ev_iteration, d->ev);
    d->due(d->arg);
}

/* The next iteration has looked at the descriptors; what they brought has a higher priority than the call. */
static inline void hirate_libev_on_turn_(HIRATE_LIBEV_P_ ev_idle *turn, int revents)
{
    hirate_libev_defer_ *d = (hirate_libev_defer_ *)turn->data;

    HIRATE_LIBEV_UNUSED_;
    (void)revents;
    ev_idle_stop(HIRATE_LIBEV_A_(d->ev) turn);
    ev_feed_event(HIRATE_LIBEV_A_(d->ev) & d->call, EV_CUSTOM);
}

/* The idle watcher has the highest priority, as lower ones wait until nothing else happens. */
static inline void *hirate_libev_defer_new_(void *data, hirate_due_fn *due, void *arg)
{
    hirate_libev_defer_ *d;

    if (due == NULL)
        return NULL;
    d = (hirate_libev_defer_ *)calloc(1, sizeof *d);
    if (d == NULL)
        return NULL;
    d->ev = (struct ev_loop *)data;
    d->due = due;
    d->arg = arg;
    ev_timer_init(&d->call, hirate_libev_on_call_, 0., 0.);
    ev_set_priority(&d->call, EV_MINPRI);
    ev_idle_init(&d->turn, hirate_libev_on_turn_);
    ev_set_priority(&d->turn, EV_MAXPRI);
    d->turn.data = d;
    return d;
}

static inline int hirate_libev_defer_set_(void *defer)
{
    hirate_libev_defer_ *d = (hirate_libev_defer_ *)defer;

    if (ev_is_pending(&d->call) || ev_is_active(&d->turn))
        return 0;
    if (d->has_run && d->iteration == HIRATE_LIBEV_CALL_(ev_iteration, d->ev))
        ev_idle_start(HIRATE_LIBEV_A_(d->ev) & d->turn);
    else
        ev_feed_event(HIRATE_LIBEV_A_(d->ev) & d->call, EV_CUSTOM);
    return 0;
}

static inline void hirate_libev_defer_free_(void *defer)
{
    hirate_libev_defer_ *d = (hirate_libev_defer_ *)defer;

    if (d == NULL)
        return;
    ev_idle_stop(HIRATE_LIBEV_A_(d->ev) & d->turn);
    ev_clear_pending(HIRATE_LIBEV_A_(d->ev) & d->call);
    free(d);
}

/* ------------------------------------------------------------------------------------------------------ loop -- */

/*
 * Fill in *loop so that clients made on it run on `ev`, which must outlive them and belongs to their thread. Where
 * libev was built without EV_MULTIPLICITY, `ev` is not used and may be NULL.
 * Cannot fail but for NULL arguments: HIRATE_EINVAL, with *loop unchanged.
 */
static inline int hirate_libev(hirate_loop *loop, struct ev_loop *ev)
{
    if (loop == NULL || !HIRATE_LIBEV_IS_LOOP_(ev))
        return HIRATE_EINVAL;
    memset(loop, 0, sizeof *loop);
    loop->struct_size = (uint32_t)sizeof *loop;
    loop->version = HIRATE_LOOP_VERSION;
    loop->data = ev;
    loop->watch_new = hirate_libev_watch_new_;
    loop->watch_set = hirate_libev_watch_set_;
    loop->watch_free = hirate_libev_watch_free_;
    loop->timer_new = hirate_libev_timer_new_;
    loop->timer_set = hirate_libev_timer_set_;
    loop->timer_free = hirate_libev_timer_free_;
    loop->defer_new = hirate_libev_defer_new_;
    loop->defer_set = hirate_libev_defer_set_;
    loop->defer_free = hirate_libev_defer_free_;
    return 0;
}

#endif
