/* SPDX-License-Identifier: BSD-3-Clause */
/* The growable buffer: content, numbers, and that a failed allocation is remembered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bytes.h"
#include "support/nomem.h"
#include "support/random.h"

#include <stdlib.h>
#include <string.h>

static void assert_holds(const hr_bytes *bytes, const char *text)
{
    assert_int_equal(bytes->len, strlen(text));
    assert_memory_equal(bytes->data, text, bytes->len);
}

static void test_add_appends(void **state)
{
    hr_bytes bytes = {0};

    (void)state;
    hr_bytes_add(&bytes, "one ", 4);
    hr_bytes_add(&bytes, NULL, 0);
    hr_bytes_add(&bytes, "two", 3);
    assert_holds(&bytes, "one two");
    assert_false(bytes.failed);
    hr_bytes_free(&bytes);
    assert_null(bytes.data);
    hr_bytes_free(&bytes);
}

static void test_add_nothing_to_nothing_is_fine(void **state)
{
    hr_bytes bytes = {0};

    (void)state;
    hr_bytes_add(&bytes, NULL, 0);
    assert_int_equal(bytes.len, 0);
    assert_false(bytes.failed);
    hr_bytes_free(&bytes);
}

static void test_numbers_are_decimal(void **state)
{
    static const struct {
        uint64_t value;
        const char *text;
    } cases[] = {
        {0, "0"},
        {9, "9"},
        {10, "10"},
        {99, "99"},
        {100, "100"},
        {UINT32_MAX, "4294967295"},
        {INT64_MAX, "9223372036854775807"},
        {UINT64_MAX, "18446744073709551615"},
    };
    hr_bytes bytes = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hr_bytes_clear(&bytes);
        hr_bytes_add_number(&bytes, cases[i].value);
        assert_holds(&bytes, cases[i].text);
    }
    hr_bytes_free(&bytes);
}

static void test_reserve_gives_room_past_the_end(void **state)
{
    hr_bytes bytes = {0};

    (void)state;
    hr_bytes_add(&bytes, "ab", 2);
    char *room = hr_bytes_reserve(&bytes, 100000);
    assert_ptr_equal(room, bytes.data + 2);
    memset(room, 'c', 100000);
    assert_int_equal(bytes.len, 2);
    assert_memory_equal(bytes.data, "abc", 3);
    hr_bytes_free(&bytes);
}

static void test_random_appends_match_a_copy(void **state)
{
    enum { MOST = 300000 };
    rng r = rng_start("test_random_appends_match_a_copy");
    char *copy = malloc(MOST), piece[5000];
    hr_bytes bytes = {0};

    (void)state;
    for (int round = 0; round < 3; round++) {
        size_t len = 0;

        hr_bytes_clear(&bytes);
        while (len < MOST - sizeof piece) {
            size_t more = (size_t)rng_upto(&r, rng_upto(&r, sizeof piece));
            memset(piece, (int)rng_upto(&r, 255), more);
            hr_bytes_add(&bytes, piece, more);
            memcpy(copy + len, piece, more);
            len += more;
        }
        assert_int_equal(bytes.len, len);
        assert_memory_equal(bytes.data, copy, len);
        assert_false(bytes.failed);
    }
    hr_bytes_free(&bytes);
    free(copy);
}

static void test_clear_keeps_the_memory(void **state)
{
    hr_bytes bytes = {0};

    (void)state;
    hr_bytes_add(&bytes, "abc", 3);
    nomem_after(0);
    hr_bytes_clear(&bytes);
    hr_bytes_add(&bytes, "de", 2);
    assert_false(nomem_end());
    assert_holds(&bytes, "de");
    hr_bytes_free(&bytes);
}

static void test_failure_is_remembered_until_cleared(void **state)
{
    hr_bytes bytes = {0};

    (void)state;
    hr_bytes_add(&bytes, "abc", 3);
    nomem_after(0);
    assert_null(hr_bytes_reserve(&bytes, 100000));
    assert_true(nomem_end());
    assert_true(bytes.failed);
    assert_holds(&bytes, "abc");
    hr_bytes_add(&bytes, "d", 1); /* there is memory again, but something is missing in between */
    assert_true(bytes.failed);
    hr_bytes_clear(&bytes);
    assert_false(bytes.failed);
    hr_bytes_add(&bytes, "e", 1);
    assert_holds(&bytes, "e");
    hr_bytes_free(&bytes);
}

static void test_first_allocation_failing_is_remembered(void **state)
{
    hr_bytes bytes = {0};

    (void)state;
    nomem_after(0);
    hr_bytes_add_number(&bytes, 12345);
    assert_true(nomem_end());
    assert_true(bytes.failed);
    assert_int_equal(bytes.len, 0);
    hr_bytes_free(&bytes);
    assert_false(bytes.failed);
}

static void test_size_beyond_memory_fails(void **state)
{
    hr_bytes bytes = {0};

    (void)state;
    assert_null(hr_bytes_reserve(&bytes, SIZE_MAX));
    assert_true(bytes.failed);
    hr_bytes_clear(&bytes);
    hr_bytes_add(&bytes, "abc", 3);
    assert_null(hr_bytes_reserve(&bytes, SIZE_MAX));
    assert_null(hr_bytes_reserve(&bytes, SIZE_MAX - 1));
    assert_true(bytes.failed);
    assert_holds(&bytes, "abc");
    hr_bytes_free(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_appends),
        cmocka_unit_test(test_add_nothing_to_nothing_is_fine),
        cmocka_unit_test(test_numbers_are_decimal),
        cmocka_unit_test(test_reserve_gives_room_past_the_end),
        cmocka_unit_test(test_random_appends_match_a_copy),
        cmocka_unit_test(test_clear_keeps_the_memory),
        cmocka_unit_test(test_failure_is_remembered_until_cleared),
        cmocka_unit_test(test_first_allocation_failing_is_remembered),
        cmocka_unit_test(test_size_beyond_memory_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
