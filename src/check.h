/* SPDX-License-Identifier: BSD-3-Clause */
/* client: what a request must be, whoever decides it. */
#ifndef HR_CHECK_H
#define HR_CHECK_H

#include "hirate.h"

/*
 * Check everything but the deadline, the callback, the limits' own fields and what the permit says. 0, or HIRATE_EINVAL
 * with *error naming the field.
 *
 * Of a limit that hirate_limit_check() refuses by its size or name this may say nothing: it is to be checked next.
 */
int hr_check_request(const hirate_request *request, hirate_error *error);

/* A request that was checked, with all fields: itself, or *room, where those that its program does not know are 0. */
const hirate_request *hr_check_whole(const hirate_request *request, hirate_request *room);

#endif
