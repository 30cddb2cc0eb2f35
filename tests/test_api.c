/* SPDX-License-Identifier: BSD-3-Clause */
/* The small parts of the public interface: initialisers, texts and names of codes, names from integers, macros. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hirate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------- initialisers -- */

enum { ROOM = 512, FILL = 0xa5 };

typedef void init_fn(void *object, size_t size);

static void init_request(void *object, size_t size)
{
    hirate_request_init_sized(object, size);
}

static void init_stats(void *object, size_t size)
{
    hirate_stats_init_sized(object, size);
}

static void init_result(void *object, size_t size)
{
    hirate_result_init_sized(object, size);
}

/* `size` bytes are set, of which those from `known` on are zero; the rest is untouched. */
static void assert_fills(init_fn *init, size_t size, size_t known)
{
    unsigned char *room = malloc(ROOM);
    uint32_t written;

    assert_non_null(room);
    memset(room, FILL, ROOM);
    init(room, size);
    memcpy(&written, room, sizeof written);
    assert_int_equal(written, size);
    for (size_t i = known; i < size; i++)
        assert_int_equal(room[i], 0);
    for (size_t i = size; i < ROOM; i++)
        assert_int_equal(room[i], FILL);
    free(room);
}

static void test_init_stays_within_the_size_given(void **state)
{
    static const struct {
        init_fn *init;
        size_t known;
    } structs[] = {
        {init_request, sizeof(hirate_request)},
        {init_stats, sizeof(hirate_stats)},
        {init_result, sizeof(hirate_result)},
    };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        for (size_t size = 8; size <= ROOM; size += 8)
            assert_fills(structs[i].init, size, structs[i].known);
    }
}

static void test_request_defaults(void **state)
{
    hirate_request request;

    (void)state;
    memset(&request, FILL, sizeof request);
    hirate_request_init(&request);
    assert_int_equal(request.struct_size, sizeof request);
    assert_int_equal(request.version, HIRATE_REQUEST_VERSION);
    assert_int_equal(request.op, HIRATE_OP_ACQUIRE);
    assert_true(request.limit == NULL && request.name == NULL && request.name_len == 0);
    assert_true(request.cost == 1 && request.deadline_ms == 0);
    assert_true(request.cb == NULL && request.user == NULL);
    assert_true(request.more == NULL && request.more_count == 0 && request.hold_us == 0 && request.permit == NULL);
}

static void test_stats_and_result_defaults(void **state)
{
    hirate_stats stats;
    hirate_result result;

    (void)state;
    memset(&stats, FILL, sizeof stats);
    hirate_stats_init(&stats);
    assert_int_equal(stats.struct_size, sizeof stats);
    assert_int_equal(stats.version, HIRATE_STATS_VERSION);
    assert_true(stats.submitted == 0 && stats.pending == 0);
    memset(&result, FILL, sizeof result);
    hirate_result_init(&result);
    assert_int_equal(result.struct_size, sizeof result);
    assert_int_equal(result.verdict, HIRATE_VERDICT_NONE);
    assert_null(result.policy);
    assert_true(result.permit == NULL && result.late == 0 && result.limit_count == 0 && result.limits == NULL);
}

static void test_result_limit_is_one_that_was_asked(void **state)
{
    hirate_limit_result limits[2];
    hirate_result result;

    (void)state;
    hirate_result_init(&result);
    assert_null(hirate_result_limit(NULL, 0));
    assert_null(hirate_result_limit(&result, 0));
    result.limit_count = 2; /* without a verdict by them */
    assert_null(hirate_result_limit(&result, 0));
    result.limits = limits;
    assert_ptr_equal(hirate_result_limit(&result, 0), &limits[0]);
    assert_ptr_equal(hirate_result_limit(&result, 1), &limits[1]);
    assert_null(hirate_result_limit(&result, 2));
    assert_null(hirate_result_limit(&result, UINT32_MAX));
    /* A program of before this field has its own memory there. */
    result.struct_size = offsetof(hirate_result, permit);
    assert_null(hirate_result_limit(&result, 0));
}

/* ------------------------------------------------------------------------------------------------------ naming -- */

static void test_every_code_has_a_text_of_its_own(void **state)
{
    (void)state;
    for (int code = HIRATE_EPROTOCOL; code <= 0; code++) {
        const char *text = hirate_strerror(code);
        assert_true(strlen(text) > 3);
        assert_string_not_equal(text, "unknown error code");
        for (int other = HIRATE_EPROTOCOL; other < code; other++)
            assert_string_not_equal(text, hirate_strerror(other));
    }
}

static void test_other_codes_are_unknown(void **state)
{
    static const int codes[] = {HIRATE_EPROTOCOL - 1, 1, 1000, INT32_MIN, INT32_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        assert_string_equal(hirate_strerror(codes[i]), "unknown error code");
}

static void test_names_are_as_the_tool_prints_them(void **state)
{
    (void)state;
    assert_string_equal(hirate_verdict_name(HIRATE_ALLOWED), "allowed");
    assert_string_equal(hirate_verdict_name(HIRATE_DENIED), "denied");
    assert_string_equal(hirate_verdict_name(HIRATE_VERDICT_NONE), "error");
    assert_string_equal(hirate_source_name(HIRATE_SOURCE_REDIS), "redis");
    assert_string_equal(hirate_source_name(HIRATE_SOURCE_LOCAL), "local");
    assert_string_equal(hirate_source_name(HIRATE_SOURCE_CACHE), "cache");
    assert_string_equal(hirate_source_name(HIRATE_SOURCE_NONE), "none");
    assert_string_equal(hirate_source_name((enum hirate_source)99), "none");
    assert_string_equal(hirate_charge_name(HIRATE_CHARGE_YES), "yes");
    assert_string_equal(hirate_charge_name(HIRATE_CHARGE_NO), "no");
    assert_string_equal(hirate_charge_name(HIRATE_CHARGE_MAYBE), "maybe");
    assert_string_equal(hirate_version(), HIRATE_VERSION);
}

/* ----------------------------------------------------------------------------------------- names from integers -- */

static void assert_u64(uint64_t value)
{
    char buf[HIRATE_NAME_INT_SIZE + 1], expected[32];

    memset(buf, '#', sizeof buf);
    size_t len = hirate_name_u64(buf, value);
    (void)snprintf(expected, sizeof expected, "%" PRIu64 "#", value);
    assert_int_equal(len, strlen(expected) - 1);
    assert_memory_equal(buf, expected, len + 1);
}

static void assert_i64(int64_t value)
{
    char buf[HIRATE_NAME_INT_SIZE + 1], expected[32];

    memset(buf, '#', sizeof buf);
    size_t len = hirate_name_i64(buf, value);
    (void)snprintf(expected, sizeof expected, "%" PRId64 "#", value);
    assert_int_equal(len, strlen(expected) - 1);
    assert_memory_equal(buf, expected, len + 1);
}

static void test_integer_names_are_decimal_at_every_length(void **state)
{
    (void)state;
    assert_u64(UINT64_MAX);
    assert_i64(INT64_MIN);
    assert_i64(INT64_MAX);
    for (uint64_t ten = 1;; ten *= 10) {
        assert_u64(ten - 1);
        assert_u64(ten);
        if (ten > UINT64_MAX / 10)
            break;
        assert_i64((int64_t)ten);
        assert_i64(-(int64_t)ten);
        assert_i64(1 - (int64_t)ten);
    }
}

/* ---------------------------------------------------------------------------------------------- limit macros -- */

static void test_duration_macros_are_microseconds(void **state)
{
    (void)state;
    assert_true(HIRATE_MICROSECONDS(7) == 7);
    assert_true(HIRATE_MILLISECONDS(7) == 7000);
    assert_true(HIRATE_SECONDS(7) == 7000000);
    assert_true(HIRATE_MINUTES(7) == 420000000);
    assert_true(HIRATE_HOURS(7) == INT64_C(25200000000));
    assert_true(HIRATE_DAYS(7) == INT64_C(604800000000));
    assert_true(HIRATE_DAYS(1 + 1) == INT64_C(172800000000));
}

static void test_limit_macro_sets_every_field(void **state)
{
    static const hirate_limit limit = HIRATE_TOKEN_BUCKET("login", 20, HIRATE_RATE(1, HIRATE_SECONDS(3)));

    (void)state;
    assert_int_equal(limit.struct_size, sizeof limit);
    assert_int_equal(limit.version, HIRATE_LIMIT_VERSION);
    assert_int_equal(limit.kind, HIRATE_KIND_TOKEN_BUCKET);
    assert_string_equal(limit.policy, "login");
    assert_true(limit.capacity == 20 && limit.rate.tokens == 1 && limit.rate.period_us == 3000000);
    assert_true(limit.flags == 0);
    for (size_t i = 0; i < sizeof limit.reserved / sizeof limit.reserved[0]; i++)
        assert_true(limit.reserved[i] == 0);
}

static void test_limit_macro_of_concurrency_sets_its_lease(void **state)
{
    static const hirate_limit limit = HIRATE_CONCURRENCY("jobs", 7, HIRATE_SECONDS(30));

    (void)state;
    assert_int_equal(limit.struct_size, sizeof limit);
    assert_int_equal(limit.kind, HIRATE_KIND_CONCURRENCY);
    assert_string_equal(limit.policy, "jobs");
    assert_true(limit.capacity == 7 && limit.lease_us == 30000000 && limit.window_us == 0 && limit.flags == 0);
    assert_int_equal(hirate_limit_check(&limit, NULL), 0);
}

static void test_limit_macro_with_flags_sets_them(void **state)
{
    static const hirate_limit plain = HIRATE_TOKEN_BUCKET("a", 2, HIRATE_PER_SECOND(3));
    hirate_limit limit = HIRATE_TOKEN_BUCKET_WITH("a", 2, HIRATE_PER_SECOND(3), HIRATE_LIMIT_CACHE_DENIALS,
                                                  HIRATE_FAIL_LOCAL(3, 4));

    (void)state;
    assert_true(limit.flags == 1);
    assert_int_equal(limit.on_failure, HIRATE_ON_FAILURE_LOCAL);
    assert_int_equal(limit.local_share_num, 3);
    assert_int_equal(limit.local_share_den, 4);
    limit.flags = limit.on_failure = limit.local_share_num = limit.local_share_den = 0;
    limit.policy = plain.policy;
    assert_memory_equal(&limit, &plain, sizeof limit);
}

static void test_limit_macro_takes_the_bounds(void **state)
{
    static const hirate_limit least = HIRATE_TOKEN_BUCKET("a", 0, HIRATE_RATE(1, 1));
    static const hirate_limit most =
        HIRATE_TOKEN_BUCKET("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", 4503599627370496,
                            HIRATE_RATE(9007199254740991, 9007199254740991));
    static const hirate_limit second = HIRATE_TOKEN_BUCKET("s", 1, HIRATE_PER_SECOND(5 + 5));

    (void)state;
    assert_true(least.capacity == 0);
    assert_int_equal(strlen(most.policy), HIRATE_POLICY_MAX);
    assert_true(most.capacity == UINT64_C(1) << 52);
    assert_true(most.rate.tokens == HIRATE_COST_MAX && most.rate.period_us == HIRATE_COST_MAX);
    assert_true(second.rate.tokens == 10 && second.rate.period_us == 1000000);
    assert_int_equal(hirate_limit_check(&most, NULL), 0);
}

static void test_limit_function_fills_all(void **state)
{
    hirate_limit limit;

    (void)state;
    memset(&limit, FILL, sizeof limit);
    hirate_limit_token_bucket(&limit, "p", 9, (hirate_rate){4, 5});
    assert_int_equal(limit.struct_size, sizeof limit);
    assert_true(limit.capacity == 9 && limit.rate.tokens == 4 && limit.rate.period_us == 5);
    assert_int_equal(hirate_limit_check(&limit, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_init_stays_within_the_size_given),
        cmocka_unit_test(test_request_defaults),
        cmocka_unit_test(test_stats_and_result_defaults),
        cmocka_unit_test(test_result_limit_is_one_that_was_asked),
        cmocka_unit_test(test_every_code_has_a_text_of_its_own),
        cmocka_unit_test(test_other_codes_are_unknown),
        cmocka_unit_test(test_names_are_as_the_tool_prints_them),
        cmocka_unit_test(test_integer_names_are_decimal_at_every_length),
        cmocka_unit_test(test_duration_macros_are_microseconds),
        cmocka_unit_test(test_limit_macro_sets_every_field),
        cmocka_unit_test(test_limit_macro_of_concurrency_sets_its_lease),
        cmocka_unit_test(test_limit_macro_with_flags_sets_them),
        cmocka_unit_test(test_limit_macro_takes_the_bounds),
        cmocka_unit_test(test_limit_function_fills_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
