/* SPDX-License-Identifier: BSD-3-Clause */
/* Test support: a world for one client in which nothing happens by itself (see sim.h). */
#include "sim.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define HANDLES_MOST 32
#define EPOCH_S      1700000000 /* when the world began, in its calendar */
#define EXPORTED __attribute__((visibility("default")))

enum kind { FREE, WATCH, TIMER, DEFER };

typedef struct handle {
    enum kind kind;
    sim *owner;
    int fd;
    unsigned events;
    bool set;
    int64_t due_us;
    hirate_ready_fn *ready;
    hirate_due_fn *due;
    void *arg;
    uint64_t born; /* tells a handle from a later one in its place */
} handle;

struct sim {
    int64_t now_us, lag_us;
    bool has_calendar;
    uint64_t random, births;
    hirate_loop loop;
    handle handles[HANDLES_MOST];
    int listener;
    char path[64];
    char uri[80];
};

static sim *world; /* while there is one, its clock is the program's */

EXPORTED int clock_gettime(clockid_t clock, struct timespec *now)
{
    bool monotonic = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE;
    if (!world || !(monotonic || (clock == CLOCK_REALTIME && world->has_calendar)))
        return (int)syscall(SYS_clock_gettime, clock, now);
    int64_t now_us = world->now_us - (clock == CLOCK_MONOTONIC_COARSE ? world->lag_us : 0);
    now->tv_sec = (monotonic ? 0 : EPOCH_S) + now_us / 1000000;
    now->tv_nsec = now_us % 1000000 * 1000;
    return 0;
}

static uint64_t next_random(sim *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

EXPORTED ssize_t getrandom(void *to, size_t len, unsigned flags)
{
    if (!world)
        return syscall(SYS_getrandom, to, len, flags);
    for (size_t i = 0; i < len; i++)
        ((unsigned char *)to)[i] = (unsigned char)(next_random(world) >> 24);
    return (ssize_t)len;
}

static void check(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

/* -------------------------------------------------------------------------------------------------- the loop -- */

static handle *handle_new(sim *s, enum kind kind, void *arg)
{
    for (handle *h = s->handles; h < s->handles + HANDLES_MOST; h++)
        if (h->kind == FREE) {
            *h = (handle){.kind = kind, .owner = s, .arg = arg, .born = ++s->births};
            return h;
        }
    return NULL;
}

static void handle_free(void *h)
{
    check(((handle *)h)->kind != FREE, "a handle freed twice");
    ((handle *)h)->kind = FREE;
}

static void *watch_new(void *data, int fd, hirate_ready_fn *ready, void *arg)
{
    handle *h = handle_new(data, WATCH, arg);
    if (h) {
        h->fd = fd;
        h->ready = ready;
    }
    return h;
}

static int watch_set(void *watch, unsigned events)
{
    handle *h = watch;
    check(h->kind == WATCH, "no watch");
    h->events = events;
    return 0;
}

static void *timer_new(void *data, hirate_due_fn *due, void *arg)
{
    handle *h = handle_new(data, TIMER, arg);
    if (h)
        h->due = due;
    return h;
}

static int timer_set(void *timer, int64_t delay_us)
{
    handle *h = timer;
    check(h->kind == TIMER, "no timer");
    h->set = delay_us >= 0;
    h->due_us = delay_us > INT64_MAX - h->owner->now_us ? INT64_MAX : h->owner->now_us + delay_us;
    return 0;
}

static void *defer_new(void *data, hirate_due_fn *due, void *arg)
{
    handle *h = handle_new(data, DEFER, arg);
    if (h)
        h->due = due;
    return h;
}

static int defer_set(void *defer)
{
    check(((handle *)defer)->kind == DEFER, "no deferred call");
    ((handle *)defer)->set = true;
    return 0;
}

static bool run_watches(sim *s)
{
    bool ran = false;
    for (handle *h = s->handles; h < s->handles + HANDLES_MOST; h++) {
        if (h->kind != WATCH || !h->events)
            continue;
        struct pollfd wait = {.fd = h->fd};
        wait.events = (short)((h->events & HIRATE_READ ? POLLIN : 0) | (h->events & HIRATE_WRITE ? POLLOUT : 0));
        if (poll(&wait, 1, 0) <= 0)
            continue;
        bool over = wait.revents & (POLLERR | POLLHUP | POLLNVAL);
        unsigned events = (wait.revents & POLLIN || over ? (unsigned)HIRATE_READ : 0) |
                          (wait.revents & POLLOUT || over ? (unsigned)HIRATE_WRITE : 0);
        h->ready(h->arg, events & h->events);
        ran = true;
    }
    return ran;
}

/* Those that were set before this step began: what they set anew has its turn later. */
static bool run_due(sim *s, enum kind kind)
{
    uint64_t ready[HANDLES_MOST];
    bool ran = false;
    for (int i = 0; i < HANDLES_MOST; i++) {
        const handle *h = &s->handles[i];
        ready[i] = h->kind == kind && h->set && (kind == DEFER || h->due_us <= s->now_us) ? h->born : 0;
    }
    for (int i = 0; i < HANDLES_MOST; i++) {
        handle *h = &s->handles[i];
        if (!ready[i] || h->kind != kind || h->born != ready[i] || !h->set)
            continue;
        h->set = false;
        h->due(h->arg);
        ran = true;
    }
    return ran;
}

bool sim_turn(sim *s)
{
    bool ran = run_watches(s);
    ran |= run_due(s, TIMER);
    ran |= run_due(s, DEFER);
    return ran;
}

void sim_settle(sim *s)
{
    for (int turns = 0; sim_turn(s); turns++)
        check(turns < 100000, "the loop is never at rest");
}

void sim_pass(sim *s, int64_t us)
{
    s->now_us += us;
}

void sim_keep_calendar(sim *s)
{
    s->has_calendar = true;
}

void sim_lag(sim *s, int64_t us)
{
    s->lag_us = us;
}

int64_t sim_now_us(const sim *s)
{
    return s->now_us;
}

int64_t sim_next_us(const sim *s)
{
    int64_t next = INT64_MAX;
    for (const handle *h = s->handles; h < s->handles + HANDLES_MOST; h++)
        if (h->kind == TIMER && h->set && h->due_us < next)
            next = h->due_us;
    return next;
}

size_t sim_handles(const sim *s)
{
    size_t count = 0;
    for (const handle *h = s->handles; h < s->handles + HANDLES_MOST; h++)
        count += h->kind != FREE;
    return count;
}

/* ------------------------------------------------------------------------------------------------ the sockets -- */

void sim_listen(sim *s, bool on)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!on && s->listener >= 0) {
        close(s->listener);
        unlink(s->path);
        s->listener = -1;
    }
    if (!on || s->listener >= 0)
        return;
    memcpy(address.sun_path, s->path, strlen(s->path));
    s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    check(s->listener >= 0, "socket");
    check(bind(s->listener, (const struct sockaddr *)&address, sizeof address) == 0, "bind");
    check(listen(s->listener, 64) == 0, "listen");
}

int sim_accept(sim *s)
{
    return s->listener < 0 ? -1 : accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

sim *sim_new(uint64_t seed)
{
    sim *s = calloc(1, sizeof *s);
    check(s != NULL && !world, "a world");
    s->now_us = 1000000000;
    s->random = seed * 2 + 1;
    s->listener = -1;
    snprintf(s->path, sizeof s->path, "/tmp/hirate-sim-%d.sock", (int)getpid());
    snprintf(s->uri, sizeof s->uri, "unix://%s", s->path);
    unlink(s->path);
    s->loop = (hirate_loop){
        .struct_size = sizeof s->loop,
        .version = HIRATE_LOOP_VERSION,
        .data = s,
        .watch_new = watch_new,
        .watch_set = watch_set,
        .watch_free = handle_free,
        .timer_new = timer_new,
        .timer_set = timer_set,
        .timer_free = handle_free,
        .defer_new = defer_new,
        .defer_set = defer_set,
        .defer_free = handle_free,
    };
    sim_listen(s, true);
    world = s;
    return s;
}

void sim_free(sim *s)
{
    sim_listen(s, false);
    world = NULL;
    free(s);
}

const char *sim_uri(const sim *s)
{
    return s->uri;
}

const hirate_loop *sim_loop(sim *s)
{
    return &s->loop;
}
