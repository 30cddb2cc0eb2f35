/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * history_check LOG RECORDS…: what bound_load's processes were told (support/bound.h), against the server's own
 * append-only log. The log holds every state a bucket was given, so it tells what was really taken, and when: taken =
 * what the bucket had come to by then - what it was left with. For each name and each moment of the server's clock,
 * what was told to be charged must have been taken: a charge that the log does not hold was lost, though it was told.
 * What was taken beyond it must be among what may have been charged: else something was taken twice, or taken and told
 * not to be. And all that was told is within the bound of each limit.
 */
#include "support/bound.h"
#include "support/resp.h"

#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

typedef struct rate {
    uint64_t n, p, full;
} rate;

typedef struct bucket {
    bool there;
    uint64_t units;
    int64_t at;
    bool stood; /* the clock stood still, or stepped back and was waited for: moments cannot be told apart */
} bucket;

/* A state in the log: so many tokens were taken of a name at that moment. */
typedef struct taking {
    int64_t time_us;
    uint64_t tokens;
    unsigned name;
} taking;

typedef struct history {
    bound_record *records; /* by time */
    size_t record_count;
    uint64_t submitted;
    taking *takings;
    size_t taking_count, taking_room;
    bucket buckets[BOUND_NAMES];
    int cut_off; /* transactions */
    int wrong;
} history;

/* ------------------------------------------------------------------------------------------------- the records -- */

static void read_records(history *h, const char *path)
{
    bound_record record;
    uint64_t count = 0;
    bool ended = false;
    FILE *file = fopen(path, "rb");
    if (!file)
        err(1, "%s", path);
    while (!ended && fread(&record, sizeof record, 1, file) == 1) {
        if (record.name == BOUND_END_NAME) {
            ended = true;
            h->submitted += (uint64_t)record.time_us;
            break;
        }
        if ((h->record_count & (h->record_count - 1)) == 0) {
            size_t room = h->record_count ? 2 * h->record_count : 1;
            h->records = realloc(h->records, room * sizeof *h->records);
            if (!h->records)
                err(1, "records");
        }
        h->records[h->record_count++] = record;
        count++;
    }
    fclose(file);
    if (!ended || (uint64_t)record.time_us != count) {
        printf("%s: %" PRIu64 " callbacks, not as many as submissions\n", path, count);
        h->wrong++;
    }
}

/* ----------------------------------------------------------------------------------------------------- the log -- */

static rate rate_of(unsigned name)
{
    const hirate_limit *limit = bound_limit(name);
    uint64_t a = limit->rate.tokens, b = limit->rate.period_us;
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    uint64_t p = limit->rate.period_us / a;
    return (rate){limit->rate.tokens / a, p, limit->capacity * p};
}

/* "hirate:POLICY:NUMBER"; false: another key. */
static bool name_of(const char *key, unsigned *name)
{
    const char *colon = strrchr(key, ':');
    char expected[100];
    if (!colon)
        return false;
    *name = (unsigned)strtoul(colon + 1, NULL, 10);
    if (*name >= BOUND_NAMES)
        return false;
    snprintf(expected, sizeof expected, "hirate:%s:%u", bound_limit(*name)->policy, *name);
    return strcmp(key, expected) == 0;
}

static void add_taking(history *h, taking t)
{
    if (h->taking_count == h->taking_room) {
        h->taking_room = h->taking_room ? 2 * h->taking_room : 1024;
        h->takings = realloc(h->takings, h->taking_room * sizeof *h->takings);
        if (!h->takings)
            err(1, "takings");
    }
    h->takings[h->taking_count++] = t;
}

/* 0xB1, 0x11, then p, units and at as doubles. */
static void on_state(history *h, unsigned name, const char *state, size_t len)
{
    double p, units, at;
    rate r = rate_of(name);
    if (len != 26)
        errx(1, "name %u: a state of %zu bytes", name, len);
    memcpy(&p, state + 2, sizeof p);
    memcpy(&units, state + 10, sizeof units);
    memcpy(&at, state + 18, sizeof at);
    if ((uint64_t)p != r.p)
        errx(1, "name %u: a state of another limit", name);
    bucket *b = &h->buckets[name];
    uint64_t had = r.full, left = (uint64_t)units;
    if (b->there) {
        if ((int64_t)at < b->at)
            errx(1, "name %u: the clock stepped back too far for this test", name);
        had = b->units + (uint64_t)((int64_t)at - b->at) * r.n;
        had = had < r.full ? had : r.full;
    }
    if (left > had || (had - left) % r.p)
        errx(1, "name %u: %" PRIu64 " units left of %" PRIu64, name, left, had);
    if (had > left)
        add_taking(h, (taking){(int64_t)at, (had - left) / r.p, name});
    *b = (bucket){true, left, (int64_t)at, b->stood || (b->there && (int64_t)at == b->at)};
}

static void on_write(history *h, const resp_command *command)
{
    unsigned name;
    if (command->argc < 2 || !name_of(resp_arg(command, 1), &name))
        return;
    const char *what = resp_arg(command, 0);
    if (strcasecmp(what, "SET") == 0)
        on_state(h, name, resp_arg(command, 2), command->len[2]);
    else if (strcasecmp(what, "PSETEX") == 0)
        on_state(h, name, resp_arg(command, 3), command->len[3]);
    else if (strcasecmp(what, "DEL") == 0 || strcasecmp(what, "UNLINK") == 0)
        h->buckets[name].there = false; /* it was full */
    else if (strcasecmp(what, "PEXPIREAT") != 0) /* Redis 6 writes an expiry apart */
        errx(1, "name %u: %s in the log", name, what);
}

/*
 * A script that writes more than once is a transaction. One that a kill cut off in front of its EXEC stays in the file,
 * but the next server does not take it in; it begins with a SELECT. Then that never happened.
 */
static void read_log(history *h, const char *path)
{
    static resp_command command;
    static bucket before[BOUND_NAMES];
    size_t count_before = 0;
    bool inside = false;
    resp_stream log;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        err(1, "%s", path);
    resp_open(&log, fd);
    for (bool more = true; more;) {
        more = resp_read_command(&log, &command);
        const char *what = more ? resp_arg(&command, 0) : "SELECT";
        if (inside && strcasecmp(what, "SELECT") == 0) {
            memcpy(h->buckets, before, sizeof before);
            h->taking_count = count_before;
            h->cut_off++;
        }
        if (strcasecmp(what, "MULTI") == 0) {
            memcpy(before, h->buckets, sizeof before);
            count_before = h->taking_count;
            inside = true;
        } else if (strcasecmp(what, "EXEC") == 0 || strcasecmp(what, "SELECT") == 0) {
            inside = false;
        } else if (more) {
            on_write(h, &command);
        }
    }
    resp_close(&log);
    resp_command_free(&command);
}

/* ------------------------------------------------------------------------------------------------- comparing -- */

/* Both are by time. At each moment what was charged must be what was taken then, or less. */
static void check_moments(history *h, unsigned name)
{
    size_t at = 0;
    for (size_t i = 0; i <= h->taking_count; i++) {
        const taking *t = i < h->taking_count ? &h->takings[i] : NULL;
        uint64_t told = 0;
        if (t && t->name != name)
            continue;
        for (; at < h->record_count && (!t || h->records[at].time_us <= t->time_us); at++) {
            const bound_record *r = &h->records[at];
            if (r->name != name || r->charge != HIRATE_CHARGE_YES || !r->cost)
                continue;
            if (t && r->time_us == t->time_us) {
                told += r->cost;
            } else {
                printf("name %u: a charge at %" PRId64 " that the log does not hold\n", name, r->time_us);
                h->wrong++;
            }
        }
        if (t && told > t->tokens) {
            printf("name %u: %" PRIu64 " charged at %" PRId64 ", %" PRIu64 " taken\n", name, told, t->time_us,
                   t->tokens);
            h->wrong++;
        }
    }
}

static void check_name(history *h, unsigned name)
{
    uint64_t told = 0, perhaps = 0, taken = 0;
    for (size_t i = 0; i < h->record_count; i++) {
        const bound_record *r = &h->records[i];
        told += r->name == name && r->charge == HIRATE_CHARGE_YES ? r->cost : 0;
        perhaps += r->name == name && r->charge == HIRATE_CHARGE_MAYBE ? r->cost : 0;
    }
    for (size_t i = 0; i < h->taking_count; i++)
        taken += h->takings[i].name == name ? h->takings[i].tokens : 0;
    if (taken < told || taken > told + perhaps) {
        printf("name %u: taken %" PRIu64 ", charged %" PRIu64 " and perhaps %" PRIu64 "\n", name, taken, told, perhaps);
        h->wrong++;
    }
    if (!h->buckets[name].stood)
        check_moments(h, name);
    if (bound_check(h->records, h->record_count, name, bound_limit(name)).slack < 0) {
        printf("name %u: more was admitted than capacity + rate * interval\n", name);
        h->wrong++;
    }
}

static uint64_t sum_of(const history *h, enum hirate_charge charge)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < h->record_count; i++)
        sum += h->records[i].charge == charge ? h->records[i].cost : 0;
    return sum;
}

int main(int argc, char **argv)
{
    static history h;
    if (argc < 3)
        errx(2, "usage: history_check LOG RECORDS…");
    read_log(&h, argv[1]);
    for (int i = 2; i < argc; i++)
        read_records(&h, argv[i]);
    qsort(h.records, h.record_count, sizeof *h.records, bound_by_time);
    for (unsigned name = 0; name < BOUND_NAMES; name++)
        check_name(&h, name);
    int stood = 0;
    for (unsigned name = 0; name < BOUND_NAMES; name++)
        stood += h.buckets[name].stood;
    uint64_t taken = 0, told = sum_of(&h, HIRATE_CHARGE_YES), perhaps = sum_of(&h, HIRATE_CHARGE_MAYBE);
    for (size_t i = 0; i < h.taking_count; i++)
        taken += h.takings[i].tokens;
    printf("submitted %" PRIu64 ", callbacks %zu; tokens taken %" PRIu64 ", charged %" PRIu64 ", perhaps %" PRIu64
           "; %d wrong\n",
           h.submitted, h.record_count, taken, told, perhaps, h.wrong);
    printf("%d transactions cut off; %d of %d names by sums only, as the clock stood still or stepped back\n",
           h.cut_off, stood, BOUND_NAMES);
    free(h.records);
    free(h.takings);
    if (!taken || !told)
        h.wrong++;
    return h.wrong ? 1 : 0;
}
