/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Damaged leases and reservations under a key: whatever stands there, it is an answer or an error of that key's
 * requests only; the connection stands and no other key suffers. it_state_kinds.c does the same for states without
 * holds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/random.h"
#include "support/server.h"

#include <endian.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NOON INT64_C(1767268800000000) /* 2026-01-01 12:00 UTC */
#define SECOND INT64_C(1000000)

enum { HOLDS = 4, STATE_MOST = 34 + 28 * HOLDS };

static const hirate_limit SLOTS = HIRATE_CONCURRENCY("slots", 20, HIRATE_SECONDS(10));
static const hirate_limit HOURLY = HIRATE_QUOTA("hourly", 20, HIRATE_PER_HOUR, 0);
static const hirate_limit NEAR = HIRATE_TOKEN_BUCKET("near", 20, HIRATE_PER_SECOND(1));

static server *redis;
static driver d;

/* --------------------------------------------------------------------------------------------------- set-up -- */

static int start(void **state)
{
    (void)state;
    redis = server_start(&(server_options){.fake_clock = true});
    return 0;
}

static int stop(void **state)
{
    (void)state;
    server_stop(redis);
    return 0;
}

static int open_client(void **state)
{
    (void)state;
    server_ask(redis, "FLUSHALL");
    server_set_clock(redis, NOON);
    driver_open(&d, server_uri(redis));
    return 0;
}

static int close_client(void **state)
{
    (void)state;
    hirate_stats stats;
    hirate_stats_init(&stats);
    hirate_get_stats(d.h, &stats);
    driver_close(&d);
    return stats.connects <= 1 ? 0 : -1; /* whatever was found, the connection stood */
}

/* ------------------------------------------------------------------------------------------------- real permits -- */

/* A lease or reservation of so many units, and its permit. */
typedef struct taken {
    answer a; /* first: an answer is its hold */
    char permit[HIRATE_PERMIT_SIZE];
} taken;

static void on_taken(hirate *h, const hirate_result *result, void *user)
{
    taken *t = user;
    (void)h;
    t->a.calls++;
    t->a.result = *result;
    (void)snprintf(t->permit, sizeof t->permit, "%s", result->permit);
}

static void take(taken *t, const hirate_limit *limit, uint64_t cost, int64_t hold_us)
{
    hirate_request request;
    hirate_request_init(&request);
    request.limit = limit;
    request.name = "victim";
    request.name_len = 6;
    request.cost = cost;
    request.hold_us = limit->kind == HIRATE_KIND_QUOTA ? (uint64_t)hold_us : 0;
    request.cb = on_taken;
    request.user = t;
    memset(t, 0, sizeof *t);
    assert_int_equal(hirate_submit(d.h, &request, NULL), 0);
    for (int64_t until = driver_now_ms() + DRIVER_PATIENCE_MS; !t->a.calls && driver_now_ms() < until;)
        driver_turn(&d, 1000);
    assert_int_equal(t->a.calls, 1);
    assert_true(strlen(t->permit) > 0);
}

static void use(answer *a, enum hirate_op op, const char *permit)
{
    hirate_request request;
    hirate_request_init(&request);
    request.op = op;
    request.permit = permit;
    assert_int_equal(driver_submit(&d, &request, a, NULL), 0);
}

/* -------------------------------------------------------------------------------------------------- the state -- */

typedef struct value {
    char bytes[STATE_MOST];
    size_t len;
} value;

static const char *key_of(const hirate_limit *limit)
{
    return limit == &SLOTS ? "hirate:slots:victim" : "hirate:hourly:victim";
}

static value get_state(const hirate_limit *limit)
{
    value v = {.len = 0};
    const char *bytes = server_ask_args(redis, 2, (const char *const[]){"GET", key_of(limit)}, NULL, &v.len);
    assert_true(v.len <= sizeof v.bytes);
    memcpy(v.bytes, bytes, v.len);
    return v;
}

static void set_state(const hirate_limit *limit, const value *v)
{
    const char *const argv[] = {"SET", key_of(limit), v->bytes, "PX", "777"};
    const size_t lens[] = {3, strlen(argv[1]), v->len, 2, 3};
    assert_string_equal(server_ask_args(redis, 5, argv, lens, NULL), "OK");
}

static void put(value *v, size_t at, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    bits = htole64(bits);
    memcpy(v->bytes + at, &bits, sizeof bits);
}

/* Where the holds begin. */
static size_t head_of(const hirate_limit *limit)
{
    return limit == &SLOTS ? 18 : 34;
}

/* Four holds of five units, each ending a second after the one before. */
static value make_state(const hirate_limit *limit, taken holds[HOLDS])
{
    for (int i = 0; i < HOLDS; i++) {
        server_set_clock(redis, NOON + i * SECOND);
        take(&holds[i], limit, 5, 10 * SECOND);
    }
    value v = get_state(limit);
    assert_int_equal(v.len, head_of(limit) + 28 * HOLDS);
    return v;
}

/* ------------------------------------------------------------------------------------------------------- cases -- */

/* `op` with that permit, an acquire and a peek of the victim, and a neighbour in the same call. */
static void expect_harmless(const hirate_limit *limit, enum hirate_op op, const char *permit, const char *what)
{
    answer used = {0}, victim[2] = {{0}}, near = {0};
    const answer *each[] = {&used, &victim[0], &victim[1], &near};
    size_t before = d.called;

    use(&used, op, permit);
    assert_int_equal(driver_acquire(&d, &victim[0], limit, "victim", 2), 0);
    assert_int_equal(driver_peek(&d, &victim[1], limit, "victim", 20), 0);
    assert_int_equal(driver_acquire(&d, &near, &NEAR, "near", 0), 0);
    assert_true(driver_wait(&d, before + 4));
    for (size_t i = 0; i < 4; i++) {
        const hirate_result *r = &each[i]->result;
        if (r->error != HIRATE_OK && (r->error != HIRATE_ESTATE || i == 3) &&
            !(op == HIRATE_OP_COMMIT && i == 0 && r->error == HIRATE_ENOENT))
            fail_msg("%s, operation %d, answer %zu: error %d: %s", what, (int)op, i, r->error, each[i]->reason);
        if (r->error == HIRATE_OK && r->verdict == HIRATE_DENIED)
            assert_true(r->retry_after_ms >= 1);
        assert_true(r->reset_ms >= 0);
    }
}

static const enum hirate_op OPS[2][2] = {{HIRATE_OP_RELEASE, HIRATE_OP_RENEW}, {HIRATE_OP_REFUND, HIRATE_OP_COMMIT}};

static void test_holds_out_of_order_harm_nobody_else(void **state)
{
    const hirate_limit *limits[] = {&SLOTS, &HOURLY};
    (void)state;
    for (size_t l = 0; l < 2; l++) {
        taken holds[HOLDS];
        value right = make_state(limits[l], holds);
        for (size_t last = 1; last < HOLDS; last++) {
            for (size_t which = 0; which < HOLDS; which++) {
                value v = right;
                for (size_t k = last; k < HOLDS; k++)
                    put(&v, head_of(limits[l]) + 28 * k, 5); /* in 1970 */
                for (size_t o = 0; o < 2; o++) {
                    set_state(limits[l], &v);
                    expect_harmless(limits[l], OPS[l][o], holds[which].permit, "out of order");
                }
            }
        }
    }
}

static void test_holds_that_do_not_add_up_harm_nobody_else(void **state)
{
    static const double totals[] = {4, 5, 6, 9, 10, 19, 9007199254740991.0};
    const hirate_limit *limits[] = {&SLOTS, &HOURLY};
    (void)state;
    for (size_t l = 0; l < 2; l++) {
        taken holds[HOLDS];
        value right = make_state(limits[l], holds);
        for (size_t t = 0; t < sizeof totals / sizeof *totals; t++) {
            for (size_t which = 0; which < HOLDS; which++) {
                value v = right;
                put(&v, head_of(limits[l]) - 8, totals[t]);
                for (size_t o = 0; o < 2; o++) {
                    set_state(limits[l], &v);
                    expect_harmless(limits[l], OPS[l][o], holds[which].permit, "sum");
                }
            }
        }
    }
}

static double any_number(rng *r)
{
    static const double numbers[] = {0, 1, 5, -1, 0.5, 2e15, 9007199254740991.0, 9007199254740992.0, 1e300, NOON,
                                     NOON + 2e6, NOON + 3e6 + 1, NOON + 1e7, NOON + 6e9, 6.3e15, -4398046511104.0};
    uint64_t i = rng_upto(r, sizeof numbers / sizeof *numbers + 1);
    if (i < sizeof numbers / sizeof *numbers)
        return numbers[i];
    return i % 2 ? (double)NAN : (double)NOON + (double)rng_upto(r, 20000000) - 1e7;
}

static void test_holds_damaged_at_random_harm_nobody_else(void **state)
{
    rng r = rng_start(__func__);
    const hirate_limit *limits[] = {&SLOTS, &HOURLY};
    taken holds[2][HOLDS];
    value right[2];
    (void)state;

    for (size_t l = 0; l < 2; l++)
        right[l] = make_state(limits[l], holds[l]);
    for (size_t rounds = driver_slow() ? 500 : 6000; rounds > 0; rounds--) {
        size_t l = (size_t)rng_upto(&r, 1);
        value v = right[l];
        for (uint64_t n = 1 + rng_upto(&r, 2); n > 0; n--) {
            size_t fields = (head_of(limits[l]) - 2) / 8, field = (size_t)rng_upto(&r, fields + 2 * HOLDS - 1);
            size_t in_hold = field - fields;
            put(&v, field < fields ? 2 + 8 * field : head_of(limits[l]) + 28 * (in_hold / 2) + 8 * (in_hold % 2),
                any_number(&r));
        }
        char *id = v.bytes + head_of(limits[l]) + 16;
        if (rng_upto(&r, 9) == 0)
            memcpy(id + 28, id, 12); /* the same twice */
        if (rng_upto(&r, 9) == 0)
            v.len -= 28 * (size_t)rng_upto(&r, HOLDS);
        set_state(limits[l], &v);
        server_set_clock(redis, NOON + (int64_t)rng_upto(&r, 12) * SECOND - (rng_upto(&r, 5) ? 0 : HIRATE_DAYS(1)));
        expect_harmless(limits[l], OPS[l][rng_upto(&r, 1)], holds[l][rng_upto(&r, HOLDS - 1)].permit, "damaged");
    }
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_holds_out_of_order_harm_nobody_else, open_client, close_client),
        cmocka_unit_test_setup_teardown(test_holds_that_do_not_add_up_harm_nobody_else, open_client, close_client),
        cmocka_unit_test_setup_teardown(test_holds_damaged_at_random_harm_nobody_else, open_client, close_client),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
