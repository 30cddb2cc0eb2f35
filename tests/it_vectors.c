/* SPDX-License-Identifier: BSD-3-Clause */
/* The worked answers in tests/vectors, asked of a real server whose clock is set to each row's time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/server.h"
#include "support/vectors.h"

#include <string.h>

static server *redis;

static int start(void **state)
{
    (void)state;
    redis = server_start(&(server_options){.fake_clock = true});
    return 0;
}

static int stop(void **state)
{
    (void)state;
    server_stop(redis);
    return 0;
}

static void compare(const char *path, const vectors *v, const vector_row *row, const answer *a)
{
    const hirate_result *got = &a->result;
    if (got->error || got->verdict != row->verdict || got->remaining != row->remaining ||
        got->retry_after_ms != row->retry_after_ms || got->reset_ms != row->reset_ms)
        print_error("%s, line %zu: %s\n", path, row->line, a->reason);
    assert_int_equal(got->error, HIRATE_OK);
    assert_int_equal(got->verdict, row->verdict);
    assert_int_equal(got->remaining, row->remaining);
    assert_true(got->retry_after_ms == row->retry_after_ms);
    assert_int_equal(got->reset_ms, row->reset_ms);
    assert_int_equal(got->delay_ms, row->delay_ms);
    assert_int_equal(got->time_us, row->time_us);
    assert_int_equal(got->cost, row->cost);
    assert_int_equal(got->source, HIRATE_SOURCE_REDIS);
    assert_int_equal(got->charge, row->verdict == HIRATE_ALLOWED && row->cost ? HIRATE_CHARGE_YES : HIRATE_CHARGE_NO);
    assert_string_equal(a->policy, v->policy);
}

/* The key lives until its bucket is full again: reset_ms, to the millisecond, and not at all when that is 0. */
static void compare_expiry(const char *path, const vectors *v, const vector_row *row)
{
    int64_t ttl = server_ask_int(redis, "PTTL hirate:%s:%s", v->policy, row->name);
    if (!server_expiry_fits(redis, ttl, row->reset_ms))
        print_error("%s, line %zu: expiry\n", path, row->line);
    assert_true(server_expiry_fits(redis, ttl, row->reset_ms));
}

/* A peek before each acquire tells the verdict and moves nothing. */
static void compare_peek(const char *path, const vector_row *row, const answer *a)
{
    const hirate_result *got = &a->result;
    if (got->error || got->verdict != row->verdict || got->retry_after_ms != row->retry_after_ms)
        print_error("%s, line %zu: peek: %s\n", path, row->line, a->reason);
    assert_int_equal(got->error, HIRATE_OK);
    assert_int_equal(got->op, HIRATE_OP_PEEK);
    assert_int_equal(got->verdict, row->verdict);
    assert_true(got->retry_after_ms == row->retry_after_ms);
    assert_int_equal(got->charge, HIRATE_CHARGE_NO);
    assert_int_equal(got->time_us, row->time_us);
}

static void run_file(const char *path, bool peek)
{
    vectors v;
    driver d;
    assert_int_equal(vectors_read(&v, path), 0);
    assert_true(v.count > 0);
    server_ask(redis, "FLUSHALL");
    driver_open(&d, server_uri(redis));
    for (size_t i = 0; i < v.count; i++) {
        const vector_row *row = &v.rows[i];
        answer a = {0}, before = {0};
        server_set_clock(redis, row->time_us);
        size_t called = d.called;
        if (peek)
            assert_int_equal(driver_peek(&d, &before, &v.limit, row->name, row->cost), 0);
        assert_int_equal(driver_acquire(&d, &a, &v.limit, row->name, row->cost), 0);
        assert_true(driver_wait(&d, called + 1 + peek));
        if (peek)
            compare_peek(path, row, &before);
        compare(path, &v, row, &a);
        compare_expiry(path, &v, row);
    }
    driver_close(&d);
    vectors_free(&v);
}

static void run_all(bool peek)
{
    char **paths = vectors_list("*.tsv");
    assert_non_null(paths);
    for (char **path = paths; *path; path++)
        run_file(*path, peek);
    vectors_list_free(paths);
}

static void test_vectors_acquired_one_by_one_answers_equal(void **state)
{
    (void)state;
    run_all(false);
}

static void test_vectors_peeked_before_answers_equal(void **state)
{
    (void)state;
    run_all(true);
}

/* Rows of one moment, submitted in one turn, are decided together and answered as if they had come one by one. */
static void test_vectors_rows_of_one_moment_together_answers_equal(void **state)
{
    (void)state;
    char **paths = vectors_list("*.tsv");
    assert_non_null(paths);
    static answer answers[64];
    for (char **path = paths; *path; path++) {
        vectors v;
        driver d;
        assert_int_equal(vectors_read(&v, *path), 0);
        server_ask(redis, "FLUSHALL");
        driver_open(&d, server_uri(redis));
        for (size_t i = 0, n; i < v.count; i += n) {
            size_t called = d.called;
            memset(answers, 0, sizeof answers);
            server_set_clock(redis, v.rows[i].time_us);
            for (n = 0; i + n < v.count && n < 64 && v.rows[i + n].time_us == v.rows[i].time_us; n++)
                assert_int_equal(driver_acquire(&d, &answers[n], &v.limit, v.rows[i + n].name, v.rows[i + n].cost), 0);
            assert_true(driver_wait(&d, called + n));
            for (size_t k = 0; k < n; k++)
                compare(*path, &v, &v.rows[i + k], &answers[k]);
            compare_expiry(*path, &v, &v.rows[i + n - 1]);
        }
        driver_close(&d);
        vectors_free(&v);
    }
    vectors_list_free(paths);
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors_acquired_one_by_one_answers_equal),
        cmocka_unit_test(test_vectors_peeked_before_answers_equal),
        cmocka_unit_test(test_vectors_rows_of_one_moment_together_answers_equal),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
