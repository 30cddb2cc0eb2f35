/* SPDX-License-Identifier: BSD-3-Clause */
/* What a connection says first: credentials and the database, on every reconnect; and never a password to anybody
 * else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/server.h"

#include <stdio.h>
#include <string.h>

static const hirate_limit LIMIT = HIRATE_TOKEN_BUCKET("greeted", 10, HIRATE_RATE(1, HIRATE_DAYS(1)));

#define SECRET "s3cret:@/?#%"
#define SECRET_IN_URI "s3cret%3A%40%2F%3F%23%25"

static server *redis;

static int start(void **state)
{
    (void)state;
    redis = server_start(&(server_options){.tcp = true, .password = SECRET});
    return 0;
}

static int stop(void **state)
{
    (void)state;
    server_stop(redis);
    return 0;
}

static void expect_key(int db, const char *name, int exists)
{
    server_ask(redis, "SELECT %d", db);
    assert_int_equal(server_ask_int(redis, "EXISTS hirate:greeted:%s", name), exists);
    server_ask(redis, "SELECT 0");
}

/* Take one of `name`, be cut off, take another: both count in database `db`, and in no other. */
static void served_across_reconnect(const char *uri, const char *name, int db)
{
    driver d;
    answer a;
    driver_open(&d, uri);
    driver_ask(&d, &a, &LIMIT, name, 1);
    assert_int_equal(a.result.error, HIRATE_OK);
    assert_int_equal(a.result.remaining, 9);
    server_ask(redis, "CLIENT KILL TYPE normal SKIPME yes");
    driver_run_for(&d, 300);
    driver_ask(&d, &a, &LIMIT, name, 1);
    assert_int_equal(a.result.error, HIRATE_OK);
    assert_int_equal(a.result.remaining, 8);
    expect_key(db, name, 1);
    expect_key(db ? 0 : 7, name, 0);
    driver_close(&d);
}

static void test_greeting_password_alone(void **state)
{
    (void)state;
    char uri[256];
    snprintf(uri, sizeof uri, "unix://:%s@%s", SECRET_IN_URI, server_path(redis));
    served_across_reconnect(uri, "alone", 0);
}

static void test_greeting_user_password_and_database_over_unix(void **state)
{
    (void)state;
    char uri[256];
    server_ask(redis, "ACL SETUSER lim:iter reset on >%s ~* +@all", SECRET);
    snprintf(uri, sizeof uri, "unix://lim%%3Aiter:%s@%s?db=7", SECRET_IN_URI, server_path(redis));
    served_across_reconnect(uri, "user", 7);
}

static void test_greeting_user_password_and_database_over_tcp(void **state)
{
    (void)state;
    char uri[256];
    server_ask(redis, "ACL SETUSER limiter reset on >%s ~* +@all", SECRET);
    snprintf(uri, sizeof uri, "redis://limiter:%s@127.0.0.1:%d/3", SECRET_IN_URI, server_port(redis));
    served_across_reconnect(uri, "tcp", 3);
}

static void expect_refused(const char *uri, const char *secret)
{
    driver d;
    answer a = {0};
    hirate_options options;
    hirate_options_init(&options);
    options.uri = uri;
    options.deadline_ms = 500;
    driver_open_with(&d, &options, NULL);
    int64_t connections = server_info(redis, "stats", "total_connections_received");
    for (int i = 0; i < 3; i++) {
        driver_ask(&d, &a, &LIMIT, "refused", 1);
        assert_int_equal(a.result.error, HIRATE_EAUTH);
        assert_int_equal(a.result.verdict, HIRATE_VERDICT_NONE);
        assert_int_equal(a.result.charge, HIRATE_CHARGE_NO);
        assert_true(strlen(a.reason) > 0);
        if (secret)
            assert_null(strstr(a.reason, secret));
        assert_null(strstr(a.reason, "refused"));
    }
    /* Backing off: half a second and more allows for a handful of attempts. */
    driver_run_for(&d, 500);
    assert_true(server_info(redis, "stats", "total_connections_received") - connections < 60);
    driver_close(&d);
}

static void test_greeting_wrong_password_is_refused_and_not_told(void **state)
{
    (void)state;
    char uri[256];
    snprintf(uri, sizeof uri, "unix://:wr0ngpass@%s", server_path(redis));
    expect_refused(uri, "wr0ngpass");
    snprintf(uri, sizeof uri, "unix://nobody:wr0ngpass@%s", server_path(redis));
    expect_refused(uri, "wr0ngpass");
}

static void test_greeting_no_password_is_refused(void **state)
{
    (void)state;
    expect_refused(server_uri(redis), NULL);
}

static void test_greeting_database_out_of_range_is_refused(void **state)
{
    (void)state;
    char uri[256];
    snprintf(uri, sizeof uri, "unix://:%s@%s?db=4711", SECRET_IN_URI, server_path(redis));
    expect_refused(uri, SECRET);
}

static void test_greeting_right_password_later_recovers(void **state)
{
    (void)state;
    char uri[256];
    driver d;
    answer a;
    server_ask(redis, "ACL SETUSER late reset on >old ~* +@all");
    snprintf(uri, sizeof uri, "unix://late:new@%s", server_path(redis));
    hirate_options options;
    hirate_options_init(&options);
    options.uri = uri;
    options.deadline_ms = 300;
    driver_open_with(&d, &options, NULL);
    driver_ask(&d, &a, &LIMIT, "late", 1);
    assert_int_equal(a.result.error, HIRATE_EAUTH);
    server_ask(redis, "ACL SETUSER late >new");
    int64_t end = driver_now_ms() + DRIVER_PATIENCE_MS;
    while (a.result.error && driver_now_ms() < end)
        driver_ask(&d, &a, &LIMIT, "late", 1);
    assert_int_equal(a.result.error, HIRATE_OK);
    assert_int_equal(a.result.remaining, 9);
    driver_close(&d);
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greeting_password_alone),
        cmocka_unit_test(test_greeting_user_password_and_database_over_unix),
        cmocka_unit_test(test_greeting_user_password_and_database_over_tcp),
        cmocka_unit_test(test_greeting_wrong_password_is_refused_and_not_told),
        cmocka_unit_test(test_greeting_no_password_is_refused),
        cmocka_unit_test(test_greeting_database_out_of_range_is_refused),
        cmocka_unit_test(test_greeting_right_password_later_recovers),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
