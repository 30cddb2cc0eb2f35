/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault matrix: the processes of one fault, and what its director can do (see stage.h). */
#include "stage.h"

#include "load.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CALM_MS 150
#define PATIENCE_US INT64_C(60000000) /* for the client's end, after what is scaled */

int64_t stage_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int64_t wall_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* A millisecond or so of the director's time. */
static void rest(stage *s)
{
    if (s->moved)
        server_set_clock(s->moved, wall_us() + s->clock_us);
    nanosleep(&(struct timespec){0, s->moved ? 200000 : 1000000}, NULL);
}

/* The client's process: 0 while it runs. */
static bool client_ended(const stage *s, int *status)
{
    return waitpid(s->client, status, WNOHANG) != 0;
}

static void give_up(stage *s, const char *why)
{
    snprintf(s->report.why, sizeof s->report.why, "%s\n", why);
    s->report.complete = false;
    kill(s->client, SIGKILL);
    waitpid(s->client, NULL, 0);
    exit(1);
}

/* Wait until `*value` is `wanted`. */
static void await(stage *s, _Atomic int *value, int wanted, const char *what)
{
    int64_t end = stage_now_us() + PATIENCE_US;
    while (atomic_load(value) != wanted) {
        if (client_ended(s, &(int){0}) || stage_now_us() > end)
            give_up(s, what);
        rest(s);
    }
}

int64_t stage_scaled(const stage *s, int64_t ms)
{
    return ms * s->scale;
}

void stage_pass(stage *s, int64_t ms)
{
    int64_t end = stage_now_us() + ms * 1000;
    while (stage_now_us() < end)
        rest(s);
}

static void open_in(stage *s, const char *uri, enum stage_phase phase)
{
    snprintf(s->uri, sizeof s->uri, "%s", uri);
    atomic_store(&s->phase, phase);
    await(s, &s->loading, 1, "the client ended before its load began");
}

void stage_open(stage *s, const char *uri)
{
    open_in(s, uri, STAGE_CALM);
    stage_pass(s, stage_scaled(s, CALM_MS));
}

void stage_open_broken(stage *s, const char *uri)
{
    open_in(s, uri, STAGE_BROKEN);
}

void stage_break(stage *s)
{
    atomic_store(&s->phase, STAGE_BROKEN);
}

void stage_order(stage *s, enum stage_order order)
{
    atomic_store(&s->order, order);
    await(s, &s->order, ORDER_NONE, "the client ended before it did as ordered");
}

void stage_mend(stage *s)
{
    int status = 0;
    atomic_store(&s->mended_us, stage_now_us());
    atomic_store(&s->phase, STAGE_MENDED);
    int64_t end = stage_now_us() + PATIENCE_US * s->scale;
    while (!client_ended(s, &status)) {
        if (stage_now_us() > end)
            give_up(s, "the client hangs");
        rest(s);
    }
    size_t len = strlen(s->report.why);
    if (WIFSIGNALED(status))
        snprintf(s->report.why + len, sizeof s->report.why - len, "the client's process was killed by signal %d\n",
                 WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
        snprintf(s->report.why + len, sizeof s->report.why - len, "the client's process ended with status %d\n",
                 WEXITSTATUS(status));
}

void stage_pass_over(stage *s, const char *why)
{
    snprintf(s->note, sizeof s->note, "%s", why);
    kill(s->client, SIGKILL);
    waitpid(s->client, NULL, 0);
}

/* ---------------------------------------------------------------------------------------------- the processes -- */

/* Fork a process that does not outlive its parent, with every signal at its default. */
static pid_t fork_bound(void)
{
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        signal(SIGPIPE, SIG_DFL);
    }
    return pid;
}

static void direct(stage *s, const fault *f)
{
    s->client = fork_bound(); /* first, so that it has none of the servers' descriptors */
    if (s->client == 0) {
        while (atomic_load(&s->phase) == STAGE_SET_UP)
            nanosleep(&(struct timespec){0, 500000}, NULL);
        load_run(s);
        exit(0);
    }
    signal(SIGPIPE, SIG_IGN);
    f->run(s, f);
    exit(0); /* which stops servers that were left */
}

pid_t stage_begin(stage *s, const fault *f)
{
    s->losses = f->losses;
    s->load = (stage_load){.deadline_ms = 300, .stall_ms = 1000, .connect_ms = 500};
    pid_t director = fork_bound();
    if (director < 0) {
        perror("fork");
        exit(1);
    }
    if (director == 0)
        direct(s, f);
    return director;
}

bool stage_was_played(const stage *s, int status)
{
    return s->note[0] || (s->report.complete && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
