/* SPDX-License-Identifier: BSD-3-Clause */
/* What every adapter must do: watches. */
#include "adapter_suite.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BOTH ((unsigned)HIRATE_READ | (unsigned)HIRATE_WRITE)

/* Two watches on readable pipes; what the first does to the second in the turn that found both. */
struct pair {
    struct adapter_fixture *f;
    int fds[2][2];
    struct adapter_probe probes[2];
};

static void pair_open(struct pair *p, struct adapter_fixture *f, void (*then)(struct adapter_probe *))
{
    memset(p, 0, sizeof *p);
    p->f = f;
    for (int i = 0; i < 2; i++) {
        adapter_pipe(p->fds[i]);
        adapter_put(p->fds[i][1]);
        p->probes[i].then = then;
        p->probes[i].other = &p->probes[1 - i];
        adapter_watch(f, &p->probes[i], p->fds[i][0], HIRATE_READ);
    }
}

static void pair_close(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        p->f->loop.watch_free(p->probes[i].handle);
        adapter_pipe_close(p->fds[i]);
    }
}

static void then_drain(struct adapter_probe *probe)
{
    adapter_drain(probe->fd);
}

static void then_free(struct adapter_probe *probe)
{
    probe->f->loop.watch_free(probe->handle);
    probe->handle = NULL;
}

static void then_free_other(struct adapter_probe *probe)
{
    then_free(probe->other);
}

static void then_pause_other(struct adapter_probe *probe)
{
    assert_int_equal(probe->f->loop.watch_set(probe->other->handle, 0), 0);
}

static void test_watch_without_events_stays_silent(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe probe = {0};
    int fds[2];

    adapter_pipe(fds);
    adapter_put(fds[1]);
    adapter_watch(f, &probe, fds[0], 0);
    adapter_turns(f, 10);
    assert_int_equal(probe.calls, 0);
    f->loop.watch_free(probe.handle);
    adapter_pipe_close(fds);
}

static void test_watch_readable_reports_read_only(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe probe = {.then = adapter_then_stop};
    int fds[2];

    adapter_pipe(fds);
    adapter_watch(f, &probe, fds[0], HIRATE_READ);
    adapter_turns(f, 5);
    assert_int_equal(probe.calls, 0);
    adapter_put(fds[1]);
    adapter_run(f);
    assert_int_equal(probe.calls, 1);
    assert_int_equal(probe.events, HIRATE_READ);
    f->loop.watch_free(probe.handle);
    adapter_pipe_close(fds);
}

static void test_watch_unread_is_reported_again(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe probe = {0};
    int fds[2];

    adapter_pipe(fds);
    adapter_put(fds[1]);
    adapter_watch(f, &probe, fds[0], HIRATE_READ);
    adapter_turns(f, 5);
    assert_int_equal(probe.calls, 5);
    adapter_drain(fds[0]);
    adapter_turns(f, 5);
    assert_int_equal(probe.calls, 5);
    f->loop.watch_free(probe.handle);
    adapter_pipe_close(fds);
}

static void test_watch_interest_changes_take_effect(void **state)
{
    struct adapter_fixture *f = *state;
    static const unsigned steps[] = {HIRATE_READ, HIRATE_WRITE, BOTH, HIRATE_READ, 0, BOTH, HIRATE_WRITE, 0};
    struct adapter_probe probe = {0};
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    adapter_put(fds[1]);
    adapter_watch(f, &probe, fds[0], 0);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        probe.events = 0;
        assert_int_equal(f->loop.watch_set(probe.handle, steps[i]), 0);
        adapter_turns(f, 2);
        assert_int_equal(probe.events, steps[i]);
    }
    f->loop.watch_free(probe.handle);
    adapter_pipe_close(fds);
}

static void test_watch_resumed_reports_again(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe probe = {0};
    int fds[2];

    adapter_pipe(fds);
    adapter_put(fds[1]);
    adapter_watch(f, &probe, fds[0], HIRATE_READ);
    assert_int_equal(f->loop.watch_set(probe.handle, 0), 0);
    adapter_turns(f, 5);
    assert_int_equal(probe.calls, 0);
    assert_int_equal(f->loop.watch_set(probe.handle, HIRATE_READ), 0);
    assert_int_equal(f->loop.watch_set(probe.handle, HIRATE_READ), 0);
    adapter_turns(f, 1);
    assert_int_equal(probe.calls, 1);
    f->loop.watch_free(probe.handle);
    adapter_pipe_close(fds);
}

static void test_watch_hangup_counts_as_what_was_asked(void **state)
{
    struct adapter_fixture *f = *state;
    static const unsigned asked[] = {HIRATE_READ, HIRATE_WRITE, BOTH};

    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct adapter_probe probe = {0};
        int fds[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
        adapter_watch(f, &probe, fds[0], asked[i]);
        assert_int_equal(close(fds[1]), 0);
        adapter_turns(f, 2);
        assert_int_equal(probe.events, asked[i]);
        f->loop.watch_free(probe.handle);
        assert_int_equal(close(fds[0]), 0);
    }
}

static void test_watch_pipe_without_writer_reports_read(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe probe = {0};
    int fds[2];

    adapter_pipe(fds);
    adapter_watch(f, &probe, fds[0], HIRATE_READ);
    assert_int_equal(close(fds[1]), 0);
    adapter_turns(f, 1);
    assert_int_equal(probe.events, HIRATE_READ);
    f->loop.watch_free(probe.handle);
    assert_int_equal(close(fds[0]), 0);
}

static void test_watch_full_pipe_without_reader_reports_write(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe probe = {0};
    static const char block[4096];
    int fds[2];

    adapter_pipe(fds);
    while (write(fds[1], block, sizeof block) > 0)
        continue;
    adapter_watch(f, &probe, fds[1], HIRATE_WRITE);
    adapter_turns(f, 3);
    assert_int_equal(probe.calls, 0);
    assert_int_equal(close(fds[0]), 0);
    adapter_turns(f, 1);
    assert_int_equal(probe.events, HIRATE_WRITE);
    f->loop.watch_free(probe.handle);
    assert_int_equal(close(fds[1]), 0);
}

static void test_watch_paused_in_hangup_stays_silent(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe probe = {0};
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    adapter_watch(f, &probe, fds[0], HIRATE_READ);
    assert_int_equal(close(fds[1]), 0);
    assert_int_equal(f->loop.watch_set(probe.handle, 0), 0);
    adapter_turns(f, 5);
    assert_int_equal(probe.calls, 0);
    f->loop.watch_free(probe.handle);
    assert_int_equal(close(fds[0]), 0);
}

static void test_watch_freed_in_its_callback_is_not_called_again(void **state)
{
    struct adapter_fixture *f = *state;
    struct adapter_probe probe = {.then = then_free};
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    adapter_put(fds[1]);
    adapter_watch(f, &probe, fds[0], BOTH);
    adapter_turns(f, 5);
    assert_int_equal(probe.calls, 1);
    assert_null(probe.handle);
    adapter_pipe_close(fds);
}

static void test_watch_freed_by_sibling_is_not_called(void **state)
{
    struct pair p;

    pair_open(&p, *state, then_free_other);
    adapter_turns(p.f, 1);
    assert_int_equal(p.f->sequence, 1);
    assert_int_equal(p.probes[0].calls + p.probes[1].calls, 1);
    pair_close(&p);
}

static void test_watch_paused_by_sibling_is_not_called(void **state)
{
    struct pair p;

    pair_open(&p, *state, then_pause_other);
    adapter_turns(p.f, 1);
    assert_int_equal(p.f->sequence, 1);
    pair_close(&p);
}

/* In one turn: free the other watch, close its descriptor, open another pipe at the same number, watch that. */
static struct adapter_probe successor;
static int successor_fds[2];

static void then_replace_other(struct adapter_probe *probe)
{
    int number = probe->other->fd;
    int fresh[2];

    probe->then = then_drain;
    then_drain(probe);
    then_free(probe->other);
    assert_int_equal(close(number), 0);
    adapter_pipe(fresh);
    if (fresh[0] != number) {
        assert_int_equal(dup2(fresh[0], number), number);
        assert_int_equal(close(fresh[0]), 0);
    }
    successor_fds[0] = number;
    successor_fds[1] = fresh[1];
    adapter_watch(probe->f, &successor, number, HIRATE_READ);
}

static void test_watch_on_reused_descriptor_gets_no_old_event(void **state)
{
    struct pair p;
    int replaced;

    memset(&successor, 0, sizeof successor);
    successor.then = adapter_then_stop;
    pair_open(&p, *state, then_replace_other);
    adapter_turns(p.f, 5);
    assert_int_equal(successor.calls, 0);
    adapter_put(successor_fds[1]);
    adapter_run(p.f);
    assert_int_equal(successor.calls, 1);
    p.f->loop.watch_free(successor.handle);
    assert_int_equal(close(successor_fds[1]), 0);
    replaced = p.probes[0].handle == NULL ? 0 : 1;
    assert_int_equal(p.fds[replaced][0], successor_fds[0]);
    pair_close(&p);
}

static void test_watch_many_are_all_reported(void **state)
{
    enum { MANY = 150 }; /* more than an adapter may fetch at once */
    struct adapter_fixture *f = *state;
    static struct adapter_probe probes[MANY];
    static int fds[MANY][2];

    memset(probes, 0, sizeof probes);
    for (int i = 0; i < MANY; i++) {
        probes[i].then = then_drain;
        adapter_pipe(fds[i]);
        adapter_put(fds[i][1]);
        adapter_watch(f, &probes[i], fds[i][0], HIRATE_READ);
    }
    adapter_turns(f, 10);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(probes[i].calls, 1);
        f->loop.watch_free(probes[i].handle);
        adapter_pipe_close(fds[i]);
    }
}

/* Clients on one loop have each their own copy of the interface. */
static void test_watch_of_several_clients_are_kept_apart(void **state)
{
    struct adapter_fixture *f = *state;
    hirate_loop copies[2] = {f->loop, f->loop};
    struct adapter_probe probes[2] = {{.then = then_drain}, {.then = then_drain}};
    int fds[2][2];

    for (int i = 0; i < 2; i++) {
        adapter_pipe(fds[i]);
        adapter_watch(f, &probes[i], fds[i][0], HIRATE_READ);
    }
    adapter_put(fds[1][1]);
    adapter_turns(f, 2);
    assert_int_equal(probes[0].calls, 0);
    assert_int_equal(probes[1].calls, 1);
    copies[0].watch_free(probes[0].handle);
    adapter_put(fds[1][1]);
    adapter_turns(f, 2);
    assert_int_equal(probes[1].calls, 2);
    copies[1].watch_free(probes[1].handle);
    adapter_pipe_close(fds[0]);
    adapter_pipe_close(fds[1]);
}

int adapter_run_watch_tests(const struct adapter_driver *driver)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_watch_##name, adapter_setup, adapter_teardown)
    const struct CMUnitTest watches[] = {
        TEST(without_events_stays_silent),
        TEST(readable_reports_read_only),
        TEST(unread_is_reported_again),
        TEST(interest_changes_take_effect),
        TEST(resumed_reports_again),
        TEST(hangup_counts_as_what_was_asked),
        TEST(pipe_without_writer_reports_read),
        TEST(full_pipe_without_reader_reports_write),
        TEST(paused_in_hangup_stays_silent),
        TEST(freed_in_its_callback_is_not_called_again),
        TEST(freed_by_sibling_is_not_called),
        TEST(paused_by_sibling_is_not_called),
        TEST(on_reused_descriptor_gets_no_old_event),
        TEST(many_are_all_reported),
        TEST(of_several_clients_are_kept_apart),
    };

    adapter_select(driver);
    return cmocka_run_group_tests(watches, NULL, NULL);
}
