/* SPDX-License-Identifier: BSD-3-Clause */
/* client: what a request must be, whoever decides it. */
#include "check.h"

#include "error.h"

#define REQUEST_VERSION_1 (offsetof(hirate_request, user) + sizeof(void *))

static int check_header(const hirate_request *request, hirate_error *error)
{
    if (!request)
        return hr_fail(error, HIRATE_EINVAL, "request: is NULL; accepted: one set up by hirate_request_init()");
    int rc = hr_struct_check("request", request, request->struct_size, REQUEST_VERSION_1, sizeof *request, error);
    if (!rc && request->version != HIRATE_REQUEST_VERSION)
        rc = hr_fail(error, HIRATE_EINVAL, "request.version: %u is not known; accepted: %d", (unsigned)request->version,
                     HIRATE_REQUEST_VERSION);
    return rc;
}

int hr_check_request(const hirate_request *request, hirate_error *error)
{
    int rc = check_header(request, error);
    if (rc)
        return rc;
    if (request->op != HIRATE_OP_ACQUIRE && request->op != HIRATE_OP_PEEK && request->op != HIRATE_OP_RESET)
        return hr_fail(error, HIRATE_EINVAL, "op: %d is not known; accepted: acquire, peek, reset (1 to 3)", (int)request->op);
    if (!request->limit)
        return hr_fail(error, HIRATE_EINVAL, "limit: is NULL; accepted: a limit");
    if (request->name_len > HIRATE_NAME_MAX)
        return hr_fail(error, HIRATE_EINVAL, "name: %zu bytes; accepted: 0 to %d", request->name_len, HIRATE_NAME_MAX);
    if (!request->name && request->name_len)
        return hr_fail(error, HIRATE_EINVAL, "name: is NULL; accepted: NULL only with a length of 0");
    if (request->op != HIRATE_OP_RESET && request->cost > HIRATE_COST_MAX)
        return hr_fail(error, HIRATE_EINVAL, "cost: %llu is too large; accepted: 0 to %llu",
                       (unsigned long long)request->cost, (unsigned long long)HIRATE_COST_MAX);
    return 0;
}
