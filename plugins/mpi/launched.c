/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launchers tell their processes their ranks by PMI or by PMIx. An MPI that does not speak its
 * launcher's takes the process for the only one, and nothing fails: each works for itself. Or it
 * ends the process in MPI_Init, with a message that says nothing of tutti. Both become errors here, which
 * name the variable that shows the launcher and what goes with it.
 */
#include "launched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_inside.h"
#include "job.h"

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

/* MPICH 4 is not here: it finds itself alone under PMIx, and goes on. */
tutti_status launched_for_this_mpi(const struct caller *c)
{
    const char *pmi_size = variable("PMI_SIZE"), *pmix_rank = variable("PMIX_RANK");
    char words[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    tutti_engine_version version = {.struct_size = sizeof version};
    int length = 0;

    MPI_Get_library_version(words, &length);
    job_version(&version);
    if (!strncmp(words, "Open MPI", 8) && pmi_size && strtol(pmi_size, NULL, 10) > 1 && !pmix_rank)
        return refuse(c, TUTTI_ERR_INVALID_ARGUMENT,
                      "PMI_SIZE=%.32s says that a launcher with PMI started this process, and Open "
                      "MPI joins those with PMIx alone; start the program with `srun --mpi=pmix` "
                      "or mpirun.openmpi, or set TUTTI_MPI=mpich",
                      pmi_size);
    if (!strncmp(words, "MPICH", 5) && version.major >= 5 && pmix_rank && !variable("PMI_RANK"))
        return refuse(c, TUTTI_ERR_INVALID_ARGUMENT,
                      "PMIX_RANK=%.32s says that a launcher with PMIx started this process, and "
                      "MPICH %u joins those with PMI alone; start the program with `srun "
                      "--mpi=pmi2` or MPICH's mpiexec, or set TUTTI_MPI=openmpi",
                      pmix_rank, version.major);
    return TUTTI_OK;
}

tutti_status launched_not_alone(const struct caller *c, int size)
{
    static const struct {
        const char *name;
        long alone; /* the largest value that a process on its own may see */
    } evidence[] = {
        {"OMPI_COMM_WORLD_SIZE", 1}, {"PMI_SIZE", 1},  {"SLURM_NTASKS", 1},
        {"SLURM_PROCID", 0},         {"PMIX_RANK", 0}, {"WORLD_SIZE", 1},
    };

    for (size_t i = 0; i < sizeof evidence / sizeof evidence[0] && size == 1; i++) {
        const char *value = variable(evidence[i].name);

        if (value && strtol(value, NULL, 10) > evidence[i].alone)
            return refuse(
                c, TUTTI_ERR_INVALID_ARGUMENT,
                "%s=%.32s says that this is one of several processes, but %s takes it for "
                "the only one, so its launcher was not %s's; start the program with that "
                "(mpirun.openmpi or `srun --mpi=pmix`, mpirun.mpich or `srun --mpi=pmi2`, "
                "`tutti run --backend mpi`), or set TUTTI_MPI to the launcher's own MPI",
                evidence[i].name, value, mpi_library(), mpi_library());
    }
    return TUTTI_OK;
}

bool launched_on_one_host(void)
{
    /* The job's processes, and those on this host. Slurm writes «2(x3)» for two on each of three hosts. */
    static const char *const names[][2] = {{"PMI_SIZE", "MPI_LOCALNRANKS"},
                                           {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                                           {"SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"}};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *all = variable(names[i][0]), *here = variable(names[i][1]);

        if (all && here)
            return !strcmp(all, here);
    }
    return false;
}

void launched_place(char *ret_words, size_t size)
{
    static const char *const names[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"},
                                           {"SLURM_PROCID", "SLURM_NTASKS"}};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *rank = variable(names[i][0]), *count = variable(names[i][1]);

        if (rank && count) {
            snprintf(ret_words, size, "process %.16s of %.16s by %s", rank, count, names[i][0]);
            return;
        }
    }
    snprintf(ret_words, size, "one of them");
}
