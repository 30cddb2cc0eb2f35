/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: how a request is answered without a verdict by Redis: an error, or what on_failure makes of it.
 *
 * What was written before such an answer may take a lease or a reservation that nobody will hear of. So it is given
 * back: a request of our own, for which there is no callback, releases or refunds it by the id that the acquire
 * carried. It is sent later on the same connection, so it comes after the acquire.
 */
#ifndef HR_ANSWERS_H
#define HR_ANSWERS_H

#include "dispatch.h"

/* `with` as it is, or, of an acquire with an error, what on_failure makes of it. The request is WAITING or CALLED. */
void hr_answer_with(hr_dispatch *dispatch, hr_request *request, hr_answer with);
/* An error; charge = maybe if something may have been taken. */
void hr_answer_error(hr_dispatch *dispatch, hr_request *request, int error, const char *text);
/* The same error for all that is left in a call. A charge of no holds for all; maybe only for what takes something. */
void hr_answer_call(hr_dispatch *dispatch, hr_call *call, hr_answer with);
/* A failure of Redis, for the breaker. */
void hr_answer_note_failure(hr_dispatch *dispatch, int error);
/* What an error means for a new acquire with these names, one for each of its tickets: its on_failure, where that has a
 * say. */
void hr_answer_on_failure(hr_dispatch *dispatch, hr_request *request, const hr_name *names, hr_answer *with);

#endif
