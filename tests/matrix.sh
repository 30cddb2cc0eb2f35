#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Build and test on several Debian releases, each in a folder of its own on this machine.
#
#     sudo tests/matrix.sh [bullseye] [bookworm] [trixie]        default: all three
#     sudo tests/matrix.sh --faults [--long] [bullseye] …        default: trixie, which has hiredis 1.2
#
# --faults builds the same way and runs the fault matrix alone (tests/faults.sh), whose table it prints.
#
# Needs root and debootstrap. The folders live in ${HIRATE_MATRIX:-${TMPDIR:-/var/tmp}/hirate-matrix} and are used
# again by the next run; remove them when done. Run it in a checkout: what is committed is what is tested.
# Ends with a table: release, hiredis, server, tests passed and failed. Exit status 0 when nothing failed.
set -u
cd "$(dirname "$0")/.." || exit 1
root=${HIRATE_MATRIX:-${TMPDIR:-/var/tmp}/hirate-matrix}
PACKAGES='gcc g++ clang make autoconf automake libtool pkg-config libc6-dev libhiredis-dev libevent-dev libev-dev
    libcmocka-dev redis-server'

die()
{
    echo "matrix.sh: $*" >&2
    exit 1
}

# The mirror this machine's own apt uses.
mirror()
{
    {
        sed -n 's/^deb  *\(\[[^]]*\]  *\)*\([a-z]*:[^ ]*\) .*/\2/p' /etc/apt/sources.list /etc/apt/sources.list.d/*.list
        sed -n 's/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list.d/*.sources
    } 2>/dev/null | grep -E '/debian/?$' | head -n 1 | grep . || echo http://deb.debian.org/debian
}

# in_release RELEASE COMMAND…: run inside its folder
in_release()
{
    inside=$root/$1
    shift
    chroot "$inside" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" "$@" </dev/null
}

# Bring RELEASE and the packages into its folder; .complete marks that this was done.
prepare()
{
    release=$1
    folder=$root/$release
    [ ! -e "$folder/.complete" ] || return 0
    rm -rf "$folder"
    mkdir -p "$folder"
    debootstrap --variant=minbase "$release" "$folder" "$(mirror)" || return 1
    printf '#!/bin/sh\nexit 101\n' >"$folder/usr/sbin/policy-rc.d"
    chmod 755 "$folder/usr/sbin/policy-rc.d"
    # debootstrap leaves localhost unnamed.
    printf '127.0.0.1 localhost\n::1 localhost\n' >"$folder/etc/hosts"
    # What this machine's apt needs to reach its mirror, the chroot's does too.
    cp /etc/apt/apt.conf.d/*proxy* "$folder/etc/apt/apt.conf.d/" 2>/dev/null
    packages=$PACKAGES
    [ "$release" != trixie ] || packages="$packages valkey-server"
    # shellcheck disable=SC2086 # a list of words
    in_release "$release" apt-get -qq install -y --no-install-recommends $packages || return 1
    touch "$folder/.complete"
}

# Put the committed sources into RELEASE's folder and build them there.
build()
{
    folder=$root/$1
    rm -rf "$folder/hirate"
    mkdir "$folder/hirate"
    git archive HEAD | tar -xf - -C "$folder/hirate"
    in_release "$1" sh -c 'cd /hirate && autoreconf -fi && ./configure -q && make -s'
}

# add_up SED-PROGRAM FILE…: the sum of the numbers it prints
add_up()
{
    sed -n "$@" /dev/null | awk '{ sum += $1 } END { print sum + 0 }'
}

# Run the tests in RELEASE against SERVER and print a row of the table.
test_with()
{
    folder=$root/$1
    in_release "$1" mount -t proc proc /proc 2>/dev/null
    in_release "$1" sh -c "cd /hirate && make -s check REDIS_SERVER=$2" >"$folder/check-$2.log" 2>&1
    status=$?
    in_release "$1" umount /proc 2>/dev/null
    # A test that crashed counted nothing; automake's own result does.
    logs=$(find "$folder/hirate/tests" -name '*.log')
    # shellcheck disable=SC2086
    passed=$(add_up 's/^\[  PASSED  \] \([0-9]*\) test.*/\1/p; s/^\([0-9]*\) passed, [0-9]* failed$/\1/p' $logs)
    # shellcheck disable=SC2086
    failed=$(add_up 's/^\[  FAILED  \] \([0-9]*\) test.*/\1/p; s/^[0-9]* passed, \([0-9]*\) failed$/\1/p' $logs)
    skipped=$(grep -l '^:test-result: SKIP' "$folder"/hirate/tests/*.trs | wc -l)
    [ "$status" -eq 0 ] || {
        [ "$failed" -gt 0 ] || failed=1
        grep -lE '^:test-result: *(FAIL|ERROR)' "$folder"/hirate/tests/*.trs | while read -r trs; do
            echo "---- ${trs%.trs}.log"
            tail -n 30 "${trs%.trs}.log"
        done
        tail -n 20 "$folder/check-$2.log"
    }
    hiredis=$(in_release "$1" pkg-config --modversion hiredis)
    server=$(in_release "$1" "$2" --version | sed 's/^\([A-Za-z]*\) .*v=\([0-9.]*\).*/\1 \2/')
    printf '%-10s %-8s %-14s %6s %6s %7s\n' "$1" "$hiredis" "$server" "$passed" "$failed" "$skipped" >>"$root/table"
    return "$status"
}

# The fault matrix in RELEASE; its table goes to stdout.
faults_with()
{
    folder=$root/$1
    # It cuts links where it can.
    in_release "$1" sh -c 'command -v ip >/dev/null || apt-get -qq install -y --no-install-recommends iproute2' \
        >"$folder/faults-prepare.log" 2>&1
    in_release "$1" mount -t proc proc /proc 2>/dev/null
    echo "hiredis $(in_release "$1" pkg-config --modversion hiredis), $(in_release "$1" "$2" --version)"
    in_release "$1" sh -c "cd /hirate && make -s tests/fault_matrix tests/support/libfakeclock.la" \
        >"$folder/faults-build.log" 2>&1 || tail -n 40 "$folder/faults-build.log"
    in_release "$1" sh -c "cd /hirate && REDIS_SERVER=$2 tests/faults.sh $long"
    status=$?
    in_release "$1" umount /run/netns 2>/dev/null
    in_release "$1" umount /proc 2>/dev/null
    return $status
}

one_release()
{
    echo "== $1"
    prepare "$1" >"$root/$1.prepare.log" 2>&1 || {
        tail -n 20 "$root/$1.prepare.log"
        return 1
    }
    build "$1" >"$root/$1.build.log" 2>&1 || {
        tail -n 40 "$root/$1.build.log"
        return 1
    }
    if [ -n "$faults" ]; then
        faults_with "$1" redis-server
        return
    fi
    test_with "$1" redis-server
    status=$?
    if [ "$1" = trixie ]; then
        test_with "$1" valkey-server || status=1
    fi
    return $status
}

faults=
long=
while [ $# -gt 0 ]; do
    case $1 in
    --faults) faults=yes ;;
    --long) long=--long ;;
    -*) die "usage: tests/matrix.sh [--faults [--long]] [bullseye] [bookworm] [trixie]" ;;
    *) break ;;
    esac
    shift
done
[ "$(id -u)" -eq 0 ] || die "must be root, for debootstrap and chroot"
command -v debootstrap >/dev/null || die "debootstrap is not installed"
git rev-parse --git-dir >/dev/null || die "must run in a git checkout"
[ $# -gt 0 ] || if [ -n "$faults" ]; then set -- trixie; else set -- bullseye bookworm trixie; fi
mkdir -p "$root" || exit 1
printf '%-10s %-8s %-14s %6s %6s %7s\n' release hiredis server passed failed skipped >"$root/table"

result=0
for release; do
    one_release "$release" || {
        echo "$release: failed"
        result=1
    }
done
[ -n "$faults" ] || cat "$root/table"
exit $result
