/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits checked at and one past each bound, and what they compile to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "policy.h"
#include "support/random.h"

#include <string.h>

__extension__ typedef unsigned __int128 u128;

#define TWO_52 (UINT64_C(1) << 52)
#define TWO_53 (UINT64_C(1) << 53)

static hirate_limit make(uint64_t capacity, uint64_t tokens, uint64_t period_us)
{
    hirate_limit limit;

    hirate_limit_token_bucket(&limit, "p", capacity, (hirate_rate){tokens, period_us});
    return limit;
}

static void assert_refused(const hirate_limit *limit, const char *begins, const char *says)
{
    hirate_error error = {0, ""};
    hr_policy policy;
    hr_policy before;

    memset(&policy, 0x5a, sizeof policy);
    memcpy(&before, &policy, sizeof policy);
    int rc = hr_policy_compile(&policy, limit, &error);
    if (rc != HIRATE_EINVAL || strncmp(error.text, begins, strlen(begins)) != 0 || strstr(error.text, says) == NULL)
        fail_msg("expected '%s … %s', got %d '%s'", begins, says, rc, error.text);
    assert_memory_equal(&policy, &before, sizeof policy);
    assert_int_equal(hirate_limit_check(limit, NULL), HIRATE_EINVAL);
}

static void test_limit_macro_compiles_to_reduced_units(void **state)
{
    static const hirate_limit login = HIRATE_TOKEN_BUCKET("login", 20, HIRATE_RATE(2, HIRATE_SECONDS(6)));
    hr_policy policy;

    (void)state;
    assert_int_equal(hr_policy_compile(&policy, &login, NULL), 0);
    assert_true(policy.n == 1);
    assert_true(policy.p == 3000000);
    assert_true(policy.capacity == 20);
    assert_true(policy.full == 60000000);
    assert_string_equal(policy.name, "login");
    assert_int_equal(policy.name_len, 5);
    assert_int_equal(policy.kind, HIRATE_KIND_TOKEN_BUCKET);
}

static void test_limit_function_equals_macro(void **state)
{
    static const hirate_limit constant = HIRATE_TOKEN_BUCKET("p", 3, HIRATE_PER_SECOND(4));
    hirate_limit made = make(3, 4, 1000000);

    (void)state;
    made.policy = constant.policy;
    assert_memory_equal(&made, &constant, sizeof made);
}

static void test_limit_header_wrong_is_named(void **state)
{
    hirate_limit limit = make(1, 1, 1);

    (void)state;
    limit.struct_size--;
    assert_refused(&limit, "limit.struct_size: 103", "accepted");
    limit = make(1, 1, 1);
    limit.struct_size = 0;
    assert_refused(&limit, "limit.struct_size: 0", "accepted");
    limit = make(1, 1, 1);
    limit.version = 2;
    assert_refused(&limit, "limit.version: 2", "accepted: 1");
    limit = make(1, 1, 1);
    limit.kind = HIRATE_KIND_INVALID;
    assert_refused(&limit, "limit.kind: 0", "token bucket");
    limit.kind = 8;
    assert_refused(&limit, "limit.kind: 8", "7 (concurrency)");
    limit = make(1, 1, 1);
    limit.reserved[2] = 9;
    assert_refused(&limit, "limit.reserved: element 2 is 9", "accepted: 0");
    limit = make(1, 1, 1);
    limit.flags = 4;
    assert_refused(&limit, "limit.flags: 0x4", "HIRATE_LIMIT_CACHE_DENIALS, HIRATE_LIMIT_SHADOW or 0");
    assert_refused(NULL, "limit: is NULL", "a limit");
}

static void test_limit_larger_struct_must_be_zero_beyond(void **state)
{
    struct {
        hirate_limit limit;
        uint64_t later;
    } newer;

    (void)state;
    memset(&newer, 0, sizeof newer);
    newer.limit = make(1, 1, 1);
    newer.limit.struct_size = (uint32_t)sizeof newer;
    assert_int_equal(hirate_limit_check(&newer.limit, NULL), 0);
    newer.later = 1;
    assert_refused(&newer.limit, "limit.struct_size: 112", "does not know");
}

static void test_limit_names_are_checked(void **state)
{
    char name[70];
    hirate_limit limit = make(1, 1, 1);

    (void)state;
    memset(name, 'n', sizeof name);
    name[64] = '\0';
    limit.policy = name;
    assert_int_equal(hirate_limit_check(&limit, NULL), 0);
    (void)strcpy(name + 64, "n");
    assert_refused(&limit, "policy: 'nnn", "1 to 64 of A-Z a-z 0-9 . _ -");
    limit.policy = "";
    assert_refused(&limit, "policy: ''", "1 to 64 of");
    limit.policy = NULL;
    assert_refused(&limit, "policy: is NULL", "1 to 64 of");
    limit.policy = "a:b";
    assert_refused(&limit, "policy: 'a:b'", "1 to 64 of");
}

static void test_name_each_byte_is_as_documented(void **state)
{
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

    (void)state;
    assert_false(hr_policy_name_ok(NULL));
    for (int c = 1; c < 256; c++) {
        char text[] = {'a', (char)c, '\0'};

        assert_int_equal(hr_policy_name_ok(text) != 0, strchr(good, c) != NULL);
    }
}

static void test_limit_ranges_hold_at_the_bound_and_fail_past_it(void **state)
{
    hirate_limit limit = make(TWO_52, 1, 1);

    (void)state;
    assert_int_equal(hirate_limit_check(&limit, NULL), 0);
    limit.capacity++;
    assert_refused(&limit, "capacity: 4503599627370497 is too large", "0 to 4503599627370496");
    limit = make(1, 0, 1);
    assert_refused(&limit, "rate: 0 tokens", "1 to 9007199254740991");
    limit = make(1, 1, 0);
    assert_refused(&limit, "rate: a period of 0", "1 to 9007199254740991");
    limit = make(0, TWO_53 - 1, TWO_53 - 1);
    assert_int_equal(hirate_limit_check(&limit, NULL), 0);
    limit = make(0, TWO_53, TWO_53);
    assert_refused(&limit, "rate: 9007199254740992 tokens", "1 to 9007199254740991");
    limit = make(0, 1, TWO_53 - 1);
    assert_int_equal(hirate_limit_check(&limit, NULL), 0);
    limit = make(0, 1, TWO_53);
    assert_refused(&limit, "rate: a period of 9007199254740992", "1 to 9007199254740991");
    limit = make(UINT64_MAX, UINT64_MAX, UINT64_MAX);
    assert_refused(&limit, "capacity: 18446744073709551615", "0 to 4503599627370496");
}

static void test_limit_capacity_product_fails_one_past_the_bound(void **state)
{
    hirate_limit limit = make(TWO_52 / 3000000, 1, 3000000);

    (void)state;
    assert_int_equal(hirate_limit_check(&limit, NULL), 0);
    limit.capacity++;
    assert_refused(&limit, "capacity: 1501199876 is too large for rate 1/3s",
                   "the largest that stays exact is 1501199875");
    limit = make(1, 1, TWO_52);
    assert_int_equal(hirate_limit_check(&limit, NULL), 0);
    limit = make(1, 1, TWO_52 + 1);
    assert_refused(&limit, "capacity: 1 is too large", "the largest that stays exact is 0");
}

static void test_limit_rate_product_fails_one_past_the_bound(void **state)
{
    const uint64_t most = TWO_53 / 1000;
    hirate_limit limit = make(1, most, 1);

    (void)state;
    assert_int_equal(hirate_limit_check(&limit, NULL), 0);
    limit = make(1, most + 1, 1);
    assert_refused(&limit, "rate: 9007199254741/us", "the nearest that works is 9007199254740/us");
    limit = make(TWO_52, most + 1, 1); /* with the largest capacity, too */
    assert_refused(&limit, "rate: 9007199254741/us", "the nearest that works is 9007199254740/us");
    /* A common divisor with the period, 1600 here, makes a larger one exact. */
    limit = make(1, TWO_53 - 1, 1000000);
    assert_refused(&limit, "rate: 9007199254740991/s", "the nearest that works is 9007199254740800/s");
    limit = make(1, UINT64_C(9007199254740800), 1000000);
    assert_int_equal(hirate_limit_check(&limit, NULL), 0);
}

/* ------------------------------------------------------------------------------------------------- window kinds -- */

static void test_limit_each_kind_compiles(void **state)
{
    static const hirate_limit limits[] = {
        HIRATE_LEAKY_BUCKET("p", 20, HIRATE_RATE(2, HIRATE_SECONDS(6))),
        HIRATE_FIXED_WINDOW("p", 10, HIRATE_SECONDS(1)),
        HIRATE_QUOTA("p", 10, HIRATE_PER_WEEK, -330),
        HIRATE_SLIDING_LOG("p", 10, HIRATE_SECONDS(1)),
        HIRATE_SLIDING_WINDOW("p", UINT64_C(1) << 33, HIRATE_SECONDS(1)),
        HIRATE_CONCURRENCY("p", 10, HIRATE_MINUTES(1)),
    };
    hr_policy policies[6];

    (void)state;
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(hr_policy_compile(&policies[i], &limits[i], NULL), 0);
        assert_int_equal(policies[i].kind, i + 2);
        assert_string_equal(policies[i].name, "p");
        assert_true(policies[i].capacity == limits[i].capacity);
    }
    assert_true(policies[0].n == 1 && policies[0].p == 3000000 && policies[0].full == 60000000);
    assert_true(policies[1].window_us == 1000000);
    assert_true(policies[2].per == HIRATE_PER_WEEK && policies[2].offset_us == INT64_C(-19800000000));
    assert_true(policies[3].window_us == 1000000);
    assert_true(policies[4].window_us == 1000000 && policies[4].tick_us == 1000 && policies[4].window == 1000);
    assert_true(policies[5].lease_us == 60000000 && policies[5].window_us == 0);
}

static void test_limit_functions_equal_macros(void **state)
{
    static const hirate_limit constants[] = {
        HIRATE_LEAKY_BUCKET("p", 3, HIRATE_PER_SECOND(4)), HIRATE_FIXED_WINDOW("p", 3, HIRATE_SECONDS(4)),
        HIRATE_QUOTA("p", 3, HIRATE_PER_MONTH, 60),        HIRATE_SLIDING_LOG("p", 3, HIRATE_SECONDS(4)),
        HIRATE_SLIDING_WINDOW("p", 3, HIRATE_SECONDS(4)),  HIRATE_CONCURRENCY("p", 3, HIRATE_SECONDS(4)),
    };
    hirate_limit made[6];

    (void)state;
    hirate_limit_leaky_bucket(&made[0], constants[0].policy, 3, (hirate_rate){4, 1000000});
    hirate_limit_fixed_window(&made[1], constants[1].policy, 3, 4000000);
    hirate_limit_quota(&made[2], constants[2].policy, 3, HIRATE_PER_MONTH, 60);
    hirate_limit_sliding_log(&made[3], constants[3].policy, 3, 4000000);
    hirate_limit_sliding_window(&made[4], constants[4].policy, 3, 4000000);
    hirate_limit_concurrency(&made[5], constants[5].policy, 3, 4000000);
    for (size_t i = 0; i < 6; i++)
        assert_memory_equal(&made[i], &constants[i], sizeof made[i]);
}

static void test_limit_windows_hold_at_the_bound_and_fail_past_it(void **state)
{
    hirate_limit limit;

    (void)state;
    hirate_limit_fixed_window(&limit, "p", TWO_53 - 1, TWO_52);
    assert_int_equal(hirate_limit_check(&limit, NULL), 0);
    limit.capacity++;
    assert_refused(&limit, "limit: 9007199254740992 is too large for a fixed-window", "0 to 9007199254740991");
    hirate_limit_fixed_window(&limit, "p", 1, TWO_52 + 1);
    assert_refused(&limit, "window: 4503599627370497", "1 to 4503599627370496");
    hirate_limit_fixed_window(&limit, "p", 1, 0);
    assert_refused(&limit, "window: 0 microseconds", "1 to 4503599627370496");
    hirate_limit_sliding_log(&limit, "p", HIRATE_LOG_MAX, TWO_52);
    assert_int_equal(hirate_limit_check(&limit, NULL), 0);
    limit.capacity++;
    assert_refused(&limit, "limit: 8193 is too large for a sliding-log", "0 to 8192");
    hirate_limit_sliding_window(&limit, "p", 1, TWO_52);
    assert_int_equal(hirate_limit_check(&limit, NULL), 0);
    limit.capacity++;
    assert_refused(&limit, "limit: 2 is too large for window 4503599627370496us", "the largest that stays exact is 1");
    hirate_limit_sliding_window(&limit, "p", TWO_52, 1000000);
    assert_int_equal(hirate_limit_check(&limit, NULL), 0);
    limit.capacity++;
    assert_refused(&limit, "limit: 4503599627370497 is too large for window 1s",
                   "the largest that stays exact is 4503599627370496");
    limit.window_us = 0;
    assert_refused(&limit, "window: 0 microseconds", "1 to");
}

static void test_limit_leases_hold_at_the_bound_and_fail_past_it(void **state)
{
    hirate_limit limit;

    (void)state;
    hirate_limit_concurrency(&limit, "p", 0, 1);
    assert_int_equal(hirate_limit_check(&limit, NULL), 0);
    hirate_limit_concurrency(&limit, "p", TWO_53 - 1, TWO_52);
    assert_int_equal(hirate_limit_check(&limit, NULL), 0);
    limit.capacity++;
    assert_refused(&limit, "limit: 9007199254740992 is too large for a concurrency", "0 to 9007199254740991");
    hirate_limit_concurrency(&limit, "p", 1, TWO_52 + 1);
    assert_refused(&limit, "lease: 4503599627370497", "1 to 4503599627370496");
    hirate_limit_concurrency(&limit, "p", 1, 0);
    assert_refused(&limit, "lease: 0 microseconds", "1 to 4503599627370496");
}

/* Of every kind but the one that holds, alone or together. */
static void test_limit_flags_that_do_not_go_together_are_named(void **state)
{
    static const hirate_limit bucket = HIRATE_TOKEN_BUCKET("p", 1, HIRATE_PER_SECOND(1));
    static const hirate_limit leases = HIRATE_CONCURRENCY("p", 1, HIRATE_SECONDS(1));
    hirate_limit limit = bucket;

    (void)state;
    limit.flags = HIRATE_LIMIT_SHADOW;
    assert_int_equal(hirate_limit_check(&limit, NULL), 0);
    limit.flags = HIRATE_LIMIT_SHADOW | HIRATE_LIMIT_CACHE_DENIALS;
    assert_refused(&limit, "cache-denials: given with shadow", "one of the two");
    limit = leases;
    limit.flags = HIRATE_LIMIT_SHADOW;
    assert_int_equal(hirate_limit_check(&limit, NULL), 0);
    limit.flags = HIRATE_LIMIT_CACHE_DENIALS;
    assert_refused(&limit, "cache-denials: given to a concurrency limit", "the other kinds");
}

static void test_limit_alike_is_what_decides_the_same(void **state)
{
    static const hirate_limit limits[] = {
        HIRATE_TOKEN_BUCKET("p", 10, HIRATE_PER_SECOND(1)),
        HIRATE_TOKEN_BUCKET("p", 11, HIRATE_PER_SECOND(1)),
        HIRATE_TOKEN_BUCKET("p", 10, HIRATE_PER_SECOND(2)),
        HIRATE_TOKEN_BUCKET("p", 10, HIRATE_RATE(1, HIRATE_SECONDS(2))),
        HIRATE_LEAKY_BUCKET("p", 10, HIRATE_PER_SECOND(1)),
        HIRATE_FIXED_WINDOW("p", 10, HIRATE_SECONDS(1)),
        HIRATE_FIXED_WINDOW("p", 10, HIRATE_SECONDS(2)),
        HIRATE_SLIDING_LOG("p", 10, HIRATE_SECONDS(1)),
        HIRATE_SLIDING_WINDOW("p", 10, HIRATE_SECONDS(1)),
        HIRATE_SLIDING_WINDOW("p", UINT64_C(1) << 33, HIRATE_SECONDS(1)),
        HIRATE_QUOTA("p", 10, HIRATE_PER_DAY, 0),
        HIRATE_QUOTA("p", 10, HIRATE_PER_DAY, 1),
        HIRATE_QUOTA("p", 10, HIRATE_PER_WEEK, 0),
        HIRATE_CONCURRENCY("p", 10, HIRATE_SECONDS(1)),
        HIRATE_CONCURRENCY("p", 10, HIRATE_SECONDS(2)),
    };
    enum { LIMITS = sizeof limits / sizeof limits[0] };
    hr_policy policies[LIMITS], other;

    (void)state;
    for (size_t i = 0; i < LIMITS; i++)
        assert_int_equal(hr_policy_compile(&policies[i], &limits[i], NULL), 0);
    for (size_t i = 0; i < LIMITS; i++) {
        hirate_limit limit = limits[i];

        limit.policy = "other";
        limit.flags = HIRATE_LIMIT_SHADOW;
        limit.on_failure = HIRATE_ON_FAILURE_OPEN;
        assert_int_equal(hr_policy_compile(&other, &limit, NULL), 0);
        assert_true(hr_policy_decides_alike(&policies[i], &other));
        for (size_t j = 0; j < LIMITS; j++)
            assert_int_equal(hr_policy_decides_alike(&policies[i], &policies[j]), i == j);
    }
}

static void test_limit_calendar_is_checked(void **state)
{
    hirate_limit limit;

    (void)state;
    for (int32_t per = HIRATE_PER_HOUR; per <= HIRATE_PER_MONTH; per++) {
        hirate_limit_quota(&limit, "p", 1, (enum hirate_per)per, per % 2 ? 1439 : -1439);
        assert_int_equal(hirate_limit_check(&limit, NULL), 0);
    }
    limit.per = 0;
    assert_refused(&limit, "per: 0", "hour, day, week, month");
    limit.per = 5;
    assert_refused(&limit, "per: 5", "hour, day, week, month");
    limit.per = HIRATE_PER_DAY;
    limit.offset_minutes = 1440;
    assert_refused(&limit, "offset: 1440 minutes", "-1439 to 1439");
    limit.offset_minutes = INT32_MIN;
    assert_refused(&limit, "offset: -2147483648 minutes", "-23:59 to +23:59");
}

static void test_limit_field_of_another_kind_is_refused(void **state)
{
    hirate_limit limit = make(1, 1, 1);

    (void)state;
    limit.window_us = 1;
    assert_refused(&limit, "window: given to a token-bucket", "accepted: 0");
    limit = make(1, 1, 1);
    limit.per = 1;
    assert_refused(&limit, "per: given to a token-bucket", "accepted: 0");
    limit = make(1, 1, 1);
    limit.kind = HIRATE_KIND_LEAKY_BUCKET;
    limit.offset_minutes = -1;
    assert_refused(&limit, "offset: given to a leaky-bucket", "accepted: 0");
    hirate_limit_sliding_log(&limit, "p", 1, 1);
    limit.rate.period_us = 1;
    assert_refused(&limit, "rate: given to a sliding-log", "accepted: 0");
    hirate_limit_fixed_window(&limit, "p", 1, 1);
    limit.offset_minutes = 1;
    assert_refused(&limit, "offset: given to a fixed-window", "accepted: 0");
    hirate_limit_quota(&limit, "p", 1, HIRATE_PER_DAY, 0);
    limit.window_us = 1;
    assert_refused(&limit, "window: given to a quota", "accepted: 0");
    limit.window_us = 0;
    limit.rate.tokens = 1;
    assert_refused(&limit, "rate: given to a quota", "accepted: 0");
    limit.rate.tokens = 0;
    limit.lease_us = 1;
    assert_refused(&limit, "lease: given to a quota", "accepted: 0");
    hirate_limit_concurrency(&limit, "p", 1, 1);
    limit.window_us = 1;
    assert_refused(&limit, "window: given to a concurrency", "accepted: 0");
    hirate_limit_concurrency(&limit, "p", 1, 1);
    limit.rate.period_us = 1;
    assert_refused(&limit, "rate: given to a concurrency", "accepted: 0");
    hirate_limit_concurrency(&limit, "p", 1, 1);
    limit.per = 1;
    assert_refused(&limit, "per: given to a concurrency", "accepted: 0");
}

/* A window's limit is shared out, rounded down; its length is not. */
static void test_limit_local_share_of_each_kind(void **state)
{
    static const hirate_limit limits[] = {
        HIRATE_LEAKY_BUCKET_WITH("p", 10, HIRATE_PER_SECOND(9), HIRATE_LIMIT_CACHE_DENIALS, HIRATE_FAIL_LOCAL(1, 3)),
        HIRATE_FIXED_WINDOW_WITH("p", 10, HIRATE_SECONDS(1), 0, HIRATE_FAIL_LOCAL(1, 3)),
        HIRATE_QUOTA_WITH("p", 10, HIRATE_PER_WEEK, -330, 0, HIRATE_FAIL_LOCAL(1, 3)),
        HIRATE_SLIDING_LOG_WITH("p", 10, HIRATE_SECONDS(1), 0, HIRATE_FAIL_LOCAL(1, 3)),
        HIRATE_SLIDING_WINDOW_WITH("p", 10, HIRATE_SECONDS(1), 0, HIRATE_FAIL_LOCAL(1, 3)),
        HIRATE_CONCURRENCY_WITH("p", 11, HIRATE_SECONDS(1), HIRATE_LIMIT_SHADOW, HIRATE_FAIL_LOCAL(1, 3)),
    };

    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        assert_int_equal(hirate_limit_check(&limits[i], NULL), 0);
        hirate_limit share = hr_limit_local_share(&limits[i]);

        assert_int_equal(hirate_limit_check(&share, NULL), 0);
        assert_true(share.capacity == 3 && share.kind == limits[i].kind && share.policy == limits[i].policy);
        assert_true(share.window_us == limits[i].window_us && share.per == limits[i].per &&
                    share.offset_minutes == limits[i].offset_minutes && share.lease_us == limits[i].lease_us);
        assert_true(share.rate.tokens == (i == 0 ? 3 : 0) && share.rate.period_us == (i == 0 ? 1000000 : 0));
        assert_true(share.flags == (limits[i].flags & HIRATE_LIMIT_SHADOW) && share.on_failure == HIRATE_ON_FAILURE_ERROR && share.local_share_den == 0);
    }
}

/* L·W <= 2^52 in the finest tick of 1 us, 1 ms, 1 s that divides W, as written, and the nearest that works. */
static void test_limit_random_sliding_window_is_refused_exactly_when_not_exact(void **state)
{
    rng r = rng_start("test_limit_random_sliding_window_is_refused_exactly_when_not_exact");
    size_t accepted = 0, suggested = 0;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        static const uint64_t ticks[] = {1, 1000, 1000000};
        uint64_t window_us = ticks[rng_upto(&r, 2)] * rng_magnitude(&r, 32), tick = 0;
        hirate_limit limit;
        hirate_error error;
        hr_policy policy;

        hirate_limit_sliding_window(&limit, "p", rng_magnitude(&r, 53), window_us);
        for (int t = 2; t >= 0; t--)
            if (window_us % ticks[t] == 0 && (u128)limit.capacity * (window_us / ticks[t]) <= TWO_52)
                tick = ticks[t];
        assert_int_equal(hr_policy_compile(&policy, &limit, &error) == 0, tick != 0);
        accepted += tick != 0;
        if (tick != 0) {
            assert_true(policy.tick_us == tick && policy.window == window_us / tick);
            continue;
        }
        const char *largest = strstr(error.text, "the largest that stays exact is ");
        assert_non_null(largest);
        suggested++;
        limit.capacity = strtoull(largest + strlen("the largest that stays exact is "), NULL, 10);
        assert_int_equal(hirate_limit_check(&limit, NULL), 0);
        limit.capacity++;
        assert_int_equal(hirate_limit_check(&limit, NULL), HIRATE_EINVAL);
    }
    assert_true(accepted > 1000 && suggested > 1000);
}

/* The three conditions as written, on random limits around their bounds. */
static void test_limit_random_is_refused_exactly_when_not_exact(void **state)
{
    rng r = rng_start("test_limit_random_is_refused_exactly_when_not_exact");
    size_t accepted = 0;
    size_t suggested = 0;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        hirate_limit limit = make(rng_magnitude(&r, 52), rng_magnitude(&r, 53), rng_magnitude(&r, 53));
        hirate_error error;
        uint64_t a = limit.rate.tokens;
        uint64_t b = limit.rate.period_us;

        while (b != 0) {
            uint64_t rest = a % b;
            a = b;
            b = rest;
        }
        u128 n = limit.rate.tokens / a;
        u128 full = (u128)limit.capacity * (limit.rate.period_us / a);
        int exact = 2 * full <= TWO_53 && 1000 * n <= TWO_53 && 1000 * full <= n << 63;
        assert_int_equal(hirate_limit_check(&limit, &error) == 0, exact);
        accepted += exact != 0;

        const char *largest = exact ? NULL : strstr(error.text, "the largest that stays exact is ");
        if (largest == NULL)
            continue;
        suggested++;
        limit.capacity = strtoull(largest + strlen("the largest that stays exact is "), NULL, 10);
        assert_int_equal(hirate_limit_check(&limit, NULL), 0);
        limit.capacity++;
        assert_int_equal(hirate_limit_check(&limit, NULL), HIRATE_EINVAL);
    }
    assert_true(accepted > 1000);
    assert_true(suggested > 1000);
}

static void test_local_share_of_a_shadow_is_a_shadow(void **state)
{
    const hirate_limit shadow = HIRATE_TOKEN_BUCKET_WITH("s", 10, HIRATE_PER_SECOND(4),
                                                         HIRATE_LIMIT_SHADOW, HIRATE_FAIL_LOCAL(1, 2));
    const hirate_limit cached = HIRATE_TOKEN_BUCKET_WITH("s", 10, HIRATE_PER_SECOND(4),
                                                         HIRATE_LIMIT_CACHE_DENIALS, HIRATE_FAIL_LOCAL(1, 2));

    (void)state;
    assert_int_equal(hr_limit_local_share(&shadow).flags, HIRATE_LIMIT_SHADOW);
    assert_int_equal(hr_limit_local_share(&cached).flags, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_local_share_of_a_shadow_is_a_shadow),
        cmocka_unit_test(test_limit_macro_compiles_to_reduced_units),
        cmocka_unit_test(test_limit_function_equals_macro),
        cmocka_unit_test(test_limit_header_wrong_is_named),
        cmocka_unit_test(test_limit_larger_struct_must_be_zero_beyond),
        cmocka_unit_test(test_limit_names_are_checked),
        cmocka_unit_test(test_name_each_byte_is_as_documented),
        cmocka_unit_test(test_limit_ranges_hold_at_the_bound_and_fail_past_it),
        cmocka_unit_test(test_limit_capacity_product_fails_one_past_the_bound),
        cmocka_unit_test(test_limit_rate_product_fails_one_past_the_bound),
        cmocka_unit_test(test_limit_each_kind_compiles),
        cmocka_unit_test(test_limit_functions_equal_macros),
        cmocka_unit_test(test_limit_windows_hold_at_the_bound_and_fail_past_it),
        cmocka_unit_test(test_limit_leases_hold_at_the_bound_and_fail_past_it),
        cmocka_unit_test(test_limit_flags_that_do_not_go_together_are_named),
        cmocka_unit_test(test_limit_alike_is_what_decides_the_same),
        cmocka_unit_test(test_limit_calendar_is_checked),
        cmocka_unit_test(test_limit_field_of_another_kind_is_refused),
        cmocka_unit_test(test_limit_local_share_of_each_kind),
        cmocka_unit_test(test_limit_random_sliding_window_is_refused_exactly_when_not_exact),
        cmocka_unit_test(test_limit_random_is_refused_exactly_when_not_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
