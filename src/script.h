/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * script: how a call of lua/acquire.lua is written and its reply read. Pure: bytes in, bytes out.
 *
 * A call is put together key by key:
 *     hr_script_begin(&call, number);
 *     for each row of keys under one limit: hr_script_limit(&call, policy, keys);
 *         for each key: hr_script_key(&call, key, len), then hr_script_reset, or hr_script_peek, or
 *                       hr_script_acquires(&call, runs) and `runs` times hr_script_run(&call, units, count);
 *     hr_script_finish(&call, how)
 */
#ifndef HR_SCRIPT_H
#define HR_SCRIPT_H

#include "bytes.h"
#include "decide.h"

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
    enum hr_script_what {
        HR_FOUND_INVALID, /* not what the script says: the rest of the reply means nothing */
        HR_FOUND_MOMENT,  /* a state, or none: `moment`, before anything was taken */
        HR_FOUND_FOREIGN, /* something else */
        HR_FOUND_REFUSED, /* Redis refused a command on it, after others of the call had been written */
        HR_FOUND_RESET    /* a reset was done: `used` */
    } what;
    int used;
    hr_moment moment;  /* of a sliding log without `older` */
    const char *waits; /* of a sliding log: for each run, hr_script_wait's */
} hr_script_found;

/* A reply being read, key by key in the order of the call. */
typedef struct hr_script_reply {
    const char *at, *end;
    int64_t now_us;
} hr_script_reply;

/* Is this the reply to call `number`? Then *out is at its first key. */
bool hr_script_reply_begin(hr_script_reply *out, const char *reply, size_t len, uint32_t number);
/* The next key's part, under `policy`; `runs`: those the call had for it. */
hr_script_found hr_script_next(hr_script_reply *reply, const hr_policy *policy, uint32_t runs);
/* The next key's part, where it was reset. */
hr_script_found hr_script_next_reset(hr_script_reply *reply);
/* Was that all? */
bool hr_script_reply_ended(const hr_script_reply *reply);
/* When what a denial of this run of a sliding log waits for was taken, in microseconds; 0: nothing of it was denied. */
int64_t hr_script_wait(const char *waits, uint32_t run);

/* 40 hex digits, for diagnostics and tests. */
const char *hr_script_sha1(void);

#endif
