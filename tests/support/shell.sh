# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# For the shell tests: counting, and a private redis-server. Sourced, after `set -u`.
#
# A test calls ok/not_ok for each case and ends with `finish`, which prints `N passed, N failed`. $scratch is a folder
# of its own, removed at exit together with the server.

passed=0
failed=0
server_pid=
scratch=$(mktemp -d "${TMPDIR:-/tmp}/hirate-test.XXXXXX") || exit 1

clean_up()
{
    [ -z "$server_pid" ] || kill "$server_pid" 2>/dev/null
    rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

ok()
{
    passed=$((passed + 1))
}

# not_ok WHAT [FILE]: count a failure and show the beginning of FILE
not_ok()
{
    failed=$((failed + 1))
    echo "FAILED: $1"
    [ $# -lt 2 ] || head -n 20 "$2" | sed 's/^/    /'
}

# expect WHAT COMMAND…: the command must succeed
expect()
{
    what=$1
    shift
    if "$@" >"$scratch/output" 2>&1; then ok; else not_ok "$what" "$scratch/output"; fi
}

# The tool that was built here, without libtool's script around it, which takes several times as long to start as the tool.
use_built_tool()
{
    tool=./hirate
    [ -x .libs/hirate ] || return
    tool=.libs/hirate
    LD_LIBRARY_PATH=$PWD/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
}

skip()
{
    echo "skipped: $1"
    exit 77
}

finish()
{
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
    exit
}

# Start a server that keeps nothing on a unix socket in $scratch; sets HIRATE_REDIS for what follows.
start_server()
{
    : "${REDIS_SERVER:=redis-server}"
    command -v "$REDIS_SERVER" >/dev/null || skip "no $REDIS_SERVER here"
    "$REDIS_SERVER" --port 0 --unixsocket "$scratch/redis.sock" --dir "$scratch" --save '' --appendonly no \
        >"$scratch/redis.log" 2>&1 &
    server_pid=$!
    for _ in $(seq 100); do
        [ -S "$scratch/redis.sock" ] && break
        kill -0 "$server_pid" 2>/dev/null || break
        sleep 0.1
    done
    if [ ! -S "$scratch/redis.sock" ]; then
        not_ok "$REDIS_SERVER did not start" "$scratch/redis.log"
        finish
    fi
    HIRATE_REDIS=unix://$scratch/redis.sock
    export HIRATE_REDIS
}

# Which of the known compilers for LANGUAGE (c, c++) are here, the configured one first.
compilers()
{
    case $1 in
    c) set -- gcc clang ;;
    c++) set -- g++ clang++ ;;
    esac
    for compiler; do
        ! command -v "$compiler" >/dev/null || echo "$compiler"
    done
}
