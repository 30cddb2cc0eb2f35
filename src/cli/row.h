/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * row: one answer as one line on stdout, in the form asked for.
 *
 * tsv   time_us cost name verdict remaining retry_after_ms reset_ms delay_ms source charge bound shadow-denied permit
 * json  one object with these as keys; null for what is unknown, "never" as a string
 * text  allowed login 203.0.113.9: 19 left, full again in 3 s
 *
 * simulate's rows end with delay_ms. Several names are joined by ',' in the column name, each written as in tsv, with a
 * comma of its own as \x2c; in json too, so that what a reader of json gets is the column of tsv.
 *
 * Lines go into stdout's buffer; the caller flushes.
 */
#ifndef CLI_ROW_H
#define CLI_ROW_H

#include "answer.h"

typedef struct cli_row {
    const cli_args *args;
    const cli_who *who;
    const cli_answer *answer; /* of simulate's only the result is read */
} cli_row;

/* Write the row of an acquire or a peek, with a verdict or an error. */
void cli_row_write(const cli_row *row);

/* Write a reset's `used` or `unused`; in JSON {"name":…,"result":"used"}. */
void cli_row_write_reset(const cli_row *row);

/* Say on stderr why a request has no verdict, or a reset no answer; `line`, where it came from stdin, is the number of
 * its line, else 0. */
void cli_row_explain(const cli_row *row, uint64_t line);

#endif
