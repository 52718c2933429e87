/* SPDX-License-Identifier: Apache-2.0 */
/* Loads libtutti (the first argument), joins a world, leaves it and unloads the library, three times, as a
 * runtime does that loads its communication on demand. */
#include <dlfcn.h>
#include <stdio.h>

#include <tutti/tutti.h>

static int failed(const char *what, const char *why)
{
    printf("%s: %s\n", what, why);
    return 1;
}

static int join_once(void *library)
{
    tutti_status (*init)(const tutti_init_options *, tutti_group **) =
        (tutti_status(*)(const tutti_init_options *, tutti_group **))dlsym(library, "tutti_init");
    tutti_status (*barrier)(tutti_group *, const tutti_options *, tutti_work **) = (tutti_status(*)(
        tutti_group *, const tutti_options *, tutti_work **))dlsym(library, "tutti_barrier");
    tutti_status (*destroy)(tutti_group *) =
        (tutti_status(*)(tutti_group *))dlsym(library, "tutti_group_destroy");
    const char *(*words)(void) = (const char *(*)(void))dlsym(library, "tutti_last_error");
    tutti_group *world;

    if (init(NULL, &world) || barrier(world, NULL, NULL) || destroy(world))
        return failed("tutti", words());
    return 0;
}

int main(int argc, char **argv)
{
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL);

        if (!library)
            return failed("dlopen", dlerror());
        if (join_once(library))
            return 1;
        dlclose(library);
        if (dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD))
            return failed("dlclose", "the library is still loaded");
    }
    puts("joined three times");
    return 0;
}
