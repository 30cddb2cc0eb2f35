/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test support: the Redis wire format over a blocking descriptor, in both directions, without hiredis, so that
 * what tests know about a server does not rest on the library under test.
 */
#ifndef TESTS_RESP_H
#define TESTS_RESP_H

#include <stdbool.h>
#include <stddef.h>

/* A growing byte string, always followed by a NUL. Zeroed is empty; free data with bytes_free(). */
typedef struct bytes {
    char *data;
    size_t len;
    size_t room;
} bytes;

void bytes_add(bytes *to, const void *data, size_t len);
void bytes_add_text(bytes *to, const char *text);
void bytes_clear(bytes *to); /* keeps the memory */
void bytes_free(bytes *to);

/* What was read from `fd` and not yet used. */
typedef struct resp_stream {
    int fd;
    size_t used;
    bytes in;
} resp_stream;

void resp_open(resp_stream *stream, int fd);
void resp_close(resp_stream *stream); /* closes fd */

/* One command: `argc` arguments, of which the first RESP_ARGS are kept whole, one after the other, in `data`. */
#define RESP_ARGS 2100
typedef struct resp_command {
    size_t argc;
    size_t at[RESP_ARGS];
    size_t len[RESP_ARGS];
    bytes data;
    bytes raw; /* as it came */
} resp_command;

const char *resp_arg(const resp_command *command, size_t i); /* followed by a NUL; "" past the end */
void resp_command_free(resp_command *command);

/* Read one command (an array of strings). False at the end of the stream, on an error or on anything else. */
bool resp_read_command(resp_stream *stream, resp_command *command);

/* Read one whole reply. `raw` receives it as it came, `text` its contents: strings as they are, integers in decimal,
 * errors with their '-', nil as "(nil)", the elements of arrays separated by line feeds. Either may be NULL. */
bool resp_read_reply(resp_stream *stream, bytes *raw, bytes *text);

/* Append a command to `to`. */
void resp_format(bytes *to, size_t argc, const char *const *argv, const size_t *len);

/* Write everything; false when the peer is gone. Raises no signal. */
bool resp_write(int fd, const void *data, size_t len);

/* A blocking connection to a unix socket, or -1. */
int resp_connect_unix(const char *path);

#endif
