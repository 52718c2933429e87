/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPI_Comm_create_group returns once all members are in it, and nothing wakes who waits there for one
 * that never comes. Where MPI takes calls from several threads, it runs on one of its own, which is
 * left behind then.
 *
 * Where it does not, the caller's own thread has to go in. So the members first tell the first of them
 * that they are here, by messages that can be polled and given up; it answers when it has heard of
 * all, and only then does anybody go in. What is left is a member that dies in that moment.
 */
#include "form.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct form {
    const struct job *job;
    MPI_Comm made;
    int code; /* MPI's, once it is done */
    int done;
    int holders; /* the team, the thread; who needs it last frees it */
    int tag;     /* of the communicator's making */

    bool meets; /* members say that they are here, in the callers' threads */
    enum { WAITS_FOR_JOB, GATHERS, ANSWERS } phase;
    int self, tag_here, tag_go;
    MPI_Request *requests; /* [count]; the first of them has one for each other member */
    int count, ranks[];    /* members, in the job */
};

/* The group must come from the communicator itself: with one of MPI_COMM_WORLD, which has the same
 * members, MPICH 4.0 crashes where the communicator was made by MPI_Comm_idup. */
static void make_communicator(struct form *form)
{
    MPI_Comm parent = form->job->messages;
    MPI_Group all = MPI_GROUP_NULL, members = MPI_GROUP_NULL;

    form->code = MPI_Comm_group(parent, &all);
    if (form->code == MPI_SUCCESS)
        form->code = MPI_Group_incl(all, form->count, form->ranks, &members);
    if (form->code == MPI_SUCCESS)
        form->code = MPI_Comm_create_group(parent, members, form->tag, &form->made);
    if (form->code == MPI_SUCCESS)
        MPI_Comm_set_errhandler(form->made, MPI_ERRORS_RETURN);
    if (all != MPI_GROUP_NULL)
        MPI_Group_free(&all);
    if (members != MPI_GROUP_NULL)
        MPI_Group_free(&members);
    __atomic_store_n(&form->done, 1, __ATOMIC_RELEASE);
}

static void let_go(struct form *form)
{
    if (__atomic_sub_fetch(&form->holders, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    free(form->requests);
    free(form);
}

/* ---- on a thread --------------------------------------------------------------------------- */

static void *make_on_thread(void *user)
{
    struct form *form = user;

    job_await();
    make_communicator(form);
    let_go(form);
    return NULL;
}

static tutti_status start_thread(const struct caller *c, struct form *form)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;

    form->holders++;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attributes, make_on_thread, form);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (!error)
        return TUTTI_OK;
    form->holders--;
    return c->host->error(c->host_self, TUTTI_ERR_SYSTEM, error, "cannot start a thread");
}

/* ---- in the callers' threads --------------------------------------------------------------- */

/* All but the first wait for its answer from the beginning. */
static int say_here(struct form *form)
{
    MPI_Comm comm = form->job->messages;
    int code = MPI_SUCCESS;

    if (form->self != 0) {
        code = MPI_Irecv(NULL, 0, MPI_BYTE, form->ranks[0], form->tag_go, comm, &form->requests[0]);
        if (code == MPI_SUCCESS)
            code = MPI_Isend(NULL, 0, MPI_BYTE, form->ranks[0], form->tag_here, comm,
                             &form->requests[1]);
        return code;
    }
    for (int m = 1; m < form->count && code == MPI_SUCCESS; m++)
        code =
            MPI_Irecv(NULL, 0, MPI_BYTE, form->ranks[m], form->tag_here, comm, &form->requests[m]);
    return code;
}

static int answer(struct form *form)
{
    int code = MPI_SUCCESS;

    for (int m = 1; form->self == 0 && m < form->count && code == MPI_SUCCESS; m++)
        code = MPI_Isend(NULL, 0, MPI_BYTE, form->ranks[m], form->tag_go, form->job->messages,
                         &form->requests[m]);
    return code;
}

static int test_all(struct form *form, int *ret_done)
{
    int code = MPI_SUCCESS;

    *ret_done = 1;
    for (int i = 0; i < form->count && code == MPI_SUCCESS && *ret_done; i++)
        code = MPI_Test(&form->requests[i], ret_done, MPI_STATUS_IGNORE);
    return code;
}

/* Until everybody is here, and has been told so. */
static void meet(struct form *form)
{
    int done = 1;

    if (form->phase == WAITS_FOR_JOB && !job_ready())
        return;
    job_lock();
    if (form->phase == WAITS_FOR_JOB) {
        form->code = say_here(form);
        form->phase = GATHERS;
    }
    if (form->code == MPI_SUCCESS)
        form->code = test_all(form, &done);
    if (done && form->phase == GATHERS && form->code == MPI_SUCCESS) {
        form->code = answer(form);
        form->phase = ANSWERS;
        if (form->code == MPI_SUCCESS)
            form->code = test_all(form, &done);
    }
    if (form->code == MPI_SUCCESS && done)
        make_communicator(form);
    job_unlock();
}

/* Nobody hears of these any more. */
static void leave_meeting(struct form *form)
{
    int ended = 0;

    MPI_Finalized(&ended);
    job_lock();
    for (int i = 0; i < form->count && !ended && !job_is_foreign(form->job); i++) {
        if (form->requests[i] == MPI_REQUEST_NULL)
            continue;
        if (form->phase == GATHERS && (form->self == 0 || i == 0)) /* a receive */
            MPI_Cancel(&form->requests[i]);
        MPI_Request_free(&form->requests[i]);
    }
    job_unlock();
}

/* ---- either way ---------------------------------------------------------------------------- */

tutti_status form_begin(const struct caller *c, const struct job *job, const int *ranks, int count,
                        int self, uint32_t number, struct form **ret_form)
{
    struct form *form = calloc(1, sizeof *form + (size_t)count * sizeof form->ranks[0]);
    /* Of the tags, those in which the last number stands first are no endpoint's. */
    const int reserved = job->numbers - 1, slots = job->numbers / 2;

    if (form)
        form->requests = calloc((size_t)count, sizeof *form->requests);
    if (!form || !form->requests) {
        free(form);
        return refuse(c, TUTTI_ERR_NO_MEMORY, "out of memory");
    }
    form->job = job;
    form->holders = 1;
    form->code = MPI_SUCCESS;
    form->made = MPI_COMM_NULL;
    form->meets = job->callers_only || job->serialize;
    form->tag = (int)(number % (uint32_t)(job->numbers * job->numbers));
    form->tag_here = reserved * job->numbers + 2 * (int)(number % (uint32_t)slots);
    form->tag_go = form->tag_here + 1;
    form->self = self;
    form->count = count;
    memcpy(form->ranks, ranks, (size_t)count * sizeof *ranks);
    for (int i = 0; i < count; i++)
        form->requests[i] = MPI_REQUEST_NULL;
    tutti_status status = form->meets ? TUTTI_OK : start_thread(c, form);
    if (status)
        let_go(form);
    else
        *ret_form = form;
    return status;
}

tutti_status form_test(const struct caller *c, struct form *form, MPI_Comm *ret_comm)
{
    char words[MPI_MAX_ERROR_STRING];

    if (form->meets && !form->done && form->code == MPI_SUCCESS) {
        tutti_status status = job_check_thread(c, form->job);

        if (status)
            return status;
        meet(form);
    }
    bool failed = form->meets && form->code != MPI_SUCCESS;
    if (!failed && !__atomic_load_n(&form->done, __ATOMIC_ACQUIRE))
        return TUTTI_ERR_NOT_READY;
    if (form->code != MPI_SUCCESS)
        return refuse(c, job_status(form->code), "MPI_Comm_create_group failed: %.300s",
                      job_words(form->code, words));
    *ret_comm = form->made;
    return TUTTI_OK;
}

void form_end(struct form *form)
{
    if (!form)
        return;
    if (form->meets && !form->done)
        leave_meeting(form);
    let_go(form);
}
