#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A file includes headers of its own layer and of lower ones only, and only link knows hiredis.
set -u
top=${top_srcdir:-$(dirname "$0")/..}
. "$top/tests/support/shell.sh"

# Lower layers have lower numbers. hirate.h is 0: its types are everybody's.
layer()
{
    case ${1##*/} in
    hirate.h) echo 0 ;;
    backoff.[ch] | breaker.[ch] | bytes.[ch] | clock.h | deadlines.[ch] | duration.[ch] | error.[ch]) echo 1 ;;
    hash.[ch] | pool.[ch]) echo 1 ;;
    calendar.[ch] | concurrency.[ch] | decide.[ch] | fixed_window.[ch] | holds.[ch] | leaky_bucket.[ch]) echo 2 ;;
    joint.[ch] | limit.c | permit.[ch] | policy.[ch]) echo 2 ;;
    sliding_log.[ch] | sliding_window.[ch] | spec.c | token_bucket.[ch]) echo 2 ;;
    refusal.[ch] | script.[ch] | script_reply.c | scripts_embedded.h) echo 3 ;;
    link*.[ch] | hiredis_compat.h | resolve.[ch] | uri.[ch]) echo 4 ;;
    answers.[ch] | batch.[ch] | call.[ch] | denials.[ch] | dispatch.[ch] | fallback.[ch] | key.h) echo 5 ;;
    limit_set.[ch] | request.[ch] | submit.[ch] | verdicts.[ch]) echo 5 ;;
    api.c | check.[ch] | client.[ch] | hold_list.[ch] | local*.[ch] | log_buffer.[ch]) echo 6 ;;
    limits_file.c | options.[ch] | results.[ch]) echo 6 ;;
    *) echo "unknown" ;;
    esac
}

includes()
{
    sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*\(["<][^">]*[">]\).*/\1/p' "$1"
}

# One line for each include of library file $1 that breaks the rule.
library_violations()
{
    own=$(layer "$1")
    [ "$own" != unknown ] || echo "$1: of no known layer; add it to the table in test_layers.sh"
    for include in $(includes "$1"); do
        case $include in
        '<hiredis/'*)
            case ${1##*/} in
            link*.[ch] | hiredis_compat.h) ;;
            *) echo "$1: $include outside of link" ;;
            esac ;;
        '<hirate/'* | '<event2/'* | '<event.h>' | '<ev.h>') echo "$1: $include in the library" ;;
        '<'*) ;;
        *)
            theirs=$(layer "$(echo "$include" | tr -d '"')")
            if [ "$theirs" = unknown ]; then
                echo "$1: $include is of no known layer"
            elif [ "$own" != unknown ] && [ "$theirs" -gt "$own" ]; then
                echo "$1 (layer $own): $include (layer $theirs)"
            fi ;;
        esac
    done
}

# The same for the tool and the examples: the public headers, and (the tool) its own.
user_violations()
{
    for include in $(includes "$1"); do
        case $include in
        '<hiredis/'*) echo "$1: $include" ;;
        '<'*) ;;
        */*) echo "$1: $include outside of its folder" ;;
        *)
            name=$(echo "$include" | tr -d '"')
            [ -e "$(dirname "$1")/$name" ] || echo "$1: $include is not of its folder" ;;
        esac
    done
}

# And for the adapters: hirate.h and their own loop.
adapter_violations()
{
    name=$(basename "$1" .h)
    for include in $(includes "$1"); do
        case $name$include in
        *'<hirate/hirate.h>' | 'libevent<event2/'* | 'libev<ev.h>') ;;
        *'<hirate/'* | *'<hiredis/'* | *'<event'* | *'<ev.h>' | *'"') echo "$1: $include" ;;
        esac
    done
}

# violations ROOT: all of them
violations()
{
    for file in "$1"/src/*.[ch]; do
        [ ! -e "$file" ] || library_violations "$file"
    done
    for file in "$1"/src/cli/*.[ch] "$1"/examples/*.[ch]; do
        [ ! -e "$file" ] || user_violations "$file"
    done
    for file in "$1"/adapters/*.h; do
        [ ! -e "$file" ] || adapter_violations "$file"
    done
}

# planted FILE INCLUDE: a tree with just this include must be found wrong
planted()
{
    rm -rf "$scratch/tree"
    mkdir -p "$scratch/tree/$(dirname "$1")"
    echo "#include $2" >"$scratch/tree/$1"
    if [ -n "$(violations "$scratch/tree")" ]; then ok; else not_ok "$2 in $1 was not found wrong"; fi
}

violations "$top" >"$scratch/found"
if [ -s "$scratch/found" ]; then not_ok "includes against the layers" "$scratch/found"; else ok; fi

planted src/policy.c '"client.h"'
planted src/error.c '"token_bucket.h"'
planted src/script.c '"link.h"'
planted src/request.c '<hiredis/async.h>'
planted src/client.c '<event2/event.h>'
planted src/novel.c '"hirate.h"'
planted src/cli/main.c '"../policy.h"'
planted src/cli/main.c '"policy.h"'
planted examples/guard.c '<hiredis/hiredis.h>'
planted adapters/libev.h '<event2/event.h>'
planted adapters/epoll.h '"policy.h"'
finish
