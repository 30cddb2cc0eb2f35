#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The tool against a real redis-server, on every loop it was built with.
set -u
top=${top_srcdir:-$(dirname "$0")/..}
. "$top/tests/support/shell.sh"
tool=${HIRATE_TOOL:-}
[ -n "$tool" ] || use_built_tool
limit='login token-bucket capacity=20 rate=1/3s'
user='user token-bucket capacity=5 rate=1/h'
ip='ip token-bucket capacity=3 rate=1/h'
jobs='jobs concurrency limit=4 lease=1h'
traffic='traffic quota limit=100 per=month'
plenty='plenty token-bucket capacity=1000000 rate=1/s'
tab=$(printf '\t')
command -v redis-cli >/dev/null || skip 'no redis-cli here'
start_server

# A stopped server would not notice the kill.
wake_and_clean_up()
{
    [ -z "$server_pid" ] || kill -s CONT "$server_pid" 2>/dev/null
    clean_up
}
trap wake_and_clean_up EXIT

redis()
{
    redis-cli -s "$scratch/redis.sock" "$@"
}

input=/dev/null
run()
{
    "$tool" "$@" <"$input" >"$scratch/out" 2>"$scratch/err"
    status=$?
}

status_is()
{
    if [ "$status" -eq "$2" ]; then ok; else not_ok "$1: status $status, not $2" "$scratch/err"; fi
}

# row_is WHAT TEXT: its stdout is one tsv row, these columns after the time
row_is()
{
    if [ "$(cut -f2- "$scratch/out")" = "$2" ]; then ok; else not_ok "$1: row is not: $2" "$scratch/out"; fi
}

same()
{
    if cmp -s "$2" "$3"; then ok; else diff "$2" "$3" >"$scratch/diff"; not_ok "$1" "$scratch/diff"; fi
}

loops=$("$tool" acquire --help | sed -n 's/^  --loop .*event loop: \(.*\) (default.*/\1/p' | tr -d ,)
expect 'at least one loop' [ -n "$loops" ]

# -------------------------------------------------------------------------------------------------- one name --

# A token an hour: however slow this machine is, none comes back in between.
logins='login token-bucket capacity=20 rate=1/h'
for i in $(seq 20); do
    run acquire --limit "$logins" 203.0.113.9
    status_is "login $i" 0
done
run acquire --limit "$logins" --format tsv 203.0.113.9
status_is 'login 21' 1
expect 'login 21 waits for an hour at most' awk -F "$tab" \
    '{ exit !($4 == "denied" && $5 == 0 && $6 > 3000000 && $6 <= 3600000 && $7 > 71000000 && $7 <= 72000000) }' "$scratch/out"
run peek --limit "$logins" 203.0.113.9
status_is 'peek, denied' 1
run peek --limit "$logins" --cost 0 203.0.113.9
status_is 'peek, cost 0' 0
run reset --limit "$logins" 203.0.113.9
status_is reset 0
expect 'reset, used' [ "$(cat "$scratch/out")" = used ]
run reset --limit "$limit" 203.0.113.9
status_is 'reset again' 0
expect 'reset, unused' [ "$(cat "$scratch/out")" = unused ]

for loop in $loops; do
    run acquire --loop "$loop" --limit "$limit" --format tsv --cost 20 "one $loop"
    status_is "acquire on $loop" 0
    row_is "acquire on $loop" "20${tab}one $loop${tab}allowed${tab}0${tab}0${tab}60000${tab}0${tab}redis${tab}yes${tab}login${tab}-${tab}-"
    run acquire --loop "$loop" --limit "$limit" --format json --cost 21 "one $loop"
    status_is "json on $loop" 1
    expect "json on $loop" grep -qE \
        '^\{"time_us":[0-9]{16},"cost":21,"name":"one [a-z]+","verdict":"denied","remaining":0,"retry_after_ms":"never","reset_ms":[0-9]+,"delay_ms":0,"source":"redis","charge":"no","bound":"login","shadow-denied":null,"permit":null\}$' \
        "$scratch/out"
done
run acquire --limit "$limit" --prefix other --format tsv 'a	b'
row_is 'a tab in a name' "1${tab}a\\tb${tab}allowed${tab}19${tab}0${tab}3000${tab}0${tab}redis${tab}yes${tab}login${tab}-${tab}-"
expect 'the key' [ "$(redis --raw --no-raw keys 'other:*')" = '1) "other:login:a\tb"' ]
run acquire --limit "$limit" --redis "unix://$scratch/redis.sock?db=3" bob
status_is 'another database' 0
expect 'another database' [ "$(redis -n 3 dbsize)" = 1 ]

redis set hirate:login:foreign value >/dev/null
run acquire --limit "$limit" --format tsv foreign
status_is 'a foreign value' 3
expect 'a foreign value' grep -q "${tab}foreign${tab}error${tab}-${tab}-${tab}-${tab}-${tab}none${tab}no${tab}-${tab}-${tab}-\$" "$scratch/out"
expect 'a foreign value, said why' [ "$(wc -l <"$scratch/err")" -eq 1 ]

# -------------------------------------------------------------------------------------------------- every kind --

# kind NAME PARAMETERS: 3 of 5 taken, 3 more refused, 2 peeked, all forgotten
kind()
{
    spec="each $1 $2"
    run acquire --limit "$spec" --format tsv --cost 3 ann
    status_is "acquire, $1" 0
    expect "acquire, $1" awk -F "$tab" \
        '{ exit !(NF == 13 && $4 == "allowed" && $5 == 2 && $6 == 0 && $7 > 0 && $9 == "redis" && $10 == "yes") }' "$scratch/out"
    run acquire --limit "$spec" --format tsv --cost 3 ann
    status_is "acquire, denied, $1" 1
    expect "acquire, denied, $1" awk -F "$tab" '{ exit !($4 == "denied" && $5 == 2 && $6 > 0 && $10 == "no") }' "$scratch/out"
    run acquire --limit "$spec" --format tsv --cost 6 ann
    expect "acquire, never, $1" awk -F "$tab" '{ exit !($4 == "denied" && $6 == "never") }' "$scratch/out"
    run peek --limit "$spec" --format tsv --cost 2 ann
    status_is "peek, $1" 0
    expect "peek, $1" awk -F "$tab" '{ exit !($4 == "allowed" && $5 == 0 && $10 == "no") }' "$scratch/out"
    run peek --limit "$spec" --cost 3 ann
    status_is "peek, denied, $1" 1
    run acquire --limit "other $1 $2" --format json --cost 1 ann
    status_is "another policy, $1" 0
    printf '1\tbob\n1\tann\n5\tbob\n0\tann\n' >"$scratch/four"
    input=$scratch/four
    run acquire --limit "$spec" --format tsv -
    input=/dev/null
    status_is "stdin, $1" 0
    expect "stdin, $1" [ "$(cut -f4,5 "$scratch/out" | tr '\t\n' '  ')" = 'allowed 4 allowed 1 denied 4 allowed 1 ' ]
    run reset --limit "$spec" ann
    status_is "reset, $1" 0
    expect "reset, $1" [ "$(cat "$scratch/out")" = used ]
    run reset --limit "$spec" ann
    expect "reset again, $1" [ "$(cat "$scratch/out")" = unused ]
    run bench --limit "$spec" --names 50 --seconds 0.2 --format json
    status_is "bench, $1" 0
    expect "bench, $1" awk -F'[:,}]' '{ exit !($4 >= 50 && $6 > 0 && $8 == 0 && $4 + $6 == $12 && $10 == $12) }' "$scratch/out"
    redis flushall >/dev/null
}

# Long, so that nothing comes back meanwhile, and windows whose edge is far away.
kind token-bucket 'capacity=5 rate=1/h'
kind leaky-bucket 'capacity=5 rate=1/h'
kind fixed-window 'limit=5 window=36500d'
kind quota 'limit=5 per=month offset=+05:30'
kind sliding-log 'limit=5 window=36500d'
kind sliding-window 'limit=5 window=36500d'
run acquire --limit 'queue leaky-bucket capacity=5 rate=1/h' --format tsv --cost 2 ann
row_is 'the first has no delay' "2${tab}ann${tab}allowed${tab}3${tab}0${tab}7200000${tab}0${tab}redis${tab}yes${tab}queue${tab}-${tab}-"
run acquire --limit 'queue leaky-bucket capacity=5 rate=1/h' --format tsv ann
expect 'the next waits for it' awk -F "$tab" '{ exit !($4 == "allowed" && $8 > 7100000 && $8 <= 7200000) }' "$scratch/out"
run acquire --limit 'queue fixed-window limit=5 window=1d' --format tsv ann
status_is 'a state of another kind' 3
expect 'a state of another kind' [ "$(wc -l <"$scratch/err")" -eq 1 ]
run reset --limit 'queue fixed-window limit=5 window=1d' ann
expect 'a state of another kind, forgotten' [ "$(cat "$scratch/out")" = used ]

# ---------------------------------------------------------------------------------------------- several limits --

for loop in $loops; do
    redis flushall >/dev/null
    run acquire --loop "$loop" --limit "$user" --limit "$ip" --format tsv --cost 2 ann 203.0.113.9
    status_is "two limits on $loop" 0
    row_is "two limits on $loop" \
        "2${tab}ann,203.0.113.9${tab}allowed${tab}1${tab}0${tab}7200000${tab}0${tab}redis${tab}yes${tab}ip${tab}-${tab}-"
    run acquire --loop "$loop" --limit "$user" --limit "$ip" --format tsv --cost 2 ann 203.0.113.9
    status_is "two limits, denied on $loop" 1
    expect "two limits, denied on $loop" [ "$(cut -f4,5,10- "$scratch/out")" = "denied${tab}1${tab}no${tab}ip${tab}-${tab}-" ]
    # Nothing was taken from the one that had room.
    run peek --loop "$loop" --limit "$user" --format tsv --cost 0 ann
    expect "all or nothing on $loop" [ "$(cut -f4,5 "$scratch/out")" = "allowed${tab}3" ]
    run peek --loop "$loop" --limit "$user" --limit "$ip" --format json ann 203.0.113.9
    expect "peek at two limits on $loop" grep -q '"verdict":"allowed","remaining":0,.*"charge":"no","bound":"ip"' "$scratch/out"
    run acquire --loop "$loop" --limit "$user" --limit "$ip" --format tsv --cost 4 ann 203.0.113.9
    expect "one for which no waiting helps on $loop" [ "$(cut -f4,6,11 "$scratch/out")" = "denied${tab}never${tab}ip" ]
done
redis flushall >/dev/null
run acquire --limit "$user" --limit "$ip" --limit "$plenty" --format tsv 'a,b' c --name ''
row_is 'names joined' "1${tab}a\\x2cb,c,${tab}allowed${tab}2${tab}0${tab}3600000${tab}0${tab}redis${tab}yes${tab}ip${tab}-${tab}-"
expect 'three keys' [ "$(redis dbsize)" = 3 ]
run acquire --limit "$user" --limit "$ip" ann
expect 'one name for all, in words' [ "$(cat "$scratch/out")" = 'allowed user,ip ann: 2 left, full again in 3600 s, bound by ip' ]
run acquire --limit "$user" --limit 'trial fixed-window limit=1 window=36500d shadow=yes' --cost 2 --format tsv eve
status_is 'a shadow' 0
expect 'a shadow' [ "$(cut -f4,5,11-13 "$scratch/out")" = "allowed${tab}3${tab}user${tab}trial${tab}-" ]
run acquire --limit 'user quota limit=5 per=month' --limit "$ip" ann
status_is 'one state of another kind' 3
run peek --limit "$ip" --cost 0 --format tsv ann
expect 'one state of another kind, nothing taken' [ "$(cut -f5 "$scratch/out")" = 2 ]
printf '%s\n%s\n# %s\n' "$user" "$ip" "$jobs" >"$scratch/limits"
run acquire --limits "$scratch/limits" --limit ip --limit user --format tsv ann
expect 'limits from a file' [ "$(cut -f4,5,11 "$scratch/out")" = "allowed${tab}1${tab}ip" ]
run reset --limits "$scratch/limits" --limit ip ann
expect 'reset by a name in a file' [ "$(cat "$scratch/out")" = used ]

awk 'BEGIN { for (i = 0; i < 3000; i++) printf "1\tn%d\tm%d\n", i % 37, i % 41 }' >"$scratch/lines"
input=$scratch/lines
run acquire --limit 'p fixed-window limit=1000 window=36500d' --limit 'q fixed-window limit=60 window=36500d' --format tsv -
input=/dev/null
status_is 'stdin, two limits' 0
tr '\t' ' ' <"$scratch/lines" | sed 's/ /\t/;s/ /,/' >"$scratch/want"
cut -f2,3 "$scratch/out" >"$scratch/shown"
same 'stdin, two limits, order' "$scratch/want" "$scratch/shown"
# The second of each line lets 60 pass; p is charged for those alone.
expect 'stdin, two limits, verdicts' awk -F "$tab" \
    '{ split($3, n, ","); if ($4 == "allowed") { p[n[1]]++; q[n[2]]++ }
       rest = 60 - q[n[2]]; if (1000 - p[n[1]] < rest) rest = 1000 - p[n[1]];
       if (($4 == "allowed") != (++seen[n[2]] <= 60) || $5 != rest || $11 != "q") exit 1 }' "$scratch/out"

# ------------------------------------------------------------------------------------------------------ permits --

# acquired NAME OPTION…: acquire, and its permit in $permit
acquired()
{
    name=$1
    shift
    run acquire "$@" --format tsv "$name"
    permit=$(cut -f13 "$scratch/out")
    if [ "$status" -eq 0 ] && echo "$permit" | grep -qxE '[A-Za-z][A-Za-z0-9_,-]+'; then
        ok
    else
        not_ok "acquire $*: status $status, permit $permit" "$scratch/err"
    fi
}

# does WHAT STATUS WORD ARGUMENT…: the command prints just that word
does()
{
    what=$1 wanted=$2 word=$3
    shift 3
    run "$@"
    status_is "$what" "$wanted"
    expect "$what: $word" [ "$(cat "$scratch/out")" = "$word" ]
}

# used WHAT COUNT LIMIT NAME OPTION…: what is held or charged, of a limit of which $most may be
used()
{
    what=$1 count=$2 spec=$3 name=$4
    shift 4
    run peek --limit "$spec" --cost 0 --format tsv "$@" "$name"
    expect "$what: $count used" [ "$(cut -f5 "$scratch/out")" = $((most - count)) ]
}

for loop in $loops; do
    redis flushall >/dev/null
    most=4
    acquired nightly --loop "$loop" --limit "$jobs" --cost 3
    lease=$permit
    run acquire --loop "$loop" --limit "$jobs" --cost 2 nightly
    status_is "held by another on $loop" 1
    does "renew on $loop" 0 renewed renew --loop "$loop" "$lease"
    used "renewed on $loop" 3 "$jobs" nightly
    does "release on $loop" 0 released release --loop "$loop" "$lease"
    used "released on $loop" 0 "$jobs" nightly
    does "release again on $loop" 1 ended release --loop "$loop" "$lease"
    does "renew what has ended on $loop" 1 ended renew --loop "$loop" "$lease"

    most=100
    acquired ann --loop "$loop" --limit "$traffic" --reserve 1h --cost 50
    used "reserved on $loop" 50 "$traffic" ann
    does "commit less on $loop" 0 committed commit --loop "$loop" "$permit" 7
    used "committed on $loop" 7 "$traffic" ann
    run commit --loop "$loop" "$permit" 7
    status_is "commit again on $loop" 3
    expect "commit again on $loop" [ "$(cat "$scratch/out")" = error ]
    expect "commit again on $loop, reason" grep -q '^hirate: commit: ' "$scratch/err"
    used "committed once on $loop" 7 "$traffic" ann
    acquired ann --loop "$loop" --limit "$traffic" --reserve 1h --cost 10
    does "commit more on $loop" 0 committed commit --loop "$loop" "$permit" 20
    used "committed more on $loop" 27 "$traffic" ann
    acquired ann --loop "$loop" --limit "$traffic" --reserve 1h --cost 10
    does "refund on $loop" 0 refunded refund --loop "$loop" "$permit"
    used "refunded on $loop" 27 "$traffic" ann
    does "refund again on $loop" 1 ended refund --loop "$loop" "$permit"
done

# A permit knows its prefix; a reservation that is over is charged late.
most=100
acquired ann --limit "$traffic" --prefix other --reserve 1ms --cost 50
for i in $(seq 100); do
    run peek --limit "$traffic" --prefix other --cost 0 --format tsv ann
    [ "$(cut -f5 "$scratch/out")" != 100 ] || break
    sleep 0.05
done
does 'a late commit' 0 late commit "$permit" 8
used 'a late commit' 8 "$traffic" ann --prefix other
most=4
acquired nightly --limit 'jobs concurrency limit=4 lease=1ms'
sleep 0.1
does 'a lease that is over' 1 ended release "$permit"

# What is taken under several limits, given back together and apart.
redis flushall >/dev/null
acquired ann --limit "$jobs" --limit "$user" --limit 'rooms concurrency limit=4 lease=1h'
expect 'two leases' [ "$(echo "$permit" | tr , '\n' | wc -l)" -eq 2 ]
run release --format tsv "$permit"
status_is 'release both' 0
expect 'release both, tsv' [ "$(cat "$scratch/out")" = "released${tab}4${tab}0
released${tab}4${tab}0" ]
used 'release both' 0 "$jobs" ann
acquired ann --limit "$jobs" --limit 'rooms concurrency limit=4 lease=1h'
does 'release one' 0 released release "${permit%,*}"
does 'release both, one of them again' 1 'ended
released' release "$permit"
acquired ann --limit "$traffic" --limit 'space quota limit=100 per=day' --reserve 1h --cost 9
run commit --format json "$permit" 3
status_is 'commit both' 0
expect 'commit both, json' grep -qE \
    '^\{"op":"commit","result":"committed","remaining":97,"reset_ms":[0-9]+,"policy":"space","charge":"yes"\}$' "$scratch/out"
expect 'commit both, json' [ "$(wc -l <"$scratch/out")" -eq 2 ]

# Nothing is done where one of them cannot be read, and the others' kind does not fit every command.
acquired ann --limit "$jobs"
run release "$permit,garbled"
status_is 'a permit that cannot be read' 2
expect 'a permit that cannot be read' [ ! -s "$scratch/out" ]
expect 'a permit that cannot be read, which' grep -q '(PERMIT 2 of 2)$' "$scratch/err"
used 'nothing is done' 1 "$jobs" ann
for command in refund commit; do
    case $command in commit) set -- 5 ;; *) set -- ;; esac
    run "$command" "$permit" "$@"
    status_is "$command of a lease" 2
    expect "$command of a lease, reason" [ "$(wc -l <"$scratch/err")" -eq 1 ]
done
does 'reset ends leases' 0 used reset --limit "$jobs" ann
does 'release after a reset' 1 ended release "$permit"

# Leases of lines, each its own, given back with one command.
printf '1\tbob\n1\tbob\n2\tbob\n1\tbob\n' >"$scratch/four"
input=$scratch/four
run acquire --limit "$jobs" --format tsv -
input=/dev/null
status_is 'leases of lines' 0
expect 'leases of lines' [ "$(cut -f4 "$scratch/out" | tr '\n' ' ')" = 'allowed allowed allowed denied ' ]
does 'release them all' 0 'released
released
released' release "$(cut -f13 "$scratch/out" | grep -vx -- - | tr '\n' , | sed 's/,$//')"
used 'release them all' 0 "$jobs" bob

"$tool" release "$permit" >&- 2>"$scratch/err"
status=$?
status_is 'release, stdout closed' 3
run release --redis "unix://$scratch/none.sock" --deadline 200ms --format json "$permit,$permit"
status_is 'release, no server' 3
expect 'release, no server' [ "$(grep -c '^{"op":"release","result":"error","remaining":null,"reset_ms":null,"policy":' "$scratch/out")" -eq 2 ]
expect 'release, no server, reasons' [ "$(grep -c '^hirate: release: .* (PERMIT [12] of 2)$' "$scratch/err")" -eq 2 ]
redis flushall >/dev/null

# ------------------------------------------------------------------------------------------------------ stdin --

awk 'BEGIN { for (i = 0; i < 5000; i++) printf "%d\tn%d\n", i % 3, i % 37 }' >"$scratch/lines"
for loop in $loops; do
    spec="stdin-$loop token-bucket capacity=50000 rate=1/d"
    "$tool" acquire --loop "$loop" --limit "$spec" --format tsv - <"$scratch/lines" >"$scratch/out" 2>"$scratch/err"
    status=$?
    status_is "5000 lines from a file on $loop" 0
    cut -f2,3 "$scratch/out" >"$scratch/shown"
    same "their order on $loop" "$scratch/lines" "$scratch/shown"
    # Each name's tokens go down by exactly what its lines before took.
    expect "their verdicts on $loop" awk -F "$tab" \
        '{ t[$3] += $2; if ($4 != "allowed" || $5 != 50000 - t[$3] || NF != 13) exit 1 }' "$scratch/out"
    "$tool" acquire --loop "$loop" --limit "$spec" --format tsv - <"$scratch/lines" 2>&1 | cut -f2,3 >"$scratch/shown"
    same "to a pipe on $loop" "$scratch/lines" "$scratch/shown"
    cat "$scratch/lines" | "$tool" acquire --loop "$loop" --limit "$spec" --format tsv - >"$scratch/out" 2>"$scratch/err"
    status=$?
    status_is "from a pipe on $loop" 0
    cut -f2,3 "$scratch/out" >"$scratch/shown"
    same "from a pipe on $loop" "$scratch/lines" "$scratch/shown"

    input=/dev/null
    run acquire --loop "$loop" --limit "$spec" -
    status_is "/dev/null on $loop" 0
    expect "/dev/null on $loop" [ ! -s "$scratch/out" ]

    printf '1\tm\nx\tm\n\n1\tm' >"$scratch/bad"
    input=$scratch/bad
    run acquire --loop "$loop" --limit "$spec" --format tsv -
    input=/dev/null
    status_is "malformed lines on $loop" 2
    sed 's/^\(line [0-9]*:\).*/\1/' "$scratch/err" >"$scratch/shown"
    printf 'line 2:\nline 3:\n' >"$scratch/want"
    same "malformed lines on $loop" "$scratch/want" "$scratch/shown"
    expect "the others' verdicts on $loop" [ "$(cut -f5 "$scratch/out" | tr "\n" " ")" = "49999 49998 " ]

    # Each row is out before the next line comes.
    rm -f "$scratch/requests" "$scratch/rows"
    mkfifo "$scratch/requests" "$scratch/rows"
    "$tool" acquire --loop "$loop" --limit "$spec" --format tsv - <"$scratch/requests" >"$scratch/rows" &
    exec 3>"$scratch/requests" 4<"$scratch/rows"
    for left in 49999 49998; do
        printf '1\tasks\n' >&3
        read -r row <&4
        case $row in *"allowed$tab$left$tab"*) ok ;; *) not_ok "row by row on $loop: $row" ;; esac
    done
    exec 3>&- 4<&-
    wait $!
done
awk 'BEGIN { for (i = 0; i < 50000; i++) print "1\tn" i }' >"$scratch/many"
"$tool" acquire --limit "$plenty" - <"$scratch/many" 2>"$scratch/err" | head -n 1 >/dev/null
expect 'a closed pipe' grep -q 'standard output' "$scratch/err"
"$tool" acquire --limit "$plenty" bob >&- 2>"$scratch/err"
status=$?
status_is 'stdout closed' 3
"$tool" acquire --limit "$plenty" - <&- >"$scratch/out" 2>"$scratch/err"
status=$?
status_is 'stdin closed' 3

# ------------------------------------------------------------------------------------------------------ bench --

KEYS='acquires_per_s allowed denied errors submitted answered reconnects calls acquires_per_call p50_us p99_us p999_us seconds'
for how in $loops '--rate 2000' '--zipf 1' '--in-flight 1'; do
    case $how in
    --*) ;;
    *) how="--loop $how" ;;
    esac
    # shellcheck disable=SC2086
    run bench --limit "$limit" --names 1000 --seconds 0.5 --format json $how
    status_is "bench $how" 0
    expect "bench $how, no other output" [ ! -s "$scratch/err" ]
    sed 's/":[0-9.]*[,}]/\n/g' "$scratch/out" | tr -d '{"' | grep . | tr '\n' ' ' >"$scratch/shown"
    expect "bench $how, keys" [ "$(cat "$scratch/shown")" = "$KEYS " ]
    expect "bench $how, sums" awk -F'[:,}]' \
        '{ exit !($2 > 100 && $4 + $6 == $12 && $8 == 0 && $10 == $12 && $14 == 0 && $16 > 0 && $18 >= 1 &&
                  $20 > 0 && $20 <= $22 && $22 <= $24 && $26 >= 0.5 && $26 < 3) }' "$scratch/out"
done
expect 'alone, each acquire is a call' awk -F'[:,}]' '{ exit !($18 == 1 && $10 == $16) }' "$scratch/out"

run bench --limit "$user" --limit "$plenty" --limit "$jobs" --names 100 --seconds 0.3 --format json
status_is 'bench, three limits' 0
expect 'bench, three limits' awk -F'[:,}]' '{ exit !($2 > 0 && $4 > 0 && $8 == 0 && $4 + $6 == $12 && $10 == $12) }' "$scratch/out"
# Latency counts from when an acquire was due: not from the one before.
run bench --limit "$limit" --rate 20 --seconds 0.6 --format json
expect 'bench, a slow open load' awk -F'[:,}]' '{ exit !($12 > 5 && $20 < 50000) }' "$scratch/out"
# Filling the flight takes longer than what is measured, and is none of it.
run bench --limit "$plenty" --in-flight 1000000 --deadline 1m --seconds 0.1 --format json
status_is 'bench, a million in flight' 0
expect 'bench, a million in flight' awk -F'[:,}]' '{ exit !($2 > 0 && $8 == 0 && $12 >= 1000000 && $10 == $12) }' "$scratch/out"

# ------------------------------------------------------------------------------------------------- no verdicts --

run acquire --limit "$limit" --redis "unix://$scratch/none.sock" --deadline 200ms --format tsv bob
status_is 'no server' 3
row_is 'no server' "1${tab}bob${tab}error${tab}-${tab}-${tab}-${tab}-${tab}none${tab}no${tab}-${tab}-${tab}-"
expect 'no server: the time is unknown' grep -q "^-$tab" "$scratch/out"
run acquire --limit "$limit" --redis "unix://$scratch/none.sock" --deadline 200ms --format json bob
expect 'no server, json' grep -qF \
    '{"time_us":null,"cost":1,"name":"bob","verdict":"error","remaining":null,"retry_after_ms":null,"reset_ms":null,"delay_ms":null,"source":"none","charge":"no","bound":null,"shadow-denied":null,"permit":null}' \
    "$scratch/out"
run reset --limit "$limit" --redis "unix://$scratch/none.sock" --deadline 200ms bob
status_is 'reset, no server' 3
expect 'reset, no server, said' grep -q '^hirate: reset: no connection to Redis' "$scratch/err"
expect 'reset, no server, no row' [ ! -s "$scratch/out" ]
run bench --limit "$limit" --redis "unix://$scratch/none.sock" --deadline 200ms --seconds 0.5 --format json
status_is 'bench, no server' 0
expect 'bench, no server' awk -F'[:,}]' '{ exit !($2 == 0 && $8 > 0 && $10 == $12 && $14 == 0) }' "$scratch/out"

kill -s STOP "$server_pid"
for loop in $loops; do
    began=$(date +%s)
    run acquire --loop "$loop" --limit "$limit" --deadline 300ms --format tsv bob
    status_is "a stopped server on $loop" 3
    expect "a stopped server on $loop, in time" [ $(($(date +%s) - began)) -le 2 ]
    expect "a stopped server on $loop, row" grep -qE \
        "^-${tab}1${tab}bob${tab}error${tab}-${tab}-${tab}-${tab}-${tab}none${tab}(no|maybe)${tab}-${tab}-${tab}-\$" "$scratch/out"
    expect "a stopped server on $loop, reason" [ "$(wc -l <"$scratch/err")" -eq 1 ]
    printf '1\ta\n2\tb\n3\tc\n' >"$scratch/three"
    input=$scratch/three
    run acquire --loop "$loop" --limit "$limit" --deadline 300ms --format tsv -
    input=/dev/null
    status_is "stdin, a stopped server on $loop" 3
    expect "stdin, a stopped server on $loop" [ "$(cut -f2-4 "$scratch/out" | tr '\t\n' '  ')" = '1 a error 2 b error 3 c error ' ]
    expect "stdin, a stopped server on $loop, which lines" \
        [ "$(sed 's/^\(line [0-9]*: no verdict\): .*/\1/' "$scratch/err" | sort | tr '\n' ' ')" = \
            'line 1: no verdict line 2: no verdict line 3: no verdict ' ]
done
kill -s CONT "$server_pid"

redis config set requirepass s3cret >/dev/null
run acquire --limit "$limit" --redis "unix://:wr0ng@$scratch/redis.sock" bob
status_is 'a wrong password' 3
if grep -q wr0ng "$scratch/err" "$scratch/out"; then not_ok 'the password is shown' "$scratch/err"; else ok; fi
expect 'a wrong password, reason' [ "$(wc -l <"$scratch/err")" -eq 1 ]
run acquire --limit "$limit" --redis "unix://:s3cret@$scratch/redis.sock" bob
status_is 'the right password' 0
finish
