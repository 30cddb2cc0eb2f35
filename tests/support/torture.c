/* SPDX-License-Identifier: BSD-3-Clause */
/* Test support: let the n-th call of some kind fail, for every n (see torture.h). */
#include "torture.h"

#include "server.h"
#include "torture_run.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 30000 /* before a run is given up; never an expectation */
#define SINGLE_MS 5000    /* deadline where one call fails: nothing should come near it */
#define LASTING_MS 120    /* where all fail */
#define AT_ONCE 6         /* runs side by side: they mostly wait */
#define RUNS_A_MODE 24    /* without HIRATE_TORTURE */

const hirate_limit TORTURE_TOKENS = HIRATE_TOKEN_BUCKET("torture", 1000, HIRATE_RATE(1, HIRATE_HOURS(1)));

void torture_complain(run *r, const char *format, ...)
{
    va_list args;
    char text[300];
    r->t->pause(true);
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "FAILED: %s: %s\n", r->label, text);
    r->failures++;
    r->t->pause(false);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* --------------------------------------------------------------------------------------------- asking the server -- */

/* On a connection of the test's own. The reply's text in *text; nothing fails meanwhile. */
void torture_ask(run *r, bytes *text, size_t argc, const char *const *argv)
{
    size_t len[4];
    bytes command = {0};
    resp_stream stream;
    r->t->pause(true);
    for (size_t i = 0; i < argc; i++)
        len[i] = strlen(argv[i]);
    resp_format(&command, argc, argv, len);
    resp_open(&stream, resp_connect_unix(r->path));
    if (!resp_write(stream.fd, command.data, command.len) || !resp_read_reply(&stream, NULL, text))
        torture_complain(r, "the server does not answer");
    resp_close(&stream);
    bytes_free(&command);
    r->t->pause(false);
}

/* Tokens taken of a name, from the server's own memory: 0xB1, 0x11, then p, units and at as doubles. */
static uint64_t tokens_taken(run *r, const char *name)
{
    char key[80];
    bytes state = {0};
    double p = 0, units = 0;
    snprintf(key, sizeof key, "hirate:%s:%s", TORTURE_TOKENS.policy, name);
    torture_ask(r, &state, 2, (const char *const[]){"GET", key});
    uint64_t taken = 0;
    if (state.len == 26) {
        memcpy(&p, state.data + 2, sizeof p);
        memcpy(&units, state.data + 10, sizeof units);
        taken = (uint64_t)ceil(((double)TORTURE_TOKENS.capacity * p - units) /
                               p); /* less than one token comes back meanwhile */
    }
    r->t->pause(true);
    bytes_free(&state);
    r->t->pause(false);
    return taken;
}

/* ------------------------------------------------------------------------------------------------ one client -- */

static void on_answer(hirate *h, const hirate_result *result, void *user)
{
    answer *a = user;
    run *r = a->run;
    (void)h;
    if (r->submitting)
        torture_complain(r, "a callback inside the call that submitted");
    if (a->calls++)
        torture_complain(r, "a second callback");
    if (!a->accepted)
        torture_complain(r, "a callback for what was refused");
    r->called++;
    r->ok += result->error == 0;
    r->late += result->error == HIRATE_EDEADLINE || result->error == HIRATE_ECONNECT;
    if (a->name >= 0 && result->charge == HIRATE_CHARGE_YES)
        r->yes[a->name] += result->cost;
    if (a->name >= 0 && result->charge == HIRATE_CHARGE_MAYBE)
        r->maybe[a->name] += result->cost;
    if (a->heard)
        a->heard(r, result);
}

bool torture_submit(run *r, hirate_request *request, int name, torture_heard_fn *heard, uint64_t *id)
{
    answer *a = &r->answers[r->count++];
    *a = (answer){.run = r, .name = name, .heard = heard, .accepted = true};
    request->deadline_ms = r->lasting && r->t->fired() ? LASTING_MS : SINGLE_MS;
    request->cb = on_answer;
    request->user = a;
    r->submitting = true;
    int rc = hirate_submit(r->h, request, id);
    r->submitting = false;
    a->accepted = rc == 0;
    r->accepted += rc == 0;
    if (rc && rc != HIRATE_ENOMEM && rc != HIRATE_ELOOP)
        torture_complain(r, "submit: %s", hirate_strerror(rc));
    return rc == 0;
}

static bool submit(run *r, enum hirate_op op, int name, uint64_t cost, uint64_t *id)
{
    hirate_request request;
    hirate_request_init(&request);
    request.op = op;
    request.limit = &TORTURE_TOKENS;
    request.name = name < NAMES ? r->names[name] : "reset-me";
    request.name_len = strlen(request.name);
    request.cost = cost;
    return torture_submit(r, &request, op == HIRATE_OP_ACQUIRE ? name : -1, NULL, id);
}

/* One turn; the wait itself is the test's. */
void torture_turn(run *r, int ms)
{
    struct pollfd wait = {.fd = hirate_epoll_fd(r->ep), .events = POLLIN};
    syscall(SYS_poll, &wait, 1, ms);
    hirate_epoll_process(r->ep);
}

void torture_wait(run *r)
{
    for (int64_t end = now_ms() + PATIENCE_MS; r->called < r->accepted && now_ms() < end;)
        torture_turn(r, 50);
    if (r->called != r->accepted)
        torture_complain(r, "%d submissions accepted, %d callbacks", r->accepted, r->called);
}

/* Without memory or descriptors there is no client; then nothing may be left of it. Once more, with them back. */
static bool open_client(run *r)
{
    hirate_options options;
    hirate_options_init(&options);
    options.uri = r->uri;
    for (int tries = 0; tries < 2; tries++) {
        int rc = hirate_epoll_new(&r->ep);
        if (!rc && !(rc = hirate_epoll(&r->loop, r->ep)) && !(rc = hirate_new(&r->h, &r->loop, &options)))
            return true;
        if (rc != HIRATE_ENOMEM && rc != HIRATE_ELOOP)
            torture_complain(r, "opening: %s", hirate_strerror(rc));
        if (r->ep)
            hirate_epoll_free(r->ep);
        r->ep = NULL;
        if (!r->t->fired())
            torture_complain(r, "opening failed by itself");
        r->t->disarm();
    }
    return false;
}

/* The end of a connection, as the client sees it: its newest socket is shut down. */
static void cut_connection(run *r)
{
    r->t->pause(true);
    for (int fd = 255; fd > 2; fd--) {
        int type = 0;
        socklen_t len = sizeof type;
        if (syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_STREAM) {
            shutdown(fd, SHUT_RDWR);
            break;
        }
    }
    r->t->pause(false);
}

static void on_closed(void *user)
{
    ((run *)user)->closed = true;
}

static void close_client(run *r)
{
    if (hirate_close(r->h, on_closed, r)) {
        if (!r->t->fired())
            torture_complain(r, "close: %s", hirate_last_error(r->h));
        hirate_free(r->h);
        r->closed = true;
    }
    for (int64_t end = now_ms() + PATIENCE_MS; !r->closed && now_ms() < end;)
        torture_turn(r, 50);
    if (!r->closed)
        torture_complain(r, "on_closed did not come");
    if (r->called != r->accepted)
        torture_complain(r, "after closing: %d submissions accepted, %d callbacks", r->accepted, r->called);
    hirate_epoll_free(r->ep);
    r->ep = NULL;
}

/* What fails has stopped failing: the client must decide again, the same one. */
static void check_recovered(run *r)
{
    r->t->disarm();
    int before = r->ok;
    /* The breaker may be open, and lets a probe through only now and then: within a backoff's longest step. */
    for (int64_t end = now_ms() + PATIENCE_MS; r->ok == before && now_ms() < end; torture_turn(r, 20)) {
        if (!submit(r, HIRATE_OP_ACQUIRE, 0, 1, NULL))
            torture_complain(r, "a submission is refused although nothing fails any more");
        torture_wait(r);
    }
    if (r->ok == before)
        torture_complain(r, "nothing is decided although nothing fails any more");
}

static void live(run *r)
{
    bytes none = {0};
    uint64_t id;

    for (int i = 0; i < 3; i++)
        submit(r, HIRATE_OP_ACQUIRE, 0, 1, NULL);
    submit(r, HIRATE_OP_ACQUIRE, 1, 2, NULL);
    submit(r, HIRATE_OP_PEEK, 0, 1, NULL);
    submit(r, HIRATE_OP_RESET, NAMES, 1, NULL);
    torture_wait(r);
    torture_ask(r, &none, 2, (const char *const[]){"SCRIPT", "FLUSH"});
    submit(r, HIRATE_OP_ACQUIRE, 0, 3, NULL);
    torture_turn(r, 0); /* written: what follows gathers behind it */
    submit(r, HIRATE_OP_ACQUIRE, 1, 5, NULL);
    torture_wait(r);
    cut_connection(r);
    submit(r, HIRATE_OP_ACQUIRE, 0, 7, NULL);
    torture_wait(r);
    submit(r, HIRATE_OP_ACQUIRE, 1, 11, NULL);
    if (submit(r, HIRATE_OP_ACQUIRE, 0, 13, &id))
        hirate_cancel(r->h, id);
    if (submit(r, HIRATE_OP_ACQUIRE, 1, 17, &id)) {
        torture_turn(r, 0);
        hirate_cancel(r->h, id);
    }
    torture_wait(r);
    torture_hold(r);
    r->t->pause(true);
    bytes_free(&none);
    r->t->pause(false);
    if (r->t->fired())
        check_recovered(r);
    submit(r, HIRATE_OP_ACQUIRE, 0, 19, NULL);
    submit(r, HIRATE_OP_ACQUIRE, 1, 23, NULL);
    torture_hold_at_close(r);
    torture_turn(r, 0);
    submit(r, HIRATE_OP_ACQUIRE, 0, 29, NULL);
}

static void check_charges(run *r)
{
    nanosleep(&(struct timespec){0, 10000000}, NULL); /* what was written last may be under way */
    for (int i = 0; i < NAMES; i++) {
        uint64_t taken = tokens_taken(r, r->names[i]);
        if (taken < r->yes[i] || taken > r->yes[i] + r->maybe[i])
            torture_complain(r, "name %d: %llu tokens taken, %llu told, %llu perhaps", i, (unsigned long long)taken,
                             (unsigned long long)r->yes[i], (unsigned long long)r->maybe[i]);
    }
    torture_check_held(r);
}

static int open_descriptors(run *r)
{
    int count = 0;
    r->t->pause(true);
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        count++;
    closedir(dir);
    r->t->pause(false);
    return count;
}

/* A resolver's thread may outlive its client for a moment. Blocks that are left are complained of, or told in *left. */
static void check_nothing_left(run *r, long live_before, int fds_before, bool *left)
{
    int64_t end = now_ms() + 3000;
    while (now_ms() < end && ((r->t->live && r->t->live() != live_before) || open_descriptors(r) != fds_before))
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    if (r->t->live && r->t->live() != live_before && left)
        *left = true;
    else if (r->t->live && r->t->live() != live_before)
        torture_complain(r, "%ld blocks more are allocated than before", r->t->live() - live_before);
    if (open_descriptors(r) != fds_before)
        torture_complain(r, "%d descriptors more are open than before", open_descriptors(r) - fds_before);
}

/* -------------------------------------------------------------------------------------------------- one run -- */

typedef struct target {
    const torture *t;
    const char *path, *uri;
    const char *kind; /* of connection */
} target;

/* Returns the number of failures; *seen: how many calls there were. `first`: the C library may allocate for good; left:
 * as above. */
static int run_one(const target *to, int mode, long n, long *seen, bool first, bool *left)
{
    char label[100];
    const torture_mode *m = &to->t->modes[mode];
    run r = {.t = to->t, .label = label, .path = to->path, .uri = to->uri, .lasting = m->lasting};

    snprintf(label, sizeof label, "%s, %s, call %ld", to->kind, m->name, n);
    static int runs; /* no run uses another's names */
    runs++;
    for (int i = 0; i < NAMES; i++)
        snprintf(r.names[i], sizeof r.names[i], "%d-%d-%d", i, runs, (int)getpid());
    int fds_before = open_descriptors(&r);
    long live_before = r.t->live ? r.t->live() : 0;
    r.t->arm(n, mode);
    if (open_client(&r)) {
        live(&r);
        close_client(&r);
    }
    *seen = r.t->seen();
    r.t->disarm();
    if (!first)
        check_nothing_left(&r, live_before, fds_before, left);
    check_charges(&r);
    if (!m->lasting && r.late)
        torture_complain(&r, "one failing call made %d answers late", r.late);
    return r.failures;
}

/* The same call may make the C library load another name service, for good. So where blocks are left it fails again. */
static int run_again_if_left(const target *to, int mode, long n, long *seen)
{
    bool left = false;
    int failures = run_one(to, mode, n, seen, false, &left);
    return failures + (left ? run_one(to, mode, n, seen, false, NULL) : 0);
}

typedef struct totals {
    int passed, failed;
} totals;

static void reap(totals *sum, const target *to, int mode, const pid_t *pids, const long *numbers, int *running)
{
    int status;
    pid_t pid = wait(&status);
    if (pid < 0)
        return;
    --*running;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        sum->passed++;
        return;
    }
    sum->failed++;
    for (int i = 0; i < AT_ONCE && WIFSIGNALED(status); i++)
        if (pids[i] == pid)
            printf("FAILED: %s, %s, call %ld: ended by signal %d\n", to->kind, to->t->modes[mode].name, numbers[i],
                   WTERMSIG(status));
}

static long step_for(long total)
{
    const char *wanted = getenv("HIRATE_TORTURE");
    if (wanted && strcmp(wanted, "full") == 0)
        return 1;
    if (wanted && atol(wanted) > 0)
        return atol(wanted);
    return (total + RUNS_A_MODE - 1) / RUNS_A_MODE + !total;
}

/* Built for coverage, a run's counts are written before it ends; it must not end as the test does, server and all. */
extern void __gcov_dump(void) __attribute__((weak));

static void end_run(int status)
{
    if (__gcov_dump)
        __gcov_dump();
    _exit(status);
}

static void run_mode(const target *to, int mode, totals *sum)
{
    pid_t pids[AT_ONCE] = {0};
    long numbers[AT_ONCE] = {0}, total = 0;
    int running = 0;

    sum->failed += run_again_if_left(to, mode, LONG_MAX, &total) != 0; /* nothing fails: how many calls are there? */
    long step = step_for(total), runs = 0;
    for (long n = 1 + mode % step; n <= total + 2; n += step, runs++) {
        while (running >= AT_ONCE)
            reap(sum, to, mode, pids, numbers, &running);
        int slot = 0;
        while (slot < AT_ONCE - 1 && pids[slot] > 0 && kill(pids[slot], 0) == 0)
            slot++;
        fflush(NULL);
        pid_t pid = fork();
        if (pid < 0)
            break;
        if (pid == 0)
            end_run(run_again_if_left(to, mode, n, &total) ? 1 : 0);
        pids[slot] = pid;
        numbers[slot] = n;
        running++;
    }
    while (running)
        reap(sum, to, mode, pids, numbers, &running);
    printf("%s, %s: %ld calls, %ld runs\n", to->kind, to->t->modes[mode].name, total, runs);
}

int torture_main(const torture *t, int argc, char **argv)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!server_available())
        return 77;
    server *redis = server_start(&(server_options){.tcp = true});
    char by_name[64];
    snprintf(by_name, sizeof by_name, "redis://localhost:%d", server_port(redis));
    const target targets[] = {
        {t, server_path(redis), server_uri(redis), "unix"},
        {t, server_path(redis), by_name, "name"},
    };
    totals sum = {0};
    long seen;
    for (size_t i = 0; i < (t->no_threads ? 1 : 2); i++) {
        run_one(&targets[i], 0, LONG_MAX, &seen, true, NULL); /* what the C library allocates once and for all */
        for (int mode = 0; t->modes[mode].name; mode++) {
            if (argc < 3)
                run_mode(&targets[i], mode, &sum);
            else if (strcmp(argv[1], t->modes[mode].name) == 0)
                sum.failed += run_again_if_left(&targets[i], mode, atol(argv[2]), &seen);
        }
    }
    server_stop(redis);
    printf("%d passed, %d failed\n", sum.passed, sum.failed);
    return sum.failed ? 1 : 0;
}
