/* SPDX-License-Identifier: Apache-2.0 */
/* An old plugin in this core, a new one, and this core's plugins in an older and in a newer one. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/launch.h"

TestSuite(compat, .timeout = 400);

static void run_over(const char *folder)
{
    static const char *const cases[] = {
        "ring_by_hand_with_large_messages",
        "a_small_message_overtakes_a_large_one_that_nobody_receives",
        "many_works_in_flight_complete_in_any_order_of_waiting",
        "init_and_destroy_again_and_again",
    };
    char path[1024];

    snprintf(path, sizeof path, "TUTTI_PLUGIN_PATH=%s/%s", TUTTI_KIT_PLUGINS, folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect(ranks_run(&(struct ranks_options){.program = "rank_api",
                                                    .case_name = cases[i],
                                                    .size = 3,
                                                    .backend = "template",
                                                    .env = (const char *[]){path, NULL},
                                                    .timeout_ms = 120000}));
}

Test(compat, a_plugin_of_the_first_minor_runs_in_this_core)
{
    run_over("old");
}

Test(compat, a_plugin_of_a_later_minor_runs_in_this_core)
{
    run_over("new");
}

/* The transport driver plays a core whose host services end earlier, or go on, see mock.c. */
static void drive(const char *plugin, const char *host)
{
    static const char *const cases[] = {"sizes", "more", "too_long", "killed"};
    char path[1024];

    snprintf(path, sizeof path, "%s/libtutti-%s.so", TUTTI_BUILD_PLUGINS, plugin);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int result;
        pid_t driver = fork();

        if (driver == 0) {
            setenv("TRANSPORT_DRIVER_HOST", host, 1);
            execl(TUTTI_TRANSPORT_DRIVER, TUTTI_TRANSPORT_DRIVER, path, cases[i], (char *)NULL);
            _exit(127);
        }
        cr_assert_eq(waitpid(driver, &result, 0), driver);
        cr_expect(WIFEXITED(result) && WEXITSTATUS(result) == 0, "%s in an %s core, %s: %#x",
                  plugin, host, cases[i], result);
    }
}

/* tcp needs a service of minor 6 to tell members from strangers (case old_core of the driver). */
Test(compat, shm_runs_in_a_core_of_the_first_minor)
{
    drive("shm", "old");
}

Test(compat, our_plugins_run_in_a_core_of_a_later_minor)
{
    drive("shm", "new");
    drive("tcp", "new");
}
