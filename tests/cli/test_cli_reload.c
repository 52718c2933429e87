/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that load libtutti on demand, and unload it. */
#include <criterion/criterion.h>
#include <string.h>

#include "command.h"

Test(reload, a_library_that_is_unloaded_and_loaded_again_meets_again, .timeout = 150)
{
#ifdef __SANITIZE_ADDRESS__
    cr_skip_test("AddressSanitizer's runtime cannot be loaded by dlopen()");
#endif
    struct ran r = ran("for backend in shm tcp; do timeout 60 $TUTTI run -n 2 --backend $backend "
                       "%s/loads_anew %s || exit 1; done",
                       TUTTI_TEST_PROGRAMS, TUTTI_LIBRARY);

    cr_assert_eq(r.code, 0, "%s%s", r.out, r.err);
    cr_assert_not_null(strstr(r.out, "[0] joined three times"), "%s", r.out);
    cr_assert_not_null(strstr(r.out, "[1] joined three times"), "%s", r.out);
    ran_free(&r);
}
