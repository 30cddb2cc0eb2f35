/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * script: how a call of lua/acquire.lua is written and its reply read. Pure: bytes in, bytes out.
 *
 * A call is put together key by key:
 *     hr_script_begin(&call, number);
 *     for each row of keys under one limit: hr_script_limit(&call, policy, keys);
 *         for each key: hr_script_key(&call, key, len), then hr_script_reset, or hr_script_peek, or
 *                       hr_script_acquires(&call, runs) and `runs` times hr_script_run(&call, units, count),
 *                       or hr_script_one(&call, units);
 *     if there are steps: hr_script_steps(&call);
 *         for each row of their keys under one limit: hr_script_limit(&call, policy, keys), hr_script_key for each key;
 *         for each step: hr_script_take or hr_script_look and for each of its keys hr_script_ref; or hr_script_permit;
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
/* Short for one run of `units`, at least 1, once. */
void hr_script_one(hr_script_call *call, uint64_t units);
/* From here on steps. Their keys are counted from 0, in the order in which they are written. */
void hr_script_steps(hr_script_call *call);
/* An acquire over `real` keys and `shadows` more, which follow as refs. `id` (HR_HOLD_ID_SIZE bytes) is of what it
 * takes under concurrency, and under a quota if hold_us > 0; NULL: it holds nothing. */
void hr_script_take(hr_script_call *call, const unsigned char *id, uint64_t hold_us, uint32_t real, uint32_t shadows);
/* The same for a peek. */
void hr_script_look(hr_script_call *call, uint32_t real, uint32_t shadows);
#define HR_SCRIPT_TOO_MUCH (UINT64_C(1) << 53) /* the units of a cost above the limit */
void hr_script_ref(hr_script_call *call, uint32_t key, uint64_t units);
/* A release, renewal, commit (of `amount`, of what was to end at until_us) or refund, by `op`. */
void hr_script_permit(hr_script_call *call, enum hirate_op op, uint32_t key, const unsigned char *id, uint64_t amount,
                      int64_t until_us);
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
    hr_moment moment;  /* of a sliding log, quota or concurrency without its list */
    const char *waits; /* where hr_script_tells_waits(): for each run, hr_script_wait's */
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
/* Only the script can tell when there will be room again under this kind of limit. */
bool hr_script_tells_waits(const hr_policy *policy);
/* What a denial of this run waits for, as a time in microseconds: of a sliding log when that was taken, else when it
 * ends. 0: nothing of it was denied. */
int64_t hr_script_wait(const char *waits, uint32_t run);

/* A time of this kind stands for the list that a moment is without: put into *stand_in and, through it, into *moment,
 * it makes a denial wait just so long. */
typedef union hr_script_stand_in {
    hr_sliding_log_entry entry;
    hr_hold hold;
} hr_script_stand_in;
void hr_script_set_wait(const hr_policy *policy, hr_moment *moment, int64_t wait_us, hr_script_stand_in *stand_in);

/* Of a step: the next wait, for a ref whose policy tells waits; an outcome, which a moment follows (hr_script_next); at
 * the end for each key of the steps whether it was written. False: not what the script says. */
bool hr_script_next_wait(hr_script_reply *reply, int64_t *wait_us);
enum hr_script_outcome { HR_OUTCOME_GONE, HR_OUTCOME_DONE, HR_OUTCOME_LATE };
bool hr_script_next_outcome(hr_script_reply *reply, enum hr_script_outcome *outcome);
/* *what: HR_FOUND_MOMENT, HR_FOUND_FOREIGN or HR_FOUND_REFUSED. */
bool hr_script_next_written(hr_script_reply *reply, enum hr_script_what *what);

/* 40 hex digits, for diagnostics and tests. */
const char *hr_script_sha1(void);

#endif
