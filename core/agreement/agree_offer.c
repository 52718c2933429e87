/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a member brings to the agreement: its identity, its address, its plugins; or why it cannot
 * take part. The others wait for an offer of each member, so a member that fails before it has made
 * its own writes a refusal instead. The first member then writes a decision, since no other member
 * decides.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agreement/agree.h"
#include "agreement/agree_devices.h"
#include "agreement/agreement.h"
#include "agreement/settings.h"
#include "base/cgroup.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/text.h"
#include "dispatch/tuning.h"
#include "plugin/about.h"
#include "plugin/plugin.h"
#include "store/store.h"

enum { REFUSAL_MS = 500 }; /* to write to the store why this member does not come */

/* Members that agree in this may be local peers: kernel, user, network namespace, TUTTI_HOST. */
static void describe_host(char ret_key[AGREE_HOST_KEY_MAX])
{
    char boot[BOOT_ID_ROOM], space[64] = "";
    const char *override = getenv("TUTTI_HOST");
    struct stat info;

    boot_id(boot);
    if (!stat("/proc/self/ns/net", &info))
        snprintf(space, sizeof space, "%llu", (unsigned long long)info.st_ino);
    snprintf(ret_key, AGREE_HOST_KEY_MAX, "%s/%u/%s/%.*s", boot, (unsigned)geteuid(), space,
             ENVIRONMENT_VALUE_MAX, override ? override : "");
}

static tutti_status ask_engine(const tutti_plugin *plugin, struct engine_offer *ret_engine)
{
    tutti_engine_version version;
    tutti_status status = plugin_engine(plugin, &version);

    if (status)
        return status;
    snprintf(ret_engine->name, sizeof ret_engine->name, "%.*s", (int)sizeof version.name,
             version.name);
    ret_engine->major = version.major;
    ret_engine->minor = version.minor;
    ret_engine->patch = version.patch;
    ret_engine->same_minor = version.flags & TUTTI_ENGINE_SAME_MINOR;
    return TUTTI_OK;
}

/* Whether the plugin is there, and what it drives. `settings` NULL: nothing is compared, since `auto` may do without. */
static tutti_status look_at_plugin(const char *name, struct engine_offer *ret_engine,
                                   struct text *settings)
{
    const tutti_plugin *plugin;
    tutti_status status = plugin_find(name, &plugin);

    if (!status)
        status = plugin_check_options(name);
    if (!status && settings)
        plugin_settings(plugin, settings);
    return status ? status : ask_engine(plugin, ret_engine);
}

/* The same of the backend that `auto` may use between hosts. Its options decide nothing before it is chosen. */
static tutti_status look_at_fabric(const struct agreement *a, const char *name,
                                   struct engine_offer *ret_engine)
{
    const tutti_plugin *plugin;

    if (a->group->bootstrap.one_host || a->group->tls != ENVIRONMENT_PLAIN)
        return TUTTI_OK;
    tutti_status status = plugin_find(name, &plugin);
    if (status || !plugin_has_fabric(plugin))
        return status;
    status = plugin_check_options(name);
    if (!status)
        status = ask_engine(plugin, ret_engine);
    ret_engine->fabric = !status;
    return status;
}

static tutti_status look_at(const struct agreement *a, int level, const char *name,
                            struct engine_offer *ret_engine, struct text *settings)
{
    const bool is_auto = a->choice->is_auto;

    if (is_auto && level == BACKEND_MORE)
        return look_at_fabric(a, name, ret_engine);
    return look_at_plugin(name, ret_engine, is_auto && level == DEVICE_NATIVE ? NULL : settings);
}

tutti_status agree_offer(struct agreement *a, const char *choice_words)
{
    struct offer *offer = &a->own;
    const char *names[PROVIDERS];
    uint8_t bytes[AGREE_OFFER_MAX];
    struct writer w = {.data = bytes, .capacity = sizeof bytes};
    char key[AGREE_KEY_MAX];
    struct text settings;

    devices_consider(a->group);
    backend_candidates(a->choice, names);
    if (getrandom(&offer->nonce, sizeof offer->nonce, 0) != sizeof offer->nonce)
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "no random numbers");
    offer->size = (uint32_t)a->group->size;
    offer->address = a->group->control->address;
    snprintf(offer->backend, sizeof offer->backend, "%s", choice_words);
    environment_settings(offer->settings);
    settings = text_after(offer->settings, sizeof offer->settings);
    tuning_settings(&a->group->thresholds, &settings);
    describe_host(offer->host_key);
    offer->cpus = cpu_share_here();
    offer->refused = a->group->refusal.info.status;
    snprintf(offer->refusal, sizeof offer->refusal, "%.*s",
             TEXT_CUT(a->group->refusal.message ? a->group->refusal.message : "", 900));
    for (int level = 0; level < PROVIDERS; level++)
        if (*names[level] && look_at(a, level, names[level], &offer->engines[level], &settings))
            snprintf(offer->reasons[level], sizeof offer->reasons[level], "%.*s",
                     TEXT_CUT(error_message(), 900));
    devices_offer(a->group, &offer->device);
    tutti_status status =
        a->listener < 0 ? local_listen(offer->socket_name, &a->listener) : TUTTI_OK;
    if (status)
        return status;
    offer_encode(&w, offer);
    agree_key(a, key, "offer/%d", a->group->rank);
    return agree_set(a, key, bytes, w.size);
}

/* What the agreement writes, before there is one. */
static void tell(struct tutti_group *group, const char *key, const struct writer *w)
{
    const struct agreement a = {.group = group};
    struct writer sealed;

    if (agree_seal(&a, key, w->data, w->size, &sealed))
        return;
    bootstrap_tell(&group->bootstrap, key, sealed.data, sealed.size, REFUSAL_MS);
    free(sealed.data);
}

static void tell_refusal(struct tutti_group *group, tutti_status status, const char *message)
{
    const struct bootstrap *bootstrap = &group->bootstrap;
    struct offer offer = {.size = (uint32_t)bootstrap->size, .refused = status};
    uint8_t bytes[AGREE_OFFER_MAX];
    struct writer w = {.data = bytes, .capacity = sizeof bytes};
    char key[AGREE_KEY_MAX];

    if (bootstrap->rank) {
        offer.address.ss_family = AF_INET; /* nobody dials it */
        snprintf(offer.refusal, sizeof offer.refusal, "%s", message);
        snprintf(key, sizeof key, "%s/offer/%d", group->key, bootstrap->rank);
        offer_encode(&w, &offer);
    } else {
        struct outcome reason = {.status = status};

        snprintf(reason.message, sizeof reason.message, "%s", message);
        snprintf(key, sizeof key, "%s/decision/1", group->key);
        decision_encode_abort(&w, &reason);
    }
    tell(group, key, &w);
}

/* Whether this member alone has met the reason; the others find any other reason themselves. */
static bool is_own(tutti_status status)
{
    return status != TUTTI_ERR_TIMEOUT && status != TUTTI_ERR_PEER_LOST &&
           status != TUTTI_ERR_ABORTED;
}

/* A world's key is known once the store has told its number; also by a new connection. A number that
 * somebody else wrote tells nothing: then it is the first world, for all that this member knows. */
static void find_key(struct tutti_group *group)
{
    struct bootstrap *bootstrap = &group->bootstrap;
    tutti_store *fresh;

    if (*group->key || !group_name_key(group))
        return;
    if (!store_clone(bootstrap->store, REFUSAL_MS, &fresh)) {
        tutti_store_unref(bootstrap->store);
        bootstrap->store = fresh;
        if (!group_name_key(group))
            return;
    }
    group_write_key(group);
}

/* The secret may be what is wrong, or what this member has failed before. */
static bool has_secret(struct bootstrap *bootstrap)
{
    return bootstrap->secret || !bootstrap_find_secret(bootstrap, NULL, true);
}

tutti_status agree_refuse(struct tutti_group *group, tutti_status status)
{
    struct bootstrap *bootstrap = &group->bootstrap;
    const int64_t deadline = bootstrap->deadline_ns, soon = clock_deadline_ms(REFUSAL_MS);
    struct kept_error kept = {0};
    char message[AGREE_MESSAGE_MAX];

    if (!is_own(status) || bootstrap->size < 2 || !bootstrap->store)
        return status;
    snprintf(message, sizeof message, "group %s: rank %d cannot take part: %.*s", group->name,
             bootstrap->rank, TEXT_CUT(error_message(), 800));
    error_keep(&kept);
    bootstrap->deadline_ns = deadline < soon ? deadline : soon;
    if (has_secret(bootstrap)) {
        find_key(group);
        tell_refusal(group, status, bootstrap->rank && kept.message ? kept.message : message);
    }
    bootstrap->deadline_ns = deadline;
    error_forget(&kept);
    error_restore(status, bootstrap->rank, message);
    error_where(bootstrap->rank, -1, 0, "init");
    return status;
}
