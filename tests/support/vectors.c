/* SPDX-License-Identifier: BSD-3-Clause */
/* tests: reads the worked answers in tests/vectors; anything that is not exactly as described is an error. */
#include "vectors.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 8, LINE_MAX_BYTES = 1024 };
static const char limit_mark[] = "# limit: ";

static char **list_in(const char *dir, const char *pattern)
{
    char path[PATH_MAX];
    glob_t found;
    char **paths = NULL;

    (void)snprintf(path, sizeof path, "%s/%s", dir, pattern);
    if (glob(path, 0, NULL, &found) != 0)
        return NULL;
    paths = calloc(found.gl_pathc + 1, sizeof *paths);
    for (size_t i = 0; paths != NULL && i < found.gl_pathc; i++)
        paths[i] = strdup(found.gl_pathv[i]);
    globfree(&found);
    return paths;
}

char **vectors_list(const char *pattern)
{
    const char *srcdir = getenv("srcdir");
    char dir[PATH_MAX];

    if (srcdir == NULL)
        srcdir = ".";
    (void)snprintf(dir, sizeof dir, "%s/tests/vectors", srcdir);
    char **paths = list_in(dir, pattern);
    if (paths != NULL)
        return paths;
    (void)snprintf(dir, sizeof dir, "%s/vectors", srcdir);
    paths = list_in(dir, pattern);
    if (paths == NULL)
        (void)fprintf(stderr, "vectors: no %s in tests/vectors or vectors of srcdir '%s'\n", pattern, srcdir);
    return paths;
}

void vectors_list_free(char **paths)
{
    for (size_t i = 0; paths != NULL && paths[i] != NULL; i++)
        free(paths[i]);
    free(paths);
}

static bool read_u64(const char *text, uint64_t *value)
{
    char *end = NULL;

    errno = 0;
    *value = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

static bool read_i64(const char *text, int64_t *value)
{
    uint64_t number = 0;

    if (strcmp(text, "never") == 0) {
        *value = HIRATE_NEVER;
        return true;
    }
    if (!read_u64(text, &number) || number > INT64_MAX)
        return false;
    *value = (int64_t)number;
    return true;
}

static bool read_verdict(const char *text, enum hirate_verdict *verdict)
{
    *verdict = strcmp(text, "allowed") == 0  ? HIRATE_ALLOWED
               : strcmp(text, "denied") == 0 ? HIRATE_DENIED
                                             : HIRATE_VERDICT_NONE;
    return *verdict != HIRATE_VERDICT_NONE;
}

/* Split at tabs in place; false unless there are exactly COLUMNS. */
static bool split(char *line, char *columns[COLUMNS])
{
    for (size_t i = 0; i < COLUMNS; i++) {
        columns[i] = strsep(&line, "\t");
        if (columns[i] == NULL)
            return false;
    }
    return line == NULL;
}

static bool read_row(char *line, vector_row *row)
{
    char *c[COLUMNS];

    if (!split(line, c) || strlen(c[2]) >= sizeof row->name)
        return false;
    (void)strcpy(row->name, c[2]);
    return read_i64(c[0], &row->time_us) && read_u64(c[1], &row->cost) && read_verdict(c[3], &row->verdict) &&
           read_u64(c[4], &row->remaining) && read_i64(c[5], &row->retry_after_ms) && read_i64(c[6], &row->reset_ms) &&
           read_i64(c[7], &row->delay_ms);
}

static bool read_limit(vectors *v, const char *spec)
{
    hirate_error error;

    if (strlen(spec) >= sizeof v->spec)
        return false;
    (void)strcpy(v->spec, spec);
    if (hirate_limit_parse(spec, &v->limit, v->policy, &error) == 0)
        return true;
    (void)fprintf(stderr, "vectors: %s\n", error.text);
    return false;
}

static bool read_line(vectors *v, char *line, size_t number)
{
    size_t len = strlen(line);

    if (len == 0 || line[len - 1] != '\n')
        return false;
    line[len - 1] = '\0';
    if (strncmp(line, limit_mark, sizeof limit_mark - 1) == 0)
        return read_limit(v, line + sizeof limit_mark - 1);
    if (line[0] == '#')
        return true;
    vector_row *rows = realloc(v->rows, (v->count + 1) * sizeof *rows);
    if (rows == NULL)
        return false;
    v->rows = rows;
    rows[v->count].line = number;
    return read_row(line, &rows[v->count++]);
}

int vectors_read(vectors *v, const char *path)
{
    char line[LINE_MAX_BYTES];
    size_t number = 0;
    bool ok = true;

    memset(v, 0, sizeof *v);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        (void)fprintf(stderr, "vectors: %s: %s\n", path, strerror(errno));
        return -1;
    }
    while (ok && fgets(line, sizeof line, file) != NULL)
        ok = read_line(v, line, ++number);
    ok = ok && !ferror(file) && v->spec[0] != '\0' && v->count > 0;
    (void)fclose(file);
    if (!ok)
        (void)fprintf(stderr, "vectors: %s:%zu: not as described in vectors.h\n", path, number);
    return ok ? 0 : -1;
}

void vectors_free(vectors *v)
{
    free(v->rows);
    memset(v, 0, sizeof *v);
}
