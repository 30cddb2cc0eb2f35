/* SPDX-License-Identifier: BSD-3-Clause */
/* The tool's own parts: histogram, names, escapes, numbers and lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../src/cli/escape.h"
#include "../src/cli/histogram.h"
#include "../src/cli/lines.h"
#include "../src/cli/names.h"
#include "../src/cli/say.h"
#include "../src/cli/who.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void assert_near(double got, double want, double part)
{
    if (fabs(got - want) > part * fabs(want))
        fail_msg("%.6f is not %.6f", got, want);
}

/* ---------------------------------------------------------------------------------------------------- histogram -- */

static void test_histogram_any_value_is_found_within_one_percent(void **state)
{
    (void)state;
    for (double value = 100; value < 1e18; value *= 1.0173) {
        cli_histogram *h = calloc(1, sizeof *h);
        cli_histogram_add(h, (int64_t)value);
        assert_near(cli_histogram_us(h, 0.5) * 1000, floor(value), 0.005);
        free(h);
    }
}

static void test_histogram_buckets_do_not_overlap(void **state)
{
    (void)state;
    unsigned last = cli_histogram_index(0);
    for (uint64_t value = 1; value < 100000; value++) {
        unsigned index = cli_histogram_index(value);
        assert_true(index == last || index == last + 1);
        last = index;
    }
    assert_true(cli_histogram_index(UINT64_MAX) == CLI_HISTOGRAM_BUCKETS - 1);
}

static void test_histogram_percentiles_of_a_range(void **state)
{
    (void)state;
    cli_histogram *h = calloc(1, sizeof *h);
    assert_true(cli_histogram_us(h, 0.5) == 0);
    for (int64_t ns = 1000; ns <= 1000000; ns += 1000)
        cli_histogram_add(h, ns);
    assert_near(cli_histogram_us(h, 0.5), 500, 0.01);
    assert_near(cli_histogram_us(h, 0.99), 990, 0.01);
    assert_near(cli_histogram_us(h, 0.999), 999, 0.01);
    cli_histogram_add(h, -5); /* a clock that stepped back */
    assert_int_equal((int)h->buckets[0], 1);
    free(h);
}

/* -------------------------------------------------------------------------------------------------------- names -- */

enum { NAMES = 50, DRAWS = 1000000 };

/* Draw DRAWS names by weight 1/(k+1)^s and compare each one's share with its weight: five standard deviations. */
static void check_shares(double s)
{
    cli_names names;
    double sum = 0;
    static int drawn[NAMES];
    memset(drawn, 0, sizeof drawn);
    assert_int_equal(cli_names_init(&names, NAMES, s), 0);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t k = cli_names_next(&names);
        assert_true(k < NAMES);
        drawn[k]++;
    }
    for (int k = 0; k < NAMES; k++)
        sum += pow(k + 1, -s);
    for (int k = 0; k < NAMES; k++) {
        double want = DRAWS * pow(k + 1, -s) / sum;
        if (fabs(drawn[k] - want) > 5 * sqrt(want))
            fail_msg("s %g, name %d: drawn %d times, not about %.0f", s, k, drawn[k], want);
    }
    cli_names_free(&names);
}

static void test_names_uniform_all_alike(void **state)
{
    (void)state;
    check_shares(0);
}

static void test_names_zipf_follow_their_weights(void **state)
{
    (void)state;
    check_shares(0.5);
    check_shares(1);
    check_shares(2.5);
}

static void test_names_one_is_always_the_same(void **state)
{
    (void)state;
    for (double s = 0; s < 2; s++) {
        cli_names names;
        assert_int_equal(cli_names_init(&names, 1, s), 0);
        for (int i = 0; i < 1000; i++)
            assert_int_equal((int)cli_names_next(&names), 0);
        cli_names_free(&names);
    }
}

/* ------------------------------------------------------------------------------------------------------ escapes -- */

/* Random bytes that are often part of UTF-8 sequences, or just not. */
static size_t random_name(unsigned char *name)
{
    static const unsigned char likely[] = {0xc2, 0xc3, 0xe0, 0xe2, 0xed, 0xf0, 0xf4,
                                           0x80, 0x90, 0x9f, 0xa0, 0xbf, '\\', '\t'};
    size_t len = (size_t)(rand() % 40);
    for (size_t i = 0; i < len; i++)
        name[i] = rand() % 2 ? likely[(size_t)rand() % sizeof likely] : (unsigned char)rand();
    return len;
}

static void test_escape_random_names_read_back(void **state)
{
    (void)state;
    unsigned seed = (unsigned)time(NULL);
    print_message("seed %u\n", seed);
    srand(seed);
    for (int i = 0; i < 100000; i++) {
        unsigned char name[40], back[40];
        char row[4 * 40];
        size_t back_len, len = random_name(name), row_len = cli_escape_row(row, name, len);
        for (size_t at = 0; at < row_len; at++)
            assert_true((unsigned char)row[at] >= 0x20 && row[at] != 0x7f);
        assert_null(cli_unescape(back, sizeof back, row, row_len, &back_len));
        assert_int_equal((int)back_len, (int)len);
        assert_memory_equal(back, name, len);
    }
}

static void test_unescape_too_long_or_unknown_is_refused(void **state)
{
    (void)state;
    unsigned char out[4];
    size_t len = 99;
    assert_non_null(cli_unescape(out, 4, "abcde", 5, &len));
    assert_non_null(cli_unescape(out, 4, "\\", 1, &len));
    assert_non_null(cli_unescape(out, 4, "\\x1", 3, &len));
    assert_non_null(cli_unescape(out, 4, "\\x1g", 4, &len));
    assert_non_null(cli_unescape(out, 4, "\\0", 2, &len));
    assert_int_equal((int)len, 99);
    assert_null(cli_unescape(out, 4, "\\xfF\\\\a", 7, &len));
    assert_int_equal((int)len, 3);
    assert_memory_equal(out, "\xff\\a", 3);
}

static void test_escape_item_hides_commas_and_reads_back(void **state)
{
    (void)state;
    static const char name[] = "a,b\\,\t";
    char row[4 * sizeof name];
    unsigned char back[sizeof name];
    size_t back_len, len = cli_escape_item(row, name, sizeof name - 1);
    row[len] = '\0';
    assert_string_equal(row, "a\\x2cb\\\\\\x2c\\t");
    assert_null(cli_unescape(back, sizeof back, row, len, &back_len));
    assert_int_equal((int)back_len, (int)sizeof name - 1);
    assert_memory_equal(back, name, back_len);
    row[cli_escape_row(row, name, sizeof name - 1)] = '\0';
    assert_string_equal(row, "a,b\\\\,\\t");
}

/* ------------------------------------------------------------------------------------------------------ numbers -- */

static void test_parse_u64_range_and_form(void **state)
{
    (void)state;
    uint64_t value = 7;
    assert_true(cli_parse_u64("18446744073709551615", 20, UINT64_MAX, &value) && value == UINT64_MAX);
    assert_false(cli_parse_u64("18446744073709551616", 20, UINT64_MAX, &value));
    assert_true(cli_parse_u64("10", 2, 10, &value) && value == 10);
    assert_false(cli_parse_u64("11", 2, 10, &value));
    assert_false(cli_parse_u64("5", 1, 4, &value));
    assert_true(cli_parse_u64("007", 3, 7, &value) && value == 7);
    assert_false(cli_parse_u64("", 0, 10, &value));
    assert_false(cli_parse_u64("1 ", 2, 10, &value));
    assert_true(value == 7);
}

static void test_parse_duration_units_and_range(void **state)
{
    (void)state;
    uint64_t us = 0;
    assert_true(cli_parse_duration("s", &us) && us == 1000000);
    assert_true(cli_parse_duration("13ms", &us) && us == 13000);
    assert_true(cli_parse_duration("2d", &us) && us == UINT64_C(172800000000));
    assert_false(cli_parse_duration("", &us));
    assert_false(cli_parse_duration("1", &us));
    assert_false(cli_parse_duration("1.5s", &us));
    assert_false(cli_parse_duration("9007199254740991d", &us));
}

/* -------------------------------------------------------------------------------------------------------- lines -- */

/* Write text[0 … len) to a pipe in pieces of `piece` bytes, read after each, and append "LENGTH " or "long " a line. */
static void read_in_pieces(size_t limits, const char *text, size_t len, size_t piece, char *seen, size_t size)
{
    cli_lines *lines = malloc(sizeof *lines);
    int ends[2];
    size_t used = 0;
    seen[0] = '\0';
    assert_non_null(lines);
    assert_int_equal(pipe(ends), 0);
    cli_lines_init(lines, ends[0], limits);
    for (size_t at = 0; !lines->at_end; at += piece) {
        if (at < len)
            assert_true(write(ends[1], text + at, len - at < piece ? len - at : piece) > 0);
        else if (ends[1] >= 0)
            ends[1] = close(ends[1]) - 1;
        assert_true(cli_lines_fill(lines));
        const char *line;
        size_t line_len;
        for (cli_line what; (what = cli_lines_next(lines, &line, &line_len)) != CLI_LINE_NONE;)
            used += (size_t)(what == CLI_LINE_READ ? snprintf(seen + used, size - used, "%zu ", line_len)
                                                   : snprintf(seen + used, size - used, "long "));
    }
    close(ends[0]);
    free(lines);
}

static void test_lines_same_however_they_arrive(void **state)
{
    (void)state;
    static char text[200000];
    size_t len = 0;
    static const size_t lengths[] = {0, 1, 8192, 8193, 3, 150000, 2};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        memset(text + len, 'z', lengths[i]);
        len += lengths[i];
        text[len++] = '\n';
    }
    len--; /* the last line has no end */
    static const size_t pieces[] = {997, 4096, 8193, 60000};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        char seen[200];
        read_in_pieces(1, text, len, pieces[i], seen, sizeof seen);
        assert_string_equal(seen, "0 1 8192 long 3 long 2 ");
    }
    char seen[200];
    read_in_pieces(1, text, len - 3, 997, seen, sizeof seen); /* ends inside the long one */
    assert_string_equal(seen, "0 1 8192 long 3 long ");
}

static void test_lines_of_most_names_as_long_as_they_may_be_fit(void **state)
{
    (void)state;
    size_t longest = 4096 * (HIRATE_PAIRS_MAX + 1), len = 2 * longest + 3;
    char *text = malloc(len), seen[200];
    memset(text, 'z', len);
    text[longest] = text[2 * longest + 2] = '\n'; /* one as long as may be, and one longer */
    read_in_pieces(HIRATE_PAIRS_MAX, text, len, 30011, seen, sizeof seen);
    assert_string_equal(seen, "69632 long ");
    free(text);
}

/* Read one line as a request under so many limits; how many names it has, or 0 where it is refused. */
static size_t read_names(size_t limits, bool timed, const char *line, cli_asked *asked)
{
    static cli_lines lines;
    cli_lines_init(&lines, -1, limits);
    bool read = timed ? cli_lines_parse_timed(&lines, line, strlen(line), asked)
                      : cli_lines_parse(&lines, line, strlen(line), asked);
    return read ? asked->who.count : 0;
}

static void assert_name(const cli_asked *asked, size_t limit, const char *want)
{
    const cli_name *name = cli_who_at(&asked->who, limit);
    assert_int_equal((int)name->len, (int)strlen(want));
    assert_memory_equal(name->bytes, want, name->len);
}

static void test_lines_one_name_for_all_or_one_for_each(void **state)
{
    (void)state;
    static cli_asked asked;
    assert_int_equal(read_names(3, false, "5\tann", &asked), 1);
    assert_true(asked.cost == 5);
    for (size_t i = 0; i < 3; i++)
        assert_name(&asked, i, "ann");
    assert_int_equal(read_names(3, false, "5\tann\t\tb\\x2cc", &asked), 3);
    assert_name(&asked, 0, "ann");
    assert_name(&asked, 1, "");
    assert_name(&asked, 2, "b,c");
    assert_int_equal(read_names(3, false, "5\tann\tbob", &asked), 0);
    assert_int_equal(read_names(3, false, "5\ta\tb\tc\td", &asked), 0);
    assert_int_equal(read_names(3, false, "5", &asked), 0);
    assert_int_equal(read_names(3, false, "5\ta\tb\\q\tc", &asked), 0);
    assert_int_equal(read_names(1, false, "5\ta\tb", &asked), 0);
}

static void test_lines_timed_further_columns_are_names_or_passed_over(void **state)
{
    (void)state;
    static cli_asked asked;
    assert_int_equal(read_names(2, true, "7\t5\tann\tbob", &asked), 2);
    assert_true(asked.time_us == 7 && asked.cost == 5);
    assert_name(&asked, 1, "bob");
    assert_int_equal(read_names(2, true, "7\t5\tann", &asked), 1);
    assert_int_equal(read_names(2, true, "7\t5\tann\tallowed\t3\t0\t9\t0", &asked), 1);
    assert_int_equal(read_names(1, true, "7\t5\tann\tbob", &asked), 1);
    /* As many columns as a row has: */
    assert_int_equal(read_names(6, true, "7\t5\tann\tallowed\t3\t0\t9\t0", &asked), 1);
    assert_int_equal(read_names(6, true, "7\t5\tann\terror\t-\t-\t-\t-", &asked), 1);
    assert_int_equal(read_names(6, true, "7\t5\ta\tallowed\tc\td\te\tf", &asked), 6);
    assert_name(&asked, 5, "f");
}

static void test_who_copied_has_names_of_its_own(void **state)
{
    (void)state;
    char ann[] = "ann", bob[] = "bob";
    unsigned char bytes[2 * HIRATE_NAME_MAX];
    cli_who copy, who = {3, {{ann, 3}, {NULL, 0}, {bob, 3}}};
    cli_who_copy(&copy, bytes, &who);
    ann[0] = bob[0] = '?';
    assert_int_equal((int)copy.count, 3);
    assert_memory_equal(cli_who_at(&copy, 0)->bytes, "ann", 3);
    assert_int_equal((int)cli_who_at(&copy, 1)->len, 0);
    assert_memory_equal(cli_who_at(&copy, 2)->bytes, "bob", 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_histogram_any_value_is_found_within_one_percent),
        cmocka_unit_test(test_histogram_buckets_do_not_overlap),
        cmocka_unit_test(test_histogram_percentiles_of_a_range),
        cmocka_unit_test(test_names_uniform_all_alike),
        cmocka_unit_test(test_names_zipf_follow_their_weights),
        cmocka_unit_test(test_names_one_is_always_the_same),
        cmocka_unit_test(test_escape_random_names_read_back),
        cmocka_unit_test(test_unescape_too_long_or_unknown_is_refused),
        cmocka_unit_test(test_escape_item_hides_commas_and_reads_back),
        cmocka_unit_test(test_parse_u64_range_and_form),
        cmocka_unit_test(test_parse_duration_units_and_range),
        cmocka_unit_test(test_lines_same_however_they_arrive),
        cmocka_unit_test(test_lines_of_most_names_as_long_as_they_may_be_fit),
        cmocka_unit_test(test_lines_one_name_for_all_or_one_for_each),
        cmocka_unit_test(test_lines_timed_further_columns_are_names_or_passed_over),
        cmocka_unit_test(test_who_copied_has_names_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
