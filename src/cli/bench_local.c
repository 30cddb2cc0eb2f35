/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench: decisions in this process, one after the other.
 *
 * Reading a clock takes about as long as a decision does, so the wall clock is read once for BATCH decisions, and one
 * of them is timed on its own. That duration includes one reading of the clock.
 *
 * With --rate it never sleeps: to be woken takes a thousand times longer than a decision.
 */
#include "bench.h"
#include "say.h"

enum { BATCH = 32 };
#define KEYS_MOST (UINT64_C(1) << 31) /* of a local engine */

static void decide(cli_bench_run *run, hirate_local *local, int64_t now_us)
{
    char name[HIRATE_NAME_INT_SIZE];
    hirate_result result;
    hirate_error error;
    hirate_result_init(&result);
    cli_bench_name(run, name);
    int rc = hirate_local_decide(local, &run->request.request, now_us, &result, &error);
    run->submitted++;
    cli_bench_count(run, rc == 0 ? result.verdict : HIRATE_VERDICT_NONE);
    if (rc != 0)
        cli_bench_note(run, error.text);
}

/* A batch as fast as it goes. */
static void closed_batch(cli_bench_run *run, hirate_local *local)
{
    int64_t now_us = cli_realtime_us();
    int64_t before = cli_monotonic_ns();
    decide(run, local, now_us);
    cli_histogram_add(&run->latency, cli_monotonic_ns() - before);
    for (int i = 1; i < BATCH; i++)
        decide(run, local, now_us);
}

/* What --rate wants decided by now, each latency counted from when it was due. */
static void open_batch(cli_bench_run *run, hirate_local *local, int64_t now_ns)
{
    uint64_t due = cli_bench_due(run, now_ns);
    int64_t now_us = cli_realtime_us();
    for (int i = 0; run->submitted < due && i < BATCH; i++) {
        int64_t since = cli_bench_due_ns(run, run->submitted);
        decide(run, local, now_us);
        cli_histogram_add(&run->latency, cli_monotonic_ns() - since);
    }
}

int cli_bench_local(cli_bench_run *run)
{
    hirate_local *local = NULL;
    uint64_t keys = run->args->names * run->args->limit_count;
    int rc = hirate_local_new(&local, (size_t)(keys < KEYS_MOST ? keys : KEYS_MOST));
    if (rc != 0)
        return cli_fail(CLI_NO_VERDICT, "%s", hirate_strerror(rc));
    int64_t now = cli_monotonic_ns();
    cli_bench_begin(run, now);
    while (!cli_bench_over(run, now)) {
        if (run->args->rate > 0)
            open_batch(run, local, now);
        else
            closed_batch(run, local);
        now = cli_monotonic_ns();
        cli_bench_progress(run, now);
    }
    run->end_ns = now;
    run->measured = run->allowed + run->denied;
    hirate_local_free(local);
    return 0;
}
