/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows of time: a table with leap years, month ends, offsets and weeks, and random moments against the C library's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "calendar.h"
#include "support/random.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#define SECOND INT64_C(1000000)

/* Microseconds of "YYYY-MM-DD HH:MM:SS" in UTC. */
static int64_t at(const char *text)
{
    struct tm tm = {.tm_isdst = 0};

    assert_int_equal(
        sscanf(text, "%d-%d-%d %d:%d:%d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec),
        6);
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    return (int64_t)timegm(&tm) * SECOND;
}

static void test_calendar_table(void **state)
{
    static const struct {
        enum hirate_per per;
        int offset_minutes;
        const char *now, *start, *end; /* UTC */
    } cases[] = {
        {HIRATE_PER_HOUR, 0, "2026-01-01 00:59:59", "2026-01-01 00:00:00", "2026-01-01 01:00:00"},
        {HIRATE_PER_HOUR, 330, "2026-01-01 00:29:59", "2025-12-31 23:30:00", "2026-01-01 00:30:00"},
        {HIRATE_PER_HOUR, 330, "2026-01-01 00:30:00", "2026-01-01 00:30:00", "2026-01-01 01:30:00"},
        {HIRATE_PER_HOUR, -345, "2026-01-01 00:10:00", "2025-12-31 23:45:00", "2026-01-01 00:45:00"},
        {HIRATE_PER_DAY, 0, "2024-02-29 23:59:59", "2024-02-29 00:00:00", "2024-03-01 00:00:00"},
        {HIRATE_PER_DAY, 0, "2024-03-01 00:00:00", "2024-03-01 00:00:00", "2024-03-02 00:00:00"},
        {HIRATE_PER_DAY, 540, "2026-06-30 15:00:00", "2026-06-30 15:00:00", "2026-07-01 15:00:00"},
        {HIRATE_PER_DAY, 540, "2026-06-30 14:59:59", "2026-06-29 15:00:00", "2026-06-30 15:00:00"},
        {HIRATE_PER_DAY, 1439, "2026-01-01 00:01:00", "2026-01-01 00:01:00", "2026-01-02 00:01:00"},
        {HIRATE_PER_DAY, -1439, "2026-01-01 23:58:59", "2025-12-31 23:59:00", "2026-01-01 23:59:00"},
        /* 2026-01-05 and 1970-01-05 are Mondays. */
        {HIRATE_PER_WEEK, 0, "2026-01-04 23:59:59", "2025-12-29 00:00:00", "2026-01-05 00:00:00"},
        {HIRATE_PER_WEEK, 0, "2026-01-05 00:00:00", "2026-01-05 00:00:00", "2026-01-12 00:00:00"},
        {HIRATE_PER_WEEK, -300, "2026-01-05 04:59:59", "2025-12-29 05:00:00", "2026-01-05 05:00:00"},
        {HIRATE_PER_WEEK, 720, "2026-01-04 12:00:00", "2026-01-04 12:00:00", "2026-01-11 12:00:00"},
        {HIRATE_PER_WEEK, 0, "1970-01-01 00:00:00", "1969-12-29 00:00:00", "1970-01-05 00:00:00"},
        {HIRATE_PER_MONTH, 0, "2026-01-31 23:59:59", "2026-01-01 00:00:00", "2026-02-01 00:00:00"},
        {HIRATE_PER_MONTH, 0, "2024-02-29 12:00:00", "2024-02-01 00:00:00", "2024-03-01 00:00:00"},
        {HIRATE_PER_MONTH, 0, "2025-02-28 23:59:59", "2025-02-01 00:00:00", "2025-03-01 00:00:00"},
        {HIRATE_PER_MONTH, 0, "2000-02-29 00:00:00", "2000-02-01 00:00:00", "2000-03-01 00:00:00"},
        {HIRATE_PER_MONTH, 0, "2100-02-28 23:59:59", "2100-02-01 00:00:00", "2100-03-01 00:00:00"},
        {HIRATE_PER_MONTH, 0, "2100-03-01 00:00:00", "2100-03-01 00:00:00", "2100-04-01 00:00:00"},
        {HIRATE_PER_MONTH, 0, "2026-12-31 23:59:59", "2026-12-01 00:00:00", "2027-01-01 00:00:00"},
        {HIRATE_PER_MONTH, 540, "2026-01-31 15:00:00", "2026-01-31 15:00:00", "2026-02-28 15:00:00"},
        {HIRATE_PER_MONTH, -720, "2024-03-01 11:59:59", "2024-02-01 12:00:00", "2024-03-01 12:00:00"},
        {HIRATE_PER_MONTH, -1439, "1970-01-01 00:00:00", "1969-12-01 23:59:00", "1970-01-01 23:59:00"},
        {HIRATE_PER_MONTH, 1439, "1970-01-31 00:00:59", "1969-12-31 00:01:00", "1970-01-31 00:01:00"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int64_t offset_us = 60 * SECOND * cases[i].offset_minutes;
        hr_span span = hr_span_calendar(cases[i].per, offset_us, at(cases[i].now));

        if (span.start_us != at(cases[i].start) || span.end_us != at(cases[i].end))
            fail_msg("%s at %d: %" PRId64 " %" PRId64, cases[i].now, cases[i].offset_minutes, span.start_us,
                     span.end_us);
    }
    /* The end is not in it, the microsecond before is. */
    int64_t end = at("2026-02-01 00:00:00");
    assert_true(hr_span_calendar(HIRATE_PER_MONTH, 0, end).start_us == end);
    assert_true(hr_span_calendar(HIRATE_PER_MONTH, 0, end - 1).end_us == end);
}

static void test_calendar_month_starts_count_the_days(void **state)
{
    int64_t day = 0;

    (void)state;
    for (int64_t month = 0; month < 12 * 700; month++) {
        static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
        int64_t year = 1970 + month / 12;
        bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

        assert_true(hr_calendar_month_start(month) == day);
        day += lengths[month % 12] + (leap && month % 12 == 1);
    }
    assert_true(hr_calendar_month_start(-1) == -31);
    assert_true(hr_calendar_month_start(-12) == -365);
    assert_true(hr_calendar_month_start(-22) == -671); /* 1968-03-01 */
    assert_true(hr_calendar_month_start(-23) == -700); /* 1968-02-01, 29 days */
}

/* By the C library: the broken-down local time, cut, and made a time again. */
static hr_span by_library(enum hirate_per per, int64_t offset_us, int64_t now_us)
{
    int64_t local_us = now_us + offset_us;
    time_t seconds = (time_t)(local_us / SECOND - (local_us % SECOND < 0));
    struct tm start, end;

    assert_non_null(gmtime_r(&seconds, &start));
    start.tm_sec = start.tm_min = 0;
    if (per != HIRATE_PER_HOUR)
        start.tm_hour = 0;
    if (per == HIRATE_PER_WEEK)
        start.tm_mday -= (start.tm_wday + 6) % 7;
    if (per == HIRATE_PER_MONTH)
        start.tm_mday = 1;
    end = start;
    end.tm_hour += per == HIRATE_PER_HOUR;
    end.tm_mday += per == HIRATE_PER_DAY ? 1 : per == HIRATE_PER_WEEK ? 7 : 0;
    end.tm_mon += per == HIRATE_PER_MONTH;
    return (hr_span){(int64_t)timegm(&start) * SECOND - offset_us, (int64_t)timegm(&end) * SECOND - offset_us};
}

static void test_calendar_random_moments_equal_the_library(void **state)
{
    rng r = rng_start("test_calendar_random_moments_equal_the_library");

    (void)state;
    for (int i = 0; i < 200000; i++) {
        enum hirate_per per = (enum hirate_per)(1 + rng_upto(&r, 3));
        int64_t offset_us = 60 * SECOND * ((int64_t)rng_upto(&r, 2 * 1439) - 1439);
        int64_t now_us = (int64_t)rng_upto(&r, HIRATE_COST_MAX);

        if (rng_upto(&r, 1)) { /* around an edge */
            now_us = by_library(per, offset_us, now_us).end_us + (int64_t)rng_upto(&r, 2) - 1;
            if (now_us > (int64_t)HIRATE_COST_MAX)
                continue;
        }
        hr_span span = hr_span_calendar(per, offset_us, now_us);
        hr_span expected = by_library(per, offset_us, now_us);
        assert_true(span.start_us == expected.start_us && span.end_us == expected.end_us);
        assert_true(span.start_us <= now_us && now_us < span.end_us);
    }
}

static void test_span_aligned_holds_the_moment(void **state)
{
    rng r = rng_start("test_span_aligned_holds_the_moment");

    (void)state;
    for (int i = 0; i < 100000; i++) {
        uint64_t window_us = rng_magnitude(&r, 52);
        int64_t now_us = (int64_t)rng_upto(&r, HIRATE_COST_MAX);
        hr_span span = hr_span_aligned(window_us, now_us);

        assert_true(span.start_us <= now_us && now_us < span.end_us);
        assert_true((uint64_t)span.start_us % window_us == 0);
        assert_true(span.end_us - span.start_us == (int64_t)window_us);
    }
}

/* ---------------------------------------------------------------------------- as a script computes, in doubles -- */

static double month_start(double month)
{
    static const double before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    double years = floor(month / 12), in_year = month - 12 * years, year = 1970 + years, last = year - 1;
    bool leap = fmod(year, 4) == 0 && (fmod(year, 100) != 0 || fmod(year, 400) == 0);

    return 365 * years + floor(last / 4) - floor(last / 100) + floor(last / 400) - 477 + before[(int)in_year] +
           (in_year >= 2 && leap);
}

static void test_calendar_in_doubles_is_the_same(void **state)
{
    rng r = rng_start("test_calendar_in_doubles_is_the_same");

    (void)state;
    for (int i = 0; i < 200000; i++) {
        int64_t now_us = (int64_t)rng_upto(&r, UINT64_C(1) << 52);
        int64_t offset_us = 60 * SECOND * ((int64_t)rng_upto(&r, 2 * 1439) - 1439);
        double day = floor(((double)now_us + (double)offset_us) / 86400e6);
        double month = floor(day * 4800 / 146097);

        while (month_start(month) > day)
            month--;
        while (month_start(month + 1) <= day)
            month++;
        hr_span months = hr_span_calendar(HIRATE_PER_MONTH, offset_us, now_us);
        assert_true(month_start(month) * 86400e6 - (double)offset_us == (double)months.start_us);
        assert_true(month_start(month + 1) * 86400e6 - (double)offset_us == (double)months.end_us);
        hr_span weeks = hr_span_calendar(HIRATE_PER_WEEK, offset_us, now_us);
        assert_true((floor((day + 3) / 7) * 7 - 3) * 86400e6 - (double)offset_us == (double)weeks.start_us);
        hr_span hours = hr_span_calendar(HIRATE_PER_HOUR, offset_us, now_us);
        assert_true(floor(((double)now_us + (double)offset_us) / 3600e6) * 3600e6 - (double)offset_us ==
                    (double)hours.start_us);
        double window = (double)rng_magnitude(&r, 52);
        assert_true((double)now_us - fmod((double)now_us, window) ==
                    (double)hr_span_aligned((uint64_t)window, now_us).start_us);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calendar_table),
        cmocka_unit_test(test_calendar_month_starts_count_the_days),
        cmocka_unit_test(test_calendar_random_moments_equal_the_library),
        cmocka_unit_test(test_span_aligned_holds_the_moment),
        cmocka_unit_test(test_calendar_in_doubles_is_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
