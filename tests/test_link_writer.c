/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes out: byte for byte through a socket that takes little, and to a peer that has gone, whatever the host does
 * with SIGPIPE. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "link_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define PING "*1\r\n$4\r\nPING\r\n"

/* A context whose socket was replaced by one end of a pair. */
typedef struct pair {
    redisAsyncContext *hiredis;
    int peer;
} pair;

static volatile sig_atomic_t handled;

static void handle(int number)
{
    (void)number;
    handled++;
}

static void on_reply(redisAsyncContext *hiredis, void *reply, void *user)
{
    (void)hiredis;
    (void)reply;
    ++*(int *)user;
}

static pair pair_open(void)
{
    int ends[2];
    pair p = {.hiredis = redisAsyncConnectUnix("/nonexistent/socket")};

    assert_non_null(p.hiredis);
    p.hiredis->c.err = p.hiredis->err = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    if (p.hiredis->c.fd >= 0)
        (void)close(p.hiredis->c.fd);
    p.hiredis->c.fd = ends[0];
    p.peer = ends[1];
    return p;
}

static void pair_close(pair *p)
{
    redisAsyncFree(p->hiredis);
    if (p->peer >= 0)
        (void)close(p->peer);
}

static int callbacks;

static void queue(pair *p, const char *command, size_t len)
{
    assert_int_equal(hr_link_queue(p->hiredis, on_reply, &callbacks, command, len), HR_QUEUED);
}

static int write_out(pair *p)
{
    return hr_link_write(&p->hiredis->c, false);
}

/* A write to a peer that is gone: its error. */
static int write_to_nobody(void)
{
    pair p = pair_open();
    assert_int_equal(close(p.peer), 0);
    p.peer = -1;
    queue(&p, PING, sizeof PING - 1);
    int error = write_out(&p);
    pair_close(&p);
    return error;
}

static bool pipe_is_pending(void)
{
    sigset_t set;
    assert_int_equal(sigpending(&set), 0);
    return sigismember(&set, SIGPIPE) == 1;
}

static void mask(int how)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    assert_int_equal(pthread_sigmask(how, &set, NULL), 0);
}

static int set_up(void **state)
{
    (void)state;
    handled = callbacks = 0;
    mask(SIG_UNBLOCK);
    return signal(SIGPIPE, SIG_DFL) == SIG_ERR;
}

/* ----------------------------------------------------------------------------------------------- what is written -- */

static void test_commands_go_out_in_order(void **state)
{
    char got[64];
    pair p = pair_open();

    (void)state;
    assert_int_equal(write_out(&p), 0); /* nothing has gathered */
    queue(&p, PING, sizeof PING - 1);
    queue(&p, "*1\r\n$4\r\nROLE\r\n", 14);
    assert_int_equal(write_out(&p), 0);
    assert_int_equal(sdslen(p.hiredis->c.obuf), 0);
    assert_int_equal(read(p.peer, got, sizeof got), 28);
    assert_memory_equal(got, PING "*1\r\n$4\r\nROLE\r\n", 28);
    queue(&p, PING, sizeof PING - 1); /* into the same buffer */
    assert_int_equal(write_out(&p), 0);
    assert_int_equal(read(p.peer, got, sizeof got), 14);
    assert_memory_equal(got, PING, 14);
    pair_close(&p);
    assert_int_equal(callbacks, 3); /* hiredis knows of each */
}

/* More than a socket takes at once, read in small pieces: nothing is lost, doubled or out of order. */
static void test_what_the_socket_does_not_take_stays(void **state)
{
    enum { COMMANDS = 60000 };
    char command[64], got[1000];
    char *all = malloc(COMMANDS * sizeof command), *expected = malloc(COMMANDS * sizeof command);
    size_t got_len = 0, expected_len = 0;
    bool kept = false;
    pair p = pair_open();

    (void)state;
    assert_true(all && expected);
    for (int i = 0; i < COMMANDS; i++) {
        int len = snprintf(command, sizeof command, "*2\r\n$4\r\nECHO\r\n$6\r\n%06d\r\n", i);
        queue(&p, command, (size_t)len);
        memcpy(expected + expected_len, command, (size_t)len);
        expected_len += (size_t)len;
    }
    while (got_len < expected_len) {
        assert_int_equal(write_out(&p), 0);
        kept |= sdslen(p.hiredis->c.obuf) > 0;
        ssize_t n = read(p.peer, got, sizeof got);
        assert_true(n > 0);
        memcpy(all + got_len, got, (size_t)n);
        got_len += (size_t)n;
    }
    assert_true(kept);
    assert_int_equal(got_len, expected_len);
    assert_memory_equal(all, expected, expected_len);
    assert_int_equal(sdslen(p.hiredis->c.obuf), 0);
    free(all);
    free(expected);
    pair_close(&p);
}

static void test_a_full_socket_is_no_error(void **state)
{
    char zeros[4096] = {0};
    pair p = pair_open();

    (void)state;
    while (write(p.hiredis->c.fd, zeros, sizeof zeros) > 0)
        continue;
    assert_int_equal(errno, EAGAIN);
    queue(&p, PING, sizeof PING - 1);
    assert_int_equal(write_out(&p), 0);
    assert_string_equal(p.hiredis->c.obuf, PING);
    pair_close(&p);
}

static void test_a_secret_leaves_no_trace(void **state)
{
    static const char AUTH[] = "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n";
    pair p = pair_open();

    (void)state;
    queue(&p, AUTH, sizeof AUTH - 1);
    assert_int_equal(hr_link_write(&p.hiredis->c, true), 0);
    assert_int_equal(sdslen(p.hiredis->c.obuf), 0);
    for (size_t i = 0; i < sizeof AUTH; i++)
        assert_int_equal(p.hiredis->c.obuf[i], 0);
    pair_close(&p);
}

static void test_an_error_is_told_and_nothing_is_taken(void **state)
{
    pair p = pair_open();

    (void)state;
    queue(&p, PING, sizeof PING - 1);
    int fd = p.hiredis->c.fd;
    p.hiredis->c.fd = -1;
    assert_int_equal(write_out(&p), EBADF);
    assert_string_equal(p.hiredis->c.obuf, PING);
    p.hiredis->c.fd = fd;
    pair_close(&p);
}

/* Where hiredis would read no answers nothing is sent that could be charged. */
static void test_nothing_is_written_past_an_error(void **state)
{
    char got[64];
    pair p = pair_open();

    (void)state;
    queue(&p, PING, sizeof PING - 1);
    p.hiredis->c.err = REDIS_ERR_OOM;
    assert_int_equal(write_out(&p), ECONNABORTED);
    assert_int_equal(read(p.peer, got, sizeof got), -1);
    assert_string_equal(p.hiredis->c.obuf, PING);
    pair_close(&p);
}

/* ------------------------------------------------------------------------------------------------------- SIGPIPE -- */

/* In a process of its own, as a failure would end it. */
static void test_default_action_does_not_kill(void **state)
{
    int status;

    (void)state;
    pid_t child = fork();
    if (child == 0)
        _exit(write_to_nobody() == EPIPE && !pipe_is_pending() ? 7 : 8);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
}

static void test_hosts_handler_does_not_run(void **state)
{
    (void)state;
    assert_true(signal(SIGPIPE, handle) != SIG_ERR);
    assert_int_equal(write_to_nobody(), EPIPE);
    assert_int_equal(handled, 0);
    assert_false(pipe_is_pending());
    assert_int_equal(raise(SIGPIPE), 0); /* it is still the host's */
    assert_int_equal(handled, 1);
}

static void test_hosts_own_pending_signal_is_left(void **state)
{
    (void)state;
    assert_true(signal(SIGPIPE, handle) != SIG_ERR);
    mask(SIG_BLOCK);
    assert_int_equal(write_to_nobody(), EPIPE);
    assert_false(pipe_is_pending());
    assert_int_equal(raise(SIGPIPE), 0);
    assert_int_equal(write_to_nobody(), EPIPE);
    assert_true(pipe_is_pending());
    mask(SIG_UNBLOCK);
    assert_int_equal(handled, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_commands_go_out_in_order, set_up),
        cmocka_unit_test_setup(test_what_the_socket_does_not_take_stays, set_up),
        cmocka_unit_test_setup(test_a_full_socket_is_no_error, set_up),
        cmocka_unit_test_setup(test_a_secret_leaves_no_trace, set_up),
        cmocka_unit_test_setup(test_an_error_is_told_and_nothing_is_taken, set_up),
        cmocka_unit_test_setup(test_nothing_is_written_past_an_error, set_up),
        cmocka_unit_test_setup(test_default_action_does_not_kill, set_up),
        cmocka_unit_test_setup(test_hosts_handler_does_not_run, set_up),
        cmocka_unit_test_setup(test_hosts_own_pending_signal_is_left, set_up),
    };
    return cmocka_run_group_tests_name("link_writer", tests, NULL, NULL);
}
