#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A million acquires submitted at once while Redis is stopped: memory, refusals, answers, and the rate before and after.
# See paused.c. Exit status 1 when something does not hold.
#
# usage: bench/paused.sh

. "$(dirname "$0")/common.sh"

compile paused
machine
start_server
status=0
for case in '24 500 10000' '1024 500 10000' '24 1500 1000' '24 4000 1000'; do # the last: longer than the stall timeout
    # shellcheck disable=SC2086
    on_client_core "$folder/paused" "unix://$socket" "$server_pid" $case || status=1
    cli flushall >/dev/null
done
exit "$status"
