#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Which lines and branches of the library and of the tool the tests run, by gcovr.
#
#     tests/coverage.sh [FOLDER]        default ./build-coverage; it is configured with --coverage and kept
#
# Prints each file, then the sums, and last two lines to compare: `library: lines L % branches B %`, `tool: …`. Details
# for every line are in FOLDER/library.txt and FOLDER/tool.txt. Exit status 0 when the tests passed, whatever the figures.
set -u
cd "$(dirname "$0")/.." || exit 1
source=$PWD
folder=${1:-build-coverage}

command -v gcovr >/dev/null || { echo "coverage.sh: needs gcovr"; exit 77; }
[ -x configure ] || autoreconf -fi >/dev/null 2>&1 || { echo "coverage.sh: autoreconf failed"; exit 1; }
mkdir -p "$folder" && cd "$folder" || exit 1
[ -e Makefile ] || "$source/configure" -q --disable-static CC=gcc \
    CFLAGS='-O0 -g --coverage -fprofile-update=atomic -DNDEBUG' LDFLAGS=--coverage || exit 1
# Counts of an earlier run, also of an earlier form of the files, would be added to.
find . \( -name '*.gcda' -o -name '*conftest*' \) -exec rm -f {} +
make -s all >/dev/null || exit 1
# Not the tests that build the library once more, elsewhere.
make -s check TESTS='$(PROGRAM_TESTS) $(TORTURE_TESTS) tests/bound.sh tests/history.sh tests/it_cli.sh tests/test_cli.sh' \
    >check.log 2>&1
status=$?
sed -n '/^# TOTAL/,/^# ERROR/p' check.log
[ $status -eq 0 ] || grep '^FAIL' check.log || tail -n 20 check.log

# report NAME GCOVR-OPTION…
report()
{
    name=$1
    shift
    gcovr --root "$source" --object-directory . --exclude-throw-branches --gcov-ignore-parse-errors "$@" . >"$name.txt" || return 1
    gcovr --root "$source" --object-directory . --exclude-throw-branches --gcov-ignore-parse-errors --branches "$@" . \
        >"$name-branches.txt" || return 1
    awk '/^src/ { printf "%-30s %6s of %6s lines %5s\n", $1, $3, $2, $4 }' "$name.txt"
    printf '%s: lines %s branches %s\n' "$name" "$(awk '/^TOTAL/ { print $4 }' "$name.txt")" \
        "$(awk '/^TOTAL/ { print $4 }' "$name-branches.txt")" >>sums
}

find . -name '*conftest*' -exec rm -f {} + # configure may have run again
rm -f sums
report library --filter "$source/src/" --exclude "$source/src/cli/" && report tool --filter "$source/src/cli/" || exit 1
cat sums
exit $status
