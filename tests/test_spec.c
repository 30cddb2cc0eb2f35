/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits from text: what is read, and that what is wrong is named and changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "duration.h"
#include "hirate.h"

#include <stdio.h>
#include <string.h>

static void test_spec_well_formed_is_read(void **state)
{
    static const struct {
        const char *spec, *policy;
        uint64_t capacity, tokens, period_us;
    } cases[] = {
        {"login token-bucket capacity=20 rate=1/3s", "login", 20, 1, 3000000},
        {"a token-bucket rate=50/s capacity=10000", "a", 10000, 50, 1000000},
        {" \t a.B-c_9\ttoken-bucket  capacity=0 \t rate=7/13ms\t ", "a.B-c_9", 0, 7, 13000},
        {"x token-bucket capacity=1 rate=1/us", "x", 1, 1, 1},
        {"x token-bucket capacity=1 rate=1/ms", "x", 1, 1, 1000},
        {"x token-bucket capacity=1 rate=1/m", "x", 1, 1, 60000000},
        {"x token-bucket capacity=1 rate=1/h", "x", 1, 1, 3600000000},
        {"x token-bucket capacity=1 rate=1/2d", "x", 1, 1, 172800000000},
        {"x token-bucket capacity=007 rate=010/01s", "x", 7, 10, 1000000},
        {"x token-bucket capacity=4503599627370496 rate=1/us", "x", UINT64_C(1) << 52, 1, 1},
        {"x token-bucket capacity=0 rate=9007199254740991/9007199254740991us", "x", 0, HIRATE_COST_MAX,
         HIRATE_COST_MAX},
        {"x token-bucket capacity=0 rate=1/104249d", "x", 0, 1, UINT64_C(9007113600000000)},
    };
    char policy[HIRATE_POLICY_SIZE];
    hirate_limit limit;
    hirate_error error;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memset(&error, 0, sizeof error);
        int rc = hirate_limit_parse(cases[i].spec, &limit, policy, &error);
        assert_string_equal(error.text, "");
        assert_int_equal(rc, 0);
        assert_ptr_equal(limit.policy, policy);
        assert_string_equal(policy, cases[i].policy);
        assert_true(limit.capacity == cases[i].capacity);
        assert_true(limit.rate.tokens == cases[i].tokens);
        assert_true(limit.rate.period_us == cases[i].period_us);
        assert_int_equal(limit.kind, HIRATE_KIND_TOKEN_BUCKET);
        assert_true(limit.window_us == 0 && limit.offset_minutes == 0 && limit.per == 0);
        assert_int_equal(hirate_limit_check(&limit, NULL), 0);
    }
}

static void test_spec_of_each_algorithm_equals_its_initialiser(void **state)
{
    static const struct {
        const char *spec;
        hirate_limit limit;
    } cases[] = {
        {"x token-bucket capacity=7 rate=3/s", HIRATE_TOKEN_BUCKET("x", 7, HIRATE_PER_SECOND(3))},
        {"x leaky-bucket rate=7/13ms capacity=7",
         HIRATE_LEAKY_BUCKET("x", 7, HIRATE_RATE(7, HIRATE_MILLISECONDS(13)))},
        {"x fixed-window limit=0 window=us", HIRATE_FIXED_WINDOW("x", 0, HIRATE_MICROSECONDS(1))},
        {"x fixed-window window=52124d limit=9007199254740991",
         HIRATE_FIXED_WINDOW("x", HIRATE_COST_MAX, HIRATE_DAYS(52124))},
        {"x quota limit=100 per=hour", HIRATE_QUOTA("x", 100, HIRATE_PER_HOUR, 0)},
        {"x quota offset=+05:30 limit=100 per=day", HIRATE_QUOTA("x", 100, HIRATE_PER_DAY, 330)},
        {"x quota limit=100 per=week offset=-00:01", HIRATE_QUOTA("x", 100, HIRATE_PER_WEEK, -1)},
        {"x quota limit=100 per=month offset=-23:59", HIRATE_QUOTA("x", 100, HIRATE_PER_MONTH, -1439)},
        {"x sliding-log limit=8192 window=90s", HIRATE_SLIDING_LOG("x", 8192, HIRATE_SECONDS(90))},
        {"x sliding-window limit=4503599627370496 window=s",
         HIRATE_SLIDING_WINDOW("x", INT64_C(4503599627370496), HIRATE_SECONDS(1))},
        {"x sliding-window limit=10 window=7m cache-denials=yes on-failure=local local-share=1/3",
         HIRATE_SLIDING_WINDOW_WITH("x", 10, HIRATE_MINUTES(7), HIRATE_LIMIT_CACHE_DENIALS, HIRATE_FAIL_LOCAL(1, 3))},
        {"x quota limit=10 per=day on-failure=open",
         HIRATE_QUOTA_WITH("x", 10, HIRATE_PER_DAY, 0, 0, HIRATE_FAIL_OPEN)},
        {"x leaky-bucket capacity=10 rate=1/s on-failure=closed",
         HIRATE_LEAKY_BUCKET_WITH("x", 10, HIRATE_PER_SECOND(1), 0, HIRATE_FAIL_CLOSED)},
        {"x fixed-window limit=10 window=1s cache-denials=yes",
         HIRATE_FIXED_WINDOW_WITH("x", 10, HIRATE_SECONDS(1), HIRATE_LIMIT_CACHE_DENIALS, HIRATE_FAIL_ERROR)},
        {"x sliding-log limit=10 window=1s on-failure=local",
         HIRATE_SLIDING_LOG_WITH("x", 10, HIRATE_SECONDS(1), 0, HIRATE_FAIL_LOCAL(1, 1))},
        {"x concurrency limit=10 lease=30s", HIRATE_CONCURRENCY("x", 10, HIRATE_SECONDS(30))},
        {"x concurrency lease=4503599627370496us limit=9007199254740991",
         HIRATE_CONCURRENCY("x", INT64_C(9007199254740991), INT64_C(4503599627370496))},
        {"x concurrency limit=10 lease=m shadow=yes on-failure=local local-share=1/3",
         HIRATE_CONCURRENCY_WITH("x", 10, HIRATE_MINUTES(1), HIRATE_LIMIT_SHADOW, HIRATE_FAIL_LOCAL(1, 3))},
        {"x quota limit=10 per=day shadow=yes",
         HIRATE_QUOTA_WITH("x", 10, HIRATE_PER_DAY, 0, HIRATE_LIMIT_SHADOW, HIRATE_FAIL_ERROR)},
    };
    char policy[HIRATE_POLICY_SIZE];
    hirate_limit limit;
    hirate_error error = {0, ""};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hirate_limit expected = cases[i].limit;

        if (hirate_limit_parse(cases[i].spec, &limit, policy, &error) != 0)
            fail_msg("'%s': %s", cases[i].spec, error.text);
        expected.policy = policy;
        assert_memory_equal(&limit, &expected, sizeof limit);
        assert_int_equal(hirate_limit_check(&cases[i].limit, NULL), 0);
    }
}

static void test_spec_optional_keys_are_read(void **state)
{
    static const struct {
        const char *keys;
        uint32_t flags, on_failure, num, den;
    } cases[] = {
        {"", 0, HIRATE_ON_FAILURE_ERROR, 0, 0},
        {"cache-denials=yes", HIRATE_LIMIT_CACHE_DENIALS, HIRATE_ON_FAILURE_ERROR, 0, 0},
        {"shadow=yes", HIRATE_LIMIT_SHADOW, HIRATE_ON_FAILURE_ERROR, 0, 0},
        {"on-failure=error", 0, HIRATE_ON_FAILURE_ERROR, 0, 0},
        {"on-failure=open", 0, HIRATE_ON_FAILURE_OPEN, 0, 0},
        {"on-failure=closed", 0, HIRATE_ON_FAILURE_CLOSED, 0, 0},
        {"on-failure=local", 0, HIRATE_ON_FAILURE_LOCAL, 1, 1},
        {"local-share=3/7 on-failure=local", 0, HIRATE_ON_FAILURE_LOCAL, 3, 7},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[200], policy[HIRATE_POLICY_SIZE];
        hirate_limit limit;
        snprintf(text, sizeof text, "x token-bucket %s capacity=7 rate=1/s", cases[i].keys);
        assert_int_equal(hirate_limit_parse(text, &limit, policy, NULL), 0);
        assert_int_equal(limit.flags, cases[i].flags);
        assert_int_equal(limit.on_failure, cases[i].on_failure);
        assert_int_equal(limit.local_share_num, cases[i].num);
        assert_int_equal(limit.local_share_den, cases[i].den);
    }
}

#define X65 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define TB "x token-bucket "
#define FW "x fixed-window "

/* What is wrong, how the text begins, and a part of what it says is accepted. */
static const struct wrong {
    const char *spec, *begins, *accepts;
} wrongs[] = {
    {"", "spec: is empty", "NAME ALGORITHM key=value ..."},
    {" \t", "spec: is empty", "login token-bucket capacity=20 rate=1/3s"},
    {"a/b token-bucket capacity=1 rate=1/s", "policy: 'a/b'", "1 to 64 of"},
    {"caf\xC3\xA9 token-bucket capacity=1 rate=1/s", "policy: 'caf", "1 to 64 of"},
    {X65 " token-bucket capacity=1 rate=1/s", "policy: '", "1 to 64 of"},
    {"\x1b[2J token-bucket capacity=1 rate=1/s", "policy: '?[2J'", "1 to 64 of"},
    {"x", "algorithm: missing",
     "token-bucket, leaky-bucket, fixed-window, quota, sliding-log, sliding-window, concurrency"},
    {"x semaphore limit=1 lease=1s", "algorithm: 'semaphore'",
     "token-bucket, leaky-bucket, fixed-window, quota, sliding-log, sliding-window, concurrency"},
    {"x Token-Bucket capacity=1 rate=1/s", "algorithm: 'Token-Bucket'", "token-bucket"},
    {"x capacity=1 rate=1/s", "algorithm: 'capacity=1'", "token-bucket"},
    {"x token-bucket\ncapacity=1 rate=1/s", "algorithm: 'token-bucket?capacity=1'", "token-bucket"},
    {TB "rate=1/s", "capacity: missing", "capacity=C"},
    {TB "capacity=1", "rate: missing", "rate=N/DURATION"},
    {TB, "capacity: missing", "capacity=C"},
    {TB "capacity=1 capacity=1 rate=1/s", "capacity: given twice", "once"},
    {TB "capacity=1 rate=1/s rate=2/s", "rate: given twice", "once"},
    {TB "capacity=1 rate=1/s on-failure=maybe", "on-failure: 'maybe'", "error, open, closed, local"},
    {TB "capacity=1 rate=1/s on-failure=", "on-failure: ''", "error, open, closed, local"},
    {TB "capacity=1 rate=1/s on-failure=open on-failure=open", "on-failure: given twice", "once"},
    {TB "capacity=1 rate=1/s local-share=1/2", "local-share: given without on-failure=local", "with it only"},
    {TB "capacity=1 rate=1/s on-failure=local local-share=2/1", "local-share: '2/1'", "NUM <= DEN"},
    {TB "capacity=1 rate=1/s on-failure=local local-share=0/1", "local-share: '0/1'", "1 <= NUM"},
    {TB "capacity=1 rate=1/s on-failure=local local-share=1/0", "local-share: '1/0'", "NUM/DEN"},
    {TB "capacity=1 rate=1/s on-failure=local local-share=1", "local-share: '1'", "NUM/DEN"},
    {TB "capacity=1 rate=1/s on-failure=local local-share=1/1000001", "local-share: '1/1000001'", "1000000"},
    {TB "capacity=0 rate=7/9007199254740991us on-failure=local local-share=1/999983", "local-share: 1/999983",
     "smaller numbers"},
    {TB "capacity=1 rate=1/s cache-denials=no", "cache-denials: 'no'", "yes"},
    {TB "capacity=1 rate=1/s shadow=no", "shadow: 'no'", "yes"},
    {TB "capacity=1 rate=1/s shadow=yes shadow=yes", "shadow: given twice", "once"},
    {TB "capacity=1 rate=1/s shadow=yes cache-denials=yes", "cache-denials: given with shadow", "one of the two"},
    {TB "capacity=1 rate=1/s lease=1s", "'lease': unknown key for token-bucket", "capacity, rate"},
    {"x concurrency limit=1 lease=1s cache-denials=yes", "cache-denials: given to a concurrency limit",
     "with the other kinds"},
    {"x concurrency limit=1", "lease: missing", "lease=DURATION"},
    {"x concurrency lease=1s", "limit: missing", "limit=L"},
    {"x concurrency limit=1 window=1s", "'window': unknown key for concurrency",
     "limit, lease, cache-denials, shadow, on-failure, local-share"},
    {"x concurrency limit=1 lease=0s", "lease: '0s'", "us ms s m h d"},
    {"x concurrency limit=1 lease=4503599627370497us", "lease: '4503599627370497us'", "up to 2^52 us"},
    {"x concurrency limit=9007199254740992 lease=1s", "limit: '9007199254740992'", "0 to 9007199254740991"},
    {TB "limit=1 window=1s", "'limit': unknown key for token-bucket",
     "capacity, rate, cache-denials, shadow, on-failure, local-share"},
    {"x leaky-bucket capacity=1 window=1s", "'window': unknown key for leaky-bucket",
     "capacity, rate, cache-denials, shadow, on-failure, local-share"},
    {"x leaky-bucket capacity=1", "rate: missing", "rate=N/DURATION"},
    {FW "capacity=1 window=1s", "'capacity': unknown key for fixed-window",
     "limit, window, cache-denials, shadow, on-failure, local-share"},
    {FW "limit=1 per=day", "'per': unknown key for fixed-window", "limit, window"},
    {FW "limit=1 window=1s offset=+01:00", "'offset': unknown key for fixed-window", "limit, window"},
    {FW "window=1s", "limit: missing", "limit=L"},
    {FW "limit=1", "window: missing", "window=DURATION"},
    {FW "limit=1 window=1s window=1s", "window: given twice", "once"},
    {FW "limit=-1 window=1s", "limit: '-1'", "0 to 9007199254740991"},
    {FW "limit=9007199254740992 window=1s", "limit: '9007199254740992'", "0 to 9007199254740991"},
    {FW "limit=1 window=", "window: ''", "us ms s m h d"},
    {FW "limit=1 window=0s", "window: '0s'", "us ms s m h d"},
    {FW "limit=1 window=10", "window: '10'", "us ms s m h d"},
    {FW "limit=1 window=1/s", "window: '1/s'", "us ms s m h d"},
    {FW "limit=1 window=4503599627370497us", "window: '4503599627370497us'", "up to 2^52 us"},
    {"x quota limit=1", "per: missing", "per=hour|day|week|month"},
    {"x quota per=day", "limit: missing", "limit=L"},
    {"x quota limit=1 window=1d", "'window': unknown key for quota",
     "limit, per, offset, cache-denials, shadow, on-failure, local-share"},
    {"x quota limit=1 per=year", "per: 'year'", "hour, day, week, month"},
    {"x quota limit=1 per=", "per: ''", "hour, day, week, month"},
    {"x quota limit=1 per=day offset=05:30", "offset: '05:30'", "+HH:MM or -HH:MM"},
    {"x quota limit=1 per=day offset=+5:30", "offset: '+5:30'", "+HH:MM or -HH:MM"},
    {"x quota limit=1 per=day offset=+0530", "offset: '+0530'", "+HH:MM or -HH:MM"},
    {"x quota limit=1 per=day offset=+24:00", "offset: '+24:00'", "up to 23:59"},
    {"x quota limit=1 per=day offset=-05:60", "offset: '-05:60'", "up to 23:59"},
    {"x quota limit=1 per=day offset=+05:3x", "offset: '+05:3x'", "+HH:MM or -HH:MM"},
    {"x quota limit=1 per=day offset=", "offset: ''", "+HH:MM or -HH:MM"},
    {"x sliding-log limit=8193 window=1s", "limit: '8193'", "0 to 8192"},
    {"x sliding-log window=1s limit=8193", "limit: '8193'", "0 to 8192"},
    {"x sliding-window limit=4503599628 window=1000001us", "limit: 4503599628 is too large for window 1000001us",
     "the largest that stays exact is 4503595123"},
    {"x sliding-window limit=9007199254740991 window=1s", "limit: 9007199254740991 is too large for window 1s",
     "the largest that stays exact is 4503599627370496"},
    {TB "capacity=1 rate=1/s extra", "'extra': unknown key", "capacity, rate"},
    {TB "capacity = 1 rate=1/s", "capacity: has no value", "capacity=C"},
    {TB "=1 capacity=1 rate=1/s", "'': unknown key", "capacity, rate"},
    {TB "capacity= rate=1/s", "capacity: ''", "0 to 4503599627370496"},
    {TB "capacity=-1 rate=1/s", "capacity: '-1'", "0 to 4503599627370496"},
    {TB "capacity=+1 rate=1/s", "capacity: '+1'", "0 to 4503599627370496"},
    {TB "capacity=1x rate=1/s", "capacity: '1x'", "0 to 4503599627370496"},
    {TB "capacity=1.0 rate=1/s", "capacity: '1.0'", "0 to 4503599627370496"},
    {TB "capacity=1e3 rate=1/s", "capacity: '1e3'", "0 to 4503599627370496"},
    {TB "capacity=nan rate=1/s", "capacity: 'nan'", "0 to 4503599627370496"},
    {TB "capacity=1=2 rate=1/s", "capacity: '1=2'", "0 to 4503599627370496"},
    {TB "capacity=4503599627370497 rate=1/us", "capacity: '4503599627370497'", "0 to 4503599627370496"},
    {TB "capacity=18446744073709551617 rate=1/s", "capacity: '18446744073709551617'", "0 to 4503599627370496"},
    {TB "capacity=4503599627370496 rate=1/3s", "capacity: 4503599627370496 is too large for rate 1/3s",
     "the largest that stays exact is 1501199875"},
    {TB "capacity=1 rate=", "rate: ''", "N/DURATION"},
    {TB "capacity=1 rate=1", "rate: '1'", "N/DURATION"},
    {TB "capacity=1 rate=/s", "rate: '/s'", "N/DURATION"},
    {TB "capacity=1 rate=1/", "rate: '1/'", "us ms s m h d"},
    {TB "capacity=1 rate=0/s", "rate: '0/s'", "N from 1"},
    {TB "capacity=1 rate=-1/s", "rate: '-1/s'", "N from 1"},
    {TB "capacity=1 rate=1/0s", "rate: '1/0s'", "whole number from 1"},
    {TB "capacity=1 rate=1/-1s", "rate: '1/-1s'", "us ms s m h d"},
    {TB "capacity=1 rate=1/+1s", "rate: '1/+1s'", "us ms s m h d"},
    {TB "capacity=1 rate=1/1.5s", "rate: '1/1.5s'", "us ms s m h d"},
    {TB "capacity=1 rate=1/3", "rate: '1/3'", "us ms s m h d"},
    {TB "capacity=1 rate=1/3S", "rate: '1/3S'", "us ms s m h d"},
    {TB "capacity=1 rate=1/3sec", "rate: '1/3sec'", "us ms s m h d"},
    {TB "capacity=1 rate=1/s/s", "rate: '1/s/s'", "us ms s m h d"},
    {TB "capacity=1 rate=1/w", "rate: '1/w'", "us ms s m h d"},
    {TB "capacity=1 rate=1/104250d", "rate: '1/104250d'", "below 2^53"},
    {TB "capacity=1 rate=1/9007199254740992us", "rate: '1/9007199254740992us'", "below 2^53"},
    {TB "capacity=1 rate=1/18446744073709551617us", "rate: '1/18446744073709551617us'", "below 2^53"},
    {TB "capacity=1 rate=9007199254740992/s", "rate: '9007199254740992/s'", "below 2^53"},
    {TB "capacity=1 rate=18446744073709551617/s", "rate: '18446744073709551617/s'", "below 2^53"},
    {TB "capacity=1 rate=9007199254741/us", "rate: 9007199254741/us returns too many", "9007199254740/us"},
};

static void test_spec_wrong_is_named_and_changes_nothing(void **state)
{
    char policy[HIRATE_POLICY_SIZE] = "before";
    hirate_limit limit;
    hirate_limit before;

    (void)state;
    memset(&limit, 0x5a, sizeof limit);
    memcpy(&before, &limit, sizeof limit);
    for (size_t i = 0; i < sizeof wrongs / sizeof wrongs[0]; i++) {
        const struct wrong *w = &wrongs[i];
        hirate_error error = {0, ""};

        int rc = hirate_limit_parse(w->spec, &limit, policy, &error);
        if (rc != HIRATE_EINVAL || strncmp(error.text, w->begins, strlen(w->begins)) != 0 ||
            strstr(error.text, w->accepts) == NULL)
            fail_msg("'%s' gave %d '%s'", w->spec, rc, error.text);
        assert_int_equal(error.code, HIRATE_EINVAL);
        assert_memory_equal(&limit, &before, sizeof limit);
        assert_string_equal(policy, "before");
        assert_true(strlen(error.text) < HIRATE_REASON_MAX); /* none is cut */
        assert_int_equal(hirate_limit_parse(w->spec, &limit, policy, NULL), HIRATE_EINVAL);
    }
}

static void test_spec_longest_words_texts_still_say_what_is_accepted(void **state)
{
    char spec[4200];
    char policy[HIRATE_POLICY_SIZE];
    hirate_limit limit;
    hirate_error error;

    (void)state;
    (void)snprintf(spec, sizeof spec, TB "capacity=1 rate=%04000d", 0);
    assert_int_equal(hirate_limit_parse(spec, &limit, policy, &error), HIRATE_EINVAL);
    assert_non_null(strstr(error.text, "us ms s m h d, both below 2^53"));
}

static void test_spec_too_long_is_refused(void **state)
{
    char spec[4200];
    char policy[HIRATE_POLICY_SIZE];
    hirate_limit limit;
    hirate_error error;

    (void)state;
    (void)snprintf(spec, sizeof spec, "%-4096s", TB "capacity=1 rate=1/s");
    assert_int_equal(hirate_limit_parse(spec, &limit, policy, &error), 0);
    (void)snprintf(spec, sizeof spec, "%-4097s", TB "capacity=1 rate=1/s");
    assert_int_equal(hirate_limit_parse(spec, &limit, policy, &error), HIRATE_EINVAL);
    assert_non_null(strstr(error.text, "spec: longer than 4096 bytes"));
}

static void test_spec_null_arguments_are_refused(void **state)
{
    char policy[HIRATE_POLICY_SIZE];
    hirate_limit limit;
    hirate_error error;

    (void)state;
    assert_int_equal(hirate_limit_parse(NULL, &limit, policy, &error), HIRATE_EINVAL);
    assert_non_null(strstr(error.text, "spec"));
    assert_int_equal(hirate_limit_parse("x", NULL, policy, &error), HIRATE_EINVAL);
    assert_int_equal(hirate_limit_parse("x", &limit, NULL, &error), HIRATE_EINVAL);
}

static void test_rate_formatted_reads_as_written(void **state)
{
    static const struct {
        hirate_rate rate;
        const char *text;
    } cases[] = {
        {{1, 3000000}, "1/3s"},
        {{50, 1000000}, "50/s"},
        {{7, 13000}, "7/13ms"},
        {{100000, 86400000000}, "100000/d"},
        {{1, 1}, "1/us"},
        {{1, 1500000}, "1/1500ms"},
        {{HIRATE_COST_MAX, HIRATE_COST_MAX}, "9007199254740991/9007199254740991us"},
    };
    char text[HR_RATE_TEXT_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hr_rate_format(text, cases[i].rate);
        assert_string_equal(text, cases[i].text);
    }
}

static void test_duration_formatted_has_number_and_unit(void **state)
{
    static const struct {
        uint64_t us;
        const char *text;
    } cases[] = {
        {1, "1us"},           {1000, "1ms"},         {1500000, "1500ms"},  {60000000, "1m"},
        {90000000, "90s"},    {7200000000, "2h"},    {86400000000, "1d"},  {HIRATE_COST_MAX, "9007199254740991us"},
    };
    char text[HR_DURATION_TEXT_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hr_duration_format(text, cases[i].us);
        assert_string_equal(text, cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spec_well_formed_is_read),
        cmocka_unit_test(test_spec_of_each_algorithm_equals_its_initialiser),
        cmocka_unit_test(test_spec_optional_keys_are_read),
        cmocka_unit_test(test_spec_wrong_is_named_and_changes_nothing),
        cmocka_unit_test(test_spec_longest_words_texts_still_say_what_is_accepted),
        cmocka_unit_test(test_spec_too_long_is_refused),
        cmocka_unit_test(test_spec_null_arguments_are_refused),
        cmocka_unit_test(test_rate_formatted_reads_as_written),
        cmocka_unit_test(test_duration_formatted_has_number_and_unit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
