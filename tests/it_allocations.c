/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The library allocates nothing for each acquire or call once it has what it needs. Every allocation of the process passes
 * through here; it is counted by the library whose code asked for it. hiredis' own, a few for each call, are counted apart.
 *
 * Replaces the allocator's functions, so it is not built with AddressSanitizer, which does the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/server.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IN_FLIGHT 2000
#define NAMES     500
#define ACQUIRES  (driver_slow() ? 20000u : 400000u)

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

#define SEEN __attribute__((visibility("default"))) /* so that the libraries call these */

static bool counting;
static uint64_t by_us, by_hiredis, by_others;
static uint64_t bytes_by_us; /* asked for; what a realloc gives back is not taken off */

static void count(const void *caller, size_t size)
{
    Dl_info info;
    if (!counting)
        return;
    counting = false; /* dladdr may allocate */
    if (dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "libhirate")) {
        by_us++;
        bytes_by_us += size;
    } else if (info.dli_fname && strstr(info.dli_fname, "libhiredis")) {
        by_hiredis++;
    } else {
        by_others++;
    }
    counting = true;
}

SEEN void *malloc(size_t size)
{
    count(__builtin_return_address(0), size);
    return __libc_malloc(size);
}

SEEN void *calloc(size_t n, size_t size)
{
    count(__builtin_return_address(0), n * size);
    return __libc_calloc(n, size);
}

SEEN void *realloc(void *old, size_t size)
{
    count(__builtin_return_address(0), size);
    return __libc_realloc(old, size);
}

static const hirate_limit LIMIT =
    HIRATE_TOKEN_BUCKET_WITH("allocations", 3, HIRATE_PER_SECOND(1), HIRATE_LIMIT_CACHE_DENIALS, HIRATE_FAIL_CLOSED);
static const hirate_limit ASKED = HIRATE_TOKEN_BUCKET("asked", 1000000, HIRATE_PER_SECOND(1));

static const hirate_limit SLOTS = HIRATE_CONCURRENCY("slots", 1000000, HIRATE_HOURS(1));

static server *redis;

static int start(void **state)
{
    (void)state;
    redis = server_start(NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    server_stop(redis);
    return 0;
}

/* Acquires over NAMES names, as many in flight, until `left` have been answered; from callbacks, as a host would. */
typedef struct load {
    const hirate_limit *limit;
    uint32_t submitted, answered, errors, most;
} load;

static void on_answer(hirate *h, const hirate_result *result, void *user);

static void submit(hirate *h, load *l)
{
    char name[HIRATE_NAME_INT_SIZE];
    size_t len = hirate_name_u64(name, l->submitted++ % NAMES);
    l->errors += hirate_acquire(h, l->limit, name, len, 1, on_answer, l) != 0;
}

static void on_answer(hirate *h, const hirate_result *result, void *user)
{
    load *l = user;
    l->answered++;
    l->errors += result->error != 0;
    if (l->submitted < l->most)
        submit(h, l);
}

/* Over two limits, one of which leases; what was leased is released, which is a request too. */
static void submit_held(hirate *h, load *l);

static void on_held(hirate *h, const hirate_result *result, void *user)
{
    load *l = user;
    l->answered++;
    l->errors += result->error != 0;
    if (result->permit[0]) {
        l->submitted++;
        l->errors += hirate_release(h, result->permit, on_held, l) != 0;
    } else if (l->submitted < l->most) {
        submit_held(h, l);
    }
}

static void submit_held(hirate *h, load *l)
{
    char name[HIRATE_NAME_INT_SIZE];
    hirate_request request;
    hirate_request_init(&request);
    request.limit = l->limit;
    request.name = name;
    request.name_len = hirate_name_u64(name, l->submitted++ % NAMES);
    const hirate_pair more = {&SLOTS, name, request.name_len};
    request.more = &more;
    request.more_count = 1;
    request.cb = on_held;
    request.user = l;
    l->errors += hirate_submit(h, &request, NULL) != 0;
}

static void run(driver *d, const hirate_limit *limit, uint32_t acquires, uint32_t in_flight)
{
    load l = {.limit = limit, .most = acquires};
    int64_t end = driver_now_ms() + DRIVER_PATIENCE_MS;
    while (l.submitted < in_flight && l.submitted < acquires)
        submit(d->h, &l);
    while (l.answered < acquires && driver_now_ms() < end)
        driver_turn(d, 100);
    assert_int_equal(l.answered, acquires);
    assert_int_equal(l.errors, 0);
}

static uint64_t calls_of(const driver *d)
{
    hirate_stats stats;
    hirate_stats_init(&stats);
    hirate_get_stats(d->h, &stats);
    return stats.calls;
}

static void open_client(driver *d)
{
    hirate_options options;
    hirate_options_init(&options);
    options.uri = server_uri(redis);
    options.deadline_ms = DRIVER_PATIENCE_MS;
    driver_open_with(d, &options, NULL);
}

static void measure(const hirate_limit *limit, uint32_t in_flight, uint32_t acquires, const char *what)
{
    driver d;
    open_client(&d);
    run(&d, limit, acquires, in_flight);
    uint64_t calls = calls_of(&d);
    by_us = by_hiredis = by_others = 0;
    counting = true;
    run(&d, limit, acquires, in_flight);
    counting = false;
    calls = calls_of(&d) - calls;
    print_message("%s: %u acquires in %u calls: allocations %u of ours, %u of hiredis', %u of others\n", what, acquires,
                  (unsigned)calls, (unsigned)by_us, (unsigned)by_hiredis, (unsigned)by_others);
    assert_int_equal(by_us, 0);
    if (calls)
        assert_true(by_hiredis > 0); /* what is counted is seen */
    driver_close(&d);
}

static void test_allocations_many_in_flight_none_of_ours(void **state)
{
    (void)state;
    measure(&ASKED, IN_FLIGHT, ACQUIRES, "many in flight");
}

static void test_allocations_one_in_flight_none_of_ours(void **state)
{
    (void)state;
    measure(&ASKED, 1, ACQUIRES / 50, "one in flight");
}

static void test_allocations_denied_from_memory_none_of_ours(void **state)
{
    (void)state;
    measure(&LIMIT, IN_FLIGHT, ACQUIRES, "denied, many from memory");
}

static void run_held(driver *d, uint32_t requests, uint32_t in_flight)
{
    load l = {.limit = &ASKED, .most = requests};
    int64_t end = driver_now_ms() + DRIVER_PATIENCE_MS;
    while (l.submitted < in_flight && l.submitted < requests)
        submit_held(d->h, &l);
    while (l.answered < l.submitted && driver_now_ms() < end)
        driver_turn(d, 100);
    assert_int_equal(l.answered, l.submitted);
    assert_true(l.answered >= requests);
    assert_int_equal(l.errors, 0);
}

static void test_allocations_of_leases_and_releases_none_of_ours(void **state)
{
    (void)state;
    driver d;
    open_client(&d);
    run_held(&d, ACQUIRES / 20, IN_FLIGHT);
    by_us = by_hiredis = by_others = 0;
    counting = true;
    run_held(&d, ACQUIRES / 20, IN_FLIGHT);
    counting = false;
    print_message("leases and releases: %u requests: allocations %u of ours, %u of hiredis', %u of others\n",
                  ACQUIRES / 20, (unsigned)by_us, (unsigned)by_hiredis, (unsigned)by_others);
    assert_int_equal(by_us, 0);
    assert_true(by_hiredis > 0);
    driver_close(&d);
}

/* What docs say a pending request takes with names of 24 bytes: 256 bytes, and 128 for its key. Tables double, so count
 * them twice; what does not grow with the requests fits in half a megabyte. */
static void test_memory_of_pending_requests_stays_under_the_bound(void **state)
{
    (void)state;
    enum { PENDING = 65536 };
    driver d;
    answer warm;
    load l = {.limit = &ASKED};
    open_client(&d);
    driver_ask(&d, &warm, &ASKED, "warm", 0);
    server_pause(redis);
    bytes_by_us = 0;
    counting = true;
    for (uint32_t i = 0; i < PENDING; i++) {
        char name[25];
        int len = snprintf(name, sizeof name, "%024u", i);
        assert_int_equal(hirate_acquire(d.h, &ASKED, name, (size_t)len, 1, on_answer, &l), 0);
    }
    assert_int_equal(hirate_acquire(d.h, &ASKED, "n", 1, 1, on_answer, &l), HIRATE_EOVERLOAD);
    counting = false;
    print_message("%d pending: %u bytes each\n", PENDING, (unsigned)(bytes_by_us / PENDING));
    assert_true(bytes_by_us <= PENDING * (256 + 128 + 4 * sizeof(void *)) + 524288);
    server_resume(redis);
    int64_t end = driver_now_ms() + DRIVER_PATIENCE_MS;
    while (l.answered < PENDING && driver_now_ms() < end)
        driver_turn(&d, 100);
    assert_int_equal(l.answered, PENDING);
    driver_close(&d);
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations_many_in_flight_none_of_ours),
        cmocka_unit_test(test_allocations_one_in_flight_none_of_ours),
        cmocka_unit_test(test_allocations_denied_from_memory_none_of_ours),
        cmocka_unit_test(test_allocations_of_leases_and_releases_none_of_ours),
        cmocka_unit_test(test_memory_of_pending_requests_stays_under_the_bound),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
