/* SPDX-License-Identifier: Apache-2.0 */
/* Starts attackers, and collects what they have come to. */
#include "attack.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dialog.h"
#include "harness/net.h"

enum { OPEN_FILES = 20000, FIRST_FREE = 3 };

struct attack {
    pid_t pid;
    struct attack_result result;
};

void attack_gain(struct attack_result *result, const char *format, ...)
{
    const size_t used = strlen(result->words);
    va_list args;

    result->gained++;
    va_start(args, format);
    (void)vsnprintf(result->words + used, sizeof result->words - used, format, args);
    va_end(args);
    strncat(result->words, "; ", sizeof result->words - strlen(result->words) - 1);
}

static bool become_another_user(void)
{
    return !setgroups(0, NULL) && !setresgid(ATTACK_UID, ATTACK_UID, ATTACK_UID) &&
           !setresuid(ATTACK_UID, ATTACK_UID, ATTACK_UID);
}

const char *attack_lack(void)
{
    const pid_t child = geteuid() ? -1 : fork();
    int how = 1;

    if (!child)
        _exit(!become_another_user());
    if (child < 0 || waitpid(child, &how, 0) != child || how)
        return "only root may start processes of another user and network namespaces";
    return NULL;
}

/* It keeps no descriptor of the test, whose sockets would be a member's. */
static _Noreturn void be_attacker(attack_fn act, const struct attack_scene *scene,
                                  struct attack_result *result)
{
    const int there = scene->netns ? net_open(scene->netns) : -1;
    const struct rlimit files = {OPEN_FILES, OPEN_FILES};

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setrlimit(RLIMIT_NOFILE, &files);
    if ((scene->netns && (there < 0 || setns(there, CLONE_NEWNET))) ||
        close_range(FIRST_FREE, ~0U, 0) || !become_another_user() ||
        prctl(PR_SET_PDEATHSIG, SIGKILL))
        _exit(2);
    dialog_allow(scene->encrypted ? TLS_FLIGHT_BYTES : 0);
    act(scene, result);
    _exit(0);
}

struct attack *attack_start(attack_fn act, const struct attack_scene *scene)
{
    struct attack *attack =
        mmap(NULL, sizeof *attack, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (attack == MAP_FAILED)
        return NULL;
    const pid_t pid = fork();

    if (pid == 0)
        be_attacker(act, scene, &attack->result);
    attack->pid = pid;
    return attack;
}

const struct attack_result *attack_result(const struct attack *attack)
{
    return &attack->result;
}

bool attack_wait(struct attack *attack, int ms)
{
    const struct timespec moment = {.tv_nsec = 5000000};
    int how = -1;

    for (; attack->pid > 0 && ms > 0; ms -= 5) {
        if (waitpid(attack->pid, &how, WNOHANG) == attack->pid) {
            attack->pid = 0;
            return WIFEXITED(how) && !WEXITSTATUS(how);
        }
        nanosleep(&moment, NULL);
    }
    attack_kill(attack);
    return false;
}

void attack_kill(struct attack *attack)
{
    if (attack->pid <= 0)
        return;
    kill(attack->pid, SIGKILL);
    waitpid(attack->pid, NULL, 0);
    attack->pid = 0;
}

void attack_free(struct attack *attack)
{
    attack_kill(attack);
    munmap(attack, sizeof *attack);
}
