/* SPDX-License-Identifier: BSD-3-Clause */
/* Clients on the epoll loop, over a real server: by itself, and inside somebody else's poll(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <hirate/adapters/epoll.h>

#include "support/driver.h"
#include "support/scenario.h"

#include <poll.h>
#include <string.h>

static void turn_in_poll(void *base)
{
    struct pollfd wait = {.fd = hirate_epoll_fd(base), .events = POLLIN};
    assert_true(poll(&wait, 1, DRIVER_PATIENCE_MS) == 1);
    assert_true(hirate_epoll_process(base) >= 0);
}

static void test_loop_epoll_inside_poll_carries_clients(void **state)
{
    (void)state;
    hirate_epoll_loop *ep = NULL;
    assert_int_equal(hirate_epoll_new(&ep), 0);
    scenario s = {.redis = server_start(NULL), .turn = turn_in_poll, .base = ep};
    assert_int_equal(hirate_epoll(&s.loop, ep), 0);
    scenario_run_all(&s);
    server_stop(s.redis);
    /* Nothing of ours is left: the descriptor falls silent. */
    struct pollfd wait = {.fd = hirate_epoll_fd(ep), .events = POLLIN};
    for (int i = 0; i < 3; i++)
        assert_true(hirate_epoll_process(ep) >= 0);
    assert_int_equal(poll(&wait, 1, 100), 0);
    hirate_epoll_free(ep);
}

typedef struct run {
    hirate_epoll_loop *ep;
    int called, allowed, closed;
} run;

static void stop_when_closed(void *user)
{
    run *r = user;
    r->closed++;
    hirate_epoll_stop(r->ep);
}

static void close_after_last(hirate *h, const hirate_result *result, void *user)
{
    run *r = user;
    r->allowed += result->verdict == HIRATE_ALLOWED;
    if (++r->called == 21)
        assert_int_equal(hirate_close(h, stop_when_closed, r), 0);
}

static void test_loop_epoll_run_until_stopped_carries_clients(void **state)
{
    (void)state;
    static const hirate_limit logins = HIRATE_TOKEN_BUCKET("login", 20, HIRATE_RATE(1, HIRATE_SECONDS(3)));
    server *redis = server_start(NULL);
    run r = {0};
    hirate_loop loop;
    hirate_options options;
    hirate *h = NULL;
    assert_int_equal(hirate_epoll_new(&r.ep), 0);
    assert_int_equal(hirate_epoll(&loop, r.ep), 0);
    hirate_options_init(&options);
    options.uri = server_uri(redis);
    options.deadline_ms = DRIVER_PATIENCE_MS / 2;
    assert_int_equal(hirate_new(&h, &loop, &options), 0);
    for (int i = 0; i < 21; i++)
        assert_int_equal(hirate_acquire(h, &logins, "n", 1, 1, close_after_last, &r), 0);
    assert_int_equal(r.called, 0);
    assert_int_equal(hirate_epoll_run(r.ep), 0);
    assert_int_equal(r.called, 21);
    assert_int_equal(r.allowed, 20);
    assert_int_equal(r.closed, 1);
    hirate_epoll_free(r.ep);
    server_stop(redis);
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_epoll_inside_poll_carries_clients),
        cmocka_unit_test(test_loop_epoll_run_until_stopped_carries_clients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
