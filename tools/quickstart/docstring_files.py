"""Installed packages -> the prose of their docstrings, file by file."""

import ast
import itertools
import multiprocessing
import os
import pathlib
import re
import signal
import sysconfig
import typing
import warnings
from collections.abc import Iterator, Sequence

from docstring_prose import clean_docstring

from electra_tf import errors
from electra_tf.command_line import progress

# Copies of other packages, re-exports and tests: no prose of their own.
_COPIES = """
_api _vendor _vendored extern externals third_party vendor vendored __pycache__
idle_test lib2to3 test tests testing dist-packages site-packages electra_tf
"""
_SKIPPED = set(_COPIES.split())
_SOURCE = re.compile(r"(?!test_).*(?<!_test)\.py$")
_MAX_FILE_BYTES = 2_000_000
_MIN_DOCSTRING_CHARACTERS = 40
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class SourceFile(typing.NamedTuple):
    """A Python file; its module is "scipy/stats/_qmc.py", say."""

    module: str
    package: str
    path: str


def find_files(root: str, packages: Sequence[str]) -> list[SourceFile]:
    """Lists the Python files of packages, sorted by module.

    Args:
      root: Folder of packages; '' for this Python's site-packages, and its
        standard library, which is named "python".
      packages: Names; empty for all.

    Raises:
      ConfigError: If a package is not installed.
    """
    places = {} if root else {"python": sysconfig.get_path("stdlib")}
    usual = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    for entry in itertools.chain(*map(os.scandir, [root] if root else usual)):
        name = entry.name.removesuffix(".py")
        if name.isidentifier() and (entry.is_dir() or name != entry.name):
            places.setdefault(name, entry.path)
    if missing := sorted(set(packages) - set(places)):
        raise errors.ConfigError(
            f"--packages: not installed here: {', '.join(missing)}"
        )
    files = []
    for package in set(packages or places) - _SKIPPED:
        place = places[package]
        if os.path.isfile(place):
            files.append(SourceFile(f"{package}.py", package, place))
        for folder, subfolders, names in os.walk(place):
            subfolders[:] = set(subfolders) - _SKIPPED
            files += [
                SourceFile(path.replace(place, package, 1), package, path)
                for path in (f"{folder}/{x}" for x in names if _SOURCE.match(x))
            ]
    return sorted(files)


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Yields docstrings in the order of the source.

    NumPy and SciPy document compiled functions by calls of `add_newdoc`; their
    strings count as docstrings.
    """
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, _DOCUMENTED):
            yield ast.get_docstring(node, clean=False) or ""
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = node.value.func
            name = getattr(called, "attr", getattr(called, "id", ""))
            if name.startswith("add_newdoc"):
                for part in ast.walk(node):
                    text = getattr(part, "value", None)
                    if isinstance(text, str):
                        yield text
        for field in ("finalbody", "handlers", "orelse", "body"):
            children = getattr(node, field, None)
            if isinstance(children, list):
                stack.extend(reversed(children))


def read_file(file: SourceFile) -> list[list[str]]:
    """The sentences of each docstring; none of a file that does not parse."""
    try:
        content = pathlib.Path(file.path).read_bytes()
        has_text = b'"""' in content or b"'''" in content
        if not has_text or len(content) > _MAX_FILE_BYTES:
            return []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Invalid escapes in old code.
            tree = ast.parse(content)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [
        clean_docstring(text)
        for text in docstrings(tree)
        if len(text) >= _MIN_DOCSTRING_CHARACTERS
    ]


def read_files(
    files: Sequence[SourceFile], num_processes: int
) -> Iterator[list[list[str]]]:
    """Yields what `read_file` returns of each file, in the order of `files`."""
    live = progress.Progress("reading", len(files))
    # Ctrl-C is the parent's to handle, or each worker prints a traceback.
    ignored = (signal.SIGINT, signal.SIG_IGN)
    with multiprocessing.Pool(num_processes, signal.signal, ignored) as pool:
        read = pool.imap(read_file, files, chunksize=8)
        for number, documents in enumerate(read, 1):
            live.update(number, "files")
            yield documents
    live.close()
