"""Files, modules and targets that the documents name are there."""

import importlib.util
import json
import re

import pytest

import electra_tf
from tests import helpers

ROOT = helpers.ROOT
PACKAGE = ROOT / "electra_tf"
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (
        ROOT / "README.md",
        ROOT / "Makefile",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs").glob("*.ipynb"),
        *(ROOT / "gin").rglob("*.gin"),
        *(ROOT / "electra_tf").rglob("*.py"),
        *(ROOT / "tools").rglob("*.py"),
        *(ROOT / "tools").rglob("*.sh"),
    )
)
# Files of the product, by their folder or by that of the package.
_FILE = re.compile(
    r"(?<![\w./<-])((?:[\w-]+/)+[\w-]+\.(?:py|gin|md|sh|png))(?![\w/])"
)
# A file by its name alone, but for what is to be written or the original has.
_NAME = re.compile(r"`(\w+\.py)`")
_OF_OTHERS = {
    "rhymes.py",
    "build_openwebtext_pretraining_dataset.py",
    "configure_finetuning.py",
    "configure_pretraining.py",
    "flops_computation.py",
    "preprocessing.py",
}
_MODULE = re.compile(r"python3? -m (electra_tf[\w.]*)")
_TARGET = re.compile(r"`make ([\w-]+)")
_TOP = ("electra_tf", "gin", "tools", "tests", "docs")
# Once: it is a look at hundreds of files.
_MODULES = {path.name for top in _TOP for path in (ROOT / top).rglob("*.py")}


def named_files(text: str) -> set[str]:
    """Paths that a text names, of folders that the product has."""
    rooms = {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    found = set()
    for path in _FILE.findall(text):
        first = path.split("/")[0]
        if first in _TOP or first in rooms:
            found.add(path)
    return found


def is_there(name: str, document: str) -> bool:
    # gin files name what they include by its path from their own folder.
    places = (ROOT, PACKAGE, (ROOT / document).parent)
    return any((place / name).exists() for place in places)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_names_what_is_there(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    missing = {
        name for name in named_files(text) if not is_there(name, document)
    }
    missing |= set(_NAME.findall(text)) - _MODULES - _OF_OTHERS
    missing |= {
        module
        for module in _MODULE.findall(text)
        if importlib.util.find_spec(module.rstrip(".")) is None
    }
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    missing |= {
        f"make {target}"
        for target in _TARGET.findall(text)
        if not re.search(rf"^(?:\.PHONY:.*\b)?{target}\b", targets, re.M)
    }
    assert not missing


def documented_tree() -> list[str]:
    """The paths of the tree of docs/code.md, from the indentation of lines."""
    section = (ROOT / "docs" / "code.md").read_text(encoding="utf-8")
    found, folders = [], []
    for line in section.split("\n"):
        match = re.match(r"    ((?:  )*)([\w/.,* -]+?)(?:  .*)?$", line)
        if not match or not re.search(r"[/.]", match[2]):
            continue
        depth = len(match[1]) // 2
        for name in match[2].split(", "):
            if name.endswith("/"):
                folders[depth:] = [name]
            found.append("".join(folders[:depth]) + name)
    return found


def test_the_documented_tree_is_the_product():
    tree = documented_tree()
    assert tree
    missing = [path for path in tree if not (ROOT / path).exists()]
    assert not missing
    rooms = {
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.iterdir()
        if path.name not in ("__pycache__",)
    }
    assert rooms <= {path.rstrip("/") for path in tree}


def test_the_site_has_every_document():
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    documents = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
    assert [name for name in documents if f"- {name}\n" not in site] == []


def test_the_readme_leads_to_every_document():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    documents = [
        f"docs/{path.name}"
        for path in (ROOT / "docs").iterdir()
        if path.suffix in (".md", ".ipynb")
    ]
    assert [name for name in documents if f"]({name})" not in text] == []


def test_the_page_of_the_python_api_has_every_public_name():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    modules = electra_tf.registration.CLASSES
    public = [name for name in electra_tf.__all__ if name in modules]
    assert public
    assert [
        name
        for name in public
        if f"::: {modules[name]}.{name}\n" not in page
        or f"{{heading: electra_tf.{name}}}" not in page
    ] == []


def test_the_tutorial_is_short_and_has_what_came_out():
    text = (ROOT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8")
    cells = [x for x in json.loads(text)["cells"] if x["cell_type"] == "code"]
    lines = [
        line.strip() for x in cells for line in "".join(x["source"]).split("\n")
    ]
    code = [line for line in lines if line and not line.startswith("#")]
    assert 0 < len(code) <= 150
    counts = [cell["execution_count"] for cell in cells]
    assert counts == list(range(1, len(cells) + 1))
    kinds = [
        kind
        for cell in cells
        for output in cell["outputs"]
        for kind in output.get("data", [output["output_type"]])
    ]
    assert kinds.count("image/png") == 3
    assert "error" not in kinds
