/* SPDX-License-Identifier: BSD-3-Clause */
/* request: one call of the script; see call.h. */
#include "call.h"

#include <stdlib.h>

hr_call *hr_call_new(uint32_t key_most, uint32_t item_most)
{
    hr_call *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    call->keys = calloc(key_most, sizeof *call->keys);
    call->items = calloc(item_most, sizeof *call->items);
    if (call->keys && call->items)
        return call;
    hr_call_free(call);
    return NULL;
}

static void free_steps(hr_call *call)
{
    free(call->step_keys);
    free(call->steps);
    free(call->refs);
    call->step_keys = NULL;
    call->steps = NULL;
    call->refs = NULL;
}

int hr_call_make_room_for_steps(hr_call *call, uint32_t key_most, uint32_t item_most)
{
    if (call->refs)
        return 0;
    call->step_keys = calloc(key_most + HIRATE_PAIRS_MAX, sizeof *call->step_keys);
    call->steps = calloc(item_most, sizeof *call->steps);
    call->refs = calloc(item_most + HIRATE_PAIRS_MAX, sizeof *call->refs);
    if (call->step_keys && call->steps && call->refs)
        return 0;
    free_steps(call);
    return HIRATE_ENOMEM;
}

void hr_call_free(hr_call *call)
{
    if (!call)
        return;
    free_steps(call);
    free(call->keys);
    free(call->items);
    free(call);
}

bool hr_call_is_reset(const hr_call *call, const hr_call_key *entry)
{
    return call->items[entry->first].op == HIRATE_OP_RESET;
}

/* ------------------------------------------------------------------------------------------------- encoding -- */

/* What a cost not above the limit takes, in the script's units. */
static uint64_t units_of(uint64_t cost, const hr_policy *policy)
{
    bool is_bucket = policy->kind == HIRATE_KIND_TOKEN_BUCKET || policy->kind == HIRATE_KIND_LEAKY_BUCKET;
    return is_bucket ? cost * policy->p : cost;
}

/* Equal takes in a row are a run. Acquires that take nothing are one only in the first place, where it matters (see
 * lua/acquire.lua); later they do not interrupt one. Peeks are none, except where only the server can tell how long a
 * denial waits. */
bool hr_call_walk(hr_run_walk *walk, const hr_policy *policy, const hr_call_item *item)
{
    uint64_t units = item->cost > policy->capacity ? 0 : units_of(item->cost, policy);
    bool peek = item->op == HIRATE_OP_PEEK, nothing = units == 0;

    if (peek && (nothing || !hr_script_tells_waits(policy)))
        return false;
    if (nothing && walk->runs > 0)
        return false;
    if (walk->runs == 0 || walk->units != units || walk->op != item->op) {
        walk->runs++;
        walk->units = units;
        walk->op = item->op;
    }
    return true;
}

static bool only_peeks(const hr_call *call, const hr_call_key *entry)
{
    for (uint32_t i = 0; i < entry->count; i++) {
        if (call->items[entry->first + i].op != HIRATE_OP_PEEK)
            return false;
    }
    return true;
}

/* Where peeks are runs, they may come before an acquire that takes nothing. Then it is no run, and must be one all the
 * same, as it writes: at the end, where no other does. */
static bool needs_touch(const hr_call *call, const hr_call_key *entry, const hr_policy *policy)
{
    hr_run_walk walk = {0};

    for (uint32_t i = 0; i < entry->count; i++) {
        const hr_call_item *item = &call->items[entry->first + i];
        if (hr_call_walk(&walk, policy, item) && item->op == HIRATE_OP_ACQUIRE)
            return false;
    }
    return !only_peeks(call, entry);
}

/* Visit the runs; each is written if `out` is given. Returns how many there are. */
static uint32_t encode_runs(const hr_call *call, const hr_call_key *entry, hr_script_call *out)
{
    const hr_policy *policy = &entry->limit->policy;
    hr_run_walk walk = {0};
    uint32_t count = 0;

    for (uint32_t i = 0; i < entry->count; i++) {
        const hr_call_item *item = &call->items[entry->first + i];
        hr_run_walk before = walk;
        if (!hr_call_walk(&walk, policy, item))
            continue;
        if (walk.runs != before.runs && before.runs && out)
            hr_script_run(out, before.units, count);
        if (walk.runs != before.runs)
            count = 0;
        count += item->op == HIRATE_OP_ACQUIRE;
    }
    if (walk.runs && out)
        hr_script_run(out, walk.units, count);
    return walk.runs;
}

/* The most frequent entry: acquires that take the same, one run. */
static void encode_alike(const hr_call_key *entry, uint64_t units, hr_script_call *out)
{
    if (entry->count == 1) {
        hr_script_one(out, units);
        return;
    }
    hr_script_acquires(out, 1);
    hr_script_run(out, units, entry->count);
}

static void encode_entry(const hr_call *call, hr_call_key *entry, hr_script_call *out)
{
    hr_script_key(out, entry->key->text, entry->key->len);
    if (hr_call_is_reset(call, entry)) {
        hr_script_reset(out);
        return;
    }
    const hr_policy *policy = &entry->limit->policy;
    const uint64_t cost = call->items[entry->first].cost;
    if (entry->alike && cost && cost <= policy->capacity) {
        entry->runs = 1;
        encode_alike(entry, units_of(cost, policy), out);
        return;
    }
    bool touch = hr_script_tells_waits(policy) && needs_touch(call, entry, policy);
    uint32_t runs = encode_runs(call, entry, NULL);
    entry->runs = runs + touch;
    if (entry->runs == 0) {
        hr_script_peek(out);
        return;
    }
    hr_script_acquires(out, entry->runs);
    encode_runs(call, entry, out);
    if (touch)
        hr_script_run(out, 0, 1);
}

static void encode_entries(hr_call *call, hr_script_call *out)
{
    for (uint32_t i = 0; i < call->key_count;) {
        const hr_limit *limit = call->keys[i].limit;
        uint32_t end = i + 1;
        while (end < call->key_count && call->keys[end].limit == limit)
            end++;
        hr_script_limit(out, &limit->policy, end - i);
        for (; i < end; i++)
            encode_entry(call, &call->keys[i], out);
    }
}

static void encode_step_keys(const hr_call *call, hr_script_call *out)
{
    for (uint32_t i = 0; i < call->step_key_count;) {
        const hr_limit *limit = call->step_keys[i].limit;
        uint32_t end = i + 1;
        while (end < call->step_key_count && call->step_keys[end].limit == limit)
            end++;
        hr_script_limit(out, &limit->policy, end - i);
        for (; i < end; i++)
            hr_script_key(out, call->step_keys[i].key->text, call->step_keys[i].key->len);
    }
}

static void encode_ref(const hr_step *step, const hr_step_ref *ref, hr_script_call *out)
{
    const hr_policy *policy = &ref->limit->policy;
    hr_script_ref(out, ref->key, step->cost > policy->capacity ? HR_SCRIPT_TOO_MUCH : units_of(step->cost, policy));
}

static void encode_step(const hr_call *call, const hr_step *step, hr_script_call *out)
{
    enum hirate_op op = (enum hirate_op)step->op;
    if (op != HIRATE_OP_ACQUIRE && op != HIRATE_OP_PEEK) {
        hr_script_permit(out, op, call->refs[step->first].key, step->id, step->cost, step->until_us);
        return;
    }
    const hr_step_ref *refs = &call->refs[step->first];
    uint32_t real = 0;
    while (real < step->count && !refs[real].shadow)
        real++;
    if (op == HIRATE_OP_PEEK)
        hr_script_look(out, real, step->count - real);
    else
        hr_script_take(out, step->holds ? step->id : NULL, step->hold_us, real, step->count - real);
    for (uint32_t i = 0; i < step->count; i++)
        encode_ref(step, &refs[i], out);
}

int hr_call_encode(hr_call *call, hr_script_call *out)
{
    hr_script_begin(out, call->number);
    encode_entries(call, out);
    if (call->step_count)
        hr_script_steps(out);
    encode_step_keys(call, out);
    for (uint32_t i = 0; i < call->step_count; i++)
        encode_step(call, &call->steps[i], out);
    return hr_script_finish(out, call->how);
}
