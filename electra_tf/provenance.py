"""What made a file: versions of packages, and the commit of the code."""

import importlib.metadata
import os
import subprocess
from collections.abc import Iterable


def versions(packages: Iterable[str]) -> dict[str, str | None]:
    """The installed version of each package; None where it is absent."""
    found: dict[str, str | None] = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def git_commit() -> str | None:
    """Commit of the source tree, "-dirty" where it has changes."""
    try:
        result = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40"],
            cwd=os.path.dirname(os.path.abspath(__file__)),
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return result.stdout.strip()
