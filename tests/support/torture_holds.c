/* SPDX-License-Identifier: BSD-3-Clause */
/* Test support: the part of a tortured client's life that holds something (see torture_run.h). */
#include "torture_run.h"

#include <stdio.h>
#include <string.h>

enum { SEVERAL = 3, LEASED = 2, RESERVED = 4, COMMITTED = 6, CANCELED = 1 };

static const hirate_limit SLOTS = HIRATE_CONCURRENCY("torture-slots", 100, HIRATE_HOURS(1));
static const hirate_limit MONTH = HIRATE_QUOTA("torture-month", 100, HIRATE_PER_MONTH, 0);

/* ------------------------------------------------------------------------------------------ what becomes of it -- */

static void add(span *s, enum hirate_charge charge, uint64_t amount)
{
    s->least += charge == HIRATE_CHARGE_YES ? amount : 0;
    s->most += charge == HIRATE_CHARGE_NO ? 0 : amount;
}

static void heard_several(run *r, const hirate_result *result)
{
    add(&r->leased, result->charge, SEVERAL);
    add(&r->used, result->charge, SEVERAL);
}

static void heard_canceled(run *r, const hirate_result *result)
{
    add(&r->leased, result->charge, CANCELED);
}

static void heard_lease(run *r, const hirate_result *result)
{
    add(&r->leased, result->charge, LEASED);
    strcpy(r->lease, result->permit);
    if ((result->charge == HIRATE_CHARGE_YES) != (r->lease[0] != 0))
        torture_complain(r, "a lease without a permit, or the other way round");
}

static void heard_reservation(run *r, const hirate_result *result)
{
    add(&r->reserved, result->charge, RESERVED);
    strcpy(r->reservation, result->permit);
    if ((result->charge == HIRATE_CHARGE_YES) != (r->reservation[0] != 0))
        torture_complain(r, "a reservation without a permit, or the other way round");
}

/* With an error it may be released all the same. */
static void heard_release(run *r, const hirate_result *result)
{
    r->leased.least -= LEASED;
    r->leased.most -= result->error ? 0 : LEASED;
    if (!result->error && !result->used)
        torture_complain(r, "a lease that was told is gone");
}

static void heard_commit(run *r, const hirate_result *result)
{
    if (result->charge != HIRATE_CHARGE_NO)
        r->reserved.least -= RESERVED;
    if (result->charge == HIRATE_CHARGE_YES)
        r->reserved.most -= RESERVED;
    add(&r->used, result->charge, COMMITTED);
    if (result->error == HIRATE_ENOENT)
        torture_complain(r, "a reservation that was told is gone");
}

/* ------------------------------------------------------------------------------------------------- submitting -- */

static hirate_request on(const run *r, const hirate_limit *limit, uint64_t cost)
{
    hirate_request request;

    hirate_request_init(&request);
    request.limit = limit;
    request.name = r->names[0];
    request.name_len = strlen(r->names[0]);
    request.cost = cost;
    return request;
}

static void submit_several(run *r)
{
    hirate_request request = on(r, &TORTURE_TOKENS, SEVERAL);
    const hirate_pair more[] = {{&SLOTS, request.name, request.name_len}, {&MONTH, request.name, request.name_len}};

    request.more = more;
    request.more_count = 2;
    torture_submit(r, &request, 0, heard_several, NULL);
}

static void use_permits(run *r)
{
    hirate_request request;

    hirate_request_init(&request);
    request.op = HIRATE_OP_RELEASE;
    request.permit = r->lease;
    if (r->lease[0])
        torture_submit(r, &request, -1, heard_release, NULL);
    request.op = HIRATE_OP_COMMIT;
    request.permit = r->reservation;
    request.cost = COMMITTED;
    if (r->reservation[0])
        torture_submit(r, &request, -1, heard_commit, NULL);
}

static void cancel_lease(run *r)
{
    hirate_request request = on(r, &SLOTS, CANCELED);
    uint64_t id;

    if (!torture_submit(r, &request, -1, heard_canceled, &id))
        return;
    torture_turn(r, 0);
    hirate_cancel(r->h, id);
}

void torture_hold(run *r)
{
    hirate_request lease = on(r, &SLOTS, LEASED), reservation = on(r, &MONTH, RESERVED);

    submit_several(r);
    torture_submit(r, &lease, -1, heard_lease, NULL);
    reservation.hold_us = (uint64_t)HIRATE_HOURS(1);
    torture_submit(r, &reservation, -1, heard_reservation, NULL);
    torture_wait(r);
    use_permits(r);
    cancel_lease(r);
    torture_wait(r);
}

void torture_hold_at_close(run *r)
{
    hirate_request request = on(r, &SLOTS, CANCELED);

    torture_submit(r, &request, -1, heard_canceled, NULL);
}

/* --------------------------------------------------------------------------------------------------- checking -- */

/* The double at an offset of what is stored of the run's name; 0: nothing is, or it is not so long. */
static uint64_t stored(run *r, const hirate_limit *limit, size_t at)
{
    char key[120];
    bytes state = {0};
    double value = 0;

    r->t->pause(true);
    snprintf(key, sizeof key, "hirate:%s:%s", limit->policy, r->names[0]);
    torture_ask(r, &state, 2, (const char *const[]){"GET", key});
    r->t->pause(true);
    if (state.len >= at + sizeof value)
        memcpy(&value, state.data + at, sizeof value);
    bytes_free(&state);
    r->t->pause(false);
    return (uint64_t)value;
}

static void check(run *r, const char *what, uint64_t have, const span *told)
{
    if (have < told->least || have > told->most)
        torture_complain(r, "%s: the server has %llu units, not %llu to %llu", what, (unsigned long long)have,
                         (unsigned long long)told->least, (unsigned long long)told->most);
}

/* Of concurrency `at` and held come behind the two bytes that begin every state; of a quota start, end, used and, where
 * something is reserved, held. */
void torture_check_held(run *r)
{
    check(r, "leases", stored(r, &SLOTS, 10), &r->leased);
    check(r, "quota, used", stored(r, &MONTH, 18), &r->used);
    check(r, "quota, reserved", stored(r, &MONTH, 26), &r->reserved);
}
