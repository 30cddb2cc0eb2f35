/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * paused URI SERVER-PID NAME-BYTES PAUSE-MS DEADLINE-MS: a million acquires submitted at once while the server is
 * stopped.
 *
 * Checked, with exit status 1 when it does not hold: exactly max_pending are accepted and the others refused with
 * HIRATE_EOVERLOAD, inside the call; memory grows by no more than the bound; each accepted one is answered exactly
 * once, with a verdict where its deadline is longer than the pause, else with HIRATE_EDEADLINE or HIRATE_ECONNECT;
 * on_room comes; afterwards the rate is at least 0.8 of what it was before.
 *
 * The bound, for each acquire that may be pending: 256 bytes, and 8/7 of its key and 84 bytes, rounded up to a power of
 * two; and 2 MiB for calls and buffers. Every name is another one, as names that are shared need less.
 */
#include "load.h"

#include <hirate/adapters/epoll.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <sys/types.h>

enum {
    FLOOD = 1000000,
    RATE_ACQUIRES = 200000,
    RATE_ROUNDS = 3,
    RATE_ROUNDS_AFTER = 12,
    RATE_IN_FLIGHT = 1024,
    RATE_NAMES = 100000
};

#define ENOUGH 0.8 /* of the rate before */

static const hirate_limit flood_limit = HIRATE_TOKEN_BUCKET("paused", 1000000, HIRATE_RATE(1, HIRATE_SECONDS(1)));

typedef struct run {
    hirate_epoll_loop *ep;
    hirate *h;
    uint32_t max_pending;
    size_t name_len;
    pid_t server;
    load_count rate;
    uint64_t accepted, refused, answered, verdicts, unanswered_errors;
    int rooms;
    uint8_t times_answered[FLOOD];
} run;

static int violations;

static void check(int ok, const char *what)
{
    printf("%s %s\n", ok ? "  ok   " : "  WRONG", what);
    violations += !ok;
}

/* From /proc/self/status, in bytes. */
static uint64_t memory(const char *field)
{
    char line[128];
    uint64_t kb = 0;
    FILE *file = fopen("/proc/self/status", "r");
    if (!file)
        err(1, "/proc/self/status");
    while (fgets(line, sizeof line, file))
        if (strncmp(line, field, strlen(field)) == 0)
            kb = strtoull(line + strlen(field) + 1, NULL, 10);
    fclose(file);
    return kb * 1024;
}

static void turn(run *r, int ms)
{
    struct pollfd wait = {.fd = hirate_epoll_fd(r->ep), .events = POLLIN};
    poll(&wait, 1, ms);
    if (hirate_epoll_process(r->ep) < 0)
        errx(1, "hirate_epoll_process");
}

static void turn_until(run *r, double end)
{
    for (double now = load_clock(); now < end; now = load_clock())
        turn(r, (int)((end - now) * 1000) + 1);
}

/* ---------------------------------------------------------------------------------------------------- the rate -- */

static void on_rate_answer(hirate *h, const hirate_result *result, void *user);

static void submit_rate(run *r)
{
    char name[HIRATE_NAME_INT_SIZE];
    size_t len = hirate_name_u64(name, load_next_name(&r->rate));
    if (hirate_acquire(r->h, &flood_limit, name, len, 1, on_rate_answer, r) != 0)
        errx(1, "hirate_acquire: %s", hirate_last_error(r->h));
}

static void on_rate_answer(hirate *h, const hirate_result *result, void *user)
{
    run *r = user;
    (void)h;
    if (result->error)
        errx(1, "%s: %s", hirate_strerror(result->error), result->reason);
    load_answered(&r->rate, result->verdict == HIRATE_ALLOWED);
    if (load_wants_more(&r->rate))
        submit_rate(r);
}

/* Acquires per second, the best of a few rounds, ending early once it is `enough`: others may want the processor too.
 */
static double measure_rate(run *r, int rounds, double enough)
{
    double best = 0;
    for (int i = 0; i < rounds && best < enough; i++) {
        r->rate = (load_count){.names = RATE_NAMES, .in_flight = RATE_IN_FLIGHT, .total = RATE_ACQUIRES};
        double begin = load_clock();
        while (load_wants_another(&r->rate))
            submit_rate(r);
        while (!load_is_done(&r->rate))
            turn(r, 100);
        double rate = RATE_ACQUIRES / (load_clock() - begin);
        best = rate > best ? rate : best;
    }
    return best;
}

/* --------------------------------------------------------------------------------------------------- the flood -- */

/* `user` points into times_answered; the run is found from there. */
static run *the_run;

static void on_flood_answer(hirate *h, const hirate_result *result, void *user)
{
    uint8_t *times = user;
    (void)h;
    *times = (uint8_t)(*times + 1);
    the_run->answered++;
    if (result->verdict != HIRATE_VERDICT_NONE)
        the_run->verdicts++;
    else if (result->error != HIRATE_EDEADLINE && result->error != HIRATE_ECONNECT)
        the_run->unanswered_errors++;
}

static void on_room(hirate *h, void *user)
{
    (void)h;
    ((run *)user)->rooms++;
}

static void flood(run *r)
{
    char name[HIRATE_NAME_MAX];
    memset(name, 'n', sizeof name);
    for (uint32_t i = 0; i < FLOOD; i++) {
        int digits = snprintf(name, sizeof name, "%07u", i);
        name[digits] = 'n';
        int rc = hirate_acquire(r->h, &flood_limit, name, r->name_len, 1, on_flood_answer, &r->times_answered[i]);
        if (rc == 0)
            r->accepted++;
        else if (rc == HIRATE_EOVERLOAD)
            r->refused++;
        else
            errx(1, "hirate_acquire: %s", hirate_last_error(r->h));
    }
}

static uint64_t bound(const run *r)
{
    uint64_t key = 84 + strlen("hirate:paused:") + r->name_len, power = 64;
    while (power < key)
        power *= 2;
    return r->max_pending * (256 + power * 8 / 7) + (2u << 20);
}

static int each_answered_once(const run *r)
{
    uint64_t once = 0;
    for (uint32_t i = 0; i < FLOOD; i++) {
        if (r->times_answered[i] > 1)
            return 0;
        once += r->times_answered[i];
    }
    return once == r->accepted && r->answered == r->accepted;
}

static void flood_paused(run *r, int64_t pause_ms, int64_t deadline_ms)
{
    uint64_t before = memory("VmRSS:");
    if (kill(r->server, SIGSTOP) != 0)
        err(1, "stopping the server");
    double begin = load_clock();
    flood(r);
    double flooded = load_clock();
    turn_until(r, begin + (double)pause_ms / 1000);
    uint64_t grown = memory("VmHWM:") - before;
    kill(r->server, SIGCONT);

    double resumed = load_clock();
    while (r->answered < r->accepted && load_clock() < resumed + 60)
        turn(r, 10);
    double answered = load_clock();
    turn_until(r, answered + 0.1); /* anything twice? */
    if (memory("VmHWM:") - before > grown)
        grown = memory("VmHWM:") - before;

    printf("  %" PRIu64 " accepted, %" PRIu64 " refused, in %.0f ms; %" PRIu64 " answered, %" PRIu64
           " with a verdict, %.0f ms after the pause\n",
           r->accepted, r->refused, (flooded - begin) * 1000, r->answered, r->verdicts, (answered - resumed) * 1000);
    printf("  memory: +%.1f MiB, %.0f bytes for each pending; the bound is %.1f MiB\n", (double)grown / (1 << 20),
           (double)grown / (double)r->accepted, (double)bound(r) / (1 << 20));
    check(r->accepted == r->max_pending && r->refused == FLOOD - r->accepted,
          "max_pending accepted, the excess refused");
    check(grown <= bound(r), "memory within the bound");
    check(each_answered_once(r), "each answered exactly once");
    check(r->unanswered_errors == 0, "no error but of deadlines");
    check(deadline_ms < pause_ms || r->verdicts == r->accepted, "a verdict for each that could wait");
    check(r->rooms == 1, "told once that there is room again");
}

static void open_client(run *r, const char *uri, int64_t deadline_ms)
{
    hirate_loop loop;
    hirate_options options;
    hirate_options_init(&options);
    options.uri = uri;
    options.deadline_ms = deadline_ms;
    options.on_room = on_room;
    options.user = r;
    r->max_pending = options.max_pending;
    if (hirate_epoll_new(&r->ep) != 0 || hirate_epoll(&loop, r->ep) != 0 || hirate_new(&r->h, &loop, &options) != 0)
        errx(1, "no client for %s", uri);
}

int main(int argc, char **argv)
{
    static run r;
    if (argc != 6)
        errx(2, "usage: paused URI SERVER-PID NAME-BYTES PAUSE-MS DEADLINE-MS");
    int64_t pause_ms = (int64_t)load_number(argv[4], "PAUSE-MS");
    int64_t deadline_ms = (int64_t)load_number(argv[5], "DEADLINE-MS");
    r.server = (pid_t)load_number(argv[2], "SERVER-PID");
    r.name_len = load_number(argv[3], "NAME-BYTES");
    if (r.name_len < 8 || r.name_len > HIRATE_NAME_MAX)
        errx(2, "NAME-BYTES: 8 to %d", HIRATE_NAME_MAX);
    the_run = &r;
    memset(r.times_answered, 0, sizeof r.times_answered);

    open_client(&r, argv[1], deadline_ms);
    printf("names of %zu bytes, a pause of %" PRId64 " ms, deadlines of %" PRId64 " ms\n", r.name_len, pause_ms,
           deadline_ms);
    double before = measure_rate(&r, RATE_ROUNDS, HUGE_VAL);
    flood_paused(&r, pause_ms, deadline_ms);
    double after = measure_rate(&r, RATE_ROUNDS_AFTER, ENOUGH * before);
    printf("  rate: %.0f/s before, %.0f/s after\n", before, after);
    check(after >= ENOUGH * before, "the rate is back to normal");

    hirate_free(r.h);
    hirate_epoll_free(r.ep);
    return violations != 0;
}
