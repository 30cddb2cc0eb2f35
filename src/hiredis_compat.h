/* SPDX-License-Identifier: BSD-3-Clause */
/* link: where hiredis 0.14 and 1.x differ; the one place that asks for its version. */
#ifndef HR_HIREDIS_COMPAT_H
#define HR_HIREDIS_COMPAT_H

#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <hiredis/sds.h>

#if HIREDIS_MAJOR >= 1
typedef size_t hr_hiredis_count; /* elements of an array, as the reader tells them */
#define HR_HIREDIS_MORE_OBJECTS(double_fn, bool_fn) .createDouble = (double_fn), .createBool = (bool_fn),
#else
typedef int hr_hiredis_count;
#define HR_HIREDIS_MORE_OBJECTS(double_fn, bool_fn)
#endif

#endif
