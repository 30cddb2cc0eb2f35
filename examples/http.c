/* SPDX-License-Identifier: BSD-3-Clause */
/* A login guard, `http PORT REDIS-URI`: /login answers 200, 429 with Retry-After, or 503 when there is no verdict. */
#include <err.h>
#include <event2/event_struct.h>
#include <event2/http.h>
#include <hirate/adapters/libevent.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>

static const hirate_limit LOGINS = HIRATE_TOKEN_BUCKET("login", 20, HIRATE_RATE(1, HIRATE_SECONDS(3)));

static void on_admission(hirate *h, const hirate_result *result, void *attempt)
{
    struct evhttp_request *request = *(struct evhttp_request **)attempt;
    int status = result->verdict == HIRATE_ALLOWED ? 200 : result->verdict == HIRATE_DENIED ? 429 : 503;
    char seconds[24];

    (void)h;
    free(attempt);
    if (request == NULL)
        return;
    evhttp_connection_set_closecb(evhttp_request_get_connection(request), NULL, NULL);
    snprintf(seconds, sizeof seconds, "%lld", (long long)(result->retry_after_ms + 999) / 1000);
    if (status == 429 && evhttp_add_header(evhttp_request_get_output_headers(request), "Retry-After", seconds) != 0)
        status = 503;
    evhttp_send_reply(request, status, status == 429 ? "Too Many Requests" : NULL, NULL);
}

/* The HTTP client has gone and its request with it; on_admission comes all the same. */
static void on_gone(struct evhttp_connection *connection, void *attempt)
{
    (void)connection;
    *(struct evhttp_request **)attempt = NULL;
}

static void on_login(struct evhttp_request *request, void *h)
{
    struct evhttp_request **attempt = malloc(sizeof(struct evhttp_request *));
    ev_uint16_t port;
    char *peer;

    evhttp_connection_get_peer(evhttp_request_get_connection(request), &peer, &port);
    if (attempt != NULL && hirate_acquire(h, &LOGINS, peer, strlen(peer), 1, on_admission, attempt) == 0) {
        *attempt = request;
        evhttp_connection_set_closecb(evhttp_request_get_connection(request), on_gone, attempt);
    } else {
        free(attempt);
        evhttp_send_reply(request, 503, NULL, NULL);
    }
}

static void on_signal(evutil_socket_t number, short what, void *base)
{
    if (number > 0 && what == EV_SIGNAL && event_base_loopbreak(base) != 0)
        abort();
}

int main(int argc, char **argv)
{
    struct event_base *base = event_base_new();
    struct evhttp *http = base != NULL ? evhttp_new(base) : NULL;
    struct evhttp_bound_socket *bound;
    struct sockaddr_in at;
    socklen_t at_len = sizeof at;
    struct event stop[2];
    hirate_options options;
    hirate_loop loop;
    hirate *h;

    hirate_options_init(&options);
    options.uri = argc == 3 ? argv[2] : ""; /* which no client takes */
    if (http == NULL || hirate_libevent(&loop, base) != 0 || hirate_new(&h, &loop, &options) != 0)
        errx(1, "usage: http PORT REDIS-URI, as in: http 8080 redis://127.0.0.1:6379");
    bound = evhttp_bind_socket_with_handle(http, "127.0.0.1", (ev_uint16_t)strtoul(argv[1], NULL, 10));
    if (bound == NULL || getsockname(evhttp_bound_socket_get_fd(bound), (struct sockaddr *)&at, &at_len) != 0)
        err(1, "cannot listen on port %s", argv[1]);
    if (evhttp_set_cb(http, "/login", on_login, h) != 0 || signal(SIGPIPE, SIG_IGN) == SIG_ERR ||
        evsignal_assign(&stop[0], base, SIGTERM, on_signal, base) != 0 || evsignal_add(&stop[0], NULL) != 0 ||
        evsignal_assign(&stop[1], base, SIGINT, on_signal, base) != 0 || evsignal_add(&stop[1], NULL) != 0)
        errx(1, "cannot set up the server");
    if (printf("listening on 127.0.0.1:%d\n", ntohs(at.sin_port)) < 0 || fflush(stdout) != 0 ||
        event_base_dispatch(base) < 0)
        errx(1, "cannot serve");
    evhttp_free(http); /* hangs up first: then nobody is there for the answers that hirate_free() gives */
    hirate_free(h);
    event_base_free(base);
    return 0;
}
