/* SPDX-License-Identifier: BSD-3-Clause */
/* base: where Redis is, from text; see uri.h. */
#include "uri.h"

#include "error.h"

#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#define HOST_MOST 255
#define FORMS "redis://[[user]:password@]host[:port][/db] or unix://[[user]:password@]/path.sock[?db=N]"

/* A piece of the text. */
typedef struct span {
    const char *at, *end;
} span;

static int bad(hirate_error *error, const char *what)
{
    return hr_fail(error, HIRATE_EINVAL, "uri: %s; accepted: %s", what, FORMS);
}

static const char *find(span s, char c)
{
    return s.at == s.end ? NULL : memchr(s.at, c, (size_t)(s.end - s.at));
}

static bool read_number(span s, uint64_t most, uint64_t *out)
{
    uint64_t value = 0;
    if (s.at == s.end || s.end - s.at > 10)
        return false;
    for (; s.at < s.end; s.at++) {
        if (*s.at < '0' || *s.at > '9')
            return false;
        value = value * 10 + (uint64_t)(*s.at - '0');
    }
    *out = value;
    return value <= most;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* A percent-decoded copy, NUL behind it. 0, HIRATE_ENOMEM, or HIRATE_EINVAL for a bad escape. */
static int decode(span s, char **out, size_t *len)
{
    char *to = malloc((size_t)(s.end - s.at) + 1);
    size_t n = 0;

    if (!to)
        return HIRATE_ENOMEM;
    while (s.at < s.end) {
        if (*s.at != '%') {
            to[n++] = *s.at++;
            continue;
        }
        int high = s.end - s.at > 2 ? hex(s.at[1]) : -1, low = high < 0 ? -1 : hex(s.at[2]);
        if (low < 0) {
            free(to);
            return HIRATE_EINVAL;
        }
        to[n++] = (char)(high << 4 | low);
        s.at += 3;
    }
    to[n] = 0;
    *out = to;
    *len = n;
    return 0;
}

static int read_credentials(hr_uri *uri, span s, hirate_error *error)
{
    const char *colon = find(s, ':');
    if (!colon)
        return bad(error, "credentials without a ':' before the password");
    int rc = decode((span){colon + 1, s.end}, &uri->password, &uri->password_len);
    if (!rc && colon > s.at)
        rc = decode((span){s.at, colon}, &uri->user, &uri->user_len);
    if (rc == HIRATE_EINVAL)
        return bad(error, "'%' in the credentials without two hexadecimal digits");
    return rc;
}

static int copy_text(char **out, span s)
{
    *out = strndup(s.at, (size_t)(s.end - s.at));
    return *out ? 0 : HIRATE_ENOMEM;
}

static int read_db(hr_uri *uri, span s, hirate_error *error)
{
    uint64_t db;
    if (!read_number(s, INT32_MAX, &db))
        return bad(error, "the database is not a number from 0 to 2147483647");
    uri->db = (uint32_t)db;
    return 0;
}

static int read_unix(hr_uri *uri, span s, hirate_error *error)
{
    const char *query = find(s, '?');
    span path = {s.at, query ? query : s.end};

    if (query) {
        span db = {query + 4, s.end};
        if (s.end - query < 4 || memcmp(query, "?db=", 4) != 0)
            return bad(error, "only ?db=N may follow the path");
        int rc = read_db(uri, db, error);
        if (rc)
            return rc;
    }
    if (path.at == path.end || *path.at != '/')
        return bad(error, "the path does not begin with '/'");
    if ((size_t)(path.end - path.at) >= sizeof ((struct sockaddr_un *)0)->sun_path)
        return bad(error, "the path is longer than a socket's may be (107 bytes)");
    uri->is_unix = true;
    return copy_text(&uri->host, path);
}

/* Every character of a host is one of `more` or a letter, digit, '-', '.', '_'. */
static bool is_host(span s, const char *more)
{
    for (; s.at < s.end; s.at++) {
        char c = *s.at;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                     c == '.' || c == '_' || (unsigned char)c >= 0x80;
        if (!plain && (c == 0 || !strchr(more, c)))
            return false;
    }
    return true;
}

/* [IPv6] and what follows it: nothing or a port, to which *port is set. */
static int split_brackets(span s, span *host, span *port, hirate_error *error)
{
    const char *close = find(s, ']');
    if (!close)
        return bad(error, "'[' without ']'");
    *host = (span){s.at + 1, close};
    if (host->at < host->end && (!find(*host, ':') || !is_host(*host, ":")))
        return bad(error, "what stands in brackets is no IPv6 address");
    if (close + 1 < s.end && close[1] != ':')
        return bad(error, "only a ':' and the port may follow ']'");
    *port = close + 1 < s.end ? (span){close + 2, s.end} : (span){NULL, NULL};
    return 0;
}

static int split_host(span s, span *host, span *port, hirate_error *error)
{
    const char *colon = find(s, ':');
    *host = (span){s.at, colon ? colon : s.end};
    *port = colon ? (span){colon + 1, s.end} : (span){NULL, NULL};
    if (colon && find(*port, ':'))
        return bad(error, "more than one ':'; an IPv6 address stands in brackets");
    if (!is_host(*host, ""))
        return bad(error, "the host holds a character that no host name has");
    return 0;
}

static int read_host(hr_uri *uri, span s, hirate_error *error)
{
    span host, port;
    uint64_t number = HR_URI_PORT;
    bool brackets = s.at < s.end && *s.at == '[';
    int rc = brackets ? split_brackets(s, &host, &port, error) : split_host(s, &host, &port, error);
    if (rc)
        return rc;
    if (host.at == host.end || host.end - host.at > HOST_MOST)
        return bad(error, "the host is empty or longer than 255 bytes");
    if (port.at && (!read_number(port, UINT16_MAX, &number) || number == 0))
        return bad(error, "the port is not a number from 1 to 65535");
    uri->port = (uint16_t)number;
    return copy_text(&uri->host, host);
}

static int read_tcp(hr_uri *uri, span s, hirate_error *error)
{
    const char *slash = find(s, '/');
    if (slash) {
        span db = {slash + 1, s.end};
        int rc = db.at < db.end ? read_db(uri, db, error) : 0;
        if (rc)
            return rc;
    }
    return read_host(uri, (span){s.at, slash ? slash : s.end}, error);
}

/* The '@' that ends the credentials: the last one before the host or path can have begun. */
static const char *credentials_end(span s, bool is_unix)
{
    const char *at = NULL;
    for (const char *c = s.at; c < s.end; c++) {
        if (is_unix && *c == '/')
            break;
        if (*c == '@')
            at = c;
    }
    return at;
}

int hr_uri_parse(hr_uri *uri, const char *text, hirate_error *error)
{
    hr_uri new = {0};
    span s = {text, text + strlen(text)};
    bool is_unix = strncmp(text, "unix://", 7) == 0;
    int rc = 0;

    if (is_unix)
        s.at += 7;
    else if (strncmp(text, "redis://", 8) == 0)
        s.at += 8;
    else
        return bad(error, "it begins with neither redis:// nor unix://");

    const char *at = credentials_end(s, is_unix);
    if (at) {
        rc = read_credentials(&new, (span){s.at, at}, error);
        s.at = at + 1;
    }
    if (!rc)
        rc = is_unix ? read_unix(&new, s, error) : read_tcp(&new, s, error);
    if (rc) {
        hr_uri_free(&new);
        return rc == HIRATE_ENOMEM ? hr_fail(error, rc, "no memory") : rc;
    }
    *uri = new;
    return 0;
}

void hr_uri_free(hr_uri *uri)
{
    if (uri->password)
        explicit_bzero(uri->password, uri->password_len);
    free(uri->password);
    free(uri->user);
    free(uri->host);
    *uri = (hr_uri){0};
}
