/* SPDX-License-Identifier: BSD-3-Clause */
/* script: how a call of lua/acquire.lua is written and its reply read; see script.h. */
#include "script.h"

#include "scripts_embedded.h"

#include <string.h>

#define DAY_US   INT64_C(86400000000)
#define TIME_MAX (UINT64_C(1) << 53) /* microseconds; a window may end there */

/* Where a number that cannot be negative is expected. */
#define FOREIGN     (-1.0)
#define REFUSED     (-2.0)
#define LAG_FOLLOWS (-3.0)

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

    if (!len) /* an empty string has no bytes to point at */
        return false;
    *out = (hr_script_reply){.at = reply, .end = reply + len};
    if (!next_integer(out, HIRATE_COST_MAX, &now) || !next_integer(out, UINT32_MAX, &echo))
        return false;
    out->now_us = (int64_t)now;
    return echo == number;
}

/* Is the next number this one? */
static bool next_is(const hr_script_reply *reply, double wanted)
{
    if (reply->end - reply->at < (ptrdiff_t)sizeof(double))
        return false;
    double value = read_double(reply->at);
    return value >= wanted && value <= wanted;
}

static bool next_bucket(hr_script_reply *reply, const hr_policy *policy, hr_token_bucket_now *bucket)
{
    bucket->at = reply->now_us;
    bucket->lag = 0;
    if (!next_is(reply, LAG_FOLLOWS))
        return next_integer(reply, policy->full, &bucket->units);
    reply->at += sizeof(double);
    return next_integer(reply, policy->full, &bucket->units) && next_integer(reply, policy->full, &bucket->lag) &&
           bucket->lag > 0;
}

static bool next_window(hr_script_reply *reply, hr_fixed_window_now *moment)
{
    uint64_t end;
    *moment = (hr_fixed_window_now){.now_us = reply->now_us};
    if (!next_integer(reply, HIRATE_COST_MAX, &moment->window.used) || !next_integer(reply, TIME_MAX, &end))
        return false;
    moment->window.start_us = 0; /* which window it is was decided there */
    moment->window.end_us = (int64_t)end;
    return end > (uint64_t)reply->now_us;
}

static bool next_holds(hr_script_reply *reply, uint64_t *held, uint64_t *count, int64_t *latest_us)
{
    uint64_t latest;
    if (!next_integer(reply, HIRATE_COST_MAX, held) || !next_integer(reply, HIRATE_HOLDS_MAX, count) ||
        !next_integer(reply, TIME_MAX, &latest))
        return false;
    *latest_us = (int64_t)latest;
    return *held >= *count && (*count == 0) == (*held == 0);
}

static bool next_quota(hr_script_reply *reply, hr_fixed_window_now *moment)
{
    return next_window(reply, moment) && next_holds(reply, &moment->window.held, &moment->count, &moment->latest_us);
}

static bool next_concurrency(hr_script_reply *reply, hr_concurrency_now *moment)
{
    uint64_t at;
    *moment = (hr_concurrency_now){.now_us = reply->now_us};
    if (!next_holds(reply, &moment->held, &moment->count, &moment->latest_us) || !next_integer(reply, TIME_MAX, &at))
        return false;
    moment->at_us = (int64_t)at;
    return at >= (uint64_t)reply->now_us;
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

static bool next_waits(hr_script_reply *reply, uint32_t runs, hr_script_found *found)
{
    uint64_t wait;

    found->waits = reply->at;
    for (uint32_t i = 0; i < runs; i++) {
        if (!next_integer(reply, TIME_MAX, &wait))
            return false;
    }
    return true;
}

static bool next_log(hr_script_reply *reply, hr_sliding_log_now *moment)
{
    uint64_t at, newest;

    *moment = (hr_sliding_log_now){.now_us = reply->now_us};
    if (!next_integer(reply, TIME_MAX, &at) || !next_integer(reply, HIRATE_LOG_MAX, &moment->at_units) ||
        !next_integer(reply, HIRATE_LOG_MAX, &moment->older_units) || !next_integer(reply, TIME_MAX, &newest))
        return false;
    moment->at_us = (int64_t)at;
    moment->newest_us = (int64_t)newest;
    return true;
}

/* -1 and -2 stand alone, for a key that nothing was done to. Else HR_FOUND_INVALID, with nothing read. */
static enum hr_script_what next_exception(hr_script_reply *reply)
{
    if (reply->end - reply->at < (ptrdiff_t)sizeof(double) || read_double(reply->at) >= 0)
        return HR_FOUND_INVALID; /* nearly always, and soon seen */
    enum hr_script_what found = next_is(reply, FOREIGN)   ? HR_FOUND_FOREIGN
                                : next_is(reply, REFUSED) ? HR_FOUND_REFUSED
                                                          : HR_FOUND_INVALID;
    if (found != HR_FOUND_INVALID)
        reply->at += sizeof(double);
    return found;
}

static bool next_moment(hr_script_reply *reply, const hr_policy *policy, uint32_t runs, hr_script_found *found)
{
    switch (policy->kind) {
    case HIRATE_KIND_FIXED_WINDOW:
        return next_window(reply, &found->moment.window);
    case HIRATE_KIND_QUOTA:
        return next_quota(reply, &found->moment.window) && next_waits(reply, runs, found);
    case HIRATE_KIND_SLIDING_LOG:
        return next_log(reply, &found->moment.log) && next_waits(reply, runs, found);
    case HIRATE_KIND_CONCURRENCY:
        return next_concurrency(reply, &found->moment.concurrency);
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

bool hr_script_tells_waits(const hr_policy *policy)
{
    return policy->kind == HIRATE_KIND_QUOTA || policy->kind == HIRATE_KIND_SLIDING_LOG ||
           policy->kind == HIRATE_KIND_CONCURRENCY;
}

void hr_script_set_wait(const hr_policy *policy, hr_moment *moment, int64_t wait_us, hr_script_stand_in *stand_in)
{
    if (policy->kind == HIRATE_KIND_SLIDING_LOG) {
        stand_in->entry = (hr_sliding_log_entry){wait_us, UINT32_MAX};
        moment->log.older = &stand_in->entry;
        moment->log.older_count = 1;
        return;
    }
    hr_holds *holds =
        policy->kind == HIRATE_KIND_QUOTA ? &moment->window.window.reservations : &moment->concurrency.leases;
    stand_in->hold = (hr_hold){.until_us = wait_us, .units = UINT64_MAX};
    *holds = (hr_holds){&stand_in->hold, 1};
}

bool hr_script_next_wait(hr_script_reply *reply, int64_t *wait_us)
{
    uint64_t wait;
    if (!next_integer(reply, TIME_MAX, &wait))
        return false;
    *wait_us = (int64_t)wait;
    return true;
}

bool hr_script_next_outcome(hr_script_reply *reply, enum hr_script_outcome *outcome)
{
    uint64_t code;
    if (!next_integer(reply, HR_OUTCOME_LATE, &code))
        return false;
    *outcome = (enum hr_script_outcome)code;
    return true;
}

bool hr_script_next_written(hr_script_reply *reply, enum hr_script_what *what)
{
    uint64_t zero;
    *what = next_exception(reply);
    if (*what == HR_FOUND_INVALID && next_integer(reply, 0, &zero))
        *what = HR_FOUND_MOMENT;
    return *what != HR_FOUND_INVALID;
}

const char *hr_script_sha1(void)
{
    return HR_SCRIPT_ACQUIRE_SHA1;
}
