/* SPDX-License-Identifier: BSD-3-Clause */
/* When what waits is sent, in a simulated world: at the end of a turn, on a reply, or as soon as it is full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/simserver.h"

#include <stdlib.h>

enum { KEYS_MOST = 4, WIDE_CALLS = 6, WIDE_KEYS = 128, LONG_WAY_US = 90, LATER_US = 2000000 };

typedef struct rig {
    sim *world;
    simserver *server;
    hirate *h;
    uint64_t answered, unsent; /* with a verdict; with an error and not charged */
    uint64_t sent;             /* calls before the test began */
    uint64_t before_first;     /* calls sent when the first callback since ask() ran; 0: none did */
    char next;                 /* another name for each request */
    bool closed;
    bool forget;       /* the script, at the next call */
    int later;         /* the so many-th call from now is answered after a while; 0: none is */
    uint64_t costs[8]; /* decided, in this order */
    size_t decided;
} rig;

static enum fate on_fate(void *arg)
{
    rig *r = arg;
    bool forget = r->forget;

    r->forget = false;
    if (r->later && --r->later == 0)
        return FATE_LATER;
    return forget ? FATE_FORGET : FATE_ANSWER;
}

static void on_decided(void *arg, const decided *what)
{
    rig *r = arg;

    if (r->decided < sizeof r->costs / sizeof r->costs[0])
        r->costs[r->decided++] = what->cost;
}

static void on_disturbed(void *arg)
{
    (void)arg;
}

static uint64_t on_random(void *arg, uint64_t most)
{
    (void)arg;
    return most / 2;
}

static hirate_stats stats_of(const rig *r)
{
    hirate_stats stats;

    hirate_stats_init(&stats);
    hirate_get_stats(r->h, &stats);
    return stats;
}

static uint64_t calls(const rig *r)
{
    return stats_of(r).calls - r->sent;
}

static void on_answer(hirate *h, const hirate_result *result, void *user)
{
    rig *r = user;

    (void)h;
    if (result->error)
        assert_int_equal(result->charge, HIRATE_CHARGE_NO);
    *(result->error ? &r->unsent : &r->answered) += 1;
    if (!r->before_first)
        r->before_first = calls(r);
}

static const hirate_limit LIMIT = HIRATE_TOKEN_BUCKET("flush", 100, HIRATE_RATE(1, HIRATE_SECONDS(1)));

static void ask(rig *r, int times)
{
    r->before_first = 0;
    for (int i = 0; i < times; i++, r->next++)
        assert_int_equal(hirate_acquire(r->h, &LIMIT, &r->next, 1, 1, on_answer, r), 0);
}

/* The requests of one turn. Returns how many calls have been sent at its end. */
static uint64_t turn_with(rig *r, int requests)
{
    ask(r, requests);
    sim_turn(r->world);
    return calls(r);
}

/* Everything that was sent is answered, and the client hears it. */
static void answer(rig *r)
{
    simserver_step(r->server, false);
    sim_turn(r->world);
}

typedef struct shape {
    uint32_t calls, keys, requests; /* at most */
    int64_t round_trip_us;
    bool patient;
} shape;

static int open_with(void **state, shape of)
{
    rig *r = calloc(1, sizeof *r);
    hirate_options options;

    assert_non_null(r);
    r->world = sim_new(1);
    sim_keep_calendar(r->world);
    r->server = simserver_new(r->world, &(simserver_hooks){.fate = on_fate,
                                                           .disturbed = on_disturbed,
                                                           .random = on_random,
                                                           .arg = r,
                                                           .script = {.decided = on_decided, .arg = r}});
    r->next = '0';
    hirate_options_init(&options);
    options.uri = sim_uri(r->world);
    options.deadline_ms = of.patient ? 10000 : options.deadline_ms;
    options.max_calls = of.calls;
    options.max_call_keys = of.keys;
    options.max_call_acquires = of.requests;
    sim_listen(r->world, true);
    assert_int_equal(hirate_new(&r->h, sim_loop(r->world), &options), 0);
    ask(r, 1);
    for (int i = 0; i < 10 && !r->answered; i++) { /* connected and greeted, and the server knows the script */
        sim_turn(r->world);
        sim_pass(r->world, of.round_trip_us);
        answer(r);
    }
    assert_int_equal(r->answered, 1);
    r->answered = 0;
    r->sent = calls(r);
    *state = r;
    return 0;
}

static int open_rig(void **state)
{
    return open_with(state, (shape){.calls = 2, .keys = KEYS_MOST, .requests = KEYS_MOST});
}

static int open_wide(void **state)
{
    return open_with(state, (shape){.calls = WIDE_CALLS, .keys = WIDE_KEYS, .requests = 1024, .patient = true});
}

static int open_single(void **state)
{
    return open_with(state, (shape){.calls = 1, .keys = WIDE_KEYS, .requests = 1024});
}

static int open_far(void **state)
{
    return open_with(state, (shape){.calls = WIDE_CALLS,
                                    .keys = WIDE_KEYS,
                                    .requests = 1024,
                                    .round_trip_us = LONG_WAY_US,
                                    .patient = true});
}

static void on_closed(void *user)
{
    ((rig *)user)->closed = true;
}

static int close_rig(void **state)
{
    rig *r = *state;

    if (!r->closed)
        hirate_free(r->h);
    simserver_free(r->server);
    sim_free(r->world);
    free(r);
    return 0;
}

static void test_idle_is_sent_at_the_end_of_the_turn(void **state)
{
    rig *r = *state;

    ask(r, 3);
    assert_int_equal(calls(r), 0);
    sim_turn(r->world);
    assert_int_equal(calls(r), 1);
    answer(r);
    assert_int_equal(r->answered, 3);
    assert_int_equal(calls(r), 1);
}

static void test_less_than_a_call_waits_for_a_reply(void **state)
{
    rig *r = *state;

    assert_int_equal(turn_with(r, 1), 1);
    sim_pass(r->world, 1000);
    assert_int_equal(turn_with(r, 1), 1);
    sim_pass(r->world, 1000);
    assert_int_equal(turn_with(r, 1), 1);
    answer(r);
    assert_int_equal(calls(r), 2);
    answer(r);
    assert_int_equal(r->answered, 3);
}

static void test_full_call_does_not_wait(void **state)
{
    rig *r = *state;

    assert_int_equal(turn_with(r, 1), 1);
    assert_int_equal(turn_with(r, KEYS_MOST - 1), 1);
    assert_int_equal(turn_with(r, 1), 2);
    answer(r);
    assert_int_equal(r->answered, 1 + KEYS_MOST);
}

static void test_full_call_goes_before_callbacks_run(void **state)
{
    rig *r = *state;

    assert_int_equal(turn_with(r, 1), 1);
    assert_int_equal(turn_with(r, KEYS_MOST), 2);
    assert_int_equal(turn_with(r, 2 * KEYS_MOST + 1), 2);
    answer(r);
    assert_int_equal(r->before_first, 4); /* both that are full; the last request waits for the next reply */
    assert_int_equal(calls(r), 4);
    answer(r);
    assert_int_equal(calls(r), 5);
    answer(r);
    assert_int_equal(r->answered, 2 + 3 * KEYS_MOST);
}

/* The same `names` names, each so many times. Returns how many requests have been sent at the end of the turn. */
static uint64_t turn_with_names(rig *r, uint16_t names, int times)
{
    uint64_t before = stats_of(r).call_acquires;

    for (int i = 0; i < times; i++) {
        for (uint16_t name = 0; name < names; name++)
            assert_int_equal(hirate_acquire(r->h, &LIMIT, &name, sizeof name, 1, on_answer, r), 0);
    }
    sim_turn(r->world);
    return stats_of(r).call_acquires - before;
}

static void answer_all(rig *r, uint64_t requests)
{
    for (int i = 0; i < 100 && r->answered < requests; i++)
        answer(r);
    assert_int_equal(r->answered, requests);
}

static uint64_t sent_requests(const rig *r)
{
    return stats_of(r).call_acquires;
}

static void test_distinct_keys_fill_a_call(void **state)
{
    rig *r = *state;

    assert_int_equal(turn_with_names(r, 120, 1), 120);
    assert_int_equal(calls(r), 1);
    answer_all(r, 120);
}

static void test_distinct_keys_fill_as_many_calls_as_may_be(void **state)
{
    rig *r = *state;

    assert_int_equal(turn_with_names(r, 1000, 1), WIDE_CALLS * WIDE_KEYS);
    assert_int_equal(calls(r), WIDE_CALLS);
    answer_all(r, 1000);
}

/* Nothing is in flight: all goes, in two calls of half the keys. */
static void test_repeated_keys_go_at_once_from_idle(void **state)
{
    rig *r = *state;

    assert_int_equal(turn_with_names(r, 100, 2), 200);
    assert_int_equal(calls(r), 2);
    answer_all(r, 200);
    assert_int_equal(turn_with_names(r, 100, 2), 200); /* the answers came before this turn */
    assert_int_equal(calls(r), 4);
    answer_all(r, 400);
}

/* Both calls came back together, as when the server reads them together: the next are to part again. */
static void test_repeated_keys_go_in_small_calls_after_answers(void **state)
{
    rig *r = *state;

    turn_with_names(r, 100, 2);
    assert_int_equal(turn_with_names(r, 100, 2), 0);
    uint64_t before = sent_requests(r);
    answer(r);
    assert_int_equal(calls(r), 4);
    assert_int_equal(sent_requests(r), before + 2 * (16 + 16));
    answer_all(r, 400);
}

/* The loop comes by late, long after the server was done with the calls of 50 keys: larger ones are to keep it busy. */
static void test_repeated_keys_go_in_larger_calls_of_a_late_loop(void **state)
{
    rig *r = *state;

    turn_with_names(r, 100, 2);
    assert_int_equal(turn_with_names(r, 100, 2), 0);
    uint64_t before = sent_requests(r);
    simserver_step(r->server, false);
    sim_pass(r->world, 2 * 50 * 3 + 40 * 3);
    sim_turn(r->world);
    assert_int_equal(calls(r), 4);
    assert_int_equal(sent_requests(r), before + 2 * (40 + 40));
    answer_all(r, 400);
}

static void test_few_repeated_keys_go_in_one_call(void **state)
{
    rig *r = *state;

    assert_int_equal(turn_with_names(r, 15, 60), 900);
    assert_int_equal(calls(r), 1);
    answer_all(r, 900);
}

static void test_one_call_at_a_time_takes_all(void **state)
{
    rig *r = *state;

    assert_int_equal(turn_with_names(r, 100, 2), 200);
    assert_int_equal(calls(r), 1);
    answer_all(r, 200);
}

/* Two calls are in flight, and two more requests for each of `names` names wait. The first of the calls is answered. Returns
 * how many requests are sent in the next. */
static uint64_t requests_of_next_call(rig *r, uint16_t names)
{
    turn_with_names(r, names, 2);
    assert_int_equal(calls(r), 2);
    assert_int_equal(turn_with_names(r, names, 2), 0);
    uint64_t before = sent_requests(r);
    r->before_first = 0;
    r->later = 2;
    answer(r);
    assert_int_equal(calls(r), 3);
    assert_int_equal(r->before_first, 3); /* it went before the callbacks ran */
    uint64_t sent = sent_requests(r) - before;
    sim_pass(r->world, LATER_US);
    answer_all(r, 4 * (uint64_t)names);
    return sent;
}

/* The others gather meanwhile. */
static void test_repeated_keys_go_in_small_calls(void **state)
{
    assert_int_equal(requests_of_next_call(*state, 100), 16 * 2);
}

/* A sixteenth; those that go had found no room at first, so four requests wait for each. */
static void test_many_repeated_keys_go_in_larger_calls(void **state)
{
    assert_int_equal(requests_of_next_call(*state, 512), 512 / 16 * 4);
}

/* Small calls would be answered long before the next is there. */
static void test_repeated_keys_go_in_larger_calls_on_a_long_way(void **state)
{
    assert_int_equal(requests_of_next_call(*state, 100), LONG_WAY_US / 3 * 2);
}

static void test_part_of_a_call_waits_for_the_end_of_the_turn(void **state)
{
    rig *r = *state;

    assert_int_equal(turn_with(r, 1), 1);
    assert_int_equal(turn_with(r, KEYS_MOST - 1), 1);
    answer(r);
    assert_int_equal(r->before_first, 1); /* callbacks may ask for more */
    assert_int_equal(calls(r), 2);
    answer(r);
    assert_int_equal(r->answered, KEYS_MOST);
}

static void answer_and_go(void *arg)
{
    rig *r = arg;

    simserver_step(r->server, false);
    simserver_drop(r->server);
}

/* The server answers and goes between the look at the socket and the flush: what it has said is read, though the write
 * fails; what was not written is asked again, of the next connection. */
static void test_answers_that_have_arrived_are_read_when_a_write_fails(void **state)
{
    rig *r = *state;
    const hirate_loop *loop = sim_loop(r->world);
    void *timer = loop->timer_new(loop->data, answer_and_go, r);

    assert_non_null(timer);
    assert_int_equal(turn_with(r, 1), 1);
    assert_int_equal(loop->timer_set(timer, 0), 0);
    ask(r, KEYS_MOST);
    sim_turn(r->world);
    loop->timer_free(timer);
    sim_settle(r->world);
    assert_int_equal(r->answered, 1);
    for (int i = 0; i < 20 && r->answered < 1 + KEYS_MOST; i++, sim_pass(r->world, 10000))
        answer(r);
    assert_int_equal(r->answered, 1 + KEYS_MOST);
    assert_int_equal(r->decided, 2 + KEYS_MOST); /* the first is open_rig()'s */
    assert_int_equal(r->unsent, 0);
}

/* The loop was held up: what is late is answered, not sent. */
static void test_late_requests_are_not_sent(void **state)
{
    rig *r = *state;

    assert_int_equal(turn_with(r, 1), 1);
    assert_int_equal(turn_with(r, KEYS_MOST), 2);
    assert_int_equal(turn_with(r, KEYS_MOST), 2);
    simserver_step(r->server, false);
    sim_pass(r->world, 2000000); /* beyond every deadline; answers that have arrived are in time */
    sim_turn(r->world);
    assert_int_equal(calls(r), 2);
    assert_int_equal(r->answered, 1 + KEYS_MOST);
    assert_int_equal(r->unsent, KEYS_MOST);
}

static void test_closing_sends_nothing_more(void **state)
{
    rig *r = *state;

    assert_int_equal(turn_with(r, 1), 1);
    assert_int_equal(turn_with(r, KEYS_MOST), 2);
    assert_int_equal(turn_with(r, KEYS_MOST), 2);
    simserver_step(r->server, false);
    assert_int_equal(hirate_close(r->h, on_closed, r), 0);
    r->before_first = 0;
    sim_settle(r->world);
    assert_true(r->closed);
    assert_int_equal(r->before_first, 2);
    assert_int_equal(r->answered, 1 + KEYS_MOST);
    assert_int_equal(r->unsent, KEYS_MOST);
}

/* The server goes away while full calls are written to it. */
static void test_server_gone_while_full_calls_are_sent(void **state)
{
    rig *r = *state;

    assert_int_equal(turn_with(r, 1), 1);
    assert_int_equal(turn_with(r, KEYS_MOST), 2);
    ask(r, 3 * KEYS_MOST);
    simserver_step(r->server, false);
    simserver_drop(r->server);
    for (int i = 0; i < 1000 && r->answered < 1 + 4 * KEYS_MOST; i++) {
        answer(r);
        sim_pass(r->world, 1000);
    }
    assert_int_equal(r->answered + r->unsent, 1 + 4 * KEYS_MOST);
}

static void ask_of_one(rig *r, uint64_t cost)
{
    assert_int_equal(hirate_acquire(r->h, &LIMIT, "one", 3, cost, on_answer, r), 0);
}

/* The first of two calls is told that the server does not know the script, then the second: both go before the rest. */
static void test_refused_calls_keep_their_order(void **state)
{
    rig *r = *state;

    r->decided = 0;
    r->forget = true;
    ask_of_one(r, 1);
    sim_turn(r->world);
    for (uint64_t cost = 2; cost <= 1 + KEYS_MOST; cost++)
        ask_of_one(r, cost);
    sim_turn(r->world);
    assert_int_equal(calls(r), 2);
    for (uint64_t cost = 2 + KEYS_MOST; cost <= 8; cost++)
        ask_of_one(r, cost);
    for (int i = 0; i < 200 && r->answered < 8; i++) {
        simserver_step(r->server, true);
        sim_turn(r->world);
    }
    assert_int_equal(r->answered, 8);
    assert_int_equal(r->decided, 8);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(r->costs[i], i + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_idle_is_sent_at_the_end_of_the_turn, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_less_than_a_call_waits_for_a_reply, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_full_call_does_not_wait, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_full_call_goes_before_callbacks_run, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_distinct_keys_fill_a_call, open_wide, close_rig),
        cmocka_unit_test_setup_teardown(test_distinct_keys_fill_as_many_calls_as_may_be, open_wide, close_rig),
        cmocka_unit_test_setup_teardown(test_repeated_keys_go_at_once_from_idle, open_wide, close_rig),
        cmocka_unit_test_setup_teardown(test_repeated_keys_go_in_small_calls_after_answers, open_wide, close_rig),
        cmocka_unit_test_setup_teardown(test_repeated_keys_go_in_larger_calls_of_a_late_loop, open_wide, close_rig),
        cmocka_unit_test_setup_teardown(test_few_repeated_keys_go_in_one_call, open_wide, close_rig),
        cmocka_unit_test_setup_teardown(test_one_call_at_a_time_takes_all, open_single, close_rig),
        cmocka_unit_test_setup_teardown(test_repeated_keys_go_in_small_calls, open_wide, close_rig),
        cmocka_unit_test_setup_teardown(test_many_repeated_keys_go_in_larger_calls, open_wide, close_rig),
        cmocka_unit_test_setup_teardown(test_repeated_keys_go_in_larger_calls_on_a_long_way, open_far, close_rig),
        cmocka_unit_test_setup_teardown(test_part_of_a_call_waits_for_the_end_of_the_turn, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_late_requests_are_not_sent, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_answers_that_have_arrived_are_read_when_a_write_fails, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_closing_sends_nothing_more, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_refused_calls_keep_their_order, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(test_server_gone_while_full_calls_are_sent, open_rig, close_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
