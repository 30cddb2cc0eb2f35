#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What README.md shows is true: its program and its other pieces of C compile without a warning, link, and do against a real
# server what the text says; so do the tool's examples.
set -u
top=${top_srcdir:-$(dirname "$0")/..}
build=${top_builddir:-.}
. "$top/tests/support/shell.sh"

[ "${HAVE_LIBEVENT:-yes}" != no ] || skip "the program is for libevent, which is not there"

# blocks LANGUAGE FROM TO: the text of its FROM-th to TO-th block in that language
blocks()
{
    awk -v fence="\`\`\`$1" -v from="$2" -v to="$3" '
        /^```/ { ours = !open && $0 == fence; open = !open; n += ours; next }
        ours && n >= from && n <= to
        ' "$top/README.md"
}

# compile_and_link NAME: $scratch/NAME.c
compile_and_link()
{
    # shellcheck disable=SC2086 # the flags are words
    ${CC:-cc} -Wall -Wextra -Wconversion -Wshadow -Werror -I"$build/include" ${LIBEVENT_CFLAGS:-} \
        ${SANITIZE_CFLAGS:-} -c "$scratch/$1.c" -o "$scratch/$1.o" &&
        "$build/libtool" --silent --tag=CC --mode=link ${CC:-cc} ${SANITIZE_CFLAGS:-} -no-install -o "$scratch/$1" \
            "$scratch/$1.o" "$build/libhirate.la" ${LIBEVENT_LIBS:--levent}
}

# --------------------------------------------------------------------------------------------- the program --

# says TEXT: the program ends well, having said so
says()
{
    "$scratch/guard" >"$scratch/said" 2>&1 || { cat "$scratch/said"; return 1; }
    grep "$1" "$scratch/said"
}

# Tokens return meanwhile, so how many pass depends on the machine; not that they come to an end.
denied_at_last()
{
    tries=200
    until says '^denied, try again in [1-9][0-9]* ms$'; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
    done
}

# ---------------------------------------------------------------------------------------------- the pieces --

# All pieces of C but the program, as one, with a main() that uses what they define.
pieces()
{
    cat <<'END'
#include <hirate/adapters/libevent.h>
#include <inttypes.h>
#include <stdio.h>
END
    blocks c 2 99
    cat <<'END'
static struct event_base *base;
static hirate *h;
static int wrong;

static void check(int ok, const char *what)
{
    wrong += !ok;
    if (!ok)
        printf("wrong: %s\n", what);
}

/* After a call that returned rc: run the loop until everything is answered. */
static void answered(int rc)
{
    hirate_stats stats;

    check(rc == 0, "a call failed");
    hirate_stats_init(&stats);
    do {
        event_base_loop(base, EVLOOP_ONCE);
        hirate_get_stats(h, &stats);
    } while (stats.pending > 0);
    check(stats.errors == 0, "an error");
}

static void on_left(hirate *client, const hirate_result *result, void *left)
{
    (void)client;
    *(uint64_t *)left = result->remaining;
}

static uint64_t left_of(const hirate_limit *limit)
{
    uint64_t left = 0;

    answered(hirate_peek(h, limit, "acme", 4, 0, on_left, &left));
    return left;
}

static void use_leases(void)
{
    struct job jobs[5], ended;

    for (int i = 0; i < 5; i++)
        answered(begin_export(h, "acme", &jobs[i]));
    check(jobs[0].permit[0] && jobs[3].permit[0] && !jobs[4].permit[0], "four leases");
    ended = jobs[1];
    answered(still_exporting(h, &jobs[0]));
    answered(end_export(h, &jobs[1]));
    answered(still_exporting(h, &ended));
    check(jobs[0].permit[0] && !jobs[1].permit[0] && !ended.permit[0], "one renewed, one released, one ended");
    check(left_of(&EXPORTING) == 1, "the released one is free");
}

static void use_reservations(void)
{
    struct job job;
    uint64_t left = 0;

    answered(reserve_rows(h, "acme", &job));
    check(left_of(&ROWS) == 9500, "500 reserved");
    answered(charge_rows(h, &job, 437, on_left, &left));
    check(left == 9563 && left_of(&ROWS) == 9563, "437 charged");
    answered(reserve_rows(h, "acme", &job));
    answered(charge_rows(h, &job, 0, on_left, &left));
    check(left == 9563, "the second refunded");
}

int main(int argc, char **argv)
{
    hirate_limits *limits = NULL;
    hirate_options options;
    hirate_loop loop;

    base = event_base_new();
    hirate_options_init(&options);
    options.uri = getenv("HIRATE_REDIS");
    if (argc != 2 || hirate_libevent(&loop, base) != 0 || hirate_new(&h, &loop, &options) != 0 ||
        hirate_limits_load(&limits, argv[1], NULL) != 0)
        return 2;
    use_leases();
    use_reservations();
    for (int i = 0; i < 200; i++)
        check(admit(h, "ann", "acme") == 0, "admit"); /* in one turn, so that they are decided at one time */
    answered(admit_user(h, limits, "bob"));
    FILE *file = fopen(argv[1], "a");
    check(file != NULL && fprintf(file, "user nonsense\n") > 0 && fclose(file) == 0, "a file with a mistake");
    reload(limits);
    answered(admit_user(h, limits, "bob"));
    check(EXPORTS.capacity == 10000, "EXPORTS");
    hirate_limits_free(limits);
    hirate_free(h);
    event_base_free(base);
    return wrong > 0;
}
END
}

run_pieces()
{
    "$scratch/pieces" "$scratch/limits" >"$scratch/said" 2>&1 || { cat "$scratch/said"; return 1; }
}

# pieces_say TEXT
pieces_say()
{
    grep -E "$1" "$scratch/said" || { cat "$scratch/said"; return 1; }
}

# ------------------------------------------------------------------------------------------------- the tool --

# The shell's pieces that have the tool, in a folder with a trace. The one that measures is not to take long.
run_tool()
{
    mkdir "$scratch/tool" || return 1
    printf '0\t20\tx\n1000000\t1\tx\n' >"$scratch/tool/trace.tsv"
    {
        echo 'set -e'
        sed -n '/^## The tool/,/^## What is not/p' "$top/README.md" | sed -n '/^```sh$/,/^```$/{/^```/!p;}' |
            sed 's/--seconds 10/--seconds 0.2/'
    } >"$scratch/tool/tool.sh"
    folder=$(cd "$(dirname "$HIRATE_TOOL")" && pwd)
    (cd "$scratch/tool" && PATH=$folder:$PATH HIRATE_REDIS="$HIRATE_REDIS?db=1" sh tool.sh) >"$scratch/tool/said" 2>&1 ||
        { cat "$scratch/tool/said"; return 1; }
}

# tool_says LINE: a line with so much of it
tool_says()
{
    grep -E "$1" "$scratch/tool/said" || { cat "$scratch/tool/said"; return 1; }
}

start_server
blocks c 1 1 >"$scratch/guard.c"
expect "the program compiles and links" compile_and_link guard
if [ "$failed" -eq 0 ]; then
    expect "the first is allowed" says '^allowed, 19 left$'
    expect "one is denied in the end" denied_at_last
fi

pieces >"$scratch/pieces.c"
sed -n '/^# name  *kind/,/^```$/{/^```/!p;}' "$top/README.md" >"$scratch/limits"
expect "the pieces compile and link" compile_and_link pieces
if [ -x "$scratch/pieces" ]; then
    expect "the pieces do what they should" run_pieces
    expect "one limit of several denies" pieces_say '^user denies, for [1-9][0-9]* ms$'
    expect "a shadow tells" pieces_say '^user-tried would have denied$'
    expect "a limits file with a mistake changes nothing" pieces_say '/limits:5: .*; the limits stay as they were$'
fi

: "${HIRATE_TOOL:=$build/hirate}"
expect "the tool's examples run" run_tool
for line in '^allowed login 203' 'allowed user,ip,new ann,' '^renewed$' '^released$' '^committed$' '^ended$'; do
    expect "the tool says $line" tool_says "$line"
done
finish
