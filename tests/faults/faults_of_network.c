/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fault matrix: networks. Links are cut in network namespaces of the fault's own, which need root and iproute2;
 * without them a note stands in the line. Their names begin with `hirate-` and $HIRATE_FAULTS_TAG, by which
 * tests/faults.sh finds what a fault that failed has left.
 */
#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------ namespaces -- */

/* Run a shell line in which every @ stands for the namespaces' prefix. */
static bool shell(const char *line)
{
    char text[1024];
    size_t len = 0;
    const char *tag = getenv("HIRATE_FAULTS_TAG");
    for (; *line && len + 32 < sizeof text; line++) {
        if (*line == '@')
            len += (size_t)snprintf(text + len, 32, "hirate-%.10s-%d-", tag && *tag ? tag : "0", (int)getpid());
        else
            text[len++] = *line;
    }
    text[len] = '\0';
    return system(text) == 0;
}

static void remove_namespaces(void)
{
    shell("for n in @a @b @c; do ip netns del $n; done 2>/dev/null");
}

static bool make_namespaces(void)
{
    remove_namespaces();
    return shell("for n in @a @b @c; do ip netns add $n && ip -n $n link set lo up || exit 1; done 2>/dev/null");
}

static void name_namespace(const char *which, char *out, size_t size)
{
    const char *tag = getenv("HIRATE_FAULTS_TAG");
    snprintf(out, size, "/run/netns/hirate-%.10s-%d-%s", tag && *tag ? tag : "0", (int)getpid(), which);
}

/* Start a server inside a namespace; this process comes back out. */
static server *start_inside(const char *which, const server_options *options)
{
    char path[64];
    name_namespace(which, path, sizeof path);
    int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), there = open(path, O_RDONLY | O_CLOEXEC);
    if (here < 0 || there < 0 || setns(there, CLONE_NEWNET) != 0) {
        perror(path);
        exit(1);
    }
    server *redis = server_start(options);
    if (setns(here, CLONE_NEWNET) != 0) {
        perror("setns");
        exit(1);
    }
    close(here);
    close(there);
    return redis;
}

static const char *const IN_NAMESPACE[] = {"--bind", "0.0.0.0", "--protected-mode", "no", "--port", "6390", NULL};

/*
 * The client is in c, the servers in a and b, each pair with a link of its own. Both servers have the
 * address 10.231.9.9; c's route decides whom it reaches, as when a failover moves an address.
 */
static bool make_three(void)
{
    return make_namespaces() &&
           shell("{ ip -n @c link add ca type veth peer name ac netns @a &&"
                 " ip -n @c link add cb type veth peer name bc netns @b &&"
                 " ip -n @a link add ab type veth peer name ba netns @b; } 2>/dev/null") &&
           shell("ip -n @c addr add 10.231.1.1/24 dev ca && ip -n @a addr add 10.231.1.2/24 dev ac &&"
                 " ip -n @c addr add 10.231.2.1/24 dev cb && ip -n @b addr add 10.231.2.2/24 dev bc &&"
                 " ip -n @a addr add 10.231.3.1/24 dev ab && ip -n @b addr add 10.231.3.2/24 dev ba &&"
                 " ip -n @a addr add 10.231.9.9/32 dev lo && ip -n @b addr add 10.231.9.9/32 dev lo") &&
           shell("for l in ca cb; do ip -n @c link set $l up || exit 1; done;"
                 "for l in ac ab; do ip -n @a link set $l up || exit 1; done;"
                 "for l in bc ba; do ip -n @b link set $l up || exit 1; done;"
                 "ip -n @c route replace 10.231.9.9/32 via 10.231.1.2");
}

static void await_replica(server *redis)
{
    for (int i = 0; i < 1000; i++) {
        if (strstr(server_ask(redis, "INFO replication"), "master_link_status:up"))
            return;
        usleep(10000);
    }
    fprintf(stderr, "the replica does not come up\n");
    exit(1);
}

/* The primary's links are cut, the replica is promoted and gets the address; then the old primary is back, first
 * unaware with no one asking it, then as a replica, and for a while it has the address again. */
static void run_failover(stage *s, const fault *f)
{
    (void)f;
    if (geteuid() != 0 || !make_three()) {
        remove_namespaces();
        stage_pass_over(s, "needs root, ip netns and veth");
        return;
    }
    server *a = start_inside("a", &(server_options){.tcp = true, .args = IN_NAMESPACE});
    server *b = start_inside("b", &(server_options){.tcp = true, .args = IN_NAMESPACE});
    server_ask(b, "REPLICAOF 10.231.3.1 6390");
    await_replica(b);
    name_namespace("c", s->netns, sizeof s->netns);
    s->load.stall_ms = 400;
    stage_open(s, "redis://10.231.9.9:6390");
    stage_break(s);
    bool ok = shell("ip -n @a link set ac down && ip -n @a link set ab down");
    stage_pass(s, 700);
    server_ask(b, "REPLICAOF NO ONE");
    ok = ok && shell("ip -n @c route replace 10.231.9.9/32 via 10.231.2.2");
    stage_pass(s, 300);
    ok = ok && shell("ip -n @a link set ac up && ip -n @a link set ab up");
    stage_pass(s, 100);
    server_ask(a, "REPLICAOF 10.231.3.2 6390");
    await_replica(a);
    ok = ok && shell("ip -n @c route replace 10.231.9.9/32 via 10.231.1.2");
    stage_pass(s, 300);
    ok = ok && shell("ip -n @c route replace 10.231.9.9/32 via 10.231.2.2");
    if (!ok)
        exit(1);
    stage_mend(s);
    server_stop(a);
    server_stop(b);
    remove_namespaces();
}

/* Packets to the address vanish: a link with nobody on it. Then it is there. */
static void run_unreachable(stage *s, const fault *f)
{
    (void)f;
    if (geteuid() != 0 || !make_namespaces() ||
        !shell("{ ip -n @c link add void type veth peer name other && ip -n @c link set void up &&"
               " ip -n @c link set other up && ip -n @c addr add 10.231.8.1/24 dev void &&"
               " ip -n @c neigh add 10.231.8.9 lladdr 02:00:00:00:00:09 dev void nud permanent; } 2>/dev/null")) {
        remove_namespaces();
        stage_pass_over(s, "needs root, ip netns and veth");
        return;
    }
    server *redis = start_inside("c", &(server_options){.tcp = true, .args = IN_NAMESPACE});
    name_namespace("c", s->netns, sizeof s->netns);
    stage_open_broken(s, "redis://10.231.8.9:6390");
    stage_pass(s, stage_scaled(s, 1500));
    if (!shell("ip -n @c neigh del 10.231.8.9 dev void; ip -n @c addr add 10.231.8.9/32 dev lo"))
        exit(1);
    stage_mend(s);
    server_stop(redis);
    remove_namespaces();
}

/* -------------------------------------------------------------------------------------------------- backlogs -- */

enum { FILLERS = 16 };

static int connect_without_waiting(const server *redis, bool tcp)
{
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct sockaddr_in port = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    memcpy(path.sun_path, server_path(redis), strlen(server_path(redis)));
    port.sin_port = htons((uint16_t)server_port(redis));
    if (fd < 0)
        return -1;
    if (tcp)
        (void)!connect(fd, (const struct sockaddr *)&port, sizeof port); /* EINPROGRESS: as wanted */
    else
        (void)!connect(fd, (const struct sockaddr *)&path, sizeof path); /* EAGAIN: as wanted */
    return fd;
}

/* A server that accepts nobody, with its queue full: unix sockets say EAGAIN, TCP says nothing. */
static void backlog(stage *s, bool tcp)
{
    static const char *const small[] = {"--tcp-backlog", "2", NULL};
    int fillers[FILLERS];
    server *redis = server_start(&(server_options){.tcp = true, .args = small});
    server_pause(redis);
    for (int i = 0; i < FILLERS; i++)
        fillers[i] = connect_without_waiting(redis, tcp);
    stage_open_broken(s, tcp ? server_tcp_uri(redis, "127.0.0.1") : server_uri(redis));
    stage_pass(s, stage_scaled(s, 1000));
    for (int i = 0; i < FILLERS; i++)
        if (fillers[i] >= 0)
            close(fillers[i]);
    server_resume(redis);
    stage_mend(s);
    server_stop(redis);
}

static void run_backlog_unix(stage *s, const fault *f)
{
    (void)f;
    backlog(s, false);
}

static void run_backlog_tcp(stage *s, const fault *f)
{
    (void)f;
    backlog(s, true);
}

static const fault FAULTS[] = {
    {"promotion with the link cut", 1, FELT_RECONNECT, run_failover, NULL},
    {"unreachable address", 0, FELT_DEGRADED, run_unreachable, NULL},
    {"backlog full, unix socket", 0, FELT_DEGRADED, run_backlog_unix, NULL},
    {"backlog full, tcp", 0, FELT_DEGRADED, run_backlog_tcp, NULL},
};

const fault_list FAULTS_OF_NETWORK = {FAULTS, sizeof FAULTS / sizeof *FAULTS};
