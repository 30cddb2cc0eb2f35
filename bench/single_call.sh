#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# hirate with 256 acquires in flight over 100,000 names, against redis-benchmark -P 64 sending the same script, one
# acquire a call, over as many names: same server, same core each, in turn. Prints each pair, then medians and their ratio.
#
# usage: bench/single_call.sh [PAIRS [SECONDS]]     default 5 pairs of 3 seconds

# shellcheck disable=SC2016 # awk expressions, not the shell's
. "$(dirname "$0")/common.sh"

pairs=${1:-5}
seconds=${2:-3}
names=100000

start_server
sha=$(load_script)

benchmark_rate() { # CLIENTS REQUESTS
    script_csv "$sha" "$names" -P 64 -c "$1" -n "$2" | cut -d, -f2
}

hirate_bench() {
    hirate_json "$seconds" "$script_limit" --names "$names" --in-flight 256 | json acquires_per_s
}

# Which number of connections suits redis-benchmark best?
best=0
clients=1
for candidate in 1 4 16 50; do
    rate=$(benchmark_rate "$candidate" 100000)
    echo "redis-benchmark -P 64 -c $candidate: $rate/s (warm-up)"
    if holds "$rate > $best"; then
        best=$rate
        clients=$candidate
    fi
done

requests=$(calc "int($best * $seconds)")
printf '%-6s %22s %22s %8s\n' pair "redis-benchmark -c $clients" 'hirate' ratio
i=0
while [ "$i" -lt "$pairs" ]; do
    i=$((i + 1))
    theirs=$(benchmark_rate "$clients" "$requests")
    ours=$(hirate_bench)
    echo "$i $theirs $ours" | awk '{printf "%-6d %20.0f/s %20.0f/s %8.2f\n", $1, $2, $3, $3 / $2}'
    echo "$theirs $ours" >>"$folder/pairs"
done

echo "$(column_median "$folder/pairs" '$1') $(column_median "$folder/pairs" '$2') $(column_median "$folder/pairs" '$2 / $1')" |
    awk '{printf "median %20.0f/s %20.0f/s %8.2f\n", $1, $2, $3}'
