/* SPDX-License-Identifier: BSD-3-Clause */
/* client: a name's leases or reservations in the local engine; see hold_list.h. */
#include "hold_list.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { HOLDS_FIRST = 2 };

hr_holds hr_hold_list_view(const hr_hold_list *list)
{
    return (hr_holds){list->room == 0 ? NULL : list->holds + list->first, list->count};
}

bool hr_hold_list_reserve(hr_hold_list *list)
{
    if (list->first + list->count < list->room)
        return true;
    if (list->first > 0 && list->first >= list->room / 5) {
        memmove(list->holds, list->holds + list->first, list->count * sizeof *list->holds);
        list->first = 0;
        return true;
    }
    uint32_t room = list->room == 0 ? HOLDS_FIRST : 2 * list->room;
    if (room > HR_HOLD_ROOM_MAX)
        room = HR_HOLD_ROOM_MAX;
    hr_hold *holds = realloc(list->holds, room * sizeof *holds);
    if (holds == NULL)
        return false;
    list->holds = holds;
    list->room = room;
    return true;
}

void hr_hold_list_keep(hr_hold_list *list, size_t count, int64_t shift_us)
{
    uint32_t gone = list->count - (uint32_t)count;

    for (uint32_t i = 0; i < gone; i++)
        list->held -= list->holds[list->first + i].units;
    list->first = list->count == gone ? 0 : list->first + gone;
    list->count -= gone;
    for (uint32_t i = 0; shift_us != 0 && i < list->count; i++)
        list->holds[list->first + i].until_us += shift_us;
}

/* The place in holds[] of the first that ends after until_us, or behind all. */
static uint32_t place_after(const hr_hold_list *list, int64_t until_us)
{
    uint32_t from = list->first, past = list->first + list->count;

    if (from < past && list->holds[past - 1].until_us <= until_us)
        return past;
    while (from < past) {
        uint32_t middle = from + (past - from) / 2;

        if (list->holds[middle].until_us > until_us)
            past = middle;
        else
            from = middle + 1;
    }
    return from;
}

void hr_hold_list_add(hr_hold_list *list, const hr_hold *hold)
{
    uint32_t at = place_after(list, hold->until_us), end = list->first + list->count;

    assert(end < list->room && list->count < HIRATE_HOLDS_MAX);
    memmove(list->holds + at + 1, list->holds + at, (end - at) * sizeof *list->holds);
    list->holds[at] = *hold;
    list->count++;
    list->held += hold->units;
}

static bool has_id(const hr_hold *hold, const unsigned char id[HR_HOLD_ID_SIZE])
{
    return memcmp(hold->id, id, HR_HOLD_ID_SIZE) == 0;
}

const hr_hold *hr_hold_list_find(const hr_hold_list *list, const unsigned char id[HR_HOLD_ID_SIZE], int64_t until_us)
{
    for (uint32_t i = place_after(list, until_us); i > list->first && list->holds[i - 1].until_us == until_us; i--)
        if (has_id(&list->holds[i - 1], id))
            return &list->holds[i - 1];
    for (uint32_t i = 0; i < list->count; i++)
        if (has_id(&list->holds[list->first + i], id))
            return &list->holds[list->first + i];
    return NULL;
}

void hr_hold_list_move(hr_hold_list *list, const hr_hold *hold, int64_t until_us)
{
    uint32_t from = (uint32_t)(hold - list->holds), to = place_after(list, until_us);
    hr_hold moved = *hold;

    moved.until_us = until_us;
    if (to > from) /* it goes from before that place */
        memmove(list->holds + from, list->holds + from + 1, (--to - from) * sizeof moved);
    else
        memmove(list->holds + to + 1, list->holds + to, (from - to) * sizeof moved);
    list->holds[to] = moved;
}

void hr_hold_list_remove(hr_hold_list *list, const hr_hold *hold)
{
    uint32_t at = (uint32_t)(hold - list->holds), end = list->first + list->count;

    list->held -= hold->units;
    list->count--;
    if (at == list->first)
        list->first = list->count == 0 ? 0 : at + 1;
    else
        memmove(list->holds + at, list->holds + at + 1, (end - at - 1) * sizeof *list->holds);
}

void hr_hold_list_free(hr_hold_list *list)
{
    free(list->holds);
    *list = (hr_hold_list){.holds = NULL};
}
