# SPDX-License-Identifier: Apache-2.0
"""Every case of rank_cases.py on 1 to 4 ranks, over shm and tcp."""

import pytest
import rank_cases

STARTS = [(1, "shm"), (2, "shm"), (2, "tcp"), (3, "tcp"), (4, "shm")]


@pytest.mark.parametrize("ranks,backend", STARTS)
@pytest.mark.parametrize("case", rank_cases.CASES)
def test_case(starts, case, ranks, backend):
    starts.check(case, ranks, backend)
