/* SPDX-License-Identifier: BSD-3-Clause */
/* row: one answer as one line on stdout, in the form asked for. */
#include "row.h"

#include "escape.h"
#include "say.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    NAMES_TEXT = HIRATE_PAIRS_MAX * (6 * HIRATE_NAME_MAX + 1), /* names at six bytes for each of theirs */
    POLICIES_TEXT = HIRATE_PAIRS_MAX * HIRATE_POLICY_SIZE,
    PERMITS_TEXT = HIRATE_PAIRS_MAX * HIRATE_PERMIT_SIZE,
    REST_TEXT = 2048 /* the rest of a row several times over */
};

/* Rows are written by hand, as simulate writes millions and printf() would be most of its time. One at a time, as it is
 * too large for the stack. */
typedef struct line {
    size_t len;
    char text[NAMES_TEXT + 2 * POLICIES_TEXT + PERMITS_TEXT + REST_TEXT];
} line;

static line *begin(void)
{
    static line one;
    one.len = 0;
    return &one;
}

static void put(line *l, const char *text)
{
    size_t len = strlen(text);
    memcpy(l->text + l->len, text, len);
    l->len += len;
}

static void put_u64(line *l, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    memcpy(l->text + l->len, digits + at, sizeof digits - at);
    l->len += sizeof digits - at;
}

static void put_i64(line *l, int64_t value)
{
    if (value < 0)
        put(l, "-");
    put_u64(l, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

/* Several names as tsv writes them; `out` has 4 bytes for each of theirs, and one for each name. */
static size_t join_names(char *out, const cli_who *who)
{
    size_t len = 0;
    for (size_t i = 0; i < who->count; i++) {
        if (i > 0)
            out[len++] = ',';
        len += cli_escape_item(out + len, who->names[i].bytes, who->names[i].len);
    }
    return len;
}

static void put_who(line *l, const cli_row *row)
{
    static char joined[HIRATE_PAIRS_MAX * (4 * HIRATE_NAME_MAX + 1)];
    const cli_who *who = row->who;
    char *to = l->text + l->len;
    bool json = row->args->format == CLI_JSON;
    if (who->count == 1)
        l->len += json ? cli_escape_json(to, who->names[0].bytes, who->names[0].len)
                       : cli_escape_row(to, who->names[0].bytes, who->names[0].len);
    else if (json)
        l->len += cli_escape_json(to, joined, join_names(joined, who));
    else
        l->len += join_names(to, who);
}

/* The policies of the limits in `mask`, joined by ','. */
static void put_policies(line *l, const cli_args *args, uint32_t mask)
{
    const char *between = "";
    for (size_t i = 0; i < args->limit_count; i++) {
        if ((mask & UINT32_C(1) << i) == 0)
            continue;
        put(l, between);
        put(l, args->policies[i]);
        between = ",";
    }
}

#define ALL_LIMITS UINT32_MAX

static void write_out(line *l)
{
    put(l, "\n");
    fwrite(l->text, 1, l->len, stdout);
}

static void put_unknown(line *l, const cli_row *row)
{
    put(l, row->args->format == CLI_JSON ? "null" : "-");
}

/* A number that is known only with a verdict. */
static void put_known(line *l, const cli_row *row, int64_t value)
{
    if (row->answer->result.error != 0)
        put_unknown(l, row);
    else if (value == HIRATE_NEVER)
        put(l, row->args->format == CLI_JSON ? "\"never\"" : "never");
    else
        put_i64(l, value);
}

/* simulate knows who decided. */
static bool tells_source(const cli_row *row)
{
    return row->args->command != CLI_SIMULATE;
}

static void put_time(line *l, const cli_row *row)
{
    /* 0 is "unknown" from a client, and a time like any other from simulate. */
    if (row->answer->result.time_us == 0 && tells_source(row))
        put_unknown(l, row);
    else
        put_i64(l, row->answer->result.time_us);
}

/* A column of text that needs no escapes, in quotes in JSON. */
static void put_word(line *l, const cli_row *row, const char *word)
{
    const char *quote = row->args->format == CLI_JSON ? "\"" : "";
    put(l, quote);
    put(l, word);
    put(l, quote);
}

static void put_bound(line *l, const cli_row *row)
{
    const hirate_result *r = &row->answer->result;
    if (r->error != 0 || r->policy == NULL)
        put_unknown(l, row);
    else
        put_word(l, row, r->policy);
}

static void put_shadows(line *l, const cli_row *row)
{
    const char *quote = row->args->format == CLI_JSON ? "\"" : "";
    if (row->answer->shadows == 0) {
        put_unknown(l, row);
        return;
    }
    put(l, quote);
    put_policies(l, row->args, row->answer->shadows);
    put(l, quote);
}

static void put_permits(line *l, const cli_row *row)
{
    if (row->answer->permits[0] == '\0')
        put_unknown(l, row);
    else
        put_word(l, row, row->answer->permits);
}

static void write_tsv(line *l, const cli_row *row)
{
    const hirate_result *r = &row->answer->result;
    put_time(l, row);
    put(l, "\t");
    put_u64(l, r->cost);
    put(l, "\t");
    put_who(l, row);
    put(l, "\t");
    put(l, hirate_verdict_name(r->verdict));
    const int64_t numbers[] = {(int64_t)r->remaining, r->retry_after_ms, r->reset_ms, r->delay_ms};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        put(l, "\t");
        put_known(l, row, numbers[i]);
    }
    if (!tells_source(row))
        return;
    put(l, "\t");
    put(l, hirate_source_name(r->source));
    put(l, "\t");
    put(l, hirate_charge_name(r->charge));
    put(l, "\t");
    put_bound(l, row);
    put(l, "\t");
    put_shadows(l, row);
    put(l, "\t");
    put_permits(l, row);
}

static void write_json_source(line *l, const cli_row *row)
{
    put(l, ",\"source\":\"");
    put(l, hirate_source_name(row->answer->result.source));
    put(l, "\",\"charge\":\"");
    put(l, hirate_charge_name(row->answer->result.charge));
    put(l, "\",\"bound\":");
    put_bound(l, row);
    put(l, ",\"shadow-denied\":");
    put_shadows(l, row);
    put(l, ",\"permit\":");
    put_permits(l, row);
}

static void write_json(line *l, const cli_row *row)
{
    const hirate_result *r = &row->answer->result;
    put(l, "{\"time_us\":");
    put_time(l, row);
    put(l, ",\"cost\":");
    put_u64(l, r->cost);
    put(l, ",\"name\":\"");
    put_who(l, row);
    put(l, "\",\"verdict\":\"");
    put(l, hirate_verdict_name(r->verdict));
    put(l, "\",\"remaining\":");
    put_known(l, row, (int64_t)r->remaining);
    put(l, ",\"retry_after_ms\":");
    put_known(l, row, r->retry_after_ms);
    put(l, ",\"reset_ms\":");
    put_known(l, row, r->reset_ms);
    put(l, ",\"delay_ms\":");
    put_known(l, row, r->delay_ms);
    if (tells_source(row))
        write_json_source(l, row);
    put(l, "}");
}

/* `250 ms`, `3 s`, `1.429 s`: exact, and no unit above the second, so that it compares at a glance. */
static void put_duration(line *l, int64_t ms)
{
    if (ms < 1000) {
        put_i64(l, ms);
        put(l, " ms");
        return;
    }
    put_i64(l, ms / 1000);
    char fraction[8];
    snprintf(fraction, sizeof fraction, ".%03d", (int)(ms % 1000));
    for (size_t end = strlen(fraction); end > 0 && (fraction[end - 1] == '0' || fraction[end - 1] == '.'); end--)
        fraction[end - 1] = '\0';
    put(l, fraction);
    put(l, " s");
}

/* Decided without a look at any state? */
static bool knows_nothing(const hirate_result *r)
{
    return r->cause != 0 && r->source != HIRATE_SOURCE_LOCAL;
}

/* What is to be waited for. */
static void put_waits(line *l, const hirate_result *r)
{
    bool without = knows_nothing(r);
    if (r->verdict == HIRATE_DENIED && r->retry_after_ms == HIRATE_NEVER) {
        put(l, without ? "never: the cost is above the limit, " : ", never: the cost is above the limit");
    } else if (r->verdict == HIRATE_DENIED) {
        put(l, without ? "retry after " : ", retry after ");
        put_duration(l, r->retry_after_ms);
        put(l, without ? ", " : "");
    }
    if (r->delay_ms > 0) {
        put(l, ", go on after ");
        put_duration(l, r->delay_ms);
    }
    if (without)
        return;
    if (r->reset_ms == 0) {
        put(l, ", full");
    } else {
        put(l, ", full again in ");
        put_duration(l, r->reset_ms);
    }
}

/* What only some answers have: which limit bound, where there are several, shadows that denied, permits. */
static void put_extras(line *l, const cli_row *row)
{
    const cli_answer *a = row->answer;
    if (row->args->limit_count > 1 && a->result.policy != NULL && !knows_nothing(&a->result)) {
        put(l, ", bound by ");
        put(l, a->result.policy);
    }
    if (a->shadows != 0) {
        put(l, (a->shadows & (a->shadows - 1)) == 0 ? ", the shadow " : ", the shadows ");
        put_policies(l, row->args, a->shadows);
        put(l, " would deny");
    }
    if (a->permits[0] != '\0') {
        put(l, strchr(a->permits, ',') == NULL ? ", permit " : ", permits ");
        put(l, a->permits);
    }
}

static void write_text(line *l, const cli_row *row)
{
    const hirate_result *r = &row->answer->result;
    put(l, hirate_verdict_name(r->verdict));
    put(l, " ");
    put_policies(l, row->args, ALL_LIMITS);
    put(l, " ");
    put_who(l, row);
    put(l, ": ");
    if (r->error != 0) {
        put(l, r->charge == HIRATE_CHARGE_MAYBE ? "no verdict, may have been charged" : "no verdict, not charged");
        return;
    }
    if (!knows_nothing(r)) {
        put_u64(l, r->remaining);
        put(l, " left");
    }
    put_waits(l, r);
    if (r->source == HIRATE_SOURCE_CACHE)
        put(l, ", as remembered");
    if (r->cause != 0) {
        put(l, r->source == HIRATE_SOURCE_LOCAL ? ", without Redis (" : "without Redis (");
        put(l, hirate_source_name(r->source));
        put(l, "): ");
        put(l, row->answer->reason);
    }
    put_extras(l, row);
}

void cli_row_write(const cli_row *row)
{
    line *l = begin();
    if (row->args->format == CLI_TSV)
        write_tsv(l, row);
    else if (row->args->format == CLI_JSON)
        write_json(l, row);
    else
        write_text(l, row);
    write_out(l);
}

void cli_row_write_reset(const cli_row *row)
{
    line *l = begin();
    const char *used = row->answer->result.used != 0 ? "used" : "unused";
    if (row->args->format != CLI_JSON) {
        put(l, used);
    } else {
        put(l, "{\"name\":\"");
        put_who(l, row);
        put(l, "\",\"result\":\"");
        put(l, used);
        put(l, "\"}");
    }
    write_out(l);
}

void cli_row_explain(const cli_row *row, uint64_t number)
{
    /* The reason first: a long name must not push it off the line. */
    line *l = begin();
    put(l, row->args->command == CLI_RESET ? "reset: " : "no verdict: ");
    put(l, row->answer->reason);
    put(l, " (");
    put_policies(l, row->args, ALL_LIMITS);
    put(l, " ");
    put_who(l, row);
    put(l, ")");
    if (number > 0)
        cli_complain("line %" PRIu64 ": %.*s", number, (int)l->len, l->text);
    else
        cli_fail(CLI_NO_VERDICT, "%.*s", (int)l->len, l->text);
}
