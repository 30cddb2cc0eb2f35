#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Print a C header holding a script's text, its length and its SHA1, as EVALSHA names it.
#
#     lua/embed.sh NAME FILE > header
#
# The text is an array of character constants: any byte survives, and no string literal limit applies.
set -eu
export LC_ALL=C

[ $# -eq 2 ] || { echo "usage: embed.sh NAME FILE" >&2; exit 2; }
name=$1
file=$2
upper=$(printf %s "$name" | tr '[:lower:]' '[:upper:]')

if command -v sha1sum >/dev/null; then
    sha1=$(sha1sum <"$file")
elif command -v shasum >/dev/null; then
    sha1=$(shasum -a 1 <"$file")
else
    sha1=$(openssl dgst -sha1 -r <"$file")
fi
sha1=${sha1%% *}
[ ${#sha1} -eq 40 ] || { echo "embed.sh: no SHA1 of $file" >&2; exit 1; }

length=$(wc -c <"$file")
cat <<END
/* SPDX-License-Identifier: BSD-3-Clause */
/* script: the text of ${file##*/}. Made by embed.sh; edit the script instead. */
#ifndef HR_SCRIPT_${upper}_H
#define HR_SCRIPT_${upper}_H

#define HR_SCRIPT_${upper}_SHA1 "$sha1"

enum { hr_script_${name}_len = $((length)) };

/* Exactly the script: no NUL follows. */
static const char hr_script_${name}_text[] = {
END
od -An -v -to1 <"$file" | sed "s/ *\\([0-7][0-7][0-7]\\)/'\\\\\\1',/g; s/^/    /"
cat <<END
};

#endif
END
