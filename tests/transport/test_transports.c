/* SPDX-License-Identifier: Apache-2.0 */
/* Each case of tests/transport in a process of its own, once for each plugin that it is about. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct driver_case {
    char plugin[8];
    char name[32];
    bool encrypted;
};

static struct driver_case cases[192];

static size_t add_cases(size_t count, const char *plugin, const char *const *names)
{
    for (; *names; names++, count++) {
        snprintf(cases[count].plugin, sizeof cases[count].plugin, "%s", plugin);
        snprintf(cases[count].name, sizeof cases[count].name, "%s", *names);
    }
    return count;
}

ParameterizedTestParameters(transports, keeps_its_contract)
{
    static const char *const common[] = {"sizes",   "receives_late", "flood",     "small_forked",
                                         "more",    "more_to_two",   "traffic",   "too_long",
                                         "reports", "disconnect",    "arguments", NULL};
    static const char *const ends[] = {"killed", NULL};
    static const char *const ours[] = {"cancel_receive", "cancel_send", "no_memory", "steady",
                                       NULL};
    static const char *const shm[] = {
        "short", "short_wakes",     "pairs",        "map",          "map_outlives",
        "slots", "bad_descriptors", "hostile_ring", "hostile_pair", NULL};
    static const char *const tcp[] = {"dial_together",
                                      "dial_before_connect",
                                      "close_delivers",
                                      "close_delivers_late",
                                      "leaves_with_the_message",
                                      "garbage",
                                      "forked_child",
                                      "half_open",
                                      "wrong_token",
                                      "replayed",
                                      "mirrored",
                                      "old_core",
                                      "refused",
                                      "descriptors_gone",
                                      "ipv6",
                                      NULL};
    static const char *const gloo[] = {"receive_taken_back",
                                       "send_taken_back",
                                       "leave_who_took_back",
                                       "send_to_who_left",
                                       "reset_at_the_port",
                                       "garbage_at_the_port",
                                       "outsider",
                                       "close_delivers",
                                       "close_delivers_late",
                                       "leaves_with_the_message",
                                       "ipv6",
                                       NULL};
    static const char *const ucx[] = {"cancel_receive",
                                      "cancel_send",
                                      "close_delivers",
                                      "close_delivers_late",
                                      "leaves_with_the_message",
                                      "killed_in_a_piece",
                                      "stopped_in_a_piece",
                                      "short",
                                      "short_wakes",
                                      "steady",
                                      NULL};
    size_t count = add_cases(0, "shm", common);

    count = add_cases(count, "tcp", common);
    count = add_cases(count, "gloo", common);
    count = add_cases(count, "ucx", common);
    count = add_cases(count, "shm", ends);
    count = add_cases(count, "tcp", ends);
    count = add_cases(count, "gloo", ends);
    count = add_cases(count, "ucx", ucx);
    count = add_cases(count, "shm", ours);
    count = add_cases(count, "tcp", ours);
    count = add_cases(count, "shm", shm);
    count = add_cases(count, "tcp", tcp);
    count = add_cases(count, "gloo", gloo);
    const size_t plain = count;
    count = add_cases(count, "tcp", common);
    count = add_cases(count, "tcp", ends);
    count = add_cases(count, "tcp", ours);
    count = add_cases(count, "tcp", tcp);
    for (size_t i = plain; i < count; i++)
        cases[i].encrypted = true;
    return cr_make_param_array(struct driver_case, cases, count);
}

ParameterizedTest(struct driver_case *c, transports, keeps_its_contract, .timeout = 400)
{
    const char *program = c->encrypted ? TUTTI_TRANSPORT_DRIVER "_tls" : TUTTI_TRANSPORT_DRIVER;
    char plugin[512];
    int result;

    snprintf(plugin, sizeof plugin, "%s/libtutti-%s.so", TUTTI_BUILD_PLUGIN_DIR, c->plugin);
    if ((!strcmp(c->plugin, "gloo") || !strcmp(c->plugin, "ucx")) && access(plugin, R_OK) < 0)
        cr_skip_test("the plugin %s is not built", c->plugin);
    pid_t driver = fork();
    if (driver == 0) {
        execl(program, program, plugin, c->name, (char *)NULL);
        _exit(127);
    }
    cr_assert_eq(waitpid(driver, &result, 0), driver);
    cr_assert(WIFEXITED(result) && WEXITSTATUS(result) == 0, "%s%s %s: wait status %#x", c->plugin,
              c->encrypted ? " with TLS" : "", c->name, result);
}
