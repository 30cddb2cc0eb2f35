/* SPDX-License-Identifier: BSD-3-Clause */
/* client: what a request must be, whoever decides it. */
#ifndef HR_CHECK_H
#define HR_CHECK_H

#include "hirate.h"

/* Everything but the deadline, the callback and the limit's own fields. 0, or HIRATE_EINVAL with *error naming the field. */
int hr_check_request(const hirate_request *request, hirate_error *error);

#endif
