#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# hirate against redis-benchmark's best pipelined rate with plain.lua, which decides one acquire a call, for each
# workload: same server, same core each, the same number of names, in turn. Prints each pair, then a table of medians.
#
# usage: bench/workloads.sh [PAIRS [SECONDS [WORKLOAD...]]]     default 3 pairs of 2 seconds, all workloads
#
# WORKLOAD  uniform-1024 uniform-4096 names-1000 names-100 one-name zipf one-in-flight half-load denied
#
# capacity=1000000 rate=1/s, so that keys live; where names are many, each key is used once at a high cost before, so that
# both sides find their keys there throughout. FAIL=yes: exit status 1 when a target is missed.

# shellcheck disable=SC2016 # awk expressions, not the shell's
. "$(dirname "$0")/common.sh"

pairs=${1:-3}
seconds=${2:-2}
[ "$#" -lt 2 ] || shift
[ "$#" -lt 1 ] || shift
workloads=${*:-uniform-1024 uniform-4096 names-1000 names-100 one-name zipf one-in-flight half-load denied}

limit='bench token-bucket capacity=1000000 rate=1/s'
many=100000
missed=0
: >"$folder/table"

row() { # WORKLOAD THEIRS OURS RATIO TARGET least|most
    awk -v w="$1" -v t="$2" -v o="$3" -v r="$4" -v target="$5" -v kind="$6" 'BEGIN {
        met = kind == "most" ? r <= target : r >= target
        printf "%-34s %14s %14s %8.2f   %s %-5s %s\n", w, t, o, r, kind == "most" ? "<=" : ">=", target, met ? "" : "MISSED"
    }' >>"$folder/table"
    if [ "$6" = most ]; then holds "$4 <= $5" || missed=1; else holds "$4 >= $5" || missed=1; fi
}

rate() {
    printf '%.0f/s' "$1"
}

use_every_name() {
    plain_csv 16 64 1000000 "$many" 1000000 1000000 1000 >/dev/null
    hirate_json 3 "$limit" --names "$many" --in-flight 4096 --cost 1000 >/dev/null
}

# Hot names get back what the pair before took, so that they bear as many pairs as are asked for.
refill() { # NAMES
    cli flushall >/dev/null
    [ "$1" -lt "$many" ] || use_every_name
}

# Nearly all allowed, and no errors: else the figure is not what it says.
check_run() { # JSON
    holds "$(echo "$1" | json errors) == 0" || { echo "errors: $1" >&2; exit 1; }
    holds "$(echo "$1" | json denied) * 100 < $(echo "$1" | json answered)" || { echo "denied: $1" >&2; exit 1; }
}

# closed_loop TITLE TARGET NAMES CAPACITY PERIOD_US THEIR-NAMES LIMIT OPTION...
closed_loop() {
    title=$1 target=$2 names=$3 capacity=$4 period=$5 theirs_names=$6 this_limit=$7
    shift 7
    cli flushall >/dev/null
    [ "$names" -lt "$many" ] || use_every_name
    requests=$(calc "int($plain_best * $seconds)")
    : >"$folder/pairs"
    i=0
    while [ "$i" -lt "$pairs" ]; do
        i=$((i + 1))
        case $names-$* in 1000-* | 100-* | *--zipf*) [ "$i" -eq 1 ] || refill "$names" ;; esac
        theirs=$(plain_rate "$plain_clients" "$plain_pipeline" "$requests" "$theirs_names" "$capacity" "$period" 1)
        result=$(hirate_json "$seconds" "$this_limit" --names "$names" "$@")
        check_run "$result"
        ours=$(echo "$result" | json acquires_per_s)
        echo "$theirs $ours" >>"$folder/pairs"
        echo "$title: $theirs/s, $ours/s, $(calc "$ours / $theirs"); $(echo "$result" | json acquires_per_call) a call," \
            "p50 $(echo "$result" | json p50_us) us, p99 $(echo "$result" | json p99_us) us"
    done
    row "$title" "$(rate "$(column_median "$folder/pairs" '$1')")" "$(rate "$(column_median "$folder/pairs" '$2')")" \
        "$(column_median "$folder/pairs" '$2 / $1')" "$target" least
}

uniform() { # IN-FLIGHT TARGET
    closed_loop "100,000 names, $1 in flight" "$2" "$many" 1000000 1000000 "$many" "$limit" --in-flight "$1"
}

hot() { # TITLE NAMES IN-FLIGHT TARGET
    closed_loop "$1" "$4" "$2" 1000000 1000000 "$2" "$limit" --in-flight "$3"
}

# One in flight, the same script. redis-benchmark's p50 comes in steps of 8 us, so the mean of a round trip, from the rate,
# is compared as well.
one_in_flight() { # LOOP
    sha=$(load_script)
    cli flushall >/dev/null
    : >"$folder/pairs"
    i=0
    while [ "$i" -lt "$pairs" ]; do
        i=$((i + 1))
        theirs=$(script_csv "$sha" "$many" -c 1 -P 1 -n "$(calc "int(20000 * $seconds)")")
        result=$(hirate_json "$seconds" "$script_limit" --names "$many" --in-flight 1 --loop "$1")
        check_run "$result"
        echo "$theirs" | awk -F, -v p50="$(echo "$result" | json p50_us)" -v rate="$(echo "$result" | json acquires_per_s)" \
            '{print $5 * 1000, p50, 1e6 / $2, 1e6 / rate}' >>"$folder/pairs"
        tail -n 1 "$folder/pairs" |
            awk -v loop="$1" '{print "one in flight, " loop ": p50 " $1 " us, " $2 " us; mean " $3 " us, " $4 " us"}'
    done
    row "one in flight, $1, p50" "$(column_median "$folder/pairs" '$1') us" "$(column_median "$folder/pairs" '$2') us" \
        "$(column_median "$folder/pairs" '$2 / $1')" 1.1 most
    row "one in flight, $1, mean" "$(printf '%.1f us' "$(column_median "$folder/pairs" '$3')")" \
        "$(printf '%.1f us' "$(column_median "$folder/pairs" '$4')")" "$(column_median "$folder/pairs" '$4 / $3')" 1.1 most
}

# look_at_cores MICROSECONDS: for a second both cores only read the clock. stalled: the percentage of the time in which each
# stood still for longer; reads: how many million times each read it. The server's core first.
look_at_cores() {
    [ -x "$folder/stalls" ] || cc_plain stalls
    taskset -c "$server_core" "$folder/stalls" 1 "$1" >"$folder/server_core" &
    client_pid=$!
    on_client_core "$folder/stalls" 1 "$1" >"$folder/client_core"
    wait "$client_pid"
    client_pid=
    stalled="$(cut -d' ' -f1 "$folder/server_core") % and $(cut -d' ' -f1 "$folder/client_core") %"
    reads="$(cut -d' ' -f2 "$folder/server_core") and $(cut -d' ' -f2 "$folder/client_core")"
}

# Open load at half of the peak: both ours, the left column is the idle p50. Idle means one in flight. How far the machine
# itself is from keeping the target is told by that p99, and by how long its cores stand still.
half_load() {
    cli flushall >/dev/null
    use_every_name
    : >"$folder/pairs"
    i=0
    while [ "$i" -lt "$pairs" ]; do
        i=$((i + 1))
        peak=$(hirate_json "$seconds" "$limit" --names "$many" --in-flight 4096 | json acquires_per_s)
        hirate_json "$seconds" "$limit" --names "$many" --in-flight 1 >"$folder/idle"
        idle=$(json p50_us <"$folder/idle") idle_p99=$(json p99_us <"$folder/idle")
        most=$(calc "int(4 * $idle)")
        look_at_cores "$most"
        result=$(hirate_json "$seconds" "$limit" --names "$many" --rate "$(calc "int($peak / 2)")")
        check_run "$result"
        echo "$idle $(echo "$result" | json p99_us)" >>"$folder/pairs"
        echo "half load: idle p50 $idle us, p99 $idle_p99 us; at $(echo "$result" | json acquires_per_s)/s" \
            "p50 $(echo "$result" | json p50_us) us, p99 $(echo "$result" | json p99_us) us, p999 $(echo "$result" | json p999_us) us;" \
            "the machine alone stands still for over $most us: $stalled of the time"
    done
    row 'half load: p99 against idle p50' "$(column_median "$folder/pairs" '$1') us" \
        "$(column_median "$folder/pairs" '$2') us" "$(column_median "$folder/pairs" '$2 / $1')" 4 most
}

script_calls() {
    cli info commandstats | sed -n 's/^cmdstat_eval\(sha\)\{0,1\}:calls=\([0-9]*\).*/\2/p' | awk '{n += $1} END {print n + 0}'
}

# One name that is denied: with remembered denials nothing of the flood may reach the server, from soon after its
# beginning to its end. Theirs is decided on the server's core, ours on the client's: when another machine slows one of them
# down, the ratio says so, and how fast each reads the clock. So ours is measured once more on the server's core, which has
# nothing to do meanwhile.
denied() {
    flood='flood token-bucket capacity=1 rate=1/h cache-denials=yes'
    cli flushall >/dev/null
    requests=$(calc "int($plain_best * $seconds)")
    calls=0
    : >"$folder/pairs"
    i=0
    while [ "$i" -lt "$pairs" ]; do
        i=$((i + 1))
        look_at_cores 1000
        reads_before=$reads
        theirs=$(plain_rate "$plain_clients" "$plain_pipeline" "$requests" 1 1 3600000000 1)
        hirate_json "$seconds" "$flood" --names 1 --in-flight 1024 >"$folder/flood" &
        client_pid=$!
        sleep 0.5
        before=$(script_calls)
        wait "$client_pid"
        client_pid=
        during=$(($(script_calls) - before))
        calls=$((calls + during))
        ours=$(json acquires_per_s <"$folder/flood")
        there=$(client_core=$server_core && hirate_json "$seconds" "$flood" --names 1 --in-flight 1024 | json acquires_per_s)
        look_at_cores 1000
        echo "$theirs $ours $there" >>"$folder/pairs"
        echo "denied flood: $theirs/s, $ours/s, $(calc "$ours / $theirs"), on the server's core $there/s; $(json denied <"$folder/flood") denied," \
            "$(json calls <"$folder/flood") calls, $during of them during the flood;" \
            "the cores read the clock $reads_before million times a second before, $reads after"
    done
    row 'denied flood of one name' "$(rate "$(column_median "$folder/pairs" '$1')")" \
        "$(rate "$(column_median "$folder/pairs" '$2')")" "$(column_median "$folder/pairs" '$2 / $1')" 30 least
    row "  the same on the server's core" "$(rate "$(column_median "$folder/pairs" '$1')")" \
        "$(rate "$(column_median "$folder/pairs" '$3')")" "$(column_median "$folder/pairs" '$3 / $1')" 30 least
    row '  script calls during it' - - "$calls" 0 most
}

machine
start_server
load_plain
choose_plain "$seconds"
for workload in $workloads; do
    case $workload in
    uniform-1024) uniform 1024 1.8 ;;
    uniform-4096) uniform 4096 2.1 ;;
    names-1000) hot '1,000 names, 4096 in flight' 1000 4096 8 ;;
    names-100) hot '100 names, 1024 in flight' 100 1024 10 ;;
    one-name) closed_loop 'one name, 1024 in flight' 22 1 1000000000000 1 1 \
        'bench token-bucket capacity=1000000000000 rate=1000000/s' --in-flight 1024 ;;
    zipf) closed_loop 'Zipf 1.1 over 100,000, 4096' 4.2 "$many" 1000000 1000000 "$many" "$limit" --in-flight 4096 --zipf 1.1 ;;
    one-in-flight) one_in_flight epoll; one_in_flight libevent ;;
    half-load) half_load ;;
    denied) denied ;;
    *) echo "no such workload: $workload" >&2; exit 2 ;;
    esac
done
echo
machine
printf '%-34s %14s %14s %8s   %s\n' workload redis-benchmark hirate ratio target
cat "$folder/table"
[ "${FAIL:-no}" = no ] || exit "$missed"
