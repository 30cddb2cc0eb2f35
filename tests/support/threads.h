/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests: for programs in which names are resolved. A thread that nobody waits for may still run when the program ends;
 * a leak checker then takes its stack for lost. So the last thing such a program does is to see them end.
 */
#ifndef TESTS_SUPPORT_THREADS_H
#define TESTS_SUPPORT_THREADS_H

#include <dirent.h>
#include <time.h>

/* How many threads this process has; -1: not known. */
static inline int threads_now(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = -2; /* . and .. */

    if (!tasks)
        return -1;
    while (readdir(tasks))
        count++;
    closedir(tasks);
    return count;
}

/* Wait until this is the only one, for at most a minute. A group's teardown: 0, or -1 if others still run. */
static inline int threads_end(void **state)
{
    const struct timespec pause = {.tv_nsec = 5000000};

    (void)state;
    for (int tries = 0; threads_now() != 1; tries++) {
        if (tries == 12000)
            return -1;
        (void)nanosleep(&pause, NULL);
    }
    return 0;
}

#endif
