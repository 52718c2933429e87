/* SPDX-License-Identifier: Apache-2.0 */
/* What a third party's plugin says of itself: its options are shown, checked and compared, its
 * messages have its price, and its launcher is known by its variables. */
#include <criterion/criterion.h>
#include <string.h>

#include "cli/command.h"

#define HERE "TUTTI_PLUGIN_PATH=" TUTTI_KIT_PLUGINS " "
#define OTHER "TUTTI_PLUGIN_PATH=" TUTTI_KIT_PLUGINS "/dearer "
#define RUN HERE "$TUTTI run -n 2 --backend priced -- "
#define HELLO TUTTI_TEST_PROGRAMS "/hello"

TestSuite(about, .timeout = 60);

static void says(const char *command, int code, const char *words)
{
    struct ran r = ran("%s 2>&1", command);

    cr_expect_eq(r.code, code, "%s: %d\n%s", command, r.code, r.out);
    cr_expect(!words || strstr(r.out, words), "no «%s» in:\n%s", words, r.out);
    ran_free(&r);
}

Test(about, options_and_cost_are_shown_by_info)
{
    says(HERE "$TUTTI info", 0, "options TUTTI_PRICED_MODE (fast | safe; default safe),");
    says(HERE "$TUTTI info --json | tr -d ' \n'", 0,
         "\"name\":\"TUTTI_PRICED_MODE\",\"values\":\"fast|safe\",\"default\":\"safe\","
         "\"meaning\":\"Whatittakescareof.\",\"compared\":true");
    says(HERE "$TUTTI info --json | tr -d ' \n'", 0,
         "\"cost\":{\"message_ps\":42000000,\"further_ps\":1000000,\"byte_ps\":1000}");
}

Test(about, messages_have_the_price_that_the_plugin_says)
{
    says(HERE "$TUTTI explain send -b 1000 -n 2 --backend priced --json", 0,
         "\"estimated_us\" : 43.0");
}

/* No cost is said: what reaches one host only has the price of shm. */
Test(about, a_transport_for_one_host_without_a_price_costs_what_shm_does)
{
    struct ran own = ran(HERE "$TUTTI explain send -b 1000 --backend template --json | grep estim");
    struct ran shm = ran("$TUTTI explain send -b 1000 --backend shm --json | grep estim");

    CONTAINS(shm.out, "\"estimated_us\" : 0.38");
    cr_expect_str_eq(own.out, shm.out);
    ran_free(&own);
    ran_free(&shm);
}

Test(about, values_are_checked_and_compared)
{
    says(HERE
         "TUTTI_PRICED_MODE=FAST TUTTI_PRICED_NOTE=well $TUTTI run -n 2 --backend priced " HELLO,
         0, NULL);
    says(HERE "TUTTI_PRICED_MODE=fsat $TUTTI run -n 2 --backend priced " HELLO, 1,
         "TUTTI_PRICED_MODE=fsat is not valid: use fast or safe; did you mean fast?");
    says(HERE "TUTTI_PRICED_MOD=fast $TUTTI run -n 2 --backend priced " HELLO, 0,
         "TUTTI_PRICED_MOD is set, but nothing reads it; did you mean TUTTI_PRICED_MODE?");
    says(RUN "sh -c 'test $RANK = 1 && export TUTTI_PRICED_MODE=fast; exec " HELLO "'", 1,
         "members disagree about TUTTI_PRICED_MODE: rank 0: «safe»; rank 1: «fast»");
    says(RUN "sh -c 'TUTTI_PRICED_NOTE=$RANK exec " HELLO "'", 0, NULL);
}

/* They might choose different algorithms for one call. */
Test(about, members_with_different_prices_make_no_group)
{
    says(RUN "sh -c 'test $RANK = 1 && export " OTHER "; exec " HELLO "'", 1,
         "members disagree about the cost of priced: rank 0: «42000000, 1000000, 1000 ps»; "
         "rank 1: «42000000, 2000000, 1000 ps»");
}

/* The member without the plugin has no settings of it to compare. */
Test(about, a_member_without_the_plugin_is_named_for_that)
{
    says(RUN "sh -c 'test $RANK = 1 && unset TUTTI_PLUGIN_PATH; exec " HELLO "'", 1,
         "backend priced is not usable on rank 1: unknown backend \"priced\"");
}

/* ---- a launcher's variables ---- */

#define LAUNCHED TUTTI_TEST_PROGRAMS "/kit-launched"
#define UNTOLD "unset RANK WORLD_SIZE TUTTI_STORE MASTER_ADDR MASTER_PORT; "

Test(about, ranks_join_by_the_launcher_whose_variables_a_plugin_says)
{
    char *folder = folder_new();
    struct ran r = ran(UNTOLD "export KIT_FOLDER='%s' KIT_SIZE=2; "
                              "KIT_RANK=1 timeout 30 " LAUNCHED " 2>&1 & "
                              "KIT_RANK=0 timeout 30 " LAUNCHED " 2>&1; wait $!",
                       folder);

    cr_expect_eq(r.code, 0, "%d\n%s", r.code, r.out);
    CONTAINS(r.out, "rank 0 of 2: 2\n");
    CONTAINS(r.out, "rank 1 of 2: 2\n");
    ran_free(&r);
    folder_remove(folder);
}

Test(about, a_launcher_without_its_variable_is_not_asked)
{
    says(UNTOLD "unset KIT_SIZE; KIT_RANK=1 " LAUNCHED, 1,
         "cannot tell which rank this is: RANK and WORLD_SIZE are not set");
}

Test(about, an_error_of_a_plugin_that_asks_its_launcher_names_both)
{
    says(UNTOLD "unset KIT_RANK; KIT_SIZE=2 " LAUNCHED, 1,
         "asking the launcher with the plugin kit: kit: KIT_RANK is not set");
}
