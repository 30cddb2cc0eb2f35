/* SPDX-License-Identifier: BSD-3-Clause */
/* Pooled objects: classes, alignment, reuse, what is too large, no memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pool.h"
#include "support/nomem.h"
#include "support/random.h"

#include <string.h>

enum { SLAB = 16384 };

static size_t slabs(const hr_pool *pool)
{
    size_t n = 0;

    for (const hr_pool_slab *slab = pool->slabs; slab; slab = slab->next)
        n++;
    return n;
}

static size_t offset_in_slab(const hr_pool *pool, const void *object)
{
    const char *at = object;

    for (const hr_pool_slab *slab = pool->slabs; slab; slab = slab->next) {
        const char *begin = (const char *)slab;
        if (at >= begin && at < begin + SLAB)
            return (size_t)(at - begin);
    }
    fail_msg("an object outside every slab");
    return 0;
}

static void test_free_of_a_zeroed_pool_is_fine(void **state)
{
    hr_pool pool = {0};

    (void)state;
    hr_pool_free(&pool);
    assert_null(pool.slabs);
}

static void test_sizes_share_the_class_above(void **state)
{
    hr_pool pool = {0};

    (void)state;
    for (size_t top = 64, below = 0; top <= HR_POOL_LARGEST; below = top, top *= 2) {
        void *object = hr_pool_get(&pool, top);
        assert_non_null(object);
        hr_pool_put(&pool, object, top);
        void *again = hr_pool_get(&pool, below + 1);
        assert_ptr_equal(again, object);
        assert_ptr_not_equal(hr_pool_get(&pool, top), object);
        hr_pool_put(&pool, again, below + 1);
    }
    assert_int_equal(slabs(&pool), HR_POOL_CLASSES);
    assert_non_null(hr_pool_get(&pool, 0));
    hr_pool_free(&pool);
}

static void test_objects_are_aligned_and_inside_their_slab(void **state)
{
    hr_pool pool = {0};

    (void)state;
    for (size_t size = 1; size <= HR_POOL_LARGEST; size = size * 3 / 2 + 1) {
        for (int i = 0; i < 300; i++) {
            char *object = hr_pool_get(&pool, size);
            assert_non_null(object);
            size_t at = offset_in_slab(&pool, object);
            assert_int_equal(at % 64, 0);
            assert_int_equal((uintptr_t)object % _Alignof(max_align_t), 0);
            assert_true(at >= sizeof(hr_pool_slab) && at + size <= SLAB);
            memset(object, 0xff, size);
        }
    }
    hr_pool_free(&pool);
}

static void test_too_large_is_refused(void **state)
{
    hr_pool pool = {0};

    (void)state;
    assert_null(hr_pool_get(&pool, HR_POOL_LARGEST + 1));
    assert_null(hr_pool_get(&pool, SIZE_MAX));
    assert_null(pool.slabs);
    hr_pool_free(&pool);
}

static void test_get_without_memory_is_null_and_later_works(void **state)
{
    hr_pool pool = {0};

    (void)state;
    nomem_after(0);
    assert_null(hr_pool_get(&pool, 100));
    assert_true(nomem_end());
    assert_null(pool.slabs);
    void *object = hr_pool_get(&pool, 100);
    assert_non_null(object);
    nomem_after(0); /* what is free needs none */
    assert_non_null(hr_pool_get(&pool, 100));
    assert_false(nomem_end());
    hr_pool_free(&pool);
}

typedef struct live {
    unsigned char *object;
    size_t size;
    unsigned char fill;
} live;

/* Random objects come and go; each keeps what was written into it. */
static void churn(hr_pool *pool, rng *r, live *all, size_t most)
{
    for (int step = 0; step < 20000; step++) {
        live *one = &all[rng_upto(r, most - 1)];

        if (one->object) {
            for (size_t i = 0; i < one->size; i++)
                assert_int_equal(one->object[i], one->fill);
            hr_pool_put(pool, one->object, one->size);
            one->object = NULL;
            continue;
        }
        one->size = (size_t)rng_magnitude(r, 12);
        one->fill = (unsigned char)rng_next(r);
        one->object = hr_pool_get(pool, one->size);
        assert_non_null(one->object);
        memset(one->object, one->fill, one->size);
    }
}

static void test_random_objects_keep_their_content(void **state)
{
    enum { MOST = 100 };
    rng r = rng_start("test_random_objects_keep_their_content");
    hr_pool pool = {0};
    live all[MOST];

    (void)state;
    memset(all, 0, sizeof all);
    churn(&pool, &r, all, MOST);
    /* At most MOST in each class, each class in slabs of at least three. */
    assert_true(slabs(&pool) <= HR_POOL_CLASSES * (MOST / 3 + 1));
    hr_pool_free(&pool);
}

static void test_put_objects_are_used_before_new_slabs(void **state)
{
    enum { COUNT = 1000 };
    hr_pool pool = {0};
    void *objects[COUNT];

    (void)state;
    for (int i = 0; i < COUNT; i++)
        objects[i] = hr_pool_get(&pool, 200);
    size_t before = slabs(&pool);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++)
            hr_pool_put(&pool, objects[i], 200);
        for (int i = 0; i < COUNT; i++)
            objects[i] = hr_pool_get(&pool, 200);
    }
    assert_int_equal(slabs(&pool), before);
    hr_pool_free(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_free_of_a_zeroed_pool_is_fine),
        cmocka_unit_test(test_sizes_share_the_class_above),
        cmocka_unit_test(test_objects_are_aligned_and_inside_their_slab),
        cmocka_unit_test(test_too_large_is_refused),
        cmocka_unit_test(test_get_without_memory_is_null_and_later_works),
        cmocka_unit_test(test_random_objects_keep_their_content),
        cmocka_unit_test(test_put_objects_are_used_before_new_slabs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
