/* SPDX-License-Identifier: BSD-3-Clause */
/* client: a sliding log's entries in the local engine; see log_buffer.h. */
#include "log_buffer.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM_FIRST = 2 };

hr_sliding_log hr_log_buffer_view(const hr_log_buffer *buffer)
{
    return (hr_sliding_log){buffer->entries + buffer->first, buffer->count, buffer->used};
}

/* Room for one more entry after the `count` from `first` on, which are all that is kept; they may have moved to the
 * start. */
static bool make_room(hr_log_buffer *buffer, uint32_t *first, uint32_t count)
{
    if (*first + count < buffer->room)
        return true;
    if (buffer->room > 0 && *first >= buffer->room / 5 && *first > 0) {
        memmove(buffer->entries, buffer->entries + *first, count * sizeof *buffer->entries);
        *first = 0;
        return true;
    }
    uint32_t room = buffer->room == 0 ? ROOM_FIRST : 2 * buffer->room;
    if (room > HR_LOG_ROOM_MAX)
        room = HR_LOG_ROOM_MAX;
    hr_sliding_log_entry *entries = realloc(buffer->entries, room * sizeof *entries);
    if (entries == NULL)
        return false;
    buffer->entries = entries;
    buffer->room = room;
    return true;
}

bool hr_log_buffer_reserve(hr_log_buffer *buffer, hr_sliding_log_now *moment)
{
    uint32_t first = buffer->first;
    size_t older = moment->older_count == 0 ? 0 : (size_t)(moment->older - buffer->entries) - first;

    if (!make_room(buffer, &first, buffer->count))
        return false;
    buffer->first = first;
    if (moment->older_count > 0)
        moment->older = buffer->entries + first + older;
    return true;
}

bool hr_log_buffer_store(hr_log_buffer *buffer, const hr_sliding_log_now *moment)
{
    uint32_t count = (uint32_t)moment->older_count;
    uint32_t first = count == 0 ? 0 : (uint32_t)(moment->older - buffer->entries);

    if (moment->at_units > 0) {
        if (!make_room(buffer, &first, count))
            return false;
        buffer->entries[first + count++] = (hr_sliding_log_entry){moment->at_us, (uint32_t)moment->at_units};
    }
    buffer->first = first;
    buffer->count = count;
    buffer->used = (uint32_t)(moment->older_units + moment->at_units);
    return true;
}

void hr_log_buffer_free(hr_log_buffer *buffer)
{
    free(buffer->entries);
    *buffer = (hr_log_buffer){NULL, 0, 0, 0, 0};
}
