/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base: where Redis is, from text:
 *     redis://[[user]:password@]host[:port][/db]      host also [IPv6]
 *     unix://[[user]:password@]/path.sock[?db=N]
 * User and password are percent-decoded. Errors never quote what may hold a password.
 */
#ifndef HR_URI_H
#define HR_URI_H

#include "hirate.h"

#include <stdbool.h>

#define HR_URI_PORT 6379

typedef struct hr_uri {
    bool is_unix;
    char *host;     /* or the socket's path */
    uint16_t port;  /* 0 for a socket */
    uint32_t db;    /* 0 … 2^31-1 */
    char *user;     /* NULL: none given */
    char *password; /* NULL: none given */
    size_t user_len, password_len; /* decoded, they may hold any byte */
} hr_uri;

/* 0 with *uri filled in, to be freed; HIRATE_EINVAL or HIRATE_ENOMEM with *uri unchanged. */
int hr_uri_parse(hr_uri *uri, const char *text, hirate_error *error);
void hr_uri_free(hr_uri *uri); /* wipes the password; a zeroed struct is fine */

#endif
