/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/known.h"

#include <stddef.h>
#include <string.h>

#include <tutti/tensor.h>

#include "base/error.h"
#include "base/text.h"

#define REINSTALL "install tutti again: it is part of every installation"
#define BUILD                                                                                      \
    "build and install tutti by CMake (the Python wheel leaves it out)" /* pyproject.toml */

const char known_auto_local[] = "shm", known_auto_remote[] = "tcp";
const char known_auto_fabric[] = "ucx";

static const tutti_known_plugin plugins[] = {
    {"shm", "transport", "memory that the ranks of one host share", "", REINSTALL, ""},
    {"tcp", "transport", "TCP between all hosts", "", REINSTALL, ""},
    {"gloo", "transport, collectives", "Gloo's messages and collectives", "libgloo.so.0",
     "apt-get install libgloo-dev g++, then " BUILD, "apt-get install libgloo0"},
    {"mpi", "transport, collectives, bootstrap", "Open MPI, MPICH or an MPI with the standard ABI",
     "libmpi.so.40, libmpich.so.12 or libmpi_abi.so.1",
     "apt-get install libopenmpi-dev openmpi-bin (or libmpich-dev mpich), then build and install "
     "tutti again",
     "apt-get install openmpi-bin (or mpich)"},
    {"cuda", "device", "tensors in the memory of NVIDIA GPUs", "libcuda.so.1", REINSTALL,
     "install NVIDIA's driver; in a container, start it with GPUs (docker run --gpus all)"},
    {"ucx", "transport", "UCX: InfiniBand, RoCE and shared memory", "libucp.so.0",
     "apt-get install libucx-dev, then " BUILD,
     "apt-get install libucx0, or set TUTTI_UCX to a libucp.so.0"},
    {"ucc", "collectives", "UCC's collectives, over UCX", "libucc.so.1", REINSTALL,
     "set TUTTI_UCC to the path of a libucc.so.1, built as docs/engines.md says"},
    {"nccl", "collectives", "NCCL between NVIDIA GPUs", "libnccl.so.2", REINSTALL,
     "pip install nvidia-nccl-cu12, or set TUTTI_NCCL to a libnccl.so.2"},
    {"check", "wrapper", "finds NaN, infinities and corrupted results", "", REINSTALL, ""},
    {"fault", "wrapper", "delays, drops and corrupts messages, for tests", "", BUILD, ""},
    {"trace", "wrapper", "writes what each rank calls to a file", "", REINSTALL, ""},
};

const char *known_auto_engine(int32_t device_type)
{
    return device_type == TUTTI_DEVICE_CUDA ? "nccl" : "";
}

const tutti_known_plugin *known_plugin(const char *name)
{
    for (size_t i = 0; i < sizeof plugins / sizeof *plugins; i++)
        if (!strcmp(plugins[i].name, name))
            return &plugins[i];
    return NULL;
}

static const struct {
    int32_t type;
    const char *name;
} devices[] = {{TUTTI_DEVICE_CUDA, "cuda"}};

const char *known_device_name(int32_t type)
{
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (devices[i].type == type)
            return devices[i].name;
    return NULL;
}

int32_t known_device_type(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (text_is(name, length, devices[i].name))
            return devices[i].type;
    return 0;
}

tutti_status tutti_plugins_known(tutti_known_plugin_fn fn, void *user)
{
    if (!fn)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "fn is NULL");
    for (size_t i = 0; i < sizeof plugins / sizeof *plugins; i++)
        fn(&plugins[i], user);
    return TUTTI_OK;
}
