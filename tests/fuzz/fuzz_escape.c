/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzzing: names as text on one line. Any name comes back as it was; any text is a name or told to be none. */
#include "fuzz.h"

#include "cli/escape.h"

static void check_row(const char *row, size_t len)
{
    for (size_t i = 0; i < len; i++)
        FUZZ_CHECK((unsigned char)row[i] >= 0x20 && row[i] != 0x7f);
}

int FUZZ_TARGET(escape)(const uint8_t *data, size_t size)
{
    unsigned char back[1024];
    size_t len = 0;
    if (size > sizeof back)
        return 0;
    char *row = malloc(4 * size + 1), *json = malloc(6 * size + 1);
    FUZZ_CHECK(row && json);

    size_t row_len = cli_escape_row(row, data, size);
    FUZZ_CHECK(row_len <= 4 * size);
    check_row(row, row_len);
    FUZZ_CHECK(cli_unescape(back, sizeof back, row, row_len, &len) == NULL);
    FUZZ_CHECK(len == size && (!size || memcmp(back, data, size) == 0));

    row_len = cli_escape_item(row, data, size);
    FUZZ_CHECK(row_len <= 4 * size && memchr(row, ',', row_len) == NULL);
    check_row(row, row_len);
    FUZZ_CHECK(cli_unescape(back, sizeof back, row, row_len, &len) == NULL);
    FUZZ_CHECK(len == size && (!size || memcmp(back, data, size) == 0));

    size_t json_len = cli_escape_json(json, data, size);
    FUZZ_CHECK(json_len <= 6 * size);
    check_row(json, json_len);

    if (!cli_unescape(back, sizeof back, (const char *)data, size, &len)) {
        size_t again;
        unsigned char twice[1024];
        FUZZ_CHECK(len <= size);
        row_len = cli_escape_row(row, back, len);
        FUZZ_CHECK(cli_unescape(twice, sizeof twice, row, row_len, &again) == NULL);
        FUZZ_CHECK(again == len && (!len || memcmp(twice, back, len) == 0));
    }
    free(row);
    free(json);
    return 0;
}
