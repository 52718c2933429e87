/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that a third party's launcher starts, with the plugin that knows this launcher linked in. Its ranks
 * have KIT_RANK and KIT_SIZE, and nothing that the core has heard of; what rank 0 says to the others goes
 * through a file in the folder KIT_FOLDER.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tutti/plugin_engine.h>
#include <tutti/tutti.h>

struct tutti_bootstrap {
    const tutti_host *host;
    void *self;
    int rank;
};

static int32_t kit_detect(const tutti_host *host, void *self)
{
    (void)host;
    (void)self;
    return getenv("KIT_SIZE") != NULL;
}

static tutti_status kit_open(const tutti_host *host, void *self, int64_t deadline_ns,
                             tutti_identity *ret_identity, tutti_bootstrap **ret_bootstrap)
{
    const char *rank = getenv("KIT_RANK");
    static struct tutti_bootstrap bootstrap;

    (void)deadline_ns;
    if (!rank)
        return host->error(self, TUTTI_ERR_SYSTEM, 0, "KIT_RANK is not set");
    bootstrap = (struct tutti_bootstrap){host, self, atoi(rank)};
    ret_identity->rank = ret_identity->local_rank = bootstrap.rank;
    ret_identity->size = ret_identity->local_size = atoi(getenv("KIT_SIZE"));
    snprintf(ret_identity->job, sizeof ret_identity->job, "kit");
    *ret_bootstrap = &bootstrap;
    return TUTTI_OK;
}

static tutti_status kit_broadcast(tutti_bootstrap *b, void *bytes, uint64_t count,
                                  int64_t deadline_ns)
{
    char path[512], draft[520];
    FILE *file;

    snprintf(path, sizeof path, "%.500s/said", getenv("KIT_FOLDER"));
    snprintf(draft, sizeof draft, "%s.new", path);
    if (b->rank == 0) {
        file = fopen(draft, "we");
        if (file && fwrite(bytes, 1, count, file) == count && !fclose(file) && !rename(draft, path))
            return TUTTI_OK;
        return b->host->error(b->self, TUTTI_ERR_SYSTEM, 0, "cannot write to KIT_FOLDER");
    }
    while (!(file = fopen(path, "re"))) {
        if (b->host->now_ns(b->self) > deadline_ns)
            return b->host->error(b->self, TUTTI_ERR_TIMEOUT, 0, "rank 0 says nothing");
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    const bool whole = fread(bytes, 1, count, file) == count;
    fclose(file);
    return whole ? TUTTI_OK : b->host->error(b->self, TUTTI_ERR_SYSTEM, 0, "too few bytes");
}

static void kit_close(tutti_bootstrap *bootstrap)
{
    (void)bootstrap;
}

static const tutti_bootstrap_ops kit_ops = {
    .struct_size = sizeof(tutti_bootstrap_ops),
    .detect = kit_detect,
    .open = kit_open,
    .broadcast = kit_broadcast,
    .close = kit_close,
};
static const tutti_provider kit_launcher = {.struct_size = sizeof(tutti_provider),
                                            .kind = TUTTI_PROVIDER_BOOTSTRAP,
                                            .name = "kit",
                                            .ops = &kit_ops};
static const tutti_provider *const providers[] = {&kit_launcher};
static const tutti_launcher_variable variables[] = {
    {.variable = "KIT_SIZE", .launcher = "the kit's launcher"},
    {.variable = NULL},
};
static const tutti_plugin kit = {.magic = TUTTI_PLUGIN_MAGIC,
                                 .struct_size = sizeof(tutti_plugin),
                                 .abi_major = TUTTI_PLUGIN_ABI_MAJOR,
                                 .abi_minor = TUTTI_PLUGIN_ABI_MINOR,
                                 .provider_count = 1,
                                 .name = "kit",
                                 .version = "1.0, for tests",
                                 .license = "Apache-2.0",
                                 .providers = providers,
                                 .launcher_variables = variables};

int main(void)
{
    float sum = 1;
    int64_t shape;
    const tutti_tensor tensor = tutti_tensor_1d(&sum, TUTTI_F32, &shape, 1);
    tutti_group *world = NULL;
    tutti_status status = tutti_plugin_register(&kit);

    if (!status)
        status = tutti_init(NULL, &world);
    if (!status)
        status = tutti_all_reduce(world, &tensor, TUTTI_SUM, NULL, NULL);
    if (!status)
        printf("rank %d of %d: %g\n", tutti_group_rank(world), tutti_group_size(world), sum);
    if (!status)
        status = tutti_group_destroy(world);
    if (status)
        fprintf(stderr, "%s\n", tutti_last_error());
    return status != TUTTI_OK;
}
