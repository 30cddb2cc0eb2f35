/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls byte for byte and through a decoder of their own; no memory. Steps: test_script_steps.c. Replies:
 * test_script_reply.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "script.h"
#include "support/decoded.h"
#include "support/nomem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const hr_policy LOGIN = {
    .capacity = 20, .n = 1, .p = 3000000, .full = 60000000, .kind = HIRATE_KIND_TOKEN_BUCKET};

enum { NUMBER = 5 }; /* of the calls: one byte, 05 */

/* --------------------------------------------------------------------------------------------------- writing -- */

static void test_one_acquire_byte_for_byte(void **state)
{
    static const char ops[] =
        "\x99\x05\x01\x01\xce\x00\x2d\xc6\xc0\xce\x03\x93\x87\x00\x01\x01\xce\x00\x2d\xc6\xc0\x01";
    hr_script_call call = {0};
    char expected[256];

    (void)state;
    hr_script_begin(&call, NUMBER);
    hr_script_limit(&call, &LOGIN, 1);
    hr_script_key(&call, "hirate:login:a", 14);
    hr_script_acquires(&call, 1);
    hr_script_run(&call, 3000000, 1);
    assert_int_equal(hr_script_finish(&call, HR_SCRIPT_BY_SHA), 0);

    int head =
        snprintf(expected, sizeof expected,
                 "*5\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n1\r\n$14\r\nhirate:login:a\r\n$22\r\n", hr_script_sha1());
    assert_int_equal(call.command.len, (size_t)head + 24);
    assert_memory_equal(call.command.data, expected, (size_t)head);
    assert_memory_equal(call.command.data + head, ops, 22);
    assert_memory_equal(call.command.data + head + 22, "\r\n", 3); /* NUL behind it */
    hr_script_free(&call);
}

static void test_reset_and_peek_byte_for_byte(void **state)
{
    static const char ops[] = "\x98\x05\x01\x01\xce\x00\x2d\xc6\xc0\xce\x03\x93\x87\x00\x02\xff\x00";
    hr_script_call call = {0};

    (void)state;
    hr_script_begin(&call, NUMBER);
    hr_script_limit(&call, &LOGIN, 2);
    hr_script_key(&call, "a", 1);
    hr_script_reset(&call);
    hr_script_key(&call, "b", 1);
    hr_script_peek(&call);
    assert_int_equal(hr_script_finish(&call, HR_SCRIPT_BY_SHA), 0);
    const decoded *d = decode(&call.command);
    assert_int_equal(d->argc, 6);
    assert_arg(d, 2, "2");
    assert_int_equal(d->len[5], sizeof ops - 1);
    assert_memory_equal(d->argv[5], ops, sizeof ops - 1);
    hr_script_free(&call);
}

static void test_several_limits_and_keys_are_read_back(void **state)
{
    static const hr_policy other = {.capacity = 3, .n = 7, .p = 2, .full = 6, .kind = HIRATE_KIND_LEAKY_BUCKET};
    static const int64_t expected[] = {NUMBER,  1, 1,  3000000, 60000000, 2, 2, 3000000, 5,
                                       6000000, 1, -1, 2,       7,        2, 6, 1,       0};
    hr_script_call call = {0};

    (void)state;
    hr_script_begin(&call, NUMBER);
    hr_script_limit(&call, &LOGIN, 2);
    hr_script_key(&call, "p:login:\r\n\0$", 12);
    hr_script_acquires(&call, 2);
    hr_script_run(&call, 3000000, 5);
    hr_script_run(&call, 6000000, 1);
    hr_script_key(&call, "p:login:", 8);
    hr_script_reset(&call);
    hr_script_limit(&call, &other, 1);
    hr_script_key(&call, "", 0);
    hr_script_peek(&call);
    assert_int_equal(hr_script_finish(&call, HR_SCRIPT_BY_SHA), 0);

    const decoded *d = decode(&call.command);
    assert_int_equal(d->argc, 7);
    assert_arg(d, 0, "EVALSHA");
    assert_arg(d, 1, hr_script_sha1());
    assert_arg(d, 2, "3");
    assert_int_equal(d->len[3], 12);
    assert_memory_equal(d->argv[3], "p:login:\r\n\0$", 12);
    assert_arg(d, 4, "p:login:");
    assert_arg(d, 5, "");
    assert_int_equal(d->op_count, sizeof expected / sizeof expected[0]);
    assert_memory_equal(d->ops, expected, sizeof expected);
    hr_script_free(&call);
}

static void test_integers_take_the_width_they_need(void **state)
{
    static const struct {
        uint64_t value;
        size_t len;
        const char *bytes;
    } cases[] = {
        {0, 1, "\x00"},
        {1, 1, "\x01"},
        {0x7f, 1, "\x7f"},
        {0x80, 2, "\xcc\x80"},
        {0xff, 2, "\xcc\xff"},
        {0x100, 3, "\xcd\x01\x00"},
        {0xffff, 3, "\xcd\xff\xff"},
        {0x10000, 5, "\xce\x00\x01\x00\x00"},
        {0xffffffff, 5, "\xce\xff\xff\xff\xff"},
        {UINT64_C(0x100000000), 9, "\xcf\x00\x00\x00\x01\x00\x00\x00\x00"},
        {UINT64_C(1) << 52, 9, "\xcf\x00\x10\x00\x00\x00\x00\x00\x00"},
        {HIRATE_COST_MAX, 9, "\xcf\x00\x1f\xff\xff\xff\xff\xff\xff"},
        {UINT64_C(0x0123456789abcdef), 9, "\xcf\x01\x23\x45\x67\x89\xab\xcd\xef"},
    };
    hr_script_call call = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hr_script_begin(&call, NUMBER);
        hr_script_run(&call, cases[i].value, 1);
        assert_int_equal(call.ops.len, 1 + cases[i].len + 1);
        assert_memory_equal(call.ops.data + 1, cases[i].bytes, cases[i].len);
    }
    hr_script_free(&call);
}

static void test_array_header_takes_the_width_it_needs(void **state)
{
    static const uint32_t counts[] = {4, 14, 16, 256, 65534, 65536, 69000} /* and the number */;
    hr_script_call call = {0};

    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        hr_script_begin(&call, NUMBER);
        for (uint32_t n = 0; n < counts[i]; n += 2)
            hr_script_run(&call, n & 0x7f, n & 0x7f);
        assert_int_equal(hr_script_finish(&call, HR_SCRIPT_BY_SHA), 0);
        const decoded *d = decode(&call.command);
        assert_int_equal(d->op_count, 1 + counts[i]);
        for (size_t n = 0; n < counts[i]; n++)
            assert_int_equal(d->ops[1 + n], n / 2 * 2 & 0x7f);
    }
    hr_script_begin(&call, NUMBER); /* 16: the first of the next form */
    for (int n = 0; n < 15; n++)
        hr_script_peek(&call);
    assert_int_equal(hr_script_finish(&call, HR_SCRIPT_BY_SHA), 0);
    assert_int_equal(decode(&call.command)->op_count, 16);
    hr_script_free(&call);
}

static void test_most_keys_are_counted_in_decimal(void **state)
{
    static const uint32_t counts[] = {1, 5, 6, 10}; /* with 4 others: 5, 9, 10 and 14 arguments */
    hr_script_call call = {0};
    char number[12];

    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        hr_script_begin(&call, NUMBER);
        hr_script_limit(&call, &LOGIN, counts[i]);
        for (uint32_t n = 0; n < counts[i]; n++) {
            hr_script_key(&call, "key", 3);
            hr_script_peek(&call);
        }
        assert_int_equal(hr_script_finish(&call, HR_SCRIPT_BY_SHA), 0);
        const decoded *d = decode(&call.command);
        assert_int_equal(d->argc, counts[i] + 4);
        (void)snprintf(number, sizeof number, "%u", (unsigned)counts[i]);
        assert_arg(d, 2, number);
    }
    hr_script_free(&call);
}

/* SHA-1 as in RFC 3174, to compare the text that is sent with the name it is known by. */
static uint32_t rotate(uint32_t x, unsigned n)
{
    return x << n | x >> (32 - n);
}

static void sha1_block(uint32_t h[5], const unsigned char *block)
{
    static const uint32_t k[] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
    uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];

    for (size_t t = 0; t < 16; t++)
        w[t] = (uint32_t)big_endian(&block, 4);
    for (size_t t = 16; t < 80; t++)
        w[t] = rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    for (size_t t = 0; t < 80; t++) {
        uint32_t f = t < 20 ? (b & c) | (~b & d) : t >= 40 && t < 60 ? (b & c) | (b & d) | (c & d) : b ^ c ^ d;
        uint32_t next = rotate(a, 5) + f + e + w[t] + k[t / 20];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
}

static void sha1_hex(const char *text, size_t len, char hex[41])
{
    uint32_t h[] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    size_t blocks = (len + 8) / 64 + 1;
    unsigned char *padded = calloc(blocks, 64);

    assert_non_null(padded);
    memcpy(padded, text, len);
    padded[len] = 0x80;
    for (size_t i = 0; i < 8; i++)
        padded[blocks * 64 - 1 - i] = (unsigned char)((uint64_t)len * 8 >> (8 * i));
    for (size_t i = 0; i < blocks; i++)
        sha1_block(h, padded + 64 * i);
    for (size_t i = 0; i < 5; i++)
        (void)snprintf(hex + 8 * i, 9, "%08x", (unsigned)h[i]);
    free(padded);
}

static void test_text_is_what_the_sha1_names(void **state)
{
    hr_script_call call = {0};
    char hex[41];

    (void)state;
    sha1_hex("abc", 3, hex);
    assert_string_equal(hex, "a9993e364706816aba3e25717850c26c9cd0d89d");
    hr_script_begin(&call, NUMBER);
    hr_script_limit(&call, &LOGIN, 1);
    hr_script_key(&call, "k", 1);
    hr_script_peek(&call);
    assert_int_equal(hr_script_finish(&call, HR_SCRIPT_BY_TEXT), 0);
    const decoded *d = decode(&call.command);
    assert_int_equal(d->argc, 5);
    assert_arg(d, 0, "EVAL");
    assert_arg(d, 2, "1");
    assert_arg(d, 3, "k");
    sha1_hex(d->argv[1], d->len[1], hex);
    assert_string_equal(hex, hr_script_sha1());
    hr_script_free(&call);
}

static int write_long_call(hr_script_call *call)
{
    char key[600];

    memset(key, 'k', sizeof key);
    hr_script_begin(call, NUMBER);
    hr_script_limit(call, &LOGIN, 12);
    for (int i = 0; i < 12; i++) {
        hr_script_key(call, key, sizeof key);
        hr_script_acquires(call, 100);
        for (uint64_t n = 0; n < 100; n++)
            hr_script_run(call, UINT64_C(1) << 50, 300);
    }
    return hr_script_finish(call, HR_SCRIPT_BY_SHA);
}

static void test_each_allocation_failing_is_no_memory_and_later_works(void **state)
{
    int failures = 0;

    (void)state;
    for (bool failed = true; failed; failures += failed) {
        hr_script_call call = {0};

        nomem_after(failures);
        int rc = write_long_call(&call);
        failed = nomem_end();
        assert_int_equal(rc, failed ? HIRATE_ENOMEM : 0);
        assert_int_equal(write_long_call(&call), 0);
        const decoded *d = decode(&call.command);
        assert_int_equal(d->argc, 16);
        assert_int_equal(d->op_count, 1 + 5 + 12 * 201);
        hr_script_free(&call);
    }
    assert_true(failures >= 6); /* three buffers, each grown at least once */
}

static void test_number_takes_up_to_four_bytes(void **state)
{
    hr_script_call call = {0};

    (void)state;
    hr_script_begin(&call, UINT32_MAX);
    assert_int_equal(hr_script_finish(&call, HR_SCRIPT_BY_SHA), 0);
    const decoded *d = decode(&call.command);
    assert_int_equal(d->op_count, 1);
    assert_int_equal(d->ops[0], UINT32_MAX);
    hr_script_free(&call);
}

/* What the script wants to know of a limit of each kind; see lua/acquire.lua. */
static void test_each_kind_sends_its_own_parameters(void **state)
{
    static const struct {
        hr_policy policy;
        size_t count;
        int64_t ops[6];
    } cases[] = {
        {{.kind = HIRATE_KIND_TOKEN_BUCKET, .capacity = 3, .n = 7, .p = 2, .full = 6}, 5, {1, 7, 2, 6, 9}},
        {{.kind = HIRATE_KIND_LEAKY_BUCKET, .capacity = 3, .n = 7, .p = 2, .full = 6}, 5, {2, 7, 2, 6, 9}},
        {{.kind = HIRATE_KIND_FIXED_WINDOW, .capacity = 5, .window_us = 60000000}, 4, {3, 5, 60000000, 9}},
        {{.kind = HIRATE_KIND_QUOTA, .capacity = 5, .per = HIRATE_PER_MONTH, .offset_us = -INT64_C(86340000000)},
         5,
         {4, 5, 4, 60000000, 9}},
        {{.kind = HIRATE_KIND_QUOTA, .capacity = HIRATE_COST_MAX, .per = HIRATE_PER_DAY, .offset_us = 86340000000},
         5,
         {4, HIRATE_COST_MAX, 2, 172740000000, 9}},
        {{.kind = HIRATE_KIND_SLIDING_LOG, .capacity = 8192, .window_us = HR_WINDOW_MAX},
         4,
         {5, 8192, (int64_t)HR_WINDOW_MAX, 9}},
        {{.kind = HIRATE_KIND_SLIDING_WINDOW, .capacity = 5, .window_us = 60000000, .tick_us = 1000, .window = 60000},
         5,
         {6, 5, 60000000, 1000, 9}},
        {{.kind = HIRATE_KIND_CONCURRENCY, .capacity = HIRATE_COST_MAX, .lease_us = HR_WINDOW_MAX},
         4,
         {7, HIRATE_COST_MAX, (int64_t)HR_WINDOW_MAX, 9}},
    };
    hr_script_call call = {0};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hr_script_begin(&call, NUMBER);
        hr_script_limit(&call, &cases[i].policy, 9);
        assert_int_equal(hr_script_finish(&call, HR_SCRIPT_BY_SHA), 0);
        const decoded *d = decode(&call.command);
        assert_int_equal(d->op_count, 1 + cases[i].count);
        assert_memory_equal(d->ops + 1, cases[i].ops, cases[i].count * sizeof cases[i].ops[0]);
    }
    hr_script_free(&call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_acquire_byte_for_byte),
        cmocka_unit_test(test_reset_and_peek_byte_for_byte),
        cmocka_unit_test(test_several_limits_and_keys_are_read_back),
        cmocka_unit_test(test_integers_take_the_width_they_need),
        cmocka_unit_test(test_array_header_takes_the_width_it_needs),
        cmocka_unit_test(test_most_keys_are_counted_in_decimal),
        cmocka_unit_test(test_text_is_what_the_sha1_names),
        cmocka_unit_test(test_each_allocation_failing_is_no_memory_and_later_works),
        cmocka_unit_test(test_number_takes_up_to_four_bytes),
        cmocka_unit_test(test_each_kind_sends_its_own_parameters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
