/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hirate without an event library: a small loop of its own on Linux' epoll.
 *
 *     hirate_epoll_loop *ep = NULL;
 *     hirate_loop loop;
 *     int rc = hirate_epoll_new(&ep);
 *     if (rc == 0)
 *         rc = hirate_epoll(&loop, ep);
 *     if (rc == 0)
 *         rc = hirate_new(&h, &loop, &options);
 *
 * Then either hirate_epoll_run(ep), or, inside a loop you have already: watch hirate_epoll_fd(ep) for reading, level-
 * triggered, and call hirate_epoll_process(ep) when it is readable.
 *
 * One epoll descriptor holds everything: the watches, a timer descriptor set to the earliest deadline, and an event
 * descriptor that makes it readable when a call is deferred between turns. One turn is
 *   descriptors     what one epoll_wait brought,
 *   timers          those due when it returned, so that a socket is read before its deadline strikes,
 *   deferred calls  those set before this step; what they defer belongs to the next turn, after another look at
 *                   the descriptors.
 *
 * Invariants, between turns: timers[0] is due first; the timer descriptor is set no later than to its deadline
 * (armed_ns; a useless wake-up costs less than moving it at every change); with a call deferred the event
 * descriptor is readable. During a turn events[i], next_event <= i < event_count, are still to be told, those of freed
 * watches have no pointer any more.
 */
#ifndef HIRATE_ADAPTERS_EPOLL_H
#define HIRATE_ADAPTERS_EPOLL_H

#include <errno.h>
#include <hirate/hirate.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* With -std=c11 alone <time.h> hides what every Linux has. */
#ifdef CLOCK_MONOTONIC
#define HIRATE_EPOLL_CLOCK_ CLOCK_MONOTONIC
#else
#define HIRATE_EPOLL_CLOCK_ 1
extern int clock_gettime(int clock, struct timespec *now);
#endif

#define HIRATE_EPOLL_EVENTS_ 64       /* one epoll_wait brings at most; the rest comes in the next turn */
#define HIRATE_EPOLL_TURNS_ 16        /* one hirate_epoll_process makes at most */
#define HIRATE_EPOLL_NEVER_ INT64_MAX /* a deadline */
#define HIRATE_EPOLL_IDLE_ (SIZE_MAX) /* a timer's place when it is not set */

typedef struct hirate_epoll_loop hirate_epoll_loop;

typedef struct hirate_epoll_watch_ {
    hirate_epoll_loop *ep;
    int fd;
    unsigned events; /* 0: the epoll descriptor does not hold it */
    hirate_ready_fn *ready;
    void *arg;
} hirate_epoll_watch_;

typedef struct hirate_epoll_timer_ {
    hirate_epoll_loop *ep;
    int64_t deadline_ns;
    size_t place; /* in ep->timers */
    hirate_due_fn *due;
    void *arg;
} hirate_epoll_timer_;

/* A ring with a head that is no call. A call that is not set is a ring of its own. */
typedef struct hirate_epoll_link_ {
    struct hirate_epoll_link_ *next;
    struct hirate_epoll_link_ *prev;
} hirate_epoll_link_;

typedef struct hirate_epoll_defer_ {
    hirate_epoll_link_ link; /* first */
    hirate_epoll_loop *ep;
    hirate_due_fn *due;
    void *arg;
} hirate_epoll_defer_;

struct hirate_epoll_loop {
    int epoll_fd;
    int timer_fd; /* in epoll_fd, with &timer_fd as its pointer */
    int event_fd; /* the same */
    volatile sig_atomic_t stopped;
    volatile sig_atomic_t in_turn; /* callbacks are running: nobody needs waking */
    int woken;                     /* event_fd was written for a deferred call */

    struct epoll_event events[HIRATE_EPOLL_EVENTS_];
    int next_event;
    int event_count;

    hirate_epoll_timer_ **timers; /* a heap with room for every timer there is, so that setting one cannot fail */
    size_t timers_set;
    size_t timers_made;
    size_t timers_room;
    int64_t armed_ns;
    int64_t turn_ns; /* when this turn's epoll_wait returned */

    hirate_epoll_link_ deferred;
    hirate_epoll_link_ calling; /* those of this turn */
};

/* -------------------------------------------------------------------------------------------------- watches -- */

static inline void *hirate_epoll_watch_new_(void *data, int fd, hirate_ready_fn *ready, void *arg)
{
    hirate_epoll_watch_ *w;

    if (fd < 0 || ready == NULL)
        return NULL;
    w = (hirate_epoll_watch_ *)calloc(1, sizeof *w);
    if (w == NULL)
        return NULL;
    w->ep = (hirate_epoll_loop *)data;
    w->fd = fd;
    w->ready = ready;
    w->arg = arg;
    return w;
}

/* A paused watch leaves the epoll descriptor, which would report its hang-up without end. */
static inline int hirate_epoll_watch_set_(void *watch, unsigned events)
{
    hirate_epoll_watch_ *w = (hirate_epoll_watch_ *)watch;
    struct epoll_event event;
    int op = w->events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;

    events &= (unsigned)HIRATE_READ | (unsigned)HIRATE_WRITE;
    if (events == w->events)
        return 0;
    if (events == 0)
        op = EPOLL_CTL_DEL;
    memset(&event, 0, sizeof event);
    if (events & HIRATE_READ)
        event.events |= (uint32_t)EPOLLIN;
    if (events & HIRATE_WRITE)
        event.events |= (uint32_t)EPOLLOUT;
    event.data.ptr = w;
    if (epoll_ctl(w->ep->epoll_fd, op, w->fd, &event) != 0)
        return errno == ENOMEM ? HIRATE_ENOMEM : HIRATE_ELOOP;
    w->events = events;
    return 0;
}

/* Events of this turn that were not told yet must not find the watch, nor a new one at its address. */
static inline void hirate_epoll_watch_free_(void *watch)
{
    hirate_epoll_watch_ *w = (hirate_epoll_watch_ *)watch;
    int i;

    if (w == NULL)
        return;
    (void)hirate_epoll_watch_set_(w, 0);
    for (i = w->ep->next_event; i < w->ep->event_count; i++)
        if (w->ep->events[i].data.ptr == w)
            w->ep->events[i].data.ptr = NULL;
    free(w);
}

/* --------------------------------------------------------------------------------------------------- timers -- */

static inline int64_t hirate_epoll_now_(void)
{
    struct timespec now;

    if (clock_gettime(HIRATE_EPOLL_CLOCK_, &now) != 0)
        abort(); /* Linux has this clock, and &now is right */
    return (int64_t)now.tv_sec * 1000000000 + (int64_t)now.tv_nsec;
}

static inline int hirate_epoll_arm_(hirate_epoll_loop *ep, int64_t deadline_ns)
{
    struct itimerspec at;

    memset(&at, 0, sizeof at); /* all zero: disarm */
    if (deadline_ns != HIRATE_EPOLL_NEVER_) {
        at.it_value.tv_sec = (time_t)(deadline_ns / 1000000000);
        at.it_value.tv_nsec = (long)(deadline_ns % 1000000000);
    }
    if (timerfd_settime(ep->timer_fd, TFD_TIMER_ABSTIME, &at, NULL) != 0)
        return HIRATE_ELOOP;
    ep->armed_ns = deadline_ns;
    return 0;
}

/* Keep the second invariant. A deadline that has passed counts as not armed once its turn is over, as setting the
 * timer descriptor anew is also what makes it unreadable. */
static inline int hirate_epoll_rearm_(hirate_epoll_loop *ep, int64_t passed_ns)
{
    int64_t first_ns = ep->timers_set > 0 ? ep->timers[0]->deadline_ns : HIRATE_EPOLL_NEVER_;

    if (first_ns < ep->armed_ns || ep->armed_ns <= passed_ns)
        return hirate_epoll_arm_(ep, first_ns);
    return 0;
}

static inline void hirate_epoll_timer_place_(hirate_epoll_loop *ep, hirate_epoll_timer_ *t, size_t place)
{
    ep->timers[place] = t;
    t->place = place;
}

/* Let t find its place, from `place` upwards and then downwards. */
static inline void hirate_epoll_timer_sift_(hirate_epoll_loop *ep, hirate_epoll_timer_ *t, size_t place)
{
    size_t child;

    while (place > 0 && t->deadline_ns < ep->timers[(place - 1) / 2]->deadline_ns) {
        hirate_epoll_timer_place_(ep, ep->timers[(place - 1) / 2], place);
        place = (place - 1) / 2;
    }
    while ((child = 2 * place + 1) < ep->timers_set) {
        if (child + 1 < ep->timers_set && ep->timers[child + 1]->deadline_ns < ep->timers[child]->deadline_ns)
            child++;
        if (t->deadline_ns <= ep->timers[child]->deadline_ns)
            break;
        hirate_epoll_timer_place_(ep, ep->timers[child], place);
        place = child;
    }
    hirate_epoll_timer_place_(ep, t, place);
}

static inline void hirate_epoll_timer_unset_(hirate_epoll_timer_ *t)
{
    hirate_epoll_loop *ep = t->ep;
    size_t place = t->place;
    hirate_epoll_timer_ *last;

    if (place == HIRATE_EPOLL_IDLE_)
        return;
    t->place = HIRATE_EPOLL_IDLE_;
    last = ep->timers[--ep->timers_set];
    if (last != t)
        hirate_epoll_timer_sift_(ep, last, place);
}

static inline int hirate_epoll_timers_reserve_(hirate_epoll_loop *ep)
{
    size_t room = ep->timers_room == 0 ? 8 : 2 * ep->timers_room;
    hirate_epoll_timer_ **timers;

    if (ep->timers_made < ep->timers_room)
        return 0;
    if (room > SIZE_MAX / sizeof *timers)
        return HIRATE_ENOMEM;
    timers = (hirate_epoll_timer_ **)realloc(ep->timers, room * sizeof *timers);
    if (timers == NULL)
        return HIRATE_ENOMEM;
    ep->timers = timers;
    ep->timers_room = room;
    return 0;
}

static inline void *hirate_epoll_timer_new_(void *data, hirate_due_fn *due, void *arg)
{
    hirate_epoll_loop *ep = (hirate_epoll_loop *)data;
    hirate_epoll_timer_ *t;

    if (due == NULL || hirate_epoll_timers_reserve_(ep) != 0)
        return NULL;
    t = (hirate_epoll_timer_ *)calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    t->ep = ep;
    t->place = HIRATE_EPOLL_IDLE_;
    t->due = due;
    t->arg = arg;
    ep->timers_made++;
    return t;
}

/* What is set during a turn is due in a later one. Then the end of the turn arms the timer descriptor. */
static inline int hirate_epoll_timer_set_(void *timer, int64_t delay_us)
{
    hirate_epoll_timer_ *t = (hirate_epoll_timer_ *)timer;
    hirate_epoll_loop *ep = t->ep;
    int64_t now_ns;
    int rc;

    hirate_epoll_timer_unset_(t);
    if (delay_us < 0)
        return 0;
    now_ns = hirate_epoll_now_();
    if (now_ns <= ep->turn_ns)
        now_ns = ep->turn_ns + 1;
    t->deadline_ns = HIRATE_EPOLL_NEVER_ - 1;
    if (delay_us < (t->deadline_ns - now_ns) / 1000)
        t->deadline_ns = now_ns + delay_us * 1000;
    ep->timers_set++;
    hirate_epoll_timer_sift_(ep, t, ep->timers_set - 1);
    if (ep->in_turn)
        return 0;
    rc = hirate_epoll_rearm_(ep, INT64_MIN);
    if (rc != 0)
        hirate_epoll_timer_unset_(t);
    return rc;
}

static inline void hirate_epoll_timer_free_(void *timer)
{
    hirate_epoll_timer_ *t = (hirate_epoll_timer_ *)timer;

    if (t == NULL)
        return;
    hirate_epoll_timer_unset_(t);
    t->ep->timers_made--;
    free(t);
}

/* ------------------------------------------------------------------------------------------- deferred calls -- */

static inline void hirate_epoll_link_init_(hirate_epoll_link_ *link)
{
    link->next = link;
    link->prev = link;
}

static inline void hirate_epoll_link_remove_(hirate_epoll_link_ *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    hirate_epoll_link_init_(link);
}

static inline void hirate_epoll_link_append_(hirate_epoll_link_ *head, hirate_epoll_link_ *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

static inline int hirate_epoll_link_alone_(const hirate_epoll_link_ *link)
{
    return link->next == link;
}

/* EAGAIN: its counter is full, so it is readable already. Keeps errno, for signal handlers. */
static inline int hirate_epoll_wake_(hirate_epoll_loop *ep)
{
    const uint64_t one = 1;
    int saved = errno;
    int rc = write(ep->event_fd, &one, sizeof one) == (ssize_t)sizeof one || errno == EAGAIN ? 0 : HIRATE_ELOOP;

    errno = saved;
    return rc;
}

/* Keep the third invariant. */
static inline int hirate_epoll_wake_for_deferred_(hirate_epoll_loop *ep)
{
    int rc;

    if (ep->woken || hirate_epoll_link_alone_(&ep->deferred))
        return 0;
    rc = hirate_epoll_wake_(ep);
    if (rc == 0)
        ep->woken = 1;
    return rc;
}

static inline void *hirate_epoll_defer_new_(void *data, hirate_due_fn *due, void *arg)
{
    hirate_epoll_defer_ *d;

    if (due == NULL)
        return NULL;
    d = (hirate_epoll_defer_ *)calloc(1, sizeof *d);
    if (d == NULL)
        return NULL;
    hirate_epoll_link_init_(&d->link);
    d->ep = (hirate_epoll_loop *)data;
    d->due = due;
    d->arg = arg;
    return d;
}

static inline int hirate_epoll_defer_set_(void *defer)
{
    hirate_epoll_defer_ *d = (hirate_epoll_defer_ *)defer;
    int rc;

    if (!hirate_epoll_link_alone_(&d->link))
        return 0;
    hirate_epoll_link_append_(&d->ep->deferred, &d->link);
    if (d->ep->in_turn)
        return 0;
    rc = hirate_epoll_wake_for_deferred_(d->ep);
    if (rc != 0)
        hirate_epoll_link_remove_(&d->link);
    return rc;
}

static inline void hirate_epoll_defer_free_(void *defer)
{
    hirate_epoll_defer_ *d = (hirate_epoll_defer_ *)defer;

    if (d == NULL)
        return;
    hirate_epoll_link_remove_(&d->link);
    free(d);
}

/* ----------------------------------------------------------------------------------------------------- turns -- */

static inline void hirate_epoll_drain_(hirate_epoll_loop *ep)
{
    uint64_t count;

    if (read(ep->event_fd, &count, sizeof count) == (ssize_t)sizeof count)
        ep->woken = 0;
}

/* Each of these returns how many callbacks it ran. A callback may free any handle, its own too. */
static inline int hirate_epoll_run_watches_(hirate_epoll_loop *ep)
{
    const struct epoll_event *event;
    hirate_epoll_watch_ *w;
    unsigned ready;
    int ran = 0;

    while (ep->next_event < ep->event_count) {
        event = &ep->events[ep->next_event++];
        if (event->data.ptr == &ep->event_fd)
            hirate_epoll_drain_(ep);
        if (event->data.ptr == NULL || event->data.ptr == &ep->event_fd || event->data.ptr == &ep->timer_fd)
            continue;
        w = (hirate_epoll_watch_ *)event->data.ptr;
        ready = 0;
        if (event->events & ((uint32_t)EPOLLIN | (uint32_t)EPOLLHUP | (uint32_t)EPOLLERR))
            ready |= (unsigned)HIRATE_READ;
        if (event->events & ((uint32_t)EPOLLOUT | (uint32_t)EPOLLHUP | (uint32_t)EPOLLERR))
            ready |= (unsigned)HIRATE_WRITE;
        ready &= w->events; /* it may have been paused in this turn */
        if (ready == 0)
            continue;
        ran++;
        w->ready(w->arg, ready);
    }
    return ran;
}

static inline int hirate_epoll_run_timers_(hirate_epoll_loop *ep)
{
    hirate_epoll_timer_ *t;
    int ran = 0;

    while (ep->timers_set > 0 && ep->timers[0]->deadline_ns <= ep->turn_ns) {
        t = ep->timers[0];
        hirate_epoll_timer_unset_(t);
        ran++;
        t->due(t->arg);
    }
    return ran;
}

static inline int hirate_epoll_run_deferred_(hirate_epoll_loop *ep)
{
    hirate_epoll_defer_ *d;
    int ran = 0;

    while (!hirate_epoll_link_alone_(&ep->deferred)) {
        d = (hirate_epoll_defer_ *)(void *)ep->deferred.next;
        hirate_epoll_link_remove_(&d->link);
        hirate_epoll_link_append_(&ep->calling, &d->link);
    }
    while (!hirate_epoll_link_alone_(&ep->calling)) {
        d = (hirate_epoll_defer_ *)(void *)ep->calling.next;
        hirate_epoll_link_remove_(&d->link);
        ran++;
        d->due(d->arg);
    }
    return ran;
}

/* One turn. timeout_ms as epoll_wait has it: 0 does not block, -1 blocks until there is something to do or a signal
 * came. Returns how many callbacks ran, or a negative code. */
static inline int hirate_epoll_turn_(hirate_epoll_loop *ep, int timeout_ms)
{
    int count = epoll_wait(ep->epoll_fd, ep->events, HIRATE_EPOLL_EVENTS_, timeout_ms);
    int ran;
    int rc;

    if (count < 0 && errno != EINTR)
        return HIRATE_ELOOP;
    ep->turn_ns = hirate_epoll_now_();
    ep->next_event = 0;
    ep->event_count = count < 0 ? 0 : count;
    ep->in_turn = 1;
    ran = hirate_epoll_run_watches_(ep);
    ran += hirate_epoll_run_timers_(ep);
    ran += hirate_epoll_run_deferred_(ep);
    ep->in_turn = 0;
    rc = hirate_epoll_rearm_(ep, ep->turn_ns);
    return rc != 0 ? rc : ran;
}

/* --------------------------------------------------------------------------------------------------- the API -- */

/* Free the loop, once every client on it is gone. Not from a callback. NULL is fine. */
static inline void hirate_epoll_free(hirate_epoll_loop *ep)
{
    if (ep == NULL)
        return;
    if (ep->event_fd >= 0)
        (void)close(ep->event_fd);
    if (ep->timer_fd >= 0)
        (void)close(ep->timer_fd);
    if (ep->epoll_fd >= 0)
        (void)close(ep->epoll_fd);
    free(ep->timers);
    free(ep);
}

static inline int hirate_epoll_hold_(hirate_epoll_loop *ep, int *fd)
{
    struct epoll_event event;

    memset(&event, 0, sizeof event);
    event.events = (uint32_t)EPOLLIN;
    event.data.ptr = fd;
    return *fd >= 0 && epoll_ctl(ep->epoll_fd, EPOLL_CTL_ADD, *fd, &event) == 0 ? 0 : HIRATE_ELOOP;
}

/*
 * Make a loop. It takes three descriptors. 0 with *out set, to be given to hirate_epoll_free(); or with *out unchanged
 * HIRATE_EINVAL (out is NULL), HIRATE_ENOMEM, or HIRATE_ELOOP: errno says why, EMFILE and ENFILE as a rule.
 */
static inline int hirate_epoll_new(hirate_epoll_loop **out)
{
    hirate_epoll_loop *ep;
    int saved;

    if (out == NULL)
        return HIRATE_EINVAL;
    ep = (hirate_epoll_loop *)calloc(1, sizeof *ep);
    if (ep == NULL)
        return HIRATE_ENOMEM;
    hirate_epoll_link_init_(&ep->deferred);
    hirate_epoll_link_init_(&ep->calling);
    ep->armed_ns = HIRATE_EPOLL_NEVER_;
    ep->timer_fd = -1;
    ep->event_fd = -1;
    ep->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (ep->epoll_fd >= 0)
        ep->timer_fd = timerfd_create(HIRATE_EPOLL_CLOCK_, TFD_NONBLOCK | TFD_CLOEXEC);
    if (ep->timer_fd >= 0)
        ep->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (ep->event_fd < 0 || hirate_epoll_hold_(ep, &ep->timer_fd) != 0 || hirate_epoll_hold_(ep, &ep->event_fd) != 0) {
        saved = errno;
        hirate_epoll_free(ep);
        errno = saved;
        return HIRATE_ELOOP;
    }
    *out = ep;
    return 0;
}

/*
 * Fill in *loop so that clients made on it run on `ep`, which must outlive them and belongs to their thread.
 * Cannot fail but for NULL arguments: HIRATE_EINVAL, with *loop unchanged.
 */
static inline int hirate_epoll(hirate_loop *loop, hirate_epoll_loop *ep)
{
    if (loop == NULL || ep == NULL)
        return HIRATE_EINVAL;
    memset(loop, 0, sizeof *loop);
    loop->struct_size = (uint32_t)sizeof *loop;
    loop->version = HIRATE_LOOP_VERSION;
    loop->data = ep;
    loop->watch_new = hirate_epoll_watch_new_;
    loop->watch_set = hirate_epoll_watch_set_;
    loop->watch_free = hirate_epoll_watch_free_;
    loop->timer_new = hirate_epoll_timer_new_;
    loop->timer_set = hirate_epoll_timer_set_;
    loop->timer_free = hirate_epoll_timer_free_;
    loop->defer_new = hirate_epoll_defer_new_;
    loop->defer_set = hirate_epoll_defer_set_;
    loop->defer_free = hirate_epoll_defer_free_;
    return 0;
}

/* The descriptor that is readable when hirate_epoll_process() has something to do. The loop's own: do not close it.
 * HIRATE_EINVAL for NULL. */
static inline int hirate_epoll_fd(const hirate_epoll_loop *ep)
{
    return ep != NULL ? ep->epoll_fd : HIRATE_EINVAL;
}

/*
 * Run what is due now, without blocking: turns, until one has left no deferred call or 16 were made; then the
 * descriptor stays readable. Returns how many callbacks ran, or HIRATE_EINVAL (NULL, or called from a callback) or
 * HIRATE_ELOOP (the system refused; errno says why), after which it may be called again.
 */
static inline int hirate_epoll_process(hirate_epoll_loop *ep)
{
    int turns = 0;
    int ran = 0;
    int rc;

    if (ep == NULL || ep->in_turn)
        return HIRATE_EINVAL;
    do {
        rc = hirate_epoll_turn_(ep, 0);
        if (rc < 0)
            break;
        ran = ran <= INT_MAX - rc ? ran + rc : INT_MAX;
        turns++;
    } while (!hirate_epoll_link_alone_(&ep->deferred) && turns < HIRATE_EPOLL_TURNS_);
    if (hirate_epoll_wake_for_deferred_(ep) != 0 && rc >= 0)
        rc = HIRATE_ELOOP;
    return rc < 0 ? rc : ran;
}

/*
 * Run until hirate_epoll_stop(), blocking while there is nothing to do. 0 when stopped, after the turn in which
 * that happened; HIRATE_EINVAL (NULL, or called from a callback) or HIRATE_ELOOP (errno says why).
 */
static inline int hirate_epoll_run(hirate_epoll_loop *ep)
{
    int rc = 0;

    if (ep == NULL || ep->in_turn)
        return HIRATE_EINVAL;
    while (!ep->stopped && rc >= 0)
        rc = hirate_epoll_turn_(ep, hirate_epoll_link_alone_(&ep->deferred) ? -1 : 0);
    ep->stopped = 0;
    if (hirate_epoll_wake_for_deferred_(ep) != 0 && rc >= 0)
        rc = HIRATE_ELOOP;
    return rc < 0 ? rc : 0;
}

/* Let hirate_epoll_run() return; when it is not running, the next one returns at once. May be called from callbacks
 * and from signal handlers. Cannot fail; NULL is fine. */
static inline void hirate_epoll_stop(hirate_epoll_loop *ep)
{
    if (ep == NULL)
        return;
    ep->stopped = 1;
    if (!ep->in_turn)
        (void)hirate_epoll_wake_(ep);
}

#endif
