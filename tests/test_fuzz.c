/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fuzzing targets without a fuzzer: every file of tests/fuzz/corpus, as it is and changed a little at random.
 * HIRATE_TEST_SEED repeats the changes; a changed input that fails is left in fuzz-failed.NAME for tests/fuzz.sh.
 */
#include "fuzz/fuzz.h"
#include "support/random.h"

#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

enum { CHANGES = 60, INPUT_MOST = 1 << 17 };

typedef struct target {
    const char *name;
    int (*run)(const uint8_t *data, size_t size);
} target;

static const target TARGETS[] = {
    {"escape", fuzz_escape},   {"limits", fuzz_limits}, {"lines", fuzz_lines}, {"permit", fuzz_permit},
    {"refusal", fuzz_refusal}, {"reply", fuzz_reply},   {"spec", fuzz_spec},   {"uri", fuzz_uri},
};

static uint8_t input[INPUT_MOST];
static size_t input_len;
static const char *target_name;

static void on_abort(int number)
{
    char path[100];
    (void)number;
    snprintf(path, sizeof path, "fuzz-failed.%s", target_name);
    FILE *file = fopen(path, "wb");
    if (file) {
        fwrite(input, 1, input_len, file);
        fclose(file);
    }
    signal(SIGABRT, SIG_DFL);
    raise(SIGABRT);
}

/* A few bytes set, cut out or put in. */
static void change(rng *random)
{
    for (uint64_t times = 1 + rng_upto(random, 3); times > 0 && input_len > 0; times--) {
        size_t at = rng_upto(random, input_len - 1);
        switch (rng_upto(random, 3)) {
        case 0:
            input[at] = (uint8_t)rng_next(random);
            break;
        case 1:
            input[at] ^= (uint8_t)(1U << rng_upto(random, 7));
            break;
        case 2:
            memmove(input + at, input + at + 1, input_len - at - 1);
            input_len--;
            break;
        default:
            if (input_len == INPUT_MOST)
                break;
            memmove(input + at + 1, input + at, input_len - at);
            input_len++;
        }
    }
}

static bool read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    input_len = fread(input, 1, sizeof input, file);
    fclose(file);
    return true;
}

/* How many files there were. */
static int replay(const target *t, const char *corpus, rng *random)
{
    char dir_path[PATH_MAX + 16], path[2 * PATH_MAX];
    snprintf(dir_path, sizeof dir_path, "%s/%s", corpus, t->name);
    DIR *dir = opendir(dir_path);
    int files = 0;
    target_name = t->name;
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", dir_path, entry->d_name);
        if (entry->d_name[0] == '.' || !read_file(path))
            continue;
        files++;
        t->run(input, input_len);
        for (int i = 0; i < CHANGES && read_file(path); i++) {
            change(random);
            t->run(input, input_len);
        }
    }
    if (dir)
        closedir(dir);
    printf("%s: %d files\n", t->name, files);
    return files;
}

int main(void)
{
    const char *top = getenv("top_srcdir");
    char corpus[PATH_MAX];
    int passed = 0, failed = 0;
    rng random = rng_start("test_fuzz");

    snprintf(corpus, sizeof corpus, "%s/tests/fuzz/corpus", top ? top : ".");
    signal(SIGABRT, on_abort);
    for (size_t i = 0; i < sizeof TARGETS / sizeof *TARGETS; i++) {
        int files = replay(&TARGETS[i], corpus, &random);
        passed += files;
        failed += files == 0;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed ? 1 : 0;
}
