#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The examples, as built, against a real server: twenty-one logins on each loop, and an HTTP guard that says 429.
set -u
. "${top_srcdir:-.}/tests/support/shell.sh"

examples=${top_builddir:-.}/examples
get=${top_builddir:-.}/tests/http_get
http_pid=

stop_http()
{
    [ -z "$http_pid" ] || kill "$http_pid" 2>/dev/null
    clean_up
}
trap stop_http EXIT

# Twenty allowed, with what is left counted down, then one denied for three seconds or a little less.
twenty_of_twenty_one()
{
    "$examples/$1" "$HIRATE_REDIS" >"$scratch/$1.out" 2>"$scratch/$1.err" || return 1
    [ ! -s "$scratch/$1.err" ] || return 1
    [ "$(wc -l <"$scratch/$1.out")" -eq 21 ] || return 1
    for n in $(seq 20); do
        grep -qx "login $n: allowed, $((20 - n)) left" "$scratch/$1.out" || return 1
    done
    grep -Eqx 'login 21: denied, retry after (3000|[12]?[0-9]{1,3}) ms' "$scratch/$1.out"
}

forget()
{
    "${HIRATE_TOOL:-${top_builddir:-.}/hirate}" reset --limit 'login token-bucket capacity=20 rate=1/3s' "$1" >/dev/null
}

start_server
for loop in epoll libev libevent; do
    if [ ! -x "$examples/$loop" ]; then
        echo "$loop: not built"
        continue
    fi
    if twenty_of_twenty_one "$loop"; then
        ok
    else
        not_ok "examples/$loop" "$scratch/$loop.out"
        cat "$scratch/$loop.err"
    fi
    for name in $(sed -n 's/.*hirate_acquire([^"]*"\([^"]*\)".*/\1/p' "${top_srcdir:-.}/examples/$loop.c"); do
        forget "$name"
    done
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
