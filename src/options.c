/* SPDX-License-Identifier: BSD-3-Clause */
/* client: options as the caller gave them, checked and made whole. */
#include "options.h"

#include "error.h"
#include "policy.h"
#include "request.h"

#include <string.h>

#define DEFAULT_URI  "redis://127.0.0.1:6379"
#define VERSION_1_OF (offsetof(hirate_options, user) + sizeof(void *))

static const hirate_options DEFAULTS = {
    .version = HIRATE_OPTIONS_VERSION,
    .deadline_ms = 1000,
    .connect_timeout_ms = 1000,
    .stall_timeout_ms = 3000,
    .max_pending = 65536,
    .max_calls = 6,
    .max_call_keys = 128,
    .max_call_acquires = 1024,
    .max_denials = 65536,
    .breaker_failures = 5,
    .max_local_keys = 65536,
};

void hirate_options_init_sized(hirate_options *options, size_t size)
{
    size_t known = size < sizeof *options ? size : sizeof *options;
    memset(options, 0, size);
    memcpy(options, &DEFAULTS, known);
    options->struct_size = (uint32_t)size;
}

static int check_ms(const char *field, int64_t value, hirate_error *error)
{
    if (value >= 1 && value <= HR_DAY_MS)
        return 0;
    return hr_fail(error, HIRATE_EINVAL, "%s: %lld; accepted: 1 to %d milliseconds", field, (long long)value,
                   HR_DAY_MS);
}

static int check_count(const char *field, uint32_t value, uint32_t most, hirate_error *error)
{
    if (value >= 1 && value <= most)
        return 0;
    return hr_fail(error, HIRATE_EINVAL, "%s: %u; accepted: 1 to %u", field, (unsigned)value, (unsigned)most);
}

static int check_values(const hirate_options *options, hirate_error *error)
{
    int rc = 0;
    if (!hr_policy_name_ok(options->prefix))
        return hr_fail(error, HIRATE_EINVAL, "prefix: accepted: 1 to %d characters of A-Z a-z 0-9 . _ -",
                       HIRATE_POLICY_MAX);
    if (!rc)
        rc = check_ms("deadline_ms", options->deadline_ms, error);
    if (!rc)
        rc = check_ms("connect_timeout_ms", options->connect_timeout_ms, error);
    if (!rc)
        rc = check_ms("stall_timeout_ms", options->stall_timeout_ms, error);
    if (!rc)
        rc = check_count("max_pending", options->max_pending, HR_REQUESTS_MOST, error);
    if (!rc)
        rc = check_count("max_calls", options->max_calls, 64, error);
    if (!rc)
        rc = check_count("max_call_keys", options->max_call_keys, 256, error);
    if (!rc)
        rc = check_count("max_call_acquires", options->max_call_acquires, 1024, error);
    if (!rc)
        rc = check_count("max_denials", options->max_denials, 1u << 22, error);
    if (!rc)
        rc = check_count("breaker_failures", options->breaker_failures, 1000000, error);
    if (!rc)
        rc = check_count("max_local_keys", options->max_local_keys, 1u << 22, error);
    return rc;
}

int hr_options_read(hirate_options *options, hr_uri *uri, const hirate_options *from, hirate_error *error)
{
    hirate_options new = DEFAULTS;

    if (from && (from->struct_size < VERSION_1_OF || from->version != HIRATE_OPTIONS_VERSION))
        return hr_fail(error, HIRATE_EINVAL,
                       "options: struct_size %u and version %u; accepted: what hirate_options_init() sets, version %d",
                       (unsigned)from->struct_size, (unsigned)from->version, HIRATE_OPTIONS_VERSION);
    int rc = from ? hr_struct_check("options", from, from->struct_size, VERSION_1_OF, sizeof new, error) : 0;
    if (rc)
        return rc;
    if (from)
        memcpy(&new, from, from->struct_size < sizeof new ? from->struct_size : sizeof new);
    if (!new.uri)
        new.uri = DEFAULT_URI;
    if (!new.prefix)
        new.prefix = "hirate";
    rc = check_values(&new, error);
    if (!rc)
        rc = hr_uri_parse(uri, new.uri, error);
    if (!rc)
        *options = new;
    return rc;
}

int hirate_options_check(const hirate_options *from, hirate_error *error)
{
    hirate_options options;
    hr_uri uri;
    int rc = hr_options_read(&options, &uri, from, error);
    if (!rc)
        hr_uri_free(&uri);
    return rc;
}
