/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench: what the two ways of running a benchmark share: counts, latencies, progress and the summary.
 *
 * A run begins when its first acquire, sent alone, is answered, and as many as asked for have been put in flight:
 * neither connecting nor that is measured. From then until the time is over it measures; then it waits for what is in
 * flight, and counts that, but measures it no more.
 */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "client.h"
#include "histogram.h"
#include "names.h"

typedef struct cli_bench_run {
    const cli_args *args;
    cli_names names;
    cli_request request;
    int64_t begin_ns, end_ns; /* the measured part; end_ns is the planned end until it is over */
    uint64_t submitted, answered, allowed, denied;
    uint64_t errors;   /* answered without a verdict, or refused when submitted */
    uint64_t measured; /* verdicts in the measured part */
    uint64_t calls, call_acquires, connects;
    bool progress; /* stderr is a terminal */
    int64_t shown_ns;
    uint64_t shown_verdicts;
    char last_error[HIRATE_REASON_MAX + 1]; /* "" if there was none */
    cli_histogram latency;
} cli_bench_run;

/* Begin the measured part now. */
void cli_bench_begin(cli_bench_run *run, int64_t now_ns);

/* Make the request be for the next name; `text` holds it, so it stays while the request is used. */
static inline void cli_bench_name(cli_bench_run *run, char text[HIRATE_NAME_INT_SIZE])
{
    cli_who who;
    who.count = 1;
    who.names[0] = (cli_name){text, hirate_name_u64(text, cli_names_next(&run->names))};
    cli_request_name(&run->request, &who);
}

/* An open load, at --rate: how many acquires are due by now, and when the nth of them (from 0) is. The first is due a
 * whole period after the beginning, so that as many are due as fit into the time. */
static inline uint64_t cli_bench_due(const cli_bench_run *run, int64_t now_ns)
{
    return (uint64_t)((double)(now_ns - run->begin_ns) * ((double)run->args->rate / 1e9));
}

static inline int64_t cli_bench_due_ns(const cli_bench_run *run, uint64_t nth)
{
    return run->begin_ns + (int64_t)((double)(nth + 1) / ((double)run->args->rate / 1e9));
}

/* Whether it is over: the seconds have passed, or SIGINT came. */
bool cli_bench_over(const cli_bench_run *run, int64_t now_ns);
bool cli_bench_interrupted(void);

/* Count one answer, and its latency where that is measured. */
static inline void cli_bench_count(cli_bench_run *run, enum hirate_verdict verdict)
{
    run->answered++;
    if (verdict == HIRATE_ALLOWED)
        run->allowed++;
    else if (verdict == HIRATE_DENIED)
        run->denied++;
    else
        run->errors++;
}

/* Keep an error's text for the summary. */
void cli_bench_note(cli_bench_run *run, const char *reason);

/* At most once a second, on a terminal: one line that replaces the last. */
void cli_bench_progress(cli_bench_run *run, int64_t now_ns);

/* The two ways: against Redis, and in this process. 0, or CLI_NO_VERDICT after an error line. */
int cli_bench_redis(cli_bench_run *run);
int cli_bench_local(cli_bench_run *run);

#endif
