/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link: names to addresses, without blocking the loop.
 *
 * getaddrinfo() blocks, so it runs on a detached thread with every signal blocked; an eventfd says when it is through.
 * The thread may outlive the client: it shares only the resolution itself, which the last of the two frees.
 * options.resolve replaces the thread.
 */
#ifndef HR_RESOLVE_H
#define HR_RESOLVE_H

#include "hirate.h"

#include <netdb.h>
#include <stdbool.h>
#include <sys/socket.h>

#define HR_RESOLVE_MOST 8 /* addresses kept */

typedef struct hr_address {
    struct sockaddr_storage sockaddr;
    socklen_t len;
} hr_address;

typedef struct hr_addresses {
    hr_address list[HR_RESOLVE_MOST];
    uint32_t count;
} hr_addresses;

/* Start; 0 with *out set, or HIRATE_ENOMEM, HIRATE_ELOOP or the code that `resolve` returned. With `resolve` NULL,
 * hr_resolution_fd() turns readable at the end; otherwise `wake(arg)` is called from hirate_resolved(), perhaps before this
 * returns. */
int hr_resolve_start(hirate_resolution **out, const char *host, uint16_t port, hirate_resolve_fn *resolve, void *user,
                     void (*wake)(void *arg), void *arg);
/* -1 where there is none. */
int hr_resolution_fd(const hirate_resolution *resolution);
/* Is it through? Then *rc is 0 and *addresses filled in, or *rc is why not: HIRATE_ECONNECT, or the code that
 * a host's own resolver gave hirate_resolved(), as it is. */
bool hr_resolution_done(hirate_resolution *resolution, int *rc, hr_addresses *addresses);
/* Give it up or away; NULL is fine. wake is not called afterwards. */
void hr_resolution_drop(hirate_resolution *resolution);

/* An address that is written as one; false if `host` is a name. */
bool hr_resolve_literal(const char *host, uint16_t port, hr_addresses *addresses);

#endif
