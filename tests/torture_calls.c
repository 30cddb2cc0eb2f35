/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every system call on a socket or the loop fails in turn, in the library, in hiredis and in the loop's adapter (see
 * support/torture.h): interrupted, would block, no descriptors, no memory, reset by the peer, at its end, or done by a
 * single byte.
 *
 * The calls are defined here, which the dynamic linker lets every library use.
 */
#include "support/torture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

enum what {
    INTERRUPTED,
    WOULD_BLOCK,
    NO_DESCRIPTORS,
    NO_MEMORY,
    RESET,
    AT_END,
    ONE_BYTE,
    REFUSED,
    NONE_LEFT,
    SLOWLY,
    BUSY
};

static const torture_mode MODES[] = {
    [INTERRUPTED] = {"interrupted", false},
    [WOULD_BLOCK] = {"would block", false},
    [NO_DESCRIPTORS] = {"no descriptors", false},
    [NO_MEMORY] = {"no memory", false},
    [RESET] = {"reset by the peer", false},
    [AT_END] = {"at its end", false},
    [ONE_BYTE] = {"one byte", false},
    [REFUSED] = {"refused", false},
    [NONE_LEFT] = {"no descriptors from one on", true},
    [SLOWLY] = {"one byte from one on", true},
    [BUSY] = {"interrupted from one on", true},
    {NULL, false},
};

static atomic_long seen, fail_at;
static atomic_bool armed, fired;
static atomic_int mode_now;
static _Thread_local bool paused;

/* Is this the call that is to fail? `plausible`: whether such a call can fail so. */
static bool fails(bool plausible)
{
    if (!armed || paused || !plausible)
        return false;
    long n = atomic_fetch_add(&seen, 1) + 1;
    /* an interruption that lasts is every other call: else nothing would ever be done */
    if (n < fail_at || (n > fail_at && !MODES[mode_now].lasting) || (mode_now == BUSY && (n - fail_at) % 2))
        return false;
    fired = true;
    return true;
}

static bool is(enum what what)
{
    return (enum what)mode_now == what;
}

static int with(int error)
{
    errno = error;
    return -1;
}

static bool is_socket(int fd)
{
    struct stat info;
    return syscall(SYS_newfstatat, fd, "", &info, AT_EMPTY_PATH) == 0 && S_ISSOCK(info.st_mode);
}

/* What making a descriptor may say. 0: go on. */
static int no_descriptor(void)
{
    if ((is(NO_DESCRIPTORS) || is(NONE_LEFT)) && fails(true))
        return EMFILE;
    return is(NO_MEMORY) && fails(true) ? ENOMEM : 0;
}

EXPORTED int socket(int domain, int type, int protocol)
{
    int error = no_descriptor();
    return error ? with(error) : (int)syscall(SYS_socket, domain, type, protocol);
}

EXPORTED int eventfd(unsigned count, int flags)
{
    int error = no_descriptor();
    return error ? with(error) : (int)syscall(SYS_eventfd2, count, flags);
}

EXPORTED int timerfd_create(clockid_t clock, int flags)
{
    int error = no_descriptor();
    return error ? with(error) : (int)syscall(SYS_timerfd_create, clock, flags);
}

EXPORTED int epoll_create1(int flags)
{
    int error = no_descriptor();
    return error ? with(error) : (int)syscall(SYS_epoll_create1, flags);
}

EXPORTED int connect(int fd, const struct sockaddr *address, socklen_t len)
{
    if (is(REFUSED) && fails(true))
        return with(ECONNREFUSED);
    if (is(WOULD_BLOCK) && fails(address->sa_family == AF_UNIX)) /* its backlog is full */
        return with(EAGAIN);
    if (is(NO_MEMORY) && fails(true))
        return with(ENOBUFS);
    return (int)syscall(SYS_connect, fd, address, len);
}

/* The common part of reading and writing. 1: errno is set; 0: go on with *len. */
static int disturbed(int fd, size_t *len, bool writing, bool may_signal)
{
    bool socket = armed && !paused && is_socket(fd);
    if ((is(INTERRUPTED) || is(BUSY)) && fails(true))
        return errno = EINTR, 1;
    if (is(WOULD_BLOCK) && fails(socket))
        return errno = EAGAIN, 1;
    if (is(RESET) && fails(socket)) {
        if (may_signal)
            raise(SIGPIPE); /* as the kernel would: the process must live */
        return errno = writing ? EPIPE : ECONNRESET, 1;
    }
    if (is(NO_MEMORY) && fails(socket))
        return errno = ENOBUFS, 1;
    if ((is(ONE_BYTE) || is(SLOWLY)) && *len > 1 && fails(socket))
        *len = 1;
    return 0;
}

EXPORTED ssize_t read(int fd, void *to, size_t len)
{
    if (disturbed(fd, &len, false, false))
        return -1;
    if (is(AT_END) && fails(armed && !paused && is_socket(fd)))
        return 0;
    return syscall(SYS_read, fd, to, len);
}

EXPORTED ssize_t recv(int fd, void *to, size_t len, int flags)
{
    if (disturbed(fd, &len, false, false))
        return -1;
    if (is(AT_END) && fails(armed && !paused && is_socket(fd)))
        return 0;
    return syscall(SYS_recvfrom, fd, to, len, flags, NULL, NULL);
}

EXPORTED ssize_t write(int fd, const void *from, size_t len)
{
    return disturbed(fd, &len, true, true) ? -1 : syscall(SYS_write, fd, from, len);
}

EXPORTED ssize_t send(int fd, const void *from, size_t len, int flags)
{
    return disturbed(fd, &len, true, !(flags & MSG_NOSIGNAL)) ? -1 : syscall(SYS_sendto, fd, from, len, flags, NULL, 0);
}

EXPORTED int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    if ((is(INTERRUPTED) || is(BUSY)) && fails(true))
        return with(EINTR);
    if (is(NO_MEMORY) && fails(true))
        return with(ENOMEM);
    return (int)syscall(SYS_poll, fds, count, timeout);
}

EXPORTED int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    if (is(NO_MEMORY) && fails(op != EPOLL_CTL_DEL))
        return with(ENOMEM);
    if (is(NONE_LEFT) && fails(op == EPOLL_CTL_ADD))
        return with(ENOSPC); /* its limit of watches */
    return (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
}

EXPORTED int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
    if ((is(INTERRUPTED) || is(BUSY)) && fails(true))
        return with(EINTR);
    return (int)syscall(SYS_epoll_pwait, epoll, events, most, timeout, NULL, (size_t)8);
}

EXPORTED int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    if (is(NO_MEMORY) && fails(true))
        return with(ENOBUFS);
    return (int)syscall(SYS_getsockopt, fd, level, name, value, len);
}

EXPORTED int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
    if (is(NO_MEMORY) && fails(true))
        return with(ENOBUFS);
    return (int)syscall(SYS_setsockopt, fd, level, name, value, len);
}

static int control(int fd, int command, void *arg)
{
    if (is(NO_MEMORY) && fails(command == F_SETFL || command == F_GETFL))
        return with(ENOMEM);
    return (int)syscall(SYS_fcntl, fd, command, arg);
}

/* By either name, as large files may have made one of the other. Its argument is an int or a pointer; the kernel knows.
 */
EXPORTED int control_by_name(int fd, int command, void *arg) __asm__("fcntl");
EXPORTED int control_by_long_name(int fd, int command, void *arg) __asm__("fcntl64");

int control_by_name(int fd, int command, void *arg)
{
    return control(fd, command, arg);
}

int control_by_long_name(int fd, int command, void *arg)
{
    return control(fd, command, arg);
}

static void arm(long n, int mode)
{
    seen = 0;
    fail_at = n;
    fired = false;
    mode_now = mode;
    armed = true;
}

static void disarm(void)
{
    armed = false;
}

static void pause_failing(bool on)
{
    paused = on;
}

static long calls_seen(void)
{
    return seen;
}

static bool has_fired(void)
{
    return fired;
}

int main(int argc, char **argv)
{
    static const torture calls = {MODES, arm, disarm, pause_failing, calls_seen, has_fired, NULL, false};
    return torture_main(&calls, argc, argv);
}
