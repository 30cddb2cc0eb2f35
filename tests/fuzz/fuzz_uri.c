/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzzing: where Redis is. No error quotes a password. */
#include "fuzz.h"

#include "uri.h"

#define SECRET "s3cR.t"

static void check_parsed(const hr_uri *uri)
{
    FUZZ_CHECK(uri->host && uri->host[0]);
    FUZZ_CHECK(uri->is_unix ? uri->host[0] == '/' && uri->port == 0 : uri->port > 0);
    FUZZ_CHECK(uri->db <= INT32_MAX);
    FUZZ_CHECK(!uri->user || uri->password);
    FUZZ_CHECK(!uri->password || uri->password[uri->password_len] == '\0');
}

static void parse(const char *text, const char *secret)
{
    hr_uri uri = {0};
    hirate_error error = {0};
    hirate_options options;

    int rc = hr_uri_parse(&uri, text, &error);
    if (rc == 0) {
        check_parsed(&uri);
    } else {
        FUZZ_CHECK(rc == HIRATE_EINVAL && error.code == rc && !uri.host);
        fuzz_check_error_text(error.text);
        FUZZ_CHECK(!secret || !strstr(error.text, secret));
    }
    hr_uri_free(&uri);
    hirate_options_init(&options);
    options.uri = text;
    FUZZ_CHECK(hirate_options_check(&options, &error) == rc);
    FUZZ_CHECK(!rc || !secret || !strstr(error.text, secret));
}

int FUZZ_TARGET(uri)(const uint8_t *data, size_t size)
{
    static const char *const BEFORE[] = {"redis://user:" SECRET, "unix://:" SECRET, "redis://:" SECRET "@",
                                         "unix://u:" SECRET "@/"};
    char *text = fuzz_text(data, size);
    parse(text, NULL);
    for (size_t i = 0; i < sizeof BEFORE / sizeof *BEFORE; i++) {
        size_t room = strlen(BEFORE[i]) + size + 1;
        char *with_secret = malloc(room);
        FUZZ_CHECK(with_secret != NULL);
        snprintf(with_secret, room, "%s%s", BEFORE[i], text);
        parse(with_secret, strstr(text, SECRET) ? NULL : SECRET);
        free(with_secret);
    }
    free(text);
    return 0;
}
