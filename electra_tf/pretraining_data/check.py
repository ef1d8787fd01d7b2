"""A sample of a corpus, or finished TFRecords -> a report, before a run does.

A report has facts to read, warnings of what makes a run worse, and errors that
would end one. Shapes: B rows, L length of an example.
"""

import collections
import itertools
import os
import random
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TextIO

import numpy as np
import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.pretraining_data import corpus, manifest
from electra_tf.pretraining_data import examples as examples_lib
from electra_tf.pretraining_data import records as records_lib
from electra_tf.text import tokenization, vocabulary
from electra_tf.training import replicas

# Text that a report on a corpus tokenizes, and pieces that it is taken from.
SAMPLE_BYTES = 2 << 20
SAMPLE_PIECES = 32
# Text of a file to measure how much of it a byte of the file is.
_LEAST_MEASURED = 4 << 20

# Above these shares a report warns. Vocabularies of a language leave far less
# of its text unknown, and spell its words in far fewer pieces.
_MAX_UNKNOWN = 0.01
_MAX_MISSING_CHARACTERS = 0.001
_MAX_STRIPPED = 0.01
_MAX_PIECES_PER_WORD = 4.0
_MAX_PADDING = 0.3
_MAX_CUT = 0.2
_MAX_DUPLICATES = 0.01
# Epochs after which a model has long learned its examples by heart.
_MAX_EPOCHS = 100
# And above this one nothing can be learned.
_MOSTLY_UNKNOWN = 0.5
# Of a kind of finding, those that are named.
_NUM_NAMED = 8
_BRACKETED = re.compile(r"\[.+\]")
_MARKER = re.compile(r"\[(?:PAD|UNK|CLS|SEP|MASK)\]")
# One of several files of a data set, by its name.
_ONE_OF_SEVERAL = re.compile(r"(.*?)(\d+)-of-(\d+)(.*)")
_BATCH = 1000


class Report:
    """What is known of data, in lines for people.

    Attributes:
      facts: Name -> what it is.
      warnings: What makes a run worse.
      errors: What would end a run, or train on nonsense.
    """

    def __init__(self):
        self.facts: dict[str, str] = {}
        self.warnings: list[str] = []
        self.errors: list[str] = []

    def warn_if(self, condition: Any, line: str) -> None:
        """Takes a warning where the condition holds."""
        if condition:
            self.warnings.append(line)

    def show(self, facts_to: TextIO, consequence: str) -> None:
        """Prints facts in a column; the rest goes to stderr line by line.

        Args:
          facts_to: Takes the facts.
          consequence: Of the errors.

        Raises:
          ValueError: If there are errors.
        """
        width = max(map(len, self.facts), default=0) + 1
        for name, text in self.facts.items():
            print(f"{name + ':':{width}} {text}", file=facts_to)
        for line in self.warnings:
            errors.warn(line)
        for line in self.errors:
            print(f"error: {line}", file=sys.stderr)
        if self.errors:
            raise ValueError(f"{len(self.errors)} problem(s) {consequence}.")

    def compare_run(
        self,
        config: configs.PretrainingConfig | None,
        num_examples: int,
        vocab_size: int,
        max_seq_length: int,
    ) -> None:
        """Compares examples with the run that they are for, if it is known."""
        if config is None:
            return
        for name, in_run, here in (
            ("vocab_size", config.model.encoder.vocab_size, vocab_size),
            ("max_seq_length", config.model.max_seq_length, max_seq_length),
        ):
            if in_run != here:
                self.errors.append(
                    f"expected {name}={here} in the run's configuration, "
                    f"received {in_run}"
                )
        if not num_examples:
            return
        num_steps = config.run.num_train_steps
        batch_size = config.data.train_batch_size
        epochs = num_steps * batch_size / num_examples
        self.facts["epochs"] = (
            f"{epochs:,.2f} in {num_steps:,} steps of {batch_size} examples"
        )
        self.warn_if(
            epochs > _MAX_EPOCHS,
            f"the run sees every example {epochs:,.0f} times: more text, or "
            "fewer steps",
        )
        self.warn_if(
            num_examples < batch_size,
            f"{num_examples} examples are fewer than the batch of "
            f"{batch_size}: a step sees some of them twice",
        )


class Sample(NamedTuple):
    """A part of a corpus.

    Attributes:
      files: Lines of each file that was read; "" ends a document.
      share: Which share of the corpus this is, by bytes.
      description: Where it was taken from.
      bad_input: A line about each damaged place, which was left out.
    """

    files: list[list[str]]
    share: float
    description: str
    bad_input: list[str]


def take_sample(
    files: Sequence[corpus.CorpusFile],
    reading: corpus.Reading | None = None,
    max_bytes: int = SAMPLE_BYTES,
) -> Sample:
    """Reads the beginnings of files that are spread over a corpus.

    Args:
      files: The corpus; one of up to `max_bytes` is read whole.
      reading: How to read it; damaged places are left out in any case.
      max_bytes: Text to take, more or less.

    Raises:
      ValueError: If a package is missing that reads such files.
    """
    bad_input: list[str] = []
    reading = (reading or corpus.Reading())._replace(
        on_bad_input=bad_input.append
    )
    ends = np.cumsum([file.num_bytes for file in files])
    total = int(ends[-1])
    chosen, bytes_of_each = list(files), max_bytes
    if total > max_bytes:
        # The files in which equidistant bytes of the corpus lie.
        places = (np.arange(SAMPLE_PIECES) + 0.5) * total / SAMPLE_PIECES
        numbers = np.unique(np.searchsorted(ends, places, side="right"))
        chosen = [files[i] for i in numbers]
        bytes_of_each = max(1, max_bytes // len(chosen))
    texts = []
    num_read = 0.0
    for file in chosen:
        lines, read = _read_beginning(file, bytes_of_each, reading)
        texts.append(lines)
        num_read += min(read, file.num_bytes)
    description = (
        f"{num_read / 1e6:,.3g} of {total / 1e6:,.3g} MB, "
        + f"{len(chosen)} of " * (len(chosen) < len(files))
        + f"{len(files)} file(s)"
        + ", from the beginning of each" * (num_read < total)
    )
    return Sample(texts, num_read / max(total, 1), description, bad_input)


def _read_beginning(
    file: corpus.CorpusFile, max_bytes: int, reading: corpus.Reading
) -> tuple[list[str], float]:
    """Lines of about `max_bytes` of text, and what they take in the file."""
    kept: list[str] = []
    num_kept = num_text = num_read = 0
    for lines, num_bytes in corpus.read_lines(file.path, reading=reading):
        num_read += num_bytes
        for line in lines:
            size = len(line.encode()) + 1
            num_text += size
            if num_kept < max_bytes:
                kept.append(line)
                num_kept += size
        if num_kept >= max_bytes and num_text >= _LEAST_MEASURED:
            if file.path.lower().endswith(".parquet"):
                # It is not read from its start to its end; "" ends a row.
                import pyarrow.parquet as pq

                with pq.ParquetFile(file.path) as table:
                    share = kept.count("") / max(1, table.metadata.num_rows)
                return kept, file.num_bytes * share
            break
    return kept, num_read * num_kept / max(1, num_text)


def report_on_text(
    sample: Sample,
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
    config: configs.PretrainingConfig | None = None,
) -> Report:
    """What a corpus will be through this vocabulary and these flags.

    Args:
      sample: See `take_sample`.
      tokenizer: With the flags of the build.
      max_seq_length: L.
      config: Of the run that the examples are for, if that is known.
    """
    report = Report()
    lines = [line for file in sample.files for line in file if line]
    counts = tokenization.count_words(
        [lines], tokenizer.do_lower_case, tokenizer.strip_accents
    )
    report.facts["sample"] = sample.description
    num_examples = _check_examples(
        report, sample, tokenizer, max_seq_length, counts.total()
    )
    _check_special_tokens(report, tokenizer, lines)
    if counts:
        _check_words(report, counts, tokenizer)
        _check_treatment(report, counts, tokenizer)
        if tokenizer.do_lower_case and tokenizer.strip_accents:
            report.warnings += stripped_words(lines)
    report.compare_run(
        config, num_examples, tokenizer.vocab_size, max_seq_length
    )
    return report


def _check_examples(
    report, sample, tokenizer, max_seq_length, num_words
) -> int:
    """Builds the sample's examples; how many the corpus will have."""
    tokenize = examples_lib.CachingLineTokenizer(tokenizer)
    builder = examples_lib.ExampleBuilder(
        tokenizer, max_seq_length, random.Random(0)
    )
    num_documents = num_lines = num_tokens = longest_line = num_kept = 0
    lengths = []
    for lines in sample.files:
        in_document = False
        lines = [*lines, ""]  # The end of a sampled file may be missing.
        for line, packed in zip(lines, tokenize(lines), strict=True):
            num_ids = records_lib.count_ids(packed)
            segments = builder.add(packed, num_ids) if line else builder.end()
            num_documents += in_document and not line
            in_document = bool(line)
            num_lines += in_document
            num_tokens += num_ids
            longest_line = max(longest_line, num_ids)
            if segments is not None:
                lengths.append(segments.num_tokens)
                num_kept += segments.num_first + segments.num_second
    num_examples = round(len(lengths) / max(sample.share, 1e-12))
    padding = 1 - sum(lengths) / max(len(lengths) * max_seq_length, 1)
    cut = 1 - num_kept / max(num_tokens, 1)
    per_word = num_tokens / max(num_words, 1)
    report.facts["text"] = (
        f"{num_documents:,} documents, {num_lines:,} lines, {num_words:,} "
        f"words, {num_tokens:,} tokens"
    )
    report.facts["tokens"] = (
        f"{per_word:.2f} a word, {num_tokens / max(num_lines, 1):,.1f} a line, "
        f"{num_tokens / max(num_documents, 1):,.1f} a document"
    )
    report.facts["examples"] = (
        f"about {num_examples:,} of {max_seq_length} tokens, {padding:.1%} of "
        "it padding"
    )
    report.warn_if(
        per_word > _MAX_PIECES_PER_WORD,
        f"a word takes {per_word:.1f} tokens on average: the vocabulary knows "
        "letters rather than words of this language",
    )
    report.warn_if(
        sample.bad_input,
        f"{len(sample.bad_input)} damaged place(s), which end the build, or "
        "are left out with --on-bad-input=skip: "
        + "".join(sample.bad_input[:1]),
    )
    if not lengths:
        report.errors.append("the sample makes no examples: it has no tokens")
        return 0
    report.warn_if(
        padding > _MAX_PADDING,
        f"{padding:.0%} of the examples is padding: use a smaller "
        "--max-seq-length, or pack short documents together, by "
        "--no-blanks-separate-docs or in larger files",
    )
    report.warn_if(
        cut > _MAX_CUT,
        f"{cut:.0%} of the tokens are in no example: what does not fit into "
        f"one is cut off, and the longest line has {longest_line:,} tokens for "
        f"{max_seq_length}; give a sentence a line",
    )
    return num_examples


def _check_special_tokens(report, tokenizer, lines) -> None:
    """Checks of the vocabulary's layout, and for its markers in the text."""
    vocab = tokenizer.vocab
    report.facts["special tokens"] = ", ".join(
        f"{token} {vocab.index(token)}" for token in vocabulary.SPECIAL_TOKENS
    )
    report.warn_if(
        tokenizer.pad_token_id != 0,
        f"[PAD] is {tokenizer.pad_token_id} in the vocabulary; other libraries "
        "count on 0",
    )
    if "" in vocab:
        report.warnings.append(
            f"the vocabulary has {vocab.count('')} blank line(s), the first on "
            f"line {vocab.index('') + 1}: an id that no text gets"
        )
    report.warn_if(
        not any(entry.startswith("##") for entry in vocab),
        "no entry of the vocabulary starts with ##: is it one of WordPiece?",
    )
    markers = collections.Counter(
        marker for line in lines for marker in _MARKER.findall(line)
    )
    for token, count in markers.most_common(1):
        report.warnings.append(
            f"{markers.total()} special token(s) stand in the text, such as "
            f"{token} ({count} times): there they are words like any other"
        )


def _spellings(vocab: Sequence[str]) -> list[str]:
    """What the entries spell, without those like [CLS]."""
    return [
        entry.removeprefix("##")
        for entry in vocab
        if entry and not _BRACKETED.fullmatch(entry)
    ]


def _check_words(report, counts: collections.Counter[str], tokenizer) -> None:
    """Looks for words that become [UNK], and characters that no entry has."""
    pieces = tokenizer.tokenize(tf.constant(list(counts), tf.string)).to_list()
    unknown = collections.Counter(
        {
            word: counts[word]
            for word, ids in zip(counts, pieces, strict=True)
            if tokenizer.unk_token_id in ids
        }
    )
    num_pieces = sum(
        count * len(ids)
        for count, ids in zip(counts.values(), pieces, strict=True)
    )
    num_used = len(set(itertools.chain.from_iterable(pieces)))
    report.facts["vocabulary"] = (
        f"{tokenizer.vocab_size:,} entries, {num_used:,} of them in the sample"
    )
    share = unknown.total() / counts.total()
    report.facts["[UNK]"] = (
        f"{share:.3%} of the words"
        + (", most often " * bool(unknown))
        + ", ".join(
            f"{word if len(word) <= 20 else word[:17] + '...'!r} ({count})"
            for word, count in unknown.most_common(_NUM_NAMED)
        )
    )
    report.warn_if(
        share > _MAX_UNKNOWN,
        f"{share:.1%} of the words are [UNK]: is the vocabulary of this "
        "language, and are the flags its own?",
    )
    if unknown.total() > _MOSTLY_UNKNOWN * num_pieces:
        report.errors.append(
            f"{unknown.total() / num_pieces:.0%} of the tokens would be [UNK], "
            "from which nothing can be learned"
        )
    known = set("".join(_spellings(tokenizer.vocab)))
    missing: collections.Counter[str] = collections.Counter()
    for word, count in unknown.items():
        for character in word:
            missing[character] += count * (character not in known)
    missing = +missing
    if not missing:
        return
    share = missing.total() / sum(len(w) * n for w, n in counts.items())
    named = [
        # A combining one on a dotted circle.
        f"{'◌' * bool(unicodedata.combining(c)) + c!r} U+{ord(c):04X} ({n})"
        for c, n in missing.most_common(_NUM_NAMED)
    ]
    report.facts["missing characters"] = (
        f"{len(missing)} kind(s), {share:.3%} of the text: {', '.join(named)}"
    )
    report.warn_if(
        share > _MAX_MISSING_CHARACTERS,
        f"{share:.2%} of the characters are not in the vocabulary, first of "
        f"all {named[0]}: every word with one is [UNK]",
    )


def _check_treatment(report, counts: collections.Counter[str], tokenizer):
    """Checks that the vocabulary is of text that was treated likewise."""
    entries = _spellings(tokenizer.vocab)
    lower, strip = tokenizer.do_lower_case, tokenizer.strip_accents
    for what, treat, is_treated, most, undo, do in (
        ("capitals", str.lower, lower, 0.02, "--no-lower-case", "--lower-case"),
        (
            "accents",
            lambda text: unicodedata.normalize("NFC", _stripped(text)),
            lower and strip,
            0.005,
            "--no-strip-accents",
            "--lower-case --strip-accents",
        ),
    ):
        kept = [entry for entry in entries if entry != treat(entry)]
        if is_treated and len(kept) > most * len(entries):
            report.warnings.append(
                f"text loses its {what}, but {len(kept)} of the "
                f"{len(entries)} entries have them, such as "
                f"{kept[len(kept) // 2]!r}: use {undo}"
            )
        if is_treated or kept:
            continue
        affected = sum(n for word, n in counts.items() if word != treat(word))
        report.warn_if(
            affected > 0.01 * counts.total(),
            f"{affected / counts.total():.1%} of the words have {what}, but no "
            f"entry of the vocabulary has: use {do}",
        )


def _stripped(text: str) -> str:
    """Text decomposed and without its marks, as the tokenizer strips it."""
    return "".join(
        character
        for character in unicodedata.normalize("NFD", text)
        if unicodedata.category(character) != "Mn"
    )


def stripped_words(lines: Iterable[str]) -> list[str]:
    """A line where stripping accents changes many words, in any script.

    Args:
      lines: Text as it is before it is lower-cased.
    """
    changed: collections.Counter[str] = collections.Counter()
    num_words = 0
    for line in lines:
        words = line.split()
        num_words += len(words)
        if not line.isascii():
            changed.update(word for word in words if _stripped(word) != word)
    if changed.total() <= _MAX_STRIPPED * num_words:
        return []
    word = changed.most_common(1)[0][0][:20]
    return [
        f"stripping accents changes {changed.total() / num_words:.1%} of the "
        f"words, such as {word!r} to {_stripped(word)!r}: where that is "
        "another word, use --no-strip-accents, for the vocabulary, too"
    ]


def check_files(
    pattern: str,
    vocab_file: str,
    config: configs.PretrainingConfig | None = None,
    num_samples: int = 3,
) -> None:
    """Prints the report on some TFRecord files.

    Args:
      pattern: A glob, globs separated by commas, or a builder's folder.
      vocab_file: What they were built with.
      config: Of the run that they are for, if that is known.
      num_samples: Examples to show as text.

    Raises:
      ValueError: If a run over them would end, or train on nonsense.
    """
    report_on_records(
        records_lib.match_files(pattern),
        vocabulary.load(vocab_file).tokens,
        config,
        num_samples,
        vocab_file,
    ).show(sys.stdout, f"would break a run over {pattern}")


class _Problems:
    """Problems by kind: how many records have each, and the first that has."""

    def __init__(self):
        self._counts: collections.Counter[str] = collections.Counter()
        self._first: dict[str, str] = {}

    def add(self, kind: str, path: str, numbers: Sequence | np.ndarray) -> None:
        if len(numbers):
            self._counts[kind] += len(numbers)
            self._first.setdefault(kind, f"record {numbers[0]} of {path}")

    def lines(self) -> list[str]:
        return [
            f"{count:,} record(s) {kind}: {self._first[kind]}"
            + " is the first" * (count > 1)
            for kind, count in self._counts.items()
        ]


def report_on_records(
    files: Sequence[str],
    vocab: Sequence[str],
    config: configs.PretrainingConfig | None = None,
    num_samples: int = 3,
    vocab_file: str | None = None,
) -> Report:
    """Reads finished TFRecords from the first to the last.

    Checksums, features, lengths, ids, mask, segments and special tokens of
    every record are looked at. Exact duplicates are counted by hashes of 64
    bits, which takes some 60 bytes of memory a record.

    Args:
      files: TFRecord files.
      vocab: What they were built with.
      config: Of the run that they are for, if that is known.
      num_samples: Examples to show as text: the first of some files.
      vocab_file: Where the vocabulary was read, to be compared with what the
        manifests beside the files say.

    Returns:
      The report; it has errors if a run over the data would end or train on
      nonsense.
    """
    report, problems, doubts = Report(), _Problems(), _Problems()
    special = {
        token: list(vocab).index(token) for token in vocabulary.SPECIAL_TOKENS
    }
    length = config.model.max_seq_length if config else 0
    num_tokens = num_two_segments = 0
    id_counts = np.zeros(len(vocab), np.int64)
    hashes: set[int] = set()
    num_examples = dict.fromkeys(files, 0)
    samples: dict[str, str] = {}
    sampled = np.linspace(0, len(files) - 1, min(num_samples, len(files)))
    sampled_files = {files[int(i)] for i in sampled}
    for path in files:
        records = _records_of(path, problems)
        first = 0
        while batch := [*itertools.islice(records, _BATCH)]:
            numbers = np.arange(first, first + len(batch))
            first += len(batch)
            *rows, numbers = _parsed(batch, path, numbers, length, problems)
            if not len(numbers):
                continue
            input_ids, mask, segments = rows
            # The model's, or else what most of the first records have.
            length = input_ids.shape[1]
            for kind, is_bad, is_doubt in _bad_rows(rows, special, len(vocab)):
                (doubts if is_doubt else problems).add(
                    kind, path, numbers[is_bad]
                )
            is_token = mask == 1
            ids = input_ids[is_token]
            ids = ids[(ids >= 0) & (ids < len(vocab))]
            id_counts += np.bincount(ids, minlength=len(vocab))
            num_examples[path] += len(numbers)
            num_tokens += int(is_token.sum())
            num_two_segments += int((segments == 1).any(-1).sum())
            hashes.update(hash(row.tobytes()) for row in input_ids)
            if path in sampled_files:
                samples.setdefault(path, decode(input_ids[0], vocab))
    total = sum(num_examples.values())
    report.facts["data"] = (
        f"{len(files):,} file(s), {total:,} examples of {length} tokens"
    )
    if total:
        padding = 1 - num_tokens / (total * length)
        duplicates = 1 - len(hashes) / total
        _describe(report, padding, id_counts, special, duplicates)
        report.facts["segments"] = (
            f"two in {num_two_segments / total:.1%} of the examples"
        )
    for number, text in enumerate(samples.values(), start=1):
        report.facts[f"example {number}"] = text
    report.errors += problems.lines()
    report.warnings += doubts.lines()
    compare_with_manifests(report, num_examples, vocab_file)
    if line := manifest.different_treatments(files):
        report.errors.append(line)
    if not total:
        report.errors.append(
            f"the {len(files)} file(s) hold no example, {files[0]} first of all"
        )
    else:
        report.compare_run(config, total, len(vocab), length)
    return report


def _records_of(path: str, problems: _Problems) -> Iterator[bytes]:
    """The records of a file, as far as it can be read."""
    data = tf.data.TFRecordDataset(path).with_options(replicas.UNTUNED)
    number = 0
    try:
        for record in data.as_numpy_iterator():
            yield record
            number += 1
    except tf.errors.OpError as error:
        reason = error.message
        if isinstance(
            error, tf.errors.DataLossError | tf.errors.OutOfRangeError
        ):
            reason = "damaged, cut short or no TFRecord"
        problems.add(
            f"cannot be read ({reason}), nor what follows in the file",
            path,
            [number],
        )


def _parse(serialized: list[bytes]) -> Any:
    """Their features; None where one of them is no example."""
    try:
        return tf.io.parse_example(
            tf.constant(serialized, tf.string), records_lib.FEATURES
        )
    # TensorFlow's message may quote bytes that are no UTF-8.
    except (tf.errors.InvalidArgumentError, UnicodeDecodeError):
        return None


def _parsed(
    serialized: list[bytes],
    path: str,
    numbers: np.ndarray,
    length: int,
    problems: _Problems,
) -> list[np.ndarray]:
    """Three times <int64>[B, L] of examples that fit, and their numbers."""
    names = records_lib.FEATURE_NAMES
    parsed = _parse(serialized)
    if parsed is None:
        is_whole = np.array([_parse([r]) is not None for r in serialized])
        problems.add(
            f"are no examples with int64 {', '.join(names)}",
            path,
            numbers[~is_whole],
        )
        numbers = numbers[is_whole]
        serialized = list(itertools.compress(serialized, is_whole))
        parsed = _parse(serialized)
    lengths = np.stack([parsed[name].row_lengths() for name in names], axis=-1)
    has_values = lengths.any(axis=-1)
    if not has_values.all():
        others = records_lib.feature_names(serialized[np.argmin(has_values)])
        problems.add(
            f"have no int64 {', '.join(names)}, but {', '.join(others)}",
            path,
            numbers[~has_values],
        )
    if not length and has_values.any():
        length = 1 + int(np.bincount(lengths.flat)[1:].argmax())
    fits = (lengths == length).all(axis=-1) & has_values
    for row in np.flatnonzero(~fits & has_values):
        wrong = int(np.argmax(lengths[row] != length))
        problems.add(
            f"have {lengths[row, wrong]} values of {names[wrong]} instead of "
            f"{length}",
            path,
            numbers[[row]],
        )
    rows = [parsed[n].to_tensor(shape=[None, length]).numpy() for n in names]
    return [*(values[fits] for values in rows), numbers[fits]]


def _bad_rows(
    rows: Sequence[np.ndarray], special: dict[str, int], vocab_size: int
) -> Iterator[tuple[str, Any, bool]]:
    """Kinds of problems, <bool>[B] of who has one, and whether it is minor."""
    ids, mask, segments = rows
    length = ids.shape[1]
    num_tokens = mask.sum(axis=-1)
    ones = np.arange(length) < num_tokens[:, np.newaxis]
    is_prefix = (mask == ones).all(axis=-1) & (num_tokens > 0)
    is_token = mask == 1
    # What follows means nothing where the mask is wrong.
    last = np.clip(num_tokens - 1, 0, length - 1)
    ends_with_sep = ids[np.arange(len(ids)), last] == special["[SEP]"]
    is_cls = (ids == special["[CLS]"]) & is_token
    is_sep = (ids == special["[SEP]"]) & is_token
    num_segments = 1 + (segments == 1).any(axis=-1)
    # The segment goes up without a [SEP], or down.
    change = np.diff(segments, axis=-1)
    jumps = (change != 0) & is_token[:, 1:]
    jumps &= (change < 0) | ~is_sep[:, :-1]
    is_padding = (ids == 0) | (ids == special["[PAD]"])
    is_stray = (mask == 0) & (~is_padding | (segments != 0))
    has_text = (is_token & ~is_cls & ~is_sep).any(axis=-1)
    is_bad_end = ~ends_with_sep | (is_sep.sum(axis=-1) != num_segments)
    for kind, is_bad in (
        (
            f"have ids outside of 0 to {vocab_size - 1}, the vocabulary's",
            ((ids < 0) | (ids >= vocab_size)).any(axis=-1),
        ),
        ("have an input_mask that is not ones, then zeros", ~is_prefix),
        (
            "have segment_ids other than 0 and 1",
            ((segments < 0) | (segments > 1)).any(axis=-1),
        ),
        (
            f"do not start with [CLS] ({special['[CLS]']}), or have it "
            "elsewhere",
            is_prefix & ((is_cls.sum(axis=-1) != 1) | ~is_cls[:, 0]),
        ),
        (
            f"do not have [SEP] ({special['[SEP]']}) at the end of each "
            "segment",
            is_prefix & (is_bad_end | jumps.any(axis=-1)),
        ),
        (
            "have [MASK] in them: they were masked when they were built",
            ((ids == special["[MASK]"]) & is_token).any(axis=-1),
        ),
    ):
        yield kind, is_bad, False
    yield (
        f"have another id than 0 or [PAD] ({special['[PAD]']}), or another "
        "segment than 0, on padding",
        is_prefix & is_stray.any(axis=-1),
        True,
    )
    yield "have no token to mask", is_prefix & ~has_text, True


def _describe(report, padding, id_counts, special, duplicates) -> None:
    """Facts of all records, and what is wrong with them together."""
    num_tokens = id_counts.sum()
    num_unknown = id_counts[special["[UNK]"]]
    num_special = id_counts[[special["[CLS]"], special["[SEP]"]]].sum()
    unknown = num_unknown / max(num_tokens, 1)
    in_text = num_unknown / max(num_tokens - num_special, 1)
    report.facts["tokens"] = (
        f"{num_tokens:,}; {padding:.1%} of the positions are padding"
    )
    report.facts["[UNK]"] = f"{unknown:.3%} of the tokens"
    report.facts["vocabulary"] = (
        f"{len(id_counts):,} entries, {np.count_nonzero(id_counts):,} of them "
        "in the data"
    )
    report.facts["duplicates"] = f"{duplicates:.2%} of the examples"
    report.warn_if(
        padding > _MAX_PADDING,
        f"{padding:.0%} of the positions are padding: build with a smaller "
        "--max-seq-length, or with --no-blanks-separate-docs",
    )
    if in_text > _MOSTLY_UNKNOWN:
        report.errors.append(
            f"{in_text:.0%} of the text's tokens are [UNK], from which nothing "
            "can be learned"
        )
    elif unknown > _MAX_UNKNOWN:
        report.warnings.append(
            f"{unknown:.1%} of the tokens are [UNK]: the vocabulary does not "
            "fit the text"
        )
    report.warn_if(
        duplicates > _MAX_DUPLICATES,
        f"{duplicates:.1%} of the examples repeat an earlier one token for "
        "token: build with --dedup",
    )


def compare_with_manifests(
    report: Report, num_examples: dict[str, int], vocab_file: str | None
) -> None:
    """Compares files with the manifests that builds left beside them.

    Args:
      report: Takes what differs.
      num_examples: File -> how many examples it has.
      vocab_file: What they were built with, if that is known.
    """
    counts_of: dict[str, dict[str, int]] = collections.defaultdict(dict)
    for path, count in num_examples.items():
        counts_of[os.path.dirname(path)][os.path.basename(path)] = count
    for folder, counts in sorted(counts_of.items()):
        path = os.path.join(folder, manifest.FILE_NAME)
        try:
            content = manifest.read(folder)
        except ValueError as error:
            report.warnings.append(f"nothing is compared: {error}")
            continue
        if content is None:
            report.facts["manifest"] = f"none in {folder!r}"
            _compare_names(report, folder, counts)
            continue
        report.facts["manifest"] = path
        report.errors += manifest.problems(folder, content, counts)
        shards = {shard["name"] for shard in content["shards"]}
        present = shards.intersection(tf.io.gfile.listdir(folder))
        if unread := sorted(present - counts.keys()):
            report.warnings.append(
                f"{len(unread)} of {len(shards)} file(s) of the build are not "
                "among those to read, such as "
                f"{os.path.join(folder, unread[0])}"
            )
        if vocab_file is not None:
            tokens = vocabulary.load_vocab(vocab_file)
            built_with = content["vocabulary"]["tokens_sha256"]
            if vocabulary.digest(tokens) != built_with:
                report.errors.append(
                    f"{vocab_file} is not the vocabulary that the data were "
                    f"built with, as {path} says"
                )


def _compare_names(report, folder: str, names: Iterable[str]) -> None:
    """Looks for what is missing of a build that left no manifest."""
    if line := manifest.unfinished(folder):
        report.errors.append(line)
    present = collections.Counter(
        match.group(1, 3, 4)
        for match in map(_ONE_OF_SEVERAL.fullmatch, names)
        if match
    )
    for (first, total, last), count in sorted(present.items()):
        report.warn_if(
            count < int(total),
            f"{count} of {int(total)} files named "
            f"{os.path.join(folder, first)}<i>-of-{total}{last} are among "
            "those to read: the others are missing, or left out",
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
