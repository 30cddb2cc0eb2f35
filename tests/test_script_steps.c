/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps as they are written, byte for byte and through a decoder, and what their part of a reply may hold; no memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "script.h"
#include "support/decoded.h"
#include "support/nomem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER = 5 }; /* of the calls: one byte, 05 */

static const hr_policy LOGIN = {
    .capacity = 20, .n = 1, .p = 3000000, .full = 60000000, .kind = HIRATE_KIND_TOKEN_BUCKET};
static const hr_policy SLOTS = {.kind = HIRATE_KIND_CONCURRENCY, .capacity = 9, .lease_us = 10};
static const hr_policy MONTH = {.kind = HIRATE_KIND_QUOTA, .capacity = 9, .per = HIRATE_PER_MONTH};
static const hr_policy LOG = {.kind = HIRATE_KIND_SLIDING_LOG, .capacity = 9, .window_us = 1000000};
static const unsigned char ID[] = "twelve bytes";

/* --------------------------------------------------------------------------------------------------- writing -- */

/* A call of no entries, with one key under SLOTS before its steps. */
static void begin(hr_script_call *call)
{
    hr_script_begin(call, NUMBER);
    hr_script_steps(call);
    hr_script_limit(call, &SLOTS, 1);
    hr_script_key(call, "p:slots:a", 9);
}

/* What is written behind what begin() has written. */
static void assert_written(hr_script_call *call, const char *ops, size_t len)
{
    static const char head[] = "\x05\x00\x07\x09\x0a\x01";
    size_t head_len = sizeof head - 1;

    assert_int_equal(call->ops.len, head_len + len);
    assert_memory_equal(call->ops.data, head, head_len);
    assert_memory_equal(call->ops.data + head_len, ops, len);
    assert_int_equal(hr_script_finish(call, HR_SCRIPT_BY_SHA), 0);
    (void)decode(&call->command); /* it is whole */
}

#define ASSERT_WRITTEN(call, ops) assert_written((call), (ops), sizeof(ops) - 1)

static void test_steps_of_acquires_byte_for_byte(void **state)
{
    hr_script_call call = {0};

    (void)state;
    begin(&call);
    hr_script_take(&call, NULL, 0, 1, 0);
    hr_script_ref(&call, 0, 3);
    ASSERT_WRITTEN(&call, "\x01\x00\x01\x00\x01\x03");
    begin(&call);
    hr_script_take(&call, ID, 0, 1, 1);
    hr_script_ref(&call, 0, 3);
    hr_script_ref(&call, 127, HR_SCRIPT_TOO_MUCH);
    ASSERT_WRITTEN(&call,
                   "\x01\xb4twelve bytes\0\0\0\0\0\0\0\0\x01\x01\x01\x03\xcc\x80\xcf\x00\x20\x00\x00\x00\x00\x00\x00");
    begin(&call);
    hr_script_take(&call, ID, 1, 1, 0); /* 1.0 */
    hr_script_ref(&call, 0, 0);
    ASSERT_WRITTEN(&call, "\x01\xb4twelve bytes\0\0\0\0\0\0\xf0\x3f\x01\x00\x01\x00");
    begin(&call);
    hr_script_take(&call, ID, UINT64_C(1) << 52, 1, 0);
    hr_script_ref(&call, 0, 0);
    ASSERT_WRITTEN(&call, "\x01\xb4twelve bytes\0\0\0\0\0\0\x30\x43\x01\x00\x01\x00");
    hr_script_free(&call);
}

static void test_steps_of_peeks_byte_for_byte(void **state)
{
    hr_script_call call = {0};

    (void)state;
    begin(&call);
    hr_script_look(&call, 0, 1);
    hr_script_ref(&call, 0, 3);
    ASSERT_WRITTEN(&call, "\x02\x00\x00\x01\x01\x03");
    hr_script_free(&call);
}

static void test_steps_with_a_permit_byte_for_byte(void **state)
{
    hr_script_call call = {0};

    (void)state;
    begin(&call);
    hr_script_permit(&call, HIRATE_OP_RELEASE, 0, ID, 7, 8);
    ASSERT_WRITTEN(&call, "\x03\x01\xactwelve bytes");
    begin(&call);
    hr_script_permit(&call, HIRATE_OP_RENEW, 1, ID, 7, 8);
    ASSERT_WRITTEN(&call, "\x04\x02\xactwelve bytes");
    begin(&call);
    hr_script_permit(&call, HIRATE_OP_COMMIT, 0, ID, HIRATE_COST_MAX, INT64_C(1) << 53);
    ASSERT_WRITTEN(&call, "\x05\x01\xactwelve bytes\xcf\x00\x1f\xff\xff\xff\xff\xff\xff\xcf\x00\x20\0\0\0\0\0\0");
    begin(&call);
    hr_script_permit(&call, HIRATE_OP_COMMIT, 0, ID, 0, 0);
    ASSERT_WRITTEN(&call, "\x05\x01\xactwelve bytes\x00\x00");
    begin(&call);
    hr_script_permit(&call, HIRATE_OP_REFUND, 255, ID, 7, 8);
    ASSERT_WRITTEN(&call, "\x06\xcd\x01\x00\xactwelve bytes");
    hr_script_free(&call);
}

static void test_steps_come_behind_entries(void **state)
{
    static const int64_t expected[] = {NUMBER, 1, 1,  3000000, 60000000, 1, 1,       3000000,  2, 0,
                                       7,      9, 10, 2,       1,        1, 3000000, 60000000, 1, 1,
                                       20,     1, 1,  2,       3,        3, 6000000, 4,        1, 12};
    hr_script_call call = {0};

    (void)state;
    hr_script_begin(&call, NUMBER);
    hr_script_limit(&call, &LOGIN, 1);
    hr_script_key(&call, "one", 3);
    hr_script_acquires(&call, 1);
    hr_script_run(&call, 3000000, 2);
    hr_script_steps(&call);
    hr_script_limit(&call, &SLOTS, 2);
    hr_script_key(&call, "two", 3);
    hr_script_key(&call, "three", 5);
    hr_script_limit(&call, &LOGIN, 1);
    hr_script_key(&call, "four", 4);
    hr_script_take(&call, ID, 9, 1, 1);
    hr_script_ref(&call, 1, 3);
    hr_script_ref(&call, 2, 6000000);
    hr_script_permit(&call, HIRATE_OP_RENEW, 0, ID, 0, 0);
    assert_int_equal(hr_script_finish(&call, HR_SCRIPT_BY_SHA), 0);
    const decoded *d = decode(&call.command);
    assert_arg(d, 2, "4");
    assert_arg(d, 3, "one");
    assert_arg(d, 4, "two");
    assert_arg(d, 5, "three");
    assert_arg(d, 6, "four");
    assert_int_equal(d->op_count, sizeof expected / sizeof expected[0]);
    for (size_t i = 0; i < d->op_count; i++) {
        assert_true(d->ops[i] == expected[i]);
        assert_int_equal(d->text[i] != NULL, i == 20 || i == 29);
    }
    assert_memory_equal(d->text[29], ID, 12);
    hr_script_free(&call);
}

static int write_many(hr_script_call *call)
{
    begin(call);
    for (int i = 0; i < 1000; i++) {
        hr_script_take(call, ID, 1, 1, 0);
        hr_script_ref(call, 0, HR_SCRIPT_TOO_MUCH);
        hr_script_permit(call, HIRATE_OP_COMMIT, 0, ID, HIRATE_COST_MAX, INT64_MAX);
    }
    return hr_script_finish(call, HR_SCRIPT_BY_SHA);
}

static void test_each_allocation_failing_is_no_memory_and_later_works(void **state)
{
    int failures = 0;

    (void)state;
    for (bool failed = true; failed; failures += failed) {
        hr_script_call call = {0};

        nomem_after(failures);
        int rc = write_many(&call);
        failed = nomem_end();
        assert_int_equal(rc, failed ? HIRATE_ENOMEM : 0);
        assert_int_equal(write_many(&call), 0);
        assert_int_equal(decode(&call.command)->op_count, 6 + 1000 * (6 + 5));
        hr_script_free(&call);
    }
    assert_true(failures >= 6);
}

/* --------------------------------------------------------------------------------------------------- reading -- */

static const double NOT_THIS[] = {-3, -0.5, 0.5, 1e300, -1e300, INFINITY, -INFINITY, NAN};

/* A reply of one double, on the heap, less `cut` bytes of it. */
typedef struct one {
    char *bytes;
    hr_script_reply reply;
} one;

static one write_one(double value, size_t cut)
{
    one o = {.bytes = malloc(cut < sizeof value ? sizeof value - cut : 1)};

    assert_non_null(o.bytes);
    memcpy(o.bytes, &value, sizeof value - cut); /* tests run on little-endian machines */
    o.reply = (hr_script_reply){.at = o.bytes, .end = o.bytes + sizeof value - cut, .now_us = 1000};
    return o;
}

static bool wait_of(double value, size_t cut, int64_t *wait_us)
{
    one o = write_one(value, cut);
    bool ok = hr_script_next_wait(&o.reply, wait_us);

    assert_int_equal(hr_script_reply_ended(&o.reply), ok || cut == sizeof value);
    free(o.bytes);
    return ok;
}

static bool outcome_of(double value, size_t cut, enum hr_script_outcome *outcome)
{
    one o = write_one(value, cut);
    bool ok = hr_script_next_outcome(&o.reply, outcome);

    assert_int_equal(hr_script_reply_ended(&o.reply), ok || cut == sizeof value);
    free(o.bytes);
    return ok;
}

static bool written_of(double value, size_t cut, enum hr_script_what *what)
{
    one o = write_one(value, cut);
    bool ok = hr_script_next_written(&o.reply, what);

    assert_int_equal(hr_script_reply_ended(&o.reply), ok || cut == sizeof value);
    free(o.bytes);
    return ok;
}

static void test_wait_is_a_time(void **state)
{
    int64_t wait_us;

    (void)state;
    assert_true(wait_of(0, 0, &wait_us) && wait_us == 0);
    assert_true(wait_of(9007199254740992.0, 0, &wait_us) && wait_us == INT64_C(9007199254740992));
    assert_false(wait_of(9007199254740994.0, 0, &wait_us));
    assert_false(wait_of(-1, 0, &wait_us));
    assert_false(wait_of(-2, 0, &wait_us));
    for (size_t i = 0; i < sizeof NOT_THIS / sizeof *NOT_THIS; i++)
        assert_false(wait_of(NOT_THIS[i], 0, &wait_us));
    for (size_t cut = 1; cut <= sizeof(double); cut++)
        assert_false(wait_of(7, cut, &wait_us));
}

static void test_outcome_is_one_of_three(void **state)
{
    enum hr_script_outcome outcome;

    (void)state;
    assert_true(outcome_of(0, 0, &outcome) && outcome == HR_OUTCOME_GONE);
    assert_true(outcome_of(1, 0, &outcome) && outcome == HR_OUTCOME_DONE);
    assert_true(outcome_of(2, 0, &outcome) && outcome == HR_OUTCOME_LATE);
    assert_false(outcome_of(3, 0, &outcome));
    assert_false(outcome_of(-1, 0, &outcome));
    for (size_t i = 0; i < sizeof NOT_THIS / sizeof *NOT_THIS; i++)
        assert_false(outcome_of(NOT_THIS[i], 0, &outcome));
    for (size_t cut = 1; cut <= sizeof(double); cut++)
        assert_false(outcome_of(1, cut, &outcome));
}

static void test_written_is_zero_or_says_why_not(void **state)
{
    enum hr_script_what what;

    (void)state;
    assert_true(written_of(0, 0, &what) && what == HR_FOUND_MOMENT);
    assert_true(written_of(-1, 0, &what) && what == HR_FOUND_FOREIGN);
    assert_true(written_of(-2, 0, &what) && what == HR_FOUND_REFUSED);
    assert_false(written_of(1, 0, &what));
    for (size_t i = 0; i < sizeof NOT_THIS / sizeof *NOT_THIS; i++)
        assert_false(written_of(NOT_THIS[i], 0, &what));
    for (size_t cut = 1; cut <= sizeof(double); cut++)
        assert_false(written_of(0, cut, &what));
}

/* ------------------------------------------------------------------------------- a wait in place of the list -- */

/* What an acquire of 5 gets, denied, when it was told to wait for `wait_us`. */
static hr_decision denied_by(const hr_policy *policy, hr_moment moment, int64_t wait_us)
{
    hr_script_stand_in stand_in;

    hr_script_set_wait(policy, &moment, wait_us, &stand_in);
    hr_decision decision = hr_decide_take(policy, &moment, 5);
    assert_int_equal(decision.verdict, HIRATE_DENIED);
    return decision;
}

static void test_wait_told_is_how_long_a_denial_waits(void **state)
{
    enum { NOW = 1000000 };
    const hr_moment leases = {
        .concurrency = {.held = 7, .count = 3, .latest_us = NOW + 9000, .at_us = NOW, .now_us = NOW}};
    const hr_moment log = {
        .log = {.older_units = 7, .newest_us = NOW - 100, .at_units = 1, .at_us = NOW, .now_us = NOW}};
    const hr_moment quota = {.window = {.window = {.end_us = NOW + 50000, .used = 1, .held = 6},
                                        .count = 3,
                                        .latest_us = NOW + 9000,
                                        .now_us = NOW}};

    (void)state;
    assert_true(hr_script_tells_waits(&SLOTS) && hr_script_tells_waits(&LOG) && hr_script_tells_waits(&MONTH));
    assert_false(hr_script_tells_waits(&LOGIN));
    assert_true(denied_by(&SLOTS, leases, NOW + 2000).retry_after_ms == 2);
    assert_true(denied_by(&SLOTS, leases, NOW + 2001).retry_after_ms == 3);
    assert_true(denied_by(&SLOTS, leases, 0).retry_after_ms == 0); /* a server that lies */
    assert_true(denied_by(&LOG, log, NOW - 2000).retry_after_ms == 998);
    assert_true(denied_by(&LOG, log, NOW - 1999).retry_after_ms == 999);
    assert_true(denied_by(&MONTH, quota, NOW + 2000).retry_after_ms == 2);
    assert_true(denied_by(&MONTH, quota, NOW + 60000).retry_after_ms == 50); /* the window is over */
    /* what else is told is the moment's own */
    assert_true(denied_by(&SLOTS, leases, NOW + 2000).reset_ms == 9);
    assert_true(denied_by(&SLOTS, leases, NOW + 2000).remaining == 2);
    assert_true(denied_by(&MONTH, quota, NOW + 2000).remaining == 2);
    assert_true(denied_by(&LOG, log, NOW - 1999).remaining == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_of_acquires_byte_for_byte),
        cmocka_unit_test(test_steps_of_peeks_byte_for_byte),
        cmocka_unit_test(test_steps_with_a_permit_byte_for_byte),
        cmocka_unit_test(test_steps_come_behind_entries),
        cmocka_unit_test(test_each_allocation_failing_is_no_memory_and_later_works),
        cmocka_unit_test(test_wait_is_a_time),
        cmocka_unit_test(test_outcome_is_one_of_three),
        cmocka_unit_test(test_written_is_zero_or_says_why_not),
        cmocka_unit_test(test_wait_told_is_how_long_a_denial_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
