# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# For the scripts in this folder: a private server on a core of its own, and clients on the other.
#
# HIRATE_TOOL     the tool (default: hirate in build/, then in the top folder)
# REDIS_SERVER    the server (default: redis-server)
# SERVER_CORE, CLIENT_CORE   where they run (default: 1 and 0)

set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
server=${REDIS_SERVER:-redis-server}
server_core=${SERVER_CORE:-1}
client_core=${CLIENT_CORE:-0}
tool=${HIRATE_TOOL:-}
for candidate in "$top/build/hirate" "$top/hirate"; do
    [ -n "$tool" ] || { [ -x "$candidate" ] && tool=$candidate; }
done
[ -n "$tool" ] || { echo "hirate is not built: run ./quickstart.sh, or set HIRATE_TOOL" >&2; exit 2; }
command -v "$server" >/dev/null || { echo "$server is not installed" >&2; exit 2; }

folder=$(mktemp -d)
socket=$folder/redis.sock
server_pid=

stop_server() {
    if [ -n "$server_pid" ]; then
        kill "$server_pid" 2>/dev/null || true
        wait "$server_pid" 2>/dev/null || true
    fi
    rm -rf "$folder"
}
trap stop_server EXIT
trap 'exit 130' INT TERM

start_server() {
    taskset -c "$server_core" "$server" --port 0 --unixsocket "$socket" --save '' --appendonly no \
        --dir "$folder" --logfile "$folder/log" &
    server_pid=$!
    tries=0
    until redis-cli -s "$socket" ping >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || { echo "the server did not start:" >&2; cat "$folder/log" >&2; exit 1; }
        sleep 0.05
    done
}

cli() {
    redis-cli -s "$socket" "$@"
}

on_client_core() {
    taskset -c "$client_core" "$@"
}

# json KEY: the number after "KEY": in the object on standard input
json() {
    sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p"
}
