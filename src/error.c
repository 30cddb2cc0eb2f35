/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base: error texts that are safe to print.
 *
 * Texts quote what a user passed in, which may come from strangers and may end on a terminal. What a terminal could
 * take for a command is replaced: C0 controls, DEL, C1 controls (also as UTF-8), and every byte that is not part of
 * well-formed UTF-8. A text that was cut inside a character ends in '?' for the same reason.
 */
#include "error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { STRUCT_SIZE_MAX = 4096 }; /* a larger struct_size is garbage: nothing is read that far */

/* The bytes of the character at `s`, 2 … 4, or 0 if it is not well-formed UTF-8 or encodes a C1 control. */
static size_t utf8_len(const unsigned char *s)
{
    size_t len = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    uint32_t code = s[0] & (0xFFU >> (len + 1));
    static const uint32_t least[] = {0, 0, 0xA0, 0x800, 0x10000};

    if (s[0] < 0xC2 || s[0] > 0xF4)
        return 0;
    /* The terminating NUL is no continuation byte, so this never reads past it. */
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3FU);
    }
    if (code < least[len] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
        return 0;
    return len;
}

static void make_printable(char *text)
{
    unsigned char *s = (unsigned char *)text;

    while (*s != '\0') {
        bool plain = *s >= 0x20 && *s < 0x7F;
        size_t len = plain ? 1 : utf8_len(s);

        if (len == 0) {
            *s = '?';
            len = 1;
        }
        s += len;
    }
}

int hr_fail(hirate_error *error, int code, const char *format, ...)
{
    char text[sizeof error->text];
    va_list args;

    if (error == NULL)
        return code;
    va_start(args, format);
    int rc = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (rc < 0)
        text[0] = '\0';
    make_printable(text);
    error->code = code;
    memcpy(error->text, text, sizeof text);
    return code;
}

int hr_struct_check(const char *what, const void *object, uint32_t struct_size, size_t first, size_t known,
                    hirate_error *error)
{
    const unsigned char *bytes = object;

    if (struct_size < first || struct_size > STRUCT_SIZE_MAX)
        return hr_fail(error, HIRATE_EINVAL, "%s.struct_size: %u is not the size of one; accepted: %zu to %d", what,
                       (unsigned)struct_size, first, (int)STRUCT_SIZE_MAX);
    for (size_t i = known; i < struct_size; i++)
        if (bytes[i] != 0)
            return hr_fail(error, HIRATE_EINVAL,
                           "%s.struct_size: %u bytes with a field set that this version (%s) does not know; "
                           "accepted: zero beyond %zu bytes",
                           what, (unsigned)struct_size, HIRATE_VERSION, known);
    return 0;
}
