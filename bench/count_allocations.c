/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A preloaded library that counts a program's allocations by the object that asked for them, and writes the counts at
 * exit to $COUNT_ALLOCATIONS, one `OBJECT COUNT` a line. Object: the file name of the program or library that called
 * malloc, calloc or realloc. One thread at a time; glibc.
 *
 * A call's return address is looked up in the loaded segments as found at the start; what was loaded since is "other".
 */
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);

enum { SEGMENTS_MOST = 64, NAME_SIZE = 64 };

typedef struct segment {
    uintptr_t begin, end;
    char object[NAME_SIZE];
    uint64_t count;
} segment;

static segment segments[SEGMENTS_MOST];
static size_t segment_count;
static uint64_t other;

static int add_object(struct dl_phdr_info *info, size_t size, void *unused)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash ? slash + 1 : info->dlpi_name;
    (void)size, (void)unused;
    for (int i = 0; i < info->dlpi_phnum && segment_count < SEGMENTS_MOST; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD || !(header->p_flags & PF_X))
            continue;
        segment *s = &segments[segment_count++];
        s->begin = info->dlpi_addr + header->p_vaddr;
        s->end = s->begin + header->p_memsz;
        snprintf(s->object, sizeof s->object, "%s", *name ? name : "program");
    }
    return 0;
}

static void count(const void *caller)
{
    uintptr_t address = (uintptr_t)caller;
    for (size_t i = 0; i < segment_count; i++) {
        if (address >= segments[i].begin && address < segments[i].end) {
            segments[i].count++;
            return;
        }
    }
    other++;
}

__attribute__((constructor)) static void begin(void)
{
    dl_iterate_phdr(add_object, NULL);
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("COUNT_ALLOCATIONS");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file)
        return;
    for (size_t i = 0; i < segment_count; i++)
        fprintf(file, "%s %llu\n", segments[i].object, (unsigned long long)segments[i].count);
    fprintf(file, "other %llu\n", (unsigned long long)other);
    fclose(file);
}

void *malloc(size_t size)
{
    count(__builtin_return_address(0));
    return __libc_malloc(size);
}

void *calloc(size_t members, size_t size)
{
    count(__builtin_return_address(0));
    return __libc_calloc(members, size);
}

void *realloc(void *memory, size_t size)
{
    count(__builtin_return_address(0));
    return __libc_realloc(memory, size);
}
