/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * args: the command line, checked.
 *
 * Error lines name the option and what is accepted. They repeat a wrong value only where it cannot be an URI, which
 * may hold a password.
 */
#include "args.h"

#include "say.h"

#include <stdlib.h>
#include <string.h>

enum {
    LIMITS = CLI_ONE_NAME | CLI_SIMULATE | CLI_BENCH, /* commands that take limits */
    ASKS = CLI_ONE_NAME | CLI_BENCH,                  /* those that may ask Redis about them */
    EVERY = CLI_CONNECTS | CLI_SIMULATE
};

#define MAX_NAMES UINT64_C(2147483648)
#define MAX_IN_FLIGHT UINT64_C(4194304) /* the library's largest max_pending */
#define MAX_RATE UINT64_C(100000000)

static const struct {
    cli_command command;
    const char *name;
} COMMANDS[] = {
    {CLI_ACQUIRE, "acquire"}, {CLI_PEEK, "peek"},         {CLI_RESET, "reset"},
    {CLI_RELEASE, "release"}, {CLI_RENEW, "renew"},       {CLI_COMMIT, "commit"},
    {CLI_REFUND, "refund"},   {CLI_SIMULATE, "simulate"}, {CLI_BENCH, "bench"},
};
enum { COMMAND_COUNT = sizeof COMMANDS / sizeof COMMANDS[0] };

cli_command cli_command_find(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(name, COMMANDS[i].name) == 0)
            return COMMANDS[i].command;
    return CLI_COMMAND_NONE;
}

const char *cli_command_name(cli_command command)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (COMMANDS[i].command == command)
            return COMMANDS[i].name;
    return "";
}

/* ---------------------------------------------------------------------------------------- one setter an option -- */

/* What it says is read once all is known: it may be a name in a limits file. */
static int set_limit(cli_args *args, const char *value)
{
    if (args->limit_count > 0 && args->command == CLI_RESET)
        return cli_fail(CLI_USAGE, "--limit: given twice; reset takes one limit, so reset one after the other");
    if (args->limit_count == HIRATE_PAIRS_MAX)
        return cli_fail(CLI_USAGE, "--limit: given more than %d times; at most %d limits a request", HIRATE_PAIRS_MAX,
                        HIRATE_PAIRS_MAX);
    args->specs[args->limit_count++] = value;
    return 0;
}

static int set_limits(cli_args *args, const char *value)
{
    args->limits_file = value;
    return 0;
}

static int set_cost(cli_args *args, const char *value)
{
    if (!cli_parse_u64(value, strlen(value), HIRATE_COST_MAX, &args->cost))
        return cli_fail(CLI_USAGE, "--cost %s: want a whole number 0 to 9007199254740991", value);
    return 0;
}

static int set_reserve(cli_args *args, const char *value)
{
    uint64_t us;
    if (!cli_parse_duration(value, &us) || us == 0 || us > UINT64_C(1) << 52)
        return cli_fail(CLI_USAGE, "--reserve %s: want a duration up to 52124d, such as 30s or 5m (us ms s m h d)",
                        value);
    args->hold_us = us;
    return 0;
}

static int set_redis(cli_args *args, const char *value)
{
    args->uri = value;
    args->uri_from = "--redis";
    return 0;
}

static int set_local(cli_args *args, const char *value)
{
    (void)value;
    args->local = true;
    return 0;
}

static int set_format(cli_args *args, const char *value)
{
    static const char *const names[] = {"text", "tsv", "json"};
    static const cli_format formats[] = {CLI_TEXT, CLI_TSV, CLI_JSON};
    cli_format missing = args->command == CLI_BENCH      ? CLI_TSV
                         : args->command == CLI_SIMULATE ? CLI_TEXT
                                                         : CLI_FORMAT_NONE;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(value, names[i]) == 0 && formats[i] != missing)
            args->format = formats[i];
    if (args->format == CLI_FORMAT_NONE)
        return cli_fail(CLI_USAGE, "--format %s: want %s", value,
                        missing == CLI_TSV    ? "text or json"
                        : missing == CLI_TEXT ? "tsv or json"
                                              : "text, tsv or json");
    return 0;
}

static int set_deadline(cli_args *args, const char *value)
{
    uint64_t us;
    if (!cli_parse_duration(value, &us) || us == 0 || us > (uint64_t)HIRATE_DAYS(1))
        return cli_fail(CLI_USAGE, "--deadline %s: want a duration up to 1d, such as 250ms or 2s (us ms s m h d)",
                        value);
    args->deadline_ms = (int64_t)((us + 999) / 1000);
    return 0;
}

static int set_loop(cli_args *args, const char *value)
{
    args->loop = cli_loop_find(value);
    if (args->loop == NULL)
        return cli_fail(CLI_USAGE, "--loop %s: built in: %s", value, cli_loop_names());
    return 0;
}

static int set_prefix(cli_args *args, const char *value)
{
    args->prefix = value;
    return 0;
}

static int set_name(cli_args *args, const char *value)
{
    if (args->who.count == HIRATE_PAIRS_MAX)
        return cli_fail(CLI_USAGE, "NAME: more than %d; want one for all limits, or one for each", HIRATE_PAIRS_MAX);
    args->who.names[args->who.count++] = (cli_name){value, strlen(value)};
    return 0;
}

static int set_whole(const char *option, const char *value, uint64_t max, uint64_t *out)
{
    if (!cli_parse_u64(value, strlen(value), max, out) || *out == 0)
        return cli_fail(CLI_USAGE, "%s %s: want a whole number 1 to %llu", option, value, (unsigned long long)max);
    return 0;
}

static int set_names(cli_args *args, const char *value)
{
    return set_whole("--names", value, MAX_NAMES, &args->names);
}

static int set_in_flight(cli_args *args, const char *value)
{
    return set_whole("--in-flight", value, MAX_IN_FLIGHT, &args->in_flight);
}

static int set_rate(cli_args *args, const char *value)
{
    return set_whole("--rate", value, MAX_RATE, &args->rate);
}

static int set_zipf(cli_args *args, const char *value)
{
    if (!cli_parse_decimal(value, 0, 10, &args->zipf))
        return cli_fail(CLI_USAGE, "--zipf %s: want a number 0 to 10, such as 0.99", value);
    return 0;
}

static int set_seconds(cli_args *args, const char *value)
{
    if (!cli_parse_decimal(value, 0.1, 86400, &args->seconds))
        return cli_fail(CLI_USAGE, "--seconds %s: want a number 0.1 to 86400", value);
    return 0;
}

typedef struct option {
    const char *name;
    unsigned commands; /* that take it */
    bool takes_value, repeats;
    int (*set)(cli_args *args, const char *value);
} option;

static const option OPTIONS[] = {
    {"--limit", LIMITS, true, true, set_limit},
    {"--limits", LIMITS, true, false, set_limits},
    {"--cost", ASKS, true, false, set_cost},
    {"--reserve", CLI_ACQUIRE, true, false, set_reserve},
    {"--redis", CLI_CONNECTS, true, false, set_redis},
    {"--local", ASKS, false, false, set_local},
    {"--format", EVERY, true, false, set_format},
    {"--deadline", CLI_CONNECTS, true, false, set_deadline},
    {"--loop", CLI_CONNECTS, true, false, set_loop},
    {"--prefix", ASKS, true, false, set_prefix},
    {"--name", CLI_ONE_NAME, true, true, set_name},
    {"--names", CLI_BENCH, true, false, set_names},
    {"--zipf", CLI_BENCH, true, false, set_zipf},
    {"--in-flight", CLI_BENCH, true, false, set_in_flight},
    {"--seconds", CLI_BENCH, true, false, set_seconds},
    {"--rate", CLI_BENCH, true, false, set_rate},
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof OPTIONS[0] };

/* ------------------------------------------------------------------------------------------------- reading them -- */

/* The options a command takes, for error lines. */
static void list_options(cli_command command, char *out, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        size_t len = strlen(OPTIONS[i].name);
        if ((OPTIONS[i].commands & command) == 0 || used + len + 2 > size)
            continue;
        memcpy(out + used, OPTIONS[i].name, len);
        out[used + len] = ' ';
        used += len + 1;
    }
    out[used > 0 ? used - 1 : 0] = '\0';
}

/* The option `text` names, up to its end or '='; OPTION_COUNT if there is none. */
static size_t find_option(cli_command command, const char *text, size_t len)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (strlen(OPTIONS[i].name) == len && memcmp(OPTIONS[i].name, text, len) == 0 &&
            (OPTIONS[i].commands & command) != 0)
            return i;
    return OPTION_COUNT;
}

/* Read the option at argv[*at], and its value there or in the next argument, to which *at then points. */
static int read_option(cli_args *args, int argc, char **argv, int *at)
{
    const char *text = argv[*at];
    size_t len = strcspn(text, "=");
    size_t found = find_option(args->command, text, len);
    if (found == OPTION_COUNT) {
        char accepted[256];
        list_options(args->command, accepted, sizeof accepted);
        return cli_fail(CLI_USAGE, "%.*s: no such option; %s takes %s --help (-- ends options)",
                        len > 40 ? 40 : (int)len, text, cli_command_name(args->command), accepted);
    }
    const option *o = &OPTIONS[found];
    if ((args->given & (UINT32_C(1) << found)) != 0 && !o->repeats)
        return cli_fail(CLI_USAGE, "%s: given twice; give it once", o->name);
    args->given |= UINT32_C(1) << found;

    const char *value = text[len] == '=' ? text + len + 1 : NULL;
    if (!o->takes_value && value != NULL)
        return cli_fail(CLI_USAGE, "%s: takes no value", o->name);
    if (o->takes_value && value == NULL && *at + 1 == argc)
        return cli_fail(CLI_USAGE, "%s: its value is missing", o->name);
    if (o->takes_value && value == NULL)
        value = argv[++*at];
    return o->set(args, value);
}

static int read_permit_operand(cli_args *args, const char *text)
{
    const char *command = cli_command_name(args->command);
    if (args->permits == NULL) {
        args->permits = text;
        return 0;
    }
    if (args->command != CLI_COMMIT)
        return cli_fail(CLI_USAGE, "%s: one PERMIT only, nothing after it; several are joined by ','", command);
    if (args->amount_text != NULL)
        return cli_fail(CLI_USAGE, "%s: one PERMIT and one AMOUNT only; several permits are joined by ','", command);
    if (!cli_parse_u64(text, strlen(text), HIRATE_COST_MAX, &args->amount))
        return cli_fail(CLI_USAGE, "AMOUNT %s: want a whole number 0 to 9007199254740991", text);
    args->amount_text = text;
    return 0;
}

/* What stands alone: NAME, `-`, FILE, or PERMIT and AMOUNT. */
static int read_operand(cli_args *args, const char *text)
{
    if ((args->command & CLI_PERMITS) != 0)
        return read_permit_operand(args, text);
    if (args->command == CLI_BENCH)
        return cli_fail(CLI_USAGE, "bench: takes options only; names are made up, see --names");
    if (args->command == CLI_SIMULATE) {
        if (args->file != NULL)
            return cli_fail(CLI_USAGE, "simulate: one FILE only");
        args->file = text;
        return 0;
    }
    if (*text == '\0')
        return cli_fail(CLI_USAGE, "NAME: empty; --name '' passes the empty name");
    if (strcmp(text, "-") != 0)
        return set_name(args, text);
    if (args->command != CLI_ACQUIRE)
        return cli_fail(CLI_USAGE, "NAME: %s does not read stdin; --name - passes the name -",
                        cli_command_name(args->command));
    args->from_stdin = true;
    return 0;
}

int cli_args_parse(cli_args *args, cli_command command, int argc, char **argv)
{
    *args = (cli_args){
        .command = command, .cost = 1, .deadline_ms = 1000, .loop = cli_loop_find(NULL), .names = 1, .seconds = 5};
    bool options_over = false;
    for (int i = 0; i < argc; i++) {
        const char *text = argv[i];
        bool option_like = !options_over && text[0] == '-' && text[1] != '\0';
        if (option_like && strcmp(text, "--") == 0) {
            options_over = true;
            continue;
        }
        if (option_like && (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0)) {
            args->help = true;
            return 0;
        }
        int rc = option_like ? read_option(args, argc, argv, &i) : read_operand(args, text);
        if (rc != 0)
            return rc;
    }
    return cli_args_check(args);
}

void cli_args_options(const cli_args *args, hirate_options *options)
{
    hirate_options_init(options);
    if (args->uri != NULL)
        options->uri = args->uri;
    if (args->prefix != NULL)
        options->prefix = args->prefix;
    options->deadline_ms = args->deadline_ms;
}
