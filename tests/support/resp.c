/* SPDX-License-Identifier: BSD-3-Clause */
/* Test support: the Redis wire format over a blocking descriptor. Running out of memory ends the test. */
#include "resp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void bytes_add(bytes *to, const void *data, size_t len)
{
    if (to->len + len + 1 > to->room) {
        size_t room = (to->len + len + 1) * 2;
        char *grown = realloc(to->data, room);
        if (!grown)
            abort();
        to->data = grown;
        to->room = room;
    }
    if (len)
        memcpy(to->data + to->len, data, len);
    to->len += len;
    to->data[to->len] = '\0';
}

void bytes_add_text(bytes *to, const char *text)
{
    bytes_add(to, text, strlen(text));
}

void bytes_clear(bytes *to)
{
    to->len = 0;
    bytes_add(to, "", 0);
}

void bytes_free(bytes *to)
{
    free(to->data);
    *to = (bytes){0};
}

void resp_open(resp_stream *stream, int fd)
{
    *stream = (resp_stream){.fd = fd};
}

void resp_close(resp_stream *stream)
{
    if (stream->fd >= 0)
        close(stream->fd);
    stream->fd = -1;
    bytes_free(&stream->in);
}

/* Make at least one more byte available behind those not yet used. */
static bool fill(resp_stream *stream)
{
    if (stream->used == stream->in.len) {
        stream->used = 0;
        bytes_clear(&stream->in);
    }
    char chunk[16384];
    ssize_t got;
    do
        got = read(stream->fd, chunk, sizeof chunk);
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        return false;
    bytes_add(&stream->in, chunk, (size_t)got);
    return true;
}

/* Move `len` bytes from the stream to the end of `to`. */
static bool take(resp_stream *stream, size_t len, bytes *to)
{
    while (stream->in.len - stream->used < len)
        if (!fill(stream))
            return false;
    bytes_add(to, stream->in.data + stream->used, len);
    stream->used += len;
    return true;
}

/* Move one line, its CR LF included, to the end of `to`; *line is where it begins there. */
static bool take_line(resp_stream *stream, bytes *to, size_t *line)
{
    size_t seen = 0;
    for (;;) {
        const char *begin = stream->in.data ? stream->in.data + stream->used : "";
        size_t have = stream->in.len - stream->used;
        const char *end = have > seen ? memchr(begin + seen, '\n', have - seen) : NULL;
        if (end) {
            *line = to->len;
            return take(stream, (size_t)(end - begin) + 1, to);
        }
        seen = have;
        if (!fill(stream))
            return false;
    }
}

const char *resp_arg(const resp_command *command, size_t i)
{
    return i < command->argc && i < RESP_ARGS ? command->data.data + command->at[i] : "";
}

void resp_command_free(resp_command *command)
{
    bytes_free(&command->data);
    bytes_free(&command->raw);
}

/* One `$LEN` string, added to command->data with a NUL behind it. */
static bool read_argument(resp_stream *stream, resp_command *command, size_t i)
{
    size_t line;
    if (!take_line(stream, &command->raw, &line) || command->raw.data[line] != '$')
        return false;
    size_t len = strtoul(command->raw.data + line + 1, NULL, 10);
    size_t at = command->raw.len;
    if (!take(stream, len + 2, &command->raw))
        return false;
    if (i < RESP_ARGS) {
        command->at[i] = command->data.len;
        command->len[i] = len;
        bytes_add(&command->data, command->raw.data + at, len);
        bytes_add(&command->data, "", 1);
    }
    return true;
}

bool resp_read_command(resp_stream *stream, resp_command *command)
{
    bytes_clear(&command->data);
    bytes_clear(&command->raw);
    command->argc = 0;
    size_t line;
    if (!take_line(stream, &command->raw, &line) || command->raw.data[line] != '*')
        return false;
    size_t argc = strtoul(command->raw.data + line + 1, NULL, 10);
    for (size_t i = 0; i < argc; i++)
        if (!read_argument(stream, command, i))
            return false;
    command->argc = argc;
    return true;
}

/* A string's contents after its `$LEN` line. */
static bool read_bulk(resp_stream *stream, long len, bytes *raw, bytes *text)
{
    if (len < 0) {
        bytes_add_text(text, "(nil)");
        return true;
    }
    size_t at = raw->len;
    if (!take(stream, (size_t)len + 2, raw))
        return false;
    bytes_add(text, raw->data + at, (size_t)len);
    return true;
}

static bool read_reply(resp_stream *stream, bytes *raw, bytes *text)
{
    size_t line;
    if (!take_line(stream, raw, &line) || raw->len - line < 3)
        return false;
    char type = raw->data[line];
    size_t len = raw->len - line - 3;
    long count = strtol(raw->data + line + 1, NULL, 10);
    switch (type) {
    case '+':
    case ':':
        bytes_add(text, raw->data + line + 1, len);
        return true;
    case '-':
        bytes_add(text, raw->data + line, len + 1);
        return true;
    case '$':
        return read_bulk(stream, count, raw, text);
    case '*':
        if (count < 0)
            bytes_add_text(text, "(nil)");
        for (long i = 0; i < count; i++) {
            if (i)
                bytes_add_text(text, "\n");
            if (!read_reply(stream, raw, text))
                return false;
        }
        return true;
    default:
        return false;
    }
}

bool resp_read_reply(resp_stream *stream, bytes *raw, bytes *text)
{
    bytes own_raw = {0}, own_text = {0};
    bool ok = read_reply(stream, raw ? raw : &own_raw, text ? text : &own_text);
    bytes_free(&own_raw);
    bytes_free(&own_text);
    return ok;
}

void resp_format(bytes *to, size_t argc, const char *const *argv, const size_t *len)
{
    char head[32];
    snprintf(head, sizeof head, "*%zu\r\n", argc);
    bytes_add_text(to, head);
    for (size_t i = 0; i < argc; i++) {
        size_t n = len ? len[i] : strlen(argv[i]);
        snprintf(head, sizeof head, "$%zu\r\n", n);
        bytes_add_text(to, head);
        bytes_add(to, argv[i], n);
        bytes_add_text(to, "\r\n");
    }
}

bool resp_write(int fd, const void *data, size_t len)
{
    const char *at = data;
    while (len) {
        ssize_t put = send(fd, at, len, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        at += put;
        len -= (size_t)put;
    }
    return true;
}

int resp_connect_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return -1;
    memcpy(address.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) < 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}
