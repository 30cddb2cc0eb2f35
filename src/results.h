/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client: an answer as the caller sees it: the result that its callback is given, and what is counted by it.
 *
 * Both are given a DONE request, taken from the queue of answers, let go of all it has (limits, extras, reason), and
 * free its slot.
 */
#ifndef HR_RESULTS_H
#define HR_RESULTS_H

#include "dispatch.h"

/* Count the answer and run the callback, with `h`, the dispatch's client. The slot is free again before the callback
 * runs, so that it can submit in its stead. */
void hr_result_deliver(hirate *h, hr_dispatch *dispatch, hr_request *request);
/* The same of one of the client's own: it has no callback and is counted nowhere. */
void hr_result_drop(hr_dispatch *dispatch, hr_request *request);

#endif
