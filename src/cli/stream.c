/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stream: `acquire -`, requests from stdin, rows in input order.
 *
 * Up to WINDOW requests are in flight. Each has a slot in a ring, ring[head … tail), oldest first; an answer fills its
 * slot, and the answered slots at the head are written, flushed once a turn of the loop, and reused. So a slow
 * answer holds the rows behind it back, and reading stops when the ring is full.
 *
 * stdin is shared with whoever started us, so it stays in blocking mode and is read only when it is readable. What a
 * loop cannot watch (regular files, /dev/null) is asked with poll() from a timer instead.
 */
#include "client.h"
#include "lines.h"
#include "row.h"
#include "say.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    WINDOW = 1024,
    IDLE_US = 10000 /* between two looks at a device that can be polled but not watched */
};

struct stream;

typedef struct slot {
    struct stream *stream;
    bool answered;
    uint64_t line; /* that asks */
    cli_answer answer;
    cli_who who;
    unsigned char *names; /* of who */
} slot;

typedef struct stream {
    const cli_args *args;
    cli_client client;
    cli_request request;
    void *watch, *timer, *defer;
    bool watching; /* the watch is on */
    bool waits;    /* a request was refused (overload) and is kept in asked until an answer makes room */
    bool malformed, no_verdict;
    bool unwritten;    /* stdout is gone */
    bool closing;      /* the loop has ended: late answers are not written */
    size_t head, tail; /* count up for ever; the slot is ring[i % WINDOW] */
    cli_asked asked;
    cli_lines lines;
    char *texts; /* names and permits of all slots */
    slot ring[WINDOW];
} stream;

/* ------------------------------------------------------------------------------------------------------- rows -- */

static void advance(stream *s);

static cli_row row_of(const slot *at)
{
    return (cli_row){at->stream->args, &at->who, &at->answer};
}

static void write_slot(slot *at)
{
    cli_row row = row_of(at);
    cli_row_write(&row);
    at->answered = false;
}

/* Once the slot has its answer. */
static void note_answer(slot *at)
{
    stream *s = at->stream;
    cli_row row = row_of(at);
    at->answered = true;
    if (at->answer.result.error == 0)
        return;
    s->no_verdict = true;
    if (!s->closing)
        cli_row_explain(&row, at->line);
}

/* False, with no more to be done, when stdout is gone. */
static bool flush_rows(stream *s)
{
    s->unwritten = s->unwritten || !cli_flush();
    return !s->unwritten;
}

static void on_answer(hirate *h, const hirate_result *result, void *user)
{
    (void)h;
    slot *at = user;
    cli_answer_keep(&at->answer, at->stream->args, result, result->reason);
    note_answer(at);
    if (!at->stream->closing && at->stream->client.loop.defer_set(at->stream->defer) != 0)
        advance(at->stream);
}

/* ------------------------------------------------------------------------------------------------- submitting -- */

/* Put what the line asks for, s->asked, into a slot and the request. */
static void prepare(stream *s, slot *at)
{
    at->line = s->lines.number;
    cli_who_copy(&at->who, at->names, &s->asked.who);
    cli_request_name(&s->request, &at->who);
    s->request.request.cost = s->asked.cost;
    s->request.request.user = at;
}

/* A request that is refused at once is a malformed line if its arguments are wrong, and else has no verdict. */
static void refuse(stream *s, slot *at, int rc, const char *reason)
{
    if (rc == HIRATE_EINVAL) {
        cli_complain("line %" PRIu64 ": %s", at->line, reason);
        s->malformed = true;
        return;
    }
    cli_answer_refuse(&at->answer, s->args, &s->request.request, rc, reason);
    note_answer(at);
}

/* Submit s->asked from the slot at the tail. False: there is no room, try again after an answer. */
static bool submit(stream *s)
{
    slot *at = &s->ring[s->tail % WINDOW];
    prepare(s, at);
    int rc = hirate_submit(s->client.h, &s->request.request, NULL);
    if (rc == HIRATE_EOVERLOAD && s->head != s->tail)
        return false;
    if (rc != 0)
        refuse(s, at, rc, hirate_last_error(s->client.h));
    if (rc != HIRATE_EINVAL)
        s->tail++;
    return true;
}

static bool clashes(const stream *s)
{
    if (cli_args_clash(s->args, &s->asked.who) == s->args->limit_count)
        return false;
    cli_complain("line %" PRIu64 ": %s", s->lines.number, CLI_CLASH);
    return true;
}

/* Read one line into s->asked. False: it is malformed, which has been said. */
static bool read_request(stream *s, cli_line what, const char *line, size_t len)
{
    bool read = false;
    if (what == CLI_LINE_TOO_LONG)
        cli_lines_too_long(&s->lines);
    else if (cli_lines_parse(&s->lines, line, len, &s->asked))
        read = !clashes(s);
    s->malformed = s->malformed || !read;
    return read;
}

/* Submit buffered lines while there is room. True: more input is wanted. */
static bool submit_lines(stream *s)
{
    if (s->waits && !submit(s))
        return false;
    s->waits = false;
    while (s->tail - s->head < WINDOW) {
        const char *line;
        size_t len;
        cli_line what = cli_lines_next(&s->lines, &line, &len);
        if (what == CLI_LINE_NONE)
            return !s->lines.at_end;
        if (read_request(s, what, line, len) && !submit(s))
            return !(s->waits = true);
    }
    return false;
}

/* Have read_input() called when there is something to read, or stop that. */
static void want_input(stream *s, bool wanted)
{
    if (s->watch != NULL && s->watching == wanted)
        return;
    s->watching = wanted;
    int rc = s->watch != NULL ? s->client.loop.watch_set(s->watch, wanted ? HIRATE_READ : 0)
                              : s->client.loop.timer_set(s->timer, wanted ? 0 : -1);
    if (rc == 0)
        return;
    cli_fail(CLI_NO_VERDICT, "stdin: %s", hirate_strerror(rc));
    s->no_verdict = true;
    cli_client_stop(&s->client);
}

/* Write what is answered, submit what is read, and see what to wait for. */
static void advance(stream *s)
{
    bool wanted;
    do {
        while (s->head != s->tail && s->ring[s->head % WINDOW].answered)
            write_slot(&s->ring[s->head++ % WINDOW]);
        wanted = submit_lines(s);
    } while (s->head != s->tail && s->ring[s->head % WINDOW].answered);
    if (!flush_rows(s)) {
        cli_client_stop(&s->client);
    } else if (s->lines.at_end && s->head == s->tail) {
        cli_client_stop(&s->client);
    } else {
        want_input(s, wanted);
    }
}

static void on_defer(void *arg)
{
    advance(arg);
}

/* ---------------------------------------------------------------------------------------------------- reading -- */

static void read_input(stream *s)
{
    if (!cli_lines_fill(&s->lines)) {
        cli_fail(CLI_NO_VERDICT, "stdin: %s", strerror(errno));
        s->no_verdict = true;
        s->lines.at_end = true;
    }
    advance(s);
}

/* Someone else reading the same stdin may have taken what was there: then read() would block us. */
static bool readable(const stream *s)
{
    struct pollfd input = {.fd = s->lines.fd, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

static void on_readable(void *arg, unsigned events)
{
    stream *s = arg;
    (void)events;
    if (readable(s))
        read_input(s);
}

static void on_timer(void *arg)
{
    stream *s = arg;
    if (readable(s))
        read_input(s);
    else
        s->client.loop.timer_set(s->timer, IDLE_US);
}

/* Can every loop watch it? Terminals, pipes and sockets; other files and devices at least some cannot. */
static bool watchable(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return false;
    return S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || isatty(fd);
}

static int open_input(stream *s)
{
    const hirate_loop *loop = &s->client.loop;
    s->defer = loop->defer_new(loop->data, on_defer, s);
    if (watchable(s->lines.fd))
        s->watch = loop->watch_new(loop->data, s->lines.fd, on_readable, s);
    else
        s->timer = loop->timer_new(loop->data, on_timer, s);
    if (s->defer == NULL || (s->watch == NULL && s->timer == NULL))
        return cli_fail(CLI_NO_VERDICT, "stdin: %s", hirate_strerror(HIRATE_ELOOP));
    want_input(s, true);
    return 0;
}

static void close_input(stream *s)
{
    const hirate_loop *loop = &s->client.loop;
    if (s->watch != NULL)
        loop->watch_free(s->watch);
    if (s->timer != NULL)
        loop->timer_free(s->timer);
    if (s->defer != NULL)
        loop->defer_free(s->defer);
}

/* ---------------------------------------------------------------------------------------------------- the rest -- */

static void run_redis(stream *s)
{
    s->request.request.cb = on_answer;
    int rc = cli_client_open(&s->client, s->args, WINDOW);
    if (rc != 0)
        cli_fail(CLI_NO_VERDICT, "%s", hirate_strerror(rc));
    if (rc != 0 || open_input(s) != 0 || (!s->no_verdict && cli_client_run(&s->client) != 0))
        s->no_verdict = true;
    close_input(s);
    s->closing = true;
    cli_client_close(&s->client);
}

static void decide(stream *s, hirate_local *local)
{
    slot *at = &s->ring[0];
    hirate_result result;
    hirate_error error = {.text = ""};
    hirate_result_init(&result);
    prepare(s, at);
    int rc = hirate_local_decide(local, &s->request.request, cli_realtime_us(), &result, &error);
    if (rc == 0) {
        cli_answer_keep(&at->answer, s->args, &result, NULL);
        note_answer(at);
    } else {
        refuse(s, at, rc, error.text);
    }
    if (at->answered)
        write_slot(at);
}

/* No loop here: a decision takes no time, so reading may block once the rows are out. */
static void run_local(stream *s, hirate_local *local)
{
    for (;;) {
        const char *line;
        size_t len;
        cli_line what = cli_lines_next(&s->lines, &line, &len);
        if (what != CLI_LINE_NONE) {
            if (read_request(s, what, line, len))
                decide(s, local);
            continue;
        }
        if (!flush_rows(s) || s->lines.at_end)
            return;
        if (cli_lines_wait(&s->lines) && cli_lines_fill(&s->lines))
            continue;
        s->no_verdict = true;
        cli_fail(CLI_NO_VERDICT, "stdin: %s", strerror(errno));
        return;
    }
}

/* One with its ring ready, or NULL without memory. */
static stream *stream_new(const cli_args *args)
{
    size_t names = args->limit_count * HIRATE_NAME_MAX, room = cli_answer_room(args);
    stream *s = calloc(1, sizeof *s);
    char *texts = malloc(WINDOW * (names + room));
    if (s == NULL || texts == NULL) {
        free(s);
        free(texts);
        return NULL;
    }
    s->args = args;
    s->texts = texts;
    for (size_t i = 0; i < WINDOW; i++) {
        char *own = texts + i * (names + room);
        s->ring[i].stream = s;
        s->ring[i].names = (unsigned char *)own;
        cli_answer_init(&s->ring[i].answer, own + names, room);
    }
    cli_request_init(&s->request, args, HIRATE_OP_ACQUIRE);
    cli_lines_init(&s->lines, STDIN_FILENO, args->limit_count);
    return s;
}

static void stream_free(stream *s)
{
    if (s != NULL)
        free(s->texts);
    free(s);
}

static int status_of(const stream *s)
{
    return s->unwritten ? CLI_NO_VERDICT : s->malformed ? CLI_USAGE : s->no_verdict ? CLI_NO_VERDICT : CLI_ALLOWED;
}

int cli_stream(const cli_args *args)
{
    stream *s = stream_new(args);
    hirate_local *local = NULL;
    if (s == NULL || (args->local && hirate_local_new(&local, (size_t)1 << 31) != 0)) {
        stream_free(s);
        return cli_fail(CLI_NO_VERDICT, "%s", hirate_strerror(HIRATE_ENOMEM));
    }
    if (local != NULL)
        run_local(s, local);
    else
        run_redis(s);
    hirate_local_free(local);
    int status = status_of(s);
    stream_free(s);
    return status;
}
