/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * permits: release, renew, commit and refund.
 *
 * Each permit is a request of its own; they are submitted together, and printed in their order once all are answered.
 * Where one of them cannot be read nothing is done at all: what was submitted before it still waits for the loop to
 * run, and is dropped.
 */
#include "client.h"
#include "say.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PERMITS_MOST = 1024 };

struct permits;

typedef struct answer {
    struct permits *permits;
    const char *word; /* what became of it; "error" until it is answered */
    int error;
    bool ended;
    enum hirate_charge charge;
    uint64_t remaining;
    int64_t reset_ms;
    char policy[HIRATE_POLICY_SIZE];
    char reason[HIRATE_REASON_MAX + 1];
} answer;

typedef struct permits {
    const cli_args *args;
    cli_client client;
    bool dropping; /* what is answered now was never done */
    size_t count, pending;
    answer *answers;
} permits;

/* -------------------------------------------------------------------------------------------------- answering -- */

static bool has_ended(const hirate_result *result)
{
    switch (result->op) {
    case HIRATE_OP_RENEW:
        return result->verdict != HIRATE_ALLOWED;
    case HIRATE_OP_COMMIT:
        return false;
    default:
        return result->used == 0;
    }
}

static const char *word_of(const hirate_result *result)
{
    if (has_ended(result))
        return "ended";
    switch (result->op) {
    case HIRATE_OP_RELEASE:
        return "released";
    case HIRATE_OP_RENEW:
        return "renewed";
    case HIRATE_OP_COMMIT:
        return result->late ? "late" : "committed";
    default:
        return "refunded";
    }
}

static void keep(answer *a, const hirate_result *result)
{
    a->error = result->error;
    a->charge = result->charge;
    a->remaining = result->remaining;
    a->reset_ms = result->reset_ms;
    a->ended = result->error == 0 && has_ended(result);
    a->word = result->error == 0 ? word_of(result) : "error";
    snprintf(a->policy, sizeof a->policy, "%s", result->policy != NULL ? result->policy : "");
    snprintf(a->reason, sizeof a->reason, "%s",
             *result->reason != '\0' ? result->reason : hirate_strerror(result->error));
}

static void on_answer(hirate *h, const hirate_result *result, void *user)
{
    (void)h;
    answer *a = user;
    permits *p = a->permits;
    if (p->dropping)
        return;
    keep(a, result);
    if (--p->pending == 0)
        cli_client_stop(&p->client);
}

/* --------------------------------------------------------------------------------------------------- printing -- */

static void print_tsv(const answer *a)
{
    if (a->error != 0)
        printf("%s\t-\t-\n", a->word);
    else
        printf("%s\t%" PRIu64 "\t%" PRId64 "\n", a->word, a->remaining, a->reset_ms);
}

static void print_json(const answer *a, cli_command command)
{
    printf("{\"op\":\"%s\",\"result\":\"%s\",", cli_command_name(command), a->word);
    if (a->error != 0)
        printf("\"remaining\":null,\"reset_ms\":null,");
    else
        printf("\"remaining\":%" PRIu64 ",\"reset_ms\":%" PRId64 ",", a->remaining, a->reset_ms);
    if (a->policy[0] != '\0')
        printf("\"policy\":\"%s\",", a->policy);
    else
        printf("\"policy\":null,");
    printf("\"charge\":\"%s\"}\n", hirate_charge_name(a->charge));
}

static void print(const permits *p, const answer *a)
{
    if (p->args->format == CLI_JSON)
        print_json(a, p->args->command);
    else if (p->args->format == CLI_TSV)
        print_tsv(a);
    else
        printf("%s\n", a->word);
}

/* Which of them, for error lines. */
static const char *place(const permits *p, size_t i, char text[64])
{
    text[0] = '\0';
    if (p->count > 1)
        snprintf(text, 64, " (PERMIT %zu of %zu)", i + 1, p->count);
    return text;
}

/* Print all, say what failed, and tell the worst exit status. */
static int show(const permits *p)
{
    int status = CLI_ALLOWED;
    for (size_t i = 0; i < p->count; i++) {
        const answer *a = &p->answers[i];
        int own = a->error != 0 ? CLI_NO_VERDICT : a->ended ? CLI_DENIED : CLI_ALLOWED;
        char where[64];
        print(p, a);
        if (a->error != 0)
            cli_fail(CLI_NO_VERDICT, "%s: %s%s", cli_command_name(p->args->command), a->reason, place(p, i, where));
        status = own > status ? own : status;
    }
    return cli_flush() ? status : CLI_NO_VERDICT;
}

/* ------------------------------------------------------------------------------------------------- submitting -- */

static enum hirate_op op_of(cli_command command)
{
    switch (command) {
    case CLI_RELEASE:
        return HIRATE_OP_RELEASE;
    case CLI_RENEW:
        return HIRATE_OP_RENEW;
    case CLI_COMMIT:
        return HIRATE_OP_COMMIT;
    default:
        return HIRATE_OP_REFUND;
    }
}

/* An acquire's row has - where nothing is held, and a script that cuts it out passes that on. */
static const char NONE[] =
    "permit: there is none, as with - in the row of an acquire that was denied or holds nothing; accepted: the whole "
    "text of a result's permit";

static bool is_none(const char *permit)
{
    return *permit == '\0' || strcmp(permit, "-") == 0;
}

/* Submit one. 0, also when it is answered with an error already, or CLI_USAGE after an error line. */
static int submit(permits *p, size_t i, const char *permit)
{
    answer *a = &p->answers[i];
    char where[64];
    hirate_request request;
    hirate_request_init(&request);
    request.op = op_of(p->args->command);
    request.permit = permit;
    request.cost = p->args->amount;
    request.cb = on_answer;
    request.user = a;
    a->error = hirate_submit(p->client.h, &request, NULL);
    if (a->error == 0) {
        p->pending++;
        return 0;
    }
    snprintf(a->reason, sizeof a->reason, "%s", hirate_last_error(p->client.h));
    if (a->error == HIRATE_EINVAL)
        return cli_fail(CLI_USAGE, "%s%s", is_none(permit) ? NONE : a->reason, place(p, i, where));
    return 0;
}

/* Submit all of `list`, which is cut apart, and wait for their answers. 0 or CLI_USAGE. */
static int ask(permits *p, char *list)
{
    int rc = cli_client_open(&p->client, p->args, PERMITS_MOST);
    for (size_t i = 0; rc != 0 && i < p->count; i++) {
        p->answers[i].error = rc;
        snprintf(p->answers[i].reason, sizeof p->answers[i].reason, "%s", hirate_strerror(rc));
    }
    if (rc != 0)
        return 0;
    for (size_t i = 0; rc == 0 && i < p->count; i++)
        rc = submit(p, i, strsep(&list, ","));
    p->dropping = rc != 0;
    if (rc == 0 && p->pending > 0)
        cli_client_run(&p->client);
    return rc;
}

int cli_permits(const cli_args *args)
{
    permits p = {.args = args, .count = 1};
    for (const char *c = args->permits; *c != '\0'; c++)
        p.count += *c == ',';
    if (p.count > PERMITS_MOST)
        return cli_fail(CLI_USAGE, "PERMIT: %zu of them; at most %d at a time", p.count, PERMITS_MOST);
    char *list = strdup(args->permits);
    p.answers = calloc(p.count, sizeof *p.answers);
    int rc = list == NULL || p.answers == NULL ? cli_fail(CLI_NO_VERDICT, "%s", hirate_strerror(HIRATE_ENOMEM)) : 0;
    for (size_t i = 0; rc == 0 && i < p.count; i++)
        p.answers[i] = (answer){.permits = &p, .word = "error"};
    if (rc == 0)
        rc = ask(&p, list);
    /* Whatever stopped the loop early, closing answers what is pending. */
    cli_client_close(&p.client);
    if (rc == 0)
        rc = show(&p);
    free(list);
    free(p.answers);
    return rc;
}
