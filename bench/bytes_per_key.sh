#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What a name costs Redis under each kind of limit: its state, and what the server's memory grew by for each of N names,
# everything counted (key, value, expiry, tables). As a Markdown table.
#
# usage: bench/bytes_per_key.sh [N]     default 100000 names

. "$(dirname "$0")/common.sh"

names=${1:-100000}

used_memory() {
    cli info memory | tr -d '\r' | sed -n 's/^used_memory://p'
}

# ask LIMIT [OPTION...]: one acquire for each name
ask() {
    limit=$1
    shift
    on_client_core "$tool" acquire --redis "unix://$socket" --deadline 60s --limit "$limit" --format tsv "$@" - \
        <"$folder/names" >"$folder/rows"
}

# all_allowed: every name had a verdict, and it was that; else the table would be of fewer entries
all_allowed() {
    [ "$(cut -f4 "$folder/rows" | grep -cx allowed)" = "$names" ]
}

# measure WHAT ROUNDS PARAMETERS [OPTION...]: a row of the table. Each round is a time of its own
measure() {
    what=$1 rounds=$2 parameters=$3
    shift 3
    cli flushall sync >/dev/null
    before=$(used_memory)
    round=0
    while [ "$round" -lt "$rounds" ]; do
        round=$((round + 1))
        if ! ask "bench $parameters" "$@" || ! all_allowed; then
            echo "not everything was allowed under $parameters" >&2
            exit 1
        fi
    done
    [ "$(cli dbsize)" = "$names" ] || { echo "not every name has a key under $parameters" >&2; exit 1; }
    after=$(used_memory)
    echo "$before $after $(cli strlen "hirate:bench:$first")" |
        awk -v what="$what" -v n="$names" '{ printf "| %s | %d | %.0f |\n", what, $3, ($2 - $1) / n }'
}

start_server
awk -v n="$names" 'BEGIN { for (i = 0; i < n; i++) printf "1\tuser%09d\n", i }' >"$folder/names"
first=user000000000
ask 'warm token-bucket capacity=1000 rate=1/d' # the script, buffers and whatever else the server keeps
echo "$names names, keys of $(printf 'hirate:bench:%s' "$first" | wc -c) bytes; $("$server" --version | cut -d' ' -f3)"
echo
echo '| limit | state, bytes | memory for each name, bytes |'
echo '|---|---|---|'
measure token-bucket 1 'token-bucket capacity=1000 rate=1/d'
measure leaky-bucket 1 'leaky-bucket capacity=1000 rate=1/d'
measure fixed-window 1 'fixed-window limit=1000 window=36500d'
measure quota 1 'quota limit=1000 per=month'
measure 'quota, 1 reservation' 1 'quota limit=1000 per=month' --reserve 1d
measure sliding-window 1 'sliding-window limit=1000 window=1d'
measure 'sliding-log, 1 entry' 1 'sliding-log limit=1000 window=1d'
measure 'sliding-log, 10 entries' 10 'sliding-log limit=1000 window=1d'
measure 'concurrency, 1 lease' 1 'concurrency limit=1000 lease=1d'
measure 'concurrency, 10 leases' 10 'concurrency limit=1000 lease=1d'
