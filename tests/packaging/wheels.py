"""A wheel of the package as it is here."""

import pathlib
import shutil
import subprocess
import sys

from tests import helpers

# What a wheel is made from.
_SOURCES = ("setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE")
_FOLDERS = ("electra_tf", "gin", "tools")


def build(folder: pathlib.Path) -> pathlib.Path:
    """Builds it in a folder, from a copy: a build leaves files behind."""
    copy = folder / "source"
    copy.mkdir()
    for name in _SOURCES:
        shutil.copy(helpers.ROOT / name, copy)
    for name in _FOLDERS:
        shutil.copytree(
            helpers.ROOT / name,
            copy / name,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    result = subprocess.run(
        [
            *(sys.executable, "-c"),
            "from setuptools import build_meta; "
            f"print(build_meta.build_wheel({str(folder)!r}))",
        ],
        cwd=copy,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return folder / result.stdout.splitlines()[-1]
