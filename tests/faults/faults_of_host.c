/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault matrix: what the program around the client can do to it: no descriptors, a loop that is late, too much at
 * once, and closing or freeing inside callbacks while other things go wrong. */
#include "relay.h"

#include <stdatomic.h>
#include <string.h>

#define KILL_CLIENTS "CLIENT KILL TYPE normal SKIPME yes"

static void run_descriptors(stage *s, const fault *f)
{
    (void)f;
    server *redis = server_start(&(server_options){.tcp = true});
    stage_open(s, server_tcp_uri(redis, "127.0.0.1"));
    stage_break(s);
    stage_order(s, ORDER_TAKE_DESCRIPTORS);
    server_ask(redis, KILL_CLIENTS);
    stage_pass(s, stage_scaled(s, 600));
    stage_order(s, ORDER_GIVE_DESCRIPTORS);
    stage_mend(s);
    server_stop(redis);
}

static void give_order(stage *s, enum stage_order order)
{
    server *redis = server_start(NULL);
    stage_open(s, server_uri(redis));
    stage_break(s);
    for (unsigned i = 0; i < s->scale; i++)
        stage_order(s, order);
    stage_mend(s);
    server_stop(redis);
}

static void run_late_loop(stage *s, const fault *f)
{
    (void)f;
    give_order(s, ORDER_HOLD_LOOP);
}

static void run_million(stage *s, const fault *f)
{
    (void)f;
    s->load.deadline_ms = 2000;
    give_order(s, ORDER_MILLION);
}

/* ----------------------------------------------------------------------------------- ended inside a callback -- */

typedef struct ending {
    enum stage_end how;
    enum { NOTHING, KILLED, STOPPED, CUT } meanwhile;
} ending;

static void run_ending(stage *s, const fault *f)
{
    const ending *e = f->arg;
    server *redis = server_start(&(server_options){.tcp = true});
    s->load.end = e->how;
    stage_open(s, server_tcp_uri(redis, "127.0.0.1"));
    stage_break(s);
    if (e->meanwhile == KILLED)
        server_kill(redis);
    else if (e->meanwhile == STOPPED)
        server_pause(redis);
    for (int64_t end = stage_now_us() + stage_scaled(s, 600) * 1000; stage_now_us() < end;) {
        if (e->meanwhile == CUT)
            server_ask(redis, KILL_CLIENTS);
        stage_pass(s, 10);
    }
    if (e->meanwhile == KILLED)
        server_restart(redis);
    else if (e->meanwhile == STOPPED)
        server_resume(redis);
    stage_mend(s);
    server_stop(redis);
}

static void run_ending_in_garbage(stage *s, const fault *f)
{
    static const misdeed garbage = {INSTEAD, "$5\r\nwhat?\r\n", 0, 0};
    static relay r;
    s->load.end = *(const enum stage_end *)f->arg;
    relay_start(&r, s, &garbage, true);
    stage_open(s, fakeserver_uri(r.fake));
    stage_break(s);
    atomic_store(&r.bad, 1);
    stage_pass(s, stage_scaled(s, 600));
    atomic_store(&r.bad, 0);
    stage_mend(s);
    relay_stop(&r);
}

#define ENDING(how, meanwhile) (&(const ending){how, meanwhile})

static const enum stage_end CLOSING = END_BY_CLOSE, FREEING = END_BY_FREE;

static const fault FAULTS[] = {
    {"no descriptors left", 0, FELT_DEGRADED, run_descriptors, NULL},
    {"loop held up for three deadlines", 0, FELT_BITTEN, run_late_loop, NULL},
    {"a million submissions in one turn", 0, FELT_BITTEN, run_million, NULL},
    {"close in a callback", 0, FELT_BITTEN, run_ending, ENDING(END_BY_CLOSE, NOTHING)},
    {"close in a callback, killed", 1, FELT_BITTEN, run_ending, ENDING(END_BY_CLOSE, KILLED)},
    {"close in a callback, stopped", 0, FELT_BITTEN, run_ending, ENDING(END_BY_CLOSE, STOPPED)},
    {"close in a callback, client kill", 0, FELT_BITTEN, run_ending, ENDING(END_BY_CLOSE, CUT)},
    {"close in a callback, garbage", 0, FELT_BITTEN, run_ending_in_garbage, &CLOSING},
    {"free in a callback", 0, FELT_BITTEN, run_ending, ENDING(END_BY_FREE, NOTHING)},
    {"free in a callback, killed", 1, FELT_BITTEN, run_ending, ENDING(END_BY_FREE, KILLED)},
    {"free in a callback, stopped", 0, FELT_BITTEN, run_ending, ENDING(END_BY_FREE, STOPPED)},
    {"free in a callback, client kill", 0, FELT_BITTEN, run_ending, ENDING(END_BY_FREE, CUT)},
    {"free in a callback, garbage", 0, FELT_BITTEN, run_ending_in_garbage, &FREEING},
};

const fault_list FAULTS_OF_HOST = {FAULTS, sizeof FAULTS / sizeof *FAULTS};
