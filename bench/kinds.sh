#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Acquires per second under each kind of limit, over 100,000 names with 1,024 in flight, beside a token bucket's in the
# same round. As a Markdown table, medians.
#
# usage: bench/kinds.sh [ROUNDS [SECONDS]]     default 3 rounds of 2 seconds
#
# Keys are there throughout, but for logs and leases. Of these each name has those of the last second, as nothing is
# released: two with 200,000 acquires per second.

# shellcheck disable=SC2016 # awk expressions, not the shell's
. "$(dirname "$0")/common.sh"

rounds=${1:-3}
seconds=${2:-2}

# The kinds, a line each; the first is what the others are compared with.
cat >"$folder/kinds" <<'END'
token-bucket capacity=1000000 rate=1/h
leaky-bucket capacity=1000000 rate=1/h
fixed-window limit=1000000000 window=36500d
quota limit=1000000000 per=month
sliding-log limit=1000 window=1s
sliding-window limit=1000000 window=1d
concurrency limit=1000 lease=1s
END

# measure KIND PARAMETERS: acquires per second; each kind has a policy of its own
measure() {
    result=$(hirate_json "$seconds" "bench-$1 $1 $2" --names 100000 --in-flight 1024)
    answered=$(echo "$result" | json answered)
    if [ -z "$answered" ] || [ "$(echo "$result" | json allowed)" != "$answered" ]; then
        echo "not everything was allowed: $result" >&2
        exit 1
    fi
    echo "$result" | json acquires_per_s
}

# one_round: the figures in the order of the kinds, as a line
one_round() {
    line=
    while read -r kind parameters; do
        rate=$(measure "$kind" "$parameters" </dev/null)
        line="$line $rate"
    done <"$folder/kinds"
}

machine
start_server
one_round # so that the keys are there
round=0
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    one_round
    echo "acquires per second:$line"
    echo "$line" >>"$folder/rates"
done
echo
echo '| limit | acquires per second | beside a token bucket |'
echo '|---|---|---|'
column=0
while read -r kind _; do
    column=$((column + 1))
    printf '| %s | %.0f | %.2f |\n' "$kind" "$(column_median "$folder/rates" "\$$column")" \
        "$(column_median "$folder/rates" "\$$column / \$1")"
done <"$folder/kinds"
