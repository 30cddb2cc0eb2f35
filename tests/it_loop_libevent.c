/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients on libevent, over a real server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/event.h>
#include <hirate/adapters/libevent.h>

#include "support/scenario.h"

static void turn(void *base)
{
    assert_true(event_base_loop(base, EVLOOP_ONCE) >= 0);
}

static void run_on(struct event_base *base)
{
    scenario s = {.redis = server_start(NULL), .turn = turn, .base = base};
    assert_int_equal(hirate_libevent(&s.loop, base), 0);
    scenario_run_all(&s);
    server_stop(s.redis);
    /* Nothing of ours is left: the loop has nothing to wait for. */
    assert_int_equal(event_base_dispatch(base), 1);
}

static void test_loop_libevent_carries_clients(void **state)
{
    (void)state;
    struct event_base *base = event_base_new();
    assert_non_null(base);
    run_on(base);
    event_base_free(base);
}

static void test_loop_libevent_with_priorities_carries_clients(void **state)
{
    (void)state;
    struct event_base *base = event_base_new();
    assert_non_null(base);
    assert_int_equal(event_base_priority_init(base, 4), 0);
    run_on(base);
    event_base_free(base);
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_libevent_carries_clients),
        cmocka_unit_test(test_loop_libevent_with_priorities_carries_clients),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    libevent_global_shutdown();
    return failed;
}
