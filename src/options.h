/* SPDX-License-Identifier: BSD-3-Clause */
/* client: options as the caller gave them, checked and made whole. */
#ifndef HR_OPTIONS_H
#define HR_OPTIONS_H

#include "hirate.h"
#include "uri.h"

#define HR_DAY_MS 86400000 /* the longest deadline and timeout */

/* Check `from` (NULL: defaults) into *options, every field set, and *uri, to be freed. The strings of *options are the
 * caller's or static. 0, or HIRATE_EINVAL / HIRATE_ENOMEM with *error filled in and nothing to free. */
int hr_options_read(hirate_options *options, hr_uri *uri, const hirate_options *from, hirate_error *error);

#endif
