/* SPDX-License-Identifier: BSD-3-Clause */
/* The tests' own support, without the library: what the other integration tests conclude rests on it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/fakeserver.h"
#include "support/server.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NEW_YEAR INT64_C(1767225600000000)

static int64_t server_time(server *s)
{
    long long sec = 0, us = 0;
    assert_int_equal(sscanf(server_ask(s, "TIME"), "%lld\n%lld", &sec, &us), 2);
    return sec * INT64_C(1000000) + us;
}

static void test_server_moved_clock_is_what_time_tells(void **state)
{
    (void)state;
    server *s = server_start(&(server_options){.fake_clock = true});
    static const int64_t moments[] = {NEW_YEAR, NEW_YEAR + 1, NEW_YEAR - 1, NEW_YEAR + 999999, NEW_YEAR - 86400000000};
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        server_set_clock(s, moments[i]);
        assert_int_equal(server_time(s), moments[i]);
        const char *script = "local t = redis.call('TIME') return t[1] .. ' ' .. t[2]";
        long long sec = 0, us = 0;
        const char *text = server_ask_args(s, 3, (const char *const[]){"EVAL", script, "0"}, NULL, NULL);
        assert_int_equal(sscanf(text, "%lld %lld", &sec, &us), 2);
        assert_int_equal(sec * INT64_C(1000000) + us, moments[i]);
    }
    server_stop(s);
}

static void test_server_moved_clock_drives_expiry(void **state)
{
    (void)state;
    server *s = server_start(&(server_options){.fake_clock = true});
    server_set_clock(s, NEW_YEAR);
    assert_string_equal(server_ask(s, "SET k v PX 1500"), "OK");
    server_set_clock(s, NEW_YEAR + 500000);
    assert_int_equal(server_ask_int(s, "PTTL k"), 1000);
    server_set_clock(s, NEW_YEAR + 1400000);
    assert_string_equal(server_ask(s, "GET k"), "v");
    server_set_clock(s, NEW_YEAR + 1501000);
    assert_string_equal(server_ask(s, "GET k"), "(nil)");
    server_stop(s);
}

static void test_server_restarted_answers_at_the_same_places(void **state)
{
    (void)state;
    server *s = server_start(&(server_options){.tcp = true, .password = "hush"});
    int port = server_port(s);
    assert_true(port > 1024);
    assert_string_equal(server_ask(s, "SET k v"), "OK");
    server_restart(s);
    assert_int_equal(server_port(s), port);
    assert_string_equal(server_ask(s, "GET k"), "(nil)");
    server_stop(s);
}

static void test_server_binary_arguments_come_back_whole(void **state)
{
    (void)state;
    server *s = server_start(NULL);
    static const char value[] = "a\0b\r\nc";
    const char *const argv[] = {"SET", "k", value};
    const size_t len[] = {3, 1, sizeof value - 1};
    assert_string_equal(server_ask_args(s, 3, argv, len, NULL), "OK");
    size_t got;
    const char *back = server_ask_args(s, 2, (const char *const[]){"GET", "k"}, NULL, &got);
    assert_int_equal(got, sizeof value - 1);
    assert_memory_equal(back, value, sizeof value - 1);
    assert_int_equal(server_info(s, "commandstats", "cmdstat_set"), 1);
    server_stop(s);
}

static void test_server_stopped_leaves_no_process_and_no_file(void **state)
{
    (void)state;
    server *s = server_start(NULL);
    char path[128];
    snprintf(path, sizeof path, "%s", server_path(s));
    pid_t pid = server_pid(s);
    server_pause(s); /* even so */
    server_stop(s);
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(access(path, F_OK), -1);
    *strrchr(path, '/') = '\0';
    assert_int_equal(access(path, F_OK), -1);
}

static void relay_twice(fake_conn *conn, void *arg)
{
    (void)arg;
    bytes reply = {0};
    while (fake_read(conn) && fake_relay(conn, &reply) && fake_write_slowly(conn, reply.data, reply.len))
        bytes_clear(&reply);
    bytes_free(&reply);
}

static void test_fakeserver_relays_to_a_real_server(void **state)
{
    (void)state;
    server *s = server_start(NULL);
    fakeserver *f = fakeserver_start(&(fakeserver_options){.upstream = server_path(s), .script = relay_twice});
    resp_stream stream;
    resp_open(&stream, resp_connect_unix(fakeserver_uri(f) + strlen("unix://")));
    assert_true(stream.fd >= 0);
    bytes command = {0}, answer = {0};
    resp_format(&command, 3, (const char *const[]){"SET", "k", "v"}, NULL);
    resp_format(&command, 2, (const char *const[]){"GET", "k"}, NULL);
    assert_true(resp_write(stream.fd, command.data, command.len));
    assert_true(resp_read_reply(&stream, NULL, &answer) && resp_read_reply(&stream, NULL, &answer));
    assert_string_equal(answer.data, "OKv");
    bytes_free(&command);
    bytes_free(&answer);
    fakeserver_stop(f); /* while connected */
    assert_false(resp_read_reply(&stream, NULL, NULL));
    resp_close(&stream);
    server_stop(s);
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_server_moved_clock_is_what_time_tells),
        cmocka_unit_test(test_server_moved_clock_drives_expiry),
        cmocka_unit_test(test_server_restarted_answers_at_the_same_places),
        cmocka_unit_test(test_server_binary_arguments_come_back_whole),
        cmocka_unit_test(test_server_stopped_leaves_no_process_and_no_file),
        cmocka_unit_test(test_fakeserver_relays_to_a_real_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
