/* SPDX-License-Identifier: BSD-3-Clause */
/* client: a loop and a hirate client on it, or the local engine, as the options ask for. */
#include "client.h"

#include "say.h"

#include <string.h>

int cli_client_open(cli_client *client, const cli_args *args, uint32_t max_pending)
{
    memset(client, 0, sizeof *client);
    client->kind = args->loop;
    client->base = args->loop->open(&client->loop, args->rate > 0); /* --rate lives by its ticks */
    if (client->base == NULL)
        return HIRATE_ELOOP;
    hirate_options options;
    cli_args_options(args, &options);
    options.max_pending = max_pending;
    return hirate_new(&client->h, &client->loop, &options);
}

int cli_client_run(cli_client *client)
{
    if (client->kind->run(client->base) == 0)
        return 0;
    return cli_fail(CLI_NO_VERDICT, "--loop %s: the event loop failed", client->kind->name);
}

void cli_client_stop(cli_client *client)
{
    client->kind->stop(client->base);
}

void cli_client_drop(cli_client *client)
{
    hirate_free(client->h);
    client->h = NULL;
}

void cli_client_close(cli_client *client)
{
    cli_client_drop(client);
    if (client->base != NULL)
        client->kind->close(client->base);
    memset(client, 0, sizeof *client);
}

void cli_request_init(cli_request *request, const cli_args *args, enum hirate_op op)
{
    hirate_request_init(&request->request);
    request->request.op = op;
    request->request.cost = args->cost;
    request->request.limit = &args->limits[0];
    request->request.hold_us = args->hold_us;
    if (args->limit_count > 1) {
        request->request.more = request->more;
        request->request.more_count = args->limit_count - 1;
    }
    for (size_t i = 1; i < args->limit_count; i++)
        request->more[i - 1] = (hirate_pair){.limit = &args->limits[i]};
}

void cli_request_name(cli_request *request, const cli_who *who)
{
    request->request.name = who->names[0].bytes;
    request->request.name_len = who->names[0].len;
    for (size_t i = 0; i < request->request.more_count; i++) {
        const cli_name *name = cli_who_at(who, i + 1);
        request->more[i].name = name->bytes;
        request->more[i].name_len = name->len;
    }
}
