/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The edges in time of every kind of limit, on a real server whose clock is moved: what passes around a window's edge;
 * and that a denial's wait is exact in random states, of leases, of quotas with reservations, and of requests over
 * several limits: at its end the same request is allowed, a millisecond earlier it is denied. Single limits without
 * holds: it_kinds.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/random.h"
#include "support/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NOON INT64_C(1767268800000000) /* 2026-01-01 12:00 UTC */
#define YEAR_US UINT64_C(31536000000000)

enum { POLICIES = 8, PAIRS = 4, PERMITS = 32, STEPS = 40 };

static server *redis;
static driver d;
static int64_t now_us;

static int open_client(void **state)
{
    (void)state;
    answer warm;
    static const hirate_limit any = HIRATE_TOKEN_BUCKET("warm", 1, HIRATE_PER_SECOND(1));
    redis = server_start(&(server_options){.fake_clock = true});
    server_set_clock(redis, now_us = NOON);
    driver_open(&d, server_uri(redis));
    driver_ask(&d, &warm, &any, "warm", 0); /* the script is known from here on */
    return 0;
}

static int close_client(void **state)
{
    (void)state;
    driver_close(&d);
    server_stop(redis);
    return 0;
}

static void set_clock(int64_t us)
{
    now_us = us;
    server_set_clock(redis, us);
}

/* -------------------------------------------------------------------------------------------- a window's edge -- */

/* So many acquires of one unit, submitted together; returns how many pass. `also`: NULL, or each is over both limits. */
static size_t pass(const hirate_limit *limit, const hirate_limit *also, const char *name, size_t count)
{
    static answer answers[64];
    size_t before = d.called, passed = 0;

    assert_true(count <= 64);
    memset(answers, 0, sizeof answers);
    for (size_t i = 0; i < count; i++) {
        hirate_pair more = {also, name, strlen(name)};
        hirate_request request;
        hirate_request_init(&request);
        request.limit = limit;
        request.name = name;
        request.name_len = strlen(name);
        request.more = also ? &more : NULL;
        request.more_count = also ? 1 : 0;
        assert_int_equal(driver_submit(&d, &request, &answers[i], NULL), 0);
    }
    assert_true(driver_wait(&d, before + count));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(answers[i].result.error, HIRATE_OK);
        passed += answers[i].result.verdict == HIRATE_ALLOWED;
    }
    return passed;
}

/* How many of 2·L pass, L just before `edge_us` and L so soon after it that not a unit of a sliding window has come
 * back. */
static size_t pass_around(rng *r, int64_t edge_us, const hirate_limit *limit, const hirate_limit *also,
                          const char *name)
{
    size_t most = (size_t)limit->capacity;
    uint64_t near_us = limit->window_us / limit->capacity / 2;

    server_ask(redis, "FLUSHALL");
    set_clock(edge_us - 1 - (int64_t)rng_upto(r, near_us));
    size_t before = pass(limit, also, name, most);
    assert_int_equal(before, most);
    assert_int_equal(pass(limit, also, name, 1), 0);
    set_clock(edge_us + (int64_t)rng_upto(r, near_us));
    return before + pass(limit, also, name, most);
}

static void test_edge_lets_twice_the_limit_pass_a_fixed_window_and_not_a_sliding_one(void **state)
{
    (void)state;
    rng r = rng_start(__func__);
    for (int i = 0; i < (driver_slow() ? 5 : 40); i++) {
        hirate_limit fixed, log, sliding, quota;
        uint64_t most = 1 + rng_upto(&r, 49), window_us = 1000 + rng_upto(&r, UINT64_C(3600000000));
        int64_t edge_us = (NOON + (int64_t)rng_upto(&r, YEAR_US)) / (int64_t)window_us * (int64_t)window_us;
        hirate_limit_fixed_window(&fixed, "fixed", most, window_us);
        hirate_limit_sliding_log(&log, "log", most, window_us);
        hirate_limit_sliding_window(&sliding, "sliding", most, window_us);
        assert_int_equal(pass_around(&r, edge_us, &fixed, NULL, "n"), 2 * most);
        assert_int_equal(pass_around(&r, edge_us, &log, NULL, "n"), most);
        assert_int_equal(pass_around(&r, edge_us, &sliding, NULL, "n"), most);
        assert_int_equal(pass_around(&r, edge_us, &fixed, &log, "n"), most);
        assert_int_equal(pass_around(&r, edge_us, &fixed, &sliding, "n"), most);
        hirate_limit_quota(&quota, "quota", most, HIRATE_PER_HOUR, (int32_t)rng_upto(&r, 2878) - 1439);
        edge_us = (NOON / HIRATE_HOURS(1) + (int64_t)rng_upto(&r, 8000)) * HIRATE_HOURS(1);
        assert_int_equal(pass_around(&r, edge_us - HIRATE_MINUTES(quota.offset_minutes), &quota, NULL, "n"), 2 * most);
    }
}

/* ----------------------------------------------------------------------------------------------- random states -- */

/* An answer with copies of what it points to. */
typedef struct heard {
    int calls;
    hirate_result result;
    hirate_limit_result limits[PAIRS];
    char permits[PAIRS][HIRATE_PERMIT_SIZE];
} heard;

typedef struct held {
    char permit[HIRATE_PERMIT_SIZE];
    size_t policy;
    uint64_t units;
} held;

/* A request that can be asked again. */
typedef struct asked {
    size_t policies[PAIRS], count;
    uint64_t cost, hold_us;
} asked;

typedef struct history {
    rng random;
    hirate_limit limits[POLICIES]; /* the first under "p0", and so on; the last is a shadow */
    held held[PERMITS];
    size_t held_count;
    size_t waited, of_leases, of_reservations, of_several; /* waits that were exact, by what bound */
} history;

static uint64_t below(history *y, uint64_t n)
{
    return rng_upto(&y->random, n - 1);
}

static void random_limit(history *y, unsigned kind, hirate_limit *limit, const char *policy)
{
    uint64_t most = 1 + below(y, 30), length_us = 1 + below(y, below(y, 2) ? 5000 : 100000000);
    hirate_rate rate = {1 + below(y, 9), 1 + below(y, 3000000)};

    switch (kind) {
    case HIRATE_KIND_TOKEN_BUCKET:
        hirate_limit_token_bucket(limit, policy, most, rate);
        break;
    case HIRATE_KIND_LEAKY_BUCKET:
        hirate_limit_leaky_bucket(limit, policy, most, rate);
        break;
    case HIRATE_KIND_FIXED_WINDOW:
        hirate_limit_fixed_window(limit, policy, most, length_us);
        break;
    case HIRATE_KIND_QUOTA:
        hirate_limit_quota(limit, policy, most, (enum hirate_per)(1 + below(y, 4)), (int32_t)below(y, 2879) - 1439);
        break;
    case HIRATE_KIND_SLIDING_LOG:
        hirate_limit_sliding_log(limit, policy, most, length_us);
        break;
    case HIRATE_KIND_SLIDING_WINDOW:
        hirate_limit_sliding_window(limit, policy, most, length_us);
        break;
    default:
        hirate_limit_concurrency(limit, policy, most, length_us);
    }
    assert_int_equal(hirate_limit_check(limit, NULL), 0);
}

static void random_limits(history *y)
{
    static const char *const names[POLICIES] = {"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"};
    for (unsigned p = 0; p < POLICIES; p++)
        random_limit(y, p < 7 ? p + 1 : 1 + (unsigned)below(y, 7), &y->limits[p], names[p]);
    y->limits[POLICIES - 1].flags = HIRATE_LIMIT_SHADOW;
    y->held_count = 0;
}

static void on_heard(hirate *h, const hirate_result *result, void *user)
{
    heard *a = user;
    (void)h;
    a->calls++;
    a->result = *result;
    for (uint32_t i = 0; i < result->limit_count && hirate_result_limit(result, i); i++) {
        a->limits[i] = *hirate_result_limit(result, i);
        (void)snprintf(a->permits[i], sizeof a->permits[i], "%s", a->limits[i].permit);
    }
}

static void hear(hirate_request *request, heard *a)
{
    memset(a, 0, sizeof *a);
    request->cb = on_heard;
    request->user = a;
    if (hirate_submit(d.h, request, NULL))
        fail_msg("%s", hirate_last_error(d.h));
    for (int64_t until = driver_now_ms() + DRIVER_PATIENCE_MS; !a->calls && driver_now_ms() < until;)
        driver_turn(&d, 1000);
    assert_int_equal(a->calls, 1);
}

static void expect_expiry(const hirate_limit *limit, int64_t reset_ms)
{
    int64_t ttl = server_ask_int(redis, "PTTL hirate:%s:n", limit->policy);
    if (!server_expiry_fits(redis, ttl, reset_ms))
        fail_msg("%s, kind %u, at %" PRId64 ": expires after %" PRId64 " ms, reset_ms %" PRId64, limit->policy,
                 (unsigned)limit->kind, now_us, ttl, reset_ms);
}

static void ask(history *y, const asked *what, heard *a)
{
    hirate_request request;
    hirate_pair more[PAIRS];

    hirate_request_init(&request);
    for (size_t i = 0; i < what->count; i++)
        more[i] = (hirate_pair){&y->limits[what->policies[i]], "n", 1};
    request.limit = more[0].limit;
    request.name = "n";
    request.name_len = 1;
    request.more = what->count > 1 ? more + 1 : NULL;
    request.more_count = what->count - 1;
    request.cost = what->cost;
    request.hold_us = what->hold_us;
    hear(&request, a);
    assert_int_equal(a->result.error, HIRATE_OK);
    for (size_t i = 0; i < what->count; i++)
        expect_expiry(more[i].limit, a->limits[i].reset_ms);
}

static asked random_question(history *y)
{
    asked what = {.count = below(y, 2) ? 1 : 2 + below(y, PAIRS - 1)};
    size_t first = below(y, POLICIES), stride = 1 + 2 * below(y, POLICIES / 2); /* odd, so no policy comes twice */
    bool quota = false;

    if (below(y, 3) == 0)
        first = HIRATE_KIND_QUOTA - 1;
    else if (what.count == 1 && first == POLICIES - 1)
        first = HIRATE_KIND_CONCURRENCY - 1; /* a shadow alone never denies */
    for (size_t i = 0; i < what.count; i++) {
        what.policies[i] = (first + i * stride) % POLICIES;
        quota = quota || y->limits[what.policies[i]].kind == HIRATE_KIND_QUOTA;
    }
    uint64_t most = y->limits[first].capacity;
    what.cost = below(y, below(y, 3) ? most / 2 + 2 : most + 2);
    if (quota && below(y, 4))
        what.hold_us = 1 + below(y, below(y, 2) ? 5000 : 100000000);
    return what;
}

static void keep_permits(history *y, const asked *what, const heard *a)
{
    for (size_t i = 0; i < what->count; i++) {
        if (!a->permits[i][0])
            continue;
        held *h = &y->held[y->held_count++ % PERMITS];
        memcpy(h->permit, a->permits[i], sizeof h->permit);
        h->policy = what->policies[i];
        h->units = what->cost;
    }
}

static void use_permit(history *y)
{
    heard a;
    hirate_request request;
    if (y->held_count == 0)
        return;
    const held *h = &y->held[below(y, y->held_count < PERMITS ? y->held_count : PERMITS)];
    bool lease = y->limits[h->policy].kind == HIRATE_KIND_CONCURRENCY, first = below(y, 2);

    hirate_request_init(&request);
    request.op = lease ? (first ? HIRATE_OP_RELEASE : HIRATE_OP_RENEW) : (first ? HIRATE_OP_COMMIT : HIRATE_OP_REFUND);
    request.permit = h->permit;
    request.cost = below(y, 2 * h->units + 1);
    hear(&request, &a);
    if (a.result.error == HIRATE_ENOENT && request.op == HIRATE_OP_COMMIT)
        return;
    assert_int_equal(a.result.error, HIRATE_OK);
    if (a.result.used) /* else nothing was written */
        expect_expiry(&y->limits[h->policy], a.result.reset_ms);
}

/* Of the order of `reset_ms`, sometimes back. */
static void step_clock(history *y, int64_t reset_ms)
{
    uint64_t about = (uint64_t)(reset_ms > 100000000 ? 100000000 : reset_ms) * 1000 + 1;
    int64_t by = (int64_t)below(y, below(y, 4) ? about / 8 + 1 : about);
    set_clock(below(y, 7) ? now_us + by : now_us - by);
}

/* --------------------------------------------------------------------------------------------- the exact wait -- */

static void count_wait(history *y, const asked *what, const heard *a)
{
    y->waited++;
    y->of_several += what->count > 1;
    for (size_t i = 0; i < what->count; i++) {
        const hirate_limit_result *said = &a->limits[i];
        if (said->shadow || said->verdict != HIRATE_DENIED || said->retry_after_ms != a->result.retry_after_ms)
            continue;
        y->of_leases += said->policy_kind == HIRATE_KIND_CONCURRENCY;
        y->of_reservations += said->policy_kind == HIRATE_KIND_QUOTA && said->retry_after_ms < said->reset_ms;
    }
}

/* The wait of a denial, if there is one: denied until its last millisecond, then allowed. */
static void expect_exact_wait(history *y, const asked *what, const heard *denied)
{
    heard early, due;
    int64_t from = now_us, wait_ms = denied->result.retry_after_ms;
    bool too_much = false;

    for (size_t i = 0; i < what->count; i++) {
        const hirate_limit *limit = &y->limits[what->policies[i]];
        too_much = too_much || (what->cost > limit->capacity && !(limit->flags & HIRATE_LIMIT_SHADOW));
    }
    assert_int_equal(wait_ms == HIRATE_NEVER, too_much);
    if (too_much)
        return;
    assert_true(wait_ms >= 1);
    set_clock(from + (wait_ms - 1) * 1000);
    ask(y, what, &early);
    assert_int_equal(early.result.verdict, HIRATE_DENIED);
    assert_int_equal(early.result.retry_after_ms, 1);
    set_clock(from + wait_ms * 1000);
    ask(y, what, &due);
    assert_int_equal(due.result.verdict, HIRATE_ALLOWED);
    keep_permits(y, what, &due);
    count_wait(y, what, denied);
}

static void one_history(history *y)
{
    random_limits(y);
    server_ask(redis, "FLUSHALL");
    set_clock(NOON + (int64_t)below(y, YEAR_US));
    for (int step = 0; step < STEPS; step++) {
        heard a;
        asked what = random_question(y);
        ask(y, &what, &a);
        keep_permits(y, &what, &a);
        if (a.result.verdict == HIRATE_DENIED)
            expect_exact_wait(y, &what, &a);
        if (below(y, 3) == 0)
            use_permit(y);
        step_clock(y, below(y, 2) ? a.result.reset_ms : 10);
    }
}

static void test_wait_of_leases_reservations_and_several_limits_is_exact(void **state)
{
    (void)state;
    static history y;
    memset(&y, 0, sizeof y);
    y.random = rng_start(__func__);
    for (int i = 0; i < (driver_slow() ? 10 : 150); i++)
        one_history(&y);
    print_message("%zu waits exact: of leases %zu, of reservations %zu, over several limits %zu\n", y.waited,
                  y.of_leases, y.of_reservations, y.of_several);
    assert_true(y.of_leases && y.of_reservations && y.of_several);
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_edge_lets_twice_the_limit_pass_a_fixed_window_and_not_a_sliding_one,
                                        open_client, close_client),
        cmocka_unit_test_setup_teardown(test_wait_of_leases_reservations_and_several_limits_is_exact, open_client,
                                        close_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
