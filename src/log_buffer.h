/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client: where the local engine keeps a sliding log's entries: a buffer that grows at its end and is used up at its
 * start.
 *
 * Entries stand at first … first + count - 1 of `room`. When the end is reached they move to the start if a fifth of
 * the buffer is free there, else it doubles, up to HR_LOG_ROOM_MAX: a fifth of that is always free, as there are at
 * most HIRATE_LOG_MAX entries. So each acquire moves at most four, on average.
 */
#ifndef HR_LOG_BUFFER_H
#define HR_LOG_BUFFER_H

#include "sliding_log.h"

enum { HR_LOG_ROOM_MAX = HIRATE_LOG_MAX / 4 * 5 };

/* All zero: empty, without memory. */
typedef struct hr_log_buffer {
    hr_sliding_log_entry *entries;
    uint32_t first, count, room;
    uint32_t used; /* the sum of their units */
} hr_log_buffer;

/* The log as the policy takes it; valid until the next store. */
hr_sliding_log hr_log_buffer_view(const hr_log_buffer *buffer);

/* Have room for what a moment loaded from this buffer's view (or from none) may become, which then can be stored
 * without failing. Entries may move, and `moment` with them. False: no memory, nothing changed. */
bool hr_log_buffer_reserve(hr_log_buffer *buffer, hr_sliding_log_now *moment);

/* Keep what `moment`, loaded from this buffer's view (or from none, while it is empty), has become. False: no memory,
 * nothing changed. */
bool hr_log_buffer_store(hr_log_buffer *buffer, const hr_sliding_log_now *moment);

void hr_log_buffer_free(hr_log_buffer *buffer);

#endif
