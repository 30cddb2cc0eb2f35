/* SPDX-License-Identifier: BSD-3-Clause */
/* The limits a client has met: known by value, bounded, and a change at the same address noticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "limit_set.h"
#include "support/nomem.h"
#include "support/random.h"

#include <stdlib.h>
#include <string.h>

static hr_limits *limits_new(void)
{
    hr_limits *limits = malloc(sizeof *limits);

    assert_non_null(limits);
    assert_int_equal(hr_limits_init(limits, "hirate"), 0);
    return limits;
}

static void limits_free(hr_limits *limits)
{
    hr_limits_free(limits);
    free(limits);
}

static hirate_limit make(const char *policy, uint64_t capacity, uint64_t tokens, uint64_t period_us)
{
    hirate_limit limit;

    hirate_limit_token_bucket(&limit, policy, capacity, (hirate_rate){tokens, period_us});
    return limit;
}

static hr_limit *use(hr_limits *limits, const hirate_limit *from)
{
    hr_limit *limit = NULL;
    hirate_error error = {0, ""};

    if (hr_limits_use(limits, from, &limit, &error) != 0)
        fail_msg("refused: %s", error.text);
    return limit;
}

static void assert_refused(hr_limits *limits, const hirate_limit *from, const char *says)
{
    hr_limit *limit = (hr_limit *)limits;
    hirate_error error = {0, ""};
    size_t idle = limits->idle, count = limits->table.count;

    int rc = hr_limits_use(limits, from, &limit, &error);
    if (rc != HIRATE_EINVAL || strstr(error.text, says) == NULL)
        fail_msg("expected '%s', got %d '%s'", says, rc, error.text);
    assert_ptr_equal(limit, (hr_limit *)limits);
    assert_int_equal(limits->idle, idle);
    assert_int_equal(limits->table.count, count);
}

static void test_limit_is_compiled_with_its_prefix(void **state)
{
    static const hirate_limit login = HIRATE_TOKEN_BUCKET("login", 20, HIRATE_RATE(2, HIRATE_SECONDS(6)));
    hr_limits *limits = limits_new();
    hr_limit *limit = use(limits, &login);

    (void)state;
    assert_int_equal(limit->uses, 1);
    assert_true(limit->policy.n == 1 && limit->policy.p == 3000000 && limit->policy.full == 60000000);
    assert_true(limit->value.rate.tokens == 2 && limit->value.rate.period_us == 6000000);
    assert_int_equal(limit->prefix_len, 13);
    assert_memory_equal(limit->prefix, "hirate:login:", 13);
    hr_limits_done(limits, limit);
    limits_free(limits);
}

static void test_longest_prefix_and_policy_fit(void **state)
{
    char prefix[65], policy[65], expected[131];
    hr_limits *limits = malloc(sizeof *limits);

    (void)state;
    memset(prefix, 'p', sizeof prefix);
    memset(policy, 'q', sizeof policy);
    prefix[64] = policy[64] = 0;
    assert_int_equal(hr_limits_init(limits, prefix), 0);
    hirate_limit from = make(policy, 1, 1, 1);
    const hr_limit *limit = use(limits, &from);
    memset(expected, 'p', 64);
    memset(expected + 65, 'q', 64);
    expected[64] = expected[129] = ':';
    assert_int_equal(limit->prefix_len, 130);
    assert_memory_equal(limit->prefix, expected, 130);
    limits_free(limits);
}

static void test_equal_values_share_whatever_their_address(void **state)
{
    hr_limits *limits = limits_new();
    char name[] = "a", other[] = "a";
    hirate_limit one = make(name, 5, 3, 1000), two = make(other, 5, 3, 1000);

    (void)state;
    hr_limit *limit = use(limits, &one);
    assert_ptr_equal(use(limits, &two), limit);
    assert_ptr_equal(use(limits, &one), limit);
    assert_int_equal(limit->uses, 3);
    assert_int_equal(limits->table.count, 1);
    limits_free(limits);
}

static void test_each_field_makes_another_limit_and_policies_share_a_hash(void **state)
{
    hr_limits *limits = limits_new();
    hirate_limit from[] = {make("a", 5, 3, 1000), make("b", 5, 3, 1000), make("a", 6, 3, 1000), make("a", 5, 4, 1000),
                           make("a", 5, 3, 1001), make("a", 5, 6, 2000), make("a", 5, 3, 1000)};
    hr_limit *limit[7];

    (void)state;
    from[6].flags = HIRATE_LIMIT_CACHE_DENIALS;
    for (size_t i = 0; i < 7; i++) {
        limit[i] = use(limits, &from[i]);
        for (size_t j = 0; j < i; j++) {
            assert_ptr_not_equal(limit[j], limit[i]);
            assert_int_equal(limit[j]->name_hash == limit[i]->name_hash, (i == 1) == (j == 1));
        }
    }
    for (size_t i = 0; i < 7; i++)
        assert_ptr_equal(use(limits, &from[i]), limit[i]);
    limits_free(limits);
}

/* A permit names its own prefix. */
static void test_limits_under_other_prefixes_are_others(void **state)
{
    static const hirate_limit slots = HIRATE_CONCURRENCY("slots", 3, HIRATE_SECONDS(10));
    hr_limits *limits = limits_new();
    hr_limit *under[4], *own = use(limits, &slots);
    static const char *const prefixes[] = {"hirate", "other", "o", "other"};

    (void)state;
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(hr_limits_use_under(limits, prefixes[i], &slots, &under[i], NULL), 0);
    assert_ptr_equal(under[0], own);
    assert_ptr_equal(under[3], under[1]);
    assert_ptr_not_equal(under[1], own);
    assert_ptr_not_equal(under[2], under[1]);
    assert_int_equal(under[1]->prefix_len, 12);
    assert_memory_equal(under[1]->prefix, "other:slots:", 12);
    assert_memory_equal(under[2]->prefix, "o:slots:", 8);
    assert_true(under[1]->name_hash == own->name_hash);
    assert_ptr_equal(under[1]->counters, own->counters);
    assert_ptr_equal(use(limits, &slots), own); /* the address still stands for the one under the own prefix */
    hirate_limit wrong = slots;
    wrong.lease_us = 0;
    hirate_error error;
    assert_int_equal(hr_limits_use_under(limits, "other", &wrong, &under[0], &error), HIRATE_EINVAL);
    assert_ptr_equal(under[0], own);
    limits_free(limits);
}

static void test_change_at_the_same_address_is_noticed(void **state)
{
    hr_limits *limits = limits_new();
    char name[] = "login";
    hirate_limit from = make(name, 5, 3, 1000);

    (void)state;
    hr_limit *first = use(limits, &from), *last = first;
    for (int i = 0; i < 5; i++) {
        from.flags = i == 4 ? HIRATE_LIMIT_CACHE_DENIALS : 0;
        from.capacity += i == 0;
        from.rate.tokens += i == 1;
        from.rate.period_us += i == 2;
        name[4] = i >= 3 ? 'p' : 'n'; /* the text changes in place */
        hr_limit *now = use(limits, &from);
        assert_ptr_not_equal(now, last);
        assert_true(now->policy.capacity == from.capacity);
        assert_true(now->value.rate.tokens == from.rate.tokens);
        assert_true(now->value.rate.period_us == from.rate.period_us);
        assert_true(now->value.flags == from.flags);
        assert_string_equal(now->policy.name, name);
        last = now;
    }
    from = make("login", 5, 3, 1000);
    assert_ptr_equal(use(limits, &from), first);
    limits_free(limits);
}

/* A field that makes a limit wrong, set after the limit was met at this address. */
static void test_what_turned_wrong_at_the_same_address_is_refused(void **state)
{
    hr_limits *limits = limits_new();
    hirate_limit from = make("login", 5, 3, 1000);

    (void)state;
    hr_limit *limit = use(limits, &from);
    from.reserved[2] = 1;
    assert_refused(limits, &from, "limit.reserved");
    from.reserved[2] = 0;
    from.flags = 4;
    assert_refused(limits, &from, "flags");
    from.flags = 0;
    from.version = 2;
    assert_refused(limits, &from, "limit.version");
    from.version = HIRATE_LIMIT_VERSION;
    from.kind = 8;
    assert_refused(limits, &from, "limit.kind");
    from.kind = HIRATE_KIND_TOKEN_BUCKET;
    from.struct_size = 8;
    assert_refused(limits, &from, "limit.struct_size");
    from.struct_size = UINT32_MAX;
    assert_refused(limits, &from, "limit.struct_size");
    from.struct_size = (uint32_t)sizeof from;
    from.policy = NULL;
    assert_refused(limits, &from, "policy");
    from.policy = "a:b";
    assert_refused(limits, &from, "policy");
    from.policy = "login";
    from.rate.tokens = 0;
    assert_refused(limits, &from, "rate");
    from.rate.tokens = 3;
    from.capacity = UINT64_MAX;
    assert_refused(limits, &from, "capacity");
    from.capacity = 5;
    assert_ptr_equal(use(limits, &from), limit);
    assert_refused(limits, NULL, "limit");
    limits_free(limits);
}

static void test_every_kind_is_compiled_and_kept_apart(void **state)
{
    static const hirate_limit each[] = {
        HIRATE_TOKEN_BUCKET("login", 5, HIRATE_PER_SECOND(1)), HIRATE_LEAKY_BUCKET("login", 5, HIRATE_PER_SECOND(1)),
        HIRATE_FIXED_WINDOW("login", 5, HIRATE_SECONDS(1)),    HIRATE_QUOTA("login", 5, HIRATE_PER_DAY, 0),
        HIRATE_QUOTA("login", 5, HIRATE_PER_DAY, 60),          HIRATE_QUOTA("login", 5, HIRATE_PER_HOUR, 0),
        HIRATE_SLIDING_LOG("login", 5, HIRATE_SECONDS(1)),     HIRATE_SLIDING_WINDOW("login", 5, HIRATE_SECONDS(1)),
        HIRATE_SLIDING_WINDOW("login", 5, HIRATE_SECONDS(2)),
    };
    enum { COUNT = sizeof each / sizeof each[0] };
    hr_limits *limits = limits_new();
    hr_limit *limit[COUNT];

    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        limit[i] = use(limits, &each[i]);
        assert_int_equal(limit[i]->policy.kind, each[i].kind);
        assert_int_equal(limit[i]->name_hash, limit[0]->name_hash);
        for (size_t j = 0; j < i; j++)
            assert_ptr_not_equal(limit[j], limit[i]);
    }
    for (size_t i = 0; i < COUNT; i++)
        assert_ptr_equal(use(limits, &each[i]), limit[i]);
    limits_free(limits);
}

static void test_field_of_a_later_version_at_the_same_address_is_refused(void **state)
{
    struct {
        hirate_limit limit;
        uint64_t later;
    } newer;
    hr_limits *limits = limits_new();

    (void)state;
    memset(&newer, 0, sizeof newer);
    newer.limit = make("login", 5, 3, 1000);
    newer.limit.struct_size = (uint32_t)sizeof newer;
    hr_limit *limit = use(limits, &newer.limit);
    newer.later = 1;
    assert_refused(limits, &newer.limit, "does not know");
    newer.later = 0;
    assert_ptr_equal(use(limits, &newer.limit), limit);
    limits_free(limits);
}

static void test_idle_limits_are_bounded(void **state)
{
    hr_limits *limits = limits_new();
    hirate_limit from = make("login", 0, 3, 1000);

    (void)state;
    for (uint64_t i = 0; i < 3 * HR_LIMITS_IDLE; i++) {
        from.capacity = i;
        hr_limit *limit = use(limits, &from);
        assert_int_equal(limit->uses, 1);
        hr_limits_done(limits, limit);
        assert_true(limits->idle <= HR_LIMITS_IDLE);
        assert_int_equal(limits->table.count, limits->idle);
    }
    assert_int_equal(limits->idle, HR_LIMITS_IDLE);
    /* Those that are used do not count. */
    hr_limit *live[HR_LIMITS_IDLE + 10];
    for (uint64_t i = 0; i < HR_LIMITS_IDLE + 10; i++) {
        from.capacity = i;
        live[i] = use(limits, &from);
    }
    assert_int_equal(limits->table.count, limits->idle + HR_LIMITS_IDLE + 10);
    for (uint64_t i = 0; i < HR_LIMITS_IDLE + 10; i++)
        hr_limits_done(limits, live[i]);
    assert_int_equal(limits->table.count, HR_LIMITS_IDLE);
    limits_free(limits);
}

static void test_dropped_limit_is_not_found_by_its_address(void **state)
{
    hr_limits *limits = limits_new();
    hirate_limit filler = make("filler", 0, 3, 1000), from = make("login", 5, 3, 1000);

    (void)state;
    for (; filler.capacity < HR_LIMITS_IDLE; filler.capacity++)
        hr_limits_done(limits, use(limits, &filler));
    for (int i = 0; i < 3; i++) { /* one too many: dropped at once, and must not be read again */
        hr_limit *limit = use(limits, &from);
        assert_int_equal(limit->uses, 1);
        hr_limits_done(limits, limit);
        assert_int_equal(limits->table.count, HR_LIMITS_IDLE);
    }
    limits_free(limits);
}

static void test_random_uses_match_a_model(void **state)
{
    enum { VALUES = 700, ADDRESSES = 5 };
    rng r = rng_start("test_random_uses_match_a_model");
    hr_limits *limits = limits_new();
    static struct {
        hr_limit *limit;
        uint32_t uses;
    } model[VALUES];
    hirate_limit at[ADDRESSES];

    (void)state;
    memset(model, 0, sizeof model);
    for (int step = 0; step < 30000; step++) {
        size_t v = (size_t)rng_upto(&r, VALUES - 1), a = (size_t)rng_upto(&r, ADDRESSES - 1);

        if (model[v].uses && rng_upto(&r, 1)) {
            model[v].uses--;
            hr_limits_done(limits, model[v].limit);
            continue;
        }
        at[a] = make(v % 2 ? "odd" : "even", v, 1 + v % 3, 1000);
        hr_limit *limit = use(limits, &at[a]);
        assert_true(model[v].uses == 0 || model[v].limit == limit);
        model[v].limit = limit;
        assert_int_equal(limit->uses, ++model[v].uses);
        assert_true(limit->policy.capacity == v);
        assert_string_equal(limit->policy.name, at[a].policy);
    }
    size_t live = 0;
    for (size_t v = 0; v < VALUES; v++)
        live += model[v].uses != 0;
    assert_int_equal(limits->table.count, live + limits->idle);
    limits_free(limits);
}

static void test_each_allocation_failing_is_no_memory_and_later_works(void **state)
{
    hr_limits limits;
    hirate_limit from = make("login", 5, 3, 1000);
    hr_limit *limit = NULL;

    (void)state;
    nomem_after(0);
    assert_int_equal(hr_limits_init(&limits, "hirate"), HIRATE_ENOMEM);
    assert_true(nomem_end());
    hr_limits_free(&limits);
    assert_int_equal(hr_limits_init(&limits, "hirate"), 0);
    nomem_after(0);
    assert_int_equal(hr_limits_use(&limits, &from, &limit, NULL), HIRATE_ENOMEM);
    assert_true(nomem_end());
    assert_null(limit);
    assert_int_equal(limits.table.count, 0);
    assert_int_equal(limits.idle, 0);
    limit = use(&limits, &from);
    nomem_after(0); /* a known one needs none where it was last seen */
    assert_ptr_equal(use(&limits, &from), limit);
    assert_false(nomem_end());
    hr_limits_free(&limits);
}

/* Wherever it stands, as those of permits do, which are read anew each time. */
static void test_known_limit_needs_no_memory(void **state)
{
    hr_limits *limits = limits_new();
    hirate_limit one = make("login", 5, 3, 1000), other;
    hr_limit *under[2] = {NULL, NULL}, *limit;

    (void)state;
    one.on_failure = HIRATE_ON_FAILURE_LOCAL;
    one.local_share_num = one.local_share_den = 1;
    other = one;
    limit = use(limits, &one);
    assert_ptr_equal(limit->value.policy, limit->policy.name);
    assert_ptr_equal(limit->share.policy, limit->policy.name);
    assert_int_equal(hr_limits_use_under(limits, "other", &one, &under[0], NULL), 0);
    nomem_after(0);
    assert_ptr_equal(use(limits, &other), limit);
    assert_int_equal(hr_limits_use_under(limits, "other", &other, &under[1], NULL), 0);
    assert_false(nomem_end());
    assert_ptr_equal(under[1], under[0]);
    limits_free(limits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limit_is_compiled_with_its_prefix),
        cmocka_unit_test(test_longest_prefix_and_policy_fit),
        cmocka_unit_test(test_equal_values_share_whatever_their_address),
        cmocka_unit_test(test_each_field_makes_another_limit_and_policies_share_a_hash),
        cmocka_unit_test(test_limits_under_other_prefixes_are_others),
        cmocka_unit_test(test_change_at_the_same_address_is_noticed),
        cmocka_unit_test(test_what_turned_wrong_at_the_same_address_is_refused),
        cmocka_unit_test(test_every_kind_is_compiled_and_kept_apart),
        cmocka_unit_test(test_field_of_a_later_version_at_the_same_address_is_refused),
        cmocka_unit_test(test_idle_limits_are_bounded),
        cmocka_unit_test(test_dropped_limit_is_not_found_by_its_address),
        cmocka_unit_test(test_random_uses_match_a_model),
        cmocka_unit_test(test_each_allocation_failing_is_no_memory_and_later_works),
        cmocka_unit_test(test_known_limit_needs_no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
