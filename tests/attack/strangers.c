/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strangers RANKS PID...
 * Attacks a job of this host, whose processes these are, as another user; for launchers that a test cannot
 * start in a network namespace. Listeners on all addresses are left alone: they are a launcher's. Exits with 0
 * if nothing was gained. Only root can become another user.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "attack.h"

enum { ENDS_MS = 30000, GOES_ON_MS = 1500, FLOOD = 70 };

static const struct {
    const char *name;
    attack_fn act;
    bool goes_on;
} attacks[] = {
    {"opens the processes", attack_processes, false},
    {"speaks to Unix sockets", attack_unix_sockets, true},
    {"reads what each port offers", attack_read_all, false},
    {"reads and changes the store", attack_use_store, false},
    {"floods each port", attack_flood, false},
    {"forges proofs and frames", attack_forge, false},
    {"holds many half-open connections", attack_besiege, true},
};

static void know_ports(struct attack_scene *scene)
{
    static struct attack_result listed;

    attack_list_ports(scene, &listed);
    for (int i = 0; i < listed.port_count; i++)
        if (listed.ports[i].address != htonl(INADDR_ANY))
            scene->ports[scene->port_count++] = listed.ports[i];
}

static bool gains_nothing(const struct attack_scene *scene, int i)
{
    struct attack *attack = attack_start(attacks[i].act, scene);

    if (!attack)
        return false;
    const bool ended = attack_wait(attack, attacks[i].goes_on ? GOES_ON_MS : ENDS_MS);
    const struct attack_result *result = attack_result(attack);
    const bool late = !ended && !attacks[i].goes_on, gained = result->gained;

    printf("%s: %d tries\n", attacks[i].name, result->tried);
    if (late)
        printf("it has not ended within %d ms\n", ENDS_MS);
    if (gained)
        printf("it has gained something: %s\n", result->words);
    attack_free(attack);
    return !late && !gained;
}

int main(int argc, char **argv)
{
    static struct attack_scene scene = {.flood = FLOOD};
    bool good = true;

    if (argc < 3 || attack_lack()) {
        fprintf(stderr, "usage: strangers RANKS PID..., as root\n");
        return 2;
    }
    scene.ranks = atoi(argv[1]);
    for (int i = 2; i < argc && scene.process_count < ATTACK_PROCESSES; i++)
        scene.processes[scene.process_count++] = atoi(argv[i]);
    know_ports(&scene);
    printf("%d ports\n", scene.port_count);
    for (size_t i = 0; i < sizeof attacks / sizeof attacks[0]; i++)
        good &= gains_nothing(&scene, (int)i);
    return good && scene.port_count ? 0 : 1;
}
