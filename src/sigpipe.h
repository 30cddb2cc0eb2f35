/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * base: a write to a peer that has gone must not kill the host, whatever it does with SIGPIPE.
 *
 * hiredis writes without MSG_NOSIGNAL. Around such a write SIGPIPE is blocked in this thread; if the write raised it, it
 * is taken back before the mask is restored. The host's handlers and its own pending signals are untouched.
 */
#ifndef HR_SIGPIPE_H
#define HR_SIGPIPE_H

#include <signal.h>
#include <stdbool.h>
#include <time.h>

typedef struct hr_sigpipe {
    sigset_t before;
    bool was_pending; /* the host's own: leave it */
} hr_sigpipe;

static inline void hr_sigpipe_block(hr_sigpipe *guard)
{
    sigset_t pipe_only, pending;

    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_only, &guard->before);
    guard->was_pending = sigismember(&guard->before, SIGPIPE) == 1 && sigpending(&pending) == 0 &&
                         sigismember(&pending, SIGPIPE) == 1;
}

/* `failed`: the write did not succeed, so the signal may be there. */
static inline void hr_sigpipe_restore(const hr_sigpipe *guard, bool failed)
{
    if (failed && !guard->was_pending) {
        sigset_t pipe_only;
        struct timespec at_once = {0, 0};
        sigemptyset(&pipe_only);
        sigaddset(&pipe_only, SIGPIPE);
        sigtimedwait(&pipe_only, NULL, &at_once);
    }
    pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
}

#endif
