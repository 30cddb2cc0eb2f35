#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A good limit compiles; one whose constants are wrong does not, and says that a size became negative.
set -u
top=${top_srcdir:-$(dirname "$0")/..}
build=${top_builddir:-.}
. "$top/tests/support/shell.sh"

# compile COMPILER LANGUAGE STANDARD LIMIT
compile()
{
    printf '#include <hirate/hirate.h>\nextern const hirate_limit L;\nconst hirate_limit L =\n    %s;\n' "$4" \
        >"$scratch/unit"
    "$1" -x "$2" -std="$3" -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -I"$build/include" -fsyntax-only \
        "$scratch/unit"
}

# everywhere CHECK LIMIT: with every compiler here, as C11 and C++17
everywhere()
{
    for compiler in $(compilers c); do
        "$1" "$2" "$compiler" c c11
    done
    for compiler in $(compilers c++); do
        "$1" "$2" "$compiler" c++ c++17
    done
}

compiles()
{
    expect "compiles as $4 with $2: $1" compile "$2" "$3" "$4" "$1"
}

refused()
{
    if compile "$2" "$3" "$4" "$1" >"$scratch/output" 2>&1; then
        not_ok "compiled as $4 with $2: $1"
    elif ! grep -q -i negative "$scratch/output"; then
        not_ok "refused for another reason as $4 with $2: $1" "$scratch/output"
    else
        ok
    fi
}

name_64=$(printf '%064d' 0)

everywhere compiles 'HIRATE_TOKEN_BUCKET("login", 20, HIRATE_RATE(1, HIRATE_SECONDS(3)))'
everywhere compiles 'HIRATE_TOKEN_BUCKET("login", 0, HIRATE_PER_SECOND(50))'
everywhere compiles 'HIRATE_TOKEN_BUCKET("l", 4503599627370496, HIRATE_RATE(9007199254740991, HIRATE_MICROSECONDS(1)))'
everywhere compiles "HIRATE_TOKEN_BUCKET(\"$name_64\", 1u, HIRATE_RATE(7, HIRATE_MILLISECONDS(13)))"

everywhere refused 'HIRATE_TOKEN_BUCKET("login", 20, HIRATE_RATE(0, HIRATE_SECONDS(3)))'
everywhere refused 'HIRATE_TOKEN_BUCKET("login", 20, HIRATE_RATE(-1, HIRATE_SECONDS(3)))'
everywhere refused 'HIRATE_TOKEN_BUCKET("login", 20, HIRATE_RATE(9007199254740992, HIRATE_SECONDS(3)))'
everywhere refused 'HIRATE_TOKEN_BUCKET("login", 20, HIRATE_PER_SECOND(0))'
everywhere refused 'HIRATE_TOKEN_BUCKET("login", 20, HIRATE_RATE(1, HIRATE_SECONDS(0)))'
everywhere refused 'HIRATE_TOKEN_BUCKET("login", 20, HIRATE_RATE(1, HIRATE_HOURS(-1)))'
everywhere refused 'HIRATE_TOKEN_BUCKET("", 20, HIRATE_PER_SECOND(1))'
everywhere refused "HIRATE_TOKEN_BUCKET(\"${name_64}1\", 20, HIRATE_PER_SECOND(1))"
everywhere compiles 'HIRATE_LEAKY_BUCKET("queue", 10, HIRATE_RATE(7, HIRATE_SECONDS(1)))'
everywhere compiles 'HIRATE_FIXED_WINDOW("minute", 0, HIRATE_MINUTES(1))'
everywhere compiles 'HIRATE_FIXED_WINDOW("minute", 9007199254740991, 4503599627370496)'
everywhere compiles 'HIRATE_QUOTA("month", 1000, HIRATE_PER_MONTH, -1439)'
everywhere compiles 'HIRATE_QUOTA("hour", 1000u, HIRATE_PER_HOUR, 1439)'
everywhere compiles 'HIRATE_SLIDING_LOG("log", 8192, HIRATE_SECONDS(90))'
everywhere compiles 'HIRATE_SLIDING_WINDOW("slide", 1, 4503599627370496)'
everywhere compiles 'HIRATE_SLIDING_WINDOW("slide", 4503599627370496, HIRATE_MICROSECONDS(1))'
everywhere compiles 'HIRATE_SLIDING_WINDOW("slide", 4503599627370496, HIRATE_MILLISECONDS(1))'
everywhere compiles 'HIRATE_SLIDING_WINDOW("slide", 4503599627370496, HIRATE_SECONDS(1))'
everywhere compiles 'HIRATE_SLIDING_WINDOW("slide", 2000000, HIRATE_DAYS(30))'
everywhere compiles 'HIRATE_LEAKY_BUCKET_WITH("x", 1, HIRATE_PER_SECOND(1), 0, HIRATE_FAIL_OPEN)'
everywhere compiles 'HIRATE_FIXED_WINDOW_WITH("x", 1, HIRATE_SECONDS(1), HIRATE_LIMIT_CACHE_DENIALS, HIRATE_FAIL_CLOSED)'
everywhere compiles 'HIRATE_QUOTA_WITH("x", 1, HIRATE_PER_DAY, 330, 0, HIRATE_FAIL_LOCAL(1, 4))'
everywhere compiles 'HIRATE_SLIDING_LOG_WITH("x", 1, HIRATE_SECONDS(1), 0, HIRATE_FAIL_ERROR)'
everywhere compiles 'HIRATE_SLIDING_WINDOW_WITH("x", 1, HIRATE_SECONDS(1), 0, HIRATE_FAIL_LOCAL(1, 1))'

everywhere compiles 'HIRATE_CONCURRENCY("jobs", 0, 1)'
everywhere compiles 'HIRATE_CONCURRENCY("jobs", 9007199254740991, 4503599627370496)'
everywhere compiles 'HIRATE_CONCURRENCY_WITH("x", 1u, HIRATE_SECONDS(30), HIRATE_LIMIT_SHADOW, HIRATE_FAIL_LOCAL(1, 4))'

everywhere refused 'HIRATE_CONCURRENCY("jobs", 1, 0)'
everywhere refused 'HIRATE_CONCURRENCY("jobs", 1, HIRATE_SECONDS(-1))'
everywhere refused 'HIRATE_CONCURRENCY("jobs", 1, 4503599627370497)'
everywhere refused 'HIRATE_CONCURRENCY("jobs", -1, HIRATE_SECONDS(1))'
everywhere refused 'HIRATE_CONCURRENCY("jobs", 9007199254740992, HIRATE_SECONDS(1))'
everywhere refused 'HIRATE_CONCURRENCY("", 1, HIRATE_SECONDS(1))'
everywhere refused 'HIRATE_CONCURRENCY_WITH("jobs", 1, 0, 0, HIRATE_FAIL_ERROR)'
everywhere refused 'HIRATE_LEAKY_BUCKET("queue", -1, HIRATE_PER_SECOND(1))'
everywhere refused 'HIRATE_LEAKY_BUCKET("", 1, HIRATE_PER_SECOND(1))'
everywhere refused 'HIRATE_LEAKY_BUCKET("queue", 1, HIRATE_PER_SECOND(0))'
everywhere refused 'HIRATE_FIXED_WINDOW("minute", -1, HIRATE_MINUTES(1))'
everywhere refused 'HIRATE_FIXED_WINDOW("minute", 9007199254740992, HIRATE_MINUTES(1))'
everywhere refused 'HIRATE_FIXED_WINDOW("minute", 1, HIRATE_MINUTES(0))'
everywhere refused 'HIRATE_FIXED_WINDOW("minute", 1, HIRATE_MINUTES(-1))'
everywhere refused 'HIRATE_FIXED_WINDOW("minute", 1, 4503599627370497)'
everywhere refused 'HIRATE_QUOTA("day", 1, HIRATE_PER_NONE, 0)'
everywhere refused 'HIRATE_QUOTA("day", 1, 5, 0)'
everywhere refused 'HIRATE_QUOTA("day", 1, HIRATE_PER_DAY, 1440)'
everywhere refused 'HIRATE_QUOTA("day", 1, HIRATE_PER_DAY, -1440)'
everywhere refused 'HIRATE_SLIDING_LOG("log", 8193, HIRATE_SECONDS(90))'
everywhere refused 'HIRATE_SLIDING_LOG("log", 1, 0)'
everywhere refused 'HIRATE_SLIDING_WINDOW("slide", 1, 0)'
everywhere refused 'HIRATE_SLIDING_WINDOW("slide", 1, 4503599627370497)'
everywhere refused 'HIRATE_SLIDING_WINDOW("slide", 4503599627370497, HIRATE_SECONDS(1))'
everywhere refused 'HIRATE_SLIDING_WINDOW("slide", 4503599628, 1000001)'
everywhere refused 'HIRATE_SLIDING_WINDOW_WITH("slide", 4503599627371, 1001, 0, HIRATE_FAIL_ERROR)'
everywhere refused 'HIRATE_QUOTA_WITH("day", 1, 0, 0, 0, HIRATE_FAIL_ERROR)'
everywhere refused 'HIRATE_TOKEN_BUCKET("login", -1, HIRATE_PER_SECOND(1))'
everywhere refused 'HIRATE_TOKEN_BUCKET("login", 4503599627370497, HIRATE_PER_SECOND(1))'
finish
