"""gin/ and tools/: beside the package in a checkout, in it once installed."""

import pathlib

_PACKAGE = pathlib.Path(__file__).parent


def root() -> pathlib.Path:
    """The folder that has gin/ and tools/."""
    installed = (_PACKAGE / "gin").is_dir()
    return _PACKAGE if installed else _PACKAGE.parent


def door(name: str) -> pathlib.Path:
    """The file of a command.

    Args:
      name: Of a module, such as "electra_tf.predict", or of a script, such as
        "tools/build_vocab.py".

    Returns:
      Its path; for a package, that of what runs.
    """
    if name.endswith(".py"):
        return root() / name
    path = _PACKAGE.joinpath(*name.split(".")[1:])
    return path / "__main__.py" if path.is_dir() else path.with_suffix(".py")


def gin_files() -> list[str]:
    """What --gin_file can name anywhere, such as "gin/small.gin"."""
    paths = (root() / "gin").rglob("*.gin")
    return sorted(path.relative_to(root()).as_posix() for path in paths)
