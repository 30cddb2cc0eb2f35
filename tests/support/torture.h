/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Test support: let the n-th call of some kind fail, for every n, through one client's whole life.
 *
 * A program brings the failing (a `torture`) and calls torture_main(). One run is a process of its own, so that a crash
 * ends one run only. It makes a client, acquires, peeks and resets against a real server, makes the script unknown,
 * cuts the connection, takes from several limits at once, leases, reserves and uses the permits, cancels and closes,
 * while calls fail; then, with nothing failing any more, acquires once more. After it each accepted submission was
 * answered exactly once, and none inside the call that submitted it, what the server holds is what was told: charged
 * at least where "yes", at most where "yes" or "maybe", as many blocks are allocated and descriptors open as before.
 *
 * Every k-th n is run, with k such that `make check` is short; HIRATE_TORTURE=full runs them all, HIRATE_TORTURE=K
 * every K-th. `PROGRAM MODE N` runs one alone and in the program's own process, for a debugger.
 */
#ifndef TESTS_TORTURE_H
#define TESTS_TORTURE_H

#include <stdbool.h>

typedef struct torture_mode {
    const char *name;
    bool lasting; /* what failed once fails until torture.disarm() */
} torture_mode;

typedef struct torture {
    const torture_mode *modes; /* ends with a name of NULL */
    /* Of the calls from now on the n-th fails, in a way that `mode` names. */
    void (*arm)(long n, int mode);
    void (*disarm)(void);
    void (*pause)(bool on); /* the test's own calls neither fail nor count */
    long (*seen)(void);     /* calls since it was armed */
    bool (*fired)(void);    /* did one fail? */
    long (*live)(void);     /* blocks allocated; NULL: not counted here */
    bool no_threads;        /* a thread would not survive it: connect to no names */
} torture;

int torture_main(const torture *t, int argc, char **argv);

#endif
