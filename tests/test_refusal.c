/* SPDX-License-Identifier: BSD-3-Clause */
/* What each error of a server means: plain, as an old server wraps it, and what only looks like one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "refusal.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO HIRATE_CHARGE_NO
#define MAYBE HIRATE_CHARGE_MAYBE

typedef struct row {
    const char *text; /* as Redis 7 says it; the first word is what counts unless it is ERR */
    enum hr_refusal_action action;
    int error;
} row;

static const row ROWS[] = {
    {"NOSCRIPT No matching script. Please use EVAL.", HR_REFUSAL_LOAD, HIRATE_EREDIS},
    {"LOADING Redis is loading the dataset in memory", HR_REFUSAL_WAIT, HIRATE_EREDIS},
    {"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", HR_REFUSAL_WAIT,
     HIRATE_EREDIS},
    {"TRYAGAIN Multiple keys request during rehashing of slot", HR_REFUSAL_WAIT, HIRATE_EREDIS},
    {"READONLY You can't write against a read only replica.", HR_REFUSAL_RECONNECT, HIRATE_EREDIS},
    {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", HR_REFUSAL_RECONNECT,
     HIRATE_EREDIS},
    {"NOAUTH Authentication required.", HR_REFUSAL_RECONNECT, HIRATE_EAUTH},
    {"WRONGPASS invalid username-password pair or user is disabled.", HR_REFUSAL_RECONNECT, HIRATE_EAUTH},
    {"NOPERM this user has no permissions to run the 'evalsha' command", HR_REFUSAL_ANSWER, HIRATE_EAUTH},
    {"ERR The user executing the script can't run this command or subcommand", HR_REFUSAL_ANSWER, HIRATE_EAUTH},
    {"ERR ACL failure in script: User app has no permissions to run the 'time' command script: 104ae65, on @user_script:1.",
     HR_REFUSAL_ANSWER, HIRATE_EAUTH},
    {"OOM command not allowed when used memory > 'maxmemory'.", HR_REFUSAL_ANSWER, HIRATE_EREDIS},
    {"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist: -disk.",
     HR_REFUSAL_ANSWER, HIRATE_EREDIS},
    {"NOREPLICAS Not enough good replicas to write.", HR_REFUSAL_ANSWER, HIRATE_EREDIS},
    {"MOVED 3999 127.0.0.1:6381", HR_REFUSAL_ANSWER, HIRATE_EREDIS},
    {"ASK 3999 127.0.0.1:6381", HR_REFUSAL_ANSWER, HIRATE_EREDIS},
    {"CROSSSLOT Keys in request don't hash to the same slot", HR_REFUSAL_ANSWER, HIRATE_EREDIS},
    {"CLUSTERDOWN Hash slot not served", HR_REFUSAL_ANSWER, HIRATE_EREDIS},
    {"WRONGTYPE Operation against a key holding the wrong kind of value", HR_REFUSAL_ANSWER, HIRATE_ESTATE},
    {"ERR unknown command `EVALSHA`, with args beginning with: ", HR_REFUSAL_ANSWER, HIRATE_EREDIS},
    {"ERR Unknown Redis command called from script", HR_REFUSAL_ANSWER, HIRATE_EREDIS},
    {"ERR Unknown Redis command called from Lua script", HR_REFUSAL_ANSWER, HIRATE_EREDIS},
    {"ERR This Redis command is not allowed from script", HR_REFUSAL_ANSWER, HIRATE_EREDIS},
    {"ERR This Redis command is not allowed from scripts", HR_REFUSAL_ANSWER, HIRATE_EREDIS},
    {"ERR max number of clients reached", HR_REFUSAL_RECONNECT, HIRATE_EREDIS},
    {"DENIED Redis is running in protected mode because protected mode is enabled", HR_REFUSAL_RECONNECT,
     HIRATE_EREDIS},
};
enum { ROW_COUNT = sizeof ROWS / sizeof ROWS[0] };

#define SHA "f_bfb2b4ab8c8c0d4a3e4fbc0a1cfbfe0f5d3a53f3"

/* In memory of just that length, so that reading on is noticed. */
static hr_refusal refusal_of(const char *text)
{
    size_t len = strlen(text);
    char *copy = malloc(len ? len : 1);

    assert_non_null(copy);
    memcpy(copy, text, len);
    hr_refusal refusal = hr_refusal_of(copy, len);
    free(copy);
    return refusal;
}

static void assert_refusal(const char *text, enum hr_refusal_action action, int error, enum hirate_charge charge)
{
    hr_refusal it = refusal_of(text);

    if (it.action != action || it.error != error || it.charge != charge)
        fail_msg("'%s' is action %d error %d charge %d; expected %d %d %d", text, (int)it.action, it.error,
                 (int)it.charge, (int)action, error, (int)charge);
}

static void assert_unlisted(const char *text)
{
    assert_refusal(text, HR_REFUSAL_ANSWER, HIRATE_EREDIS, MAYBE);
}

static bool has_code(const row *r)
{
    return strncmp(r->text, "ERR ", 4) != 0;
}

static void test_each_row_plain(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROW_COUNT; i++)
        assert_refusal(ROWS[i].text, ROWS[i].action, ROWS[i].error, NO);
}

static void test_each_code_alone(void **state)
{
    char code[32];

    (void)state;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (!has_code(&ROWS[i]))
            continue;
        (void)snprintf(code, sizeof code, "%.*s", (int)strcspn(ROWS[i].text, " "), ROWS[i].text);
        assert_refusal(code, ROWS[i].action, ROWS[i].error, NO);
    }
}

static void test_each_row_with_the_tail_of_redis_7(void **state)
{
    char text[400];

    (void)state;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        (void)snprintf(text, sizeof text, "%s script: bfb2b4ab8c8c0d4a3e4fbc0a1cfbfe0f5d3a53f3, on @user_script:12.",
                       ROWS[i].text);
        assert_refusal(text, ROWS[i].action, ROWS[i].error, NO);
    }
}

static void test_each_row_wrapped_with_its_code(void **state)
{
    char text[400];

    (void)state;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        (void)snprintf(text, sizeof text,
                       "ERR Error running script (call to " SHA "): @user_script:12: @user_script: 12: -%s",
                       ROWS[i].text);
        assert_refusal(text, ROWS[i].action, ROWS[i].error, NO);
    }
}

static void test_each_text_wrapped_without_a_code(void **state)
{
    char text[400];

    (void)state;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (has_code(&ROWS[i]) || strchr(ROWS[i].text, ':'))
            continue;
        (void)snprintf(text, sizeof text,
                       "ERR Error running script (call to " SHA "): @user_script:12: @user_script: 12: %s",
                       ROWS[i].text + 4);
        assert_refusal(text, ROWS[i].action, ROWS[i].error, NO);
    }
}

static void test_codes_are_whole_words(void **state)
{
    char text[64];

    (void)state;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (!has_code(&ROWS[i]))
            continue;
        int len = (int)strcspn(ROWS[i].text, " ");
        (void)snprintf(text, sizeof text, "%.*sX it is not", len, ROWS[i].text);
        assert_unlisted(text);
        (void)snprintf(text, sizeof text, "X%.*s it is not", len, ROWS[i].text);
        assert_unlisted(text);
        (void)snprintf(text, sizeof text, "%.*s it is not", len - 1, ROWS[i].text);
        assert_unlisted(text);
        (void)snprintf(text, sizeof text, "ERR %.*s it is not", len, ROWS[i].text);
        assert_unlisted(text);
    }
    assert_unlisted("BUSYKEY Target key name already exists.");
    assert_unlisted("BUSYGROUP Consumer Group name already exists");
    assert_unlisted("NOSCRIPTX");
    assert_unlisted("noscript No matching script.");
}

static void test_what_is_not_known_may_have_been_charged(void **state)
{
    (void)state;
    assert_unlisted("");
    assert_unlisted(" ");
    assert_unlisted("ERR");
    assert_unlisted("ERR ");
    assert_unlisted("ERR something new");
    assert_unlisted("UNKILLABLE Sorry the script already executed write commands");
    assert_unlisted("ERR Error running script");
    assert_unlisted("ERR Error running script (call to " SHA
                    "): @user_script:12: user_script:12: attempt to index nil");
    assert_unlisted("ERR Error running script (call to " SHA "): @user_script:12: @user_script: 12: -");
    assert_unlisted("ERR Error running script (call to " SHA "): @user_script:12: @user_script: 12: ");
    assert_unlisted("ERR Error running script (call to " SHA "): @user_script:12: @user_script: 12: -BUSYKEY no");
}

static void test_no_text_at_all_is_not_read(void **state)
{
    (void)state;
    hr_refusal it = hr_refusal_of(NULL, 0);
    assert_int_equal(it.action, HR_REFUSAL_ANSWER);
    assert_int_equal(it.charge, MAYBE);
}

static void expect_told(const char *text, const char *told)
{
    size_t len = strlen(text);
    const char *part = hr_refusal_text(text, &len);
    assert_int_equal(len, strlen(told));
    assert_memory_equal(part, told, len);
}

/* A server quotes the arguments of a command it does not know: a password, a name. */
static void test_refusal_text_is_without_what_the_server_quotes(void **state)
{
    (void)state;
    expect_told("ERR unknown command 'AUTH', with args beginning with: 's3cret' ", "ERR unknown command 'AUTH', ");
    expect_told("ERR unknown command `EVALSHA`, with args beginning with: `sha`, `1`, `hirate:login:me`, ",
                "ERR unknown command `EVALSHA`, ");
    expect_told("OOM command not allowed", "OOM command not allowed");
    expect_told("ERR Error running script (call to f_0): @user_script:12: -OOM command not allowed",
                "OOM command not allowed");
    expect_told("", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_row_plain),
        cmocka_unit_test(test_each_code_alone),
        cmocka_unit_test(test_each_row_with_the_tail_of_redis_7),
        cmocka_unit_test(test_each_row_wrapped_with_its_code),
        cmocka_unit_test(test_each_text_wrapped_without_a_code),
        cmocka_unit_test(test_codes_are_whole_words),
        cmocka_unit_test(test_what_is_not_known_may_have_been_charged),
        cmocka_unit_test(test_refusal_text_is_without_what_the_server_quotes),
        cmocka_unit_test(test_no_text_at_all_is_not_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
