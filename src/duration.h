/* SPDX-License-Identifier: BSD-3-Clause */
/* policy: numbers, durations and rates as text. */
#ifndef HR_DURATION_H
#define HR_DURATION_H

#include "hirate.h"

#include <stdbool.h>

/* All `len` bytes are decimal digits, at least one, and their value fits 64 bits: then it is stored in *value. */
bool hr_number_parse(const char *text, size_t len, uint64_t *value);

/* A whole number (1 if left out) and one of us ms s m h d, nothing else; *duration_us is 1 … 2^53-1 on success. */
bool hr_duration_parse(const char *text, size_t len, uint64_t *duration_us);

/* In the largest unit in which it is exact, as "1500ms", "2h" or "1s". */
#define HR_DURATION_TEXT_SIZE 24
void hr_duration_format(char text[HR_DURATION_TEXT_SIZE], uint64_t duration_us);

/* +HH:MM or -HH:MM, two digits each, up to 23:59: then its minutes are stored in *minutes. */
bool hr_offset_parse(const char *text, size_t len, int32_t *minutes);

/* `N/DURATION` in the largest unit that is exact, as "1/3s"; "1/s" for one unit. */
#define HR_RATE_TEXT_SIZE 48
void hr_rate_format(char text[HR_RATE_TEXT_SIZE], hirate_rate rate);

#endif
