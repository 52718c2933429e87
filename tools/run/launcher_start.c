/* SPDX-License-Identifier: Apache-2.0 */
/* The start of a job's ranks. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli.h"
#include "run/launcher_inside.h"
#include "run/start.h"

/* A rank takes two pipes, two log files, a pidfd and a connection to the store here, and two
 * descriptors when it takes a PMI proxy's place. */
bool launcher_raise_file_limit(struct launcher *l)
{
    rlim_t wanted = 64 + 8 * (rlim_t)l->options->ranks;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &l->files_before) < 0)
        return true;
    limit = l->files_before;
    if (limit.rlim_max < wanted) {
        cli_say("run",
                "%d ranks need %llu open files, and the hard limit is %llu (ulimit -Hn): raise it, "
                "or start fewer ranks a host",
                l->options->ranks, (unsigned long long)wanted, (unsigned long long)limit.rlim_max);
        return false;
    }
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = wanted;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    return true;
}

bool launcher_reaches_store(const struct launcher *l)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(tutti_store_server_port(l->store)),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const bool reached =
        fd >= 0 && (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 ||
                    errno == EINPROGRESS);

    if (!reached)
        cli_say("run", "ranks could not reach the store on 127.0.0.1: %s%s", strerror(errno),
                errno == ENETUNREACH ? " (is the loopback interface up? ip link set lo up)" : "");
    if (fd >= 0)
        close(fd);
    return reached;
}

static void watch_exit(struct launcher *l, struct rank *rank)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = rank};

    rank->pidfd = (int)syscall(SYS_pidfd_open, rank->pid, 0u);
    if (rank->pidfd >= 0 && epoll_ctl(l->exits, EPOLL_CTL_ADD, rank->pidfd, &event) < 0) {
        close(rank->pidfd);
        rank->pidfd = -1;
    }
}

static bool start_ranks(struct launcher *l, const char *secret)
{
    struct start_job job = {
        .ranks = l->options->ranks,
        .path = l->options->program,
        .argv = l->options->argv,
        .run_id = l->run_id,
        .secret = secret,
        .records = l->records,
        .backend = l->options->backend,
        .pmi_proxies = l->pmi_proxies,
        .store_port = tutti_store_server_port(l->store),
        .mask = l->mask_before,
        .files = l->files_before,
    };
    int errors[2];

    if (pipe2(errors, O_CLOEXEC | O_NONBLOCK) < 0) {
        cli_say("run", "cannot make a pipe: %s", strerror(errno));
        return false;
    }
    l->exec_errors = errors[0];
    for (int i = 0; i < job.ranks; i++) {
        struct start_result started;
        struct rank *rank = &l->ranks[i];
        int error = start_rank(&job, i, errors[1], &started);

        if (error) {
            cli_say("run", "cannot start rank %d of %d: %s%s", i, job.ranks, strerror(error),
                    error == EAGAIN ? " (the limit of processes, ulimit -u)" : "");
            close(errors[1]);
            return false;
        }
        rank->index = i;
        rank->pid = started.pid;
        watch_exit(l, rank);
        output_attach(l->output, i, OUTPUT_STDOUT, started.out);
        output_attach(l->output, i, OUTPUT_STDERR, started.err);
        l->started++;
    }
    close(errors[1]);
    return true;
}

bool launcher_start_ranks(struct launcher *l)
{
    char text[SECRET_TEXT] = "";
    const bool started = start_ranks(l, launcher_secret_text(l, text));

    key_wipe(text, sizeof text);
    return started;
}
