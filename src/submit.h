/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: how a request is accepted: its limits, slot, deadline and places in its keys' queues, or an answer at once.
 */
#ifndef HR_SUBMIT_H
#define HR_SUBMIT_H

#include "dispatch.h"

/* Accept a request whose fields, but for the limits' and the permit, have been checked. 0 with *id (may be NULL) set,
 * or HIRATE_EINVAL or HIRATE_ENOMEM with *error filled in and nothing changed. */
int hr_submit(hr_dispatch *dispatch, const hirate_request *request, uint64_t *id, hirate_error *error);

#endif
