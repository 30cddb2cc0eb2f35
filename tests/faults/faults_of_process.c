/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault matrix: what can happen to a server's process and to its connections. */
#include "stage.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static const char *const KEEPING[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
static const char *const DEBUGGING[] = {"--enable-debug-command", "yes", NULL};

/* Over TCP and over unix sockets in turn, as the two report an end differently. */
static const char *tcp(server *redis)
{
    return server_tcp_uri(redis, "127.0.0.1");
}

static void kill_and_restart(stage *s, const server_options *options, int64_t down_ms)
{
    server *redis = server_start(options);
    stage_open(s, options->tcp ? tcp(redis) : server_uri(redis));
    stage_break(s);
    server_kill(redis);
    stage_pass(s, stage_scaled(s, down_ms));
    server_restart(redis);
    stage_mend(s);
    server_stop(redis);
}

static void run_kill(stage *s, const fault *f)
{
    (void)f;
    kill_and_restart(s, &(server_options){.tcp = true}, 300);
}

static void run_kill_unix(stage *s, const fault *f)
{
    (void)f;
    kill_and_restart(s, &(server_options){0}, 1200);
}

static void run_kill_keeping(stage *s, const fault *f)
{
    (void)f;
    kill_and_restart(s, &(server_options){.tcp = true, .args = KEEPING}, 300);
}

static void run_absent(stage *s, const fault *f)
{
    (void)f;
    server *redis = server_start(&(server_options){.tcp = true});
    server_kill(redis);
    stage_open_broken(s, tcp(redis));
    stage_pass(s, stage_scaled(s, 600));
    server_restart(redis);
    stage_mend(s);
    server_stop(redis);
}

static void stop_for(stage *s, int64_t stall_ms, int64_t ms)
{
    server *redis = server_start(&(server_options){.tcp = true});
    s->load.stall_ms = stall_ms;
    stage_open(s, tcp(redis));
    stage_break(s);
    server_pause(redis);
    stage_pass(s, ms);
    server_resume(redis);
    stage_mend(s);
    server_stop(redis);
}

static void run_stop_short(stage *s, const fault *f)
{
    (void)f;
    stop_for(s, 2000, 600);
}

static void run_stop_long(stage *s, const fault *f)
{
    (void)f;
    stop_for(s, 400, stage_scaled(s, 1200));
}

/* Nothing is read while a lot is sent; within every deadline, so nothing may get lost. */
static void run_slow_reader(stage *s, const fault *f)
{
    (void)f;
    server *redis = server_start(NULL);
    s->load = (stage_load){.deadline_ms = 10000, .stall_ms = 8000, .connect_ms = 500, .max_calls = 64, .wide = true};
    stage_open(s, server_uri(redis));
    stage_break(s);
    server_pause(redis);
    stage_pass(s, stage_scaled(s, 700));
    server_resume(redis);
    stage_mend(s);
    server_stop(redis);
}

/* -------------------------------------------------------------------------------------- a word of the server's -- */

typedef struct word {
    const char *command;
    int64_t every_ms;    /* again and again while the fault is on; 0: once */
    int64_t lasts_ms;    /* of the fault */
    const char *counter; /* of INFO commandstats, that must have moved; NULL: none */
} word;

static void run_word(stage *s, const fault *f)
{
    const word *w = f->arg;
    server *redis = server_start(NULL);
    stage_open(s, server_uri(redis));
    int64_t before = w->counter ? server_info(redis, "commandstats", w->counter) : 0;
    stage_break(s);
    int64_t end = stage_now_us() + stage_scaled(s, w->lasts_ms) * 1000;
    server_ask(redis, "%s", w->command);
    while (w->every_ms && stage_now_us() < end) {
        stage_pass(s, w->every_ms);
        server_ask(redis, "%s", w->command);
    }
    if (stage_now_us() < end)
        stage_pass(s, (end - stage_now_us()) / 1000);
    if (w->counter && server_info(redis, "commandstats", w->counter) > before)
        atomic_fetch_add(&s->bitten, 1);
    stage_mend(s);
    server_stop(redis);
}

static void run_debug_sleep(stage *s, const fault *f)
{
    (void)f;
    server *redis = server_start(NULL);
    bool asks = server_version(redis) >= 700; /* for a permission to debug */
    server_stop(redis);
    redis = server_start(&(server_options){.args = asks ? DEBUGGING : NULL});
    s->load.stall_ms = 2000;
    stage_open(s, server_uri(redis));
    stage_break(s);
    if (strcmp(server_ask(redis, "DEBUG SLEEP 0.7"), "OK") == 0)
        atomic_fetch_add(&s->bitten, 1);
    stage_mend(s);
    server_stop(redis);
}

/* ------------------------------------------------------------------------------------------------- its clock -- */

static void move_clock(stage *s, int64_t by_us)
{
    server *redis = server_start(&(server_options){.fake_clock = true});
    s->moved = redis;
    stage_open(s, server_uri(redis));
    stage_break(s);
    s->clock_us = by_us;
    stage_pass(s, stage_scaled(s, 400));
    stage_mend(s); /* and there it stays */
    s->moved = NULL;
    server_stop(redis);
}

static void run_clock_back(stage *s, const fault *f)
{
    (void)f;
    move_clock(s, -STAGE_CLOCK_STEP_US);
}

static void run_clock_forward(stage *s, const fault *f)
{
    (void)f;
    move_clock(s, STAGE_CLOCK_STEP_US);
}

static const word CLIENT_KILL = {"CLIENT KILL TYPE normal SKIPME yes", 20, 500, NULL};
static const word CLIENT_PAUSE = {"CLIENT PAUSE 700", 0, 700, NULL};
static const word SCRIPT_FLUSH = {"SCRIPT FLUSH", 1, 500, "cmdstat_eval"};
static const word FLUSHALL = {"FLUSHALL", 0, 300, "cmdstat_flushall"};

static const fault FAULTS[] = {
    {"kill -9, restart", 1, FELT_DEGRADED, run_kill, NULL},
    {"kill -9, away 1.2 s, unix socket", 1, FELT_DEGRADED, run_kill_unix, NULL},
    {"kill -9, restart, fsync always", 0, FELT_DEGRADED, run_kill_keeping, NULL},
    {"absent at start", 0, FELT_DEGRADED, run_absent, NULL},
    {"stopped, less than stall", 0, FELT_DEGRADED, run_stop_short, NULL},
    {"stopped, more than stall", 0, FELT_RECONNECT, run_stop_long, NULL},
    {"reads nothing while much is sent", 0, FELT_NOT, run_slow_reader, NULL},
    {"client kill, in a loop", 0, FELT_RECONNECT, run_word, &CLIENT_KILL},
    {"client pause", 0, FELT_DEGRADED, run_word, &CLIENT_PAUSE},
    {"script flush, in a loop", 0, FELT_BITTEN, run_word, &SCRIPT_FLUSH},
    {"flushall", 1, FELT_BITTEN, run_word, &FLUSHALL},
    {"debug sleep", 0, FELT_BITTEN, run_debug_sleep, NULL},
    {"clock set back an hour", 0, FELT_NOT, run_clock_back, NULL},
    {"clock set forward an hour", 1, FELT_NOT, run_clock_forward, NULL},
};

const fault_list FAULTS_OF_PROCESS = {FAULTS, sizeof FAULTS / sizeof *FAULTS};
