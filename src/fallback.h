/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: what becomes of an acquire that Redis cannot answer: its limit's on_failure.
 */
#ifndef HR_FALLBACK_H
#define HR_FALLBACK_H

#include "batch.h"

typedef struct hr_fallback {
    hirate_local *local; /* NULL until a limit decides locally */
    uint32_t local_most; /* names */
} hr_fallback;

void hr_fallback_free(hr_fallback *fallback);

/* Does this error go through on_failure? Not what the caller did, nor wrong arguments. */
bool hr_fallback_covers(int error);

typedef struct hr_fallback_request {
    hr_request *request;   /* an acquire: its tickets' limits, its cost and what it would hold */
    const hr_name *names;  /* one for each ticket */
    int64_t probe_ms;      /* until Redis is asked again, at least 1 */
} hr_fallback_request;

/* Turn the error in *answer into the verdict that the limits' on_failure has for an acquire, and the error into its
 * cause. Of several limits that are not shadows (or, where all are, of all) the strictest decides: error, closed,
 * local, open. The charge stays. With HIRATE_ON_FAILURE_ERROR nothing changes. */
void hr_fallback_decide(hr_fallback *fallback, const hr_fallback_request *request, hr_answer *answer);

/* Answer a release, renewal, commit or refund of what was taken here: *answer is set, an error too. HIRATE_EINVAL with
 * *error, and no answer: it was not taken here. */
int hr_fallback_use_permit(hr_fallback *fallback, enum hirate_op op, const char *permit, uint64_t amount,
                           hr_answer *answer, hirate_error *error);

#endif
