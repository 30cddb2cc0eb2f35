/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What fixed_load.c, raw_hiredis.c (so that these two differ in the client alone) and several.c have in common: the names
 * asked for, how many are outstanding, and what a run took.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

typedef struct load_count {
    uint64_t names, in_flight, total;
    uint64_t submitted, answered, allowed;
    uint64_t random;
    double begin_s, begin_cpu_s; /* of the first answer: what comes before is start-up */
    uint64_t begin_answered;
} load_count;

static inline double load_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Processor time of this process so far, in the kernel on its behalf too. */
static inline double load_cpu(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static inline uint64_t load_number(const char *text, const char *what)
{
    char *end;
    uint64_t n = strtoull(text, &end, 10);
    if (*end != '\0' || n == 0)
        errx(2, "%s: %s: a whole number, at least 1", what, text);
    return n;
}

static inline void load_init(load_count *count, const char *names, const char *in_flight, const char *total)
{
    memset(count, 0, sizeof *count);
    count->names = load_number(names, "NAMES");
    count->in_flight = load_number(in_flight, "IN-FLIGHT");
    count->total = load_number(total, "COUNT");
}

/* To start with: is there room for another one? */
static inline int load_wants_another(const load_count *count)
{
    return count->submitted < count->total && count->submitted < count->in_flight;
}

/* After an answer. */
static inline int load_wants_more(const load_count *count)
{
    return count->submitted < count->total;
}

static inline int load_is_done(const load_count *count)
{
    return count->answered == count->total;
}

/* The name to submit next, uniform (splitmix64). */
static inline uint64_t load_next_name(load_count *count)
{
    uint64_t x = count->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    count->submitted++;
    return (x ^ (x >> 31)) % count->names;
}

static inline void load_answered(load_count *count, int allowed)
{
    if (count->answered++ == 0) {
        count->begin_s = load_clock();
        count->begin_cpu_s = load_cpu();
        count->begin_answered = 1;
    }
    count->allowed += allowed != 0;
}

static inline void load_print(const load_count *count, uint64_t calls)
{
    double n = (double)(count->answered - count->begin_answered);
    printf("{\"acquires_per_s\":%.1f,\"cpu_us_per_acquire\":%.4f,\"answered\":%" PRIu64 ",\"allowed\":%" PRIu64
           ",\"calls\":%" PRIu64 "}\n",
           n / (load_clock() - count->begin_s), (load_cpu() - count->begin_cpu_s) * 1e6 / n, count->answered,
           count->allowed, calls);
}

#endif
