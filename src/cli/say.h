/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * say: exit statuses, error lines, standard output and small numbers in text.
 */
#ifndef CLI_SAY_H
#define CLI_SAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cli_status { CLI_ALLOWED = 0, CLI_DENIED = 1, CLI_USAGE = 2, CLI_NO_VERDICT = 3 };

/* Write `hirate: …` to stderr as one line (control bytes become '?') and return status, so that a check reads
 * `return cli_fail(CLI_USAGE, "--cost: …")`. */
int cli_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same without the prefix, for `line N: …`. */
void cli_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Give stdout a large buffer; it is flushed by cli_flush() only. Call once, before any output. */
void cli_stdout_init(void);

/* Flush stdout. False, with an error line the first time, when any write to it failed. */
bool cli_flush(void);

/* Read digits only, no sign or blank: a whole number 0 … max. False leaves *out unchanged. */
bool cli_parse_u64(const char *text, size_t len, uint64_t max, uint64_t *out);

/* Read a plain decimal number such as 0.99 or 5, within min … max. False leaves *out unchanged. */
bool cli_parse_decimal(const char *text, double min, double max, double *out);

/* Read a duration: a whole number (1 if left out) and one of us ms s m h d. False leaves *us unchanged. */
bool cli_parse_duration(const char *text, uint64_t *us);

/* Microseconds since 1970, the clock of --local. */
int64_t cli_realtime_us(void);

/* Nanoseconds of a clock that is never set. */
int64_t cli_monotonic_ns(void);

#endif
