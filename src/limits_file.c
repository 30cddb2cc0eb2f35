/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client: limits read from a file, one a line.
 *
 * What a file held is a `content`: its limits in their order and a table that finds them by name, in one piece of
 * memory that does not change once it is built. A reload builds a second one, and only when that is whole takes it in
 * place of the first: whatever fails on the way, the old limits stand untouched. A file that is replaced by rename() is
 * read old or new; one that is written in place while it is read may be read half written.
 *
 * The text is gone through twice: first only counting, so that the second time each limit has its place already, which
 * its policy pointer may point into.
 */
#include "error.h"
#include "hash.h"
#include "hirate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    LIMITS_MOST = 4096,
    FILE_MOST = 1 << 20, /* bytes */
    PATH_SHOWN = 100     /* bytes of a path that an error text repeats, so that the rest of it still fits */
};

typedef struct entry {
    hr_hash_node node; /* first: a node is its entry */
    unsigned line;
    hirate_limit limit;
    char policy[HIRATE_POLICY_SIZE];
} entry;

typedef struct content {
    hr_hash_table table;
    hr_hash_key key;
    size_t count;
    entry entries[];
} content;

struct hirate_limits {
    content *content;
    char path[];
};

/* A file's text, and where in it we are. */
typedef struct reader {
    const char *path;
    char *data; /* len bytes and room for one more */
    size_t len;
    size_t at;       /* where the next line begins */
    unsigned number; /* of the line found last, from 1 */
    char *line;      /* that line, without its end; the byte behind it may be overwritten */
    size_t line_len;
    hirate_error *error;
} reader;

/* -------------------------------------------------------------------------------------------------- errors -- */

/* The path, or "..." and its end. */
static void show_path(char shown[PATH_SHOWN + 1], const char *path)
{
    size_t len = strlen(path);

    (void)snprintf(shown, PATH_SHOWN + 1, "%s%s", len > PATH_SHOWN ? "..." : "",
                   len > PATH_SHOWN ? path + len - (PATH_SHOWN - 3) : path);
}

/* For want of memory, whichever way. */
static int fail_memory(hirate_error *error)
{
    return hr_fail(error, HIRATE_ENOMEM, "no memory for the limits");
}

static int fail_file(const reader *r, int why)
{
    char path[PATH_SHOWN + 1];

    show_path(path, r->path);
    errno = why;
    return hr_fail(r->error, HIRATE_EINVAL, "%s: cannot be read: %m", path); /* %m: strerror() is not for threads */
}

/* `PATH:LINE: text`, for the line found last. */
static int fail_line(const reader *r, const char *text)
{
    char path[PATH_SHOWN + 1];

    show_path(path, r->path);
    return hr_fail(r->error, HIRATE_EINVAL, "%s:%u: %s", path, r->number, text);
}

/* ------------------------------------------------------------------------------------------------- reading -- */

/* Up to one byte more than is accepted, so that it shows. 0 or an errno. */
static int read_all(reader *r, int fd)
{
    while (r->len <= FILE_MOST) {
        ssize_t got = read(fd, r->data + r->len, FILE_MOST + 1 - r->len);
        if (got == 0)
            break;
        if (got < 0 && errno != EINTR)
            return errno;
        r->len += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

static int read_file(reader *r)
{
    int fd = open(r->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_file(r, errno);
    int why = read_all(r, fd);
    close(fd);
    if (why != 0)
        return fail_file(r, why);
    if (r->len > FILE_MOST) {
        char path[PATH_SHOWN + 1];

        show_path(path, r->path);
        return hr_fail(r->error, HIRATE_EINVAL, "%s: is larger than %d bytes; accepted: at most that", path,
                       (int)FILE_MOST);
    }
    return 0;
}

static void rewind_lines(reader *r)
{
    r->at = 0;
    r->number = 0;
}

/* The next line into *r, with neither newline nor the carriage return before it. False: there is none. */
static bool next_line(reader *r)
{
    if (r->at >= r->len)
        return false;
    char *newline = memchr(r->data + r->at, '\n', r->len - r->at);
    r->line = r->data + r->at;
    r->line_len = newline == NULL ? r->len - r->at : (size_t)(newline - r->line);
    r->at += r->line_len + 1;
    r->number++;
    if (r->line_len > 0 && r->line[r->line_len - 1] == '\r')
        r->line_len--;
    return true;
}

/* Is it neither empty nor a comment? */
static bool holds_limit(const reader *r)
{
    size_t at = 0;

    while (at < r->line_len && (r->line[at] == ' ' || r->line[at] == '\t'))
        at++;
    return at < r->line_len && r->line[at] != '#';
}

static int count_limits(reader *r, size_t *count)
{
    *count = 0;
    for (rewind_lines(r); next_line(r);) {
        if (memchr(r->line, '\0', r->line_len) != NULL)
            return fail_line(r, "line: holds a NUL byte; accepted: text");
        if (holds_limit(r) && ++*count > LIMITS_MOST)
            return fail_line(r, "limits: this is the 4097th; accepted: at most 4096 in one file");
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------------- content -- */

static bool same_policy(const hr_hash_node *node, const void *probe)
{
    return strcmp(((const entry *)node)->policy, probe) == 0;
}

static entry *find(const content *c, const char *policy, uint64_t hash)
{
    return (entry *)hr_hash_find(&c->table, hash, same_policy, policy);
}

static void content_free(content *c)
{
    if (c != NULL)
        hr_hash_free(&c->table);
    free(c);
}

static content *content_new(size_t count)
{
    content *c = calloc(1, sizeof *c + count * sizeof c->entries[0]);
    if (c == NULL || hr_hash_init(&c->table, count) != 0) {
        content_free(c);
        return NULL;
    }
    c->key = hr_hash_key_random();
    return c;
}

/* Add the limit on the line found last. */
static int add_limit(content *c, reader *r)
{
    entry *new = &c->entries[c->count];
    hirate_error error = {0, ""};

    r->line[r->line_len] = '\0';
    if (hirate_limit_parse(r->line, &new->limit, new->policy, &error) != 0)
        return fail_line(r, error.text);
    uint64_t hash = hr_hash(c->key, new->policy, strlen(new->policy));
    const entry *other = find(c, new->policy, hash);
    if (other != NULL) {
        (void)snprintf(error.text, sizeof error.text, "policy: '%s' is on line %u already; accepted: each name once",
                       new->policy, other->line);
        return fail_line(r, error.text);
    }
    new->line = r->number;
    hr_hash_insert(&c->table, &new->node, hash);
    c->count++;
    return 0;
}

static int build(content **out, reader *r)
{
    size_t count;
    int rc = count_limits(r, &count);
    if (rc != 0)
        return rc;
    content *c = content_new(count);
    if (c == NULL)
        return fail_memory(r->error);
    for (rewind_lines(r); rc == 0 && next_line(r);)
        if (holds_limit(r))
            rc = add_limit(c, r);
    if (rc != 0)
        content_free(c);
    else
        *out = c;
    return rc;
}

/* 0 with *out set, HIRATE_EINVAL or HIRATE_ENOMEM. */
static int content_read(content **out, const char *path, hirate_error *error)
{
    reader r = {.path = path, .error = error, .data = malloc(FILE_MOST + 2)};
    if (r.data == NULL)
        return fail_memory(error);
    int rc = read_file(&r);
    if (rc == 0)
        rc = build(out, &r);
    free(r.data);
    return rc;
}

/* -------------------------------------------------------------------------------------------------- public -- */

int hirate_limits_load(hirate_limits **out, const char *path, hirate_error *error)
{
    if (out == NULL || path == NULL)
        return hr_fail(error, HIRATE_EINVAL, "%s: is NULL; accepted: a pointer", out == NULL ? "out" : "path");
    size_t size = strlen(path) + 1;
    hirate_limits *limits = calloc(1, sizeof *limits + size);
    if (limits == NULL)
        return fail_memory(error);
    memcpy(limits->path, path, size);
    int rc = content_read(&limits->content, path, error);
    if (rc != 0)
        hirate_limits_free(limits);
    else
        *out = limits;
    return rc;
}

int hirate_limits_reload(hirate_limits *limits, hirate_error *error)
{
    if (limits == NULL)
        return hr_fail(error, HIRATE_EINVAL, "limits: is NULL; accepted: a pointer");
    content *old = limits->content;
    int rc = content_read(&limits->content, limits->path, error);
    if (rc == 0)
        content_free(old);
    return rc;
}

const hirate_limit *hirate_limits_find(const hirate_limits *limits, const char *policy)
{
    if (limits == NULL || policy == NULL)
        return NULL;
    const content *c = limits->content;
    const entry *found = find(c, policy, hr_hash(c->key, policy, strlen(policy)));
    return found == NULL ? NULL : &found->limit;
}

const hirate_limit *hirate_limits_at(const hirate_limits *limits, size_t i)
{
    return limits == NULL || i >= limits->content->count ? NULL : &limits->content->entries[i].limit;
}

void hirate_limits_free(hirate_limits *limits)
{
    if (limits == NULL)
        return;
    content_free(limits->content);
    free(limits);
}
