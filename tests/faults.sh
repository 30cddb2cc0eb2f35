#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The fault matrix: a client under load while its server, its network or its host fails in every way known, one line each.
#
#     tests/faults.sh [--long] [--list] [--jobs N] [FAULT...]      a FAULT is part of a name; default all
#
# It takes about a minute, --long several. N faults are played at a time; default 2.
# Run it in the build folder, once tests/fault_matrix is built (make check TESTS=). As root, with iproute2, it also cuts
# links, in network namespaces of its own. Exit status 0 when no line is red; the last line counts.
set -u
. "${top_srcdir:-.}/tests/support/shell.sh"

program=${top_builddir:-.}/tests/fault_matrix
[ -x "$program" ] || { echo "$program is not built: make check TESTS="; exit 1; }

HIRATE_FAULTS_TAG=$$
export HIRATE_FAULTS_TAG

# What a fault that was cut short has left: its namespaces. Its processes end with this one.
clean_up_all()
{
    for path in "/run/netns/hirate-$$-"*; do
        [ ! -e "$path" ] || ip netns del "${path##*/}"
    done
    clean_up
}
trap clean_up_all EXIT

# Servers' folders; short, as the paths of unix sockets are.
TMPDIR=$scratch
export TMPDIR
"$program" "$@"
