/* SPDX-License-Identifier: BSD-3-Clause */
/* bench: set up a run, show its progress and sum it up. */
#include "bench.h"

#include "say.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

/* The first SIGINT ends the run early, summary and all; a second one ends the program. */
static void watch_interrupts(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt;
    action.sa_flags = (int)SA_RESETHAND | SA_RESTART;
    sigaction(SIGINT, &action, NULL);
}

bool cli_bench_interrupted(void)
{
    return interrupted != 0;
}

void cli_bench_begin(cli_bench_run *run, int64_t now_ns)
{
    run->begin_ns = run->shown_ns = now_ns;
    run->shown_verdicts = run->allowed + run->denied;
    run->end_ns = now_ns + (int64_t)(run->args->seconds * 1e9);
}

bool cli_bench_over(const cli_bench_run *run, int64_t now_ns)
{
    return now_ns >= run->end_ns || interrupted != 0;
}

void cli_bench_note(cli_bench_run *run, const char *reason)
{
    snprintf(run->last_error, sizeof run->last_error, "%s", reason);
}

void cli_bench_progress(cli_bench_run *run, int64_t now_ns)
{
    int64_t since = now_ns - run->shown_ns;
    if (!run->progress || since < 1000000000)
        return;
    uint64_t verdicts = run->allowed + run->denied;
    fprintf(stderr,
            "\r\033[K%.0f of %g s: %.0f acquires/s, %" PRIu64 " allowed, %" PRIu64 " denied, %" PRIu64 " errors",
            (double)(now_ns - run->begin_ns) / 1e9, run->args->seconds,
            (double)(verdicts - run->shown_verdicts) * 1e9 / (double)since, run->allowed, run->denied, run->errors);
    run->shown_ns = now_ns;
    run->shown_verdicts = verdicts;
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static void print_json(const cli_bench_run *run, double seconds)
{
    printf("{\"acquires_per_s\":%.1f,\"allowed\":%" PRIu64 ",\"denied\":%" PRIu64 ",\"errors\":%" PRIu64
           ",\"submitted\":%" PRIu64 ",\"answered\":%" PRIu64 ",\"reconnects\":%" PRIu64 ",\"calls\":%" PRIu64
           ",\"acquires_per_call\":%.2f,\"p50_us\":%.3f,\"p99_us\":%.3f,\"p999_us\":%.3f,\"seconds\":%.3f}\n",
           ratio((double)run->measured, seconds), run->allowed, run->denied, run->errors, run->submitted, run->answered,
           run->connects > 0 ? run->connects - 1 : 0, run->calls, ratio((double)run->call_acquires, (double)run->calls),
           cli_histogram_us(&run->latency, 0.5), cli_histogram_us(&run->latency, 0.99),
           cli_histogram_us(&run->latency, 0.999), seconds);
}

static void print_text(const cli_bench_run *run, double seconds)
{
    printf("acquires per second  %.1f\n", ratio((double)run->measured, seconds));
    printf("measured             %.3f s\n", seconds);
    printf("latency              p50 %.3f us, p99 %.3f us, p999 %.3f us\n", cli_histogram_us(&run->latency, 0.5),
           cli_histogram_us(&run->latency, 0.99), cli_histogram_us(&run->latency, 0.999));
    printf("verdicts             %" PRIu64 " allowed, %" PRIu64 " denied, %" PRIu64 " errors\n", run->allowed,
           run->denied, run->errors);
    printf("acquires             %" PRIu64 " submitted, %" PRIu64 " answered\n", run->submitted, run->answered);
    if (!run->args->local)
        printf("script calls         %" PRIu64 ", %.2f acquires each\nreconnects           %" PRIu64 "\n", run->calls,
               ratio((double)run->call_acquires, (double)run->calls), run->connects > 0 ? run->connects - 1 : 0);
}

static int finish(const cli_bench_run *run, int rc)
{
    if (run->progress)
        fputs("\r\033[K", stderr);
    if (rc != 0)
        return rc;
    double seconds = (double)(run->end_ns - run->begin_ns) / 1e9;
    if (run->args->format == CLI_JSON)
        print_json(run, seconds);
    else
        print_text(run, seconds);
    if (*run->last_error != '\0')
        cli_fail(0, "%" PRIu64 " without a verdict, the last: %s", run->errors, run->last_error);
    return cli_flush() ? 0 : CLI_NO_VERDICT;
}

int cli_bench(const cli_args *args)
{
    cli_bench_run *run = calloc(1, sizeof *run);
    if (run == NULL || cli_names_init(&run->names, args->names, args->zipf) != 0) {
        free(run);
        return cli_fail(CLI_NO_VERDICT, "--names %" PRIu64 ": %s", args->names, hirate_strerror(HIRATE_ENOMEM));
    }
    run->args = args;
    run->progress = isatty(STDERR_FILENO) != 0;
    cli_request_init(&run->request, args, HIRATE_OP_ACQUIRE);
    watch_interrupts();
    int status = finish(run, args->local ? cli_bench_local(run) : cli_bench_redis(run));
    cli_names_free(&run->names);
    free(run);
    return status;
}
