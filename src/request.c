/* SPDX-License-Identifier: BSD-3-Clause */
/* request: one request from submission to its callback; see request.h. */
#include "request.h"

#include "error.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK       256u
#define REASON_MOST 200

int hr_requests_init(hr_requests *requests, uint32_t most)
{
    memset(requests, 0, sizeof *requests);
    requests->most = most;
    requests->chunks = calloc((most + CHUNK - 1) / CHUNK, sizeof *requests->chunks);
    return requests->chunks ? 0 : HIRATE_ENOMEM;
}

void hr_requests_free(hr_requests *requests)
{
    for (uint32_t i = 0; requests->chunks && i < requests->slots / CHUNK; i++)
        free(requests->chunks[i]);
    free(requests->chunks);
    hr_deadlines_free(&requests->deadlines);
}

/* CHUNK more slots; their ids have a use count of 0, which no live request has. */
static int grow(hr_requests *requests)
{
    if (requests->slots >= requests->most)
        return HIRATE_ENOMEM; /* slots whose ids are used up are missing */
    hr_request *chunk = calloc(CHUNK, sizeof *chunk);
    if (!chunk)
        return HIRATE_ENOMEM;
    requests->chunks[requests->slots / CHUNK] = chunk;
    for (uint32_t i = CHUNK; i-- > 0;) {
        chunk[i].id = requests->slots + i;
        chunk[i].next = requests->free;
        requests->free = &chunk[i];
    }
    requests->slots += CHUNK;
    return 0;
}

hr_request *hr_requests_get(hr_requests *requests)
{
    if (!requests->free && grow(requests))
        return NULL;
    hr_request *request = requests->free;
    requests->free = request->next;
    request->id += HR_REQUESTS_MOST;
    requests->pending++;
    return request;
}

void hr_requests_put(hr_requests *requests, hr_request *request)
{
    request->state = HR_REQUEST_FREE;
    requests->pending--;
    if (request->id > UINT64_MAX - HR_REQUESTS_MOST)
        return; /* its ids are used up */
    request->next = requests->free;
    requests->free = request;
}

hr_request *hr_requests_find(const hr_requests *requests, uint64_t id)
{
    uint32_t slot = (uint32_t)(id % HR_REQUESTS_MOST);
    if (slot >= requests->slots)
        return NULL;
    hr_request *request = &requests->chunks[slot / CHUNK][slot % CHUNK];
    return request->id == id && request->state != HR_REQUEST_FREE ? request : NULL;
}

static void append_done(hr_requests *requests, hr_request *request)
{
    request->state = HR_REQUEST_DONE;
    request->next = NULL;
    if (requests->last_done)
        requests->last_done->next = request;
    else
        requests->first_done = request;
    requests->last_done = request;
    requests->done++;
}

void hr_requests_answer(hr_requests *requests, hr_request *request, const hr_answer *answer)
{
    hr_deadlines_remove(&requests->deadlines, &request->deadline);
    hr_requests_answer_new(requests, request, answer);
}

void hr_requests_answer_new(hr_requests *requests, hr_request *request, const hr_answer *answer)
{
    request->answer = *answer;
    if (answer->reason)
        answer->reason->references++;
    append_done(requests, request);
}

void hr_requests_answered(hr_requests *requests, hr_request *request)
{
    hr_deadlines_remove(&requests->deadlines, &request->deadline);
    append_done(requests, request);
}

hr_request *hr_requests_next_done(hr_requests *requests)
{
    hr_request *request = requests->first_done;
    if (!request)
        return NULL;
    requests->first_done = request->next;
    if (!requests->first_done)
        requests->last_done = NULL;
    requests->done--;
    return request;
}

hr_reason *hr_reason_new(const char *text, size_t len)
{
    hirate_error printable;
    char shown[REASON_MOST + 1];

    if (len > REASON_MOST)
        len = REASON_MOST;
    for (size_t i = 0; i < len; i++)
        shown[i] = text[i] ? text[i] : '?';
    shown[len] = 0;
    hr_fail(&printable, 0, "%s", shown);
    size_t size = strlen(printable.text) + 1;
    hr_reason *reason = malloc(sizeof *reason + size);
    if (!reason)
        return NULL;
    reason->references = 1;
    memcpy(reason->text, printable.text, size);
    return reason;
}

void hr_reason_drop(hr_reason *reason)
{
    if (reason && --reason->references == 0)
        free(reason);
}
