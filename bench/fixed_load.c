/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fixed_load URI LIMIT NAMES IN-FLIGHT COUNT: exactly COUNT acquires through the public interface, IN-FLIGHT
 * outstanding, each answer submitting the next. Ends with one JSON object.
 *
 * What a run costs beyond its acquires (start, connecting, growing to its working size) is the same for every COUNT, so
 * the difference between two lengths is the cost of acquires alone.
 */
#include "load.h"

#include <hirate/adapters/epoll.h>

typedef struct load {
    hirate_epoll_loop *ep;
    hirate *h;
    hirate_limit limit;
    load_count count;
} load;

static void on_answer(hirate *h, const hirate_result *result, void *user);

static void submit(load *l)
{
    char name[HIRATE_NAME_INT_SIZE];
    size_t len = hirate_name_u64(name, load_next_name(&l->count));
    int rc = hirate_acquire(l->h, &l->limit, name, len, 1, on_answer, l);
    if (rc != 0)
        errx(1, "hirate_acquire: %s", hirate_last_error(l->h));
}

static void on_answer(hirate *h, const hirate_result *result, void *user)
{
    load *l = user;
    (void)h;
    if (result->error != 0)
        errx(1, "%s: %s", hirate_strerror(result->error), result->reason);
    load_answered(&l->count, result->verdict == HIRATE_ALLOWED);
    if (load_wants_more(&l->count))
        submit(l);
    else if (load_is_done(&l->count))
        hirate_epoll_stop(l->ep);
}

static void open_client(load *l, const char *uri)
{
    hirate_loop loop;
    hirate_options options;
    hirate_options_init(&options);
    options.uri = uri;
    options.deadline_ms = 600000; /* it may run under valgrind */
    options.stall_timeout_ms = 600000;
    if (hirate_epoll_new(&l->ep) != 0 || hirate_epoll(&loop, l->ep) != 0 || hirate_new(&l->h, &loop, &options) != 0)
        errx(1, "no client for %s", uri);
}

int main(int argc, char **argv)
{
    char policy[HIRATE_POLICY_SIZE];
    hirate_error error;
    load l = {.ep = NULL};
    if (argc != 6)
        errx(2, "usage: fixed_load URI LIMIT NAMES IN-FLIGHT COUNT");
    if (hirate_limit_parse(argv[2], &l.limit, policy, &error) != 0)
        errx(2, "%s", error.text);
    load_init(&l.count, argv[3], argv[4], argv[5]);

    open_client(&l, argv[1]);
    while (load_wants_another(&l.count))
        submit(&l);
    if (hirate_epoll_run(l.ep) != 0)
        err(1, "hirate_epoll_run");

    hirate_stats stats;
    hirate_stats_init(&stats);
    hirate_get_stats(l.h, &stats);
    load_print(&l.count, stats.calls);
    hirate_free(l.h);
    hirate_epoll_free(l.ep);
    return 0;
}
