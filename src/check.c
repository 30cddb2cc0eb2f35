/* SPDX-License-Identifier: BSD-3-Clause */
/* client: what a request must be, whoever decides it; see check.h. */
#include "check.h"

#include "error.h"
#include "permit.h"
#include "policy.h"

#include <stdio.h>
#include <string.h>

/* The sizes that hirate_request has had. */
#define REQUEST_VERSION_1 (offsetof(hirate_request, user) + sizeof(void *))

enum { MORE_MAX = HIRATE_PAIRS_MAX - 1 };

const hirate_request *hr_check_whole(const hirate_request *request, hirate_request *room)
{
    if (request->struct_size >= sizeof *request)
        return request;
    memset(room, 0, sizeof *room);
    memcpy(room, request, REQUEST_VERSION_1);
    return room;
}

static const char *op_name(enum hirate_op op)
{
    static const char *const names[] = {
        [HIRATE_OP_ACQUIRE] = "an acquire", [HIRATE_OP_PEEK] = "a peek",     [HIRATE_OP_RESET] = "a reset",
        [HIRATE_OP_RELEASE] = "a release",  [HIRATE_OP_RENEW] = "a renewal", [HIRATE_OP_COMMIT] = "a commit",
        [HIRATE_OP_REFUND] = "a refund",
    };

    return names[op];
}

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

/* ------------------------------------------------------------------------------------------ limits and names -- */

/* The i-th of a request's limits and names; `field` begins the names of its fields. */
static hirate_pair pair_of(const hirate_request *request, size_t i)
{
    return i > 0 ? request->more[i - 1] : (hirate_pair){request->limit, request->name, request->name_len};
}

typedef struct field {
    char name[32];
} field;

static field field_of(size_t i)
{
    field f = {""};
    if (i > 0)
        snprintf(f.name, sizeof f.name, "more[%zu].", i - 1);
    return f;
}

static int check_pair(const hirate_request *request, size_t i, hirate_error *error)
{
    hirate_pair pair = pair_of(request, i);
    if (!pair.limit)
        return hr_fail(error, HIRATE_EINVAL, "%slimit: is NULL; accepted: a limit", field_of(i).name);
    if (pair.name_len > HIRATE_NAME_MAX)
        return hr_fail(error, HIRATE_EINVAL, "%sname: %zu bytes; accepted: 0 to %d", field_of(i).name, pair.name_len,
                       HIRATE_NAME_MAX);
    if (!pair.name && pair.name_len)
        return hr_fail(error, HIRATE_EINVAL, "%sname: is NULL; accepted: NULL only with a length of 0",
                       field_of(i).name);
    return 0;
}

/* Can its fields be looked at? If not, it will be refused for that. */
static bool is_whole(const hirate_limit *limit)
{
    return limit->struct_size >= sizeof *limit && limit->policy;
}

static bool is_same(const hirate_pair *a, const hirate_pair *b)
{
    return a->name_len == b->name_len && (!a->name_len || memcmp(a->name, b->name, a->name_len) == 0) &&
           is_whole(a->limit) && is_whole(b->limit) &&
           strncmp(a->limit->policy, b->limit->policy, HIRATE_POLICY_SIZE) == 0;
}

static int check_distinct(const hirate_request *request, hirate_error *error)
{
    for (size_t i = 1; i <= request->more_count; i++) {
        hirate_pair pair = pair_of(request, i);
        for (size_t j = 0; j < i; j++) {
            hirate_pair before = pair_of(request, j);
            if (is_same(&pair, &before))
                return hr_fail(error, HIRATE_EINVAL,
                               "more[%zu]: the same policy and name as %slimit; accepted: each once", i - 1,
                               field_of(j).name);
        }
    }
    return 0;
}

static int check_pairs(const hirate_request *request, hirate_error *error)
{
    bool takes_more = request->op == HIRATE_OP_ACQUIRE || request->op == HIRATE_OP_PEEK;
    if (request->more_count && !takes_more)
        return hr_fail(error, HIRATE_EINVAL, "more_count: %zu given to %s; accepted: 0, or an acquire or a peek",
                       request->more_count, op_name(request->op));
    if (request->more_count > MORE_MAX)
        return hr_fail(error, HIRATE_EINVAL, "more_count: %zu; accepted: 0 to %d", request->more_count, MORE_MAX);
    if (request->more_count && !request->more)
        return hr_fail(error, HIRATE_EINVAL, "more: is NULL; accepted: NULL only with a more_count of 0");
    for (size_t i = 0; i <= request->more_count && !hr_op_uses_permit(request->op); i++) {
        int rc = check_pair(request, i, error);
        if (rc)
            return rc;
    }
    return check_distinct(request, error);
}

/* ------------------------------------------------------------------------------------------------ the others -- */

static int check_hold(const hirate_request *request, hirate_error *error)
{
    if (!request->hold_us)
        return 0;
    if (request->op != HIRATE_OP_ACQUIRE)
        return hr_fail(error, HIRATE_EINVAL, "hold_us: given to %s; accepted: 0, or an acquire", op_name(request->op));
    if (request->hold_us > HR_WINDOW_MAX)
        return hr_fail(error, HIRATE_EINVAL, "hold_us: %llu is too large; accepted: 0 to %llu",
                       (unsigned long long)request->hold_us, (unsigned long long)HR_WINDOW_MAX);
    for (size_t i = 0; i <= request->more_count; i++) {
        const hirate_limit *limit = pair_of(request, i).limit;
        if (!is_whole(limit) || limit->kind == HIRATE_KIND_QUOTA)
            return 0;
    }
    return hr_fail(error, HIRATE_EINVAL, "hold_us: given without a quota; accepted: 0, or a quota among the limits");
}

static int check_permit(const hirate_request *request, hirate_error *error)
{
    bool takes_permit = hr_op_uses_permit(request->op);
    if (takes_permit && !request->permit)
        return hr_fail(error, HIRATE_EINVAL, "permit: is NULL; accepted: the text of a result's permit");
    if (!takes_permit && request->permit)
        return hr_fail(error, HIRATE_EINVAL,
                       "permit: given to %s; accepted: NULL, or a release, renewal, commit or refund",
                       op_name(request->op));
    return 0;
}

static int check_cost(const hirate_request *request, hirate_error *error)
{
    bool has_cost =
        request->op == HIRATE_OP_ACQUIRE || request->op == HIRATE_OP_PEEK || request->op == HIRATE_OP_COMMIT;
    if (has_cost && request->cost > HIRATE_COST_MAX)
        return hr_fail(error, HIRATE_EINVAL, "cost: %llu is too large; accepted: 0 to %llu",
                       (unsigned long long)request->cost, (unsigned long long)HIRATE_COST_MAX);
    return 0;
}

/* What nearly every request is, seen at a glance: all that is checked below holds. */
static bool is_plain(const hirate_request *request)
{
    return request && request->struct_size == sizeof *request && request->version == HIRATE_REQUEST_VERSION &&
           request->op >= HIRATE_OP_ACQUIRE && request->op <= HIRATE_OP_RESET && !request->more_count &&
           !request->hold_us && !request->permit && request->limit && request->name &&
           request->name_len <= HIRATE_NAME_MAX && request->cost <= HIRATE_COST_MAX;
}

int hr_check_request(const hirate_request *request, hirate_error *error)
{
    if (is_plain(request))
        return 0;
    int rc = check_header(request, error);
    if (rc)
        return rc;
    if (request->op < HIRATE_OP_ACQUIRE || request->op > HIRATE_OP_REFUND)
        return hr_fail(error, HIRATE_EINVAL,
                       "op: %d is not known; accepted: acquire, peek, reset, release, renew, commit, refund (1 to 7)",
                       (int)request->op);
    hirate_request room;
    const hirate_request *whole = hr_check_whole(request, &room);
    rc = check_permit(whole, error);
    if (!rc)
        rc = check_pairs(whole, error);
    if (!rc)
        rc = check_hold(whole, error);
    return rc ? rc : check_cost(whole, error);
}
