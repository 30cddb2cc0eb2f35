/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault matrix: its table, and the verdict on each line (see table.h). */
#include "table.h"

#include "truth.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* A backoff is at most a second; an attempt to connect, a deadline and a busy machine come on top. Only gross excess is
 * red. */
#define STEP_MS 1000
#define MARGIN_MS 600
#define RECOVERY_MS (10 * STEP_MS)

void table_head(void)
{
    printf("submitted, callbacks   of all requests; they must be equal\n"
           "allowed, bound         tokens admitted by Redis; capacity x names x (1 + losses) + rate x time\n"
           "losses                 of state: what the records need / what the fault may cause; each name is checked by "
           "itself\n"
           "maybe, no redis        answers with charge = maybe; answers without Redis while the fault was on\n"
           "hold, busiest          longest turn of the loop in processor time; most callbacks in one, at most 1024\n"
           "recovery               from the fault's end to a good decision; '!': more than the longest backoff, %d ms, "
           "and %d\n"
           "leaks                  descriptors + bytes allocated, more than before the client was made\n\n",
           STEP_MS, MARGIN_MS);
    printf("%-34s %9s %9s %8s %8s %6s %7s %8s %8s %7s %9s %9s  %s\n", "fault", "submitted", "callbacks", "allowed",
           "bound", "losses", "maybe", "no redis", "hold ms", "busiest", "recovery", "leaks", "verdict");
}

static void check_felt(const stage *s, const fault *f, report *r)
{
    if ((f->felt & FELT_DEGRADED) && !r->degraded)
        truth_red(r, "the fault was not felt: every answer came from Redis");
    if ((f->felt & FELT_RECONNECT) && r->connects < 2)
        truth_red(r, "the fault was not felt: there was one connection only");
    if ((f->felt & FELT_BITTEN) && !atomic_load(&s->bitten))
        truth_red(r, "the fault was not felt");
    if ((f->felt & FELT_UNCHARGED) && r->refused_maybe)
        truth_red(r, "%" PRIu64 " answers say charge = maybe where the server refused", r->refused_maybe);
    if ((f->felt & FELT_UNSEEN) && r->without_redis)
        truth_red(r, "%" PRIu64 " answers came without Redis, which none need", r->without_redis);
}

static void check_report(const stage *s, const fault *f, report *r)
{
    if (r->recovery_us < 0)
        truth_red(r, "it did not recover");
    else if (r->recovery_us > RECOVERY_MS * 1000)
        truth_red(r, "recovery took longer than ten times the longest backoff");
    if (r->descriptors)
        truth_red(r, "%" PRId64 " descriptors were left open", r->descriptors);
    if (r->bytes)
        truth_red(r, "%" PRId64 " bytes were left allocated", r->bytes);
    check_felt(s, f, r);
}

static void print_numbers(const stage *s, const report *r)
{
    char losses[16], recovery[24] = "none", leaks[48];
    int64_t ms = r->recovery_us / 1000;
    snprintf(losses, sizeof losses, "%" PRIu64 "/%u", r->losses_seen, s->losses);
    if (r->recovery_us >= 0)
        snprintf(recovery, sizeof recovery, "%" PRId64 "%s", ms, ms > STEP_MS + MARGIN_MS ? "!" : "");
    snprintf(leaks, sizeof leaks, "%" PRId64 "+%" PRId64, r->descriptors, r->bytes);
    printf(" %9" PRIu64 " %9" PRIu64 " %8" PRIu64 " %8" PRIu64 " %6s %7" PRIu64 " %8" PRIu64 " %8.2f %7" PRIu64
           " %9s %9s",
           r->submitted, r->callbacks, r->allowed, r->bound, losses, r->maybe, r->degraded, (double)r->hold_us / 1000,
           r->busiest, recovery, leaks);
}

static void print_reasons(const char *why)
{
    for (size_t len; *why; why += len + (why[len] == '\n')) {
        len = strcspn(why, "\n");
        printf("    RED: %.*s\n", (int)len, why);
    }
}

bool table_row(stage *s, const fault *f, bool played)
{
    report *r = &s->report;
    printf("%-34s", f->name);
    if (s->note[0]) {
        printf(" not here: %s\n", s->note);
        return true;
    }
    if (!played && !r->why[0])
        truth_red(r, "the fault could not be played to its end");
    if (r->complete)
        check_report(s, f, r);
    print_numbers(s, r);
    printf("  %s\n", r->why[0] ? "RED" : "ok");
    print_reasons(r->why);
    return !r->why[0];
}
