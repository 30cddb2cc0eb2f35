#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# hirate against rate-limiter-flexible with ioredis, with as many requests in flight over as many names: same server, same
# core each, in turn. ioredis' automatic pipelining is used where that is faster, as a short run of each tells.
#
# usage: bench/vs_rate_limiter_flexible.sh [PAIRS [SECONDS]]     default 3 pairs of 3 seconds
#
# Needs node and npm; the first run installs both packages into bench/rate_limiter_flexible/node_modules.
# Theirs counts in fixed windows, hirate is a token bucket; both ask Redis for each verdict.

# shellcheck disable=SC2016 # awk expressions, not the shell's
. "$(dirname "$0")/common.sh"

pairs=${1:-3}
seconds=${2:-3}
package=$top/bench/rate_limiter_flexible
limit='bench token-bucket capacity=1000000 rate=1/s'

for program in node npm; do
    command -v "$program" >/dev/null || { echo "$program is not installed" >&2; exit 2; }
done
[ -d "$package/node_modules/rate-limiter-flexible" ] ||
    (cd "$package" && npm install --no-package-lock --no-audit --no-fund --ignore-scripts) || exit 2

theirs() { # NAMES IN-FLIGHT SECONDS auto|plain
    on_client_core node "$package/load.js" "$socket" "$1" "$2" "$3" "$4" | tail -n 1
}

machine
for name in rate-limiter-flexible ioredis; do
    echo "$name $(sed -n 's/^ *"version": "\(.*\)".*/\1/p' "$package/node_modules/$name/package.json")"
done
start_server
: >"$folder/table"
for workload in '100000 1024' '100000 4096' '100 1024'; do
    names=${workload% *}
    in_flight=${workload#* }
    cli flushall >/dev/null
    how=plain
    if holds "$(theirs "$names" "$in_flight" 1 auto | json acquires_per_s) > \
        $(theirs "$names" "$in_flight" 1 plain | json acquires_per_s)"; then
        how=auto
    fi
    : >"$folder/pairs"
    i=0
    while [ "$i" -lt "$pairs" ]; do
        i=$((i + 1))
        a=$(theirs "$names" "$in_flight" "$seconds" "$how")
        b=$(hirate_json "$seconds" "$limit" --names "$names" --in-flight "$in_flight")
        echo "$(echo "$a" | json acquires_per_s) $(echo "$b" | json acquires_per_s)" >>"$folder/pairs"
        echo "$names names, $in_flight in flight ($how): $(echo "$a" | json acquires_per_s)/s, p99 $(echo "$a" | json p99_us) us;" \
            "$(echo "$b" | json acquires_per_s)/s, p99 $(echo "$b" | json p99_us) us"
    done
    printf '%-34s %14.0f/s %14.0f/s %8.2f\n' "$names names, $in_flight in flight" "$(column_median "$folder/pairs" '$1')" \
        "$(column_median "$folder/pairs" '$2')" "$(column_median "$folder/pairs" '$2 / $1')" >>"$folder/table"
done
echo
printf '%-34s %16s %16s %8s   (100,000 names: at least 3)\n' workload rate-limiter-fl. hirate ratio
cat "$folder/table"
