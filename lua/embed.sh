#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Print a C header holding a script's text, its length and its SHA1, as EVALSHA names it.
#
#     lua/embed.sh NAME FILE... > header
#
# The script is its files, one after the other.
#
# The text is an array of character constants: any byte survives, and no string literal limit applies.
set -eu
export LC_ALL=C

[ $# -ge 2 ] || { echo "usage: embed.sh NAME FILE..." >&2; exit 2; }
name=$1
shift
upper=$(printf %s "$name" | tr '[:lower:]' '[:upper:]')

if command -v sha1sum >/dev/null; then
    sha1=$(cat -- "$@" | sha1sum)
elif command -v shasum >/dev/null; then
    sha1=$(cat -- "$@" | shasum -a 1)
else
    sha1=$(cat -- "$@" | openssl dgst -sha1 -r)
fi
sha1=${sha1%% *}
[ ${#sha1} -eq 40 ] || { echo "embed.sh: no SHA1 of $*" >&2; exit 1; }

length=$(cat -- "$@" | wc -c)
files=
for file; do files="$files${files:+, }${file##*/}"; done
cat <<END
/* SPDX-License-Identifier: BSD-3-Clause */
/* script: the text of $files. Made by embed.sh; edit the script instead. */
#ifndef HR_SCRIPT_${upper}_H
#define HR_SCRIPT_${upper}_H

#define HR_SCRIPT_${upper}_SHA1 "$sha1"

enum { hr_script_${name}_len = $((length)) };

/* Exactly the script: no NUL follows. */
static const char hr_script_${name}_text[] = {
END
cat -- "$@" | od -An -v -to1 | sed "s/ *\\([0-7][0-7][0-7]\\)/'\\\\\\1',/g; s/^/    /"
cat <<END
};

#endif
END
