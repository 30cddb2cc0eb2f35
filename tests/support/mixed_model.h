/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test support: did what happened to a key keep to its limit? By each kind's own arithmetic, written down here once
 * more.
 *
 * The events of a key are gone through in order. What was admitted must have had room, beside all that is known to
 * count then: a bucket's tokens, what its window, its log or its two counters have left, the units that are not held.
 * As nothing is known to count that does not (mixed_history.h), less room than was used is a limit broken. What an
 * answer tells to remain must not be more than that room either: so what was admitted was charged, to each of its
 * limits.
 *
 * Where everything is known about a key, the events are more: each verdict and each remainder must be exactly that of
 * the model.
 *
 * A bucket's admissions are held against capacity + rate * interval besides, for every interval (bound.h); a sliding
 * window's in any interval as long as the window against twice the limit; a quota's with what commits charged beyond
 * what was reserved.
 */
#ifndef TESTS_MIXED_MODEL_H
#define TESTS_MIXED_MODEL_H

#include "mixed_history.h"

typedef struct mixed_figures {
    uint64_t admitted, units; /* requests that took something, and how much */
    uint64_t denied;          /* by this limit; a shadow had no room */
    uint64_t exact;           /* answers that were exactly the model's */
    uint64_t excess;          /* a quota: charged by commits beyond what was reserved */
    double worst;             /* of its bound was used, at most; 1: all */
    double worst_interval;    /* a sliding window: of its limit, in any interval as long as the window */
    uint64_t broken;          /* events that broke the limit, or differ from the model; the first are printed */
} mixed_figures;

/* Check a key of a complete history, and add to *figures. */
void mixed_model_check(const hirate_limit *limit, const mixed_key *key, const char *name, mixed_figures *figures);

#endif
