/* SPDX-License-Identifier: BSD-3-Clause */
/* policy: the leaky bucket; see leaky_bucket.h. */
#include "leaky_bucket.h"

hr_decision hr_leaky_bucket_take(const hr_policy *policy, hr_token_bucket_now *bucket, uint64_t cost)
{
    int64_t queued_ms = hr_token_bucket_reset_ms(policy, bucket);
    hr_decision decision = hr_token_bucket_take(policy, bucket, cost);

    if (decision.verdict == HIRATE_ALLOWED)
        decision.delay_ms = queued_ms;
    return decision;
}
