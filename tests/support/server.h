/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test support: a real Redis or Valkey server of the test's own.
 *
 * It listens on a unix socket in a private directory and, if asked, on a free port of the loopback; it keeps nothing on
 * disk. It ends with the test: server_stop(), else at exit, else by the kernel when the test is killed. Whatever goes
 * wrong in here prints the server's log and ends the test with status 1.
 *
 * The program is $REDIS_SERVER, or redis-server or valkey-server from the PATH. Where there is none a test's main()
 * returns 77: `if (!server_available()) return 77;`.
 */
#ifndef TESTS_SERVER_H
#define TESTS_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct server server;

typedef struct server_options {
    bool tcp;                /* also listen on 127.0.0.1 and, where there is one, ::1 */
    bool fake_clock;         /* preload fakeclock: server_set_clock() works, and only lazy expiry remains */
    const char *password;    /* requirepass, at most 60 bytes */
    const char *const *args; /* more arguments, NULL-terminated; they must outlive the server. NULL: none */
} server_options;

bool server_available(void);
server *server_start(const server_options *options); /* NULL: the defaults. Never NULL */
void server_stop(server *s);                         /* NULL is fine */

const char *server_path(const server *s);                /* of the unix socket */
const char *server_uri(const server *s);                 /* unix://PATH, without a password */
int server_port(const server *s);                        /* 0 without tcp */
const char *server_tcp_uri(server *s, const char *host); /* redis://HOST:PORT, valid until the next call */
bool server_has_ipv6(const server *s);
int server_version(const server *s); /* major * 100 + minor, of Redis or Valkey; 700 is Redis 7.0 */

void server_set_clock(server *s, int64_t now_us); /* 0: the real time */
void server_pause(server *s);                     /* SIGSTOP, and wait until it has stopped */
void server_resume(server *s);
void server_kill(server *s);    /* SIGKILL, and wait until it is gone */
void server_restart(server *s); /* start it again at the same socket and port; kills it first if need be */
pid_t server_pid(const server *s);

/*
 * Ask the server on a connection of the test's own; it reconnects by itself. The answer is text as resp_read_reply()
 * renders it, valid until the next question. server_ask() splits `words` at spaces.
 */
const char *server_ask(server *s, const char *words, ...) __attribute__((format(printf, 2, 3)));
const char *server_ask_args(server *s, size_t argc, const char *const *argv, const size_t *len, size_t *answer_len);
int64_t server_ask_int(server *s, const char *words, ...) __attribute__((format(printf, 2, 3)));

/* A number from INFO, such as "total_connections_received"; of a line `cmdstat_evalsha:calls=7,…` the first number.
 * 0 when there is no such line. */
int64_t server_info(server *s, const char *section, const char *field);

/* What the script adds to reset_ms in a key that it writes at the fake clock's present moment, on servers whose active
 * expiry drops a key when its last millisecond begins rather than when that is over: 0 or 1. */
int64_t server_expiry_spare_ms(const server *s);

/* Is a PTTL what a state with this reset_ms was just written with, the fake clock standing still? -2, no key, for 0. */
bool server_expiry_fits(const server *s, int64_t pttl, int64_t reset_ms);

#endif
