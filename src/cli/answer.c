/* SPDX-License-Identifier: BSD-3-Clause */
/* answer: what a row shows of an answer, kept beyond its callback. */
#include "answer.h"

#include "say.h"

#include <stdio.h>
#include <string.h>

static bool may_hold(const cli_args *args, size_t i)
{
    return args->limits[i].kind == HIRATE_KIND_CONCURRENCY ||
           (args->limits[i].kind == HIRATE_KIND_QUOTA && args->hold_us > 0);
}

size_t cli_answer_room(const cli_args *args)
{
    size_t room = 1;
    for (size_t i = 0; i < args->limit_count; i++)
        room += may_hold(args, i) ? HIRATE_PERMIT_SIZE : 0; /* with its ',' */
    return room;
}

void cli_answer_init(cli_answer *answer, char *permits, size_t room)
{
    hirate_result_init(&answer->result);
    answer->shadows = 0;
    answer->reason[0] = '\0';
    answer->permits = permits;
    answer->room = room;
    permits[0] = '\0';
}

static void add_permit(cli_answer *answer, const char *permit)
{
    size_t used = strlen(answer->permits);
    if (*permit != '\0')
        snprintf(answer->permits + used, answer->room - used, "%s%s", used > 0 ? "," : "", permit);
}

/* The policy by this name in args, which outlives the answer. */
static const char *own_policy(const cli_args *args, const char *policy)
{
    for (size_t i = 0; policy != NULL && i < args->limit_count; i++)
        if (strcmp(args->policies[i], policy) == 0)
            return args->policies[i];
    return NULL;
}

void cli_answer_keep(cli_answer *answer, const cli_args *args, const hirate_result *result, const char *reason)
{
    if (reason == NULL || *reason == '\0')
        reason = result->error != 0 ? hirate_strerror(result->error) : "";
    answer->result = *result;
    answer->result.policy = own_policy(args, result->policy);
    answer->shadows = 0;
    snprintf(answer->reason, sizeof answer->reason, "%s", reason);
    answer->permits[0] = '\0';
    for (uint32_t i = 0; i < args->limit_count; i++) {
        const hirate_limit_result *one = hirate_result_limit(result, i);
        if (one == NULL)
            continue;
        if (one->shadow && one->verdict == HIRATE_DENIED)
            answer->shadows |= UINT32_C(1) << i;
        add_permit(answer, one->permit);
    }
}

void cli_answer_refuse(cli_answer *answer, const cli_args *args, const hirate_request *request, int error,
                       const char *reason)
{
    hirate_result result;
    hirate_result_init(&result);
    result.error = error;
    result.op = request->op;
    result.cost = request->cost;
    result.charge = HIRATE_CHARGE_NO;
    cli_answer_keep(answer, args, &result, reason);
}

int cli_answer_status(const cli_answer *answer)
{
    if (answer->result.error != 0)
        return CLI_NO_VERDICT;
    return answer->result.verdict == HIRATE_DENIED ? CLI_DENIED : CLI_ALLOWED;
}
