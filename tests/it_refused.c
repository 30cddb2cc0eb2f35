/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls that are refused: what is wrong is named, nothing is charged, no callback comes; and too much at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/server.h"

#include <string.h>

static const hirate_limit LIMIT = HIRATE_TOKEN_BUCKET("refused", 100000, HIRATE_RATE(1, HIRATE_HOURS(1)));

static server *redis;

static int start(void **state)
{
    (void)state;
    redis = server_start(NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    server_stop(redis);
    return 0;
}

static void ignore(hirate *h, const hirate_result *result, void *user)
{
    (void)h;
    (void)result;
    ++*(int *)user;
}

static int called;

static hirate_request good_request(void)
{
    hirate_request request;
    hirate_request_init(&request);
    request.limit = &LIMIT;
    request.name = "n";
    request.name_len = 1;
    request.cb = ignore;
    request.user = &called;
    return request;
}

static void refused(driver *d, const hirate_request *request, const char *field)
{
    uint64_t id = 4711;
    assert_int_equal(hirate_submit(d->h, request, &id), HIRATE_EINVAL);
    const char *text = hirate_last_error(d->h);
    if (!strstr(text, field))
        print_error("expected '%s' to be named in '%s'\n", field, text);
    assert_non_null(strstr(text, field));
    assert_null(strchr(text, '\n'));
    assert_int_equal(id, 4711);
}

static void test_refused_request_field_is_named(void **state)
{
    (void)state;
    static char long_name[HIRATE_NAME_MAX + 1];
    driver d;
    hirate_request r;
    called = 0;
    driver_open(&d, server_uri(redis));
    assert_string_equal(hirate_last_error(d.h), "");
    r = good_request(), r.name = long_name, r.name_len = sizeof long_name;
    refused(&d, &r, "name");
    r = good_request(), r.name = NULL;
    refused(&d, &r, "name");
    r = good_request(), r.cb = NULL;
    refused(&d, &r, "cb");
    r = good_request(), r.cost = HIRATE_COST_MAX + 1;
    refused(&d, &r, "cost");
    r = good_request(), r.cost = UINT64_MAX;
    refused(&d, &r, "cost");
    r = good_request(), r.limit = NULL;
    refused(&d, &r, "limit");
    r = good_request(), r.op = HIRATE_OP_INVALID;
    refused(&d, &r, "op");
    r = good_request(), r.op = (enum hirate_op)99;
    refused(&d, &r, "op");
    r = good_request(), r.deadline_ms = -1;
    refused(&d, &r, "deadline");
    r = good_request(), r.deadline_ms = 86400001;
    refused(&d, &r, "deadline");
    r = good_request(), r.struct_size = 0;
    refused(&d, &r, "size");
    r = good_request(), r.version = 0;
    refused(&d, &r, "version");
    r = good_request(), r.version = 99;
    refused(&d, &r, "version");
    assert_int_equal(hirate_submit(d.h, NULL, NULL), HIRATE_EINVAL);
    driver_close(&d);
    assert_int_equal(called, 0);
}

static void refused_limit(driver *d, const hirate_limit *limit, const char *field)
{
    hirate_request request = good_request();
    request.limit = limit;
    refused(d, &request, field);
}

static void test_refused_limit_field_is_named(void **state)
{
    (void)state;
    driver d;
    hirate_limit l;
    char long_policy[HIRATE_POLICY_MAX + 2];
    memset(long_policy, 'p', sizeof long_policy - 1);
    long_policy[sizeof long_policy - 1] = '\0';
    called = 0;
    driver_open(&d, server_uri(redis));
    l = LIMIT, l.policy = NULL;
    refused_limit(&d, &l, "policy");
    l = LIMIT, l.policy = "";
    refused_limit(&d, &l, "policy");
    l = LIMIT, l.policy = "a:b";
    refused_limit(&d, &l, "policy");
    l = LIMIT, l.policy = long_policy;
    refused_limit(&d, &l, "policy");
    l = LIMIT, l.capacity = (UINT64_C(1) << 52) + 1;
    refused_limit(&d, &l, "capacity");
    l = LIMIT, l.rate.tokens = 0;
    refused_limit(&d, &l, "rate");
    l = LIMIT, l.rate.period_us = 0;
    refused_limit(&d, &l, "rate");
    l = LIMIT, l.kind = 77;
    refused_limit(&d, &l, "kind");
    l = LIMIT, l.struct_size = 3;
    refused_limit(&d, &l, "size");
    l = LIMIT, l.version = 77;
    refused_limit(&d, &l, "version");
    l = LIMIT, l.reserved[2] = 1;
    refused_limit(&d, &l, "reserved");
    driver_close(&d);
    assert_int_equal(called, 0);
}

static void refused_options(const hirate_options *options, const char *field, const char *secret)
{
    driver d;
    hirate *h = NULL;
    hirate_error error = {0};
    driver_open(&d, server_uri(redis));
    assert_int_equal(hirate_options_check(options, &error), HIRATE_EINVAL);
    assert_int_equal(error.code, HIRATE_EINVAL);
    if (!strstr(error.text, field))
        print_error("expected '%s' to be named in '%s'\n", field, error.text);
    assert_non_null(strstr(error.text, field));
    if (secret)
        assert_null(strstr(error.text, secret));
    assert_int_equal(hirate_new(&h, &d.loop, options), HIRATE_EINVAL);
    assert_null(h);
    driver_close(&d);
}

static void test_refused_option_is_named(void **state)
{
    (void)state;
    hirate_options base, o;
    hirate_options_init(&base);
    assert_int_equal(hirate_options_check(&base, NULL), 0);
    assert_int_equal(hirate_options_check(NULL, NULL), 0);
    static const char *const uris[] = {
        "",        "http://x",        "redis://h:0",         "redis://h:65536",     "redis://h/db", "redis://[::1",
        "unix://", "unix://relative", "redis://user:p%zz@h", "redis://:hush@h:port"};
    for (size_t i = 0; i < sizeof uris / sizeof *uris; i++) {
        o = base, o.uri = uris[i];
        refused_options(&o, "uri", "hush");
    }
    o = base, o.prefix = "a b";
    refused_options(&o, "prefix", NULL);
    o = base, o.prefix = "";
    refused_options(&o, "prefix", NULL);
    o = base, o.deadline_ms = 0;
    refused_options(&o, "deadline_ms", NULL);
    o = base, o.deadline_ms = 86400001;
    refused_options(&o, "deadline_ms", NULL);
    o = base, o.connect_timeout_ms = 0;
    refused_options(&o, "connect_timeout_ms", NULL);
    o = base, o.stall_timeout_ms = -1;
    refused_options(&o, "stall_timeout_ms", NULL);
    o = base, o.max_pending = 0;
    refused_options(&o, "max_pending", NULL);
    o = base, o.max_pending = 4194305;
    refused_options(&o, "max_pending", NULL);
    o = base, o.max_calls = 65;
    refused_options(&o, "max_calls", NULL);
    o = base, o.max_call_keys = 257;
    refused_options(&o, "max_call_keys", NULL);
    o = base, o.max_call_acquires = 1025;
    refused_options(&o, "max_call_acquires", NULL);
    o = base, o.version = 99;
    refused_options(&o, "version", NULL);
    o = base, o.struct_size = 2;
    refused_options(&o, "size", NULL);
}

static void test_refused_loop_is_an_error(void **state)
{
    (void)state;
    driver d;
    hirate *h = NULL;
    driver_open(&d, server_uri(redis));
    hirate_loop loop = d.loop;
    assert_int_equal(hirate_new(NULL, &loop, NULL), HIRATE_EINVAL);
    assert_int_equal(hirate_new(&h, NULL, NULL), HIRATE_EINVAL);
    loop.version = 99;
    assert_int_equal(hirate_new(&h, &loop, NULL), HIRATE_EINVAL);
    loop = d.loop, loop.timer_new = NULL;
    assert_int_equal(hirate_new(&h, &loop, NULL), HIRATE_EINVAL);
    assert_null(h);
    driver_close(&d);
}

/* ---------------------------------------------------------------------------------------------- too much at once -- */

enum { ROOM = 1000 };

static void test_refused_past_max_pending_and_room_is_told(void **state)
{
    (void)state;
    static answer a[ROOM], more;
    driver d;
    hirate_options options;
    hirate_stats stats;
    hirate_options_init(&options);
    options.uri = server_uri(redis);
    options.deadline_ms = DRIVER_PATIENCE_MS / 2;
    options.max_pending = ROOM;
    driver_open_with(&d, &options, NULL);
    for (int round = 0; round < 3; round++) {
        memset(a, 0, sizeof a);
        size_t before = d.called, rooms = d.rooms;
        for (int i = 0; i < ROOM; i++)
            assert_int_equal(driver_acquire(&d, &a[i], &LIMIT, "many", 1), 0);
        for (int i = 0; i < 10; i++)
            assert_int_equal(driver_acquire(&d, &more, &LIMIT, "many", 1), HIRATE_EOVERLOAD);
        assert_int_equal(d.rooms, rooms);
        hirate_stats_init(&stats);
        hirate_get_stats(d.h, &stats);
        assert_int_equal(stats.pending, ROOM);
        assert_int_equal(stats.refused, 10 * (round + 1));
        assert_int_equal(stats.submitted, stats.answered + stats.pending);
        assert_true(driver_wait(&d, before + ROOM));
        driver_run_for(&d, 5);
        assert_int_equal(d.rooms, rooms + 1); /* once for the whole episode */
        for (int i = 0; i < ROOM; i++)
            assert_int_equal(a[i].result.verdict, HIRATE_ALLOWED);
    }
    hirate_get_stats(d.h, &stats);
    assert_int_equal(stats.submitted, 3 * ROOM);
    assert_int_equal(stats.answered, 3 * ROOM);
    assert_int_equal(stats.pending, 0);
    assert_int_equal(stats.allowed, 3 * ROOM);
    assert_int_equal(more.calls, 0);
    driver_close(&d);
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_request_field_is_named),
        cmocka_unit_test(test_refused_limit_field_is_named),
        cmocka_unit_test(test_refused_option_is_named),
        cmocka_unit_test(test_refused_loop_is_an_error),
        cmocka_unit_test(test_refused_past_max_pending_and_room_is_told),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
