/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests: what the state machine hears from the server and from the client, each held against the other (see
 * machine.h).
 */
#include "machine.h"

#include <string.h>

static bool is_permit(enum hirate_op op)
{
    return op >= HIRATE_OP_RELEASE;
}

static int policy_index(const char *name)
{
    for (int i = 0; i < POLICIES; i++) {
        if (strcmp(POLICY_NAMES[i], name) == 0)
            return i;
    }
    return -1;
}

/* Has the server taken it? Where a key could not be written, at most from others. */
static bool is_taken(const outcome *o)
{
    if (!o->times || (o->what.unwritten && o->what.count == 1))
        return false;
    return o->what.op == HIRATE_OP_COMMIT ? o->what.done && o->what.cost
                                          : o->what.joint.took && o->what.op == HIRATE_OP_ACQUIRE;
}

/* --------------------------------------------------------------------------------------- what the server says -- */

static held_permit *permit_of(machine *m, const unsigned char *id, enum hirate_op op)
{
    bool lease = op == HIRATE_OP_RELEASE || op == HIRATE_OP_RENEW;
    for (size_t i = 0; i < m->permit_count; i++) {
        held_permit *p = &m->permits[i];
        if (p->lease == lease && !p->local && memcmp(p->id, id, sizeof p->id) == 0)
            return p;
    }
    return NULL;
}

/* What was told belongs to whom it was told: only who asks for it, and once. */
static void on_permit_used(machine *m, const decided *what)
{
    held_permit *p = permit_of(m, what->id, what->op);
    if (!p) {
        CHECK(m, what->op == HIRATE_OP_RELEASE || what->op == HIRATE_OP_REFUND, "a permit was used that nobody had");
        return; /* what nobody was told of was given back */
    }
    if (what->unwritten) {
        p->asked[what->op]--;
        return;
    }
    bool ends = what->done == 1 && what->op != HIRATE_OP_RENEW;
    CHECK(m, what->done != 1 || !(p->done[HIRATE_OP_RELEASE] + p->done[HIRATE_OP_COMMIT] + p->done[HIRATE_OP_REFUND]),
          "something ended for the second time, or was renewed after its end");
    p->done[what->op] += ends || what->op == HIRATE_OP_RENEW ? what->done == 1 : 0;
    p->gone[what->op] += what->done != 1;
    CHECK(m, p->done[what->op] + p->gone[what->op] <= p->asked[what->op],
          "a permit was used more often than was asked for");
}

static void check_same_request(const machine *m, const asked *a, const decided *what)
{
    bool found = a->op == what->op && (is_permit(a->op) || a->count == what->count);
    for (size_t i = 0; found && i < what->count && !is_permit(a->op); i++) {
        const decided_key *key = &what->keys[i];
        bool has = false;
        for (uint32_t j = 0; j < a->count; j++) {
            has |= policy_index(key->policy) == a->pairs[j].policy && key->name[0] == a->pairs[j].name &&
                   !key->name[1] && key->shadow == ((machine_limit(&a->pairs[j])->flags & HIRATE_LIMIT_SHADOW) != 0);
        }
        found = has;
    }
    CHECK(m, found, "cost %llu was decided, but not as asked", (unsigned long long)what->cost);
}

/* Per key in the order of submission. */
static void check_order(machine *m, const asked *a, const decided *what)
{
    int index = (int)(a - m->asked);
    for (size_t i = 0; i < what->count && !is_permit(what->op); i++) {
        int policy = policy_index(what->keys[i].policy);
        int *last = &m->last_decided[policy][what->keys[i].name[0] - '0'];
        CHECK(m, index > *last || a->disturbances != m->disturbances,
              "request %d was decided on %s:%c after request %d", index, POLICY_NAMES[policy], what->keys[i].name[0],
              *last);
        *last = index;
    }
}

void machine_on_decided(void *arg, const decided *what)
{
    machine *m = arg;
    const decided_key *key = &what->keys[0];

    if (is_permit(what->op))
        on_permit_used(m, what);
    if (policy_index(key->policy) == SMALL) {
        m->alike_took[key->name[0] - '2'] += key->took && !what->unwritten;
        return;
    }
    if (!what->cost || what->cost >= COSTS)
        return;
    outcome *o = &m->outcomes[what->cost];
    CHECK(m, m->asked_for[what->cost] >= 0, "the server decided what nobody asked for: cost %llu",
          (unsigned long long)what->cost);
    const asked *a = &m->asked[m->asked_for[what->cost]];
    CHECK(m, !o->times, "cost %llu was decided twice", (unsigned long long)what->cost);
    o->times++;
    o->what = *what;
    check_same_request(m, a, what);
    CHECK(m, !a->calls || a->charge != HIRATE_CHARGE_NO || !is_taken(o),
          "cost %llu was taken after it was told not to be", (unsigned long long)what->cost);
    check_order(m, a, what);
}

/* ------------------------------------------------------------------------------------------------- permits told -- */

static void keep_permit(machine *m, const char *text)
{
    hr_permit permit;

    CHECK(m, hr_permit_read(&permit, text, NULL) == 0, "a permit that cannot be read");
    if (m->permit_count == PERMITS_MOST)
        return;
    held_permit *p = &m->permits[m->permit_count++];
    *p = (held_permit){.lease = permit.limit.kind == HIRATE_KIND_CONCURRENCY, .local = !permit.prefix[0]};
    memcpy(p->id, permit.id, sizeof p->id);
    memcpy(p->text, text, strlen(text) + 1);
}

static void keep_permits(machine *m, const hirate_result *r)
{
    for (uint32_t i = 0; i < r->limit_count; i++) {
        const hirate_limit_result *limit = hirate_result_limit(r, i);
        if (limit && limit->permit[0])
            keep_permit(m, limit->permit);
    }
    if (!r->limits && r->permit[0])
        keep_permit(m, r->permit);
}

static void check_permit_told(const machine *m, const hirate_limit_result *told, const decided *what,
                              const decided_key *key)
{
    hr_permit permit;

    CHECK(m, (told->permit[0] != 0) == (key->until_us != 0), "a permit for nothing, or something without one");
    if (!told->permit[0])
        return;
    CHECK(m, hr_permit_read(&permit, told->permit, NULL) == 0, "a permit that cannot be read");
    CHECK(m,
          memcmp(permit.id, what->id, sizeof permit.id) == 0 && permit.until_us == key->until_us &&
              strcmp(permit.policy, told->policy) == 0 && permit.name_len == 1 && permit.name[0] == key->name[0],
          "another permit");
}

/* ------------------------------------------------------------------------------------------------ verdicts told -- */

static bool same(const hr_decision *d, enum hirate_verdict verdict, uint64_t remaining, int64_t retry_after_ms,
                 int64_t reset_ms, int64_t delay_ms)
{
    return d->verdict == verdict && d->remaining == remaining && d->retry_after_ms == retry_after_ms &&
           d->reset_ms == reset_ms && d->delay_ms == delay_ms;
}

static void check_limit(const machine *m, const hirate_result *r, const decided *what, const decided_key *key)
{
    const hirate_limit_result *told = NULL;

    for (uint32_t i = 0; i < r->limit_count; i++) {
        const hirate_limit_result *limit = hirate_result_limit(r, i);
        if (limit && strcmp(limit->policy, key->policy) == 0)
            told = limit;
    }
    CHECK(m, told != NULL, "a limit that says nothing");
    CHECK(m,
          same(&key->decision, told->verdict, told->remaining, told->retry_after_ms, told->reset_ms, told->delay_ms) &&
              (bool)told->shadow == key->shadow,
          "cost %llu, limit %s: told %d %llu %lld %lld %lld, not %d %llu %lld %lld %lld", (unsigned long long)r->cost,
          told->policy, (int)told->verdict, (unsigned long long)told->remaining, (long long)told->retry_after_ms,
          (long long)told->reset_ms, (long long)told->delay_ms, (int)key->decision.verdict,
          (unsigned long long)key->decision.remaining, (long long)key->decision.retry_after_ms,
          (long long)key->decision.reset_ms, (long long)key->decision.delay_ms);
    check_permit_told(m, told, what, key);
}

/* To the last figure what the server reached. */
static void check_decided(const machine *m, const asked *a, const hirate_result *r)
{
    const outcome *o = &m->outcomes[a->cost];
    const decided *what = &o->what;
    const hr_decision *whole = &what->joint.whole;

    if (!o->times && a->op == HIRATE_OP_PEEK && a->count == 1)
        return; /* the script was not told its cost */
    CHECK(m, o->times == 1 && !what->unwritten, "cost %llu has a verdict that Redis did not reach",
          (unsigned long long)a->cost);
    CHECK(m,
          same(whole, r->verdict, r->remaining, r->retry_after_ms, r->reset_ms, r->delay_ms) &&
              r->time_us == what->now_us,
          "cost %llu: told %d %llu %lld %lld %lld at %lld, not %d %llu %lld %lld %lld at %lld",
          (unsigned long long)a->cost, (int)r->verdict, (unsigned long long)r->remaining, (long long)r->retry_after_ms,
          (long long)r->reset_ms, (long long)r->delay_ms, (long long)r->time_us, (int)whole->verdict,
          (unsigned long long)whole->remaining, (long long)whole->retry_after_ms, (long long)whole->reset_ms,
          (long long)whole->delay_ms, (long long)what->now_us);
    CHECK(m, (r->charge == HIRATE_CHARGE_YES) == is_taken(o), "cost %llu: another charge", (unsigned long long)a->cost);
    CHECK(m, r->limit_count == a->count && r->shadow_denied == what->joint.shadows_denied, "other shadows");
    CHECK(m, strcmp(r->policy, what->keys[what->joint.bound].policy) == 0, "cost %llu: %s did not bind",
          (unsigned long long)a->cost, r->policy);
    for (size_t i = 0; i < what->count; i++)
        check_limit(m, r, what, &what->keys[i]);
}

static bool only_shadows(const asked *a)
{
    for (uint32_t i = 0; i < a->count; i++) {
        if (!(machine_limit(&a->pairs[i])->flags & HIRATE_LIMIT_SHADOW))
            return false;
    }
    return true;
}

/* What needs no asking: nothing at all, or more than fits. */
static void check_plain(const machine *m, const asked *a, const hirate_result *r)
{
    uint64_t capacity = a->alike ? SMALL_CAPACITY : 40 * CAPACITY;
    if (a->op == HIRATE_OP_ACQUIRE && !only_shadows(a))
        CHECK(m, (r->charge == HIRATE_CHARGE_YES) == (r->verdict == HIRATE_ALLOWED && a->cost),
              "verdict and charge differ");
    if (a->op != HIRATE_OP_ACQUIRE)
        CHECK(m, r->charge == HIRATE_CHARGE_NO, "a charge for what takes nothing");
    if (!a->cost && a->op != HIRATE_OP_RESET)
        CHECK(m, r->verdict == HIRATE_ALLOWED && r->charge == HIRATE_CHARGE_NO, "nothing is denied, or charged");
    if (a->op != HIRATE_OP_RESET && a->cost > capacity && !only_shadows(a))
        CHECK(m, r->verdict == HIRATE_DENIED && r->retry_after_ms == HIRATE_NEVER, "more than fits, and not never");
    if (a->op != HIRATE_OP_RESET && a->cost > capacity && only_shadows(a))
        CHECK(m, r->verdict == HIRATE_ALLOWED && r->shadow_denied == a->count, "a shadow denies, or does not say so");
}

static void check_permit_answer(machine *m, const asked *a, const hirate_result *r)
{
    const held_permit *p = &m->permits[a->permit];
    bool done = a->op == HIRATE_OP_RENEW ? r->verdict == HIRATE_ALLOWED : r->used != 0;

    m->permits_used++;
    CHECK(m, p->local == (r->source == HIRATE_SOURCE_LOCAL), "a permit that was used elsewhere");
    if (a->op != HIRATE_OP_COMMIT) {
        CHECK(m, r->charge == HIRATE_CHARGE_NO, "a charge for what gives back");
        CHECK(m, p->local || (done ? p->done : p->gone)[a->op] > 0, "a permit is told to be what it was not");
        return;
    }
    CHECK(m, r->verdict == HIRATE_ALLOWED && r->charge == HIRATE_CHARGE_YES, "a commit without a charge");
    if (p->local)
        return;
    const outcome *o = &m->outcomes[a->cost];
    CHECK(m, o->times == 1 && !o->what.unwritten && o->what.done && r->late == (o->what.done == 2),
          "a commit that was not, or not late");
    CHECK(m, r->remaining == o->what.joint.whole.remaining && r->reset_ms == o->what.joint.whole.reset_ms,
          "a commit leaves something else");
}

static void check_verdict(machine *m, const asked *a, const hirate_result *r)
{
    if (is_permit(a->op))
        check_permit_answer(m, a, r);
    else if (machine_outcome(m, a))
        check_decided(m, a, r);
    else
        check_plain(m, a, r);
}

/* ------------------------------------------------------------------------------------------- without a verdict -- */

static enum hirate_on_failure strictest(const asked *a, bool *never)
{
    static const enum hirate_on_failure order[] = {HIRATE_ON_FAILURE_ERROR, HIRATE_ON_FAILURE_CLOSED,
                                                   HIRATE_ON_FAILURE_LOCAL, HIRATE_ON_FAILURE_OPEN};
    bool shadows = only_shadows(a);

    *never = false;
    for (uint32_t i = 0; i < a->count; i++)
        *never |= !shadows && !(machine_limit(&a->pairs[i])->flags & HIRATE_LIMIT_SHADOW) &&
                  a->cost > machine_limit(&a->pairs[i])->capacity;
    for (size_t k = 0; k < 4; k++) {
        for (uint32_t i = 0; i < a->count; i++) {
            const hirate_limit *limit = machine_limit(&a->pairs[i]);
            if ((shadows || !(limit->flags & HIRATE_LIMIT_SHADOW)) &&
                (enum hirate_on_failure)limit->on_failure == order[k])
                return order[k];
        }
    }
    return HIRATE_ON_FAILURE_ERROR;
}

static void check_not_taken(const machine *m, const asked *a, const hirate_result *r)
{
    const outcome *o = machine_outcome(m, a);
    CHECK(m, !o || r->charge != HIRATE_CHARGE_NO || !is_taken(o), "cost %llu was taken, and is told not to be: %s",
          (unsigned long long)a->cost, r->reason);
}

/* Not what the breaker answers at once, with the last failure's code. */
static bool says_late(const hirate_result *r)
{
    return strcmp(r->reason, "no answer within the deadline") == 0 ||
           strcmp(r->reason, "not sent within the deadline") == 0;
}

static void check_error(const machine *m, const asked *a, const hirate_result *r)
{
    bool never;

    CHECK(m, r->error < 0 && r->verdict == HIRATE_VERDICT_NONE && r->charge != HIRATE_CHARGE_YES, "an odd error");
    CHECK(m, r->reason[0] != '\0', "an error without a reason");
    CHECK(m, !says_late(r) || sim_now_us(m->world) >= a->due_us, "a deadline came early");
    if ((a->op != HIRATE_OP_ACQUIRE && a->op != HIRATE_OP_COMMIT) || !a->cost)
        CHECK(m, r->charge == HIRATE_CHARGE_NO, "perhaps a charge for what takes nothing");
    CHECK(m,
          a->op != HIRATE_OP_ACQUIRE || r->error == HIRATE_ECANCELED || r->error == HIRATE_ECLOSED ||
              strictest(a, &never) == HIRATE_ON_FAILURE_ERROR,
          "an error where on_failure has something else: %s", r->reason);
    CHECK(m,
          r->error != HIRATE_ENOENT || m->permits[a->permit].local ||
              (a->op == HIRATE_OP_COMMIT && m->outcomes[a->cost].times == 1 && !m->outcomes[a->cost].what.done),
          "a reservation is told to be gone that is not");
    check_not_taken(m, a, r);
}

/* A verdict in Redis' stead, by on_failure. */
static void check_fallback(machine *m, const asked *a, const hirate_result *r)
{
    static const enum hirate_source sources[] = {[HIRATE_ON_FAILURE_OPEN] = HIRATE_SOURCE_FAIL_OPEN,
                                                 [HIRATE_ON_FAILURE_CLOSED] = HIRATE_SOURCE_FAIL_CLOSED,
                                                 [HIRATE_ON_FAILURE_LOCAL] = HIRATE_SOURCE_LOCAL};
    bool never;
    enum hirate_on_failure how = strictest(a, &never);

    m->fallbacks++;
    CHECK(m, a->op == HIRATE_OP_ACQUIRE && r->cause < 0 && r->charge != HIRATE_CHARGE_YES,
          "an odd verdict by on_failure");
    CHECK(m, how != HIRATE_ON_FAILURE_ERROR, "a verdict where an error is wanted");
    if (never)
        CHECK(m, r->verdict == HIRATE_DENIED && r->retry_after_ms == HIRATE_NEVER, "more than fits, and not never");
    else if (only_shadows(a))
        CHECK(m, r->verdict == HIRATE_ALLOWED, "a shadow denies");
    else
        CHECK(m, r->source == sources[how], "decided by another on_failure");
    if (r->source == HIRATE_SOURCE_FAIL_OPEN)
        CHECK(m, r->verdict == HIRATE_ALLOWED && !r->remaining, "open, and not allowed");
    if (r->source == HIRATE_SOURCE_FAIL_CLOSED)
        CHECK(m, r->verdict == HIRATE_DENIED && r->retry_after_ms >= 1, "closed, and allowed or no wait");
    check_not_taken(m, a, r);
}

/* --------------------------------------------------------------------------------------- what the client says -- */

static void count_answered(machine *m, const asked *a, const hirate_result *r)
{
    m->answered++;
    for (uint32_t i = 0; i < a->count; i++)
        m->answered_by[a->pairs[i].policy]++;
    if (a->permit >= 0)
        m->answered_by[machine_policy_of(&m->permits[a->permit])]++;
    if (!a->alike || a->op != HIRATE_OP_ACQUIRE)
        return;
    m->alike_yes[a->pairs[0].name - '2'] += r->charge == HIRATE_CHARGE_YES;
    m->alike_maybe[a->pairs[0].name - '2'] += r->charge == HIRATE_CHARGE_MAYBE;
}

void machine_on_answer(hirate *h, const hirate_result *r, void *user)
{
    asked *a = user;
    machine *m = a->m;

    CHECK(m, h == m->h && !m->submitting, "a callback inside a call");
    CHECK(m, !a->calls++, "a second callback");
    CHECK(m, r->op == a->op && r->cost == a->cost && r->id == a->id, "another request's answer");
    a->charge = r->charge;
    count_answered(m, a, r);
    if (r->error)
        check_error(m, a, r);
    else if (r->source == HIRATE_SOURCE_REDIS || is_permit(a->op))
        check_verdict(m, a, r);
    else
        check_fallback(m, a, r);
    keep_permits(m, r);
    *(r->error ? &m->errors : &m->verdicts) += 1;
    if (!m->calm && !roll(m, 7))
        machine_submit(m, false);
}
