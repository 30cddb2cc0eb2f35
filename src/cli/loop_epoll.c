/* SPDX-License-Identifier: BSD-3-Clause */
/* loops: epoll, always built in. */
#include "loops.h"

#include <hirate/adapters/epoll.h>

static void *open_epoll(hirate_loop *loop, bool precise)
{
    (void)precise;
    hirate_epoll_loop *ep;
    if (hirate_epoll_new(&ep) != 0)
        return NULL;
    if (hirate_epoll(loop, ep) == 0)
        return ep;
    hirate_epoll_free(ep);
    return NULL;
}

static int run(void *ep)
{
    return hirate_epoll_run(ep) < 0 ? -1 : 0;
}

static void stop(void *ep)
{
    hirate_epoll_stop(ep);
}

static void close_epoll(void *ep)
{
    hirate_epoll_free(ep);
}

extern const cli_loop cli_loop_epoll;
const cli_loop cli_loop_epoll = {"epoll", open_epoll, run, stop, close_epoll};
