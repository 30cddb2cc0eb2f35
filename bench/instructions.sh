#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What an acquire costs the client: instructions (callgrind) and allocations, by the object in which they happen, of hirate
# and of a loop on raw hiredis with one call an acquire. Each figure is the difference between a long and a short run, so
# that start-up cancels out.
#
# usage: bench/instructions.sh [SHORT [LONG]]     default 20,000 and 60,000 acquires
#
# Under valgrind the client is the slow side, so calls are smaller than usual: hirate's figures are the upper end.
# The program itself (making names, counting) and what it draws from the adapter, inline, are its own line.

. "$(dirname "$0")/common.sh"

short=${1:-20000}
long=${2:-60000}

compile fixed_load
compile raw_hiredis
# shellcheck disable=SC2086
${CC:-cc} -std=gnu11 -O2 -Wall -Wextra -D_GNU_SOURCE -fPIC -shared -o "$folder/count_allocations.so" \
    "$top/bench/count_allocations.c"
for program in valgrind callgrind_annotate; do
    command -v "$program" >/dev/null || { echo "$program is not installed" >&2; exit 2; }
done
start_server
load_plain

run() { # hirate|raw NAMES IN-FLIGHT COUNT PREFIX...
    client=$1 names=$2 in_flight=$3 count=$4
    shift 4
    case $client in
    hirate) on_client_core "$@" "$folder/fixed_load" "unix://$socket" 'bench token-bucket capacity=1000000 rate=1/s' \
        "$names" "$in_flight" "$count" ;;
    raw) on_client_core "$@" "$folder/raw_hiredis" "$socket" "$plain_sha" "$names" "$in_flight" "$count" ;;
    esac
}

# Instructions by object: OBJECT COUNT lines
instructions_of() { # CALLGRIND-FILE
    callgrind_annotate --threshold=100 --show-percs=no "$1" | sed -n 's|^ *\([0-9,][0-9,]*\) .*\[\(.*/\)\{0,1\}\([^]/]*\)\]$|\1 \3|p' |
        tr -d , | awk '{n[$2] += $1} END {for (o in n) print o, n[o]}'
}

# The difference of two files of OBJECT COUNT lines, for each acquire and each call
per_acquire() { # TITLE SHORT-FILE LONG-FILE ACQUIRES CALLS
    awk -v title="$1" -v acquires="$4" -v calls="$5" '
        FNR == NR {n[$1] -= $2; next}
        {n[$1] += $2}
        function name(o) {
            if (o ~ /^libhirate/) return "hirate"
            if (o ~ /^libhiredis/) return "hiredis"
            if (o ~ /^(libc|ld-)/) return "libc"
            if (o ~ /^(fixed_load|raw_hiredis|program)$/) return "the program"
            return "other"
        }
        function shown(p) { # also what is zero, of hirate and hiredis
            return part[p] > 0 || (p in part && p ~ /^hi/)
        }
        END {
            for (o in n) { part[name(o)] += n[o]; total += n[o] }
            split("hirate,hiredis,libc,the program,other", order, ",")
            for (i = 1; i <= 5; i++)
                if (shown(order[i])) line = line sprintf("  %s %.4g", order[i], part[order[i]] / acquires)
            printf "%-16s %10.4g an acquire:%s\n", title, total / acquires, line
            line = ""
            for (i = 1; i <= 5; i++)
                if (shown(order[i])) line = line sprintf("  %s %.4g", order[i], part[order[i]] / calls)
            printf "%-16s %10.4g a call:    %s\n", "", total / calls, line
        }' "$2" "$3"
}

measure() { # hirate|raw NAMES IN-FLIGHT
    for length in short long; do
        [ "$length" = short ] && count=$short || count=$long
        result=$(run "$1" "$2" "$3" "$count" valgrind -q --tool=callgrind --callgrind-out-file="$folder/callgrind" 2>/dev/null)
        eval "calls_$length=\$(echo \"\$result\" | json calls)"
        instructions_of "$folder/callgrind" >"$folder/instructions.$length"
        # shellcheck disable=SC2034 # by eval
        # ten times as many, as nothing slows them
        result=$(run "$1" "$2" "$3" "$((count * 10))" env LD_PRELOAD="$folder/count_allocations.so" \
            COUNT_ALLOCATIONS="$folder/allocations.$length")
        eval "alloc_calls_$length=\$(echo \"\$result\" | json calls)"
    done
    # shellcheck disable=SC2154
    calls=$((calls_long - calls_short)) alloc_calls=$((alloc_calls_long - alloc_calls_short))
    acquires=$((long - short))
    echo "$1, $2 names, $3 in flight: $(calc "$acquires / $calls") acquires a call ($(calc "$acquires * 10 / $alloc_calls")" \
        "without valgrind)"
    per_acquire '  instructions' "$folder/instructions.short" "$folder/instructions.long" "$acquires" "$calls"
    per_acquire '  allocations' "$folder/allocations.short" "$folder/allocations.long" "$((acquires * 10))" "$alloc_calls"
}

machine
for workload in '100000 1024' '1000 4096' '100 1024' '1 1024' '100000 1'; do
    measure raw "${workload% *}" "${workload#* }"
    measure hirate "${workload% *}" "${workload#* }"
done
