/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client: what the local engine does with a permit: release, renew, commit, refund.
 *
 * The permit says which name's entry, under which limit, and which of its leases or reservations. That one is looked
 * for among those that have not ended. Only if it is found, or a commit is late, something is stored: first the moment,
 * without what has ended, then the change.
 */
#include "error.h"
#include "local.h"

#include <string.h>

/* A permit, and what there is of it. */
typedef struct held {
    hr_permit permit;
    const hr_policy *policy;
    hr_local_key key;
    hr_local_entry *entry; /* NULL: nothing is stored */
    hr_moment moment;
    const hr_hold *hold; /* in the entry's list; NULL: not there, or it has ended */
    int64_t now_us;
} held;

/* Ids end with a random number that an engine draws for itself. */
static bool is_ours(const hirate_local *local, const hr_permit *permit)
{
    const size_t count_size = sizeof(uint32_t);
    return permit->prefix[0] == '\0' &&
           memcmp(permit->id + count_size, local->last_id + count_size, sizeof permit->id - count_size) == 0;
}

static int read_permit(const hirate_local *local, hr_permit *permit, const hirate_request *request, hirate_error *error)
{
    int rc = hr_permit_read(permit, request->permit, error);

    if (rc != 0)
        return rc;
    if (!is_ours(local, permit))
        return hr_fail(error, HIRATE_EINVAL, "permit: is %s; accepted: one that this engine gave",
                       permit->prefix[0] != '\0' ? "a client's"
                                                 : "another engine's, which took it without Redis and alone knows it");
    return hr_permit_check_op(permit, request->op, error);
}

static void bring_up(held *h)
{
    hr_state stored;

    if (h->entry != NULL)
        stored = hr_local_entry_state(h->entry);
    h->moment = hr_decide_load(h->policy, h->entry == NULL ? NULL : &stored, h->now_us);
}

/* Those that have not ended are the last of the list. */
static void find_hold(held *h)
{
    const hr_holds *left = h->policy->kind == HIRATE_KIND_CONCURRENCY ? &h->moment.concurrency.leases
                                                                      : &h->moment.window.window.reservations;

    h->hold = NULL;
    if (h->entry == NULL || left->count == 0)
        return;
    h->hold = hr_hold_list_find(&h->entry->as.window.holds, h->permit.id, h->permit.until_us);
    if (h->hold != NULL && h->hold < left->first)
        h->hold = NULL;
}

static int find(hirate_local *local, held *h, const hirate_request *request, hirate_error *error)
{
    int rc = read_permit(local, &h->permit, request, error);

    if (rc != 0)
        return rc;
    h->policy = hr_local_use_limit(local, HR_LOCAL_PERMIT, &h->permit.limit, error);
    if (h->policy == NULL)
        return HIRATE_EINVAL;
    h->key = hr_local_table_key(&local->table, h->policy, h->permit.name, h->permit.name_len);
    h->entry = hr_local_table_find(&local->table, &h->key, h->now_us);
    rc = hr_local_check_kind(h->entry, h->policy, error);
    if (rc != 0)
        return rc;
    bring_up(h);
    find_hold(h);
    return 0;
}

/* Store the moment: what has ended is dropped. It moves no hold, so that h->hold stays. */
static void store(held *h)
{
    hr_local_entry_store(h->entry, h->policy, &h->moment, NULL);
}

static void take_out(held *h)
{
    store(h);
    hr_hold_list_remove(&h->entry->as.window.holds, h->hold);
}

static uint64_t add_up(uint64_t used, uint64_t cost)
{
    return cost > HIRATE_COST_MAX - used ? HIRATE_COST_MAX : used + cost;
}

/* How things stand after it; what was changed expires by that, or is forgotten where nothing is left. */
static void finish(hirate_local *local, held *h, bool changed, hirate_result *result)
{
    bring_up(h);
    hr_decision decision = hr_decide_take(h->policy, &h->moment, 0);

    result->policy = h->policy->name;
    result->remaining = decision.remaining;
    result->reset_ms = decision.reset_ms;
    if (changed && decision.reset_ms == 0)
        hr_local_table_forget(&local->table, h->entry);
    else if (changed)
        hr_local_table_expire(&local->table, h->entry, h->now_us, decision.reset_ms);
}

/* A release or a refund: whether it was there. */
static void give_back(hirate_local *local, held *h, hirate_result *result)
{
    result->used = h->hold != NULL;
    if (h->hold != NULL)
        take_out(h);
    finish(local, h, result->used, result);
}

static void renew(hirate_local *local, held *h, hirate_result *result)
{
    bool found = h->hold != NULL;

    if (found) {
        store(h);
        hr_hold_list_move(&h->entry->as.window.holds, h->hold,
                          hr_concurrency_until_us(h->policy, &h->moment.concurrency));
    }
    result->verdict = found ? HIRATE_ALLOWED : HIRATE_DENIED;
    result->retry_after_ms = found ? 0 : HIRATE_NEVER;
    finish(local, h, found, result);
}

/* The reservation's time, or its window, is over: the current window is charged, also beyond the limit. */
static int commit_late(hirate_local *local, held *h, uint64_t cost)
{
    if (cost == 0)
        return 0;
    if (h->entry == NULL) {
        int rc = hr_local_table_add(&local->table, &h->key, h->policy->kind, h->now_us, &h->entry);

        if (rc != 0)
            return rc;
    }
    h->moment.window.window.used = add_up(h->moment.window.window.used, cost);
    store(h);
    return 0;
}

static int commit(hirate_local *local, held *h, hirate_result *result, hirate_error *error)
{
    const uint64_t cost = result->cost;
    bool found = h->hold != NULL;

    if (found) {
        take_out(h);
        h->entry->as.window.used = add_up(h->entry->as.window.used, cost);
    } else if (h->now_us < h->permit.until_us) {
        return hr_fail(error, HIRATE_ENOENT,
                       "permit: its reservation is gone before its time: committed, refunded or reset");
    } else {
        int rc = commit_late(local, h, cost);
        if (rc != 0)
            return hr_local_fail(local, rc, error);
        result->late = 1;
    }
    result->verdict = HIRATE_ALLOWED;
    if (cost > 0)
        result->charge = HIRATE_CHARGE_YES;
    finish(local, h, found || cost > 0, result);
    return 0;
}

static void answer_limit(hirate_local *local, const held *h, hirate_result *result)
{
    local->results[0] = (hirate_limit_result){
        .struct_size = sizeof local->results[0],
        .verdict = result->verdict,
        .policy_kind = h->policy->kind,
        .policy = result->policy,
        .remaining = result->remaining,
        .retry_after_ms = result->retry_after_ms,
        .reset_ms = result->reset_ms,
        .permit = "",
    };
    result->limits = local->results;
}

int hr_local_permit_decide(hirate_local *local, const hirate_request *request, hirate_result *result,
                           hirate_error *error)
{
    held h;

    h.now_us = result->time_us;
    int rc = find(local, &h, request, error);
    if (rc != 0)
        return rc;
    if (request->op == HIRATE_OP_COMMIT)
        rc = commit(local, &h, result, error);
    else if (request->op == HIRATE_OP_RENEW)
        renew(local, &h, result);
    else
        give_back(local, &h, result);
    if (rc == 0 && result->verdict != HIRATE_VERDICT_NONE)
        answer_limit(local, &h, result);
    return rc;
}
