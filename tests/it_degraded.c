/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Servers that answer, but with an error: out of memory, read-only, loading, busy, moved … What is told, whether
 * anything was charged, and that the client serves again once the server does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/fakeserver.h"
#include "support/server.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const hirate_limit LIMIT = HIRATE_TOKEN_BUCKET("degraded", 1000, HIRATE_RATE(1, HIRATE_DAYS(1)));

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

static int clear(void **state)
{
    (void)state;
    /* Also what a test that failed has left. */
    server_ask(redis, "CONFIG SET maxclients 1000");
    server_ask(redis, "CONFIG SET maxmemory 0");
    server_ask(redis, "CONFIG SET min-replicas-to-write 0");
    server_ask(redis, "REPLICAOF NO ONE");
    server_ask(redis, "FLUSHALL");
    return 0;
}

static void open_with_deadline(driver *d, const char *uri, int64_t deadline_ms)
{
    hirate_options options;
    hirate_options_init(&options);
    options.uri = uri;
    options.deadline_ms = deadline_ms;
    driver_open_with(d, &options, NULL);
}

static hirate_stats stats_of(const driver *d)
{
    hirate_stats stats;
    hirate_stats_init(&stats);
    hirate_get_stats(d->h, &stats);
    return stats;
}

static void expect_not_charged(const answer *a, const char *reason)
{
    assert_int_equal(a->calls, 1);
    assert_int_equal(a->result.error, HIRATE_EREDIS);
    assert_int_equal(a->result.verdict, HIRATE_VERDICT_NONE);
    assert_int_equal(a->result.charge, HIRATE_CHARGE_NO);
    if (strncmp(a->reason, reason, strlen(reason)) != 0)
        print_error("'%s' does not begin with '%s'\n", a->reason, reason);
    assert_int_equal(strncmp(a->reason, reason, strlen(reason)), 0);
}

static void expect_recovery(driver *d, uint64_t remaining)
{
    answer a;
    int64_t end = driver_now_ms() + DRIVER_PATIENCE_MS;
    do
        driver_ask(d, &a, &LIMIT, "n", 1);
    while (a.result.error && driver_now_ms() < end);
    assert_int_equal(a.result.error, HIRATE_OK);
    assert_int_equal(a.result.remaining, remaining);
}

/* ---------------------------------------------------------------------------------------------- a real server -- */

static void test_degraded_out_of_memory_is_told_and_the_link_kept(void **state)
{
    (void)state;
    driver d;
    answer a;
    open_with_deadline(&d, server_uri(redis), 2000);
    driver_ask(&d, &a, &LIMIT, "n", 1);
    server_ask(redis, "CONFIG SET maxmemory-policy noeviction");
    server_ask(redis, "CONFIG SET maxmemory 1");
    for (int i = 0; i < 5; i++) {
        driver_ask(&d, &a, &LIMIT, "n", 1);
        expect_not_charged(&a, "OOM");
    }
    server_ask(redis, "CONFIG SET maxmemory 0");
    expect_recovery(&d, 998);
    assert_int_equal(stats_of(&d).connects, 1);
    driver_close(&d);
}

static void test_degraded_replica_is_refused_until_it_is_a_primary(void **state)
{
    (void)state;
    driver d;
    answer a;
    open_with_deadline(&d, server_uri(redis), 500);
    driver_ask(&d, &a, &LIMIT, "n", 1);
    assert_int_equal(a.result.error, HIRATE_OK);
    server_ask(redis, "REPLICAOF 127.0.0.1 1"); /* nobody there: it keeps its data */
    for (int i = 0; i < 3; i++) {
        driver_ask(&d, &a, &LIMIT, "n", 1);
        assert_true(a.result.error == HIRATE_EREDIS || a.result.error == HIRATE_ECONNECT);
        assert_int_equal(a.result.charge, HIRATE_CHARGE_NO);
        assert_true(strlen(a.reason) > 0);
    }
    server_ask(redis, "REPLICAOF NO ONE");
    expect_recovery(&d, 998);
    driver_close(&d);
}

static void test_degraded_replica_at_start_decides_nothing(void **state)
{
    (void)state;
    driver d;
    answer a = {0};
    server_ask(redis, "REPLICAOF 127.0.0.1 1");
    open_with_deadline(&d, server_uri(redis), 300);
    /* Not even a peek, which a replica could answer from what it has. */
    assert_int_equal(driver_peek(&d, &a, &LIMIT, "n", 1), 0);
    assert_true(driver_wait(&d, 1));
    assert_true(a.result.error == HIRATE_EREDIS || a.result.error == HIRATE_ECONNECT);
    server_ask(redis, "REPLICAOF NO ONE");
    expect_recovery(&d, 999);
    driver_close(&d);
}

static void test_degraded_too_few_replicas_is_told(void **state)
{
    (void)state;
    if (server_version(redis) < 700) /* lets scripts write all the same */
        return;
    driver d;
    answer a;
    open_with_deadline(&d, server_uri(redis), 2000);
    server_ask(redis, "CONFIG SET min-replicas-to-write 3");
    driver_ask(&d, &a, &LIMIT, "n", 1);
    expect_not_charged(&a, "NOREPLICAS");
    server_ask(redis, "CONFIG SET min-replicas-to-write 0");
    expect_recovery(&d, 999);
    driver_close(&d);
}

static void test_degraded_full_of_clients_recovers(void **state)
{
    (void)state;
    driver d;
    answer a = {0};
    server_ask(redis, "CONFIG SET maxclients 1"); /* that is the test's own connection */
    open_with_deadline(&d, server_uri(redis), 500);
    driver_ask(&d, &a, &LIMIT, "n", 1);
    assert_true(a.result.error < 0);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_NO);
    server_ask(redis, "CONFIG SET maxclients 1000");
    expect_recovery(&d, 999);
    driver_close(&d);
}

/* --------------------------------------------------------------------------------------------- a scripted server -- */

typedef struct refusal {
    const char *text; /* the reply, for script calls */
    int times;        /* of them, before relaying */
    bool everything;  /* the greeting too */
    int refused;      /* so far; the server's thread alone writes it, the test reads it after stopping */
} refusal;

static void refuse_first(fake_conn *conn, void *arg)
{
    refusal *r = arg;
    bytes reply = {0};
    while (fake_read(conn)) {
        bytes_clear(&reply);
        if ((fake_is_script(conn) || r->everything) && r->refused < r->times) {
            r->refused++;
            if (!fake_write_text(conn, r->text))
                break;
        } else if (!fake_relay(conn, &reply) || !fake_write(conn, reply.data, reply.len)) {
            break;
        }
    }
    bytes_free(&reply);
}

static fakeserver *refusing(refusal *r)
{
    return fakeserver_start(&(fakeserver_options){.upstream = server_path(redis), .script = refuse_first, .arg = r});
}

/* Refused for a while, before anything was charged: sent again within the deadline, and charged once. */
static void test_degraded_for_a_while_is_waited_for(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n",
        "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        static refusal r;
        static answer a[20];
        driver d;
        clear(NULL);
        memset(a, 0, sizeof a);
        r = (refusal){.text = texts[i], .times = 3};
        fakeserver *f = refusing(&r);
        open_with_deadline(&d, fakeserver_uri(f), DRIVER_PATIENCE_MS / 2);
        for (size_t k = 0; k < 20; k++)
            assert_int_equal(driver_acquire(&d, &a[k], &LIMIT, "n", 1), 0);
        assert_true(driver_wait(&d, 20));
        for (size_t k = 0; k < 20; k++)
            assert_int_equal(a[k].result.error, HIRATE_OK);
        expect_recovery(&d, 979);
        assert_int_equal(stats_of(&d).connects, 1);
        driver_close(&d);
        fakeserver_stop(f);
    }
}

static void test_degraded_past_the_deadline_is_not_charged(void **state)
{
    (void)state;
    static refusal r;
    driver d;
    answer a;
    r = (refusal){.text = "-BUSY Redis is busy running a script.\r\n", .times = 1 << 30};
    fakeserver *f = refusing(&r);
    open_with_deadline(&d, fakeserver_uri(f), 1500);
    driver_ask(&d, &a, &LIMIT, "n", 1);
    assert_true(a.result.error == HIRATE_EREDIS || a.result.error == HIRATE_EDEADLINE);
    assert_int_equal(a.result.verdict, HIRATE_VERDICT_NONE);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_NO);
    driver_close(&d);
    fakeserver_stop(f);
    assert_true(r.refused < 60); /* 50 ms and doubling: about five times */
}

/* A server that is loading says so to the greeting. No storm of connections meanwhile. */
static void test_degraded_loading_at_start_is_waited_for(void **state)
{
    (void)state;
    static refusal r;
    driver d;
    answer a;
    r = (refusal){.text = "-LOADING Redis is loading the dataset in memory\r\n", .times = 5, .everything = true};
    fakeserver *f = refusing(&r);
    open_with_deadline(&d, fakeserver_uri(f), DRIVER_PATIENCE_MS / 2);
    driver_ask(&d, &a, &LIMIT, "n", 1);
    assert_int_equal(a.result.error, HIRATE_OK);
    assert_int_equal(a.result.remaining, 999);
    assert_true(fakeserver_connections(f) <= 6);
    driver_close(&d);
    fakeserver_stop(f);
}

/* What a server without room says comes where the answer to the greeting belongs. It is none: no acquire may follow. */
static void test_degraded_no_room_is_not_taken_for_a_greeting(void **state)
{
    (void)state;
    static refusal r;
    driver d;
    answer a;
    r = (refusal){.text = "-ERR max number of clients reached\r\n", .times = 3, .everything = true};
    fakeserver *f = refusing(&r);
    open_with_deadline(&d, fakeserver_uri(f), DRIVER_PATIENCE_MS / 2);
    driver_ask(&d, &a, &LIMIT, "n", 1);
    assert_int_equal(a.result.error, HIRATE_OK);
    assert_int_equal(a.result.remaining, 999);
    assert_int_equal(fakeserver_connections(f), 4);
    driver_close(&d);
    fakeserver_stop(f);
}

static void test_degraded_refused_for_good_is_told_at_once(void **state)
{
    (void)state;
    static const struct {
        const char *reply, *reason;
        int error;
    } cases[] = {{"-MISCONF Redis is configured to save RDB snapshots\r\n", "MISCONF", HIRATE_EREDIS},
                 {"-MOVED 3999 127.0.0.1:6381\r\n", "MOVED", HIRATE_EREDIS},
                 {"-ASK 3999 127.0.0.1:6381\r\n", "ASK", HIRATE_EREDIS},
                 {"-CLUSTERDOWN Hash slot not served\r\n", "CLUSTERDOWN", HIRATE_EREDIS},
                 {"-CROSSSLOT Keys in request don't hash to the same slot\r\n", "CROSSSLOT", HIRATE_EREDIS},
                 {"-OOM command not allowed when used memory > 'maxmemory'.\r\n", "OOM", HIRATE_EREDIS},
                 {"-READONLY You can't write against a read only replica.\r\n", "READONLY", HIRATE_EREDIS},
                 {"-NOPERM this user has no permissions to run the 'evalsha' command\r\n", "NOPERM", HIRATE_EAUTH},
                 {"-ERR Error running script (call to f_0123): @user_script:1: -OOM command not allowed\r\n", "",
                  HIRATE_EREDIS}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static refusal r;
        driver d;
        answer a;
        clear(NULL);
        r = (refusal){.text = cases[i].reply, .times = 1};
        fakeserver *f = refusing(&r);
        open_with_deadline(&d, fakeserver_uri(f), DRIVER_PATIENCE_MS / 2);
        driver_ask(&d, &a, &LIMIT, "n", 1);
        assert_int_equal(a.result.error, cases[i].error);
        assert_int_equal(a.result.charge, HIRATE_CHARGE_NO);
        assert_int_equal(strncmp(a.reason, cases[i].reason, strlen(cases[i].reason)), 0);
        expect_recovery(&d, 999);
        driver_close(&d);
        fakeserver_stop(f);
    }
}

/* NOSCRIPT without end, from a server that forgets at once: no endless loop, no storm, nothing charged. */
static void test_degraded_noscript_for_ever_ends_at_the_deadline(void **state)
{
    (void)state;
    static refusal r;
    driver d;
    answer a;
    r = (refusal){.text = "-NOSCRIPT No matching script. Please use EVAL.\r\n", .times = 1 << 30};
    fakeserver *f = refusing(&r);
    open_with_deadline(&d, fakeserver_uri(f), 1500);
    driver_ask(&d, &a, &LIMIT, "n", 1);
    assert_true(a.result.error < 0);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_NO);
    driver_close(&d);
    fakeserver_stop(f);
    assert_true(r.refused < 60);
}

/* A user who may not delete: of two names in one call, the one that would be deleted is refused, and the other's charge stands. */
static void test_degraded_refused_midway_is_told_for_its_key_alone(void **state)
{
    (void)state;
    char uri[200];
    driver d;
    answer a = {0}, b = {0}, warm;
    server_ask(redis, "ACL SETUSER nodel on >pw ~* +@all -del");
    snprintf(uri, sizeof uri, "unix://nodel:pw@%s", server_path(redis));
    static const hirate_limit fast = HIRATE_TOKEN_BUCKET("fast", 1000, HIRATE_RATE(1000, HIRATE_MILLISECONDS(30)));
    open_with_deadline(&d, uri, DRIVER_PATIENCE_MS / 2);
    driver_ask(&d, &warm, &fast, "full", 1000);
    assert_int_equal(warm.result.charge, HIRATE_CHARGE_YES);
    /* Full again before its key expires would need luck with time; a raised rate makes it full now. */
    static const hirate_limit faster = HIRATE_TOKEN_BUCKET("fast", 1, HIRATE_RATE(1000, HIRATE_MILLISECONDS(1)));
    driver_run_for(&d, 5);
    size_t before = d.called;
    assert_int_equal(driver_acquire(&d, &a, &LIMIT, "other", 1), 0);
    assert_int_equal(driver_acquire(&d, &b, &faster, "full", 0), 0);
    assert_true(driver_wait(&d, before + 2));
    assert_int_equal(a.result.error, 0);
    assert_int_equal(a.result.charge, HIRATE_CHARGE_YES);
    if (b.result.error) { /* unless the key was gone already */
        assert_int_equal(b.result.error, HIRATE_EREDIS);
        assert_int_equal(b.result.charge, HIRATE_CHARGE_NO);
    }
    driver_close(&d);
    server_ask(redis, "ACL DELUSER nodel");
}

int main(void)
{
    if (!server_available())
        return 77;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_degraded_refused_midway_is_told_for_its_key_alone, clear),
        cmocka_unit_test_setup(test_degraded_out_of_memory_is_told_and_the_link_kept, clear),
        cmocka_unit_test_setup(test_degraded_replica_is_refused_until_it_is_a_primary, clear),
        cmocka_unit_test_setup(test_degraded_replica_at_start_decides_nothing, clear),
        cmocka_unit_test_setup(test_degraded_too_few_replicas_is_told, clear),
        cmocka_unit_test_setup(test_degraded_full_of_clients_recovers, clear),
        cmocka_unit_test_setup(test_degraded_for_a_while_is_waited_for, clear),
        cmocka_unit_test_setup(test_degraded_past_the_deadline_is_not_charged, clear),
        cmocka_unit_test_setup(test_degraded_loading_at_start_is_waited_for, clear),
        cmocka_unit_test_setup(test_degraded_no_room_is_not_taken_for_a_greeting, clear),
        cmocka_unit_test_setup(test_degraded_refused_for_good_is_told_at_once, clear),
        cmocka_unit_test_setup(test_degraded_noscript_for_ever_ends_at_the_deadline, clear),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
