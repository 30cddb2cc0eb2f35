/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client: what a caller calls: checks on the way in, the client's place in the loop, and when callbacks run (what they
 * are given: results.c).
 *
 * The loop enters a client in three places: its timer, its deferred call, and the link's descriptor (on_settled). Each
 * does its work on the layers below, then runs callbacks in deliver(), and nowhere else. So no callback runs inside a
 * call of the caller's, nor while the link or hiredis is on the stack, and a callback may do anything, also close. The
 * client is destroyed by leave(), the last thing each entry does.
 *
 * A turn of the loop ends with the deferred call. It flushes what the turn has submitted, so every delivery asks for
 * it.
 */
#include "check.h"
#include "clock.h"
#include "dispatch.h"
#include "error.h"
#include "options.h"
#include "results.h"
#include "submit.h"

#include <stdlib.h>
#include <string.h>

#define CALLBACKS_A_TURN 1024

struct hirate {
    hr_dispatch dispatch; /* first: the link's events get one pointer for both */
    hirate_loop loop;
    void *timer, *defer;
    int64_t armed_us; /* what the timer is set to; HR_CLOCK_FAR: nothing */
    bool deferred;    /* the deferred call is set */

    hirate_room_cb *on_room;
    hirate_resolve_fn *resolve;
    void *user;

    uint32_t turn_callbacks;
    bool delivering; /* a callback is on the stack */
    bool resolving;  /* options.resolve is on the stack, and the link below it */
    bool overloaded; /* a request was refused for want of room */
    bool closing;
    hirate_closed_cb *on_closed;
    void *closed_user;
    hirate_error last_error;
};

/* --------------------------------------------------------------------------------------------------- leaving -- */

static void destroy(hirate *h)
{
    hr_dispatch_free(&h->dispatch);
    if (h->timer)
        h->loop.timer_free(h->timer);
    if (h->defer)
        h->loop.defer_free(h->defer);
    free(h);
}

static int want_turn_end(hirate *h)
{
    if (h->deferred)
        return 0;
    int rc = h->loop.defer_set(h->defer);
    h->deferred = rc == 0;
    return rc;
}

static void arm(hirate *h)
{
    bool at_once = h->dispatch.requests.done || (h->closing && !h->dispatch.closing);
    int64_t due = at_once ? h->dispatch.now_us : hr_dispatch_due_us(&h->dispatch);
    if (due >= h->armed_us)
        return;
    int64_t delay = due <= h->dispatch.now_us ? 0 : due - h->dispatch.now_us;
    h->armed_us = h->loop.timer_set(h->timer, delay) ? HR_CLOCK_FAR : due;
    if (h->armed_us == HR_CLOCK_FAR)
        want_turn_end(h); /* and try again */
}

/* The end of each entry. `h` may be gone afterwards. */
static void leave(hirate *h)
{
    if (h->delivering)
        return; /* the loop was run inside a callback; the entry below goes on */
    if (!h->dispatch.closed || h->dispatch.requests.done) {
        arm(h);
        return;
    }
    hirate_closed_cb *on_closed = h->on_closed;
    void *user = h->closed_user;
    destroy(h);
    if (on_closed)
        on_closed(user);
}

/* ------------------------------------------------------------------------------------------------ delivering -- */

static void tell_room(hirate *h)
{
    uint32_t most = h->dispatch.requests.most;
    if (!h->overloaded || h->closing || h->dispatch.requests.pending > most - (most + 3) / 4)
        return;
    h->overloaded = false;
    if (h->on_room)
        h->on_room(h, h->user);
}

static void deliver(hirate *h, uint32_t most)
{
    hr_request *request;

    if (h->delivering)
        return;
    h->delivering = true;
    while (h->turn_callbacks < most && (request = hr_requests_next_done(&h->dispatch.requests)) != NULL) {
        if (!request->cb) {
            hr_result_drop(&h->dispatch, request);
            continue;
        }
        h->turn_callbacks++;
        hr_result_deliver(h, &h->dispatch, request);
    }
    tell_room(h);
    h->delivering = false;
}

/* ------------------------------------------------------------------------------------- where the loop comes in -- */

static void on_settled(void *arg)
{
    hirate *h = arg;
    h->dispatch.now_us = hr_clock_now_us();
    if (!h->closing)
        hr_dispatch_flush_full(&h->dispatch);
    deliver(h, CALLBACKS_A_TURN);
    want_turn_end(h);
    leave(h);
}

static void close_if_asked(hirate *h)
{
    if (h->closing && !h->dispatch.closed)
        hr_dispatch_close(&h->dispatch, true);
}

static void on_timer(void *arg)
{
    hirate *h = arg;
    h->armed_us = HR_CLOCK_FAR;
    h->dispatch.now_us = hr_clock_now_us();
    close_if_asked(h);
    hr_dispatch_tick(&h->dispatch);
    deliver(h, CALLBACKS_A_TURN);
    want_turn_end(h);
    leave(h);
}

static void on_defer(void *arg)
{
    hirate *h = arg;
    h->deferred = false;
    h->dispatch.now_us = hr_clock_now_us();
    close_if_asked(h);
    hr_dispatch_tick(&h->dispatch);
    hr_dispatch_flush(&h->dispatch);
    deliver(h, CALLBACKS_A_TURN);
    h->turn_callbacks = 0;
    leave(h);
}

static void on_wake(void *arg)
{
    want_turn_end(arg);
}

static int resolve_for_link(void *arg, const char *host, uint16_t port, hirate_resolution *resolution)
{
    hirate *h = arg;
    h->resolving = true;
    int rc = h->resolve(h->user, host, port, resolution);
    h->resolving = false;
    return rc;
}

/* ------------------------------------------------------------------------------------------- making a client -- */

static bool loop_ok(const hirate_loop *loop)
{
    return loop && loop->struct_size >= sizeof *loop && loop->version == HIRATE_LOOP_VERSION && loop->watch_new &&
           loop->watch_set && loop->watch_free && loop->timer_new && loop->timer_set && loop->timer_free &&
           loop->defer_new && loop->defer_set && loop->defer_free;
}

static int start(hirate *h, const hirate_options *options, hr_uri *uri)
{
    hr_link_config config = {
        .uri = *uri,
        .connect_timeout_us = options->connect_timeout_ms * 1000,
        .stall_timeout_us = options->stall_timeout_ms * 1000,
        .resolve = options->resolve ? resolve_for_link : NULL,
        .resolve_user = h,
    };
    int rc = hr_dispatch_init(&h->dispatch, options, &h->loop, &config, on_settled, on_wake, h);
    *uri = config.uri; /* empty once it was taken over */
    if (rc)
        return rc;
    h->timer = h->loop.timer_new(h->loop.data, on_timer, h);
    h->defer = h->loop.defer_new(h->loop.data, on_defer, h);
    if (!h->timer || !h->defer)
        return HIRATE_ELOOP;
    return want_turn_end(h); /* which connects */
}

int hirate_new(hirate **out, const hirate_loop *loop, const hirate_options *from)
{
    hirate_options options;
    hr_uri uri;

    if (!out || !loop_ok(loop))
        return HIRATE_EINVAL;
    int rc = hr_options_read(&options, &uri, from, NULL);
    if (rc)
        return rc;
    hirate *h = calloc(1, sizeof *h);
    rc = HIRATE_ENOMEM;
    if (h) {
        h->loop = *loop;
        h->armed_us = HR_CLOCK_FAR;
        h->on_room = options.on_room;
        h->resolve = options.resolve;
        h->user = options.user;
        rc = start(h, &options, &uri);
    }
    hr_uri_free(&uri);
    if (rc && h)
        destroy(h);
    if (!rc)
        *out = h;
    return rc;
}

/* ---------------------------------------------------------------------------------------------------- submitting -- */

static int check_request(const hirate_request *request, hirate_error *error)
{
    int rc = hr_check_request(request, error);
    if (rc)
        return rc;
    if (request->deadline_ms < 0 || request->deadline_ms > HR_DAY_MS)
        return hr_fail(error, HIRATE_EINVAL, "deadline_ms: %lld; accepted: 1 to %d milliseconds, or 0 for the client's",
                       (long long)request->deadline_ms, HR_DAY_MS);
    if (!request->cb)
        return hr_fail(error, HIRATE_EINVAL, "cb: is NULL; accepted: a function");
    return 0;
}

int hirate_submit(hirate *h, const hirate_request *request, uint64_t *id)
{
    hirate_request room;

    if (!h)
        return HIRATE_EINVAL;
    hirate_error *error = &h->last_error;
    if (h->closing)
        return hr_fail(error, HIRATE_ECLOSED, "the client is closing");
    int rc = check_request(request, error);
    if (rc)
        return rc;
    if (h->dispatch.requests.pending >= h->dispatch.requests.most) {
        h->overloaded = true;
        h->dispatch.stats.refused++;
        return hr_fail(error, HIRATE_EOVERLOAD, "max_pending: %u requests are pending; accepted: fewer",
                       (unsigned)h->dispatch.requests.most);
    }
    if (want_turn_end(h))
        return hr_fail(error, HIRATE_ELOOP, "the event loop refused a deferred call");
    request = hr_check_whole(request, &room);
    return hr_submit(&h->dispatch, request, id, error);
}

static hirate_request request_for(enum hirate_op op, const hirate_limit *limit, const void *name, size_t name_len)
{
    hirate_request request;
    hirate_request_init(&request);
    request.op = op;
    request.limit = limit;
    request.name = name;
    request.name_len = name_len;
    return request;
}

int hirate_acquire(hirate *h, const hirate_limit *limit, const void *name, size_t name_len, uint64_t cost,
                   hirate_cb *cb, void *user)
{
    hirate_request request = request_for(HIRATE_OP_ACQUIRE, limit, name, name_len);
    request.cost = cost;
    request.cb = cb;
    request.user = user;
    return hirate_submit(h, &request, NULL);
}

int hirate_peek(hirate *h, const hirate_limit *limit, const void *name, size_t name_len, uint64_t cost, hirate_cb *cb,
                void *user)
{
    hirate_request request = request_for(HIRATE_OP_PEEK, limit, name, name_len);
    request.cost = cost;
    request.cb = cb;
    request.user = user;
    return hirate_submit(h, &request, NULL);
}

int hirate_reset(hirate *h, const hirate_limit *limit, const void *name, size_t name_len, hirate_cb *cb, void *user)
{
    hirate_request request = request_for(HIRATE_OP_RESET, limit, name, name_len);
    request.cb = cb;
    request.user = user;
    return hirate_submit(h, &request, NULL);
}

static int submit_permit(hirate *h, enum hirate_op op, const char *permit, uint64_t amount, hirate_cb *cb, void *user)
{
    hirate_request request = request_for(op, NULL, NULL, 0);
    request.permit = permit;
    request.cost = amount;
    request.cb = cb;
    request.user = user;
    return hirate_submit(h, &request, NULL);
}

int hirate_release(hirate *h, const char *permit, hirate_cb *cb, void *user)
{
    return submit_permit(h, HIRATE_OP_RELEASE, permit, 0, cb, user);
}

int hirate_renew(hirate *h, const char *permit, hirate_cb *cb, void *user)
{
    return submit_permit(h, HIRATE_OP_RENEW, permit, 0, cb, user);
}

int hirate_commit(hirate *h, const char *permit, uint64_t amount, hirate_cb *cb, void *user)
{
    return submit_permit(h, HIRATE_OP_COMMIT, permit, amount, cb, user);
}

int hirate_refund(hirate *h, const char *permit, hirate_cb *cb, void *user)
{
    return submit_permit(h, HIRATE_OP_REFUND, permit, 0, cb, user);
}

int hirate_cancel(hirate *h, uint64_t id)
{
    if (!h)
        return HIRATE_EINVAL;
    if (h->closing)
        return hr_fail(&h->last_error, HIRATE_ENOENT,
                       "id: the client is closing, everything pending is being answered");
    if (want_turn_end(h))
        return hr_fail(&h->last_error, HIRATE_ELOOP, "the event loop refused a deferred call");
    if (hr_dispatch_cancel(&h->dispatch, id))
        return hr_fail(&h->last_error, HIRATE_ENOENT, "id: no pending request has it");
    return 0;
}

/* ---------------------------------------------------------------------------------------------------- closing -- */

int hirate_close(hirate *h, hirate_closed_cb *on_closed, void *user)
{
    if (!h)
        return HIRATE_EINVAL;
    if (h->closing)
        return hr_fail(&h->last_error, HIRATE_ECLOSED, "the client is closing already");
    if (want_turn_end(h))
        return hr_fail(&h->last_error, HIRATE_ELOOP, "the event loop refused a deferred call");
    h->closing = true;
    h->on_closed = on_closed;
    h->closed_user = user;
    return 0;
}

void hirate_free(hirate *h)
{
    if (!h)
        return;
    if (h->delivering || h->resolving) {
        want_turn_end(h); /* if the loop refuses, the entry under way arms the timer */
        h->closing = true;
        return;
    }
    h->closing = true;
    if (!h->dispatch.closed)
        hr_dispatch_close(&h->dispatch, false);
    h->turn_callbacks = 0;
    deliver(h, UINT32_MAX);
    leave(h);
}

const char *hirate_last_error(const hirate *h)
{
    return h ? h->last_error.text : "client: NULL";
}

/* As much of ours as the caller has room for. */
static void copy_out(void *to, uint32_t struct_size, const void *from, size_t size)
{
    memcpy(to, from, struct_size < size ? struct_size : size);
}

void hirate_get_stats(const hirate *h, hirate_stats *stats)
{
    if (!h || !stats)
        return;
    hirate_stats now = h->dispatch.stats;
    now.struct_size = stats->struct_size;
    now.version = HIRATE_STATS_VERSION;
    now.pending = h->dispatch.requests.pending - h->dispatch.own_pending;
    copy_out(stats, stats->struct_size, &now, sizeof now);
}

int hirate_get_policy_stats(const hirate *h, const char *policy, hirate_policy_stats *stats)
{
    if (!h || !policy || !stats)
        return HIRATE_EINVAL;
    const hr_counters *counters = hr_limits_counters(&h->dispatch.limits, policy);
    if (!counters)
        return HIRATE_ENOENT;
    hirate_policy_stats now = counters->stats;
    now.struct_size = stats->struct_size;
    now.version = HIRATE_POLICY_STATS_VERSION;
    now.waiting = now.submitted - counters->answered;
    copy_out(stats, stats->struct_size, &now, sizeof now);
    return 0;
}
