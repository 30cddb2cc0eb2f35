/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mixed_storm SOCKET PREFIX MILLISECONDS SEED FILES PROGRAM storm|calm: run the clients of the mixed run (mixed.sh),
 * always so many at once; PROGRAM is mixed_load, FILES the beginning of the names of their files.
 *
 * storm: clients are killed and replaced, the server's connections are killed, its scripts flushed, the server pauses,
 * at random moments. calm: they are left alone. Exits with 1 when a client ended other than by being killed here, or at
 * its time. However this program ends, its clients end with it.
 */
#include "support/mixed.h"
#include "support/random.h"
#include "support/resp.h"

#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS = 8, PATIENCE_MS = 120000 };

typedef struct client {
    pid_t pid; /* 0: none */
    char path[256];
} client;

static struct {
    char **argv;
    rng random;
    int64_t end_ms;
    resp_stream admin;
    client clients[CLIENTS];
    unsigned started, killed, connections, flushed, paused;
} storm;

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void sleep_ms(uint64_t ms)
{
    nanosleep(&(struct timespec){(time_t)(ms / 1000), (long)(ms % 1000) * 1000000}, NULL);
}

/* A command to the server; returns the answer if that is a number. */
static long ask(const char *words)
{
    const char *argv[8];
    size_t argc = 0;
    char text[64];
    bytes command = {0}, answer = {0};

    snprintf(text, sizeof text, "%s", words);
    for (char *word = strtok(text, " "); word && argc < 8; word = strtok(NULL, " "))
        argv[argc++] = word;
    resp_format(&command, argc, argv, NULL);
    if (!resp_write(storm.admin.fd, command.data, command.len) || !resp_read_reply(&storm.admin, NULL, &answer))
        errx(1, "%s: no answer", words);
    if (answer.data[0] == '-')
        errx(1, "%s: %s", words, answer.data);
    long number = strtol(answer.data, NULL, 10);
    bytes_free(&command);
    bytes_free(&answer);
    return number;
}

/* --------------------------------------------------------------------------------------------------- clients -- */

static void become_client(const client *c, pid_t parent, const char *ms, const char *seed)
{
    char uri[256];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    snprintf(uri, sizeof uri, "unix://%s", storm.argv[1]);
    execl(storm.argv[6], storm.argv[6], uri, storm.argv[2], ms, seed, c->path, storm.argv[7], (char *)NULL);
    _exit(127);
}

static void start(client *c)
{
    int64_t left = storm.end_ms - now_ms();
    char ms[24], seed[24];

    snprintf(ms, sizeof ms, "%" PRId64, left > 0 ? left : 0);
    snprintf(seed, sizeof seed, "%" PRIu64, rng_next(&storm.random));
    snprintf(c->path, sizeof c->path, "%s.%03u", storm.argv[5], storm.started++);
    pid_t parent = getpid();
    c->pid = fork();
    if (c->pid < 0)
        err(1, "fork");
    if (c->pid == 0)
        become_client(c, parent, ms, seed);
}

/* Has it ended? If it did, how is looked at. */
static bool reap(client *c, int flags)
{
    int status = 0;
    pid_t pid;
    do {
        pid = waitpid(c->pid, &status, flags);
    } while (pid < 0 && errno == EINTR);
    if (pid == 0)
        return false;
    if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        errx(1, "%s: the client ended with status %d", c->path, status);
    c->pid = 0;
    return true;
}

/* The server answers nobody for a moment, so that much is in flight. */
static void pause_server(void)
{
    ask("CLIENT PAUSE 60");
    storm.paused++;
    sleep_ms(10 + rng_upto(&storm.random, 60));
}

/* Only one that has begun to record: its file tells that it was killed. */
static void kill_one(client *c)
{
    struct stat info;
    int status;
    if (stat(c->path, &info) != 0 || info.st_size != (off_t)MIXED_FILE_SIZE)
        return;
    if (rng_upto(&storm.random, 1))
        pause_server();
    kill(c->pid, SIGKILL);
    if (waitpid(c->pid, &status, 0) != c->pid)
        err(1, "waitpid");
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        errx(1, "%s: the client ended before it was killed, with status %d", c->path, status);
    mixed_file *file = mixed_file_map(c->path);
    file->killed = true;
    munmap(file, MIXED_FILE_SIZE);
    storm.killed++;
    start(c);
}

/* ----------------------------------------------------------------------------------------------------- storm -- */

static void blow(void)
{
    while (now_ms() < storm.end_ms - 200) {
        sleep_ms(20 + rng_upto(&storm.random, 230));
        for (unsigned i = 0; i < CLIENTS; i++) {
            if (now_ms() < storm.end_ms && reap(&storm.clients[i], WNOHANG))
                errx(1, "%s: the client ended too early", storm.clients[i].path);
        }
        switch (rng_upto(&storm.random, 3)) {
        case 0:
            storm.connections += (unsigned)ask("CLIENT KILL TYPE normal");
            break;
        case 1:
            ask("SCRIPT FLUSH");
            storm.flushed++;
            break;
        default:
            if (now_ms() < storm.end_ms - 200)
                kill_one(&storm.clients[rng_upto(&storm.random, CLIENTS - 1)]);
        }
    }
}

static void wait_for_all(void)
{
    int64_t end = storm.end_ms + PATIENCE_MS;
    for (unsigned i = 0; i < CLIENTS; i++) {
        while (!reap(&storm.clients[i], WNOHANG)) {
            if (now_ms() > end)
                errx(1, "%s: the client does not end", storm.clients[i].path);
            sleep_ms(10);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 8)
        errx(2, "usage: mixed_storm SOCKET PREFIX MILLISECONDS SEED FILES PROGRAM storm|calm");
    storm.argv = argv;
    storm.random.state = strtoull(argv[4], NULL, 10);
    storm.end_ms = now_ms() + strtoll(argv[3], NULL, 10);
    int fd = resp_connect_unix(argv[1]);
    if (fd < 0)
        err(1, "%s", argv[1]);
    resp_open(&storm.admin, fd);
    for (unsigned i = 0; i < CLIENTS; i++)
        start(&storm.clients[i]);
    if (strcmp(argv[7], "storm") == 0)
        blow();
    wait_for_all();
    printf("clients %u, of which %u were killed; connections killed %u, scripts flushed %u times, server paused %u "
           "times\n",
           storm.started, storm.killed, storm.connections, storm.flushed, storm.paused);
    return 0;
}
