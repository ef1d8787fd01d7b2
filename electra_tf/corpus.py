"""Text files to lines; imports no TensorFlow.

A corpus is a folder of UTF-8 text files. What a line means (a sentence, a
blank line between documents) is decided by those who read it.
"""

import hashlib
import os
from collections.abc import Iterator
from typing import NamedTuple

# Enough lines for a graph call's overhead to vanish, few enough to stay in
# cache. A batch is one block and the rest of its last line.
_BLOCK_BYTES = 1 << 20


class CorpusFile(NamedTuple):
    """One file of a corpus.

    Attributes:
      name: Path relative to the corpus folder, with "/" on every system.
      path: Path to open.
      num_bytes: Its size.
    """

    name: str
    path: str
    num_bytes: int


class LineBatch(NamedTuple):
    """Consecutive lines of a file.

    Attributes:
      lines: Lines without the white space around them; "" for a blank one.
      num_bytes: What they take in the file.
    """

    lines: list[str]
    num_bytes: int


def list_files(corpus_dir: str) -> list[CorpusFile]:
    """Lists a corpus, folders inside it included, sorted by name.

    Args:
      corpus_dir: The folder. Files and folders whose name starts with a dot
        are no part of the corpus.

    Raises:
      ValueError: If there is no such folder, it holds no text, or a file
        cannot be opened.
    """
    if not os.path.isdir(corpus_dir):
        raise ValueError(
            f"Expected a folder of text files. Received: {corpus_dir!r}, "
            + (
                "which is a file."
                if os.path.exists(corpus_dir)
                else "which does not exist."
            )
        )
    files = []
    for folder, subfolders, names in os.walk(corpus_dir, onerror=_refuse):
        subfolders[:] = [name for name in subfolders if name[0] != "."]
        for name in names:
            if name[0] != ".":
                path = os.path.join(folder, name)
                files.append(_corpus_file(path, corpus_dir))
    if not any(file.num_bytes for file in files):
        raise ValueError(
            f"Expected a folder with text. Received: {corpus_dir!r}, which "
            f"holds {len(files)} file(s), none with text."
        )
    return sorted(files)


def _refuse(error: OSError) -> None:
    raise ValueError(
        f"Cannot list the folder {error.filename!r}: {error.strerror}."
    )


def _corpus_file(path: str, corpus_dir: str) -> CorpusFile:
    try:
        with open(path, "rb") as reader:
            num_bytes = os.fstat(reader.fileno()).st_size
    except OSError as error:
        raise ValueError(f"Cannot read {path!r}: {error.strerror}.") from None
    name = os.path.relpath(path, corpus_dir).replace(os.sep, "/")
    return CorpusFile(name, path, num_bytes)


def read_lines(path: str, digest=None) -> Iterator[LineBatch]:
    """Reads a file in batches of some thousand lines.

    Lines end at "\\n" only; then white space, "\\r" included, is stripped.

    Args:
      path: A UTF-8 text file.
      digest: A `hashlib` object that is fed every byte on the way.

    Raises:
      ValueError: If the file cannot be read or is not UTF-8.
    """
    offset = 0
    try:
        with open(path, "rb") as reader:
            while block := reader.read(_BLOCK_BYTES):
                if not block.endswith(b"\n"):
                    block += reader.readline()
                if digest is not None:
                    digest.update(block)
                lines = block.decode("utf-8").split("\n")
                if not lines[-1]:
                    lines.pop()
                yield LineBatch([line.strip() for line in lines], len(block))
                offset += len(block)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Expected text in UTF-8. Received: {path!r}, whose byte "
            f"{offset + error.start} is 0x{error.object[error.start]:02x}."
        ) from None
    except OSError as error:
        raise ValueError(f"Cannot read {path!r}: {error.strerror}.") from None


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
