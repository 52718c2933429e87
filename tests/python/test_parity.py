# SPDX-License-Identifier: Apache-2.0
"""docs/parity.md: each name of torch.distributed has a row, and each call of Python that it names
exists, is documented and is tested. C calls and tests are checked by tests/unit/test_parity.c."""

import pathlib
import re

import tutti

ROOT = pathlib.Path(__file__).parents[2]
LEFT_OUT = ("later: ", "not needed: ")
CLASSES = {
    "tutti": [tutti],
    "Group": [tutti.Group],
    "Work": [tutti.Work],
    "Store": [tutti.Store],
    "TCPStore": [tutti.TCPStore],
}


def rows(page):
    """The cells of each row but headings, by the first heading of its table."""
    table = None
    for line in (ROOT / page).read_text().splitlines():
        if not line.startswith("|"):
            table = None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if table is None:
            table = cells[0]
        elif not cells[0].startswith("---"):
            yield table, cells


def python_calls(cell):
    """(owner, name) of each call in a cell: `Group.send()`, `tutti.ANY_SOURCE`."""
    return re.findall(r"`(\w+)\.(\w+)(?:\(\))?`", cell)


def named(cells):
    return [] if cells[2].startswith(LEFT_OUT) else python_calls(cells[2])


def all_calls():
    return [(cells[0], call) for _, cells in rows("docs/parity.md") for call in named(cells)]


def exists(owner, name):
    if hasattr(CLASSES[owner][0], name):
        return True
    # Attributes that the constructor sets.
    return owner != "tutti" and any(
        re.search(rf"self\.{name}\b.* = ", path.read_text())
        for path in (ROOT / "python/tutti").glob("_*.py")
        if re.search(rf"^class {owner}\b", path.read_text(), re.MULTILINE)
    )


def test_each_name_of_torch_has_a_row():
    listed = (ROOT / "tests/python/torch-2.15-names.txt").read_text().splitlines()
    names = [line for line in listed if line and not line.startswith("#")]
    covered = {
        name
        for table, cells in rows("docs/parity.md")
        if table == "torch.distributed"
        for name in re.findall(r"`([\w.]+)[^`]*`", cells[0])
    }
    assert len(names) == 87
    assert not [name for name in names if name not in covered]


def test_each_row_has_a_call_of_python_or_a_reason():
    for _, cells in rows("docs/parity.md"):
        assert len(cells) == 5, cells[0]
        is_op = re.fullmatch(r'`"\w+"`(, `"\w+"`)*', cells[2])
        assert named(cells) or is_op or cells[2].startswith(LEFT_OUT), cells[0]


def test_each_call_of_python_that_is_named_exists():
    calls = all_calls()
    assert len(calls) > 100
    assert not [f"{row}: {owner}.{name}" for row, (owner, name) in calls if not exists(owner, name)]


def test_each_operation_that_is_named_exists():
    from tutti import _ops

    ops = {
        op for _, cells in rows("docs/parity.md") for op in re.findall(r'`"(\w+)"`', cells[2])
    }
    assert ops == set(_ops.NUMBERS)


def test_each_call_of_python_that_is_named_is_tested_and_documented():
    tests = "\n".join(path.read_text() for path in (ROOT / "tests/python").glob("*.py"))
    page = (ROOT / "docs/python.md").read_text()
    for row, (owner, name) in all_calls():
        assert re.search(rf"\.{name}\b", tests), f"{row}: no test uses {owner}.{name}"
        word = name.replace("_async", "") if owner == "Group" else name
        assert re.search(rf"\b{word}\b", page), f"{row}: docs/python.md has no {owner}.{word}"


def test_each_call_of_python_one_may_come_from_exists():
    """Of the table «In Python» in docs/coming-from.md: w is a tutti.Group."""
    page = (ROOT / "docs/coming-from.md").read_text()
    part = page[page.index("## In Python") : page.index("## Launchers")]
    calls = set(re.findall(r"\bw\.(\w+)\(", part.replace("`w.rank`", "")))
    assert {"all_reduce", "split", "send_object"} <= calls
    missing = [name for name in calls if not hasattr(tutti.Group, name)]
    # Those of mpi4py have capitals; its objects go by short names.
    assert not [name for name in missing if not name[0].isupper()]
