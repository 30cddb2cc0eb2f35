#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# How much faster can it get? Keys per second, over 100,000 names, in turn:
#     plain     redis-benchmark with plain.lua: one acquire a call, at its best
#     as it was redis-benchmark with floor.lua: KEYS of them in a call, each read and written as it was, nothing else
#     anew      the same, but each is unpacked, packed again with other numbers and given an expiry of its own
#     hirate    4,096 acquires in flight
# Prints each round, then the medians and what each is of plain. A script that reads with
# MGET, writes with PSETEX, and whose keys keep numbers and expire when these say so, has little more than the third left.
#
# usage: bench/floor.sh [ROUNDS [SECONDS [KEYS]]]     default 5 rounds of 2 seconds, 128 keys a call

# shellcheck disable=SC2016 # awk expressions, not the shell's
. "$(dirname "$0")/common.sh"

rounds=${1:-5}
seconds=${2:-2}
keys=${3:-128}
limit='bench token-bucket capacity=1000000 rate=1/s'
value='0123456789       @       @' # as long as the state of a bucket: ten bytes and two numbers

machine
start_server
load_plain
floor_sha=$(cli -x script load <"$top/bench/floor.lua")

# floor_rate HOW CLIENTS PIPELINE CALLS: keys per second
floor_rate() {
    how_=$1 clients_=$2 pipeline_=$3 calls_=$4
    set --
    while [ "$#" -lt "$keys" ]; do set -- "$@" floor:__rand_int__; done
    csv_=$(redis_benchmark -c "$clients_" -P "$pipeline_" -n "$calls_" -r 100000 evalsha "$floor_sha" "$keys" "$@" \
        1000000000 "$value" "$how_")
    calc "$(echo "$csv_" | cut -d, -f2) * $keys"
}

choose_plain "$seconds"
best=0
for choice in '1 2' '1 4' '2 1' '4 1' '4 4' '16 1'; do
    rate=$(floor_rate 'as it was' "${choice% *}" "${choice#* }" "$(calc "int(1500 * $seconds)")")
    echo "floor: redis-benchmark -c ${choice% *} -P ${choice#* }: $rate/s"
    if holds "$rate > $best"; then
        best=$rate
        floor_choice=$choice
    fi
done
plain_csv 16 64 1000000 100000 1000000 1000000 1000 >/dev/null # so that the keys live, as in workloads.sh
hirate_json 3 "$limit" --names 100000 --in-flight 4096 --cost 1000 >/dev/null

floor_rate anew 16 1 2500 >/dev/null # so that the keys differ

i=0
while [ "$i" -lt "$rounds" ]; do
    i=$((i + 1))
    plain=$(plain_rate "$plain_clients" "$plain_pipeline" "$(calc "int($plain_best * $seconds)")" 100000 1000000 1000000 1)
    calls=$(calc "int($best / $keys * $seconds)")
    as_it_was=$(floor_rate 'as it was' "${floor_choice% *}" "${floor_choice#* }" "$calls")
    anew=$(floor_rate anew "${floor_choice% *}" "${floor_choice#* }" "$calls")
    ours=$(hirate_json "$seconds" "$limit" --names 100000 --in-flight 4096 | json acquires_per_s)
    echo "$plain $as_it_was $anew $ours" >>"$folder/rounds"
    echo "$plain $as_it_was $anew $ours" |
        awk '{printf "plain %.0f/s  as it was %.0f/s  anew %.0f/s  hirate %.0f/s\n", $1, $2, $3, $4}'
done

echo
machine
column=0
for title in plain 'floor, as it was' 'floor, anew' hirate; do
    column=$((column + 1))
    echo "$title:$(column_median "$folder/rounds" "\$$column"):$(column_median "$folder/rounds" "\$$column / \$1")" |
        awk -F: '{printf "%-18s %10.0f/s %6.2f\n", $1, $2, $3}'
done
