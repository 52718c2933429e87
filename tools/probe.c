/* SPDX-License-Identifier: Apache-2.0 */
#include "probe.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/info.h>
#include <tutti/plugin.h>
#include <tutti/status.h>

#include "cli.h"

/* A child's answer: version, license, reason, providers, ABI major and minor, whether it is ready,
 * whether it lacks a library, its options, its cost, and the devices that it finds. */
#define ANSWER "(ssssuubba" PROBED_OPTION "ttts)"

enum {
    DEADLINE_MS = 10000,
    ROUND_US = 500,
    ANSWER_MAX = 64 << 10,
};

void probed_free(gpointer user)
{
    struct probed *probed = user;

    if (!probed)
        return;
    g_free(probed->name);
    g_free(probed->path);
    g_free(probed->version);
    g_free(probed->license);
    g_free(probed->reason);
    g_free(probed->provides);
    g_free(probed->finds);
    g_clear_pointer(&probed->options, g_variant_unref);
    g_free(probed);
}

/* A plugin's words may be in any encoding; GVariant and JSON take UTF-8 only. */
static char *words(const char *text)
{
    return g_utf8_make_valid(text, -1);
}

/* ---- in the child ---- */

void probe_write(int fd, const void *data, size_t bytes)
{
    const char *at = data;

    while (bytes) {
        ssize_t put = write(fd, at, bytes);

        if (put < 0)
            _exit(EXIT_FAILED);
        at += put;
        bytes -= (size_t)put;
    }
}

/* The descriptor was checked: the texts are UTF-8. */
static GVariant *options_of(const tutti_plugin_info *info)
{
    GVariantBuilder builder;

    g_variant_builder_init(&builder, G_VARIANT_TYPE("a" PROBED_OPTION));
    for (const tutti_plugin_option *o = info->options; o && o->variable; o++)
        g_variant_builder_add(&builder, PROBED_OPTION, o->variable, o->values, o->standard,
                              o->meaning, (gboolean)(o->across == TUTTI_OPTION_COMPARED));
    return g_variant_builder_end(&builder);
}

static void answer(const tutti_plugin_info *info, void *user)
{
    g_autofree char *version = words(info->version), *license = words(info->license);
    g_autofree char *reason = words(info->reason), *finds = words(info->finds);
    const tutti_cost *cost = info->cost;
    g_autoptr(GVariant) value = g_variant_ref_sink(
        g_variant_new("(ssssuubb@a" PROBED_OPTION "ttts)", version, license, reason, info->provides,
                      info->abi_major, info->abi_minor, (gboolean)(info->ready != 0),
                      (gboolean)(info->lacks_library != 0), options_of(info),
                      cost ? cost->message_ps : G_GUINT64_CONSTANT(0),
                      cost ? cost->further_ps : G_GUINT64_CONSTANT(0),
                      cost ? cost->byte_ps : G_GUINT64_CONSTANT(0), finds));
    const int *fd = user;

    probe_write(*fd, g_variant_get_data(value), g_variant_get_size(value));
}

static void open_in_child(int fd, const void *path)
{
    tutti_plugin_probe(path, answer, &fd);
}

/* ---- in the parent ---- */

static gint64 now_ms(void)
{
    return g_get_monotonic_time() / 1000;
}

/* Reads to the end of the stream; false when the deadline comes first, or more than an answer. */
static bool read_all(int fd, gint64 deadline_ms, GByteArray *bytes)
{
    for (;;) {
        gint64 left = deadline_ms - now_ms();
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        guint8 text[4096];

        if (left <= 0 || bytes->len > ANSWER_MAX)
            return false;
        if (poll(&wait, 1, (int)left) <= 0)
            continue;

        ssize_t got = read(fd, text, sizeof text);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return true;
        g_byte_array_append(bytes, text, (guint)got);
    }
}

/* Whether the child ends by itself; it may have closed its end of the pipe and live on. */
static bool ends(pid_t pid, gint64 deadline_ms, int *ret_status)
{
    while (waitpid(pid, ret_status, WNOHANG) == 0) {
        if (now_ms() >= deadline_ms)
            return false;
        g_usleep(ROUND_US);
    }
    return true;
}

static bool understand(const GByteArray *bytes, struct probed *probed)
{
    g_autoptr(GBytes) kept = g_bytes_new(bytes->data, bytes->len); /* as long as the options */
    g_autoptr(GVariant) value =
        g_variant_ref_sink(g_variant_new_from_bytes(G_VARIANT_TYPE(ANSWER), kept, FALSE));

    if (!bytes->len || !g_variant_is_normal_form(value))
        return false;
    g_variant_get(value, "(ssssuubb@a" PROBED_OPTION "ttts)", &probed->version, &probed->license,
                  &probed->reason, &probed->provides, &probed->abi_major, &probed->abi_minor,
                  &probed->ready, &probed->lacks_library, &probed->options, &probed->message_ps,
                  &probed->further_ps, &probed->byte_ps, &probed->finds);
    return true;
}

static char *why_no_answer(bool in_time, int status)
{
    if (!in_time)
        return g_strdup_printf("did not load within %d s", DEADLINE_MS / 1000);
    if (WIFSIGNALED(status))
        return g_strdup_printf("crashed while loading: signal %d (%s)", WTERMSIG(status),
                               strsignal(WTERMSIG(status)));
    return g_strdup_printf("ended the process while loading: exit code %d", WEXITSTATUS(status));
}

GByteArray *probe_in_child(probe_child *run, const void *user, char **ret_why)
{
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    gint64 deadline = now_ms() + DEADLINE_MS;
    int channel[2] = {-1, -1}, status = 0;
    pid_t pid = -1;

    if (pipe(channel) == 0) {
        fflush(NULL); /* else the child has our unwritten text too */
        pid = fork();
        if (pid == 0) {
            close(channel[0]);
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            dup2(STDERR_FILENO, STDOUT_FILENO); /* what it prints must not get into ours */
            run(channel[1], user);
            _exit(EXIT_OK); /* without the plugin's own exit handlers: they are not asked about */
        }
        close(channel[1]);
    }
    if (pid < 0) {
        *ret_why = g_strdup_printf("no process to try it in: %s", strerror(errno));
        if (channel[0] >= 0)
            close(channel[0]);
        return NULL;
    }

    bool in_time = read_all(channel[0], deadline, bytes) && ends(pid, deadline, &status);

    close(channel[0]);
    if (!in_time) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
    }
    *ret_why = in_time && !status ? NULL : why_no_answer(in_time, status);
    return g_steal_pointer(&bytes);
}

static void try_in_child(struct probed *probed)
{
    char *why = NULL;
    g_autoptr(GByteArray) bytes = probe_in_child(open_in_child, probed->path, &why);

    if (bytes && understand(bytes, probed))
        g_free(why);
    else
        probed->reason = why ? why : why_no_answer(true, 0);
}

static void probe(struct probed *probed)
{
    try_in_child(probed);
    probed->state = probed->ready ? "ready" : probed->lacks_library ? "library missing" : "refused";
}

static void collect(const tutti_plugin_info *info, void *user)
{
    struct probed *probed = g_new0(struct probed, 1);

    probed->name = words(info->name);
    probed->path = g_strdup(info->path);
    probed->reason = *info->reason ? words(info->reason) : NULL;
    probed->state = "refused";
    g_ptr_array_add(user, probed);
}

struct probed *probe_file(const char *path)
{
    struct probed *probed = g_new0(struct probed, 1);

    probed->name = g_path_get_basename(path);
    probed->path = g_strdup(path);
    probe(probed);
    return probed;
}

static gboolean is_called(gconstpointer probed, gconstpointer name)
{
    return strcmp(((const struct probed *)probed)->name, name) == 0;
}

/* Adds a known plugin without a file. */
static void add_absent(const tutti_known_plugin *known, void *user)
{
    struct probed *probed;

    if (g_ptr_array_find_with_equal_func(user, known->name, is_called, NULL))
        return;
    probed = g_new0(struct probed, 1);
    probed->name = g_strdup(known->name);
    probed->path = g_strdup("");
    probed->provides = g_strdup(known->provides);
    probed->reason = g_strconcat(known->purpose, "; ", known->get, NULL);
    probed->state = "not built";
    g_ptr_array_add(user, probed);
}

/* Leaves the plugins of these names in the array. Returns an exit code. */
static int keep(GPtrArray *plugins, char *const *names)
{
    g_autoptr(GPtrArray) known = g_ptr_array_new();

    for (guint i = 0; i < plugins->len; i++)
        g_ptr_array_add(known, ((struct probed *)plugins->pdata[i])->name);
    g_ptr_array_add(known, NULL);
    for (char *const *name = names; *name; name++)
        if (!g_strv_contains((const char *const *)known->pdata, *name))
            return cli_unknown("info", "backend", *name, (const char *const *)known->pdata);
    for (guint i = plugins->len; i > 0; i--)
        if (!g_strv_contains((const char *const *)names, known->pdata[i - 1]))
            g_ptr_array_remove_index(plugins, i - 1);
    return EXIT_OK;
}

int probe_plugins(char *const *only, GPtrArray **ret_plugins)
{
    g_autoptr(GPtrArray) plugins = g_ptr_array_new_with_free_func(probed_free);
    int code;

    if (tutti_plugin_files(collect, plugins) != TUTTI_OK) {
        cli_say("info", "cannot list plugins: %s", cli_last_error());
        return EXIT_FAILED;
    }
    tutti_plugins_known(add_absent, plugins);
    code = *only ? keep(plugins, only) : EXIT_OK;
    for (guint i = 0; i < plugins->len && !code; i++) {
        struct probed *probed = plugins->pdata[i];

        if (!probed->reason)
            probe(probed);
    }
    if (!code)
        *ret_plugins = g_steal_pointer(&plugins);
    return code;
}

/* Whether the name stands in the words of a backend, between its signs: "local=shm,remote=tcp". What is before a
 * colon is a kind of devices, or an operation. */
static bool names(const char *words, const char *name)
{
    for (const char *at = words;; at++) {
        const size_t length = strcspn(at, ":;,=");

        if (length == strlen(name) && !strncmp(at, name, length) && at[length] != ':')
            return true;
        at += length;
        if (!*at)
            return false;
    }
}

bool probe_backend(const char *verb, const char *backend)
{
    g_autoptr(GPtrArray) plugins = g_ptr_array_new_with_free_func(probed_free);
    const char *text = backend ? backend : g_getenv("TUTTI_BACKEND");
    bool is_here = true;

    if (!text || tutti_plugin_files(collect, plugins) != TUTTI_OK)
        return true;
    for (guint i = 0; i < plugins->len && is_here; i++) {
        struct probed *probed = plugins->pdata[i];

        if (probed->reason || !names(text, probed->name))
            continue;
        probe(probed);
        is_here = !probed->lacks_library;
        if (!is_here)
            cli_say(verb, "backend \"%s\" is not usable here: %s", probed->name, probed->reason);
    }
    return is_here;
}
