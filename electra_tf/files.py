"""Files: whole or absent, read or refused with the reason; what made them."""

import contextlib
import fcntl
import hashlib
import importlib.metadata
import json
import os
import reprlib
import subprocess
import typing
from collections.abc import Iterable, Iterator, Mapping

from electra_tf import errors, validation

# Types that JSON has, in words.
_IN_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
}


def read_json(
    path: str | os.PathLike, needed: Iterable[str] = (), /, **kinds: typing.Any
) -> dict:
    """Reads a JSON object.

    Args:
      path: Of the file.
      needed: Names of fields that it must have.
      **kinds: See `check_fields`.

    Raises:
      CheckpointError: If the file cannot be read or holds something else.
    """
    refuse_lfs_pointer(path)
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError, RecursionError) as error:
        raise errors.CheckpointError(f"Cannot read {path}: {error}") from None
    if not isinstance(content, dict):
        raise errors.CheckpointError(
            f"Cannot read {path}: it holds no JSON object"
        )
    check_fields(content, path, needed, **kinds)
    return content


def read_bytes(path: str | os.PathLike, what: str) -> bytes:
    """The bytes of a file; any that `tf.io.gfile` reads.

    Args:
      path: Of the file.
      what: It is, for the error message.

    Raises:
      ValueError: If it cannot be read.
    """
    import tensorflow as tf  # Others here must do without.

    path = os.path.expanduser(path)
    try:
        with tf.io.gfile.GFile(path, "rb") as reader:
            return reader.read()
    except tf.errors.NotFoundError:
        raise ValueError(
            f"Expected a {what}. Received: {path!r}, which does not exist."
        ) from None
    except (tf.errors.OpError, OSError) as error:
        reason = getattr(error, "message", str(error))
        raise ValueError(f"Cannot read the {what} {path!r}: {reason}") from None


def exists(path: str | os.PathLike) -> bool:
    """Whether a file is there, in any file system of `tf.io.gfile`.

    Raises:
      ValueError: If the file system cannot be asked.
    """
    import tensorflow as tf

    try:
        return tf.io.gfile.exists(os.fspath(path))
    except tf.errors.OpError as error:
        reason = errors.first_line(error)
        raise ValueError(f"Cannot look for {path}: {reason}") from None


def check_fields(
    record: Mapping,
    source: str | os.PathLike,
    needed: Iterable[str] = (),
    /,
    **kinds: typing.Any,
) -> None:
    """Refuses a record of JSON some of whose fields hold other things.

    Args:
      record: Name -> value.
      source: Of the record, for the error message.
      needed: Names of fields that it must have.
      **kinds: Name -> the type of its value, such as `bool` or `list[str]`,
        where it is there and not null.

    Raises:
      CheckpointError: If a value is of another type, or a field missing.
    """
    for name in needed:
        if record.get(name) is None:
            raise errors.CheckpointError(f"{os.fspath(source)} lacks {name}")
    for name, kind in kinds.items():
        value = record.get(name)
        outer = typing.get_origin(kind) or kind
        inner = typing.get_args(kind)[-1:]
        # The names of an object are texts anyway.
        parts: typing.Any = value.values() if isinstance(value, dict) else value
        if value is None or (
            _is_of(value, outer)
            and (not inner or all(_is_of(part, *inner) for part in parts))
        ):
            continue
        expected = _IN_WORDS[outer]
        if inner:
            expected += f", each part of it {_IN_WORDS[inner[0]]}"
        raise errors.CheckpointError(
            f"{os.fspath(source)}: {name} must be {expected}. Received: "
            f"{reprlib.repr(value)}"
        )


def _is_of(value: object, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def each_once(pairs: list[tuple[str, typing.Any]]) -> dict:
    """An object of JSON, as `object_pairs_hook` makes it.

    Raises:
      ValueError: If a name is there twice.
    """
    record = {}
    for name, value in pairs:
        if name in record:
            raise ValueError(f"the name {name!r} twice in an object")
        record[name] = value
    return record


def sha256_of_file(path: str) -> str:
    """The SHA-256 of a file, in hexadecimal.

    Raises:
      ValueError: If the file cannot be read.
    """
    try:
        with open(path, "rb") as reader:
            return hashlib.file_digest(reader, "sha256").hexdigest()
    except OSError as error:
        raise ValueError(f"Cannot read {path!r}: {error.strerror}.") from None


def sha256_of_values(values: Iterable) -> str:
    """The SHA-256 of what `repr` says of each value, in order."""
    digest = hashlib.sha256()
    for value in values:
        digest.update(f"{value!r}\n".encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Names the file that is written here, which errors of a full disk do not.

    Raises:
      ValueError: If the file cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise ValueError(
            f"Cannot write {path!r}: {error.strerror or error}."
        ) from None


@contextlib.contextmanager
def whole_file(path: str, ending: str = "") -> Iterator[str]:
    """The name under which a file is written, until it is whole.

    No other process has that name: not one, either, that was killed and has
    yet to notice.

    Args:
      path: Of the file.
      ending: Of that name, for those who go by it.

    Raises:
      ValueError: If the file cannot be written.
    """
    temporary = f"{path}.tmp{os.getpid()}{ending}"
    with writing(path):
        try:
            yield temporary
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.remove(temporary)
            raise


def write_atomically(path: str, content: str) -> None:
    """Writes a text file that is, at any moment, either old or whole.

    Raises:
      ValueError: If the file cannot be written.
    """
    with (
        whole_file(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as file,
    ):
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def write_json(path: str, content: typing.Any, **how: typing.Any) -> None:
    """Writes JSON as `write_atomically` writes a text.

    Args:
      path: Of the file.
      content: Of the file.
      **how: See `json.dumps`; one space for each level by default.

    Raises:
      ValueError: If the file cannot be written.
    """
    write_atomically(path, json.dumps(content, **{"indent": 1} | how) + "\n")


def append_line(path: str, record: dict) -> None:
    """Adds a record to a file of one a line.

    Raises:
      ValueError: If it cannot be written.
    """
    with writing(path), open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def lock(folder: str) -> int | None:
    """Makes a folder this process's own until it ends, however that happens.

    Nothing is written there. A file system without locks refuses nobody.

    Returns:
      An open file, which holds the lock; None where another process has it.
    """
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(opened)
        return None
    except OSError:
        pass
    return opened


def refuse_lfs_pointer(path: str | os.PathLike) -> None:
    """Refuses what Git leaves in place of a large file that was not fetched.

    Raises:
      CheckpointError: If the file is such a pointer.
    """
    try:
        with open(path, "rb") as file:
            start = file.read(40)
    except OSError:
        return  # Whoever reads it has a better message.
    if start.startswith(b"version https://git-lfs.github.com/spec"):
        raise errors.CheckpointError(
            f"Expected weights in {path}. Received: a Git LFS pointer; fetch "
            "the file with: git lfs pull"
        )


def refuse_signs(path: str, flag: str) -> None:
    """Raises a ValueError for a path that TensorFlow writes and cannot find."""
    if validation.has_signs(path):
        raise ValueError(
            f"{flag} must be {validation.WITHOUT_SIGNS}. Received: {path}"
        )


def refuse_used(folder: str, flag: str) -> None:
    """Refuses an output that exists, which is never touched.

    Raises:
      ValueError: Which names the flag: of a file, of a folder with something in
        it, or as `refuse_signs`.
    """
    refuse_signs(folder, flag)
    is_empty = os.path.isdir(folder) and not os.listdir(folder)
    if not folder or (os.path.lexists(folder) and not is_empty):
        raise ValueError(
            f"{flag} must be a new or empty folder. Received: {folder!r}"
        )


def versions(packages: Iterable[str]) -> dict[str, str | None]:
    """The installed version of each package; None where it is absent."""
    versions: dict[str, str | None] = dict.fromkeys(packages)
    for package in versions:
        others = ["tensorflow-tpu"] if package == "tensorflow" else []
        for name in (*others, package):
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                versions[package] = importlib.metadata.version(name)
    return versions


def git_commit() -> str | None:
    """Commit of the source tree, "-dirty" where it has changes.

    None where the package is in no checkout of its own.
    """
    root = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    ask = ["git", "describe", "--always", "--dirty", "--abbrev=40"]
    if not os.path.exists(os.path.join(root, ".git")):
        return None
    try:
        return subprocess.check_output(
            [*ask, "--exclude=*"], cwd=root, text=True
        ).strip()
    except (OSError, subprocess.CalledProcessError):
        return None
