/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * answer: what a row shows of an answer, kept beyond its callback.
 */
#ifndef CLI_ANSWER_H
#define CLI_ANSWER_H

#include "args.h"

typedef struct cli_answer {
    hirate_result result; /* of its pointers only policy is to be used: one of args', or NULL */
    uint32_t shadows;     /* bit i: limit i is a shadow that denied */
    char reason[HIRATE_REASON_MAX + 1];
    char *permits; /* joined by ','; "" if there are none */
    size_t room;   /* bytes that permits points to */
} cli_answer;

/* The most that the permits of one answer take, joined; at least 1. */
size_t cli_answer_room(const cli_args *args);

/* Set up with the caller's memory for permits, of cli_answer_room() bytes. */
void cli_answer_init(cli_answer *answer, char *permits, size_t room);

/* Keep what *result says, which is over args' limits. `reason` NULL: the error's own text. */
void cli_answer_keep(cli_answer *answer, const cli_args *args, const hirate_result *result, const char *reason);

/* Keep an answer that never reached a client: `error`, none, not charged. */
void cli_answer_refuse(cli_answer *answer, const cli_args *args, const hirate_request *request, int error,
                       const char *reason);

/* 0, 1 or 3: what one answer makes the exit status. */
int cli_answer_status(const cli_answer *answer);

#endif
