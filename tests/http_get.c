/* SPDX-License-Identifier: BSD-3-Clause */
/* http_get PORT PATH: print what a web server on 127.0.0.1 answers, head and body. For shell tests, which cannot count
 * on there being a client. */
#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc != 3)
        errx(2, "usage: http_get PORT PATH");
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)strtoul(argv[1], NULL, 10)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 60};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        connect(fd, (const struct sockaddr *)&address, sizeof address) != 0)
        err(1, "connecting to port %s", argv[1]);
    if (dprintf(fd, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", argv[2]) < 0)
        err(1, "writing");
    char chunk[4096];
    ssize_t got;
    while ((got = read(fd, chunk, sizeof chunk)) > 0)
        fwrite(chunk, 1, (size_t)got, stdout);
    if (got < 0)
        err(1, "reading");
    close(fd);
    return 0;
}
