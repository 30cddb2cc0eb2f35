/* SPDX-License-Identifier: BSD-3-Clause */
/* loops: libevent. Empty where the tool is built without it. */
#include "loops.h"

#ifdef HIRATE_HAVE_LIBEVENT
#include <event2/event.h>
#include <hirate/adapters/libevent.h>

static void *open_base(hirate_loop *loop)
{
    struct event_base *base = event_base_new();
    if (base == NULL)
        return NULL;
    if (hirate_libevent(loop, base) == 0)
        return base;
    event_base_free(base);
    return NULL;
}

static int run(void *base)
{
    return event_base_dispatch(base) < 0 ? -1 : 0;
}

static void stop(void *base)
{
    event_base_loopbreak(base);
}

static void close_base(void *base)
{
    event_base_free(base);
}

extern const cli_loop cli_loop_libevent;
const cli_loop cli_loop_libevent = {"libevent", open_base, run, stop, close_base};
#endif
