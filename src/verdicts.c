/* SPDX-License-Identifier: BSD-3-Clause */
/* request: a call's reply, made into the answers of its requests; see verdicts.h. */
#include "verdicts.h"

#include "answers.h"
#include "joint.h"
#include "permit.h"

#include <string.h>

/* Why, where the reason is always the same. */
static const char FOREIGN[] = "the key holds something that is not this kind of limit's state";
static const char REFUSED_HERE[] = "the server refused a command on this key, after others of the same call";

/* -------------------------------------------------------------------------------------------------- entries -- */

static void note_denial(hr_dispatch *dispatch, const hr_call *call, const hr_call_key *entry, const hr_call_item *item,
                        const hr_decision *decision)
{
    hr_denial denial = {
        .cost = item->cost,
        .remaining = decision->remaining,
        .until_us = call->sent_us + decision->retry_after_ms * 1000 - HR_DENIALS_EARLY_US,
        .reset_us = call->sent_us + decision->reset_ms * 1000,
    };
    hr_batch_note_denial(&dispatch->batch, entry, denial);
}

static void answer_decided(hr_dispatch *dispatch, hr_request **asked, const hr_decision *decision, bool took,
                           int64_t now_us)
{
    hr_request *request = *asked;
    if (!request)
        return;
    request->answer = (hr_answer){
        .verdict = decision->verdict,
        .source = HIRATE_SOURCE_REDIS,
        .charge = took ? HIRATE_CHARGE_YES : HIRATE_CHARGE_NO,
        .remaining = decision->remaining,
        .retry_after_ms = decision->retry_after_ms,
        .reset_ms = decision->reset_ms,
        .delay_ms = decision->delay_ms,
        .time_us = now_us,
        .text = "",
    };
    *asked = NULL;
    hr_requests_answered(&dispatch->requests, request);
}

/* Before the wait is over, as what is reserved may be refunded. */
static bool may_come_back(const hr_policy *policy, const hr_moment *moment)
{
    return policy->kind == HIRATE_KIND_QUOTA && moment->window.window.held > 0;
}

/* Repeat, item by item, what the script has decided. */
static void decide_entry(hr_dispatch *dispatch, hr_call *call, const hr_call_key *entry, const hr_script_found *found,
                         int64_t now_us)
{
    const hr_policy *policy = &entry->limit->policy;
    bool remembers = (entry->limit->value.flags & HIRATE_LIMIT_CACHE_DENIALS) != 0;
    const bool tells_waits = hr_script_tells_waits(policy);
    hr_moment moment = found->moment, copy;
    hr_script_stand_in stand_in;
    hr_run_walk walk = {0};

    for (uint32_t i = 0; i < entry->count; i++) {
        hr_call_item *item = &call->items[entry->first + i];
        bool peek = item->op == HIRATE_OP_PEEK;
        if (tells_waits && (hr_call_walk(&walk, policy, item) || walk.runs))
            hr_script_set_wait(policy, &moment, hr_script_wait(found->waits, walk.runs - 1), &stand_in);
        if (peek)
            copy = moment;
        hr_decision decision = hr_decide_take(policy, peek ? &copy : &moment, item->cost);
        if (!peek) {
            hr_decide_keep(policy, &moment, now_us);
            if (remembers && decision.verdict == HIRATE_DENIED && decision.retry_after_ms != HIRATE_NEVER &&
                !may_come_back(policy, &moment))
                note_denial(dispatch, call, entry, item, &decision);
        }
        answer_decided(dispatch, &item->request, &decision,
                       decision.verdict == HIRATE_ALLOWED && !peek && item->cost, now_us);
    }
}

static void answer_entry(hr_dispatch *dispatch, hr_call *call, const hr_call_key *entry, const hr_script_found *found,
                         int64_t now_us)
{
    if (found->what == HR_FOUND_MOMENT) {
        decide_entry(dispatch, call, entry, found, now_us);
        return;
    }
    for (uint32_t i = 0; i < entry->count; i++) {
        hr_request *request = call->items[entry->first + i].request;
        hr_answer with = {.time_us = now_us, .text = FOREIGN};
        if (!request)
            continue;
        if (found->what == HR_FOUND_RESET) {
            with.source = HIRATE_SOURCE_REDIS;
            with.used = found->used;
            with.text = "";
        } else if (found->what == HR_FOUND_FOREIGN) {
            with.error = HIRATE_ESTATE;
        } else {
            with.error = HIRATE_EREDIS;
            with.text = REFUSED_HERE;
        }
        hr_answer_with(dispatch, request, with);
    }
}

static hr_script_found next_found(hr_script_reply *reply, const hr_call *call, const hr_call_key *entry)
{
    return hr_call_is_reset(call, entry) ? hr_script_next_reset(reply)
                                         : hr_script_next(reply, &entry->limit->policy, entry->runs);
}

/* ---------------------------------------------------------------------------------------------------- steps -- */

static const hr_policy *policy_of(const hr_step_ref *ref)
{
    return &ref->limit->policy;
}

/* What was found instead of a state for one of the step's keys; HR_FOUND_MOMENT: all are well. */
static enum hr_script_what found_of(const hr_call *call, const hr_step *step)
{
    enum hr_script_what found = HR_FOUND_MOMENT;
    for (uint32_t i = 0; i < step->count && found == HR_FOUND_MOMENT; i++)
        found = call->step_keys[call->refs[step->first + i].key].found;
    return found;
}

static enum hr_script_what written_of(const hr_call *call, const hr_step *step)
{
    enum hr_script_what written = HR_FOUND_MOMENT;
    for (uint32_t i = 0; i < step->count && written == HR_FOUND_MOMENT; i++)
        written = call->step_keys[call->refs[step->first + i].key].written;
    return written;
}

/* Only the keys that were not what they should be: an error for what asked for them, and for nothing else. */
static void answer_exception(hr_dispatch *dispatch, const hr_step *step, enum hr_script_what what,
                             enum hirate_charge charge, int64_t now_us)
{
    bool foreign = what == HR_FOUND_FOREIGN;
    hr_answer with = {.error = foreign ? HIRATE_ESTATE : HIRATE_EREDIS,
                      .charge = charge,
                      .time_us = now_us,
                      .text = foreign ? FOREIGN : REFUSED_HERE};
    if (step->request)
        hr_answer_with(dispatch, step->request, with);
}

static void write_permit(hr_part *part, const hr_step *step, int64_t until_us)
{
    const hr_limit *limit = part->ticket.limit;
    const hr_key *key = part->ticket.key;
    hr_permit permit = {.limit = limit->value, .until_us = until_us};
    size_t prefix_len = (size_t)(limit->prefix_len - limit->policy.name_len - 2); /* PREFIX:POLICY: */

    memcpy(permit.prefix, limit->prefix, prefix_len);
    memcpy(permit.id, step->id, sizeof permit.id);
    permit.name_len = (uint16_t)(key->len - key->prefix_len);
    memcpy(permit.name, key->text + key->prefix_len, permit.name_len);
    hr_permit_write(part->permit, &permit);
}

/* What the limits said, in the request. */
static void keep_parts(const hr_call *call, const hr_step *step, const hr_joint_part *said, const hr_joint *joint)
{
    hr_extra *extra = step->request->extra;

    extra->decided = true;
    extra->shadows_denied = joint->shadows_denied;
    for (uint32_t i = 0; i < step->count; i++) {
        const hr_step_ref *ref = &call->refs[step->first + i];
        hr_part *part = &extra->parts[ref->part];
        part->decision = said[i].decision;
        part->took = said[i].took;
        if (i == joint->bound)
            extra->bound = ref->part;
        if (part->took && part->permit && step->op == HIRATE_OP_ACQUIRE)
            write_permit(part, step, hr_decide_until_us(policy_of(ref), said[i].moment, step->hold_us));
    }
}

/* Set up what the step is decided with: of a peek copies. */
static bool load_parts(hr_call *call, const hr_step *step, hr_script_reply *reply, hr_joint_part *parts,
                       hr_moment *copies, hr_script_stand_in *stand_ins)
{
    for (uint32_t i = 0; i < step->count; i++) {
        const hr_step_ref *ref = &call->refs[step->first + i];
        hr_moment *moment = &call->step_keys[ref->key].moment;
        int64_t wait_us;
        if (step->op == HIRATE_OP_PEEK) {
            copies[i] = *moment;
            moment = &copies[i];
        }
        if (hr_script_tells_waits(policy_of(ref))) {
            if (!hr_script_next_wait(reply, &wait_us))
                return false;
            hr_script_set_wait(policy_of(ref), moment, wait_us, &stand_ins[i]);
        }
        parts[i] = (hr_joint_part){.policy = policy_of(ref), .shadow = ref->shadow, .moment = moment};
    }
    return true;
}

/* Among equals the first in the request's order is the one that bound; the script's order has the shadows last. */
static void decide_step(hr_dispatch *dispatch, hr_call *call, hr_step *step, hr_script_reply *reply)
{
    hr_joint_part parts[HIRATE_PAIRS_MAX];
    hr_moment copies[HIRATE_PAIRS_MAX];
    hr_script_stand_in stand_ins[HIRATE_PAIRS_MAX];

    if (!load_parts(call, step, reply, parts, copies, stand_ins))
        return;
    hr_joint joint = hr_joint_decide(parts, step->count, step->cost, step->hold_us);
    bool peek = step->op == HIRATE_OP_PEEK;
    for (uint32_t i = 0; i < step->count && !peek; i++)
        hr_decide_keep(parts[i].policy, parts[i].moment, reply->now_us);
    if (!step->request)
        return;
    enum hr_script_what written = peek ? HR_FOUND_MOMENT : written_of(call, step);
    if (written != HR_FOUND_MOMENT) {
        bool maybe = joint.took && step->count > 1;
        answer_exception(dispatch, step, written, maybe ? HIRATE_CHARGE_MAYBE : HIRATE_CHARGE_NO, reply->now_us);
        return;
    }
    if (step->request->extra)
        keep_parts(call, step, parts, &joint);
    answer_decided(dispatch, &step->request, &joint.whole, joint.took && !peek, reply->now_us);
}

static void answer_permit(hr_dispatch *dispatch, hr_step *step, enum hr_script_outcome outcome, const hr_decision *now,
                          int64_t now_us)
{
    bool gone = outcome == HR_OUTCOME_GONE;
    hr_answer with = {.source = HIRATE_SOURCE_REDIS,
                      .remaining = now->remaining,
                      .reset_ms = now->reset_ms,
                      .time_us = now_us,
                      .used = !gone && (step->op == HIRATE_OP_RELEASE || step->op == HIRATE_OP_REFUND),
                      .text = ""};
    hr_request *request = step->request;

    if (step->op == HIRATE_OP_RENEW) {
        with.verdict = gone ? HIRATE_DENIED : HIRATE_ALLOWED;
        with.retry_after_ms = gone ? HIRATE_NEVER : 0;
    } else if (step->op == HIRATE_OP_COMMIT && gone) {
        with = (hr_answer){.error = HIRATE_ENOENT, .time_us = now_us, .text = HR_REASON_GONE};
    } else if (step->op == HIRATE_OP_COMMIT) {
        with.verdict = HIRATE_ALLOWED;
        with.charge = step->cost ? HIRATE_CHARGE_YES : HIRATE_CHARGE_NO;
        with.late = outcome == HR_OUTCOME_LATE;
    }
    if (!request)
        return;
    step->request = NULL;
    hr_requests_answer(&dispatch->requests, request, &with);
}

static void use_permit(hr_dispatch *dispatch, hr_call *call, hr_step *step, hr_script_reply *reply)
{
    hr_step_key *key = &call->step_keys[call->refs[step->first].key];
    const hr_policy *policy = policy_of(&call->refs[step->first]);
    enum hr_script_outcome outcome;

    if (!hr_script_next_outcome(reply, &outcome))
        return;
    key->moment = hr_script_next(reply, policy, 0).moment;
    hr_moment copy = key->moment;
    hr_decision now = hr_decide_take(policy, &copy, 0);
    if (key->written == HR_FOUND_MOMENT)
        answer_permit(dispatch, step, outcome, &now, reply->now_us);
    else
        answer_exception(dispatch, step, key->written, HIRATE_CHARGE_NO, reply->now_us);
}

static void answer_steps(hr_dispatch *dispatch, hr_call *call, hr_script_reply *reply)
{
    for (uint32_t i = 0; i < call->step_key_count; i++)
        hr_script_next(reply, &call->step_keys[i].limit->policy, 0); /* the check has kept it */
    for (uint32_t i = 0; i < call->step_count; i++) {
        hr_step *step = &call->steps[i];
        enum hr_script_what found = found_of(call, step);
        if (found != HR_FOUND_MOMENT)
            answer_exception(dispatch, step, found, HIRATE_CHARGE_NO, reply->now_us);
        else if (hr_op_uses_permit((enum hirate_op)step->op))
            use_permit(dispatch, call, step, reply);
        else
            decide_step(dispatch, call, step, reply);
    }
}

/* ------------------------------------------------------------------------------------------------- the whole -- */

static bool check_entries(const hr_call *call, hr_script_reply *rest)
{
    for (uint32_t i = 0; i < call->key_count; i++) {
        if (next_found(rest, call, &call->keys[i]).what == HR_FOUND_INVALID)
            return false;
    }
    return true;
}

static bool check_step(const hr_call *call, const hr_step *step, hr_script_reply *rest)
{
    enum hr_script_outcome outcome;
    int64_t wait_us;

    if (found_of(call, step) != HR_FOUND_MOMENT)
        return true;
    if (hr_op_uses_permit((enum hirate_op)step->op))
        return hr_script_next_outcome(rest, &outcome) &&
               hr_script_next(rest, policy_of(&call->refs[step->first]), 0).what == HR_FOUND_MOMENT;
    for (uint32_t i = 0; i < step->count; i++) {
        if (hr_script_tells_waits(policy_of(&call->refs[step->first + i])) && !hr_script_next_wait(rest, &wait_us))
            return false;
    }
    return true;
}

static bool check_steps(hr_call *call, hr_script_reply *rest)
{
    for (uint32_t i = 0; i < call->step_key_count; i++) {
        hr_step_key *key = &call->step_keys[i];
        hr_script_found found = hr_script_next(rest, &key->limit->policy, 0);
        if (found.what == HR_FOUND_INVALID)
            return false;
        key->found = found.what;
        key->moment = found.moment;
    }
    for (uint32_t i = 0; i < call->step_count; i++) {
        if (!check_step(call, &call->steps[i], rest))
            return false;
    }
    for (uint32_t i = 0; i < call->step_key_count; i++) {
        if (!hr_script_next_written(rest, &call->step_keys[i].written))
            return false;
    }
    return true;
}

bool hr_verdicts_check(hr_call *call, const hr_link_reply *reply, hr_script_reply *out)
{
    if (!reply->is_string || !hr_script_reply_begin(out, reply->data, reply->len, call->number))
        return false;
    hr_script_reply rest = *out;
    return check_entries(call, &rest) && check_steps(call, &rest) && hr_script_reply_ended(&rest);
}

void hr_verdicts_answer(hr_dispatch *dispatch, hr_call *call, hr_script_reply reply)
{
    for (uint32_t i = 0; i < call->key_count; i++) {
        hr_script_found found = next_found(&reply, call, &call->keys[i]);
        answer_entry(dispatch, call, &call->keys[i], &found, reply.now_us);
    }
    answer_steps(dispatch, call, &reply);
}
