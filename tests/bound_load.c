/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bound_load URI SECONDS SEED FILE: one process of the bound test (bound.sh). Random acquires of random costs for
 * random names, in bursts with pauses, each answer recorded.
 */
#include "support/bound.h"
#include "support/random.h"

#include <hirate/adapters/epoll.h>

#include <err.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { IN_FLIGHT_MOST = 2000, BURST_MOST = 300 };

typedef struct load {
    hirate *h;
    hirate_epoll_loop *ep;
    FILE *file;
    rng random;
    uint64_t submitted, answered;
    int closed;
} load;

/* The name travels as `user`, next to the load, so that nothing is allocated. */
typedef struct slot {
    load *load;
    uint16_t name;
} slot;

static slot slots[BOUND_NAMES];

static void write_record(load *l, bound_record record)
{
    if (fwrite(&record, sizeof record, 1, l->file) != 1)
        err(1, "writing a record");
}

static void on_answer(hirate *h, const hirate_result *result, void *user)
{
    const slot *s = user;
    (void)h;
    s->load->answered++;
    if (result->error)
        warnx("%s: %s", hirate_strerror(result->error), result->reason);
    write_record(s->load, (bound_record){.time_us = result->time_us,
                                         .cost = (uint32_t)result->cost,
                                         .name = s->name,
                                         .verdict = (uint8_t)result->verdict,
                                         .charge = (uint8_t)result->charge});
}

static uint64_t random_cost(load *l, uint64_t capacity)
{
    switch (rng_upto(&l->random, 15)) {
    case 0:
        return 0;
    case 1:
        return rng_upto(&l->random, capacity + 1);
    case 2:
        return capacity / 2;
    default:
        return 1 + rng_upto(&l->random, 2);
    }
}

static void submit_one(load *l)
{
    char text[HIRATE_NAME_INT_SIZE];
    slot *s = &slots[rng_upto(&l->random, BOUND_NAMES - 1)];
    const hirate_limit *limit = bound_limit(s->name);
    size_t len = hirate_name_u64(text, s->name);
    int rc = hirate_acquire(l->h, limit, text, len, random_cost(l, limit->capacity), on_answer, s);
    if (rc)
        errx(1, "hirate_acquire: %s", hirate_last_error(l->h));
    l->submitted++;
}

static void turn(load *l, int ms)
{
    struct pollfd wait = {.fd = hirate_epoll_fd(l->ep), .events = POLLIN};
    poll(&wait, 1, ms);
    if (hirate_epoll_process(l->ep) < 0)
        errx(1, "hirate_epoll_process");
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void run_for(load *l, int64_t ms)
{
    for (int64_t now = now_ms(), end = now + ms; now < end; now = now_ms()) {
        uint64_t burst = 1 + rng_upto(&l->random, BURST_MOST - 1);
        for (uint64_t i = 0; i < burst && l->submitted - l->answered < IN_FLIGHT_MOST; i++)
            submit_one(l);
        turn(l, 0);
        for (int64_t pause = (int64_t)rng_upto(&l->random, 15), from = now_ms(); now_ms() - from < pause;)
            turn(l, 1);
    }
    for (int64_t end = now_ms() + 60000; l->answered < l->submitted && now_ms() < end;)
        turn(l, 100);
}

static void on_closed(void *user)
{
    ((load *)user)->closed = 1;
}

static void open_client(load *l, const char *uri)
{
    hirate_loop loop;
    hirate_options options;
    hirate_options_init(&options);
    options.uri = uri;
    options.deadline_ms = 30000; /* every answer counts, also of a slow machine */
    if (hirate_epoll_new(&l->ep) || hirate_epoll(&loop, l->ep) || hirate_new(&l->h, &loop, &options))
        errx(1, "cannot make a client");
}

int main(int argc, char **argv)
{
    if (argc != 5)
        errx(2, "usage: bound_load URI SECONDS SEED FILE");
    load l = {.random = {strtoull(argv[3], NULL, 10)}, .file = fopen(argv[4], "wb")};
    if (!l.file)
        err(1, "%s", argv[4]);
    for (uint16_t i = 0; i < BOUND_NAMES; i++)
        slots[i] = (slot){&l, i};
    open_client(&l, argv[1]);
    run_for(&l, strtoll(argv[2], NULL, 10) * 1000);
    hirate_close(l.h, on_closed, &l);
    while (!l.closed)
        turn(&l, 100);
    hirate_epoll_free(l.ep);
    write_record(&l, bound_end(l.submitted));
    if (fclose(l.file) != 0)
        err(1, "%s", argv[4]);
    return 0;
}
