/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * row: one answer as one line on stdout, in the form asked for.
 *
 * tsv   time_us cost name verdict remaining retry_after_ms reset_ms delay_ms source charge
 * json  one object with these as keys; null for what is unknown, "never" as a string
 * text  allowed login 203.0.113.9: 19 left, full again in 3 s
 *
 * Lines go into stdout's buffer; the caller flushes.
 */
#ifndef CLI_ROW_H
#define CLI_ROW_H

#include <hirate/hirate.h>
#include <stdbool.h>

typedef enum cli_format { CLI_FORMAT_NONE = 0, CLI_TEXT, CLI_TSV, CLI_JSON } cli_format;

typedef struct cli_row {
    cli_format format;
    bool decided_by;  /* with the columns source and charge */
    const void *name; /* name_len <= HIRATE_NAME_MAX */
    size_t name_len;
    const hirate_result *result; /* reason is not read */
} cli_row;

/* Write the row of an acquire or a peek, with a verdict or an error. */
void cli_row_write(const cli_row *row);

/* Write a reset's `used` or `unused`; in JSON {"name":…,"result":"used"}. */
void cli_row_write_reset(const cli_row *row);

/* An answer that never reached a client: `error`, none, not charged. *result needs no preparation. */
void cli_result_refused(hirate_result *result, const hirate_request *request, int error);

/* 0, 1 or 3: what one answer makes the exit status. */
int cli_result_status(const hirate_result *result);

/* Say on stderr why a request has no verdict. `reason` NULL or empty: the error's own text. */
void cli_result_explain(const cli_row *row, const char *reason);

#endif
