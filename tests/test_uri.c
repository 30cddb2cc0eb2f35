/* SPDX-License-Identifier: BSD-3-Clause */
/* Where Redis is: a table of good and of bad addresses; no error holds a password; no memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/nomem.h"
#include "uri.h"

#include <stdio.h>
#include <string.h>

typedef struct good {
    const char *text, *host;
    uint16_t port;
    uint32_t db;
    const char *user, *password;
} good;

static const good TCP[] = {
    {"redis://localhost", "localhost", 6379, 0, NULL, NULL},
    {"redis://localhost/", "localhost", 6379, 0, NULL, NULL},
    {"redis://localhost:6380", "localhost", 6380, 0, NULL, NULL},
    {"redis://localhost:1/0", "localhost", 1, 0, NULL, NULL},
    {"redis://localhost:65535/15", "localhost", 65535, 15, NULL, NULL},
    {"redis://127.0.0.1:6379/2147483647", "127.0.0.1", 6379, 2147483647, NULL, NULL},
    {"redis://[::1]", "::1", 6379, 0, NULL, NULL},
    {"redis://[::1]:7000", "::1", 7000, 0, NULL, NULL},
    {"redis://[2001:db8::7]/3", "2001:db8::7", 6379, 3, NULL, NULL},
    {"redis://[2001:db8::7]:7000/3", "2001:db8::7", 7000, 3, NULL, NULL},
    {"redis://:secret@h", "h", 6379, 0, NULL, "secret"},
    {"redis://:@h", "h", 6379, 0, NULL, ""},
    {"redis://me:secret@h:7/1", "h", 7, 1, "me", "secret"},
    {"redis://me:@h", "h", 6379, 0, "me", ""},
    {"redis://m%65:s%65cret@h", "h", 6379, 0, "me", "secret"},
    {"redis://:%41%4a%4A%6f@h", "h", 6379, 0, NULL, "AJJo"},
    {"redis://me%3aX:%40%2F%25%3A@h", "h", 6379, 0, "me:X", "@/%:"},
    {"redis://me:a:b:c@h", "h", 6379, 0, "me", "a:b:c"},
    {"redis://me:a@b@h", "h", 6379, 0, "me", "a@b"},
    {"redis://me:a/b?c#d@h/2", "h", 6379, 2, "me", "a/b?c#d"},
    {"redis://me:p@[::1]:8", "::1", 8, 0, "me", "p"},
    {"redis://:\xc3\xa9@h", "h", 6379, 0, NULL, "\xc3\xa9"},
};

static const good SOCKETS[] = {
    {"unix:///run/redis.sock", "/run/redis.sock", 0, 0, NULL, NULL},
    {"unix:///run/redis.sock?db=7", "/run/redis.sock", 0, 7, NULL, NULL},
    {"unix:///run/redis.sock?db=2147483647", "/run/redis.sock", 0, 2147483647, NULL, NULL},
    {"unix://:secret@/s", "/s", 0, 0, NULL, "secret"},
    {"unix://me:s%2fc@/s?db=1", "/s", 0, 1, "me", "s/c"},
    {"unix:///run/a@b/s", "/run/a@b/s", 0, 0, NULL, NULL},
    {"unix://me:a@b@/s", "/s", 0, 0, "me", "a@b"},
};

/* Each with the part of the error that names what is wrong. S3CRET stands where a password may. */
static const struct {
    const char *text, *says;
} BAD[] = {
    {"", "begins with neither"},
    {"localhost", "begins with neither"},
    {"localhost:6379", "begins with neither"},
    {"REDIS://h", "begins with neither"},
    {"rediss://:S3CRET@h", "begins with neither"},
    {"redis:/h", "begins with neither"},
    {"http://:S3CRET@h", "begins with neither"},
    {" redis://h", "begins with neither"},
    {"redis://", "the host is empty"},
    {"redis:///1", "the host is empty"},
    {"redis://:6379", "the host is empty"},
    {"redis://me:S3CRET@", "the host is empty"},
    {"redis://me:S3CRET@:6379", "the host is empty"},
    {"redis://[]:6379", "the host is empty"},
    {"redis://::1", "more than one"},
    {"redis://h:0", "port is not a number from 1 to 65535"},
    {"redis://h:", "port is not a number"},
    {"redis://h:65536", "port is not a number"},
    {"redis://h:99999999999999999999", "port is not a number"},
    {"redis://h:+1", "port is not a number"},
    {"redis://h:-1", "port is not a number"},
    {"redis://h: 1", "port is not a number"},
    {"redis://h:6379x", "port is not a number"},
    {"redis://2001:db8::7", "more than one"},
    {"redis://me:S3CRET:h:1", "more than one"}, /* the '@' was forgotten */
    {"redis://[::1", "'[' without ']'"},
    {"redis://[::1]6379", "may follow ']'"},
    {"redis://[::1]:", "port is not a number"},
    {"redis://[fe80::1%25eth0]", "no IPv6 address"},
    {"redis://h/x", "the database is not a number from 0 to 2147483647"},
    {"redis://h/-1", "the database is not a number"},
    {"redis://h/1x", "the database is not a number"},
    {"redis://h/1/", "the database is not a number"},
    {"redis://h/2147483648", "the database is not a number"},
    {"redis://h/99999999999", "the database is not a number"},
    {"redis://h/S3CRET", "the database is not a number"},
    {"redis://h?db=1", "no host name has"},
    {"redis://h#x", "no host name has"},
    {"redis://a b", "no host name has"},
    {"redis://a\tb", "no host name has"},
    {"redis://a\x7f", "no host name has"},
    {"redis://a\\b", "no host name has"},
    {"redis://a%20b", "no host name has"},
    {"redis://S3CRET@h", "without a ':'"},
    {"redis://@h", "without a ':'"},
    {"redis://me:S3CRET%@h", "two hexadecimal digits"},
    {"redis://me:S3CRET%4@h", "two hexadecimal digits"},
    {"redis://me:S3CRET%4g@h", "two hexadecimal digits"},
    {"redis://me:S3CRET%g4@h", "two hexadecimal digits"},
    {"redis://me%zz:S3CRET@h", "two hexadecimal digits"},
    {"redis://me:S3CRET@h:0", "port is not a number"},
    {"redis://me:S3CRET@h/x", "the database is not a number"},
    {"unix://", "does not begin with '/'"},
    {"unix://run/redis.sock", "does not begin with '/'"},
    {"unix://me:S3CRET@", "does not begin with '/'"},
    {"unix://me:S3CRET@run/s", "does not begin with '/'"},
    {"unix://me:S3/CRET@/s", "does not begin with '/'"},
    {"unix://S3CRET@/s", "without a ':'"},
    {"unix://me:S3CRET%zz@/s", "two hexadecimal digits"},
    {"unix:///s?", "only ?db=N may follow"},
    {"unix:///s?db", "only ?db=N may follow"},
    {"unix:///s?password=S3CRET", "only ?db=N may follow"},
    {"unix:///s?db=", "the database is not a number"},
    {"unix:///s?db=x", "the database is not a number"},
    {"unix:///s?db=1&x=S3CRET", "the database is not a number"},
    {"unix:///s?db=2147483648", "the database is not a number"},
};

static void assert_text(const char *what, const char *got, size_t len, const char *expected)
{
    if ((got == NULL) != (expected == NULL) || (got && (len != strlen(expected) || memcmp(got, expected, len) != 0)))
        fail_msg("%s: got '%s', expected '%s'", what, got ? got : "(none)", expected ? expected : "(none)");
    assert_true(got == NULL || got[len] == 0);
}

static void assert_good(const good *g, bool is_unix)
{
    hr_uri uri;
    hirate_error error = {0, ""};

    if (hr_uri_parse(&uri, g->text, &error) != 0)
        fail_msg("'%s' is refused: %s", g->text, error.text);
    assert_int_equal(uri.is_unix, is_unix);
    assert_string_equal(uri.host, g->host);
    assert_int_equal(uri.port, g->port);
    assert_int_equal(uri.db, g->db);
    assert_text(g->text, uri.user, uri.user_len, g->user);
    assert_text(g->text, uri.password, uri.password_len, g->password);
    hr_uri_free(&uri);
    assert_null(uri.host);
    assert_null(uri.password);
}

static void assert_bad(const char *text, const char *says)
{
    hr_uri uri, before;
    hirate_error error = {0, ""};

    memset(&uri, 0x5a, sizeof uri);
    memcpy(&before, &uri, sizeof before);
    int rc = hr_uri_parse(&uri, text, &error);
    if (rc != HIRATE_EINVAL || error.code != rc || strstr(error.text, says) == NULL)
        fail_msg("'%s': expected '%s', got %d '%s'", text, says, rc, error.text);
    assert_memory_equal(&uri, &before, sizeof uri);
    assert_true(strncmp(error.text, "uri: ", 5) == 0);
    assert_non_null(strstr(error.text, "; accepted: redis://[[user]:password@]host[:port][/db] or unix://"));
    assert_null(strstr(error.text, "S3CRET"));
    assert_null(strstr(error.text, "S3"));
    assert_int_equal(hr_uri_parse(&uri, text, NULL), HIRATE_EINVAL);
}

static void test_each_good_one_over_tcp(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof TCP / sizeof TCP[0]; i++)
        assert_good(&TCP[i], false);
}

static void test_each_good_socket(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof SOCKETS / sizeof SOCKETS[0]; i++)
        assert_good(&SOCKETS[i], true);
}

static void test_each_bad_one_is_named_without_its_password(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        assert_bad(BAD[i].text, BAD[i].says);
}

static void test_credentials_may_hold_any_byte(void **state)
{
    char text[3 * 256 * 2 + 64] = "redis://", *to = text + 8;
    hr_uri uri;

    (void)state;
    for (int c = 0; c < 256; c++)
        to += sprintf(to, "%%%02x", (unsigned)c);
    *to++ = ':';
    for (int c = 255; c >= 0; c--)
        to += sprintf(to, "%%%02X", (unsigned)c);
    (void)strcpy(to, "@h");
    assert_int_equal(hr_uri_parse(&uri, text, NULL), 0);
    assert_int_equal(uri.user_len, 256);
    assert_int_equal(uri.password_len, 256);
    for (int c = 0; c < 256; c++) {
        assert_int_equal((unsigned char)uri.user[c], c);
        assert_int_equal((unsigned char)uri.password[c], 255 - c);
    }
    hr_uri_free(&uri);
    assert_int_equal(hr_uri_parse(&uri, "redis://:a%00b@h", NULL), 0);
    assert_int_equal(uri.password_len, 3);
    assert_memory_equal(uri.password, "a\0b", 4);
    hr_uri_free(&uri);
}

static void test_longest_host_and_path(void **state)
{
    char text[400];
    hr_uri uri;

    (void)state;
    for (int len = 250; len <= 256; len++) {
        memset(text, 'h', sizeof text);
        memcpy(text, "redis://", 8);
        text[8 + len] = 0;
        if (len > 255) {
            assert_bad(text, "longer than 255 bytes");
            continue;
        }
        assert_int_equal(hr_uri_parse(&uri, text, NULL), 0);
        assert_int_equal(strlen(uri.host), len);
        hr_uri_free(&uri);
    }
    for (int len = 106; len <= 108; len++) {
        memset(text, 's', sizeof text);
        memcpy(text, "unix:///", 8);
        text[7 + len] = 0;
        if (len > 107) {
            assert_bad(text, "107 bytes");
            continue;
        }
        assert_int_equal(hr_uri_parse(&uri, text, NULL), 0);
        assert_int_equal(strlen(uri.host), len);
        hr_uri_free(&uri);
    }
}

static void test_free_of_a_zeroed_uri_is_fine(void **state)
{
    hr_uri uri = {0};

    (void)state;
    hr_uri_free(&uri);
    hr_uri_free(&uri);
}

static void test_each_allocation_failing_leaves_it_unchanged(void **state)
{
    static const char *const texts[] = {"redis://me:S3CRET@h:1/2", "unix://me:S3CRET@/s"};
    hr_uri uri, before;
    hirate_error error;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        int failures = 0;

        memset(&uri, 0x5a, sizeof uri);
        memcpy(&before, &uri, sizeof before);
        for (;; failures++) {
            nomem_after(failures);
            int rc = hr_uri_parse(&uri, texts[i], &error);
            if (!nomem_end()) {
                assert_int_equal(rc, 0);
                break;
            }
            assert_int_equal(rc, HIRATE_ENOMEM);
            assert_int_equal(error.code, HIRATE_ENOMEM);
            assert_null(strstr(error.text, "S3CRET"));
            assert_memory_equal(&uri, &before, sizeof uri);
        }
        assert_int_equal(failures, 3); /* password, user, host */
        hr_uri_free(&uri);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_good_one_over_tcp),
        cmocka_unit_test(test_each_good_socket),
        cmocka_unit_test(test_each_bad_one_is_named_without_its_password),
        cmocka_unit_test(test_credentials_may_hold_any_byte),
        cmocka_unit_test(test_longest_host_and_path),
        cmocka_unit_test(test_free_of_a_zeroed_uri_is_fine),
        cmocka_unit_test(test_each_allocation_failing_leaves_it_unchanged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
