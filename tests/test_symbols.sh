#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The shared library exports the functions that hirate.h declares and libhirate.map lists, no other; the static one
# defines no global symbol outside of hirate_ and hr_.
set -u
top=${top_srcdir:-$(dirname "$0")/..}
build=${top_builddir:-.}
. "$top/tests/support/shell.sh"
LC_ALL=C
export LC_ALL

shared=$build/.libs/libhirate.so
static=$build/.libs/libhirate.a
for library in "$shared" "$static"; do
    [ -e "$library" ] || skip "no $library in this configuration"
done

# What a sanitizer adds beside our own symbols is left out.
defined()
{
    nm "$@" --defined-only | awk 'NF == 3 && $2 ~ /^[TDBRVWCui]$/ { sub(/@.*/, "", $3); print $3 }' |
        grep -v -e '^__odr_asan' -e '^__asan_' -e '^__sanitizer' | sort -u
}

# same WHAT A B
same()
{
    if [ -s "$2" ] && cmp -s "$2" "$3"; then
        ok
    else
        diff "$2" "$3" >"$scratch/diff"
        not_ok "$1" "$scratch/diff"
    fi
}

tr '\n' ' ' <"$top/src/hirate.h" | grep -oE 'HIRATE_API [^;{}]*\(' | grep -oE 'hirate_[a-z0-9_]+\(' | tr -d '(' |
    sort -u >"$scratch/declared"
sed -n '/^global:/,/^local:/s/^ *\(hirate_[a-z0-9_]*\);$/\1/p' "$top/src/libhirate.map" | sort -u >"$scratch/listed"
defined -D "$shared" | grep -v '^HIRATE_' >"$scratch/exported"

same "functions declared in hirate.h (<) and listed in libhirate.map (>)" "$scratch/declared" "$scratch/listed"
same "symbols listed in libhirate.map (<) and exported (>)" "$scratch/listed" "$scratch/exported"

defined -g "$static" >"$scratch/static"
grep -v -e '^hirate_' -e '^hr_' "$scratch/static" >"$scratch/foreign"
if [ -s "$scratch/static" ] && [ ! -s "$scratch/foreign" ]; then
    ok
else
    not_ok "global symbols of libhirate.a outside of hirate_ and hr_" "$scratch/foreign"
fi
finish
