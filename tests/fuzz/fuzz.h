/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzzing: one file a target, each a function of bytes that returns if all is well and aborts if not. tests/fuzz.sh
 * builds each alone for libFuzzer (FUZZ_ALONE); tests/test_fuzz.c holds them all and replays tests/fuzz/corpus/NAME/.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef FUZZ_ALONE
#define FUZZ_TARGET(name) LLVMFuzzerTestOneInput
#else
#define FUZZ_TARGET(name) fuzz_##name
#endif

#ifdef FUZZ_ALONE
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
#else
int fuzz_escape(const uint8_t *data, size_t size);
int fuzz_limits(const uint8_t *data, size_t size);
int fuzz_lines(const uint8_t *data, size_t size);
int fuzz_permit(const uint8_t *data, size_t size);
int fuzz_refusal(const uint8_t *data, size_t size);
int fuzz_reply(const uint8_t *data, size_t size);
int fuzz_spec(const uint8_t *data, size_t size);
int fuzz_uri(const uint8_t *data, size_t size);
#endif

/* Not assert(), which may be compiled out. */
#define FUZZ_CHECK(ok)                                                                                                 \
    do {                                                                                                               \
        if (!(ok)) {                                                                                                   \
            fprintf(stderr, "%s:%d: not %s\n", __FILE__, __LINE__, #ok);                                               \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* A copy that ends with a NUL; for sanitizers it ends where it should. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    FUZZ_CHECK(text != NULL);
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/* One line that is safe to print, and not empty. */
static inline void fuzz_check_error_text(const char *text)
{
    FUZZ_CHECK(text[0] != '\0');
    for (; *text; text++)
        FUZZ_CHECK((unsigned char)*text >= 0x20 && *text != 0x7f);
}

#endif
