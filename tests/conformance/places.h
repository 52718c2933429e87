/* SPDX-License-Identifier: Apache-2.0 */
/* The places of test_conformance.c, which alone includes this: backends and layouts of hosts, in a list for each test. */
#pragma once

#include "conformance/sequence.h"

struct place {
    const char *name, *backend;
    const char *hosts[MEMBERS_MAX + 1]; /* of each rank; the first NULL: all on this one */
    int share[MEMBERS_MAX + 1];         /* percent of the time that so many members get */
    const char *setting;                /* of the environment; NULL: none */
    const char *mpi;                    /* the ranks are a job of this MPI; NULL: of none */
    enum devices devices;               /* tensors are on GPUs, too: the stand-in's */
};

/* More members than cores take long for each call, and find less in it. */
#define SHARES                                                                                     \
    {                                                                                              \
        0, 2, 26, 22, 20, 10, 8, 6, 6                                                              \
    }

static const struct place shm[] = {{.name = "shm", .backend = "shm", .share = SHARES}, {0}};
static const struct place tcp[] = {{.name = "tcp", .backend = "tcp", .share = SHARES}, {0}};
static const struct place composed[] = {
    {"auto-4", "auto", {"a", "a", "a", "a"}, {[4] = 15}, NULL, NULL, DEVICES_NONE},
    {"auto-1,3", "auto", {"a", "b", "b", "b"}, {[4] = 25}, NULL, NULL, DEVICES_NONE},
    {"auto-3,1,4",
     "auto",
     {"a", "a", "a", "b", "c", "c", "c", "c"},
     {[8] = 20},
     NULL,
     NULL,
     DEVICES_NONE},
    {"auto-2,2-in-turn", "auto", {"a", "b", "a", "b"}, {[4] = 25}, NULL, NULL, DEVICES_NONE},
    {"auto-1,1,1", "auto", {"a", "b", "c"}, {[3] = 15}, NULL, NULL, DEVICES_NONE},
    {0},
};

/* Where its plugin was built. */
static const struct place gloo[] = {
    {.name = "gloo", .backend = "gloo", .share = {0, 1, 12, 10, 8, 5, 4, 4, 4}},
    {.name = "gloo-3,1",
     .backend = "local=shm,remote=gloo",
     .hosts = {"a", "a", "a", "b"},
     .share = {[4] = 4}},
    {0}};

/* Over each kind of UCX's transports, and composed with others. */
#define SHARES_OF_UCX                                                                              \
    {                                                                                              \
        [1] = 1, [2] = 4, [3] = 4, [4] = 4, [5] = 1, [6] = 1, [7] = 1, [8] = 2                     \
    }
static const struct place ucx[] = {
    {.name = "ucx", .backend = "ucx", .share = {0, 1, 6, 5, 4, 3, 2, 2, 4}},
    {.name = "ucx-tcp", .backend = "ucx", .share = SHARES_OF_UCX, .setting = "TUTTI_UCX_TLS=tcp"},
    {.name = "ucx-posix",
     .backend = "ucx",
     .share = SHARES_OF_UCX,
     .setting = "TUTTI_UCX_TLS=posix"},
    {.name = "shm+ucx-3,1",
     .backend = "local=shm,remote=ucx",
     .hosts = {"a", "a", "a", "b"},
     .share = {[4] = 4}},
    {.name = "ucx+tcp-2,2-in-turn",
     .backend = "local=ucx,remote=tcp",
     .hosts = {"a", "b", "a", "b"},
     .share = {[4] = 4}},
    {0}};

/* Over the stand-in for UCC, or the library of TUTTI_TEST_UCC. */
static const struct place ucc[] = {
    {.name = "ucc", .backend = "ucc", .share = {0, 1, 8, 6, 6, 3, 3, 3, 4}}, {0}};

/* The plugin template: messages inside a host, by the seven required functions alone. */
static const struct place template[] = {
    {.name = "template", .backend = "template", .share = {[2] = 4, [3] = 4, [4] = 4}}, {0}};

/* Where every reduction is in the fixed order without being told so itself. */
static const struct place reproducible[] = {
    {"shm", "shm", {NULL}, {[5] = 4}, "TUTTI_REPRODUCIBLE=1", NULL, DEVICES_NONE},
    {"tcp", "tcp", {NULL}, {[3] = 4}, "TUTTI_REPRODUCIBLE=1", NULL, DEVICES_NONE},
    {"auto-2,2-in-turn",
     "auto",
     {"a", "b", "a", "b"},
     {[4] = 4},
     "TUTTI_REPRODUCIBLE=1",
     NULL,
     DEVICES_NONE},
    {0}};

/* Collectives that go by messages with checksums; how each is served stands nowhere. */
static const char with_checksums[] = "TUTTI_CHECKSUM=1";
static const struct place checked[] = {
    {"shm", "shm", {NULL}, {[3] = 4}, with_checksums, NULL, DEVICES_NONE},
    {"tcp", "tcp", {NULL}, {[2] = 4}, with_checksums, NULL, DEVICES_NONE},
    {"auto-1,3", "auto", {"a", "b", "b", "b"}, {[4] = 4}, with_checksums, NULL, DEVICES_NONE},
    {0}};

/* The same calls over encrypted connections. */
static const char with_tls[] = "TUTTI_TLS=1";
static const struct place encrypted[] = {
    {"tcp", "tcp", {NULL}, {[3] = 4}, with_tls, NULL, DEVICES_NONE},
    {"auto-1,3", "auto", {"a", "b", "b", "b"}, {[4] = 4}, with_tls, NULL, DEVICES_NONE},
    {0}};

/* A job of each MPI; of more than MPI_FEW only where runs are long (share_of()). */
#define SHARES_OF_MPI                                                                              \
    {                                                                                              \
        0, 1, 6, 6, 6, 2, 2, 2, 6                                                                  \
    }
static const struct place openmpi[] = {
    {.name = "openmpi", .backend = "mpi", .share = SHARES_OF_MPI, .mpi = "openmpi"}, {0}};
static const struct place mpich[] = {
    {.name = "mpich", .backend = "mpi", .share = SHARES_OF_MPI, .mpi = "mpich"}, {0}};

/* Tensors on GPUs, those of the stand-in, and in host memory. */
#define ON_GPUS(of, way, family, ...)                                                              \
    {                                                                                              \
        {.name = "cuda:" of,                                                                       \
         .backend = "cuda:" way,                                                                   \
         .devices = DEVICES_ANY,                                                                   \
         .mpi = (family),                                                                          \
         .share = {__VA_ARGS__}},                                                                  \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }
static const struct place gpus[] = ON_GPUS("shm", "shm", NULL, [2] = 3, [4] = 3);
/* Over each backend; the test says with which seeds of the stand-in's delays. */
static const struct place gpus_shm[] = ON_GPUS("shm", "shm", NULL, 0, 1, 1, 1, 1, 1, 1, 1, 1);
static const struct place gpus_tcp[] = ON_GPUS("tcp", "tcp", NULL, 0, 1, 1, 1, 1, 1, 1, 1, 1);
static const struct place gpus_gloo[] = ON_GPUS("gloo", "gloo", NULL, 0, 1, 1, 1, 1, 1, 1, 1, 1);
static const struct place gpus_openmpi[] =
    ON_GPUS("openmpi", "mpi", "openmpi", 0, 1, 1, 1, 1, 1, 1, 1, 1);
static const struct place gpus_mpich[] =
    ON_GPUS("mpich", "mpi", "mpich", 0, 1, 1, 1, 1, 1, 1, 1, 1);
/* All tensors of a call are there, or none. */
#define OVER_NCCL(...)                                                                             \
    {                                                                                              \
        {.name = "cuda:nccl",                                                                      \
         .backend = "cpu:auto,cuda:nccl",                                                          \
         .devices = DEVICES_ALIKE,                                                                 \
         .share = {__VA_ARGS__}},                                                                  \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }
static const struct place nccl[] = OVER_NCCL([2] = 25, [3] = 25);
static const struct place gpus_nccl[] = OVER_NCCL(0, 1, 2, 2, 2, 1, 1, 1, 1);
static const struct place *const on_gpus[] = {gpus,         gpus_shm,   gpus_tcp, gpus_gloo,
                                              gpus_openmpi, gpus_mpich, gpus_nccl};
enum { ON_GPUS_COUNT = sizeof on_gpus / sizeof on_gpus[0] };

static const struct place *const places[] = {shm,      tcp,     composed, gloo, ucc,
                                             template, openmpi, mpich,    ucx,  gpus_nccl};
enum { PLACES_COUNT = sizeof places / sizeof places[0] };
