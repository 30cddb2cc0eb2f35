/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that end, that never come to stand, and that are made in every way there is. Greetings (AUTH, SELECT)
 * have it_greeting.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/server.h"
#include "support/threads.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const hirate_limit WIDE = HIRATE_TOKEN_BUCKET("wide", 1000000, HIRATE_PER_SECOND(1000000));

enum { MANY = 20000 };

static answer answers[MANY];

static void open_with_deadline(driver *d, const char *uri, int64_t deadline_ms)
{
    hirate_options options;
    hirate_options_init(&options);
    options.uri = uri;
    options.deadline_ms = deadline_ms;
    driver_open_with(d, &options, NULL);
}

/* Answered, with a verdict or one of the errors an outage may cause, whose charge is as it says. */
static void expect_plausible(const answer *a)
{
    assert_int_equal(a->calls, 1);
    switch (a->result.error) {
    case HIRATE_OK:
        assert_int_equal(a->result.verdict, HIRATE_ALLOWED);
        assert_int_equal(a->result.charge, HIRATE_CHARGE_YES);
        return;
    case HIRATE_ELOST:
    case HIRATE_EDEADLINE:
        assert_int_equal(a->result.charge, HIRATE_CHARGE_MAYBE);
        break;
    case HIRATE_ECONNECT:
        assert_int_equal(a->result.charge, HIRATE_CHARGE_NO);
        break;
    default:
        fail_msg("error %d: %s", a->result.error, a->reason);
    }
    assert_int_equal(a->result.verdict, HIRATE_VERDICT_NONE);
    assert_int_equal(a->result.source, HIRATE_SOURCE_NONE);
    assert_true(strlen(a->reason) > 0);
}

static void submit_many(driver *d, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%zu", i % 5000);
        assert_int_equal(driver_acquire(d, &answers[i], &WIDE, name, 1), 0);
    }
}

/* Does the client work again by itself? Asks until it does. */
static void expect_recovery(driver *d)
{
    answer a;
    int64_t end = driver_now_ms() + DRIVER_PATIENCE_MS;
    do
        driver_ask(d, &a, &WIDE, "recovered", 1);
    while (a.result.error && driver_now_ms() < end);
    assert_int_equal(a.result.error, HIRATE_OK);
    for (int i = 0; i < 20; i++) {
        driver_ask(d, &a, &WIDE, "recovered", 1);
        assert_int_equal(a.result.error, HIRATE_OK);
    }
}

static void expect_stats_add_up(const driver *d)
{
    hirate_stats stats;
    hirate_stats_init(&stats);
    hirate_get_stats(d->h, &stats);
    assert_int_equal(stats.submitted, stats.answered + stats.pending);
    assert_int_equal(stats.answered, d->called);
    assert_int_equal(stats.allowed + stats.denied + stats.errors, d->called);
}

static void killed_under_load(const char *uri, server *s)
{
    driver d;
    memset(answers, 0, sizeof answers);
    open_with_deadline(&d, uri, 5000);
    submit_many(&d, 0, MANY / 4);
    while (d.called < MANY / 40)
        driver_turn(&d, 100);
    server_kill(s);
    submit_many(&d, MANY / 4, MANY / 2);
    driver_run_for(&d, 300);
    submit_many(&d, MANY / 2, MANY * 3 / 4);
    server_restart(s);
    submit_many(&d, MANY * 3 / 4, MANY);
    assert_true(driver_wait(&d, MANY));
    for (size_t i = 0; i < MANY; i++)
        expect_plausible(&answers[i]);
    expect_recovery(&d);
    expect_stats_add_up(&d);
    assert_int_equal(d.too_early, 0);
    driver_close(&d);
}

/* SIGPIPE keeps its default disposition throughout: a write to a server that has died must not raise it. */
static void test_reconnect_server_killed_under_load_over_unix_socket(void **state)
{
    (void)state;
    server *s = server_start(NULL);
    killed_under_load(server_uri(s), s);
    server_stop(s);
}

static void test_reconnect_server_killed_under_load_over_tcp(void **state)
{
    (void)state;
    server *s = server_start(&(server_options){.tcp = true});
    killed_under_load(server_tcp_uri(s, "127.0.0.1"), s);
    server_stop(s);
}

static void test_reconnect_server_killed_again_and_again(void **state)
{
    (void)state;
    server *s = server_start(NULL);
    driver d;
    memset(answers, 0, sizeof answers);
    open_with_deadline(&d, server_uri(s), 5000);
    size_t rounds = driver_slow() ? 3 : 10, share = MANY / rounds;
    for (size_t round = 0; round < rounds; round++) {
        submit_many(&d, round * share, (round + 1) * share);
        driver_turn(&d, 10);
        driver_turn(&d, 10);
        server_kill(s);
        driver_run_for(&d, 20);
        server_restart(s);
    }
    assert_true(driver_wait(&d, rounds * share));
    for (size_t i = 0; i < rounds * share; i++)
        expect_plausible(&answers[i]);
    expect_recovery(&d);
    driver_close(&d);
    server_stop(s);
}

static void test_reconnect_client_killed_answers_go_on(void **state)
{
    (void)state;
    server *s = server_start(NULL);
    driver d;
    answer a;
    driver_open(&d, server_uri(s));
    for (int i = 0; i < 20; i++) {
        expect_recovery(&d);
        server_ask(s, "CLIENT KILL TYPE normal SKIPME yes");
        driver_ask(&d, &a, &WIDE, "killed", 1); /* the client may or may not have noticed yet */
        expect_plausible(&a);
    }
    hirate_stats stats;
    hirate_stats_init(&stats);
    hirate_get_stats(d.h, &stats);
    assert_true(stats.connects >= 20);
    driver_close(&d);
    server_stop(s);
}

static void test_reconnect_server_closes_idle_connection_next_is_answered(void **state)
{
    (void)state;
    server *s = server_start(NULL);
    driver d;
    answer a;
    driver_open(&d, server_uri(s));
    driver_ask(&d, &a, &WIDE, "idle", 1);
    server_ask(s, "CLIENT KILL TYPE normal SKIPME yes");
    driver_run_for(&d, 500); /* notices, and is back by then or soon after */
    driver_ask(&d, &a, &WIDE, "idle", 1);
    assert_int_equal(a.result.error, HIRATE_OK);
    driver_close(&d);
    server_stop(s);
}

static void test_reconnect_server_absent_at_start_waits_for_it(void **state)
{
    (void)state;
    server *s = server_start(NULL);
    driver d;
    answer a[10] = {0};
    server_kill(s);
    driver_open(&d, server_uri(s));
    for (int i = 0; i < 10; i++)
        assert_int_equal(driver_acquire(&d, &a[i], &WIDE, "early", 1), 0);
    driver_run_for(&d, 200);
    assert_int_equal(d.called, 0);
    server_restart(s);
    assert_true(driver_wait(&d, 10));
    for (int i = 0; i < 10; i++) {
        assert_int_equal(a[i].result.error, HIRATE_OK);
        assert_int_equal(a[i].result.verdict, HIRATE_ALLOWED);
    }
    driver_close(&d);
    server_stop(s);
}

/* Nothing is answered before its deadline, and everything with "no connection, nothing charged". */
static void expect_no_connection(const char *uri)
{
    driver d;
    answer a[10] = {0};
    hirate_request request;
    open_with_deadline(&d, uri, 200);
    for (int i = 0; i < 10; i++) {
        hirate_request_init(&request);
        request.limit = &WIDE;
        request.name = "nowhere";
        request.name_len = 7;
        request.deadline_ms = i ? 100 * i : 0;
        assert_int_equal(driver_submit(&d, &request, &a[i], NULL), 0);
    }
    assert_true(driver_wait(&d, 10));
    for (int i = 0; i < 10; i++) {
        assert_int_equal(a[i].calls, 1);
        assert_int_equal(a[i].result.error, HIRATE_ECONNECT);
        assert_int_equal(a[i].result.charge, HIRATE_CHARGE_NO);
        assert_true(a[i].at_ms - a[i].submitted_ms >= (i ? 100 * i : 200) - 1);
    }
    driver_close(&d);
}

static void test_reconnect_nobody_there_answers_at_the_deadline(void **state)
{
    (void)state;
    server *s = server_start(&(server_options){.tcp = true});
    char uri[128];
    snprintf(uri, sizeof uri, "%s", server_tcp_uri(s, "127.0.0.1"));
    server_kill(s);
    expect_no_connection(uri);
    expect_no_connection(server_uri(s)); /* a socket nobody listens on any more */
    server_stop(s);
    expect_no_connection("unix:///nonexistent/socket");
    expect_no_connection("redis://does-not-exist.invalid:6380");
}

static void test_reconnect_full_backlog_is_retried_until_accepted(void **state)
{
    (void)state;
    char dir[] = "/tmp/hirate-full-XXXXXX", uri[128];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_non_null(mkdtemp(dir));
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", dir);
    snprintf(uri, sizeof uri, "unix://%s", address.sun_path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fillers[4];
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 0), 0);
    for (int i = 0; i < 4; i++) { /* all that fit, and some for which it is full */
        fillers[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        connect(fillers[i], (struct sockaddr *)&address, sizeof address);
    }
    expect_no_connection(uri);

    /* Once a server takes the place over, the client is served. */
    driver d;
    answer a = {0};
    server *s = server_start(NULL);
    driver_open(&d, uri);
    assert_int_equal(driver_acquire(&d, &a, &WIDE, "backlog", 1), 0);
    driver_run_for(&d, 200);
    unlink(address.sun_path);
    assert_int_equal(symlink(server_path(s), address.sun_path), 0);
    for (int i = 0; i < 4; i++)
        close(fillers[i]);
    close(listener);
    assert_true(driver_wait(&d, 1));
    assert_int_equal(a.result.error, HIRATE_OK);
    driver_close(&d);
    server_stop(s);
    unlink(address.sun_path);
    rmdir(dir);
}

static void test_reconnect_every_kind_of_address_works(void **state)
{
    (void)state;
    server *s = server_start(&(server_options){.tcp = true});
    static const char *const hosts[] = {"127.0.0.1", "localhost", "[::1]"};
    for (size_t i = 0; i < (server_has_ipv6(s) ? 3 : 2); i++) {
        driver d;
        answer a;
        driver_open(&d, server_tcp_uri(s, hosts[i]));
        driver_ask(&d, &a, &WIDE, "address", 1);
        assert_int_equal(a.result.error, HIRATE_OK);
        server_ask(s, "CLIENT KILL TYPE normal SKIPME yes");
        expect_recovery(&d);
        driver_close(&d);
    }
    server_stop(s);
}

static int64_t processor_ms(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

static void idle_while(driver *d, answer *a, size_t n)
{
    int64_t cpu = processor_ms(), wall = driver_now_ms();
    size_t before = d->called;
    for (size_t i = 0; i < n; i++)
        assert_int_equal(driver_acquire(d, &a[i], &WIDE, "idle", 1), 0);
    assert_true(driver_wait(d, before + n));
    cpu = processor_ms() - cpu;
    wall = driver_now_ms() - wall;
    print_message("waiting: %d ms of processor time in %d ms\n", (int)cpu, (int)wall);
    assert_true(cpu * 5 < wall);
}

/* A stopped server and an absent one: what waits does not spin. */
static void test_reconnect_waiting_takes_no_processor_time(void **state)
{
    (void)state;
    server *s = server_start(NULL);
    driver d;
    answer a;
    memset(answers, 0, sizeof answers);
    open_with_deadline(&d, server_uri(s), 2000);
    driver_ask(&d, &a, &WIDE, "first", 1);
    server_pause(s);
    idle_while(&d, answers, 100);
    for (size_t i = 0; i < 100; i++)
        expect_plausible(&answers[i]);
    server_resume(s);
    expect_recovery(&d);
    server_kill(s);
    memset(answers, 0, sizeof answers);
    idle_while(&d, answers, 100);
    server_restart(s);
    expect_recovery(&d);
    driver_close(&d);
    server_stop(s);
}

int main(void)
{
    if (!server_available())
        return 77;
    signal(SIGPIPE, SIG_DFL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reconnect_server_killed_under_load_over_unix_socket),
        cmocka_unit_test(test_reconnect_server_killed_under_load_over_tcp),
        cmocka_unit_test(test_reconnect_server_killed_again_and_again),
        cmocka_unit_test(test_reconnect_client_killed_answers_go_on),
        cmocka_unit_test(test_reconnect_server_closes_idle_connection_next_is_answered),
        cmocka_unit_test(test_reconnect_server_absent_at_start_waits_for_it),
        cmocka_unit_test(test_reconnect_nobody_there_answers_at_the_deadline),
        cmocka_unit_test(test_reconnect_full_backlog_is_retried_until_accepted),
        cmocka_unit_test(test_reconnect_every_kind_of_address_works),
        cmocka_unit_test(test_reconnect_waiting_takes_no_processor_time),
    };
    return cmocka_run_group_tests(tests, NULL, threads_end);
}
