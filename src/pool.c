/* SPDX-License-Identifier: BSD-3-Clause */
/* base: memory for many small objects; see pool.h. */
#include "pool.h"

#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define HR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HR_ASAN 1
#endif
#endif

/* Under AddressSanitizer a free object is out of bounds, as a freed block would be. */
#ifdef HR_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(object, size)   __asan_poison_memory_region(object, size)
#define UNPOISON(object, size) __asan_unpoison_memory_region(object, size)
#else
#define POISON(object, size)   ((void)(object), (void)(size))
#define UNPOISON(object, size) ((void)(object), (void)(size))
#endif

#define SMALLEST   64
#define SLAB_BYTES 16384
#define SLAB_HEAD  64 /* keeps objects aligned to a cache line within their slab */

static int class_of(size_t size)
{
    int class = 0;
    for (size_t have = SMALLEST; have < size; have *= 2)
        class++;
    return class;
}

/* Free objects are chained through their first word. */
static void push(hr_pool *pool, int class, void *object)
{
    memcpy(object, &pool->free[class], sizeof(void *));
    pool->free[class] = object;
    POISON(object, (size_t)SMALLEST << class);
}

static int fill(hr_pool *pool, int class)
{
    size_t size = (size_t)SMALLEST << class;
    hr_pool_slab *slab = malloc(SLAB_BYTES);

    if (!slab)
        return -1;
    slab->next = pool->slabs;
    pool->slabs = slab;
    for (size_t at = SLAB_HEAD; at + size <= SLAB_BYTES; at += size)
        push(pool, class, (char *)slab + at);
    return 0;
}

void *hr_pool_get(hr_pool *pool, size_t size)
{
    if (size > HR_POOL_LARGEST)
        return NULL;
    int class = class_of(size);
    if (!pool->free[class] && fill(pool, class))
        return NULL;
    void *object = pool->free[class];
    UNPOISON(object, (size_t)SMALLEST << class);
    memcpy(&pool->free[class], object, sizeof(void *));
    return object;
}

void hr_pool_put(hr_pool *pool, void *object, size_t size)
{
    push(pool, class_of(size), object);
}

void hr_pool_free(hr_pool *pool)
{
    while (pool->slabs) {
        hr_pool_slab *next = pool->slabs->next;
        UNPOISON(pool->slabs, SLAB_BYTES);
        free(pool->slabs);
        pool->slabs = next;
    }
    *pool = (hr_pool){0};
}
