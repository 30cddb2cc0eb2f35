/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test support: a clock that a test moves, for a server that does not know.
 *
 * fakeclock.c is a preloaded library. It reads the time of day, in microseconds since 1970, from the first eight bytes
 * of the file named by HIRATE_FAKECLOCK_FILE; 0 there means the real time. Only CLOCK_REALTIME is moved; timers, which
 * run on CLOCK_MONOTONIC, go on.
 */
#ifndef TESTS_FAKECLOCK_H
#define TESTS_FAKECLOCK_H

#include <stdint.h>

#define FAKECLOCK_ENV "HIRATE_FAKECLOCK_FILE"
#define FAKECLOCK_SIZE 4096

/* What the file holds. */
typedef struct fakeclock_page {
    _Atomic int64_t now_us;
} fakeclock_page;

#endif
