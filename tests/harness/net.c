/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/net.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NAME_MAX_BYTES = 48, ADDRESS_MAX_BYTES = 16 };

struct net {
    int hosts;
    char hub[NAME_MAX_BYTES]; /* the namespace with the switch */
    char name[NET_HOSTS_MAX][NAME_MAX_BYTES];
    char address[NET_HOSTS_MAX][ADDRESS_MAX_BYTES];
};

/* Runs `ip` with the words of one line; its complaints are dropped. */
__attribute__((format(printf, 1, 2))) static bool ip(const char *format, ...)
{
    char command[512];
    int n = snprintf(command, sizeof command, "PATH=$PATH:/usr/sbin:/sbin ip ");
    va_list args;

    va_start(args, format);
    n += vsnprintf(command + n, sizeof command - (size_t)n, format, args);
    va_end(args);
    snprintf(command + n, sizeof command - (size_t)n, " >/dev/null 2>&1");
    int status = system(command);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Namespaces are named after the process that has made them: those of one that is dead are removed. */
static void remove_stale(void)
{
    DIR *dir = opendir("/run/netns");

    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        int pid;

        if (sscanf(entry->d_name, "tutti-%d-", &pid) == 1 && pid > 0 && kill(pid, 0) &&
            errno == ESRCH)
            ip("netns del %s", entry->d_name);
    }
    if (dir)
        closedir(dir);
}

static bool add_host(struct net *net, int host)
{
    static int nets;

    if (!host)
        nets++;
    snprintf(net->name[host], sizeof net->name[host], "tutti-%d-%d-%d", (int)getpid(), nets, host);
    snprintf(net->address[host], sizeof net->address[host], "10.77.0.%d", (host + 1) & 255);

    const char *name = net->name[host];
    net->hosts = host + 1;
    return ip("netns add %s", name) && ip("-n %s link set lo up", name) &&
           ip("-n %s link add port%d type veth peer name eth0 netns %s", net->hub, host, name) &&
           ip("-n %s link set port%d master hub up", net->hub, host) &&
           ip("-n %s addr add %s/24 dev eth0", name, net->address[host]) &&
           ip("-n %s link set eth0 up", name) && ip("-n %s route add default dev eth0", name);
}

struct net *net_create(int hosts, char *ret_reason, size_t size)
{
    static int nets;
    struct net *net = hosts <= NET_HOSTS_MAX ? calloc(1, sizeof *net) : NULL;

    snprintf(ret_reason, size, "no network namespaces here: not root");
    if (!net || geteuid()) {
        free(net);
        return NULL;
    }
    remove_stale();
    snprintf(net->hub, sizeof net->hub, "tutti-%d-%d-hub", (int)getpid(), ++nets);
    bool made = ip("netns add %s", net->hub) && ip("-n %s link add hub type bridge", net->hub) &&
                ip("-n %s link set hub up", net->hub);
    for (int host = 0; host < hosts && made; host++)
        made = add_host(net, host);
    if (made)
        return net;
    snprintf(ret_reason, size, "no network namespaces here: `ip netns`, a bridge or veth failed");
    net_destroy(net);
    return NULL;
}

void net_destroy(struct net *net)
{
    if (!net)
        return;
    for (int host = 0; host < net->hosts; host++)
        ip("netns del %s", net->name[host]);
    ip("netns del %s", net->hub);
    free(net);
}

const char *net_name(const struct net *net, int host)
{
    return net->name[host];
}

const char *net_address(const struct net *net, int host)
{
    return net->address[host];
}

/* The bridge stops forwarding, and the host's own link stays up: nobody gets an error from below.
 */
bool net_cut(struct net *net, int host)
{
    return ip("-n %s link set port%d nomaster", net->hub, host);
}

bool net_mend(struct net *net, int host)
{
    return ip("-n %s link set port%d master hub", net->hub, host);
}

/* Each sends what is for the other to an address that no host has. */
bool net_cut_link(struct net *net, int a, int b)
{
    return ip("-n %s neigh replace %s lladdr 02:00:00:00:00:01 nud permanent dev eth0",
              net->name[a], net->address[b]) &&
           ip("-n %s neigh replace %s lladdr 02:00:00:00:00:01 nud permanent dev eth0",
              net->name[b], net->address[a]);
}

bool net_mend_link(struct net *net, int a, int b)
{
    return ip("-n %s neigh del %s dev eth0", net->name[a], net->address[b]) &&
           ip("-n %s neigh del %s dev eth0", net->name[b], net->address[a]);
}

int net_open(const char *name)
{
    char path[256];

    snprintf(path, sizeof path, "/run/netns/%s", name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

int net_enter(const char *name)
{
    int back = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    int there = net_open(name);

    if (there < 0 || back < 0 || setns(there, CLONE_NEWNET)) {
        if (back >= 0)
            close(back);
        back = -1;
    }
    if (there >= 0)
        close(there);
    return back;
}

void net_leave(int back)
{
    if (setns(back, CLONE_NEWNET))
        abort(); /* the test would go on in another network */
    close(back);
}
