/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks on the processes of a job. The kernel protects them: another user may read of a process what `ps`
 * shows, and nothing else. This says that nothing secret is in what `ps` shows, and that tutti opens nothing
 * that the kernel keeps closed (PR_SET_DUMPABLE, PR_SET_PTRACER, modes of memfds).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "attack.h"
#include "secret/secret.h"

enum { DESCRIPTORS = 128, CONTENT_MAX = 1 << 18 };

/* What the secret looks like in a process. */
static bool has_secret(const struct attack_scene *scene, const char *data, size_t size)
{
    char text[SECRET_TEXT];
    struct key key;

    if (!scene->secret)
        return false;
    memcpy(key.bytes, scene->secret, sizeof key.bytes);
    secret_to_text(&key, text);
    return memmem(data, size, scene->secret, KEY_BYTES) ||
           memmem(data, size, text, sizeof text - 1);
}

static bool is_private(const char *name)
{
    static const char *const names[] = {"environ", "mem",       "maps",    "smaps", "numa_maps",
                                        "auxv",    "pagemap",   "syscall", "stack", "io",
                                        "cwd",     "map_files", "fd",      "root",  "exe"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

/* Opens and reads one entry of /proc/PID. */
static void read_entry(const struct attack_scene *scene, const char *path, const char *name,
                       struct attack_result *ret_result)
{
    static char content[CONTENT_MAX];
    size_t size = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    ret_result->tried++;
    if (fd < 0)
        return;
    for (ssize_t n;
         size < sizeof content && (n = read(fd, content + size, sizeof content - size)) > 0;)
        size += (size_t)n;
    close(fd);
    if (size && is_private(name))
        attack_gain(ret_result, "it reads %s", path);
    if (has_secret(scene, content, size))
        attack_gain(ret_result, "the secret is in %s", path);
}

static void read_process(const struct attack_scene *scene, pid_t pid,
                         struct attack_result *ret_result)
{
    char folder[64], path[400];

    snprintf(folder, sizeof folder, "/proc/%d", (int)pid);
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.' || entry->d_type == DT_DIR)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        read_entry(scene, path, entry->d_name, ret_result);
    }
    if (dir)
        closedir(dir);
}

/* Memfds, sockets and files that the process has open, by number. */
static void take_descriptors(pid_t pid, struct attack_result *ret_result)
{
    const int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    char path[64], target[256];

    for (int number = 0; number < DESCRIPTORS; number++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, number);
        const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
        const int copy = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);

        ret_result->tried++;
        if (fd >= 0 || copy >= 0 || readlink(path, target, sizeof target) >= 0)
            attack_gain(ret_result, "it takes descriptor %d of process %d", number, (int)pid);
        if (fd >= 0)
            close(fd);
        if (copy >= 0)
            close(copy);
    }
    if (pidfd >= 0)
        close(pidfd);
}

/* Reads its memory, and stops or ends it. */
static void touch(pid_t pid, struct attack_result *ret_result)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)&errno, 1};

    ret_result->tried++;
    if (process_vm_readv(pid, &here, 1, &there, 1, 0) >= 0 || errno != EPERM)
        attack_gain(ret_result, "it may read the memory of process %d", (int)pid);
    if (ptrace(PTRACE_SEIZE, pid, 0, 0) >= 0)
        attack_gain(ret_result, "it traces process %d", (int)pid);
    if (kill(pid, 0) >= 0)
        attack_gain(ret_result, "it may send signals to process %d", (int)pid);
}

void attack_processes(const struct attack_scene *scene, struct attack_result *ret_result)
{
    for (int i = 0; i < scene->process_count; i++) {
        read_process(scene, scene->processes[i], ret_result);
        take_descriptors(scene->processes[i], ret_result);
        touch(scene->processes[i], ret_result);
    }
}
