/* SPDX-License-Identifier: BSD-3-Clause */
/* Names to addresses: literals, the thread, giving up while it runs, and a host's own resolver. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "resolve.h"
#include "support/threads.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

static const struct sockaddr_in *v4(const hr_address *address)
{
    return (const struct sockaddr_in *)&address->sockaddr;
}

static const struct sockaddr_in6 *v6(const hr_address *address)
{
    return (const struct sockaddr_in6 *)&address->sockaddr;
}

static void test_literal_v4(void **state)
{
    hr_addresses addresses;

    (void)state;
    assert_true(hr_resolve_literal("192.0.2.7", 6380, &addresses));
    assert_int_equal(addresses.count, 1);
    assert_int_equal(addresses.list[0].len, sizeof(struct sockaddr_in));
    assert_int_equal(v4(&addresses.list[0])->sin_family, AF_INET);
    assert_int_equal(ntohs(v4(&addresses.list[0])->sin_port), 6380);
    assert_int_equal(ntohl(v4(&addresses.list[0])->sin_addr.s_addr), 0xc0000207);
}

static void test_literal_v6(void **state)
{
    struct in6_addr expected;
    hr_addresses addresses;

    (void)state;
    assert_int_equal(inet_pton(AF_INET6, "2001:db8::7", &expected), 1);
    assert_true(hr_resolve_literal("2001:db8::7", 65535, &addresses));
    assert_int_equal(addresses.count, 1);
    assert_int_equal(addresses.list[0].len, sizeof(struct sockaddr_in6));
    assert_int_equal(v6(&addresses.list[0])->sin6_family, AF_INET6);
    assert_int_equal(ntohs(v6(&addresses.list[0])->sin6_port), 65535);
    assert_memory_equal(&v6(&addresses.list[0])->sin6_addr, &expected, sizeof expected);
}

static void test_names_are_no_literals(void **state)
{
    static const char *const names[] = {"localhost", "a.example",    "",     "256.1.1.1",
                                        "1.2.3.4.5", "2001:db8:::7", "[::1]"};
    hr_addresses addresses;

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_false(hr_resolve_literal(names[i], 1, &addresses));
}

/* ------------------------------------------------------------------------------------------------ the thread -- */

static void wait_for(const hirate_resolution *resolution)
{
    struct pollfd p = {.fd = hr_resolution_fd(resolution), .events = POLLIN};

    assert_true(p.fd >= 0);
    assert_int_equal(poll(&p, 1, 30000), 1);
    assert_int_equal(p.revents, POLLIN);
}

static void test_localhost_comes_from_the_thread(void **state)
{
    hirate_resolution *resolution = NULL;
    hr_addresses addresses = {.count = 0};
    int rc = 1;

    (void)state;
    assert_int_equal(hr_resolve_start(&resolution, "localhost", 6381, NULL, NULL, NULL, NULL), 0);
    wait_for(resolution);
    assert_true(hr_resolution_done(resolution, &rc, &addresses));
    assert_int_equal(rc, 0);
    assert_true(addresses.count >= 1 && addresses.count <= HR_RESOLVE_MOST);
    for (uint32_t i = 0; i < addresses.count; i++) {
        const hr_address *address = &addresses.list[i];
        bool is_v4 = address->sockaddr.ss_family == AF_INET;
        assert_true(is_v4 || address->sockaddr.ss_family == AF_INET6);
        assert_int_equal(ntohs(is_v4 ? v4(address)->sin_port : v6(address)->sin6_port), 6381);
        assert_true(is_v4 ? ntohl(v4(address)->sin_addr.s_addr) >> 24 == 127
                          : IN6_IS_ADDR_LOOPBACK(&v6(address)->sin6_addr));
    }
    hr_resolution_drop(resolution);
}

static void test_name_that_cannot_be_is_an_error(void **state)
{
    hirate_resolution *resolution = NULL;
    hr_addresses addresses = {.count = 77};
    int rc = 0;

    (void)state;
    /* A label of more than 63 bytes: refused without asking anybody. */
    assert_int_equal(hr_resolve_start(&resolution,
                                      "a-label-that-is-longer-than-sixty-three-bytes-as-no-name-may-have-it.invalid", 1,
                                      NULL, NULL, NULL, NULL),
                     0);
    wait_for(resolution);
    assert_true(hr_resolution_done(resolution, &rc, &addresses));
    assert_int_equal(rc, HIRATE_ECONNECT);
    assert_int_equal(addresses.count, 77);
    hr_resolution_drop(resolution);
}

static void test_drop_while_the_thread_runs_is_fine(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        hirate_resolution *resolution = NULL;
        assert_int_equal(hr_resolve_start(&resolution, "localhost", 1, NULL, NULL, NULL, NULL), 0);
        hr_resolution_drop(resolution);
    }
    hr_resolution_drop(NULL);
    assert_int_equal(threads_end(state), 0);
}

static void test_several_at_once_are_kept_apart(void **state)
{
    hirate_resolution *all[8];

    (void)state;
    for (uint16_t i = 0; i < 8; i++)
        assert_int_equal(hr_resolve_start(&all[i], "127.0.0.1", (uint16_t)(100 + i), NULL, NULL, NULL, NULL), 0);
    for (uint16_t i = 8; i-- > 0;) {
        hr_addresses addresses;
        int rc;
        wait_for(all[i]);
        assert_true(hr_resolution_done(all[i], &rc, &addresses));
        assert_int_equal(rc, 0);
        assert_int_equal(ntohs(v4(&addresses.list[0])->sin_port), 100 + i);
        hr_resolution_drop(all[i]);
    }
}

/* ------------------------------------------------------------------------------------------- a host's resolver -- */

typedef struct own {
    hirate_resolution *resolution;
    const struct addrinfo *list; /* answered with at once, unless NULL and rc 0 */
    int rc, returns;
    char host[64];
    uint16_t port;
    int woken;
} own;

static int own_resolve(void *user, const char *host, uint16_t port, hirate_resolution *resolution)
{
    own *o = user;

    o->resolution = resolution;
    o->port = port;
    (void)strncpy(o->host, host, sizeof o->host - 1);
    if (!o->returns && (o->list || o->rc))
        hirate_resolved(resolution, o->rc, o->list);
    return o->returns;
}

static void own_wake(void *arg)
{
    ((own *)arg)->woken++;
}

typedef struct chain {
    struct sockaddr_in sockaddr[12];
    struct addrinfo list[12];
} chain;

/* 10.0.0.0, 10.0.0.1, … */
static const struct addrinfo *chain_of(chain *c, size_t count)
{
    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < count; i++) {
        c->sockaddr[i].sin_family = AF_INET;
        c->sockaddr[i].sin_port = htons(7000);
        c->sockaddr[i].sin_addr.s_addr = htonl(0x0a000000 + (uint32_t)i);
        c->list[i].ai_family = AF_INET;
        c->list[i].ai_addr = (struct sockaddr *)&c->sockaddr[i];
        c->list[i].ai_addrlen = sizeof c->sockaddr[i];
        c->list[i].ai_next = i + 1 < count ? &c->list[i + 1] : NULL;
    }
    return c->list;
}

static hirate_resolution *start_own(own *o)
{
    hirate_resolution *resolution = NULL;

    assert_int_equal(hr_resolve_start(&resolution, "redis.example", 7000, own_resolve, o, own_wake, o), 0);
    assert_non_null(resolution);
    assert_int_equal(hr_resolution_fd(resolution), -1);
    assert_string_equal(o->host, "redis.example");
    assert_int_equal(o->port, 7000);
    return resolution;
}

static void test_own_answering_inside_is_done_at_once(void **state)
{
    chain c;
    own o = {.list = chain_of(&c, 2)};
    hr_addresses addresses;
    int rc = 1;

    (void)state;
    hirate_resolution *resolution = start_own(&o);
    memset(&c, 0x5a, sizeof c); /* they were copied */
    assert_int_equal(o.woken, 1);
    assert_true(hr_resolution_done(resolution, &rc, &addresses));
    assert_int_equal(rc, 0);
    assert_int_equal(addresses.count, 2);
    assert_int_equal(ntohl(v4(&addresses.list[0])->sin_addr.s_addr), 0x0a000000);
    assert_int_equal(ntohl(v4(&addresses.list[1])->sin_addr.s_addr), 0x0a000001);
    hr_resolution_drop(resolution);
}

static void test_own_answering_later_wakes(void **state)
{
    chain c;
    own o = {.rc = 0};
    hr_addresses addresses = {.count = 77};
    int rc = 1;

    (void)state;
    hirate_resolution *resolution = start_own(&o);
    assert_int_equal(o.woken, 0);
    assert_false(hr_resolution_done(resolution, &rc, &addresses));
    assert_int_equal(rc, 1);
    assert_int_equal(addresses.count, 77);
    hirate_resolved(o.resolution, 0, chain_of(&c, 1));
    assert_int_equal(o.woken, 1);
    assert_true(hr_resolution_done(resolution, &rc, &addresses));
    assert_int_equal(rc, 0);
    assert_int_equal(addresses.count, 1);
    hr_resolution_drop(resolution);
}

static void test_own_answering_after_drop_wakes_nobody(void **state)
{
    chain c;
    own o = {.rc = 0};

    (void)state;
    hr_resolution_drop(start_own(&o));
    hirate_resolved(o.resolution, 0, chain_of(&c, 3));
    assert_int_equal(o.woken, 0);
}

static void test_own_error_is_passed_on(void **state)
{
    own o = {.rc = HIRATE_ENOMEM};
    hr_addresses addresses = {.count = 77};
    int rc = 0;

    (void)state;
    hirate_resolution *resolution = start_own(&o);
    assert_true(hr_resolution_done(resolution, &rc, &addresses));
    assert_int_equal(rc, HIRATE_ENOMEM);
    assert_int_equal(addresses.count, 77);
    assert_int_equal(o.woken, 1);
    hr_resolution_drop(resolution);
}

static void test_own_that_refuses_is_the_calls_error(void **state)
{
    own o = {.returns = HIRATE_EINVAL};
    hirate_resolution *resolution = NULL;

    (void)state;
    assert_int_equal(hr_resolve_start(&resolution, "h", 1, own_resolve, &o, own_wake, &o), HIRATE_EINVAL);
    assert_null(resolution);
    assert_int_equal(o.woken, 0);
}

static void test_first_eight_usable_addresses_are_kept_in_order(void **state)
{
    chain c;
    own o = {.list = chain_of(&c, 12)};
    hr_addresses addresses;
    int rc = 1;

    (void)state;
    c.list[0].ai_family = AF_UNIX;
    c.list[2].ai_addrlen = sizeof(struct sockaddr_storage) + 1;
    hirate_resolution *resolution = start_own(&o);
    assert_true(hr_resolution_done(resolution, &rc, &addresses));
    assert_int_equal(rc, 0);
    assert_int_equal(addresses.count, 8);
    static const uint32_t last[] = {1, 3, 4, 5, 6, 7, 8, 9};
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(ntohl(v4(&addresses.list[i])->sin_addr.s_addr), 0x0a000000 + last[i]);
    hr_resolution_drop(resolution);
}

static void test_no_usable_address_is_no_connection(void **state)
{
    chain c;
    own o = {.list = chain_of(&c, 1)};
    hr_addresses addresses;
    int rc = 0;

    (void)state;
    c.list[0].ai_family = AF_UNIX;
    hirate_resolution *resolution = start_own(&o);
    assert_true(hr_resolution_done(resolution, &rc, &addresses));
    assert_int_equal(rc, HIRATE_ECONNECT);
    hr_resolution_drop(resolution);

    own none = {.rc = 0};
    resolution = start_own(&none);
    hirate_resolved(none.resolution, 0, NULL);
    assert_true(hr_resolution_done(resolution, &rc, &addresses));
    assert_int_equal(rc, HIRATE_ECONNECT);
    hr_resolution_drop(resolution);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_literal_v4),
        cmocka_unit_test(test_literal_v6),
        cmocka_unit_test(test_names_are_no_literals),
        cmocka_unit_test(test_localhost_comes_from_the_thread),
        cmocka_unit_test(test_name_that_cannot_be_is_an_error),
        cmocka_unit_test(test_drop_while_the_thread_runs_is_fine),
        cmocka_unit_test(test_several_at_once_are_kept_apart),
        cmocka_unit_test(test_own_answering_inside_is_done_at_once),
        cmocka_unit_test(test_own_answering_later_wakes),
        cmocka_unit_test(test_own_answering_after_drop_wakes_nobody),
        cmocka_unit_test(test_own_error_is_passed_on),
        cmocka_unit_test(test_own_that_refuses_is_the_calls_error),
        cmocka_unit_test(test_first_eight_usable_addresses_are_kept_in_order),
        cmocka_unit_test(test_no_usable_address_is_no_connection),
    };

    return cmocka_run_group_tests(tests, NULL, threads_end);
}
