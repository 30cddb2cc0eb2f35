/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Leases, reservations, permits, several limits at once and shadows against a real server whose clock the test moves: what
 * a user relies on, case by case. Random traces against the local engine: it_traces_several.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOON INT64_C(1767268800000000) /* 2026-01-01 12:00 UTC */

static const hirate_limit SLOTS = HIRATE_CONCURRENCY("slots", 3, HIRATE_SECONDS(10));
static const hirate_limit TRIED = HIRATE_CONCURRENCY_WITH("slots", 3, HIRATE_SECONDS(10), HIRATE_LIMIT_SHADOW, HIRATE_FAIL_ERROR);
static const hirate_limit MONTH = HIRATE_QUOTA("month", 100, HIRATE_PER_HOUR, 0);
static const hirate_limit TENANT = HIRATE_TOKEN_BUCKET("tenant", 5, HIRATE_PER_SECOND(1));
static const hirate_limit SERVICE = HIRATE_FIXED_WINDOW("service", 3, HIRATE_MINUTES(1));
static const hirate_limit SHADOW = HIRATE_FIXED_WINDOW_WITH("tried", 2, HIRATE_MINUTES(1), HIRATE_LIMIT_SHADOW, HIRATE_FAIL_ERROR);

typedef struct fixture {
    server *redis;
    driver d;
} fixture;

/* An answer with copies of what it points to. */
typedef struct heard {
    int calls;
    hirate_result result;
    hirate_limit_result limits[HIRATE_PAIRS_MAX];
    char permit[HIRATE_PERMIT_SIZE], policy[HIRATE_POLICY_SIZE], reason[HIRATE_REASON_MAX + 1];
} heard;

static void on_heard(hirate *h, const hirate_result *result, void *user)
{
    heard *a = user;
    (void)h;
    a->calls++;
    a->result = *result;
    (void)snprintf(a->permit, sizeof a->permit, "%s", result->permit);
    (void)snprintf(a->policy, sizeof a->policy, "%s", result->policy);
    (void)snprintf(a->reason, sizeof a->reason, "%s", result->reason);
    for (uint32_t i = 0; i < result->limit_count && hirate_result_limit(result, i); i++)
        a->limits[i] = *hirate_result_limit(result, i);
}

static void ask(fixture *f, hirate_request *request, heard *a)
{
    memset(a, 0, sizeof *a);
    request->cb = on_heard;
    request->user = a;
    int rc = hirate_submit(f->d.h, request, NULL);
    if (rc)
        fail_msg("%s", hirate_last_error(f->d.h));
    for (int64_t until = driver_now_ms() + DRIVER_PATIENCE_MS; !a->calls && driver_now_ms() < until;)
        driver_turn(&f->d, 1000);
    assert_int_equal(a->calls, 1);
}

static hirate_request on(const hirate_limit *limit, const char *name, uint64_t cost)
{
    hirate_request request;
    hirate_request_init(&request);
    request.limit = limit;
    request.name = name;
    request.name_len = strlen(name);
    request.cost = cost;
    return request;
}

static heard acquire(fixture *f, const hirate_limit *limit, const char *name, uint64_t cost)
{
    heard a;
    hirate_request request = on(limit, name, cost);
    ask(f, &request, &a);
    return a;
}

static heard reserve(fixture *f, uint64_t cost, int64_t hold_us)
{
    heard a;
    hirate_request request = on(&MONTH, "ann", cost);
    request.hold_us = (uint64_t)hold_us;
    ask(f, &request, &a);
    return a;
}

static heard use(fixture *f, enum hirate_op op, const char *permit, uint64_t amount)
{
    heard a;
    hirate_request request;
    hirate_request_init(&request);
    request.op = op;
    request.permit = permit;
    request.cost = amount;
    ask(f, &request, &a);
    assert_int_equal(a.result.op, op);
    return a;
}

static heard several(fixture *f, const hirate_limit *const *limits, size_t count, uint64_t cost)
{
    heard a;
    hirate_pair more[HIRATE_PAIRS_MAX];
    hirate_request request = on(limits[0], "ann", cost);
    for (size_t i = 1; i < count; i++)
        more[i - 1] = (hirate_pair){limits[i], "ann", 3};
    request.more = more;
    request.more_count = count - 1;
    ask(f, &request, &a);
    return a;
}

static void at(fixture *f, int64_t us)
{
    server_set_clock(f->redis, NOON + us);
}

static void expect(const heard *a, enum hirate_verdict verdict, uint64_t remaining, int64_t retry_after_ms, int64_t reset_ms)
{
    if (a->result.error)
        fail_msg("error %d: %s", a->result.error, a->reason);
    assert_int_equal(a->result.verdict, verdict);
    assert_int_equal(a->result.remaining, remaining);
    assert_true(a->result.retry_after_ms == retry_after_ms);
    assert_int_equal(a->result.reset_ms, reset_ms);
}

/* ----------------------------------------------------------------------------------------------------- leases -- */

static void test_lease_ends_at_its_time_and_not_before(void **state)
{
    fixture *f = *state;

    heard a = acquire(f, &SLOTS, "ann", 2);
    expect(&a, HIRATE_ALLOWED, 1, 0, 10000);
    assert_true(strlen(a.permit) > 0);
    at(f, 1000001);
    heard b = acquire(f, &SLOTS, "ann", 1);
    expect(&b, HIRATE_ALLOWED, 0, 0, 10000);
    heard c = acquire(f, &SLOTS, "ann", 1);
    expect(&c, HIRATE_DENIED, 0, 9000, 10000);
    assert_string_equal(c.permit, "");
    at(f, 9999999);
    c = acquire(f, &SLOTS, "ann", 1);
    expect(&c, HIRATE_DENIED, 0, 1, 1001);
    at(f, 10000000);
    c = acquire(f, &SLOTS, "ann", 3);
    expect(&c, HIRATE_DENIED, 2, 1001, 1001);
    c = acquire(f, &SLOTS, "ann", 4);
    expect(&c, HIRATE_DENIED, 2, HIRATE_NEVER, 1001);
    c = acquire(f, &SLOTS, "ann", 2);
    expect(&c, HIRATE_ALLOWED, 0, 0, 10000);
}

static void test_released_units_are_there_at_once_and_only_once(void **state)
{
    fixture *f = *state;

    heard a = acquire(f, &SLOTS, "ann", 3);
    heard r = use(f, HIRATE_OP_RELEASE, a.permit, 0);
    expect(&r, HIRATE_VERDICT_NONE, 3, 0, 0);
    assert_int_equal(r.result.used, 1);
    assert_int_equal(server_ask_int(f->redis, "EXISTS hirate:slots:ann"), 0);
    heard b = acquire(f, &SLOTS, "ann", 2);
    r = use(f, HIRATE_OP_RELEASE, a.permit, 0);
    expect(&r, HIRATE_VERDICT_NONE, 1, 0, 10000);
    assert_int_equal(r.result.used, 0);
    assert_string_not_equal(a.permit, b.permit);
}

static void test_renewed_lease_lasts_from_then(void **state)
{
    fixture *f = *state;

    heard a = acquire(f, &SLOTS, "ann", 3);
    at(f, 9000000);
    heard r = use(f, HIRATE_OP_RENEW, a.permit, 0);
    expect(&r, HIRATE_ALLOWED, 0, 0, 10000);
    at(f, 18999999);
    heard b = acquire(f, &SLOTS, "ann", 1);
    expect(&b, HIRATE_DENIED, 0, 1, 1);
    at(f, 19000000);
    r = use(f, HIRATE_OP_RENEW, a.permit, 0);
    expect(&r, HIRATE_DENIED, 3, HIRATE_NEVER, 0);
    b = acquire(f, &SLOTS, "ann", 1);
    expect(&b, HIRATE_ALLOWED, 2, 0, 10000);
}

static void test_peek_and_a_cost_of_zero_take_no_lease(void **state)
{
    fixture *f = *state;
    heard a;
    hirate_request request = on(&SLOTS, "ann", 3);

    request.op = HIRATE_OP_PEEK;
    ask(f, &request, &a);
    expect(&a, HIRATE_ALLOWED, 0, 0, 10000);
    assert_string_equal(a.permit, "");
    a = acquire(f, &SLOTS, "ann", 0);
    expect(&a, HIRATE_ALLOWED, 3, 0, 0);
    assert_string_equal(a.permit, "");
    assert_int_equal(server_ask_int(f->redis, "EXISTS hirate:slots:ann"), 0);
}

/* What is canceled after it was written is given back by the client itself, and so is what it closes over. */
static void test_lease_that_nobody_hears_of_is_given_back(void **state)
{
    fixture *f = *state;
    heard a = {0};
    uint64_t id;
    hirate_request request = on(&SLOTS, "ann", 3);

    heard warm = acquire(f, &SLOTS, "bob", 1);
    use(f, HIRATE_OP_RELEASE, warm.permit, 0);
    server_pause(f->redis);
    request.cb = on_heard;
    request.user = &a;
    assert_int_equal(hirate_submit(f->d.h, &request, &id), 0);
    driver_run_for(&f->d, 20);
    assert_int_equal(hirate_cancel(f->d.h, id), 0);
    driver_run_for(&f->d, 20);
    assert_int_equal(a.result.error, HIRATE_ECANCELED);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_MAYBE);
    server_resume(f->redis);
    heard b = acquire(f, &SLOTS, "ann", 3);
    expect(&b, HIRATE_ALLOWED, 0, 0, 10000);
    hirate_stats stats;
    hirate_stats_init(&stats);
    hirate_get_stats(f->d.h, &stats);
    assert_int_equal(stats.pending, 0);
    assert_int_equal(stats.submitted, stats.answered);
}

static void test_lease_in_flight_at_close_is_given_back(void **state)
{
    fixture *f = *state;
    driver other;
    heard a = {0};

    driver_open(&other, server_uri(f->redis));
    answer warm;
    driver_ask(&other, &warm, &TENANT, "warm", 0);
    hirate_request request = on(&SLOTS, "ann", 3);
    request.cb = on_heard;
    request.user = &a;
    assert_int_equal(hirate_submit(other.h, &request, NULL), 0);
    driver_turn(&other, 0);
    driver_close(&other);
    assert_int_equal(a.calls, 1);
    if (a.result.error) { /* else the answer was there already */
        assert_int_equal(a.result.error, HIRATE_ECLOSED);
        heard b = acquire(f, &SLOTS, "ann", 3);
        expect(&b, HIRATE_ALLOWED, 0, 0, 10000);
    }
}

/* ------------------------------------------------------------------------------------------------ reservations -- */

static void test_committed_amount_takes_the_place_of_what_was_reserved(void **state)
{
    fixture *f = *state;

    heard a = reserve(f, 60, 5000000);
    expect(&a, HIRATE_ALLOWED, 40, 0, 5000);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_YES);
    heard b = acquire(f, &MONTH, "ann", 50);
    expect(&b, HIRATE_DENIED, 40, 5000, 5000);
    heard r = use(f, HIRATE_OP_COMMIT, a.permit, 10);
    expect(&r, HIRATE_ALLOWED, 90, 0, 3600000);
    assert_int_equal(r.result.charge, HIRATE_CHARGE_YES);
    assert_int_equal(r.result.late, 0);
    a = reserve(f, 90, 5000000);
    r = use(f, HIRATE_OP_COMMIT, a.permit, 100);
    expect(&r, HIRATE_ALLOWED, 0, 0, 3600000);
    b = acquire(f, &MONTH, "ann", 1);
    expect(&b, HIRATE_DENIED, 0, 3600000, 3600000);
}

static void test_commit_is_done_once_within_its_time(void **state)
{
    fixture *f = *state;

    heard a = reserve(f, 60, 5000000);
    heard r = use(f, HIRATE_OP_COMMIT, a.permit, 60);
    expect(&r, HIRATE_ALLOWED, 40, 0, 3600000);
    r = use(f, HIRATE_OP_COMMIT, a.permit, 60);
    assert_int_equal(r.result.error, HIRATE_ENOENT);
    assert_int_equal(r.result.charge, HIRATE_CHARGE_NO);
    heard b = acquire(f, &MONTH, "ann", 0);
    expect(&b, HIRATE_ALLOWED, 40, 0, 3600000);
}

static void test_refund_and_expiry_give_everything_back(void **state)
{
    fixture *f = *state;

    heard a = reserve(f, 60, 5000000);
    heard r = use(f, HIRATE_OP_REFUND, a.permit, 0);
    expect(&r, HIRATE_VERDICT_NONE, 100, 0, 0);
    assert_int_equal(r.result.used, 1);
    r = use(f, HIRATE_OP_REFUND, a.permit, 0);
    assert_int_equal(r.result.used, 0);
    a = reserve(f, 60, 5000000);
    at(f, 4999999);
    heard b = acquire(f, &MONTH, "ann", 50);
    expect(&b, HIRATE_DENIED, 40, 1, 1);
    at(f, 5000000);
    b = acquire(f, &MONTH, "ann", 50);
    expect(&b, HIRATE_ALLOWED, 50, 0, 3595000);
}

static void test_late_commit_charges_the_current_window_and_says_so(void **state)
{
    fixture *f = *state;

    heard a = reserve(f, 60, 5000000);
    at(f, 5000000);
    heard r = use(f, HIRATE_OP_COMMIT, a.permit, 30);
    expect(&r, HIRATE_ALLOWED, 70, 0, 3595000);
    assert_int_equal(r.result.late, 1);
    a = reserve(f, 10, HIRATE_DAYS(1));
    at(f, HIRATE_HOURS(1));
    r = use(f, HIRATE_OP_COMMIT, a.permit, 30);
    expect(&r, HIRATE_ALLOWED, 70, 0, 3600000);
    assert_int_equal(r.result.late, 1);
}

/* ------------------------------------------------------------------------------------------------ several limits -- */

static void test_all_take_or_none(void **state)
{
    fixture *f = *state;
    const hirate_limit *limits[] = {&TENANT, &SERVICE, &SLOTS};

    heard a = several(f, limits, 3, 2);
    expect(&a, HIRATE_ALLOWED, 1, 0, 60000);
    assert_string_equal(a.policy, "service");
    assert_int_equal(a.result.limit_count, 3);
    assert_int_equal(a.limits[0].remaining, 3);
    assert_int_equal(a.limits[1].remaining, 1);
    assert_int_equal(a.limits[2].remaining, 1);
    assert_true(strlen(a.permit) > 0);
    heard b = several(f, limits, 3, 2);
    expect(&b, HIRATE_DENIED, 1, 60000, 60000);
    assert_string_equal(b.policy, "service");
    assert_int_equal(b.limits[0].verdict, HIRATE_ALLOWED);
    assert_int_equal(b.limits[0].remaining, 3);
    assert_int_equal(b.limits[1].verdict, HIRATE_DENIED);
    assert_int_equal(b.limits[2].verdict, HIRATE_DENIED);
    assert_true(b.limits[2].retry_after_ms == 10000);
    b = acquire(f, &TENANT, "ann", 3); /* what was denied took nothing */
    expect(&b, HIRATE_ALLOWED, 0, 0, 5000);
}

static void test_shadow_counts_and_never_denies(void **state)
{
    fixture *f = *state;
    const hirate_limit *limits[] = {&SHADOW, &TENANT};

    heard a = several(f, limits, 2, 2);
    expect(&a, HIRATE_ALLOWED, 3, 0, 2000);
    assert_int_equal(a.result.shadow_denied, 0);
    a = several(f, limits, 2, 2);
    expect(&a, HIRATE_ALLOWED, 1, 0, 4000);
    assert_int_equal(a.result.shadow_denied, 1);
    assert_int_equal(a.limits[0].verdict, HIRATE_DENIED);
    assert_int_equal(a.limits[0].shadow, 1);
    assert_true(a.limits[0].retry_after_ms == 60000);
    a = acquire(f, &SHADOW, "ann", 1);
    expect(&a, HIRATE_ALLOWED, 0, 0, 60000);
    assert_int_equal(a.result.shadow_denied, 1);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_NO);
    a = acquire(f, &TRIED, "bob", 2);
    expect(&a, HIRATE_ALLOWED, 1, 0, 10000);
    assert_true(strlen(a.permit) > 0);
}

static void test_foreign_value_is_an_error_for_its_own_requests_only(void **state)
{
    fixture *f = *state;
    const hirate_limit *limits[] = {&TENANT, &SERVICE};

    server_ask(f->redis, "RPUSH hirate:service:ann x");
    heard a = several(f, limits, 2, 1);
    assert_int_equal(a.result.error, HIRATE_ESTATE);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_NO);
    assert_int_equal(server_ask_int(f->redis, "EXISTS hirate:tenant:ann"), 0);
    server_ask(f->redis, "SET hirate:slots:ann x");
    a = acquire(f, &SLOTS, "ann", 1);
    assert_int_equal(a.result.error, HIRATE_ESTATE);
    assert_string_equal(server_ask(f->redis, "GET hirate:slots:ann"), "x");
}

static void test_same_key_twice_is_refused(void **state)
{
    fixture *f = *state;
    hirate_pair more = {&TENANT, "ann", 3};
    hirate_request request = on(&TENANT, "ann", 1);

    request.more = &more;
    request.more_count = 1;
    request.cb = on_heard;
    assert_int_equal(hirate_submit(f->d.h, &request, NULL), HIRATE_EINVAL);
    assert_non_null(strstr(hirate_last_error(f->d.h), "more[0]"));
}

/* What an engine in some process gave is held nowhere else. */
static void test_permit_of_a_local_engine_is_refused(void **state)
{
    fixture *f = *state;
    hirate_local *local = NULL;
    hirate_request request = on(&SLOTS, "ann", 1);
    hirate_result result;

    assert_int_equal(hirate_local_new(&local, 4), 0);
    hirate_result_init(&result);
    assert_int_equal(hirate_local_decide(local, &request, NOON, &result, NULL), 0);
    assert_int_equal(hirate_release(f->d.h, result.permit, on_heard, NULL), HIRATE_EINVAL);
    assert_non_null(strstr(hirate_last_error(f->d.h), "permit: "));
    hirate_local_free(local);
}

/* Many at once, in one turn: all decided by few calls, none beyond what there is. */
static void test_many_over_shared_keys_travel_together(void **state)
{
    fixture *f = *state;
    enum { MANY = 600 };
    static heard answers[MANY];
    static const hirate_limit wide = HIRATE_FIXED_WINDOW("wide", 100, HIRATE_MINUTES(1));
    hirate_stats before, after;
    char name[16];

    hirate_stats_init(&before);
    hirate_stats_init(&after);
    memset(answers, 0, sizeof answers);
    heard warm = acquire(f, &TENANT, "warm", 0);
    assert_int_equal(warm.calls, 1);
    hirate_get_stats(f->d.h, &before);
    for (size_t i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof name, "n%zu", i % 40);
        hirate_pair more = {&wide, "all", 3};
        hirate_request request = on(&TENANT, name, 1);
        request.more = &more;
        request.more_count = 1;
        request.cb = on_heard;
        request.user = &answers[i];
        assert_int_equal(hirate_submit(f->d.h, &request, NULL), 0);
    }
    size_t done = 0, allowed = 0;
    for (int64_t until = driver_now_ms() + DRIVER_PATIENCE_MS; done < MANY && driver_now_ms() < until;) {
        driver_turn(&f->d, 1000);
        for (done = 0; done < MANY && answers[done].calls; done++)
            continue;
    }
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(answers[i].calls, 1);
        assert_int_equal(answers[i].result.error, 0);
        allowed += answers[i].result.verdict == HIRATE_ALLOWED;
    }
    assert_int_equal(allowed, 100);
    hirate_get_stats(f->d.h, &after);
    assert_true(after.calls - before.calls <= 8);
}

/* ------------------------------------------------------------------------------------------------------- set-up -- */

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->redis = server_start(&(server_options){.fake_clock = true});
    server_set_clock(f->redis, NOON);
    driver_open(&f->d, server_uri(f->redis));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    driver_close(&f->d);
    server_stop(f->redis);
    free(f);
    return 0;
}

#define WITH_SERVER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        WITH_SERVER(test_lease_ends_at_its_time_and_not_before),
        WITH_SERVER(test_released_units_are_there_at_once_and_only_once),
        WITH_SERVER(test_renewed_lease_lasts_from_then),
        WITH_SERVER(test_peek_and_a_cost_of_zero_take_no_lease),
        WITH_SERVER(test_lease_that_nobody_hears_of_is_given_back),
        WITH_SERVER(test_lease_in_flight_at_close_is_given_back),
        WITH_SERVER(test_committed_amount_takes_the_place_of_what_was_reserved),
        WITH_SERVER(test_commit_is_done_once_within_its_time),
        WITH_SERVER(test_refund_and_expiry_give_everything_back),
        WITH_SERVER(test_late_commit_charges_the_current_window_and_says_so),
        WITH_SERVER(test_all_take_or_none),
        WITH_SERVER(test_shadow_counts_and_never_denies),
        WITH_SERVER(test_foreign_value_is_an_error_for_its_own_requests_only),
        WITH_SERVER(test_same_key_twice_is_refused),
        WITH_SERVER(test_permit_of_a_local_engine_is_refused),
        WITH_SERVER(test_many_over_shared_keys_travel_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
