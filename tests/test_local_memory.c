/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every allocation of the local engine, its hash table, its logs and its leases, failed in turn, and what leases take.
 * The sources are compiled in here with their allocations counted, so this test must not be linked with their objects.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int allocations_left = INT_MAX; /* 0: the next one fails, and all after it */

static bool may_allocate(void)
{
    return allocations_left > 0 && allocations_left-- > 0;
}

static void *counted_malloc(size_t size)
{
    return may_allocate() ? malloc(size) : NULL;
}

static void *counted_calloc(size_t count, size_t size)
{
    return may_allocate() ? calloc(count, size) : NULL;
}

static void *counted_realloc(void *old, size_t size)
{
    return may_allocate() ? realloc(old, size) : NULL;
}

#define malloc counted_malloc
#define calloc counted_calloc
#define realloc counted_realloc
#include "../src/hash.c"
#include "../src/hold_list.c"
#include "../src/local.c"
#include "../src/local_permit.c"
#include "../src/local_table.c"
#include "../src/log_buffer.c"
#undef malloc
#undef calloc
#undef realloc

static const hirate_limit one = HIRATE_TOKEN_BUCKET("one", 1, HIRATE_PER_SECOND(1));

static int acquire_at(hirate_local *local, const hirate_limit *limit, int number, int64_t now_us, hirate_result *result,
                      hirate_error *error)
{
    char name[16];
    hirate_request request;

    memset(&request, 0, sizeof request);
    request.struct_size = (uint32_t)sizeof request;
    request.version = HIRATE_REQUEST_VERSION;
    request.op = HIRATE_OP_ACQUIRE;
    request.limit = limit;
    request.name = name;
    request.name_len = (size_t)snprintf(name, sizeof name, "n%d", number);
    request.cost = 1;
    memset(result, 0, sizeof *result);
    result->struct_size = (uint32_t)sizeof *result;
    return hirate_local_decide(local, &request, now_us, result, error);
}

static int acquire(hirate_local *local, int number, hirate_result *result, hirate_error *error)
{
    return acquire_at(local, &one, number, 1000000, result, error);
}

static void test_local_new_without_memory_fails_and_sets_nothing(void **state)
{
    hirate_local *local = NULL;
    int needed = 0;

    (void)state;
    for (int rc = HIRATE_ENOMEM; rc != 0; needed++) {
        allocations_left = needed;
        rc = hirate_local_new(&local, 10);
        assert_int_equal(rc == 0, local != NULL);
        assert_true(rc == 0 || rc == HIRATE_ENOMEM);
    }
    allocations_left = INT_MAX;
    assert_int_equal(needed, 3); /* failed twice, then had its two */
    hirate_local_free(local);
}

static void test_local_acquire_without_memory_takes_nothing(void **state)
{
    enum { NAMES = 200 }; /* the heap and the table grow several times on the way */
    hirate_local *local = NULL;
    hirate_result result;
    hirate_error error;
    int failures = 0;

    (void)state;
    assert_int_equal(hirate_local_new(&local, NAMES), 0);
    for (int i = 0; i < NAMES; i++) {
        /* Fail later and later until it works: each acquire must then find its whole token. */
        for (int left = 0;; left++) {
            allocations_left = left;
            int rc = acquire(local, i, &result, &error);
            if (rc == 0)
                break;
            assert_int_equal(rc, HIRATE_ENOMEM);
            assert_int_equal(error.code, HIRATE_ENOMEM);
            assert_int_equal(result.verdict, HIRATE_VERDICT_NONE);
            failures++;
        }
        assert_int_equal(result.verdict, HIRATE_ALLOWED);
    }
    allocations_left = INT_MAX;
    assert_true(failures > NAMES); /* the heap's too */
    for (int i = 0; i < NAMES; i++) {
        assert_int_equal(acquire(local, i, &result, NULL), 0);
        assert_int_equal(result.verdict, HIRATE_DENIED);
    }
    hirate_local_free(local);
}

/* A log's first entries and each growth; also of a name that was not there, which must not stay behind without a log.
 */
static void test_local_log_without_memory_takes_nothing(void **state)
{
    enum { MAX = 100 };
    static const hirate_limit log = HIRATE_SLIDING_LOG("log", MAX, HIRATE_SECONDS(1));
    hirate_local *local = NULL;
    hirate_result result;
    hirate_error error;
    int failures = 0;

    (void)state;
    assert_int_equal(hirate_local_new(&local, 2), 0);
    for (int i = 0; i < MAX; i++) {
        for (int left = 0;; left++) {
            allocations_left = left;
            int rc = acquire_at(local, &log, 0, 1000000 + i, &result, &error);
            if (rc == 0)
                break;
            assert_int_equal(rc, HIRATE_ENOMEM);
            assert_int_equal(error.code, HIRATE_ENOMEM);
            assert_true(i > 0 || local->table.entries.count == 0);
            failures++;
        }
        assert_int_equal(result.verdict, HIRATE_ALLOWED);
        assert_true(result.remaining == (uint64_t)(MAX - 1 - i));
    }
    allocations_left = INT_MAX;
    assert_true(failures >= 8); /* an entry, the heap, its log and six times more */
    assert_int_equal(acquire_at(local, &log, 0, 1000000 + MAX, &result, &error), 0);
    assert_int_equal(result.verdict, HIRATE_DENIED);
    hirate_local_free(local);
}

/* Its first lease, each growth, and the room for its permit. */
static void test_local_lease_without_memory_takes_nothing(void **state)
{
    enum { MAX = 100 };
    static const hirate_limit leases = HIRATE_CONCURRENCY("leases", MAX, HIRATE_SECONDS(1));
    hirate_local *local = NULL;
    hirate_result result;
    hirate_error error;
    int failures = 0;

    (void)state;
    assert_int_equal(hirate_local_new(&local, 2), 0);
    for (int i = 0; i < MAX; i++) {
        for (int left = 0;; left++) {
            allocations_left = left;
            int rc = acquire_at(local, &leases, 0, 1000000 + i, &result, &error);
            if (rc == 0)
                break;
            assert_int_equal(rc, HIRATE_ENOMEM);
            assert_int_equal(error.code, HIRATE_ENOMEM);
            assert_true(i > 0 || local->table.entries.count == 0);
            failures++;
        }
        assert_int_equal(result.verdict, HIRATE_ALLOWED);
        assert_true(result.remaining == (uint64_t)(MAX - 1 - i));
        assert_true(result.permit[0] != '\0');
    }
    allocations_left = INT_MAX;
    assert_true(failures >= 9); /* the permit's room, an entry, the heap, its list and six times more */
    hirate_local_free(local);
}

/* Of several names each allocation in turn: until all succeed none is taken from, and no name stays behind. */
static void test_local_several_without_memory_takes_from_none(void **state)
{
    static const hirate_limit limits[] = {
        HIRATE_TOKEN_BUCKET("bucket", 100, HIRATE_PER_SECOND(1)), HIRATE_SLIDING_LOG("log", 100, HIRATE_SECONDS(1)),
        HIRATE_CONCURRENCY("leases", 100, HIRATE_SECONDS(1)),     HIRATE_QUOTA("quota", 100, HIRATE_PER_HOUR, 0),
        HIRATE_FIXED_WINDOW("window", 100, HIRATE_SECONDS(1)),
    };
    enum { LIMITS = sizeof limits / sizeof limits[0], TIMES = 40 };
    hirate_pair more[LIMITS - 1];
    hirate_local *local = NULL;
    hirate_request request = {.struct_size = sizeof request,
                              .version = HIRATE_REQUEST_VERSION,
                              .op = HIRATE_OP_ACQUIRE,
                              .limit = &limits[0],
                              .cost = 1,
                              .more = more,
                              .more_count = LIMITS - 1,
                              .hold_us = 1000000};
    hirate_error error;
    int failures = 0;

    (void)state;
    for (size_t i = 1; i < LIMITS; i++)
        more[i - 1] = (hirate_pair){&limits[i], NULL, 0};
    assert_int_equal(hirate_local_new(&local, LIMITS), 0);
    for (uint64_t taken = 1; taken <= TIMES; taken++) {
        hirate_result result = {.struct_size = sizeof result};

        for (int left = 0;; left++) {
            allocations_left = left;
            int rc = hirate_local_decide(local, &request, 1000000 + (int64_t)taken, &result, &error);
            if (rc == 0)
                break;
            assert_int_equal(rc, HIRATE_ENOMEM);
            assert_int_equal(local->table.entries.count, taken > 1 ? LIMITS : 0);
            failures++;
        }
        for (uint32_t i = 0; i < LIMITS; i++)
            assert_true(result.limits[i].remaining == 100 - taken);
    }
    allocations_left = INT_MAX;
    assert_true(failures > LIMITS + 10);
    hirate_local_free(local);
}

/* A commit that is late may need a name that is gone. */
static void test_local_late_commit_without_memory_charges_nothing(void **state)
{
    static const hirate_limit quota = HIRATE_QUOTA("quota", 100, HIRATE_PER_HOUR, 0);
    char permit[HIRATE_PERMIT_SIZE];
    hirate_local *local = NULL;
    hirate_request request = {.struct_size = sizeof request,
                              .version = HIRATE_REQUEST_VERSION,
                              .op = HIRATE_OP_ACQUIRE,
                              .limit = &quota,
                              .cost = 1,
                              .hold_us = 1};
    hirate_result result = {.struct_size = sizeof result};
    hirate_error error;
    int failures = 0;

    (void)state;
    assert_int_equal(hirate_local_new(&local, 1), 0);
    assert_int_equal(hirate_local_decide(local, &request, 0, &result, &error), 0);
    (void)snprintf(permit, sizeof permit, "%s", result.permit);
    request.op = HIRATE_OP_COMMIT;
    request.hold_us = 0;
    request.permit = permit;
    for (int left = 0;; left++) {
        allocations_left = left;
        int rc = hirate_local_decide(local, &request, 1000000, &result, &error);
        if (rc == 0)
            break;
        assert_int_equal(rc, HIRATE_ENOMEM);
        assert_int_equal(local->table.entries.count, 0);
        failures++;
    }
    allocations_left = INT_MAX;
    assert_int_equal(failures, 1);
    assert_true(result.late == 1 && result.remaining == 99);
    hirate_local_free(local);
}

/* As hirate.h says: 32 bytes for each lease, with room to grow at most 80, and 64; never more than 320 KiB. */
static void test_local_leases_take_what_is_documented(void **state)
{
    static const hirate_limit leases = HIRATE_CONCURRENCY("leases", HIRATE_HOLDS_MAX, HIRATE_MILLISECONDS(20));
    hirate_local *local = NULL;
    hirate_result result;
    size_t most = 0;

    (void)state;
    assert_int_equal(sizeof(hr_hold), 32);
    assert_int_equal(hirate_local_new(&local, 1), 0);
    for (int64_t i = 0; i < 50000; i++) {
        /* More and more at once, up to what there may be: they come closer and closer. */
        int64_t now_us = i < 10000 ? 20 * i : 200000 + (i - 10000) * 2;
        assert_int_equal(acquire_at(local, &leases, 0, now_us, &result, NULL), 0);
        const hr_hold_list *list = &local->table.heap[0]->as.window.holds;

        most = list->count > most ? list->count : most;
        assert_true(list->room * sizeof(hr_hold) <= 80 * most + 64);
        assert_true(list->room * sizeof(hr_hold) <= (size_t)320 << 10);
    }
    assert_int_equal(most, HIRATE_HOLDS_MAX);
    hirate_local_free(local);
}

static void test_table_without_memory_to_grow_works_on(void **state)
{
    enum { MEMBERS = 100 };
    static hr_hash_node members[MEMBERS];
    hr_hash_table table;

    (void)state;
    assert_int_equal(hr_hash_init(&table, 0), 0);
    size_t mask = table.mask;
    allocations_left = 0;
    for (size_t i = 0; i < MEMBERS; i++)
        hr_hash_insert(&table, &members[i], i);
    allocations_left = INT_MAX;
    assert_int_equal(table.mask, mask);
    assert_int_equal(table.count, MEMBERS);
    for (size_t i = 0; i < MEMBERS; i++)
        hr_hash_remove(&table, &members[i]);
    assert_int_equal(table.count, 0);
    hr_hash_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_local_new_without_memory_fails_and_sets_nothing),
        cmocka_unit_test(test_local_acquire_without_memory_takes_nothing),
        cmocka_unit_test(test_local_log_without_memory_takes_nothing),
        cmocka_unit_test(test_local_lease_without_memory_takes_nothing),
        cmocka_unit_test(test_local_several_without_memory_takes_from_none),
        cmocka_unit_test(test_local_late_commit_without_memory_charges_nothing),
        cmocka_unit_test(test_local_leases_take_what_is_documented),
        cmocka_unit_test(test_table_without_memory_to_grow_works_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
