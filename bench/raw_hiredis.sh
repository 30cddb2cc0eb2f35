#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The client's processor time for an acquire, and acquires per second: hirate against a loop on raw hiredis that sends
# plain.lua once an acquire, with as many in flight over as many names, the same number of acquires each, in turn.
#
# usage: bench/raw_hiredis.sh [PAIRS [ACQUIRES]]     default 3 pairs of 300,000 acquires

# shellcheck disable=SC2016 # awk expressions, not the shell's
. "$(dirname "$0")/common.sh"

pairs=${1:-3}
acquires=${2:-300000}

compile fixed_load
compile raw_hiredis
machine
start_server
load_plain

printf '%-28s %12s %12s %7s %12s %12s %7s\n' workload 'raw us/acq.' 'hirate' ratio 'raw acq./s' hirate ratio
for workload in '100000 1024' '100000 4096' '1000 4096' '100 1024' '1 1024'; do
    names=${workload% *}
    in_flight=${workload#* }
    cli flushall >/dev/null
    : >"$folder/pairs"
    i=0
    while [ "$i" -lt "$pairs" ]; do
        i=$((i + 1))
        raw=$(on_client_core "$folder/raw_hiredis" "$socket" "$plain_sha" "$names" "$in_flight" "$acquires")
        ours=$(on_client_core "$folder/fixed_load" "unix://$socket" 'bench token-bucket capacity=1000000 rate=1/s' \
            "$names" "$in_flight" "$acquires")
        echo "$(echo "$raw" | json cpu_us_per_acquire) $(echo "$ours" | json cpu_us_per_acquire)" \
            "$(echo "$raw" | json acquires_per_s) $(echo "$ours" | json acquires_per_s)" >>"$folder/pairs"
    done
    printf '%-28s %12.3f %12.3f %7.3f %12.0f %12.0f %7.2f\n' "$names names, $in_flight in flight" \
        "$(column_median "$folder/pairs" '$1')" "$(column_median "$folder/pairs" '$2')" \
        "$(column_median "$folder/pairs" '$2 / $1')" "$(column_median "$folder/pairs" '$3')" \
        "$(column_median "$folder/pairs" '$4')" "$(column_median "$folder/pairs" '$4 / $3')"
done
