/* SPDX-License-Identifier: BSD-3-Clause */
/* A batch under random use against the naive model, and what each call sends against deciding item by item. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/batching.h"
#include "support/random.h"
#include "token_bucket.h"

/* ------------------------------------------------------------------------------------------------ what is sent -- */

static int64_t next_op(const unsigned char **at)
{
    unsigned char tag = *(*at)++;
    uint64_t value = 0;

    if (tag < 0x80)
        return tag;
    if (tag == 0xff)
        return -1;
    assert_true(tag >= 0xcc && tag <= 0xd3);
    const unsigned bytes = 1U << (tag & 3), unused = 64 - 8 * bytes;
    for (unsigned n = bytes; n > 0; n--)
        value = value << 8 | *(*at)++;
    return tag <= 0xcf ? (int64_t)value : (int64_t)(value << unused) >> unused;
}

/* What the script leaves after the runs at *at, as lua/acquire.lua reckons; a bucket that is stored full has no lag. */
static void run_script(const unsigned char **at, int64_t runs, uint64_t full, hr_token_bucket_now *bucket)
{
    for (int64_t run = 0; run < runs; run++) {
        uint64_t take = (uint64_t)next_op(at), count = (uint64_t)next_op(at);
        assert_true(count >= 1);
        if (take == 0) {
            assert_int_equal(run, 0);
            bucket->lag = bucket->units == full ? 0 : bucket->lag;
        } else if (take <= bucket->units) {
            uint64_t fit = bucket->units / take;
            bucket->units -= (count < fit ? count : fit) * take;
        }
    }
}

static void run_one(int64_t op, hr_token_bucket_now *bucket)
{
    const uint64_t take = (uint64_t)(-1 - op);
    if (take <= bucket->units)
        bucket->units -= take;
}

static bool decide_each(const hr_call *call, const hr_call_key *entry, hr_token_bucket_now *bucket)
{
    const hr_policy *policy = &entry->limit->policy;
    bool writes = false;

    for (uint32_t i = 0; i < entry->count; i++) {
        const hr_call_item *item = &call->items[entry->first + i];
        if (item->op == HIRATE_OP_PEEK)
            continue;
        (void)hr_token_bucket_take(policy, bucket, item->cost);
        hr_token_bucket_keep(policy, bucket, 0);
        writes = true;
    }
    return writes;
}

static void check_entry(const hr_call *call, const hr_call_key *entry, const unsigned char **at, rng *r)
{
    uint64_t full = entry->limit->policy.full;
    hr_token_bucket_now found = {.units = rng_upto(r, 2) ? rng_upto(r, full) : full, .lag = rng_upto(r, full)};
    hr_token_bucket_now left = found;
    int64_t op = next_op(at);

    if (call->items[entry->first].op == HIRATE_OP_RESET) {
        assert_int_equal(entry->count, 1);
        assert_int_equal(op, -1);
        return;
    }
    assert_int_equal(op != 0, decide_each(call, entry, &found));
    assert_true(op != -1);
    assert_int_equal(op < 0 ? 1 : op, entry->runs);
    if (op < 0)
        run_one(op, &left);
    else
        run_script(at, op, full, &left);
    assert_true(left.units == found.units);
    assert_true(left.lag == found.lag);
}

static void check_encoding(fixture *f, hr_call *call, rng *r)
{
    assert_int_equal(hr_call_encode(call, &f->wire), 0);
    assert_int_equal(f->wire.key_count, call->key_count);
    const unsigned char *at = (const unsigned char *)f->wire.ops.data, *end = at + f->wire.ops.len;
    const char *key = f->wire.keys.data;

    assert_true((uint64_t)next_op(&at) == call->number);
    for (uint32_t i = 0; i < call->key_count;) {
        const hr_policy *policy = &call->keys[i].limit->policy;
        assert_int_equal(next_op(&at), policy->kind);
        assert_true((uint64_t)next_op(&at) == policy->n);
        assert_true((uint64_t)next_op(&at) == policy->p);
        assert_true((uint64_t)next_op(&at) == policy->full);
        int64_t keys = next_op(&at);
        assert_true(keys > 0);
        for (; keys > 0; keys--, i++) {
            assert_ptr_equal(&call->keys[i].limit->policy, policy);
            check_entry(call, &call->keys[i], &at, r);
            key = strchr(key, '\n') + 1;
            assert_memory_equal(key, call->keys[i].key->text, call->keys[i].key->len);
            key += call->keys[i].key->len + 2;
        }
    }
    assert_ptr_equal(at, end);
    assert_ptr_equal(key, f->wire.keys.data + f->wire.keys.len);
}

/* ------------------------------------------------------------------------------------------------- random use -- */

static void step_form(fixture *f, rng *r)
{
    bool possible = f->batch.waiting > 0 && f->in_flight_count < f->calls;
    hr_call *call;

    f->keys = 1 + (uint32_t)rng_upto(r, f->batch.key_most - 1);
    call = form(f);
    assert_int_equal(call != NULL, possible);
    if (!call)
        return;
    check_call(f, call);
    check_encoding(f, call, r);
}

static void step_remove(fixture *f, rng *r)
{
    hr_request *request = &f->requests[rng_upto(r, REQUESTS - 1)];

    if (f->used[index_of(f, request)])
        take_out(f, request);
}

static void step(fixture *f, rng *r, uint64_t adds)
{
    static const enum hirate_op ops[] = {HIRATE_OP_ACQUIRE, HIRATE_OP_ACQUIRE, HIRATE_OP_ACQUIRE, HIRATE_OP_PEEK,
                                         HIRATE_OP_RESET};
    uint64_t what = rng_upto(r, 10 + adds);
    hr_call *call = f->in_flight_count ? f->in_flight[rng_upto(r, f->in_flight_count - 1)] : NULL;

    if (what >= 10 && unused_request(f))
        add(f, ops[rng_upto(r, 4)], (size_t)rng_upto(r, POLICIES - 1), (size_t)rng_upto(r, NAMES - 1), rng_upto(r, 7));
    else if (what < 3)
        step_form(f, r);
    else if (what < 5)
        step_remove(f, r);
    else if (what < 7 && call)
        finish(f, call);
    else if (what == 7 && call)
        take_back(f, call);
    if (call && rng_upto(r, 20) == 0 && f->in_flight_count) /* also after some of its requests were answered */
        check_encoding(f, f->in_flight[0], r);
}

static void test_random_matches_model(void **state)
{
    rng r = rng_start("test_random_matches_model");

    (void)state;
    for (int round = 0; round < 60; round++) {
        fixture *f =
            fixture_new((uint32_t)rng_magnitude(&r, 3), (uint32_t)rng_magnitude(&r, 5), (uint32_t)rng_magnitude(&r, 7));
        uint64_t adds = rng_magnitude(&r, 6);

        for (int i = 0; i < 1000; i++) {
            step(f, &r, adds);
            check_counts(f);
        }
        drain(f);
        fixture_free(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_matches_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
