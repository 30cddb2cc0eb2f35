/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests: a call of the script read back from the command that makes it, apart from src/script.c. After the headers of
 * cmocka.
 */
#ifndef TESTS_SUPPORT_DECODED_H
#define TESTS_SUPPORT_DECODED_H

#include "bytes.h"

#include <string.h>

enum { ARGS = 16, OPS = 70000 };

typedef struct decoded {
    size_t argc;
    const char *argv[ARGS];
    size_t len[ARGS];
    size_t op_count;
    int64_t ops[OPS];      /* as signed: nothing larger than 2^63-1 is ever sent; of a string its length */
    const char *text[OPS]; /* NULL: an integer */
} decoded;

/* PREFIX digits CR LF: the number. */
static inline size_t read_header(const char **at, char prefix)
{
    size_t value = 0;

    assert_int_equal(**at, prefix);
    for ((*at)++; **at != '\r'; (*at)++) {
        assert_true(**at >= '0' && **at <= '9');
        value = value * 10 + (size_t)(**at - '0');
    }
    assert_memory_equal(*at, "\r\n", 2);
    *at += 2;
    return value;
}

static inline uint64_t big_endian(const unsigned char **at, unsigned bytes)
{
    uint64_t value = 0;

    while (bytes-- > 0)
        value = value << 8 | *(*at)++;
    return value;
}

/* One integer or string. */
static inline void read_op(decoded *d, const unsigned char **at)
{
    unsigned char tag = *(*at)++;

    d->text[d->op_count] = NULL;
    if ((tag & 0xe0) == 0xa0) {
        d->text[d->op_count] = (const char *)*at;
        d->ops[d->op_count] = tag & 0x1f;
        *at += tag & 0x1f;
    } else if (tag < 0x80 || tag >= 0xe0) {
        d->ops[d->op_count] = tag < 0x80 ? tag : (int64_t)tag - 0x100;
    } else {
        assert_true(tag >= 0xcc && tag <= 0xd3);
        const unsigned bytes = 1U << (tag & 3), unused = 64 - 8 * bytes;
        const uint64_t value = big_endian(at, bytes);
        d->ops[d->op_count] = tag <= 0xcf ? (int64_t)value : (int64_t)(value << unused) >> unused;
    }
    d->op_count++;
}

static inline size_t read_array(const unsigned char **at)
{
    unsigned char tag = *(*at)++;

    if ((tag & 0xf0) == 0x90)
        return tag & 0x0f;
    assert_true(tag == 0xdc || tag == 0xdd);
    return (size_t)big_endian(at, tag == 0xdc ? 2 : 4);
}

/* A whole command, of which nothing is left over. */
static inline decoded *decode(const hr_bytes *command)
{
    static decoded d;
    const char *at = command->data, *end = at + command->len;

    d.argc = read_header(&at, '*');
    assert_true(d.argc <= ARGS);
    for (size_t i = 0; i < d.argc; i++) {
        d.len[i] = read_header(&at, '$');
        d.argv[i] = at;
        at += d.len[i];
        assert_memory_equal(at, "\r\n", 2);
        at += 2;
    }
    assert_ptr_equal(at, end);
    assert_int_equal(*end, 0);

    const unsigned char *op = (const unsigned char *)d.argv[d.argc - 1], *last = op + d.len[d.argc - 1];
    size_t count = read_array(&op);
    assert_true(count <= OPS);
    for (d.op_count = 0; d.op_count < count;)
        read_op(&d, &op);
    assert_ptr_equal(op, last);
    return &d;
}

static inline void assert_arg(const decoded *d, size_t i, const char *text)
{
    assert_int_equal(d->len[i], strlen(text));
    assert_memory_equal(d->argv[i], text, d->len[i]);
}

#endif
