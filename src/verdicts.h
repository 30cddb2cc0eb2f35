/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: a call's reply, made into the answers of its requests.
 *
 * The script tells what each key was found with; what each request gets follows from that, as the same decisions are
 * repeated here by the policies' own functions.
 */
#ifndef HR_VERDICTS_H
#define HR_VERDICTS_H

#include "dispatch.h"

/* Is every part of it something the script can have said in answer to this call? Then *out is at its first key, and the
 * steps' keys have what was found and whether it was written. */
bool hr_verdicts_check(hr_call *call, const hr_link_reply *reply, hr_script_reply *out);
/* Answer the call's requests. */
void hr_verdicts_answer(hr_dispatch *dispatch, hr_call *call, hr_script_reply reply);

#endif
