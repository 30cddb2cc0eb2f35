/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test support, preloaded into a server (see fakeclock.h): gettimeofday(), clock_gettime() and time() from a mapped
 * file. The real time comes by system call, not through dlsym(), which may allocate and an allocator may ask for the
 * time. Anything wrong with the file leaves the real time; a test notices at its first comparison.
 */
#include "fakeclock.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static fakeclock_page *page; /* NULL: the real time */

__attribute__((constructor)) static void map_page(void)
{
    const char *path = getenv(FAKECLOCK_ENV);
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *map = mmap(NULL, FAKECLOCK_SIZE, PROT_READ, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED)
        page = map;
    close(fd);
}

static int64_t moved_time(void)
{
    return page ? atomic_load_explicit(&page->now_us, memory_order_acquire) : 0;
}

static int real_clock(clockid_t clock, struct timespec *out)
{
    return (int)syscall(SYS_clock_gettime, clock, out);
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    int64_t now = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ? moved_time() : 0;
    if (!now)
        return real_clock(clock, out);
    out->tv_sec = (time_t)(now / 1000000);
    out->tv_nsec = (long)(now % 1000000) * 1000;
    return 0;
}

/* The header declares the second argument as void * or as a pointer to the obsolete time zone, by version. */
int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    (void)zone;
    struct timespec now;
    int rc = clock_gettime(CLOCK_REALTIME, &now);
    if (!rc) {
        out->tv_sec = now.tv_sec;
        out->tv_usec = (suseconds_t)(now.tv_nsec / 1000);
    }
    return rc;
}

time_t time(time_t *out)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
