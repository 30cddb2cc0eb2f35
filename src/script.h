/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * script: how a call of lua/acquire.lua is written and its reply read. Pure: bytes in, bytes out.
 *
 * A call is put together key by key:
 *     hr_script_begin(&call, number);
 *     for each run of keys under one limit: hr_script_limit(&call, policy, keys);
 *         for each key: hr_script_key(&call, key, len), then hr_script_reset, or hr_script_peek, or
 *                       hr_script_acquires(&call, runs) and `runs` times hr_script_run(&call, units, count);
 *     hr_script_finish(&call, how)
 */
#ifndef HR_SCRIPT_H
#define HR_SCRIPT_H

#include "bytes.h"
#include "policy.h"

/* A call being written. Reused from call to call, so that its buffers are allocated once. */
typedef struct hr_script_call {
    hr_bytes keys;    /* KEYS, as RESP bulk strings */
    hr_bytes ops;     /* ARGV[1] without its array header */
    hr_bytes command; /* what hr_script_finish makes of them */
    uint32_t key_count;
    uint32_t op_count;
} hr_script_call;

enum hr_script_how {
    HR_SCRIPT_BY_SHA,  /* EVALSHA */
    HR_SCRIPT_BY_TEXT, /* EVAL: decides and makes the script known, in one step and with one permission */
};

void hr_script_free(hr_script_call *call);
/* `number` comes back in the reply, so that no other call's reply is taken for this one's. */
void hr_script_begin(hr_script_call *call, uint32_t number);
void hr_script_limit(hr_script_call *call, const hr_policy *policy, uint32_t keys);
void hr_script_key(hr_script_call *call, const void *key, size_t len);
void hr_script_reset(hr_script_call *call);
void hr_script_peek(hr_script_call *call);
void hr_script_acquires(hr_script_call *call, uint32_t runs);
void hr_script_run(hr_script_call *call, uint64_t units, uint32_t count);
/* The whole command, in call->command, NUL behind it. 0, or HIRATE_ENOMEM if any step had no memory. */
int hr_script_finish(hr_script_call *call, enum hr_script_how how);

/* What the script found for one key. */
typedef struct hr_script_found {
    enum { HR_FOUND_INVALID, HR_FOUND_BUCKET, HR_FOUND_FOREIGN } what;
    uint64_t units; /* of a bucket, before anything was taken; of a reset, 1: used, 0: unused */
    uint64_t lag;
} hr_script_found;

/* Is this the reply to call `number` of `keys` keys? Then *now_us is set and hr_script_read reads each key's part. */
bool hr_script_reply_ok(const char *reply, size_t len, uint32_t keys, uint32_t number, int64_t *now_us);
/* Key `index` of a reply that is ok. HR_FOUND_INVALID unless both numbers are integers 0 … `most`. */
hr_script_found hr_script_read(const char *reply, uint32_t index, uint64_t most);

/* 40 hex digits, for diagnostics and tests. */
const char *hr_script_sha1(void);

#endif
