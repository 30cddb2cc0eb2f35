#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The program in README.md compiles without a warning, links, and gets a verdict from a real server.
set -u
top=${top_srcdir:-$(dirname "$0")/..}
build=${top_builddir:-.}
. "$top/tests/support/shell.sh"

[ "${HAVE_LIBEVENT:-yes}" != no ] || skip "the program is for libevent, which is not there"
# shellcheck disable=SC2016 # these are no expressions
sed -n '/^```c$/,/^```$/{/^```/!p;}' "$top/README.md" >"$scratch/guard.c"

compile_and_link()
{
    # shellcheck disable=SC2086 # the flags are words
    ${CC:-cc} -Wall -Wextra -Wconversion -Wshadow -Werror -I"$build/include" ${LIBEVENT_CFLAGS:-} \
        ${SANITIZE_CFLAGS:-} -c "$scratch/guard.c" -o "$scratch/guard.o" &&
        "$build/libtool" --silent --tag=CC --mode=link ${CC:-cc} ${SANITIZE_CFLAGS:-} -no-install -o "$scratch/guard" \
            "$scratch/guard.o" "$build/libhirate.la" ${LIBEVENT_LIBS:--levent}
}

# says TEXT: the program ends well, having said so
says()
{
    "$scratch/guard" >"$scratch/said" 2>&1 || { cat "$scratch/said"; return 1; }
    grep "$1" "$scratch/said"
}

# Tokens return meanwhile, so how many pass depends on the machine; not that they come to an end.
denied_at_last()
{
    tries=200
    until says '^denied, try again in [1-9][0-9]* ms$'; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
    done
}

start_server
expect "the program compiles and links" compile_and_link
if [ "$failed" -eq 0 ]; then
    expect "the first is allowed" says '^allowed, 19 left$'
    expect "one is denied in the end" denied_at_last
fi
finish
