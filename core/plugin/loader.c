/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds, checks and opens plugins, and remembers them. The order of the checks is the point: first
 * who could have written the file, then what the file says of itself, and only then is its code
 * run.
 *
 * What is loaded is kept in a list that only grows, under one mutex that is never held while a
 * plugin's constructors run. Two threads that load the same file at once get the same descriptor
 * from the dynamic loader; the second finds the first one's entry. A refusal is not remembered, so
 * that it can be cured while the process lives.
 */
#include "base/text.h"
#include "plugin/plugin.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tutti/info.h>

#include "base/distance.h"
#include "base/error.h"
#include "plugin/descriptor.h"
#include "plugin/note.h"
#include "plugin/search.h"
#include "plugin/trust.h"

struct loaded {
    struct loaded *next;
    const tutti_plugin *plugin;
    pid_t pid;        /* that it was loaded in */
    uint32_t started; /* kinds of its providers, a bit each: plugin_started() */
    bool left;        /* plugins_leave() has told it */
    char path[];      /* real path; "" when registered by the program */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct loaded *loaded_plugins;

/* With path "": the registered plugin of that name; else the one loaded from that file. */
static const tutti_plugin *find_loaded_locked(const char *path, const char *name)
{
    for (const struct loaded *entry = loaded_plugins; entry; entry = entry->next) {
        if (!strcmp(entry->path, path) && (*path || !strcmp(entry->plugin->name, name)))
            return entry->plugin;
    }
    return NULL;
}

static const tutti_plugin *find_loaded(const char *path, const char *name)
{
    pthread_mutex_lock(&lock);
    const tutti_plugin *plugin = find_loaded_locked(path, name);
    pthread_mutex_unlock(&lock);
    return plugin;
}

/* Keeps `plugin` unless one is there already; returns the one that is kept, NULL: no memory. */
static const tutti_plugin *keep(const tutti_plugin *plugin, const char *path)
{
    const size_t bytes = strlen(path) + 1;
    struct loaded *entry = malloc(sizeof *entry + bytes);

    if (!entry)
        return NULL;
    entry->plugin = plugin;
    entry->pid = getpid();
    entry->started = 0;
    entry->left = false;
    memcpy(entry->path, path, bytes);

    pthread_mutex_lock(&lock);
    const tutti_plugin *kept = find_loaded_locked(path, plugin->name);
    if (!kept) {
        entry->next = loaded_plugins;
        loaded_plugins = entry;
    }
    pthread_mutex_unlock(&lock);
    if (!kept)
        return plugin;
    free(entry);
    return kept;
}

/* What came out about one file, also when it is refused. */
struct inspection {
    char real[PATH_MAX];
    uint32_t major, minor; /* of the note */
    const tutti_plugin *plugin;
};

/* Never waits for a writer when the path is a FIFO. */
static tutti_status read_note(const char *real, struct inspection *inspection)
{
    int fd = open(real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0)
        return error_set_errno(TUTTI_ERR_PLUGIN, errno, "cannot open the file");

    tutti_status status = note_read(fd, &inspection->major, &inspection->minor);
    close(fd);
    return status ? status : descriptor_check_major(inspection->major);
}

static tutti_status run_and_check(const char *real, const char *name,
                                  const tutti_plugin **ret_plugin)
{
    void *handle = dlopen(real, RTLD_NOW | RTLD_LOCAL);

    if (!handle) {
        const char *words = dlerror();
        return error_set(TUTTI_ERR_PLUGIN, "the dynamic loader refuses it: %s",
                         words ? words : "no reason given");
    }
    const tutti_plugin *plugin = dlsym(handle, TUTTI_PLUGIN_SYMBOL);
    if (!plugin)
        return error_set(TUTTI_ERR_PLUGIN,
                         "it does not export the symbol " TUTTI_PLUGIN_SYMBOL
                         "; plugins write it with TUTTI_PLUGIN_EXPORT of <tutti/plugin.h>");

    tutti_status status = descriptor_check(plugin, name);
    if (!status)
        *ret_plugin = plugin;
    /* A refused library stays loaded too: its threads, if any, would lose their code. */
    return status;
}

static tutti_status inspect(const char *path, const char *name, struct inspection *inspection)
{
    struct trust_rules rules;

    if (!realpath(path, inspection->real))
        return error_set_errno(TUTTI_ERR_PLUGIN, errno, "cannot resolve its path");

    tutti_status status = trust_rules_of_process(&rules);
    if (!status)
        status = trust_check(&rules, inspection->real);
    if (!status)
        status = read_note(inspection->real, inspection);
    if (status)
        return status;

    const tutti_plugin *plugin = find_loaded(inspection->real, name);
    if (plugin)
        status = descriptor_check(plugin, name); /* a link to it may be called otherwise */
    else
        status = run_and_check(inspection->real, name, &plugin);
    if (status)
        return status;
    inspection->plugin = keep(plugin, inspection->real);
    return inspection->plugin ? TUTTI_OK
                              : error_set(TUTTI_ERR_NO_MEMORY, "no memory to remember the plugin");
}

/* `what` the name was given for: "backend", "wrapper". */
static tutti_status open_file(const char *what, const char *path, const char *name,
                              const tutti_plugin **ret_plugin)
{
    struct inspection inspection = {.plugin = NULL};

    if (inspect(path, name, &inspection))
        return error_prefix("%s \"%s\": %s", what, name, path);
    *ret_plugin = inspection.plugin;
    return TUTTI_OK;
}

tutti_status plugin_open(const char *path, const tutti_plugin **ret_plugin)
{
    g_autofree char *name = search_name_of(path);

    if (!name)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "%s: a plugin's file is called libtutti-NAME.so, NAME being 1 to %d of "
                         "a-z 0-9 _ -, a letter first",
                         path, PLUGIN_NAME_MAX);
    return open_file("backend", path, name, ret_plugin);
}

static int by_words(gconstpointer a, gconstpointer b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void plugin_provides(const tutti_plugin *plugin, char ret_words[PLUGIN_PROVIDES_MAX])
{
    static const char *const kinds[] = {[TUTTI_PROVIDER_TRANSPORT] = "transport",
                                        [TUTTI_PROVIDER_COLLECTIVES] = "collectives",
                                        [TUTTI_PROVIDER_DEVICE] = "device",
                                        [TUTTI_PROVIDER_BOOTSTRAP] = "bootstrap",
                                        [TUTTI_PROVIDER_WRAPPER] = "wrapper"};

    *ret_words = 0;
    for (size_t kind = 0; kind < G_N_ELEMENTS(kinds); kind++) {
        if (!kinds[kind] || !plugin_provider(plugin, (enum tutti_provider_kind)kind))
            continue;
        g_strlcat(ret_words, *ret_words ? ", " : "", PLUGIN_PROVIDES_MAX);
        g_strlcat(ret_words, kinds[kind], PLUGIN_PROVIDES_MAX);
    }
}

/* No file is opened only for its name to be listed, so the names of tutti's own stand here. */
const char *plugin_usually_provides(const char *name)
{
    static const struct {
        const char *name, *provides;
    } own[] = {{"check", "wrapper"},
               {"fault", "wrapper"},
               {"trace", "wrapper"},
               {"shm", "transport"},
               {"tcp", "transport"}};

    for (size_t i = 0; i < G_N_ELEMENTS(own); i++)
        if (!strcmp(own[i].name, name))
            return own[i].provides;
    return "";
}

/* What names may be asked for as. Of a third party's file that nobody opened it is not known. */
enum kinds { ANY_KIND, BACKENDS, WRAPPERS, UNKNOWN_KIND };

static enum kinds kind_of(const char *name, const char *provides)
{
    const bool engine = !strcmp(name, "gloo") || !strcmp(name, "mpi");

    if (!*provides)
        return engine ? BACKENDS : UNKNOWN_KIND;
    return strcmp(provides, "wrapper") ? BACKENDS : WRAPPERS;
}

/* The names of a kind that are there, sorted, each once. */
static GPtrArray *known_names(enum kinds kind, const GPtrArray *directories)
{
    g_autoptr(GPtrArray) files = search_files(directories);
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);

    for (guint i = 0; i < files->len; i++) {
        g_autofree char *name = search_name_of(files->pdata[i]);

        if (!kind || kind_of(name, plugin_usually_provides(name)) == kind)
            g_ptr_array_add(names, g_steal_pointer(&name));
    }
    pthread_mutex_lock(&lock);
    for (const struct loaded *entry = loaded_plugins; entry; entry = entry->next) {
        char provides[PLUGIN_PROVIDES_MAX];

        plugin_provides(entry->plugin, provides);
        if (!*entry->path && (!kind || kind_of(entry->plugin->name, provides) == kind))
            g_ptr_array_add(names, g_strdup(entry->plugin->name));
    }
    pthread_mutex_unlock(&lock);

    g_ptr_array_sort(names, by_words);
    for (guint i = 1; i < names->len;) {
        if (strcmp(names->pdata[i - 1], names->pdata[i]))
            i++;
        else
            g_ptr_array_remove_index(names, i);
    }
    return names;
}

static char *joined(const GPtrArray *words)
{
    GString *text = g_string_new(NULL);

    for (guint i = 0; i < words->len; i++)
        g_string_append_printf(text, "%s%s", i ? ", " : "", (const char *)words->pdata[i]);
    if (!words->len)
        g_string_append(text, "none");
    return g_string_free(text, FALSE);
}

void plugin_known_names(char *ret_names, size_t size)
{
    g_autoptr(GPtrArray) directories = search_directories();
    g_autoptr(GPtrArray) names = known_names(ANY_KIND, directories);
    g_autofree char *text = joined(names);

    g_strlcpy(ret_names, text, size);
}

/* Adds those of `names` that are as near as any so far; *best is how near. */
static void add_nearest(const char *name, const GPtrArray *names, GString *nearest, unsigned *best)
{
    for (guint i = 0; i < names->len; i++) {
        const char *candidate = names->pdata[i];
        unsigned distance = word_distance(name, candidate);

        if (distance > *best || distance >= strlen(candidate))
            continue;
        if (distance < *best)
            g_string_truncate(nearest, 0);
        *best = distance;
        g_string_append_printf(nearest, "%s\"%s\"", nearest->len ? " or " : "did you mean ",
                               candidate);
    }
}

static tutti_status not_found(const char *what, const char *name, const GPtrArray *directories)
{
    const enum kinds kind = strcmp(what, "wrapper") ? BACKENDS : WRAPPERS;
    g_autoptr(GPtrArray) names = known_names(kind, directories);
    g_autoptr(GPtrArray) others = known_names(UNKNOWN_KIND, directories);
    g_autofree char *known = joined(names), *unopened = joined(others),
                    *searched = joined(directories);
    g_autoptr(GString) nearest = g_string_new(NULL);
    unsigned best = 2; /* more changes than that are another word */

    add_nearest(name, names, nearest, &best);
    add_nearest(name, others, nearest, &best);
    return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                     "unknown %s \"%.*s\"%s%s%s; known: %s%s%s; searched for libtutti-%.*s.so in "
                     "%s",
                     what, TEXT_CUT(name, 64), nearest->len ? ": " : "", nearest->str,
                     nearest->len ? "?" : "", known,
                     others->len ? "; others, not opened for this: " : "",
                     others->len ? unopened : "", TEXT_CUT(name, 64), searched);
}

static tutti_status find(const char *what, const char *name, const tutti_plugin **ret_plugin)
{
    const tutti_plugin *registered = find_loaded("", name);

    if (registered) {
        *ret_plugin = registered;
        return TUTTI_OK;
    }
    g_autoptr(GPtrArray) directories = search_directories();
    for (guint i = 0; descriptor_name_is_valid(name) && i < directories->len; i++) {
        g_autofree char *path =
            g_strdup_printf("%s/libtutti-%s.so", (const char *)directories->pdata[i], name);
        struct stat st;

        if (!lstat(path, &st))
            return open_file(what, path, name, ret_plugin);
    }
    return not_found(what, name, directories);
}

tutti_status plugin_find(const char *name, const tutti_plugin **ret_plugin)
{
    const tutti_plugin *plugin;
    tutti_status status = find("backend", name, &plugin);
    char provides[PLUGIN_PROVIDES_MAX];

    if (status)
        return status;
    plugin_provides(plugin, provides);
    if (kind_of(name, provides) == WRAPPERS) {
        g_autoptr(GPtrArray) directories = search_directories();
        g_autoptr(GPtrArray) names = known_names(BACKENDS, directories);
        g_autofree char *known = joined(names);

        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "%s is no backend but a wrapper, which TUTTI_WRAP=%s puts in front of "
                         "one; known backends: %s",
                         name, name, known);
    }
    *ret_plugin = plugin;
    return TUTTI_OK;
}

tutti_status plugin_find_wrapper(const char *name, const tutti_plugin **ret_plugin)
{
    return find("wrapper", name, ret_plugin);
}

const tutti_provider *plugin_provider(const tutti_plugin *plugin, enum tutti_provider_kind kind)
{
    for (uint32_t i = 0; i < plugin->provider_count; i++) {
        if (plugin->providers[i]->kind == (uint32_t)kind)
            return plugin->providers[i];
    }
    return NULL;
}

const tutti_transport_ops *plugin_transport(const tutti_plugin *plugin)
{
    const tutti_provider *provider = plugin_provider(plugin, TUTTI_PROVIDER_TRANSPORT);

    return provider ? provider->ops : NULL;
}

const tutti_collectives_ops *plugin_collectives(const tutti_plugin *plugin)
{
    const tutti_provider *provider = plugin_provider(plugin, TUTTI_PROVIDER_COLLECTIVES);

    return provider ? provider->ops : NULL;
}

const tutti_wrapper_ops *plugin_wrapper(const tutti_plugin *plugin)
{
    const tutti_provider *provider = plugin_provider(plugin, TUTTI_PROVIDER_WRAPPER);

    return provider ? provider->ops : NULL;
}

tutti_status tutti_plugin_register(const tutti_plugin *plugin)
{
    if (!plugin)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "plugin is NULL");
    if (descriptor_check(plugin, NULL))
        return error_prefix("tutti_plugin_register");

    const tutti_plugin *kept = keep(plugin, "");
    if (!kept)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to remember plugin %s", plugin->name);
    if (kept != plugin)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "another plugin is registered as \"%s\"",
                         plugin->name);
    return TUTTI_OK;
}

bool plugin_started(const tutti_plugin *plugin, enum tutti_provider_kind kind)
{
    bool is_first = false;

    if (!TUTTI_HAS(plugin, leave))
        return false;
    pthread_mutex_lock(&lock);
    for (struct loaded *entry = loaded_plugins; entry; entry = entry->next)
        if (entry->plugin == plugin) {
            is_first = !(entry->started & 1U << kind);
            entry->started |= 1U << kind;
        }
    pthread_mutex_unlock(&lock);
    return is_first;
}

void plugins_leave(bool clean)
{
    pthread_mutex_lock(&lock);
    struct loaded *entry = loaded_plugins;
    pthread_mutex_unlock(&lock);

    for (; entry; entry = entry->next) {
        if (entry->left || entry->pid != getpid() || !TUTTI_HAS(entry->plugin, leave))
            continue;
        entry->left = true;
        entry->plugin->leave(clean);
    }
}

static void report(tutti_plugin_info_fn fn, void *user, const tutti_plugin *plugin,
                   tutti_plugin_info info)
{
    char provides[PLUGIN_PROVIDES_MAX] = "";

    if (plugin) {
        plugin_provides(plugin, provides);
        info.version = plugin->version;
        info.license = plugin->license;
        info.abi_major = plugin->abi_major;
        info.abi_minor = plugin->abi_minor;
        info.ready = 1;
    }
    info.provides = provides;
    fn(&info, user);
}

static void report_file(tutti_plugin_info_fn fn, void *user, const char *path, const char *name)
{
    struct inspection inspection = {.plugin = NULL};
    char reason[ERROR_MESSAGE_MAX] = "";

    if (inspect(path, name, &inspection))
        g_strlcpy(reason, error_message(), sizeof reason);
    report(fn, user, inspection.plugin,
           (tutti_plugin_info){.name = name,
                               .path = path,
                               .version = "",
                               .license = "",
                               .reason = reason,
                               .abi_major = inspection.major,
                               .abi_minor = inspection.minor});
}

/* The callback may come back here, so it runs without the lock; entries are never removed. */
static void report_registered(tutti_plugin_info_fn fn, void *user, GHashTable *seen)
{
    pthread_mutex_lock(&lock);
    const struct loaded *entry = loaded_plugins;
    pthread_mutex_unlock(&lock);

    for (; entry; entry = entry->next) {
        if (*entry->path)
            continue;
        g_hash_table_insert(seen, g_strdup(entry->plugin->name), g_strdup("the program itself"));
        report(fn, user, entry->plugin,
               (tutti_plugin_info){
                   .name = entry->plugin->name, .path = "(linked into the program)", .reason = ""});
    }
}

tutti_status tutti_plugins_list(tutti_plugin_info_fn fn, void *user)
{
    if (!fn)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "fn is NULL");

    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    g_autoptr(GPtrArray) directories = search_directories();
    g_autoptr(GPtrArray) files = search_files(directories);

    report_registered(fn, user, seen);
    for (guint i = 0; i < files->len; i++) {
        const char *path = files->pdata[i];
        g_autofree char *name = search_name_of(path);
        const char *first = g_hash_table_lookup(seen, name);

        if (first) {
            g_autofree char *reason = g_strdup_printf("not used: %s comes first", first);
            report(fn, user, NULL,
                   (tutti_plugin_info){
                       .name = name, .path = path, .version = "", .license = "", .reason = reason});
            continue;
        }
        g_hash_table_insert(seen, g_strdup(name), g_strdup(path));
        report_file(fn, user, path, name);
    }
    return TUTTI_OK;
}
