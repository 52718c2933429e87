/* SPDX-License-Identifier: Apache-2.0 */
/* How a mismatch names the members of each call: as sets, bounded however many members there
 * are. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/inside.h"

enum { MANY = 1000 };

static void call_text(const struct call_fields *fields, char *ret_text, size_t capacity)
{
    snprintf(ret_text, capacity, "broadcast %0100d x f32, root %d", 8, fields->root);
}

static struct control *control_of(int size)
{
    struct control *control = calloc(1, sizeof *control);

    cr_assert_not_null(control);
    control->size = size;
    control->members = calloc((size_t)size, sizeof *control->members);
    control->sides = calloc((size_t)size, sizeof *control->sides);
    cr_assert(control->members && control->sides);
    control->difference.sequence = 7;
    control->call_text = call_text;
    snprintf(control->name, sizeof control->name, "world");
    return control;
}

static void called(struct control *control, int rank, int root)
{
    const struct announce call = {.sequence = 7,
                                  .signature = 100u + (unsigned)root,
                                  .fields = {.operation = OPERATION_BROADCAST, .root = root}};

    sides_answered(control, rank, 7, &call);
}

static void control_drop(struct control *control)
{
    free(control->members);
    free(control->sides);
    free(control);
}

Test(sides, members_are_told_in_sets_and_those_that_say_nothing_are_named)
{
    static const struct announce nothing;
    struct control *control = control_of(9);
    struct control_verdict verdict = {.message = "as proposed"};

    for (int r = 0; r < 6; r++)
        called(control, r, r == 4);
    cr_expect(!sides_complete(control));
    sides_answered(control, 6, 6, &nothing);
    control->members[8].dead = true;
    sides_tell(control, &verdict);
    cr_expect_eq(verdict.culprit, 4);
    cr_expect_not_null(strstr(verdict.message,
                              "group world: members called different things as #7: "
                              "ranks 0-3 and 5: broadcast 0"),
                       "%s", verdict.message);
    cr_expect_not_null(strstr(verdict.message, "root 0; rank 4: broadcast 0"), "%s",
                       verdict.message);
    cr_expect_not_null(strstr(verdict.message, "root 1; rank 6 has not called it; rank 7 has not "
                                               "answered; rank 8 is gone"),
                       "%s", verdict.message);
    called(control, 7, 1);
    cr_expect(sides_complete(control));
    control_drop(control);
}

Test(sides, what_one_side_alone_is_known_of_stays_as_it_was_proposed)
{
    struct control *control = control_of(3);
    struct control_verdict verdict = {.message = "as proposed", .culprit = 2};

    called(control, 0, 0);
    called(control, 1, 0);
    sides_tell(control, &verdict);
    cr_expect_str_eq(verdict.message, "as proposed");
    cr_expect_eq(verdict.culprit, 2);
    control_drop(control);
}

Test(sides, a_thousand_members_with_many_calls_fit_into_the_words)
{
    struct control *control = control_of(MANY);
    struct control_verdict verdict = {.message = "as proposed"};

    for (int r = 0; r < MANY; r++)
        if (r % 3)
            called(control, r, r % 7);
    sides_tell(control, &verdict);
    cr_expect_lt(strlen(verdict.message), CONTROL_MESSAGE_MAX);
    cr_expect_not_null(strstr(verdict.message, "ranks 1, 8, 22, 29, 43, 50, 64, 71 and 88 more: "),
                       "%s", verdict.message);
    cr_expect_not_null(strstr(verdict.message, " more called something else; ranks 0, 3, "), "%s",
                       verdict.message);
    cr_expect_not_null(strstr(verdict.message, " more have not answered"), "%s", verdict.message);
    control_drop(control);
}
