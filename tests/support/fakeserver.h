/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test support: a server whose every byte the test decides, in a thread of the test's process.
 *
 * Connections are served one after the other. For each, the script runs in the server's thread; when it returns the
 * connection is closed. It may answer from thin air or relay to a real server and do what it likes with the answer.
 * Nothing in a script may use cmocka's assertions: they belong to the test's own thread.
 */
#ifndef TESTS_FAKESERVER_H
#define TESTS_FAKESERVER_H

#include "resp.h"

typedef struct fakeserver fakeserver;

typedef struct fake_conn {
    int number; /* connections before this one */
    fakeserver *server;
    resp_stream stream;
    resp_stream upstream; /* fd -1 until the first relay */
    resp_command command; /* the last one read */
    int scripts;          /* script calls (EVAL, EVALSHA) read on this connection */
} fake_conn;

typedef void fake_script(fake_conn *conn, void *arg);

typedef struct fakeserver_options {
    bool tcp;             /* on 127.0.0.1; default a unix socket */
    const char *upstream; /* unix socket of the real server for fake_relay(); kept as a pointer */
    fake_script *script;
    void *arg;
} fakeserver_options;

fakeserver *fakeserver_start(const fakeserver_options *options); /* never NULL: trouble ends the test */
void fakeserver_stop(fakeserver *f);                             /* waits for the thread; NULL is fine */
const char *fakeserver_uri(const fakeserver *f);
int fakeserver_connections(const fakeserver *f); /* accepted so far */

/* For scripts. False, here and below: the client is gone or the test is over. */
bool fake_read(fake_conn *conn);                       /* the next command into conn->command */
bool fake_is(const fake_conn *conn, const char *name); /* is the command this one? In any case */
bool fake_is_script(const fake_conn *conn);            /* EVAL or EVALSHA */
bool fake_write(fake_conn *conn, const void *data, size_t len);
bool fake_write_text(fake_conn *conn, const char *text);
bool fake_write_slowly(fake_conn *conn, const void *data, size_t len); /* a byte at a time, each its own packet */
bool fake_relay(fake_conn *conn, bytes *reply); /* ask the real server; its raw reply is added to *reply */

/* Answer commands of the greeting (anything but a script call) as a primary would until a script call has been read,
 * which is left in conn->command. */
bool fake_greet(fake_conn *conn);
bool fake_is_quiet(fake_conn *conn, int ms); /* has nothing come for so long? */
void fake_wait_closed(fake_conn *conn);      /* read and drop whatever comes */

#endif
