/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * policy: which window of time holds a moment: a multiple of a length, or an hour, day, week or month of the calendar.
 *
 * The calendar is the proleptic Gregorian one at a constant offset from UTC, without leap seconds, as Unix time is. All
 * of it is integer arithmetic on days since 1970-01-01, a Thursday; weeks begin on Monday.
 */
#ifndef HR_CALENDAR_H
#define HR_CALENDAR_H

#include "hirate.h"

/* start_us <= moment < end_us */
typedef struct hr_span {
    int64_t start_us, end_us;
} hr_span;

/* The multiple of window_us (>= 1) that holds now_us (>= 0). */
hr_span hr_span_aligned(uint64_t window_us, int64_t now_us);

/* The hour, day, week or month that holds now_us, local time being UTC + offset_us (within a day). Its start may be
 * before 1970. */
hr_span hr_span_calendar(enum hirate_per per, int64_t offset_us, int64_t now_us);

/* Days from 1970-01-01 to the first day of a month, counted from January 1970: 0, 31, 59 …; negative before. */
int64_t hr_calendar_month_start(int64_t month);

#endif
