/* SPDX-License-Identifier: BSD-3-Clause */
/* policy: several limits decided together at one moment; see joint.h. */
#include "joint.h"

/* Does this part speak for the whole? Shadows do only where nobody else can. */
static bool counts(const hr_joint_part *part, bool only_shadows)
{
    return only_shadows || !part->shadow;
}

static bool all_are_shadows(const hr_joint_part *parts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!parts[i].shadow)
            return false;
    }
    return true;
}

static void add_part(hr_joint *joint, const hr_decision *decision, uint32_t i, bool first)
{
    hr_decision *whole = &joint->whole;
    bool denies = decision->verdict == HIRATE_DENIED, denied = whole->verdict == HIRATE_DENIED;

    if (first || (denies && (!denied || decision->retry_after_ms > whole->retry_after_ms)) ||
        (!denies && !denied && decision->remaining < whole->remaining))
        joint->bound = i;
    if (first || decision->remaining < whole->remaining)
        whole->remaining = decision->remaining;
    if (decision->retry_after_ms > whole->retry_after_ms)
        whole->retry_after_ms = decision->retry_after_ms;
    if (decision->reset_ms > whole->reset_ms)
        whole->reset_ms = decision->reset_ms;
    if (decision->delay_ms > whole->delay_ms)
        whole->delay_ms = decision->delay_ms;
    if (first || denies)
        whole->verdict = decision->verdict;
}

hr_joint hr_joint_sum_up(const hr_joint_part *parts, uint32_t count)
{
    const bool only_shadows = all_are_shadows(parts, count);
    hr_joint joint = {.whole.verdict = HIRATE_VERDICT_NONE};
    bool first = true;

    for (uint32_t i = 0; i < count; i++) {
        hr_decision decision = parts[i].decision;
        joint.shadows_denied += parts[i].shadow && decision.verdict == HIRATE_DENIED;
        if (!counts(&parts[i], only_shadows))
            continue;
        if (only_shadows) {
            decision.verdict = HIRATE_ALLOWED;
            decision.retry_after_ms = decision.delay_ms = 0;
        }
        add_part(&joint, &decision, i, first);
        first = false;
    }
    if (joint.whole.verdict == HIRATE_DENIED)
        joint.whole.delay_ms = 0;
    return joint;
}

static bool all_allow(const hr_joint_part *parts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!parts[i].shadow && parts[i].decision.verdict == HIRATE_DENIED)
            return false;
    }
    return true;
}

hr_joint hr_joint_decide(hr_joint_part *parts, uint32_t count, uint64_t cost, uint64_t hold_us)
{
    bool took = false;

    for (uint32_t i = 0; i < count; i++) {
        hr_moment tried = *parts[i].moment;
        parts[i].decision = hr_decide_hold(parts[i].policy, &tried, cost, hold_us);
    }
    const bool takes = all_allow(parts, count);
    for (uint32_t i = 0; i < count; i++) {
        hr_joint_part *part = &parts[i];
        part->took = false;
        if (part->decision.verdict == HIRATE_DENIED)
            continue;
        part->took = takes && cost > 0;
        part->decision = hr_decide_hold(part->policy, part->moment, takes ? cost : 0, hold_us);
        if (!takes)
            part->decision.delay_ms = 0;
        took |= part->took;
    }
    hr_joint joint = hr_joint_sum_up(parts, count);
    joint.took = took;
    return joint;
}
