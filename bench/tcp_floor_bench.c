/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast two processes reduce a vector over loopback without a library: the least that an all_reduce
 * over tcp can take, as far as it is send(2) and recv(2) that cost.
 *
 * Both spin on one non-blocking connection. Up to 4 KiB each sends its whole vector; beyond, the halves
 * are exchanged, added, and exchanged again, and each half is added as it comes. Arguments: BYTES ….
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLES = 31, WHOLE_MAX = 4096, TURN = 128 << 10 };

static int fd;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* How many bytes went; none if the socket was not ready. */
static size_t move(ssize_t done)
{
    if (done == 0 || (done < 0 && errno != EAGAIN && errno != EINTR))
        die("the connection");
    return done < 0 ? 0 : (size_t)done;
}

static size_t turn_of(size_t left)
{
    return left < TURN ? left : TURN;
}

/* The elements from *done to `end`. */
static void add(float *restrict sum, const float *restrict in, size_t *done, size_t end)
{
    for (size_t i = *done; i < end; i++)
        sum[i] += in[i];
    *done = end;
}

/* Sends and receives `bytes`; adds what came to `sum` if that is not NULL. */
static void exchange(const char *out, char *in, size_t bytes, float *sum)
{
    size_t sent = 0, got = 0, added = 0;

    while (sent < bytes || got < bytes) {
        if (sent < bytes)
            sent += move(send(fd, out + sent, turn_of(bytes - sent), MSG_DONTWAIT | MSG_NOSIGNAL));
        if (got < bytes)
            got += move(recv(fd, in + got, turn_of(bytes - got), MSG_DONTWAIT));
        if (sum)
            add(sum, (const float *)(const void *)in, &added, got / sizeof(float));
    }
}

static void reduce(char *mine, char *theirs, size_t bytes, int upper)
{
    const size_t half = bytes / 2;
    size_t added = 0;
    char *kept = mine + (upper ? half : 0), *given = mine + (upper ? 0 : half);

    if (bytes <= WHOLE_MAX) {
        exchange(mine, theirs, bytes, NULL);
        add((float *)(void *)mine, (const float *)(const void *)theirs, &added,
            bytes / sizeof(float));
        return;
    }
    exchange(given, theirs, half, (float *)(void *)kept);
    exchange(kept, given, half, NULL);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void measure(size_t bytes, int upper)
{
    const int calls = bytes <= WHOLE_MAX ? 2000 : bytes < 1 << 20 ? 100 : 10;
    char *mine = calloc(1, bytes), *theirs = calloc(1, bytes), flag[2] = {0};
    double us[SAMPLES];

    if (!mine || !theirs)
        die("calloc");
    for (int i = 0; i < SAMPLES; i++) {
        double spent = 0;

        for (int call = 0; call < calls; call++) {
            if (bytes > WHOLE_MAX) { /* as the mode «touched» */
                memset(mine, 0, bytes);
                exchange(flag, flag + 1, 1, NULL);
            }
            const double start = now_us();
            reduce(mine, theirs, bytes, upper);
            spent += now_us() - start;
        }
        us[i] = spent / calls;
    }
    qsort(us, SAMPLES, sizeof us[0], compare);
    if (!upper)
        printf("%10zu B %10.3f us, least %.3f\n", bytes, us[SAMPLES / 2], us[0]);
    free(mine);
    free(theirs);
}

/* Makes the other process; 1 there, 0 here. */
static int connect_two(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) ||
        listen(listener, 1) || getsockname(listener, (struct sockaddr *)&address, &length))
        die("listen");
    const pid_t child = fork();
    if (child < 0)
        die("fork");
    fd = child ? accept4(listener, NULL, NULL, SOCK_CLOEXEC)
               : socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || (!child && connect(fd, (struct sockaddr *)&address, length)) ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one))
        die("connect");
    close(listener);
    return !child;
}

int main(int argc, char **argv)
{
    static const size_t standard[] = {8, 4096, 524288, 8388608};
    const int upper = connect_two();

    for (int i = 1; i < argc; i++)
        measure(strtoull(argv[i], NULL, 10) / 8 * 8, upper);
    for (size_t i = 0; argc == 1 && i < sizeof standard / sizeof standard[0]; i++)
        measure(standard[i], upper);
    if (!upper)
        wait(NULL);
    return 0;
}
