"""Installed packages -> the prose of their docstrings, file by file."""

import ast
import gc
import multiprocessing
import os
import pathlib
import signal
import sys
import sysconfig
import typing
import warnings
from collections.abc import Iterator, Sequence

from docstring_prose import clean_docstring

from electra_tf import errors
from electra_tf.command_line import progress

# Copies of other packages, re-exports and tests: no prose of their own.
_SKIPPED = """
_api _vendor _vendored extern externals third_party vendor vendored __pycache__
dist-packages idle_test lib2to3 site-packages test tests testing electra_tf
"""
_MAX_FILE_BYTES = 2_000_000
_MIN_DOCSTRING_CHARACTERS = 40
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class SourceFile(typing.NamedTuple):
    """A Python file.

    Attributes:
      module: Its path inside its package's parent: "scipy/stats/_qmc.py",
        "python/argparse.py".
      package: That it belongs to.
      path: Where it is.
    """

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
    for folder in [root] if root else [*usual, *sys.path]:
        if not root and not folder.endswith(("site-packages", "dist-packages")):
            continue
        for entry in os.scandir(folder) if os.path.isdir(folder) else ():
            name = entry.name.removesuffix(".py")
            is_module = entry.is_dir() or entry.name.endswith(".py")
            if (
                is_module
                and name.isidentifier()
                and name not in _SKIPPED.split()
            ):
                places.setdefault(name, entry.path)
    if missing := sorted(set(packages) - set(places)):
        raise errors.ConfigError(
            f"--packages: not installed here: {', '.join(missing)}"
        )
    return sorted(
        file
        for package in packages or places
        for file in _walk(package, places[package])
    )


def _walk(package: str, place: str) -> Iterator[SourceFile]:
    if place.endswith(".py"):
        yield SourceFile(f"{package}.py", package, place)
    for folder, subfolders, names in os.walk(place):
        subfolders[:] = set(subfolders).difference(_SKIPPED.split())
        for name in names:
            path = pathlib.Path(folder, name)
            is_test = name.startswith("test_") or name.endswith("_test.py")
            if name.endswith(".py") and not is_test and path.exists():
                module = f"{package}/{path.relative_to(place).as_posix()}"
                yield SourceFile(module, package, str(path))


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
    with multiprocessing.Pool(num_processes, _start_worker) as pool:
        read = pool.imap(read_file, files, chunksize=8)
        for number, documents in enumerate(read, 1):
            live.update(number, "files")
            yield documents
    live.close()


def _start_worker() -> None:
    # Without the collector `ast.parse` takes half the time; trees hold no
    # cycles, so that nothing is lost.
    gc.disable()
    # Ctrl-C is the parent's to handle, or each worker prints a traceback.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
