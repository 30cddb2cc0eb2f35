/* SPDX-License-Identifier: BSD-3-Clause */
/* Error texts: cut to fit, safe to print; the check of struct sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "error.h"

#include <string.h>

static void test_fail_formatted_sets_code_and_text(void **state)
{
    hirate_error error;

    (void)state;
    assert_int_equal(hr_fail(&error, HIRATE_EINVAL, "cost: %d; accepted: %s", -1, "0 to 9"), HIRATE_EINVAL);
    assert_int_equal(error.code, HIRATE_EINVAL);
    assert_string_equal(error.text, "cost: -1; accepted: 0 to 9");
}

static void test_fail_no_error_returns_code(void **state)
{
    (void)state;
    assert_int_equal(hr_fail(NULL, HIRATE_ENOMEM, "x"), HIRATE_ENOMEM);
}

static void test_fail_long_text_is_cut(void **state)
{
    hirate_error error;
    char longer[600];

    (void)state;
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    (void)hr_fail(&error, HIRATE_EINVAL, "%s", longer);
    assert_int_equal(strlen(error.text), HIRATE_REASON_MAX);
}

static void test_fail_cut_inside_character_ends_printable(void **state)
{
    hirate_error error;
    char longer[600];

    (void)state;
    memset(longer, 'x', sizeof longer);
    (void)strcpy(longer + HIRATE_REASON_MAX - 1, "\xC3\xA9");
    (void)hr_fail(&error, HIRATE_EINVAL, "%s", longer);
    assert_string_equal(error.text + HIRATE_REASON_MAX - 2, "x?");
}

static void test_fail_text_from_itself_is_kept(void **state)
{
    hirate_error error;

    (void)state;
    (void)hr_fail(&error, HIRATE_EINVAL, "inner");
    (void)hr_fail(&error, HIRATE_EINVAL, "outer: %s", error.text);
    assert_string_equal(error.text, "outer: inner");
}

static void test_fail_unprintable_bytes_become_question_marks(void **state)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"a\x1b[31m\r\n\t\x7f", "a?[31m????"},
        {"\xC2\x9B"
         "31m",
         "??31m"},     /* CSI as UTF-8 */
        {"\x9B", "?"}, /* CSI as one byte */
        {"\xC3\xA9 \xE2\x80\xA6 \xF0\x9F\x98\x80", "\xC3\xA9 \xE2\x80\xA6 \xF0\x9F\x98\x80"},
        {"\xC0\x8A", "??"},           /* overlong */
        {"\xE0\x80\x8A", "???"},      /* overlong */
        {"\xF0\x80\x80\x8A", "????"}, /* overlong */
        {"\xED\xA0\x80", "???"},      /* surrogate */
        {"\xF4\x90\x80\x80", "????"}, /* above U+10FFFF */
        {"\xF5\xFF\xFE", "???"},      /* no UTF-8 at all */
        {"\xE2\x80", "??"},           /* ends early */
        {"\xC3z", "?z"},
    };
    hirate_error error;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)hr_fail(&error, HIRATE_EINVAL, "%s", cases[i].in);
        assert_string_equal(error.text, cases[i].out);
    }
}

static void test_struct_sizes_are_checked(void **state)
{
    unsigned char object[64] = {0};
    hirate_error error;

    (void)state;
    assert_int_equal(hr_struct_check("thing", object, 31, 32, 48, &error), HIRATE_EINVAL);
    assert_non_null(strstr(error.text, "thing.struct_size: 31"));
    assert_int_equal(hr_struct_check("thing", object, 32, 32, 48, &error), 0);
    assert_int_equal(hr_struct_check("thing", object, 64, 32, 48, &error), 0);
    object[47] = 1;
    assert_int_equal(hr_struct_check("thing", object, 64, 32, 48, &error), 0);
    object[63] = 1;
    assert_int_equal(hr_struct_check("thing", object, 64, 32, 48, &error), HIRATE_EINVAL);
    assert_int_equal(hr_struct_check("thing", object, 63, 32, 48, &error), 0);
    /* Garbage: nothing is read that far. */
    assert_int_equal(hr_struct_check("thing", object, UINT32_MAX, 32, 48, &error), HIRATE_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fail_formatted_sets_code_and_text),
        cmocka_unit_test(test_fail_no_error_returns_code),
        cmocka_unit_test(test_fail_long_text_is_cut),
        cmocka_unit_test(test_fail_cut_inside_character_ends_printable),
        cmocka_unit_test(test_fail_text_from_itself_is_kept),
        cmocka_unit_test(test_fail_unprintable_bytes_become_question_marks),
        cmocka_unit_test(test_struct_sizes_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
