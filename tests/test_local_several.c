/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several limits in one request, and shadows, in the local engine: all or nothing. Against engines that decide each
 * limit alone, from whose answers the whole's is made in the plainest way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hirate.h"
#include "support/random.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SECOND INT64_C(1000000)
#define NOW INT64_C(1767225600000000)

static const hirate_limit bucket = HIRATE_TOKEN_BUCKET("bucket", 10, HIRATE_PER_SECOND(1));
static const hirate_limit queue = HIRATE_LEAKY_BUCKET("queue", 10, HIRATE_PER_SECOND(1));
static const hirate_limit minute = HIRATE_FIXED_WINDOW("minute", 3, HIRATE_MINUTES(1));
static const hirate_limit hourly = HIRATE_QUOTA("hourly", 100, HIRATE_PER_HOUR, 0);
static const hirate_limit jobs = HIRATE_CONCURRENCY("jobs", 5, HIRATE_SECONDS(30));
static const hirate_limit shadow_minute =
    HIRATE_FIXED_WINDOW_WITH("shadow", 3, HIRATE_MINUTES(1), HIRATE_LIMIT_SHADOW, HIRATE_FAIL_ERROR);
static const hirate_limit shadow_jobs =
    HIRATE_CONCURRENCY_WITH("trial", 2, HIRATE_SECONDS(30), HIRATE_LIMIT_SHADOW, HIRATE_FAIL_ERROR);

enum { PAIRS = HIRATE_PAIRS_MAX };

/* A request under several limits, each with the name "a". */
typedef struct request {
    hirate_request request;
    hirate_pair more[PAIRS];
} request;

static void request_init(request *r, enum hirate_op op, const hirate_limit *const *limits, size_t count, uint64_t cost)
{
    hirate_request_init(&r->request);
    r->request.op = op;
    r->request.limit = limits[0];
    r->request.name = "a";
    r->request.name_len = 1;
    r->request.cost = cost;
    for (size_t i = 1; i < count; i++)
        r->more[i - 1] = (hirate_pair){limits[i], "a", 1};
    r->request.more = r->more;
    r->request.more_count = count - 1;
}

static hirate_result decide(hirate_local *local, const hirate_request *r, int64_t now_us)
{
    hirate_result result;
    hirate_error error;

    hirate_result_init(&result);
    if (hirate_local_decide(local, r, now_us, &result, &error) != 0)
        fail_msg("%s", error.text);
    return result;
}

static hirate_result ask(hirate_local *local, enum hirate_op op, const hirate_limit *a, const hirate_limit *b,
                         const hirate_limit *c, uint64_t cost, int64_t now_us)
{
    const hirate_limit *const limits[] = {a, b, c};
    request r;

    request_init(&r, op, limits, c != NULL ? 3 : b != NULL ? 2 : 1, cost);
    return decide(local, &r.request, now_us);
}

static hirate_result acquire(hirate_local *local, const hirate_limit *a, const hirate_limit *b, const hirate_limit *c,
                             uint64_t cost)
{
    return ask(local, HIRATE_OP_ACQUIRE, a, b, c, cost, NOW);
}

static hirate_result look(hirate_local *local, const hirate_limit *limit)
{
    return ask(local, HIRATE_OP_PEEK, limit, NULL, NULL, 0, NOW);
}

static void assert_limit(const hirate_result *result, uint32_t i, enum hirate_verdict verdict, uint64_t remaining,
                         int64_t retry_after_ms, int64_t reset_ms)
{
    const hirate_limit_result *one = hirate_result_limit(result, i);

    assert_non_null(one);
    assert_int_equal(one->struct_size, sizeof *one);
    assert_int_equal(one->verdict, verdict);
    assert_true(one->remaining == remaining);
    assert_true(one->retry_after_ms == retry_after_ms);
    assert_true(one->reset_ms == reset_ms);
}

static int setup(void **state)
{
    return hirate_local_new((hirate_local **)state, 1000);
}

static int teardown(void **state)
{
    hirate_local_free(*state);
    return 0;
}

/* ------------------------------------------------------------------------------------------ all or nothing -- */

static void test_several_allowed_takes_from_each(void **state)
{
    hirate_result r = acquire(*state, &bucket, &minute, &queue, 2);

    assert_int_equal(r.verdict, HIRATE_ALLOWED);
    assert_int_equal(r.charge, HIRATE_CHARGE_YES);
    assert_true(r.remaining == 1 && r.reset_ms == 60000 && r.retry_after_ms == 0);
    assert_ptr_equal(r.policy, minute.policy); /* which has the least left */
    assert_int_equal(r.limit_count, 3);
    assert_limit(&r, 0, HIRATE_ALLOWED, 8, 0, 2000);
    assert_limit(&r, 1, HIRATE_ALLOWED, 1, 0, 60000);
    assert_limit(&r, 2, HIRATE_ALLOWED, 8, 0, 2000);
    assert_null(hirate_result_limit(&r, 3));
    assert_ptr_equal(hirate_result_limit(&r, 2)->policy, queue.policy);
    assert_int_equal(hirate_result_limit(&r, 2)->policy_kind, HIRATE_KIND_LEAKY_BUCKET);
    assert_int_equal(hirate_result_limit(&r, 2)->shadow, 0);
    assert_string_equal(r.permit, "");
}

static void test_several_denied_takes_from_none(void **state)
{
    (void)acquire(*state, &minute, NULL, NULL, 2);
    hirate_result r = acquire(*state, &bucket, &minute, &queue, 2);

    assert_int_equal(r.verdict, HIRATE_DENIED);
    assert_int_equal(r.charge, HIRATE_CHARGE_NO);
    assert_true(r.remaining == 1 && r.reset_ms == 60000 && r.retry_after_ms == 60000 && r.delay_ms == 0);
    assert_ptr_equal(r.policy, minute.policy);
    assert_limit(&r, 0, HIRATE_ALLOWED, 10, 0, 0);
    assert_limit(&r, 1, HIRATE_DENIED, 1, 60000, 60000);
    assert_limit(&r, 2, HIRATE_ALLOWED, 10, 0, 0);
    assert_true(look(*state, &bucket).remaining == 10 && look(*state, &queue).remaining == 10);
    /* Nothing was stored of those in which nothing counts. */
    assert_int_equal(ask(*state, HIRATE_OP_RESET, &bucket, NULL, NULL, 0, NOW).used, 0);
}

static void test_several_denied_by_more_than_one_waits_for_the_longest(void **state)
{
    (void)acquire(*state, &bucket, &minute, NULL, 3);
    (void)acquire(*state, &bucket, NULL, NULL, 7);
    hirate_result r = acquire(*state, &bucket, &minute, &queue, 1);
    assert_true(r.retry_after_ms == 60000 && r.remaining == 0);
    assert_ptr_equal(r.policy, minute.policy);
    assert_limit(&r, 0, HIRATE_DENIED, 0, 1000, 10000);
    /* Never is longer still. */
    r = acquire(*state, &minute, &jobs, &bucket, 6);
    assert_true(r.retry_after_ms == HIRATE_NEVER);
    assert_ptr_equal(r.policy, minute.policy); /* the first of equals */
    r = acquire(*state, &jobs, &minute, &bucket, 4);
    assert_true(r.retry_after_ms == HIRATE_NEVER);
    assert_ptr_equal(r.policy, minute.policy);
    assert_limit(&r, 0, HIRATE_ALLOWED, 5, 0, 0);
}

/* A denied request is written, as a denied acquire of one limit is: a bucket's moment moves on. */
static void test_several_denied_is_stored_as_one_is(void **state)
{
    static const hirate_limit one = HIRATE_TOKEN_BUCKET("one", 1, HIRATE_PER_SECOND(1));

    (void)acquire(*state, &one, &minute, NULL, 1);
    (void)acquire(*state, &minute, NULL, NULL, 2);
    (void)ask(*state, HIRATE_OP_ACQUIRE, &minute, &one, NULL, 1, NOW + 500000);
    assert_int_equal(ask(*state, HIRATE_OP_PEEK, &one, NULL, NULL, 1, NOW).retry_after_ms, 1000);
}

static void test_several_delay_is_the_largest_of_what_was_taken(void **state)
{
    hirate_limit slow = queue;
    slow.policy = "slow";
    slow.rate.period_us = 5000000;
    (void)acquire(*state, &queue, &slow, NULL, 2);
    hirate_result r = acquire(*state, &queue, &slow, &bucket, 1);
    assert_int_equal(r.delay_ms, 10000);
    assert_int_equal(hirate_result_limit(&r, 0)->delay_ms, 2000);
    assert_int_equal(hirate_result_limit(&r, 1)->delay_ms, 10000);
    assert_int_equal(hirate_result_limit(&r, 2)->delay_ms, 0);
    r = acquire(*state, &queue, &slow, &minute, 4); /* denied: nobody's turn comes */
    assert_int_equal(r.delay_ms, 0);
    assert_int_equal(hirate_result_limit(&r, 0)->delay_ms, 0);
    r = acquire(*state, &queue, &slow, &minute, 0); /* as an acquire of nothing under one of them */
    assert_int_equal(r.delay_ms, 15000);
}

static void test_several_permits_stand_for_what_was_taken(void **state)
{
    const hirate_limit *const limits[] = {&bucket, &jobs, &hourly};
    char lease[HIRATE_PERMIT_SIZE], hold[HIRATE_PERMIT_SIZE];
    hirate_request op;
    request r;

    request_init(&r, HIRATE_OP_ACQUIRE, limits, 3, 2);
    r.request.hold_us = 5000000;
    hirate_result a = decide(*state, &r.request, NOW);
    assert_string_equal(hirate_result_limit(&a, 0)->permit, "");
    (void)snprintf(lease, sizeof lease, "%s", hirate_result_limit(&a, 1)->permit);
    (void)snprintf(hold, sizeof hold, "%s", hirate_result_limit(&a, 2)->permit);
    assert_string_equal(a.permit, lease); /* the first one's */
    assert_string_not_equal(lease, hold);
    assert_true(hold[0] != '\0');
    hirate_request_init(&op);
    op.op = HIRATE_OP_RELEASE;
    op.permit = lease;
    assert_int_equal(decide(*state, &op, NOW).used, 1);
    op.op = HIRATE_OP_COMMIT;
    op.permit = hold;
    op.cost = 1;
    assert_true(decide(*state, &op, NOW).remaining == 99);
    /* Without hold_us the quota is charged, and only the lease has a permit. */
    r.request.hold_us = 0;
    a = decide(*state, &r.request, NOW);
    assert_true(a.permit[0] != '\0');
    assert_ptr_equal(a.permit, hirate_result_limit(&a, 1)->permit);
    assert_string_equal(hirate_result_limit(&a, 2)->permit, "");
    r.request.cost = 6;
    a = decide(*state, &r.request, NOW); /* denied */
    assert_string_equal(a.permit, "");
    assert_string_equal(hirate_result_limit(&a, 1)->permit, "");
}

static void test_several_one_name_under_two_policies(void **state)
{
    hirate_result r = acquire(*state, &bucket, &minute, NULL, 1);

    assert_int_equal(r.limit_count, 2);
    assert_true(look(*state, &bucket).remaining == 9 && look(*state, &minute).remaining == 2);
}

static void test_several_wrong_one_is_named_and_nothing_taken(void **state)
{
    hirate_limit wrong = minute;
    const hirate_limit *const limits[] = {&bucket, &wrong}, *const twice[] = {&bucket, &bucket};
    hirate_result result;
    hirate_error error;
    request r;

    wrong.window_us = 0;
    request_init(&r, HIRATE_OP_ACQUIRE, limits, 2, 1);
    hirate_result_init(&result);
    assert_int_equal(hirate_local_decide(*state, &r.request, NOW, &result, &error), HIRATE_EINVAL);
    assert_int_equal(strncmp(error.text, "window: 0 ", 10), 0);
    request_init(&r, HIRATE_OP_ACQUIRE, twice, 2, 1);
    assert_int_equal(hirate_local_decide(*state, &r.request, NOW, &result, &error), HIRATE_EINVAL);
    assert_int_equal(strncmp(error.text, "more[0]: the same policy and name", 33), 0);
    /* In use under another kind. */
    (void)acquire(*state, &jobs, NULL, NULL, 1);
    wrong = minute;
    wrong.policy = "jobs";
    request_init(&r, HIRATE_OP_ACQUIRE, limits, 2, 1);
    assert_int_equal(hirate_local_decide(*state, &r.request, NOW, &result, &error), HIRATE_ESTATE);
    assert_true(look(*state, &bucket).remaining == 10);
}

/* ------------------------------------------------------------------------------------------------- shadows -- */

static void test_shadow_denies_nothing_and_is_told_apart(void **state)
{
    hirate_result r = acquire(*state, &bucket, &shadow_minute, NULL, 2);

    assert_int_equal(r.verdict, HIRATE_ALLOWED);
    assert_int_equal(r.shadow_denied, 0);
    assert_true(r.remaining == 8 && r.reset_ms == 2000); /* of the bucket alone */
    assert_ptr_equal(r.policy, bucket.policy);
    assert_int_equal(hirate_result_limit(&r, 1)->shadow, 1);
    assert_limit(&r, 1, HIRATE_ALLOWED, 1, 0, 60000);
    r = acquire(*state, &bucket, &shadow_minute, NULL, 2);
    assert_int_equal(r.verdict, HIRATE_ALLOWED);
    assert_int_equal(r.charge, HIRATE_CHARGE_YES);
    assert_int_equal(r.shadow_denied, 1);
    assert_true(r.remaining == 6 && r.retry_after_ms == 0);
    assert_limit(&r, 1, HIRATE_DENIED, 1, 60000, 60000);
    assert_true(look(*state, &shadow_minute).remaining == 1);
}

static void test_shadow_takes_nothing_when_the_others_deny(void **state)
{
    hirate_result r = acquire(*state, &shadow_minute, &bucket, &shadow_jobs, 11);

    /* Each says what it would have, on what was there. */
    assert_int_equal(r.verdict, HIRATE_DENIED);
    assert_int_equal(r.shadow_denied, 2);
    assert_ptr_equal(r.policy, bucket.policy);
    (void)acquire(*state, &bucket, NULL, NULL, 10);
    r = acquire(*state, &shadow_minute, &bucket, &shadow_jobs, 1);
    assert_int_equal(r.verdict, HIRATE_DENIED);
    assert_int_equal(r.shadow_denied, 0);
    assert_true(r.retry_after_ms == 1000);
    assert_limit(&r, 0, HIRATE_ALLOWED, 3, 0, 0);
    assert_limit(&r, 2, HIRATE_ALLOWED, 2, 0, 0);
    assert_string_equal(hirate_result_limit(&r, 2)->permit, "");
    assert_true(look(*state, &shadow_minute).remaining == 3);
}

static void test_shadow_alone_allows_everything(void **state)
{
    hirate_result r = acquire(*state, &shadow_minute, NULL, NULL, 2);

    assert_int_equal(r.verdict, HIRATE_ALLOWED);
    assert_int_equal(r.charge, HIRATE_CHARGE_YES);
    assert_true(r.remaining == 1 && r.reset_ms == 60000);
    assert_int_equal(r.limit_count, 1);
    r = acquire(*state, &shadow_minute, NULL, NULL, 2);
    assert_int_equal(r.verdict, HIRATE_ALLOWED);
    assert_int_equal(r.charge, HIRATE_CHARGE_NO);
    assert_true(r.remaining == 1 && r.reset_ms == 60000 && r.retry_after_ms == 0);
    assert_int_equal(r.shadow_denied, 1);
    assert_limit(&r, 0, HIRATE_DENIED, 1, 60000, 60000);
    r = acquire(*state, &shadow_minute, NULL, NULL, 4);
    assert_int_equal(r.verdict, HIRATE_ALLOWED);
    assert_limit(&r, 0, HIRATE_DENIED, 1, HIRATE_NEVER, 60000);
}

static void test_shadows_alone_each_take_what_they_can(void **state)
{
    hirate_limit shadow_queue = queue;
    shadow_queue.flags = HIRATE_LIMIT_SHADOW;
    (void)acquire(*state, &shadow_queue, NULL, NULL, 1);
    hirate_result r = acquire(*state, &shadow_minute, &shadow_jobs, &shadow_queue, 3);

    assert_int_equal(r.verdict, HIRATE_ALLOWED);
    assert_int_equal(r.charge, HIRATE_CHARGE_YES);
    assert_int_equal(r.shadow_denied, 1); /* two jobs at once, no three */
    assert_true(r.remaining == 0 && r.reset_ms == 60000 && r.retry_after_ms == 0 && r.delay_ms == 0);
    assert_ptr_equal(r.policy, shadow_minute.policy);
    assert_limit(&r, 1, HIRATE_DENIED, 2, HIRATE_NEVER, 0);
    assert_int_equal(hirate_result_limit(&r, 2)->delay_ms, 1000);
    assert_true(look(*state, &shadow_jobs).remaining == 2 && look(*state, &shadow_minute).remaining == 0);
    /* Denied by all: still the one with the least left. */
    r = acquire(*state, &shadow_jobs, &shadow_minute, NULL, 3);
    assert_int_equal(r.verdict, HIRATE_ALLOWED);
    assert_int_equal(r.charge, HIRATE_CHARGE_NO);
    assert_ptr_equal(r.policy, shadow_minute.policy);
}

static void test_shadow_lease_has_a_permit(void **state)
{
    hirate_result r = acquire(*state, &shadow_jobs, &jobs, NULL, 1);
    hirate_request op;

    assert_ptr_equal(r.permit, hirate_result_limit(&r, 0)->permit);
    hirate_request_init(&op);
    op.op = HIRATE_OP_RELEASE;
    op.permit = r.permit;
    assert_int_equal(decide(*state, &op, NOW).used, 1);
    assert_true(look(*state, &shadow_jobs).remaining == 2 && look(*state, &jobs).remaining == 4);
}

/* -------------------------------------------------------------------------------------------------- memory -- */

static void test_several_without_room_takes_from_none(void **state)
{
    const hirate_limit *const limits[] = {&bucket, &minute, &jobs};
    hirate_local *local = NULL;
    hirate_result result;
    hirate_error error;
    request r;

    (void)state;
    assert_int_equal(hirate_local_new(&local, 2), 0);
    request_init(&r, HIRATE_OP_ACQUIRE, limits, 3, 1);
    hirate_result_init(&result);
    assert_int_equal(hirate_local_decide(local, &r.request, NOW, &result, &error), HIRATE_EOVERLOAD);
    assert_int_equal(strncmp(error.text, "max_keys: 2 names", 17), 0);
    /* Nothing stays behind: both places are free. */
    assert_true(look(local, &bucket).remaining == 10 && look(local, &minute).remaining == 3);
    request_init(&r, HIRATE_OP_ACQUIRE, limits + 1, 2, 1);
    assert_int_equal(decide(local, &r.request, NOW).verdict, HIRATE_ALLOWED);
    /* Both are in use; what is stored goes on, what stores nothing needs no room. */
    assert_int_equal(decide(local, &r.request, NOW).verdict, HIRATE_ALLOWED);
    request_init(&r, HIRATE_OP_ACQUIRE, limits, 3, 1);
    hirate_result_init(&result);
    assert_int_equal(hirate_local_decide(local, &r.request, NOW, &result, &error), HIRATE_EOVERLOAD);
    assert_true(look(local, &minute).remaining == 1 && look(local, &jobs).remaining == 3);
    request_init(&r, HIRATE_OP_ACQUIRE, limits, 3, 2);
    assert_int_equal(decide(local, &r.request, NOW).verdict, HIRATE_DENIED);
    hirate_local_free(local);
}

/* One that is forgotten by the same request makes room for another. */
static void test_several_room_is_what_is_left_in_the_end(void **state)
{
    hirate_limit leases = jobs;
    hirate_local *local = NULL;

    (void)state;
    leases.capacity = 0;
    leases.flags = HIRATE_LIMIT_SHADOW; /* has room for nothing, and takes nothing */
    assert_int_equal(hirate_local_new(&local, 1), 0);
    (void)acquire(local, &jobs, NULL, NULL, 1);
    hirate_result r = ask(local, HIRATE_OP_ACQUIRE, &bucket, &leases, NULL, 1, NOW + 30 * SECOND);
    assert_int_equal(r.verdict, HIRATE_ALLOWED);
    assert_true(ask(local, HIRATE_OP_PEEK, &bucket, NULL, NULL, 0, NOW + 30 * SECOND).remaining == 9);
    hirate_local_free(local);
}

/* ---------------------------------------------------------------------------------------------------- model -- */

/* For each limit an engine of its own, where it is no shadow. */
typedef struct world {
    hirate_local *together, *alone[PAIRS];
    hirate_limit limits[PAIRS];
    char policies[PAIRS][8];
    int64_t now_us;
} world;

static hirate_limit random_limit(rng *r, const char *policy)
{
    hirate_limit limit;
    uint64_t max = rng_upto(r, 12), window_us = 1 + rng_upto(r, 5000000);

    switch (rng_upto(r, 6)) {
    case 0:
        hirate_limit_token_bucket(&limit, policy, max, (hirate_rate){1 + rng_upto(r, 9), window_us});
        break;
    case 1:
        hirate_limit_leaky_bucket(&limit, policy, max, (hirate_rate){1 + rng_upto(r, 9), window_us});
        break;
    case 2:
        hirate_limit_fixed_window(&limit, policy, max, window_us);
        break;
    case 3:
        hirate_limit_quota(&limit, policy, 30 * max, HIRATE_PER_HOUR, 0);
        break;
    case 4:
        hirate_limit_sliding_log(&limit, policy, max, window_us);
        break;
    case 5:
        hirate_limit_sliding_window(&limit, policy, max, window_us);
        break;
    default:
        hirate_limit_concurrency(&limit, policy, max, window_us);
    }
    limit.flags = rng_upto(r, 3) == 0 ? HIRATE_LIMIT_SHADOW : 0;
    return limit;
}

/* One limit, by its own engine. */
static hirate_result alone(const world *w, size_t i, enum hirate_op op, uint64_t cost, uint64_t hold_us)
{
    hirate_limit limit = w->limits[i];
    const hirate_limit *const limits[] = {&limit};
    request r;

    limit.flags = 0;
    request_init(&r, op, limits, 1, cost);
    r.request.hold_us = limit.kind == HIRATE_KIND_QUOTA ? hold_us : 0;
    return decide(w->alone[i], &r.request, w->now_us);
}

typedef struct expected {
    hirate_limit_result of[PAIRS];
    bool denied, taken, made;
    uint32_t shadow_denied;
} expected;

/* What each limit should say, and what its engine is to become. */
static void expect_each(const world *w, const size_t *picks, size_t count, const hirate_request *r, expected *e)
{
    memset(e, 0, sizeof *e);
    for (size_t i = 0; i < count; i++) {
        bool shadow = w->limits[picks[i]].flags != 0;
        bool denies = alone(w, picks[i], HIRATE_OP_PEEK, r->cost, 0).verdict == HIRATE_DENIED;

        e->of[i].shadow = shadow;
        e->of[i].verdict = denies ? HIRATE_DENIED : HIRATE_ALLOWED;
        e->denied = e->denied || (denies && !shadow);
        e->shadow_denied += denies && shadow;
    }
    for (size_t i = 0; i < count; i++) {
        bool takes = !e->denied && e->of[i].verdict == HIRATE_ALLOWED;
        bool denies = e->of[i].verdict == HIRATE_DENIED;
        hirate_result a = alone(w, picks[i], r->op, takes || denies ? r->cost : 0, r->hold_us);

        e->of[i].remaining = a.remaining;
        e->of[i].reset_ms = a.reset_ms;
        e->of[i].retry_after_ms = denies ? a.retry_after_ms : 0;
        e->of[i].delay_ms = takes ? a.delay_ms : 0;
        e->of[i].permit = a.permit[0] != '\0' ? "made" : "";
        e->taken = e->taken || (takes && r->cost > 0);
        e->made = e->made || a.permit[0] != '\0';
    }
}

static void assert_each(const world *w, const size_t *picks, const hirate_result *result, const expected *e)
{
    for (uint32_t i = 0; i < result->limit_count; i++) {
        const hirate_limit_result *one = hirate_result_limit(result, i);

        assert_ptr_equal(one->policy, w->limits[picks[i]].policy);
        assert_int_equal(one->policy_kind, w->limits[picks[i]].kind);
        assert_int_equal(one->shadow, e->of[i].shadow);
        assert_int_equal(one->verdict, e->of[i].verdict);
        assert_true(one->remaining == e->of[i].remaining && one->retry_after_ms == e->of[i].retry_after_ms);
        assert_true(one->reset_ms == e->of[i].reset_ms && one->delay_ms == e->of[i].delay_ms);
        assert_int_equal(one->permit[0] != '\0', e->of[i].permit[0] != '\0');
    }
}

/* The whole, of those limits that count for it: the real ones, or all where all are shadows. */
static void assert_whole(const hirate_result *result, const expected *e)
{
    bool all_shadows = true;
    uint64_t remaining = UINT64_MAX;
    int64_t retry = 0, reset = 0, delay = 0;
    uint32_t binds = 0;
    bool found = false;

    for (uint32_t i = 0; i < result->limit_count; i++)
        all_shadows = all_shadows && e->of[i].shadow;
    for (uint32_t i = 0; i < result->limit_count; i++) {
        const hirate_limit_result *one = &e->of[i];

        if (one->shadow && !all_shadows)
            continue;
        if (!found || (e->denied ? one->retry_after_ms > retry : one->remaining < remaining))
            binds = i;
        found = true;
        remaining = one->remaining < remaining ? one->remaining : remaining;
        retry = one->retry_after_ms > retry ? one->retry_after_ms : retry;
        reset = one->reset_ms > reset ? one->reset_ms : reset;
        delay = one->delay_ms > delay ? one->delay_ms : delay;
    }
    assert_int_equal(result->verdict, e->denied ? HIRATE_DENIED : HIRATE_ALLOWED);
    assert_true(result->remaining == remaining && result->reset_ms == reset);
    assert_true(result->retry_after_ms == (all_shadows ? 0 : retry) && result->delay_ms == (all_shadows ? 0 : delay));
    assert_ptr_equal(result->policy, result->limits[binds].policy);
    assert_int_equal(result->shadow_denied, e->shadow_denied);
}

static void world_step(world *w, rng *r)
{
    size_t count = 1 + rng_upto(r, rng_upto(r, 3) ? 3 : PAIRS - 1), picks[PAIRS];
    const hirate_limit *limits[PAIRS];
    bool quota = false;
    expected e;
    request q;

    for (size_t i = 0; i < PAIRS; i++)
        picks[i] = i;
    for (size_t i = 0; i < count; i++) {
        size_t j = i + rng_upto(r, PAIRS - 1 - i), pick = picks[j];
        picks[j] = picks[i];
        picks[i] = pick;
        limits[i] = &w->limits[pick];
        quota = quota || limits[i]->kind == HIRATE_KIND_QUOTA;
    }
    request_init(&q, HIRATE_OP_PEEK, limits, count, rng_upto(r, 4));
    hirate_result peeked = decide(w->together, &q.request, w->now_us);
    expect_each(w, picks, count, &q.request, &e);
    assert_each(w, picks, &peeked, &e);
    assert_whole(&peeked, &e);
    assert_int_equal(peeked.charge, HIRATE_CHARGE_NO);
    q.request.op = HIRATE_OP_ACQUIRE;
    q.request.hold_us = quota && rng_upto(r, 1) ? 1 + rng_upto(r, 5000000) : 0;
    expect_each(w, picks, count, &q.request, &e);
    hirate_result result = decide(w->together, &q.request, w->now_us);
    assert_each(w, picks, &result, &e);
    assert_whole(&result, &e);
    assert_int_equal(result.charge, e.taken ? HIRATE_CHARGE_YES : HIRATE_CHARGE_NO);
    assert_int_equal(result.permit[0] != '\0', e.made);
    /* Only forward: which expired name a step back would find depends on what was swept. */
    w->now_us += (int64_t)rng_upto(r, 700000);
}

static void test_several_random_equal_each_alone(void **state)
{
    rng r = rng_start("test_several_random_equal_each_alone");

    (void)state;
    for (int i = 0; i < 150; i++) {
        world w = {.now_us = NOW};

        assert_int_equal(hirate_local_new(&w.together, PAIRS), 0);
        for (size_t j = 0; j < PAIRS; j++) {
            (void)snprintf(w.policies[j], sizeof w.policies[j], "p%zu", j);
            w.limits[j] = random_limit(&r, w.policies[j]);
            assert_int_equal(hirate_local_new(&w.alone[j], 1), 0);
        }
        for (int step = 0; step < 150; step++)
            world_step(&w, &r);
        hirate_local_free(w.together);
        for (size_t j = 0; j < PAIRS; j++)
            hirate_local_free(w.alone[j]);
    }
}

#define WITH_LOCAL(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_LOCAL(test_several_allowed_takes_from_each),
        WITH_LOCAL(test_several_denied_takes_from_none),
        WITH_LOCAL(test_several_denied_by_more_than_one_waits_for_the_longest),
        WITH_LOCAL(test_several_denied_is_stored_as_one_is),
        WITH_LOCAL(test_several_delay_is_the_largest_of_what_was_taken),
        WITH_LOCAL(test_several_permits_stand_for_what_was_taken),
        WITH_LOCAL(test_several_one_name_under_two_policies),
        WITH_LOCAL(test_several_wrong_one_is_named_and_nothing_taken),
        WITH_LOCAL(test_shadow_denies_nothing_and_is_told_apart),
        WITH_LOCAL(test_shadow_takes_nothing_when_the_others_deny),
        WITH_LOCAL(test_shadow_alone_allows_everything),
        WITH_LOCAL(test_shadows_alone_each_take_what_they_can),
        WITH_LOCAL(test_shadow_lease_has_a_permit),
        cmocka_unit_test(test_several_without_room_takes_from_none),
        cmocka_unit_test(test_several_room_is_what_is_left_in_the_end),
        cmocka_unit_test(test_several_random_equal_each_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
