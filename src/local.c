/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client: the local engine: the limits' pure functions over a table of states (local_table.h), in this process.
 *
 * It answers as the scripts do, field by field. What an acquire leaves behind is stored if something that was taken
 * still counts; a denied one, too, as the moment is part of the state.
 *
 * An acquire goes in steps, so that it takes from all of its limits or from none: every limit is decided on a copy of
 * its state; what each is to become follows from all of those; room is made for all of it, which may fail; then it is
 * stored, which cannot. What comes before the storing at most forgets names that nothing counts of any more.
 */
#include "local.h"

#include "check.h"
#include "error.h"
#include "joint.h"

#include <stdlib.h>
#include <string.h>

#define MAX_KEYS_MAX (UINT64_C(1) << 31)
/* The first size that hirate_result has had: up to `cause`. */
#define RESULT_VERSION_1 offsetof(hirate_result, permit)

/* One of a request's limits, and what it says. */
typedef struct asked {
    const hirate_limit *limit; /* the caller's */
    const hr_policy *policy;
    hr_local_key key;
    hr_local_entry *entry; /* NULL: nothing is stored */
    bool is_new;           /* the entry was added for this request */
    bool shadow;
    bool takes;       /* the cost is taken from it, if there is one */
    hr_moment moment; /* as it is to be stored */
    hr_decision decision;
} asked;

typedef struct several {
    const hirate_request *request;
    int64_t now_us;
    bool denied; /* by a limit that is no shadow */
    size_t count;
    asked of[HIRATE_PAIRS_MAX];
} several;

/* ------------------------------------------------------------------------------------------------ limits -- */

const hr_policy *hr_local_use_limit(hirate_local *local, size_t place, const hirate_limit *limit, hirate_error *error)
{
    hr_local_limit *last = &local->limits[place];

    if (last->value.policy != NULL && hr_limit_same(&last->value, limit))
        return &last->policy;
    if (hr_policy_compile(&last->policy, limit, error) != 0)
        return NULL;
    last->value = *limit;
    last->value.struct_size = sizeof last->value; /* what is beyond was looked at, and is zero */
    last->value.policy = last->policy.name;       /* the caller's text may go away */
    return &last->policy;
}

int hr_local_check_kind(const hr_local_entry *entry, const hr_policy *policy, hirate_error *error)
{
    if (entry == NULL || entry->kind == policy->kind)
        return 0;
    return hr_fail(
        error, HIRATE_ESTATE,
        "limit: the name is in use under a %s of this policy name; accepted: the same kind, or a reset first",
        hr_kind_name(entry->kind));
}

int hr_local_fail(const hirate_local *local, int rc, hirate_error *error)
{
    if (rc == HIRATE_EOVERLOAD)
        return hr_fail(error, rc, "max_keys: %zu names are in use; try again when some no longer are",
                       local->table.max_keys);
    return hr_fail(error, rc, "no memory to remember what is taken");
}

/* ----------------------------------------------------------------------------------------------- deciding -- */

static hirate_pair pair_of(const hirate_request *request, size_t i)
{
    return i > 0 ? request->more[i - 1] : (hirate_pair){request->limit, request->name, request->name_len};
}

static hr_moment load(const asked *a, int64_t now_us)
{
    hr_state stored;

    if (a->entry != NULL)
        stored = hr_local_entry_state(a->entry);
    return hr_decide_load(a->policy, a->entry == NULL ? NULL : &stored, now_us);
}

/* What this limit says for itself. */
static int ask(hirate_local *local, const several *s, size_t i, asked *a, hirate_error *error)
{
    const hirate_pair pair = pair_of(s->request, i);

    a->policy = hr_local_use_limit(local, i, pair.limit, error);
    if (a->policy == NULL)
        return HIRATE_EINVAL;
    a->limit = pair.limit;
    a->shadow = (pair.limit->flags & HIRATE_LIMIT_SHADOW) != 0;
    a->key = hr_local_table_key(&local->table, a->policy, pair.name, pair.name_len);
    a->entry = hr_local_table_find(&local->table, &a->key, s->now_us);
    a->is_new = false;
    int rc = hr_local_check_kind(a->entry, a->policy, error);
    if (rc != 0)
        return rc;
    a->moment = load(a, s->now_us);
    a->decision = hr_decide_hold(a->policy, &a->moment, s->request->cost, s->request->hold_us);
    a->takes = a->decision.verdict == HIRATE_ALLOWED;
    return 0;
}

/* It would have been allowed but is not taken from: as an acquire of nothing leaves it. */
static void take_nothing(const several *s, asked *a)
{
    a->moment = load(a, s->now_us);
    hr_decision kept = hr_decide_take(a->policy, &a->moment, 0);

    a->takes = false;
    a->decision.remaining = kept.remaining;
    a->decision.reset_ms = kept.reset_ms;
    a->decision.delay_ms = 0;
}

static int ask_all(hirate_local *local, several *s, hirate_error *error)
{
    for (size_t i = 0; i < s->count; i++) {
        int rc = ask(local, s, i, &s->of[i], error);

        if (rc != 0)
            return rc;
        s->denied = s->denied || (!s->of[i].shadow && !s->of[i].takes);
    }
    for (size_t i = 0; s->denied && i < s->count; i++)
        if (s->of[i].takes)
            take_nothing(s, &s->of[i]);
    return 0;
}

/* ------------------------------------------------------------------------------------------------ storing -- */

/* Is its share of the request a lease or a reservation? */
static bool makes_hold(const several *s, const asked *a)
{
    return a->takes && s->request->cost > 0 && hr_decide_holds(a->policy, s->request->hold_us);
}

static int reserve_permits(hirate_local *local, size_t count)
{
    if (count <= local->permit_room)
        return 0;
    char *permits = realloc(local->permits, count * HIRATE_PERMIT_SIZE);
    if (permits == NULL)
        return HIRATE_ENOMEM;
    local->permits = permits;
    local->permit_room = count;
    return 0;
}

static int reserve(hirate_local *local, const several *s, asked *a)
{
    if (a->decision.reset_ms == 0)
        return 0;
    if (a->entry == NULL) {
        int rc = hr_local_table_add(&local->table, &a->key, a->policy->kind, s->now_us, &a->entry);

        if (rc != 0)
            return rc;
        a->is_new = true;
    }
    return hr_local_entry_reserve(a->entry, &a->moment, makes_hold(s, a)) ? 0 : HIRATE_ENOMEM;
}

/* Have room for everything that is to be stored; on failure for nothing. */
static int reserve_all(hirate_local *local, several *s)
{
    size_t holds = 0;

    for (size_t i = 0; i < s->count; i++) {
        asked *a = &s->of[i];

        holds += makes_hold(s, a);
        if (a->decision.reset_ms == 0 && a->entry != NULL) {
            hr_local_table_forget(&local->table, a->entry);
            a->entry = NULL;
        }
    }
    int rc = reserve_permits(local, holds);
    for (size_t i = 0; rc == 0 && i < s->count; i++)
        rc = reserve(local, s, &s->of[i]);
    for (size_t i = 0; rc != 0 && i < s->count; i++)
        if (s->of[i].is_new)
            hr_local_table_forget(&local->table, s->of[i].entry);
    return rc;
}

/* A new seed now and then, as a count alone would come round. */
static void next_id(hirate_local *local, unsigned char id[HR_HOLD_ID_SIZE])
{
    uint32_t count;

    memcpy(&count, local->last_id, sizeof count);
    if (count++ == 0) {
        uint64_t seed = hr_hash_key_random().k0;
        memcpy(local->last_id + sizeof count, &seed, sizeof seed);
    }
    memcpy(local->last_id, &count, sizeof count);
    memcpy(id, local->last_id, sizeof local->last_id);
}

static void write_permit(char text[HIRATE_PERMIT_SIZE], const several *s, size_t i, const hr_hold *hold)
{
    const hirate_pair pair = pair_of(s->request, i);
    hr_permit permit;

    permit.limit = *pair.limit;
    permit.prefix[0] = '\0';
    memcpy(permit.id, hold->id, sizeof permit.id);
    permit.until_us = hold->until_us;
    permit.name_len = (uint16_t)pair.name_len;
    if (pair.name_len > 0)
        memcpy(permit.name, pair.name, pair.name_len);
    (void)hr_permit_write(text, &permit);
}

/* The permits of what is made go into the results. */
static void store_all(hirate_local *local, several *s)
{
    char *text = local->permits;
    hr_hold hold = {.units = s->request->cost};

    for (size_t i = 0; i < s->count; i++) {
        asked *a = &s->of[i];
        bool made = makes_hold(s, a);

        if (made) {
            if (text == local->permits)
                next_id(local, hold.id); /* one for all: they are of different names */
            hold.until_us = hr_decide_until_us(a->policy, &a->moment, s->request->hold_us);
            write_permit(text, s, i, &hold);
            local->results[i].permit = text;
            text += HIRATE_PERMIT_SIZE;
        }
        if (a->entry != NULL) {
            hr_local_entry_store(a->entry, a->policy, &a->moment, made ? &hold : NULL);
            hr_local_table_expire(&local->table, a->entry, s->now_us, a->decision.reset_ms);
        }
    }
}

/* ---------------------------------------------------------------------------------------------- answering -- */

static void answer_each(hirate_local *local, const several *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const asked *a = &s->of[i];

        local->results[i] = (hirate_limit_result){
            .struct_size = sizeof local->results[i],
            .verdict = a->decision.verdict,
            .shadow = a->shadow,
            .policy_kind = a->policy->kind,
            .policy = a->limit->policy,
            .remaining = a->decision.remaining,
            .retry_after_ms = a->decision.retry_after_ms,
            .reset_ms = a->decision.reset_ms,
            .delay_ms = a->decision.delay_ms,
            .permit = "",
        };
    }
}

static void answer_whole(const hirate_local *local, const several *s, hirate_result *result)
{
    hr_joint_part parts[HIRATE_PAIRS_MAX];

    for (size_t i = 0; i < s->count; i++) {
        const hirate_limit_result *one = &local->results[i];
        parts[i].shadow = s->of[i].shadow;
        parts[i].decision =
            (hr_decision){one->verdict, one->remaining, one->retry_after_ms, one->reset_ms, one->delay_ms};
    }
    const hr_joint joint = hr_joint_sum_up(parts, (uint32_t)s->count);
    result->verdict = joint.whole.verdict;
    result->remaining = joint.whole.remaining;
    result->retry_after_ms = joint.whole.retry_after_ms;
    result->reset_ms = joint.whole.reset_ms;
    result->delay_ms = joint.whole.delay_ms;
    result->policy = local->results[joint.bound].policy;
    result->shadow_denied = joint.shadows_denied;
    result->limits = local->results;
}

/* What is known once it was taken. */
static void answer_taken(const hirate_local *local, const several *s, hirate_result *result)
{
    for (size_t i = s->count; i-- > 0;) {
        if (s->of[i].takes && s->request->cost > 0)
            result->charge = HIRATE_CHARGE_YES;
        if (local->results[i].permit[0] != '\0')
            result->permit = local->results[i].permit;
    }
}

static int decide(hirate_local *local, const hirate_request *request, hirate_result *result, hirate_error *error)
{
    several s;

    s.request = request;
    s.now_us = result->time_us;
    s.denied = false;
    s.count = 1 + request->more_count;
    int rc = ask_all(local, &s, error);
    if (rc != 0)
        return rc;
    answer_each(local, &s);
    answer_whole(local, &s, result);
    if (request->op == HIRATE_OP_PEEK)
        return 0;
    rc = reserve_all(local, &s);
    if (rc != 0)
        return hr_local_fail(local, rc, error);
    store_all(local, &s);
    answer_taken(local, &s, result);
    return 0;
}

static int reset(hirate_local *local, const hirate_request *request, hirate_result *result, hirate_error *error)
{
    const hr_policy *policy = hr_local_use_limit(local, 0, request->limit, error);

    if (policy == NULL)
        return HIRATE_EINVAL;
    hr_local_key key = hr_local_table_key(&local->table, policy, request->name, request->name_len);
    hr_local_entry *entry = hr_local_table_find(&local->table, &key, result->time_us);
    result->policy = request->limit->policy;
    result->used = entry != NULL;
    if (entry != NULL)
        hr_local_table_forget(&local->table, entry);
    return 0;
}

/* ------------------------------------------------------------------------------------------------- the API -- */

static int check_call(const hirate_local *local, const hirate_request *request, int64_t now_us,
                      const hirate_result *result, hirate_error *error)
{
    if (local == NULL || result == NULL)
        return hr_fail(error, HIRATE_EINVAL, "%s: is NULL; accepted: a pointer", local == NULL ? "local" : "result");
    if (result->struct_size < RESULT_VERSION_1)
        return hr_fail(error, HIRATE_EINVAL, "result.struct_size: %u; accepted: from %zu, as hirate_result_init() sets",
                       (unsigned)result->struct_size, RESULT_VERSION_1);
    if (now_us < 0 || (uint64_t)now_us > HIRATE_COST_MAX)
        return hr_fail(error, HIRATE_EINVAL, "now_us: %lld is out of range; accepted: 0 to %llu", (long long)now_us,
                       (unsigned long long)HIRATE_COST_MAX);
    return hr_check_request(request, error);
}

int hirate_local_decide(hirate_local *local, const hirate_request *request, int64_t now_us, hirate_result *result,
                        hirate_error *error)
{
    hirate_result made;
    int rc = check_call(local, request, now_us, result, error);

    if (rc != 0)
        return rc;
    hirate_request room;
    const hirate_request *whole = hr_check_whole(request, &room);
    memset(&made, 0, sizeof made);
    made.struct_size = result->struct_size; /* still the caller's: what a newer caller has beyond ours stays */
    made.op = whole->op;
    made.source = HIRATE_SOURCE_LOCAL;
    made.charge = HIRATE_CHARGE_NO;
    made.cost = whole->cost;
    made.time_us = now_us;
    made.reason = made.permit = "";
    made.limit_count = 1 + (uint32_t)whole->more_count;
    if (hr_op_uses_permit(whole->op))
        rc = hr_local_permit_decide(local, whole, &made, error);
    else if (whole->op == HIRATE_OP_RESET)
        rc = reset(local, whole, &made, error);
    else
        rc = decide(local, whole, &made, error);
    if (rc == 0)
        memcpy(result, &made, made.struct_size < sizeof made ? RESULT_VERSION_1 : sizeof made);
    return rc;
}

int hirate_local_new(hirate_local **out, size_t max_keys)
{
    if (out == NULL || max_keys == 0 || max_keys > MAX_KEYS_MAX)
        return HIRATE_EINVAL;
    hirate_local *local = calloc(1, sizeof *local);
    if (local == NULL)
        return HIRATE_ENOMEM;
    int rc = hr_local_table_init(&local->table, max_keys);
    if (rc != 0)
        goto fail;
    *out = local;
    return 0;

fail:
    hirate_local_free(local);
    return rc;
}

void hirate_local_free(hirate_local *local)
{
    if (local == NULL)
        return;
    hr_local_table_free(&local->table);
    free(local->permits);
    free(local);
}
