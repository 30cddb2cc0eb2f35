/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: permits as text; see permit.h.
 *
 * In bytes: 0x10 + kind (version 1); capacity; a concurrency limit's lease_us, or a quota's per and offset_minutes; the
 * id; until_us; the lengths of prefix, policy and name, and those; CRC-32C of all of it, big-endian. Numbers are
 * LEB128: seven bits a byte from the lowest on, all but the last byte with 0x80; offset_minutes of 0, -1, 1, -2 … is
 * written as 0, 1, 2, 3 …. Each number has one form only, and no bit of the text is free: what is read would be written
 * as the same text.
 *
 * Lengths stand in it, so what was cut or has more behind it is found by those; a CRC of 32 bits finds every other
 * change that spans no more than 32 bits, five characters wherever they are.
 */
#include "permit.h"

#include "error.h"
#include "policy.h"

#include <string.h>

enum {
    VERSION_1 = 0x10,
    NUMBER_MOST = 10, /* bytes of 64 bits */
    CRC_SIZE = 4,
    BYTES_MOST = 1 + 3 * NUMBER_MOST + HR_HOLD_ID_SIZE + NUMBER_MOST + 3 * NUMBER_MOST + 2 * HIRATE_POLICY_MAX +
                 HIRATE_NAME_MAX + CRC_SIZE
};
#define UNTIL_MOST (UINT64_C(1) << 54) /* above every time that a hold may end at, and far from what overflows */

_Static_assert((BYTES_MOST * 4 + 2) / 3 <= HIRATE_PERMIT_MAX, "every permit has room");

static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* Castagnoli's polynomial 0x1EDC6F41, the highest bit first, four bits at a time. */
static uint32_t crc32c(const unsigned char *bytes, size_t len)
{
    static const uint32_t step[16] = {
        0x00000000, 0x1edc6f41, 0x3db8de82, 0x2364b1c3, 0x7b71bd04, 0x65add245, 0x46c96386, 0x58150cc7,
        0xf6e37a08, 0xe83f1549, 0xcb5ba48a, 0xd587cbcb, 0x8d92c70c, 0x934ea84d, 0xb02a198e, 0xaef676cf,
    };
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < len; i++) {
        crc ^= (uint32_t)bytes[i] << 24;
        crc = crc << 4 ^ step[crc >> 28];
        crc = crc << 4 ^ step[crc >> 28];
    }
    return crc;
}

static uint64_t zigzag(int32_t value)
{
    return value < 0 ? 2 * (uint64_t)(-(int64_t)value) - 1 : 2 * (uint64_t)value;
}

/* ------------------------------------------------------------------------------------------------- writing -- */

typedef struct writer {
    unsigned char bytes[BYTES_MOST];
    size_t len;
} writer;

static void put_bytes(writer *w, const void *bytes, size_t len)
{
    if (len > 0)
        memcpy(w->bytes + w->len, bytes, len);
    w->len += len;
}

static void put_number(writer *w, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        w->bytes[w->len++] = (unsigned char)(value | 0x80);
    w->bytes[w->len++] = (unsigned char)value;
}

static size_t encode(char *out, const unsigned char *bytes, size_t len)
{
    char *to = out;
    uint32_t bits = 0;
    unsigned count = 0;

    for (size_t i = 0; i < len; i++) {
        bits = bits << 8 | bytes[i];
        for (count += 8; count >= 6; count -= 6)
            *to++ = DIGITS[bits >> (count - 6) & 63];
    }
    if (count > 0)
        *to++ = DIGITS[bits << (6 - count) & 63];
    *to = '\0';
    return (size_t)(to - out);
}

size_t hr_permit_write(char out[HIRATE_PERMIT_SIZE], const hr_permit *permit)
{
    const hirate_limit *limit = &permit->limit;
    const size_t prefix_len = strlen(permit->prefix), policy_len = strlen(limit->policy);
    writer w;

    w.bytes[0] = (unsigned char)(VERSION_1 + limit->kind);
    w.len = 1;
    put_number(&w, limit->capacity);
    if (limit->kind == HIRATE_KIND_CONCURRENCY) {
        put_number(&w, limit->lease_us);
    } else {
        put_number(&w, limit->per);
        put_number(&w, zigzag(limit->offset_minutes));
    }
    put_bytes(&w, permit->id, sizeof permit->id);
    put_number(&w, (uint64_t)permit->until_us);
    put_number(&w, prefix_len);
    put_number(&w, policy_len);
    put_number(&w, permit->name_len);
    put_bytes(&w, permit->prefix, prefix_len);
    put_bytes(&w, limit->policy, policy_len);
    put_bytes(&w, permit->name, permit->name_len);
    uint32_t crc = crc32c(w.bytes, w.len);
    for (unsigned shift = 32; shift > 0; shift -= 8)
        w.bytes[w.len++] = (unsigned char)(crc >> (shift - 8));
    return encode(out, w.bytes, w.len);
}

/* ------------------------------------------------------------------------------------------------- reading -- */

/* What is left of the bytes; `ok` turns false when they do not hold what is asked for, and then zeros are read. */
typedef struct reader {
    const unsigned char *at, *end;
    bool ok;
} reader;

static uint64_t get_number(reader *r, uint64_t most)
{
    uint64_t value = 0;
    unsigned char byte = 0x80;

    for (unsigned shift = 0; byte & 0x80; shift += 7) {
        if (r->at == r->end || shift == 63) {
            r->ok = false;
            return 0;
        }
        byte = *r->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte == 0 && shift > 0)
            r->ok = false; /* there is a shorter form */
    }
    if (value > most)
        r->ok = false;
    return r->ok ? value : 0;
}

static void get_bytes(reader *r, void *to, size_t len)
{
    if ((size_t)(r->end - r->at) < len)
        r->ok = false;
    if (!r->ok || len == 0)
        return;
    memcpy(to, r->at, len);
    r->at += len;
}

/* What a character stands for; -1: it is none of DIGITS. */
static int digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

/* The bytes of the text, which has at most so many; 0: it is none. */
static size_t decode(unsigned char bytes[BYTES_MOST], const char *text, size_t len)
{
    uint32_t bits = 0;
    unsigned count = 0;
    size_t size = 0;

    for (size_t i = 0; i < len; i++) {
        int value = digit(text[i]);

        if (value < 0 || size == BYTES_MOST)
            return 0;
        bits = bits << 6 | (uint32_t)value;
        count += 6;
        if (count >= 8) {
            count -= 8;
            bytes[size++] = (unsigned char)(bits >> count);
        }
    }
    return count < 6 && (bits & ((1U << count) - 1)) == 0 ? size : 0;
}

static void get_limit(reader *r, hirate_limit *limit)
{
    *limit = (hirate_limit){.struct_size = sizeof *limit, .version = HIRATE_LIMIT_VERSION};
    limit->kind = (uint16_t)(get_number(r, 0x7f) - VERSION_1);
    if (limit->kind != HIRATE_KIND_CONCURRENCY && limit->kind != HIRATE_KIND_QUOTA)
        r->ok = false;
    limit->capacity = get_number(r, HIRATE_COST_MAX);
    if (limit->kind == HIRATE_KIND_CONCURRENCY) {
        limit->lease_us = get_number(r, HR_WINDOW_MAX);
    } else {
        limit->per = (uint32_t)get_number(r, HIRATE_PER_MONTH);
        uint64_t offset = get_number(r, UINT16_MAX);
        limit->offset_minutes = offset % 2 ? -(int32_t)(offset / 2) - 1 : (int32_t)(offset / 2);
    }
}

static void get_permit(reader *r, hr_permit *permit)
{
    get_limit(r, &permit->limit);
    get_bytes(r, permit->id, sizeof permit->id);
    permit->until_us = (int64_t)get_number(r, UNTIL_MOST);
    size_t prefix_len = get_number(r, HIRATE_POLICY_MAX);
    size_t policy_len = get_number(r, HIRATE_POLICY_MAX);
    permit->name_len = (uint16_t)get_number(r, HIRATE_NAME_MAX);
    memset(permit->prefix, 0, sizeof permit->prefix);
    memset(permit->policy, 0, sizeof permit->policy);
    get_bytes(r, permit->prefix, prefix_len);
    get_bytes(r, permit->policy, policy_len);
    get_bytes(r, permit->name, permit->name_len);
    permit->limit.policy = permit->policy;
    /* A NUL inside would end a text early. */
    if (strlen(permit->prefix) != prefix_len || strlen(permit->policy) != policy_len || r->at != r->end)
        r->ok = false;
}

static bool read_text(hr_permit *permit, const char *text)
{
    unsigned char bytes[BYTES_MOST];
    size_t len = strnlen(text, HIRATE_PERMIT_SIZE);
    size_t size = len <= HIRATE_PERMIT_MAX ? decode(bytes, text, len) : 0;

    if (size <= CRC_SIZE)
        return false;
    size -= CRC_SIZE;
    uint32_t crc = 0;
    for (size_t i = 0; i < CRC_SIZE; i++)
        crc = crc << 8 | bytes[size + i];
    reader r = {bytes, bytes + size, crc == crc32c(bytes, size)};
    if (r.ok)
        get_permit(&r, permit);
    return r.ok && (permit->prefix[0] == '\0' || hr_policy_name_ok(permit->prefix)) &&
           hirate_limit_check(&permit->limit, NULL) == 0;
}

int hr_permit_read(hr_permit *permit, const char *text, hirate_error *error)
{
    if (text == NULL)
        return hr_fail(error, HIRATE_EINVAL, "permit: is NULL; accepted: the text of a result's permit");
    if (!read_text(permit, text))
        return hr_fail(error, HIRATE_EINVAL,
                       "permit: is none that this library knows, or was cut or mistyped; accepted: the whole text of a "
                       "result's permit");
    return 0;
}

int hr_permit_check_op(const hr_permit *permit, enum hirate_op op, hirate_error *error)
{
    bool lease = permit->limit.kind == HIRATE_KIND_CONCURRENCY;
    bool of_leases = op == HIRATE_OP_RELEASE || op == HIRATE_OP_RENEW;

    if (lease == of_leases)
        return 0;
    return hr_fail(error, HIRATE_EINVAL, "permit: is a %s",
                   lease ? "lease's; accepted: a reservation's, or a release or renewal"
                         : "reservation's; accepted: a lease's, or a commit or refund");
}
