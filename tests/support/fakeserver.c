/* SPDX-License-Identifier: BSD-3-Clause */
/* Test support: a server whose every byte the test decides (see fakeserver.h). */
#include "fakeserver.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

struct fakeserver {
    fakeserver *next; /* of those that listen on a unix socket and were not stopped */
    fakeserver_options options;
    pthread_t thread;
    int listener;
    atomic_bool over;
    atomic_int connections;
    pthread_mutex_t lock; /* of `current` */
    int current;          /* the served connection, so that stopping can end it; -1: none */
    char dir[64];
    char path[96];
    char uri[128];
};

static fakeserver *unix_servers;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void remove_socket(const fakeserver *f)
{
    unlink(f->path);
    rmdir(f->dir);
}

/* At exit: what tests that failed have left behind. */
static void remove_sockets(void)
{
    for (const fakeserver *f = unix_servers; f; f = f->next)
        remove_socket(f);
}

static void remember_socket(fakeserver *f)
{
    static bool registered;
    if (!registered && atexit(remove_sockets) == 0)
        registered = true;
    f->next = unix_servers;
    unix_servers = f;
}

static void forget_socket(fakeserver *f)
{
    fakeserver **at = &unix_servers;
    while (*at && *at != f)
        at = &(*at)->next;
    if (*at)
        *at = f->next;
    remove_socket(f);
}

static void set_current(fakeserver *f, int fd)
{
    pthread_mutex_lock(&f->lock);
    f->current = fd;
    pthread_mutex_unlock(&f->lock);
}

static void serve(fakeserver *f, int fd)
{
    fake_conn conn = {.number = atomic_fetch_add(&f->connections, 1), .server = f, .upstream.fd = -1};
    resp_open(&conn.stream, fd);
    if (f->options.tcp)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    set_current(f, fd);
    if (!atomic_load(&f->over))
        f->options.script(&conn, f->options.arg);
    set_current(f, -1);
    resp_close(&conn.stream);
    resp_close(&conn.upstream);
    resp_command_free(&conn.command);
}

static void *run(void *arg)
{
    fakeserver *f = arg;
    while (!atomic_load(&f->over)) {
        struct pollfd wait = {.fd = f->listener, .events = POLLIN};
        if (poll(&wait, 1, 20) <= 0)
            continue;
        int fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            serve(f, fd);
    }
    return NULL;
}

static int listen_unix(fakeserver *f)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(f->dir, sizeof f->dir, "/tmp/hirate-fake-XXXXXX");
    if (!mkdtemp(f->dir))
        die("mkdtemp");
    remember_socket(f);
    snprintf(f->path, sizeof f->path, "%s/socket", f->dir);
    snprintf(f->uri, sizeof f->uri, "unix://%s", f->path);
    memcpy(address.sun_path, f->path, strlen(f->path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 64) < 0)
        die("fake server");
    return fd;
}

static int listen_tcp(fakeserver *f)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, len) < 0 || listen(fd, 64) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        die("fake server");
    snprintf(f->uri, sizeof f->uri, "redis://127.0.0.1:%d", ntohs(address.sin_port));
    return fd;
}

fakeserver *fakeserver_start(const fakeserver_options *options)
{
    fakeserver *f = calloc(1, sizeof *f);
    if (!f)
        die("calloc");
    f->options = *options;
    f->current = -1;
    pthread_mutex_init(&f->lock, NULL);
    f->listener = options->tcp ? listen_tcp(f) : listen_unix(f);
    /* Signals are the test's; its thread inherits this mask. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&f->thread, NULL, run, f) != 0)
        die("pthread_create");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return f;
}

void fakeserver_stop(fakeserver *f)
{
    if (!f)
        return;
    atomic_store(&f->over, true);
    pthread_mutex_lock(&f->lock);
    if (f->current >= 0)
        shutdown(f->current, SHUT_RDWR);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->thread, NULL);
    pthread_mutex_destroy(&f->lock);
    close(f->listener);
    if (*f->dir)
        forget_socket(f);
    free(f);
}

const char *fakeserver_uri(const fakeserver *f)
{
    return f->uri;
}

int fakeserver_connections(const fakeserver *f)
{
    return atomic_load(&f->connections);
}

/* ---------------------------------------------------------------------------------------------- for scripts -- */

bool fake_read(fake_conn *conn)
{
    if (!resp_read_command(&conn->stream, &conn->command))
        return false;
    conn->scripts += fake_is_script(conn);
    return true;
}

bool fake_is(const fake_conn *conn, const char *name)
{
    return strcasecmp(resp_arg(&conn->command, 0), name) == 0;
}

bool fake_is_script(const fake_conn *conn)
{
    return fake_is(conn, "EVALSHA") || fake_is(conn, "EVAL");
}

bool fake_write(fake_conn *conn, const void *data, size_t len)
{
    return resp_write(conn->stream.fd, data, len);
}

bool fake_write_text(fake_conn *conn, const char *text)
{
    return fake_write(conn, text, strlen(text));
}

bool fake_write_slowly(fake_conn *conn, const void *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!fake_write(conn, (const char *)data + i, 1))
            return false;
        nanosleep(&(struct timespec){0, 200000}, NULL);
    }
    return true;
}

bool fake_relay(fake_conn *conn, bytes *reply)
{
    if (conn->upstream.fd < 0) {
        int fd = resp_connect_unix(conn->server->options.upstream);
        if (fd < 0)
            return false;
        resp_open(&conn->upstream, fd);
    }
    return resp_write(conn->upstream.fd, conn->command.raw.data, conn->command.raw.len) &&
           resp_read_reply(&conn->upstream, reply, NULL);
}

bool fake_greet(fake_conn *conn)
{
    while (fake_read(conn)) {
        if (fake_is_script(conn))
            return true;
        bool ok = fake_is(conn, "ROLE") ? fake_write_text(conn, "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n")
                                        : fake_write_text(conn, fake_is(conn, "PING") ? "+PONG\r\n" : "+OK\r\n");
        if (!ok)
            return false;
    }
    return false;
}

bool fake_is_quiet(fake_conn *conn, int ms)
{
    struct pollfd wait = {.fd = conn->stream.fd, .events = POLLIN};
    return conn->stream.used == conn->stream.in.len && poll(&wait, 1, ms) == 0;
}

void fake_wait_closed(fake_conn *conn)
{
    char drop[4096];
    while (read(conn->stream.fd, drop, sizeof drop) > 0)
        ;
}
