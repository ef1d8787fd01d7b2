"""What the documents name is there: files, targets, flags, settings, links."""

import dataclasses
import functools
import importlib.util
import json
import re
import shlex

import pytest

import electra_tf
from electra_tf import configs
from electra_tf.command_line import verbs
from electra_tf.finetuning import configs as finetuning_configs
from tests import helpers

ROOT = helpers.ROOT
PACKAGE = ROOT / "electra_tf"
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (
        *ROOT.glob("*.md"),
        *(ROOT / "Makefile", ROOT / "setup.cfg"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "docs").glob("*.ipynb"),
        *(ROOT / "gin").rglob("*.gin"),
        *(ROOT / "electra_tf").rglob("*.py"),
        *(ROOT / "tools").rglob("*.py"),
        *(ROOT / "tools").rglob("*.sh"),
    )
)
# Files of the product, by their folder or by that of the package.
PAGES = [name for name in DOCUMENTS if name.endswith(".md")]
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
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    folders.update(_TOP)
    return {x for x in _FILE.findall(text) if x.split("/")[0] in folders}


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


def fences(page: str, language: str) -> list[str]:
    """The code blocks of a page in a language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^( *)```(\w+)\n(.*?)^\1```", text, re.M | re.S)
    return [code for _, of, code in blocks if of == language]


@functools.cache
def reference():
    path = ROOT / "docs" / "make_reference.py"
    spec = importlib.util.spec_from_file_location("make_reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["cli.md", "config.md"])
def test_the_reference_is_current(name):
    page = (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")
    assert page == reference().PAGES[name](), "python docs/make_reference.py"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)
    links = re.findall(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)", text)
    folder = (ROOT / page).parent
    assert [link for link in links if not (folder / link).exists()] == []


def known_flags() -> dict[str, set[str]]:
    """Verb -> its flags, with underscores."""
    page = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ([\w-]+)$", page, flags=re.M)
    found = {}
    for verb, text in zip(sections[1::2], sections[2::2], strict=True):
        if verb in ("pretrain", "adapt", "finetune"):
            text += sections[0].partition("## Every run")[2]
        entries = re.findall(r"`(--.+?)`", text)
        names = re.findall(r"--([\w-]+)", " ".join(entries))
        found[verb] = {name.replace("-", "_") for name in ("help", *names)}
    return found


def commands(page: str) -> list[list[str]]:
    """The words of each command of electra-tf in a page."""
    found = []
    for block in fences(page, "bash"):
        for line in block.replace("\\\n", " ").split("\n"):
            _, command, words = line.partition("electra-tf ")
            if command:
                found.append(shlex.split(words, comments=True))
    return found


@pytest.mark.parametrize("page", PAGES)
def test_commands_have_verbs_and_flags_that_are_there(page):
    flags = known_flags()
    assert flags.keys() == verbs.VERBS.keys()
    wrong = []
    for verb, *words in commands(page):
        if verb == "--version" or verb == "--help":
            continue
        assert verb in flags, verb
        named = [word[2:].split("=")[0] for word in words if word[:2] == "--"]
        names = {name.replace("-", "_") for name in named}
        wrong += [f"{verb} --{name}" for name in names - flags[verb]]
    assert not wrong


@pytest.mark.parametrize("page", PAGES)
def test_python_of_a_page_compiles(page):
    for code in fences(page, "python"):
        compile(code, page, "exec")


@pytest.mark.parametrize("page", DOCUMENTS)
def test_settings_that_are_named_exist(page):
    classes = {
        name: cls
        for module in (configs, finetuning_configs)
        for name, cls in vars(module).items()
        if dataclasses.is_dataclass(cls)
    }
    names = "|".join(classes)
    text = (ROOT / page).read_text(encoding="utf-8")
    wrong = {
        f"{cls}.{field}"
        for cls, field in re.findall(rf"\b({names})\.([a-z_]+)\b", text)
        if not hasattr(classes[cls], field)
        and field not in classes[cls].__dataclass_fields__
    }
    assert not wrong


def test_the_tree_of_the_readme_is_there():
    """Its lines: a path, at least two spaces, what it is."""
    blocks = fences("README.md", "text")
    trees = [x for x in blocks if re.search(r"^electra_tf/( |$)", x, re.M)]
    assert len(trees) == 1
    folders: list[str] = []
    for line in trees[0].splitlines():
        indent, names = re.match(r"( *)([\w/., -]+?)(?:  |$)", line).groups()
        del folders[len(indent) // 2 :]
        for name in names.split(", "):
            path = "".join(folders) + name
            assert (ROOT / path).exists(), path
        if names.endswith("/"):
            folders.append(names)


def test_the_page_of_the_code_names_every_room():
    text = (ROOT / "docs/explain/how-it-works.md").read_text(encoding="utf-8")
    rooms = [x.name for x in PACKAGE.iterdir() if (x / "__init__.py").exists()]
    assert [room for room in rooms if f"`{room}/`" not in text] == []


def test_the_site_has_every_page():
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    docs = ROOT / "docs"
    pages = [*docs.rglob("*.md"), *docs.rglob("*.ipynb")]
    names = sorted(path.relative_to(docs).as_posix() for path in pages)
    assert [name for name in names if f": {name}\n" not in site] == []


def test_the_page_of_the_python_api_has_every_public_name():
    page = (ROOT / "docs/reference/api.md").read_text(encoding="utf-8")
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
