/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests: allocations of the library that fail when asked to. For one file of a program linked with $(NOMEM_WRAP), which
 * sends the library's calls through here.
 *
 *     for (int n = 0; nomem_after(n), rc = …, nomem_end(); n++)    each allocation in turn; ends once none failed
 */
#ifndef TESTS_SUPPORT_NOMEM_H
#define TESTS_SUPPORT_NOMEM_H

#include <stdbool.h>
#include <stddef.h>

static int nomem_left = -1; /* allocations before the one that fails; negative: none does */
static bool nomem_failed;

static inline void nomem_after(int allocations)
{
    nomem_left = allocations;
    nomem_failed = false;
}

/* All is well again. Had one failed? */
static inline bool nomem_end(void)
{
    nomem_left = -1;
    return nomem_failed;
}

static inline bool nomem_now(void)
{
    if (nomem_left < 0 || nomem_left-- > 0)
        return false;
    nomem_failed = true;
    return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strndup(const char *text, size_t most);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strndup(const char *text, size_t most);

void *__wrap_malloc(size_t size)
{
    return nomem_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return nomem_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return nomem_now() ? NULL : __real_realloc(old, size);
}

char *__wrap_strndup(const char *text, size_t most)
{
    return nomem_now() ? NULL : __real_strndup(text, most);
}

#endif
