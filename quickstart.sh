#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# From a fresh Debian or Ubuntu to something that runs.
#
#     ./quickstart.sh          install what is missing, build, twenty logins allowed and the next denied, a benchmark
#     ./quickstart.sh check    build in every way, run every test; fails if a test failed or was skipped
#
# Builds go to build/ and build-check/, beside the sources. No system service is started, no server is left behind.
set -u
cd "$(dirname "$0")" || exit 1
top=$PWD
jobs=$(nproc 2>/dev/null || echo 2)
scratch=
server_pid=
policy_rc=

say()
{
    echo "== $*"
}

die()
{
    echo "quickstart.sh: $*" >&2
    exit 1
}

clean_up()
{
    if [ -n "$server_pid" ]; then
        kill "$server_pid" 2>/dev/null
        wait "$server_pid" 2>/dev/null
    fi
    [ -z "$scratch" ] || rm -rf "$scratch"
    [ -z "$policy_rc" ] || as_root rm -f "$policy_rc"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
trap 'exit 141' PIPE
trap 'exit 131' QUIT

# ---------------------------------------------------------------------------------------------- packages --

as_root()
{
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# missing WHAT…: the packages to install. WHAT is COMMAND=PACKAGE, or PACKAGE for what holds no command.
missing()
{
    for what; do
        case $what in
        *=*) command -v "${what%%=*}" >/dev/null || echo "${what#*=}" ;;
        *) dpkg-query -W -f '${db:Status-Status}\n' "$what" 2>/dev/null | grep -q '^installed$' || echo "$what" ;;
        esac
    done
}

# Install, without letting a package's service start.
install_missing()
{
    if ! command -v apt-get >/dev/null; then
        echo "No apt-get here: hiredis, libevent, libev, autotools and a Redis server must already be installed."
        return
    fi
    packages=$(missing "$@" | sort -u | tr '\n' ' ')
    [ -n "$packages" ] || return 0
    [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null || die "please install, as root: $packages"

    say "installing $packages"
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        printf '#!/bin/sh\nexit 101\n' >"$scratch/policy-rc.d"
        policy_rc=/usr/sbin/policy-rc.d
        as_root install -m 755 "$scratch/policy-rc.d" "$policy_rc" || die "cannot write $policy_rc"
    fi
    # shellcheck disable=SC2086 # a list of words
    {
        as_root apt-get -qq update &&
            as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
                apt-get -qq install -y --no-install-recommends $packages
    } >"$scratch/apt.log" 2>&1 </dev/null || {
        tail -n 30 "$scratch/apt.log"
        die "apt-get failed"
    }
    if [ -n "$policy_rc" ]; then
        as_root rm -f "$policy_rc"
        policy_rc=
    fi
}

install_to_build()
{
    install_missing gcc=gcc make=make autoconf=autoconf automake=automake libtoolize=libtool pkg-config=pkg-config \
        redis-server=redis-server libc6-dev libhiredis-dev libevent-dev libev-dev "$@"
}

# ------------------------------------------------------------------------------------------------- builds --

# quietly LOG COMMAND…: show the end of LOG when COMMAND fails
quietly()
{
    log=$1
    shift
    "$@" >"$log" 2>&1 </dev/null && return
    tail -n 40 "$log"
    echo "(all of it: $log)"
    return 1
}

# A release has its configure script; a checkout makes it.
make_configure()
{
    if [ ! -e configure ] || [ -n "$(find configure.ac Makefile.am -newer configure)" ]; then
        quietly "$scratch/autoreconf.log" autoreconf -fi || die "autoreconf failed"
    fi
}

# build DIRECTORY CONFIGURE-ARGUMENT…
build()
{
    directory=$1
    shift
    mkdir -p "$directory" || return 1
    (
        cd "$directory" || exit 1
        quietly configure.log "$top/configure" -q "$@" && quietly build.log make -s -j"$jobs"
    )
}

# --------------------------------------------------------------------------------------------------- demo --

start_server()
{
    redis-server --port 0 --unixsocket "$scratch/redis.sock" --dir "$scratch" --save '' --appendonly no \
        >"$scratch/redis.log" 2>&1 </dev/null &
    server_pid=$!
    tries=100
    until [ -S "$scratch/redis.sock" ]; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || {
            cat "$scratch/redis.log"
            die "redis-server did not start"
        }
        sleep 0.1
    done
    HIRATE_REDIS=unix://$scratch/redis.sock
    export HIRATE_REDIS
}

demo()
{
    install_to_build
    make_configure
    say "building in build/"
    build build || die "the build failed"
    start_server

    limit='login token-bucket capacity=20 rate=1/3s'
    say "twenty-one lines '1<TAB>203.0.113.7' into: hirate acquire --limit '$limit' -"
    awk 'BEGIN { for (i = 0; i < 21; i++) print "1\t203.0.113.7" }' |
        build/hirate acquire --limit "$limit" --format text - | tee "$scratch/logins" | cat -n
    [ "$(grep -c '^allowed ' "$scratch/logins")" -eq 20 ] || die "not twenty of the logins were allowed"
    tail -n 1 "$scratch/logins" | grep -q '^denied .*retry after ' || die "the last login was not denied"

    say "acquires per second, one connection, 100,000 names"
    build/hirate bench --limit 'bench token-bucket capacity=1000000 rate=1000000/s' --names 100000 --in-flight 256 \
        --seconds 3 || die "the benchmark failed"
}

# -------------------------------------------------------------------------------------------------- check --

# A step that passes or fails as a whole counts as one test.
step()
{
    name=$1
    shift
    begun=$(date +%s)
    if "$@"; then outcome=passed; else outcome=FAILED; fi
    echo "$outcome" >"build-check/$(echo "$name" | tr -c 'a-z0-9\n' -).step"
    say "$name: $outcome ($(($(date +%s) - begun)) s)"
    [ $outcome = passed ]
}

# make_check DIRECTORY TARGET: when it fails, what failed in each failed test is shown, and how its log ends
make_check()
{
    touch "$1/$2.begun"
    make -s -C "$1" "$2" >"$1/$2.log" 2>&1 </dev/null && return
    find "$1" -name '*.trs' -newer "$1/$2.begun" -exec grep -lE '^:test-result: *(FAIL|XPASS|ERROR)' {} + |
        while read -r trs; do
            echo "---- ${trs%.trs}.log"
            grep -m 20 -A 3 -E '^(\[  (FAILED|ERROR) |FAIL)|Sanitizer|runtime error:|Assertion' "${trs%.trs}.log"
            echo "---- its end"
            tail -n 40 "${trs%.trs}.log"
        done
    echo "---- $1/$2.log"
    tail -n 20 "$1/$2.log"
    return 1
}

# The tests once more, counting what they run; prints the share of lines and branches.
coverage()
{
    tests/coverage.sh build-check/coverage >build-check/coverage.log 2>&1 </dev/null || {
        tail -n 40 build-check/coverage.log
        return 1
    }
    grep -iE '^(lines|branches|library|tool)' build-check/coverage.log || tail -n 12 build-check/coverage.log
}

# What does not need the gcc build goes beside it: two processors, two lanes.
first_lane()
{
    step "gcc: make check" make_check build-check/gcc check
    step "gcc: make distcheck" make_check build-check/gcc distcheck
    step "coverage" coverage
}

second_lane()
{
    step "clang: build without a warning" build build-check/clang CC=clang --enable-werror &&
        step "clang: unit tests" make_check build-check/clang check-unit
    step "sanitizers: build" build build-check/sanitizers --enable-sanitizers --enable-werror &&
        step "sanitizers: make check" make_check build-check/sanitizers check
    step "valgrind: build" build build-check/valgrind --enable-werror &&
        step "valgrind: make check-valgrind" make_check build-check/valgrind check-valgrind
}

# add_up SED-ARGUMENT…: the sum of the numbers sed prints
add_up()
{
    sed -n "$@" | awk '{ sum += $1 } END { print sum + 0 }'
}

# Add up cmocka's and the shell tests' own counts; a test that ended otherwise (a crash, say) counts as one.
count()
{
    passed=$(cat build-check/*.step | grep -c passed)
    failed=$(cat build-check/*.step | grep -c FAILED)
    skipped=0
    tests='\(.*: \)\{0,1\}\([0-9]*\) test(s).*/\2/p' # cmocka 2 names the group before the number
    for trs in build-check/*/tests/*.trs; do
        [ -e "$trs" ] || continue
        log=${trs%.trs}.log
        p=$(add_up -e "s/^\[  PASSED  \] $tests" -e 's/^\([0-9]*\) passed, [0-9]* failed$/\1/p' "$log")
        f=$(add_up -e "s/^\[  FAILED  \] $tests" -e 's/^[0-9]* passed, \([0-9]*\) failed$/\1/p' "$log")
        s=$(add_up -e "s/^\[  SKIPPED \] $tests" "$log")
        case $(sed -n 's/^:test-result: *\([A-Z]*\).*/\1/p' "$trs") in
        PASS) ;;
        SKIP) s=$((s + 1)) ;;
        *) [ "$f" -gt 0 ] || f=1 ;;
        esac
        [ "$s" -eq 0 ] || echo "skipped: $log"
        passed=$((passed + p))
        failed=$((failed + f))
        skipped=$((skipped + s))
    done
}

check()
{
    install_to_build g++=g++ clang=clang valgrind=valgrind gcovr=gcovr ip=iproute2 libcmocka-dev libc6-dbg
    rm -rf build-check
    mkdir build-check || exit 1
    make_configure
    if step "gcc: build without a warning" build build-check/gcc --enable-werror; then
        first_lane &
        first=$!
        second_lane &
        second=$!
        wait $first $second
    fi
    count
    [ $skipped -eq 0 ] || echo "$skipped skipped: here nothing may be"
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ] && [ "$skipped" -eq 0 ] && [ "$passed" -gt 0 ]
}

scratch=$(mktemp -d "${TMPDIR:-/tmp}/hirate.XXXXXX") || exit 1
case $#${1-} in
0) demo ;;
1check) check ;;
*)
    echo "usage: quickstart.sh [check]" >&2
    exit 2
    ;;
esac
