/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random traces of requests over several limits, of leases, reservations and permits, through the local engine and through a
 * real server with a moved clock: equal, field by field.
 *
 * A round has several policies, each of one kind with some variants between which it changes live, one of them a shadow. Requests
 * of one turn travel together; a permit is used in a later turn than that which gave it, on either side its own.
 *
 * After each move of the clock every key is looked at on both sides, as either forgets what has expired only then.
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
#include <stdlib.h>
#include <string.h>

#define NEW_YEAR INT64_C(1767225600000000)
#define DAY INT64_C(86400000000)

enum { NAMES = 3, POLICIES = 5, VARIANTS = 3, TURN_MAX = 120, PERMITS = 64, PAIRS = 4 };

typedef struct permit {
    char redis[HIRATE_PERMIT_SIZE], local[HIRATE_PERMIT_SIZE];
    bool lease;
} permit;

/* What one answer said, on either side. */
typedef struct said {
    int calls;
    hirate_result result;
    hirate_limit_result limits[PAIRS];
    char permits[PAIRS][HIRATE_PERMIT_SIZE];
    char policy[HIRATE_POLICY_SIZE];
    char reason[HIRATE_REASON_MAX + 1];
} said;

typedef struct asked {
    hirate_request request;
    hirate_pair more[PAIRS - 1];
    said want, got;
} asked;

typedef struct trace {
    rng random;
    server *redis;
    driver d;
    hirate_local *local;
    char names[POLICIES][8];
    hirate_limit limits[POLICIES][VARIANTS];
    size_t variant[POLICIES];
    permit permits[PERMITS];
    size_t permit_count;
    int64_t now_us;
    int64_t promised_us;
    bool back;
    uint64_t compared, several, held, used, late, gone;
} trace;

static asked turn[TURN_MAX];
static const char *const names[NAMES] = {"ann", "bob", ""};

static uint64_t below(trace *t, uint64_t n)
{
    return rng_upto(&t->random, n - 1);
}

/* ----------------------------------------------------------------------------------------------------- limits -- */

static void random_limit(trace *t, unsigned kind, hirate_limit *limit, const char *name)
{
    static const uint64_t periods[] = {1, 7, 1000, 13000, 999983, 1000000, 3000000, 60000000};
    do {
        uint64_t most = below(t, 4) ? 1 + below(t, 30) : below(t, 2000);
        uint64_t period = periods[below(t, sizeof periods / sizeof *periods)];
        hirate_rate rate = {1 + below(t, 9), period};
        switch (kind) {
        case HIRATE_KIND_LEAKY_BUCKET:
            hirate_limit_leaky_bucket(limit, name, most, rate);
            break;
        case HIRATE_KIND_FIXED_WINDOW:
            hirate_limit_fixed_window(limit, name, most, period);
            break;
        case HIRATE_KIND_QUOTA:
            hirate_limit_quota(limit, name, most, (enum hirate_per)(1 + below(t, 4)), (int32_t)below(t, 2879) - 1439);
            break;
        case HIRATE_KIND_SLIDING_LOG:
            hirate_limit_sliding_log(limit, name, most, period);
            break;
        case HIRATE_KIND_SLIDING_WINDOW:
            hirate_limit_sliding_window(limit, name, most, period);
            break;
        case HIRATE_KIND_CONCURRENCY:
            hirate_limit_concurrency(limit, name, most, period);
            break;
        default:
            hirate_limit_token_bucket(limit, name, most, rate);
        }
    } while (hirate_limit_check(limit, NULL) != 0);
}

static void random_limits(trace *t)
{
    for (size_t p = 0; p < POLICIES; p++) {
        unsigned kind = p == 0   ? HIRATE_KIND_CONCURRENCY
                        : p == 1 ? HIRATE_KIND_QUOTA
                                 : 1 + (unsigned)below(t, HIRATE_KIND_CONCURRENCY);
        (void)snprintf(t->names[p], sizeof t->names[p], "p%zu", p);
        t->variant[p] = 0;
        for (size_t v = 0; v < VARIANTS; v++)
            random_limit(t, kind, &t->limits[p][v], t->names[p]);
        t->limits[p][VARIANTS - 1] = t->limits[p][0];
        t->limits[p][VARIANTS - 1].flags = HIRATE_LIMIT_SHADOW;
    }
}

/* ---------------------------------------------------------------------------------------------------- requests -- */

static void random_pair(trace *t, size_t p, hirate_pair *pair)
{
    if (below(t, 25) == 0)
        t->variant[p] = below(t, VARIANTS);
    size_t name = below(t, NAMES);
    pair->limit = &t->limits[p][t->variant[p]];
    pair->name = names[name];
    pair->name_len = strlen(names[name]);
}

static void random_pairs(trace *t, asked *a)
{
    size_t count = below(t, 3) ? 1 : 2 + below(t, PAIRS - 1), p = below(t, POLICIES);
    hirate_pair first;

    random_pair(t, p, &first);
    a->request.limit = first.limit;
    a->request.name = first.name;
    a->request.name_len = first.name_len;
    for (size_t i = 1; i < count; i++) /* other policies: no key twice */
        random_pair(t, (p + i) % POLICIES, &a->more[i - 1]);
    a->request.more = count > 1 ? a->more : NULL;
    a->request.more_count = count - 1;
    t->several += count > 1;
}

static bool has_quota(const asked *a)
{
    bool has = a->request.limit->kind == HIRATE_KIND_QUOTA;
    for (size_t i = 0; i < a->request.more_count; i++)
        has = has || a->more[i].limit->kind == HIRATE_KIND_QUOTA;
    return has;
}

static uint64_t random_cost(trace *t, uint64_t capacity)
{
    switch (below(t, 12)) {
    case 0:
        return 0;
    case 1:
        return capacity;
    case 2:
        return capacity + 1;
    case 3:
        return capacity / 3;
    default:
        return 1 + below(t, 3);
    }
}

/* Use an old permit, perhaps once more. */
static void random_permit(trace *t, asked *a)
{
    const permit *p = &t->permits[below(t, t->permit_count < PERMITS ? t->permit_count : PERMITS)];
    bool first = below(t, 2);
    a->request.op = p->lease ? (first ? HIRATE_OP_RELEASE : HIRATE_OP_RENEW) : (first ? HIRATE_OP_COMMIT : HIRATE_OP_REFUND);
    a->request.permit = p->redis;
    a->request.cost = below(t, 8);
}

static void random_request(trace *t, asked *a)
{
    memset(a, 0, sizeof *a);
    hirate_request_init(&a->request);
    if (t->permit_count && below(t, 4) == 0) {
        random_permit(t, a);
        return;
    }
    random_pairs(t, a);
    uint64_t dice = below(t, 100);
    a->request.op = dice < 82 ? HIRATE_OP_ACQUIRE : HIRATE_OP_PEEK;
    if (dice >= 97 && !a->request.more_count)
        a->request.op = HIRATE_OP_RESET;
    a->request.cost = random_cost(t, a->request.limit->capacity);
    if (a->request.op == HIRATE_OP_ACQUIRE && has_quota(a) && below(t, 3))
        a->request.hold_us = below(t, 2) ? 1 + below(t, 5000000) : 1 + below(t, 5000);
}

/* ----------------------------------------------------------------------------------------------------- answers -- */

static void keep(said *s, const hirate_result *result)
{
    s->calls++;
    s->result = *result;
    (void)snprintf(s->policy, sizeof s->policy, "%s", result->policy);
    (void)snprintf(s->reason, sizeof s->reason, "%s", result->reason);
    for (uint32_t i = 0; i < result->limit_count && hirate_result_limit(result, i); i++) {
        s->limits[i] = *hirate_result_limit(result, i);
        (void)snprintf(s->permits[i], sizeof s->permits[i], "%s", s->limits[i].permit);
    }
}

static void on_answer(hirate *h, const hirate_result *result, void *user)
{
    (void)h;
    asked *a = user;
    keep(&a->got, result);
}

/* The same question to the local engine, with its own permit. */
static void ask_local(trace *t, asked *a)
{
    hirate_request request = a->request;
    hirate_result result;
    hirate_error error = {.text = ""};

    for (size_t i = 0; request.permit && i < PERMITS; i++) {
        if (a->request.permit == t->permits[i].redis)
            request.permit = t->permits[i].local;
    }
    hirate_result_init(&result);
    int rc = hirate_local_decide(t->local, &request, t->now_us, &result, &error);
    if (rc) {
        if (rc != HIRATE_ENOENT)
            fail_msg("local: %d %s", rc, error.text);
        a->want.result.error = rc;
        return;
    }
    keep(&a->want, &result);
}

static void explain_result(const char *side, const said *s)
{
    const hirate_result *r = &s->result;
    print_error("  %s: error %d verdict %d charge %d remaining %" PRIu64 " retry %" PRId64 " reset %" PRId64 " delay %" PRId64
                " time %" PRId64 " used %d late %d shadows %u of %u, limits %s, policy %s\n",
                side, r->error, (int)r->verdict, (int)r->charge, r->remaining, r->retry_after_ms, r->reset_ms, r->delay_ms,
                r->time_us, r->used, r->late, (unsigned)r->shadow_denied, (unsigned)r->limit_count,
                r->limits ? "said" : "none", s->policy);
}

static void explain(const trace *t, const asked *a)
{
    print_error("op %d cost %" PRIu64 " hold %" PRIu64 " at %" PRId64 ", after %" PRIu64 " equal answers; error %d %s, %d\n",
                (int)a->request.op, a->request.cost, a->request.hold_us, t->now_us, t->compared, a->got.result.error,
                a->got.reason, a->want.result.error);
    explain_result("redis", &a->got);
    explain_result("local", &a->want);
    for (size_t i = 0; !a->request.permit && i <= a->request.more_count; i++) {
        const hirate_limit *limit = i ? a->more[i - 1].limit : a->request.limit;
        print_error("  %s kind %d capacity %" PRIu64 " rate %" PRIu64 "/%" PRIu64 " window %" PRIu64 " lease %" PRIu64
                    " flags %u name '%s'\n",
                    limit->policy, (int)limit->kind, limit->capacity, limit->rate.tokens, limit->rate.period_us,
                    limit->window_us, limit->lease_us, (unsigned)limit->flags,
                    (const char *)(i ? a->more[i - 1].name : a->request.name));
        print_error("    redis %d %" PRIu64 " %" PRId64 " %" PRId64 ", local %d %" PRIu64 " %" PRId64 " %" PRId64 "\n",
                    (int)a->got.limits[i].verdict, a->got.limits[i].remaining, a->got.limits[i].retry_after_ms,
                    a->got.limits[i].reset_ms, (int)a->want.limits[i].verdict, a->want.limits[i].remaining,
                    a->want.limits[i].retry_after_ms, a->want.limits[i].reset_ms);
    }
    fail_msg("the answers differ");
}

static bool same_limit(const said *got, const said *want, uint32_t i)
{
    const hirate_limit_result *a = &got->limits[i], *b = &want->limits[i];
    return a->verdict == b->verdict && a->shadow == b->shadow && a->policy_kind == b->policy_kind &&
           a->remaining == b->remaining && a->retry_after_ms == b->retry_after_ms && a->reset_ms == b->reset_ms &&
           a->delay_ms == b->delay_ms && !got->permits[i][0] == !want->permits[i][0];
}

static bool same(const asked *a)
{
    const hirate_result *got = &a->got.result, *want = &a->want.result;
    if (got->error || want->error)
        return got->error == want->error;
    if (!(got->verdict == want->verdict && got->charge == want->charge && got->cost == want->cost &&
          got->remaining == want->remaining && got->retry_after_ms == want->retry_after_ms &&
          got->reset_ms == want->reset_ms && got->delay_ms == want->delay_ms && got->time_us == want->time_us &&
          got->used == want->used && got->late == want->late && got->shadow_denied == want->shadow_denied &&
          got->limit_count == want->limit_count && !got->limits == !want->limits &&
          strcmp(a->got.policy, a->want.policy) == 0))
        return false;
    for (uint32_t i = 0; got->limits && i < got->limit_count; i++) {
        if (!same_limit(&a->got, &a->want, i))
            return false;
    }
    return true;
}

static void note_permits(trace *t, const asked *a)
{
    for (uint32_t i = 0; i < a->got.result.limit_count && a->got.result.limits; i++) {
        if (!a->got.permits[i][0])
            continue;
        permit *p = &t->permits[t->permit_count++ % PERMITS];
        memcpy(p->redis, a->got.permits[i], sizeof p->redis);
        memcpy(p->local, a->want.permits[i], sizeof p->local);
        p->lease = a->got.limits[i].policy_kind == HIRATE_KIND_CONCURRENCY;
        t->held++;
    }
}

static void compare(trace *t, const asked *a)
{
    assert_int_equal(a->got.calls, 1);
    if (!same(a))
        explain(t, a);
    t->compared++;
    t->used += a->request.permit && !a->got.result.error && (a->got.result.used || a->got.result.verdict);
    t->late += a->got.result.late != 0;
    t->gone += a->got.result.error == HIRATE_ENOENT;
}

/* ------------------------------------------------------------------------------------------------------- turns -- */

static int64_t random_step(trace *t)
{
    switch (below(t, t->back ? 10 : 7)) {
    case 0:
        return 0;
    case 1:
        return (int64_t)below(t, 10);
    case 2:
        return t->promised_us > t->now_us ? t->promised_us - t->now_us : 1;
    case 3:
        return t->promised_us > t->now_us ? t->promised_us - t->now_us - 1 : 1000;
    case 4:
        return (int64_t)below(t, 20000000);
    case 5:
        return (int64_t)below(t, 2000000);
    case 6:
        return (int64_t)below(t, 1000) * 1000;
    case 7:
        return -(int64_t)below(t, 10);
    case 8:
        return -(int64_t)below(t, 200000000);
    default:
        return -(int64_t)below(t, 2000000);
    }
}

/* Both sides forget what has expired by now; on servers that keep it a millisecond longer, until that is over. */
static void look_at_all(trace *t)
{
    for (size_t p = 0; p < POLICIES; p++) {
        for (size_t n = 0; n < NAMES; n++) {
            hirate_request request;
            hirate_result result;
            hirate_request_init(&request);
            hirate_result_init(&result);
            request.op = HIRATE_OP_PEEK;
            request.limit = &t->limits[p][0];
            request.name = names[n];
            request.name_len = strlen(names[n]);
            assert_int_equal(hirate_local_decide(t->local, &request, t->now_us, &result, NULL), 0);
            server_ask(t->redis, "EXISTS hirate:p%zu:%s", p, names[n]);
        }
    }
}

static void move_clock(trace *t)
{
    t->now_us += random_step(t);
    if (t->now_us < NEW_YEAR - 300 * DAY || t->now_us > NEW_YEAR + 3000 * DAY)
        t->now_us = NEW_YEAR;
    server_set_clock(t->redis, t->now_us);
    look_at_all(t);
}

static bool holds_nothing_longer(trace *t)
{
    return server_expiry_spare_ms(t->redis) == 0;
}

static void one_turn(trace *t)
{
    size_t n = below(t, 3) ? 1 + below(t, 3) : 1 + below(t, TURN_MAX);
    size_t done = 0;

    move_clock(t);
    if (!holds_nothing_longer(t)) { /* keys would last a millisecond longer there: write at whole milliseconds only */
        t->now_us -= t->now_us % 1000;
        server_set_clock(t->redis, t->now_us);
        look_at_all(t);
    }
    for (size_t i = 0; i < n; i++) {
        random_request(t, &turn[i]);
        ask_local(t, &turn[i]);
        turn[i].request.cb = on_answer;
        turn[i].request.user = &turn[i];
        assert_int_equal(hirate_submit(t->d.h, &turn[i].request, NULL), 0);
    }
    for (int64_t until = driver_now_ms() + DRIVER_PATIENCE_MS; done < n && driver_now_ms() < until;) {
        driver_turn(&t->d, 1000);
        for (done = 0; done < n && turn[done].got.calls; done++)
            continue;
    }
    for (size_t i = 0; i < n; i++)
        compare(t, &turn[i]);
    for (size_t i = 0; i < n; i++)
        note_permits(t, &turn[i]);
    const hirate_result *last = &turn[n - 1].want.result;
    int64_t promise = last->retry_after_ms && last->retry_after_ms != HIRATE_NEVER ? last->retry_after_ms : last->reset_ms;
    t->promised_us = promise < DAY ? t->now_us + promise * 1000 : 0;
}

static void run_round(trace *t)
{
    random_limits(t);
    t->permit_count = 0;
    assert_int_equal(hirate_local_new(&t->local, 64), 0);
    for (int i = 0; i < (driver_slow() ? 40 : 200); i++)
        one_turn(t);
    hirate_local_free(t->local);
    server_ask(t->redis, "FLUSHALL");
}

static void run_trace(const char *test, bool back)
{
    trace *t = calloc(1, sizeof *t);
    answer warm; /* a script not known yet may be sent again out of order; that is not to be met here */

    assert_non_null(t);
    t->random = rng_start(test);
    t->now_us = NEW_YEAR;
    t->back = back;
    t->redis = server_start(&(server_options){.fake_clock = true});
    server_set_clock(t->redis, t->now_us);
    driver_open(&t->d, server_uri(t->redis));
    random_limits(t);
    driver_ask(&t->d, &warm, &t->limits[0][0], "warm", 0);
    for (int round = 0; round < (driver_slow() ? 2 : 12); round++)
        run_round(t);
    print_message("%" PRIu64 " answers equal, %" PRIu64 " over several limits, %" PRIu64 " held, %" PRIu64
                  " permits used, %" PRIu64 " late, %" PRIu64 " gone\n",
                  t->compared, t->several, t->held, t->used, t->late, t->gone);
    assert_true(t->several && t->held && t->used && (t->gone || driver_slow())); /* few come in a short trace */
    driver_close(&t->d);
    server_stop(t->redis);
    free(t);
}

static void test_trace_of_several_limits_clock_moves_on_answers_equal(void **state)
{
    (void)state;
    run_trace(__func__, false);
}

static void test_trace_of_several_limits_clock_steps_back_answers_equal(void **state)
{
    (void)state;
    run_trace(__func__, true);
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trace_of_several_limits_clock_moves_on_answers_equal),
        cmocka_unit_test(test_trace_of_several_limits_clock_steps_back_answers_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
