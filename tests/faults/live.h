/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault matrix: what this process holds, to tell whether a client left something behind. */
#ifndef TESTS_FAULTS_LIVE_H
#define TESTS_FAULTS_LIVE_H

#include <stdint.h>

int64_t live_descriptors(void);

/* Bytes allocated and not freed, exactly, by everything in the process; live_prepare() must have run. */
int64_t live_bytes(void);

/* First thing in main(): start again without the allocator's per-thread cache, whose blocks would count as live. */
void live_prepare(char **argv);

#endif
