/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi/pmi_proxy.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mpi/mpirun.h"

enum {
    START_MS = 60000,
    STOP_MS = 2000,
    ENVIRONMENT_MAX = 8 << 20, /* bytes; more than the kernel gives to a program */
    WORDS_OF_LAUNCHER = 600
};

/* The message of a PMI proxy: this, and `bytes` of NAME=VALUE, each with its NUL. */
struct hello {
    int32_t rank;
    uint32_t bytes;
};

struct pmi_proxy {
    int socket;     /* -1: not here yet */
    int descriptor; /* -1: none */
    char *text;
    char **variables; /* into `text`, ended by NULL */
    char number[32];  /* PMI_FD as it is in this process */
};

struct pmi_proxies {
    const struct mpirun *mpirun;
    int count, here;
    pid_t launcher; /* 0: it has ended, `wait_status` says how */
    int wait_status;
    int listener, output; /* what the launcher prints */
    struct pmi_proxy of[];
};

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- the job ---------------------------------------------------------------------------------- */

/* Only this user's processes know the name, which is random, and only they are listened to. */
static bool listen_privately(struct pmi_proxies *s, char name[64])
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    uint64_t random[2];

    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    snprintf(name, 64, "tutti-pmi-proxy-%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
    memcpy(address.sun_path + 1, name, strlen(name));
    s->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    s->output = memfd_create("tutti-mpirun", MFD_CLOEXEC);
    return s->listener >= 0 && s->output >= 0 &&
           bind(s->listener, (struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))) == 0 &&
           listen(s->listener, s->count) == 0;
}

/* ---- taking over ----------------------------------------------------------------------------- */

static bool is_ours(const char *variable)
{
    static const char *const names[] = {"PWD=", "OLDPWD=", "_=", "SHLVL="};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strncmp(variable, names[i], strlen(names[i])))
            return true;
    for (char **own = environ; *own; own++)
        if (!strcmp(*own, variable))
            return true;
    return false;
}

/* Keeps what is not in this process's environment as it is. */
static bool keep_environment(struct pmi_proxy *one, size_t bytes, const char *mark)
{
    size_t count = 0, kept = 0;

    for (size_t i = 0; i < bytes; i++)
        count += !one->text[i];
    one->variables = calloc(count + 3, sizeof(char *));
    if (!one->variables)
        return false;
    for (char *at = one->text; at < one->text + bytes; at += strlen(at) + 1) {
        if (one->descriptor >= 0 && !strncmp(at, "PMI_FD=", 7)) {
            snprintf(one->number, sizeof one->number, "PMI_FD=%d", one->descriptor);
            one->variables[kept++] = one->number;
        } else if (strchr(at, '=') && !is_ours(at)) {
            one->variables[kept++] = at;
        }
    }
    one->variables[kept] = (char *)(uintptr_t)mark;
    return true;
}

static int descriptor_in(struct msghdr *message)
{
    struct cmsghdr *control = CMSG_FIRSTHDR(message);
    int fd = -1;

    if (control && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS &&
        control->cmsg_len == CMSG_LEN(sizeof fd))
        memcpy(&fd, CMSG_DATA(control), sizeof fd);
    return fd;
}

/* The message that names the sender and brings its descriptor (-1: none). False: it is no such
 * message. */
static bool receive_hello(int fd, struct hello *ret_hello, int *ret_descriptor)
{
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {.iov_base = ret_hello, .iov_len = sizeof *ret_hello};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t came;

    do /* with a time-out of its own, SA_RESTART does not go on by itself */
        came = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    while (came < 0 && errno == EINTR);
    *ret_descriptor = came < 0 ? -1 : descriptor_in(&message);
    return came == (ssize_t)sizeof *ret_hello;
}

/* The environment, which follows, a variable each. */
static bool receive_environment(int fd, struct pmi_proxy *one, size_t bytes, const char *mark)
{
    one->text = calloc(1, bytes + 1);
    for (size_t have = 0; one->text && have < bytes;) {
        ssize_t n = recv(fd, one->text + have, bytes - have, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        have += (size_t)n;
    }
    return one->text && keep_environment(one, bytes, mark);
}

/* Closes and frees what a PMI proxy has brought. */
static void forget(struct pmi_proxy *one)
{
    if (one->socket >= 0)
        close(one->socket);
    if (one->descriptor >= 0)
        close(one->descriptor);
    free(one->text);
    free(one->variables);
    *one = (struct pmi_proxy){.socket = -1, .descriptor = -1};
}

/* True: the socket is the PMI proxy's from then on. */
static bool take_over(struct pmi_proxies *s, int fd)
{
    struct hello hello;
    int descriptor;

    if (!receive_hello(fd, &hello, &descriptor) || hello.rank < 0 || hello.rank >= s->count ||
        s->of[hello.rank].socket >= 0 || hello.bytes == 0 || hello.bytes > ENVIRONMENT_MAX) {
        if (descriptor >= 0)
            close(descriptor);
        return false;
    }
    struct pmi_proxy *one = &s->of[hello.rank];
    one->descriptor = descriptor;
    if (!receive_environment(fd, one, hello.bytes, s->mpirun->mark)) {
        forget(one);
        return false;
    }
    one->socket = fd;
    s->here++;
    return true;
}

static void accept_one(struct pmi_proxies *s)
{
    const struct timeval patience = {.tv_sec = 10};
    struct ucred peer;
    socklen_t size = sizeof peer;
    int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != geteuid() ||
        !take_over(s, fd))
        close(fd);
}

/* False: the launcher has ended, or time is up, or it is not wanted any more. */
static bool await_all(struct pmi_proxies *s, const struct pmi_proxy_options *options)
{
    int64_t deadline = now_ms() + START_MS;

    while (s->here < s->count && s->launcher && now_ms() < deadline &&
           !(options->is_over && options->is_over(options->user))) {
        struct pollfd ready = {.fd = s->listener, .events = POLLIN};

        if (poll(&ready, 1, 50) > 0)
            accept_one(s);
        else if (waitpid(s->launcher, &s->wait_status, WNOHANG) != 0)
            s->launcher = 0;
    }
    return s->here == s->count;
}

/* The launcher's output without the lines that frame it. */
static void words_of_launcher(const struct pmi_proxies *s, char words[WORDS_OF_LAUNCHER])
{
    ssize_t n = pread(s->output, words, WORDS_OF_LAUNCHER - 1, 0);
    size_t kept = 0;

    words[n > 0 ? n : 0] = 0;
    for (char *at = words; *at;) {
        size_t line = strcspn(at, "\n");

        if (strspn(at, "-= \t") < line) {
            if (kept)
                words[kept++] = ' ';
            memmove(words + kept, at, line);
            kept += line;
        }
        at += line + (at[line] == '\n');
        if (kept > (size_t)(at - words))
            kept = (size_t)(at - words);
    }
    words[kept] = 0;
}

/* How the launcher ended, and what it said. */
static void end_of_launcher(const struct pmi_proxies *s, char *ret_words, size_t size)
{
    const char *program = s->mpirun->programs[0];
    char said[WORDS_OF_LAUNCHER];

    words_of_launcher(s, said);
    if (WIFSIGNALED(s->wait_status))
        snprintf(ret_words, size, "%s was ended by signal %d (%s); it said: %s", program,
                 WTERMSIG(s->wait_status), strsignal(WTERMSIG(s->wait_status)),
                 *said ? said : "nothing");
    else
        snprintf(ret_words, size, "%s ended with code %d; it said: %s", program,
                 WEXITSTATUS(s->wait_status), *said ? said : "nothing");
}

static void words_of_failure(const struct pmi_proxies *s, char *ret_words, size_t size)
{
    char end[WORDS_OF_LAUNCHER + 128];

    if (s->launcher) {
        words_of_launcher(s, end);
        snprintf(ret_words, size, "%s has started %d of %d ranks in %d s; it said: %s",
                 s->mpirun->programs[0], s->here, s->count, START_MS / 1000,
                 *end ? end : "nothing");
    } else {
        end_of_launcher(s, end, sizeof end);
        snprintf(ret_words, size, "%d of %d ranks were started: %s", s->here, s->count, end);
    }
}

static struct pmi_proxies *pmi_proxies_new(const struct mpirun *mpirun, int count)
{
    struct pmi_proxies *s = calloc(1, sizeof *s + (size_t)count * sizeof s->of[0]);

    if (!s)
        return NULL;
    s->mpirun = mpirun;
    s->count = count;
    s->listener = s->output = -1;
    for (int i = 0; i < count; i++)
        s->of[i] = (struct pmi_proxy){.socket = -1, .descriptor = -1};
    return s;
}

struct pmi_proxies *pmi_proxies_start(const struct pmi_proxy_options *options, char *ret_words,
                                      size_t size)
{
    char name[64];
    const char *const program[] = {options->tutti, "pmi-proxy", name, NULL};
    const struct mpirun *mpirun = mpirun_find(options->family, ret_words, size);
    struct pmi_proxies *s = mpirun ? pmi_proxies_new(mpirun, options->count) : NULL;

    if (!s) {
        if (mpirun)
            snprintf(ret_words, size, "no memory for %d ranks", options->count);
        return NULL;
    }
    if (!listen_privately(s, name) ||
        (s->launcher = mpirun_start(mpirun, s->count, program, s->output)) < 0) {
        snprintf(ret_words, size, "%s cannot be started: %s", mpirun->programs[0], strerror(errno));
    } else if (!await_all(s, options)) {
        words_of_failure(s, ret_words, size);
        if (s->launcher)
            kill(-s->launcher, SIGKILL); /* what it is about is of no use */
    } else {
        return s;
    }
    pmi_proxies_stop(s);
    return NULL;
}

char *const *pmi_proxy_environment(const struct pmi_proxies *pmi_proxies, int rank)
{
    return pmi_proxies->of[rank].variables;
}

int pmi_proxy_descriptor(const struct pmi_proxies *pmi_proxies, int rank)
{
    return pmi_proxies->of[rank].descriptor;
}

int pmi_proxies_launcher(const struct pmi_proxies *pmi_proxies)
{
    return pmi_proxies->launcher;
}

void pmi_proxies_launcher_ended(struct pmi_proxies *s, int wait_status, char *ret_words,
                                size_t size)
{
    s->launcher = 0;
    s->wait_status = wait_status;
    end_of_launcher(s, ret_words, size);
}

static void await_launcher(struct pmi_proxies *s)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    int64_t deadline = now_ms() + STOP_MS;

    while (now_ms() < deadline) {
        if (waitpid(s->launcher, NULL, WNOHANG) != 0)
            return; /* or somebody else has collected it */
        nanosleep(&pause, NULL);
    }
    kill(-s->launcher, SIGKILL);
    waitpid(s->launcher, NULL, 0);
}

void pmi_proxies_stop(struct pmi_proxies *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->count; i++)
        forget(&s->of[i]);
    if (s->listener >= 0)
        close(s->listener);
    if (s->launcher > 0)
        await_launcher(s);
    if (s->output >= 0)
        close(s->output);
    free(s);
}

/* ---- the PMI proxy ---------------------------------------------------------------------------- */

static int number_of(const char *name)
{
    const char *value = getenv(name);
    char *end;
    long number = value ? strtol(value, &end, 10) : -1;

    return value && *value && !*end && number >= 0 && number < INT32_MAX ? (int)number : -1;
}

static bool hand_over(int fd, int rank)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct hello hello = {.rank = rank};
    struct iovec part = {.iov_base = &hello, .iov_len = sizeof hello};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    int descriptor = number_of("PMI_FD");

    for (char **variable = environ; *variable; variable++)
        hello.bytes += (uint32_t)strlen(*variable) + 1;
    if (descriptor >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof descriptor);
        memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
    }
    if (sendmsg(fd, &message, MSG_NOSIGNAL) != (ssize_t)sizeof hello)
        return false;
    for (char **variable = environ; *variable; variable++)
        if (send(fd, *variable, strlen(*variable) + 1, MSG_NOSIGNAL) < 0)
            return false;
    return true;
}

int pmi_proxy_main(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int rank = number_of("OMPI_COMM_WORLD_RANK");
    char end;

    if (rank < 0)
        rank = number_of("PMI_RANK");
    if (strlen(name) > sizeof address.sun_path - 2 || rank < 0) {
        fprintf(stderr, "tutti pmi-proxy is for `tutti run` alone\n");
        return 2;
    }
    memcpy(address.sun_path + 1, name, strlen(name));
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 ||
        connect(fd, (struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))) != 0 ||
        !hand_over(fd, rank)) {
        fprintf(stderr, "tutti pmi-proxy: %s\n", strerror(errno));
        return 1;
    }
    /* The other end closes when the rank's place is needed no more. */
    while (recv(fd, &end, 1, 0) < 0 && errno == EINTR)
        ;
    return 0;
}
