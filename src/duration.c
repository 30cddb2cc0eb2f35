/* SPDX-License-Identifier: BSD-3-Clause */
/* policy: numbers, durations and rates as text; strict in what is read: no sign, no space, no fraction. */
#include "duration.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct unit {
    const char *name;
    uint64_t us;
} unit;

static const unit units[] = {
    {"d", 86400000000}, {"h", 3600000000}, {"m", 60000000}, {"s", 1000000}, {"ms", 1000}, {"us", 1},
};
enum { UNITS = sizeof units / sizeof units[0] };

bool hr_number_parse(const char *text, size_t len, uint64_t *value)
{
    uint64_t sum = 0;

    if (len == 0)
        return false;
    for (size_t i = 0; i < len; i++) {
        unsigned digit = (unsigned)((unsigned char)text[i] - '0');

        if (digit > 9 || sum > (UINT64_MAX - digit) / 10)
            return false;
        sum = sum * 10 + digit;
    }
    *value = sum;
    return true;
}

static const unit *unit_find(const char *text, size_t len)
{
    for (size_t i = 0; i < UNITS; i++)
        if (strlen(units[i].name) == len && memcmp(units[i].name, text, len) == 0)
            return &units[i];
    return NULL;
}

bool hr_duration_parse(const char *text, size_t len, uint64_t *duration_us)
{
    size_t digits = 0;
    uint64_t count = 1;

    while (digits < len && text[digits] >= '0' && text[digits] <= '9')
        digits++;
    if (digits > 0 && !hr_number_parse(text, digits, &count))
        return false;
    const unit *found = unit_find(text + digits, len - digits);
    if (found == NULL || count == 0 || count > HIRATE_COST_MAX / found->us)
        return false;
    *duration_us = count * found->us;
    return true;
}

/* The largest unit of which it is a whole number. */
static const unit *unit_of(uint64_t duration_us)
{
    size_t i = 0;

    while (duration_us % units[i].us != 0)
        i++; /* ends: every number is a multiple of 1 us */
    return &units[i];
}

void hr_duration_format(char text[HR_DURATION_TEXT_SIZE], uint64_t duration_us)
{
    const unit *in = unit_of(duration_us);

    (void)snprintf(text, HR_DURATION_TEXT_SIZE, "%" PRIu64 "%s", duration_us / in->us, in->name);
}

bool hr_offset_parse(const char *text, size_t len, int32_t *minutes)
{
    uint64_t hours, rest;

    if (len != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':' || !hr_number_parse(text + 1, 2, &hours) ||
        !hr_number_parse(text + 4, 2, &rest) || hours > 23 || rest > 59)
        return false;
    int32_t size = (int32_t)(60 * hours + rest);
    *minutes = text[0] == '-' ? -size : size;
    return true;
}

void hr_rate_format(char text[HR_RATE_TEXT_SIZE], hirate_rate rate)
{
    const unit *in = unit_of(rate.period_us);
    char duration[HR_DURATION_TEXT_SIZE];

    hr_duration_format(duration, rate.period_us);
    (void)snprintf(text, HR_RATE_TEXT_SIZE, "%" PRIu64 "/%s", rate.tokens,
                   rate.period_us == in->us ? in->name : duration);
}
