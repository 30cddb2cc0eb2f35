/* SPDX-License-Identifier: BSD-3-Clause */
/* one: acquire, peek and reset, once. */
#include "client.h"
#include "row.h"
#include "say.h"

#include <stdlib.h>

typedef struct one {
    const cli_args *args;
    cli_client client;
    cli_request request;
    cli_answer answer;
    int status;
} one;

/* Print the answer that is kept, and note the exit status. */
static void show(one *o)
{
    cli_row row = {o->args, &o->args->who, &o->answer};
    o->status = cli_answer_status(&o->answer);
    if (o->answer.result.error != 0)
        cli_row_explain(&row, 0);
    if (o->args->command != CLI_RESET)
        cli_row_write(&row);
    else if (o->answer.result.error == 0)
        cli_row_write_reset(&row);
    if (!cli_flush())
        o->status = CLI_NO_VERDICT;
}

static void on_answer(hirate *h, const hirate_result *result, void *user)
{
    (void)h;
    one *o = user;
    cli_answer_keep(&o->answer, o->args, result, result->reason);
    show(o);
    cli_client_stop(&o->client);
}

/* What a request was refused for at once: wrong usage, or no verdict like any other. */
static void show_refused(one *o, int rc, const char *reason)
{
    if (rc == HIRATE_EINVAL) {
        o->status = cli_fail(CLI_USAGE, "%s", reason != NULL && *reason != '\0' ? reason : hirate_strerror(rc));
        return;
    }
    cli_answer_refuse(&o->answer, o->args, &o->request.request, rc, reason);
    show(o);
}

static void ask_redis(one *o)
{
    int rc = cli_client_open(&o->client, o->args, 1);
    if (rc == 0) {
        o->request.request.cb = on_answer;
        o->request.request.user = o;
        rc = hirate_submit(o->client.h, &o->request.request, NULL);
    }
    if (rc == 0)
        cli_client_run(&o->client);
    else
        show_refused(o, rc, o->client.h != NULL ? hirate_last_error(o->client.h) : NULL);
    /* Whatever stopped the loop early, closing answers what is pending. */
    cli_client_close(&o->client);
}

/* The state is this process's own, so it is always fresh; what is learnt is how the limits themselves answer. */
static void ask_local(one *o)
{
    hirate_local *local = NULL;
    hirate_result result;
    hirate_error error = {.text = ""};
    hirate_result_init(&result);
    int rc = hirate_local_new(&local, o->args->limit_count);
    if (rc == 0)
        rc = hirate_local_decide(local, &o->request.request, cli_realtime_us(), &result, &error);
    if (rc == 0) {
        cli_answer_keep(&o->answer, o->args, &result, NULL);
        show(o);
    } else {
        show_refused(o, rc, error.text);
    }
    hirate_local_free(local);
}

int cli_one(const cli_args *args)
{
    one o = {.args = args, .status = CLI_NO_VERDICT};
    size_t room = cli_answer_room(args);
    char *permits = malloc(room);
    if (permits == NULL)
        return cli_fail(CLI_NO_VERDICT, "%s", hirate_strerror(HIRATE_ENOMEM));
    cli_answer_init(&o.answer, permits, room);
    cli_request_init(&o.request, args,
                     args->command == CLI_PEEK    ? HIRATE_OP_PEEK
                     : args->command == CLI_RESET ? HIRATE_OP_RESET
                                                  : HIRATE_OP_ACQUIRE);
    cli_request_name(&o.request, &args->who);
    if (args->local)
        ask_local(&o);
    else
        ask_redis(&o);
    free(permits);
    return o.status;
}
