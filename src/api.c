/* SPDX-License-Identifier: BSD-3-Clause */
/* client: the small parts of the public interface: versions, names of codes, initialisers, integer names. */
#include "hirate.h"

#include <string.h>

const char *hirate_version(void)
{
    return HIRATE_VERSION;
}

const char *hirate_strerror(int code)
{
    switch (code) {
    case HIRATE_OK:
        return "success";
    case HIRATE_EINVAL:
        return "invalid argument";
    case HIRATE_ENOMEM:
        return "out of memory";
    case HIRATE_ELOOP:
        return "the event loop refused a watch, timer or deferred call";
    case HIRATE_ECLOSED:
        return "the client is closed";
    case HIRATE_ECANCELED:
        return "canceled";
    case HIRATE_ENOENT:
        return "no pending request has this id, or nothing is left of what the permit stood for";
    case HIRATE_EOVERLOAD:
        return "too many requests are pending";
    case HIRATE_EDEADLINE:
        return "no answer within the deadline";
    case HIRATE_ECONNECT:
        return "no connection to Redis within the deadline";
    case HIRATE_ELOST:
        return "the connection ended before the answer";
    case HIRATE_EAUTH:
        return "Redis refused the credentials, the database or a permission";
    case HIRATE_ESTATE:
        return "the key holds something that is not this kind of limit's state";
    case HIRATE_EREDIS:
        return "Redis answered with an error";
    case HIRATE_EPROTOCOL:
        return "the server's reply is not an answer of this library's script";
    default:
        return "unknown error code";
    }
}

const char *hirate_verdict_name(enum hirate_verdict verdict)
{
    return verdict == HIRATE_ALLOWED ? "allowed" : verdict == HIRATE_DENIED ? "denied" : "error";
}

const char *hirate_source_name(enum hirate_source source)
{
    static const char *const NAMES[] = {"none", "redis", "local", "cache", "fail-open", "fail-closed"};
    return (unsigned)source < sizeof NAMES / sizeof *NAMES ? NAMES[source] : NAMES[0];
}

const char *hirate_charge_name(enum hirate_charge charge)
{
    return charge == HIRATE_CHARGE_YES ? "yes" : charge == HIRATE_CHARGE_NO ? "no" : "maybe";
}

void hirate_request_init_sized(hirate_request *request, size_t size)
{
    const hirate_request defaults = {.version = HIRATE_REQUEST_VERSION, .op = HIRATE_OP_ACQUIRE, .cost = 1};
    memset(request, 0, size);
    memcpy(request, &defaults, size < sizeof defaults ? size : sizeof defaults);
    request->struct_size = (uint32_t)size;
}

void hirate_stats_init_sized(hirate_stats *stats, size_t size)
{
    memset(stats, 0, size);
    stats->struct_size = (uint32_t)size;
    stats->version = HIRATE_STATS_VERSION;
}

void hirate_policy_stats_init_sized(hirate_policy_stats *stats, size_t size)
{
    memset(stats, 0, size);
    stats->struct_size = (uint32_t)size;
    stats->version = HIRATE_POLICY_STATS_VERSION;
}

void hirate_result_init_sized(hirate_result *result, size_t size)
{
    memset(result, 0, size);
    result->struct_size = (uint32_t)size;
}

const hirate_limit_result *hirate_result_limit(const hirate_result *result, uint32_t i)
{
    /* One that was set up by a program of before this field has none. */
    const size_t known = offsetof(hirate_result, limits) + sizeof result->limits;

    if (result == NULL || result->struct_size < known || result->limits == NULL || i >= result->limit_count)
        return NULL;
    return &result->limits[i];
}

size_t hirate_name_u64(char buf[HIRATE_NAME_INT_SIZE], uint64_t value)
{
    char digits[HIRATE_NAME_INT_SIZE];
    size_t at = sizeof digits;

    do
        digits[--at] = (char)('0' + value % 10);
    while (value /= 10);
    memcpy(buf, digits + at, sizeof digits - at);
    return sizeof digits - at;
}

size_t hirate_name_i64(char buf[HIRATE_NAME_INT_SIZE], int64_t value)
{
    if (value >= 0)
        return hirate_name_u64(buf, (uint64_t)value);
    char digits[HIRATE_NAME_INT_SIZE];
    size_t len = hirate_name_u64(digits, 0 - (uint64_t)value);
    buf[0] = '-';
    memcpy(buf + 1, digits, len); /* at most 19 of them */
    return len + 1;
}
