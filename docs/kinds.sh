#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Draw every kind of limit, about twenty an hour each, under the same three hours of traffic, as `hirate simulate`
# decides it. There nothing is released, so a lease is held for its whole time.
#
# usage: docs/kinds.sh [FILE]     default docs/kinds.svg
#
# HIRATE_TOOL     the tool (default: hirate in build/, then in the top folder)

set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
svg=${1:-$top/docs/kinds.svg}
tool=${HIRATE_TOOL:-}
for candidate in "$top/build/hirate" "$top/hirate"; do
    [ -n "$tool" ] || { [ -x "$candidate" ] && tool=$candidate; }
done
[ -n "$tool" ] || { echo "hirate is not built: run ./quickstart.sh, or set HIRATE_TOOL" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# From midnight on: one every four minutes; 24 just before one o'clock, 24 just after it; 18 after two.
awk 'function at(minutes) { printf "%.0f\t1\tx\n", (1767225600 + 60 * minutes) * 1000000 }
BEGIN {
    for (i = 0; i < 45; i++) at(4 * i + 1)
    for (i = 0; i < 24; i++) { at(50 + i / 3 + 0.1); at(62 + i / 3 + 0.1) }
    for (i = 0; i < 18; i++) at(134 + i / 3 + 0.1)
}' | sort -n >"$folder/traffic"

lane() { # KIND PARAMETERS: its name, its parameters and each decision, a line each
    "$tool" simulate --limit "x $1 $2" "$folder/traffic" | awk -v kind="$1" -v parameters="$2" 'BEGIN { FS = "\t" }
        { printf "%s\t%s\t%.4f\t%s\t%.4f\n", kind, parameters, $1 / 60000000 - 29453760, $4, $8 / 60000 }'
}

{
    lane token-bucket 'capacity=20 rate=20/h'
    lane leaky-bucket 'capacity=20 rate=20/h'
    lane fixed-window 'limit=20 window=1h'
    lane quota 'limit=20 per=hour offset=+00:30'
    lane sliding-log 'limit=20 window=1h'
    lane sliding-window 'limit=20 window=1h'
    lane concurrency 'limit=4 lease=12m'
} | awk -f "$top/docs/kinds.awk" >"$folder/kinds.svg"
mv "$folder/kinds.svg" "$svg"
echo "$svg"
