/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * client: a loop and a hirate client on it, or the local engine, as the options ask for.
 */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "args.h"

typedef struct cli_client {
    const cli_loop *kind;
    void *base;
    hirate_loop loop;
    hirate *h;
} cli_client;

/* Make both. 0 or a negative HIRATE_E… code. *client is zeroed first; close it either way. */
int cli_client_open(cli_client *client, const cli_args *args, uint32_t max_pending);

/* Run the loop until cli_client_stop(). 0, or CLI_NO_VERDICT after an error line. */
int cli_client_run(cli_client *client);
void cli_client_stop(cli_client *client);

/* Free the hirate client alone, which answers what is still pending; for those whose handles on the loop such an
 * answer still uses. */
void cli_client_drop(cli_client *client);

/* Free the client, which answers what is still pending, and the loop. The handles on it must be freed before. */
void cli_client_close(cli_client *client);

/* A request under all of the limits, and what it points to: it stays where it was set up. */
typedef struct cli_request {
    hirate_request request;
    hirate_pair more[HIRATE_PAIRS_MAX - 1];
} cli_request;

/* The request the options describe, but for names, callback and user. */
void cli_request_init(cli_request *request, const cli_args *args, enum hirate_op op);

/* Ask for *who, whose names are not copied. */
void cli_request_name(cli_request *request, const cli_who *who);

/* What the commands do. Each returns the exit status. */
int cli_one(const cli_args *args);     /* acquire, peek, reset of one name */
int cli_stream(const cli_args *args);  /* acquire - */
int cli_permits(const cli_args *args); /* release, renew, commit, refund */
int cli_simulate(const cli_args *args);
int cli_bench(const cli_args *args);

#endif
