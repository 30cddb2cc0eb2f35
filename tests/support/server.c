/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test support: a real Redis or Valkey server of the test's own (see server.h).
 *
 * Servers form a list so that those still running at exit are stopped. A server started by a parent is none of a forked
 * child's business: `owner` tells them apart. PR_SET_PDEATHSIG covers the test that is killed.
 */
#include "server.h"

#include "fakeclock.h"
#include "resp.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_TIMEOUT_MS 60000 /* generous: a loaded machine, a test under valgrind */
#define STOP_TIMEOUT_MS 3000
#define ARGS_MAX 64

struct server {
    server *next;
    pid_t owner; /* the process that started it */
    pid_t pid;   /* 0: not running */
    server_options options;
    int version;
    bool valkey;
    int port;
    bool ipv6;
    char dir[64];
    char path[96]; /* the socket; leaves room in sockaddr_un */
    char uri[112];
    char tcp_uri[128];
    char password[64];
    fakeclock_page *clock; /* NULL: the real clock */
    resp_stream admin;     /* fd -1: not connected */
    bytes answer;
};

static server *servers;

/* --------------------------------------------------------------------------------------------- the program -- */

static bool in_path(const char *name, char *out, size_t size)
{
    const char *path = getenv("PATH");
    if (strchr(name, '/')) {
        snprintf(out, size, "%s", name);
        return access(out, X_OK) == 0;
    }
    while (path && *path) {
        size_t len = strcspn(path, ":");
        snprintf(out, size, "%.*s/%s", (int)len, path, name);
        if (len && access(out, X_OK) == 0)
            return true;
        path += len + (path[len] == ':');
    }
    return false;
}

/* The server program's path, or NULL. */
static const char *program(void)
{
    static char path[4096];
    const char *wanted = getenv("REDIS_SERVER");
    if (wanted && *wanted)
        return in_path(wanted, path, sizeof path) ? path : NULL;
    return in_path("redis-server", path, sizeof path) || in_path("valkey-server", path, sizeof path) ? path : NULL;
}

bool server_available(void)
{
    if (program())
        return true;
    fprintf(stderr, "skipped: no redis-server or valkey-server found\n");
    return false;
}

/* Where fakeclock.c was built to: HIRATE_FAKECLOCK, or the build directory around this program or around us. */
static const char *fakeclock_library(void)
{
    static char path[4200];
    const char *wanted = getenv("HIRATE_FAKECLOCK");
    if (wanted && *wanted)
        return wanted;
    static const char *const places[] = {"support/.libs/libfakeclock.so", "../support/.libs/libfakeclock.so",
                                         "libfakeclock.so"};
    char self[4096];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    self[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash)
        *slash = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s/%s", self, places[i]);
        if (access(path, R_OK) == 0)
            return path;
    }
    char here[4096];
    if (getcwd(here, sizeof here)) {
        snprintf(path, sizeof path, "%s/tests/support/.libs/libfakeclock.so", here);
        if (access(path, R_OK) == 0)
            return path;
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------------------- failing -- */

static void die(const server *s, const char *what)
{
    fprintf(stderr, "test server: %s (errno: %s)\n", what, strerror(errno));
    if (s) {
        char path[96], chunk[4096];
        snprintf(path, sizeof path, "%s/log", s->dir);
        FILE *log = fopen(path, "r");
        size_t got = log ? fread(chunk, 1, sizeof chunk, log) : 0;
        fwrite(chunk, 1, got, stderr);
        if (log)
            fclose(log);
    }
    exit(1);
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* -------------------------------------------------------------------------------------------- setting it up -- */

static bool loopback_ipv6(void)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0)
        close(fd);
    return ok;
}

/* A port that was free a moment ago. The kernel hands these out from 32768 on. */
static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, len) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        die(NULL, "no free port");
    close(fd);
    return ntohs(address.sin_port);
}

static void map_clock(server *s)
{
    char path[96];
    snprintf(path, sizeof path, "%s/clock", s->dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, FAKECLOCK_SIZE) < 0)
        die(NULL, "cannot make the clock's file");
    void *map = mmap(NULL, FAKECLOCK_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        die(NULL, "cannot map the clock's file");
    s->clock = map;
}

/* From `Redis server v=7.0.15 …`, `Valkey server v=8.1.1 …`. */
static void ask_version(server *s)
{
    char command[4200], line[256] = "";
    snprintf(command, sizeof command, "'%s' --version", program());
    FILE *pipe = popen(command, "r");
    if (!pipe || !fgets(line, sizeof line, pipe))
        die(NULL, "the server program does not tell its version");
    pclose(pipe);
    const char *at = strstr(line, "v=");
    int major = 0, minor = 0;
    if (!at || sscanf(at, "v=%d.%d", &major, &minor) != 2)
        die(NULL, "the server program's version is not understood");
    s->version = major * 100 + minor;
    s->valkey = strncmp(line, "Valkey", 6) == 0;
}

static void add(const char **argv, size_t *argc, const char *name, const char *value)
{
    argv[(*argc)++] = name;
    argv[(*argc)++] = value;
}

/* In the child: become the server. Never returns. */
static void become_server(const server *s, pid_t parent)
{
    char port[16], log[96];
    const char *argv[ARGS_MAX + 1] = {program()};
    size_t argc = 1;
    snprintf(port, sizeof port, "%d", s->port);
    snprintf(log, sizeof log, "%s/log", s->dir);
    add(argv, &argc, "--port", port);
    add(argv, &argc, "--unixsocket", s->path);
    add(argv, &argc, "--dir", s->dir);
    add(argv, &argc, "--logfile", log);
    add(argv, &argc, "--save", "");
    add(argv, &argc, "--appendonly", "no");
    if (s->options.fake_clock && s->version >= 700)
        add(argv, &argc, "--enable-debug-command", "local");
    if (*s->password)
        add(argv, &argc, "--requirepass", s->password);
    if (s->port) {
        add(argv, &argc, "--bind", "127.0.0.1");
        if (s->ipv6)
            argv[argc++] = "::1";
    }
    for (const char *const *more = s->options.args; more && *more && argc < ARGS_MAX; more++)
        argv[argc++] = *more;
    argv[argc] = NULL;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

static void launch(server *s)
{
    const char *library = s->clock ? fakeclock_library() : NULL;
    char clock_file[96];
    snprintf(clock_file, sizeof clock_file, "%s/clock", s->dir);
    if (s->clock && !library)
        die(NULL, "libfakeclock.so not found; name it in HIRATE_FAKECLOCK");
    pid_t parent = getpid();
    s->pid = fork();
    if (s->pid < 0)
        die(NULL, "fork");
    if (s->pid == 0) {
        /* Not a sanitizer's own library, which the test may have been given: the server is not built for it. */
        unsetenv("LD_PRELOAD");
        if (library) {
            setenv("LD_PRELOAD", library, 1);
            setenv(FAKECLOCK_ENV, clock_file, 1);
        }
        become_server(s, parent);
    }
}

/* ------------------------------------------------------------------------------------------------ its life -- */

static void reap(server *s)
{
    while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    s->pid = 0;
    resp_close(&s->admin);
}

static bool reap_within(server *s, int64_t ms)
{
    int64_t end = now_ms() + ms;
    while (waitpid(s->pid, NULL, WNOHANG) == 0) {
        if (now_ms() > end)
            return false;
        sleep_ms(2);
    }
    s->pid = 0;
    resp_close(&s->admin);
    return true;
}

static bool admin_connect(server *s)
{
    int fd = resp_connect_unix(s->path);
    if (fd < 0)
        return false;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = START_TIMEOUT_MS / 1000},
               sizeof(struct timeval));
    resp_open(&s->admin, fd);
    if (!*s->password)
        return true;
    bytes command = {0};
    resp_format(&command, 2, (const char *const[]){"AUTH", s->password}, NULL);
    bool ok = resp_write(fd, command.data, command.len) && resp_read_reply(&s->admin, NULL, NULL);
    bytes_free(&command);
    if (!ok)
        resp_close(&s->admin);
    return ok;
}

static bool answers_ping(server *s)
{
    if (s->admin.fd < 0 && !admin_connect(s))
        return false;
    bytes_clear(&s->answer);
    if (resp_write(s->admin.fd, "*1\r\n$4\r\nPING\r\n", 14) && resp_read_reply(&s->admin, NULL, &s->answer) &&
        strcmp(s->answer.data, "PONG") == 0)
        return true;
    resp_close(&s->admin);
    return false;
}

static void wait_ready(server *s)
{
    int64_t end = now_ms() + START_TIMEOUT_MS;
    while (!answers_ping(s)) {
        if (waitpid(s->pid, NULL, WNOHANG) == s->pid) {
            s->pid = 0;
            die(s, "it ended at once");
        }
        if (now_ms() > end)
            die(s, "it does not answer");
        sleep_ms(2);
    }
    /* Keys must not vanish at moments of the server's choosing while a test moves its clock to and fro. */
    if (s->clock && strcmp(server_ask(s, "DEBUG SET-ACTIVE-EXPIRE 0"), "OK") != 0)
        die(s, "it refuses DEBUG SET-ACTIVE-EXPIRE");
}

static void remove_dir(const server *s)
{
    static const char *const files[] = {"socket", "clock", "log", "dump.rdb", "tls"};
    char path[128];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", s->dir, files[i]);
        unlink(path);
    }
    rmdir(s->dir);
}

static void stop_all(void)
{
    while (servers && servers->owner == getpid())
        server_stop(servers);
}

server *server_start(const server_options *options)
{
    static bool registered;
    if (!registered && atexit(stop_all) == 0)
        registered = true;
    server *s = calloc(1, sizeof *s);
    if (!s || !program())
        die(NULL, "no memory or no server program");
    if (options)
        s->options = *options;
    s->owner = getpid();
    s->admin.fd = -1;
    ask_version(s);
    snprintf(s->password, sizeof s->password, "%s", s->options.password ? s->options.password : "");
    const char *tmp = getenv("TMPDIR");
    snprintf(s->dir, sizeof s->dir, "%s/hirate-XXXXXX", tmp && *tmp && strlen(tmp) < 40 ? tmp : "/tmp");
    if (!mkdtemp(s->dir))
        die(NULL, "cannot make a directory");
    snprintf(s->path, sizeof s->path, "%s/socket", s->dir);
    snprintf(s->uri, sizeof s->uri, "unix://%s", s->path);
    if (s->options.fake_clock)
        map_clock(s);
    if (s->options.tcp) {
        s->port = free_port();
        s->ipv6 = loopback_ipv6();
    }
    s->next = servers;
    servers = s;
    launch(s);
    wait_ready(s);
    return s;
}

void server_stop(server *s)
{
    if (!s)
        return;
    if (s->clock)
        server_set_clock(s, 0); /* Redis 6.0 notices a SIGTERM by a timer on this clock */
    if (s->pid) {
        kill(s->pid, SIGTERM);
        kill(s->pid, SIGCONT);
        if (!reap_within(s, STOP_TIMEOUT_MS))
            server_kill(s);
    }
    for (server **at = &servers; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    remove_dir(s);
    if (s->clock)
        munmap(s->clock, FAKECLOCK_SIZE);
    resp_close(&s->admin);
    bytes_free(&s->answer);
    free(s);
}

void server_kill(server *s)
{
    if (!s->pid)
        return;
    kill(s->pid, SIGKILL);
    reap(s);
}

void server_restart(server *s)
{
    server_kill(s);
    launch(s);
    wait_ready(s);
}

void server_pause(server *s)
{
    int status;
    kill(s->pid, SIGSTOP);
    while (waitpid(s->pid, &status, WUNTRACED) < 0 && errno == EINTR)
        ;
}

void server_resume(server *s)
{
    kill(s->pid, SIGCONT);
}

void server_set_clock(server *s, int64_t now_us)
{
    if (!s->clock)
        die(NULL, "server_set_clock: started without fake_clock");
    atomic_store_explicit(&s->clock->now_us, now_us, memory_order_release);
}

/* ------------------------------------------------------------------------------------------------- telling -- */

const char *server_path(const server *s)
{
    return s->path;
}

const char *server_uri(const server *s)
{
    return s->uri;
}

int server_port(const server *s)
{
    return s->port;
}

const char *server_tcp_uri(server *s, const char *host)
{
    snprintf(s->tcp_uri, sizeof s->tcp_uri, "redis://%s:%d", host, s->port);
    return s->tcp_uri;
}

bool server_has_ipv6(const server *s)
{
    return s->ipv6;
}

int server_version(const server *s)
{
    return s->version;
}

pid_t server_pid(const server *s)
{
    return s->pid;
}

/* ------------------------------------------------------------------------------------------------- asking -- */

const char *server_ask_args(server *s, size_t argc, const char *const *argv, const size_t *len, size_t *answer_len)
{
    bytes command = {0};
    resp_format(&command, argc, argv, len);
    /* An idle connection may have been closed from the other side: once more on a new one. */
    for (int attempt = 0;; attempt++) {
        if (s->admin.fd < 0 && !admin_connect(s))
            die(s, "cannot connect to it");
        bytes_clear(&s->answer);
        if (resp_write(s->admin.fd, command.data, command.len) && resp_read_reply(&s->admin, NULL, &s->answer))
            break;
        resp_close(&s->admin);
        if (attempt)
            die(s, "it does not answer a question");
    }
    bytes_free(&command);
    if (answer_len)
        *answer_len = s->answer.len;
    return s->answer.data;
}

static const char *ask_words(server *s, char *words)
{
    const char *argv[ARGS_MAX];
    size_t argc = 0;
    for (char *word = strtok(words, " "); word && argc < ARGS_MAX; word = strtok(NULL, " "))
        argv[argc++] = word;
    return server_ask_args(s, argc, argv, NULL, NULL);
}

const char *server_ask(server *s, const char *words, ...)
{
    char text[2048];
    va_list args;
    va_start(args, words);
    vsnprintf(text, sizeof text, words, args);
    va_end(args);
    return ask_words(s, text);
}

int64_t server_ask_int(server *s, const char *words, ...)
{
    char text[2048];
    va_list args;
    va_start(args, words);
    vsnprintf(text, sizeof text, words, args);
    va_end(args);
    const char *answer = ask_words(s, text);
    char *end;
    long long value = strtoll(answer, &end, 10);
    if (end == answer || *end)
        die(s, answer);
    return value;
}

int64_t server_info(server *s, const char *section, const char *field)
{
    const char *text = server_ask(s, "INFO %s", section);
    size_t len = strlen(field);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, field, len) == 0 && line[len] == ':') {
            const char *value = line + len + 1;
            value += strcspn(value, "0123456789");
            return strtoll(value, NULL, 10);
        }
    }
    return 0;
}

int64_t server_expiry_spare_ms(const server *s)
{
    if (!s->clock)
        die(s, "server_expiry_spare_ms: started without fake_clock");
    bool early = s->version >= 703 && !s->valkey;
    return early && atomic_load_explicit(&s->clock->now_us, memory_order_relaxed) % 1000 > 0;
}

bool server_expiry_fits(const server *s, int64_t pttl, int64_t reset_ms)
{
    return pttl == (reset_ms ? reset_ms + server_expiry_spare_ms(s) : -2);
}
