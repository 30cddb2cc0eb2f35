/* SPDX-License-Identifier: BSD-3-Clause */
/* The fault matrix: a server that is there and will not: out of memory, read-only, no permission, full. */
#include "stage.h"

#include "../support/resp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KILL_CLIENTS "CLIENT KILL TYPE normal SKIPME yes"

/* A server, a word that breaks it and a word that mends it. */
typedef struct setting {
    const char *breaks, *then; /* `then` may be NULL */
    const char *mends;
    int64_t lasts_ms;
    int since; /* the first version that does so for scripts, as server_version() has it; 0: all */
} setting;

static void run_setting(stage *s, const fault *f)
{
    const setting *with = f->arg;
    server *redis = server_start(NULL);
    if (server_version(redis) < with->since) {
        server_stop(redis);
        stage_pass_over(s, "this server does not hold scripts to it");
        return;
    }
    stage_open(s, server_uri(redis));
    stage_break(s);
    server_ask(redis, "%s", with->breaks);
    if (with->then)
        server_ask(redis, "%s", with->then);
    stage_pass(s, stage_scaled(s, with->lasts_ms));
    server_ask(redis, "%s", with->mends);
    stage_mend(s);
    server_stop(redis);
}

/* ---------------------------------------------------------------------------------------- a save that fails -- */

static bool save_ends_with(server *redis, const char *status)
{
    for (int i = 0; i < 200; i++) {
        const char *info = server_ask(redis, "INFO persistence");
        if (strstr(info, "rdb_bgsave_in_progress:0") && strstr(info, status))
            return true;
        usleep(10000);
    }
    return false;
}

/* A server whose directory has been removed cannot save, whoever runs it. */
static void run_misconf(stage *s, const fault *f)
{
    static const char *const allowed[] = {"--enable-protected-configs", "yes", NULL};
    char gone[] = "/tmp/hirate-gone-XXXXXX", own[128];
    (void)f;
    server *redis = server_start(NULL);
    if (server_version(redis) >= 700) {
        server_stop(redis);
        redis = server_start(&(server_options){.args = allowed});
    }
    if (!mkdtemp(gone)) {
        perror("mkdtemp");
        exit(1);
    }
    const char *dir = strchr(server_ask(redis, "CONFIG GET dir"), '\n');
    snprintf(own, sizeof own, "%s", dir ? dir + 1 : "/tmp");
    server_ask_args(redis, 4, (const char *const[]){"CONFIG", "SET", "save", "100000 1000000"}, NULL, NULL);
    server_ask(redis, "CONFIG SET dir %s", gone);
    rmdir(gone);
    stage_open(s, server_uri(redis));
    stage_break(s);
    server_ask(redis, "BGSAVE");
    if (!save_ends_with(redis, "rdb_last_bgsave_status:err")) {
        fprintf(stderr, "the save did not fail\n");
        exit(1);
    }
    stage_pass(s, stage_scaled(s, 400));
    server_ask_args(redis, 4, (const char *const[]){"CONFIG", "SET", "save", ""}, NULL, NULL); /* nor at its end */
    server_ask(redis, "CONFIG SET dir %s", own);
    stage_mend(s);
    server_stop(redis);
}

/* ------------------------------------------------------------------------------------- what else runs and lies there
 */

/* Another client's script that does not end: BUSY, until it is killed. */
static void run_busy(stage *s, const fault *f)
{
    static const char endless[] = "*3\r\n$4\r\nEVAL\r\n$17\r\nwhile true do end\r\n$1\r\n0\r\n";
    (void)f;
    server *redis = server_start(NULL);
    server_ask(redis, "CONFIG SET lua-time-limit 50");
    stage_open(s, server_uri(redis));
    int other = resp_connect_unix(server_path(redis));
    stage_break(s);
    if (other < 0 || !resp_write(other, endless, sizeof endless - 1))
        exit(1);
    stage_pass(s, stage_scaled(s, 800));
    server_ask(redis, "SCRIPT KILL");
    stage_mend(s);
    close(other);
    server_stop(redis);
}

/* The limits' keys hold something else; then nothing. */
static void run_foreign(stage *s, const fault *f)
{
    static const char *const policies[] = {"error", "open", "closed", "local"};
    (void)f;
    server *redis = server_start(NULL);
    stage_open(s, server_uri(redis));
    stage_break(s);
    for (int i = 0; i < 16; i++) {
        if (i % 2)
            server_ask(redis, "SET hirate:faults-%s:n%d foreign", policies[i / 4], i % 4);
        else
            server_ask(redis, "EVAL redis.call('DEL',KEYS[1])redis.call('RPUSH',KEYS[1],'x') 1 hirate:faults-%s:n%d",
                       policies[i / 4], i % 4);
    }
    stage_pass(s, stage_scaled(s, 400));
    for (int i = 0; i < 16; i++)
        server_ask(redis, "DEL hirate:faults-%s:n%d", policies[i / 4], i % 4);
    stage_mend(s);
    server_stop(redis);
}

/* ------------------------------------------------------------------------------------------------- permissions -- */

static void with_user(stage *s, const char *breaks, const char *then, const char *mends)
{
    char uri[160];
    server *redis = server_start(NULL);
    if (server_version(redis) < 600) {
        server_stop(redis);
        stage_pass_over(s, "this server has no users");
        return;
    }
    server_ask(redis, "ACL SETUSER app on >secret ~* +@all");
    snprintf(uri, sizeof uri, "unix://app:secret@%s", server_path(redis));
    stage_open(s, uri);
    stage_break(s);
    server_ask(redis, "%s", breaks);
    if (then)
        server_ask(redis, "%s", then);
    stage_pass(s, stage_scaled(s, 600));
    server_ask(redis, "%s", mends);
    stage_mend(s);
    server_stop(redis);
}

static void run_no_command(stage *s, const fault *f)
{
    (void)f;
    with_user(s, "ACL SETUSER app -evalsha", NULL, "ACL SETUSER app +evalsha");
}

static void run_no_keys(stage *s, const fault *f)
{
    (void)f;
    with_user(s, "ACL SETUSER app resetkeys ~other:*", NULL, "ACL SETUSER app ~*");
}

static void run_no_time(stage *s, const fault *f)
{
    (void)f;
    with_user(s, "ACL SETUSER app -time", NULL, "ACL SETUSER app +time");
}

static void run_password(stage *s, const fault *f)
{
    (void)f;
    with_user(s, "ACL SETUSER app resetpass >other", KILL_CLIENTS, "ACL SETUSER app resetpass >secret");
}

static void run_user_gone(stage *s, const fault *f)
{
    (void)f;
    with_user(s, "ACL DELUSER app", NULL, "ACL SETUSER app on >secret ~* +@all");
}

static const setting OOM = {"CONFIG SET maxmemory 1", NULL, "CONFIG SET maxmemory 0", 400, 0};
static const setting NOREPLICAS = {"CONFIG SET min-replicas-to-write 3", NULL, "CONFIG SET min-replicas-to-write 0",
                                   400, 700};
static const setting FULL = {"CONFIG SET maxclients 1", KILL_CLIENTS, "CONFIG SET maxclients 1000", 600, 0};
static const setting REPLICA = {"REPLICAOF 127.0.0.1 1", NULL, "REPLICAOF NO ONE", 600, 0};

#define REFUSED (FELT_DEGRADED | FELT_UNCHARGED)

static const fault FAULTS[] = {
    {"maxmemory 1, noeviction", 0, REFUSED, run_setting, &OOM},
    {"misconf: saving fails", 0, REFUSED, run_misconf, NULL},
    {"too few replicas", 0, REFUSED, run_setting, &NOREPLICAS},
    {"busy: another script does not end", 0, REFUSED, run_busy, NULL},
    {"keys hold foreign values", 1, REFUSED, run_foreign, NULL},
    {"acl: evalsha taken away", 0, REFUSED, run_no_command, NULL},
    {"acl: keys taken away", 0, REFUSED, run_no_keys, NULL},
    {"acl: time taken away", 0, REFUSED, run_no_time, NULL},
    {"acl: password changed", 0, REFUSED, run_password, NULL},
    {"acl: user deleted", 0, REFUSED, run_user_gone, NULL},
    {"maxclients reached", 0, REFUSED, run_setting, &FULL},
    {"demoted to replica, promoted back", 0, REFUSED, run_setting, &REPLICA},
};

const fault_list FAULTS_OF_REFUSAL = {FAULTS, sizeof FAULTS / sizeof *FAULTS};
