#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Four processes, each with its own client, fifty names, random load against one server: from the recorded server
# times, no name was admitted more than capacity + rate * interval in any interval, and every submission was answered.
#
#     tests/bound.sh [SECONDS]      default 5; $HIRATE_SEED repeats a load
set -u
. "${top_srcdir:-.}/tests/support/shell.sh"

seconds=${1:-${HIRATE_BOUND_SECONDS:-5}}
programs=${top_builddir:-.}/tests
processes=4

for program in bound_load bound_check; do
    [ -x "$programs/$program" ] || { echo "$programs/$program is not built: make check TESTS="; exit 1; }
done
start_server
seed=${HIRATE_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
echo "HIRATE_SEED=$seed seconds=$seconds"

pids=
for i in $(seq $processes); do
    "$programs/bound_load" "$HIRATE_REDIS" "$seconds" $((seed + i)) "$scratch/records.$i" &
    pids="$pids $!"
done
for pid in $pids; do
    wait "$pid" || not_ok "a process of the load ended with status $?"
done
if "$programs/bound_check" "$scratch"/records.*; then ok; else not_ok "the bound does not hold"; fi
finish
