/* SPDX-License-Identifier: Apache-2.0 */
#include "dialog.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LISTEN = 10 /* as the kernel writes it */, PATIENCE_S = 1 };

void attack_list_ports(const struct attack_scene *scene, struct attack_result *ret_result)
{
    char line[512];
    FILE *file = fopen("/proc/net/tcp", "re");

    (void)scene;
    while (file && fgets(line, sizeof line, file) && ret_result->port_count < ATTACK_PORTS) {
        struct attack_port *port = &ret_result->ports[ret_result->port_count];
        unsigned address, number, state;

        if (sscanf(line, " %*d: %8x:%4x %*8x:%*4x %2x", &address, &number, &state) != 3 ||
            state != LISTEN)
            continue;
        *port = (struct attack_port){address, (uint16_t)number};
        ret_result->port_count++;
    }
    if (file)
        fclose(file);
}

int dialog_ports(const struct attack_scene *scene, struct attack_port ret_ports[ATTACK_PORTS])
{
    static struct attack_result listed;

    if (scene->port_count) {
        for (int i = 0; i < scene->port_count; i++)
            ret_ports[i] = scene->ports[i];
        return scene->port_count;
    }
    listed.port_count = 0;
    attack_list_ports(scene, &listed);
    for (int i = 0; i < listed.port_count; i++)
        ret_ports[i] = listed.ports[i];
    return listed.port_count;
}

static size_t always_allowed;

void dialog_allow(size_t bytes)
{
    always_allowed = bytes;
}

int dialog_dial(struct attack_port to)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(to.port), .sin_addr.s_addr = to.address};
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (!connect(fd, (const struct sockaddr *)&address, sizeof address))
        return fd;
    close(fd);
    return -1;
}

struct dialog *dialog_open(struct dialogs *dialogs, struct attack_port to, size_t allowed,
                           struct attack_result *result)
{
    const int fd = dialogs->count < DIALOGS ? dialog_dial(to) : -1;

    if (fd < 0)
        return NULL;
    result->tried++;
    dialogs->each[dialogs->count] =
        (struct dialog){.fd = fd, .to = to, .allowed = allowed + always_allowed};
    return &dialogs->each[dialogs->count++];
}

void dialog_say(const struct dialog *dialog, const void *bytes, size_t size)
{
    if (dialog->fd >= 0)
        (void)!send(dialog->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void dialog_read(struct dialog *dialog)
{
    const ssize_t n = recv(dialog->fd, dialog->got + dialog->size,
                           sizeof dialog->got - dialog->size, MSG_DONTWAIT);

    if (n > 0)
        dialog->size += (size_t)n;
    if (n > 0 && dialog->size < sizeof dialog->got)
        return;
    close(dialog->fd);
    dialog->fd = -1;
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void dialogs_await(struct dialogs *dialogs, size_t wanted, int ms)
{
    static struct pollfd polled[DIALOGS];
    const int64_t end = now_ms() + ms;

    for (int64_t left = ms; left > 0; left = end - now_ms()) {
        int open = 0;

        for (int i = 0; i < dialogs->count; i++) {
            struct dialog *at = &dialogs->each[i];

            polled[i] = (struct pollfd){.fd = at->size < wanted ? at->fd : -1, .events = POLLIN};
            open += polled[i].fd >= 0;
        }
        if (!open || poll(polled, (nfds_t)dialogs->count, (int)left) <= 0)
            return;
        for (int i = 0; i < dialogs->count; i++)
            if (polled[i].fd >= 0 && polled[i].revents)
                dialog_read(&dialogs->each[i]);
    }
}

void dialogs_end(struct dialogs *dialogs, const char *what, struct attack_result *result)
{
    for (int i = 0; i < dialogs->count; i++) {
        struct dialog *at = &dialogs->each[i];

        if (at->size > at->allowed)
            attack_gain(result, "%s got %zu bytes from port %u", what, at->size, at->to.port);
        if (at->fd >= 0)
            close(at->fd);
    }
    dialogs->count = 0;
}
