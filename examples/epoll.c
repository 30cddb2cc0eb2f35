/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Twenty-one logins of one name on hirate's own epoll loop: twenty pass, the last is denied.
 *
 *     cc epoll.c $(pkg-config --cflags --libs hirate) -o logins && ./logins redis://127.0.0.1:6379
 */
#include <hirate/adapters/epoll.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const hirate_limit LOGINS = HIRATE_TOKEN_BUCKET("login", 20, HIRATE_RATE(1, HIRATE_SECONDS(3)));

struct logins {
    hirate *h;
    hirate_epoll_loop *ep;
    int submitted, answered, failed;
};

/* The client is gone. */
static void on_closed(void *user)
{
    struct logins *logins = user;

    logins->h = NULL;
    hirate_epoll_stop(logins->ep);
}

/* Answers for one name come in the order in which they were asked for. */
static void on_login(hirate *h, const hirate_result *result, void *user)
{
    struct logins *logins = user;
    int n = ++logins->answered;

    if (result->verdict == HIRATE_ALLOWED) {
        printf("login %d: allowed, %" PRIu64 " left\n", n, result->remaining);
    } else if (result->verdict == HIRATE_DENIED) {
        printf("login %d: denied, retry after %" PRId64 " ms\n", n, result->retry_after_ms);
    } else {
        fprintf(stderr, "login %d: no verdict: %s\n", n, result->reason);
        logins->failed = 1;
    }
    if (n == logins->submitted && hirate_close(h, on_closed, logins) != 0)
        logins->failed = 1;
}

static int run(hirate_epoll_loop *ep, const hirate_options *options)
{
    struct logins logins = {NULL, ep, 0, 0, 0};
    hirate_loop loop;
    int rc = hirate_epoll(&loop, ep);

    if (rc == 0)
        rc = hirate_new(&logins.h, &loop, options);
    while (rc == 0 && logins.submitted < 21) {
        rc = hirate_acquire(logins.h, &LOGINS, "alice", 5, 1, on_login, &logins);
        logins.submitted += rc == 0;
    }
    if (rc == 0 && hirate_epoll_run(ep) != 0)
        rc = HIRATE_ELOOP;
    if (rc != 0)
        fprintf(stderr, "%s\n", hirate_strerror(rc));
    hirate_free(logins.h); /* NULL once it is closed */
    return rc != 0 || logins.failed || logins.answered != logins.submitted;
}

int main(int argc, char **argv)
{
    const char *uri = argc > 1 ? argv[1] : getenv("HIRATE_REDIS");
    hirate_options options;
    hirate_error error;
    hirate_epoll_loop *ep = NULL;
    int status;

    hirate_options_init(&options);
    if (uri != NULL)
        options.uri = uri;
    if (hirate_options_check(&options, &error) != 0) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    if (hirate_epoll_new(&ep) != 0) {
        fprintf(stderr, "cannot make an event loop\n");
        return 1;
    }
    status = run(ep, &options);
    hirate_epoll_free(ep);
    return status;
}
