/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A server that does not know the script: what was refused is sent again, nothing is charged twice, however many calls
 * were under way, and where an ACL lets nobody load scripts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A day for a token: none comes back during a test. */
static const hirate_limit HUNDRED = HIRATE_TOKEN_BUCKET("hundred", 100, HIRATE_RATE(1, HIRATE_DAYS(1)));

enum { MANY = 1000 };

static server *redis;
static answer answers[MANY];

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

static int forget(void **state)
{
    (void)state;
    server_ask(redis, "FLUSHALL");
    server_ask(redis, "SCRIPT FLUSH");
    server_ask(redis, "CONFIG RESETSTAT");
    memset(answers, 0, sizeof answers);
    return 0;
}

static int64_t bodies_sent(void)
{
    return server_info(redis, "commandstats", "cmdstat_eval") + server_info(redis, "commandstats", "cmdstat_script") +
           server_info(redis, "commandstats", "cmdstat_script|load");
}

static void expect_all_answered(size_t n, size_t allowed)
{
    size_t passed = 0;
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(answers[i].calls, 1);
        assert_int_equal(answers[i].result.error, HIRATE_OK);
        passed += answers[i].result.verdict == HIRATE_ALLOWED;
        assert_int_equal(answers[i].result.charge,
                         answers[i].result.verdict == HIRATE_ALLOWED ? HIRATE_CHARGE_YES : HIRATE_CHARGE_NO);
    }
    assert_int_equal(passed, allowed);
}

static void test_noscript_thousand_at_first_use_hundred_pass(void **state)
{
    (void)state;
    driver d;
    driver_open(&d, server_uri(redis));
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(driver_acquire(&d, &answers[i], &HUNDRED, "one", 1), 0);
    assert_true(driver_wait(&d, MANY));
    expect_all_answered(MANY, 100);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(answers[i].result.verdict, i < 100 ? HIRATE_ALLOWED : HIRATE_DENIED);
    assert_true(bodies_sent() <= 8);
    driver_close(&d);
}

/* One key a call and as many calls under way as there may be: every one of them is refused. */
static void open_deep(driver *d, const char *uri)
{
    hirate_options options;
    hirate_options_init(&options);
    options.uri = uri;
    options.deadline_ms = DRIVER_PATIENCE_MS / 2;
    options.max_calls = 64;
    options.max_call_keys = 1;
    driver_open_with(d, &options, NULL);
}

static void submit_names(driver *d, size_t n, size_t names)
{
    for (size_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "n%zu", i % names);
        assert_int_equal(driver_acquire(d, &answers[i], &HUNDRED, name, 30), 0);
    }
}

static void test_noscript_deep_pipeline_charges_each_once(void **state)
{
    (void)state;
    driver d;
    open_deep(&d, server_uri(redis));
    submit_names(&d, MANY, MANY / 5);
    assert_true(driver_wait(&d, MANY));
    expect_all_answered(MANY, MANY / 5 * 3); /* five of 30 for each name, of 100 */
    assert_true(bodies_sent() <= 70);        /* at most what was under way when the first refusal came */
    driver_close(&d);
}

static void test_noscript_flushed_under_load_charges_each_once(void **state)
{
    (void)state;
    driver d;
    open_deep(&d, server_uri(redis));
    int rounds = driver_slow() ? 5 : 40;
    for (int round = 0; round < rounds; round++) {
        memset(answers, 0, sizeof answers);
        size_t before = d.called;
        submit_names(&d, MANY, MANY / 5);
        for (size_t share = 1; share <= 4; share++) {
            while (d.called - before < MANY * share / 5)
                driver_turn(&d, 100);
            server_ask(redis, "SCRIPT FLUSH");
        }
        assert_true(driver_wait(&d, before + MANY));
        expect_all_answered(MANY, MANY / 5 * 3);
        server_ask(redis, "FLUSHALL");
    }
    driver_close(&d);
}

static void test_noscript_series_with_a_reset_is_sent_again_whole(void **state)
{
    (void)state;
    driver d;
    answer fresh = {0}, reset = {0}, after = {0};
    driver_open(&d, server_uri(redis));
    assert_int_equal(driver_acquire(&d, &fresh, &HUNDRED, "ordered", 60), 0);
    assert_true(driver_wait(&d, 1));
    assert_int_equal(fresh.result.remaining, 40);
    driver_close(&d);
    /* The whole series meets a server without the script and is sent again, in whatever order. */
    server_ask(redis, "SCRIPT FLUSH");
    driver_open(&d, server_uri(redis));
    assert_int_equal(driver_acquire(&d, &fresh, &HUNDRED, "ordered", 60), 0);
    assert_int_equal(driver_reset(&d, &reset, &HUNDRED, "ordered"), 0);
    assert_int_equal(driver_acquire(&d, &after, &HUNDRED, "ordered", 60), 0);
    assert_true(driver_wait(&d, 3));
    assert_int_equal(fresh.result.error | reset.result.error | after.result.error, 0);
    assert_int_equal(reset.result.used, 1);
    driver_close(&d);
}

static void restricted(const char *user, const char *rules)
{
    server_ask(redis, "ACL SETUSER %s reset on >pw ~hirate:* %s", user, rules);
}

static void acl_user_is_served(const char *user)
{
    char uri[256];
    driver d;
    snprintf(uri, sizeof uri, "unix://%s:pw@%s", user, server_path(redis));
    driver_open(&d, uri);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(driver_acquire(&d, &answers[i], &HUNDRED, "guarded", 1), 0);
    assert_true(driver_wait(&d, MANY));
    expect_all_answered(MANY, 100);
    answer again = {0}, reset = {0}; /* a bucket that is there already, and one that is deleted */
    driver_ask(&d, &again, &HUNDRED, "guarded", 1);
    assert_int_equal(again.result.verdict, HIRATE_DENIED);
    assert_int_equal(driver_reset(&d, &reset, &HUNDRED, "guarded"), 0);
    assert_true(driver_wait(&d, MANY + 2));
    assert_int_equal(reset.result.used, 1);
    driver_close(&d);
}

/* What the script itself runs must be granted too: an ACL applies within scripts. */
#define SCRIPT_NEEDS "+time +mget +exists +set +psetex +del" /* as README.md says */

static void test_noscript_acl_without_script_command_works(void **state)
{
    (void)state;
    restricted("narrow", "+evalsha +eval " SCRIPT_NEEDS);
    acl_user_is_served("narrow");
}

static void test_noscript_acl_everything_but_script_works(void **state)
{
    (void)state;
    restricted("wide", "+@all -script -role -client -info -hello");
    acl_user_is_served("wide");
}

static void test_noscript_acl_without_eval_is_an_error_not_a_loop(void **state)
{
    (void)state;
    char uri[256];
    driver d;
    answer a = {0};
    restricted("barred", "+evalsha " SCRIPT_NEEDS);
    snprintf(uri, sizeof uri, "unix://barred:pw@%s", server_path(redis));
    hirate_options options;
    hirate_options_init(&options);
    options.uri = uri;
    options.deadline_ms = 1000;
    driver_open_with(&d, &options, NULL);
    assert_int_equal(driver_acquire(&d, &a, &HUNDRED, "barred", 1), 0);
    assert_true(driver_wait(&d, 1));
    assert_int_equal(a.result.error, HIRATE_EAUTH);
    assert_int_equal(a.result.verdict, HIRATE_VERDICT_NONE);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_NO);
    assert_true(strlen(a.reason) > 0);
    assert_null(strstr(a.reason, "pw"));
    assert_true(server_info(redis, "commandstats", "cmdstat_evalsha") < 100);
    driver_close(&d);
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_noscript_thousand_at_first_use_hundred_pass, forget),
        cmocka_unit_test_setup(test_noscript_deep_pipeline_charges_each_once, forget),
        cmocka_unit_test_setup(test_noscript_flushed_under_load_charges_each_once, forget),
        cmocka_unit_test_setup(test_noscript_series_with_a_reset_is_sent_again_whole, forget),
        cmocka_unit_test_setup(test_noscript_acl_without_script_command_works, forget),
        cmocka_unit_test_setup(test_noscript_acl_everything_but_script_works, forget),
        cmocka_unit_test_setup(test_noscript_acl_without_eval_is_an_error_not_a_loop, forget),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
