/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Leases and reservations in the local engine: what an acquire gives, and what becomes of it by its permit; against a
 * model that keeps them in an array, however the clock goes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "calendar.h"
#include "permit.h"
#include "support/random.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SECOND INT64_C(1000000)
#define HOUR (3600 * SECOND)
#define NOW INT64_C(1767225600000000) /* 2026-01-01; a whole number of hours */

static const hirate_limit jobs = HIRATE_CONCURRENCY("jobs", 10, HIRATE_SECONDS(30));
static const hirate_limit used = HIRATE_QUOTA("used", 10, HIRATE_PER_HOUR, 0);

typedef struct answer {
    int rc;
    hirate_result result;
    hirate_error error;
    char permit[HIRATE_PERMIT_SIZE]; /* a copy, that stays */
} answer;

static answer ask(hirate_local *local, const hirate_request *request, int64_t now_us)
{
    answer a = {.rc = 0};

    hirate_result_init(&a.result);
    a.rc = hirate_local_decide(local, request, now_us, &a.result, &a.error);
    if (a.rc == 0)
        (void)snprintf(a.permit, sizeof a.permit, "%s", a.result.permit);
    return a;
}

static answer acquire(hirate_local *local, const hirate_limit *limit, uint64_t cost, uint64_t hold_us, int64_t now_us)
{
    hirate_request request;

    hirate_request_init(&request);
    request.limit = limit;
    request.name = "a";
    request.name_len = 1;
    request.cost = cost;
    request.hold_us = hold_us;
    return ask(local, &request, now_us);
}

static answer with_permit(hirate_local *local, enum hirate_op op, const char *permit, uint64_t cost, int64_t now_us)
{
    hirate_request request;

    hirate_request_init(&request);
    request.op = op;
    request.permit = permit;
    request.cost = cost;
    return ask(local, &request, now_us);
}

static answer reset(hirate_local *local, const hirate_limit *limit, int64_t now_us)
{
    hirate_request request;

    hirate_request_init(&request);
    request.op = HIRATE_OP_RESET;
    request.limit = limit;
    request.name = "a";
    request.name_len = 1;
    return ask(local, &request, now_us);
}

/* What is left, by a peek. */
static uint64_t left(hirate_local *local, const hirate_limit *limit, int64_t now_us)
{
    hirate_request request;

    hirate_request_init(&request);
    request.op = HIRATE_OP_PEEK;
    request.limit = limit;
    request.name = "a";
    request.name_len = 1;
    request.cost = 0;
    return ask(local, &request, now_us).result.remaining;
}

static void assert_answer(const answer *a, enum hirate_verdict verdict, uint64_t remaining, int64_t reset_ms)
{
    if (a->rc != 0)
        fail_msg("%d %s", a->rc, a->error.text);
    assert_int_equal(a->result.verdict, verdict);
    assert_true(a->result.remaining == remaining);
    assert_true(a->result.reset_ms == reset_ms);
}

static void assert_used(const answer *a, int is_used, uint64_t remaining, int64_t reset_ms)
{
    assert_answer(a, HIRATE_VERDICT_NONE, remaining, reset_ms);
    assert_int_equal(a->result.used, is_used);
    assert_int_equal(a->result.charge, HIRATE_CHARGE_NO);
    assert_true(a->result.retry_after_ms == 0 && a->result.delay_ms == 0);
    assert_string_equal(a->result.permit, "");
    assert_null(a->result.limits);
    assert_int_equal(a->result.limit_count, 1);
}

static void assert_refused(const answer *a, int rc, const char *begins)
{
    if (a->rc != rc || a->error.code != rc || strncmp(a->error.text, begins, strlen(begins)) != 0)
        fail_msg("expected %d '%s …', got %d '%s'", rc, begins, a->rc, a->rc != 0 ? a->error.text : "");
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

/* -------------------------------------------------------------------------------------------------- leases -- */

static void test_lease_is_given_with_a_permit(void **state)
{
    answer a = acquire(*state, &jobs, 3, 0, NOW);
    hr_permit permit;

    assert_answer(&a, HIRATE_ALLOWED, 7, 30000);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_YES);
    assert_int_equal(hr_permit_read(&permit, a.permit, NULL), 0);
    assert_string_equal(permit.prefix, "");
    assert_string_equal(permit.policy, "jobs");
    assert_true(permit.limit.capacity == 10 && permit.limit.lease_us == 30000000);
    assert_true(permit.until_us == NOW + 30 * SECOND);
    assert_true(permit.name_len == 1 && permit.name[0] == 'a');
    /* The one limit's own answer has it too. */
    const hirate_limit_result *one = hirate_result_limit(&a.result, 0);
    assert_ptr_equal(one, a.result.limits);
    assert_string_equal(one->permit, a.permit);
    assert_int_equal(one->policy_kind, HIRATE_KIND_CONCURRENCY);
    assert_ptr_equal(one->policy, jobs.policy);
    assert_true(one->remaining == 7 && one->reset_ms == 30000 && one->shadow == 0 && one->verdict == HIRATE_ALLOWED);
    assert_null(hirate_result_limit(&a.result, 1));
}

static void test_lease_ids_differ_also_between_engines(void **state)
{
    hirate_local *other = NULL;
    hr_permit permits[4];

    assert_int_equal(hirate_local_new(&other, 10), 0);
    for (int i = 0; i < 4; i++) {
        answer a = acquire(i < 2 ? *state : other, &jobs, 1, 0, NOW);
        assert_int_equal(hr_permit_read(&permits[i], a.permit, NULL), 0);
        for (int j = 0; j < i; j++)
            assert_memory_not_equal(permits[i].id, permits[j].id, HR_HOLD_ID_SIZE);
    }
    /* Another engine's permit would be held nowhere here. */
    answer lease = acquire(other, &jobs, 1, 0, NOW);
    answer a = with_permit(*state, HIRATE_OP_RELEASE, lease.permit, 1, NOW);
    assert_int_equal(a.rc, HIRATE_EINVAL);
    assert_non_null(strstr(a.error.text, "is another engine's, which took it without Redis and alone knows it; "));
    hirate_local_free(other);
}

static void test_lease_of_nothing_or_denied_has_no_permit(void **state)
{
    answer a = acquire(*state, &jobs, 0, 0, NOW);

    assert_answer(&a, HIRATE_ALLOWED, 10, 0);
    assert_string_equal(a.permit, "");
    a = acquire(*state, &jobs, 11, 0, NOW);
    assert_answer(&a, HIRATE_DENIED, 10, 0);
    assert_string_equal(a.permit, "");
    assert_string_equal(hirate_result_limit(&a.result, 0)->permit, "");
}

static void test_lease_is_released_once(void **state)
{
    answer first = acquire(*state, &jobs, 3, 0, NOW), second = acquire(*state, &jobs, 4, 0, NOW + SECOND);
    answer a = with_permit(*state, HIRATE_OP_RELEASE, first.permit, 1, NOW + 2 * SECOND);

    assert_used(&a, 1, 6, 29000);
    assert_string_equal(a.result.policy, "jobs");
    assert_int_equal(a.result.op, HIRATE_OP_RELEASE);
    assert_int_equal(a.result.source, HIRATE_SOURCE_LOCAL);
    a = with_permit(*state, HIRATE_OP_RELEASE, first.permit, 1, NOW + 2 * SECOND);
    assert_used(&a, 0, 6, 29000);
    a = with_permit(*state, HIRATE_OP_RELEASE, second.permit, 1, NOW + 2 * SECOND);
    assert_used(&a, 1, 10, 0);
    assert_int_equal(reset(*state, &jobs, NOW + 2 * SECOND).result.used, 0); /* nothing is left behind */
}

static void test_lease_ends_by_itself(void **state)
{
    answer lease = acquire(*state, &jobs, 10, 0, NOW), other = acquire(*state, &jobs, 1, 0, NOW + 1);

    assert_answer(&other, HIRATE_DENIED, 0, 30000);
    other = acquire(*state, &jobs, 1, 0, NOW + 30 * SECOND);
    assert_answer(&other, HIRATE_ALLOWED, 9, 30000);
    answer a = with_permit(*state, HIRATE_OP_RELEASE, lease.permit, 1, NOW + 30 * SECOND);
    assert_used(&a, 0, 9, 30000);
}

static void test_lease_is_renewed_for_its_whole_time(void **state)
{
    answer lease = acquire(*state, &jobs, 3, 0, NOW), other = acquire(*state, &jobs, 4, 0, NOW + SECOND);
    answer a = with_permit(*state, HIRATE_OP_RENEW, lease.permit, 1, NOW + 20 * SECOND);

    assert_answer(&a, HIRATE_ALLOWED, 3, 30000);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_NO);
    assert_string_equal(a.result.permit, "");
    assert_int_equal(hirate_result_limit(&a.result, 0)->verdict, HIRATE_ALLOWED);
    assert_int_equal(left(*state, &jobs, NOW + 31 * SECOND), 7); /* the other has ended */
    assert_int_equal(left(*state, &jobs, NOW + 50 * SECOND - 1), 7);
    assert_int_equal(left(*state, &jobs, NOW + 50 * SECOND), 10);
    /* Again and again by the same permit, until it has ended. */
    for (int64_t i = 49; i < 200; i += 29) {
        a = with_permit(*state, HIRATE_OP_RENEW, lease.permit, 1, NOW + i * SECOND);
        assert_answer(&a, HIRATE_ALLOWED, 7, 30000);
    }
    a = with_permit(*state, HIRATE_OP_RENEW, lease.permit, 1, NOW + 1000 * SECOND);
    assert_answer(&a, HIRATE_DENIED, 10, 0);
    assert_true(a.result.retry_after_ms == HIRATE_NEVER);
    assert_true(hirate_result_limit(&a.result, 0)->retry_after_ms == HIRATE_NEVER);
    (void)other;
}

/* Also where its buffer has room for no further one. */
static void test_lease_is_renewed_in_place(void **state)
{
    hirate_limit most = HIRATE_CONCURRENCY("most", HIRATE_HOLDS_MAX, HIRATE_SECONDS(30));
    answer first = acquire(*state, &most, 1, 0, NOW), second = acquire(*state, &most, 1, 0, NOW + 1);
    answer a = with_permit(*state, HIRATE_OP_RENEW, first.permit, 1, NOW + 2);

    assert_answer(&a, HIRATE_ALLOWED, HIRATE_HOLDS_MAX - 2, 30000);
    for (int i = 2; i < HIRATE_HOLDS_MAX; i++)
        assert_int_equal(acquire(*state, &most, 1, 0, NOW + i).result.verdict, HIRATE_ALLOWED);
    a = acquire(*state, &most, 1, 0, NOW + HIRATE_HOLDS_MAX);
    assert_answer(&a, HIRATE_DENIED, 0, 30000);
    a = with_permit(*state, HIRATE_OP_RENEW, second.permit, 1, NOW + HIRATE_HOLDS_MAX);
    assert_answer(&a, HIRATE_ALLOWED, 0, 30000);
    a = with_permit(*state, HIRATE_OP_RELEASE, first.permit, 1, NOW + HIRATE_HOLDS_MAX);
    assert_used(&a, 1, 1, 30000);
}

static void test_lease_is_forgotten_by_a_reset(void **state)
{
    answer lease = acquire(*state, &jobs, 3, 0, NOW);

    assert_int_equal(reset(*state, &jobs, NOW).result.used, 1);
    answer a = with_permit(*state, HIRATE_OP_RENEW, lease.permit, 1, NOW);
    assert_answer(&a, HIRATE_DENIED, 10, 0);
    a = with_permit(*state, HIRATE_OP_RELEASE, lease.permit, 1, NOW);
    assert_used(&a, 0, 10, 0);
}

/* ------------------------------------------------------------------------------------------- reservations -- */

static void test_reservation_is_given_with_a_permit(void **state)
{
    answer a = acquire(*state, &used, 3, 5000000, NOW);
    hr_permit permit;

    assert_answer(&a, HIRATE_ALLOWED, 7, 5000);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_YES);
    assert_int_equal(hr_permit_read(&permit, a.permit, NULL), 0);
    assert_true(permit.until_us == NOW + 5 * SECOND && permit.limit.per == HIRATE_PER_HOUR);
    /* At the latest until the window ends. */
    a = acquire(*state, &used, 3, UINT64_C(1) << 52, NOW);
    assert_int_equal(hr_permit_read(&permit, a.permit, NULL), 0);
    assert_true(permit.until_us == NOW + HOUR);
    a = acquire(*state, &used, 1, 0, NOW); /* a charge is none */
    assert_string_equal(a.permit, "");
    a = acquire(*state, &used, 0, 5000000, NOW);
    assert_string_equal(a.permit, "");
}

static void test_reservation_is_committed_for_less_or_more(void **state)
{
    answer hold = acquire(*state, &used, 3, 5000000, NOW);
    answer a = with_permit(*state, HIRATE_OP_COMMIT, hold.permit, 2, NOW + SECOND);

    assert_answer(&a, HIRATE_ALLOWED, 8, 3599000);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_YES);
    assert_int_equal(a.result.late, 0);
    assert_true(a.result.cost == 2 && a.result.retry_after_ms == 0);
    assert_int_equal(hirate_result_limit(&a.result, 0)->verdict, HIRATE_ALLOWED);
    assert_int_equal(hirate_result_limit(&a.result, 0)->remaining, 8);
    hold = acquire(*state, &used, 8, 5000000, NOW + SECOND);
    a = with_permit(*state, HIRATE_OP_COMMIT, hold.permit, 100, NOW + SECOND);
    assert_answer(&a, HIRATE_ALLOWED, 0, 3599000);
    a = acquire(*state, &used, 1, 0, NOW + SECOND);
    assert_answer(&a, HIRATE_DENIED, 0, 3599000);
}

static void test_reservation_committed_for_nothing_leaves_nothing(void **state)
{
    answer hold = acquire(*state, &used, 3, 5000000, NOW);
    answer a = with_permit(*state, HIRATE_OP_COMMIT, hold.permit, 0, NOW);

    assert_answer(&a, HIRATE_ALLOWED, 10, 0);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_NO);
    assert_int_equal(reset(*state, &used, NOW).result.used, 0);
}

static void test_reservation_is_refunded_once(void **state)
{
    answer hold = acquire(*state, &used, 3, 5000000, NOW);

    (void)acquire(*state, &used, 1, 0, NOW);
    answer a = with_permit(*state, HIRATE_OP_REFUND, hold.permit, 1, NOW);
    assert_used(&a, 1, 9, 3600000);
    a = with_permit(*state, HIRATE_OP_REFUND, hold.permit, 1, NOW);
    assert_used(&a, 0, 9, 3600000);
}

static void test_reservation_gone_before_its_time_is_no_entry(void **state)
{
    static const char SAYS[] = "permit: its reservation is gone before its time: committed, refunded or reset";
    answer hold = acquire(*state, &used, 3, 5000000, NOW);

    (void)with_permit(*state, HIRATE_OP_COMMIT, hold.permit, 2, NOW);
    answer a = with_permit(*state, HIRATE_OP_COMMIT, hold.permit, 2, NOW + 5 * SECOND - 1);
    assert_refused(&a, HIRATE_ENOENT, SAYS);
    assert_int_equal(left(*state, &used, NOW), 8);
    hold = acquire(*state, &used, 3, 5000000, NOW);
    (void)with_permit(*state, HIRATE_OP_REFUND, hold.permit, 1, NOW);
    a = with_permit(*state, HIRATE_OP_COMMIT, hold.permit, 2, NOW);
    assert_refused(&a, HIRATE_ENOENT, SAYS);
    hold = acquire(*state, &used, 3, 5000000, NOW);
    (void)reset(*state, &used, NOW);
    a = with_permit(*state, HIRATE_OP_COMMIT, hold.permit, 2, NOW);
    assert_refused(&a, HIRATE_ENOENT, SAYS);
    assert_int_equal(left(*state, &used, NOW), 10);
}

static void test_reservation_committed_after_its_time_is_late(void **state)
{
    answer hold = acquire(*state, &used, 3, 5000000, NOW);
    answer a = with_permit(*state, HIRATE_OP_COMMIT, hold.permit, 2, NOW + 5 * SECOND);

    assert_answer(&a, HIRATE_ALLOWED, 8, 3595000);
    assert_int_equal(a.result.late, 1);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_YES);
    /* In another window: that one is charged, beyond its limit if need be, and again: it cannot be told apart. */
    for (uint64_t i = 1; i < 4; i++) {
        a = with_permit(*state, HIRATE_OP_COMMIT, hold.permit, 4, NOW + HOUR);
        assert_answer(&a, HIRATE_ALLOWED, i < 3 ? 10 - 4 * i : 0, 3600000);
        assert_int_equal(a.result.late, 1);
    }
    /* Nothing to charge: nothing is written. */
    const int64_t expired = NOW + 2 * HOUR + 1000;
    a = with_permit(*state, HIRATE_OP_COMMIT, hold.permit, 0, expired);
    assert_answer(&a, HIRATE_ALLOWED, 10, 0);
    assert_int_equal(a.result.late, 1);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_NO);
    assert_int_equal(reset(*state, &used, expired).result.used, 0);
}

static void test_reservation_commits_add_up_to_the_largest(void **state)
{
    answer hold = acquire(*state, &used, 3, 5000000, NOW), more = acquire(*state, &used, 3, 5000000, NOW);
    hirate_limit most = used;
    answer a = with_permit(*state, HIRATE_OP_COMMIT, hold.permit, HIRATE_COST_MAX - 5, NOW);

    assert_answer(&a, HIRATE_ALLOWED, 0, 3600000);
    most.capacity = HIRATE_COST_MAX;
    assert_int_equal(left(*state, &most, NOW), 2); /* three more are held */
    a = with_permit(*state, HIRATE_OP_COMMIT, more.permit, HIRATE_COST_MAX, NOW);
    assert_answer(&a, HIRATE_ALLOWED, 0, 3600000);
    assert_int_equal(left(*state, &most, NOW), 0);
    a = with_permit(*state, HIRATE_OP_COMMIT, hold.permit, HIRATE_COST_MAX, NOW + HOUR - 1);
    assert_int_equal(a.result.late, 1);
    assert_int_equal(left(*state, &used, NOW + HOUR - 1), 0);
}

/* The limit was raised, or lowered, since: the permit says what it was. What is held is the same. */
static void test_permit_goes_by_the_limit_of_its_acquire(void **state)
{
    hirate_limit raised = jobs;
    answer lease = acquire(*state, &jobs, 3, 0, NOW);

    raised.capacity = 20;
    raised.lease_us = 60000000;
    raised.flags = HIRATE_LIMIT_SHADOW;
    answer other = acquire(*state, &raised, 12, 0, NOW);
    assert_answer(&other, HIRATE_ALLOWED, 5, 60000);
    answer a = with_permit(*state, HIRATE_OP_RENEW, lease.permit, 1, NOW + 10 * SECOND);
    assert_answer(&a, HIRATE_ALLOWED, 0, 50000);
    assert_int_equal(left(*state, &raised, NOW + 40 * SECOND - 1), 5);
    assert_int_equal(left(*state, &raised, NOW + 40 * SECOND), 8);
    a = with_permit(*state, HIRATE_OP_RENEW, other.permit, 1, NOW + 40 * SECOND);
    assert_answer(&a, HIRATE_ALLOWED, 8, 60000);
}

/* ------------------------------------------------------------------------------------------------- refused -- */

static void test_permit_of_a_client_or_other_use_is_refused(void **state)
{
    answer lease = acquire(*state, &jobs, 3, 0, NOW), hold = acquire(*state, &used, 3, 5000000, NOW);
    char client[HIRATE_PERMIT_SIZE];
    hr_permit permit;

    assert_int_equal(hr_permit_read(&permit, lease.permit, NULL), 0);
    memcpy(permit.prefix, "hirate", 7);
    (void)hr_permit_write(client, &permit);
    answer a = with_permit(*state, HIRATE_OP_RELEASE, client, 1, NOW);
    assert_refused(&a, HIRATE_EINVAL, "permit: is a client's; accepted: one that this engine gave");
    a = with_permit(*state, HIRATE_OP_RELEASE, hold.permit, 1, NOW);
    assert_refused(&a, HIRATE_EINVAL, "permit: is a reservation's; accepted: ");
    a = with_permit(*state, HIRATE_OP_RENEW, hold.permit, 1, NOW);
    assert_refused(&a, HIRATE_EINVAL, "permit: is a reservation's; accepted: ");
    a = with_permit(*state, HIRATE_OP_COMMIT, lease.permit, 1, NOW);
    assert_refused(&a, HIRATE_EINVAL, "permit: is a lease's; accepted: ");
    a = with_permit(*state, HIRATE_OP_REFUND, lease.permit, 1, NOW);
    assert_refused(&a, HIRATE_EINVAL, "permit: is a lease's; accepted: ");
    lease.permit[strlen(lease.permit) - 1]++;
    a = with_permit(*state, HIRATE_OP_RELEASE, lease.permit, 1, NOW);
    assert_refused(&a, HIRATE_EINVAL, "permit: is none that this library knows");
    a = with_permit(*state, HIRATE_OP_RELEASE, NULL, 1, NOW);
    assert_refused(&a, HIRATE_EINVAL, "permit: is NULL");
    assert_int_equal(left(*state, &jobs, NOW), 7);
    assert_int_equal(left(*state, &used, NOW), 7);
}

static void test_permit_whose_name_serves_another_kind_is_a_state_error(void **state)
{
    static const hirate_limit bucket = HIRATE_TOKEN_BUCKET("jobs", 10, HIRATE_PER_SECOND(1));
    answer lease = acquire(*state, &jobs, 3, 0, NOW);

    (void)reset(*state, &jobs, NOW);
    (void)acquire(*state, &bucket, 4, 0, NOW);
    answer a = with_permit(*state, HIRATE_OP_RELEASE, lease.permit, 1, NOW);
    assert_refused(&a, HIRATE_ESTATE, "limit: the name is in use under a token-bucket");
    assert_int_equal(left(*state, &bucket, NOW), 6);
}

static void test_permit_late_without_room_charges_nothing(void **state)
{
    hirate_local *local = NULL;

    (void)state;
    assert_int_equal(hirate_local_new(&local, 1), 0);
    answer hold = acquire(local, &used, 3, 5000000, NOW);
    (void)acquire(local, &jobs, 1, 0, NOW + 2 * HOUR); /* takes the only place */
    answer a = with_permit(local, HIRATE_OP_COMMIT, hold.permit, 2, NOW + 2 * HOUR);
    assert_refused(&a, HIRATE_EOVERLOAD, "max_keys: 1");
    a = with_permit(local, HIRATE_OP_COMMIT, hold.permit, 2, NOW + 2 * HOUR + 31 * SECOND);
    assert_answer(&a, HIRATE_ALLOWED, 8, 3569000);
    hirate_local_free(local);
}

/* ---------------------------------------------------------------------------------------------------- model -- */

/*
 * One name under a concurrency limit or a quota by the hour, in the plainest way: what was given stands in an array,
 * with a mark. It is there until it expires, as a key is.
 */
enum { GIVEN = 120 };
typedef struct model {
    bool leases, stored;
    int64_t deadline_ms;
    int64_t at, start, end;
    uint64_t used;
    struct {
        bool held;
        int64_t until, permit_until;
        uint64_t units;
        char permit[HIRATE_PERMIT_SIZE];
    } given[GIVEN];
    size_t count;
} model;

static uint64_t model_held(const model *m)
{
    uint64_t held = 0;

    for (size_t i = 0; i < m->count; i++)
        held += m->given[i].held ? m->given[i].units : 0;
    return held;
}

static void model_drop(model *m, int64_t shift, int64_t now)
{
    for (size_t i = 0; i < m->count; i++) {
        m->given[i].until += shift;
        m->given[i].held = m->given[i].held && m->given[i].until > now;
    }
}

/* What has expired is gone, even if it is only looked for. */
static void model_find(model *m, int64_t now)
{
    m->stored = m->stored && m->deadline_ms >= now / 1000;
}

/* To the moment `now`, without a write. */
static void model_load(model *m, int64_t lease, int64_t now)
{
    if (!m->stored || (!m->leases && now >= m->end)) {
        for (size_t i = 0; i < m->count; i++)
            m->given[i].held = false;
        m->used = 0;
        m->at = now;
        m->end = 0;
    }
    if (m->leases) {
        int64_t shift = m->at - now > lease ? now - m->at : 0;
        if (shift != 0 || now >= m->at)
            m->at = now;
        model_drop(m, shift, now);
        return;
    }
    model_drop(m, 0, now);
    if ((m->used == 0 && model_held(m) == 0) || m->start - now > m->end - m->start) {
        hr_span span = hr_span_calendar(HIRATE_PER_HOUR, 0, now);
        m->start = span.start_us;
        m->end = span.end_us;
    }
}

static int64_t model_reset_ms(const model *m, int64_t now)
{
    int64_t last = m->used > 0 ? m->end : now;

    for (size_t i = 0; i < m->count && m->used == 0; i++)
        if (m->given[i].held && m->given[i].until > last)
            last = m->given[i].until;
    if (!m->leases && last > m->end)
        last = m->end;
    return (last - now + 999) / 1000;
}

static void model_write(model *m, int64_t now)
{
    m->stored = model_reset_ms(m, now) > 0;
    m->deadline_ms = now / 1000 + model_reset_ms(m, now);
}

static uint64_t model_remaining(const model *m, uint64_t max)
{
    uint64_t taken = m->used + model_held(m);

    return taken < max ? max - taken : 0;
}

typedef struct world {
    hirate_local *local;
    model m;
    hirate_limit limit;
    uint64_t max, lease;
    int64_t now;
} world;

static void world_acquire(world *w, rng *r)
{
    uint64_t cost = rng_upto(r, w->max / 3 + 2);
    uint64_t hold = !w->m.leases && rng_upto(r, 4) ? 1 + rng_upto(r, (uint64_t)HOUR / 3) : 0;
    answer a = acquire(w->local, &w->limit, cost, hold, w->now);

    model_find(&w->m, w->now);
    model_load(&w->m, (int64_t)w->lease, w->now);
    bool fits = cost <= model_remaining(&w->m, w->max), given = fits && cost > 0 && (w->m.leases || hold > 0);
    if (given) {
        int64_t until = w->m.leases ? w->m.at + (int64_t)w->lease : w->now + (int64_t)hold;
        if (!w->m.leases && until > w->m.end)
            until = w->m.end;
        w->m.given[w->m.count].held = true;
        w->m.given[w->m.count].until = w->m.given[w->m.count].permit_until = until;
        w->m.given[w->m.count].units = cost;
        memcpy(w->m.given[w->m.count++].permit, a.permit, sizeof a.permit);
    } else if (fits) {
        w->m.used += cost;
    }
    model_write(&w->m, w->now);
    assert_answer(&a, fits ? HIRATE_ALLOWED : HIRATE_DENIED, model_remaining(&w->m, w->max),
                  model_reset_ms(&w->m, w->now));
    assert_int_equal(a.permit[0] != '\0', given);
    assert_int_equal(a.result.charge, fits && cost > 0 ? HIRATE_CHARGE_YES : HIRATE_CHARGE_NO);
}

static void world_give_back(world *w, size_t i)
{
    answer a =
        with_permit(w->local, w->m.leases ? HIRATE_OP_RELEASE : HIRATE_OP_REFUND, w->m.given[i].permit, 1, w->now);
    model_find(&w->m, w->now);
    model before = w->m;

    model_load(&w->m, (int64_t)w->lease, w->now);
    bool held = w->m.given[i].held;
    w->m.given[i].held = false;
    assert_used(&a, held, model_remaining(&w->m, w->max), model_reset_ms(&w->m, w->now));
    if (held)
        model_write(&w->m, w->now);
    else
        w->m = before; /* nothing was written */
}

static void world_renew(world *w, size_t i)
{
    answer a = with_permit(w->local, HIRATE_OP_RENEW, w->m.given[i].permit, 1, w->now);
    model_find(&w->m, w->now);
    model before = w->m;

    model_load(&w->m, (int64_t)w->lease, w->now);
    bool held = w->m.given[i].held;
    if (held)
        w->m.given[i].until = w->m.at + (int64_t)w->lease;
    assert_answer(&a, held ? HIRATE_ALLOWED : HIRATE_DENIED, model_remaining(&w->m, w->max),
                  model_reset_ms(&w->m, w->now));
    assert_true(a.result.retry_after_ms == (held ? 0 : HIRATE_NEVER));
    if (held)
        model_write(&w->m, w->now);
    else
        w->m = before;
}

static void world_commit(world *w, rng *r, size_t i)
{
    uint64_t amount = rng_upto(r, w->max / 2);
    answer a = with_permit(w->local, HIRATE_OP_COMMIT, w->m.given[i].permit, amount, w->now);
    model_find(&w->m, w->now);
    model before = w->m;

    model_load(&w->m, 0, w->now);
    bool held = w->m.given[i].held, late = !held && w->now >= w->m.given[i].permit_until;
    if (!held && !late) {
        assert_refused(&a, HIRATE_ENOENT, "permit: ");
        w->m = before;
        return;
    }
    w->m.given[i].held = false;
    w->m.used += amount;
    assert_answer(&a, HIRATE_ALLOWED, model_remaining(&w->m, w->max), model_reset_ms(&w->m, w->now));
    assert_int_equal(a.result.late, late);
    assert_int_equal(a.result.charge, amount > 0 ? HIRATE_CHARGE_YES : HIRATE_CHARGE_NO);
    if (held || amount > 0)
        model_write(&w->m, w->now);
    else
        w->m = before;
}

static void world_step(world *w, rng *r)
{
    size_t i = w->m.count > 0 ? rng_upto(r, w->m.count - 1) : 0;
    uint64_t what = w->m.count == 0 ? 0 : rng_upto(r, 99);

    if (w->m.count > 5 && rng_upto(r, 3))
        i = w->m.count - 1 - rng_upto(r, 4); /* of those that may still be there, mostly */
    if (what < 50)
        world_acquire(w, r);
    else if (what < 70)
        world_give_back(w, i);
    else if (what < 98 && w->m.leases)
        world_renew(w, i);
    else if (what < 98)
        world_commit(w, r, i);
    else {
        answer a = reset(w->local, &w->limit, w->now);
        model_find(&w->m, w->now);
        assert_int_equal(a.result.used, w->m.stored);
        w->m.stored = false;
    }
    uint64_t length = w->m.leases ? w->lease : (uint64_t)HOUR;
    int64_t by = (int64_t)rng_upto(r, rng_upto(r, 9) ? length / 10 + 1 : length + length / 2);
    w->now += rng_upto(r, 4) ? by : -by;
}

static void run_random_trace(rng *r, bool leases)
{
    world w = {.max = 1 + rng_magnitude(r, 40), .lease = rng_magnitude(r, 40), .now = NOW, .m = {.leases = leases}};

    if (leases)
        hirate_limit_concurrency(&w.limit, "held", w.max, w.lease);
    else
        hirate_limit_quota(&w.limit, "held", w.max, HIRATE_PER_HOUR, 0);
    assert_int_equal(hirate_local_new(&w.local, 1), 0);
    while (w.m.count < GIVEN)
        world_step(&w, r);
    hirate_local_free(w.local);
}

static void test_leases_random_trace_equals_naive_model(void **state)
{
    rng r = rng_start("test_leases_random_trace_equals_naive_model");

    (void)state;
    for (int i = 0; i < 150; i++)
        run_random_trace(&r, true);
}

static void test_reservations_random_trace_equals_naive_model(void **state)
{
    rng r = rng_start("test_reservations_random_trace_equals_naive_model");

    (void)state;
    for (int i = 0; i < 150; i++)
        run_random_trace(&r, false);
}

#define WITH_LOCAL(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_LOCAL(test_lease_is_given_with_a_permit),
        WITH_LOCAL(test_lease_ids_differ_also_between_engines),
        WITH_LOCAL(test_lease_of_nothing_or_denied_has_no_permit),
        WITH_LOCAL(test_lease_is_released_once),
        WITH_LOCAL(test_lease_ends_by_itself),
        WITH_LOCAL(test_lease_is_renewed_for_its_whole_time),
        WITH_LOCAL(test_lease_is_renewed_in_place),
        WITH_LOCAL(test_lease_is_forgotten_by_a_reset),
        WITH_LOCAL(test_reservation_is_given_with_a_permit),
        WITH_LOCAL(test_reservation_is_committed_for_less_or_more),
        WITH_LOCAL(test_reservation_committed_for_nothing_leaves_nothing),
        WITH_LOCAL(test_reservation_is_refunded_once),
        WITH_LOCAL(test_reservation_gone_before_its_time_is_no_entry),
        WITH_LOCAL(test_reservation_committed_after_its_time_is_late),
        WITH_LOCAL(test_reservation_commits_add_up_to_the_largest),
        WITH_LOCAL(test_permit_goes_by_the_limit_of_its_acquire),
        WITH_LOCAL(test_permit_of_a_client_or_other_use_is_refused),
        WITH_LOCAL(test_permit_whose_name_serves_another_kind_is_a_state_error),
        cmocka_unit_test(test_permit_late_without_room_charges_nothing),
        cmocka_unit_test(test_leases_random_trace_equals_naive_model),
        cmocka_unit_test(test_reservations_random_trace_equals_naive_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
