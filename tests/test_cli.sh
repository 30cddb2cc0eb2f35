#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The tool without a server: usage errors, exit statuses, rows, limits files, simulate, --local.
set -u
top=${top_srcdir:-$(dirname "$0")/..}
. "$top/tests/support/shell.sh"
tool=${HIRATE_TOOL:-}
[ -n "$tool" ] || use_built_tool
limit='login token-bucket capacity=20 rate=1/3s'
user='user token-bucket capacity=5 rate=1/h'
ip='ip token-bucket capacity=3 rate=1/h'
trial='trial fixed-window limit=1 window=36500d shadow=yes'
jobs='jobs concurrency limit=4 lease=5m'
traffic='traffic quota limit=10 per=month'
tab=$(printf '\t')
unset HIRATE_REDIS

# run ARGUMENT…: sets $status and leaves stdout and stderr in $scratch/out and $scratch/err. stdin: $input, or nothing
input=/dev/null
run()
{
    "$tool" "$@" <"$input" >"$scratch/out" 2>"$scratch/err"
    status=$?
}

# status_is WHAT STATUS: of the last run
status_is()
{
    if [ "$status" -eq "$2" ]; then ok; else not_ok "$1: status $status, not $2" "$scratch/err"; fi
}

# out_is WHAT TEXT: its whole stdout
out_is()
{
    printf '%s\n' "$2" >"$scratch/want"
    if cmp -s "$scratch/want" "$scratch/out"; then ok; else not_ok "$1: stdout is not: $2" "$scratch/out"; fi
}

# columns_are WHAT TEXT: its stdout without the first column, the time
columns_are()
{
    printf '%s\n' "$2" >"$scratch/want"
    cut -f2- "$scratch/out" >"$scratch/cut"
    if cmp -s "$scratch/want" "$scratch/cut"; then ok; else not_ok "$1: columns are not: $2" "$scratch/out"; fi
}

err_has()
{
    if grep -qF -e "$2" "$scratch/err"; then ok; else not_ok "$1: stderr does not say: $2" "$scratch/err"; fi
}

# wrong TEXT ARGUMENT…: wrong usage, told in one line on stderr that holds TEXT
wrong()
{
    text=$1
    shift
    run "$@"
    lines=$(wc -l <"$scratch/err")
    if [ "$status" -eq 2 ] && [ "$lines" -eq 1 ] && [ ! -s "$scratch/out" ] && grep -qF -e "$text" "$scratch/err"; then
        ok
    else
        not_ok "$* (status $status, $lines lines, want: $text)" "$scratch/err"
    fi
}

# ---------------------------------------------------------------------------------------------- wrong usage --

wrong 'acquire, peek, reset, release, renew, commit, refund, simulate, bench'
wrong 'admit: no such command; want acquire, peek, reset, release, renew, commit, refund, simulate, bench' admit
wrong '--limit is missing' acquire --local bob
wrong 'capacity' acquire --local --limit 'login token-bucket rate=1/3s' bob
wrong 'rate' acquire --local --limit 'login token-bucket capacity=20 rate=0/3s' bob
wrong '--limit' acquire --local --limit '' bob
wrong 'token-bucket, leaky-bucket, fixed-window, quota, sliding-log, sliding-window, concurrency' acquire --local \
    --limit 'x leaking-bucket capacity=1 rate=1/s' bob
wrong "'capacity': unknown key for fixed-window; accepted: limit, window, cache-denials, shadow, on-failure, local-share" \
    acquire --local --limit 'x fixed-window capacity=1 window=1s' bob
wrong 'offset' simulate --limit 'x quota limit=1 per=day offset=5' /dev/null
wrong 'the largest that stays exact is 4503595123' \
    acquire --local --limit 'x sliding-window limit=4503599628 window=1000001us' bob
wrong '--limit: rate: missing; accepted: rate=N/DURATION, as 50/s, 1/3s or 7/13ms (SPEC 2 of 3)' \
    acquire --local --limit "$user" --limit 'x token-bucket capacity=1' --limit "$ip" bob
wrong '; a name alone is for --limits FILE (SPEC 1 of 2)' simulate --limit user --limit "$ip" /dev/null
wrong 'login is named twice for the same NAME' acquire --local --limit "$limit" --limit "$limit" bob
wrong 'login is named twice for the same NAME' peek --local --limit "$limit" --limit "$ip" --limit "$limit" bob ann bob
wrong 'login is named twice for the same NAME' bench --local --limit "$limit" --limit "$limit"
wrong 'reset takes one limit' reset --local --limit "$limit" --limit "$ip" bob
set --
for i in $(seq 17); do set -- "$@" --limit "l$i fixed-window limit=1 window=1s"; done
wrong 'at most 16 limits' acquire --local "$@" bob
wrong 'at most 16 limits' simulate "$@" /dev/null
wrong '3 NAMEs for 2 limits; want one for all, or one for each' acquire --local --limit "$user" --limit "$ip" a b c
wrong '2 NAMEs for 3 limits' peek --local --limit "$user" --limit "$ip" --limit "$limit" --name a b
wrong 'NAME: more than 16' acquire --local --limit "$user" --limit "$ip" 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17
wrong 'NAME is missing' acquire --local --limit "$user" --limit "$ip"
wrong 'one NAME only, or - for stdin' acquire --local --limit "$user" --limit "$ip" ann -
wrong '--cost: given twice' acquire --local --limit "$limit" --cost 1 --cost=1 bob
wrong '--local: given twice' acquire --local --limit "$limit" --local bob
wrong '--local: takes no value' acquire --local=yes --limit "$limit" bob
wrong '--cost: its value is missing' acquire --local --limit "$limit" bob --cost
for cost in -1 +1 1.5 '' ' 1' 0x10 9007199254740992 18446744073709551617 99999999999999999999999; do
    wrong '0 to 9007199254740991' acquire --local --limit "$limit" --cost "$cost" bob
done
wrong '--bogus: no such option' acquire --local --limit "$limit" --bogus bob
wrong '-x: no such option' acquire --local --limit "$limit" -x bob
wrong '--in-flight: no such option' acquire --local --limit "$limit" --in-flight 3 bob
wrong 'NAME is missing' acquire --local --limit "$limit"
wrong 'NAME is missing' peek --local --limit "$limit"
wrong 'one NAME only' acquire --local --limit "$limit" alice bob
wrong 'one NAME only' acquire --local --limit "$limit" --name alice bob
wrong 'one NAME only' acquire --local --limit "$limit" --name alice -
wrong 'does not read stdin' peek --local --limit "$limit" -
wrong 'does not read stdin' reset --local --limit "$limit" -
wrong '--name' acquire --local --limit "$limit" ''
long=$(awk 'BEGIN { for (i = 0; i < 1025; i++) printf "n" }')
wrong 'at most 1024' acquire --local --limit "$limit" "$long"
wrong 'text, tsv or json' acquire --local --limit "$limit" --format xml bob
wrong 'tsv or json' simulate --limit "$limit" --format text
wrong 'text or json' bench --local --limit "$limit" --format tsv
for deadline in '' 0s 5 -1s 1.5s 2d '1 s' 1S; do
    wrong '--deadline' acquire --local --limit "$limit" --deadline "$deadline" bob
done
wrong 'epoll' acquire --local --limit "$limit" --loop libuv bob
wrong '--prefix' acquire --local --limit "$limit" --prefix 'a b' bob
wrong '--prefix' acquire --local --limit "$limit" --prefix '' bob
wrong '--redis' acquire --limit "$limit" --redis http://127.0.0.1 bob
wrong '--redis, --local' acquire --limit "$limit" --redis redis://127.0.0.1 --local bob
wrong 'options only' bench --local --limit "$limit" bob
for names in 0 -1 2147483649 many; do wrong '1 to 2147483648' bench --local --limit "$limit" --names "$names"; done
for zipf in -1 11 nan inf 0x1 1e1 1.2.3 ''; do wrong '--zipf' bench --local --limit "$limit" --zipf "$zipf"; done
for seconds in 0 -1 86401 nan ''; do wrong '--seconds' bench --local --limit "$limit" --seconds "$seconds"; done
wrong '1 to 4194304' bench --local --limit "$limit" --in-flight 0
wrong '--rate' bench --local --limit "$limit" --rate 0
for reserve in '' 0s 5 -1s 1.5s 52125d '1 s' 1S; do
    wrong '--reserve' acquire --local --limit "$traffic" --reserve "$reserve" bob
done
wrong 'no limit is a quota' acquire --local --limit "$limit" --limit "$jobs" --reserve 1m bob
for command in peek reset bench; do wrong '--reserve: no such option' "$command" --local --limit "$traffic" --reserve 1m; done
for command in release renew commit refund; do
    wrong "$command: PERMIT is missing" "$command"
    for option in --local --limit --limits --cost --name --prefix --reserve; do
        wrong "$option: no such option; $command takes --redis --format --deadline --loop --help" "$command" "$option" x
    done
    wrong '--deadline' "$command" --deadline 0s x 1
    wrong 'text, tsv or json' "$command" --format xml x 1
done
wrong '--redis' release --redis http://127.0.0.1 x
wrong '--redis' commit --redis http://127.0.0.1 x 1
for command in release renew refund; do wrong 'one PERMIT only' "$command" x 1; done
wrong 'AMOUNT is missing' commit x
wrong 'one PERMIT and one AMOUNT only' commit x 1 2
for amount in -1 +1 1.5 '' 9007199254740992 x; do wrong '0 to 9007199254740991' commit -- x "$amount"; done
# A permit that cannot be read, alone or among others, is found without asking Redis, and never repeated.
for permit in nonsense - '' Agarbled,Bgarbled, "$(awk 'BEGIN { for (i = 0; i < 3000; i++) printf "A" }')"; do
    for command in release renew 'commit' refund; do
        case $command in commit) set -- 5 ;; *) set -- ;; esac
        wrong 'permit: ' "$command" --redis redis://127.0.0.1:1 -- "$permit" "$@"
        if grep -q garbled "$scratch/err"; then not_ok "$command repeats the permit" "$scratch/err"; else ok; fi
    done
done
for permit in - ''; do wrong 'permit: there is none' release --redis redis://127.0.0.1:1 -- "$permit"; done
wrong 'permit: there is none, as with - in the row of an acquire that was denied or holds nothing' commit \
    --redis redis://127.0.0.1:1 - 1
wrong '(PERMIT 1 of 2)' release --redis redis://127.0.0.1:1 -- -,-
wrong '(PERMIT 1 of 3)' release --redis redis://127.0.0.1:1 x,y,z
wrong 'at most 1024' release "$(awk 'BEGIN { for (i = 0; i < 1024; i++) printf "A," }')"
wrong 'one FILE only' simulate --limit "$limit" a b
wrong 'No such file' simulate --limit "$limit" "$scratch/none"

HIRATE_REDIS=localhost
export HIRATE_REDIS
wrong 'HIRATE_REDIS' acquire --limit "$limit" bob
run acquire --local --limit "$limit" bob
status_is 'a wrong HIRATE_REDIS that is not used' 0
unset HIRATE_REDIS

# A password is never repeated, wherever it stands.
for where in --redis=http://u:s3cret@h --redi=redis://:s3cret@h --redis=redis://:s3cret@h:99999 \
    --redis=redis://:s3cret%zz@h; do
    run acquire --limit "$limit" "$where" bob
    status_is "$where" 2
    if grep -q s3cret "$scratch/err"; then not_ok "$where shows the password" "$scratch/err"; else ok; fi
done
run redis://:s3cret@h
if grep -q s3cret "$scratch/err"; then not_ok "a stray URI shows the password" "$scratch/err"; else ok; fi

# ------------------------------------------------------------------------------------------------ limits files --

printf '# guards\n%s\r\n\n%s\n%s' "$limit" "$user" "$jobs" >"$scratch/limits"
printf 'login token-bucket capacity=20 rate=1/3s\nuser token-bucket capacity=5 rate=0/h\n' >"$scratch/wrong"
: >"$scratch/empty"
wrong "--limits: $scratch/none: cannot be read: No such file" acquire --local --limits "$scratch/none" --limit login bob
wrong "--limits: $scratch: cannot be read: Is a directory" simulate --limits "$scratch" --limit login
wrong "--limits: $scratch/wrong:2: rate: " peek --local --limits "$scratch/wrong" --limit login bob
wrong "--limit logins: not in $scratch/limits, which has login, user, jobs" \
    acquire --local --limits "$scratch/limits" --limit user --limit logins bob
wrong "--limit is missing; $scratch/limits has login, user, jobs" reset --local --limits "$scratch/limits" bob
wrong "which has no limit" bench --local --limits "$scratch/empty" --limit login
wrong '--limit: spec: is empty' acquire --local --limits "$scratch/limits" --limit '' bob
wrong 'quota, sliding-log, sliding-window, concurrency; a name alone is for --limits FILE' acquire --local --limit login bob
wrong '--limits: given twice' acquire --local --limits "$scratch/limits" --limits "$scratch/limits" --limit login bob
awk 'BEGIN { for (i = 0; i < 4000; i++) print "policy-" i, "token-bucket capacity=1 rate=1/h" }' >"$scratch/thousands"
wrong ', policy-30, ' acquire --local --limits "$scratch/thousands" --limit login bob
expect 'a long list of names is cut' grep -q 'policy-[0-9]*, \.\.\.$' "$scratch/err"
run acquire --local --limits "$scratch/limits" --limit login --format tsv bob
status_is 'a limit from a file' 0
columns_are 'a limit from a file' "1${tab}bob${tab}allowed${tab}19${tab}0${tab}3000${tab}0${tab}local${tab}yes${tab}login${tab}-${tab}-"
run acquire --local --limits="$scratch/limits" --limit user --limit "$ip" --format tsv ann 203.0.113.9
columns_are 'one from a file, one not' \
    "1${tab}ann,203.0.113.9${tab}allowed${tab}2${tab}0${tab}3600000${tab}0${tab}local${tab}yes${tab}ip${tab}-${tab}-"
run peek --local --limits "$scratch/thousands" --limit policy-3999 bob
out_is 'the last of thousands' 'allowed policy-3999 bob: 0 left, full again in 3600 s'
run reset --local --limits "$scratch/limits" --limit login bob
out_is 'reset with a limits file' unused
printf '5\t5\tx\n' | "$tool" simulate --limits "$scratch/limits" --limit user >"$scratch/out" 2>"$scratch/err"
out_is 'simulate with a limits file' "5${tab}5${tab}x${tab}allowed${tab}0${tab}0${tab}18000000${tab}0"
run bench --local --limits "$scratch/limits" --limit login --limit user --names 10 --seconds 0.1 --format json
status_is 'bench with a limits file' 0

# ------------------------------------------------------------------------------------------------------- help --

for command in acquire peek reset release renew commit refund simulate bench; do
    run "$command" --help
    status_is "$command --help" 0
    case $command in
    release | renew | commit | refund) words='PERMIT --redis joined' ;;
    reset) words='token-bucket concurrency --limits' ;;
    *) words='token-bucket concurrency --limits shadow=yes' ;;
    esac
    for word in "usage: hirate $command" --format 'exit status' 'example' $words; do
        if grep -qF -e "$word" "$scratch/out"; then ok; else not_ok "$command --help does not say $word"; fi
    done
    # Every option named where a wrong one is refused is explained.
    run "$command" --bogus
    for option in $(grep -o -e '--[a-z-]*' "$scratch/err" | sort -u); do
        case $option in --bogus | --) continue ;; esac
        "$tool" "$command" --help >"$scratch/help"
        if grep -q -e "^  $option" "$scratch/help"; then ok; else not_ok "$command --help: no $option"; fi
    done
    if awk 'length($0) > 120 { bad = 1 } END { exit bad }' "$scratch/help"; then ok; else not_ok "$command --help is wide"; fi
done
run --help
status_is --help 0
for word in acquire peek reset release renew commit refund simulate bench HIRATE_REDIS 'exit status'; do
    if grep -qF -e "$word" "$scratch/out"; then ok; else not_ok "--help does not say $word"; fi
done
run --version
status_is --version 0
expect 'version' grep -qx 'hirate [0-9][0-9.]*' "$scratch/out"

# ----------------------------------------------------------------------------------------- one name, --local --

run acquire --local --limit "$limit" 203.0.113.9
status_is 'acquire' 0
out_is 'acquire' 'allowed login 203.0.113.9: 19 left, full again in 3 s'
run acquire --local --limit="$limit" --cost=20 --format=tsv a
status_is 'acquire of all' 0
columns_are 'acquire of all' "20${tab}a${tab}allowed${tab}0${tab}0${tab}60000${tab}0${tab}local${tab}yes${tab}login${tab}-${tab}-"
now=$(date +%s)
expect 'the clock is that of this machine' awk -v now="$now" '{ exit !($1 / 1e6 > now - 5 && $1 / 1e6 < now + 5) }' \
    "$scratch/out"
run acquire --local --limit "$limit" --cost 21 --format tsv a
status_is 'more than the capacity' 1
columns_are 'more than the capacity' "21${tab}a${tab}denied${tab}20${tab}never${tab}0${tab}0${tab}local${tab}no${tab}login${tab}-${tab}-"
run acquire --local --limit "$limit" --cost 21 a
out_is 'never, in words' 'denied login a: 20 left, never: the cost is above the limit, full'
run acquire --local --limit "$limit" --cost 21 --format json 'a"b\c'
sed 's/"time_us":[0-9]*/"time_us":T/' "$scratch/out" >"$scratch/shown"
mv "$scratch/shown" "$scratch/out"
out_is 'json' '{"time_us":T,"cost":21,"name":"a\"b\\c","verdict":"denied","remaining":20,"retry_after_ms":"never","reset_ms":0,"delay_ms":0,"source":"local","charge":"no","bound":"login","shadow-denied":null,"permit":null}'
run acquire --local --limit "$limit" --cost 0 --format tsv a
columns_are 'cost 0' "0${tab}a${tab}allowed${tab}20${tab}0${tab}0${tab}0${tab}local${tab}no${tab}login${tab}-${tab}-"
run peek --local --limit "$limit" --cost 5 --format tsv a
status_is 'peek' 0
expect 'peek takes nothing' grep -q "${tab}local${tab}no${tab}login${tab}-${tab}-\$" "$scratch/out"
run peek --local --limit "$limit" --cost 21 a
status_is 'peek, denied' 1
run reset --local --limit "$limit" a
status_is 'reset' 0
out_is 'reset' unused
run reset --local --limit "$limit" --format json a
out_is 'reset, json' '{"name":"a","result":"unused"}'
for name in - '' --help '--' -x; do
    run acquire --local --limit "$limit" --format tsv --name "$name"
    status_is "--name '$name'" 0
    if [ "$(cut -f3 "$scratch/out")" = "$name" ]; then ok; else not_ok "--name '$name'" "$scratch/out"; fi
done
run acquire --local --limit "$limit" --format tsv -- --limit
status_is 'a name after --' 0
expect 'a name after --' grep -q "${tab}--limit${tab}" "$scratch/out"
run acquire --local --limit "$limit" --format tsv "${long#n}"
status_is 'a name of 1024 bytes' 0
for deadline in 500us ms 2s 1m h 1d; do
    run acquire --local --limit "$limit" --deadline "$deadline" bob
    status_is "--deadline $deadline" 0
done
for loop in $("$tool" acquire --help | sed -n 's/^  --loop .*event loop: \(.*\) (default.*/\1/p' | tr -d ,); do
    run acquire --local --limit "$limit" --loop "$loop" bob
    status_is "--loop $loop" 0
done

# ------------------------------------------------------------------------------------ several limits, --local --

run acquire --local --limit "$user" --limit "$ip" --format tsv ann 203.0.113.9
status_is 'two limits' 0
columns_are 'two limits' \
    "1${tab}ann,203.0.113.9${tab}allowed${tab}2${tab}0${tab}3600000${tab}0${tab}local${tab}yes${tab}ip${tab}-${tab}-"
run acquire --local --limit "$user" --limit "$ip" --cost 4 --format tsv ann 203.0.113.9
status_is 'two limits, one without room' 1
columns_are 'two limits, one without room' \
    "4${tab}ann,203.0.113.9${tab}denied${tab}3${tab}never${tab}0${tab}0${tab}local${tab}no${tab}ip${tab}-${tab}-"
run acquire --local --limit "$user" --limit "$ip" ann 203.0.113.9
out_is 'two limits, in words' 'allowed user,ip ann,203.0.113.9: 2 left, full again in 3600 s, bound by ip'
run peek --local --limit "$user" --limit "$ip" --name ann --format json 203.0.113.9
sed 's/"time_us":[0-9]*/"time_us":T/' "$scratch/out" >"$scratch/shown"
mv "$scratch/shown" "$scratch/out"
out_is 'two limits, json' '{"time_us":T,"cost":1,"name":"ann,203.0.113.9","verdict":"allowed","remaining":2,"retry_after_ms":0,"reset_ms":3600000,"delay_ms":0,"source":"local","charge":"no","bound":"ip","shadow-denied":null,"permit":null}'
run acquire --local --limit "$user" --limit "$ip" --format tsv ann
expect 'one name for all' [ "$(cut -f3 "$scratch/out")" = ann ]
run acquire --local --limit "$user" --limit "$ip" --format tsv 'a,b'
expect 'one name for all, with a comma' [ "$(cut -f3 "$scratch/out")" = 'a,b' ]
run acquire --local --limit "$user" --limit "$ip" --format tsv 'a,b' 'c\d'
expect 'commas of their own' [ "$(cut -f3 "$scratch/out")" = 'a\x2cb,c\\d' ]
run acquire --local --limit "$user" --limit "$ip" --format json 'a,b' 'c"d'
expect 'commas of their own, json' grep -qF '"name":"a\\x2cb,c\"d",' "$scratch/out"
run acquire --local --limit "$user" --limit 'user fixed-window limit=9 window=1d' --format tsv ann bob
status_is 'one policy name for two names' 0
set --
for i in $(seq 16); do set -- "$@" --limit "l$i fixed-window limit=$((20 - i)) window=36500d"; done
run acquire --local "$@" --format tsv "${long#n}"
status_is 'sixteen limits' 0
expect 'sixteen limits' [ "$(cut -f4,5,11 "$scratch/out")" = "allowed${tab}3${tab}l16" ]
run acquire --local "$@" --format json 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 "$(printf '\377%.0s' $(seq 1024))"
expect 'sixteen names' grep -qF '"1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,\\xff\\xff' "$scratch/out"

run acquire --local --limit "$user" --limit "$trial" --cost 2 --format tsv ann
status_is 'a shadow' 0
expect 'a shadow' [ "$(cut -f4,5,11-13 "$scratch/out")" = "allowed${tab}3${tab}user${tab}trial${tab}-" ]
run acquire --local --limit "$trial" --limit 'night fixed-window limit=1 window=1d shadow=yes' --limit "$user" --cost 2 ann
expect 'shadows, in words' grep -q '^allowed trial,night,user ann: 3 left, .* bound by user, the shadows trial,night would deny$' \
    "$scratch/out"
run acquire --local --limit "$user" --limit "$trial" --cost 2 --format json ann
expect 'a shadow, json' grep -qF '"bound":"user","shadow-denied":"trial","permit":null}' "$scratch/out"
run peek --local --limit "$user" --limit "$trial" --cost 1 --format tsv ann
expect 'a shadow with room' [ "$(cut -f12 "$scratch/out")" = - ]
run acquire --local --limit "$trial" --cost 2 --format tsv ann
status_is 'a shadow alone' 0
expect 'a shadow alone' [ "$(cut -f4,12 "$scratch/out")" = "allowed${tab}trial" ]

# permits_are WHAT COUNT: so many in the last row's last column, joined by commas, no two alike
permits_are()
{
    count=$(tail -n 1 "$scratch/out" | cut -f13 | tr , '\n' | grep -xE '[A-Za-z][A-Za-z0-9_-]+' | sort -u | wc -l)
    if [ "$count" -eq "$2" ]; then ok; else not_ok "$1: $count permits, not $2" "$scratch/out"; fi
}
run acquire --local --limit "$jobs" --format tsv nightly
status_is 'a lease' 0
permits_are 'a lease' 1
wrong "is another engine's, which took it without Redis" release --redis redis://127.0.0.1:1 "$(cut -f13 "$scratch/out")"
run acquire --local --limit "$jobs" --cost 0 --format tsv nightly
permits_are 'nothing is no lease' 0
run acquire --local --limit "$jobs" --cost 5 --format tsv nightly
status_is 'more than may be held' 1
permits_are 'more than may be held' 0
run peek --local --limit "$jobs" --format tsv nightly
permits_are 'peek takes no lease' 0
run acquire --local --limit "$traffic" --format tsv --cost 3 ann
permits_are 'a charge is no reservation' 0
run acquire --local --limit "$traffic" --reserve 10m --format tsv --cost 3 ann
status_is 'a reservation' 0
permits_are 'a reservation' 1
expect 'a reservation counts' [ "$(cut -f5 "$scratch/out")" = 7 ]
run acquire --local --limit "$jobs" --limit "$user" --limit "$traffic" --reserve 10m --format tsv ann
permits_are 'a lease and a reservation' 2
run acquire --local --limit "$jobs" --limit "$traffic" --reserve 10m --format json ann
expect 'permits, json' grep -qE '"permit":"[A-Za-z0-9_-]+,[A-Za-z0-9_-]+"}$' "$scratch/out"
run acquire --local --limit "$jobs" --limit "$traffic" --reserve 10m ann
expect 'permits, in words' grep -qE ', permits [A-Za-z0-9_-]+,[A-Za-z0-9_-]+$' "$scratch/out"
run acquire --local --limit "$jobs" ann
expect 'a permit, in words' grep -qE '^allowed jobs ann: 3 left, full again in 300 s, permit [A-Za-z0-9_-]+$' "$scratch/out"

# ----------------------------------------------------------------------------------------------------- escapes --

# shown FORMAT RAW WANT: the name whose bytes printf RAW writes, as a row shows it
shown()
{
    run acquire --local --limit "$limit" --format "$1" "$(printf "$2")"
    printf '%s' "$3" >"$scratch/want"
    if [ "$1" = tsv ]; then
        cut -f3 "$scratch/out"
    else
        sed 's/.*"name":"\(.*\)","verdict".*/\1/' "$scratch/out"
    fi | tr -d '\n' >"$scratch/shown"
    if cmp -s "$scratch/want" "$scratch/shown"; then ok; else not_ok "$2 in $1, want $3" "$scratch/shown"; fi
}
shown tsv 'a\tb\\c\rd\ne' 'a\tb\\c\rd\ne'
shown tsv '\001\033\177' '\x01\x1b\x7f'
shown tsv '\303\251\342\202\254\360\237\230\200' "$(printf '\303\251\342\202\254\360\237\230\200')"
shown tsv 'a\377b' 'a\xffb'             # never in UTF-8
shown tsv '\300\200' '\xc0\x80'         # overlong
shown tsv '\355\240\200' '\xed\xa0\x80' # a surrogate
shown tsv '\364\220\200\200' '\xf4\x90\x80\x80'
shown tsv '\342\202' '\xe2\x82'         # cut short
shown tsv '\302\233' '\xc2\x9b'         # a control character terminals obey
shown json 'a"b\\c\td' 'a\"b\\c\u0009d'
shown json '\303\251\377' "$(printf '\303\251')"'\u00ff'

# Every byte from 1 to 255 as stdin escapes them comes back as the same row.
awk 'BEGIN { for (i = 0; i < 256; i++) printf "1\t\\x%02X%c\n", i, i % 26 + 97 }' >"$scratch/bytes"
input=$scratch/bytes
run acquire --local --limit "$limit" --format tsv -
status_is 'every byte' 0
cut -f3 "$scratch/out" | sed "s/^/1$tab/" >"$scratch/again"
mv "$scratch/out" "$scratch/first"
input=$scratch/again
run acquire --local --limit "$limit" --format tsv -
cut -f3 "$scratch/first" >"$scratch/want"
cut -f3 "$scratch/out" >"$scratch/shown"
if [ "$(wc -l <"$scratch/want")" -eq 256 ] && cmp -s "$scratch/want" "$scratch/shown"; then
    ok
else
    not_ok 'escapes do not read back' "$scratch/shown"
fi
input=/dev/null

# --------------------------------------------------------------------------------------------- stdin, --local --

run acquire --local --limit "$limit" --format tsv -
status_is 'nothing on stdin' 0
expect 'nothing on stdin' [ ! -s "$scratch/out" ]
{
    printf '1\ta\n'          # 1
    printf '20\ta\n'         # 2: denied
    printf 'x\ta\n'          # 3
    printf '\n'              # 4
    printf '1\n'             # 5
    printf '1\ta\tb\n'       # 6
    printf '1\ta\\q\n'       # 7
    printf '1\t%sn\n' "$long" # 8: too long a name
    printf '9007199254740992\ta\n' # 9
    awk 'BEGIN { for (i = 0; i < 100000; i++) printf "z"; print "" }' # 10
    printf -- '-1\ta\n'      # 11
    printf '1\t\n'           # 12: the empty name
    printf '1\tb\r\n'        # 13
    printf '1\t%s\n' "${long#n}" # 14
    printf '19\ta'           # 15: no newline
} >"$scratch/lines"
input=$scratch/lines
run acquire --local --limit "$limit" --format tsv -
status_is 'malformed lines' 2
sed 's/^\(line [0-9]*:\).*/\1/' "$scratch/err" >"$scratch/shown"
for line in 3 4 5 6 7 8 9 10 11; do echo "line $line:"; done >"$scratch/want"
if cmp -s "$scratch/want" "$scratch/shown"; then ok; else not_ok 'which lines are malformed' "$scratch/err"; fi
cut -f2-5 "$scratch/out" >"$scratch/shown"
{
    printf '1\ta\tallowed\t19\n20\ta\tdenied\t19\n1\t\tallowed\t19\n1\tb\\r\tallowed\t19\n'
    printf '1\t%s\tallowed\t19\n19\ta\tallowed\t0\n' "${long#n}"
} >"$scratch/want"
if cmp -s "$scratch/want" "$scratch/shown"; then ok; else not_ok 'rows around malformed lines' "$scratch/shown"; fi
cat "$scratch/lines" | "$tool" acquire --local --limit "$limit" --format tsv - 2>/dev/null | cut -f2-5 >"$scratch/piped"
if cmp -s "$scratch/want" "$scratch/piped"; then ok; else not_ok 'the same from a pipe' "$scratch/piped"; fi

# A row is out before the next line comes: the reader of a row sends the next line.
mkfifo "$scratch/requests" "$scratch/rows"
"$tool" acquire --local --limit "$limit" --format tsv - <"$scratch/requests" >"$scratch/rows" &
exec 3>"$scratch/requests" 4<"$scratch/rows"
for left in 19 18 17; do
    printf '1\ta\n' >&3
    read -r row <&4
    case $row in *"allowed$tab$left$tab"*) ok ;; *) not_ok "row by row: $row" ;; esac
done
exec 3>&- 4<&-
wait $!

# Several limits: one name for all, or one for each.
printf '1\tann\n1\tann\t203.0.113.9\n1\ta\tb\tc\n3\tbob\tann\n1\t\tann\n1\tann\n' >"$scratch/lines"
input=$scratch/lines
run acquire --local --limit "$user" --limit "$ip" --format tsv -
status_is 'stdin, two limits' 2
printf '1\tann\tallowed\t2\tip\n1\tann,203.0.113.9\tallowed\t2\tip\n3\tbob,ann\tdenied\t2\tip\n' >"$scratch/want"
printf '1\t,ann\tallowed\t1\tip\n1\tann\tallowed\t0\tip\n' >>"$scratch/want"
cut -f2-5,11 "$scratch/out" >"$scratch/shown"
if cmp -s "$scratch/want" "$scratch/shown"; then ok; else not_ok 'stdin, two limits' "$scratch/shown"; fi
expect 'stdin, two limits, malformed' [ "$(cut -d: -f1,2 "$scratch/err")" = 'line 3: columns' ]
awk 'BEGIN { for (i = 0; i < 5; i++) print "1\tnightly" }' >"$scratch/lines"
run acquire --local --limit "$jobs" --format tsv -
status_is 'leases of lines' 0
expect 'leases of lines' [ "$(cut -f4,13 "$scratch/out" | sort -u | cut -f1 | tr '\n' ' ')" = \
    'allowed allowed allowed allowed denied ' ]

# Each of a policy's limits wants a name of its own; and a state of another kind is a failure of that line alone.
printf '1\tann\n1\tann\tbob\n1\tbob\tann\n1\tcid\tdan\n' >"$scratch/lines"
run acquire --local --limit "$user" --limit 'user fixed-window limit=9 window=1d' --format tsv -
status_is 'one policy name' 2
cut -f3,4 "$scratch/out" >"$scratch/shown"
printf 'ann,bob\tallowed\nbob,ann\terror\ncid,dan\tallowed\n' >"$scratch/want"
if cmp -s "$scratch/want" "$scratch/shown"; then ok; else not_ok 'one policy name' "$scratch/shown"; fi
sed 's/^\(line [0-9]*: [a-z ]*:\).*/\1/' "$scratch/err" >"$scratch/shown"
printf 'line 1: name:\nline 3: no verdict:\n' >"$scratch/want"
if cmp -s "$scratch/want" "$scratch/shown"; then ok; else not_ok 'one policy name, which lines' "$scratch/err"; fi
sed -i 1d "$scratch/lines"
run acquire --local --limit "$user" --limit 'user fixed-window limit=9 window=1d' -
status_is 'a line without a verdict' 3
input=/dev/null

awk 'BEGIN { for (i = 0; i < 100000; i++) print "1\tn" i }' >"$scratch/many"
"$tool" acquire --local --limit "$limit" - <"$scratch/many" 2>"$scratch/err" | head -n 1 >/dev/null
err_has 'a closed pipe' 'standard output'
# A stdout that cannot be written is 3, whatever else there is to say.
{ echo malformed && cat "$scratch/many"; } >"$scratch/lines"
awk 'BEGIN { print "malformed"; for (i = 0; i < 10000; i++) print i "\t1\tn" }' >"$scratch/simulated"
# unwritten ARGUMENT…: stdin from $input
unwritten()
{
    "$tool" "$@" <"$input" >&- 2>"$scratch/err"
    status=$?
    status_is "stdout closed: $*" 3
    [ -e /dev/full ] || return
    "$tool" "$@" <"$input" >/dev/full 2>"$scratch/err"
    status=$?
    status_is "a full disk: $*" 3
    err_has "a full disk: $*" 'standard output: '
}
unwritten acquire --local --limit "$limit" bob
unwritten acquire --local --limit "$limit" --cost 21 bob
unwritten peek --local --limit "$limit" bob
unwritten reset --local --limit "$limit" bob
unwritten simulate --limit "$limit" "$scratch/simulated"
unwritten bench --local --limit "$limit" --seconds 0.1
unwritten --help
unwritten --version
unwritten commit --help
input=$scratch/lines
unwritten acquire --local --limit "$limit" -
input=/dev/null
"$tool" acquire --local --limit "$limit" - <&- >"$scratch/out" 2>"$scratch/err"
status=$?
status_is 'stdin closed' 3
input=/
run acquire --local --limit "$limit" -
status_is 'a directory for stdin' 3
input=/dev/null

# ---------------------------------------------------------------------------------------------------- simulate --

for vectors in "$top"/tests/vectors/*.tsv; do
    spec=$(sed -n '1s/^# limit: //p' "$vectors")
    grep -v '^#' "$vectors" >"$scratch/want"
    run simulate --limit "$spec" "$vectors"
    status_is "$vectors" 0
    if [ -s "$scratch/want" ] && cmp -s "$scratch/want" "$scratch/out"; then ok; else not_ok "$vectors" "$scratch/out"; fi
    cut -f1-3 "$scratch/want" | "$tool" simulate --format=tsv --limit "$spec" >"$scratch/out"
    if cmp -s "$scratch/want" "$scratch/out"; then ok; else not_ok "$vectors, three columns from a pipe"; fi
done
printf '0\t20\tx\n#\nx\t1\tx\n1\n\n3000000\t1\tx\n3000000\t1\tx' >"$scratch/simulated"
run simulate --limit "$limit" "$scratch/simulated"
status_is 'simulate, malformed lines' 2
out_is 'simulate, malformed lines' "0${tab}20${tab}x${tab}allowed${tab}0${tab}0${tab}60000${tab}0
3000000${tab}1${tab}x${tab}allowed${tab}0${tab}0${tab}60000${tab}0
3000000${tab}1${tab}x${tab}denied${tab}0${tab}3000${tab}60000${tab}0"
sed 's/^\(line [0-9]*:\).*/\1/' "$scratch/err" >"$scratch/shown"
printf 'line 3:\nline 4:\nline 5:\n' >"$scratch/want"
if cmp -s "$scratch/want" "$scratch/shown"; then ok; else not_ok 'simulate, which lines' "$scratch/err"; fi
printf '5\t21\tx\n' >"$scratch/simulated"
input=$scratch/simulated
run simulate --limit "$limit" --format json -
out_is 'simulate, json' '{"time_us":5,"cost":21,"name":"x","verdict":"denied","remaining":20,"retry_after_ms":"never","reset_ms":0,"delay_ms":0}'
input=/dev/null

# Several limits: nothing is taken unless all have room; a shadow takes where it has.
a='a token-bucket capacity=5 rate=1/s'
b='b fixed-window limit=2 window=10s'
c='c sliding-log limit=1 window=10s shadow=yes'
printf '1000000\t2\tx\n1000000\t1\tx\n2000000\t1\tx\ty\n2000000\t3\tx\ty\n12000000\t2\tx\n' >"$scratch/simulated"
run simulate --limit "$a" --limit "$b" "$scratch/simulated"
status_is 'simulate, two limits' 0
out_is 'simulate, two limits' "1000000${tab}2${tab}x${tab}allowed${tab}0${tab}0${tab}9000${tab}0
1000000${tab}1${tab}x${tab}denied${tab}0${tab}9000${tab}9000${tab}0
2000000${tab}1${tab}x,y${tab}allowed${tab}1${tab}0${tab}8000${tab}0
2000000${tab}3${tab}x,y${tab}denied${tab}1${tab}never${tab}8000${tab}0
12000000${tab}2${tab}x${tab}allowed${tab}0${tab}0${tab}8000${tab}0"
cp "$scratch/out" "$scratch/rows2"
grep -v , "$scratch/rows2" >"$scratch/simulated"
run simulate --limit "$a" --limit "$b" "$scratch/simulated"
expect 'simulate, rows read again' cmp "$scratch/simulated" "$scratch/out"
run simulate --limit "$c" --limit "$a" --format json "$scratch/simulated"
expect 'simulate, a shadow does not deny' [ "$(grep -c '"name":"x","verdict":"allowed"' "$scratch/out")" -eq 3 ]
expect 'simulate, no further keys' [ "$(grep -c '"delay_ms":0}$' "$scratch/out")" -eq 3 ]
printf '0\t1\tn\n1\t1\tn\tm\n' >"$scratch/simulated"
run simulate --limit 'a fixed-window limit=5 window=1s' --limit 'a fixed-window limit=5 window=1s' "$scratch/simulated"
status_is 'simulate, one key twice' 2
err_has 'simulate, one key twice' 'line 1: name: '
out_is 'simulate, one key twice' "1${tab}1${tab}n,m${tab}allowed${tab}4${tab}0${tab}1000${tab}0"
printf '0\t2\tn\n1\t3\tn\n300000001\t3\tn\n' >"$scratch/simulated"
run simulate --limit "$jobs" "$scratch/simulated"
out_is 'simulate, leases end' "0${tab}2${tab}n${tab}allowed${tab}2${tab}0${tab}300000${tab}0
1${tab}3${tab}n${tab}denied${tab}2${tab}300000${tab}300000${tab}0
300000001${tab}3${tab}n${tab}allowed${tab}1${tab}0${tab}300000${tab}0"

# ------------------------------------------------------------------------------------------------------- bench --

KEYS='acquires_per_s allowed denied errors submitted answered reconnects calls acquires_per_call p50_us p99_us p999_us seconds'
for how in '--limit=ip_fixed-window_limit=9_window=1h' '--zipf 1' '--rate 5000'; do
    case $how in --limit*) set -- "$(echo "$how" | tr _ ' ')" ;; *) set -- $how ;; esac
    run bench --local "$@" --limit "$limit" --names 1000 --seconds 0.3 --format json
    status_is "bench $how" 0
    if [ ! -s "$scratch/err" ]; then ok; else not_ok "bench $how: progress without a terminal" "$scratch/err"; fi
    sed 's/":[0-9.]*[,}]/\n/g; s/[{"]//g' "$scratch/out" | tr -d '{"' | grep . | tr '\n' ' ' >"$scratch/keys"
    if [ "$(cat "$scratch/keys")" = "$KEYS " ]; then ok; else not_ok "bench $how: keys" "$scratch/out"; fi
    expect "bench $how: sums" awk -F'[:,}]' \
        '{ exit !($4 + $6 + $8 == $12 && $10 == $12 && $4 >= 100 && $26 >= 0.3 && $26 < 3 && $20 <= $22 && $22 <= $24) }' \
        "$scratch/out"
done
expect 'the rate is not exceeded' awk -F'[:,}]' '{ exit !($2 > 0 && $2 < 5100) }' "$scratch/out"
run bench --local --limit "$limit" --rate 20 --seconds 0.6 --format json
expect 'latency counts from when an acquire was due' awk -F'[:,}]' '{ exit !($12 > 5 && $20 < 50000) }' "$scratch/out"
run bench --local --limit "$limit" --seconds 0.1
status_is 'bench, text' 0
expect 'bench, text' grep -q '^acquires per second ' "$scratch/out"

# SIGINT ends it early, with the summary.
"$tool" bench --local --limit "$limit" --seconds 60 --format json >"$scratch/out" 2>"$scratch/err" &
pid=$!
sleep 0.5
kill -s INT "$pid" 2>/dev/null
sleep 0.5
if kill -0 "$pid" 2>/dev/null && ! grep -q seconds "$scratch/out"; then
    kill "$pid"
    not_ok 'SIGINT does not end bench'
else
    wait "$pid"
    status=$?
    status_is 'bench after SIGINT' 0
    expect 'a summary after SIGINT' grep -q '"seconds":' "$scratch/out"
fi
finish
