/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client: the local engine's inside, shared by its requests (local.c) and those that go by a permit (local_permit.c).
 */
#ifndef HR_LOCAL_H
#define HR_LOCAL_H

#include "local_table.h"
#include "permit.h"

/* A limit and what it compiled to. It serves again if its size is the one known here: a larger one has bytes to be
 * checked each time, and a policy of NULL stands for none. */
typedef struct hr_local_limit {
    hirate_limit value;
    hr_policy policy;
} hr_local_limit;

/* Those last used: by the place of each among a request's limits, and behind them a permit's. */
enum { HR_LOCAL_LIMITS = HIRATE_PAIRS_MAX + 1, HR_LOCAL_PERMIT = HIRATE_PAIRS_MAX };

struct hirate_local {
    hr_local_table table;
    hr_local_limit limits[HR_LOCAL_LIMITS];
    unsigned char last_id[HR_HOLD_ID_SIZE]; /* of a lease or reservation: a count and a random seed */
    /* What the last result points to: */
    hirate_limit_result results[HIRATE_PAIRS_MAX];
    char *permits; /* room for permit_room of HIRATE_PERMIT_SIZE each */
    size_t permit_room;
};

/* Compile a limit for this place, unless it is the last one there again. NULL: HIRATE_EINVAL. */
const hr_policy *hr_local_use_limit(hirate_local *local, size_t place, const hirate_limit *limit, hirate_error *error);

/* HIRATE_ESTATE if the entry, which may be NULL, is of another kind than the policy. */
int hr_local_check_kind(const hr_local_entry *entry, const hr_policy *policy, hirate_error *error);

/* What hr_local_table_add() or a reservation of memory could not do, in words; returns `rc`. */
int hr_local_fail(const hirate_local *local, int rc, hirate_error *error);

/* A release, renewal, commit or refund at result->time_us. 0 with the rest of *result filled in, or HIRATE_EINVAL,
 * HIRATE_ENOENT, HIRATE_ESTATE, HIRATE_EOVERLOAD or HIRATE_ENOMEM with nothing changed. */
int hr_local_permit_decide(hirate_local *local, const hirate_request *request, hirate_result *result,
                           hirate_error *error);

#endif
