/* SPDX-License-Identifier: Apache-2.0 */
/* Groups made from groups: their members, their names, their end. */
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "harness/rank.h"
#include "port.h"

enum { THREADS = 3, ROUNDS = 4, MANY = 100 };

static int32_t sum_over(tutti_group *group, int32_t value)
{
    int64_t shape;
    tutti_tensor t = tutti_tensor_1d(&value, TUTTI_I32, &shape, 1);

    return tutti_all_reduce(group, &t, TUTTI_SUM, NULL, NULL) ? -1 : value;
}

static int32_t translate_one(const tutti_group *from, int32_t rank, const tutti_group *to)
{
    int32_t translated = -2;

    check_ok(tutti_group_translate(from, &rank, 1, to, &translated));
    return translated;
}

/* Every rank argument is a rank of the group. */
static void talk_in(tutti_group *group, int32_t first)
{
    int32_t rank = tutti_group_rank(group), size = tutti_group_size(group), source = -1;
    int32_t values[2] = {rank ? -1 : first, rank};
    int64_t shapes[2];
    tutti_tensor all = tutti_tensor_1d(&values[0], TUTTI_I32, &shapes[0], 1);
    tutti_tensor own = tutti_tensor_1d(&values[1], TUTTI_I32, &shapes[1], 1);

    require_ok(tutti_broadcast(group, &all, 0, NULL, NULL));
    check_eq(values[0], first);
    if (rank) {
        require_ok(tutti_send(group, &own, 0, 5, NULL));
        return;
    }
    for (int32_t i = 1; i < size; i++) {
        require_ok(tutti_recv(group, &own, TUTTI_ANY_SOURCE, 5, NULL, &source));
        check_eq(values[1], source);
    }
}

RANK_CASE(a_group_has_the_members_of_its_list_in_that_order)
{
    tutti_group *world = rank_init(NULL), *group = world;
    static const int32_t ranks[] = {3, 0, 1};
    int32_t expected = rank == 3 ? 0 : rank == 0 ? 1 : rank == 1 ? 2 : -1;

    require_ok(tutti_group_new(world, ranks, 3, NULL, &group));
    if (rank == 2) {
        check(group == NULL);
    } else {
        require(group != NULL);
        check_eq(tutti_group_rank(group), expected);
        check_eq(tutti_group_size(group), 3);
        check_eq(sum_over(group, 1 << rank), 1 + 2 + 8);
        check_eq(translate_one(group, 0, world), 3);
        check_eq(translate_one(world, 1, group), 2);
        check_eq(translate_one(world, 2, group), -1);
        talk_in(group, 3);
        check_ok(tutti_barrier(group, NULL, NULL));
    }
    check_eq(sum_over(world, 1), 4); /* beside it */
    check_ok(tutti_group_destroy(group));
    check_ok(tutti_group_destroy(world));
}

/* Rows and columns of a grid, then a group of a row, then one of that. */
RANK_CASE(groups_of_groups_split_and_translate)
{
    tutti_group *world = rank_init(NULL), *row, *column, *pair, *alone, *none = world;
    int32_t last = 1;

    require_ok(tutti_group_split(world, rank / 2, -rank, NULL, &row));
    require_ok(tutti_group_split(world, rank % 2, 0, NULL, &column));
    check_eq(tutti_group_size(row), 2);
    check_eq(tutti_group_rank(row), 1 - rank % 2); /* the keys turn it round */
    check_eq(tutti_group_rank(column), rank / 2);
    check_eq(sum_over(row, rank), rank / 2 * 4 + 1);
    check_eq(sum_over(column, rank), 2 * (rank % 2) + 2);
    check_eq(translate_one(row, 0, world), rank / 2 * 2 + 1);
    check_eq(translate_one(row, 0, column), rank % 2 ? rank / 2 : -1);

    require_ok(tutti_group_new(row, NULL, 0, NULL, &pair));
    check_eq(tutti_group_rank(pair), tutti_group_rank(row));
    check_eq(sum_over(pair, 10 + rank), 20 + rank / 2 * 4 + 1);
    require_ok(tutti_group_new(pair, &last, 1, NULL, &alone));
    if (tutti_group_rank(pair) == 1) {
        check_eq(tutti_group_size(alone), 1);
        check_eq(sum_over(alone, 5), 5);
        check_eq(translate_one(alone, 0, world), rank);
        check_str_eq(tutti_group_backend(alone), "self");
    } else {
        check(alone == NULL);
    }
    require_ok(tutti_group_split(world, rank ? -1 - rank : 7, 0, NULL, &none));
    check_eq(tutti_group_size(none), rank ? 0 : 1);

    tutti_group_destroy(none);
    check_ok(tutti_group_destroy(world)); /* its children live on, in any order */
    check_eq(sum_over(pair, 1), 2);
    check_ok(tutti_group_destroy(row));
    check_eq(sum_over(column, 1), 2);
    check_ok(tutti_group_destroy(column));
    check_ok(tutti_group_destroy(alone));
    check_ok(tutti_group_destroy(pair));
}

/* Each thread makes its own groups; they meet those of the same thread elsewhere. */
struct maker {
    pthread_t id;
    tutti_group *world;
    int number, rank, failures;
};

static void *make_groups(void *argument)
{
    struct maker *maker = argument;
    static const int32_t lists[THREADS][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};

    tutti_group_options options = TUTTI_GROUP_OPTIONS_INIT;
    static const char *const names[THREADS] = {"up", "down", "two"};

    options.name = names[maker->number]; /* they have members in common */
    for (int i = 0; i < ROUNDS; i++) {
        tutti_group *group;
        int32_t size = maker->number == 2 ? 2 : 3;

        if (tutti_group_new(maker->world, lists[maker->number], size, &options, &group)) {
            maker->failures++;
        } else if (group) {
            maker->failures += sum_over(group, maker->rank) != 3; /* 0, 1 and 2, or 1 and 2 */
            maker->failures += tutti_group_destroy(group) != TUTTI_OK;
        }
    }
    return NULL;
}

RANK_CASE(threads_make_different_groups_at_once)
{
    tutti_group *world = rank_init(NULL);
    struct maker makers[THREADS];

    for (int i = 0; i < THREADS; i++) {
        makers[i] = (struct maker){.world = world, .number = (i + rank) % THREADS, .rank = rank};
        require(!pthread_create(&makers[i].id, NULL, make_groups, &makers[i]));
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(makers[i].id, NULL);
        check_eq(makers[i].failures, 0);
    }
    check_eq(sum_over(world, 1), size);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(options_give_name_time_out_and_backend)
{
    tutti_group *world = rank_init(NULL), *slow, *named, *again;
    tutti_group_options options = TUTTI_GROUP_OPTIONS_INIT;
    tutti_group_info info = {.struct_size = sizeof info};
    int64_t began;

    options.backend = "tcp";
    options.timeout_ms = 50000;
    options.name = "pipeline";
    require_ok(tutti_group_new(world, NULL, 0, &options, &named));
    check_str_eq(tutti_group_backend(named), "tcp");
    check_eq(tutti_group_timeout(named), 50000);
    check_eq(sum_over(named, 1), size);
    options.backend = NULL;
    options.timeout_ms = 0;
    require_ok(tutti_group_new(named, NULL, 0, &options, &slow)); /* as its parent */
    check_str_eq(tutti_group_backend(slow), "tcp");
    check_eq(tutti_group_timeout(slow), 50000);
    check_ok(tutti_group_set_timeout(slow, 1500));
    require_ok(tutti_group_new(world, NULL, 0, NULL, &again));
    check_str_eq(tutti_group_backend(again), tutti_group_backend(world));
    if (rank) {
        began = rank_now_ns();
        check_status(tutti_barrier(slow, NULL, NULL), TUTTI_ERR_TIMEOUT);
        check(rank_now_ns() - began < 20000000000); /* and not the world's deadline */
        check_contains(tutti_last_error(), "group pipeline: #1 barrier timed out after 1500 ms");
        check_contains(tutti_last_error(), "rank 0 (world rank 0, host ");
    } else { /* until they have given up */
        while (!tutti_group_status(slow, &info) && info.state == TUTTI_GROUP_READY)
            rank_sleep_ms(1);
    }
    check_eq(sum_over(again, 1), size); /* one group's end is not another's */
    check_ok(tutti_barrier(world, NULL, NULL));
    tutti_group_destroy(slow);
    check_ok(tutti_group_destroy(named));
    check_ok(tutti_group_destroy(again));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_group_tells_its_name_and_members_and_takes_another_time_out)
{
    tutti_group *world = rank_init(NULL), *group, *later;
    const int32_t odd[] = {2, 1};
    int32_t ranks[8] = {-1, -1, -1};
    int64_t began;

    check_str_eq(tutti_group_name(world), "world");
    check_str_eq(tutti_group_name(NULL), "");
    require_ok(tutti_group_world_ranks(world, ranks));
    for (int i = 0; i < size; i++)
        check_eq(ranks[i], i);
    check_status(tutti_group_set_timeout(world, 0), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "it must be 1 or more");
    check_ok(tutti_group_set_timeout(world, 40000));
    require_ok(tutti_group_new(world, odd, 2, NULL, &group));
    if (rank) {
        check_str_eq(tutti_group_name(group), "world{2,1}");
        require_ok(tutti_group_world_ranks(group, ranks));
        check_eq(ranks[0], 2);
        check_eq(ranks[1], 1);
        check_eq(tutti_group_timeout(group), 40000); /* its parent's */
        check_ok(tutti_group_destroy(group));
    }
    require_ok(tutti_group_new(world, NULL, 0, NULL, &later));
    check_ok(tutti_group_set_timeout(later, 300));
    check_eq(tutti_group_timeout(later), 300);
    if (rank) {
        began = rank_now_ns();
        check_status(tutti_barrier(later, NULL, NULL), TUTTI_ERR_TIMEOUT);
        check(rank_now_ns() - began < 20000000000);
        check_contains(tutti_last_error(), "timed out after 300 ms");
    }
    check_ok(tutti_barrier(world, NULL, NULL));
    tutti_group_destroy(later);
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(the_default_group_is_the_first_world)
{
    check(!tutti_is_initialized());
    check(tutti_default_group() == NULL);
    for (int i = 0; i < 2; i++) {
        tutti_group *world = rank_init(NULL), *all, *other;

        check(tutti_is_initialized());
        check(tutti_default_group() == world);
        require_ok(tutti_group_new(tutti_default_group(), NULL, 0, NULL, &all));
        require_ok(tutti_init(NULL, &other));
        check(tutti_default_group() == world);
        check_status(tutti_group_translate(all, NULL, 0, other, NULL), TUTTI_ERR_INVALID_ARGUMENT);
        check_contains(tutti_last_error(), "different worlds");
        check_ok(tutti_group_destroy(other));
        check_ok(tutti_group_destroy(all));
        check(tutti_default_group() == world);
        check_ok(tutti_group_destroy(world));
        check(!tutti_is_initialized());
    }
}

static int open_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = 0;

    while (directory && readdir(directory))
        count++;
    closedir(directory);
    return count;
}

/* All in use at once, within the descriptors that a process usually may have. */
RANK_CASE(a_hundred_groups_live_side_by_side)
{
    tutti_group *world = rank_init(NULL), *groups[MANY];
    tutti_work *works[MANY];
    static int32_t values[MANY];
    static int64_t shapes[MANY];
    int before = open_descriptors();

    for (int i = 0; i < MANY; i++)
        require_ok(tutti_group_new(world, NULL, 0, NULL, &groups[i]));
    rank_value("descriptors", "%d a group", (open_descriptors() - before) / MANY);
    check(open_descriptors() < 1024);
    for (int k = 0; k < MANY; k++) { /* each member in an order of its own */
        int i = (k + 17 * rank) % MANY;
        values[i] = i + rank;
        tutti_tensor t = tutti_tensor_1d(&values[i], TUTTI_I32, &shapes[i], 1);
        require_ok(tutti_all_reduce(groups[i], &t, TUTTI_SUM, NULL, &works[i]));
    }
    for (int i = 0; i < MANY; i++) {
        check_ok(tutti_work_wait(works[i], 0));
        tutti_work_free(works[i]);
        check_eq(values[i], i * size + size * (size - 1) / 2);
    }
    for (int i = MANY; i-- > 0;)
        check_ok(tutti_group_destroy(groups[i]));
    check(open_descriptors() <= before); /* fewer where one of the making ended late */
    check_ok(tutti_group_destroy(world));
}

/* The kernel lets a file, as that of a local peer's process, be in 500 nested epoll sets of all processes. */
RANK_CASE(groups_of_many_local_peers_are_limited_by_descriptors_alone)
{
    tutti_group *world = rank_init(NULL), *groups[MANY];
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    check_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int i = 0; i < MANY; i++)
        require_ok(tutti_group_new(world, NULL, 0, NULL, &groups[i]));
    for (int i = 0; i < MANY; i++)
        check_ok(tutti_barrier(groups[i], NULL, NULL));
    for (int i = 0; i < MANY; i++)
        check_ok(tutti_group_destroy(groups[i]));
    check_ok(tutti_group_destroy(world));
}

/* The same on every member, to the letter. */
static void check_same_words(tutti_group *world, int size, const char *words)
{
    enum { ROOM = 512, MEMBERS = 4 };
    static char all[MEMBERS][ROOM];
    char own[ROOM] = "";
    int64_t shapes[2];
    const tutti_tensor in = tutti_tensor_1d(own, TUTTI_U8, &shapes[0], ROOM);
    const tutti_tensor out = tutti_tensor_1d(all, TUTTI_U8, &shapes[1], (int64_t)size * ROOM);

    require(size <= MEMBERS);
    snprintf(own, sizeof own, "%s", words);
    require_ok(tutti_all_gather(world, &in, &out, NULL, NULL));
    for (int i = 1; i < size; i++)
        check(!strcmp(all[0], all[i]));
}

RANK_CASE(settings_that_differ_or_make_no_sense_are_told_on_all)
{
    static const struct {
        const char *name, *usual, *other; /* of rank 2 */
        const char *words;
        tutti_status status;
    } settings[] = {
        {"TUTTI_REPRODUCIBLE", NULL, "1",
         "members disagree about TUTTI_REPRODUCIBLE: rank 0: «0»; rank 2: «1»", TUTTI_ERR_MISMATCH},
        {"TUTTI_REPRODUCIBLE", "1", "0",
         "members disagree about TUTTI_REPRODUCIBLE: rank 0: «1»; rank 2: «0»", TUTTI_ERR_MISMATCH},
        {"TUTTI_BACKEND", "shm", "tcp",
         "different backends: rank 0: «shm»; rank 2: «tcp»; set TUTTI_BACKEND", TUTTI_ERR_MISMATCH},
        {"WORLD_SIZE", "3", "4", "disagree about the size of the world: rank 0: 3; rank 2: 4",
         TUTTI_ERR_MISMATCH},
        {"TUTTI_STALL_WARNING", NULL, "soon",
         "rank 2 cannot take part: TUTTI_STALL_WARNING=soon is not valid",
         TUTTI_ERR_INVALID_ARGUMENT},
        {"TUTTI_BACKEND", "tcp", "local=tcp",
         "rank 2 cannot take part: TUTTI_BACKEND=local=tcp: one of local= and remote= is missing",
         TUTTI_ERR_INVALID_ARGUMENT},
    };
    enum { SETTINGS = sizeof settings / sizeof settings[0] };
    static char words[SETTINGS][512];
    tutti_group *world;

    for (int i = 0; i < SETTINGS; i++) {
        const char *before = getenv(settings[i].name);
        char *kept = before ? strdup(before) : NULL;
        const char *value = rank == 2 ? settings[i].other : settings[i].usual;

        if (value)
            setenv(settings[i].name, value, 1);
        check_status(tutti_init(NULL, &world), settings[i].status);
        snprintf(words[i], sizeof words[i], "%s", tutti_last_error());
        check_contains(words[i], settings[i].words);
        unsetenv(settings[i].name);
        if (kept)
            setenv(settings[i].name, kept, 1);
        free(kept);
    }
    world = rank_init(NULL);
    for (int i = 0; i < SETTINGS; i++)
        check_same_words(world, size, words[i]);
    check_ok(tutti_group_destroy(world));
}

/* Makes it the tuning file of this rank. */
static void write_tuning(int rank, const char *text)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof path, "%s/tuning-%d", getenv("TMPDIR"), rank);
    file = fopen(path, "w");
    require(file != NULL);
    fputs(text, file);
    fclose(file);
    setenv("TUTTI_TUNING", path, 1);
}

RANK_CASE(tuning_files_that_differ_or_make_no_sense_are_told_on_all)
{
    static char words[2][512];
    tutti_group *world;

    write_tuning(rank, rank == 1 ? "inline_max = 64\n" : "");
    check_status(tutti_init(NULL, &world), TUTTI_ERR_MISMATCH);
    snprintf(words[0], sizeof words[0], "%s", tutti_last_error());
    check_contains(words[0], "members disagree about inline_max (TUTTI_TUNING): rank 0: «4096»; "
                             "rank 1: «64»; it must be the same on all");
    write_tuning(rank, rank == 2 ? "\ninline_maximum = 64\n" : "");
    check_status(tutti_init(NULL, &world), TUTTI_ERR_INVALID_ARGUMENT);
    snprintf(words[1], sizeof words[1], "%s", tutti_last_error());
    check_contains(words[1], "rank 2 cannot take part: the tuning file ");
    check_contains(words[1], "tuning-2, line 2: there is no threshold «inline_maximum»");
    write_tuning(rank, "inline_max = 0\n");
    world = rank_init(NULL);
    for (int i = 0; i < 2; i++)
        check_same_words(world, size, words[i]);
    check_ok(tutti_group_destroy(world));
}

/* Without the announce line's payload, and by other algorithms than those that are usual. */
RANK_CASE(tuned_groups_and_groups_made_from_them_reduce_alike)
{
    int32_t values[3000];
    tutti_group *world, *other;
    int64_t shape;

    write_tuning(rank, "inline_max = 0\nstaged_one_phase_max = 0\nstaged_chunk_min = 4K\n"
                       "message_piece = 4K\nall_reduce_recursive_doubling_max = 0\n"
                       "all_reduce_ring_min = 0\nbroadcast_scatter_all_gather_min = 0\n");
    world = rank_init(NULL);
    unsetenv("TUTTI_TUNING");
    const int32_t all[] = {2, 0, 1};
    require_ok(tutti_group_new(world, all, 3, NULL, &other));
    for (int count = 1; count <= 3000; count = count * 3 + 1)
        for (int i = 0; i < 2; i++) {
            const tutti_tensor t = tutti_tensor_1d(values, TUTTI_I32, &shape, count);

            for (int k = 0; k < count; k++)
                values[k] = rank * k;
            check_ok(tutti_all_reduce(i ? other : world, &t, TUTTI_SUM, NULL, NULL));
            for (int k = 0; k < count; k++)
                check(values[k] == 3 * k);
            check_ok(tutti_broadcast(i ? other : world, &t, 1, NULL, NULL));
        }
    check_ok(tutti_group_destroy(other));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_failed_init_is_told_on_all_where_rank_0_serves_the_store)
{
    tutti_group *outside = rank_init(NULL), *world;
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    char url[INNER_URL];

    meet_at_rank_0(outside, &options, url);
    options.backend = rank == 2 ? "tcp" : "auto";
    check_status(tutti_init(&options, &world), TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "rank 0: «auto»; rank 2: «tcp»");
    check_ok(tutti_barrier(outside, NULL, NULL));
    check_ok(tutti_group_destroy(outside));
}

RANK_CASE(a_store_that_rank_0_serves_ends_with_its_last_group)
{
    tutti_group *outside = rank_init(NULL), *world, *all, *again, *pair;
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    static const int32_t others[] = {1, 2};
    char url[INNER_URL];

    meet_at_rank_0(outside, &options, url);
    world = rank_init(&options);
    require_ok(tutti_group_new(world, NULL, 0, NULL, &all));
    require_ok(tutti_group_new(world, others, 2, NULL, &pair));
    check_ok(tutti_group_destroy(world));
    require_ok(tutti_group_new(all, NULL, 0, NULL, &again)); /* rank 0 has a group of it still */
    check_ok(tutti_group_destroy(again));
    check_ok(tutti_group_destroy(all));
    check_ok(tutti_barrier(outside, NULL, NULL)); /* rank 0 has left them all */
    if (rank) {
        int64_t began = rank_now_ns();

        check_eq(sum_over(pair, 1), 2);
        check_status(tutti_group_new(pair, NULL, 0, NULL, &again), TUTTI_ERR_STORE);
        check_contains(tutti_last_error(),
                       "cannot reach the store, which is needed to make a group");
        check(rank_now_ns() - began < 20000000000);
        check_eq(sum_over(pair, 1), 2);
        check_ok(tutti_group_destroy(pair));
    }
    check_ok(tutti_group_destroy(outside));
}

/* The same member of two worlds of the same name, one after the other and then at once. */
RANK_CASE(contexts_of_one_process_do_not_take_each_others_keys)
{
    tutti_init_options options[2] = {TUTTI_INIT_OPTIONS_INIT, TUTTI_INIT_OPTIONS_INIT};
    tutti_group *worlds[2];

    for (int lap = 0; lap < 2; lap++) {
        for (int i = 0; i < 2; i++) {
            options[i].timeout_ms = 10000;
            require_ok(tutti_context_create(&options[i].context));
            require_ok(tutti_init(&options[i], &worlds[i]));
        }
        check(!tutti_is_initialized()); /* neither is of the default context */
        for (int i = 0; i < 2; i++) {
            check_eq(sum_over(worlds[1 - i], 1), size);
            check_ok(tutti_group_destroy(worlds[1 - i]));
            check_ok(tutti_context_destroy(options[1 - i].context));
        }
    }
}

RANK_CASE(wrong_lists_are_refused_in_words)
{
    tutti_group *world = rank_init(NULL), *group = NULL;
    tutti_group_options options = TUTTI_GROUP_OPTIONS_INIT;
    static const struct {
        int32_t ranks[2], n;
        const char *words;
    } wrong[] = {{{0, 2}, 2, "has the ranks 0 to 1"},
                 {{-1, 0}, 2, "ranks[0] is -1"},
                 {{1, 1}, 2, "in the list already"},
                 {{0}, 0, "use 0 and NULL for all ranks"},
                 {{0}, -1, "n is -1; it must be the number of ranks"}};
    int32_t far = 2, translated;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        check_status(tutti_group_new(world, wrong[i].ranks, wrong[i].n, NULL, &group),
                     TUTTI_ERR_INVALID_ARGUMENT);
        check_contains(tutti_last_error(), wrong[i].words);
    }
    check_status(tutti_group_new(NULL, NULL, 0, NULL, &group), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_group_new(world, NULL, 0, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_group_split(world, 0, 0, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_group_translate(world, &far, 1, world, &translated),
                 TUTTI_ERR_INVALID_ARGUMENT);
    options.name = "a\nb";
    check_status(tutti_group_new(world, NULL, 0, &options, &group), TUTTI_ERR_INVALID_ARGUMENT);
    options.name = NULL;
    options.timeout_ms = -1;
    check_status(tutti_group_new(world, NULL, 0, &options, &group), TUTTI_ERR_INVALID_ARGUMENT);
    options.timeout_ms = 5000;
    options.backend = "local=";
    if (rank) /* it does not count as an attempt */
        check_status(tutti_group_new(world, NULL, 0, &options, &group), TUTTI_ERR_INVALID_ARGUMENT);
    options.backend = rank ? "shm" : "tcp";
    check_status(tutti_group_new(world, NULL, 0, &options, &group), TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "different backends");
    check(group == NULL);
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
}
