/* SPDX-License-Identifier: BSD-3-Clause */
/* script: how a call of lua/acquire.lua is written and its reply read; see script.h. */
#include "script.h"

#include "scripts_embedded.h"

#include <string.h>

#define HEAD_BYTES   (2 * sizeof(double)) /* of a reply: now, the call's number */
#define BUCKET_BYTES (2 * sizeof(double)) /* for each key: units, lag */

/* MessagePack: https://github.com/msgpack/msgpack/blob/master/spec.md, integers and arrays. */
enum { MSGPACK_U8 = 0xcc, MSGPACK_U16 = 0xcd, MSGPACK_U32 = 0xce, MSGPACK_U64 = 0xcf };
enum { MSGPACK_FIXARRAY = 0x90, MSGPACK_ARRAY16 = 0xdc, MSGPACK_ARRAY32 = 0xdd, MSGPACK_MINUS_ONE = 0xff };

static void put_big_endian(char *to, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        to[i] = (char)(value >> (8 * (bytes - 1 - i)) & 0xff);
}

static void add_tagged(hr_bytes *out, int tag, uint64_t value, unsigned bytes)
{
    char *to = hr_bytes_reserve(out, 1 + bytes);
    if (!to)
        return;
    to[0] = (char)tag;
    put_big_endian(to + 1, value, bytes);
    out->len += 1 + bytes;
}

static void add_op(hr_script_call *call, uint64_t value)
{
    call->op_count++;
    if (value < 0x80)
        add_tagged(&call->ops, (int)value, 0, 0);
    else if (value <= UINT8_MAX)
        add_tagged(&call->ops, MSGPACK_U8, value, 1);
    else if (value <= UINT16_MAX)
        add_tagged(&call->ops, MSGPACK_U16, value, 2);
    else if (value <= UINT32_MAX)
        add_tagged(&call->ops, MSGPACK_U32, value, 4);
    else
        add_tagged(&call->ops, MSGPACK_U64, value, 8);
}

void hr_script_free(hr_script_call *call)
{
    hr_bytes_free(&call->keys);
    hr_bytes_free(&call->ops);
    hr_bytes_free(&call->command);
}

void hr_script_begin(hr_script_call *call, uint32_t number)
{
    hr_bytes_clear(&call->keys);
    hr_bytes_clear(&call->ops);
    hr_bytes_clear(&call->command);
    call->key_count = call->op_count = 0;
    add_op(call, number);
}

void hr_script_limit(hr_script_call *call, const hr_policy *policy, uint32_t keys)
{
    add_op(call, policy->n);
    add_op(call, policy->p);
    add_op(call, policy->full);
    add_op(call, keys);
}

static void add_bulk(hr_bytes *out, const void *data, size_t len)
{
    hr_bytes_add(out, "$", 1);
    hr_bytes_add_number(out, len);
    hr_bytes_add(out, "\r\n", 2);
    hr_bytes_add(out, data, len);
    hr_bytes_add(out, "\r\n", 2);
}

void hr_script_key(hr_script_call *call, const void *key, size_t len)
{
    call->key_count++;
    add_bulk(&call->keys, key, len);
}

void hr_script_reset(hr_script_call *call)
{
    call->op_count++;
    add_tagged(&call->ops, MSGPACK_MINUS_ONE, 0, 0);
}

void hr_script_peek(hr_script_call *call)
{
    add_op(call, 0);
}

void hr_script_acquires(hr_script_call *call, uint32_t runs)
{
    add_op(call, runs);
}

void hr_script_run(hr_script_call *call, uint64_t units, uint32_t count)
{
    add_op(call, units);
    add_op(call, count);
}

static size_t array_header(char to[5], uint32_t count)
{
    if (count < 16) {
        to[0] = (char)(MSGPACK_FIXARRAY | count);
        return 1;
    }
    if (count <= UINT16_MAX) {
        to[0] = (char)MSGPACK_ARRAY16;
        put_big_endian(to + 1, count, 2);
        return 3;
    }
    to[0] = (char)MSGPACK_ARRAY32;
    put_big_endian(to + 1, count, 4);
    return 5;
}

static size_t digits(uint64_t value)
{
    size_t n = 1;
    while (value /= 10)
        n++;
    return n;
}

int hr_script_finish(hr_script_call *call, enum hr_script_how how)
{
    hr_bytes *out = &call->command;
    char header[5];
    size_t header_len = array_header(header, call->op_count);

    hr_bytes_add(out, "*", 1);
    hr_bytes_add_number(out, call->key_count + 4);
    if (how == HR_SCRIPT_BY_SHA) {
        hr_bytes_add(out, "\r\n$7\r\nEVALSHA\r\n", 15);
        add_bulk(out, HR_SCRIPT_ACQUIRE_SHA1, 40);
    } else {
        hr_bytes_add(out, "\r\n$4\r\nEVAL\r\n", 12);
        add_bulk(out, hr_script_acquire_text, sizeof hr_script_acquire_text);
    }
    hr_bytes_add(out, "$", 1);
    hr_bytes_add_number(out, digits(call->key_count));
    hr_bytes_add(out, "\r\n", 2);
    hr_bytes_add_number(out, call->key_count);
    hr_bytes_add(out, "\r\n", 2);
    hr_bytes_add(out, call->keys.data, call->keys.len);
    hr_bytes_add(out, "$", 1);
    hr_bytes_add_number(out, header_len + call->ops.len);
    hr_bytes_add(out, "\r\n", 2);
    hr_bytes_add(out, header, header_len);
    hr_bytes_add(out, call->ops.data, call->ops.len);
    hr_bytes_add(out, "\r\n", 3); /* with its NUL, which hiredis may look at */
    if (out->failed || call->keys.failed || call->ops.failed)
        return HIRATE_ENOMEM;
    out->len--;
    return 0;
}

static double read_double(const char *from)
{
    uint64_t bits = 0;
    double value;

    for (unsigned i = 8; i-- > 0;)
        bits = bits << 8 | (unsigned char)from[i];
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* An integer 0 … most; not-a-number fails every comparison. */
static bool is_integer(double value, double most)
{
    return value >= 0 && value <= most && (double)(uint64_t)value >= value;
}

bool hr_script_reply_ok(const char *reply, size_t len, uint32_t keys, uint32_t number, int64_t *now_us)
{
    if (len != HEAD_BYTES + keys * BUCKET_BYTES)
        return false;
    double now = read_double(reply), echo = read_double(reply + sizeof(double));
    if (!is_integer(now, (double)HIRATE_COST_MAX) || !is_integer(echo, UINT32_MAX) || (uint32_t)echo != number)
        return false;
    *now_us = (int64_t)now;
    return true;
}

hr_script_found hr_script_read(const char *reply, uint32_t index, uint64_t most)
{
    const char *at = reply + HEAD_BYTES + index * BUCKET_BYTES;
    double units = read_double(at), lag = read_double(at + sizeof(double));

    if (is_integer(units, (double)most) && is_integer(lag, (double)most))
        return (hr_script_found){HR_FOUND_BUCKET, (uint64_t)units, (uint64_t)lag};
    if (units >= -1 && units <= -1 && lag >= 0 && lag <= 0)
        return (hr_script_found){HR_FOUND_FOREIGN, 0, 0};
    return (hr_script_found){HR_FOUND_INVALID, 0, 0};
}

const char *hr_script_sha1(void)
{
    return HR_SCRIPT_ACQUIRE_SHA1;
}
