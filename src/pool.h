/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base: memory for many small objects that come and go, without an allocation each.
 *
 * Sizes are rounded up to a power of two, 64 … 4096 bytes; each class has a list of free objects, filled 16 KiB at a
 * time. Nothing goes back to the system before hr_pool_free: the most that was ever live is what is kept.
 */
#ifndef HR_POOL_H
#define HR_POOL_H

#include <stddef.h>

#define HR_POOL_CLASSES 7
#define HR_POOL_LARGEST 4096

typedef struct hr_pool_slab {
    struct hr_pool_slab *next;
} hr_pool_slab;

typedef struct hr_pool {
    void *free[HR_POOL_CLASSES];
    hr_pool_slab *slabs;
} hr_pool; /* a zeroed struct is empty */

void *hr_pool_get(hr_pool *pool, size_t size); /* not zeroed; NULL without memory or above HR_POOL_LARGEST */
void hr_pool_put(hr_pool *pool, void *object, size_t size); /* the size it was got with */
void hr_pool_free(hr_pool *pool);              /* every object with it */

#endif
