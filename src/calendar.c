/* SPDX-License-Identifier: BSD-3-Clause */
/* policy: windows of time; see calendar.h. */
#include "calendar.h"

#include <stdbool.h>

#define HOUR_US INT64_C(3600000000)
#define DAY_US (24 * HOUR_US)

enum {
    DAYS_TO_MONDAY = 3,  /* from the Monday before 1970-01-01 to it */
    CYCLE_DAYS = 146097, /* of the calendar: 400 years */
    CYCLE_MONTHS = 400 * 12,
    LEAP_DAYS_TO_1970 = 477, /* in the years 1 … 1969: 492 - 19 + 4 */
};

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Leap days in the years 1 … year. */
static int64_t leap_days(int64_t year)
{
    return floor_div(year, 4) - floor_div(year, 100) + floor_div(year, 400);
}

static bool is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

int64_t hr_calendar_month_start(int64_t month)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    int64_t years = floor_div(month, 12);
    int64_t in_year = month - 12 * years;
    int64_t year = 1970 + years;

    return 365 * years + leap_days(year - 1) - LEAP_DAYS_TO_1970 + before[in_year] + (in_year >= 2 && is_leap(year));
}

/* The month that holds a day. The mean length of a month finds it or its neighbour. */
static int64_t month_of(int64_t day)
{
    int64_t month = floor_div(day * CYCLE_MONTHS, CYCLE_DAYS);

    while (hr_calendar_month_start(month) > day)
        month--;
    while (hr_calendar_month_start(month + 1) <= day)
        month++;
    return month;
}

hr_span hr_span_aligned(uint64_t window_us, int64_t now_us)
{
    int64_t start_us = now_us - (int64_t)((uint64_t)now_us % window_us);

    return (hr_span){start_us, start_us + (int64_t)window_us};
}

hr_span hr_span_calendar(enum hirate_per per, int64_t offset_us, int64_t now_us)
{
    int64_t local_us = now_us + offset_us;
    int64_t day = floor_div(local_us, DAY_US);
    hr_span span;

    if (per == HIRATE_PER_HOUR) {
        span.start_us = floor_div(local_us, HOUR_US) * HOUR_US;
        span.end_us = span.start_us + HOUR_US;
    } else if (per == HIRATE_PER_MONTH) {
        int64_t month = month_of(day);

        span.start_us = hr_calendar_month_start(month) * DAY_US;
        span.end_us = hr_calendar_month_start(month + 1) * DAY_US;
    } else {
        int64_t days = per == HIRATE_PER_WEEK ? 7 : 1;
        int64_t shift = per == HIRATE_PER_WEEK ? DAYS_TO_MONDAY : 0;

        span.start_us = (floor_div(day + shift, days) * days - shift) * DAY_US;
        span.end_us = span.start_us + days * DAY_US;
    }
    span.start_us -= offset_us;
    span.end_us -= offset_us;
    return span;
}
