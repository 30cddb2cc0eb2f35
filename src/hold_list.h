/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client: where the local engine keeps a name's leases or reservations (holds.h): a buffer that grows at its end and is
 * used up at its start.
 *
 * Holds stand, sorted, at first … first + count - 1 of `room`. When the end is reached they move to the start if a
 * fifth of the buffer is free there, else it doubles, up to HR_HOLD_ROOM_MAX: a fifth of that is always free. One that
 * ends last, as new ones mostly do, is put behind the others; another moves those that end after it.
 */
#ifndef HR_HOLD_LIST_H
#define HR_HOLD_LIST_H

#include "holds.h"

#include <stdbool.h>

enum { HR_HOLD_ROOM_MAX = HIRATE_HOLDS_MAX / 4 * 5 };

/* All zero: empty, without memory. */
typedef struct hr_hold_list {
    hr_hold *holds;
    uint64_t held; /* units of all of them */
    uint32_t first, count, room;
} hr_hold_list;

/* The list as the policies take it; valid until the next change of it. */
hr_holds hr_hold_list_view(const hr_hold_list *list);

/* Have room for one more after all that are there. False: no memory, nothing changed. */
bool hr_hold_list_reserve(hr_hold_list *list);

/* Drop all but the last `count`, and add shift_us to the ends of those. */
void hr_hold_list_keep(hr_hold_list *list, size_t count, int64_t shift_us);

/* Put in one more; there is room for it, reserved since the last one, and there are fewer than HIRATE_HOLDS_MAX. */
void hr_hold_list_add(hr_hold_list *list, const hr_hold *hold);

/* The one with this id, or NULL. Found at once if it ends at until_us, where most do. */
const hr_hold *hr_hold_list_find(const hr_hold_list *list, const unsigned char id[HR_HOLD_ID_SIZE], int64_t until_us);

/* Let `hold`, one of the list's, end at until_us instead, behind those that do. */
void hr_hold_list_move(hr_hold_list *list, const hr_hold *hold, int64_t until_us);

/* Take out `hold`, one of the list's. */
void hr_hold_list_remove(hr_hold_list *list, const hr_hold *hold);

void hr_hold_list_free(hr_hold_list *list);

#endif
