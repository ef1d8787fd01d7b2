"""The package's own order: rooms with a budget, and nothing private.

The directions of imports are contracts in setup.cfg, checked by `make lint`.

    python -m tests.house_test    prints the lines and the budget of each room
"""

import ast
import functools

import pytest

from tests import helpers

# Lines of Python in each folder and those below it that have no room of their
# own, docstrings and blank lines included. Lower a budget whenever the room
# shrinks. What exceeds it takes something away first, there or in another room.
BUDGETS = {
    "electra_tf": 2955,
    "electra_tf/checkpoints": 4416,
    "electra_tf/command_line": 2136,
    "electra_tf/finetuning": 3481,
    "electra_tf/inference": 1063,
    "electra_tf/keras_models": 3852,
    "electra_tf/model": 4438,
    "electra_tf/pretraining_data": 4342,
    "electra_tf/serving": 2098,
    "electra_tf/tasks": 3994,
    "electra_tf/text": 1216,
    "electra_tf/training": 2765,
    "tests": 32999,
    "tools": 533,
    "tools/benchmarks": 1828,
    "tools/experiments": 1636,
    "tools/quickstart": 1136,
}
# Folders whose files are theirs alone: a folder in them needs a room.
WITHOUT_SUBFOLDERS = ("electra_tf", "tools")

ROOT = helpers.ROOT
FILES = sorted(
    path.relative_to(ROOT)
    for folder in ("electra_tf", "tests", "tools")
    for path in (ROOT / folder).rglob("*.py")
)
MODULES = [path.as_posix() for path in FILES if path.parts[0] != "tests"]


def room_of(path) -> str:
    """The innermost folder with a budget that a file is in; "" for none."""
    for folder in path.parents:
        room = folder.as_posix()
        if room in BUDGETS:
            is_its_own = folder == path.parent or room not in WITHOUT_SUBFOLDERS
            return room if is_its_own else ""
    return ""


@functools.cache
def lines_of_rooms() -> dict[str, int]:
    """Room -> lines of Python."""
    lines = dict.fromkeys(BUDGETS, 0)
    for path in FILES:
        text = (ROOT / path).read_text(encoding="utf-8")
        lines[room_of(path)] = lines.get(room_of(path), 0) + text.count("\n")
    return lines


@pytest.mark.parametrize("room", BUDGETS)
def test_a_room_keeps_to_its_budget(room):
    assert 0 < lines_of_rooms()[room] <= BUDGETS[room]


def test_each_file_is_in_a_room():
    assert [path.as_posix() for path in FILES if not room_of(path)] == []


def private_names(text: str) -> set[str]:
    """What a module takes of others' private names, such as "losses._auc"."""
    tree = ast.parse(text)
    modules, found = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (
            (node.module or "").split(".")[0] in ("electra_tf", "tools")
        ):
            for name in node.names:
                modules.add(name.asname or name.name)
                if name.name.startswith("_"):
                    found.add(f"{node.module}.{name.name}")
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in modules
            and node.attr.startswith("_")
            and not node.attr.startswith("__")
        ):
            found.add(f"{node.value.id}.{node.attr}")
    return found


@pytest.mark.parametrize("path", MODULES)
def test_a_module_keeps_to_what_others_offer(path):
    assert not private_names((ROOT / path).read_text(encoding="utf-8"))


def test_private_names_are_found():
    assert private_names(
        "from electra_tf.model import losses, encoder as e\n"
        "from electra_tf.files import _open\n"
        "x = losses._auc(e.Encoder, e._secret, e.__name__)\n"
    ) == {"losses._auc", "e._secret", "electra_tf.files._open"}


def print_table() -> None:
    lines = lines_of_rooms()
    for room, budget in BUDGETS.items():
        print(f"{room:30} {lines[room]:6,} of {budget:6,}")
    package = sum(lines.values()) - lines["tests"]
    print(f"{'electra_tf and tools':30} {package:6,}")


if __name__ == "__main__":
    print_table()
