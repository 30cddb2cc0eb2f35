/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every allocation fails in turn, in the library, in hiredis and in the loop's adapter (see support/torture.h).
 *
 * malloc and its kin are defined here, which the dynamic linker lets every library use.
 */
#include "support/torture.h"

#include <dlfcn.h>
#include <errno.h>
#include <hiredis/async.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* AddressSanitizer allocates for itself too: then blocks are not counted, and there are no threads, whose start needs
 * it. */
#if defined(__SANITIZE_ADDRESS__)
#define REAL(function) __interceptor_##function
#define SANITIZED true
#define COUNTED(blocks) NULL
#else
#define REAL(function) __libc_##function
#define SANITIZED false
#define COUNTED(blocks) (blocks)
#endif

/* What runs before AddressSanitizer has begun may not look at its shadow. */
#define EARLY    __attribute__((no_sanitize("address")))
#define EXPORTED EARLY __attribute__((visibility("default")))

extern void *REAL(malloc)(size_t size);
extern void *REAL(calloc)(size_t count, size_t size);
extern void *REAL(realloc)(void *block, size_t size);
extern void REAL(free)(void *block);

static atomic_long seen, fail_at, blocks;
static atomic_bool armed, lasting, fired;
static _Thread_local bool paused; /* a resolver's thread goes on */

/*
 * hiredis 0.14 ends the process where it has no memory to connect, and for the iterators it frees a context with. The
 * library can make the first unlikely, the second is nobody's to prevent. These do not fail.
 *
 * What aborts goes through one function of hiredis' own, which has no name outside. Its address is learned while
 * connecting, from the two tables made there.
 */
#if HIREDIS_MAJOR < 1
static const void *aborting_malloc;

static bool is_hiredis(const void *caller)
{
    static const void *base;
    Dl_info at;
    if (!base && dladdr((const void *)redisReaderCreate, &at))
        base = at.dli_fbase;
    return dladdr(caller, &at) && at.dli_fbase == base;
}

EARLY static bool is_exempt(size_t size, const void *caller)
{
    enum { TABLE_BYTES = 48 };
    if (paused && size == TABLE_BYTES && is_hiredis(caller))
        aborting_malloc = caller;
    return caller == aborting_malloc;
}
#else
EARLY static bool is_exempt(size_t size, const void *caller)
{
    (void)size, (void)caller;
    return false;
}
#endif

EARLY static bool fails(size_t size, const void *caller)
{
    if (!armed || is_exempt(size, caller) || paused)
        return false;
    long n = atomic_fetch_add(&seen, 1) + 1;
    if (n < fail_at || (n > fail_at && !lasting))
        return false;
    fired = true;
    errno = ENOMEM;
    return true;
}

EARLY static void *counted(void *block)
{
    if (block)
        atomic_fetch_add(&blocks, 1);
    return block;
}

EXPORTED void *malloc(size_t size)
{
    return fails(size, __builtin_return_address(0)) ? NULL : counted(REAL(malloc)(size));
}

EXPORTED void *calloc(size_t count, size_t size)
{
    return fails(count * size, __builtin_return_address(0)) ? NULL : counted(REAL(calloc)(count, size));
}

EXPORTED void *realloc(void *block, size_t size)
{
    if (fails(size, __builtin_return_address(0)))
        return NULL;
    return block ? REAL(realloc)(block, size) : counted(REAL(realloc)(NULL, size));
}

EXPORTED void free(void *block)
{
    if (block)
        atomic_fetch_sub(&blocks, 1);
    REAL(free)(block);
}

#if HIREDIS_MAJOR < 1
EXPORTED redisAsyncContext *redisAsyncConnect(const char *host, int port)
{
    redisAsyncContext *(*real)(const char *, int) = NULL;
    bool before = paused;
    paused = true;
    *(void **)&real = dlsym(RTLD_NEXT, "redisAsyncConnect");
    redisAsyncContext *made = real(host, port);
    paused = before;
    return made;
}

EXPORTED redisAsyncContext *redisAsyncConnectUnix(const char *path)
{
    redisAsyncContext *(*real)(const char *) = NULL;
    bool before = paused;
    paused = true;
    *(void **)&real = dlsym(RTLD_NEXT, "redisAsyncConnectUnix");
    redisAsyncContext *made = real(path);
    paused = before;
    return made;
}
#endif

static const torture_mode MODES[] = {{"one allocation", false}, {"all from one on", true}, {NULL, false}};

static void arm(long n, int mode)
{
    seen = 0;
    fail_at = n;
    fired = false;
    lasting = MODES[mode].lasting;
    armed = true;
}

static void disarm(void)
{
    armed = false;
}

static void pause_failing(bool on)
{
    paused = on;
}

static long calls_seen(void)
{
    return seen;
}

static bool has_fired(void)
{
    return fired;
}

static inline long live_blocks(void)
{
    return blocks;
}

/* Under valgrind, malloc is valgrind's. */
static bool is_ours(void)
{
    arm(1, 0);
    void *volatile block = malloc(1);
    disarm();
    bool ours = block == NULL;
    free(block);
    return ours;
}

int main(int argc, char **argv)
{
    static const torture memory = {MODES,    arm, disarm, pause_failing, calls_seen, has_fired, COUNTED(live_blocks),
                                   SANITIZED};
    if (!is_ours()) {
        printf("skipped: something else has taken the place of malloc\n");
        return 77;
    }
    return torture_main(&memory, argc, argv);
}
