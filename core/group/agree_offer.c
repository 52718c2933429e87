/* SPDX-License-Identifier: Apache-2.0 */
/* What a member brings to the agreement: who it is, where it is reached, which plugins it has. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "group/agree.h"
#include "group/settings.h"
#include "plugin/plugin.h"

/* Members that agree in this may be host-mates: kernel, user, network namespace, TUTTI_HOST. */
static void describe_host(char ret_key[AGREE_HOST_KEY_MAX])
{
    char boot[64] = "", space[64] = "";
    const char *override = getenv("TUTTI_HOST");
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    struct stat info;

    if (file) {
        if (!fgets(boot, sizeof boot, file))
            *boot = 0;
        fclose(file);
    }
    boot[strcspn(boot, "\n")] = 0;
    if (!stat("/proc/self/ns/net", &info))
        snprintf(space, sizeof space, "%llu", (unsigned long long)info.st_ino);
    snprintf(ret_key, AGREE_HOST_KEY_MAX, "%s/%u/%s/%.100s", boot, (unsigned)geteuid(), space,
             override ? override : "");
}

tutti_status agree_offer(struct agreement *a, const char *choice_words)
{
    struct offer *offer = a->own;
    const char *names[PROVIDERS] = {a->choice->local, a->choice->remote};
    uint8_t bytes[AGREE_OFFER_MAX];
    struct writer w = {.data = bytes, .capacity = sizeof bytes};
    char key[AGREE_KEY_MAX];

    if (a->choice->is_auto) {
        names[LOCAL] = "shm";
        names[REMOTE] = "tcp";
    }
    if (getrandom(&offer->nonce, sizeof offer->nonce, 0) != sizeof offer->nonce)
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "no random numbers");
    offer->size = (uint32_t)a->group->size;
    offer->address = a->group->control->address;
    snprintf(offer->backend, sizeof offer->backend, "%s", choice_words);
    settings_describe(offer->settings);
    describe_host(offer->host_key);
    offer->refused = a->group->refusal.info.status;
    snprintf(offer->refusal, sizeof offer->refusal, "%.900s",
             a->group->refusal.message ? a->group->refusal.message : "");
    for (int level = 0; level < PROVIDERS; level++) {
        const tutti_plugin *plugin;

        if (plugin_find(names[level], &plugin))
            snprintf(offer->reasons[level], sizeof offer->reasons[level], "%.900s",
                     error_message());
    }
    tutti_status status = mates_listen(offer->socket_name, &a->listener);
    if (status)
        return status;
    offer_encode(&w, offer);
    agree_key(a, key, "offer/%d", a->group->rank);
    int64_t left = agree_left_ms(a);
    return tutti_store_set(a->store, key, bytes, w.size, left ? left : 1);
}
