/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPI_Comm_create_group returns once all members are in it, and nothing wakes a thread that waits
 * there for a member that never comes. Where MPI takes calls from several threads, it runs on one
 * of its own, which is left behind then.
 *
 * Where it does not, the caller's own thread has to go in. So the members first tell the first of them
 * that they are here, by messages that can be polled and given up; it answers when it has heard of
 * all, and only then does anybody go in. What is left is a member that dies in that moment. A
 * thread in MPI_Comm_create_group keeps the other threads of its process out of MPI: two groups at
 * once, which members enter in different orders, would wait for each other for ever. So the second
 * is refused.
 *
 * A process may make many groups at once, on several threads, and no two of them may meet. So each
 * member has a number that no other group has that its process makes, and tells it to the others in its
 * address. A message of the meeting bears the number of whom it is for. The tag of the communicator's
 * making, which MPI wants to be another for each that is made at the time, is made of the first member's
 * place in the job and its number. It is used on a communicator that nothing else is sent in, as Open
 * MPI's making sends messages of that tag. A number is free again when all went well, and else never.
 */
#include "form.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct form {
    const struct job *job;
    MPI_Comm made;
    int code; /* MPI's, once it is done */
    int done;
    int holders; /* the team, the thread; the last of them frees it */

    bool meets; /* members say that they are here, in the callers' threads */
    enum { WAITS_FOR_JOB, GATHERS, ANSWERS } phase;
    int self, count;
    MPI_Request *requests; /* [count]; the first of them has one for each other member */
    struct member {
        int rank, number; /* in the job */
    } members[];
};

/* The one that meets in this process; NULL: none does. */
static struct form *meeting;

/* The group must come from the communicator itself: with one of MPI_COMM_WORLD, which has the same
 * members, MPICH 4.0 crashes where the communicator was made by MPI_Comm_idup. */
static void make_communicator(struct form *form)
{
    const struct member *first = &form->members[0];
    MPI_Comm parent = form->job->forming;
    MPI_Group all = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
    int *ranks = malloc((size_t)form->count * sizeof *ranks);

    for (int m = 0; ranks && m < form->count; m++)
        ranks[m] = form->members[m].rank;
    form->code = ranks ? MPI_Comm_group(parent, &all) : MPI_ERR_NO_MEM;
    if (form->code == MPI_SUCCESS)
        form->code = MPI_Group_incl(all, form->count, ranks, &members);
    if (form->code == MPI_SUCCESS)
        form->code = MPI_Comm_create_group(
            parent, members, first->rank * form->job->meetings + first->number, &form->made);
    free(ranks);
    if (form->code == MPI_SUCCESS)
        MPI_Comm_set_errhandler(form->made, MPI_ERRORS_RETURN);
    if (all != MPI_GROUP_NULL)
        MPI_Group_free(&all);
    if (members != MPI_GROUP_NULL)
        MPI_Group_free(&members);
    __atomic_store_n(&form->done, 1, __ATOMIC_RELEASE);
}

static void end_meeting(struct form *form)
{
    struct form *self = form;

    __atomic_compare_exchange_n(&meeting, &self, NULL, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Nobody has taken what was made. */
static void free_made(struct form *form)
{
    int ended = 0;

    MPI_Finalized(&ended);
    job_lock();
    if (!ended && !job_is_foreign(form->job) && form->made != MPI_COMM_NULL)
        MPI_Comm_free(&form->made);
    job_unlock();
}

static void let_go(struct form *form)
{
    if (__atomic_sub_fetch(&form->holders, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    free_made(form);
    end_meeting(form);
    if (form->done && form->code == MPI_SUCCESS)
        job_give_meeting(form->members[form->self].number);
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

static int receive_from(struct form *form, int member, MPI_Request *request)
{
    return MPI_Irecv(NULL, 0, MPI_BYTE, form->members[member].rank,
                     job_meeting_tag(form->job, form->members[form->self].number),
                     form->job->messages, request);
}

static int send_to(struct form *form, int member, MPI_Request *request)
{
    const struct member *to = &form->members[member];

    return MPI_Isend(NULL, 0, MPI_BYTE, to->rank, job_meeting_tag(form->job, to->number),
                     form->job->messages, request);
}

static tutti_status begin_meeting(const struct caller *c, struct form *form)
{
    struct form *none = NULL;

    form->meets = __atomic_compare_exchange_n(&meeting, &none, form, false, __ATOMIC_ACQ_REL,
                                              __ATOMIC_ACQUIRE);
    return form->meets ? TUTTI_OK
                       : refuse(c, TUTTI_ERR_UNSUPPORTED,
                                "MPI allows one thread at a time in this process, and another "
                                "thread is making "
                                "a group over it; make groups one after another, or ask for "
                                "MPI_THREAD_MULTIPLE");
}

/* All but the first wait for its answer from the beginning. */
static int say_here(struct form *form)
{
    int code = MPI_SUCCESS;

    if (form->self != 0) {
        code = receive_from(form, 0, &form->requests[0]);
        return code == MPI_SUCCESS ? send_to(form, 0, &form->requests[1]) : code;
    }
    for (int m = 1; m < form->count && code == MPI_SUCCESS; m++)
        code = receive_from(form, m, &form->requests[m]);
    return code;
}

static int answer(struct form *form)
{
    int code = MPI_SUCCESS;

    for (int m = 1; form->self == 0 && m < form->count && code == MPI_SUCCESS; m++)
        code = send_to(form, m, &form->requests[m]);
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
    if (form->done || form->code != MPI_SUCCESS)
        end_meeting(form);
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

tutti_status form_begin(const struct caller *c, const struct job *job, const int *ranks,
                        const int *numbers, int count, int self, struct form **ret_form)
{
    struct form *form = calloc(1, sizeof *form + (size_t)count * sizeof form->members[0]);

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
    form->self = self;
    form->count = count;
    for (int m = 0; m < count; m++) {
        form->members[m] = (struct member){ranks[m], numbers[m]};
        form->requests[m] = MPI_REQUEST_NULL;
    }
    tutti_status status =
        job->callers_only || job->serialize ? begin_meeting(c, form) : start_thread(c, form);
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
        tutti_status status = job_check_call(c, form->job);

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
    form->made = MPI_COMM_NULL;
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
