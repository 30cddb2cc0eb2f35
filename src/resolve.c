/* SPDX-License-Identifier: BSD-3-Clause */
/* link: names to addresses, without blocking the loop; see resolve.h. */
#include "resolve.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * Shared between the link and whoever resolves; each holds one reference. The resolver writes rc and addresses, then sets
 * `done` (release), then signals; the link reads them only after seeing `done` (acquire).
 */
struct hirate_resolution {
    atomic_int references;
    atomic_bool done;
    int rc;
    hr_addresses addresses;
    int fd;                   /* eventfd of a thread, or -1 */
    void (*wake)(void *arg);  /* for a host's own resolver; NULL once dropped */
    void *arg;
    uint16_t port;
    char host[];
};

static void release(hirate_resolution *resolution)
{
    if (atomic_fetch_sub(&resolution->references, 1) != 1)
        return;
    if (resolution->fd >= 0)
        close(resolution->fd);
    free(resolution);
}

static void keep(hr_addresses *addresses, const struct addrinfo *list)
{
    for (; list && addresses->count < HR_RESOLVE_MOST; list = list->ai_next) {
        hr_address *to = &addresses->list[addresses->count];
        if ((list->ai_family != AF_INET && list->ai_family != AF_INET6) || list->ai_addrlen > sizeof to->sockaddr)
            continue;
        memcpy(&to->sockaddr, list->ai_addr, list->ai_addrlen);
        to->len = list->ai_addrlen;
        addresses->count++;
    }
}

static int look_up(const char *host, uint16_t port, int flags, hr_addresses *addresses)
{
    struct addrinfo hints = {0}, *list = NULL;
    char service[8];

    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags | AI_NUMERICSERV;
    snprintf(service, sizeof service, "%u", (unsigned)port);
    if (getaddrinfo(host, service, &hints, &list) != 0)
        return HIRATE_ECONNECT;
    keep(addresses, list);
    freeaddrinfo(list);
    return addresses->count ? 0 : HIRATE_ECONNECT;
}

bool hr_resolve_literal(const char *host, uint16_t port, hr_addresses *addresses)
{
    addresses->count = 0;
    return look_up(host, port, AI_NUMERICHOST, addresses) == 0;
}

static void *resolve_in_thread(void *arg)
{
    hirate_resolution *resolution = arg;
    uint64_t one = 1;

    resolution->rc = look_up(resolution->host, resolution->port, 0, &resolution->addresses);
    atomic_store(&resolution->done, true);
    ssize_t written = write(resolution->fd, &one, sizeof one);
    (void)written; /* an eventfd takes its first write */
    release(resolution);
    return NULL;
}

static int start_thread(hirate_resolution *resolution)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;

    resolution->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (resolution->fd < 0)
        return HIRATE_ELOOP;
    if (pthread_attr_init(&attributes) != 0)
        return HIRATE_ENOMEM;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, &attributes, resolve_in_thread, resolution);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return failed ? HIRATE_ENOMEM : 0;
}

int hr_resolve_start(hirate_resolution **out, const char *host, uint16_t port, hirate_resolve_fn *resolve, void *user,
                     void (*wake)(void *arg), void *arg)
{
    size_t size = strlen(host) + 1;
    hirate_resolution *resolution = calloc(1, sizeof *resolution + size);

    if (!resolution)
        return HIRATE_ENOMEM;
    atomic_init(&resolution->references, 2);
    atomic_init(&resolution->done, false);
    resolution->fd = -1;
    resolution->wake = wake;
    resolution->arg = arg;
    resolution->port = port;
    memcpy(resolution->host, host, size);

    int rc = resolve ? resolve(user, resolution->host, port, resolution) : start_thread(resolution);
    if (rc) { /* nobody else holds it */
        release(resolution);
        release(resolution);
        return rc;
    }
    *out = resolution;
    return 0;
}

void hirate_resolved(hirate_resolution *resolution, int rc, const struct addrinfo *addresses)
{
    if (!rc)
        keep(&resolution->addresses, addresses);
    resolution->rc = rc ? rc : resolution->addresses.count ? 0 : HIRATE_ECONNECT;
    atomic_store(&resolution->done, true);
    if (resolution->wake)
        resolution->wake(resolution->arg);
    release(resolution);
}

int hr_resolution_fd(const hirate_resolution *resolution)
{
    return resolution->fd;
}

bool hr_resolution_done(hirate_resolution *resolution, int *rc, hr_addresses *addresses)
{
    if (!atomic_load(&resolution->done))
        return false;
    *rc = resolution->rc;
    if (!*rc)
        *addresses = resolution->addresses;
    return true;
}

void hr_resolution_drop(hirate_resolution *resolution)
{
    if (!resolution)
        return;
    resolution->wake = NULL;
    release(resolution);
}
