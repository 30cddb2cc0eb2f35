/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzing: permits. The input as a text, and as the bytes of one that bears the right check sum. What is read is a
 * limit that may be used, and would be written as the same text.
 */
#include "fuzz.h"

#include "permit.h"
#include "policy.h"

#include "../support/sealed.h"

static void check(const char *text)
{
    char again[HIRATE_PERMIT_SIZE];
    hirate_error error = {0};
    hr_permit permit;

    if (hr_permit_read(&permit, text, &error) == 0) {
        FUZZ_CHECK(hirate_limit_check(&permit.limit, NULL) == 0 && permit.limit.policy == permit.policy);
        FUZZ_CHECK(permit.limit.kind == HIRATE_KIND_CONCURRENCY || permit.limit.kind == HIRATE_KIND_QUOTA);
        FUZZ_CHECK(permit.prefix[0] == '\0' || hr_policy_name_ok(permit.prefix));
        FUZZ_CHECK(permit.name_len <= HIRATE_NAME_MAX);
        FUZZ_CHECK(permit.until_us >= 0 && permit.until_us <= INT64_C(1) << 54);
        FUZZ_CHECK(hr_permit_write(again, &permit) == strlen(text) && strcmp(again, text) == 0);
    } else {
        FUZZ_CHECK(error.code == HIRATE_EINVAL);
        fuzz_check_error_text(error.text);
    }
}

int FUZZ_TARGET(permit)(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    check(text);
    free(text);

    unsigned char *bytes = malloc(size + 4);
    text = malloc(2 * size + 10);
    FUZZ_CHECK(bytes != NULL && text != NULL);
    if (size)
        memcpy(bytes, data, size);
    sealed_text(text, bytes, size);
    check(text);
    free(bytes);
    free(text);
    return 0;
}
