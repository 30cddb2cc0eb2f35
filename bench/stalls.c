/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much of the time does this core stand still, and how fast is it? Reads the clock over and over; a gap between two
 * readings is time in which the core did something else: another program, the kernel, another machine on the same host.
 *
 * usage: stalls SECONDS MICROSECONDS
 *
 * Prints the percentage of the time that was in gaps longer than so many microseconds, and how many million times a second
 * the clock was read.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: stalls SECONDS MICROSECONDS\n");
        return 2;
    }
    double seconds = atof(argv[1]);
    int64_t least = atoll(argv[2]) * 1000, begin = now_ns(), last = begin, stalled = 0, reads = 0;
    do {
        int64_t now = now_ns();
        if (now - last > least)
            stalled += now - last;
        last = now;
        reads++;
    } while ((double)(last - begin) < seconds * 1e9);
    printf("%.2f %.1f\n", 100.0 * (double)stalled / (double)(last - begin), 1e3 * (double)reads / (double)(last - begin));
    return 0;
}
