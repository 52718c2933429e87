/* SPDX-License-Identifier: Apache-2.0 */
#include "stand_in.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    START_MS = 60000,
    STOP_MS = 2000,
    ENVIRONMENT_MAX = 1 << 20, /* bytes */
    WORDS_OF_LAUNCHER = 600,
    ARGUMENTS_MAX = 16
};

extern char **environ;

/* What a stand-in says: this, and `bytes` of NAME=VALUE, each with its NUL. */
struct hello {
    int32_t rank;
    uint32_t bytes;
};

struct stand_in {
    int socket;     /* -1: not here yet */
    int descriptor; /* -1: none */
    char *text;
    char **variables; /* into `text`, ended by NULL */
    char number[32];  /* PMI_FD as it is in this process */
};

struct stand_ins {
    const struct family *family;
    int count, here;
    pid_t launcher;
    int listener, output; /* what the launcher prints */
    struct stand_in of[];
};

/* How the launchers are called, the common name last, and what makes them let survivors live and
 * start more ranks than there are CPUs, without binding those to any. Any MPICH's starts ranks of another
 * as well, so that for the standard ABI need not be the library's own. */
static const struct family {
    const char *name, *words;
    const char *programs[3];
    const char *arguments[6];
    const char *mark; /* what ranks have in their environment that the launcher does not tell */
} families[] = {
    {"openmpi",
     "Open MPI",
     {"mpirun.openmpi", "orterun"},
     {"--oversubscribe", "--continuous", "--bind-to", "none", "-n"},
     NULL},
    {"mpich", "MPICH", {"mpirun.mpich", "mpiexec.hydra"}, {"-disable-auto-cleanup", "-n"}, NULL},
    {"abi",
     "the standard ABI",
     {"mpiexec.hydra", "mpirun.mpich"},
     {"-disable-auto-cleanup", "-n"},
     "TUTTI_MPI=abi"},
};
enum { FAMILIES = sizeof families / sizeof families[0] };

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- which ----------------------------------------------------------------------------------- */

static bool find_program(const char *name, char *ret_path, size_t size)
{
    const char *path = getenv("PATH");

    for (const char *at = path ? path : "/usr/bin:/bin"; *at;) {
        size_t length = strcspn(at, ":");
        int n = snprintf(ret_path, size, "%.*s/%s", (int)length, at, name);

        if (n > 0 && (size_t)n < size && access(ret_path, X_OK) == 0)
            return true;
        at += length + (at[length] == ':');
    }
    return false;
}

static bool find_launcher(const struct family *family, char *ret_path, size_t size)
{
    for (int i = 0; family->programs[i]; i++)
        if (find_program(family->programs[i], ret_path, size))
            return true;
    return false;
}

static const struct family *find_family(const char *name)
{
    for (int i = 0; i < FAMILIES; i++)
        if (!strcmp(families[i].name, name))
            return &families[i];
    return NULL;
}

bool stand_in_is_there(const char *family)
{
    const struct family *which = find_family(family);
    char path[4096];

    return which && find_launcher(which, path, sizeof path);
}

/* Whether the list of backends has mpi: "mpi", "local=shm,remote=mpi", "all_reduce:0-4k=mpi". */
static bool names_mpi(const char *backend)
{
    for (const char *at = backend; at && *at;) {
        size_t length = strcspn(at, ",;=:");

        if (length == 3 && !strncmp(at, "mpi", 3))
            return true;
        at += length + (at[length] != 0);
    }
    return false;
}

/* Whether the MPI of the launcher PREFIX/bin/PROGRAM has its library for the standard ABI in PREFIX/lib. */
static bool is_of_abi(const char *launcher)
{
    char library[4200];

    snprintf(library, sizeof library, "%.*s/../lib/libmpi_abi.so.1",
             (int)(strrchr(launcher, '/') - launcher), launcher);
    return access(library, R_OK) == 0;
}

const char *stand_in_family(const char *backend, const char *chosen)
{
    char path[4096];

    if (!names_mpi(backend))
        return NULL;
    if (chosen && *chosen)
        return chosen;
    for (int i = 0; i < FAMILIES; i++)
        if (find_launcher(&families[i], path, sizeof path))
            return !strcmp(families[i].name, "mpich") && is_of_abi(path) ? "abi" : families[i].name;
    return "";
}

/* ---- the launcher ---------------------------------------------------------------------------- */

struct command {
    char path[4096], count[16], name[64];
    char *argv[ARGUMENTS_MAX];
    char **environment;
};

static void make_command(const struct family *family, int count, const char *tutti,
                         const char *name, struct command *command)
{
    static char root[] = "OMPI_ALLOW_RUN_AS_ROOT=1", sure[] = "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                verb[] = "stand-in";
    int argument = 0, variables = 0;

    snprintf(command->count, sizeof command->count, "%d", count);
    snprintf(command->name, sizeof command->name, "%s", name);
    command->argv[argument++] = command->path;
    for (int i = 0; family->arguments[i]; i++)
        command->argv[argument++] = (char *)(uintptr_t)family->arguments[i];
    command->argv[argument++] = command->count;
    command->argv[argument++] = (char *)(uintptr_t)tutti;
    command->argv[argument++] = verb;
    command->argv[argument++] = command->name;
    command->argv[argument] = NULL;
    for (; environ[variables]; variables++)
        command->environment[variables] = environ[variables];
    if (geteuid() == 0) { /* whoever runs tutti as root has decided that */
        command->environment[variables++] = root;
        command->environment[variables++] = sure;
    }
    command->environment[variables] = NULL;
}

static _Noreturn void become_launcher(const struct command *command, int output, pid_t parent)
{
    int nothing = open("/dev/null", O_RDONLY);
    sigset_t none;

    setsid();
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent && dup2(nothing, STDIN_FILENO) >= 0 &&
        dup2(output, STDOUT_FILENO) >= 0 && dup2(output, STDERR_FILENO) >= 0)
        execve(command->path, command->argv, command->environment);
    _exit(127);
}

static bool start_launcher(struct stand_ins *s, const struct family *family, const char *tutti,
                           const char *name)
{
    int variables = 0;
    pid_t parent = getpid();
    struct command *command = calloc(1, sizeof *command);

    while (environ[variables])
        variables++;
    if (command)
        command->environment = calloc((size_t)variables + 4, sizeof(char *));
    if (command && command->environment &&
        find_launcher(family, command->path, sizeof command->path)) {
        make_command(family, s->count, tutti, name, command);
        s->launcher = fork();
        if (s->launcher == 0)
            become_launcher(command, s->output, parent);
    } else {
        errno = ENOENT;
    }
    if (command)
        free(command->environment);
    free(command);
    return s->launcher > 0;
}

/* Only this user's processes know the name, which is random, and only they are listened to. */
static bool listen_privately(struct stand_ins *s, char name[64])
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    uint64_t random[2];

    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    snprintf(name, 64, "tutti-stand-in-%016llx%016llx", (unsigned long long)random[0],
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
static bool keep_environment(struct stand_in *one, size_t bytes, const char *mark)
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

/* The message that says who it is, and brings the descriptor (-1: none). False: it is no such. */
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
static bool receive_environment(int fd, struct stand_in *one, size_t bytes, const char *mark)
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

/* Closes and frees what a stand-in has brought. */
static void forget(struct stand_in *one)
{
    if (one->socket >= 0)
        close(one->socket);
    if (one->descriptor >= 0)
        close(one->descriptor);
    free(one->text);
    free(one->variables);
    *one = (struct stand_in){.socket = -1, .descriptor = -1};
}

/* True: the socket is the stand-in's from then on. */
static bool take_over(struct stand_ins *s, int fd)
{
    struct hello hello;
    int descriptor;

    if (!receive_hello(fd, &hello, &descriptor) || hello.rank < 0 || hello.rank >= s->count ||
        s->of[hello.rank].socket >= 0 || hello.bytes == 0 || hello.bytes > ENVIRONMENT_MAX) {
        if (descriptor >= 0)
            close(descriptor);
        return false;
    }
    struct stand_in *one = &s->of[hello.rank];
    one->descriptor = descriptor;
    if (!receive_environment(fd, one, hello.bytes, s->family->mark)) {
        forget(one);
        return false;
    }
    one->socket = fd;
    s->here++;
    return true;
}

static void accept_one(struct stand_ins *s)
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

/* False: the launcher has ended, or time is up. */
static bool await_all(struct stand_ins *s)
{
    int64_t deadline = now_ms() + START_MS;

    while (s->here < s->count && now_ms() < deadline) {
        struct pollfd ready = {.fd = s->listener, .events = POLLIN};

        if (poll(&ready, 1, 50) > 0)
            accept_one(s);
        else if (waitpid(s->launcher, NULL, WNOHANG) == s->launcher)
            s->launcher = 0;
        if (!s->launcher)
            break;
    }
    return s->here == s->count;
}

/* What the launcher printed, less the lines that frame it. */
static void words_of_launcher(const struct stand_ins *s, char words[WORDS_OF_LAUNCHER])
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

struct stand_ins *stand_ins_start(const char *family, int count, const char *tutti, char *ret_words,
                                  size_t size)
{
    const struct family *which = find_family(family);
    struct stand_ins *s = calloc(1, sizeof *s + (size_t)count * sizeof s->of[0]);
    char name[64], said[WORDS_OF_LAUNCHER];

    if (!s || !which) {
        free(s);
        snprintf(ret_words, size,
                 s ? "TUTTI_MPI=%.64s: the families are openmpi, mpich and abi"
                   : "no memory for the ranks of %.64s",
                 family);
        return NULL;
    }
    s->family = which;
    s->count = count;
    s->listener = s->output = -1;
    for (int i = 0; i < count; i++)
        s->of[i] = (struct stand_in){.socket = -1, .descriptor = -1};
    if (!listen_privately(s, name) || !start_launcher(s, which, tutti, name)) {
        snprintf(ret_words, size, "%s of %s cannot be started: %s", which->programs[0],
                 which->words, strerror(errno));
    } else if (!await_all(s)) {
        words_of_launcher(s, said);
        snprintf(ret_words, size, "%s started %d of %d ranks: %s", which->programs[0], s->here,
                 count, *said ? said : "it said nothing");
    } else {
        return s;
    }
    stand_ins_stop(s);
    return NULL;
}

char *const *stand_in_environment(const struct stand_ins *stand_ins, int rank)
{
    return stand_ins->of[rank].variables;
}

int stand_in_descriptor(const struct stand_ins *stand_ins, int rank)
{
    return stand_ins->of[rank].descriptor;
}

int stand_ins_launcher(const struct stand_ins *stand_ins)
{
    return stand_ins->launcher;
}

static void await_launcher(struct stand_ins *s)
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

void stand_ins_stop(struct stand_ins *s)
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

/* ---- the stand-in ---------------------------------------------------------------------------- */

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

int stand_in_main(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int rank = number_of("OMPI_COMM_WORLD_RANK");
    char end;

    if (rank < 0)
        rank = number_of("PMI_RANK");
    if (strlen(name) > sizeof address.sun_path - 2 || rank < 0) {
        fprintf(stderr, "tutti stand-in is for `tutti run` alone\n");
        return 2;
    }
    memcpy(address.sun_path + 1, name, strlen(name));
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 ||
        connect(fd, (struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))) != 0 ||
        !hand_over(fd, rank)) {
        fprintf(stderr, "tutti stand-in: %s\n", strerror(errno));
        return 1;
    }
    /* The other end closes when the rank's place is needed no more. */
    while (recv(fd, &end, 1, 0) < 0 && errno == EINTR)
        ;
    return 0;
}
