/* SPDX-License-Identifier: BSD-3-Clause */
/* base: a growable buffer; see bytes.h. */
#include "bytes.h"

#include <stdlib.h>

#define FIRST_SIZE 4096

void hr_bytes_free(hr_bytes *bytes)
{
    free(bytes->data);
    *bytes = (hr_bytes){0};
}

void hr_bytes_clear(hr_bytes *bytes)
{
    bytes->len = 0;
    bytes->failed = false;
}

bool hr_bytes_grow(hr_bytes *bytes, size_t more)
{
    size_t size = bytes->size ? bytes->size : FIRST_SIZE;
    while (size - bytes->len < more) {
        if (size > SIZE_MAX / 2) {
            bytes->failed = true;
            return false;
        }
        size *= 2;
    }
    char *data = realloc(bytes->data, size);
    if (!data) {
        bytes->failed = true;
        return false;
    }
    bytes->data = data;
    bytes->size = size;
    return true;
}

void hr_bytes_add_number(hr_bytes *bytes, uint64_t value)
{
    char text[20];
    size_t at = sizeof text;

    do
        text[--at] = (char)('0' + value % 10);
    while (value /= 10);
    hr_bytes_add(bytes, text + at, sizeof text - at);
}
