/* SPDX-License-Identifier: BSD-3-Clause */
/* loops: libev. Empty where the tool is built without it. */
#include "loops.h"

#ifdef HIRATE_HAVE_LIBEV
#include <ev.h>
#include <hirate/adapters/libev.h>

static void *open_loop(hirate_loop *loop, bool precise)
{
    (void)precise;
    struct ev_loop *ev = ev_loop_new(EVFLAG_AUTO);
    if (ev == NULL)
        return NULL;
    if (hirate_libev(loop, ev) == 0)
        return ev;
    ev_loop_destroy(ev);
    return NULL;
}

static int run(void *ev)
{
    ev_run(ev, 0);
    return 0;
}

static void stop(void *ev)
{
    ev_break(ev, EVBREAK_ALL);
}

static void close_loop(void *ev)
{
    ev_loop_destroy(ev);
}

extern const cli_loop cli_loop_libev;
const cli_loop cli_loop_libev = {"libev", open_loop, run, stop, close_loop};
#endif
