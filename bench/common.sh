# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# For the scripts in this folder: a private server on a core of its own, and clients on the other.
#
# HIRATE_TOOL     the tool (default: hirate in build/, then in the top folder)
# HIRATE_BUILD    where the library was built (default: where the tool is)
# REDIS_SERVER    the server (default: redis-server)
# SERVER_CORE, CLIENT_CORE   where they run (default: 1 and 0)
# CC              compiles the programs of this folder (default: cc)

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
build=${HIRATE_BUILD:-$(cd "$(dirname "$tool")" && pwd)}

folder=$(mktemp -d)
socket=$folder/redis.sock
server_pid=
client_pid= # one in the background, if a script has one

stop_process() { # PID
    kill "$1" 2>/dev/null || true
    kill -CONT "$1" 2>/dev/null || true # it may have been stopped on purpose
    wait "$1" 2>/dev/null || true
}

stop_all() {
    [ -z "$client_pid" ] || stop_process "$client_pid"
    [ -z "$server_pid" ] || stop_process "$server_pid"
    rm -rf "$folder"
}
trap stop_all EXIT
trap 'exit 130' INT TERM HUP PIPE

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

# Make the library's script known to the server, by asking it once; prints its SHA1.
load_script() {
    "$tool" acquire --redis "unix://$socket" --limit 'script token-bucket capacity=1 rate=1/s' x >/dev/null
    sha_=$(sed -n 's/^#define HR_SCRIPT_ACQUIRE_SHA1 "\(.*\)"$/\1/p' "$top/src/scripts_embedded.h")
    [ "$(cli script exists "$sha_")" = 1 ] || { echo "$tool has another script than $top/lua" >&2; exit 2; }
    echo "$sha_"
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

# calc EXPRESSION: what awk makes of it, whole when it is whole
calc() {
    awk "BEGIN {print $1}"
}

# holds CONDITION: of numbers, by awk
holds() {
    [ "$(calc "($1) ? 1 : 0")" = 1 ]
}

# column_median FILE EXPRESSION: over the lines of FILE, of an awk expression of their fields
column_median() {
    awk "{printf \"%.12g\\n\", $2}" "$1" | sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'
}

# compile NAME: bench/NAME.c, against the library of this tree, to $folder/NAME
compile() {
    # shellcheck disable=SC2046
    ${CC:-cc} -std=c11 -O2 -g -Wall -Wextra -D_GNU_SOURCE -I"$build/include" $(pkg-config --cflags hiredis) \
        -o "$folder/$1" "$top/bench/$1.c" -L"$build/.libs" -Wl,-rpath,"$build/.libs" -lhirate \
        $(pkg-config --libs hiredis)
}

# cc_plain NAME: bench/NAME.c, which needs no library, to $folder/NAME
cc_plain() {
    ${CC:-cc} -std=c11 -O2 -Wall -Wextra -D_GNU_SOURCE -o "$folder/$1" "$top/bench/$1.c"
}

machine() {
    echo "$(uname -m), $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg); $("$server" --version | cut -d' ' -f3);" \
        "server on core $server_core, clients on core $client_core"
}

# ---------------------------------------------------------------------------- redis-benchmark with plain.lua

plain_clients=16
plain_pipeline=64

load_plain() {
    plain_sha=$(cli -x script load <"$top/bench/plain.lua")
}

# redis_benchmark OPTION...: its line of --csv, without quotes. Once in a while it prints no figures: it gets three tries.
# Its standard input, for -x, is $sent as printf prints it.
sent=
redis_benchmark() {
    for try_ in 1 2 3; do
        # shellcheck disable=SC2059
        line_=$(printf "$sent" | on_client_core redis-benchmark -s "$socket" --csv "$@" 2>/dev/null | tail -n 1 | tr -d '"')
        case $line_ in *,[0-9]*) break ;; esac
        [ "$try_" -lt 3 ] || { echo "redis-benchmark prints no figures" >&2; return 1; }
    done
    echo "$line_"
}

# plain_csv CLIENTS PIPELINE REQUESTS NAMES CAPACITY PERIOD_US COST: the same, of plain.lua
plain_csv() {
    redis_benchmark -c "$1" -P "$2" -n "$3" -r "$4" evalsha "$plain_sha" 1 plain:__rand_int__ "$5" "$6" "$7"
}

# plain_rate, as plain_csv: calls per second
plain_rate() {
    csv_=$(plain_csv "$@")
    echo "$csv_" | cut -d, -f2
}

# The library's own script, one acquire a call. redis-benchmark cannot send NUL bytes, so the limit is one whose numbers have
# none when packed. What is sent: call 1, kind 1, n=1 p=19999998 capacity*p=3999999600 keys=1, one acquire of 19999998 units;
# see lua/acquire.lua.
# shellcheck disable=SC2034 # for the scripts
script_limit='bench token-bucket capacity=200 rate=1/19999998us'

# script_csv SHA1 NAMES OPTION...: redis-benchmark's line
script_csv() {
    sha_=$1 names_=$2
    shift 2
    sent='\227\001\001\001\316\001\061\054\376\316\356\153\046\160\001\322\376\316\323\001'
    redis_benchmark "$@" -r "$names_" -x evalsha "$sha_" 1 hirate:bench:__rand_int__
    sent=
}

# choose_plain SECONDS: the connections and pipeline that suit redis-benchmark best, over 100,000 names
choose_plain() {
    best=0
    for choice in '1 256' '1 1024' '4 64' '4 256' '16 16' '16 64' '16 256' '50 16' '50 64'; do
        set -- "$1" "${choice% *}" "${choice#* }"
        rate=$(plain_rate "$2" "$3" "$(calc "int(100000 * $1)")" 100000 1000000 1000000 1)
        echo "redis-benchmark -c $2 -P $3: $rate/s"
        if holds "$rate > $best"; then
            best=$rate
            plain_clients=$2
            plain_pipeline=$3
        fi
    done
    # shellcheck disable=SC2034 # for the scripts
    plain_best=$best
    echo "best: -c $plain_clients -P $plain_pipeline"
}

# ------------------------------------------------------------------------------------------------- hirate bench

# hirate_json SECONDS LIMIT OPTION...: the object it ends with
hirate_json() {
    seconds_=$1
    limit_=$2
    shift 2
    on_client_core "$tool" bench --redis "unix://$socket" --limit "$limit_" --seconds "$seconds_" --format json "$@" |
        tail -n 1
}
