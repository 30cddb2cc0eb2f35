/* SPDX-License-Identifier: BSD-3-Clause */
/* one: acquire, peek and reset of one name. */
#include "client.h"
#include "say.h"

typedef struct one {
    const cli_args *args;
    cli_client client;
    int status;
} one;

/* Print the answer and note the exit status. */
static void show(one *o, const hirate_result *result, const char *reason)
{
    cli_row row = {o->args->format, true, o->args->name, o->args->name_len, result};
    o->status = cli_result_status(result);
    if (result->error != 0)
        cli_result_explain(&row, reason);
    if (o->args->command != CLI_RESET)
        cli_row_write(&row);
    else if (result->error == 0)
        cli_row_write_reset(&row);
    if (!cli_flush())
        o->status = CLI_NO_VERDICT;
}

static void on_answer(hirate *h, const hirate_result *result, void *user)
{
    (void)h;
    one *o = user;
    show(o, result, result->reason);
    cli_client_stop(&o->client);
}

static void show_refused(one *o, const hirate_request *request, int rc, const char *reason)
{
    hirate_result result;
    cli_result_refused(&result, request, rc);
    show(o, &result, reason);
}

static void ask_redis(one *o, hirate_request *request)
{
    int rc = cli_client_open(&o->client, o->args, 1);
    if (rc == 0) {
        request->cb = on_answer;
        request->user = o;
        rc = hirate_submit(o->client.h, request, NULL);
    }
    if (rc == 0)
        cli_client_run(&o->client);
    else
        show_refused(o, request, rc, o->client.h != NULL ? hirate_last_error(o->client.h) : NULL);
    /* Whatever stopped the loop early, closing answers what is pending. */
    cli_client_close(&o->client);
}

/* The bucket is this process's own, so it is always fresh; what is learnt is how the limit itself answers. */
static void ask_local(one *o, const hirate_request *request)
{
    hirate_local *local = NULL;
    hirate_result result;
    hirate_error error = {.text = ""};
    hirate_result_init(&result);
    int rc = hirate_local_new(&local, 1);
    if (rc == 0)
        rc = hirate_local_decide(local, request, cli_realtime_us(), &result, &error);
    if (rc == 0)
        show(o, &result, NULL);
    else
        show_refused(o, request, rc, error.text);
    hirate_local_free(local);
}

int cli_one(const cli_args *args)
{
    one o = {.args = args, .status = CLI_NO_VERDICT};
    hirate_request request;
    cli_request_init(&request, args,
                     args->command == CLI_PEEK    ? HIRATE_OP_PEEK
                     : args->command == CLI_RESET ? HIRATE_OP_RESET
                                                  : HIRATE_OP_ACQUIRE);
    if (args->local)
        ask_local(&o, &request);
    else
        ask_redis(&o, &request);
    return o.status;
}
