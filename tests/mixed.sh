#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Limits of every kind hold, under load and over several processes: eight clients, random requests over shared names,
# also over several limits at once, with leases and reservations that are given back, charged, or left to end.
#
#     tests/mixed.sh [SECONDS]      default 60; $HIRATE_SEED repeats a load
#
# First a storm: for so long clients are killed and replaced, the server's connections are killed, its scripts flushed,
# and it pauses. From the recorded server times no limit was exceeded, in whatever interval it is about. Then a calm, of
# a sixth of that: as nothing is unknown then, each answer must be exactly what follows from those before. After either
# no key stays that has no expiry, or in which nothing counts.
set -u
. "${top_srcdir:-.}/tests/support/shell.sh"

seconds=${1:-${HIRATE_MIXED_SECONDS:-60}}
programs=${top_builddir:-.}/tests
storm_pid=

for program in mixed_load mixed_storm mixed_check mixed_keys; do
    [ -x "$programs/$program" ] || { echo "$programs/$program is not built: make check TESTS="; exit 1; }
done

# Its clients end with it.
stop_storm()
{
    [ -z "$storm_pid" ] || kill "$storm_pid" 2>/dev/null
    storm_pid=
}
trap 'stop_storm; clean_up' EXIT

# run storm|calm SECONDS SEED
run()
{
    echo "$1 for $2 seconds"
    "$programs/mixed_storm" "$scratch/redis.sock" "mixed-$1" "$(($2 * 1000))" "$3" "$scratch/$1" \
        "$programs/mixed_load" "$1" &
    storm_pid=$!
    if wait "$storm_pid"; then ok; else not_ok "$1: the clients did not end well"; fi
    storm_pid=
    if "$programs/mixed_keys" "$scratch/redis.sock" "mixed-$1"; then ok; else not_ok "$1: keys are left"; fi
    if "$programs/mixed_check" "$1" "$scratch/$1".*; then ok; else not_ok "$1: the limits do not hold"; fi
}

start_server
seed=${HIRATE_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
echo "HIRATE_SEED=$seed seconds=$seconds"
run storm "$seconds" "$seed"
run calm "$((seconds / 6 + 2))" "$((seed + 1))"
finish
