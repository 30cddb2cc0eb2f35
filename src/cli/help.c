/* SPDX-License-Identifier: BSD-3-Clause */
/* help: what --help prints. */
#include "help.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char TOOL[] =
    "hirate: admit or deny work by rate, decided in Redis\n"
    "\n"
    "usage: hirate acquire  --limit SPEC [OPTIONS] NAME    take tokens, if there is room\n"
    "       hirate acquire  --limit SPEC [OPTIONS] -       the same for each line of stdin\n"
    "       hirate peek     --limit SPEC [OPTIONS] NAME    answer as acquire would, taking nothing\n"
    "       hirate reset    --limit SPEC [OPTIONS] NAME    forget what was used\n"
    "       hirate release  [OPTIONS] PERMIT               end a lease that acquire took\n"
    "       hirate renew    [OPTIONS] PERMIT               have a lease last its whole time from now\n"
    "       hirate commit   [OPTIONS] PERMIT AMOUNT        charge what a reservation came to\n"
    "       hirate refund   [OPTIONS] PERMIT               charge nothing for a reservation\n"
    "       hirate simulate --limit SPEC [OPTIONS] [FILE]  decide recorded requests, without Redis\n"
    "       hirate bench    --limit SPEC [OPTIONS]         measure acquires per second\n"
    "       hirate COMMAND --help | --help | --version\n"
    "\n"
    "Each command's --help tells its options, output and exit status.\n";

static const char SPEC[] =
    "\n"
    "SPEC, one argument, one of:\n"
    "  'NAME token-bucket capacity=C rate=N/DURATION'    a cost is taken while there are tokens\n"
    "  'NAME leaky-bucket capacity=C rate=N/DURATION'    the same as a queue: delay_ms tells when its turn comes\n"
    "  'NAME fixed-window limit=L window=DURATION'       in each window since 1970; 2*L around an edge may pass\n"
    "  'NAME quota limit=L per=PERIOD [offset=+HH:MM]'   in each hour, day, week (from Monday) or calendar month\n"
    "  'NAME sliding-log limit=L window=DURATION'        in any interval as long as the window; L up to 8192\n"
    "  'NAME sliding-window limit=L window=DURATION'     the same from two counters, roughly\n"
    "  'NAME concurrency limit=L lease=DURATION'         held at once, until released or the lease is over\n"
    "such as 'login token-bucket capacity=20 rate=1/3s'.\n"
    "  NAME      1 to 64 of A-Z a-z 0-9 . _ -; with PREFIX the beginning of each Redis key\n"
    "  capacity  most tokens a bucket holds, and the largest burst; it starts full\n"
    "  rate      N tokens return each DURATION, continuously\n"
    "  DURATION  one of us ms s m h d, with an optional whole number before it: 50/s, 1/3s, 7/13ms\n"
    "  offset    of local time from UTC, -23:59 to +23:59; summer time is not followed\n"
    "Further keys of each: cache-denials=yes, on-failure=error|open|closed|local, local-share=NUM/DEN, shadow=yes: it\n"
    "never denies, and what it would have denied is told apart.\n";

static const char REDIS_OPTION[] =
    "  --redis URI          redis://[[user]:password@]host[:port][/db] (host also [IPv6]) or\n"
    "                       unix://[[user]:password@]/path.sock[?db=N]; user and password percent-encoded.\n"
    "                       Default: the environment variable HIRATE_REDIS, if set and not empty, then\n"
    "                       redis://127.0.0.1:6379\n";
static const char DEADLINE_OPTION[] =
    "  --deadline DURATION  how long each may take, up to 1d; parts of a millisecond round up (default 1s)\n";
static const char LOCAL_OPTIONS[] =
    "  --local              decide in this process instead, on its own clock; buckets start full and end with it\n"
    "  --prefix PREFIX      of every key: 1 to 64 of A-Z a-z 0-9 . _ - (default hirate)\n";

static const char ENDING[] =
    "  --help               print this\n"
    "  --                   what follows is no option\n"
    "Options are written --option value or --option=value, each at most once unless it says else.\n";

static const char ACQUIRE[] =
    "usage: hirate acquire --limit SPEC [--limit SPEC...] [OPTIONS] NAME...\n"
    "       hirate acquire --limit SPEC [--limit SPEC...] [OPTIONS] -\n"
    "\n"
    "Take COST from what NAME has left under the limit if there is so much, else take nothing. A NAME is 1 to 1024\n"
    "bytes, as given. With several limits either every one takes the cost or none does, decided in one step: give one\n"
    "NAME for all of them, or one for each in their order.\n"
    "\n"
    "With - each line of stdin is a request, COST<TAB>NAME, or COST and a name for each limit, separated by tabs\n"
    "(--cost does not count then). In NAME \\\\ \\t \\n \\r \\xHH stand for those bytes; a carriage return at the end\n"
    "of a line is part of the name. Rows come in the order of the lines, each as soon as it is known; up to 1,024\n"
    "requests are in flight. A malformed line (also an empty one, and one over 8192 bytes, 4096 more for each further\n"
    "limit) is reported as `line N: ...` on stderr; it has no row and takes nothing, and reading goes on.\n"
    "\n"
    "What a concurrency limit admits is a lease, and with --reserve what a quota admits a reservation: the column\n"
    "permit has what hirate release, renew, commit and refund need. With --local it is of no use: it ends with this\n"
    "process.\n";

static const char PEEK[] =
    "usage: hirate peek --limit SPEC [--limit SPEC...] [OPTIONS] NAME...\n"
    "\n"
    "Answer what an acquire of that cost would be answered now, taking and writing nothing. A NAME is 1 to 1024\n"
    "bytes, as given. With several limits give one NAME for all of them, or one for each in their order.\n";

static const char RESET[] =
    "usage: hirate reset --limit SPEC [OPTIONS] NAME\n"
    "\n"
    "Forget what NAME used under the limit, leases and reservations too. Prints `used` if there was something to\n"
    "forget, else `unused`; with --format json {\"name\":...,\"result\":\"used\"}. --cost does not count. A NAME is 1\n"
    "to 1024 bytes, as given.\n";

static const char LIMIT_OPTIONS[] =
    "\n"
    "options:\n"
    "  --limit SPEC         the limit; required; up to 16 times for as many limits that decide together\n"
    "  --limits FILE        limits in a file: a SPEC a line, # begins a comment line. Then --limit NAME, a word\n"
    "                       without blanks, is the limit of that name in it\n";
static const char RESET_LIMIT_OPTIONS[] =
    "\n"
    "options:\n"
    "  --limit SPEC         the limit; required\n"
    "  --limits FILE        limits in a file: a SPEC a line, # begins a comment line. Then --limit NAME, a word\n"
    "                       without blanks, is the limit of that name in it\n";

static const char NAME_OPTIONS[] =
    "  --cost N             how much is asked for, 0 to 9007199254740991 (default 1)\n"
    "  --name NAME          the same as NAME; passes any name, also - and the empty one; as often as NAME\n"
    "  --format FORMAT      text, tsv or json (default text)\n";
static const char RESERVE_OPTION[] =
    "  --reserve DURATION   reserve under the quotas among the limits, for so long: the cost counts as used until it\n"
    "                       is committed or refunded, or the time is over\n";

static const char ROWS[] =
    "\n"
    "output, a line for each answer:\n"
    "  tsv   time_us cost name verdict remaining retry_after_ms reset_ms delay_ms source charge bound shadow-denied\n"
    "        permit; no header\n"
    "  json  one object with these keys\n"
    "  text  allowed login 203.0.113.9: 19 left, full again in 3 s\n"
    "        denied login 203.0.113.9: 0 left, retry after 3 s, full again in 60 s\n"
    "        error login 203.0.113.9: no verdict, not charged\n"
    "        denied user,ip ann,203.0.113.9: 0 left, retry after 3 s, full again in 60 s, bound by ip\n"
    "\n"
    "  time_us         the deciding clock, microseconds since 1970\n"
    "  verdict         allowed, denied, or error: no verdict, the reason is on stderr\n"
    "  remaining       whole tokens, or how much of the limit, left; of several limits the smallest\n"
    "  retry_after_ms  denied: after exactly this wait the same request succeeds, if nobody else takes anything;\n"
    "                  never: no waiting helps, the cost is above the capacity or limit. Of several the longest\n"
    "  reset_ms        until nothing that was taken counts any more; of several the longest\n"
    "  delay_ms        allowed by a leaky bucket: how long to wait before going on; else 0\n"
    "  source          who decided: redis, cache, local, fail-open, fail-closed, none\n"
    "  charge          whether the cost was taken: yes, no, maybe (sent, but no answer came)\n"
    "  bound           the limit that decided: denied, the one to wait for longest; else the one with least left\n"
    "  shadow-denied   the shadow limits that would have denied, joined by ,\n"
    "  permit          of the leases and reservations taken, in the order of their limits, joined by ,\n"
    "\n"
    "What is unknown or not there is - (json: null). In names tsv and text write \\\\ \\t \\n \\r, and \\xHH for\n"
    "other control bytes and bytes that are not valid UTF-8; json writes those as \\u00HH. Several names are joined\n"
    "by a comma, one of their own written \\x2c; json has the same text.\n";

static const char ONE_STATUS[] = "\n"
                                 "exit status: 0 allowed, 1 denied, 2 wrong usage, 3 no verdict\n";
static const char STREAM_STATUS[] =
    "With -: 0 every line had a verdict, 2 a line was malformed, 3 a line had no verdict\n";
static const char RESET_STATUS[] = "\n"
                                   "exit status: 0 done, 2 wrong usage, 3 no answer; the reason is on stderr\n";

static const char ACQUIRE_EXAMPLES[] =
    "\n"
    "examples:\n"
    "  hirate acquire --limit 'login token-bucket capacity=20 rate=1/3s' 203.0.113.9\n"
    "  hirate acquire --limit 'api token-bucket capacity=100 rate=50/s' --cost 5 --format json customer-7\n"
    "  printf '1\\talice\\n2\\tbob\\n' | hirate acquire --limit 'api token-bucket capacity=100 rate=50/s' --format tsv "
    "-\n"
    "  hirate acquire --limits /etc/limits --limit user --limit ip ann 203.0.113.9\n"
    "  hirate acquire --limit 'jobs concurrency limit=4 lease=5m' --format tsv nightly | cut -f13\n"
    "  hirate acquire --limit 'traffic quota limit=10000 per=month' --reserve 10m --cost 500 customer-7\n";
static const char PEEK_EXAMPLES[] = "\n"
                                    "example:\n"
                                    "  hirate peek --limit 'login token-bucket capacity=20 rate=1/3s' 203.0.113.9\n";
static const char RESET_EXAMPLES[] = "\n"
                                     "example:\n"
                                     "  hirate reset --limit 'login token-bucket capacity=20 rate=1/3s' 203.0.113.9\n";

static const char RELEASE[] =
    "usage: hirate release [OPTIONS] PERMIT\n"
    "\n"
    "Give back what a lease holds. PERMIT is what an acquire under a concurrency limit printed as permit; several are\n"
    "joined by a comma, as it prints them, and each is a request of its own.\n"
    "\n"
    "Prints `released`, or `ended` if it was held no longer, a line for each permit.\n";
static const char RENEW[] =
    "usage: hirate renew [OPTIONS] PERMIT\n"
    "\n"
    "Have a lease end its whole lease time from now. PERMIT is what an acquire under a concurrency limit printed as\n"
    "permit; several are joined by a comma, as it prints them, and each is a request of its own.\n"
    "\n"
    "Prints `renewed`, or `ended` if it was held no longer, a line for each permit.\n";
static const char COMMIT[] =
    "usage: hirate commit [OPTIONS] PERMIT AMOUNT\n"
    "\n"
    "Charge AMOUNT, 0 to 9007199254740991, in place of what was reserved: more or less, beyond the limit if need be.\n"
    "PERMIT is what an acquire with --reserve printed as permit; several are joined by a comma, as it prints them,\n"
    "and each is a request of its own, with the same AMOUNT.\n"
    "\n"
    "Prints `committed`, or `late` if the reservation's time or its quota's window was over and the current window\n"
    "was charged, a line for each permit. One that is gone before its time (committed, refunded or reset) is an\n"
    "error.\n";
static const char REFUND[] =
    "usage: hirate refund [OPTIONS] PERMIT\n"
    "\n"
    "Charge nothing for what was reserved. PERMIT is what an acquire with --reserve printed as permit; several are\n"
    "joined by a comma, as it prints them, and each is a request of its own.\n"
    "\n"
    "Prints `refunded`, or `ended` if it was there no longer, a line for each permit.\n";
static const char PERMIT_OPTIONS[] =
    "With --format tsv remaining and reset_ms follow the word; with --format json a line is an object with op,\n"
    "result, remaining, reset_ms, policy and charge. `error` stands for no answer, whose reason is on stderr, with -\n"
    "(json: null) for what is unknown. Where one of several permits cannot be read nothing is done.\n"
    "\n"
    "options:\n"
    "  --format FORMAT      text, tsv or json (default text)\n";
static const char PERMIT_STATUS[] =
    "\n"
    "exit status: 0 done, 1 it had ended, 2 wrong usage, 3 no answer; of several permits the worst\n";
static const char COMMIT_STATUS[] =
    "\n"
    "exit status: 0 committed or late, 2 wrong usage, 3 no answer, or gone before its time; of several permits the\n"
    "worst\n";
static const char LEASE_EXAMPLE[] =
    "\n"
    "example:\n"
    "  permit=$(hirate acquire --limit 'jobs concurrency limit=4 lease=5m' --format tsv nightly | cut -f13)\n";
static const char RESERVATION_EXAMPLE[] =
    "\n"
    "example:\n"
    "  permit=$(hirate acquire --limit 'traffic quota limit=10000 per=month' --reserve 10m --cost 500 \\\n"
    "      --format tsv customer-7 | cut -f13)\n";

static const char SIMULATE[] =
    "usage: hirate simulate --limit SPEC [--limit SPEC...] [--format tsv|json] [FILE]\n"
    "\n"
    "Decide recorded requests on a virtual clock, in this process, without Redis. Each line of FILE (default, and -:\n"
    "stdin) is TIME_US<TAB>COST<TAB>NAME: the clock, which may step back, in microseconds since 1970; what is asked\n"
    "for; and the name, in which \\\\ \\t \\n \\r \\xHH stand for those bytes. With several limits, which all take\n"
    "the cost or none does, NAME is for all of them, or as many columns as limits are a name for each. Other further\n"
    "columns are passed over, so that rows printed earlier can be read again (the names of one that had several are\n"
    "read as one name for all, with its commas); so are lines beginning with #. A malformed line is reported as\n"
    "`line N: ...` on stderr; it has no row, and reading goes on.\n";
static const char SIMULATE_OPTIONS[] = "  --format FORMAT      tsv or json (default tsv)\n";
static const char SIMULATE_END[] =
    "\n"
    "output, a line for each request:\n"
    "  tsv   time_us cost name verdict remaining retry_after_ms reset_ms delay_ms; no header\n"
    "  json  one object with these keys\n"
    "The columns mean what `hirate acquire --help` says; retry_after_ms may be never.\n"
    "\n"
    "exit status: 0, or 2 for wrong usage, a malformed line, or input that failed; 3 output that failed\n"
    "\n"
    "example:\n"
    "  printf '0\\t20\\tx\\n1000000\\t1\\tx\\n' | hirate simulate --limit 'login token-bucket capacity=20 rate=1/3s'\n";

static const char BENCH[] =
    "usage: hirate bench --limit SPEC [--limit SPEC...] [OPTIONS]\n"
    "\n"
    "Measure acquires per second and their latency. Names are 0, 1, ... N-1 as text, pseudo-random from a fixed\n"
    "seed; with several limits an acquire is one request under all of them, for the same name. The measurement begins\n"
    "when a first acquire was answered and the others are in flight, so neither connecting nor that counts; SIGINT\n"
    "ends it early. Leases are not released.\n";
static const char BENCH_OPTIONS[] =
    "  --cost N             of each acquire, 0 to 9007199254740991 (default 1)\n"
    "  --names N            how many names, up to 2147483648 (default 1)\n"
    "  --zipf S             draw names by Zipf's law: name k weighs 1/(k+1)^S, S 0 to 10 (default 0: uniform)\n"
    "  --in-flight N        acquires outstanding, up to 4194304: each answer submits the next (default 256)\n"
    "  --rate N             instead submit N a second, whatever comes back, from a tick each 50 microseconds.\n"
    "                       Latency then counts from when each was due, the wait for the tick included. At most\n"
    "                       --in-flight (default then 65536) are outstanding; what finds no room counts as an error\n"
    "  --seconds N          how long, 0.1 to 86400 (default 5)\n"
    "  --format FORMAT      text or json (default text)\n";
static const char BENCH_END[] =
    "\n"
    "output: a summary; with --format json one object on one line, with these keys:\n"
    "  acquires_per_s            verdicts in the measured time, per second\n"
    "  allowed denied errors     of the whole run; errors had no verdict or were refused\n"
    "  submitted answered        of the whole run\n"
    "  reconnects                connections after the first\n"
    "  calls acquires_per_call   script calls sent, and acquires in each on average; 0 with --local\n"
    "  p50_us p99_us p999_us     latency in microseconds, to 1 %. The clock is read for up to 16 answers at once;\n"
    "                            with --local one decision of 32 is timed, the reading of the clock included\n"
    "  seconds                   measured time\n"
    "On a terminal, stderr shows the progress once a second. With --local there is one decision at a time.\n"
    "\n"
    "exit status: 0 when it ran to its end, however many errors; 2 wrong usage; 3 it could not run\n"
    "\n"
    "example:\n"
    "  hirate bench --limit 'bench token-bucket capacity=100 rate=50/s' --names 100000 --seconds 10 --format json\n";

/* Print texts up to a NULL. */
static void print(const char *const texts[])
{
    for (size_t i = 0; texts[i] != NULL; i++)
        fputs(texts[i], stdout);
}

/* Only here is it known which loops are built in. */
static void print_loop_option(void)
{
    printf("  --loop LOOP          event loop: %s (default %s)\n", cli_loop_names(), cli_loop_find(NULL)->name);
}

static void print_client_options(void)
{
    print((const char *const[]){REDIS_OPTION, LOCAL_OPTIONS, DEADLINE_OPTION, NULL});
    print_loop_option();
    print((const char *const[]){ENDING, SPEC, NULL});
}

static void print_permits(const char *what, const char *example, const char *command)
{
    bool commit = strcmp(command, "commit") == 0;
    print((const char *const[]){what, PERMIT_OPTIONS, REDIS_OPTION, DEADLINE_OPTION, NULL});
    print_loop_option();
    print((const char *const[]){ENDING, commit ? COMMIT_STATUS : PERMIT_STATUS, example, NULL});
    printf("  hirate %s \"$permit\"%s\n", command, commit ? " 437" : "");
}

static void print_tool(void)
{
    print((const char *const[]){TOOL, SPEC, NULL});
    fputs("\nenvironment: HIRATE_REDIS, the URI used when --redis is not given (default redis://127.0.0.1:6379)\n"
          "\n"
          "exit status: 0 allowed or done, 1 denied or ended, 2 wrong usage, 3 no verdict or answer\n",
          stdout);
}

void cli_help(cli_command command)
{
    switch (command) {
    case CLI_ACQUIRE:
        print((const char *const[]){ACQUIRE, LIMIT_OPTIONS, NAME_OPTIONS, RESERVE_OPTION, NULL});
        print_client_options();
        print((const char *const[]){ROWS, ONE_STATUS, STREAM_STATUS, ACQUIRE_EXAMPLES, NULL});
        break;
    case CLI_PEEK:
        print((const char *const[]){PEEK, LIMIT_OPTIONS, NAME_OPTIONS, NULL});
        print_client_options();
        print((const char *const[]){ROWS, ONE_STATUS, PEEK_EXAMPLES, NULL});
        break;
    case CLI_RESET:
        print((const char *const[]){RESET, RESET_LIMIT_OPTIONS, NAME_OPTIONS, NULL});
        print_client_options();
        print((const char *const[]){RESET_STATUS, RESET_EXAMPLES, NULL});
        break;
    case CLI_RELEASE:
        print_permits(RELEASE, LEASE_EXAMPLE, "release");
        break;
    case CLI_RENEW:
        print_permits(RENEW, LEASE_EXAMPLE, "renew");
        break;
    case CLI_COMMIT:
        print_permits(COMMIT, RESERVATION_EXAMPLE, "commit");
        break;
    case CLI_REFUND:
        print_permits(REFUND, RESERVATION_EXAMPLE, "refund");
        break;
    case CLI_SIMULATE:
        print((const char *const[]){SIMULATE, LIMIT_OPTIONS, SIMULATE_OPTIONS, ENDING, SPEC, SIMULATE_END, NULL});
        break;
    case CLI_BENCH:
        print((const char *const[]){BENCH, LIMIT_OPTIONS, BENCH_OPTIONS, NULL});
        print_client_options();
        print((const char *const[]){BENCH_END, NULL});
        break;
    case CLI_COMMAND_NONE:
        print_tool();
        break;
    }
}
