/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzzing: what an error reply means. As old servers wrap it, it means the same. */
#include "fuzz.h"

#include "refusal.h"

#include <stdbool.h>

static const char WRAPPER[] = "ERR Error running script";

int FUZZ_TARGET(refusal)(const uint8_t *data, size_t size)
{
    static const char HEAD[] = "ERR Error running script (call to f_0123): @user_script:7: -";
    char *text = malloc(size + 1); /* no NUL: the length is what counts */
    FUZZ_CHECK(text != NULL);
    if (size)
        memcpy(text, data, size);
    hr_refusal plain = hr_refusal_of(text, size);
    FUZZ_CHECK(plain.action > HR_REFUSAL_INVALID && plain.action <= HR_REFUSAL_ANSWER);
    FUZZ_CHECK(plain.error < 0);
    FUZZ_CHECK(plain.charge == HIRATE_CHARGE_NO || plain.charge == HIRATE_CHARGE_MAYBE);
    /* What is to be sent again must not have been charged. */
    FUZZ_CHECK((plain.action != HR_REFUSAL_LOAD && plain.action != HR_REFUSAL_WAIT) ||
               plain.charge == HIRATE_CHARGE_NO);

    bool is_wrapped = size >= sizeof WRAPPER - 1 && memcmp(text, WRAPPER, sizeof WRAPPER - 1) == 0;
    if (plain.charge == HIRATE_CHARGE_NO && !is_wrapped) {
        char *wrapped = malloc(sizeof HEAD - 1 + size);
        FUZZ_CHECK(wrapped != NULL);
        memcpy(wrapped, HEAD, sizeof HEAD - 1);
        memcpy(wrapped + sizeof HEAD - 1, text, size);
        hr_refusal inner = hr_refusal_of(wrapped, sizeof HEAD - 1 + size);
        FUZZ_CHECK(inner.action == plain.action && inner.error == plain.error && inner.charge == plain.charge);
        free(wrapped);
    }
    free(text);
    return 0;
}
