/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault matrix: one line for each fault, what a client under load made of it (see stage.h).
 *
 *     fault_matrix [--long] [--list] [FAULT…]      a FAULT is part of a name; default all
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

static const fault_list *const LISTS[] = {&FAULTS_OF_PROCESS, &FAULTS_OF_REFUSAL, &FAULTS_OF_NETWORK,
                                          &FAULTS_OF_REPLIES, &FAULTS_OF_HOST};

#define LONG_SCALE 5

typedef struct run {
    unsigned scale;
    bool list;
    char **wanted; /* NULL-terminated; empty: all */
    unsigned ok, red;
} run;

static bool is_wanted(const run *r, const char *name)
{
    for (char **w = r->wanted; *w; w++)
        if (strstr(name, *w))
            return true;
    return !*r->wanted;
}

static bool play(run *r, const fault *f)
{
    stage *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED) {
        perror("mmap");
        return false;
    }
    s->scale = r->scale;
    bool played = stage_play(s, f);
    bool ok = table_row(s, f, played);
    fflush(stdout);
    munmap(s, sizeof *s);
    return ok;
}

static void run_list(run *r, const fault_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const fault *f = &list->faults[i];
        if (!is_wanted(r, f->name))
            continue;
        if (r->list)
            printf("%s\n", f->name);
        else
            ++*(play(r, f) ? &r->ok : &r->red);
    }
}

/* One seed for the whole table; the clients find it in their environment. */
static void choose_seed(void)
{
    char seed[24];
    snprintf(seed, sizeof seed, "%" PRIu64, rng_start("fault_matrix").state);
    setenv("HIRATE_TEST_SEED", seed, 1);
}

int main(int argc, char **argv)
{
    run r = {.scale = 1, .wanted = argv + 1};
    live_prepare(argv);
    for (; argc > 1 && strncmp(*r.wanted, "--", 2) == 0; argc--, r.wanted++) {
        if (strcmp(*r.wanted, "--long") == 0) {
            r.scale = LONG_SCALE;
        } else if (strcmp(*r.wanted, "--list") == 0) {
            r.list = true;
        } else {
            fprintf(stderr, "usage: fault_matrix [--long] [--list] [FAULT...]\n");
            return 2;
        }
    }
    if (!server_available())
        return 77;
    if (!r.list) {
        choose_seed();
        table_head();
    }
    for (size_t i = 0; i < sizeof LISTS / sizeof *LISTS; i++)
        run_list(&r, LISTS[i]);
    if (r.list)
        return 0;
    if (r.ok + r.red == 0)
        fprintf(stderr, "fault_matrix: no fault has such a name; --list tells them\n");
    printf("\n%u passed, %u failed\n", r.ok, r.red);
    return r.red || !r.ok;
}
