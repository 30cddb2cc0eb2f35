/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many leases and reservations of one name against a real server: what a thousand of them do in one turn is what the
 * local engine says, and takes the server no time to speak of.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/random.h"
#include "support/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOON INT64_C(1767268800000000) /* 2026-01-01 12:00 UTC */

enum { A_TURN = 400 };

static server *redis;
static driver d;

/* What was asked of both, what both said, and the permits that both gave. */
typedef struct asked {
    int calls;
    hirate_result result, expected;
    char permit[HIRATE_PERMIT_SIZE], own[HIRATE_PERMIT_SIZE];
    char reason[HIRATE_REASON_MAX + 1];
} asked;

static int set_up(void **state)
{
    (void)state;
    hirate_options options;
    redis = server_start(&(server_options){.fake_clock = true});
    server_set_clock(redis, NOON);
    hirate_options_init(&options);
    options.uri = server_uri(redis);
    options.deadline_ms = DRIVER_PATIENCE_MS / 2;
    options.stall_timeout_ms = 1000; /* a call that took so long would lose the connection */
    driver_open_with(&d, &options, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    driver_close(&d);
    server_stop(redis);
    return 0;
}

static void on_answer(hirate *h, const hirate_result *result, void *user)
{
    asked *a = user;
    (void)h;
    a->calls++;
    a->result = *result;
    (void)snprintf(a->permit, sizeof a->permit, "%s", result->permit);
    (void)snprintf(a->reason, sizeof a->reason, "%s", result->reason);
}

static void submit(hirate_request *request, asked *a)
{
    a->calls = 0;
    request->cb = on_answer;
    request->user = a;
    if (hirate_submit(d.h, request, NULL))
        fail_msg("%s", hirate_last_error(d.h));
}

static void wait_for(const asked *all, size_t count)
{
    size_t done = 0;
    for (int64_t until = driver_now_ms() + DRIVER_PATIENCE_MS; done < count && driver_now_ms() < until;) {
        driver_turn(&d, 1000);
        while (done < count && all[done].calls)
            done++;
    }
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(all[i].calls, 1);
        if (all[i].result.error && all[i].result.error != HIRATE_ENOENT)
            fail_msg("answer %zu: error %d: %s", i, all[i].result.error, all[i].reason);
    }
}

static hirate_request on(const hirate_limit *limit, enum hirate_op op, uint64_t cost)
{
    hirate_request request;
    hirate_request_init(&request);
    request.op = op;
    request.limit = limit;
    request.name = "one";
    request.name_len = 3;
    request.cost = cost;
    return request;
}

/* -------------------------------------------------------------------------------------- as the local engine does -- */

typedef struct world {
    hirate_local *local;
    const hirate_limit *limits[2];
    enum hirate_op ops[2]; /* with a permit */
    rng random;
    asked *had[A_TURN * 8]; /* those that got permits */
    size_t had_count;
} world;

static void ask_both(world *w, asked *a, hirate_request *request, int64_t now_us)
{
    const asked *of = NULL;
    if (w->had_count && rng_upto(&w->random, 1)) {
        of = w->had[rng_upto(&w->random, w->had_count - 1)];
        request->op = w->ops[rng_upto(&w->random, 1)];
        request->limit = NULL;
        request->hold_us = 0;
        request->permit = of->permit;
    }
    submit(request, a);
    if (of)
        request->permit = of->own;
    hirate_result_init(&a->expected);
    a->expected.error = hirate_local_decide(w->local, request, now_us, &a->expected, NULL);
    (void)snprintf(a->own, sizeof a->own, "%s", a->expected.error || of ? "" : a->expected.permit);
}

static void compare(const asked *a)
{
    assert_int_equal(a->result.error, a->expected.error);
    if (a->result.error)
        return;
    assert_int_equal(a->result.verdict, a->expected.verdict);
    assert_int_equal(a->result.remaining, a->expected.remaining);
    assert_true(a->result.retry_after_ms == a->expected.retry_after_ms);
    assert_true(a->result.reset_ms == a->expected.reset_ms);
    assert_int_equal(a->result.used, a->expected.used);
    assert_int_equal(a->result.late, a->expected.late);
    assert_int_equal(a->permit[0] != 0, a->own[0] != 0);
}

static hirate_request any_request(world *w)
{
    const hirate_limit *limit = w->limits[rng_upto(&w->random, 19) == 0];
    enum hirate_op op = rng_upto(&w->random, 4) ? HIRATE_OP_ACQUIRE : HIRATE_OP_PEEK;
    uint64_t cost = rng_upto(&w->random, 3) ? 1 + rng_upto(&w->random, 3) : rng_upto(&w->random, 600);
    hirate_request request = on(limit, op, cost);
    if (limit->kind == HIRATE_KIND_QUOTA && op == HIRATE_OP_ACQUIRE)
        request.hold_us = (uint64_t)HIRATE_SECONDS(1) * (1 + rng_upto(&w->random, 9));
    return request;
}

static void run_world(world *w)
{
    int64_t now_us = NOON;
    asked *all = calloc(A_TURN * 8, sizeof *all);
    assert_int_equal(hirate_local_new(&w->local, 16), 0);
    for (size_t turn = 0; turn < 8; turn++) {
        asked *these = all + turn * A_TURN;
        server_set_clock(redis, now_us);
        for (size_t i = 0; i < A_TURN; i++) {
            hirate_request request = any_request(w);
            ask_both(w, &these[i], &request, now_us);
        }
        wait_for(these, A_TURN);
        for (size_t i = 0; i < A_TURN; i++) {
            compare(&these[i]);
            if (these[i].permit[0])
                w->had[w->had_count++] = &these[i];
        }
        now_us += (int64_t)rng_upto(&w->random, 2500000);
        if (turn == 5)
            now_us -= HIRATE_SECONDS(20);
    }
    assert_true(w->had_count > A_TURN / 2);
    hirate_local_free(w->local);
    free(all);
}

static void test_many_leases_are_as_the_local_engine_says(void **state)
{
    static const hirate_limit lease = HIRATE_CONCURRENCY("many", 600, HIRATE_SECONDS(10));
    static const hirate_limit shorter = HIRATE_CONCURRENCY("many", 600, HIRATE_SECONDS(7));
    static world w;
    (void)state;
    w = (world){.limits = {&lease, &shorter}, .ops = {HIRATE_OP_RELEASE, HIRATE_OP_RENEW}};
    w.random = rng_start(__func__);
    run_world(&w);
}

static void test_many_reservations_are_as_the_local_engine_says(void **state)
{
    static const hirate_limit hourly = HIRATE_QUOTA("hourly", 40000, HIRATE_PER_HOUR, 0);
    static const hirate_limit wider = HIRATE_QUOTA("hourly", 44000, HIRATE_PER_HOUR, 0);
    static world w;
    (void)state;
    w = (world){.limits = {&hourly, &wider}, .ops = {HIRATE_OP_REFUND, HIRATE_OP_COMMIT}};
    w.random = rng_start(__func__);
    run_world(&w);
}

/* --------------------------------------------------------------------------------------- as many as there may be -- */

static void fill(asked *all, const hirate_limit *limit)
{
    hirate_request request = on(limit, HIRATE_OP_ACQUIRE, 1);
    for (size_t i = 0; i < HIRATE_HOLDS_MAX; i++)
        submit(&request, &all[i]);
    wait_for(all, HIRATE_HOLDS_MAX);
}

static void test_a_turn_of_denials_does_not_hold_the_server_up(void **state)
{
    static const hirate_limit lease = HIRATE_CONCURRENCY("most", HIRATE_HOLDS_MAX, HIRATE_SECONDS(10));
    asked *all = calloc(HIRATE_HOLDS_MAX, sizeof *all);
    (void)state;
    fill(all, &lease);
    for (size_t i = 0; i < 1024; i++) {
        hirate_request request = on(&lease, i % 2 ? HIRATE_OP_PEEK : HIRATE_OP_ACQUIRE, HIRATE_HOLDS_MAX - i % 100);
        submit(&request, &all[i]);
    }
    wait_for(all, 1024);
    for (size_t i = 0; i < 1024; i++) {
        assert_int_equal(all[i].result.verdict, HIRATE_DENIED);
        assert_int_equal(all[i].result.retry_after_ms, 10000);
    }
    free(all);
}

static void test_a_turn_of_shorter_leases_does_not_hold_the_server_up(void **state)
{
    static const hirate_limit lease = HIRATE_CONCURRENCY("most", 100000, HIRATE_SECONDS(10));
    static const hirate_limit shorter = HIRATE_CONCURRENCY("most", 100000, HIRATE_SECONDS(5));
    asked *all = calloc(HIRATE_HOLDS_MAX + 1, sizeof *all);
    hirate_request request = on(&shorter, HIRATE_OP_ACQUIRE, 1);
    (void)state;
    fill(all, &lease);
    submit(&request, &all[HIRATE_HOLDS_MAX]); /* one more than there may be */
    wait_for(all, HIRATE_HOLDS_MAX + 1);
    assert_int_equal(all[HIRATE_HOLDS_MAX].result.verdict, HIRATE_DENIED);
    assert_int_equal(all[HIRATE_HOLDS_MAX].result.retry_after_ms, 10000);
    for (size_t i = 0; i < 1000; i++) {
        hirate_request release = on(NULL, HIRATE_OP_RELEASE, 0);
        release.permit = all[HIRATE_HOLDS_MAX - 1 - i].permit;
        submit(&release, &all[HIRATE_HOLDS_MAX - 1 - i]);
    }
    for (size_t i = 0; i < 1000; i++)
        submit(&request, &all[i]);
    wait_for(all, HIRATE_HOLDS_MAX);
    for (size_t i = 0; i < 1000; i++) {
        assert_int_equal(all[HIRATE_HOLDS_MAX - 1 - i].result.used, 1);
        assert_int_equal(all[i].result.verdict, HIRATE_ALLOWED);
    }
    assert_int_equal(all[999].result.remaining, 0); /* no further lease */
    free(all);
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_many_leases_are_as_the_local_engine_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_reservations_are_as_the_local_engine_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_turn_of_denials_does_not_hold_the_server_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_turn_of_shorter_leases_does_not_hold_the_server_up, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
