/* SPDX-License-Identifier: BSD-3-Clause */
/* The keyed hash against answers of another implementation (CPython's SipHash-1-3), and the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hash.h"
#include "support/random.h"

#include <string.h>

typedef struct member {
    hr_hash_node node; /* first */
    int value;
} member;

static bool same_value(const hr_hash_node *node, const void *probe)
{
    return ((const member *)node)->value == *(const int *)probe;
}

static member *find(const hr_hash_table *table, uint64_t hash, int value)
{
    return (member *)hr_hash_find(table, hash, same_value, &value);
}

static void test_hash_known_inputs_match_siphash(void **state)
{
    static const struct {
        hr_hash_key key;
        size_t len;
        uint64_t hash;
    } cases[] = {
        {{0, 0}, 0, UINT64_C(0xd1fba762150c532c)},
        {{0, 0}, 1, UINT64_C(0x68a914128e01e473)},
        {{0, 0}, 2, UINT64_C(0x010bac45c41e3669)},
        {{0, 0}, 7, UINT64_C(0x2f098ab0c751325a)},
        {{0, 0}, 8, UINT64_C(0xead411e67ebe2eea)},
        {{0, 0}, 9, UINT64_C(0x75927f9d95124362)},
        {{0, 0}, 15, UINT64_C(0xf30eb725bb91c9ea)},
        {{0, 0}, 64, UINT64_C(0x75e05fd5bbc870c6)},
        {{UINT64_C(0x12c874a1806f0e3d), UINT64_C(0x470a89d2f9d2784f)}, 1, UINT64_C(0x7e255bf0210f9775)},
        {{UINT64_C(0x12c874a1806f0e3d), UINT64_C(0x470a89d2f9d2784f)}, 8, UINT64_C(0x8450991e34fe08de)},
        {{UINT64_C(0x12c874a1806f0e3d), UINT64_C(0x470a89d2f9d2784f)}, 17, UINT64_C(0xcc54010f13010f0d)},
        {{UINT64_C(0x12c874a1806f0e3d), UINT64_C(0x470a89d2f9d2784f)}, 63, UINT64_C(0xb1eaa0579bb21aa3)},
    };
    unsigned char bytes[64];

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_true(hr_hash(cases[i].key, bytes, cases[i].len) == cases[i].hash);
}

static void test_hash_keys_drawn_twice_differ(void **state)
{
    hr_hash_key a = hr_hash_key_random();
    hr_hash_key b = hr_hash_key_random();

    (void)state;
    assert_true(a.k0 != b.k0 || a.k1 != b.k1);
}

static void test_table_colliding_hashes_are_told_apart(void **state)
{
    enum { MEMBERS = 5 };
    hr_hash_table table;
    member members[MEMBERS] = {{{NULL, 0}, 0}};

    (void)state;
    assert_int_equal(hr_hash_init(&table, 0), 0);
    for (int i = 0; i < MEMBERS; i++) {
        members[i].value = i;
        hr_hash_insert(&table, &members[i].node, 42);
    }
    /* First, middle and last of the chain. */
    static const int order[MEMBERS] = {2, 4, 0, 3, 1};
    for (int i = 0; i < MEMBERS; i++) {
        assert_ptr_equal(find(&table, 42, order[i]), &members[order[i]]);
        hr_hash_remove(&table, &members[order[i]].node);
        assert_null(find(&table, 42, order[i]));
        assert_int_equal(table.count, MEMBERS - 1 - i);
    }
    hr_hash_free(&table);
}

static void test_table_same_bucket_other_hash_is_not_found(void **state)
{
    hr_hash_table table;
    member m = {{NULL, 0}, 7};

    (void)state;
    assert_int_equal(hr_hash_init(&table, 16), 0);
    hr_hash_insert(&table, &m.node, 1);
    assert_null(find(&table, 1 + 16, 7));
    assert_ptr_equal(find(&table, 1, 7), &m);
    hr_hash_free(&table);
}

static void test_table_growing_keeps_members(void **state)
{
    enum { MEMBERS = 10000 };
    static member members[MEMBERS];
    hr_hash_table table;
    rng r = rng_start("test_table_growing_keeps_members");

    (void)state;
    assert_int_equal(hr_hash_init(&table, 0), 0);
    for (int i = 0; i < MEMBERS; i++) {
        members[i].value = i;
        hr_hash_insert(&table, &members[i].node, rng_next(&r));
    }
    assert_int_equal(table.count, MEMBERS);
    assert_true(table.mask + 1 >= MEMBERS); /* chains stay short */
    for (int i = 0; i < MEMBERS; i++)
        assert_ptr_equal(find(&table, members[i].node.hash, i), &members[i]);
    for (int i = 0; i < MEMBERS; i += 2)
        hr_hash_remove(&table, &members[i].node);
    for (int i = 0; i < MEMBERS; i++) {
        const member *found = find(&table, members[i].node.hash, i);

        assert_true(i % 2 == 0 ? found == NULL : found == &members[i]);
    }
    hr_hash_free(&table);
}

static void test_table_expected_size_rounds_up_to_power_of_two(void **state)
{
    hr_hash_table table;

    (void)state;
    assert_int_equal(hr_hash_init(&table, 1000), 0);
    assert_int_equal(table.mask, 1023);
    hr_hash_free(&table);
    assert_int_equal(hr_hash_init(&table, 1024), 0);
    assert_int_equal(table.mask, 1023);
    hr_hash_free(&table);
}

static void test_table_absurd_size_is_refused(void **state)
{
    hr_hash_table table = {NULL, 3, 4};

    (void)state;
    assert_true(hr_hash_init(&table, SIZE_MAX) < 0);
    assert_null(table.buckets);
    assert_int_equal(table.mask, 3);
}

static void test_table_zeroed_can_be_freed(void **state)
{
    hr_hash_table table = {NULL, 0, 0};

    (void)state;
    hr_hash_free(&table);
    assert_null(table.buckets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hash_known_inputs_match_siphash),
        cmocka_unit_test(test_hash_keys_drawn_twice_differ),
        cmocka_unit_test(test_table_colliding_hashes_are_told_apart),
        cmocka_unit_test(test_table_same_bucket_other_hash_is_not_found),
        cmocka_unit_test(test_table_growing_keeps_members),
        cmocka_unit_test(test_table_expected_size_rounds_up_to_power_of_two),
        cmocka_unit_test(test_table_absurd_size_is_refused),
        cmocka_unit_test(test_table_zeroed_can_be_freed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
