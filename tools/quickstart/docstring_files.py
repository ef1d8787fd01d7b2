"""Installed packages -> the prose of their docstrings, file by file."""

import ast
import dataclasses
import gc
import importlib.metadata
import multiprocessing
import os
import pathlib
import platform
import re
import signal
import sys
import sysconfig
import warnings
from collections.abc import Iterable, Iterator, Sequence

from docstring_prose import clean_docstring

from electra_tf import errors

STANDARD_LIBRARY = "python"

# Copies of other packages, re-exports and tests: no prose of their own.
_COPIES = "_api _vendor _vendored extern externals third_party vendor vendored"
_OTHERS = "__pycache__ dist-packages idle_test lib2to3 site-packages"
SKIPPED_DIRS = {*_COPIES.split(), *_OTHERS.split(), "test", "tests", "testing"}
SKIPPED_PACKAGES = frozenset(["electra_tf"])

MAX_FILE_BYTES = 2_000_000
MAX_FILE_CHARACTERS = 300_000  # Of clean prose; the rest of a file is dropped.
MIN_DOCSTRING_CHARACTERS = 40


@dataclasses.dataclass(frozen=True)
class SourceFile:
    """A Python file.

    Attributes:
      package: That it belongs to.
      module: Its path inside its package's parent: "scipy/stats/_qmc.py",
        "python/argparse.py".
      path: Where it is.
      num_bytes: Its size.
    """

    package: str
    module: str
    path: str
    num_bytes: int


@dataclasses.dataclass(frozen=True)
class FileProse:
    """The clean documents of one file, or why there are none.

    Attributes:
      documents: Sentences of each docstring.
      problem: "no_docstring", "too_large", "unreadable", or empty.
      num_over_file_cap: Docstrings left out, as the file had enough of them.
    """

    documents: tuple[tuple[str, ...], ...] = ()
    problem: str = ""
    num_over_file_cap: int = 0


_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def extract_docstrings(tree: ast.Module) -> Iterator[str]:
    """Yields docstrings in the order of the source.

    NumPy and SciPy document compiled functions by calls of `add_newdoc`; their
    strings count as docstrings.
    """
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, _DOCUMENTED):
            if docstring := ast.get_docstring(node, clean=False):
                yield docstring
        elif isinstance(node, ast.Expr):
            yield from _add_newdoc_strings(node.value)
            continue
        for field in ("finalbody", "handlers", "orelse", "body"):
            children = getattr(node, field, None)
            if isinstance(children, list):
                stack.extend(reversed(children))


def _add_newdoc_strings(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, ast.Call):
        return
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if not name.startswith("add_newdoc"):
        return
    for argument in node.args:
        for part in ast.walk(argument):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value


def read_file(source: SourceFile) -> FileProse:
    """Parses and cleans one file; a broken file is reported, never fatal."""
    if source.num_bytes > MAX_FILE_BYTES:
        return FileProse(problem="too_large")
    try:
        content = pathlib.Path(source.path).read_bytes()
        if b'"""' not in content and b"'''" not in content:
            return FileProse(problem="no_docstring")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Invalid escapes in old code.
            tree = ast.parse(content)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return FileProse(problem="unreadable")
    documents = []
    num_characters = num_over_cap = 0
    for docstring in extract_docstrings(tree):
        if len(docstring) < MIN_DOCSTRING_CHARACTERS:
            continue
        if num_characters > MAX_FILE_CHARACTERS:
            num_over_cap += 1
            continue
        sentences = clean_docstring(docstring)
        num_characters += sum(map(len, sentences))
        documents.append(tuple(sentences))
    return FileProse(tuple(documents), "", num_over_cap)


def installed_roots() -> tuple[list[str], str]:
    """Directories of installed packages, and that of the standard library."""
    paths = sysconfig.get_paths()
    candidates = [paths["purelib"], paths["platlib"], *sys.path]
    roots = [
        path
        for path in dict.fromkeys(candidates)
        if os.path.basename(path) in ("site-packages", "dist-packages")
        and os.path.isdir(path)
    ]
    return roots, paths["stdlib"]


def find_files(
    roots: Sequence[str], stdlib_root: str | None, packages: Sequence[str]
) -> list[SourceFile]:
    """Lists the Python files of packages, sorted by module path.

    Args:
      roots: site-packages directories; the first that has a package wins.
      stdlib_root: Directory of the standard library, named "python"; or None.
      packages: Names to read; empty for all.

    Raises:
      ConfigError: If a package is not installed.
    """
    places: dict[str, str] = {}
    if stdlib_root:
        places[STANDARD_LIBRARY] = stdlib_root
    for root in roots:
        try:
            entries = sorted(os.scandir(root), key=lambda entry: entry.name)
        except OSError as error:
            raise errors.ConfigError(
                f"Cannot read {root}: {error.strerror}."
            ) from None
        for entry in entries:
            name = entry.name.removesuffix(".py")
            is_module = entry.is_dir() or entry.name.endswith(".py")
            if is_module and name.isidentifier():
                places.setdefault(name, entry.path)
    for name in SKIPPED_DIRS | SKIPPED_PACKAGES:
        places.pop(name, None)
    if missing := sorted(set(packages) - set(places)):
        raise errors.ConfigError(
            f"--packages: not installed under {', '.join(roots)}: "
            f"{', '.join(missing)}."
        )
    files = [
        file
        for name in (packages or places)
        for file in _walk_package(name, places[name])
    ]
    return sorted(files, key=lambda file: file.module)


def _walk_package(package: str, place: str) -> Iterator[SourceFile]:
    if place.endswith(".py"):
        size = os.path.getsize(place)
        yield SourceFile(package, package + ".py", place, size)
        return
    for directory, subdirs, names in os.walk(place):
        subdirs[:] = [name for name in subdirs if name not in SKIPPED_DIRS]
        for name in names:
            if not name.endswith(".py"):
                continue
            if name.startswith("test_") or name.endswith("_test.py"):
                continue
            path = os.path.join(directory, name)
            relative = pathlib.Path(os.path.relpath(path, place)).as_posix()
            try:
                size = os.path.getsize(path)
            except OSError:  # A dangling link.
                continue
            yield SourceFile(package, f"{package}/{relative}", path, size)


def _start_worker() -> None:
    # Without the collector `ast.parse` takes half the time; trees hold no
    # cycles, so that nothing is lost.
    gc.disable()
    # Ctrl-C is the parent's to handle, or each worker prints a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def read_files(
    files: Sequence[SourceFile], num_processes: int
) -> Iterator[FileProse]:
    """Yields the prose of each file, in the order of `files`."""
    if num_processes == 1:
        yield from map(read_file, files)
        return
    with multiprocessing.Pool(num_processes, initializer=_start_worker) as pool:
        yield from pool.imap(read_file, files, chunksize=8)


def package_versions(
    roots: Sequence[str], packages: Iterable[str]
) -> dict[str, str]:
    """Returns the installed version of each package, "" where unknown."""
    versions: dict[str, str] = {}
    for distribution in importlib.metadata.distributions(path=list(roots)):
        top_level = distribution.read_text("top_level.txt")
        if top_level is None:
            record = distribution.read_text("RECORD") or ""
            names = {re.split(r"[/,]", row)[0] for row in record.split("\n")}
        else:
            names = set(top_level.split())
        for name in sorted(names):
            versions.setdefault(name.removesuffix(".py"), distribution.version)
    versions[STANDARD_LIBRARY] = platform.python_version()
    return {name: versions.get(name, "") for name in sorted(packages)}
