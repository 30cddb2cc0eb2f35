/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * several URI IN-FLIGHT SECONDS NAMES:SPEC...: acquires of 1 under all the limits in one request, IN-FLIGHT
 * outstanding, each answer submitting the next, for SECONDS. Ends with one JSON object.
 *
 * As a service has it: a user is drawn, of as many as the most NAMES, and each limit is asked for the user's number
 * modulo its own NAMES: the user's own limit, one that its tenant's users share, one that all share. (`hirate bench` asks
 * every limit for the same name.)
 */
#include "load.h"

#include <hirate/adapters/epoll.h>

typedef struct asked {
    hirate_limit limit;
    char policy[HIRATE_POLICY_SIZE];
    uint64_t names;
} asked;

typedef struct load {
    hirate_epoll_loop *ep;
    hirate *h;
    asked limits[HIRATE_PAIRS_MAX];
    hirate_request request;
    double seconds;
    load_count count;
} load;

static void submit(load *l)
{
    char names[HIRATE_PAIRS_MAX][HIRATE_NAME_INT_SIZE];
    hirate_pair more[HIRATE_PAIRS_MAX - 1];
    uint64_t user = load_next_name(&l->count);
    l->request.limit = &l->limits[0].limit;
    l->request.name = names[0];
    l->request.name_len = hirate_name_u64(names[0], user % l->limits[0].names);
    for (size_t i = 1; i <= l->request.more_count; i++) {
        size_t len = hirate_name_u64(names[i], user % l->limits[i].names);
        more[i - 1] = (hirate_pair){&l->limits[i].limit, names[i], len};
    }
    l->request.more = more;
    if (hirate_submit(l->h, &l->request, NULL) != 0)
        errx(1, "hirate_submit: %s", hirate_last_error(l->h));
}

static void on_answer(hirate *h, const hirate_result *result, void *user)
{
    load *l = user;
    (void)h;
    if (result->error != 0)
        errx(1, "%s: %s", hirate_strerror(result->error), result->reason);
    load_answered(&l->count, result->verdict == HIRATE_ALLOWED);
    if (load_clock() - l->count.begin_s >= l->seconds)
        l->count.total = l->count.submitted; /* wait for those in flight */
    if (load_wants_more(&l->count))
        submit(l);
    else if (load_is_done(&l->count))
        hirate_epoll_stop(l->ep);
}

static void add_limit(load *l, size_t i, const char *text)
{
    hirate_error error;
    char *spec;
    l->limits[i].names = strtoull(text, &spec, 10);
    if (l->limits[i].names == 0 || *spec != ':')
        errx(2, "%s: NAMES:SPEC, NAMES at least 1", text);
    if (hirate_limit_parse(spec + 1, &l->limits[i].limit, l->limits[i].policy, &error) != 0)
        errx(2, "%s", error.text);
    if (l->limits[i].names > l->count.names)
        l->count.names = l->limits[i].names;
}

static void open_client(load *l, const char *uri)
{
    hirate_loop loop;
    hirate_options options;
    hirate_options_init(&options);
    options.uri = uri;
    options.deadline_ms = 60000;
    if (hirate_epoll_new(&l->ep) != 0 || hirate_epoll(&loop, l->ep) != 0 || hirate_new(&l->h, &loop, &options) != 0)
        errx(1, "no client for %s", uri);
}

int main(int argc, char **argv)
{
    static load l;
    hirate_stats stats;
    if (argc < 5 || argc > 4 + HIRATE_PAIRS_MAX)
        errx(2, "usage: several URI IN-FLIGHT SECONDS NAMES:SPEC...");
    load_init(&l.count, "1", argv[2], "1");
    l.count.total = UINT64_MAX;
    l.seconds = strtod(argv[3], NULL);
    for (int i = 4; i < argc; i++)
        add_limit(&l, (size_t)i - 4, argv[i]);
    hirate_request_init(&l.request);
    l.request.more_count = (size_t)argc - 5;
    l.request.cb = on_answer;
    l.request.user = &l;

    open_client(&l, argv[1]);
    while (load_wants_another(&l.count))
        submit(&l);
    if (hirate_epoll_run(l.ep) != 0)
        err(1, "hirate_epoll_run");
    hirate_stats_init(&stats);
    hirate_get_stats(l.h, &stats);
    load_print(&l.count, stats.calls);
    hirate_free(l.h);
    hirate_epoll_free(l.ep);
    return 0;
}
