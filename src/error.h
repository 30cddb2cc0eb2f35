/* SPDX-License-Identifier: BSD-3-Clause */
/* base: one line of text for what went wrong, and the check of structs that begin with their size. */
#ifndef HR_ERROR_H
#define HR_ERROR_H

#include "hirate.h"

/* Set *error (may be NULL) to `code` and the formatted text, cut to fit; control bytes, and what is not UTF-8, become
 * '?'. The arguments may point into *error. Returns code, so that a check reads
 * `return hr_fail(error, HIRATE_EINVAL, "cost: …")`. */
int hr_fail(hirate_error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/*
 * Check `struct_size` of a struct passed in, which `what` names in the text: at least `first`, its size in version 1,
 * and where it is larger than `known`, its size in this library, zero beyond: a field that a newer program sets and
 * this library does not know is refused rather than passed over. 0 or HIRATE_EINVAL.
 */
int hr_struct_check(const char *what, const void *object, uint32_t struct_size, size_t first, size_t known,
                    hirate_error *error);

#endif
