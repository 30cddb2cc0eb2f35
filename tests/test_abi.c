/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the fields of version 1's structs are, on LP64: programs built against it rely on them. New ones go to the end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hirate.h"

#include <stdio.h>
#include <string.h>

typedef struct field {
    const char *name;
    size_t at, size, expected_at, expected_size;
} field;

#define FIELD(type, name, at, size)                                                                                    \
    {                                                                                                                  \
#type "." #name, offsetof(type, name), sizeof(((type *)0)->name), at, size                                     \
    }
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void assert_layout(const field *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const field *f = &fields[i];
        if (f->at != f->expected_at || f->size != f->expected_size)
            fail_msg("%s is %zu bytes at %zu; version 1 has %zu at %zu", f->name, f->size, f->at, f->expected_size,
                     f->expected_at);
    }
}

static int is_lp64(void)
{
    return sizeof(long) == 8 && sizeof(void *) == 8 && sizeof(int) == 4;
}

static void test_limit_layout(void **state)
{
    static const field fields[] = {
        FIELD(hirate_limit, struct_size, 0, 4), FIELD(hirate_limit, version, 4, 2),   FIELD(hirate_limit, kind, 6, 2),
        FIELD(hirate_limit, policy, 8, 8),      FIELD(hirate_limit, capacity, 16, 8), FIELD(hirate_limit, rate, 24, 16),
        FIELD(hirate_rate, tokens, 0, 8),       FIELD(hirate_rate, period_us, 8, 8),  FIELD(hirate_limit, flags, 40, 4),
        FIELD(hirate_limit, on_failure, 44, 4), FIELD(hirate_limit, local_share_num, 48, 4),
        FIELD(hirate_limit, local_share_den, 52, 4), FIELD(hirate_limit, window_us, 56, 8),
        FIELD(hirate_limit, offset_minutes, 64, 4),  FIELD(hirate_limit, per, 68, 4),
        FIELD(hirate_limit, lease_us, 72, 8),        FIELD(hirate_limit, reserved, 80, 24),
    };

    (void)state;
    if (!is_lp64())
        skip();
    assert_layout(fields, COUNT(fields));
    assert_int_equal(sizeof(hirate_limit), 104); /* reserved room becomes fields: it never grows */
}

static void test_options_layout(void **state)
{
    static const field fields[] = {
        FIELD(hirate_options, struct_size, 0, 4),
        FIELD(hirate_options, version, 4, 4),
        FIELD(hirate_options, uri, 8, 8),
        FIELD(hirate_options, prefix, 16, 8),
        FIELD(hirate_options, deadline_ms, 24, 8),
        FIELD(hirate_options, connect_timeout_ms, 32, 8),
        FIELD(hirate_options, stall_timeout_ms, 40, 8),
        FIELD(hirate_options, max_pending, 48, 4),
        FIELD(hirate_options, max_calls, 52, 4),
        FIELD(hirate_options, max_call_keys, 56, 4),
        FIELD(hirate_options, max_call_acquires, 60, 4),
        FIELD(hirate_options, max_denials, 64, 4),
        FIELD(hirate_options, breaker_failures, 68, 4),
        FIELD(hirate_options, max_local_keys, 72, 4),
        FIELD(hirate_options, on_room, 80, 8),
        FIELD(hirate_options, resolve, 88, 8),
        FIELD(hirate_options, user, 96, 8),
    };

    (void)state;
    if (!is_lp64())
        skip();
    assert_layout(fields, COUNT(fields));
    assert_true(sizeof(hirate_options) >= 104);
}

static void test_request_layout(void **state)
{
    static const field fields[] = {
        FIELD(hirate_request, struct_size, 0, 4), FIELD(hirate_request, version, 4, 4),
        FIELD(hirate_request, op, 8, 4),          FIELD(hirate_request, limit, 16, 8),
        FIELD(hirate_request, name, 24, 8),       FIELD(hirate_request, name_len, 32, 8),
        FIELD(hirate_request, cost, 40, 8),       FIELD(hirate_request, deadline_ms, 48, 8),
        FIELD(hirate_request, cb, 56, 8),         FIELD(hirate_request, user, 64, 8),
        FIELD(hirate_request, more, 72, 8),       FIELD(hirate_request, more_count, 80, 8),
        FIELD(hirate_request, hold_us, 88, 8),    FIELD(hirate_request, permit, 96, 8),
        FIELD(hirate_pair, limit, 0, 8),          FIELD(hirate_pair, name, 8, 8),
        FIELD(hirate_pair, name_len, 16, 8),
    };

    (void)state;
    if (!is_lp64())
        skip();
    assert_layout(fields, COUNT(fields));
    assert_true(sizeof(hirate_request) >= 104);
    assert_int_equal(sizeof(hirate_pair), 24); /* it has no size of its own: it never grows */
}

static void test_result_layout(void **state)
{
    static const field fields[] = {
        FIELD(hirate_result, struct_size, 0, 4), FIELD(hirate_result, error, 4, 4),
        FIELD(hirate_result, op, 8, 4),          FIELD(hirate_result, verdict, 12, 4),
        FIELD(hirate_result, source, 16, 4),     FIELD(hirate_result, charge, 20, 4),
        FIELD(hirate_result, id, 24, 8),         FIELD(hirate_result, cost, 32, 8),
        FIELD(hirate_result, remaining, 40, 8),  FIELD(hirate_result, retry_after_ms, 48, 8),
        FIELD(hirate_result, reset_ms, 56, 8),   FIELD(hirate_result, delay_ms, 64, 8),
        FIELD(hirate_result, time_us, 72, 8),    FIELD(hirate_result, used, 80, 4),
        FIELD(hirate_result, policy, 88, 8),     FIELD(hirate_result, reason, 96, 8),
        FIELD(hirate_result, cause, 104, 4),     FIELD(hirate_result, permit, 112, 8),
        FIELD(hirate_result, late, 120, 4),      FIELD(hirate_result, shadow_denied, 124, 4),
        FIELD(hirate_result, limit_count, 128, 4), FIELD(hirate_result, limits, 136, 8),
    };

    (void)state;
    if (!is_lp64())
        skip();
    assert_layout(fields, COUNT(fields));
    assert_true(sizeof(hirate_result) >= 144);
}

static void test_limit_result_layout(void **state)
{
    static const field fields[] = {
        FIELD(hirate_limit_result, struct_size, 0, 4), FIELD(hirate_limit_result, verdict, 4, 4),
        FIELD(hirate_limit_result, shadow, 8, 4),      FIELD(hirate_limit_result, policy_kind, 12, 4),
        FIELD(hirate_limit_result, policy, 16, 8),     FIELD(hirate_limit_result, remaining, 24, 8),
        FIELD(hirate_limit_result, retry_after_ms, 32, 8), FIELD(hirate_limit_result, reset_ms, 40, 8),
        FIELD(hirate_limit_result, delay_ms, 48, 8),   FIELD(hirate_limit_result, permit, 56, 8),
    };

    (void)state;
    if (!is_lp64())
        skip();
    assert_layout(fields, COUNT(fields));
    assert_true(sizeof(hirate_limit_result) >= 64);
}

static void test_loop_layout(void **state)
{
    static const field fields[] = {
        FIELD(hirate_loop, struct_size, 0, 4), FIELD(hirate_loop, version, 4, 4),
        FIELD(hirate_loop, data, 8, 8),        FIELD(hirate_loop, watch_new, 16, 8),
        FIELD(hirate_loop, watch_set, 24, 8),  FIELD(hirate_loop, watch_free, 32, 8),
        FIELD(hirate_loop, timer_new, 40, 8),  FIELD(hirate_loop, timer_set, 48, 8),
        FIELD(hirate_loop, timer_free, 56, 8), FIELD(hirate_loop, defer_new, 64, 8),
        FIELD(hirate_loop, defer_set, 72, 8),  FIELD(hirate_loop, defer_free, 80, 8),
    };

    (void)state;
    if (!is_lp64())
        skip();
    assert_layout(fields, COUNT(fields));
    assert_true(sizeof(hirate_loop) >= 88);
}

static void test_stats_layout(void **state)
{
    static const field fields[] = {
        FIELD(hirate_stats, struct_size, 0, 4), FIELD(hirate_stats, version, 4, 4),
        FIELD(hirate_stats, submitted, 8, 8),   FIELD(hirate_stats, answered, 16, 8),
        FIELD(hirate_stats, allowed, 24, 8),    FIELD(hirate_stats, denied, 32, 8),
        FIELD(hirate_stats, errors, 40, 8),     FIELD(hirate_stats, refused, 48, 8),
        FIELD(hirate_stats, calls, 56, 8),      FIELD(hirate_stats, call_acquires, 64, 8),
        FIELD(hirate_stats, connects, 72, 8),   FIELD(hirate_stats, pending, 80, 8),
    };

    (void)state;
    if (!is_lp64())
        skip();
    assert_layout(fields, COUNT(fields));
    assert_true(sizeof(hirate_stats) >= 88);
}

static void test_error_layout(void **state)
{
    static const field fields[] = {FIELD(hirate_error, code, 0, 4), FIELD(hirate_error, text, 4, 256)};

    (void)state;
    assert_layout(fields, COUNT(fields));
    assert_int_equal(sizeof(hirate_error), 260); /* it has no size of its own: it never grows */
}

static void test_codes_keep_their_numbers(void **state)
{
    static const int codes[] = {HIRATE_OK,        HIRATE_EINVAL, HIRATE_ENOMEM,    HIRATE_ELOOP,     HIRATE_ECLOSED,
                                HIRATE_ECANCELED, HIRATE_ENOENT, HIRATE_EOVERLOAD, HIRATE_EDEADLINE, HIRATE_ECONNECT,
                                HIRATE_ELOST,     HIRATE_EAUTH,  HIRATE_ESTATE,    HIRATE_EREDIS,    HIRATE_EPROTOCOL};

    (void)state;
    for (size_t i = 0; i < COUNT(codes); i++)
        assert_int_equal(codes[i], -(int)i);
}

static void test_enumerations_keep_their_numbers(void **state)
{
    (void)state;
    assert_int_equal(HIRATE_KIND_TOKEN_BUCKET, 1);
    assert_int_equal(HIRATE_KIND_LEAKY_BUCKET, 2);
    assert_int_equal(HIRATE_KIND_FIXED_WINDOW, 3);
    assert_int_equal(HIRATE_KIND_QUOTA, 4);
    assert_int_equal(HIRATE_KIND_SLIDING_LOG, 5);
    assert_int_equal(HIRATE_KIND_SLIDING_WINDOW, 6);
    assert_int_equal(HIRATE_KIND_CONCURRENCY, 7);
    assert_int_equal(HIRATE_PER_NONE, 0);
    assert_int_equal(HIRATE_PER_HOUR, 1);
    assert_int_equal(HIRATE_PER_DAY, 2);
    assert_int_equal(HIRATE_PER_WEEK, 3);
    assert_int_equal(HIRATE_PER_MONTH, 4);
    assert_int_equal(HIRATE_OP_ACQUIRE, 1);
    assert_int_equal(HIRATE_OP_PEEK, 2);
    assert_int_equal(HIRATE_OP_RESET, 3);
    assert_int_equal(HIRATE_OP_RELEASE, 4);
    assert_int_equal(HIRATE_OP_RENEW, 5);
    assert_int_equal(HIRATE_OP_COMMIT, 6);
    assert_int_equal(HIRATE_OP_REFUND, 7);
    assert_int_equal(HIRATE_VERDICT_NONE, 0);
    assert_int_equal(HIRATE_ALLOWED, 1);
    assert_int_equal(HIRATE_DENIED, 2);
    assert_int_equal(HIRATE_SOURCE_NONE, 0);
    assert_int_equal(HIRATE_SOURCE_REDIS, 1);
    assert_int_equal(HIRATE_SOURCE_LOCAL, 2);
    assert_int_equal(HIRATE_SOURCE_CACHE, 3);
    assert_int_equal(HIRATE_CHARGE_NO, 0);
    assert_int_equal(HIRATE_CHARGE_YES, 1);
    assert_int_equal(HIRATE_CHARGE_MAYBE, 2);
    assert_int_equal(HIRATE_READ, 1);
    assert_int_equal(HIRATE_WRITE, 2);
    assert_true(HIRATE_LIMIT_CACHE_DENIALS == 1);
    assert_true(HIRATE_LIMIT_SHADOW == 2);
}

static void test_constants_keep_their_values(void **state)
{
    (void)state;
    assert_int_equal(HIRATE_NAME_MAX, 1024);
    assert_int_equal(HIRATE_POLICY_MAX, 64);
    assert_int_equal(HIRATE_POLICY_SIZE, 65);
    assert_int_equal(HIRATE_REASON_MAX, 255);
    assert_int_equal(HIRATE_LOG_MAX, 8192);
    assert_int_equal(HIRATE_HOLDS_MAX, 8192);
    assert_int_equal(HIRATE_PAIRS_MAX, 16);
    assert_int_equal(HIRATE_PERMIT_MAX, 2047);
    assert_int_equal(HIRATE_PERMIT_SIZE, 2048);
    assert_int_equal(HIRATE_NAME_INT_SIZE, 20);
    assert_true(HIRATE_COST_MAX == (UINT64_C(1) << 53) - 1);
    assert_true(HIRATE_NEVER == INT64_MAX);
    assert_int_equal(HIRATE_LIMIT_VERSION, 1);
    assert_int_equal(HIRATE_LOOP_VERSION, 1);
    assert_int_equal(HIRATE_OPTIONS_VERSION, 1);
    assert_int_equal(HIRATE_REQUEST_VERSION, 1);
    assert_int_equal(HIRATE_STATS_VERSION, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limit_layout),
        cmocka_unit_test(test_options_layout),
        cmocka_unit_test(test_request_layout),
        cmocka_unit_test(test_result_layout),
        cmocka_unit_test(test_limit_result_layout),
        cmocka_unit_test(test_loop_layout),
        cmocka_unit_test(test_stats_layout),
        cmocka_unit_test(test_error_layout),
        cmocka_unit_test(test_codes_keep_their_numbers),
        cmocka_unit_test(test_enumerations_keep_their_numbers),
        cmocka_unit_test(test_constants_keep_their_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
