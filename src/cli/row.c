/* SPDX-License-Identifier: BSD-3-Clause */
/* row: one answer as one line on stdout, in the form asked for. */
#include "row.h"

#include "escape.h"
#include "say.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A name at six bytes for each of its own, and the rest of a row several times over. Rows are written by hand, as
 * simulate writes millions and printf() would be most of its time. */
typedef struct line {
    char text[6 * HIRATE_NAME_MAX + 1024];
    size_t len;
} line;

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

static void put_name(line *l, const cli_row *row)
{
    l->len += row->format == CLI_JSON ? cli_escape_json(l->text + l->len, row->name, row->name_len)
                                      : cli_escape_row(l->text + l->len, row->name, row->name_len);
}

static void write_out(line *l)
{
    put(l, "\n");
    fwrite(l->text, 1, l->len, stdout);
}

/* A number that is known only with a verdict. */
static void put_known(line *l, const cli_row *row, int64_t value)
{
    if (row->result->error != 0)
        put(l, row->format == CLI_JSON ? "null" : "-");
    else if (value == HIRATE_NEVER)
        put(l, row->format == CLI_JSON ? "\"never\"" : "never");
    else
        put_i64(l, value);
}

static void put_time(line *l, const cli_row *row)
{
    /* 0 is "unknown" from a client, and a time like any other from simulate. */
    if (row->result->time_us == 0 && row->decided_by)
        put(l, row->format == CLI_JSON ? "null" : "-");
    else
        put_i64(l, row->result->time_us);
}

static void write_tsv(line *l, const cli_row *row)
{
    const hirate_result *r = row->result;
    put_time(l, row);
    put(l, "\t");
    put_u64(l, r->cost);
    put(l, "\t");
    put_name(l, row);
    put(l, "\t");
    put(l, hirate_verdict_name(r->verdict));
    const int64_t numbers[] = {(int64_t)r->remaining, r->retry_after_ms, r->reset_ms, r->delay_ms};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        put(l, "\t");
        put_known(l, row, numbers[i]);
    }
    if (!row->decided_by)
        return;
    put(l, "\t");
    put(l, hirate_source_name(r->source));
    put(l, "\t");
    put(l, hirate_charge_name(r->charge));
}

static void write_json(line *l, const cli_row *row)
{
    const hirate_result *r = row->result;
    put(l, "{\"time_us\":");
    put_time(l, row);
    put(l, ",\"cost\":");
    put_u64(l, r->cost);
    put(l, ",\"name\":\"");
    put_name(l, row);
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
    if (row->decided_by) {
        put(l, ",\"source\":\"");
        put(l, hirate_source_name(r->source));
        put(l, "\",\"charge\":\"");
        put(l, hirate_charge_name(r->charge));
        put(l, "\"");
    }
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

/* What is to be waited for. */
static void put_waits(line *l, const hirate_result *r)
{
    bool without = r->cause != 0 && r->source != HIRATE_SOURCE_LOCAL; /* nothing is known of the state then */
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

static void write_text(line *l, const cli_row *row)
{
    const hirate_result *r = row->result;
    put(l, hirate_verdict_name(r->verdict));
    put(l, " ");
    put(l, r->policy != NULL ? r->policy : "-");
    put(l, " ");
    put_name(l, row);
    put(l, ": ");
    if (r->error != 0) {
        put(l, r->charge == HIRATE_CHARGE_MAYBE ? "no verdict, may have been charged" : "no verdict, not charged");
        return;
    }
    if (r->cause == 0 || r->source == HIRATE_SOURCE_LOCAL) {
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
        put(l, r->reason);
    }
}

void cli_row_write(const cli_row *row)
{
    line l;
    l.len = 0;
    if (row->format == CLI_TSV)
        write_tsv(&l, row);
    else if (row->format == CLI_JSON)
        write_json(&l, row);
    else
        write_text(&l, row);
    write_out(&l);
}

void cli_row_write_reset(const cli_row *row)
{
    line l;
    l.len = 0;
    const char *used = row->result->used != 0 ? "used" : "unused";
    if (row->format != CLI_JSON) {
        put(&l, used);
    } else {
        put(&l, "{\"name\":\"");
        put_name(&l, row);
        put(&l, "\",\"result\":\"");
        put(&l, used);
        put(&l, "\"}");
    }
    write_out(&l);
}

void cli_result_refused(hirate_result *result, const hirate_request *request, int error)
{
    hirate_result_init(result);
    result->error = error;
    result->op = request->op;
    result->cost = request->cost;
    result->policy = request->limit->policy;
    result->charge = HIRATE_CHARGE_NO;
}

int cli_result_status(const hirate_result *result)
{
    if (result->error != 0)
        return CLI_NO_VERDICT;
    return result->verdict == HIRATE_DENIED ? CLI_DENIED : CLI_ALLOWED;
}

void cli_result_explain(const cli_row *row, const char *reason)
{
    char name[4 * HIRATE_NAME_MAX + 1];
    name[cli_escape_row(name, row->name, row->name_len)] = '\0';
    if (reason == NULL || *reason == '\0')
        reason = hirate_strerror(row->result->error);
    /* The reason first: a long name must not push it off the line. */
    cli_fail(CLI_NO_VERDICT, "no verdict: %s (%s %s)", reason, row->result->policy != NULL ? row->result->policy : "-",
             name);
}
