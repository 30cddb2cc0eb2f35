#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Four processes load one server that writes down everything before it answers, and that is killed and started again all
# the while. Afterwards its log is held against what they were told: nothing was charged twice, nothing that was told to
# be charged is missing, nothing was taken that was told not to be.
#
#     tests/history.sh [SECONDS]      default 5; $HIRATE_SEED repeats a load
set -u
. "${top_srcdir:-.}/tests/support/shell.sh"

seconds=${1:-${HIRATE_HISTORY_SECONDS:-5}}
programs=${top_builddir:-.}/tests
processes=4

for program in bound_load history_check; do
    [ -x "$programs/$program" ] || { echo "$programs/$program is not built: make check TESTS="; exit 1; }
done
: "${REDIS_SERVER:=redis-server}"
command -v "$REDIS_SERVER" >/dev/null || skip "no $REDIS_SERVER here"

# Every write is on the disk before its answer leaves; the log is never rewritten.
start_durable()
{
    rm -f "$scratch/redis.sock"
    "$REDIS_SERVER" --port 0 --unixsocket "$scratch/redis.sock" --dir "$scratch" --save '' --appendonly yes \
        --appendfsync always --auto-aof-rewrite-percentage 0 >>"$scratch/redis.log" 2>&1 &
    server_pid=$!
    for _ in $(seq 100); do
        [ ! -S "$scratch/redis.sock" ] || return 0
        sleep 0.1
    done
    not_ok "$REDIS_SERVER did not start" "$scratch/redis.log"
    finish
}

kill_server()
{
    kill -9 "$server_pid"
    wait "$server_pid" 2>/dev/null
    server_pid=
}

start_durable
seed=${HIRATE_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
echo "HIRATE_SEED=$seed seconds=$seconds"
pids=
for i in $(seq $processes); do
    "$programs/bound_load" "unix://$scratch/redis.sock" "$seconds" $((seed + i)) "$scratch/records.$i" \
        2>>"$scratch/errors" &
    pids="$pids $!"
done

kills=0
end=$(($(date +%s) + seconds - 1))
while [ "$(date +%s)" -lt "$end" ]; do
    sleep 0.5
    kill_server
    kills=$((kills + 1))
    start_durable
done
for pid in $pids; do
    wait "$pid" || not_ok "a process of the load ended with status $?" "$scratch/errors"
done
kill "$server_pid"
wait "$server_pid" 2>/dev/null
server_pid=

# One file until Redis 6.2; then a folder, in which all is in the first increment.
log=$scratch/appendonly.aof
[ -e "$log" ] || log=$(find "$scratch/appendonlydir" -name '*.incr.aof')
echo "killed $kills times, $(wc -l <"$scratch/errors") answers were errors, the log has $(wc -c <"$log") bytes"
[ "$kills" -gt 0 ] && ok
if "$programs/history_check" "$log" "$scratch"/records.*; then ok; else not_ok "the log tells another story"; fi
finish
