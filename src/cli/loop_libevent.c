/* SPDX-License-Identifier: BSD-3-Clause */
/* loops: libevent. Empty where the tool is built without it. */
#include "loops.h"

#ifdef HIRATE_HAVE_LIBEVENT
#include <event2/event.h>
#include <hirate/adapters/libevent.h>

/* libevent reckons with a clock that moves every 4 ms, unless told otherwise; then it makes a system call more a turn.
 */
static struct event_base *new_base(bool precise)
{
    struct event_config *config = event_config_new();
    if (config == NULL)
        return NULL;
    struct event_base *base = NULL;
    if (!precise || event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER) == 0)
        base = event_base_new_with_config(config);
    event_config_free(config);
    return base;
}

static void *open_base(hirate_loop *loop, bool precise)
{
    struct event_base *base = new_base(precise);
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
