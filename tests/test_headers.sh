#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each header compiles alone: the public ones as C11 and C++17, the library's own as C11, with every compiler here.
set -u
top=${top_srcdir:-$(dirname "$0")/..}
build=${top_builddir:-.}
. "$top/tests/support/shell.sh"

WARNINGS='-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror'

# compile COMPILER LANGUAGE STANDARD INCLUDE FLAGS…: what a file holding just that include brings
compile()
{
    compiler=$1 language=$2 standard=$3 include=$4
    shift 4
    printf '#include %s\nextern int unit_is_not_empty;\n' "$include" >"$scratch/unit"
    # shellcheck disable=SC2086 # the flags are words
    "$compiler" -x "$language" -std="$standard" $WARNINGS "$@" -fsyntax-only "$scratch/unit"
}

# public INCLUDE FLAGS…
public()
{
    include=$1
    shift
    for compiler in $(compilers c); do
        expect "$include as C11 with $compiler" compile "$compiler" c c11 "$include" -I"$build/include" "$@"
    done
    for compiler in $(compilers c++); do
        expect "$include as C++17 with $compiler" compile "$compiler" c++ c++17 "$include" -I"$build/include" "$@"
    done
}

# shellcheck disable=SC2086
{
    public '<hirate/hirate.h>'
    public '<hirate/adapters/epoll.h>'
    [ "${HAVE_LIBEVENT:-yes}" = no ] || public '<hirate/adapters/libevent.h>' ${LIBEVENT_CFLAGS:-}
    [ "${HAVE_LIBEV:-yes}" = no ] || public '<hirate/adapters/libev.h>' ${LIBEV_CFLAGS:-}

    for header in "$top"/src/*.h "$top"/src/cli/*.h; do
        [ -e "$header" ] || continue
        for compiler in $(compilers c); do
            expect "$header with $compiler" compile "$compiler" c c11 "\"$(basename "$header")\"" -D_GNU_SOURCE \
                -iquote "$(dirname "$header")" -I"$build/include" -iquote "$top/src" -Wno-unused-const-variable \
                ${HIREDIS_CFLAGS:-} ${LIBEVENT_CFLAGS:-} ${LIBEV_CFLAGS:-}
        done
    done
}
finish
