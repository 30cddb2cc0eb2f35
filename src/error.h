/* SPDX-License-Identifier: BSD-3-Clause */
/* base: one line of text for what went wrong. */
#ifndef HR_ERROR_H
#define HR_ERROR_H

#include "hirate.h"

/* Set *error (may be NULL) to `code` and the formatted text, cut to fit; control bytes become '?'. Returns code, so
 * that a check reads `return hr_fail(error, HIRATE_EINVAL, "cost: …")`. */
int hr_fail(hirate_error *error, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
