/* SPDX-License-Identifier: BSD-3-Clause */
/* Permits: what is written is read, and nothing else, however it came about. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "permit.h"
#include "policy.h"
#include "support/random.h"
#include "support/sealed.h"

#include <stdbool.h>
#include <string.h>

#define TWO_53 (UINT64_C(1) << 53)

static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* Of a lease as they mostly are. */
static hr_permit ordinary(void)
{
    static const hirate_limit limit = HIRATE_CONCURRENCY("jobs", 10, HIRATE_SECONDS(30));
    hr_permit permit = {.limit = limit, .prefix = "hirate", .id = "\x01\x02\x03", .name_len = 9, .name = "worker-17"};

    permit.until_us = INT64_C(1767225630000000);
    return permit;
}

static hr_permit largest(void)
{
    hr_permit permit = ordinary();

    permit.limit.capacity = TWO_53 - 1;
    permit.limit.lease_us = HR_WINDOW_MAX;
    permit.until_us = INT64_C(1) << 54;
    permit.limit.policy = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    memset(permit.prefix, '-', HIRATE_POLICY_MAX);
    memset(permit.id, 0xff, sizeof permit.id);
    permit.name_len = HIRATE_NAME_MAX;
    memset(permit.name, 0xfe, sizeof permit.name);
    return permit;
}

static hr_permit random_permit(rng *r)
{
    hr_permit permit = ordinary();

    if (rng_upto(r, 1))
        hirate_limit_quota(&permit.limit, "used", rng_upto(r, TWO_53 - 1), (enum hirate_per)(1 + rng_upto(r, 3)),
                           (int32_t)rng_upto(r, 2 * 1439) - 1439);
    else
        hirate_limit_concurrency(&permit.limit, "jobs", rng_magnitude(r, 53), rng_magnitude(r, 52));
    permit.until_us = (int64_t)rng_magnitude(r, 54);
    if (rng_upto(r, 3) == 0)
        memset(permit.prefix, 0, sizeof permit.prefix);
    for (size_t i = 0; i < sizeof permit.id; i++)
        permit.id[i] = (unsigned char)rng_next(r);
    permit.name_len = (uint16_t)(rng_upto(r, 9) ? rng_upto(r, 20) : rng_upto(r, HIRATE_NAME_MAX));
    for (size_t i = 0; i < permit.name_len; i++)
        permit.name[i] = (unsigned char)rng_next(r);
    return permit;
}

static void assert_round_trip(const hr_permit *permit)
{
    char text[HIRATE_PERMIT_SIZE], again[HIRATE_PERMIT_SIZE];
    hirate_error error = {0, ""};
    hr_permit got;

    memset(text, '#', sizeof text);
    memset(&got, 0x5a, sizeof got);
    size_t len = hr_permit_write(text, permit);
    assert_int_equal(len, strlen(text));
    assert_int_equal(strspn(text, DIGITS), len);
    assert_true((text[0] >= 'A' && text[0] <= 'Z') || (text[0] >= 'a' && text[0] <= 'z'));
    if (hr_permit_read(&got, text, &error) != 0)
        fail_msg("%s: %s", text, error.text);
    assert_ptr_equal(got.limit.policy, got.policy);
    assert_string_equal(got.policy, permit->limit.policy);
    got.limit.policy = permit->limit.policy;
    assert_memory_equal(&got.limit, &permit->limit, sizeof got.limit);
    assert_string_equal(got.prefix, permit->prefix);
    assert_memory_equal(got.id, permit->id, sizeof got.id);
    assert_true(got.until_us == permit->until_us && got.name_len == permit->name_len);
    assert_memory_equal(got.name, permit->name, got.name_len);
    assert_int_equal(hr_permit_write(again, &got), len);
    assert_string_equal(again, text);
}

/* Refused, by the same words each time, of which none is from the text. */
static void assert_refused(const char *text)
{
    static const char WORDS[] = "permit: is none that this library knows, or was cut or mistyped; accepted: the whole "
                                "text of a result's permit";
    hirate_error error = {0, ""};
    hr_permit got;

    if (hr_permit_read(&got, text, &error) != HIRATE_EINVAL)
        fail_msg("read: %.100s", text);
    assert_int_equal(error.code, HIRATE_EINVAL);
    assert_string_equal(error.text, WORDS);
    assert_int_equal(hr_permit_read(&got, text, NULL), HIRATE_EINVAL);
}

static void test_permit_ordinary_is_read_and_short(void **state)
{
    hr_permit permit = ordinary();
    char text[HIRATE_PERMIT_SIZE];

    (void)state;
    assert_round_trip(&permit);
    assert_true(hr_permit_write(text, &permit) <= 75);
    assert_true(text[0] == 'F');
}

static void test_permit_flags_and_failure_are_left_out(void **state)
{
    hr_permit permit = ordinary(), plain = ordinary();
    char text[HIRATE_PERMIT_SIZE], expected[HIRATE_PERMIT_SIZE];

    (void)state;
    permit.limit.flags = HIRATE_LIMIT_SHADOW;
    permit.limit.on_failure = HIRATE_ON_FAILURE_LOCAL;
    permit.limit.local_share_num = permit.limit.local_share_den = 1;
    (void)hr_permit_write(text, &permit);
    (void)hr_permit_write(expected, &plain);
    assert_string_equal(text, expected);
}

static void test_permit_least_and_largest_are_read(void **state)
{
    hr_permit permit = largest();
    char text[HIRATE_PERMIT_SIZE];

    (void)state;
    assert_round_trip(&permit);
    assert_true(hr_permit_write(text, &permit) <= HIRATE_PERMIT_MAX);
    permit = ordinary();
    permit.limit.capacity = 0;
    permit.limit.lease_us = 1;
    permit.limit.policy = "p";
    permit.until_us = 0;
    permit.name_len = 0;
    memset(permit.prefix, 0, sizeof permit.prefix);
    assert_round_trip(&permit);
}

static void test_permit_of_each_calendar_is_read(void **state)
{
    hr_permit permit = ordinary();

    (void)state;
    for (int32_t per = HIRATE_PER_HOUR; per <= HIRATE_PER_MONTH; per++) {
        for (int32_t offset = -1439; offset <= 1439; offset++) {
            hirate_limit_quota(&permit.limit, "used", 1000, (enum hirate_per)per, offset);
            assert_round_trip(&permit);
        }
    }
}

static void test_permit_random_is_read(void **state)
{
    rng r = rng_start("test_permit_random_is_read");

    (void)state;
    for (int i = 0; i < 20000; i++) {
        hr_permit permit = random_permit(&r);
        assert_round_trip(&permit);
    }
}

/* ------------------------------------------------------------------------------------------------ mistyped -- */

/* Any character in any place; of a long one some. */
static void assert_each_change_is_refused(const char *text)
{
    size_t len = strlen(text), step = len > 200 ? 7 : 1;
    char changed[HIRATE_PERMIT_SIZE];

    memcpy(changed, text, len + 1);
    for (size_t at = 0; at < len; at++) {
        for (size_t c = 1 + at % step; c < 256; c += step) {
            changed[at] = (char)c;
            if (changed[at] != text[at])
                assert_refused(changed);
        }
        changed[at] = text[at];
    }
}

static void assert_each_cut_is_refused(const char *text)
{
    size_t len = strlen(text);
    char cut[HIRATE_PERMIT_SIZE];

    for (size_t i = 0; i < len; i++) {
        memcpy(cut, text, i);
        cut[i] = '\0';
        assert_refused(cut);
        if (i > 0)
            assert_refused(text + i);
        memcpy(cut + i, text + i + 1, len - i); /* and one character left out */
        assert_refused(cut);
    }
}

static void assert_each_extension_is_refused(const char *text)
{
    size_t len = strlen(text);
    char more[HIRATE_PERMIT_SIZE + 5];

    for (size_t c = 1; c < 256; c++) {
        memcpy(more, text, len);
        memset(more + len, (char)c, 4);
        for (size_t n = 4; n > 0; n--) {
            more[len + n] = '\0';
            assert_refused(more);
        }
        more[0] = (char)c;
        memcpy(more + 1, text, len + 1);
        assert_refused(more);
    }
}

static void test_permit_changed_cut_or_extended_is_refused(void **state)
{
    rng r = rng_start("test_permit_changed_cut_or_extended_is_refused");
    char text[HIRATE_PERMIT_SIZE];

    (void)state;
    for (int i = 0; i < 12; i++) {
        hr_permit permit = i == 0 ? ordinary() : i == 1 ? largest() : random_permit(&r);

        (void)hr_permit_write(text, &permit);
        assert_each_change_is_refused(text);
        assert_each_cut_is_refused(text);
        assert_each_extension_is_refused(text);
    }
}

static void test_permit_two_characters_swapped_are_refused(void **state)
{
    hr_permit permit = ordinary();
    char text[HIRATE_PERMIT_SIZE];
    size_t len = hr_permit_write(text, &permit);

    (void)state;
    for (size_t i = 0; i + 1 < len; i++) {
        char first = text[i];

        text[i] = text[i + 1];
        text[i + 1] = first;
        if (text[i] != first)
            assert_refused(text);
        text[i + 1] = text[i];
        text[i] = first;
    }
}

/* ------------------------------------------------------------------------------------------------- hostile -- */

static void test_permit_null_empty_and_huge_are_refused(void **state)
{
    static char huge[1 << 20];
    hirate_error error = {0, ""};
    hr_permit got;

    (void)state;
    assert_int_equal(hr_permit_read(&got, NULL, &error), HIRATE_EINVAL);
    assert_int_equal(strncmp(error.text, "permit: is NULL; accepted: ", 27), 0);
    assert_refused("");
    for (size_t c = 0; c < sizeof DIGITS - 1; c++) {
        for (size_t len = 1; len < 12; len++) {
            memset(huge, DIGITS[c], len);
            huge[len] = '\0';
            assert_refused(huge);
        }
    }
    for (size_t len = HIRATE_PERMIT_MAX - 9; len < HIRATE_PERMIT_MAX + 9; len++) {
        memset(huge, 'F', len);
        huge[len] = '\0';
        assert_refused(huge);
    }
    memset(huge, 'F', sizeof huge - 1);
    assert_refused(huge);
}

/* The bytes of ordinary(), without its check sum. */
static size_t ordinary_bytes(unsigned char bytes[200])
{
    static const unsigned char whole[] = "\x17\x0a\x80\x87\xa7\x0e\x01\x02\x03\0\0\0\0\0\0\0\0\0\x80\x87\xa8\xbf\x84"
                                         "\xe9\x91\x03\x06\x04\x09hiratejobsworker-17";

    memcpy(bytes, whole, sizeof whole - 1);
    return sizeof whole - 1;
}

enum { CAPACITY = 1, LEASE = 2, ID = 6, UNTIL = 18, LENGTHS = 26, PREFIX = 29, POLICY = 35, NAME = 39 };

/* Of these bytes with `by` in the place of `cut` ones at `at`, sealed: is it read? */
static bool is_read(size_t at, size_t cut, const void *by, size_t by_len)
{
    unsigned char bytes[1400];
    char text[2000];
    hirate_error error;
    hr_permit got;
    size_t len = ordinary_bytes(bytes);

    memmove(bytes + at + by_len, bytes + at + cut, len - at - cut);
    memcpy(bytes + at, by, by_len);
    sealed_text(text, bytes, len - cut + by_len);
    if (hr_permit_read(&got, text, &error) == 0)
        return true;
    assert_refused(text);
    return false;
}

static void test_permit_has_the_documented_form(void **state)
{
    unsigned char bytes[200];
    char text[300], expected[HIRATE_PERMIT_SIZE];
    hr_permit permit = ordinary();

    (void)state;
    sealed_text(text, bytes, ordinary_bytes(bytes));
    (void)hr_permit_write(expected, &permit);
    assert_string_equal(text, expected);
}

static void test_permit_sealed_with_a_wrong_field_is_refused(void **state)
{
    static const struct {
        size_t at, cut;
        const char *by;
        size_t len;
        bool ok;
    } cases[] = {
        {0, 1, "\x17", 1, true},
        {0, 1, "\x14", 1, false},     /* a quota has other fields */
        {0, 1, "\x13", 1, false},     /* a kind that holds nothing */
        {0, 1, "\x27", 1, false},     /* another version */
        {0, 1, "\x97\x00", 2, false}, /* in a longer form */
        {0, 1, "\x00", 1, false},
        {CAPACITY, 1, "\x00", 1, true},
        {CAPACITY, 1, "\x8a\x00", 2, false},                        /* in a longer form */
        {CAPACITY, 1, "\xff\xff\xff\xff\xff\xff\xff\x0f", 8, true}, /* 2^53 - 1 */
        {CAPACITY, 1, "\x80\x80\x80\x80\x80\x80\x80\x10", 8, false},
        {CAPACITY, 1, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, false},
        {CAPACITY, 1, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 14, false},
        {LEASE, 4, "\x01", 1, true},
        {LEASE, 4, "\x00", 1, false},
        {LEASE, 4, "\x80\x80\x80\x80\x80\x80\x80\x08", 8, true}, /* 2^52 */
        {LEASE, 4, "\x81\x80\x80\x80\x80\x80\x80\x08", 8, false},
        {UNTIL, 8, "\x00", 1, true},
        {UNTIL, 8, "\x80\x80\x80\x80\x80\x80\x80\x20", 8, true}, /* 2^54 */
        {UNTIL, 8, "\x81\x80\x80\x80\x80\x80\x80\x20", 8, false},
        {LENGTHS, 1, "\x05", 1, false}, /* the name is one byte short */
        {LENGTHS, 1, "\x41", 1, false},
        {LENGTHS, 3, "\x05\x05\x09", 3, true},  /* hirat, ejobs */
        {LENGTHS, 3, "\x00\x0a\x09", 3, true},  /* no prefix */
        {LENGTHS, 3, "\x0a\x00\x09", 3, false}, /* no policy */
        {LENGTHS, 3, "\x06\x0d\x00", 3, true},  /* no name */
        {LENGTHS + 2, 1, "\x81\x08", 2, false}, /* a name of 1025 bytes */
        {LENGTHS + 2, 1, "\x0a", 1, false},
        {LENGTHS + 2, 1, "\x08", 1, false},
        {PREFIX, 1, ":", 1, false},
        {PREFIX, 1, "\0", 1, false},
        {PREFIX + 5, 1, "\0", 1, false},
        {POLICY, 1, " ", 1, false},
        {POLICY + 3, 1, "\0", 1, false},
        {NAME, 1, "\0", 1, true}, /* any byte is */
        {ID, 12, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (is_read(cases[i].at, cases[i].cut, cases[i].by, cases[i].len) != cases[i].ok)
            fail_msg("case %zu was %s", i, cases[i].ok ? "refused" : "read");
}

static void test_permit_sealed_name_is_bounded(void **state)
{
    unsigned char bytes[13 + HIRATE_NAME_MAX] = {0x80, 0x08}; /* from the name's length on: 1024 */

    (void)state;
    memcpy(bytes + 2, "hiratejobs", 10);
    memset(bytes + 12, 'n', HIRATE_NAME_MAX + 1);
    assert_true(is_read(LENGTHS + 2, 1 + 10 + 9, bytes, 12 + HIRATE_NAME_MAX));
    bytes[0]++; /* 1025 */
    assert_false(is_read(LENGTHS + 2, 1 + 10 + 9, bytes, 13 + HIRATE_NAME_MAX));
}

/* Of a quota: hour to month, and an offset within a day. */
static void test_permit_sealed_calendar_is_checked(void **state)
{
    static const unsigned char rest[] = "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x01\x00\x01\x00p";

    (void)state;
    for (unsigned per = 0; per <= 6; per++) {
        for (unsigned offset = 2870; offset <= 2890; offset++) {
            unsigned char bytes[100] = {0x14, 0x01, (unsigned char)per, (unsigned char)(offset | 0x80),
                                        (unsigned char)(offset >> 7)};
            char text[200];
            hr_permit got;

            memcpy(bytes + 5, rest, sizeof rest - 1);
            sealed_text(text, bytes, 5 + sizeof rest - 1);
            bool ok = per >= 1 && per <= 4 && offset <= 2 * 1439; /* odd ones are below UTC: 2877 is -1439 */
            assert_int_equal(hr_permit_read(&got, text, NULL) == 0, ok);
            if (ok)
                assert_int_equal(got.limit.offset_minutes, offset % 2 ? -(int)(offset + 1) / 2 : (int)offset / 2);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_permit_ordinary_is_read_and_short),
        cmocka_unit_test(test_permit_flags_and_failure_are_left_out),
        cmocka_unit_test(test_permit_least_and_largest_are_read),
        cmocka_unit_test(test_permit_of_each_calendar_is_read),
        cmocka_unit_test(test_permit_random_is_read),
        cmocka_unit_test(test_permit_changed_cut_or_extended_is_refused),
        cmocka_unit_test(test_permit_two_characters_swapped_are_refused),
        cmocka_unit_test(test_permit_null_empty_and_huge_are_refused),
        cmocka_unit_test(test_permit_has_the_documented_form),
        cmocka_unit_test(test_permit_sealed_with_a_wrong_field_is_refused),
        cmocka_unit_test(test_permit_sealed_name_is_bounded),
        cmocka_unit_test(test_permit_sealed_calendar_is_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
