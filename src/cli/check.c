/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * args: what was read from the command line, taken together: limits looked up and read, names against limits, the
 * client's options against the library's own check.
 */
#include "args.h"
#include "say.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ZIPF_NAMES_MOST = 50000000, /* their table takes 16 bytes each */
    PATH_SHOWN = 200            /* bytes of a path that an error line repeats */
};

/* ------------------------------------------------------------------------------------------------------ limits -- */

/* The names in a limits file, as many as fit. */
static void list_limits(const hirate_limits *limits, char *out, size_t size)
{
    static const char more[] = ", ...";
    const hirate_limit *limit;
    size_t used = 0;
    for (size_t i = 0; (limit = hirate_limits_at(limits, i)) != NULL; i++) {
        if (used + strlen(limit->policy) + 2 + sizeof more > size) {
            snprintf(out + used, size - used, "%s", more);
            return;
        }
        used += (size_t)snprintf(out + used, size - used, "%s%s", i > 0 ? ", " : "", limit->policy);
    }
    if (used == 0)
        snprintf(out, size, "no limit");
}

/* Limit i is one of the file's. */
static int take_limit(cli_args *args, size_t i, const hirate_limits *limits)
{
    const hirate_limit *found = hirate_limits_find(limits, args->specs[i]);
    if (found == NULL) {
        char names[600];
        list_limits(limits, names, sizeof names);
        return cli_fail(CLI_USAGE, "--limit %.64s: not in %.*s, which has %s", args->specs[i], PATH_SHOWN,
                        args->limits_file, names);
    }
    args->limits[i] = *found;
    memcpy(args->policies[i], found->policy, strlen(found->policy) + 1);
    args->limits[i].policy = args->policies[i];
    return 0;
}

/* What is wrong with SPEC i, and, of several, which it is: their fields have the same names. */
static int fail_spec(const cli_args *args, size_t i, bool word, const char *text)
{
    const char *hint = word ? "; a name alone is for --limits FILE" : "";
    if (args->limit_count == 1)
        return cli_fail(CLI_USAGE, "--limit: %s%s", text, hint);
    return cli_fail(CLI_USAGE, "--limit: %s%s (SPEC %zu of %zu)", text, hint, i + 1, args->limit_count);
}

/* With a limits file what holds no blank is a name in it; all else is a SPEC. `limits` NULL: there is no file. */
static int read_limit(cli_args *args, size_t i, const hirate_limits *limits)
{
    const char *spec = args->specs[i];
    bool word = *spec != '\0' && strpbrk(spec, " \t") == NULL;
    hirate_error error;
    if (limits != NULL && word)
        return take_limit(args, i, limits);
    if (hirate_limit_parse(spec, &args->limits[i], args->policies[i], &error) != 0)
        return fail_spec(args, i, word, error.text);
    return 0;
}

static int fail_no_limit(const cli_args *args, const hirate_limits *limits)
{
    char names[600];
    if (limits == NULL)
        return cli_fail(CLI_USAGE, "--limit is missing; such as --limit 'login token-bucket capacity=20 rate=1/3s'");
    list_limits(limits, names, sizeof names);
    return cli_fail(CLI_USAGE, "--limit is missing; %.*s has %s", PATH_SHOWN, args->limits_file, names);
}

static int read_limits(cli_args *args)
{
    hirate_limits *limits = NULL;
    hirate_error error;
    int rc = args->limits_file != NULL ? hirate_limits_load(&limits, args->limits_file, &error) : 0;
    if (rc != 0)
        return cli_fail(rc == HIRATE_EINVAL ? CLI_USAGE : CLI_NO_VERDICT, "--limits: %s", error.text);
    if (args->limit_count == 0)
        rc = fail_no_limit(args, limits);
    for (size_t i = 0; rc == 0 && i < args->limit_count; i++)
        rc = read_limit(args, i, limits);
    hirate_limits_free(limits);
    return rc;
}

static int check_reserve(const cli_args *args)
{
    for (size_t i = 0; i < args->limit_count; i++)
        if (args->limits[i].kind == HIRATE_KIND_QUOTA)
            return 0;
    return cli_fail(CLI_USAGE, "--reserve: no limit is a quota; only what a quota takes can be reserved");
}

/* ------------------------------------------------------------------------------------------------------- names -- */

static bool same_name(const cli_name *a, const cli_name *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->bytes, b->bytes, a->len) == 0);
}

size_t cli_args_clash(const cli_args *args, const cli_who *who)
{
    for (size_t i = 1; i < args->limit_count; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(args->policies[i], args->policies[j]) == 0 && same_name(cli_who_at(who, i), cli_who_at(who, j)))
                return i;
    return args->limit_count;
}

static int check_clash(const cli_args *args, const cli_who *who)
{
    size_t clash = cli_args_clash(args, who);
    if (clash == args->limit_count)
        return 0;
    return cli_fail(CLI_USAGE, "--limit: %s is named twice for the same NAME; once is enough", args->policies[clash]);
}

static int check_count(const cli_args *args)
{
    const char *command = cli_command_name(args->command);
    size_t limits = args->limit_count, names = args->who.count;
    if (names == 0)
        return cli_fail(CLI_USAGE, "%s: NAME is missing%s", command,
                        args->command == CLI_ACQUIRE ? "; - reads COST<TAB>NAME lines from stdin" : "");
    if (names == 1 || names == limits)
        return 0;
    if (limits == 1)
        return cli_fail(CLI_USAGE, "%s: one NAME only, given alone or with --name", command);
    return cli_fail(CLI_USAGE, "%s: %zu NAMEs for %zu limits; want one for all, or one for each in their order",
                    command, names, limits);
}

static int check_names(const cli_args *args)
{
    if (args->from_stdin && args->who.count > 0)
        return cli_fail(CLI_USAGE, "%s: one NAME only, or - for stdin, which names its own",
                        cli_command_name(args->command));
    if (args->from_stdin)
        return 0;
    int rc = check_count(args);
    for (size_t i = 0; rc == 0 && i < args->who.count; i++)
        if (args->who.names[i].len > HIRATE_NAME_MAX)
            rc = cli_fail(CLI_USAGE, "NAME: %zu bytes; at most %d are accepted", args->who.names[i].len,
                          HIRATE_NAME_MAX);
    return rc != 0 ? rc : check_clash(args, &args->who);
}

/* Whichever name comes, all limits are asked for it. */
static int check_bench(const cli_args *args)
{
    cli_who who = {.count = 1};
    if (args->zipf > 0 && args->names > ZIPF_NAMES_MOST)
        return cli_fail(CLI_USAGE, "--names %llu: with --zipf want at most %d", (unsigned long long)args->names,
                        ZIPF_NAMES_MOST);
    return check_clash(args, &who);
}

static int check_permits(const cli_args *args)
{
    const char *command = cli_command_name(args->command);
    if (args->permits == NULL)
        return cli_fail(CLI_USAGE, "%s: PERMIT is missing; it is the last column of an acquire's tsv row", command);
    if (args->command == CLI_COMMIT && args->amount_text == NULL)
        return cli_fail(CLI_USAGE, "commit: AMOUNT is missing; want a whole number 0 to 9007199254740991");
    return 0;
}

/* ------------------------------------------------------------------------------------------------------ client -- */

/* The library names the field, and we the option that it came from. */
static int fail_option(const char *given, const char *field, const char *text)
{
    size_t len = strlen(field);
    return cli_fail(CLI_USAGE, "%s: %s", given, strncmp(text, field, len) == 0 ? text + len : text);
}

/* Each field against the library's own check, alone, so that the error names the option it came from. */
static int check_client(cli_args *args)
{
    hirate_options options;
    hirate_error error;
    hirate_options_init(&options);
    if (args->prefix != NULL) {
        options.prefix = args->prefix;
        if (hirate_options_check(&options, &error) != 0)
            return fail_option("--prefix", "prefix: ", error.text);
    }
    if (args->local)
        return args->uri != NULL ? cli_fail(CLI_USAGE, "--redis, --local: give one of them") : 0;
    const char *environment = getenv("HIRATE_REDIS");
    if (args->uri == NULL && environment != NULL && *environment != '\0') {
        args->uri = environment;
        args->uri_from = "HIRATE_REDIS";
    }
    if (args->uri == NULL)
        return 0;
    options.uri = args->uri;
    if (hirate_options_check(&options, &error) != 0)
        return fail_option(args->uri_from, "uri: ", error.text);
    return 0;
}

int cli_args_check(cli_args *args)
{
    int rc = (args->command & CLI_PERMITS) != 0 ? check_permits(args) : read_limits(args);
    if (rc == 0 && args->hold_us > 0)
        rc = check_reserve(args);
    if (rc == 0 && (args->command & CLI_ONE_NAME) != 0)
        rc = check_names(args);
    if (rc == 0 && args->command == CLI_BENCH)
        rc = check_bench(args);
    if (rc == 0 && (args->command & CLI_CONNECTS) != 0)
        rc = check_client(args);
    if (args->format == CLI_FORMAT_NONE)
        args->format = args->command == CLI_SIMULATE ? CLI_TSV : CLI_TEXT;
    return rc;
}
