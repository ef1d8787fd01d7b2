"""Files of text, whatever they are packed in, to lines; no TensorFlow here.

A corpus is a folder of files. What a file is, its name says:

  .jsonl     (or .ndjson) a JSON object a line; its text field is a document
  .parquet   a table; a row of its text column is a document
  .tar       an archive of any of these, other archives included
  other      UTF-8 text, a sentence or paragraph a line

each of which may be compressed (.gz, .tgz, .xz, .txz, .zst). Compressed
archives are recognised without .tar in their name too, as OpenWebText has
them. Kinds that only look like text, such as .csv, are refused by name. A byte
order mark at the head of a text means nothing. Links in a folder are
followed, those in an archive left out.
"""

import io
import json
import os
import re
import stat
import tarfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

from electra_tf.files import each_once
from electra_tf.pretraining_data import decompression
from electra_tf.text import vocabulary

# Enough lines for a graph call's overhead to vanish, few enough to stay in
# cache. A batch is about one block.
_BLOCK_BYTES = 1 << 20
_PARQUET_ROWS = 1000

# A tar header says so at this offset.
_TAR_MARK = b"ustar"
_TAR_MARK_OFFSET = 257

# Ends the names of files that TensorFlow's and Beam's writers make.
_ONE_OF_SEVERAL = re.compile(r"-\d+-of-\d+$")

# Name endings: compression, and what it means that there is nothing below.
_COMPRESSIONS = {
    ".gz": ("gzip", ""),
    ".tgz": ("gzip", ".tar"),
    ".xz": ("xz", ""),
    ".txz": ("xz", ".tar"),
    ".zst": ("zstd", ""),
}

# Of kinds that are not read, and what to do with them.
_REPACK = "unpack it, or pack it as .gz, .xz, .zst or .tar"
_ROWS = "write the text of its rows to .jsonl, .parquet or .txt"
_OTHER_KINDS = {
    ".json": "name it .jsonl if it has an object a line, or write it so",
    ".csv": _ROWS,
    ".tsv": _ROWS,
    **dict.fromkeys((".jsonlines", ".jl"), "name it .jsonl"),
    **dict.fromkeys((".pq", ".parq"), "name it .parquet"),
    **dict.fromkeys((".arrow", ".feather"), _ROWS),
    ".gzip": "name it .gz",
    ".zstd": "name it .zst",
    ".tfrecord": "it is made from text; keep it outside of the corpus",
    **dict.fromkeys(
        (".bz2", ".tbz2", ".zip", ".7z", ".rar", ".lz4", ".lzma", ".z"), _REPACK
    ),
}

_BYTE_ORDER_MARK = "\ufeff"
# No text holds so many.
_ZEROS = bytes(16)
# Nor as many characters that are none. More than a third of UTF-16 is, where it
# is not of a script whose bytes are no UTF-8 anyway.
_CONTROLS = bytes({*range(32), 127} - {*b"\t\n\v\f\r"})
_MOST_CONTROLS = 1 / 3
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
      text_field: Field of .jsonl, column of .parquet.
      on_bad_input: Called with a line about each damaged place, which is then
        left out; without it, the first one raises.
      is_cut: Whether the stream, as far as it was read, ends too early, which
        is told elsewhere.
    """

    blanks_separate_docs: bool = True
    text_field: str = "text"
    on_bad_input: Callable[[str], object] | None = None
    is_cut: Callable[[], bool] | None = None

    def refuse(self, message: str) -> None:
        """Reports a damaged place."""
        if self.on_bad_input is None:
            raise BadInput(message)
        self.on_bad_input(message)

    def refuse_end(self, message: str) -> None:
        """Reports a damaged place that is the last, unless it was cut off."""
        if self.is_cut is None or not self.is_cut():
            self.refuse(message)


def list_files(
    corpus_dir: str,
    on_bad_input: Callable[[str], object] | None = None,
    vocab_file: str | None = None,
    outputs: Sequence[str] = (),
    say: Callable[[str], object] | None = None,
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
      say: Called with a line if the vocabulary was left out, or files count
        twice.

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
    reading = Reading(on_bad_input=on_bad_input)
    no_text = set()
    if vocab_file:
        ours = (vocab_file, vocabulary.settings_file(vocab_file))
        no_text = {_identity(os.stat(p)) for p in ours if os.path.isfile(p)}
    files = []
    found = set()
    doubled = []
    folders = set()
    for folder, names in _walk(corpus_dir, reading.refuse):
        folders.add(os.path.realpath(folder))
        for path in (os.path.join(folder, name) for name in names):
            name = os.path.relpath(path, corpus_dir).replace(os.sep, "/")
            try:
                status = os.stat(path)
                if _identity(status) in no_text:
                    if say is not None:
                        say(f"{path!r} is no text: left out of the corpus")
                    continue
                if problem := _problem_of(name, path, status):
                    reading.refuse(problem)
                    continue
                with open(path, "rb"):
                    pass
            except OSError as error:
                reading.refuse(f"Cannot read {path!r}: {error.strerror}.")
                continue
            if status.st_size and _identity(status) in found:
                doubled.append(name)
            found.add(_identity(status))
            files.append(
                CorpusFile(name, path, status.st_size, status.st_mtime_ns)
            )
    if doubled and say is not None:
        say(
            f"warning: {len(doubled)} file(s) are in the corpus under another "
            f"name, too, such as {doubled[0]!r}: their text comes twice"
        )
    for output in outputs:
        _refuse_inside(output, corpus_dir, folders)
    refuse_without_text(corpus_dir, files)
    return sorted(files)


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


def _identity(status: os.stat_result) -> tuple[int, int]:
    """The same for all names of a file."""
    return status.st_dev, status.st_ino


def is_utf8(path: str) -> bool:
    """Whether a path, of which Python decodes any bytes, is text."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


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


def _refuse_inside(
    output: str, corpus_dir: str, folders: Collection[str]
) -> None:
    """Refuses an output in one of the folders of a corpus.

    Raises:
      ValueError: If it is.
    """
    folder = os.path.realpath(output)
    while folder not in folders:
        if os.path.basename(folder).startswith(".") or folder == os.sep:
            return
        folder = os.path.dirname(folder)
    refuse_output(output, corpus_dir)


def refuse_changed(file: CorpusFile) -> None:
    """Refuses a file that is another one than when it was listed.

    Raises:
      ValueError: If it has another size or time of change.
    """
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


def refuse_output(output: str, corpus_dir: str) -> NoReturn:
    """Refuses a folder in a corpus, whose text it would be the next time.

    Raises:
      ValueError: Always.
    """
    raise ValueError(
        f"Expected an --output-dir outside of the corpus {corpus_dir!r}. "
        f"Received: {output!r}."
    )


def refuse_without_text(corpus_dir: str, files: list[CorpusFile]) -> None:
    """Refuses a corpus whose files are empty.

    Raises:
      ValueError: If they are.
    """
    if not any(file.num_bytes for file in files):
        raise ValueError(
            f"Expected a folder with text. Received: {corpus_dir!r}, which "
            f"holds {len(files)} file(s), none with text."
        )


def read_lines(
    path: str, digest=None, reading: Reading | None = None
) -> Iterator[LineBatch]:
    """Reads a file in batches of some thousand lines.

    Lines end at "\\n" only; then white space, "\\r" included, is stripped. A
    line "" follows the end of a text, of a row and of a member of an archive.

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
        with open(path, "rb") as raw:
            counted = _CountingReader(raw, digest)
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


class _CountingReader(io.RawIOBase):
    """Counts and digests what passes."""

    def __init__(self, raw, digest):
        self._raw = raw
        self._digest = digest
        self.num_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        num_bytes = self._raw.readinto(buffer)
        self.num_bytes += num_bytes
        if self._digest is not None:
            self._digest.update(memoryview(buffer)[:num_bytes])
        return num_bytes


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
    """Lines of a stream of bytes, by the kind that its name says.

    Args:
      stream: An `io.BufferedReader`.
      path: Where the stream's bytes are a file, or None.
      name: For messages; its ending is the kind.
      reading: How to read.
    """
    refuse = reading.refuse
    # An empty file holds nothing to take for text, whatever it is called.
    if (problem := problem_of_kind(name)) and stream.peek(1):
        refuse(problem)
        return
    kind, compression = _kind_of(name)
    if compression:
        unpacker = decompression.decompressor(compression, stream)
        stream, path = io.BufferedReader(unpacker, _BLOCK_BYTES), None

        def on_bad_input(message: str) -> None:
            # What other bytes unpack to looks damaged too; it is named once.
            if unpacker.is_cut or not unpacker.damage:
                refuse(message)

        reading = reading._replace(
            on_bad_input=on_bad_input, is_cut=lambda: unpacker.is_cut
        )
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
    if compression and unpacker.damage:
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
        if _is_binary(block):
            reading.refuse(
                f"Expected text in UTF-8. Received: {name!r}, a third or more "
                "of whose bytes are control characters, as in UTF-16."
            )
            offset += len(block)
            continue
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


def _is_binary(block: bytes) -> bool:
    """Whether a block has more control characters than any text.

    Zeros that a damaged disk leaves are told line by line.
    """
    if len(block) < _LEAST_BYTES_TO_TELL or _ZEROS in block:
        return False
    num_controls = len(block) - len(block.translate(None, _CONTROLS))
    return num_controls > _MOST_CONTROLS * len(block)


def _decode(content: bytes) -> str:
    """The text, without which are also zeros that a damaged disk leaves.

    Raises:
      UnicodeDecodeError: If it is none.
    """
    start = content.find(_ZEROS)
    if start >= 0:
        end = start + len(_ZEROS)
        raise UnicodeDecodeError("utf-8", content, start, end, "zeros")
    return content.decode("utf-8")


def _decodable_lines(
    block: bytes, offset: int, name: str, reading: Reading
) -> Iterator[str]:
    """The lines of a block that are UTF-8, and a "" after them."""
    lines = block.split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            yield _decode(line)
        except UnicodeDecodeError as error:
            is_last = number == len(lines)
            refuse = reading.refuse_end if is_last else reading.refuse
            refuse(
                f"Expected text in UTF-8. Received: {name!r}, whose byte "
                f"{offset + error.start} is 0x{line[error.start]:02x}."
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
            row = json.loads(content.strip(), object_pairs_hook=each_once)
            if not isinstance(row, dict):
                raise ValueError("it is no object")
            if reading.text_field not in row:
                raise ValueError(f"it has no field {reading.text_field!r}")
            text = row[reading.text_field]
            if not isinstance(text, str):
                raise ValueError(
                    f"its field {reading.text_field!r} is {json.dumps(text)}"
                )
            # Half a surrogate pair can be written in JSON, but is no text.
            text.encode("utf-8")
        except UnicodeDecodeError as error:
            reason = f"it is not UTF-8 at its byte {error.start}"
        except UnicodeEncodeError as error:
            reason = f"its text holds half a character at {error.start}"
        except json.JSONDecodeError as error:
            reason = f"it is no JSON: {error.msg} at column {error.colno}"
        except (ValueError, RecursionError) as error:
            reason = str(error)[:200]
        else:
            yield _lines_of_row(text)
            continue
        is_last = not line.endswith(b"\n")
        refuse = reading.refuse_end if is_last else reading.refuse
        refuse(
            "Expected a JSON object with the text in the field "
            f"{reading.text_field!r}. Received: line {number} of {name!r}: "
            f"{reason}."
        )


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
            if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
                raise pa.ArrowInvalid(f"its column {field!r} holds {kind}")
            number = 0
            for batch in table.iter_batches(_PARQUET_ROWS, columns=[field]):
                lines: list[str] = []
                for text in batch.column(0).to_pylist():
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
    reading.refuse_end(
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
    # A member that is cut off has no last line: tarfile raises instead.
    within = reading._replace(is_cut=None)
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
                    yield from _lines_of(content, None, member_name, within)
            # Another one, which tarfile does not read, or damage.
            rest = iter(lambda: archive.fileobj.read(_BLOCK_BYTES), b"")
            if any(block.strip(b"\0") for block in rest):
                reading.refuse_end(
                    f"Expected one tar archive. Received: {name!r}, which goes "
                    "on behind the end of one: join archives by tar -A."
                )
    except tarfile.TarError as error:
        yield [""]
        reading.refuse_end(
            f"Expected a whole tar archive. Received: {name!r}, which is "
            f"damaged{f' at or after {member_name!r}' if member_name else ''}: "
            f"{error}."
        )
