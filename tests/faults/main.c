/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault matrix: one line for each fault, what a client under load made of it (see stage.h).
 *
 *     fault_matrix [--long] [--list] [--jobs N] [FAULT…]      a FAULT is part of a name; default all; N at a time
 *
 * Exit status 0 when no line is red, 77 without a server program. tests/faults.sh calls this and cleans up after it.
 */
#include "live.h"
#include "stage.h"
#include "table.h"

#include "../support/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

static const fault_list *const LISTS[] = {&FAULTS_OF_PROCESS, &FAULTS_OF_REFUSAL, &FAULTS_OF_NETWORK,
                                          &FAULTS_OF_REPLIES, &FAULTS_OF_HOST};

#define LONG_SCALE 5
#define FAULTS_MOST 256
#define JOBS_MOST 16

typedef struct play {
    const fault *f;
    stage *s;
    pid_t pid; /* 0: not begun, or ended */
    bool ended, played;
} play;

typedef struct run {
    unsigned scale, jobs;
    bool list;
    char **wanted; /* NULL-terminated; empty: all */
    play plays[FAULTS_MOST];
    size_t count;
    unsigned ok, red;
} run;

static bool is_wanted(const run *r, const char *name)
{
    for (char **w = r->wanted; *w; w++)
        if (strstr(name, *w))
            return true;
    return !*r->wanted;
}

static void choose(run *r)
{
    for (size_t i = 0; i < sizeof LISTS / sizeof *LISTS; i++)
        for (size_t k = 0; k < LISTS[i]->count; k++)
            if (is_wanted(r, LISTS[i]->faults[k].name) && r->count < FAULTS_MOST)
                r->plays[r->count++].f = &LISTS[i]->faults[k];
}

static void begin(const run *r, play *p)
{
    p->s = mmap(NULL, sizeof *p->s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p->s == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    p->s->scale = r->scale;
    p->pid = stage_begin(p->s, p->f);
}

/* Wait for any of those that play. */
static void await_one(run *r)
{
    int status = 0;
    pid_t pid = waitpid(-1, &status, 0);
    for (size_t i = 0; pid > 0 && i < r->count; i++) {
        play *p = &r->plays[i];
        if (p->pid != pid)
            continue;
        p->pid = 0;
        p->ended = true;
        p->played = stage_was_played(p->s, status);
    }
}

/* Several at a time, as most of a fault is waiting; the rows in order, each as soon as it can be. */
static void play_all(run *r)
{
    size_t begun = 0, ended = 0;
    for (size_t shown = 0; shown < r->count; shown++) {
        play *p = &r->plays[shown];
        while (!p->ended) {
            while (begun < r->count && begun - ended < r->jobs)
                begin(r, &r->plays[begun++]);
            await_one(r);
            ended++;
        }
        ++*(table_row(p->s, p->f, p->played) ? &r->ok : &r->red);
        fflush(stdout);
        munmap(p->s, sizeof *p->s);
    }
}

/* One seed for the whole table; the clients find it in their environment. */
static void choose_seed(void)
{
    char seed[24];
    snprintf(seed, sizeof seed, "%" PRIu64, rng_start("fault_matrix").state);
    setenv("HIRATE_TEST_SEED", seed, 1);
}

static int usage(void)
{
    fprintf(stderr, "usage: fault_matrix [--long] [--list] [--jobs N] [FAULT...]\n");
    return 2;
}

int main(int argc, char **argv)
{
    static run r = {.scale = 1, .jobs = 2};
    live_prepare(argv);
    (void)argc;
    for (r.wanted = argv + 1; *r.wanted && strncmp(*r.wanted, "--", 2) == 0; r.wanted++) {
        if (strcmp(*r.wanted, "--long") == 0)
            r.scale = LONG_SCALE;
        else if (strcmp(*r.wanted, "--list") == 0)
            r.list = true;
        else if (strcmp(*r.wanted, "--jobs") == 0 && r.wanted[1])
            r.jobs = (unsigned)strtoul(*++r.wanted, NULL, 10);
        else
            return usage();
    }
    if (r.jobs < 1 || r.jobs > JOBS_MOST)
        return usage();
    choose(&r);
    for (size_t i = 0; r.list && i < r.count; i++)
        printf("%s\n", r.plays[i].f->name);
    if (r.list)
        return 0;
    if (!server_available())
        return 77;
    choose_seed();
    table_head();
    play_all(&r);
    if (!r.count)
        fprintf(stderr, "fault_matrix: no fault has such a name; --list tells them\n");
    printf("\n%u passed, %u failed\n", r.ok, r.red);
    return r.red || !r.ok;
}
