/* SPDX-License-Identifier: BSD-3-Clause */
/* escape: names, which may hold any byte, as text on one line and back. */
#include "escape.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static const char HEX[] = "0123456789abcdef";

static bool is_tail(unsigned char byte)
{
    return (byte & 0xc0) == 0x80;
}

/*
 * Bytes in the valid UTF-8 sequence at s, 2 … 4, or 0 if there is none. `len` >= 1 and s[0] >= 0x80. Overlong forms,
 * surrogates and what lies above U+10FFFF are not valid: the second byte's range depends on the first.
 */
static size_t utf8_length(const unsigned char *s, size_t len)
{
    unsigned char first = s[0];
    size_t need = first >= 0xc2 && first <= 0xdf   ? 2
                  : (first & 0xf0) == 0xe0         ? 3
                  : first >= 0xf0 && first <= 0xf4 ? 4
                                                   : 0;
    if (need == 0 || need > len)
        return 0;
    for (size_t i = 1; i < need; i++)
        if (!is_tail(s[i]))
            return 0;
    if ((first == 0xe0 && s[1] < 0xa0) || (first == 0xed && s[1] > 0x9f) || (first == 0xf0 && s[1] < 0x90) ||
        (first == 0xf4 && s[1] > 0x8f))
        return 0;
    return need;
}

static char *put_hex(char *out, const char *prefix, unsigned char byte)
{
    size_t len = strlen(prefix);
    memcpy(out, prefix, len);
    out[len] = HEX[byte >> 4];
    out[len + 1] = HEX[byte & 15];
    return out + len + 2;
}

/* The character after the backslash in a row, or 0. */
static char row_letter(unsigned char byte)
{
    return byte == '\\' ? '\\' : byte == '\t' ? 't' : byte == '\n' ? 'n' : byte == '\r' ? 'r' : '\0';
}

/* `apart`: a byte that is escaped too, or 0 for none further. */
static size_t escape(char *out, const void *name, size_t len, unsigned char apart)
{
    const unsigned char *s = name;
    char *o = out;
    for (size_t i = 0; i < len;) {
        size_t valid = s[i] < 0x80 ? 1 : utf8_length(s + i, len - i);
        bool c1 = valid == 2 && s[i] == 0xc2 && s[i + 1] < 0xa0;
        char letter = row_letter(s[i]);
        if (letter != '\0') {
            *o++ = '\\';
            *o++ = letter;
            i++;
        } else if (valid == 0 || c1 || s[i] < 0x20 || s[i] == 0x7f || s[i] == apart) {
            /* The second byte of a control character is alone next time round, so not valid, so escaped too. */
            o = put_hex(o, "\\x", s[i++]);
        } else {
            memcpy(o, s + i, valid);
            o += valid;
            i += valid;
        }
    }
    return (size_t)(o - out);
}

size_t cli_escape_row(char *out, const void *name, size_t len)
{
    return escape(out, name, len, 0);
}

size_t cli_escape_item(char *out, const void *name, size_t len)
{
    return escape(out, name, len, ',');
}

size_t cli_escape_json(char *out, const void *name, size_t len)
{
    const unsigned char *s = name;
    char *o = out;
    for (size_t i = 0; i < len;) {
        size_t valid = s[i] < 0x80 ? 1 : utf8_length(s + i, len - i);
        if (s[i] == '"' || s[i] == '\\') {
            *o++ = '\\';
            *o++ = (char)s[i++];
        } else if (valid == 0 || s[i] < 0x20 || s[i] == 0x7f) {
            o = put_hex(o, "\\u00", s[i++]);
        } else {
            memcpy(o, s + i, valid);
            o += valid;
            i += valid;
        }
    }
    return (size_t)(o - out);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Read the escape at text[0] == '\\'. Returns its length, or 0 when it is none of ours. */
static size_t read_escape(const char *text, size_t len, unsigned char *byte)
{
    static const char letters[] = "\\tnr", bytes[] = "\\\t\n\r";
    if (len < 2)
        return 0;
    const char *letter = memchr(letters, text[1], sizeof letters - 1);
    if (letter != NULL) {
        *byte = (unsigned char)bytes[letter - letters];
        return 2;
    }
    if (text[1] != 'x' || len < 4 || hex_digit(text[2]) < 0 || hex_digit(text[3]) < 0)
        return 0;
    *byte = (unsigned char)(hex_digit(text[2]) * 16 + hex_digit(text[3]));
    return 4;
}

const char *cli_unescape(unsigned char *out, size_t size, const char *text, size_t len, size_t *out_len)
{
    size_t used = 0;
    for (size_t i = 0; i < len;) {
        unsigned char byte = (unsigned char)text[i];
        size_t taken = byte == '\\' ? read_escape(text + i, len - i, &byte) : 1;
        if (taken == 0)
            return "a backslash begins one of \\\\ \\t \\n \\r \\xHH";
        if (used == size)
            return "longer than 1024 bytes";
        out[used++] = byte;
        i += taken;
    }
    *out_len = used;
    return NULL;
}
