#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What several limits in one request cost: acquires per second under 1, 2, 4 and 8 token buckets, and how many times the
# cost of one that is, beside the bound 0.4 + 0.6*n. With one in flight that is the round trip, of which there must be
# one for each request; with 1,024 it is what the server can decide.
#
# usage: bench/several.sh [ROUNDS [SECONDS [SETTING...]]]     default 3 rounds of 2 seconds, both settings
#
# SETTING  own     every limit has 100,000 names of its own (hirate bench)
#          shared  the first is by user (100,000 names), the others in turn by tenant (100 names) and for the whole
#                  service (one name); with several.c, as the tool's bench asks every limit for the same name
#
# In each round the numbers of limits are measured one after the other, and compared within the round. All keys are
# there throughout, and everything is allowed. FAIL=yes: exit status 1 when a bound is missed.

# shellcheck disable=SC2016 # awk expressions, not the shell's
. "$(dirname "$0")/common.sh"

rounds=${1:-3}
seconds=${2:-2}
[ "$#" -lt 2 ] || shift
[ "$#" -lt 1 ] || shift
settings=${*:-own shared}

numbers='1 2 4 8'
most=8
missed=0
: >"$folder/table"

# bucket I: the I-th limit. One name of it can bear the whole load, and what was taken is felt for hours.
bucket() {
    echo "limit$1 token-bucket capacity=400000000 rate=1/10s"
}

# names_of SETTING I: how many names that limit has
names_of() {
    case $1-$2 in
    own-* | shared-1) echo 100000 ;;
    shared-[2468]) echo 100 ;;
    shared-*) echo 1 ;;
    esac
}

# use_every_name SETTING: an acquire of every name under all limits, so that their keys are there
use_every_name() {
    i=0 modulo=
    setting=$1
    set --
    while [ "$i" -lt "$most" ]; do
        i=$((i + 1))
        set -- "$@" --limit "$(bucket "$i")"
        modulo="$modulo $(names_of "$setting" "$i")"
    done
    awk -v modulo="$modulo" 'BEGIN {
        n = split(modulo, names, " ")
        for (user = 0; user < 100000; user++) {
            printf "1000"
            for (i = 1; i <= n; i++) printf "\t%d", user % names[i]
            printf "\n"
        }
    }' | on_client_core "$tool" acquire --redis "unix://$socket" --deadline 60s --format tsv "$@" - >"$folder/rows"
    [ "$(cut -f4 "$folder/rows" | grep -cx allowed)" = 100000 ] || { echo "not every name was allowed" >&2; exit 1; }
}

# own IN-FLIGHT N, shared IN-FLIGHT N: a run under so many limits; prints its JSON object
own() {
    in_flight=$1 n=$2 i=1
    set --
    while [ "$i" -lt "$n" ]; do
        i=$((i + 1))
        set -- "$@" --limit "$(bucket "$i")"
    done
    hirate_json "$seconds" "$(bucket 1)" "$@" --names 100000 --in-flight "$in_flight"
}

shared() {
    in_flight=$1 n=$2 i=0
    set --
    while [ "$i" -lt "$n" ]; do
        i=$((i + 1))
        set -- "$@" "$(names_of shared "$i"):$(bucket "$i")"
    done
    on_client_core "$folder/several" "unix://$socket" "$in_flight" "$seconds" "$@"
}

# Everything allowed, and with one in flight one call for each request: else the figures are not what they say.
check_run() { # IN-FLIGHT JSON
    answered=$(echo "$2" | json answered)
    if [ -z "$answered" ] || [ "$(echo "$2" | json allowed)" != "$answered" ]; then
        echo "not everything was allowed: $2" >&2
        exit 1
    fi
    if [ "$1" = 1 ] && [ "$(echo "$2" | json calls)" != "$answered" ]; then
        echo "not one round trip each: $2" >&2
        exit 1
    fi
}

# compare SETTING IN-FLIGHT: the rows of the table for it
compare() {
    : >"$folder/rates"
    round=0
    while [ "$round" -lt "$rounds" ]; do
        round=$((round + 1))
        line=
        for n in $numbers; do
            result=$("$1" "$2" "$n")
            check_run "$2" "$result"
            line="$line $(echo "$result" | json acquires_per_s)"
        done
        echo "$1, $2 in flight, acquires per second with $numbers limits:$line"
        echo "$line" >>"$folder/rates"
    done
    column=0
    for n in $numbers; do
        column=$((column + 1))
        row "$1" "$2" "$n" "$(column_median "$folder/rates" "\$$column")" \
            "$(column_median "$folder/rates" "\$1 / \$$column")"
    done
}

row() { # SETTING IN-FLIGHT LIMITS RATE RATIO
    bound=$(calc "0.4 + 0.6 * $3")
    verdict=
    if ! holds "$5 <= $bound"; then
        verdict=' MISSED'
        missed=1
    fi
    printf '%-8s %9s %7s %12.0f %12.2f %7.2f %7.1f%s\n' \
        "$1" "$2" "$3" "$4" "$(calc "1e6 / $4")" "$5" "$bound" "$verdict" >>"$folder/table"
}

for setting in $settings; do
    case $setting in
    own | shared) ;;
    *) echo "no such setting: $setting" >&2; exit 2 ;;
    esac
done
compile several
machine
start_server
for setting in $settings; do
    cli flushall >/dev/null
    use_every_name "$setting"
    compare "$setting" 1
    compare "$setting" 1024
done
echo
machine
printf '%-8s %9s %7s %12s %12s %7s %7s\n' setting 'in flight' limits acquires/s 'us for each' cost bound
cat "$folder/table"
[ "${FAIL:-no}" = no ] || exit "$missed"
