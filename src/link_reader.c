/* SPDX-License-Identifier: BSD-3-Clause */
/* link: replies without reply trees; see link_reader.h. */
#include "link_reader.h"

#include "error.h"

static hr_link_reader *reader_of(const redisReadTask *task)
{
    return task->privdata;
}

static void *refuse(hr_link_reader *reader, const char *why)
{
    hirate_error error;
    hr_fail(&error, HIRATE_EPROTOCOL, "%s", why);
    for (size_t i = 0; i < sizeof reader->refused; i++)
        reader->refused[i] = error.text[i];
    return NULL;
}

/* A reply begins: may it be there at all? */
static void *accept_reply(const redisReadTask *task)
{
    hr_link_reader *reader = reader_of(task);

    if (task->parent)
        return &reader->reply;
    if (!reader->outstanding)
        return refuse(reader, "a reply that nobody asked for");
    hr_bytes_clear(&reader->text);
    reader->reply.type = task->type;
    reader->reply.str = NULL;
    reader->reply.len = 0;
    return &reader->reply;
}

/* An error that comes unasked says why the server closes ("max number of clients reached"). */
static void *refuse_text(hr_link_reader *reader, int type, const char *text, size_t len)
{
    hirate_error error;
    hr_fail(&error, HIRATE_EPROTOCOL, "%.*s", len < 200 ? (int)len : 200, text);
    return refuse(reader, type == REDIS_REPLY_ERROR ? error.text : "a reply that nobody asked for");
}

static void *create_string(const redisReadTask *task, char *text, size_t len)
{
    hr_link_reader *reader = reader_of(task);

    if (!task->parent && !reader->outstanding)
        return refuse_text(reader, task->type, text, len);
    if (len > HR_LINK_REPLY_MOST)
        return refuse(reader, "a reply of more than 1 MiB");
    if (!accept_reply(task))
        return NULL;
    /* of an array only its first element, if that is a string */
    if (task->parent && (task->idx != 0 || task->parent->parent || reader->reply.str))
        return &reader->reply;
    hr_bytes_add(&reader->text, text, len);
    hr_bytes_add(&reader->text, "", 1);
    if (reader->text.failed)
        return refuse(reader, "no memory for a reply");
    reader->reply.str = reader->text.data;
    reader->reply.len = len;
    return &reader->reply;
}

static void *create_array(const redisReadTask *task, hr_hiredis_count elements)
{
    hr_link_reader *reader = reader_of(task);

    if (task->type != REDIS_REPLY_ARRAY || !reader->arrays || (int64_t)elements > HR_LINK_ARRAY_MOST)
        return refuse(reader, "an array or push that nobody asked for");
    return accept_reply(task);
}

static void *create_integer(const redisReadTask *task, long long value)
{
    (void)value;
    return accept_reply(task);
}

static void *create_nil(const redisReadTask *task)
{
    return accept_reply(task);
}

#if HIREDIS_MAJOR >= 1
static void *create_double(const redisReadTask *task, double value, char *text, size_t len)
{
    (void)value, (void)text, (void)len;
    return accept_reply(task);
}

static void *create_bool(const redisReadTask *task, int value)
{
    (void)value;
    return accept_reply(task);
}
#endif

static void free_object(void *object)
{
    (void)object; /* part of hr_link_reader */
}

/* Never written; hiredis wants it without const. */
static redisReplyObjectFunctions functions = {
    .createString = create_string,
    .createArray = create_array,
    .createInteger = create_integer,
    HR_HIREDIS_MORE_OBJECTS(create_double, create_bool).createNil = create_nil,
    .freeObject = free_object,
};

void hr_link_reader_attach(hr_link_reader *reader, redisReader *hiredis_reader)
{
    hiredis_reader->fn = &functions;
    hiredis_reader->privdata = reader;
    hiredis_reader->maxbuf = 0; /* keep the buffer from read to read */
}

void hr_link_reader_clear(hr_link_reader *reader)
{
    reader->outstanding = reader->arrays = 0;
    reader->refused[0] = 0;
}

void hr_link_reader_free(hr_link_reader *reader)
{
    hr_bytes_free(&reader->text);
}
