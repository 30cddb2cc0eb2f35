/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Servers that do not behave. The first connections of each case go to one that misbehaves, the later ones through to a
 * real server. Whatever happens: no crash, each request answered once, no verdict that a server did not give for that
 * very request, nothing charged twice, and in the end the client works again.
 *
 * Each name has a capacity of its own, so that a verdict meant for another name shows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/driver.h"
#include "support/fakeserver.h"
#include "support/server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 12, EACH = 5, REQUESTS = NAMES * EACH, BAD_CONNECTIONS = 2 };

enum mode {
    AT_ACCEPT,      /* the bytes come before anything was asked */
    IN_GREETING,    /* instead of the answer to the first command */
    INSTEAD,        /* instead of the answer to a script call */
    AHEAD,          /* before the right answer to a script call */
    BEHIND,         /* after it */
    LATER,          /* after all answers, when nothing is outstanding */
    SLOWLY,         /* the right answers, byte by byte */
    CLOSE_UNSERVED, /* close when a script call has been read */
    CLOSE_SERVED,   /* run it, and close before its answer */
    CLOSE_HALFWAY,  /* run it, and close in the middle of its answer */
    CLOSE_GREETED,  /* close in the greeting */
};

typedef struct misdeed {
    const char *what;
    enum mode mode;
    const char *bytes;
    size_t len; /* 0: strlen(bytes) */
} misdeed;

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

/* ------------------------------------------------------------------------------------------------- the server -- */

static bool say(fake_conn *conn, const misdeed *m)
{
    return fake_write(conn, m->bytes, m->len ? m->len : strlen(m->bytes));
}

/* Answer conn->command, a script call, as the misdeed has it. False: close. */
static bool answer_script(fake_conn *conn, const misdeed *m, bytes *reply)
{
    /* An error is no reason to leave a connection: that it stops is up to this server. */
    bool enough = m->bytes[0] == '-' && conn->scripts > 4;
    if (m->mode == INSTEAD && !enough)
        return say(conn, m);
    if (m->mode == CLOSE_UNSERVED || !fake_relay(conn, reply) || m->mode == CLOSE_SERVED)
        return false;
    if (m->mode == CLOSE_HALFWAY) {
        fake_write(conn, reply->data, reply->len / 2);
        return false;
    }
    if (m->mode == SLOWLY)
        return fake_write_slowly(conn, reply->data, reply->len);
    if (m->mode == AHEAD && !say(conn, m))
        return false;
    if (!fake_write(conn, reply->data, reply->len))
        return false;
    return m->mode != BEHIND || say(conn, m);
}

static void misbehave(fake_conn *conn, const misdeed *m, bytes *reply)
{
    if (m->mode == AT_ACCEPT && !say(conn, m))
        return;
    bool said = m->mode != LATER;
    for (bool first = true;; first = false) {
        if (!said && conn->scripts > 0 && fake_is_quiet(conn, 100)) {
            said = true;
            if (!say(conn, m))
                return;
        }
        if (!fake_read(conn))
            return;
        bytes_clear(reply);
        if (first && m->mode == CLOSE_GREETED)
            return;
        if (first && m->mode == IN_GREETING) {
            if (!say(conn, m))
                return;
        } else if (fake_is_script(conn)) {
            if (!answer_script(conn, m, reply))
                return;
        } else if (!fake_relay(conn, reply) || !fake_write(conn, reply->data, reply->len)) {
            return;
        }
    }
}

static void behave(fake_conn *conn, bytes *reply)
{
    while (fake_read(conn) && fake_relay(conn, reply) && fake_write(conn, reply->data, reply->len))
        bytes_clear(reply);
}

static void script(fake_conn *conn, void *arg)
{
    bytes reply = {0};
    bytes_clear(&reply);
    if (conn->number < BAD_CONNECTIONS)
        misbehave(conn, arg, &reply);
    else
        behave(conn, &reply);
    bytes_free(&reply);
}

/* ------------------------------------------------------------------------------------------------- the client -- */

static char policies[NAMES][16];
static hirate_limit limits[NAMES];
static answer answers[REQUESTS];

static void make_limits(void)
{
    for (unsigned i = 0; i < NAMES; i++) {
        snprintf(policies[i], sizeof policies[i], "p%u", i);
        hirate_limit_token_bucket(&limits[i], policies[i], 1000 * (i + 1), (hirate_rate){1, 86400000000});
    }
}

static void open_client(driver *d, const char *uri)
{
    hirate_options options;
    hirate_options_init(&options);
    options.uri = uri;
    options.deadline_ms = 3000;
    options.stall_timeout_ms = 1500;
    options.connect_timeout_ms = 1500;
    options.max_call_keys = 1; /* so that a reply is four numbers long */
    driver_open_with(d, &options, NULL);
}

static void expect_honest(const misdeed *m, const answer *a, size_t name)
{
    const hirate_result *r = &a->result;
    uint64_t capacity = limits[name].capacity;
    bool lies = a->calls != 1 || (!r->error && (r->remaining >= capacity || r->remaining < capacity - EACH - 20));
    if (lies || (r->error && r->verdict))
        print_error("%s: calls %d error %d remaining %d of %d: %s\n", m->what, a->calls, r->error, (int)r->remaining,
                    (int)capacity, a->reason);
    assert_false(lies);
    assert_string_equal(a->policy, policies[name]);
    if (!r->error) {
        assert_int_equal(r->verdict, HIRATE_ALLOWED);
        assert_int_equal(r->charge, HIRATE_CHARGE_YES);
        return;
    }
    assert_int_equal(r->verdict, HIRATE_VERDICT_NONE);
    assert_int_equal(r->source, HIRATE_SOURCE_NONE);
    assert_true(r->charge == HIRATE_CHARGE_NO || r->charge == HIRATE_CHARGE_MAYBE);
    assert_true(strlen(a->reason) > 0);
    for (const char *c = a->reason; *c; c++)
        assert_false((unsigned char)*c < 0x20 || *c == 0x7f);
}

/* What the real server has charged is what was said to be charged, give or take what may have been. */
static void expect_charged_once(const misdeed *m, size_t recovered)
{
    driver d;
    answer a = {0};
    driver_open(&d, server_uri(redis));
    for (size_t name = 0; name < NAMES; name++) {
        uint64_t yes = name == 0 ? recovered : 0, maybe = 0;
        for (size_t i = name; i < REQUESTS; i += NAMES) {
            yes += answers[i].result.charge == HIRATE_CHARGE_YES;
            maybe += answers[i].result.charge == HIRATE_CHARGE_MAYBE;
        }
        size_t before = d.called;
        a = (answer){0};
        assert_int_equal(driver_peek(&d, &a, &limits[name], "n", 0), 0);
        assert_true(driver_wait(&d, before + 1));
        assert_int_equal(a.result.error, HIRATE_OK);
        uint64_t charged = limits[name].capacity - a.result.remaining;
        if (charged < yes || charged > yes + maybe)
            print_error("%s: charged %d, told yes %d and maybe %d\n", m->what, (int)charged, (int)yes, (int)maybe);
        assert_true(charged >= yes && charged <= yes + maybe);
    }
    driver_close(&d);
}

/* Returns how many acquires of name 0 were charged meanwhile. */
static size_t expect_recovery(driver *d, const misdeed *m)
{
    answer a;
    size_t charged = 0;
    int64_t end = driver_now_ms() + DRIVER_PATIENCE_MS;
    do {
        driver_ask(d, &a, &limits[0], "n", 1);
        charged += !a.result.error;
        if (a.result.charge == HIRATE_CHARGE_MAYBE) /* count it with the others */
            answers[0].result.charge = HIRATE_CHARGE_MAYBE;
    } while (a.result.error && driver_now_ms() < end);
    if (a.result.error)
        print_error("%s: no recovery: %s\n", m->what, a.reason);
    assert_int_equal(a.result.error, HIRATE_OK);
    return charged;
}

static void suffer(const misdeed *m, bool tcp)
{
    driver d;
    server_ask(redis, "FLUSHALL");
    memset(answers, 0, sizeof answers);
    fakeserver *f = fakeserver_start(&(fakeserver_options){
        .tcp = tcp, .upstream = server_path(redis), .script = script, .arg = (void *)(uintptr_t)m});
    open_client(&d, fakeserver_uri(f));
    for (size_t i = 0; i < REQUESTS; i++)
        assert_int_equal(driver_acquire(&d, &answers[i], &limits[i % NAMES], "n", 1), 0);
    assert_true(driver_wait(&d, REQUESTS));
    driver_run_for(&d, 20);
    for (size_t i = 0; i < REQUESTS; i++)
        expect_honest(m, &answers[i], i % NAMES);
    size_t recovered = expect_recovery(&d, m);
    assert_int_equal(d.too_early, 0);
    driver_close(&d);
    fakeserver_stop(f);
    expect_charged_once(m, recovered);
}

static void suffer_all(const misdeed *deeds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        print_message("    %s\n", deeds[i].what);
        suffer(&deeds[i], i % 2);
    }
}

#define SUFFER(deeds) suffer_all((deeds), sizeof(deeds) / sizeof *(deeds))

/* ------------------------------------------------------------------------------------------------------- cases -- */

static void test_hostile_unsolicited_bytes_close_the_connection(void **state)
{
    (void)state;
    static const misdeed deeds[] = {
        {"error at accept", AT_ACCEPT, "-ERR max number of clients reached\r\n", 0},
        {"status at accept", AT_ACCEPT, "+OK\r\n", 0},
        {"many replies at accept", AT_ACCEPT, "+OK\r\n+OK\r\n+OK\r\n*1\r\n$1\r\nx\r\n:5\r\n", 0},
        {"garbage at accept", AT_ACCEPT, "HTTP/1.1 400 Bad Request\r\n\r\n", 0},
        {"reply nobody asked for", LATER, "$3\r\nabc\r\n", 0},
        {"error nobody asked for", LATER, "-ERR out of the blue\r\n", 0},
        {"array nobody asked for", LATER, "*2\r\n:1\r\n*1\r\n:2\r\n", 0},
        {"push nobody asked for", LATER, ">2\r\n+invalidate\r\n+x\r\n", 0},
        {"integer ahead of a reply", AHEAD, ":1\r\n", 0},
        {"string behind a reply", BEHIND, "$24\r\n012345678901234567890123\r\n", 0},
    };
    SUFFER(deeds);
}

static void test_hostile_greeting_is_not_taken_for_an_answer(void **state)
{
    (void)state;
    static const misdeed deeds[] = {
        {"greeting: garbage", IN_GREETING, "\x16\x03\x01\x02", 4},
        {"greeting: integer", IN_GREETING, ":7\r\n", 0},
        {"greeting: nil", IN_GREETING, "$-1\r\n", 0},
        {"greeting: empty array", IN_GREETING, "*0\r\n", 0},
        {"greeting: replica", IN_GREETING, "*5\r\n$5\r\nslave\r\n$1\r\nh\r\n:1\r\n$9\r\nconnected\r\n:0\r\n", 0},
        {"greeting: loading", IN_GREETING, "-LOADING Redis is loading the dataset in memory\r\n", 0},
        {"greeting: closed", CLOSE_GREETED, "", 0},
    };
    SUFFER(deeds);
}

static void test_hostile_other_kind_of_reply_is_an_error(void **state)
{
    (void)state;
    static const misdeed deeds[] = {
        {"integer", INSTEAD, ":1\r\n", 0},
        {"status", INSTEAD, "+OK\r\n", 0},
        {"nil string", INSTEAD, "$-1\r\n", 0},
        {"nil array", INSTEAD, "*-1\r\n", 0},
        {"empty array", INSTEAD, "*0\r\n", 0},
        {"array of one", INSTEAD, "*1\r\n$1\r\nx\r\n", 0},
        {"array with an error", INSTEAD, "*2\r\n-ERR inner\r\n:1\r\n", 0},
        {"nested arrays", INSTEAD, "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", 0},
        {"push", INSTEAD, ">2\r\n+push\r\n+x\r\n", 0},
        {"version 3 null", INSTEAD, "_\r\n", 0},
        {"version 3 map", INSTEAD, "%1\r\n+a\r\n+b\r\n", 0},
        {"version 3 double", INSTEAD, ",1.5\r\n", 0},
        {"empty string", INSTEAD, "$0\r\n\r\n", 0},
        {"short string", INSTEAD, "$8\r\nAAAAAAAA\r\n", 0},
        {"long string", INSTEAD, "$32\r\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\r\n", 0},
    };
    SUFFER(deeds);
}

static void test_hostile_numbers_out_of_range_are_an_error(void **state)
{
    (void)state;
    /* now, the call's number (right for the first connection's first call), units, lag */
    static const double numbers[][4] = {
        {1.7e15, 1, -2, 0},    {1.7e15, 1, 0.5, 0},
        {1.7e15, 1, 1e300, 0}, {1.7e15, 1, (double)__builtin_nan(""), 0},
        {1.7e15, 1, 5, -1},    {1.7e15, 1, 5, 0.5},
        {1.7e15, 1, 5, 1e300}, {1.7e15, 1, 5, (double)__builtin_nan("")},
        {-1, 1, 5, 0},         {(double)__builtin_nan(""), 1, 5, 0},
        {1e300, 1, 5, 0},      {0.5, 1, 5, 0},
        {1.7e15, 1, 5e17, 0},  {(double)__builtin_inf(), 1, 5, 0},
        {1.7e15, 0, 5, 0},     {1.7e15, 1.5, 5, 0},
        {1.7e15, 5e9, 5, 0},   {1.7e15, (double)__builtin_nan(""), 5, 0},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char reply[64] = "$32\r\n";
        memcpy(reply + 5, numbers[i], 32);
        memcpy(reply + 37, "\r\n", 2);
        misdeed m = {"numbers", INSTEAD, reply, 39};
        suffer(&m, false);
    }
}

static void test_hostile_framing_closes_the_connection(void **state)
{
    (void)state;
    static const misdeed deeds[] = {
        {"garbage", INSTEAD, "garbage\r\n", 0},
        {"empty line", INSTEAD, "\r\n", 0},
        {"zero bytes", INSTEAD, "\0\0\0\0\r\n", 6},
        {"array of 2^31-1", INSTEAD, "*2147483647\r\n", 0},
        {"array of 2^63-1", INSTEAD, "*9223372036854775807\r\n:1\r\n", 0},
        {"array of -2", INSTEAD, "*-2\r\n", 0},
        {"string of two billion", INSTEAD, "$2000000000\r\nabc", 0},
        {"string of 2^63", INSTEAD, "$9223372036854775808\r\n", 0},
        {"string of -5", INSTEAD, "$-5\r\n", 0},
        {"string of letters", INSTEAD, "$abc\r\n", 0},
        {"string without its end", INSTEAD, "$3\r\nabcXX:1\r\n", 0},
        {"integer of letters", INSTEAD, ":x\r\n", 0},
        {"integer past 64 bits", INSTEAD, ":99999999999999999999\r\n", 0},
    };
    SUFFER(deeds);
}

static void test_hostile_errors_of_any_text_are_told_harmlessly(void **state)
{
    (void)state;
    static char endless[20000];
    memset(endless, 'E', sizeof endless);
    endless[0] = '-';
    memcpy(endless + sizeof endless - 2, "\r\n", 2);
    const misdeed deeds[] = {
        {"empty error", INSTEAD, "-\r\n", 0},
        {"unknown error", INSTEAD, "-WEIRD things happen\r\n", 0},
        {"control bytes", INSTEAD, "-ERR a\x01\x1b[31m\x7f\tb\r\n", 0},
        {"format letters", INSTEAD, "-ERR %s%n%s%n\r\n", 0},
        {"very long error", INSTEAD, endless, sizeof endless},
    };
    SUFFER(deeds);
}

static void test_hostile_too_large_a_reply_closes_the_connection(void **state)
{
    (void)state;
    size_t len = 3 << 20;
    char *large = malloc(len + 32);
    assert_non_null(large);
    int head = snprintf(large, 32, "$%zu\r\n", len);
    memset(large + head, 'x', len);
    memcpy(large + (size_t)head + len, "\r\n", 2);
    const misdeed m = {"three megabytes", INSTEAD, large, (size_t)head + len + 2};
    suffer(&m, false);
    free(large);
}

static void test_hostile_reply_in_single_bytes_is_read(void **state)
{
    (void)state;
    const misdeed m = {"byte by byte", SLOWLY, "", 0};
    suffer(&m, false);
    for (size_t i = 0; i < REQUESTS; i++)
        assert_int_equal(answers[i].result.error, HIRATE_OK);
    suffer(&m, true);
    for (size_t i = 0; i < REQUESTS; i++)
        assert_int_equal(answers[i].result.error, HIRATE_OK);
}

static void test_hostile_close_around_a_call_charges_once(void **state)
{
    (void)state;
    static const misdeed deeds[] = {
        {"closed before the call was run", CLOSE_UNSERVED, "", 0}, {"the same over tcp", CLOSE_UNSERVED, "", 0},
        {"closed before the reply", CLOSE_SERVED, "", 0},          {"the same over tcp", CLOSE_SERVED, "", 0},
        {"closed within the reply", CLOSE_HALFWAY, "", 0},         {"the same over tcp", CLOSE_HALFWAY, "", 0},
    };
    SUFFER(deeds);
}

int main(void)
{
    if (!server_available())
        return 77;
    signal(SIGPIPE, SIG_DFL);
    make_limits();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_unsolicited_bytes_close_the_connection),
        cmocka_unit_test(test_hostile_greeting_is_not_taken_for_an_answer),
        cmocka_unit_test(test_hostile_other_kind_of_reply_is_an_error),
        cmocka_unit_test(test_hostile_numbers_out_of_range_are_an_error),
        cmocka_unit_test(test_hostile_framing_closes_the_connection),
        cmocka_unit_test(test_hostile_errors_of_any_text_are_told_harmlessly),
        cmocka_unit_test(test_hostile_too_large_a_reply_closes_the_connection),
        cmocka_unit_test(test_hostile_reply_in_single_bytes_is_read),
        cmocka_unit_test(test_hostile_close_around_a_call_charges_once),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
