/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests: reads the worked answers in tests/vectors.
 *
 * A file begins with `# limit: SPEC`; other lines beginning with # are passed over. Each further line is one
 * acquire and its answer, tab-separated: time_us cost name verdict remaining retry_after_ms reset_ms delay_ms.
 */
#ifndef TESTS_SUPPORT_VECTORS_H
#define TESTS_SUPPORT_VECTORS_H

#include "hirate.h"

#include <stddef.h>
#include <stdint.h>

#define VECTORS_TEXT_MAX 256

typedef struct vector_row {
    size_t line; /* in the file, from 1 */
    int64_t time_us;
    uint64_t cost;
    char name[VECTORS_TEXT_MAX];
    enum hirate_verdict verdict;
    uint64_t remaining;
    int64_t retry_after_ms; /* HIRATE_NEVER for "never" */
    int64_t reset_ms;
    int64_t delay_ms;
} vector_row;

typedef struct vectors {
    char spec[VECTORS_TEXT_MAX];
    char policy[HIRATE_POLICY_SIZE];
    hirate_limit limit; /* spec, parsed; limit.policy points to policy, so do not copy the struct */
    vector_row *rows;
    size_t count;
} vectors;

/* The files to read: PATTERN (as glob(3)) in $srcdir/tests/vectors, or in $srcdir/vectors, srcdir "." if unset. Returns
 * a NULL-terminated array for vectors_list_free(); NULL, with a line on stderr, when none matches. */
char **vectors_list(const char *pattern);
void vectors_list_free(char **paths);

/* 0, or -1 with a line on stderr that names the file and line. Free with vectors_free() in either case. */
int vectors_read(vectors *v, const char *path);
void vectors_free(vectors *v);

#endif
