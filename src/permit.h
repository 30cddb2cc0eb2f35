/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: permits: a lease or reservation as text that any process can use.
 *
 * base64url (RFC 4648 section 5, no padding) of: version and kind, the limit's numbers, the hold's id and end, prefix,
 * policy and name, check sum. About 75 characters with ordinary values and a name of ten bytes; the first is always a
 * letter. The check sum finds what was cut or mistyped; it is no signature.
 */
#ifndef HR_PERMIT_H
#define HR_PERMIT_H

#include "holds.h"

#include <stdbool.h>

#define HR_PERMIT_FIXED_MOST 96 /* bytes of what is not prefix, policy or name */

typedef struct hr_permit {
    /* A concurrency limit or a quota, without flags and on_failure; its policy is the text below. */
    hirate_limit limit;
    char policy[HIRATE_POLICY_SIZE];
    char prefix[HIRATE_POLICY_SIZE]; /* of the key; "": a local engine's */
    unsigned char id[HR_HOLD_ID_SIZE];
    int64_t until_us;                /* when the hold ends, 0 … 2^54; a renewal may have put it off */
    uint16_t name_len;
    unsigned char name[HIRATE_NAME_MAX];
} hr_permit;

/* The room that a permit takes at most whose prefix, policy and name have so many bytes together, with its NUL. */
static inline size_t hr_permit_size(size_t bytes)
{
    size_t most = (HR_PERMIT_FIXED_MOST + bytes) * 4 / 3 + 3;
    return most < HIRATE_PERMIT_SIZE ? most : HIRATE_PERMIT_SIZE;
}

/* Write it, NUL-terminated; returns its length. Of the limit kind, capacity, lease_us, per and offset_minutes are kept,
 * and its policy's text, wherever that stands. Cannot fail. */
size_t hr_permit_write(char out[HIRATE_PERMIT_SIZE], const hr_permit *permit);

/* Read one; `text` may be NULL or anything. 0 with a limit that hirate_limit_check() accepts, or HIRATE_EINVAL with
 * *error (naming `permit`, never what it holds) and *permit undefined. */
int hr_permit_read(hr_permit *permit, const char *text, hirate_error *error);

/* Does the operation go by a permit, and look at no limit and name? */
static inline bool hr_op_uses_permit(enum hirate_op op)
{
    return op == HIRATE_OP_RELEASE || op == HIRATE_OP_RENEW || op == HIRATE_OP_COMMIT || op == HIRATE_OP_REFUND;
}

/* Is this operation, one that goes by a permit, for what this one stands for? 0, or HIRATE_EINVAL with *error. */
int hr_permit_check_op(const hr_permit *permit, enum hirate_op op, hirate_error *error);

#endif
