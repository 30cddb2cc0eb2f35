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

void cli_request_init(hirate_request *request, const cli_args *args, enum hirate_op op)
{
    hirate_request_init(request);
    request->op = op;
    request->limit = &args->limit;
    request->name = args->name;
    request->name_len = args->name_len;
    request->cost = args->cost;
}
