/* SPDX-License-Identifier: BSD-3-Clause */
/* A batch under random use by requests over several keys, permits, plain ones and resets, against the naive model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/random.h"
#include "support/stepping.h"

/* What a round is like. */
typedef struct mix {
    uint64_t adds, names;
    uint64_t take_backs; /* of what ends a call: out of 6 */
    uint32_t widest;     /* keys of a request */
} mix;

static uint32_t random_pairs(rng *r, pair *pairs, uint32_t most, uint64_t names)
{
    uint32_t wanted = 1 + (uint32_t)rng_upto(r, most - 1), count = 0;

    for (int tries = 0; tries < 40 && count < wanted; tries++) {
        pair p = {(size_t)rng_upto(r, LIMITS - 1), (size_t)rng_upto(r, names)};
        bool is_new = true;
        for (uint32_t i = 0; i < count; i++)
            is_new = is_new && key_of(&pairs[i]) != key_of(&p);
        if (is_new)
            pairs[count++] = p;
    }
    return count;
}

static void step_add(stepping *f, rng *r, const mix *m)
{
    static const unsigned ops[] = {HIRATE_OP_ACQUIRE, HIRATE_OP_ACQUIRE, HIRATE_OP_ACQUIRE, HIRATE_OP_ACQUIRE,
                                   HIRATE_OP_ACQUIRE, HIRATE_OP_PEEK,    HIRATE_OP_PEEK,    HIRATE_OP_RESET,
                                   HIRATE_OP_RELEASE, HIRATE_OP_COMMIT};
    pair pairs[HIRATE_PAIRS_MAX];
    unsigned op = ops[rng_upto(r, 9)];

    uint32_t count = random_pairs(r, pairs, rng_upto(r, 2) ? 1 : m->widest, m->names);
    if (op == HIRATE_OP_RELEASE)
        pairs[0].limit = C;
    if (op == HIRATE_OP_COMMIT)
        pairs[0].limit = Q;
    if (op != HIRATE_OP_ACQUIRE && op != HIRATE_OP_PEEK)
        count = 1;
    ask(f, op, rng_upto(r, 7), pairs, count);
}

static void step_form(stepping *f, rng *r)
{
    f->keys = 1 + (uint32_t)rng_upto(r, f->batch.key_most - 1);
    form(f);
}

static void step(stepping *f, rng *r, const mix *m)
{
    uint64_t what = rng_upto(r, 10 + m->adds);
    asked *a = &f->asked[rng_upto(r, REQUESTS - 1)];
    hr_call *call = f->in_flight_count ? f->in_flight[rng_upto(r, f->in_flight_count - 1)] : NULL;

    if (what >= 10 && unused(f))
        step_add(f, r, m);
    else if (what < 4)
        step_form(f, r);
    else if (what < 6 && a->used)
        take_out(f, a);
    else if (what >= 6 && what < 10 && call)
        (rng_upto(r, 5) < m->take_backs ? take_back : finish)(f, call);
    if (f->in_flight_count && rng_upto(r, 5) == 0) /* also after some of its requests were answered */
        assert_int_equal(hr_call_encode(f->in_flight[0], &f->wire), 0);
}

static void test_random_matches_model(void **state)
{
    rng r = rng_start("test_random_matches_model");
    uint64_t several = 0;

    (void)state;
    for (int round = 0; round < 150; round++) {
        stepping *f = stepping_new((uint32_t)rng_magnitude(&r, 3), (uint32_t)rng_magnitude(&r, 5),
                                   (uint32_t)rng_magnitude(&r, 6));
        const mix m = {.adds = rng_magnitude(&r, 5),
                       .names = rng_upto(&r, NAMES - 1),
                       .take_backs = rng_upto(&r, 5),
                       .widest = 1 + (uint32_t)rng_magnitude(&r, 4)};

        for (int i = 0; i < 500; i++) {
            step(f, &r, &m);
            check_counts(f);
        }
        drain(f);
        several += f->several;
        stepping_free(f);
    }
    assert_true(several > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_matches_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
