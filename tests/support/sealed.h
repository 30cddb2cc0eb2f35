/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests: the text of a permit of any bytes, with the check sum that belongs to them: what someone makes who means harm.
 * Written apart from src/permit.c, a bit at a time.
 */
#ifndef TESTS_SUPPORT_SEALED_H
#define TESTS_SUPPORT_SEALED_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32C, the highest bit first, not inverted at the end. */
static inline uint32_t sealed_crc(const unsigned char *bytes, size_t len)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < 8 * len; i++) {
        uint32_t bit = (uint32_t)bytes[i / 8] >> (7 - i % 8) & 1U;
        crc = (crc >> 31 ^ bit) ? crc << 1 ^ UINT32_C(0x1edc6f41) : crc << 1;
    }
    return crc;
}

/* base64url of bit `at`, counted from 0, and the five after it; those past the end are 0. */
static inline char sealed_digit(const unsigned char *bytes, size_t len, size_t at)
{
    unsigned value = 0;

    for (size_t i = at; i < at + 6; i++)
        value = value << 1 | (i < 8 * len ? (uint32_t)bytes[i / 8] >> (7 - i % 8) & 1U : 0);
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[value];
}

/* Append the check sum to bytes, which have room for four more, and write them as text to `out`: 4/3 as many and 3. */
static inline void sealed_text(char *out, unsigned char *bytes, size_t len)
{
    uint32_t crc = sealed_crc(bytes, len);

    for (unsigned shift = 32; shift > 0; shift -= 8)
        bytes[len++] = (unsigned char)(crc >> (shift - 8));
    for (size_t at = 0; at < 8 * len; at += 6)
        *out++ = sealed_digit(bytes, len, at);
    *out = '\0';
}

#endif
