/* SPDX-License-Identifier: BSD-3-Clause */
/* script: how a call of lua/acquire.lua is written; see script.h. */
#include "script.h"

#include "scripts_embedded.h"

#include <string.h>

#define DAY_US INT64_C(86400000000)

/* MessagePack: https://github.com/msgpack/msgpack/blob/master/spec.md, integers, short strings and arrays. */
enum { MSGPACK_I8 = 0xd0, MSGPACK_I16 = 0xd1, MSGPACK_I32 = 0xd2, MSGPACK_I64 = 0xd3 };
enum { MSGPACK_U8 = 0xcc, MSGPACK_U16 = 0xcd, MSGPACK_U32 = 0xce, MSGPACK_U64 = 0xcf };
enum { MSGPACK_FIXARRAY = 0x90, MSGPACK_ARRAY16 = 0xdc, MSGPACK_ARRAY32 = 0xdd };
enum { MSGPACK_FIXSTR = 0xa0, MSGPACK_MINUS_ONE = 0xff };

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

/* What the script wants to know of each kind; see lua/acquire.lua. */
static void add_parameters(hr_script_call *call, const hr_policy *policy)
{
    switch (policy->kind) {
    case HIRATE_KIND_FIXED_WINDOW:
    case HIRATE_KIND_SLIDING_LOG:
        add_op(call, policy->capacity);
        add_op(call, policy->window_us);
        break;
    case HIRATE_KIND_QUOTA:
        add_op(call, policy->capacity);
        add_op(call, policy->per);
        add_op(call, (uint64_t)(policy->offset_us + DAY_US));
        break;
    case HIRATE_KIND_CONCURRENCY:
        add_op(call, policy->capacity);
        add_op(call, policy->lease_us);
        break;
    case HIRATE_KIND_SLIDING_WINDOW:
        add_op(call, policy->capacity);
        add_op(call, policy->window_us);
        add_op(call, policy->tick_us);
        break;
    default:
        add_op(call, policy->n);
        add_op(call, policy->p);
        add_op(call, policy->full);
    }
}

void hr_script_limit(hr_script_call *call, const hr_policy *policy, uint32_t keys)
{
    add_op(call, policy->kind);
    add_parameters(call, policy);
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

/* -1 - units. */
void hr_script_one(hr_script_call *call, uint64_t units)
{
    uint64_t value = ~units; /* in two's complement */

    call->op_count++;
    if (units <= INT8_MAX)
        add_tagged(&call->ops, MSGPACK_I8, value, 1);
    else if (units <= INT16_MAX)
        add_tagged(&call->ops, MSGPACK_I16, value, 2);
    else if (units <= INT32_MAX)
        add_tagged(&call->ops, MSGPACK_I32, value, 4);
    else
        add_tagged(&call->ops, MSGPACK_I64, value, 8);
}

void hr_script_run(hr_script_call *call, uint64_t units, uint32_t count)
{
    add_op(call, units);
    add_op(call, count);
}

/* ---------------------------------------------------------------------------------------------------- steps -- */

enum { STEP_ACQUIRE = 1, STEP_PEEK = 2, STEP_RELEASE = 3, STEP_RENEW = 4, STEP_COMMIT = 5, STEP_REFUND = 6 };

/* A string of fewer than 32 bytes. */
static void add_string(hr_script_call *call, const char *data, size_t len)
{
    call->op_count++;
    add_tagged(&call->ops, MSGPACK_FIXSTR | (int)len, 0, 0);
    hr_bytes_add(&call->ops, data, len);
}

void hr_script_steps(hr_script_call *call)
{
    add_op(call, 0);
}

static void write_double(char to[sizeof(double)], double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    for (unsigned i = 0; i < sizeof bits; i++)
        to[i] = (char)(bits >> (8 * i) & 0xff);
}

void hr_script_take(hr_script_call *call, const unsigned char *id, uint64_t hold_us, uint32_t real, uint32_t shadows)
{
    char hold[HR_HOLD_ID_SIZE + sizeof(double)];

    add_op(call, STEP_ACQUIRE);
    if (id) {
        memcpy(hold, id, HR_HOLD_ID_SIZE);
        write_double(hold + HR_HOLD_ID_SIZE, (double)hold_us);
        add_string(call, hold, sizeof hold);
    } else {
        add_op(call, 0);
    }
    add_op(call, real);
    add_op(call, shadows);
}

void hr_script_look(hr_script_call *call, uint32_t real, uint32_t shadows)
{
    add_op(call, STEP_PEEK);
    add_op(call, 0);
    add_op(call, real);
    add_op(call, shadows);
}

void hr_script_ref(hr_script_call *call, uint32_t key, uint64_t units)
{
    add_op(call, key + 1);
    add_op(call, units);
}

void hr_script_permit(hr_script_call *call, enum hirate_op op, uint32_t key, const unsigned char *id, uint64_t amount,
                      int64_t until_us)
{
    add_op(call, op == HIRATE_OP_RELEASE ? STEP_RELEASE
                 : op == HIRATE_OP_RENEW ? STEP_RENEW
                 : op == HIRATE_OP_COMMIT ? STEP_COMMIT
                                          : STEP_REFUND);
    add_op(call, key + 1);
    add_string(call, (const char *)id, HR_HOLD_ID_SIZE);
    if (op == HIRATE_OP_COMMIT) {
        add_op(call, amount);
        add_op(call, (uint64_t)until_us);
    }
}

/* -------------------------------------------------------------------------------------------------- command -- */

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

const char *hr_script_sha1(void)
{
    return HR_SCRIPT_ACQUIRE_SHA1;
}
