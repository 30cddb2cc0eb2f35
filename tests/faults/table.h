/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault matrix: its table. */
#ifndef TESTS_FAULTS_TABLE_H
#define TESTS_FAULTS_TABLE_H

#include "stage.h"

void table_head(void);

/* Print the row of one fault, and below it what is wrong, if anything. True: nothing is. */
bool table_row(stage *s, const fault *f, bool played);

#endif
