/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link: replies without reply trees, and none that nobody asked for.
 *
 * hiredis' reader calls these functions for each thing it has parsed. They keep the last top-level reply in one object and
 * one buffer that are used again and again. Returning NULL makes the reader fail and hiredis close the connection; that
 * is how an unsolicited reply (on which hiredis would abort the process), a push, an array where none is expected and a
 * text that is too long end.
 */
#ifndef HR_LINK_READER_H
#define HR_LINK_READER_H

#include "bytes.h"
#include "hirate.h"
#include "hiredis_compat.h"

#define HR_LINK_REPLY_MOST 1048576 /* bytes of one reply */
#define HR_LINK_ARRAY_MOST 1024    /* elements of the one array that is expected, ROLE's */

typedef struct hr_link_reader {
    redisReply reply;     /* the last top-level reply: type, and text of a string, status or error, or the first
                             string of an array; first, as hiredis looks at the object it gets */
    hr_bytes text;
    uint32_t outstanding; /* replies owed */
    uint32_t arrays;      /* of them, those that may be an array */
    char refused[HIRATE_REASON_MAX + 1]; /* why NULL was returned; "" */
} hr_link_reader;

void hr_link_reader_attach(hr_link_reader *reader, redisReader *hiredis_reader);
/* For a new connection. Keeps the buffer. */
void hr_link_reader_clear(hr_link_reader *reader);
void hr_link_reader_free(hr_link_reader *reader);

#endif
