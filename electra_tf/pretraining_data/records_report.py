"""Finished TFRecords, read from the first to the last -> a report on them.

Shapes: B rows, L length of an example.
"""

import collections
import contextlib
import itertools
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf.pretraining_data import (
    manifest,
    origins,
    output_folder,
    reports,
)
from electra_tf.pretraining_data import records as records_lib
from electra_tf.text import vocabulary
from electra_tf.training import replicas

_MAX_DUPLICATES = 0.01
# One of several files of a data set, by its name.
_ONE_OF_SEVERAL = re.compile(r"(.*?)(\d+)-of-(\d+)(.*)")

# TensorFlow's message may quote bytes that are no UTF-8.
_PARSE_ERRORS = (tf.errors.InvalidArgumentError, UnicodeDecodeError)


def check_files(
    pattern: str,
    vocab_file: str,
    run: reports.Run | None = None,
    num_samples: int = 3,
) -> None:
    """Prints the report on some TFRecord files.

    Args:
      pattern: A glob, globs separated by commas, or a builder's folder.
      vocab_file: What they were built with.
      run: What they are for, if that is known.
      num_samples: Examples to show as text.

    Raises:
      ValueError: If a run over them would end, or train on nonsense.
    """
    report = report_on_records(
        records_lib.match_files(pattern),
        vocabulary.load(vocab_file).tokens,
        run,
        num_samples,
        vocab_file,
    )
    report.print(sys.stdout)
    if report.errors:
        raise ValueError(
            f"{len(report.errors)} problem(s) would break a run over {pattern}."
        )


class Rows(NamedTuple):
    """Examples of one file.

    Attributes:
      input_ids, input_mask, segment_ids: <int64>[B, L].
      records: <int64>[B], their numbers in the file.
      path: The file.
    """

    input_ids: np.ndarray
    input_mask: np.ndarray
    segment_ids: np.ndarray
    records: np.ndarray
    path: str

    def place(self, row: int) -> str:
        return f"record {self.records[row]} of {self.path}"


class _Problems:
    """Problems by kind: how many records have each, and the first that has."""

    def __init__(self):
        self._counts: collections.Counter[str] = collections.Counter()
        self._first: dict[str, str] = {}

    def add(self, kind: str, first: str, count: int = 1) -> None:
        self._counts[kind] += count
        self._first.setdefault(kind, first)

    def add_rows(self, kind: str, rows: Rows, is_affected: np.ndarray) -> None:
        """Notes the rows where <bool>[B] is set."""
        if is_affected.any():
            first = rows.place(int(np.argmax(is_affected)))
            self.add(kind, first, int(is_affected.sum()))

    def lines(self) -> list[str]:
        return [
            f"{count:,} record(s) {kind}: {self._first[kind]}"
            + (" is the first" if count > 1 else "")
            for kind, count in self._counts.items()
        ]


class _RecordReader:
    """TFRecord files -> Rows, noting what cannot be read.

    Attributes:
      length: L: the model's, or else what most of the first records have.
      errors: What was wrong.
    """

    BATCH = 1000

    def __init__(self, length: int | None):
        self.length = length
        self.errors = _Problems()

    def read(self, path: str) -> Iterator[Rows]:
        """The examples of a file, as far as its records are whole."""
        records = self._read_serialized(path)
        first = 0
        while batch := list(itertools.islice(records, self.BATCH)):
            yield self._parse(batch, path, first)
            first += len(batch)

    def _read_serialized(self, path: str) -> Iterator[bytes]:
        num_records = 0
        try:
            dataset = tf.data.TFRecordDataset(path).with_options(
                replicas.UNTUNED
            )
            for record in dataset.as_numpy_iterator():
                num_records += 1
                yield record
        except (tf.errors.DataLossError, tf.errors.OutOfRangeError):
            self.errors.add(
                "cannot be read (damaged, cut short or no TFRecord), nor what "
                "follows in the file",
                f"record {num_records} of {path}",
            )
        except tf.errors.OpError as error:
            self.errors.add(
                f"cannot be read ({error.message})",
                f"record {num_records} of {path}",
            )

    def _parse(self, serialized: list[bytes], path: str, first: int) -> Rows:
        names = records_lib.FEATURE_NAMES
        records = np.arange(first, first + len(serialized))
        try:
            parsed = tf.io.parse_example(
                tf.constant(serialized), records_lib.FEATURES
            )
        except _PARSE_ERRORS:
            whole = []
            for i, record in enumerate(serialized):
                try:
                    tf.io.parse_example(
                        tf.constant([record]), records_lib.FEATURES
                    )
                    whole.append(i)
                except _PARSE_ERRORS:
                    self.errors.add(
                        f"are no examples with int64 {', '.join(names)}",
                        f"record {first + i} of {path}",
                    )
            records = records[whole]
            parsed = tf.io.parse_example(
                tf.constant([serialized[i] for i in whole], tf.string),
                records_lib.FEATURES,
            )
        lengths = np.stack(
            [parsed[name].row_lengths().numpy() for name in names], axis=-1
        )
        if self.length is None and lengths.any():
            # Of what has values; none is another error.
            self.length = 1 + int(np.bincount(lengths.flat)[1:].argmax())
        has_values = lengths.any(axis=-1)
        for row in np.flatnonzero(~has_values):
            self.errors.add(
                f"have no int64 {', '.join(names)}",
                f"record {records[row]} of {path}",
            )
        fits = has_values & (lengths == self.length).all(axis=-1)
        for row in np.flatnonzero(~fits & has_values):
            wrong = int(np.argmax(lengths[row] != self.length))
            self.errors.add(
                f"have {lengths[row, wrong]} values of {names[wrong]} instead "
                f"of {self.length}",
                f"record {records[row]} of {path}",
            )
        shape = [None, self.length or 0]
        ids, mask, segments = (
            parsed[name].to_tensor(shape=shape).numpy()[fits] for name in names
        )
        return Rows(ids, mask, segments, records[fits], path)


class _Totals:
    """Sums over all records."""

    def __init__(self, vocab_size: int):
        self.num_examples = 0
        self.num_tokens = 0
        self.num_two_segments = 0
        self.id_counts = np.zeros(vocab_size, np.int64)
        self.hashes: set[int] = set()

    def add(self, rows: Rows) -> None:
        is_token = rows.input_mask == 1
        ids = rows.input_ids[is_token]
        ids = ids[(ids >= 0) & (ids < len(self.id_counts))]
        self.id_counts += np.bincount(ids, minlength=len(self.id_counts))
        self.num_examples += len(rows.records)
        self.num_tokens += int(is_token.sum())
        self.num_two_segments += int((rows.segment_ids == 1).any(-1).sum())
        self.hashes.update(hash(row.tobytes()) for row in rows.input_ids)


def report_on_records(
    files: Sequence[str],
    vocab: Sequence[str],
    run: reports.Run | None = None,
    num_samples: int = 3,
    vocab_file: str | None = None,
) -> reports.Report:
    """Reads finished TFRecords from the first to the last.

    Checksums, features, lengths, ids, mask, segments and special tokens of
    every record are looked at. Exact duplicates are counted by hashes of 64
    bits, which takes some 60 bytes of memory a record.

    Args:
      files: TFRecord files.
      vocab: What they were built with.
      run: What they are for, if that is known.
      num_samples: Examples to show as text: the first of some files.
      vocab_file: Where the vocabulary was read, to be compared with what the
        manifests beside the files say.

    Returns:
      The report; it has errors if a run over the data would end or train on
      nonsense.
    """
    report = reports.Report()
    special = {
        token: list(vocab).index(token) for token in vocabulary.SPECIAL_TOKENS
    }
    reader = _RecordReader(run.max_seq_length if run else None)
    doubts = _Problems()
    totals = _Totals(len(vocab))
    num_examples = {}
    samples: dict[str, str] = {}
    sampled = np.linspace(0, len(files) - 1, min(num_samples, len(files)))
    sampled_files = {files[int(i)] for i in sampled}
    for path in files:
        before = totals.num_examples
        for rows in reader.read(path):
            _check_rows(rows, len(vocab), special, reader.errors, doubts)
            totals.add(rows)
            if path in sampled_files and len(rows.records):
                samples.setdefault(path, decode(rows.input_ids[0], vocab))
        num_examples[path] = totals.num_examples - before
    _describe_records(report, len(files), reader.length, totals, special)
    report.facts += [("an example", text) for text in samples.values()]
    report.errors += reader.errors.lines()
    report.warnings += doubts.lines()
    compare_with_manifests(report, num_examples, vocab_file)
    if line := origins.different_treatments(files):
        report.errors.append(line)
    if not totals.num_examples:
        report.errors.append(
            f"the {len(files)} file(s) hold no example, {files[0]} first of all"
        )
    elif run is not None:
        reports.check_run(
            report, run, totals.num_examples, len(vocab), reader.length
        )
    return report


def _check_rows(rows: Rows, vocab_size, special, errors, doubts) -> None:
    """Checks each of some rows."""
    ids, mask, segments = rows.input_ids, rows.input_mask, rows.segment_ids
    if not ids.size:
        return
    length = ids.shape[1]
    num_tokens = mask.sum(axis=-1)
    errors.add_rows(
        f"have ids outside of 0 to {vocab_size - 1}, the vocabulary's",
        rows,
        ((ids < 0) | (ids >= vocab_size)).any(axis=-1),
    )
    ones = np.arange(length) < num_tokens[:, np.newaxis]
    is_prefix = (mask == ones).all(axis=-1) & (num_tokens > 0)
    errors.add_rows(
        "have an input_mask that is not ones, then zeros", rows, ~is_prefix
    )
    is_token = mask == 1
    errors.add_rows(
        "have segment_ids other than 0 and 1",
        rows,
        ((segments < 0) | (segments > 1)).any(axis=-1),
    )
    # What follows means nothing where the mask is wrong.
    last = np.clip(num_tokens - 1, 0, length - 1)
    ends_with_sep = ids[np.arange(len(ids)), last] == special["[SEP]"]
    is_cls = (ids == special["[CLS]"]) & is_token
    errors.add_rows(
        f"do not start with [CLS] ({special['[CLS]']}), or have it elsewhere",
        rows,
        is_prefix & ((is_cls.sum(axis=-1) != 1) | ~is_cls[:, 0]),
    )
    is_sep = (ids == special["[SEP]"]) & is_token
    num_segments = 1 + (segments == 1).any(axis=-1)
    errors.add_rows(
        f"do not have [SEP] ({special['[SEP]']}) at the end of each segment",
        rows,
        is_prefix
        & (
            ~ends_with_sep
            | (is_sep.sum(axis=-1) != num_segments)
            | _changes_without_sep(segments, is_sep, is_token)
        ),
    )
    errors.add_rows(
        "have [MASK] in them: they were masked when they were built",
        rows,
        ((ids == special["[MASK]"]) & is_token).any(axis=-1),
    )
    is_padding = (ids == 0) | (ids == special["[PAD]"])
    is_stray = (mask == 0) & (~is_padding | (segments != 0))
    doubts.add_rows(
        f"have another id than 0 or [PAD] ({special['[PAD]']}), or another "
        "segment than 0, on padding",
        rows,
        is_prefix & is_stray.any(axis=-1),
    )
    doubts.add_rows(
        "have no token to mask",
        rows,
        is_prefix & ((is_token & ~is_cls & ~is_sep).sum(axis=-1) == 0),
    )


def _changes_without_sep(segments, is_sep, is_token) -> np.ndarray:
    """Rows in which the segment goes up without a [SEP], or down: <bool>[B]."""
    change = np.diff(segments, axis=-1)
    inside = is_token[:, 1:]
    return ((change != 0) & inside & ((change < 0) | ~is_sep[:, :-1])).any(-1)


def _describe_records(report, num_files, length, totals, special) -> None:
    num_examples = totals.num_examples
    report.fact(
        "data",
        f"{num_files:,} file(s), {num_examples:,} examples of "
        f"{length or 0} tokens",
    )
    if not num_examples:
        return
    padding = 1 - totals.num_tokens / (num_examples * length)
    unknown = totals.id_counts[special["[UNK]"]] / max(totals.num_tokens, 1)
    num_special = totals.id_counts[[special["[CLS]"], special["[SEP]"]]].sum()
    num_text = max(totals.num_tokens - num_special, 1)
    of_text = totals.id_counts[special["[UNK]"]] / num_text
    duplicates = 1 - len(totals.hashes) / num_examples
    report.fact(
        "tokens",
        f"{totals.num_tokens:,}, {totals.num_tokens / num_examples:.1f} an "
        f"example; {padding:.1%} of the positions are padding",
    )
    two_segments = totals.num_two_segments / num_examples
    report.fact("segments", f"two in {two_segments:.1%} of the examples")
    report.fact("[UNK]", f"{unknown:.3%} of the tokens")
    report.fact(
        "vocabulary",
        f"{len(totals.id_counts):,} entries, "
        f"{np.count_nonzero(totals.id_counts):,} of them in the data",
    )
    report.fact("duplicates", f"{duplicates:.2%} of the examples")
    if padding > reports.MAX_PADDING:
        report.warnings.append(
            f"{padding:.0%} of the positions are padding, which is computed "
            "for nothing: build with a smaller --max-seq-length, or with "
            "--no-blanks-separate-docs"
        )
    if of_text > reports.MOSTLY_UNKNOWN:
        report.errors.append(
            f"{of_text:.0%} of the text's tokens are [UNK], from which nothing "
            "can be learned"
        )
    elif unknown > reports.MAX_UNKNOWN:
        report.warnings.append(
            f"{unknown:.1%} of the tokens are [UNK]: the vocabulary does not "
            "fit the text"
        )
    if duplicates > _MAX_DUPLICATES:
        report.warnings.append(
            f"{duplicates:.1%} of the examples repeat an earlier one token for "
            "token: build with --dedup"
        )


def compare_with_manifests(
    report: reports.Report,
    num_examples: dict[str, int],
    vocab_file: str | None,
) -> None:
    """Compares files with the manifests that builds left beside them.

    Args:
      report: Takes what is found.
      num_examples: File -> how many examples it has.
      vocab_file: What they were built with, if that is known.
    """
    for folder in sorted({os.path.dirname(path) for path in num_examples}):
        path = os.path.join(folder, manifest.FILE_NAME)
        if not tf.io.gfile.exists(path):
            report.fact("manifest", f"none in {folder!r}: nothing to compare")
            _compare_names(report, folder, num_examples)
            continue
        try:
            with tf.io.gfile.GFile(path) as reader:
                expected = manifest.parse(reader.read())
        except (tf.errors.OpError, ValueError) as error:
            report.warnings.append(f"nothing is compared with {path}: {error}")
            continue
        report.fact("manifest", path)
        found = {
            os.path.basename(of_folder): count
            for of_folder, count in num_examples.items()
            if os.path.dirname(of_folder) == folder
        }
        _compare_files(report, folder, expected["shards"], found)
        if vocab_file is not None:
            _compare_vocabulary(report, path, expected, vocab_file)


def refuse_unfinished(files: Iterable[str]) -> None:
    """Refuses to train on what a build has finished of its files so far.

    Args:
      files: TFRecord files.

    Raises:
      DataError: If a build is at work in a folder of theirs, or was ended.
    """
    for folder in sorted({os.path.dirname(path) for path in files}):
        if line := _unfinished(folder):
            raise errors.DataError(line)


def _unfinished(folder: str) -> str | None:
    """A line where a build in a folder has not come to its manifest."""
    names: list[str] = []
    with contextlib.suppress(tf.errors.OpError):
        names = [n.rstrip("/") for n in tf.io.gfile.listdir(folder or ".")]
    left = [
        name
        for name in sorted(names)
        if name == output_folder.UNFINISHED
        or name.startswith(manifest.CLAIM_PREFIX)
    ]
    if not left or manifest.FILE_NAME in names:
        return None
    return (
        f"Expected a finished build in {folder or '.'}, with a "
        f"{manifest.FILE_NAME}. Received: a part of one, at work or "
        f"interrupted, as {left[0]} says: give its command again, or remove "
        "that to take the files that are there"
    )


def _compare_names(report, folder: str, paths: Iterable[str]) -> None:
    """Looks for what is missing of a build that left no manifest."""
    if line := _unfinished(folder):
        report.errors.append(line)
    found = collections.defaultdict(set)
    for path in paths:
        of_folder, name = os.path.split(path)
        if of_folder == folder and (match := _ONE_OF_SEVERAL.fullmatch(name)):
            first, number, of, last = match.groups()
            found[first, of, last].add(int(number))
    for (first, of, last), numbers in sorted(found.items()):
        if len(numbers) < int(of):
            report.warnings.append(
                f"{len(numbers)} of {int(of)} files named "
                f"{os.path.join(folder, first)}<i>-of-{of}{last} are among "
                "those to read: the others are missing, or left out"
            )


def _compare_files(
    report, folder: str, shards: Sequence[dict], found: dict[str, int]
) -> None:
    """Compares the files of a folder, and their examples, with a manifest."""
    says = f"as {manifest.FILE_NAME} says"
    unread = []
    for shard in shards:
        path = os.path.join(folder, shard["name"])
        if shard["name"] not in found:
            if tf.io.gfile.exists(path):
                unread.append(path)
            else:
                report.errors.append(f"expected {path}, {says}: it is missing")
        elif found[shard["name"]] != shard["examples"]:
            report.errors.append(
                f"expected {shard['examples']:,} examples in {path}, {says}, "
                f"found {found[shard['name']]:,}"
            )
        elif (size := tf.io.gfile.stat(path).length) != shard["bytes"]:
            report.errors.append(
                f"expected {shard['bytes']:,} bytes in {path}, {says}, found "
                f"{size:,}: it is the file of another build"
            )
    if unread:
        report.warnings.append(
            f"{len(unread)} of {len(shards)} file(s) of the build are not "
            f"among those to read, such as {unread[0]}"
        )
    if foreign := sorted(found.keys() - {shard["name"] for shard in shards}):
        report.errors.append(
            f"{len(foreign)} file(s) are not of the build that "
            f"{manifest.FILE_NAME} describes, such as "
            f"{os.path.join(folder, foreign[0])}"
        )


def _compare_vocabulary(report, path, expected: dict, vocab_file: str) -> None:
    tokens = vocabulary.load_vocab(vocab_file)
    here = vocabulary.digest(tokens)
    there = expected["vocabulary"]["tokens_sha256"]
    if here != there:
        report.errors.append(
            f"{vocab_file} is not the vocabulary that the data were built "
            f"with: the SHA-256 of its tokens begins with {here[:8]}, that in "
            f"{path} with {there[:8]}"
        )


def decode(ids: np.ndarray, vocab: Sequence[str]) -> str:
    """Ids as text: pieces joined to words, padding at the end left out.

    Args:
      ids: <int>[L]; one outside the vocabulary shows as <id>.
      vocab: The tokens.
    """
    tokens = [
        vocab[i] if 0 <= i < len(vocab) else f"<{i}>" for i in ids.tolist()
    ]
    while tokens and tokens[-1] == vocabulary.PAD_TOKEN:
        tokens.pop()
    return " ".join(tokens).replace(" ##", "")
