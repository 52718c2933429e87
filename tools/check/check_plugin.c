/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin's descriptor, and what the plugin does to the process that loads it. A process belongs to
 * the program: signal handlers, umask, working directory, locale, environment, limits, rounding and
 * standard streams are compared before it is loaded, while it is used, and after it has gone.
 */
#include "check/check_core.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/info.h>
#include <tutti/plugin_device.h>
#include <tutti/plugin_engine.h>
#include <tutti/version.h>

enum { PROVIDERS_MAX = 64, MESSAGE_LEAST = 64 << 10, PIECE_MOST = 64 << 20 };

/* ---- loading --------------------------------------------------------------------------------- */

static void hear(const tutti_plugin_info *info, void *user)
{
    (void)user;
    if (!info->ready)
        check_fails("libtutti refuses it: %s", info->reason);
}

void check_core_accepts(const struct check_member *member)
{
    check_doing("being loaded by libtutti");
    if (tutti_plugin_probe(member->subject->path, hear, NULL) != TUTTI_OK)
        check_fails("%s", tutti_last_error());
}

static void *load(const struct check_subject *subject)
{
    check_doing("being loaded");
    void *library = dlopen(subject->path, RTLD_NOW | RTLD_LOCAL);
    const char *reason = library ? "" : dlerror();
    if (!library && strstr(reason, "undefined symbol"))
        check_fails("%s; link the library that defines it (the linker's option -z defs lists all "
                    "such symbols)",
                    reason);
    if (!library)
        check_fails("%s", reason);
    return library;
}

const tutti_plugin *check_load(const struct check_subject *subject)
{
    const tutti_plugin *plugin = dlsym(load(subject), TUTTI_PLUGIN_SYMBOL);

    if (!plugin)
        check_fails("it does not export %s", TUTTI_PLUGIN_SYMBOL);
    return plugin;
}

const tutti_transport_ops *check_transport(const struct check_subject *subject)
{
    const tutti_plugin *plugin = check_load(subject);

    for (uint32_t i = 0; i < plugin->provider_count; i++) {
        const tutti_transport_ops *ops = plugin->providers[i]->ops;

        if (plugin->providers[i]->kind == TUTTI_PROVIDER_TRANSPORT)
            return ops;
    }
    check_skips("it offers no transport");
}

/* ---- the descriptor -------------------------------------------------------------------------- */

/* How many bytes a minor of our own or older may claim at most, and must at least. */
static void expect_size(const char *what, uint64_t size, uint64_t least, uint64_t ours,
                        uint32_t minor)
{
    if (size < least)
        check_fails("%s: struct_size is %llu, and what is required needs %llu bytes; write "
                    "sizeof of the struct",
                    what, (unsigned long long)size, (unsigned long long)least);
    if (size > ours && minor <= TUTTI_PLUGIN_ABI_MINOR)
        check_fails("%s: struct_size is %llu, and minor %u has %llu bytes", what,
                    (unsigned long long)size, minor, (unsigned long long)ours);
}

struct required {
    const char *name; /* of a function */
    bool there;
};

static void expect_required(const char *what, const struct required *functions, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!functions[i].there)
            check_fails("%s: the required function %s is NULL", what, functions[i].name);
}

static void expect_functions(const char *what, const tutti_transport_ops *ops)
{
    const struct required functions[] = {
        {"open", ops->open},   {"address", ops->address}, {"connect", ops->connect},
        {"isend", ops->isend}, {"irecv", ops->irecv},     {"test", ops->test},
        {"close", ops->close},
    };
    const bool maps =
        TUTTI_HAS(ops, map_start) && TUTTI_HAS(ops, map_test) && TUTTI_HAS(ops, map_close);

    expect_required(what, functions, G_N_ELEMENTS(functions));
    if (ops->capabilities & TUTTI_CAP_MAP && !maps)
        check_fails("%s: TUTTI_CAP_MAP needs map_start, map_test and map_close", what);
    if (TUTTI_HAS(ops, wait_fd) != TUTTI_HAS(ops, arm) &&
        !(ops->capabilities & TUTTI_CAP_HOST_ONLY))
        check_fails("%s: wait_fd and arm belong together", what);
}

/* Refuses a piece length that the core would not heed. */
static void expect_pieces(const char *what, const tutti_transport_ops *ops)
{
    const unsigned long long asked = TUTTI_HAS(ops, piece_bytes) ? ops->piece_bytes : 0;

    if (!asked)
        return;
    if (!TUTTI_HAS(ops, cancel))
        check_fails(
            "%s: piece_bytes is %llu, and there is no cancel, without which the core copies "
            "pieces of its own choice",
            what, asked);
    if (asked < MESSAGE_LEAST || asked > PIECE_MOST)
        check_fails("%s: piece_bytes is %llu; the core has pieces of %d to %d bytes", what, asked,
                    MESSAGE_LEAST, PIECE_MOST);
    if (ops->max_message && asked > ops->max_message)
        check_fails("%s: piece_bytes is %llu, and max_message %llu", what, asked,
                    (unsigned long long)ops->max_message);
}

static void expect_transport(const char *name, const tutti_transport_ops *ops, uint32_t minor)
{
    g_autofree char *what = g_strdup_printf("transport %s", name);
    const uint64_t unknown =
        ops->capabilities & ~(uint64_t)(TUTTI_CAP_MAP | TUTTI_CAP_HOST_ONLY | TUTTI_CAP_ENCRYPTS);

    expect_size(what, ops->struct_size, offsetof(tutti_transport_ops, progress), sizeof *ops,
                minor);
    expect_functions(what, ops);
    if (ops->threads > TUTTI_THREADS_MAIN_ONLY)
        check_fails("%s: thread rule %u is none of TUTTI_THREADS_…", what, ops->threads);
    if (ops->lanes < 1)
        check_fails("%s: it has %u lanes; one is the least", what, ops->lanes);
    if (ops->max_message && ops->max_message < MESSAGE_LEAST)
        check_fails("%s: max_message is %llu; the core sends messages of up to %d bytes", what,
                    (unsigned long long)ops->max_message, MESSAGE_LEAST);
    expect_pieces(what, ops);
    if (unknown && minor <= TUTTI_PLUGIN_ABI_MINOR)
        check_fails("%s: capabilities has the bits 0x%llx, which minor %u does not know; a private "
                    "bit may get a meaning in a later minor",
                    what, (unsigned long long)unknown, minor);
    if (ops->reserved && minor <= TUTTI_PLUGIN_ABI_MINOR)
        check_fails("%s: reserved is %u; it must be 0", what, ops->reserved);
}

static void expect_wrapper(const char *name, const tutti_wrapper_ops *ops, uint32_t minor)
{
    g_autofree char *what = g_strdup_printf("wrapper %s", name);
    const struct required functions[] = {{"open", ops->open}, {"close", ops->close}};

    expect_size(what, ops->struct_size, offsetof(tutti_wrapper_ops, begin), sizeof *ops, minor);
    expect_required(what, functions, G_N_ELEMENTS(functions));
}

enum { DEVICE_TYPES_MINOR = 9 };

static void expect_collectives(const char *name, const tutti_collectives_ops *ops, uint32_t minor)
{
    g_autofree char *what = g_strdup_printf("collectives %s", name);
    const struct required functions[] = {
        {"serves", ops->serves}, {"open", ops->open},           {"address", ops->address},
        {"form", ops->form},     {"form_test", ops->form_test}, {"start", ops->start},
        {"test", ops->test},     {"abort", ops->abort},         {"close", ops->close},
    };

    expect_size(what, ops->struct_size, offsetof(tutti_collectives_ops, engine), sizeof *ops,
                minor);
    expect_required(what, functions, G_N_ELEMENTS(functions));
    if (ops->threads > TUTTI_THREADS_MAIN_ONLY)
        check_fails("%s: thread rule %u is none of TUTTI_THREADS_…", what, ops->threads);
    if (TUTTI_HAS(ops, wait_fd) != TUTTI_HAS(ops, arm))
        check_fails("%s: wait_fd and arm belong together", what);
    if (ops->device_types && minor < DEVICE_TYPES_MINOR)
        check_fails("%s: device_types is 0x%llx; before minor %d it must be 0", what,
                    (unsigned long long)ops->device_types, DEVICE_TYPES_MINOR);
}

static void expect_bootstrap(const char *name, const tutti_bootstrap_ops *ops, uint32_t minor)
{
    g_autofree char *what = g_strdup_printf("bootstrap %s", name);
    const struct required functions[] = {{"detect", ops->detect},
                                         {"open", ops->open},
                                         {"broadcast", ops->broadcast},
                                         {"close", ops->close}};

    expect_size(what, ops->struct_size, sizeof *ops, sizeof *ops, minor);
    expect_required(what, functions, G_N_ELEMENTS(functions));
}

static void expect_devices(const char *name, const tutti_device_ops *ops, uint32_t minor)
{
    g_autofree char *what = g_strdup_printf("devices %s", name);
    const struct required functions[] = {
        {"open", ops->open},
        {"close", ops->close},
        {"describe", ops->describe},
        {"device", ops->device},
        {"locate", ops->locate},
        {"attach", ops->attach},
        {"detach", ops->detach},
        {"allocate", ops->allocate},
        {"release", ops->release},
        {"stream_create", ops->stream_create},
        {"stream_free", ops->stream_free},
        {"stream_check", ops->stream_check},
        {"event_create", ops->event_create},
        {"event_free", ops->event_free},
        {"event_record", ops->event_record},
        {"event_query", ops->event_query},
        {"event_wait", ops->event_wait},
        {"copy", ops->copy},
        {"pack", ops->pack},
        {"unpack", ops->unpack},
        {"reduce", ops->reduce},
        {"scale", ops->scale},
    };

    expect_size(what, ops->struct_size, offsetof(tutti_device_ops, prepare), sizeof *ops, minor);
    expect_required(what, functions, G_N_ELEMENTS(functions));
    if (ops->capabilities && minor <= TUTTI_PLUGIN_ABI_MINOR)
        check_fails("%s: capabilities is 0x%llx; it must be 0", what,
                    (unsigned long long)ops->capabilities);
}

static void expect_operations(const tutti_provider *provider, uint32_t minor)
{
    switch (provider->kind) {
    case TUTTI_PROVIDER_TRANSPORT:
        expect_transport(provider->name, provider->ops, minor);
        break;
    case TUTTI_PROVIDER_WRAPPER:
        expect_wrapper(provider->name, provider->ops, minor);
        break;
    case TUTTI_PROVIDER_COLLECTIVES:
        expect_collectives(provider->name, provider->ops, minor);
        break;
    case TUTTI_PROVIDER_BOOTSTRAP:
        expect_bootstrap(provider->name, provider->ops, minor);
        break;
    case TUTTI_PROVIDER_DEVICE:
        expect_devices(provider->name, provider->ops, minor);
        break;
    default:
        if (minor <= TUTTI_PLUGIN_ABI_MINOR)
            check_fails("provider %s has the kind %u, which minor %u does not have; kinds are "
                        "TUTTI_PROVIDER_TRANSPORT and the others",
                        provider->name, provider->kind, minor);
        break;
    }
}

static void expect_words(const char *what, const char *words)
{
    if (!words || !*words)
        check_fails("the descriptor has no %s", what);
    if (!g_utf8_validate(words, -1, NULL))
        check_fails("the descriptor's %s is not UTF-8", what);
    for (const char *at = words; *at; at++)
        if (g_ascii_iscntrl(*at))
            check_fails("the descriptor's %s has the control character 0x%02x; it must be text for "
                        "messages, on one line",
                        what, (unsigned)*at);
}

void check_descriptor(const struct check_member *member)
{
    const struct check_subject *subject = member->subject;
    const tutti_plugin *plugin = check_load(subject);

    check_doing("having its descriptor read");
    if (plugin->magic != TUTTI_PLUGIN_MAGIC)
        check_fails("%s has the magic 0x%016llx instead of 0x%016llx", TUTTI_PLUGIN_SYMBOL,
                    (unsigned long long)plugin->magic, (unsigned long long)TUTTI_PLUGIN_MAGIC);
    if (plugin->abi_major != TUTTI_PLUGIN_ABI_MAJOR)
        check_fails(
            "built for ABI %u, and this tutti has ABI %d; compile it with the headers of this "
            "tutti",
            plugin->abi_major, TUTTI_PLUGIN_ABI_MAJOR);
    expect_size("the descriptor", plugin->struct_size, offsetof(tutti_plugin, leave),
                sizeof *plugin, plugin->abi_minor);
    expect_words("name", plugin->name);
    expect_words("version", plugin->version);
    expect_words("license", plugin->license);
    if (TUTTI_HAS(plugin, trial))
        for (const char *const *line = plugin->trial; *line; line++)
            if (!g_str_has_prefix(*line, "launcher=") &&
                !(g_str_has_prefix(*line, "TUTTI_") && strchr(*line, '=')))
                check_fails("its trial has \"%s\", which is neither launcher=NAME nor "
                            "TUTTI_…=VALUE",
                            *line);
    if (subject->name && strcmp(plugin->name, subject->name) != 0)
        check_fails("it calls itself \"%s\" and its file libtutti-%s.so", plugin->name,
                    subject->name);
    if (plugin->provider_count < 1 || plugin->provider_count > PROVIDERS_MAX || !plugin->providers)
        check_fails("it offers %u providers; 1 to %d are possible", plugin->provider_count,
                    PROVIDERS_MAX);
    for (uint32_t i = 0; i < plugin->provider_count; i++) {
        const tutti_provider *provider = plugin->providers[i];

        if (!provider)
            check_fails("provider %u is NULL", i);
        expect_size("a provider", provider->struct_size, sizeof *provider, sizeof *provider,
                    plugin->abi_minor);
        expect_words("provider's name", provider->name);
        if (!provider->kind || !provider->ops)
            check_fails("provider %s has no kind or no operations", provider->name);
        expect_operations(provider, plugin->abi_minor);
    }
    if (plugin->abi_minor > TUTTI_PLUGIN_ABI_MINOR)
        check_remarks(
            "it is built for minor %u of the ABI, and this tutti has %d: what is newer is "
            "neither used nor checked",
            plugin->abi_minor, TUTTI_PLUGIN_ABI_MINOR);
}

/* ---- what belongs to the program ------------------------------------------------------------- */

/* SIGNAL_RESTORER is the C library's: it stays set where a handler was put back. */
enum { SIGNALS = 64, SIGNAL_RESTORER = 0x04000000 };

struct state {
    struct sigaction actions[SIGNALS + 1];
    sigset_t blocked;
    mode_t mask;
    char *folder, *locale, *environment;
    struct rlimit limits[RLIMIT_NLIMITS];
    bool timers[3]; /* run */
    int rounding, traps;
    off_t printed;
    int descriptors, threads;
};

int check_count_in(const char *folder)
{
    DIR *dir = opendir(folder);
    int count = 0;

    if (!dir)
        return -1;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void remember(struct state *ret_state)
{
    struct state *state = ret_state;

    for (int i = 1; i <= SIGNALS; i++)
        if (sigaction(i, NULL, &state->actions[i]) != 0)
            memset(&state->actions[i], 0, sizeof state->actions[i]);
    sigprocmask(SIG_SETMASK, NULL, &state->blocked);
    state->mask = umask(0);
    umask(state->mask);
    state->folder = g_get_current_dir();
    state->locale = g_strdup(setlocale(LC_ALL, NULL));
    state->environment = g_strjoinv("\n", environ);
    for (int i = 0; i < RLIMIT_NLIMITS; i++)
        getrlimit(i, &state->limits[i]);
    for (int i = 0; i < 3; i++) {
        struct itimerval timer;

        getitimer(i, &timer);
        state->timers[i] = timer.it_value.tv_sec || timer.it_value.tv_usec;
    }
    state->rounding = fegetround();
    state->traps = fegetexcept();
    fflush(NULL);
    state->printed = lseek(STDOUT_FILENO, 0, SEEK_END);
    state->descriptors = check_count_in("/proc/self/fd");
    state->threads = check_count_in("/proc/self/task");
}

static void forget(struct state *state)
{
    g_free(state->folder);
    g_free(state->locale);
    g_free(state->environment);
}

/* Whether a handler is libtutti's own, which dumps the recorder. */
static bool is_ours(const struct sigaction *action)
{
    Dl_info handler, core;

    return dladdr((void *)(uintptr_t)action->sa_handler, &handler) &&
           dladdr((void *)(uintptr_t)tutti_version, &core) && handler.dli_fbase == core.dli_fbase;
}

static void expect_same_signals(const struct state *before, const struct state *now,
                                const char *when)
{
    for (int i = 1; i <= SIGNALS; i++) {
        const struct sigaction *was = &before->actions[i], *is = &now->actions[i];

        if ((was->sa_handler != is->sa_handler ||
             (was->sa_flags | SIGNAL_RESTORER) != (is->sa_flags | SIGNAL_RESTORER)) &&
            !is_ours(is))
            check_fails("%s it has changed what happens on signal %d (%s)", when, i, strsignal(i));
        if (sigismember(&before->blocked, i) != sigismember(&now->blocked, i))
            check_fails("%s it has changed whether signal %d (%s) is blocked", when, i,
                        strsignal(i));
    }
}

/* The first line of the environment that `before` does not have. */
static const char *new_line(const char *before, char **now)
{
    for (; *now; now++)
        if (!strstr(before, *now))
            return *now;
    return "a variable is gone";
}

static void expect_same(const struct state *before, const char *when)
{
    struct state now;

    remember(&now);
    expect_same_signals(before, &now, when);
    if (now.mask != before->mask)
        check_fails("%s the umask is %03o instead of %03o", when, now.mask, before->mask);
    if (strcmp(now.folder, before->folder) != 0)
        check_fails("%s the working directory is %s", when, now.folder);
    if (strcmp(now.locale, before->locale) != 0)
        check_fails("%s the locale is %s instead of %s", when, now.locale, before->locale);
    if (strcmp(now.environment, before->environment) != 0)
        check_fails("%s the environment is another: %s", when,
                    new_line(before->environment, environ));
    if (memcmp(now.limits, before->limits, sizeof now.limits) != 0)
        check_fails("%s a resource limit is another", when);
    if (memcmp(now.timers, before->timers, sizeof now.timers) != 0)
        check_fails("%s an interval timer was started or stopped", when);
    if (now.rounding != before->rounding || now.traps != before->traps)
        check_fails("%s the floating-point environment is another", when);
    if (waitpid(-1, NULL, WNOHANG) >= 0 || errno != ECHILD)
        check_fails("%s the process has a child", when);
    forget(&now);
}

static void expect_silence(const struct state *before, const char *when)
{
    fflush(NULL);
    const off_t printed = lseek(STDOUT_FILENO, 0, SEEK_END) - before->printed;

    if (printed)
        check_fails("%s it has printed %lld bytes; use tutti_host.log() instead", when,
                    (long long)printed);
}

/* The core of a group may print, and keeps descriptors and a thread; the rest is as in a process that
 * only loads the plugin. */
static struct state before_group;

void check_remember(void)
{
    remember(&before_group);
}

void check_same(const char *when)
{
    expect_same(&before_group, when);
}

/* Checks that the resources of an open endpoint, descriptors and threads, are gone. */
static void expect_nothing_open(const struct state *before, const char *when)
{
    struct state now;

    remember(&now);
    if (now.descriptors != before->descriptors)
        check_fails("%s the process has %d descriptors more", when,
                    now.descriptors - before->descriptors);
    if (now.threads != before->threads)
        check_fails("%s the process has %d threads more", when, now.threads - before->threads);
    forget(&now);
}

/* A transport that maps is opened and closed without peers, which needs no local peers. */
static const tutti_transport_ops *first_transport(const tutti_plugin *plugin)
{
    for (uint32_t i = 0; i < plugin->provider_count; i++)
        if (plugin->providers[i]->kind == TUTTI_PROVIDER_TRANSPORT)
            return plugin->providers[i]->ops;
    return NULL;
}

void check_effects(const struct check_member *member)
{
    struct state before;
    struct core core = {0};

    remember(&before);
    void *library = load(member->subject);
    expect_same(&before, "after loading");
    expect_silence(&before, "after loading");
    expect_nothing_open(&before, "after loading");

    const tutti_plugin *plugin = dlsym(library, TUTTI_PLUGIN_SYMBOL);
    const tutti_transport_ops *ops = plugin ? first_transport(plugin) : NULL;
    if (ops && !member->subject->launcher) {
        core_open_alone(&core, ops);
        expect_same(&before, "with an endpoint open");
        core_close(&core);
        expect_same(&before, "after closing the endpoint");
        expect_silence(&before, "after closing the endpoint");
        expect_nothing_open(&before, "after closing the endpoint");
    }
    check_doing("being unloaded");
    dlclose(library);
    expect_same(&before, "after unloading");
    expect_silence(&before, "after unloading");
    forget(&before);
    if (member->subject->launcher)
        check_remarks("only loading and unloading were compared: an engine that a launcher starts "
                      "changes the process in its own way");
    check_doing("ending the process by exit()");
    check_over();
    exit(0);
}
