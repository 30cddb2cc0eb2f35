/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: the leaky bucket: the token bucket used as a queue that drains at the rate.
 *
 * State, load, keep, store and expiry are the token bucket's (token_bucket.h), under kind 2. What is taken stands in a
 * queue; what is allowed is told when its turn comes: delay_ms, the reset_ms of just before taking, also for a cost of
 * 0.
 */
#ifndef HR_LEAKY_BUCKET_H
#define HR_LEAKY_BUCKET_H

#include "token_bucket.h"

/* As hr_token_bucket_take(), and delay_ms where it is allowed. */
hr_decision hr_leaky_bucket_take(const hr_policy *policy, hr_token_bucket_now *bucket, uint64_t cost);

#endif
