/* SPDX-License-Identifier: BSD-3-Clause */
/* A write to a peer that has gone, under each way a host may treat SIGPIPE. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sigpipe.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t handled;

static void handle(int number)
{
    (void)number;
    handled++;
}

/* A guarded write whose peer is gone, or stands. */
static void guarded_write(bool gone)
{
    int ends[2];
    hr_sigpipe guard;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    if (gone)
        assert_int_equal(close(ends[1]), 0);
    hr_sigpipe_block(&guard);
    ssize_t written = write(ends[0], "x", 1);
    int error = errno;
    hr_sigpipe_restore(&guard, written < 0);
    assert_int_equal(written, gone ? -1 : 1);
    assert_true(!gone || error == EPIPE);
    (void)close(ends[0]);
    if (!gone)
        (void)close(ends[1]);
}

static bool pipe_is_in(int which)
{
    sigset_t set;

    if (which)
        assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
    else
        assert_int_equal(sigpending(&set), 0);
    return sigismember(&set, SIGPIPE) == 1;
}

static bool is_pending(void)
{
    return pipe_is_in(0);
}

static bool is_blocked(void)
{
    return pipe_is_in(1);
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
    handled = 0;
    mask(SIG_UNBLOCK);
    return signal(SIGPIPE, SIG_DFL) == SIG_ERR;
}

/* In a process of its own, as a failure would end it. */
static void test_default_action_does_not_kill(void **state)
{
    int status;

    (void)state;
    pid_t child = fork();
    if (child == 0) {
        int ends[2];
        hr_sigpipe guard;

        if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || close(ends[1]) != 0)
            _exit(9);
        hr_sigpipe_block(&guard);
        ssize_t written = write(ends[0], "x", 1);
        hr_sigpipe_restore(&guard, written < 0);
        _exit(written < 0 && !is_pending() && !is_blocked() ? 7 : 8);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
}

static void test_hosts_handler_does_not_run(void **state)
{
    (void)state;
    assert_true(signal(SIGPIPE, handle) != SIG_ERR);
    guarded_write(true);
    assert_int_equal(handled, 0);
    assert_false(is_pending());
    assert_false(is_blocked());
    assert_int_equal(raise(SIGPIPE), 0); /* it is still the host's */
    assert_int_equal(handled, 1);
}

static void test_ignored_stays_ignored(void **state)
{
    (void)state;
    assert_true(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    guarded_write(true);
    assert_false(is_pending());
    assert_ptr_equal(signal(SIGPIPE, SIG_DFL), SIG_IGN);
}

static void test_blocked_stays_blocked_with_nothing_pending(void **state)
{
    (void)state;
    mask(SIG_BLOCK);
    guarded_write(true);
    assert_true(is_blocked());
    assert_false(is_pending());
}

static void test_hosts_own_pending_signal_is_left(void **state)
{
    (void)state;
    assert_true(signal(SIGPIPE, handle) != SIG_ERR);
    mask(SIG_BLOCK);
    assert_int_equal(raise(SIGPIPE), 0);
    guarded_write(true);
    assert_true(is_blocked());
    assert_true(is_pending());
    guarded_write(false);
    assert_true(is_pending());
    assert_int_equal(handled, 0);
    mask(SIG_UNBLOCK);
    assert_int_equal(handled, 1);
}

static void test_write_that_succeeds_changes_nothing(void **state)
{
    (void)state;
    guarded_write(false);
    assert_false(is_blocked());
    assert_false(is_pending());
    mask(SIG_BLOCK);
    guarded_write(false);
    assert_true(is_blocked());
    assert_false(is_pending());
}

static void test_failure_without_a_signal_does_not_wait(void **state)
{
    hr_sigpipe guard;

    (void)state;
    hr_sigpipe_block(&guard);
    assert_int_equal(write(-1, "x", 1), -1); /* EBADF raises none */
    hr_sigpipe_restore(&guard, true);
    assert_false(is_blocked());
}

static void test_other_signals_keep_their_mask(void **state)
{
    sigset_t before, after, usr1;

    (void)state;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &usr1, NULL), 0);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &before), 0);
    guarded_write(true);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &after), 0);
    for (int number = 1; number < 32; number++)
        assert_int_equal(sigismember(&after, number), sigismember(&before, number));
    assert_int_equal(pthread_sigmask(SIG_UNBLOCK, &usr1, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_default_action_does_not_kill, set_up),
        cmocka_unit_test_setup(test_hosts_handler_does_not_run, set_up),
        cmocka_unit_test_setup(test_ignored_stays_ignored, set_up),
        cmocka_unit_test_setup(test_blocked_stays_blocked_with_nothing_pending, set_up),
        cmocka_unit_test_setup(test_hosts_own_pending_signal_is_left, set_up),
        cmocka_unit_test_setup(test_write_that_succeeds_changes_nothing, set_up),
        cmocka_unit_test_setup(test_failure_without_a_signal_does_not_wait, set_up),
        cmocka_unit_test_setup(test_other_signals_keep_their_mask, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
