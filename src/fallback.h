/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request: what becomes of an acquire that Redis cannot answer: its limit's on_failure.
 */
#ifndef HR_FALLBACK_H
#define HR_FALLBACK_H

#include "limit_set.h"
#include "request.h"

typedef struct hr_fallback {
    hirate_local *local; /* NULL until a limit decides locally */
    uint32_t local_most; /* names */
} hr_fallback;

void hr_fallback_free(hr_fallback *fallback);

/* Does this error go through on_failure? Not what the caller did, nor wrong arguments. */
bool hr_fallback_covers(int error);

typedef struct hr_fallback_request {
    const hr_limit *limit;
    const void *name;
    size_t name_len;
    uint64_t cost;
    int64_t probe_ms; /* until Redis is asked again, at least 1 */
} hr_fallback_request;

/* Turn the error in *answer into the verdict that the limit's on_failure has for an acquire, and the error into its cause.
 * The charge stays. With HIRATE_ON_FAILURE_ERROR nothing changes. */
void hr_fallback_decide(hr_fallback *fallback, const hr_fallback_request *request, hr_answer *answer);

#endif
