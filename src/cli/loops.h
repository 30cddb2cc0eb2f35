/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loops: the event loops this tool was built with, behind one small table.
 *
 * One source file each, as <ev.h> and <event2/event.h> cannot share one.
 */
#ifndef CLI_LOOPS_H
#define CLI_LOOPS_H

#include <hirate/hirate.h>
#include <stdbool.h>

typedef struct cli_loop {
    const char *name;
    /* Make a loop and fill in *loop; NULL when that fails. `precise`: with timers to the millisecond, where that is not
     * how it works anyway and costs something. */
    void *(*open)(hirate_loop *loop, bool precise);
    int (*run)(void *base); /* until stop() is called from one of its callbacks; 0, or -1 */
    void (*stop)(void *base);
    void (*close)(void *base); /* after every client of it is gone */
} cli_loop;

/* The loop of this name, or with NULL the default: the first built in of libevent, libev, epoll. NULL: no such. */
const cli_loop *cli_loop_find(const char *name);

/* The names of those built in, in that order, separated by ", ". */
const char *cli_loop_names(void);

#endif
