/* SPDX-License-Identifier: Apache-2.0 */
/* TUTTI_FAULT: what is read, and what is refused with the place where it goes wrong. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include <tutti/info.h>

#include "fault.h"

enum { SIZE = 4 }; /* of the world */

TestSuite(fault_rules, .timeout = 10);

Test(fault_rules, conditions_and_actions_are_read)
{
    struct fault_rules rules;
    char words[FAULT_WORDS_MAX];

    cr_assert(fault_rules_parse("rank=2,op=all_reduce,seq=3-5:delay=50ms;peer=1:drop=0.25;seed=7;"
                                "seq=4-:close;corrupt;rank=0:kill=.5;op=send:delay=1.5s",
                                SIZE, &rules, words),
              "%s", words);
    cr_expect_eq(rules.seed, 7);
    cr_assert_eq(rules.count, 6);
    const struct fault_rule *r = rules.rule;
    cr_expect(r[0].rank == 2 && !strcmp(r[0].op, "all_reduce") && r[0].first == 3 &&
              r[0].last == 5);
    cr_expect(r[0].action == FAULT_DELAY && r[0].delay_ns == 50000000 && !r[0].of_messages);
    cr_expect(r[1].peer == 1 && r[1].action == FAULT_DROP && r[1].chance == 0.25);
    cr_expect(r[1].of_messages && r[1].rank == FAULT_ANY);
    cr_expect(r[2].action == FAULT_CLOSE && r[2].first == 4 && r[2].last == UINT64_MAX);
    cr_expect(!r[2].of_messages && r[2].chance == 1);
    cr_expect(r[3].action == FAULT_CORRUPT && r[3].of_messages);
    cr_expect(r[4].action == FAULT_KILL && r[4].chance == 0.5);
    cr_expect(r[5].delay_ns == 1500000000);
}

Test(fault_rules, nonsense_is_refused_with_its_place)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "rule 1, byte 0, \"\": a rule is CONDITIONS:ACTION"},
        {"explode", "rule 1, byte 0, \"explode\": a rule is CONDITIONS:ACTION"},
        {"rank=1", "rule 1, byte 0, \"rank=1\": a rule is CONDITIONS:ACTION"},
        {"rnk=1:drop", "rule 1, byte 0, \"rnk=1\": the conditions are"},
        {"rank=1,:drop", "rule 1, byte 7, \"\": the conditions are"},
        {"rank=-1:drop", "rule 1, byte 0, \"rank=-1\": a rank is"},
        {"rank=99999999999:drop", "a rank is a whole number"},
        {"peer=1x:drop", "a rank is a whole number"},
        {"rank=0,rank=4:kill", "rule 1, byte 7, \"rank=4\": the last rank of this world is 3"},
        {"drop;peer=9:drop", "rule 2, byte 5, \"peer=9\": the last rank of this world is 3"},
        {"op=allreduce:drop",
         "rule 1, byte 0, \"op=allreduce\": no such operation; there are all_reduce, broadcast"},
        {"rank=1,op=barier:drop", "rule 1, byte 7, \"op=barier\": no such operation"},
        {"op=all_reduce,op=all:drop", "byte 14, \"op=all\": no such operation"},
        {"op=All:drop", "no such operation"},
        {"op=:drop", "no such operation"},
        {"seq=0:kill", "a sequence is"},
        {"seq=5-3:kill", "a sequence is"},
        {"seq=18446744073709551616:kill", "a sequence is"},
        {"rank=1:kill;rank=2:delay", "rule 2, byte 19, \"delay\": a delay needs a time"},
        {"delay=5", "a delay is a number and us, ms or s"},
        {"delay=5min", "a delay is a number and us, ms or s"},
        {"delay=4000s", "an hour at most"},
        {"drop=2", "a chance is a number from 0 to 1"},
        {"drop=-0.1", "a chance is a number from 0 to 1"},
        {"drop=", "a chance is a number from 0 to 1"},
        {"dropped", "the actions are"},
        {"seed=x", "a seed is a whole number"},
        {"drop;", "rule 2, byte 5, \"\""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fault_rules rules;
        char words[FAULT_WORDS_MAX] = "";

        cr_expect_not(fault_rules_parse(cases[i].text, SIZE, &rules, words), "%s", cases[i].text);
        cr_expect_not_null(strstr(words, cases[i].words), "%s: %s", cases[i].text, words);
    }
}

Test(fault_rules, every_operation_may_be_named)
{
    for (int32_t number = 1; tutti_operation_name(number); number++) {
        const char *name = tutti_operation_name(number);
        char text[64], words[FAULT_WORDS_MAX];
        struct fault_rules rules;

        snprintf(text, sizeof text, "op=%s:drop", name);
        cr_expect(fault_rules_parse(text, SIZE, &rules, words), "%s", words);
        cr_expect_str_eq(rules.rule[0].op, name);
    }
}

Test(fault_rules, more_rules_than_there_is_room_for_are_refused)
{
    char text[8 * (FAULT_RULES_MAX + 1)] = "", words[FAULT_WORDS_MAX];
    struct fault_rules rules;

    for (int i = 0; i < FAULT_RULES_MAX; i++)
        strcat(text, i ? ";drop" : "drop");
    cr_expect(fault_rules_parse(text, SIZE, &rules, words));
    strcat(text, ";drop");
    cr_expect_not(fault_rules_parse(text, SIZE, &rules, words));
    cr_expect_not_null(strstr(words, "rule 33"), "%s", words);
}

Test(fault_rules, a_chance_falls_as_often_as_it_says_and_by_the_seed)
{
    struct fault_rules rules, other;
    char words[FAULT_WORDS_MAX];
    int fell = 0, same = 0;

    cr_assert(fault_rules_parse("drop=0.25;seed=7", SIZE, &rules, words));
    cr_assert(fault_rules_parse("drop=0.25;seed=8", SIZE, &other, words));
    for (uint64_t n = 0; n < 10000; n++) {
        bool here = fault_falls(&rules, &rules.rule[0], 1, 2, n);

        fell += here;
        same += here == fault_falls(&other, &other.rule[0], 1, 2, n);
    }
    cr_expect(fell > 2300 && fell < 2700, "%d of 10000", fell);
    cr_expect(same > 5900 && same < 6600, "%d of 10000 the same", same); /* 0.25² + 0.75² */
}
