/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzzing: a limit's text form. What is read is a limit that may be used; what is not leaves everything as it was. */
#include "fuzz.h"

#include "hirate.h"

int FUZZ_TARGET(spec)(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), policy[HIRATE_POLICY_SIZE], policy_before[HIRATE_POLICY_SIZE];
    hirate_limit limit, before;
    hirate_error error = {0};

    memset(&limit, 0x5a, sizeof limit);
    memset(policy, 0x5a, sizeof policy);
    before = limit;
    memcpy(policy_before, policy, sizeof policy);
    if (hirate_limit_parse(text, &limit, policy, &error) == 0) {
        FUZZ_CHECK(limit.policy == policy && strlen(policy) >= 1 && strlen(policy) <= HIRATE_POLICY_MAX);
        FUZZ_CHECK(hirate_limit_check(&limit, &error) == 0);
        FUZZ_CHECK(strstr(text, policy) != NULL);
    } else {
        FUZZ_CHECK(error.code == HIRATE_EINVAL);
        fuzz_check_error_text(error.text);
        FUZZ_CHECK(memcmp(&limit, &before, sizeof limit) == 0 && memcmp(policy, policy_before, sizeof policy) == 0);
    }
    free(text);
    return 0;
}
