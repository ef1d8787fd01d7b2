"""Each promise of docs/promises.md has a test that is there."""

import ast
import functools
import re

import pytest

from tests import helpers, house_test

TEXT = (helpers.ROOT / "docs" / "promises.md").read_text(encoding="utf-8")
# | what the product does | `tests/model/x_test.py::test_y` |
_PROMISE = re.compile(r"\| [^|]+ \| `(tests/[\w/]+\.py)::(test_\w+)` \|")


@functools.cache
def functions_of(path: str) -> set[str]:
    """The names of the test functions of a file; none where there is none."""
    file = helpers.ROOT / path
    if not file.exists():
        return set()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}


def promises(text: str) -> dict[str, list[tuple[str, str]]]:
    """Room -> (path, name) of each test."""
    rooms: dict[str, list[tuple[str, str]]] = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, rows = section.partition("\n")
        rooms[title] = []
        for row in re.findall(r"^\| (?!promise|---).*", rows, re.MULTILINE):
            match = _PROMISE.fullmatch(row)
            assert match, f"Expected a promise and a test's id: {row}"
            rooms[title].append((match[1], match[2]))
    return rooms


@pytest.mark.parametrize("room", promises(TEXT))
def test_each_promise_has_its_test(room):
    missing = [
        f"{path}::{name}"
        for path, name in promises(TEXT)[room]
        if name not in functions_of(path)
    ]
    assert missing == []


def test_each_room_has_a_promise():
    rooms = promises(TEXT)
    assert set(rooms) == house_test.BUDGETS.keys() - {"tests"}
    assert all(rooms.values())


def test_a_test_that_is_gone_is_noticed():
    row = "## tools\n\n| It does | `tests/promises_test.py::test_gone` |\n"
    ((path, name),) = promises(row)["tools"]
    assert name not in functions_of(path)
    assert "test_each_room_has_a_promise" in functions_of(path)
