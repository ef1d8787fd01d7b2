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
import contextlib
import functools
import io
import json
import lzma
import os
import re
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from electra_tf import errors
from electra_tf.files import each_once
from electra_tf.text import vocabulary

# Enough lines for a graph call's overhead to vanish, few enough to stay in
# cache. A batch is about one block.
_BLOCK_BYTES = 1 << 20
# Of compressed data that are unpacked at once.
_CHUNK_BYTES = 64 << 10
_PARQUET_ROWS = 1000
_ZSTD_WINDOW_LOG = 31  # The largest, as of `zstd --long=31`.

# A tar header says so at this offset.
_TAR_MARK = b"ustar"
_TAR_MARK_OFFSET = 257

# Ends the names of files that TensorFlow's and Beam's writers make.
_ONE_OF_SEVERAL = re.compile(r"-\d+-of-\d+$")

# Name endings: compression, and what it means that there is nothing below.
_COMPRESSIONS = {
    ".gz": ("gzip", ""),
    ".tgz": ("gzip", ".tar"),
    ".bz2": ("bzip2", ""),
    ".tbz2": ("bzip2", ".tar"),
    ".xz": ("xz", ""),
    ".txz": ("xz", ".tar"),
    ".zst": ("zstd", ""),
}

_UNPACKING: dict[str, tuple[Callable[[], Any], type[Exception]]] = {
    "gzip": (functools.partial(zlib.decompressobj, 31), zlib.error),
    "bzip2": (bz2.BZ2Decompressor, OSError),
    "xz": (lzma.LZMADecompressor, lzma.LZMAError),
}

# Of kinds that are not read, and what to do with them.
_REPACK = "unpack it, or pack it as .gz, .bz2, .xz, .zst or .tar"
_ROWS = "write the text of its rows to .jsonl, .parquet or .txt"
_EXTRACT = "write its text to .txt"
_OTHER_KINDS = {
    ".json": "name it .jsonl if it has an object a line, or write it so",
    **dict.fromkeys((".csv", ".tsv", ".arrow", ".feather"), _ROWS),
    **dict.fromkeys((".jsonlines", ".jl"), "name it .jsonl"),
    **dict.fromkeys((".pq", ".parq"), "name it .parquet"),
    **dict.fromkeys((".html", ".htm", ".pdf", ".docx", ".epub"), _EXTRACT),
    ".gzip": "name it .gz",
    ".zstd": "name it .zst",
    ".tfrecord": "it is made from text; keep it outside of the corpus",
    **dict.fromkeys((".zip", ".7z", ".rar", ".lz4", ".lzma", ".z"), _REPACK),
}

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
# No text holds so many, which a damaged disk leaves.
_ZEROS = bytes(16)
# Nor as many characters that are none. More than a third of UTF-16 is, where it
# is not of a script whose bytes are no UTF-8 anyway.
_CONTROLS = bytes({*range(32), 127} - {*b"\t\n\v\f\r"})
_LEAST_BYTES_TO_TELL = 512


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
      num_bytes: What they take in the file.
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
    outputs: Sequence[str] = (),
) -> list[CorpusFile]:
    """Lists a corpus, folders inside it included, sorted by name.

    Links to folders are followed, but for those that lead back to a folder
    that they lie in.

    Args:
      corpus_dir: The folder. Files and folders whose name starts with a dot
        are no part of the corpus.
      on_bad_input: Called with a line about each file that cannot be read,
        which is then left out.
      vocab_file: It and its settings are no part of the corpus.
      outputs: Folders that are going to be written.

    Raises:
      ValueError: If there is no such folder, it holds no text, an output is
        in it, or, without `on_bad_input`, a file cannot be read.
    """
    if not os.path.isdir(corpus_dir):
        is_file = os.path.exists(corpus_dir)
        raise ValueError(
            f"Expected a folder of text files. Received: {corpus_dir!r}, which "
            f"{'is a file' if is_file else 'does not exist'}."
        )
    refuse = Reading(on_bad_input=on_bad_input).refuse
    no_text = set()
    if vocab_file:
        written = (vocab_file, vocabulary.settings_file(vocab_file))
        no_text = {_identity(p) for p in written if os.path.isfile(p)}
    files = []
    folders = set()
    for folder, names in _walk(corpus_dir, refuse):
        folders.add(os.path.realpath(folder))
        for path in (os.path.join(folder, name) for name in names):
            name = os.path.relpath(path, corpus_dir).replace(os.sep, "/")
            try:
                status = os.stat(path)
                if no_text and _identity(path) in no_text:
                    errors.warn(f"{path!r} is no text: left out of the corpus")
                elif problem := _problem_of(name, path, status):
                    refuse(problem)
                else:
                    with open(path, "rb"):
                        pass
                    files.append(
                        CorpusFile(
                            name, path, status.st_size, status.st_mtime_ns
                        )
                    )
            except OSError as error:
                refuse(f"Cannot read {path!r}: {error.strerror}.")
    files.sort()
    warn_of_doubled([file.path for file in files if file.num_bytes])
    for output in outputs:
        around = os.path.realpath(output)
        while around not in folders and around != os.sep:
            # What a dot hides is not read.
            is_hidden = os.path.basename(around).startswith(".")
            around = os.sep if is_hidden else os.path.dirname(around)
        if around in folders:
            raise inside_corpus(output, corpus_dir)
    refuse_without_text(corpus_dir, files)
    return files


def warn_of_doubled(paths: Iterable[str]) -> None:
    """Tells those whose files are there twice, under whatever names."""
    known = set()
    doubled = []
    for path in paths:
        with contextlib.suppress(OSError):  # Whoever reads it says so.
            identity = _identity(path)
            if identity in known:
                doubled.append(path)
            known.add(identity)
    if doubled:
        errors.warn(
            f"{len(doubled)} file(s) are there under another name, too, such "
            f"as {doubled[0]!r}: their text comes twice"
        )


def _walk(
    corpus_dir: str, refuse: Callable[[str], object]
) -> Iterator[tuple[str, list[str]]]:
    """Folders and their files, without those whose name starts with a dot."""
    around: dict[str, frozenset[str]] = {corpus_dir: frozenset()}
    for folder, subfolders, names in os.walk(
        corpus_dir,
        onerror=lambda error: refuse(
            f"Cannot list the folder {error.filename!r}: {error.strerror}."
        ),
        followlinks=True,
    ):
        here = around.pop(folder) | {os.path.realpath(folder)}
        subfolders[:] = [
            name
            for name in subfolders
            if name[0] != "."
            and os.path.realpath(os.path.join(folder, name)) not in here
        ]
        for name in subfolders:
            around[os.path.join(folder, name)] = here
        yield folder, [name for name in names if name[0] != "."]


def _identity(path: str) -> tuple[int, int]:
    """The same for all names of a file."""
    status = os.stat(path)
    return status.st_dev, status.st_ino


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
    kind, _ = _kind_of(name)
    if kind not in _OTHER_KINDS:
        return ""
    return (
        "Expected text, .jsonl, .parquet or .tar. Received: "
        f"{name!r}, whose kind is not read: {_OTHER_KINDS[kind]}."
    )


def refuse_changed(file: CorpusFile) -> None:
    """Raises a ValueError for a file that has changed since it was listed."""
    try:
        status = os.stat(file.path)
    except OSError:
        return  # Whoever reads it says so.
    listed = (file.num_bytes, file.mtime_ns)
    if file.mtime_ns and (status.st_size, status.st_mtime_ns) != listed:
        raise ValueError(
            "Expected the corpus to stay as it is while it is read. Received: "
            f"{file.name!r}, which has changed since; run again."
        )


def inside_corpus(output: str, corpus_dir: str) -> ValueError:
    """The error of an output in a corpus, whose text it would be next time."""
    return ValueError(
        f"Expected an --output-dir outside of the corpus {corpus_dir!r}. "
        f"Received: {output!r}."
    )


def refuse_without_text(corpus_dir: str, files: list[CorpusFile]) -> None:
    """Raises a ValueError for a corpus whose files are empty."""
    if not any(file.num_bytes for file in files):
        raise ValueError(
            f"Expected a folder with text. Received: {corpus_dir!r}, which "
            f"holds {len(files)} file(s), none with text."
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
                # Without what waits in the buffer.
                here = max(num_told, counted.num_bytes - len(stream.peek(1)))
                yield LineBatch(lines, here - num_told)
                num_told = here
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
    """Counts and digests what is read."""

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


class _Unpacker(io.RawIOBase):
    """Reads a compressed stream as far as it is whole."""

    def __init__(self, compression: str, stream):
        self.damage = ""
        self._stream = stream
        # Makes what unpacks each of the frames that may follow one another.
        self._new_frame, self._errors = _unpacking(compression)
        self._frame: Any = None
        self._has_begun = False
        self._output = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while not self._output and not self.damage:
            data = b""
            if self._frame is not None and self._frame.eof:
                data = self._frame.unused_data
                self._frame = None
            data = data or self._stream.read(_CHUNK_BYTES)
            if not data:
                if self._frame is not None:
                    self.damage = "it ends too early"
                break
            if self._frame is None:
                # Zeros between and after frames are padding.
                data = data.lstrip(b"\0") if self._has_begun else data
                if not data:
                    continue
                self._frame = self._new_frame()
                self._has_begun = True
            try:
                self._output = memoryview(self._frame.decompress(data))
            except self._errors as error:
                self.damage = str(error)
        num_bytes = min(len(buffer), len(self._output))
        buffer[:num_bytes] = self._output[:num_bytes]
        self._output = self._output[num_bytes:]
        return num_bytes


def _unpacking(compression: str) -> tuple[Callable[[], Any], type[Exception]]:
    """What unpacks a frame, and what that raises on damaged data."""
    if compression in _UNPACKING:
        return _UNPACKING[compression]
    try:
        import zstandard
    except ImportError:
        raise ValueError(
            "Reading .zst files needs zstandard: pip install zstandard"
        ) from None
    unpacker = zstandard.ZstdDecompressor(max_window_size=1 << _ZSTD_WINDOW_LOG)
    return unpacker.decompressobj, zstandard.ZstdError


def _kind_of(name: str) -> tuple[str, str]:
    """The ending that says what is in a file, and its compression or ""."""
    stem, ending = os.path.splitext(_ONE_OF_SEVERAL.sub("", name.lower()))
    if ending not in _COMPRESSIONS:
        return ending, ""
    compression, inner_ending = _COMPRESSIONS[ending]
    return inner_ending or os.path.splitext(stem)[1], compression


def _lines_of(
    stream: Any, path: str | None, name: str, reading: Reading
) -> Iterator[list[str]]:
    """Lines of a stream of bytes, by the kind that its name says."""
    # An empty file holds nothing to take for text, whatever it is called.
    if (problem := problem_of_kind(name)) and stream.peek(1):
        reading.refuse(problem)
        return
    kind, compression = _kind_of(name)
    unpacker = None
    refuse = reading.refuse
    if compression:
        unpacker = _Unpacker(compression, stream)
        stream, path = io.BufferedReader(unpacker, _BLOCK_BYTES), None

        def on_bad_input(message: str) -> None:
            # What is unpacked behind damage looks damaged, too.
            if not unpacker.damage:
                refuse(message)

        reading = reading._replace(on_bad_input=on_bad_input)
    if kind in (".jsonl", ".ndjson"):
        yield from _json_lines(stream, name, reading)
    elif kind == ".parquet":
        yield from _parquet_lines(stream, path, name, reading)
    elif kind == ".tar" or stream.peek(512)[_TAR_MARK_OFFSET:].startswith(
        _TAR_MARK
    ):
        yield from _archive_lines(stream, name, reading)
    else:
        yield from _text_lines(stream, name, reading)
    if unpacker is not None and unpacker.damage:
        # The document that was cut short ends here.
        yield [""]
        refuse(
            f"Expected a whole {compression} file. Received: {name!r}, which "
            f"is damaged: {unpacker.damage}."
        )


def _text_lines(stream, name: str, reading: Reading) -> Iterator[list[str]]:
    offset = 0
    while block := stream.read(_BLOCK_BYTES):
        if not block.endswith(b"\n"):
            block += stream.readline()
        if other := _other_than_text(block, offset):
            reading.refuse(
                f"Expected text in UTF-8. Received: {name!r}, which is {other}."
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


def _other_than_text(block: bytes, offset: int) -> str:
    """What a block of bytes is that no text can be."""
    for head, kind in _HEADS.items():
        if not offset and block.startswith(head):
            return kind
    if len(block) < _LEAST_BYTES_TO_TELL or _ZEROS in block:
        return ""
    num_controls = len(block) - len(block.translate(None, _CONTROLS))
    if 3 * num_controls <= len(block):
        return ""
    return "for a third or more control characters, as in UTF-16"


def _decode(content: bytes) -> str:
    """The text, without carriage returns, as TensorFlow's reader drops them."""
    start = content.find(_ZEROS)
    if start >= 0:
        end = start + len(_ZEROS)
        raise UnicodeDecodeError("utf-8", content, start, end, "zeros")
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
    """The text in a field of a JSON object."""
    value = json.loads(content, object_pairs_hook=each_once)
    if not isinstance(value, dict):
        raise ValueError("it is no object")
    for name in [field] if field in value else field.split("."):
        if not isinstance(value, dict) or name not in value:
            raise ValueError(f"it has no field {field!r}")
        value = value[name]
    if not isinstance(value, str):
        raise ValueError(f"its field {field!r} is {json.dumps(value)}")
    # Half a surrogate pair can be written in JSON, but is no text.
    value.encode("utf-8")
    return value


def _parquet_lines(
    stream, path: str | None, name: str, reading: Reading
) -> Iterator[list[str]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ValueError(
            f"Reading {name!r} needs pyarrow: pip install pyarrow"
        ) from None
    field = reading.text_field
    try:
        # The footer is at the end: a file in an archive has to be in memory.
        source = path if path is not None else io.BytesIO(stream.read())
        with pq.ParquetFile(source) as table:
            columns = table.schema_arrow.names
            if field not in columns:
                raise pa.ArrowInvalid(
                    f"it has no column {field!r}, but {', '.join(columns)}"
                )
            kind = table.schema_arrow.field(field).type
            values = getattr(kind, "value_type", kind)  # Of a dictionary.
            if str(values).removeprefix("large_") not in ("string", "binary"):
                raise pa.ArrowInvalid(f"its column {field!r} holds {kind}")
            number = 0
            for batch in table.iter_batches(_PARQUET_ROWS, columns=[field]):
                lines: list[str] = []
                for text in batch.column(0).cast(pa.large_string()).to_pylist():
                    number += 1
                    if text is None:
                        reading.refuse(
                            f"Expected text in the column {field!r}. "
                            f"Received: null in row {number} of {name!r}."
                        )
                    else:
                        lines += _lines_of_row(text)
                yield lines
    except UnicodeDecodeError:
        problem = f"its column {field!r} is not UTF-8"
    except (pa.ArrowException, OSError) as error:
        problem = str(error).strip().rstrip(".")
    else:
        return
    reading.refuse(
        f"Expected a parquet file with the text in the column {field!r}. "
        f"Received: {name!r}: {problem}."
    )


class _MemberInfo(tarfile.TarInfo):
    """Takes a damaged header for what it is, not for the archive's end."""

    @classmethod
    def fromtarfile(cls, archive):
        try:
            return super().fromtarfile(archive)
        except tarfile.EOFHeaderError:
            raise
        except tarfile.HeaderError as error:
            problem = str(error)
            if problem == "empty header":
                problem = "it has no end"
            raise tarfile.ReadError(problem) from None


def _archive_lines(stream, name: str, reading: Reading) -> Iterator[list[str]]:
    member_name = ""
    try:
        with tarfile.open(
            fileobj=stream, mode="r|", tarinfo=_MemberInfo
        ) as archive:
            while (member := archive.next()) is not None:
                # The archive remembers every member that it has seen.
                archive.members.clear()  # type: ignore[attr-defined]
                member_name = f"{name}/{member.name}"
                hidden = any(
                    part.startswith(".") and part.strip(".")
                    for part in member.name.split("/")
                )
                # Links lead to other members, most of them.
                if member.isfile() and not hidden:
                    content = archive.extractfile(member)
                    yield from _lines_of(content, None, member_name, reading)
            # Another one, which tarfile does not read, or damage.
            rest = iter(lambda: archive.fileobj.read(_BLOCK_BYTES), b"")
            if any(block.strip(b"\0") for block in rest):
                reading.refuse(
                    f"Expected one tar archive. Received: {name!r}, which goes "
                    "on behind the end of one: join archives by tar -A."
                )
    except tarfile.TarError as error:
        yield [""]
        reading.refuse(
            f"Expected a whole tar archive. Received: {name!r}, which is "
            f"damaged{f' at or after {member_name!r}' if member_name else ''}: "
            f"{error}."
        )
