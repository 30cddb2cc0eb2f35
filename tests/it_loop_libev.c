/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients on libev, over a real server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ev.h>
#include <hirate/adapters/libev.h>

#include "support/scenario.h"

static void turn(void *base)
{
    ev_run(base, EVRUN_ONCE);
}

static void test_loop_libev_carries_clients(void **state)
{
    (void)state;
    struct ev_loop *ev = ev_loop_new(EVFLAG_AUTO);
    assert_non_null(ev);
    scenario s = {.redis = server_start(NULL), .turn = turn, .base = ev};
    assert_int_equal(hirate_libev(&s.loop, ev), 0);
    scenario_run_all(&s);
    server_stop(s.redis);
    ev_run(ev, 0); /* returns, as nothing of ours is left to wait for */
    assert_int_equal(ev_pending_count(ev), 0);
    ev_loop_destroy(ev);
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_libev_carries_clients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
