/* SPDX-License-Identifier: BSD-3-Clause */
/* The local engine: every handed vector field by field, what it refuses, its memory bound and expiry, its ABI rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hirate.h"
#include "support/random.h"
#include "support/vectors.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NOW INT64_C(1767225600000000)

static const hirate_limit login = HIRATE_TOKEN_BUCKET("login", 20, HIRATE_RATE(1, HIRATE_SECONDS(3)));

static hirate_request make_request(enum hirate_op op, const hirate_limit *limit, const char *name, uint64_t cost)
{
    hirate_request request;

    memset(&request, 0, sizeof request);
    request.struct_size = (uint32_t)sizeof request;
    request.version = HIRATE_REQUEST_VERSION;
    request.op = op;
    request.limit = limit;
    request.name = name;
    request.name_len = strlen(name);
    request.cost = cost;
    return request;
}

static int decide(hirate_local *local, const hirate_request *request, int64_t now_us, hirate_result *result)
{
    memset(result, 0, sizeof *result);
    result->struct_size = (uint32_t)sizeof *result;
    return hirate_local_decide(local, request, now_us, result, NULL);
}

/* One request that must be answered. */
static hirate_result ask(hirate_local *local, enum hirate_op op, const hirate_limit *limit, const char *name,
                         uint64_t cost, int64_t now_us)
{
    hirate_request request = make_request(op, limit, name, cost);
    hirate_result result;

    assert_int_equal(decide(local, &request, now_us, &result), 0);
    return result;
}

static hirate_result acquire(hirate_local *local, const char *name, uint64_t cost, int64_t now_us)
{
    return ask(local, HIRATE_OP_ACQUIRE, &login, name, cost, now_us);
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

/* ------------------------------------------------------------------------------------------------- vectors -- */

static void check_row(hirate_local *local, const vectors *v, const vector_row *row, const char *path)
{
    /* Peek first: it must answer the same, and change nothing. */
    for (enum hirate_op op = HIRATE_OP_PEEK;; op = HIRATE_OP_ACQUIRE) {
        hirate_result r = ask(local, op, &v->limit, row->name, row->cost, row->time_us);
        bool taken = op == HIRATE_OP_ACQUIRE && row->verdict == HIRATE_ALLOWED && row->cost > 0;

        if (r.verdict != row->verdict || r.remaining != row->remaining || r.reset_ms != row->reset_ms ||
            r.retry_after_ms != row->retry_after_ms || r.delay_ms != row->delay_ms)
            fail_msg("%s:%zu: op %d gave verdict %d remaining %" PRIu64 " retry %" PRId64 " reset %" PRId64, path,
                     row->line, (int)op, (int)r.verdict, r.remaining, r.retry_after_ms, r.reset_ms);
        assert_int_equal(r.charge, taken ? HIRATE_CHARGE_YES : HIRATE_CHARGE_NO);
        assert_int_equal(r.source, HIRATE_SOURCE_LOCAL);
        assert_int_equal(r.op, op);
        assert_int_equal(r.error, 0);
        assert_true(r.cost == row->cost && r.time_us == row->time_us && r.id == 0);
        assert_ptr_equal(r.policy, v->policy);
        assert_string_equal(r.reason, "");
        if (op == HIRATE_OP_ACQUIRE)
            break;
    }
}

static void test_local_vectors_are_answered_field_by_field(void **state)
{
    char **paths = vectors_list("*.tsv");
    size_t files = 0;

    assert_non_null(paths);
    for (; paths[files] != NULL; files++) {
        vectors v;

        assert_int_equal(vectors_read(&v, paths[files]), 0);
        for (size_t i = 0; i < v.count; i++)
            check_row(*state, &v, &v.rows[i], paths[files]);
        vectors_free(&v);
    }
    assert_true(files >= 25);
    vectors_list_free(paths);
}

/* ------------------------------------------------------------------------------------------------- answers -- */

static void test_local_twenty_first_login_is_denied_until_three_seconds(void **state)
{
    hirate_result r;

    for (uint64_t i = 0; i < 20; i++) {
        r = acquire(*state, "a", 1, NOW);
        assert_int_equal(r.verdict, HIRATE_ALLOWED);
        assert_true(r.remaining == 19 - i);
    }
    r = acquire(*state, "a", 1, NOW);
    assert_int_equal(r.verdict, HIRATE_DENIED);
    assert_int_equal(r.retry_after_ms, 3000);
    assert_int_equal(acquire(*state, "a", 1, NOW + 2999999).verdict, HIRATE_DENIED);
    assert_int_equal(acquire(*state, "a", 1, NOW + 3000000).verdict, HIRATE_ALLOWED);
    assert_int_equal(acquire(*state, "a", 1, NOW + 3000000).verdict, HIRATE_DENIED);
}

static void test_local_reset_tells_use_and_fills(void **state)
{
    hirate_result r = ask(*state, HIRATE_OP_RESET, &login, "a", UINT64_MAX, NOW);

    assert_int_equal(r.used, 0);
    assert_int_equal(r.verdict, HIRATE_VERDICT_NONE);
    assert_int_equal(r.charge, HIRATE_CHARGE_NO);
    (void)acquire(*state, "a", 20, NOW);
    r = ask(*state, HIRATE_OP_RESET, &login, "a", 0, NOW);
    assert_int_equal(r.used, 1);
    assert_int_equal(ask(*state, HIRATE_OP_RESET, &login, "a", 0, NOW).used, 0);
    assert_true(acquire(*state, "a", 1, NOW).remaining == 19);
}

static void test_local_full_bucket_is_forgotten(void **state)
{
    (void)acquire(*state, "a", 1, NOW);
    /* Full again, to the microsecond: an acquire of nothing deletes it. */
    assert_int_equal(acquire(*state, "a", 0, NOW + 3000000).reset_ms, 0);
    assert_int_equal(ask(*state, HIRATE_OP_RESET, &login, "a", 0, NOW + 3000000).used, 0);
    (void)acquire(*state, "b", 0, NOW);
    assert_int_equal(ask(*state, HIRATE_OP_RESET, &login, "b", 0, NOW).used, 0);
}

static void test_local_denied_is_stored_too(void **state)
{
    static const hirate_limit one = HIRATE_TOKEN_BUCKET("one", 1, HIRATE_PER_SECOND(1));

    (void)ask(*state, HIRATE_OP_ACQUIRE, &one, "a", 1, NOW);
    /* The denial moves ts, so that the clock stepping back after it finds the later one. */
    (void)ask(*state, HIRATE_OP_ACQUIRE, &one, "a", 1, NOW + 500000);
    assert_int_equal(ask(*state, HIRATE_OP_PEEK, &one, "a", 1, NOW).retry_after_ms, 1000);
}

static void test_local_names_and_policies_are_kept_apart(void **state)
{
    static const hirate_limit other = HIRATE_TOKEN_BUCKET("logi", 20, HIRATE_RATE(1, HIRATE_SECONDS(3)));
    hirate_request request = make_request(HIRATE_OP_ACQUIRE, &login, "", 1);
    hirate_result r;

    request.name = NULL;
    assert_int_equal(decide(*state, &request, NOW, &r), 0);
    assert_true(r.remaining == 19);
    request.name = "a\0b";
    request.name_len = 3;
    assert_int_equal(decide(*state, &request, NOW, &r), 0);
    assert_true(r.remaining == 19);
    assert_true(acquire(*state, "a", 1, NOW).remaining == 19);
    assert_true(acquire(*state, "", 1, NOW).remaining == 18);
    assert_true(ask(*state, HIRATE_OP_ACQUIRE, &other, "a", 1, NOW).remaining == 19);
    assert_true(ask(*state, HIRATE_OP_ACQUIRE, &other, "n:a", 1, NOW).remaining == 19);
}

static void test_local_limit_is_known_by_value(void **state)
{
    hirate_limit limit;
    char policy[] = "value";
    hirate_rate rate = {1, 1000000};

    hirate_limit_token_bucket(&limit, policy, 10, rate);
    assert_true(ask(*state, HIRATE_OP_ACQUIRE, &limit, "a", 1, NOW).remaining == 9);
    /* The same address, other values: capacity, rate, name. */
    limit.capacity = 5;
    assert_true(ask(*state, HIRATE_OP_ACQUIRE, &limit, "a", 1, NOW).remaining == 4);
    limit.rate.period_us = 2000000;
    assert_int_equal(ask(*state, HIRATE_OP_PEEK, &limit, "a", 5, NOW).retry_after_ms, 2000);
    policy[0] = 'V';
    assert_true(ask(*state, HIRATE_OP_PEEK, &limit, "a", 1, NOW).remaining == 4);
    assert_int_equal(ask(*state, HIRATE_OP_RESET, &limit, "a", 1, NOW).used, 0);
}

static void test_local_bucket_expires_after_reset_like_a_key(void **state)
{
    static const hirate_limit fast = HIRATE_TOKEN_BUCKET("p", 10, HIRATE_PER_SECOND(10));
    static const hirate_limit slow = HIRATE_TOKEN_BUCKET("p", 10, HIRATE_RATE(1, HIRATE_DAYS(1)));
    const int64_t written = NOW + 999;

    /* Written in millisecond 0 for 1000 ms: there through millisecond 1000, gone in 1001. A slower rate sees it. */
    (void)ask(*state, HIRATE_OP_ACQUIRE, &fast, "a", 10, written);
    assert_int_equal(ask(*state, HIRATE_OP_PEEK, &slow, "a", 1, NOW + 1000999).verdict, HIRATE_DENIED);
    assert_int_equal(ask(*state, HIRATE_OP_PEEK, &slow, "a", 1, NOW + 1001000).verdict, HIRATE_ALLOWED);
    assert_int_equal(ask(*state, HIRATE_OP_RESET, &slow, "a", 1, NOW + 1001000).used, 0);
}

/* -------------------------------------------------------------------------------------------------- memory -- */

static void test_local_new_bounds_are_checked(void **state)
{
    hirate_local *local = NULL;

    (void)state;
    assert_int_equal(hirate_local_new(&local, 0), HIRATE_EINVAL);
    assert_int_equal(hirate_local_new(&local, ((size_t)1 << 31) + 1), HIRATE_EINVAL);
    assert_int_equal(hirate_local_new(NULL, 1), HIRATE_EINVAL);
    assert_null(local);
    assert_int_equal(hirate_local_new(&local, (size_t)1 << 31), 0); /* costs nothing until it is used */
    hirate_local_free(local);
    hirate_local_free(NULL);
}

static void test_local_key_bound_refuses_until_one_expires(void **state)
{
    hirate_local *local = NULL;
    hirate_error error = {0, ""};
    hirate_result result = {0};
    hirate_request request = make_request(HIRATE_OP_ACQUIRE, &login, "c", 1);

    (void)state;
    assert_int_equal(hirate_local_new(&local, 2), 0);
    (void)acquire(local, "a", 1, NOW);
    (void)acquire(local, "b", 2, NOW);
    result.struct_size = (uint32_t)sizeof result;
    assert_int_equal(hirate_local_decide(local, &request, NOW, &result, &error), HIRATE_EOVERLOAD);
    assert_non_null(strstr(error.text, "max_keys: 2"));
    assert_int_equal(result.verdict, HIRATE_VERDICT_NONE);

    /* What stores nothing needs no room; what is stored goes on. */
    assert_int_equal(acquire(local, "c", 0, NOW).verdict, HIRATE_ALLOWED);
    assert_int_equal(ask(local, HIRATE_OP_PEEK, &login, "c", 1, NOW).verdict, HIRATE_ALLOWED);
    assert_true(acquire(local, "b", 1, NOW).remaining == 17);

    assert_int_equal(decide(local, &request, NOW + 3000999, &result), HIRATE_EOVERLOAD);
    assert_int_equal(decide(local, &request, NOW + 3001000, &result), 0);
    assert_int_equal(ask(local, HIRATE_OP_RESET, &login, "b", 0, NOW + 3001000).used, 1);
    hirate_local_free(local);
}

static void test_local_flood_of_names_is_bounded_and_recovers(void **state)
{
    enum { KEYS = 1000, FLOOD = 20000 };
    hirate_local *local = NULL;
    char name[32];
    size_t stored = 0;

    (void)state;
    assert_int_equal(hirate_local_new(&local, KEYS), 0);
    for (int i = 0; i < FLOOD; i++) {
        hirate_result result;

        (void)snprintf(name, sizeof name, "n%d", i);
        hirate_request request = make_request(HIRATE_OP_ACQUIRE, &login, name, 1);
        int rc = decide(local, &request, NOW, &result);
        assert_true(rc == 0 || rc == HIRATE_EOVERLOAD);
        stored += rc == 0;
    }
    assert_int_equal(stored, KEYS);
    /* Once those have expired as many fit again. */
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(name, sizeof name, "m%d", i);
        assert_true(acquire(local, name, 1, NOW + 4000000).remaining == 19);
    }
    hirate_local_free(local);
}

/* A reset takes one from the middle of the heap; what fills its place belongs higher up. */
static void test_local_reset_amid_others_loses_no_expiry(void **state)
{
    static const uint64_t costs[] = {1, 10, 2, 11, 12, 3, 4}; /* 3 s each, in heap order as they come */
    enum { KEYS = sizeof costs / sizeof costs[0], LATER = 5 };
    hirate_local *local = NULL;
    char name[2] = "a";

    (void)state;
    assert_int_equal(hirate_local_new(&local, KEYS), 0);
    for (size_t i = 0; i < KEYS; i++, name[0]++)
        (void)acquire(local, name, costs[i], NOW);
    assert_int_equal(ask(local, HIRATE_OP_RESET, &login, "d", 0, NOW).used, 1);
    /* After 13 s the 10 and the 12 are left: five more fit, and no sixth. */
    for (int i = 0; i < LATER; i++, name[0]++)
        (void)acquire(local, name, 20, NOW + 13000000);
    hirate_request request = make_request(HIRATE_OP_ACQUIRE, &login, name, 1);
    hirate_result result;
    assert_int_equal(decide(local, &request, NOW + 13000000, &result), HIRATE_EOVERLOAD);
    hirate_local_free(local);
}

/* ---------------------------------------------------------------------------------------------- other kinds -- */

static const hirate_limit of_kinds[] = {
    HIRATE_TOKEN_BUCKET("kind", 5, HIRATE_PER_SECOND(5)), HIRATE_LEAKY_BUCKET("kind", 5, HIRATE_PER_SECOND(5)),
    HIRATE_FIXED_WINDOW("kind", 5, HIRATE_SECONDS(1)),    HIRATE_QUOTA("kind", 5, HIRATE_PER_HOUR, 0),
    HIRATE_SLIDING_LOG("kind", 5, HIRATE_SECONDS(1)),     HIRATE_SLIDING_WINDOW("kind", 5, HIRATE_SECONDS(1)),
    HIRATE_CONCURRENCY("kind", 5, HIRATE_SECONDS(1)),
};
enum { OF_KINDS = sizeof of_kinds / sizeof of_kinds[0] };

static void test_local_name_in_use_by_another_kind_is_a_state_error(void **state)
{
    (void)state;
    for (size_t i = 0; i < OF_KINDS; i++) {
        for (size_t j = 0; j < OF_KINDS; j++) {
            hirate_local *local = NULL;
            hirate_error error = {0, ""};
            hirate_result result = {0};
            hirate_request request = make_request(HIRATE_OP_ACQUIRE, &of_kinds[j], "secret", 1);

            assert_int_equal(hirate_local_new(&local, 10), 0);
            (void)ask(local, HIRATE_OP_ACQUIRE, &of_kinds[i], "secret", 3, NOW);
            result.struct_size = (uint32_t)sizeof result;
            int rc = hirate_local_decide(local, &request, NOW, &result, &error);
            assert_int_equal(rc, i == j ? 0 : HIRATE_ESTATE);
            request.op = HIRATE_OP_PEEK;
            if (i != j) {
                assert_non_null(strstr(error.text, "of this policy name; accepted: the same kind, or a reset first"));
                assert_null(strstr(error.text, "secret"));
                assert_int_equal(result.verdict, HIRATE_VERDICT_NONE);
                assert_int_equal(hirate_local_decide(local, &request, NOW, &result, NULL), HIRATE_ESTATE);
                /* Untouched, and of any kind it can be reset. */
                assert_true(ask(local, HIRATE_OP_PEEK, &of_kinds[i], "secret", 0, NOW).remaining == 2);
            }
            assert_int_equal(ask(local, HIRATE_OP_RESET, &of_kinds[j], "secret", 0, NOW).used, 1);
            assert_int_equal(ask(local, HIRATE_OP_RESET, &of_kinds[j], "secret", 0, NOW).used, 0);
            assert_true(ask(local, HIRATE_OP_ACQUIRE, &of_kinds[j], "secret", 1, NOW).remaining == 4);
            hirate_local_free(local);
        }
    }
}

static void test_local_name_no_longer_in_use_serves_another_kind(void **state)
{
    (void)state;
    for (size_t i = 0; i < OF_KINDS; i++) {
        hirate_local *local = NULL;

        assert_int_equal(hirate_local_new(&local, 1), 0);
        int64_t reset_ms = ask(local, HIRATE_OP_ACQUIRE, &of_kinds[i], "a", 3, NOW).reset_ms;
        int64_t later = NOW + 1000 * reset_ms + 1000;
        assert_true(ask(local, HIRATE_OP_ACQUIRE, &of_kinds[(i + 1) % OF_KINDS], "a", 1, later).remaining == 4);
        hirate_local_free(local);
    }
}

/* Names of every kind under one policy each, with changing limits, expiring and crowding each other out: what is
 * answered depends on a name's own past only. */
static void test_local_random_names_of_all_kinds_do_not_disturb_each_other(void **state)
{
    enum { NAMES = 12, STEPS = 30000 };
    rng r = rng_start("test_local_random_names_of_all_kinds_do_not_disturb_each_other");
    hirate_local *together = NULL, *alone[OF_KINDS][NAMES];
    int64_t now_us = NOW;

    (void)state;
    assert_int_equal(hirate_local_new(&together, OF_KINDS * NAMES), 0);
    for (size_t i = 0; i < OF_KINDS; i++)
        for (size_t j = 0; j < NAMES; j++)
            assert_int_equal(hirate_local_new(&alone[i][j], 1), 0);
    for (int step = 0; step < STEPS; step++) {
        size_t i = rng_upto(&r, OF_KINDS - 1), j = rng_upto(&r, NAMES - 1);
        char name[2] = {(char)('a' + j), '\0'}, policy[2] = {(char)('0' + i), '\0'};
        hirate_limit limit = of_kinds[i];
        enum hirate_op op = rng_upto(&r, 30) == 0 ? HIRATE_OP_RESET : HIRATE_OP_ACQUIRE;
        uint64_t cost = rng_upto(&r, 3);

        limit.policy = policy;
        limit.capacity = 5 + rng_upto(&r, 2);
        hirate_result a = ask(together, op, &limit, name, cost, now_us);
        hirate_result b = ask(alone[i][j], op, &limit, name, cost, now_us);
        assert_int_equal(a.verdict, b.verdict);
        assert_true(a.remaining == b.remaining && a.retry_after_ms == b.retry_after_ms && a.used == b.used);
        assert_true(a.reset_ms == b.reset_ms && a.delay_ms == b.delay_ms);
        now_us += (int64_t)rng_upto(&r, 20000);
    }
    hirate_local_free(together);
    for (size_t i = 0; i < OF_KINDS; i++)
        for (size_t j = 0; j < NAMES; j++)
            hirate_local_free(alone[i][j]);
}

/* What the engine should answer, kept in the plainest way: an array, searched in full. */
enum { MODEL_NAMES = 60, MODEL_KEYS = 25 };
typedef struct model {
    int64_t gone_ms[MODEL_NAMES]; /* the first millisecond it is not there; 0: not stored */
} model;

static size_t model_live(model *m, int64_t now_us)
{
    size_t live = 0;

    for (size_t i = 0; i < MODEL_NAMES; i++) {
        if (m->gone_ms[i] <= now_us / 1000)
            m->gone_ms[i] = 0;
        live += m->gone_ms[i] != 0;
    }
    return live;
}

/* The clock only goes forward here: which expired bucket a step back would find depends on what was swept. */
static void test_local_random_trace_stores_exactly_what_is_live(void **state)
{
    rng r = rng_start("test_local_random_trace_stores_exactly_what_is_live");
    static const hirate_limit limit = HIRATE_TOKEN_BUCKET("p", 5, HIRATE_RATE(7, HIRATE_MILLISECONDS(13)));
    hirate_local *local = NULL;
    model m = {{0}};
    int64_t now_us = NOW;
    size_t refused = 0;

    (void)state;
    assert_int_equal(hirate_local_new(&local, MODEL_KEYS), 0);
    for (int i = 0; i < 100000; i++) {
        size_t which = rng_upto(&r, MODEL_NAMES - 1);
        char name[2] = {(char)('0' + which), '\0'};
        enum hirate_op op = rng_upto(&r, 9) == 0 ? HIRATE_OP_RESET : HIRATE_OP_ACQUIRE;
        hirate_request request = make_request(op, &limit, name, rng_upto(&r, 6));
        hirate_result result;
        size_t live = model_live(&m, now_us);
        int rc = decide(local, &request, now_us, &result);

        if (op == HIRATE_OP_RESET) {
            assert_int_equal(rc, 0);
            assert_int_equal(result.used, m.gone_ms[which] != 0);
            m.gone_ms[which] = 0;
        } else if (m.gone_ms[which] == 0 && live == MODEL_KEYS && request.cost > 0 && request.cost <= 5) {
            assert_int_equal(rc, HIRATE_EOVERLOAD);
            refused++;
        } else {
            assert_int_equal(rc, 0);
            m.gone_ms[which] = result.reset_ms == 0 ? 0 : now_us / 1000 + result.reset_ms + 1;
        }
        now_us += (int64_t)rng_upto(&r, 400);
    }
    assert_true(refused > 100);
    hirate_local_free(local);
}

/* ------------------------------------------------------------------------------------------- what is wrong -- */

static void assert_refused(hirate_local *local, const hirate_request *request, int64_t now_us, const char *begins)
{
    hirate_error error = {0, ""};
    hirate_result result;
    hirate_result before;

    memset(&result, 0x5a, sizeof result);
    result.struct_size = (uint32_t)sizeof result;
    memcpy(&before, &result, sizeof result);
    int rc = hirate_local_decide(local, request, now_us, &result, &error);
    if (rc != HIRATE_EINVAL || strncmp(error.text, begins, strlen(begins)) != 0)
        fail_msg("expected '%s …', got %d '%s'", begins, rc, error.text);
    assert_memory_equal(&result, &before, sizeof result);
    assert_int_equal(hirate_local_decide(local, request, now_us, &result, NULL), HIRATE_EINVAL);
}

static void test_local_wrong_request_is_named(void **state)
{
    static const char longest[HIRATE_NAME_MAX + 1] = {'n'};
    hirate_request good = make_request(HIRATE_OP_ACQUIRE, &login, "a", 1);
    hirate_request bad = good;
    hirate_result result;

    bad.struct_size = (uint32_t)(offsetof(hirate_request, user) + sizeof bad.user - 1); /* below version 1's */
    assert_refused(*state, &bad, NOW, "request.struct_size: ");
    bad = good;
    bad.version = 2;
    assert_refused(*state, &bad, NOW, "request.version: 2");
    bad = good;
    bad.op = HIRATE_OP_INVALID;
    assert_refused(*state, &bad, NOW, "op: 0");
    bad.op = (enum hirate_op)8;
    assert_refused(*state, &bad, NOW, "op: 8");
    bad.op = HIRATE_OP_RELEASE;
    assert_refused(*state, &bad, NOW, "permit: is NULL");
    bad = good;
    bad.limit = NULL;
    assert_refused(*state, &bad, NOW, "limit: is NULL");
    bad = good;
    bad.name = NULL;
    assert_refused(*state, &bad, NOW, "name: is NULL");
    bad = good;
    bad.name = longest;
    bad.name_len = HIRATE_NAME_MAX;
    assert_int_equal(decide(*state, &bad, NOW, &result), 0);
    bad.name_len++;
    assert_refused(*state, &bad, NOW, "name: 1025 bytes");
    bad = good;
    bad.cost = HIRATE_COST_MAX;
    assert_int_equal(decide(*state, &bad, NOW, &result), 0);
    assert_true(result.retry_after_ms == HIRATE_NEVER);
    bad.cost++;
    assert_refused(*state, &bad, NOW, "cost: 9007199254740992");
    assert_refused(*state, &good, -1, "now_us: -1");
    assert_refused(*state, &good, INT64_C(1) << 53, "now_us: 9007199254740992");
    assert_refused(*state, NULL, NOW, "request: is NULL");
    assert_refused(NULL, &good, NOW, "local: is NULL");
}

static void test_local_wrong_limit_is_refused_after_a_good_one(void **state)
{
    hirate_limit limit = login;
    hirate_request request = make_request(HIRATE_OP_ACQUIRE, &limit, "a", 1);
    hirate_result result;

    assert_int_equal(decide(*state, &request, NOW, &result), 0);
    limit.struct_size = 0;
    assert_refused(*state, &request, NOW, "limit.struct_size: 0");
    limit = login;
    limit.reserved[0] = 1;
    assert_refused(*state, &request, NOW, "limit.reserved");
    limit = login;
    limit.policy = NULL;
    assert_refused(*state, &request, NOW, "policy: is NULL");
    limit = login;
    limit.version = 9;
    assert_refused(*state, &request, NOW, "limit.version: 9");
    assert_true(acquire(*state, "a", 1, NOW).remaining == 18); /* nothing was taken */
}

static void test_local_zeroed_limit_is_refused_first(void **state)
{
    hirate_limit zero = {.policy = ""};
    hirate_request request = make_request(HIRATE_OP_ACQUIRE, &zero, "a", 1);

    assert_refused(*state, &request, NOW, "limit.struct_size: 0");
}

/* ----------------------------------------------------------------------------------------------------- ABI -- */

static void test_local_larger_structs_keep_what_is_beyond(void **state)
{
    struct {
        hirate_request request;
        uint64_t later;
    } request;
    struct {
        hirate_result result;
        unsigned char later[16];
    } result;
    static const unsigned char untouched[16] = "012345678901234";

    memset(&request, 0, sizeof request);
    request.request = make_request(HIRATE_OP_ACQUIRE, &login, "a", 1);
    request.request.struct_size = (uint32_t)sizeof request;
    memset(&result, 0, sizeof result);
    memcpy(result.later, untouched, sizeof untouched);
    result.result.struct_size = (uint32_t)sizeof result;
    assert_int_equal(hirate_local_decide(*state, &request.request, NOW, &result.result, NULL), 0);
    assert_true(result.result.remaining == 19);
    assert_int_equal(result.result.struct_size, sizeof result);
    assert_memory_equal(result.later, untouched, sizeof untouched);
    request.later = 1; /* a field this library does not know */
    assert_refused(*state, &request.request, NOW, "request.struct_size: ");
}

static void test_local_smaller_result_is_refused(void **state)
{
    hirate_request request = make_request(HIRATE_OP_ACQUIRE, &login, "a", 1);
    hirate_error error;
    hirate_result result;

    memset(&result, 0, sizeof result); /* hirate_result_init() forgotten */
    assert_int_equal(hirate_local_decide(*state, &request, NOW, &result, &error), HIRATE_EINVAL);
    assert_non_null(strstr(error.text, "result.struct_size: 0"));
    result.struct_size = offsetof(hirate_result, permit) - 1;
    assert_int_equal(hirate_local_decide(*state, &request, NOW, &result, &error), HIRATE_EINVAL);
    assert_int_equal(hirate_local_decide(*state, &request, NOW, NULL, &error), HIRATE_EINVAL);
    assert_non_null(strstr(error.text, "result: is NULL"));
    assert_true(acquire(*state, "a", 1, NOW).remaining == 19); /* nothing was taken */
}

/* A program from before the fields behind `cause`: what follows it in memory is its own, of the request too. */
static void test_local_first_version_of_structs_is_served(void **state)
{
    hirate_request request = make_request(HIRATE_OP_ACQUIRE, &login, "a", 1);
    const size_t request_size = offsetof(hirate_request, user) + sizeof request.user;
    const size_t result_size = offsetof(hirate_result, permit);
    unsigned char untouched[sizeof(hirate_result)];
    hirate_result result;

    memset((char *)&request + request_size, 0x5a, sizeof request - request_size);
    request.struct_size = (uint32_t)request_size;
    memset(untouched, 0x5a, sizeof untouched);
    memset(&result, 0x5a, sizeof result);
    hirate_result_init_sized(&result, result_size);
    assert_int_equal(hirate_local_decide(*state, &request, NOW, &result, NULL), 0);
    assert_true(result.remaining == 19 && result.struct_size == result_size);
    assert_ptr_equal(result.policy, login.policy);
    assert_memory_equal((char *)&result + result_size, untouched, sizeof result - result_size);
    assert_null(hirate_result_limit(&result, 0)); /* whose pointer is not there */
}

#define WITH_LOCAL(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_LOCAL(test_local_vectors_are_answered_field_by_field),
        WITH_LOCAL(test_local_twenty_first_login_is_denied_until_three_seconds),
        WITH_LOCAL(test_local_reset_tells_use_and_fills),
        WITH_LOCAL(test_local_full_bucket_is_forgotten),
        WITH_LOCAL(test_local_denied_is_stored_too),
        WITH_LOCAL(test_local_names_and_policies_are_kept_apart),
        WITH_LOCAL(test_local_limit_is_known_by_value),
        WITH_LOCAL(test_local_bucket_expires_after_reset_like_a_key),
        cmocka_unit_test(test_local_new_bounds_are_checked),
        cmocka_unit_test(test_local_key_bound_refuses_until_one_expires),
        cmocka_unit_test(test_local_flood_of_names_is_bounded_and_recovers),
        cmocka_unit_test(test_local_reset_amid_others_loses_no_expiry),
        cmocka_unit_test(test_local_name_in_use_by_another_kind_is_a_state_error),
        cmocka_unit_test(test_local_name_no_longer_in_use_serves_another_kind),
        cmocka_unit_test(test_local_random_names_of_all_kinds_do_not_disturb_each_other),
        cmocka_unit_test(test_local_random_trace_stores_exactly_what_is_live),
        WITH_LOCAL(test_local_wrong_request_is_named),
        WITH_LOCAL(test_local_wrong_limit_is_refused_after_a_good_one),
        WITH_LOCAL(test_local_zeroed_limit_is_refused_first),
        WITH_LOCAL(test_local_larger_structs_keep_what_is_beyond),
        WITH_LOCAL(test_local_smaller_result_is_refused),
        WITH_LOCAL(test_local_first_version_of_structs_is_served),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
