/* SPDX-License-Identifier: BSD-3-Clause */
/* script: how a call of lua/acquire.lua is written and its reply read; see script.h. */
#include "script.h"

#include "scripts_embedded.h"

#include <string.h>

#define DAY_US   INT64_C(86400000000)
#define TIME_MAX (UINT64_C(1) << 53) /* microseconds; a window may end there */

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

/* The next number, an integer 0 … most; not-a-number fails every comparison. */
static bool next_integer(hr_script_reply *reply, uint64_t most, uint64_t *out)
{
    if (reply->end - reply->at < (ptrdiff_t)sizeof(double))
        return false;
    double value = read_double(reply->at);
    if (!(value >= 0 && value <= (double)most && (double)(uint64_t)value >= value))
        return false;
    reply->at += sizeof(double);
    *out = (uint64_t)value;
    return true;
}

bool hr_script_reply_begin(hr_script_reply *out, const char *reply, size_t len, uint32_t number)
{
    uint64_t now, echo;

    *out = (hr_script_reply){.at = reply, .end = reply + len};
    if (!next_integer(out, HIRATE_COST_MAX, &now) || !next_integer(out, UINT32_MAX, &echo))
        return false;
    out->now_us = (int64_t)now;
    return echo == number;
}

static bool next_bucket(hr_script_reply *reply, const hr_policy *policy, hr_token_bucket_now *bucket)
{
    bucket->at = reply->now_us;
    return next_integer(reply, policy->full, &bucket->units) && next_integer(reply, policy->full, &bucket->lag);
}

static bool next_window(hr_script_reply *reply, hr_fixed_window_now *moment)
{
    uint64_t end;
    moment->now_us = reply->now_us;
    if (!next_integer(reply, HIRATE_COST_MAX, &moment->window.used) || !next_integer(reply, TIME_MAX, &end))
        return false;
    moment->window.start_us = 0; /* which window it is was decided there */
    moment->window.end_us = (int64_t)end;
    return end > (uint64_t)reply->now_us;
}

static bool next_sliding(hr_script_reply *reply, const hr_policy *policy, hr_sliding_window_now *moment)
{
    uint64_t start;
    moment->now_us = reply->now_us;
    moment->window.window_us = policy->window_us;
    if (!next_integer(reply, TIME_MAX, &start) || !next_integer(reply, HIRATE_COST_MAX, &moment->window.prev) ||
        !next_integer(reply, HIRATE_COST_MAX, &moment->window.cur))
        return false;
    moment->window.start_us = (int64_t)start;
    /* now is in this window, or before it by at most its length */
    return reply->now_us - moment->window.start_us < (int64_t)policy->window_us &&
           moment->window.start_us - reply->now_us <= (int64_t)policy->window_us;
}

static bool next_log(hr_script_reply *reply, uint32_t runs, hr_script_found *found)
{
    hr_sliding_log_now *moment = &found->moment.log;
    uint64_t at, newest, wait;

    *moment = (hr_sliding_log_now){.now_us = reply->now_us};
    if (!next_integer(reply, TIME_MAX, &at) || !next_integer(reply, HIRATE_LOG_MAX, &moment->at_units) ||
        !next_integer(reply, HIRATE_LOG_MAX, &moment->older_units) || !next_integer(reply, TIME_MAX, &newest))
        return false;
    moment->at_us = (int64_t)at;
    moment->newest_us = (int64_t)newest;
    found->waits = reply->at;
    for (uint32_t i = 0; i < runs; i++) {
        if (!next_integer(reply, TIME_MAX, &wait))
            return false;
    }
    return true;
}

/* -1 and -2 stand alone, for a key that nothing was done to. Else HR_FOUND_INVALID, with nothing read. */
static enum hr_script_what next_exception(hr_script_reply *reply)
{
    if (reply->end - reply->at < (ptrdiff_t)sizeof(double))
        return HR_FOUND_INVALID;
    double value = read_double(reply->at);
    enum hr_script_what found = value >= -1 && value <= -1 ? HR_FOUND_FOREIGN : value >= -2 && value <= -2 ? HR_FOUND_REFUSED : HR_FOUND_INVALID;
    if (found != HR_FOUND_INVALID)
        reply->at += sizeof(double);
    return found;
}

static bool next_moment(hr_script_reply *reply, const hr_policy *policy, uint32_t runs, hr_script_found *found)
{
    switch (policy->kind) {
    case HIRATE_KIND_FIXED_WINDOW:
    case HIRATE_KIND_QUOTA:
        return next_window(reply, &found->moment.window);
    case HIRATE_KIND_SLIDING_LOG:
        return next_log(reply, runs, found);
    case HIRATE_KIND_SLIDING_WINDOW:
        return next_sliding(reply, policy, &found->moment.sliding);
    default:
        return next_bucket(reply, policy, &found->moment.bucket);
    }
}

hr_script_found hr_script_next(hr_script_reply *reply, const hr_policy *policy, uint32_t runs)
{
    hr_script_found found = {.what = HR_FOUND_INVALID};
    enum hr_script_what exception = next_exception(reply);

    if (exception)
        found.what = exception;
    else if (next_moment(reply, policy, runs, &found))
        found.what = HR_FOUND_MOMENT;
    return found;
}

hr_script_found hr_script_next_reset(hr_script_reply *reply)
{
    hr_script_found found = {.what = HR_FOUND_INVALID};
    enum hr_script_what exception = next_exception(reply);
    uint64_t used = 0;

    if (exception)
        found.what = exception;
    else if (next_integer(reply, 1, &used))
        found.what = HR_FOUND_RESET;
    found.used = (int)used;
    return found;
}

bool hr_script_reply_ended(const hr_script_reply *reply)
{
    return reply->at == reply->end;
}

int64_t hr_script_wait(const char *waits, uint32_t run)
{
    return (int64_t)read_double(waits + run * sizeof(double));
}

const char *hr_script_sha1(void)
{
    return HR_SCRIPT_ACQUIRE_SHA1;
}
