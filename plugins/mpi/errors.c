/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open MPI 4 tells an error of a non-blocking collective to the error handler of MPI_COMM_WORLD, not to
 * that of the communicator. In a program that has initialised MPI that one is the program's, and MPI's
 * default ends the job. MPI_Request_get_status tells no handler, but does not say either that the
 * operation has failed. So it is asked until the operation is complete, and for the moment of the
 * MPI_Test that takes the result MPI_COMM_WORLD has a handler of ours. What other threads of the program
 * do wrong in that moment is handed on to the program's own.
 */
#include "errors.h"

#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION < 5
#include <pthread.h>

static pthread_mutex_t moment = PTHREAD_MUTEX_INITIALIZER;
static MPI_Errhandler ours = MPI_ERRHANDLER_NULL, programs = MPI_ERRHANDLER_NULL;
static _Thread_local bool is_ours; /* the error that comes in this thread */

/* A communicator that another thread has copied meanwhile has our handler, too. */
static void hand_on(MPI_Comm *comm, int *code, ...)
{
    if (is_ours)
        return;
    pthread_mutex_lock(&moment);
    if (*comm != MPI_COMM_WORLD)
        MPI_Comm_set_errhandler(*comm, programs);
    pthread_mutex_unlock(&moment);
    MPI_Comm_call_errhandler(*comm, *code);
}

bool errors_are_the_programs(void)
{
    return ours != MPI_ERRHANDLER_NULL || MPI_Comm_create_errhandler(hand_on, &ours) == MPI_SUCCESS;
}

/* The program may have given it another handler since the last time. Where it has read ours in such a moment
 * and set it again, the one before is still its own. */
static void read_programs(void)
{
    MPI_Errhandler now;

    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &now);
    if (now == ours && programs == MPI_ERRHANDLER_NULL)
        programs = MPI_ERRORS_ARE_FATAL;
    if (now == ours) {
        MPI_Errhandler_free(&now);
        return;
    }
    if (programs != MPI_ERRHANDLER_NULL)
        MPI_Errhandler_free(&programs);
    programs = now;
}

static int take_result(MPI_Request *request, int *ret_done)
{
    pthread_mutex_lock(&moment);
    read_programs();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, ours);
    is_ours = true;
    int code = MPI_Test(request, ret_done, MPI_STATUS_IGNORE);
    is_ours = false;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, programs);
    pthread_mutex_unlock(&moment);
    return code;
}

int errors_test(MPI_Request *request, int *ret_done)
{
    int code = MPI_Request_get_status(*request, ret_done, MPI_STATUS_IGNORE);

    return code == MPI_SUCCESS && *ret_done ? take_result(request, ret_done) : code;
}

#else /* the communicator's handler hears of it, which is ours */

bool errors_are_the_programs(void)
{
    return false;
}

int errors_test(MPI_Request *request, int *ret_done)
{
    return MPI_Test(request, ret_done, MPI_STATUS_IGNORE);
}

#endif
