/* SPDX-License-Identifier: BSD-3-Clause */
/* `worker REDIS-URI NAME SECONDS`: at most two work for a NAME at once, wherever they run. Each takes a lease, renews it
 * every second and gives it back; that of one that dies ends by itself. Exit status: 0 done, 1 busy, 3 without a lease. */
#include <err.h>
#include <hirate/adapters/libevent.h>

static const hirate_limit WORKERS = HIRATE_CONCURRENCY("worker", 2, HIRATE_SECONDS(6));

struct worker {
    struct event_base *base;
    struct event *second;
    hirate *h;
    unsigned long to_do; /* seconds */
    char permit[HIRATE_PERMIT_SIZE];
    int unheard; /* renewals in a row without an answer */
    int status;
};

static void leave(struct worker *worker, int status, const char *why)
{
    warnx("%s", why);
    worker->status = status;
    event_base_loopbreak(worker->base);
}

/* Who cannot be sure of a lease has to stop. Three without an answer: of its six seconds at least one is left. */
static void on_renewed(hirate *h, const hirate_result *result, void *user)
{
    struct worker *worker = user;

    (void)h;
    worker->unheard = result->error != 0 ? worker->unheard + 1 : 0;
    if (result->verdict == HIRATE_DENIED || worker->unheard == 3)
        leave(worker, 3, "the lease has ended");
}

static void on_released(hirate *h, const hirate_result *result, void *worker)
{
    (void)h;
    leave(worker, result->used ? 0 : 3, result->used ? "done" : "done, but the lease had ended, or no answer came");
}

static void on_second(evutil_socket_t fd, short what, void *user)
{
    struct worker *worker = user;
    int rc = --worker->to_do > 0 ? hirate_renew(worker->h, worker->permit, on_renewed, worker)
                                 : hirate_release(worker->h, worker->permit, on_released, worker);

    (void)fd, (void)what;
    if (rc != 0 || (worker->to_do == 0 && event_del(worker->second) != 0))
        leave(worker, 3, hirate_last_error(worker->h));
}

/* The permit is copied, as the result is gone when this returns. The work would begin here. */
static void on_lease(hirate *h, const hirate_result *result, void *user)
{
    struct worker *worker = user;
    struct timeval second = {1, 0};
    int denied = result->verdict == HIRATE_DENIED;

    (void)h;
    strcpy(worker->permit, result->permit);
    if (result->verdict != HIRATE_ALLOWED || event_add(worker->second, &second) != 0)
        leave(worker, denied ? 1 : 3, denied ? "busy" : result->reason);
    else
        warnx("working");
}

int main(int argc, char **argv)
{
    struct worker worker = {.base = event_base_new(), .to_do = argc == 4 ? strtoul(argv[3], NULL, 10) : 0, .status = 3};
    hirate_options options;
    hirate_loop loop;

    hirate_options_init(&options);
    options.uri = argc == 4 ? argv[1] : ""; /* which no client takes */
    if (worker.to_do == 0 || worker.base == NULL || hirate_libevent(&loop, worker.base) != 0 ||
        hirate_new(&worker.h, &loop, &options) != 0)
        errx(2, "usage: worker REDIS-URI NAME SECONDS, as in: worker redis://127.0.0.1:6379 nightly 60");
    worker.second = event_new(worker.base, -1, EV_PERSIST, on_second, &worker);
    if (worker.second == NULL ||
        hirate_acquire(worker.h, &WORKERS, argv[2], strlen(argv[2]), 1, on_lease, &worker) != 0 ||
        event_base_dispatch(worker.base) < 0)
        errx(3, "cannot work: %s", hirate_last_error(worker.h));
    hirate_free(worker.h);
    event_free(worker.second);
    event_base_free(worker.base);
    return worker.status;
}
