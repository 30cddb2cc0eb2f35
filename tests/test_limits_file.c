/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits files: what is read, what is refused and where, and that a reload is all or nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hirate.h"
#include "support/nomem.h"
#include "support/random.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_SIZE = 256, MIB = 1 << 20 };

static char folder[] = "/tmp/hirate-limits.XXXXXX";
static char file[PATH_SIZE];  /* the one that is read */
static char other[PATH_SIZE]; /* to be renamed to it */

static void write_bytes(const char *path, const char *bytes, size_t len)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_true(fwrite(bytes, 1, len, f) == len);
    assert_int_equal(fclose(f), 0);
}

static void write_text(const char *text)
{
    write_bytes(file, text, strlen(text));
}

static hirate_limits *load(void)
{
    hirate_limits *limits = NULL;
    hirate_error error = {0, ""};

    if (hirate_limits_load(&limits, file, &error) != 0)
        fail_msg("refused: %s", error.text);
    return limits;
}

static hirate_limits *load_text(const char *text)
{
    write_text(text);
    return load();
}

static void assert_path_refused(const char *path, const char *says)
{
    hirate_limits *limits = (hirate_limits *)&file;
    hirate_error error = {0, ""};

    int rc = hirate_limits_load(&limits, path, &error);
    if (rc != HIRATE_EINVAL || error.code != rc || strstr(error.text, says) == NULL)
        fail_msg("expected '%s', got %d '%s'", says, rc, error.text);
    assert_ptr_equal(limits, (hirate_limits *)&file);
    assert_int_equal(hirate_limits_load(&limits, path, NULL), HIRATE_EINVAL);
}

/* The file is refused, and the text begins with its path and `says`. */
static void assert_refused(const char *says)
{
    char expected[2 * PATH_SIZE];

    (void)snprintf(expected, sizeof expected, "%s:%s", file, says);
    assert_path_refused(file, expected);
}

static void assert_text_refused(const char *text, const char *says)
{
    write_text(text);
    assert_refused(says);
}

/* ------------------------------------------------------------------------------------------- what is read -- */

static void test_file_of_every_kind_is_read_in_order(void **state)
{
    static const char *const names[] = {"login", "mail", "page", "month", "texts", "reads"};
    hirate_limits *limits = load_text("login token-bucket capacity=20 rate=1/3s\n"
                                      "mail leaky-bucket capacity=5 rate=7/13ms cache-denials=yes\n"
                                      "page fixed-window limit=100 window=1m\n"
                                      "month quota limit=10000 per=month offset=+02:00\n"
                                      "texts sliding-log limit=5 window=1m on-failure=closed\n"
                                      "reads sliding-window limit=1000 window=1m\n");

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const hirate_limit *limit = hirate_limits_at(limits, i);
        assert_non_null(limit);
        assert_string_equal(limit->policy, names[i]);
        assert_int_equal(limit->kind, i + 1);
        assert_ptr_equal(hirate_limits_find(limits, names[i]), limit);
        assert_int_equal(hirate_limit_check(limit, NULL), 0);
    }
    assert_true(hirate_limits_at(limits, 0)->capacity == 20 && hirate_limits_at(limits, 0)->rate.period_us == 3000000);
    assert_true(hirate_limits_at(limits, 1)->flags == HIRATE_LIMIT_CACHE_DENIALS);
    assert_true(hirate_limits_at(limits, 3)->offset_minutes == 120);
    assert_true(hirate_limits_at(limits, 4)->on_failure == HIRATE_ON_FAILURE_CLOSED);
    assert_null(hirate_limits_at(limits, 6));
    assert_null(hirate_limits_at(limits, SIZE_MAX));
    assert_null(hirate_limits_find(limits, "logi"));
    assert_null(hirate_limits_find(limits, "loginn"));
    assert_null(hirate_limits_find(limits, ""));
    hirate_limits_free(limits);
}

static void test_comments_blanks_and_line_ends_are_passed_over(void **state)
{
    hirate_limits *limits = load_text("# the guards\r\n"
                                      "\n"
                                      "\r\n"
                                      "  \t \n"
                                      " \t# login token-bucket\n"
                                      "\t login token-bucket  capacity=20\trate=1/3s \r\n"
                                      "#\n"
                                      "mail fixed-window limit=3 window=1s\r");

    (void)state;
    assert_string_equal(hirate_limits_at(limits, 0)->policy, "login");
    assert_true(hirate_limits_at(limits, 0)->rate.period_us == 3000000);
    assert_string_equal(hirate_limits_at(limits, 1)->policy, "mail");
    assert_null(hirate_limits_at(limits, 2));
    hirate_limits_free(limits);
}

static void test_last_line_without_newline_is_read(void **state)
{
    hirate_limits *limits = load_text("a fixed-window limit=3 window=1s\nb fixed-window limit=4 window=1s");

    (void)state;
    assert_true(hirate_limits_find(limits, "b")->capacity == 4);
    hirate_limits_free(limits);
}

static void test_file_without_limits_holds_none(void **state)
{
    static const char *const texts[] = {"", "\n", "# nothing", " "};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        hirate_limits *limits = load_text(texts[i]);
        assert_null(hirate_limits_at(limits, 0));
        assert_null(hirate_limits_find(limits, "login"));
        hirate_limits_free(limits);
    }
}

static void test_file_with_most_limits_is_read_and_one_more_is_refused(void **state)
{
    static char text[MIB];
    size_t len = 0;

    (void)state;
    for (int i = 0; i < 4096; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "#\nn%d fixed-window limit=%d window=1s\n", i, i);
    write_text(text);
    hirate_limits *limits = load();
    for (size_t i = 0; i < 4096; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "n%zu", i);
        assert_true(hirate_limits_at(limits, i)->capacity == i);
        assert_ptr_equal(hirate_limits_find(limits, name), hirate_limits_at(limits, i));
    }
    assert_null(hirate_limits_at(limits, 4096));
    hirate_limits_free(limits);
    memcpy(text + len, "last fixed-window limit=1 window=1s\n", 37);
    assert_text_refused(text, "8193: limits: ");
}

static void test_file_of_a_mebibyte_is_read_and_one_byte_more_is_refused(void **state)
{
    static char text[MIB + 1];
    static const char line[] = "\na fixed-window limit=3 window=1s\n";
    char says[PATH_SIZE + 64];

    (void)state;
    memset(text, '#', sizeof text);
    memcpy(text + MIB + 1 - (sizeof line - 1), line, sizeof line - 1);
    write_bytes(file, text + 1, MIB);
    hirate_limits *limits = load();
    assert_non_null(hirate_limits_find(limits, "a"));
    hirate_limits_free(limits);
    write_bytes(file, text, MIB + 1);
    (void)snprintf(says, sizeof says, "%s: is larger than 1048576 bytes", file);
    assert_path_refused(file, says);
}

/* A short name of few letters, often one that is there already. */
static void random_policy(rng *r, char name[8])
{
    size_t len = 1 + (size_t)rng_upto(r, 2);

    for (size_t i = 0; i < len; i++)
        name[i] = (char)('a' + (char)rng_upto(r, 9));
    name[len] = '\0';
}

static void test_names_at_random_are_found_as_a_walk_finds_them(void **state)
{
    rng r = rng_start("limits_file");

    (void)state;
    for (int round = 0; round < 20; round++) {
        static char names[600][8], text[64 * 600];
        size_t count = (size_t)rng_upto(&r, 600), kept = 0, len = 0;

        text[0] = '\0';
        while (kept < count) {
            size_t same = 0;
            random_policy(&r, names[kept]);
            while (strcmp(names[same], names[kept]) != 0)
                same++;
            if (same < kept) {
                count--;
                continue;
            }
            len += (size_t)snprintf(text + len, sizeof text - len, "%s quota limit=%zu per=day\n", names[kept], kept);
            kept++;
        }
        hirate_limits *limits = load_text(text);
        for (int i = 0; i < 2000; i++) {
            char name[8];
            size_t at = 0;
            random_policy(&r, name);
            while (at < kept && strcmp(names[at], name) != 0)
                at++;
            assert_ptr_equal(hirate_limits_find(limits, name), hirate_limits_at(limits, at));
        }
        hirate_limits_free(limits);
    }
}

/* Short reads: what a pipe holds is seldom all. */
static void test_pipe_that_is_filled_bit_by_bit_is_read_whole(void **state)
{
    static const char text[] = "a fixed-window limit=3 window=1s\nb fixed-window limit=4 window=1s\n";
    int ends[2];
    hirate_limits *limits = NULL;
    char path[64];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    pid_t writer = fork();
    if (writer == 0) {
        for (const char *c = text; *c != '\0'; c++)
            if (write(ends[1], c, 1) != 1)
                _exit(1);
        _exit(0);
    }
    close(ends[1]);
    (void)snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    assert_int_equal(hirate_limits_load(&limits, path, NULL), 0);
    assert_non_null(hirate_limits_find(limits, "b"));
    hirate_limits_free(limits);
    close(ends[0]);
    assert_true(waitpid(writer, NULL, 0) == writer);
}

/* ---------------------------------------------------------------------------------------- what is refused -- */

static void test_wrong_line_is_refused_with_file_line_and_field(void **state)
{
    (void)state;
    assert_text_refused("login token-bucket capacity=x rate=1/3s", "1: capacity: ");
    assert_text_refused("# one\n\n\nlogin token-bucket capacity=20 rate=0/3s\r\n", "4: rate: ");
    assert_text_refused("login token-bucket capacity=20 rate=1/3s\nlogin2 token-bucket capacity=20\n",
                        "2: rate: missing");
    assert_text_refused("login token-bucket capacity=20 rate=1/3s # for now\n", "1: '#': unknown key");
    assert_text_refused("\nlo/gin token-bucket capacity=20 rate=1/3s\n", "2: policy: ");
    assert_text_refused("login\n", "1: algorithm: ");
    assert_text_refused("login buckets capacity=20\n", "1: algorithm: ");
    assert_text_refused("a sliding-window limit=4503599627370496 window=1h\n", "1: limit: ");
    assert_text_refused("login token-bucket capacity=20 rate=1/3s\r\r\n", "1: rate: ");
}

static void test_name_given_twice_is_refused_with_both_lines(void **state)
{
    (void)state;
    assert_text_refused("#\nlogin token-bucket capacity=20 rate=1/3s\nmail fixed-window limit=3 window=1s\n"
                        "login quota limit=3 per=day\nmail fixed-window limit=3 window=1s\n",
                        "4: policy: 'login' is on line 2 already");
}

static void test_nul_byte_anywhere_is_refused(void **state)
{
    static const char *const texts[] = {"a fixed-window limit=3 window=1s\n@", "a fixed-window limit=3@ window=1s\n",
                                        "# a@b\n", "\n\n@\n"};
    static const char *const says[] = {"2: line: holds a NUL", "1: line: holds a NUL", "1: line: holds a NUL",
                                       "3: line: holds a NUL"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char bytes[64];
        size_t len = strlen(texts[i]);
        for (size_t at = 0; at < len; at++)
            bytes[at] = texts[i][at];
        *(char *)memchr(bytes, '@', len) = '\0';
        write_bytes(file, bytes, len);
        assert_refused(says[i]);
    }
}

static void test_line_that_is_too_long_is_refused(void **state)
{
    static char text[6000];

    (void)state;
    memset(text, ' ', sizeof text - 1);
    text[0] = '#'; /* a comment may be as long as it likes */
    hirate_limits_free(load_text(text));
    text[0] = 'a';
    assert_text_refused(text, "1: spec: longer than 4096 bytes");
}

static void test_file_that_cannot_be_read_is_refused_with_the_reason(void **state)
{
    char says[2 * PATH_SIZE];

    (void)state;
    (void)snprintf(says, sizeof says, "%s/none: cannot be read: No such file or directory", folder);
    assert_path_refused(other, says);
    (void)snprintf(says, sizeof says, "%s: cannot be read: Is a directory", folder);
    assert_path_refused(folder, says);
    assert_path_refused("", ": cannot be read: No such file");
    if (geteuid() != 0) {
        write_text("");
        assert_int_equal(chmod(file, 0), 0);
        assert_path_refused(file, ": cannot be read: Permission denied");
        assert_int_equal(chmod(file, 0600), 0);
    }
}

static void test_long_path_still_leaves_room_for_the_rest(void **state)
{
    char path[2000];
    hirate_limits *limits = NULL;
    hirate_error error = {0, ""};

    (void)state;
    write_text("login token-bucket capacity=20 rate=0/3s\n");
    (void)snprintf(path, sizeof path, "%s", folder);
    while (strlen(path) < 1500)
        memcpy(path + strlen(path), "/.", 3);
    memcpy(path + strlen(path), "/file", 6);
    assert_int_equal(hirate_limits_load(&limits, path, &error), HIRATE_EINVAL);
    assert_true(strncmp(error.text, ".../", 4) == 0);
    assert_non_null(strstr(error.text, "/file:1: rate: "));
    assert_non_null(strstr(error.text, "accepted: N/DURATION"));
}

static void test_null_arguments_are_refused(void **state)
{
    hirate_limits *limits = NULL;
    hirate_error error = {0, ""};

    (void)state;
    assert_int_equal(hirate_limits_load(NULL, file, &error), HIRATE_EINVAL);
    assert_non_null(strstr(error.text, "out: is NULL"));
    assert_int_equal(hirate_limits_load(&limits, NULL, &error), HIRATE_EINVAL);
    assert_non_null(strstr(error.text, "path: is NULL"));
    assert_int_equal(hirate_limits_reload(NULL, &error), HIRATE_EINVAL);
    assert_non_null(strstr(error.text, "limits: is NULL"));
    assert_null(hirate_limits_find(NULL, "login"));
    assert_null(hirate_limits_at(NULL, 0));
    limits = load_text("login token-bucket capacity=20 rate=1/3s\n");
    assert_null(hirate_limits_find(limits, NULL));
    hirate_limits_free(limits);
    hirate_limits_free(NULL);
}

/* ------------------------------------------------------------------------------------------------- reload -- */

static void test_reload_takes_the_whole_new_file(void **state)
{
    hirate_limits *limits = load_text("a fixed-window limit=3 window=1s\nb fixed-window limit=4 window=1s\n");

    (void)state;
    write_text("c fixed-window limit=5 window=1s\na fixed-window limit=6 window=1s\n");
    assert_int_equal(hirate_limits_reload(limits, NULL), 0);
    assert_null(hirate_limits_find(limits, "b"));
    assert_true(hirate_limits_at(limits, 0)->capacity == 5 && hirate_limits_find(limits, "a")->capacity == 6);
    write_text("");
    assert_int_equal(hirate_limits_reload(limits, NULL), 0);
    assert_null(hirate_limits_at(limits, 0));
    hirate_limits_free(limits);
}

/* The two limits that test_reload_… began with, at the place where they were. */
static void assert_old(hirate_limits *limits, const hirate_limit *a)
{
    assert_ptr_equal(hirate_limits_find(limits, "a"), a);
    assert_ptr_equal(hirate_limits_at(limits, 0), a);
    assert_string_equal(a->policy, "a");
    assert_true(a->capacity == 3 && hirate_limits_find(limits, "b")->capacity == 4);
    assert_null(hirate_limits_find(limits, "c"));
    assert_null(hirate_limits_at(limits, 2));
}

static void test_reload_of_a_wrong_file_changes_nothing(void **state)
{
    static const char *const wrong[] = {"c fixed-window limit=5 window=1s\nd fixed-window limit=x window=1s\n",
                                        "c fixed-window limit=5 window=1s\nc fixed-window limit=5 window=1s\n"};
    hirate_limits *limits = load_text("a fixed-window limit=3 window=1s\nb fixed-window limit=4 window=1s\n");
    const hirate_limit *a = hirate_limits_find(limits, "a");
    hirate_error error = {0, ""};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        write_text(wrong[i]);
        assert_int_equal(hirate_limits_reload(limits, &error), HIRATE_EINVAL);
        assert_non_null(strstr(error.text, "file:2: "));
        assert_old(limits, a);
    }
    assert_int_equal(unlink(file), 0);
    assert_int_equal(hirate_limits_reload(limits, &error), HIRATE_EINVAL);
    assert_non_null(strstr(error.text, "No such file"));
    assert_old(limits, a);
    assert_int_equal(hirate_limits_reload(limits, NULL), HIRATE_EINVAL);
    hirate_limits_free(limits);
}

/* Replace the file by one with COUNT limits of capacity 1, 2, … over and over, each at once, until killed or alone. */
enum { COUNT = 50 };
static void keep_replacing(pid_t parent)
{
    for (int version = 1; getppid() == parent; version++) {
        FILE *f = fopen(other, "w");
        for (int i = 0; f != NULL && i < COUNT; i++)
            (void)fprintf(f, "n%d fixed-window limit=%d window=1s\n", i, version);
        if (f == NULL || fclose(f) != 0 || rename(other, file) != 0)
            break;
    }
    _exit(1);
}

static void test_reload_while_the_file_is_replaced_is_old_or_new(void **state)
{
    hirate_limits *limits = load_text("n0 fixed-window limit=0 window=1s");
    uint64_t last = 0, seen = 0;
    pid_t parent = getpid(), writer = fork();

    (void)state;
    if (writer == 0)
        keep_replacing(parent);
    for (int i = 0; i < 1000000 && seen < 200; i++) {
        assert_int_equal(hirate_limits_reload(limits, NULL), 0);
        uint64_t version = hirate_limits_at(limits, 0)->capacity;
        assert_true(version >= last);
        for (size_t k = 0; version > 0 && k < COUNT; k++)
            assert_true(hirate_limits_at(limits, k)->capacity == version);
        seen += version != last;
        last = version;
    }
    assert_int_equal(kill(writer, SIGKILL), 0);
    assert_true(waitpid(writer, NULL, 0) == writer);
    assert_true(seen == 200);
    hirate_limits_free(limits);
}

/* ------------------------------------------------------------------------------------------------- memory -- */

static void test_load_without_memory_fails_and_leaves_out_alone(void **state)
{
    int n = 0;

    (void)state;
    write_text("a fixed-window limit=3 window=1s\nb fixed-window limit=4 window=1s\n");
    for (;; n++) {
        hirate_limits *limits = NULL;
        hirate_error error = {0, ""};
        nomem_after(n);
        int rc = hirate_limits_load(&limits, file, &error);
        if (!nomem_end()) {
            assert_int_equal(rc, 0);
            hirate_limits_free(limits);
            break;
        }
        assert_int_equal(rc, HIRATE_ENOMEM);
        assert_int_equal(error.code, HIRATE_ENOMEM);
        assert_null(limits);
    }
    assert_true(n >= 4);
}

static void test_reload_without_memory_changes_nothing(void **state)
{
    hirate_limits *limits = load_text("a fixed-window limit=3 window=1s\nb fixed-window limit=4 window=1s\n");
    const hirate_limit *a = hirate_limits_find(limits, "a");
    int n = 0, rc;

    (void)state;
    write_text("c fixed-window limit=5 window=1s\n");
    while (nomem_after(n), rc = hirate_limits_reload(limits, NULL), nomem_end()) {
        assert_int_equal(rc, HIRATE_ENOMEM);
        assert_old(limits, a);
        n++;
    }
    assert_true(n >= 3);
    assert_int_equal(rc, 0);
    assert_non_null(hirate_limits_find(limits, "c"));
    hirate_limits_free(limits);
}

/* -------------------------------------------------------------------------------------------------- set-up -- */

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(file, sizeof file, "%s/file", folder);
    (void)snprintf(other, sizeof other, "%s/none", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(file);
    (void)unlink(other);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_of_every_kind_is_read_in_order),
        cmocka_unit_test(test_comments_blanks_and_line_ends_are_passed_over),
        cmocka_unit_test(test_last_line_without_newline_is_read),
        cmocka_unit_test(test_file_without_limits_holds_none),
        cmocka_unit_test(test_file_with_most_limits_is_read_and_one_more_is_refused),
        cmocka_unit_test(test_file_of_a_mebibyte_is_read_and_one_byte_more_is_refused),
        cmocka_unit_test(test_names_at_random_are_found_as_a_walk_finds_them),
        cmocka_unit_test(test_pipe_that_is_filled_bit_by_bit_is_read_whole),
        cmocka_unit_test(test_wrong_line_is_refused_with_file_line_and_field),
        cmocka_unit_test(test_name_given_twice_is_refused_with_both_lines),
        cmocka_unit_test(test_nul_byte_anywhere_is_refused),
        cmocka_unit_test(test_line_that_is_too_long_is_refused),
        cmocka_unit_test(test_file_that_cannot_be_read_is_refused_with_the_reason),
        cmocka_unit_test(test_long_path_still_leaves_room_for_the_rest),
        cmocka_unit_test(test_null_arguments_are_refused),
        cmocka_unit_test(test_reload_takes_the_whole_new_file),
        cmocka_unit_test(test_reload_of_a_wrong_file_changes_nothing),
        cmocka_unit_test(test_reload_while_the_file_is_replaced_is_old_or_new),
        cmocka_unit_test(test_load_without_memory_fails_and_leaves_out_alone),
        cmocka_unit_test(test_reload_without_memory_changes_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
