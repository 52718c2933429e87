/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ucc_play LIBRARY CASE MEMBERS
 * A job that uses UCC as its users do: MEMBERS processes, which this one starts and waits for, open LIBRARY and
 * play a case. test_standin_ucc.c runs it over the stand-in, scripts/check-ucc over a real UCC; the same has to come of
 * both. Exit code 0 if each member found what it expected; words on stderr if not.
 *
 * All-gathers go through memory that the processes share. Each wait has an end.
 */
#include "ucc_play.h"

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct library library;

void fail(const struct player *player, const char *format, ...)
{
    char words[512];
    va_list list;

    va_start(list, format);
    vsnprintf(words, sizeof words, format, list);
    va_end(list);
    fprintf(stderr, "member %u of %u: %s\n", player->rank, player->size, words);
    _exit(1);
}

double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void open_library(struct player *player, const char *path)
{
    void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    CHECK(player, opened, "%s", dlerror());
#define LOOK_UP(result, name, params)                                                              \
    *(void **)&library.name = dlsym(opened, "ucc_" #name);                                         \
    CHECK(player, library.name, "%s has no ucc_" #name, path);
    UCCI_FUNCTIONS(LOOK_UP)
}

/* ---- all-gathers ---------------------------------------------------------------------------- */

struct gather {
    struct gatherer *by;
    uint64_t round;
    size_t bytes;
    void *ret_all;
    double until;
};

static ucci_status gather_start(void *own, void *ret_all, size_t bytes, void *info,
                                void **ret_request)
{
    struct gatherer *by = info;
    struct gather *gather = malloc(sizeof *gather);

    if (!gather || bytes > GATHER_MAX)
        return UCCI_ERR_NO_MEMORY;
    *gather = (struct gather){by, by->rounds++, bytes, ret_all, now_s() + by->patience_ms * 1e-3};
    memcpy(by->channel->data[gather->round % 2][by->place], own, bytes);
    atomic_store(&by->channel->arrived[by->place], gather->round + 1);
    *ret_request = gather;
    return UCCI_OK;
}

static ucci_status gather_test(void *request)
{
    struct gather *gather = request;
    const struct gatherer *by = gather->by;

    for (uint32_t m = 0; m < by->members; m++)
        if (atomic_load(&by->channel->arrived[m]) <= gather->round) {
            sched_yield();
            return now_s() > gather->until ? UCCI_ERR_TIMED_OUT : UCCI_INPROGRESS;
        }
    for (uint32_t m = 0; m < by->members; m++)
        memcpy((uint8_t *)gather->ret_all + m * gather->bytes,
               by->channel->data[gather->round % 2][m], gather->bytes);
    return UCCI_OK;
}

static ucci_status gather_free(void *request)
{
    free(request);
    return UCCI_OK;
}

ucci_oob oob_of(struct gatherer *gatherer)
{
    return (ucci_oob){gather_start, gather_test,       gather_free,
                      gatherer,     gatherer->members, gatherer->place};
}

/* ---- contexts, teams, operations ------------------------------------------------------------ */

void make_library(struct player *player)
{
    ucci_lib_params params = {.mask = UCCI_LIB_FIELD_THREAD_MODE,
                              .thread_mode = UCCI_THREAD_MULTIPLE};
    ucci_lib_config_h config;

    CHECK(player, library.lib_config_read(NULL, NULL, &config) == UCCI_OK, "no configuration");
    CHECK(player, library.init_version(1, 0, &params, config, &player->lib) == UCCI_OK,
          "no library");
    library.lib_config_release(config);
}

ucci_status make_context(struct player *player)
{
    ucci_context_params params = {.mask = UCCI_CONTEXT_FIELD_OOB};
    ucci_context_config_h config;
    ucci_status status;

    player->for_context = (struct gatherer){&player->board->channels[0], player->size, player->rank,
                                            0, player->for_context.patience_ms ?: WAIT_S * 1000};
    params.oob = oob_of(&player->for_context);
    CHECK(player, library.context_config_read(player->lib, NULL, &config) == UCCI_OK,
          "no configuration of a context");
    status = library.context_create(player->lib, &params, config, &player->context);
    library.context_config_release(config);
    return status;
}

ucci_team_h make_team(struct player *player, struct gatherer *gatherer)
{
    ucci_team_params params = {.mask = UCCI_TEAM_FIELD_EP | UCCI_TEAM_FIELD_EP_RANGE,
                               .ep = gatherer->place,
                               .ep_range = UCCI_EP_RANGE_CONTIG};
    const double until = now_s() + WAIT_S;
    ucci_team_h team;
    ucci_status status;

    gatherer->patience_ms = WAIT_S * 1000;
    if (gatherer->members > 1) {
        params.mask |= UCCI_TEAM_FIELD_OOB;
        params.oob = oob_of(gatherer);
    } else {
        params.mask |= UCCI_TEAM_FIELD_SIZE;
        params.size = 1;
    }
    status = library.team_create_post(&player->context, 1, &params, &team);
    CHECK(player, status == UCCI_OK, "team_create_post: %s", library.status_string(status));
    while ((status = library.team_create_test(team)) == UCCI_INPROGRESS && now_s() < until) {
        library.context_progress(player->context);
        sched_yield();
    }
    CHECK(player, status == UCCI_OK, "team_create_test: %s", library.status_string(status));
    return team;
}

void make_world(struct player *player)
{
    make_library(player);
    const ucci_status status = make_context(player);

    CHECK(player, status == UCCI_OK, "context_create: %s", library.status_string(status));
    player->for_world = (struct gatherer){
        .channel = &player->board->channels[1], .members = player->size, .place = player->rank};
    player->world = make_team(player, &player->for_world);
}

void end_world(struct player *player)
{
    CHECK(player, library.team_destroy(player->world) == UCCI_OK, "team_destroy");
    CHECK(player, library.context_destroy(player->context) == UCCI_OK, "context_destroy");
    CHECK(player, library.finalize(player->lib) == UCCI_OK, "finalize");
}

/* Another thread that moves the context may write it. */
static ucci_status status_of(const ucci_request *request)
{
    return __atomic_load_n(&request->status, __ATOMIC_ACQUIRE);
}

ucci_status finish(struct player *player, ucci_request *request, double seconds)
{
    const double until = now_s() + seconds;

    while (status_of(request) == UCCI_INPROGRESS && now_s() < until) {
        library.context_progress(player->context);
        if (status_of(request) == UCCI_INPROGRESS)
            sched_yield();
    }
    return status_of(request);
}

ucci_request *begin(struct player *player, ucci_team_h team, ucci_coll_args *args)
{
    ucci_request *request;
    ucci_status status = library.collective_init(args, &request, team);

    CHECK(player, status == UCCI_OK, "init of %#x: %s", args->coll_type,
          library.status_string(status));
    CHECK(player, status_of(request) == UCCI_INITIALIZED, "an operation begins with status %d",
          request->status);
    status = library.collective_post(request);
    CHECK(player, status == UCCI_OK, "post of %#x: %s", args->coll_type,
          library.status_string(status));
    return request;
}

void perform(struct player *player, ucci_team_h team, ucci_coll_args *args)
{
    ucci_request *request = begin(player, team, args);
    const ucci_status status = finish(player, request, WAIT_S);

    CHECK(player, status == UCCI_OK, "operation %#x: %s", args->coll_type,
          library.status_string(status));
    CHECK(player, library.collective_finalize(request) == UCCI_OK, "finalize of an operation");
}

/* ---- the job -------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*play)(struct player *player);
    bool makes_world; /* itself, or not at all */
} cases[] = {
    {"grid", play_grid, false},         {"rounds", play_rounds, false},
    {"refusals", play_refusals, false}, {"empty", play_empty, false},
    {"order", play_order, false},       {"teams", play_teams, false},
    {"threads", play_threads, false},   {"spoilt", play_spoilt, false},
    {"dead", play_dead, false},         {"absent", play_absent, true},
    {"sum", play_sum, false},
};

static void play(struct player *player, const char *path, size_t which)
{
    open_library(player, path);
    if (!cases[which].makes_world)
        make_world(player);
    cases[which].play(player);
    if (!player->ended)
        end_world(player);
}

int main(int argc, char **argv)
{
    struct player player = {.size = argc == 4 ? (uint32_t)atoi(argv[3]) : 0};
    size_t which = 0;
    pid_t pids[PLAYERS_MAX];
    int worst = 0;

    while (argc == 4 && which < sizeof cases / sizeof *cases && strcmp(cases[which].name, argv[2]))
        which++;
    if (player.size < 1 || player.size > PLAYERS_MAX || which == sizeof cases / sizeof *cases) {
        fprintf(stderr, "usage: ucc_play LIBRARY CASE MEMBERS\n");
        return 2;
    }
    player.board =
        mmap(NULL, sizeof *player.board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (player.board == MAP_FAILED)
        return 2;
    for (player.rank = 0; player.rank < player.size; player.rank++) {
        const pid_t pid = fork();

        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            play(&player, argv[1], which);
            exit(0);
        }
        pids[player.rank] = pid;
    }
    for (uint32_t i = 0; i < player.size; i++) {
        int status = -1;

        waitpid(pids[i], &status, 0);
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && player.board->dies[i])
            continue;
        if (WIFSIGNALED(status))
            fprintf(stderr, "member %u ended by signal %d\n", i, WTERMSIG(status));
        worst |= status != 0;
    }
    return worst;
}
