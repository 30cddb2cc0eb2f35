/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * script: what an error reply to a call means: whether anything can have been charged, and what to do.
 * One table (refusal.c) for every error code known; pure.
 */
#ifndef HR_REFUSAL_H
#define HR_REFUSAL_H

#include "hirate.h"

#include <stddef.h>

enum hr_refusal_action {
    HR_REFUSAL_INVALID = 0,
    HR_REFUSAL_LOAD,      /* the script is not known: send again with its text */
    HR_REFUSAL_WAIT,      /* send again on this connection after a backoff */
    HR_REFUSAL_RECONNECT, /* answer with the error, and look for the server anew */
    HR_REFUSAL_ANSWER,    /* answer with the error */
};

typedef struct hr_refusal {
    enum hr_refusal_action action;
    int error;                  /* HIRATE_E…, for what is answered */
    enum hirate_charge charge;  /* no: refused before the script ran or at its first write; else maybe */
} hr_refusal;

/* The part of the text that tells: without the wrapper of an old server, and without the arguments that a server quotes (a name
 * or a password may be among them). Points into `text`; *len becomes its length. */
const char *hr_refusal_text(const char *text, size_t *len);

/* `text` is an error reply without its '-': "CODE rest". Redis up to 6.2 wraps what a script raises as
 * "ERR Error running script …: -CODE rest"; that is read as CODE. */
hr_refusal hr_refusal_of(const char *text, size_t len);

#endif
