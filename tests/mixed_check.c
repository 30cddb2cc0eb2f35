/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mixed_check storm|calm FILE…: what the clients of the mixed run recorded, together. Prints a table, a line for each
 * limit. Exits with 1 when a limit was broken, a request over several was not all or nothing, a shadow denied, a
 * callback is missing or came twice (of clients that were not killed), or when the load put nothing to the test. calm:
 * also when an answer is not exactly what follows from those before.
 */
#include "support/mixed_model.h"

#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    bool calm;
    mixed_history history;
    uint64_t submitted, answered, in_flight; /* in flight: of clients that were killed */
    uint64_t allowed, denied, cached, errors, maybe;
    uint64_t several, shadows; /* requests over several limits; answers in which a shadow had no room */
    uint64_t permits, late, gone;
    unsigned killed;
    uint64_t wrong;
} all;

static void wrong(const char *path, uint32_t i, const char *what)
{
    if (all.wrong++ < 20)
        printf("%s, request %" PRIu32 ": %s\n", path, i, what);
}

/* --------------------------------------------------------------------------------------------- single answers -- */

/* All or nothing: what the whole says follows from what its limits say, and shadows have no part in it. */
static void check_whole(const char *path, uint32_t i, const mixed_record *r)
{
    bool denied = false, took = false;
    uint32_t shadows = 0;

    for (uint32_t k = 0; k < r->pair_count; k++) {
        const mixed_pair *pair = &r->pairs[k];
        const hirate_limit *limit = &MIXED_LIMITS[pair->limit].limit;
        bool denies = pair->verdict == HIRATE_DENIED, shadow = (limit->flags & HIRATE_LIMIT_SHADOW) != 0;
        bool holds = limit->kind == HIRATE_KIND_CONCURRENCY || (limit->kind == HIRATE_KIND_QUOTA && r->hold_us);
        if (pair->verdict == HIRATE_VERDICT_NONE)
            wrong(path, i, "a limit says nothing");
        denied = denied || (denies && !shadow);
        shadows += denies && shadow;
        took = took || pair->took;
        if (pair->permit != (pair->took && holds))
            wrong(path, i, "a permit for nothing, or none for something");
    }
    if ((r->verdict == HIRATE_DENIED) != denied)
        wrong(path, i, "the whole is not what its limits say");
    if (r->shadow_denied != shadows)
        wrong(path, i, "another number of shadows would have denied");
    if ((r->charge == HIRATE_CHARGE_YES) != took || r->charge == HIRATE_CHARGE_MAYBE)
        wrong(path, i, "the charge is not what its limits say");
    all.shadows += shadows > 0;
}

static bool is_expected(const mixed_record *r)
{
    switch (r->error) {
    case HIRATE_ENOENT:
        return r->op == HIRATE_OP_COMMIT && r->charge == HIRATE_CHARGE_NO;
    case HIRATE_ECONNECT:
        return !all.calm && r->charge == HIRATE_CHARGE_NO;
    case HIRATE_ELOST:
    case HIRATE_EDEADLINE:
    case HIRATE_ECANCELED:
    case HIRATE_ECLOSED:
        return !all.calm;
    default:
        return false;
    }
}

static void check_answer(const char *path, uint32_t i, const mixed_record *r)
{
    all.answered++;
    all.maybe += r->charge == HIRATE_CHARGE_MAYBE;
    all.errors += r->error != 0;
    if (r->error && !is_expected(r)) {
        printf("%s\n", hirate_strerror(r->error));
        wrong(path, i, "an error that nothing explains");
    }
    if (r->error && r->verdict)
        wrong(path, i, "an error and a verdict");
    if (mixed_has_permit(r)) {
        all.permits++;
        all.late += r->late;
        all.gone += r->error == HIRATE_ENOENT;
        return;
    }
    all.allowed += r->verdict == HIRATE_ALLOWED;
    all.denied += r->verdict == HIRATE_DENIED;
    all.several += r->pair_count > 1 && !r->error;
    all.cached += r->source == HIRATE_SOURCE_CACHE;
    if (r->source == HIRATE_SOURCE_CACHE && r->verdict != HIRATE_DENIED)
        wrong(path, i, "remembered, and not a denial");
    if (!r->error && r->source != HIRATE_SOURCE_REDIS && r->source != HIRATE_SOURCE_CACHE)
        wrong(path, i, "decided without Redis");
    if (mixed_is_decided(r))
        check_whole(path, i, r);
}

static void check_file(const char *path, const mixed_file *file)
{
    uint32_t in_flight = 0;

    for (uint32_t i = 0; i < file->count; i++) {
        const mixed_record *r = &file->records[i];
        if (r->callbacks == 1)
            check_answer(path, i, r);
        else if (r->callbacks > 1 || !file->killed)
            wrong(path, i, r->callbacks ? "more than one callback" : "no callback");
        in_flight += r->callbacks == 0;
    }
    if (file->ended == file->killed)
        wrong(path, file->count, file->ended ? "killed after its end" : "the client did not come to its end");
    all.submitted += file->count;
    all.killed += file->killed;
    all.in_flight += in_flight;
}

/* ------------------------------------------------------------------------------------------------- the table -- */

static void print_row(const mixed_limit *limit, const mixed_figures *f, size_t names)
{
    printf("%-13s %-15s %5zu %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9.3f %% %9" PRIu64, limit->limit.policy,
           mixed_kind_name(&limit->limit), names, f->admitted, f->units, f->denied, f->worst * 100, f->exact);
    if (limit->limit.kind == HIRATE_KIND_SLIDING_WINDOW)
        printf("  at most %.3f x limit in one window's length", f->worst_interval);
    if (f->excess)
        printf("  %" PRIu64 " charged by commits beyond", f->excess);
    printf("%s\n", f->broken ? "  BROKEN" : "");
}

/* Returns whether the limit held, and was put to the test. */
static bool check_limit(size_t i)
{
    const mixed_limit *limit = &MIXED_LIMITS[i];
    mixed_figures figures = {0};
    size_t names = 0, known = 0;
    uint64_t inexact = 0;

    for (unsigned name = 0; name < MIXED_NAMES; name++) {
        const mixed_key *key = &all.history.keys[i][name];
        char text[8];
        snprintf(text, sizeof text, "%u", name);
        mixed_model_check(&limit->limit, key, text, &figures);
        names += key->count > 0;
        known += key->count > 0 && key->unknown == 0;
        inexact += key->unknown;
    }
    print_row(limit, &figures, names);
    if (all.calm && (inexact || known != names))
        printf("%s: %" PRIu64 " requests are not known to have done something or not\n", limit->limit.policy, inexact);
    if (!figures.admitted || (!figures.denied && !limit->may_not_deny))
        printf("%s: was not put to the test\n", limit->limit.policy);
    return !figures.broken && figures.admitted && (figures.denied || limit->may_not_deny) && !(all.calm && inexact);
}

static int check_limits(void)
{
    int bad = 0;
    printf("%-13s %-15s %5s %9s %9s %9s %11s %9s\n", "limit", "kind", "names", "admitted", "units", "denied", "worst",
           "exact");
    for (size_t i = 0; i < MIXED_LIMIT_COUNT; i++)
        bad += !check_limit(i);
    return bad;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        errx(2, "usage: mixed_check storm|calm FILE...");
    all.calm = strcmp(argv[1], "calm") == 0;
    for (int i = 2; i < argc; i++) {
        mixed_file *file = mixed_file_map(argv[i]);
        check_file(argv[i], file);
        mixed_history_add(&all.history, file, (uint32_t)i);
    }
    mixed_history_complete(&all.history);
    int bad = check_limits();
    mixed_history_free(&all.history);
    printf("clients %d (killed %u), submitted %" PRIu64 ", callbacks %" PRIu64 ", in flight when killed %" PRIu64 "\n",
           argc - 2, all.killed, all.submitted, all.answered, all.in_flight);
    printf("allowed %" PRIu64 ", denied %" PRIu64 " (remembered %" PRIu64 "), errors %" PRIu64 ", charge maybe %" PRIu64
           "; over several limits %" PRIu64 ", shadows without room %" PRIu64 "\n",
           all.allowed, all.denied, all.cached, all.errors, all.maybe, all.several, all.shadows);
    printf("with permits %" PRIu64 ", late commits %" PRIu64 ", gone already %" PRIu64 "\n", all.permits, all.late,
           all.gone);
    bool tested = all.several && all.shadows && all.permits && all.late && all.gone && (all.calm || all.killed);
    if (!tested)
        printf("the load was too light to put everything to the test\n");
    if (bad || all.wrong || !tested || all.submitted != all.answered + all.in_flight) {
        printf("NOT within limits: %d limits, %" PRIu64 " answers\n", bad, all.wrong);
        return 1;
    }
    return 0;
}
