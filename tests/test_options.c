/* SPDX-License-Identifier: BSD-3-Clause */
/* Options: defaults, each bound and one past it, sizes of other versions, and what is read of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hirate_options defaults(void)
{
    hirate_options options;

    hirate_options_init(&options);
    return options;
}

static void assert_refused(const hirate_options *options, const char *says)
{
    hirate_error error = {0, ""};

    int rc = hirate_options_check(options, &error);
    if (rc != HIRATE_EINVAL || error.code != rc || strstr(error.text, says) == NULL)
        fail_msg("expected '%s', got %d '%s'", says, rc, error.text);
    assert_int_equal(hirate_options_check(options, NULL), HIRATE_EINVAL);
}

static void assert_accepted(const hirate_options *options)
{
    hirate_error error = {0, ""};

    if (hirate_options_check(options, &error) != 0)
        fail_msg("refused: %s", error.text);
}

static void test_defaults_are_as_documented(void **state)
{
    hirate_options options = defaults(), read;
    hr_uri uri;

    (void)state;
    assert_int_equal(options.struct_size, sizeof options);
    assert_int_equal(options.version, HIRATE_OPTIONS_VERSION);
    for (int i = 0; i < 2; i++) { /* NULL stands for the same */
        assert_int_equal(hr_options_read(&read, &uri, i ? NULL : &options, NULL), 0);
        assert_string_equal(read.uri, "redis://127.0.0.1:6379");
        assert_string_equal(read.prefix, "hirate");
        assert_true(read.deadline_ms == 1000 && read.connect_timeout_ms == 1000 && read.stall_timeout_ms == 3000);
        assert_int_equal(read.max_pending, 65536);
        assert_int_equal(read.max_calls, 6);
        assert_int_equal(read.max_call_keys, 128);
        assert_int_equal(read.max_call_acquires, 1024);
        assert_int_equal(read.max_denials, 65536);
        assert_true(read.on_room == NULL && read.resolve == NULL && read.user == NULL);
        assert_string_equal(uri.host, "127.0.0.1");
        assert_int_equal(uri.port, 6379);
        hr_uri_free(&uri);
    }
}

static void test_times_hold_at_the_bound_and_fail_past_it(void **state)
{
    static const struct {
        size_t at;
        const char *says;
    } fields[] = {
        {offsetof(hirate_options, deadline_ms), "deadline_ms: "},
        {offsetof(hirate_options, connect_timeout_ms), "connect_timeout_ms: "},
        {offsetof(hirate_options, stall_timeout_ms), "stall_timeout_ms: "},
    };
    static const int64_t good[] = {1, 86400000}, bad[] = {0, -1, 86400001, INT64_MIN, INT64_MAX};
    char says[64];

    (void)state;
    for (size_t f = 0; f < 3; f++) {
        hirate_options options = defaults();
        for (size_t i = 0; i < 2; i++) {
            memcpy((char *)&options + fields[f].at, &good[i], sizeof good[i]);
            assert_accepted(&options);
        }
        for (size_t i = 0; i < 5; i++) {
            memcpy((char *)&options + fields[f].at, &bad[i], sizeof bad[i]);
            (void)snprintf(says, sizeof says, "%s%lld; accepted: 1 to 86400000", fields[f].says, (long long)bad[i]);
            assert_refused(&options, says);
        }
    }
}

static void test_counts_hold_at_the_bound_and_fail_past_it(void **state)
{
    static const struct {
        size_t at;
        const char *says;
        uint32_t most;
    } fields[] = {
        {offsetof(hirate_options, max_pending), "max_pending", 4194304},
        {offsetof(hirate_options, max_calls), "max_calls", 64},
        {offsetof(hirate_options, max_call_keys), "max_call_keys", 256},
        {offsetof(hirate_options, max_call_acquires), "max_call_acquires", 1024},
        {offsetof(hirate_options, max_denials), "max_denials", 4194304},
    };
    char says[64];

    (void)state;
    for (size_t f = 0; f < 5; f++) {
        hirate_options options = defaults();
        uint32_t good[] = {1, fields[f].most}, bad[] = {0, fields[f].most + 1, UINT32_MAX};
        for (size_t i = 0; i < 2; i++) {
            memcpy((char *)&options + fields[f].at, &good[i], sizeof good[i]);
            assert_accepted(&options);
        }
        for (size_t i = 0; i < 3; i++) {
            memcpy((char *)&options + fields[f].at, &bad[i], sizeof bad[i]);
            (void)snprintf(says, sizeof says, "%s: %u; accepted: 1 to %u", fields[f].says, bad[i], fields[f].most);
            assert_refused(&options, says);
        }
    }
}

static void test_prefix_is_a_name(void **state)
{
    static const char *const bad[] = {"", "a:b", "a b", "{a}", "\xc3\xa9"};
    hirate_options options = defaults();
    char longest[66];

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        options.prefix = bad[i];
        assert_refused(&options, "prefix: ");
    }
    memset(longest, 'p', sizeof longest);
    longest[64] = 0;
    options.prefix = longest;
    assert_accepted(&options);
    longest[64] = 'p';
    longest[65] = 0;
    assert_refused(&options, "1 to 64 characters of A-Z a-z 0-9 . _ -");
}

static void test_bad_uri_is_named_without_its_password(void **state)
{
    hirate_options options = defaults();
    hirate_error error;

    (void)state;
    options.uri = "redis://me:S3CRET@h:0";
    assert_refused(&options, "uri: the port");
    (void)hirate_options_check(&options, &error);
    assert_null(strstr(error.text, "S3CRET"));
}

static void test_wrong_headers_are_refused(void **state)
{
    hirate_options options = defaults();

    (void)state;
    options.struct_size = 0;
    assert_refused(&options, "struct_size 0");
    options.struct_size = (uint32_t)sizeof options - 1;
    assert_refused(&options, "struct_size");
    options = defaults();
    options.version = 0;
    assert_refused(&options, "version 0");
    options.version = HIRATE_OPTIONS_VERSION + 1;
    assert_refused(&options, "version 2");
}

/* A program built with a later header, whose new fields have their defaults: zero. */
static void test_larger_struct_is_accepted_while_zero_beyond(void **state)
{
    struct {
        hirate_options options;
        uint64_t later[2];
        unsigned char guard[8];
    } newer;

    (void)state;
    memset(&newer, 0xa5, sizeof newer);
    hirate_options_init_sized(&newer.options, offsetof(__typeof__(newer), guard));
    assert_int_equal(newer.options.struct_size, offsetof(__typeof__(newer), guard));
    assert_true(newer.later[0] == 0 && newer.later[1] == 0);
    assert_int_equal(newer.guard[0], 0xa5);
    assert_true(newer.options.deadline_ms == 1000);
    assert_accepted(&newer.options);
    newer.later[1] = 1; /* what is asked for there would not happen */
    assert_refused(&newer.options, "does not know");
}

/* One built with a header whose struct was smaller: nothing is written past it. */
static void test_smaller_struct_is_initialised_within_its_size(void **state)
{
    hirate_options options;
    size_t size = offsetof(hirate_options, max_calls);

    (void)state;
    memset(&options, 0xa5, sizeof options);
    hirate_options_init_sized(&options, size);
    assert_int_equal(options.struct_size, size);
    assert_int_equal(options.max_pending, 65536);
    for (size_t i = size; i < sizeof options; i++)
        assert_int_equal(((unsigned char *)&options)[i], 0xa5);
}

static void test_failed_read_leaves_what_was_there(void **state)
{
    hirate_options options = defaults(), read, before;
    hr_uri uri, uri_before;

    (void)state;
    memset(&read, 0x5a, sizeof read);
    memset(&uri, 0x5a, sizeof uri);
    memcpy(&before, &read, sizeof read);
    memcpy(&uri_before, &uri, sizeof uri);
    options.uri = "nonsense";
    assert_int_equal(hr_options_read(&read, &uri, &options, NULL), HIRATE_EINVAL);
    options = defaults();
    options.max_calls = 65;
    assert_int_equal(hr_options_read(&read, &uri, &options, NULL), HIRATE_EINVAL);
    assert_memory_equal(&read, &before, sizeof read);
    assert_memory_equal(&uri, &uri_before, sizeof uri);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_as_documented),
        cmocka_unit_test(test_times_hold_at_the_bound_and_fail_past_it),
        cmocka_unit_test(test_counts_hold_at_the_bound_and_fail_past_it),
        cmocka_unit_test(test_prefix_is_a_name),
        cmocka_unit_test(test_bad_uri_is_named_without_its_password),
        cmocka_unit_test(test_wrong_headers_are_refused),
        cmocka_unit_test(test_larger_struct_is_accepted_while_zero_beyond),
        cmocka_unit_test(test_smaller_struct_is_initialised_within_its_size),
        cmocka_unit_test(test_failed_read_leaves_what_was_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
