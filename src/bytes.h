/* SPDX-License-Identifier: BSD-3-Clause */
/* base: a growable buffer of bytes that remembers a failed allocation, so that only the end has to be checked. */
#ifndef HR_BYTES_H
#define HR_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hr_bytes {
    char *data;
    size_t len, size;
    bool failed; /* some append had no memory: the content is not to be used */
} hr_bytes;      /* a zeroed struct is empty */

void hr_bytes_free(hr_bytes *bytes);
void hr_bytes_clear(hr_bytes *bytes); /* keeps the memory, forgets a failure */
/* Room for `more` bytes past len, or NULL. */
char *hr_bytes_reserve(hr_bytes *bytes, size_t more);
void hr_bytes_add(hr_bytes *bytes, const void *data, size_t len);
/* Decimal text of a number. */
void hr_bytes_add_number(hr_bytes *bytes, uint64_t value);

#endif
