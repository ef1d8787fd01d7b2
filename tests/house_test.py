"""The package's own order: short modules, few at its root, nothing private.

The directions of imports are contracts in setup.cfg, checked by `make lint`.
"""

import ast
import re

import pytest

from tests import helpers

MOST_LINES = 700
MOST_MODULES_IN_THE_ROOT = 11  # Beside __init__ and __main__.

ROOT = helpers.ROOT
MODULES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("electra_tf", "tools")
    for path in (ROOT / folder).rglob("*.py")
)


def test_there_are_few_modules_in_the_root():
    in_the_root = [path for path in MODULES if path.count("/") == 1]
    in_the_root = [p for p in in_the_root if re.match(r"electra_tf/(?!__)", p)]
    assert 0 < len(in_the_root) <= MOST_MODULES_IN_THE_ROOT


@pytest.mark.parametrize("path", MODULES)
def test_a_module_is_short(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    assert text.count("\n") <= MOST_LINES


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
