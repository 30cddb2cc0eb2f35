/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bound_check FILE…: what bound_load's processes recorded, together. Prints the figures; exits with 1 when a name was
 * admitted more than capacity + rate * interval in some interval, when a callback is missing or too many, or when the
 * load was so light that nothing was put to the test.
 */
#include "support/bound.h"

#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct records {
    bound_record *at;
    size_t count;
    uint64_t submitted;
    int incomplete; /* files without an end, or whose count differs from what was submitted */
} records;

static void read_file(records *all, const char *path)
{
    struct stat info;
    FILE *file = fopen(path, "rb");
    if (!file || fstat(fileno(file), &info) != 0)
        err(1, "%s", path);
    size_t count = (size_t)info.st_size / sizeof *all->at;
    bound_record *grown = realloc(all->at, (all->count + count + 1) * sizeof *grown);
    if (!grown)
        err(1, "records");
    all->at = grown;
    if (fread(all->at + all->count, sizeof *all->at, count, file) != count)
        errx(1, "%s: cannot be read whole", path);
    fclose(file);
    const bound_record *end = count ? &all->at[all->count + count - 1] : NULL;
    if (!end || end->name != BOUND_END_NAME) {
        printf("%s: the process did not come to its end\n", path);
        all->incomplete++;
        all->count += count;
        return;
    }
    uint64_t submitted = (uint64_t)end->time_us;
    all->count += count - 1;
    all->submitted += submitted;
    if (submitted != count - 1) {
        printf("%s: %" PRIu64 " submissions, %zu callbacks\n", path, submitted, count - 1);
        all->incomplete++;
    }
}

static size_t count_verdict(const records *all, enum hirate_verdict verdict)
{
    size_t count = 0;
    for (size_t i = 0; i < all->count; i++)
        count += all->at[i].verdict == verdict;
    return count;
}

static double tokens(const bound_worst *w, int64_t units)
{
    return (double)units / (double)w->p;
}

/* Check every name. Returns how many broke the promise; *tightest is the least share of room left, a figure. */
static int check_names(const records *all)
{
    int broken = 0, used = 0;
    double fullest = 0;
    for (unsigned name = 0; name < BOUND_NAMES; name++) {
        bound_worst w = bound_check(all->at, all->count, name, bound_limit(name));
        if (!w.any)
            continue;
        used++;
        double share = (double)w.used / (double)w.allowed;
        if (w.slack < 0 || share > fullest) {
            printf("name %u (%s): %.4f of %.4f tokens in %.6f s%s\n", name, bound_limit(name)->policy,
                   tokens(&w, w.used), tokens(&w, w.allowed), (double)w.length_us / 1e6, w.slack < 0 ? ": BROKEN" : "");
            fullest = share > fullest ? share : fullest;
        }
        broken += w.slack < 0;
    }
    printf("%d of %d names admitted something, worst interval used %.4f %% of its bound\n", used, BOUND_NAMES,
           fullest * 100);
    return broken;
}

int main(int argc, char **argv)
{
    records all = {0};
    for (int i = 1; i < argc; i++)
        read_file(&all, argv[i]);
    if (!all.count)
        errx(1, "no records");
    qsort(all.at, all.count, sizeof *all.at, bound_by_time);
    size_t allowed = count_verdict(&all, HIRATE_ALLOWED), denied = count_verdict(&all, HIRATE_DENIED);
    size_t errors = count_verdict(&all, HIRATE_VERDICT_NONE);
    printf("processes %d, submitted %" PRIu64 ", callbacks %zu, allowed %zu, denied %zu, errors %zu\n", argc - 1,
           all.submitted, all.count, allowed, denied, errors);
    int broken = check_names(&all);
    free(all.at);
    if (broken || all.incomplete || errors || !allowed || !denied) {
        printf("NOT within bounds: %d names broken, %d processes incomplete, %zu errors\n", broken, all.incomplete,
               errors);
        return 1;
    }
    printf("every interval of every name is within capacity + rate * interval\n");
    return 0;
}
