/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a call asks in steps, as it is written: read back through a decoder. Entries: test_batch.c,
 * test_batch_random.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/decoded.h"
#include "support/stepping.h"

enum { ACQUIRE = HIRATE_OP_ACQUIRE, PEEK = HIRATE_OP_PEEK, X = 1, Y = 2 };

/* Form and write the call, and compare its operations behind its number with what is wanted; S stands for a string. */
#define S INT64_C(-99)

static const decoded *assert_asks(stepping *f, const int64_t *ops, size_t count)
{
    hr_call *call = form(f);

    assert_int_equal(hr_call_encode(call, &f->wire), 0);
    const decoded *d = decode(&f->wire.command);
    assert_true((uint64_t)d->ops[0] == call->number);
    for (size_t i = 0; i < count && i + 1 < d->op_count; i++) {
        if ((ops[i] == S) != (d->text[1 + i] != NULL) || (ops[i] != S && ops[i] != d->ops[1 + i]))
            fail_msg("operation %zu is %lld", 1 + i, (long long)d->ops[1 + i]);
    }
    assert_int_equal(d->op_count, 1 + count);
    finish(f, call);
    return d;
}

#define ASKS(f, ...)                                                                                                   \
    assert_asks((f), (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

#define A_LIMIT 1, 1, 3000000, 18000000
#define B_LIMIT 2, 1, 500000, 4500000
#define C_LIMIT 7, 9, 10000000
#define Q_LIMIT 4, 9, 2, 86400000000
#define L_LIMIT 5, 9, 60000000

static void test_units_are_each_limits_own(void **state)
{
    static const pair pairs[] = {{A, X}, {B, X}, {L, X}, {Q, X}};
    stepping *f = stepping_new(1, 8, 8);

    (void)state;
    ask(f, ACQUIRE, 2, pairs, 4);
    ASKS(f, 0, A_LIMIT, 1, B_LIMIT, 1, L_LIMIT, 1, Q_LIMIT, 1, 1, 0, 4, 0, 1, 6000000, 2, 1000000, 3, 2, 4, 2);
    drain(f);
    stepping_free(f);
}

static void test_cost_above_a_limit_is_too_much_for_it_alone(void **state)
{
    static const pair pairs[] = {{A, X}, {B, X}};
    stepping *f = stepping_new(1, 8, 8);
    const int64_t too_much = INT64_C(1) << 53;

    (void)state;
    ask(f, ACQUIRE, 7, pairs, 2);
    ASKS(f, 0, A_LIMIT, 1, B_LIMIT, 1, 1, 0, 2, 0, 1, too_much, 2, 3500000);
    ask(f, PEEK, HIRATE_COST_MAX, pairs, 2);
    ASKS(f, 0, A_LIMIT, 1, B_LIMIT, 1, 2, 0, 2, 0, 1, too_much, 2, too_much);
    drain(f);
    stepping_free(f);
}

static void test_shadows_are_counted_apart_behind_the_others(void **state)
{
    stepping *f = stepping_new(1, 8, 8);

    (void)state;
    ASK(f, PEEK, {A_SHADOW, X}, {B, X});
    ASKS(f, 0, B_LIMIT, 1, A_LIMIT, 1, 2, 0, 1, 1, 1, 500000, 2, 3000000);
    ASK(f, ACQUIRE, {A_SHADOW, X});
    ASKS(f, 0, A_LIMIT, 1, 1, 0, 0, 1, 1, 3000000);
    drain(f);
    stepping_free(f);
}

/* Keys under one limit in a row are told it once; under another that decides alike it is told again. */
static void test_keys_in_a_row_share_their_limit(void **state)
{
    stepping *f = stepping_new(1, 8, 8);

    (void)state;
    ASK(f, PEEK, {A, X}, {A, Y}, {A_OPEN, 3});
    ASKS(f, 0, A_LIMIT, 2, A_LIMIT, 1, 2, 0, 3, 0, 1, 3000000, 2, 3000000, 3, 3000000);
    drain(f);
    stepping_free(f);
}

static void test_what_holds_has_its_id_and_time(void **state)
{
    stepping *f = stepping_new(1, 8, 8);

    (void)state;
    const asked *a = ASK(f, ACQUIRE, {C, X});
    double hold_us = (double)a->request.extra->hold_us;
    unsigned char id[HR_HOLD_ID_SIZE];
    memcpy(id, a->request.extra->id, sizeof id);
    const decoded *d = ASKS(f, 0, C_LIMIT, 1, 1, S, 1, 0, 1, 1);
    assert_int_equal(d->ops[7], 20);
    assert_memory_equal(d->text[7], id, 12);
    assert_memory_equal(d->text[7] + 12, &hold_us, 8); /* tests run on little-endian machines */
    ASK(f, PEEK, {C, X});                              /* holds nothing */
    ASKS(f, 0, C_LIMIT, 1, 2, 0, 1, 0, 1, 1);
    drain(f);
    stepping_free(f);
}

static void test_permits_are_used_on_their_key(void **state)
{
    static const pair slots = {C, X}, month = {Q, X};
    stepping *f = stepping_new(1, 8, 8);

    (void)state;
    ask(f, HIRATE_OP_RELEASE, 0, &slots, 1);
    ask(f, HIRATE_OP_RENEW, 0, &slots, 1);
    const asked *commit = ask(f, HIRATE_OP_COMMIT, 300, &month, 1);
    int64_t until_us = commit->request.extra->until_us;
    ask(f, HIRATE_OP_REFUND, 0, &month, 1);
    ASKS(f, 0, C_LIMIT, 1, Q_LIMIT, 1, 3, 1, S, 4, 1, S, 5, 2, S, 300, until_us, 6, 2, S);
    drain(f);
    stepping_free(f);
}

static void test_entries_come_first(void **state)
{
    stepping *f = stepping_new(1, 8, 8);

    (void)state;
    ASK(f, ACQUIRE, {C, X});
    ASK(f, ACQUIRE, {B, Y});
    ASKS(f, B_LIMIT, 1, -500001, 0, C_LIMIT, 1, 1, S, 1, 0, 1, 1);
    drain(f);
    stepping_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_units_are_each_limits_own),
        cmocka_unit_test(test_cost_above_a_limit_is_too_much_for_it_alone),
        cmocka_unit_test(test_shadows_are_counted_apart_behind_the_others),
        cmocka_unit_test(test_keys_in_a_row_share_their_limit),
        cmocka_unit_test(test_what_holds_has_its_id_and_time),
        cmocka_unit_test(test_permits_are_used_on_their_key),
        cmocka_unit_test(test_entries_come_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
