#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What `make install` puts in place serves: pkg-config finds it, a program compiles and links, shared and static, and the
# installed tool runs.
set -u
top=${top_srcdir:-$(dirname "$0")/..}
build=${top_builddir:-.}
. "$top/tests/support/shell.sh"

command -v pkg-config >/dev/null || skip "no pkg-config here"
pkg-config --exists hiredis || skip "pkg-config does not know hiredis"

install_all()
{
    (
        unset MAKEFLAGS MFLAGS MAKELEVEL
        make -s -C "$build" install DESTDIR="$scratch/root"
    )
}

# hirate_pc OPTION…: asked of the installed hirate.pc, with $scratch/root in front of its folders
hirate_pc()
{
    PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --define-variable=prefix="$prefix" \
        --define-variable=libdir="$libdir" "$@" hirate
}

# The folder that hirate.pc names is the one it lies in.
names_its_libdir()
{
    [ "$scratch/root$(PKG_CONFIG_PATH=$libdir/pkgconfig pkg-config --variable=libdir hirate)" = "$libdir" ]
}

# program HOW: prints the version and makes a local decision
program()
{
    cat >"$scratch/program.c" <<'END'
#include <hirate/hirate.h>
#include <stdio.h>
#include <string.h>

static const hirate_limit LIMIT = HIRATE_TOKEN_BUCKET("login", 1, HIRATE_PER_SECOND(1));

int main(void)
{
    hirate_local *local;
    hirate_request request;
    hirate_result result;

    hirate_request_init(&request);
    hirate_result_init(&result);
    request.limit = &LIMIT;
    if (hirate_local_new(&local, 1) != 0 || hirate_local_decide(local, &request, 0, &result, NULL) != 0)
        return 1;
    hirate_local_free(local);
    puts(hirate_version());
    return result.verdict != HIRATE_ALLOWED || strcmp(hirate_version(), HIRATE_VERSION) != 0;
}
END
    # shellcheck disable=SC2046,SC2086 # flags are words
    case $1 in
    shared)
        ${CC:-cc} ${SANITIZE_CFLAGS:-} $(hirate_pc --cflags) "$scratch/program.c" -o "$scratch/program" \
            $(hirate_pc --libs) ;;
    static)
        ${CC:-cc} ${SANITIZE_CFLAGS:-} $(hirate_pc --cflags) "$scratch/program.c" -o "$scratch/program" \
            $(hirate_pc --libs --static | sed 's/-lhirate/-Wl,-Bstatic -lhirate -Wl,-Bdynamic/') ;;
    esac && LD_LIBRARY_PATH=$libdir "$scratch/program"
}

# The shared library is not needed by a program that was linked with the static one.
is_static()
{
    ! ldd "$scratch/program" | grep libhirate
}

expect "make install" install_all
pc=$(find "$scratch/root" -name hirate.pc)
expect "there is one hirate.pc" test -f "$pc"
libdir=${pc%/pkgconfig/hirate.pc}
prefix=$scratch/root$(sed -n 's/^prefix=//p' "$pc")
expect "hirate.pc names the library's folder" names_its_libdir
for header in hirate.h adapters/epoll.h adapters/libev.h adapters/libevent.h; do
    expect "$header is installed" test -f "$prefix/include/hirate/$header"
done
expect "a program with the shared library" program shared
expect "a program with the static library" program static
expect "it is linked statically" is_static
LD_LIBRARY_PATH=$libdir
export LD_LIBRARY_PATH
expect "the installed tool runs" "$prefix/bin/hirate" --help
finish
