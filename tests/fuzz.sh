#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Fuzz with clang's libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer.
#
#     tests/fuzz.sh [SECONDS] [TARGET…]      default: 60 seconds each of the targets in tests/fuzz
#
# Works in ${HIRATE_FUZZ:-${TMPDIR:-/tmp}/hirate-fuzz}, where what was found grows from run to run; seeds come from
# tests/fuzz/corpus, which `make check` replays. An input that fails is left there as TARGET-crash-… and printed by name;
# give it to the program of that target as an argument to see it again. Exit status 0: nothing was found.
set -u
cd "$(dirname "$0")/.." || exit 1
CC=${FUZZ_CC:-clang}
work=${HIRATE_FUZZ:-${TMPDIR:-/tmp}/hirate-fuzz}
seconds=60
case ${1-} in [0-9]*) seconds=$1 && shift ;; esac
[ $# -gt 0 ] || set -- escape limits lines permit refusal reply spec uri

command -v "$CC" >/dev/null || { echo "fuzz.sh: needs clang, or FUZZ_CC"; exit 77; }
mkdir -p "$work/include/hirate/adapters" || exit 1
ln -sf "$PWD/src/hirate.h" "$work/include/hirate/hirate.h"
for adapter in adapters/*.h; do
    ln -sf "$PWD/$adapter" "$work/include/hirate/adapters/"
done
script=$(sed -n '/^SCRIPT = /,/call.lua$/ s|.*(srcdir)/\(lua/[a-z]*\.lua\).*|\1|p' Makefile.am)
# shellcheck disable=SC2086 # a list of words
[ -e src/scripts_embedded.h ] || sh lua/embed.sh acquire $script >src/scripts_embedded.h || exit 1
flags="-std=c11 -g -O1 -D_GNU_SOURCE -DFUZZ_ALONE -pthread -ffp-contract=off -fno-omit-frame-pointer \
    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -I$work/include"

result=0
for target; do
    [ -e "tests/fuzz/fuzz_$target.c" ] || { echo "fuzz.sh: no target $target"; exit 2; }
    # shellcheck disable=SC2086 # a list of words
    "$CC" $flags -iquote src tests/fuzz/fuzz_"$target".c tests/support/resp.c tests/support/sim.c \
        tests/support/simscript.c tests/support/snapshot.c src/*.c src/cli/escape.c src/cli/lines.c src/cli/say.c -o "$work/$target" -lhiredis -lm || exit 1
    mkdir -p "$work/corpus/$target"
    echo "== $target, $seconds s"
    if (cd "$work" && "./$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$work/$target-" "corpus/$target" "$OLDPWD/tests/fuzz/corpus/$target" \
        >"$target.log" 2>&1); then
        sed -n 's/^stat::number_of_executed_units: */executed: /p' "$work/$target.log"
        grep -o 'cov: [0-9]* ft: [0-9]* corp: [0-9]*' "$work/$target.log" | tail -n 1
    else
        tail -n 40 "$work/$target.log"
        result=1
    fi
done
exit $result
