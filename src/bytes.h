/* SPDX-License-Identifier: BSD-3-Clause */
/* base: a growable buffer of bytes that remembers a failed allocation, so that only the end has to be checked. */
#ifndef HR_BYTES_H
#define HR_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct hr_bytes {
    char *data;
    size_t len, size;
    bool failed; /* some append had no memory: the content is not to be used */
} hr_bytes;      /* a zeroed struct is empty */

void hr_bytes_free(hr_bytes *bytes);
void hr_bytes_clear(hr_bytes *bytes); /* keeps the memory, forgets a failure */
bool hr_bytes_grow(hr_bytes *bytes, size_t more); /* as hr_bytes_reserve, where there is no room yet */

/* Room for `more` bytes past len, or NULL. */
static inline char *hr_bytes_reserve(hr_bytes *bytes, size_t more)
{
    if (more > bytes->size - bytes->len && !hr_bytes_grow(bytes, more))
        return NULL;
    return bytes->data ? bytes->data + bytes->len : NULL; /* nothing of nothing: NULL + 0 is undefined */
}

static inline void hr_bytes_add(hr_bytes *bytes, const void *data, size_t len)
{
    char *to = len ? hr_bytes_reserve(bytes, len) : NULL;
    if (to) {
        memcpy(to, data, len);
        bytes->len += len;
    }
}

/* Decimal text of a number. */
void hr_bytes_add_number(hr_bytes *bytes, uint64_t value);

#endif
