/* SPDX-License-Identifier: BSD-3-Clause */
/* What a request must be: every field named when it is wrong, and one from before the later fields taken as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "check.h"
#include "permit.h"

#include <stdbool.h>
#include <string.h>

enum { FIRST_SIZE = offsetof(hirate_request, user) + sizeof(void *) };

static const hirate_limit bucket = HIRATE_TOKEN_BUCKET("bucket", 1, HIRATE_PER_SECOND(1));
static const hirate_limit quota = HIRATE_QUOTA("quota", 1, HIRATE_PER_DAY, 0);
static const hirate_limit leases = HIRATE_CONCURRENCY("leases", 1, HIRATE_SECONDS(1));

static const enum hirate_op with_permit[] = {HIRATE_OP_RELEASE, HIRATE_OP_RENEW, HIRATE_OP_COMMIT, HIRATE_OP_REFUND};
enum { WITH_PERMIT = sizeof with_permit / sizeof with_permit[0] };

static hirate_request make(enum hirate_op op)
{
    hirate_request request;

    hirate_request_init(&request);
    request.op = op;
    if (hr_op_uses_permit(op)) {
        request.permit = "text";
        return request;
    }
    request.limit = &bucket;
    request.name = "a";
    request.name_len = 1;
    return request;
}

static void assert_accepted(const hirate_request *request)
{
    hirate_error error = {0, ""};

    if (hr_check_request(request, &error) != 0)
        fail_msg("%s", error.text);
}

static void assert_refused(const hirate_request *request, const char *begins, const char *says)
{
    hirate_error error = {0, ""};
    int rc = hr_check_request(request, &error);

    if (rc != HIRATE_EINVAL || strncmp(error.text, begins, strlen(begins)) != 0 || strstr(error.text, says) == NULL)
        fail_msg("expected '%s … %s', got %d '%s'", begins, says, rc, error.text);
    assert_int_equal(hr_check_request(request, NULL), HIRATE_EINVAL);
}

static void test_check_each_operation_is_accepted(void **state)
{
    (void)state;
    for (int op = HIRATE_OP_ACQUIRE; op <= HIRATE_OP_REFUND; op++) {
        hirate_request request = make((enum hirate_op)op);
        assert_accepted(&request);
    }
    hirate_request request = make(HIRATE_OP_ACQUIRE);
    request.op = HIRATE_OP_INVALID;
    assert_refused(&request, "op: 0 is not known", "acquire, peek, reset, release, renew, commit, refund (1 to 7)");
    request.op = (enum hirate_op)8;
    assert_refused(&request, "op: 8 is not known", "1 to 7");
    request.op = (enum hirate_op) - 1;
    assert_refused(&request, "op: -1 is not known", "1 to 7");
}

static void test_check_header_wrong_is_named(void **state)
{
    hirate_request request = make(HIRATE_OP_ACQUIRE);

    (void)state;
    assert_refused(NULL, "request: is NULL", "hirate_request_init()");
    request.struct_size = FIRST_SIZE - 1;
    assert_refused(&request, "request.struct_size: 71", "72 to");
    request = make(HIRATE_OP_ACQUIRE);
    request.version = 2;
    assert_refused(&request, "request.version: 2", "accepted: 1");
}

static void test_check_name_and_limit_wrong_are_named(void **state)
{
    static const char longest[HIRATE_NAME_MAX + 1] = {'n'};
    hirate_request request = make(HIRATE_OP_RESET);

    (void)state;
    request.name = longest;
    request.name_len = HIRATE_NAME_MAX;
    assert_accepted(&request);
    request.name_len++;
    assert_refused(&request, "name: 1025 bytes", "0 to 1024");
    request.name_len = 1;
    request.name = NULL;
    assert_refused(&request, "name: is NULL", "with a length of 0");
    request.name_len = 0;
    assert_accepted(&request);
    request.limit = NULL;
    assert_refused(&request, "limit: is NULL", "a limit");
}

static void test_check_cost_is_bounded_where_it_is_used(void **state)
{
    (void)state;
    for (int op = HIRATE_OP_ACQUIRE; op <= HIRATE_OP_REFUND; op++) {
        hirate_request request = make((enum hirate_op)op);

        request.cost = HIRATE_COST_MAX;
        assert_accepted(&request);
        request.cost = UINT64_MAX;
        if (op == HIRATE_OP_ACQUIRE || op == HIRATE_OP_PEEK || op == HIRATE_OP_COMMIT)
            assert_refused(&request, "cost: 18446744073709551615 is too large", "0 to 9007199254740991");
        else
            assert_accepted(&request);
    }
}

/* ------------------------------------------------------------------------------------------------- several -- */

/* Names of their own: "0", "1", … */
typedef struct several {
    char names[HIRATE_PAIRS_MAX + 1];
    hirate_pair more[HIRATE_PAIRS_MAX + 1];
} several;

static void several_init(several *s, const hirate_limit *limit)
{
    for (size_t i = 0; i < sizeof s->more / sizeof s->more[0]; i++) {
        s->names[i] = (char)('A' + i);
        s->more[i] = (hirate_pair){limit, &s->names[i], 1};
    }
}

static void test_check_several_limits_are_bounded(void **state)
{
    hirate_request request = make(HIRATE_OP_ACQUIRE);
    several s;

    (void)state;
    several_init(&s, &bucket);
    request.more = s.more;
    for (request.more_count = 0; request.more_count < HIRATE_PAIRS_MAX; request.more_count++)
        assert_accepted(&request);
    assert_refused(&request, "more_count: 16", "0 to 15");
    request.more_count = SIZE_MAX;
    assert_refused(&request, "more_count: 18446744073709551615", "0 to 15");
    request.more = NULL;
    request.more_count = 1;
    assert_refused(&request, "more: is NULL", "with a more_count of 0");
    request.more_count = 0;
    assert_accepted(&request);
}

static void test_check_several_limits_only_with_acquire_and_peek(void **state)
{
    several s;

    (void)state;
    several_init(&s, &bucket);
    for (int op = HIRATE_OP_ACQUIRE; op <= HIRATE_OP_REFUND; op++) {
        hirate_request request = make((enum hirate_op)op);

        request.more = s.more;
        assert_accepted(&request);
        request.more_count = 1;
        if (op == HIRATE_OP_ACQUIRE || op == HIRATE_OP_PEEK)
            assert_accepted(&request);
        else
            assert_refused(&request, "more_count: 1 given to a ", "accepted: 0, or an acquire or a peek");
    }
}

static void test_check_each_of_several_is_named(void **state)
{
    hirate_request request = make(HIRATE_OP_PEEK);
    several s;

    (void)state;
    request.more = s.more;
    request.more_count = HIRATE_PAIRS_MAX - 1;
    several_init(&s, &bucket);
    s.more[0].limit = NULL;
    assert_refused(&request, "more[0].limit: is NULL", "a limit");
    several_init(&s, &bucket);
    s.more[14].name_len = 1025;
    assert_refused(&request, "more[14].name: 1025 bytes", "0 to 1024");
    several_init(&s, &bucket);
    s.more[3].name = NULL;
    assert_refused(&request, "more[3].name: is NULL", "with a length of 0");
    s.more[3].name_len = 0;
    assert_accepted(&request);
}

static void test_check_same_policy_and_name_twice_is_refused(void **state)
{
    hirate_limit other = bucket, elsewhere = bucket;
    char policy[] = "bucket";
    hirate_request request = make(HIRATE_OP_ACQUIRE);
    several s;

    (void)state;
    several_init(&s, &bucket);
    request.more = s.more;
    request.more_count = 3;
    s.more[1].name = "a"; /* as the request's own */
    assert_refused(&request, "more[1]: the same policy and name as limit", "each once");
    s.more[1].name = "A"; /* as the first of them */
    assert_refused(&request, "more[1]: the same policy and name as more[0].limit", "each once");
    /* It is the policy's name that counts: another limit of that name has the same key. */
    elsewhere.policy = policy;
    elsewhere.capacity = 2;
    s.more[1].limit = &elsewhere;
    assert_refused(&request, "more[1]: the same", "each once");
    other.policy = "bucket2";
    s.more[1].limit = &other;
    assert_accepted(&request);
    /* Names that begin alike, are empty, or hold NULs. */
    request.name = "a\0b";
    request.name_len = 3;
    s.more[0] = (hirate_pair){&bucket, "a\0c", 3};
    s.more[1] = (hirate_pair){&bucket, NULL, 0};
    s.more[2] = (hirate_pair){&bucket, "a", 1};
    assert_accepted(&request);
    s.more[2] = (hirate_pair){&bucket, "", 0};
    assert_refused(&request, "more[2]: the same policy and name as more[1].limit", "each once");
}

/* What hirate_limit_check() refuses for its size or name is not looked at here. */
static void test_check_leaves_a_wrong_limit_to_its_own_check(void **state)
{
    hirate_limit wrong = bucket;
    hirate_request request = make(HIRATE_OP_ACQUIRE);
    hirate_pair more = {&wrong, "a", 1};

    (void)state;
    request.more = &more;
    request.more_count = 1;
    request.hold_us = 1;
    wrong.policy = NULL;
    assert_accepted(&request);
    wrong.policy = "bucket";
    wrong.struct_size = 8;
    assert_accepted(&request);
}

/* -------------------------------------------------------------------------------------------------- holds -- */

static void test_check_hold_needs_a_quota(void **state)
{
    hirate_request request = make(HIRATE_OP_ACQUIRE);
    several s;

    (void)state;
    several_init(&s, &leases);
    request.more = s.more;
    request.more_count = 2;
    request.hold_us = 1;
    assert_refused(&request, "hold_us: given without a quota", "a quota among the limits");
    s.more[1].limit = &quota;
    assert_accepted(&request);
    request.more_count = 0;
    assert_refused(&request, "hold_us: given without a quota", "accepted: 0, or");
    request.limit = &quota;
    assert_accepted(&request);
    request.hold_us = UINT64_C(1) << 52;
    assert_accepted(&request);
    request.hold_us++;
    assert_refused(&request, "hold_us: 4503599627370497 is too large", "0 to 4503599627370496");
}

static void test_check_hold_only_with_acquire(void **state)
{
    (void)state;
    for (int op = HIRATE_OP_PEEK; op <= HIRATE_OP_REFUND; op++) {
        hirate_request request = make((enum hirate_op)op);

        request.limit = &quota;
        request.hold_us = 1;
        assert_refused(&request, "hold_us: given to a ", "accepted: 0, or an acquire");
    }
}

static void test_check_permit_goes_with_its_operations(void **state)
{
    (void)state;
    for (size_t i = 0; i < WITH_PERMIT; i++) {
        hirate_request request = make(with_permit[i]);

        /* Limit and name are not looked at. */
        request.name = NULL;
        request.name_len = SIZE_MAX;
        assert_accepted(&request);
        request.permit = NULL;
        assert_refused(&request, "permit: is NULL", "a result's permit");
    }
    for (int op = HIRATE_OP_ACQUIRE; op <= HIRATE_OP_RESET; op++) {
        hirate_request request = make((enum hirate_op)op);

        request.permit = "SECRET";
        assert_refused(&request, "permit: given to a", "NULL, or a release, renewal, commit or refund");
        request.permit = "";
        assert_refused(&request, "permit: given to a", "NULL, or");
    }
}

/* --------------------------------------------------------------------------------------------------- sizes -- */

/* A program that knows the first fields only: what follows them in memory is its own. */
static void test_check_first_version_has_no_later_fields(void **state)
{
    hirate_request request = make(HIRATE_OP_ACQUIRE);

    (void)state;
    memset((char *)&request + FIRST_SIZE, 0x5a, sizeof request - FIRST_SIZE);
    request.struct_size = FIRST_SIZE;
    assert_accepted(&request);
    hirate_request room;
    const hirate_request *whole = hr_check_whole(&request, &room);
    assert_memory_equal(whole, &request, FIRST_SIZE);
    assert_true(whole->more == NULL && whole->more_count == 0 && whole->hold_us == 0 && whole->permit == NULL);
    request.op = HIRATE_OP_RELEASE;
    assert_refused(&request, "permit: is NULL", "a result's permit");
}

static void test_check_whole_request_is_taken_as_it_is(void **state)
{
    struct {
        hirate_request request;
        uint64_t later;
    } newer;
    hirate_pair more = {&quota, "b", 1};

    (void)state;
    memset(&newer, 0, sizeof newer);
    newer.request = make(HIRATE_OP_ACQUIRE);
    newer.request.more = &more;
    newer.request.more_count = 1;
    newer.request.hold_us = 7;
    newer.request.struct_size = (uint32_t)sizeof newer;
    assert_accepted(&newer.request);
    hirate_request room;
    assert_ptr_equal(hr_check_whole(&newer.request, &room), &newer.request);
    newer.later = 1;
    assert_refused(&newer.request, "request.struct_size: 112", "does not know");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_each_operation_is_accepted),
        cmocka_unit_test(test_check_header_wrong_is_named),
        cmocka_unit_test(test_check_name_and_limit_wrong_are_named),
        cmocka_unit_test(test_check_cost_is_bounded_where_it_is_used),
        cmocka_unit_test(test_check_several_limits_are_bounded),
        cmocka_unit_test(test_check_several_limits_only_with_acquire_and_peek),
        cmocka_unit_test(test_check_each_of_several_is_named),
        cmocka_unit_test(test_check_same_policy_and_name_twice_is_refused),
        cmocka_unit_test(test_check_leaves_a_wrong_limit_to_its_own_check),
        cmocka_unit_test(test_check_hold_needs_a_quota),
        cmocka_unit_test(test_check_hold_only_with_acquire),
        cmocka_unit_test(test_check_permit_goes_with_its_operations),
        cmocka_unit_test(test_check_first_version_has_no_later_fields),
        cmocka_unit_test(test_check_whole_request_is_taken_as_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
