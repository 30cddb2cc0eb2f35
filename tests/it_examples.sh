#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The examples, as built, against a real server: twenty-one logins on each loop, an HTTP guard that says 429, and workers, of
# whom the third is one too many.
set -u
. "${top_srcdir:-.}/tests/support/shell.sh"

examples=${top_builddir:-.}/examples
get=${top_builddir:-.}/tests/http_get
http_pid=
first_pid=
second_pid=

stop_examples()
{
    for pid in $http_pid $first_pid $second_pid; do
        kill "$pid" 2>/dev/null
    done
    clean_up
}
trap stop_examples EXIT

# Twenty allowed, with what is left counted down, then one denied for three seconds or a little less.
twenty_of_twenty_one()
{
    "$examples/$1" "$2" >"$scratch/$1.out" 2>"$scratch/$1.err" || return 1
    [ ! -s "$scratch/$1.err" ] || return 1
    [ "$(wc -l <"$scratch/$1.out")" -eq 21 ] || return 1
    for n in $(seq 20); do
        grep -qx "login $n: allowed, $((20 - n)) left" "$scratch/$1.out" || return 1
    done
    grep -Eqx 'login 21: denied, retry after (3000|[12]?[0-9]{1,3}) ms' "$scratch/$1.out"
}

# work WHO SECONDS: become a worker, which says in $scratch/WHO.said what it comes to
work()
{
    exec "$examples/worker" "$HIRATE_REDIS?db=6" nightly "$2" 2>"$scratch/$1.said"
}

# Until WHO works.
wait_for_work()
{
    for _ in $(seq 600); do
        grep -q working "$scratch/$1.said" && return
        sleep 0.1
    done
    return 1
}

# ended WHO STATUS: it ended with 0, and did not lose its lease
ended()
{
    if [ "$2" -eq 0 ] && tail -n 1 "$scratch/$1.said" | grep -q 'done$'; then
        ok
    else
        not_ok "examples/worker: the $1 does not end well" "$scratch/$1.said"
    fi
}

start_server

# Two work for longer than a lease lasts, while the other examples run.
if [ -x "$examples/worker" ]; then
    work first 8 &
    first_pid=$!
    work second 8 &
    second_pid=$!
    if wait_for_work first && wait_for_work second; then ok; else not_ok "examples/worker: two work" "$scratch/second.said"; fi
    (work third 1)
    if [ $? -eq 1 ] && grep -q 'busy$' "$scratch/third.said"; then
        ok
    else
        not_ok "examples/worker: a third finds no room" "$scratch/third.said"
    fi
fi

db=0
for loop in epoll libev libevent; do
    db=$((db + 1)) # each its own: they guard the same name
    if [ ! -x "$examples/$loop" ]; then
        echo "$loop: not built"
        continue
    fi
    if twenty_of_twenty_one "$loop" "$HIRATE_REDIS?db=$db"; then
        ok
    else
        not_ok "examples/$loop" "$scratch/$loop.out"
        cat "$scratch/$loop.err"
    fi
done

# Without a server there is no verdict, and the example says so and fails.
if [ -x "$examples/epoll" ]; then
    if "$examples/epoll" unix:///nonexistent/socket >"$scratch/none.out" 2>"$scratch/none.err"; then
        not_ok "examples/epoll without a server succeeds" "$scratch/none.out"
    elif [ -s "$scratch/none.err" ]; then
        ok
    else
        not_ok "examples/epoll without a server says nothing"
    fi
fi

# Requests to the HTTP guard until one is denied: at least twenty pass (a slow machine lets tokens return meanwhile).
http_guard()
{
    passed_logins=0
    for _ in $(seq 100); do
        "$get" "$1" /login >"$scratch/http.out" || return 1
        status=$(sed -n '1s/^HTTP[^ ]* \([0-9]*\).*/\1/p' "$scratch/http.out")
        [ "$status" = 200 ] || break
        passed_logins=$((passed_logins + 1))
    done
    [ "$status" = 429 ] && [ "$passed_logins" -ge 20 ] && grep -q '^Retry-After: [123]' "$scratch/http.out"
}

# What it says while Redis is stopped: no verdict, and never a 200.
http_unavailable()
{
    kill -STOP "$server_pid"
    "$get" "$1" /login >"$scratch/http.out"
    kill -CONT "$server_pid"
    grep -q '^HTTP[^ ]* 503' "$scratch/http.out"
}

if [ -x "$examples/http" ]; then
    "$examples/http" 0 "$HIRATE_REDIS?db=5" >"$scratch/http.log" 2>&1 &
    http_pid=$!
    for _ in $(seq 600); do
        grep -q listening "$scratch/http.log" && break
        sleep 0.1
    done
    port=$(sed -n 's/^listening on 127.0.0.1:\([0-9]*\)$/\1/p' "$scratch/http.log")
    if http_guard "$port"; then ok; else not_ok "examples/http: twenty logins and a 429" "$scratch/http.out"; fi
    if http_unavailable "$port"; then ok; else not_ok "examples/http: 503 without Redis" "$scratch/http.out"; fi
    kill "$http_pid"
    if wait "$http_pid"; then ok; else not_ok "examples/http: does not end cleanly" "$scratch/http.log"; fi
    http_pid=
fi

# What they held, renewed until now, comes back at once.
if [ -n "$first_pid" ]; then
    wait "$first_pid"
    ended first $?
    wait "$second_pid"
    ended second $?
    first_pid=
    second_pid=
    (work fourth 1)
    ended fourth $?
fi
finish
