/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said on a new connection, byte for byte, and what each answer to it means. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "link_greeting.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------- what is written -- */

/* A context that is only written into: a socket that listens and never answers stands behind it. */
typedef struct peer {
    int listener;
    redisAsyncContext *hiredis;
} peer;

static peer peer_open(void)
{
    char directory[] = "/tmp/hirate-greeting-XXXXXX";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    peer p;

    assert_non_null(mkdtemp(directory));
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s/s", directory);
    p.listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(p.listener, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(p.listener, 1), 0);
    p.hiredis = redisAsyncConnectUnix(address.sun_path);
    assert_non_null(p.hiredis);
    assert_int_equal(p.hiredis->err, 0);
    (void)unlink(address.sun_path);
    (void)rmdir(directory);
    return p;
}

static void peer_close(peer *p)
{
    redisAsyncFree(p->hiredis);
    (void)close(p->listener);
}

static void on_reply(redisAsyncContext *hiredis, void *reply, void *user)
{
    (void)hiredis;
    (void)reply;
    (void)user;
}

static hr_greeting assert_written(const hr_uri *uri, const char *expected, size_t len)
{
    peer p = peer_open();
    hr_greeting greeting;

    memset(&greeting, 0x5a, sizeof greeting);
    assert_int_equal(hr_greeting_write(&greeting, uri, p.hiredis, on_reply), 0);
    assert_int_equal(sdslen(p.hiredis->c.obuf), len);
    assert_memory_equal(p.hiredis->c.obuf, expected, len);
    peer_close(&p);
    return greeting;
}

#define ROLE "*1\r\n$4\r\nROLE\r\n"
#define TEXT(s) s, sizeof s - 1

static void test_without_credentials_only_role_is_asked(void **state)
{
    hr_uri uri = {0};

    (void)state;
    hr_greeting greeting = assert_written(&uri, TEXT(ROLE));
    assert_int_equal(hr_greeting_left(&greeting), 1);
    assert_int_equal(hr_greeting_next(&greeting), HR_GREETING_ROLE);
    assert_int_equal(hr_greeting_left(&greeting), 0);
    assert_int_equal(hr_greeting_next(&greeting), HR_GREETING_INVALID);
    assert_int_equal(hr_greeting_left(&greeting), 0);
}

static void test_all_three_are_asked_in_order(void **state)
{
    char user[] = "me", password[] = "a\0\r\nb";
    hr_uri uri = {.user = user, .user_len = 2, .password = password, .password_len = 5, .db = 2147483647};

    (void)state;
    hr_greeting greeting = assert_written(&uri, TEXT("*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$5\r\na\0\r\nb\r\n"
                                                     "*2\r\n$6\r\nSELECT\r\n$10\r\n2147483647\r\n" ROLE));
    assert_int_equal(hr_greeting_left(&greeting), 3);
    assert_int_equal(hr_greeting_next(&greeting), HR_GREETING_AUTH);
    assert_int_equal(hr_greeting_next(&greeting), HR_GREETING_SELECT);
    assert_int_equal(hr_greeting_next(&greeting), HR_GREETING_ROLE);
    assert_int_equal(hr_greeting_left(&greeting), 0);
}

static void test_password_alone_is_authenticated_without_user(void **state)
{
    char password[] = "";
    hr_uri uri = {.password = password};

    (void)state;
    hr_greeting greeting = assert_written(&uri, TEXT("*2\r\n$4\r\nAUTH\r\n$0\r\n\r\n" ROLE));
    assert_int_equal(hr_greeting_left(&greeting), 2);
    assert_int_equal(hr_greeting_next(&greeting), HR_GREETING_AUTH);
}

static void test_database_alone_is_selected(void **state)
{
    hr_uri uri = {.db = 7};

    (void)state;
    hr_greeting greeting = assert_written(&uri, TEXT("*2\r\n$6\r\nSELECT\r\n$1\r\n7\r\n" ROLE));
    assert_int_equal(hr_greeting_next(&greeting), HR_GREETING_SELECT);
}

static void test_closing_connection_takes_nothing(void **state)
{
    peer p = peer_open();
    hr_uri uri = {0};
    hr_greeting greeting;

    (void)state;
    p.hiredis->c.flags |= REDIS_DISCONNECTING;
    assert_int_equal(hr_greeting_write(&greeting, &uri, p.hiredis, on_reply), HIRATE_ENOMEM);
    assert_int_equal(hr_greeting_left(&greeting), 0);
    p.hiredis->c.flags &= ~REDIS_DISCONNECTING;
    peer_close(&p);
}

/* ---------------------------------------------------------------------------------------- what is answered -- */

static const enum hr_greeting_step STEPS[] = {HR_GREETING_AUTH, HR_GREETING_SELECT, HR_GREETING_ROLE};

static void assert_answer(enum hr_greeting_step step, int type, const char *text, int expected, const char *says)
{
    hirate_error error = {77, "untouched"};

    int rc = hr_greeting_answered(step, type, text, text ? strlen(text) : 0, &error);
    if (rc != expected || (rc && error.code != rc) || strstr(error.text, rc ? says : "untouched") == NULL)
        fail_msg("step %d, type %d '%s': expected %d '%s', got %d '%s'", (int)step, type, text ? text : "(none)",
                 expected, says, rc, error.text);
}

static void test_ok_and_master_are_accepted(void **state)
{
    (void)state;
    assert_answer(HR_GREETING_AUTH, REDIS_REPLY_STATUS, "OK", 0, "");
    assert_answer(HR_GREETING_SELECT, REDIS_REPLY_STATUS, "OK", 0, "");
    assert_answer(HR_GREETING_ROLE, REDIS_REPLY_ARRAY, "master", 0, "");
}

static void test_other_roles_are_read_only(void **state)
{
    static const char *const roles[] = {"slave", "replica", "sentinel", "", "masterX", "maste", "MASTER"};

    (void)state;
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        assert_answer(HR_GREETING_ROLE, REDIS_REPLY_ARRAY, roles[i], HIRATE_EREDIS, "READONLY");
    assert_answer(HR_GREETING_ROLE, REDIS_REPLY_ARRAY, NULL, HIRATE_EREDIS, "READONLY");
    assert_answer(HR_GREETING_ROLE, REDIS_REPLY_STATUS, "master", HIRATE_EREDIS, "READONLY");
    assert_answer(HR_GREETING_ROLE, REDIS_REPLY_NIL, NULL, HIRATE_EREDIS, "READONLY");
}

static void test_what_is_no_ok_is_not_redis(void **state)
{
    static const struct {
        int type;
        const char *text;
    } replies[] = {
        {REDIS_REPLY_STATUS, "QUEUED"}, {REDIS_REPLY_STATUS, "O"},  {REDIS_REPLY_STATUS, "OKAY"},
        {REDIS_REPLY_STATUS, ""},       {REDIS_REPLY_STATUS, NULL}, {REDIS_REPLY_STRING, "OK"},
        {REDIS_REPLY_INTEGER, NULL},    {REDIS_REPLY_NIL, NULL},    {REDIS_REPLY_ARRAY, "OK"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
        for (size_t s = 0; s < 2; s++)
            assert_answer(STEPS[s], replies[i].type, replies[i].text, HIRATE_ECONNECT, "does not answer as Redis does");
    }
}

static void test_what_passes_by_itself_is_tried_again(void **state)
{
    static const char *const errors[] = {"LOADING Redis is loading the dataset in memory",
                                         "BUSY Redis is busy running a script.", "TRYAGAIN later"};

    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        for (size_t s = 0; s < 3; s++)
            assert_answer(STEPS[s], REDIS_REPLY_ERROR, errors[i], HIRATE_ECONNECT, errors[i]);
    }
}

/* Said by the server in place of the first answer, before it closes. */
static void test_full_or_protected_server_is_tried_again(void **state)
{
    static const char *const errors[] = {"ERR max number of clients reached",
                                         "DENIED Redis is running in protected mode"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        for (size_t s = 0; s < 3; s++)
            assert_answer(STEPS[s], REDIS_REPLY_ERROR, errors[i], HIRATE_ECONNECT, errors[i]);
    }
}

static void test_refused_credentials_are_said_so(void **state)
{
    static const char *const errors[] = {"WRONGPASS invalid username-password pair or user is disabled.",
                                         "NOAUTH Authentication required.",
                                         "NOPERM this user has no permissions to run the 'select' command",
                                         "ERR Client sent AUTH, but no password is set",
                                         "ERR invalid password",
                                         "ERR DB index is out of range",
                                         "ERR unknown command `AUTH`"};

    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        assert_answer(HR_GREETING_AUTH, REDIS_REPLY_ERROR, errors[i], HIRATE_EAUTH, errors[i]);
        assert_answer(HR_GREETING_SELECT, REDIS_REPLY_ERROR, errors[i], HIRATE_EAUTH, errors[i]);
    }
}

static void test_role_may_be_forbidden_but_not_unauthenticated(void **state)
{
    (void)state;
    assert_answer(HR_GREETING_ROLE, REDIS_REPLY_ERROR, "NOPERM this user has no permissions to run the 'role' command",
                  0, "");
    assert_answer(HR_GREETING_ROLE, REDIS_REPLY_ERROR, "ERR unknown command `ROLE`", 0, "");
    assert_answer(HR_GREETING_ROLE, REDIS_REPLY_ERROR, "NOAUTH Authentication required.", HIRATE_EAUTH, "NOAUTH");
    assert_answer(HR_GREETING_ROLE, REDIS_REPLY_ERROR, "WRONGPASS no", HIRATE_EAUTH, "WRONGPASS");
}

static void test_long_text_is_cut_and_printable(void **state)
{
    char text[400];
    hirate_error error;

    (void)state;
    memset(text, 'x', sizeof text);
    memcpy(text, "ERR \x1b[31m", 9);
    assert_int_equal(hr_greeting_answered(HR_GREETING_AUTH, REDIS_REPLY_ERROR, text, sizeof text, &error),
                     HIRATE_EAUTH);
    assert_int_equal(strlen(error.text), 200);
    assert_memory_equal(error.text, "ERR ?[31m", 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_credentials_only_role_is_asked),
        cmocka_unit_test(test_all_three_are_asked_in_order),
        cmocka_unit_test(test_password_alone_is_authenticated_without_user),
        cmocka_unit_test(test_database_alone_is_selected),
        cmocka_unit_test(test_closing_connection_takes_nothing),
        cmocka_unit_test(test_ok_and_master_are_accepted),
        cmocka_unit_test(test_other_roles_are_read_only),
        cmocka_unit_test(test_what_is_no_ok_is_not_redis),
        cmocka_unit_test(test_what_passes_by_itself_is_tried_again),
        cmocka_unit_test(test_full_or_protected_server_is_tried_again),
        cmocka_unit_test(test_refused_credentials_are_said_so),
        cmocka_unit_test(test_role_may_be_forbidden_but_not_unauthenticated),
        cmocka_unit_test(test_long_text_is_cut_and_printable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
