/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * escape: names, which may hold any byte, as text on one line and back.
 *
 * In rows: `\\` `\t` `\n` `\r`, and `\xHH` (lower case) for every other control byte, DEL, each byte that is not part
 * of valid UTF-8, and the two bytes of a control character U+0080 … U+009F, which terminals obey. All else, valid
 * UTF-8 too, stays as it is. Reading a row's name back always gives the same bytes.
 *
 * In JSON: `\"` `\\`, and `\u00hh` for control bytes, DEL and bytes that are not part of valid UTF-8. A `\u0080` …
 * `\u00ff` therefore always means one raw byte: valid characters of that range are never written so.
 */
#ifndef CLI_ESCAPE_H
#define CLI_ESCAPE_H

#include <stddef.h>

/* Write the row form of name[0 … len) to `out`, which holds 4·len bytes. No NUL. Returns the length written. */
size_t cli_escape_row(char *out, const void *name, size_t len);

/* The same for one of several names joined by ',': its own commas become \x2c. */
size_t cli_escape_item(char *out, const void *name, size_t len);

/* The row form's sibling for the inside of a JSON string; `out` holds 6·len bytes. */
size_t cli_escape_json(char *out, const void *name, size_t len);

/* Undo cli_escape_row(): `\\ \t \n \r \xHH` (either case), every other byte itself. Returns NULL and *out_len, at most
 * `size`, or a text that says what is wrong with the name. */
const char *cli_unescape(unsigned char *out, size_t size, const char *text, size_t len, size_t *out_len);

#endif
