"""Files of text, whatever they are packed in, to lines; no TensorFlow here.

A corpus is a folder of files. What a file is, its name says:

  .jsonl     (or .ndjson) a JSON object a line; its text field is a document
  .parquet   a table; a row of its text column is a document
  .tar       an archive of any of these, other archives included
  other      UTF-8 text, a sentence or paragraph a line

each of which may be compressed (.gz, .tgz, .bz2, .tbz2, .xz, .txz, .zst).
Compressed archives are recognised without .tar in their name too, as
OpenWebText has them. Kinds that only look like text, such as .csv, are refused
by name. A byte order mark at the head of a text means nothing. Links in a
folder are followed, those in an archive left out.
"""

import bz2
import gzip
import io
import json
import lzma
import os
import re
import stat
import tarfile
import types
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from electra_tf import errors
from electra_tf.files import each_once
from electra_tf.text import vocabulary

# Enough lines for a graph call's overhead to vanish, few enough to stay in
# cache. A batch is about one block.
_BLOCK_BYTES = 1 << 20
# Of text that is decoded at once.
_READ_BYTES = 64 << 10
_PARQUET_ROWS = 1000

# A tar header says so at this offset.
_TAR_MARK = b"ustar"
_TAR_MARK_OFFSET = 257

# Ends the names of files that TensorFlow's and Beam's writers make.
_ONE_OF_SEVERAL = re.compile(r"-\d+-of-\d+$")

_SHORT_ENDINGS = {".tgz": ".tar.gz", ".tbz2": ".tar.bz2", ".txz": ".tar.xz"}
# What these raise where a file is damaged.
_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError)

# Kinds that only look like text.
_OTHER_KINDS = (
    *(".json", ".jsonlines", ".jl", ".csv", ".tsv", ".arrow", ".feather"),
    *(".pq", ".parq", ".tfrecord", ".html", ".htm", ".pdf", ".docx", ".epub"),
    *(".gzip", ".zstd", ".zip", ".7z", ".rar", ".lz4", ".lzma", ".z"),
)
# What files begin with that are no text under a name that says nothing.
_HEADS = {
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"\x1f\x8b": "gzip: name it .gz",
    b"BZh91AY&SY": "bzip2: name it .bz2",
    b"\xfd7zXZ\0": "xz: name it .xz",
    b"\x28\xb5\x2f\xfd": "zstd: name it .zst",
    b"PK\x03\x04": "a zip archive",
    b"%PDF-": "PDF",
}
_BYTE_ORDER_MARK = "\ufeff"
_CONTROLS = bytes({*range(32)} - {*b"\t\n\v\f\r\x1b"})


class CorpusFile(NamedTuple):
    """One file of a corpus.

    Attributes:
      name: Path relative to the corpus folder, with "/" on every system.
      path: Path to open.
      num_bytes: Its size.
      mtime_ns: When it was changed last, in nanoseconds.
    """

    name: str
    path: str
    num_bytes: int
    mtime_ns: int = 0


class LineBatch(NamedTuple):
    """Consecutive lines of a file.

    Attributes:
      lines: Lines without the white space around them; "" ends a document.
      num_bytes: What was read of the file to get them.
    """

    lines: list[str]
    num_bytes: int


class BadInput(ValueError):
    """A damaged place of the corpus, in one line."""


class Reading(NamedTuple):
    """How files are read.

    Attributes:
      blanks_separate_docs: Whether a blank line of a text ends a document;
        otherwise it means nothing. In .jsonl and .parquet it never does.
      text_field: Field of .jsonl ("meta.text" is one within another), column
        of .parquet.
      on_bad_input: Called with a line about each damaged place, which is then
        left out; without it, the first one raises.
    """

    blanks_separate_docs: bool = True
    text_field: str = "text"
    on_bad_input: Callable[[str], object] | None = None

    def refuse(self, message: str) -> None:
        """Reports a damaged place."""
        if self.on_bad_input is None:
            raise BadInput(f"{message} --on-bad-input=skip leaves it out.")
        self.on_bad_input(message)


class BadInputs:
    """Names damaged places that are left out, up to a number, and counts."""

    MAX_NAMED = 10

    def __init__(self):
        self.count = 0

    def note(self, message: str) -> None:
        """Takes a line about a damaged place."""
        self.count += 1
        if self.count <= self.MAX_NAMED:
            errors.warn(f"left out: {message}")
        if self.count == self.MAX_NAMED:
            errors.warn("further damaged places are counted only")


def list_files(
    corpus_dir: str,
    on_bad_input: Callable[[str], object] | None = None,
    vocab_file: str | None = None,
    output_dir: str = "",
) -> list[CorpusFile]:
    """Lists a corpus, folders inside it included, sorted by name.

    Links to folders are followed; each folder is read once.

    Args:
      corpus_dir: The folder. Files and folders whose name starts with a dot
        are no part of the corpus.
      on_bad_input: Called with a line about each file that cannot be read,
        which is then left out.
      vocab_file: It and its settings are no part of the corpus.
      output_dir: A folder that is going to be written.

    Raises:
      ValueError: If there is no such folder, it holds no text, the output is
        in it, or, without `on_bad_input`, a file cannot be read.
    """
    if not os.path.isdir(corpus_dir):
        is_file = os.path.exists(corpus_dir)
        raise ValueError(
            f"Expected a folder of text files. Received: {corpus_dir!r}, which "
            f"{'is a file' if is_file else 'does not exist'}."
        )
    inner = os.path.relpath(
        os.path.realpath(output_dir), os.path.realpath(corpus_dir)
    )
    if output_dir and inner.split(os.sep)[0] != ".." and not is_hidden(inner):
        raise inside_corpus(output_dir, corpus_dir)
    refuse = Reading(on_bad_input=on_bad_input).refuse
    files = []
    for path in _walk(corpus_dir, refuse):
        name = os.path.relpath(path, corpus_dir).replace(os.sep, "/")
        try:
            status = os.stat(path)
            if is_vocabulary(path, vocab_file):
                continue
            if problem := _problem_of(name, path, status):
                refuse(problem)
                continue
            with open(path, "rb"):
                pass
        except OSError as error:
            refuse(f"Cannot read {path!r}: {error.strerror}.")
        else:
            files.append(
                CorpusFile(name, path, status.st_size, status.st_mtime_ns)
            )
    refuse_without_text(corpus_dir, files)
    return sorted(files)


def is_vocabulary(path: str, vocab_file: str | None) -> bool:
    """Whether a file is the vocabulary or its settings, which it then warns."""
    place = path if "://" in path else os.path.realpath(path)
    for written in (vocab_file, vocabulary.settings_file(vocab_file or "")):
        if written and place in (written, os.path.realpath(written)):
            errors.warn(f"{path!r} is no text: left out of the corpus")
            return True
    return False


def refuse_without_text(corpus_dir: str, files: list[CorpusFile]) -> None:
    """Raises a ValueError for a corpus whose files are empty."""
    if not any(file.num_bytes for file in files):
        raise ValueError(
            f"Expected a folder with text. Received: {corpus_dir!r}, which "
            f"holds {len(files)} file(s), none with text."
        )


def _walk(corpus_dir: str, refuse: Callable[[str], object]) -> Iterator[str]:
    """The files of folders, without those whose name starts with a dot."""
    known = set()
    for folder, subfolders, names in os.walk(
        corpus_dir,
        onerror=lambda error: refuse(
            f"Cannot list the folder {error.filename!r}: {error.strerror}."
        ),
        followlinks=True,
    ):
        subfolders.sort()
        if (place := os.path.realpath(folder)) in known:
            subfolders.clear()
            continue
        known.add(place)
        subfolders[:] = [name for name in subfolders if name[0] != "."]
        yield from (os.path.join(folder, n) for n in names if n[0] != ".")


def is_hidden(name: str) -> bool:
    """Whether a dot hides a file of a corpus, or a folder around it."""
    return any(p.startswith(".") and p.strip(".") for p in name.split("/"))


def is_utf8(path: str) -> bool:
    """Whether a path, of which Python decodes any bytes, is text."""
    return not any("\udc80" <= character <= "\udcff" for character in path)


def _problem_of(name: str, path: str, status: os.stat_result) -> str:
    """Why a file of a corpus is not read, as far as that is seen outside."""
    if not is_utf8(name):
        return (
            "Expected a file name in UTF-8. Received: "
            f"{os.fsencode(path)!r}; rename it."
        )
    if not stat.S_ISREG(status.st_mode):
        return f"Expected a file. Received: {path!r}, a pipe or a device."
    return problem_of_kind(path) if status.st_size else ""


def problem_of_kind(name: str) -> str:
    """Why files whose name ends so are not read."""
    if _kind_of(name)[0] not in _OTHER_KINDS:
        return ""
    return (
        "Expected .txt, .jsonl, .parquet or .tar, perhaps as .gz, .bz2, .xz or "
        f".zst. Received: {name!r}, whose kind is not read."
    )


def inside_corpus(output: str, corpus_dir: str) -> ValueError:
    """The error of an output in a corpus, whose text it would be next time."""
    return ValueError(
        f"Expected an --output-dir outside of the corpus {corpus_dir!r}. "
        f"Received: {output!r}."
    )


def read_lines(
    path: str, digest=None, reading: Reading | None = None
) -> Iterator[LineBatch]:
    """Reads a file in batches of some thousand lines.

    Lines end at "\\n" only; then white space is stripped. A line "" follows the
    end of a text, of a row and of a member of an archive.

    Args:
      path: A file of any of the kinds above.
      digest: A `hashlib` object that is fed every byte of the file.
      reading: How to read it.

    Raises:
      BadInput: If the file cannot be read or is damaged, unless `reading`
        says otherwise.
      ValueError: If a package is missing that reads this kind of file.
    """
    reading = reading or Reading()
    try:
        with _CountedFile(path, digest) as counted:
            stream = io.BufferedReader(counted, _BLOCK_BYTES)
            num_told = 0
            for lines in batched(_lines_of(stream, path, path, reading)):
                yield LineBatch(lines, counted.num_bytes - num_told)
                num_told = counted.num_bytes
            # What follows the end of an archive, or a damaged place.
            rest_of_file = bytearray(_BLOCK_BYTES)
            while counted.readinto(rest_of_file):
                pass
            if rest := counted.num_bytes - num_told:
                yield LineBatch([], rest)
    except OSError as error:
        # Only this file's own: others were answered where they arose.
        reading.refuse(f"Cannot read {path!r}: {error.strerror or error}.")


def documents_of(
    batches: Iterable[LineBatch],
) -> Iterator[tuple[list[list[str]], int]]:
    """The documents that each batch of lines completes, and its bytes."""
    document: list[str] = []
    for lines, num_bytes in batches:
        documents = []
        for line in lines:
            if line:
                document.append(line)
            elif document:
                documents.append(document)
                document = []
        yield documents, num_bytes
    if document:
        yield [document], 0


def batched(pieces: Iterable[list[str]]) -> Iterator[list[str]]:
    """Joins small pieces, which come from rows and members."""
    batch: list[str] = []
    size = 0
    for lines in pieces:
        batch += lines
        size += sum(map(len, lines)) + len(lines)
        if size >= _BLOCK_BYTES // 2:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class _CountedFile(io.FileIO):
    def __init__(self, path: str, digest):
        super().__init__(path)
        self.num_bytes = 0
        self._digest = digest

    def readinto(self, buffer) -> int:
        num_bytes = super().readinto(buffer) or 0
        self.num_bytes += num_bytes
        if self._digest is not None:
            self._digest.update(memoryview(buffer)[:num_bytes])
        return num_bytes


def _pyarrow(kind: str) -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise ValueError(
            f"Reading {kind} files needs pyarrow: pip install pyarrow"
        ) from None
    return pyarrow


def _zstd(stream) -> io.BufferedReader:
    # What is closed with it is not the file that it is in.
    source = types.SimpleNamespace(
        read=stream.read, closed=False, close=lambda: None
    )
    pa = _pyarrow(".zst")
    return io.BufferedReader(
        pa.CompressedInputStream(pa.PythonFile(source, "r"), "zstd")
    )


_OPENERS: dict[str, Callable[[Any], Any]] = {
    ".gz": lambda stream: gzip.GzipFile(fileobj=stream),
    ".bz2": bz2.BZ2File,
    ".xz": lzma.LZMAFile,
    ".zst": _zstd,
}


def _kind_of(name: str) -> tuple[str, str]:
    """The ending that says what is in a file, and that of its compression."""
    stem, ending = os.path.splitext(_ONE_OF_SEVERAL.sub("", name.lower()))
    stem, ending = os.path.splitext(stem + _SHORT_ENDINGS.get(ending, ending))
    if ending in _OPENERS:
        return os.path.splitext(stem)[1], ending
    return ending, ""


def _lines_of(
    stream: Any, path: str | None, name: str, reading: Reading
) -> Iterator[list[str]]:
    """Lines of a stream of bytes, by the kind that its name says."""
    # An empty file holds nothing to take for text, whatever it is called.
    if (problem := problem_of_kind(name)) and stream.peek(1):
        reading.refuse(problem)
        return
    kind, compression = _kind_of(name)
    unpacked = None
    if compression:
        unpacked, path = _OPENERS[compression](stream), None
    try:
        yield from _lines_of_kind(kind, unpacked or stream, path, name, reading)
    except _DAMAGE as error:
        if unpacked is None:
            raise
        # The document that was cut short ends here.
        yield [""]
        reading.refuse(
            f"Expected a whole {compression} file. Received: {name!r}, which "
            f"is damaged: {str(error).rstrip('.')}."
        )


def _lines_of_kind(
    kind: str, stream: Any, path: str | None, name: str, reading: Reading
) -> Iterator[list[str]]:
    if kind in (".jsonl", ".ndjson"):
        return _json_lines(stream, name, reading)
    if kind == ".parquet":
        return _parquet_lines(stream, path, name, reading)
    head = stream.peek(512)[_TAR_MARK_OFFSET:]
    if kind == ".tar" or head.startswith(_TAR_MARK):
        return _archive_lines(stream, name, reading)
    return _text_lines(stream, name, reading)


def _text_lines(stream, name: str, reading: Reading) -> Iterator[list[str]]:
    offset = 0
    while block := stream.read1(_READ_BYTES):
        if not block.endswith(b"\n"):
            block += stream.readline()
        if not offset and (kind := _other_kind(block)):
            reading.refuse(
                f"Expected text in UTF-8. Received: {name!r}, which is {kind}."
            )
            return
        try:
            lines = _decode(block).split("\n")
        except UnicodeDecodeError:
            lines = list(_decodable_lines(block, offset, name, reading))
        if lines and not offset:
            lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
        if not lines[-1]:
            lines.pop()
        lines = [line.strip() for line in lines]
        if not reading.blanks_separate_docs:
            lines = [line for line in lines if line]
        yield lines
        offset += len(block)
    yield [""]


def _other_kind(block: bytes) -> str:
    """What a file is that begins so; "" for text."""
    for head, kind in _HEADS.items():
        if block.startswith(head):
            return kind
    start = block[:1000].lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "HTML"
    # Of most scripts UTF-16 has a control character in each letter.
    is_packed = len(start.translate(None, _CONTROLS)) < 0.8 * len(start)
    if re.search(rb"\n\0|\0\n", start):  # Of others in each end of a line.
        is_packed |= "\ufffd" in block.decode("utf-8", "replace")
    return "no text, or UTF-16: iconv -f UTF-16LE -t UTF-8" * is_packed


def _decode(content: bytes) -> str:
    """The text, without carriage returns, as TensorFlow's reader drops them."""
    return content.decode("utf-8").replace("\r", "")


def _decodable_lines(
    block: bytes, offset: int, name: str, reading: Reading
) -> Iterator[str]:
    """The lines of a block that are UTF-8, and a "" after them."""
    for line in block.split(b"\n"):
        try:
            yield _decode(line)
        except UnicodeDecodeError as error:
            reading.refuse(
                f"Expected text in UTF-8. Received: {name!r}, whose byte "
                f"{offset + error.start} is 0x{line[error.start]:02x}; other "
                "encodings: iconv -f LATIN1 -t UTF-8."
            )
        offset += len(line) + 1
    if not block.endswith(b"\n"):
        yield ""


def _lines_of_row(text: str) -> list[str]:
    """A row is a document: blank lines within end nothing."""
    text = text.removeprefix(_BYTE_ORDER_MARK)
    return [*filter(None, map(str.strip, text.split("\n"))), ""]


def _json_lines(stream, name: str, reading: Reading) -> Iterator[list[str]]:
    for number, line in enumerate(stream, start=1):
        try:
            # Files put together have a mark in the middle.
            content = line.decode("utf-8").removeprefix(_BYTE_ORDER_MARK)
            if not content.strip():
                continue
            text = _text_of(content.strip(), reading.text_field)
        except json.JSONDecodeError as error:
            reason = f"it is no JSON: {error.msg} at column {error.colno}"
        except (ValueError, RecursionError) as error:
            reason = str(error)[:200]
        else:
            yield _lines_of_row(text)
            continue
        reading.refuse(
            "Expected a JSON object with the text in the field "
            f"{reading.text_field!r}. Received: line {number} of {name!r}: "
            f"{reason}."
        )


def _text_of(content: str, field: str) -> str:
    value = json.loads(content, object_pairs_hook=each_once)
    if not isinstance(value, dict):
        raise ValueError("it is no object")
    for name in [field] if field in value else field.split("."):
        if not isinstance(value, dict) or name not in value:
            raise ValueError(f"it has no field {field!r} (--text-field)")
        value = value[name]
    if not isinstance(value, str):
        raise ValueError(f"its field {field!r} is {json.dumps(value)}")
    # Half a surrogate pair can be written in JSON, but is no text.
    value.encode("utf-8")
    return value


def _parquet_lines(
    stream, path: str | None, name: str, reading: Reading
) -> Iterator[list[str]]:
    pa = _pyarrow(".parquet")
    field = reading.text_field
    # The footer is at the end: a file in an archive has to be in memory.
    source = path if path is not None else io.BytesIO(stream.read())
    try:
        with pa.parquet.ParquetFile(source) as table:
            schema = table.schema_arrow
            parts = [field] if field in schema.names else field.split(".")
            kind = pa.struct(schema)
            for part in parts:
                names = (
                    [f.name for f in kind] if pa.types.is_struct(kind) else []
                )
                if part not in names:
                    raise pa.ArrowInvalid(
                        f"it has no column {field!r}, but {', '.join(names)} "
                        "(--text-field)"
                    )
                kind = kind.field(part).type
            values = str(getattr(kind, "value_type", kind))  # Of a dictionary.
            values = values.removeprefix("large_").removesuffix("_view")
            if values not in ("string", "binary"):
                raise pa.ArrowInvalid(f"its column {field!r} holds {kind}")
            number = 0
            for batch in table.iter_batches(_PARQUET_ROWS, columns=[field]):
                texts = batch.column(0)
                for part in parts[1:]:
                    texts = pa.compute.struct_field(texts, part)
                for text in texts.cast(pa.large_string()).to_pylist():
                    number += 1
                    if text is not None:
                        yield _lines_of_row(text)
                        continue
                    reading.refuse(
                        f"Expected text in the column {field!r}. "
                        f"Received: null in row {number} of {name!r}."
                    )
        return
    except UnicodeDecodeError:
        problem = f"its column {field!r} is not UTF-8"
    except (pa.ArrowException, OSError) as error:
        problem = str(error).strip().rstrip(".")
    reading.refuse(
        f"Expected a parquet file with the text in the column {field!r}. "
        f"Received: {name!r}: {problem}."
    )


def _archive_lines(stream, name: str, reading: Reading) -> Iterator[list[str]]:
    member_name = ""
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            while (member := archive.next()) is not None:
                # The archive remembers every member that it has seen.
                archive.members.clear()  # type: ignore[attr-defined]
                member_name = f"{name}/{member.name}"
                # Links lead to other members, most of them.
                if member.isfile() and not is_hidden(member.name):
                    content = archive.extractfile(member)
                    yield from _lines_of(content, None, member_name, reading)
            # Another one, which tarfile does not read, or damage.
            rest = iter(lambda: archive.fileobj.read(_BLOCK_BYTES), b"")
            if not any(block.strip(b"\0") for block in rest):
                return
            problem = "goes on behind its end: join archives by tar -A"
    except tarfile.TarError as error:
        yield [""]
        problem = f"is damaged: {error}"
    after = f", after {member_name!r}," * bool(member_name)
    reading.refuse(
        f"Expected a whole tar archive. Received: {name!r}, which{after} "
        f"{problem}."
    )
