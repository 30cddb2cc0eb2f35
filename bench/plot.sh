#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Acquires per second and p99 latency against requests in flight, hirate and redis-benchmark with plain.lua (one acquire a
# call), as an SVG. The figures go to standard output, medians of ROUNDS.
#
# usage: bench/plot.sh [SECONDS [ROUNDS [FILE]]]     default 1 second, 3 rounds, docs/throughput.svg
#
# redis-benchmark shares its requests in flight out to 1, 4 or 16 connections, whichever gives the highest rate.

# shellcheck disable=SC2016 # awk expressions, not the shell's
. "$(dirname "$0")/common.sh"

seconds=${1:-1}
rounds=${2:-3}
svg=${3:-$top/docs/throughput.svg}
limit='bench token-bucket capacity=1000000 rate=1/s'
steps='1 4 16 64 256 1024 4096'

hirate_point() { # NAMES IN-FLIGHT: acquires per second and p99
    result=$(hirate_json "$seconds" "$limit" --names "$1" --in-flight "$2")
    holds "$(echo "$result" | json errors) == 0" || { echo "errors: $result" >&2; exit 1; }
    echo "$(echo "$result" | json acquires_per_s) $(echo "$result" | json p99_us)"
}

plain_point() { # CLIENTS IN-FLIGHT REQUESTS
    plain_csv "$1" "$(($2 / $1))" "$3" 100000 1000000 1000000 1 | awk -F, '{print $2, $7 * 1000}'
}

# The number of connections that suits IN-FLIGHT best, and its rate
choose_clients() { # IN-FLIGHT
    for clients in 1 4 16; do
        [ "$((clients * 4))" -gt "$1" ] && [ "$clients" -gt 1 ] && continue
        echo "$clients $(plain_point "$clients" "$1" "$(($1 < 16 ? 10000 : 50000))")"
    done | sort -k2 -g | tail -n 1
}

point() { # SERIES IN-FLIGHT FILE
    printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$(column_median "$3" '$1')" "$(column_median "$3" '$2')" | tee -a "$folder/$1"
}

start_server
load_plain
plain_csv 16 64 500000 100000 1000000 1000000 1000 >/dev/null # see workloads.sh: keys that are there
hirate_json 2 "$limit" --names 100000 --in-flight 4096 --cost 1000 >/dev/null
about="$(machine)"
for in_flight in $steps; do
    choice=$(choose_clients "$in_flight")
    clients=${choice%% *}
    requests=$(echo "$choice" | awk -v seconds="$seconds" '{printf "%d", $2 * seconds}')
    rm -f "$folder/many" "$folder/few" "$folder/plain"
    round=0
    while [ "$round" -lt "$rounds" ]; do
        round=$((round + 1))
        plain_point "$clients" "$in_flight" "$requests" >>"$folder/plain"
        hirate_point 100000 "$in_flight" >>"$folder/many"
        hirate_point 1000 "$in_flight" >>"$folder/few"
    done
    point 'hirate, 1,000 names' "$in_flight" "$folder/few"
    point 'hirate, 100,000 names' "$in_flight" "$folder/many"
    point 'redis-benchmark, one acquire a call, 100,000 names' "$in_flight" "$folder/plain"
done
mkdir -p "$(dirname "$svg")"
cat "$folder/hirate, 1,000 names" "$folder/hirate, 100,000 names" "$folder"/redis-benchmark,* |
    awk -v subtitle="Redis $("$server" --version | sed 's/.*v=\([0-9.]*\).*/\1/'), unix socket, server and client on a core each, one connection for hirate" \
        -v about="bench/plot.sh, medians of $rounds rounds of $seconds s: $about" \
        -f "$top/bench/plot.awk" >"$folder/plot.svg"
mv "$folder/plot.svg" "$svg"
echo "$about"
echo "$svg"
