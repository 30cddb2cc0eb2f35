/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault matrix: the client's process. */
#ifndef TESTS_FAULTS_LOAD_H
#define TESTS_FAULTS_LOAD_H

#include "stage.h"

/* Keep a client under load from the stage's first phase to its last, check every answer, and fill in s->report. */
void load_run(stage *s);

#endif
