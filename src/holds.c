/* SPDX-License-Identifier: BSD-3-Clause */
/* policy: units that are held; see holds.h. */
#include "holds.h"

int64_t hr_holds_freed_us(const hr_holds *holds, uint64_t units, uint64_t count)
{
    uint64_t freed = 0;
    size_t i = 0;

    for (; i + 1 < holds->count; i++) {
        freed += holds->first[i].units;
        if (freed >= units && i + 1 >= count)
            break;
    }
    return holds->first[i].until_us;
}
