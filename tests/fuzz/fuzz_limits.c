/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzzing: limits files. Each is refused with one line of text, or every limit in it is good and found by its name. */
#include "fuzz.h"

#include "hirate.h"

#include <sys/mman.h>
#include <unistd.h>

/* A file with this content; its path. */
static int make_file(const uint8_t *data, size_t size, char path[32])
{
    int fd = memfd_create("limits", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0);
    FUZZ_CHECK(write(fd, data, size) == (ssize_t)size);
    (void)snprintf(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}

static size_t check_limits(const hirate_limits *limits)
{
    const hirate_limit *limit;
    size_t count = 0;
    for (; (limit = hirate_limits_at(limits, count)) != NULL; count++) {
        FUZZ_CHECK(hirate_limit_check(limit, NULL) == 0);
        FUZZ_CHECK(hirate_limits_find(limits, limit->policy) == limit);
    }
    return count;
}

int FUZZ_TARGET(limits)(const uint8_t *data, size_t size)
{
    hirate_limits *limits = NULL;
    hirate_error error = {0, ""};
    char path[32];
    int fd = make_file(data, size, path);
    int rc = hirate_limits_load(&limits, path, &error);
    if (rc != 0) {
        FUZZ_CHECK(rc == HIRATE_EINVAL && error.code == rc && limits == NULL);
        fuzz_check_error_text(error.text);
    } else {
        size_t count = check_limits(limits);
        FUZZ_CHECK(count == 0 || memchr(data, '=', size) != NULL);
        FUZZ_CHECK(hirate_limits_reload(limits, NULL) == 0 && check_limits(limits) == count);
    }
    hirate_limits_free(limits);
    close(fd);
    return 0;
}
