"""What is wrong with a corpus or its TFRecords, before a run finds out.

`report_on_text` looks at a sample of a corpus through a vocabulary,
`report_on_records` at finished TFRecords. Both return a `Report`: facts to
read, warnings of what makes a run worse, errors that would end one.

Shapes: B rows, L length of an example.
"""

import collections
import json
import os
import random
import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TextIO

import numpy as np
import tensorflow as tf

from electra_tf import configs, corpus, pretraining_examples, tokenization
from electra_tf.dataset_files import MANIFEST

# Text that a report on a corpus tokenizes, and pieces that it is taken from.
SAMPLE_BYTES = 2 << 20
SAMPLE_PIECES = 32
# Text on which other flags are tried.
_TRIAL_BYTES = 512 << 10

# Above these shares a report warns. Vocabularies of a language leave far less
# of its text unknown, and spell its words in far fewer pieces.
_MAX_UNKNOWN = 0.01
_MAX_MISSING_CHARACTERS = 0.001
_MAX_PIECES_PER_WORD = 4.0
_MAX_PADDING = 0.3
_MAX_CUT = 0.2
_MAX_DUPLICATES = 0.01
# Epochs after which a model has long learned its examples by heart.
_MAX_EPOCHS = 100

# TensorFlow's message may quote bytes that are no UTF-8.
_PARSE_ERRORS = (tf.errors.InvalidArgumentError, UnicodeDecodeError)

_NUM_NAMED = 8
_BRACKETED = re.compile(r"\[.+\]")
_MARKER = re.compile(r"\[(?:PAD|UNK|CLS|SEP|MASK)\]")
_JAMO = re.compile("[\u1100-\u11ff]")
_SYLLABLE = re.compile("[\uac00-\ud7a3]")


class Report:
    """What was found, in lines for people.

    Attributes:
      facts: (name, what it is) pairs.
      warnings: What makes a run worse.
      errors: What would end a run, or train on nonsense.
    """

    def __init__(self):
        self.facts: list[tuple[str, str]] = []
        self.warnings: list[str] = []
        self.errors: list[str] = []

    def print(self, facts_to: TextIO) -> None:
        """Prints facts in a column, then, to stderr, the rest line by line."""
        width = max((len(name) for name, _ in self.facts), default=0) + 1
        for name, text in self.facts:
            print(f"{name + ':':{width}} {text}", file=facts_to)
        for kind, lines in (("warning", self.warnings), ("error", self.errors)):
            for line in lines:
                print(f"{kind}: {line}", file=sys.stderr)


class Run(NamedTuple):
    """The pre-training run that data are for.

    Attributes:
      num_train_steps: Optimizer steps.
      train_batch_size: Examples in one step.
      vocab_size: Of the model; None where it is not known.
      max_seq_length: Of the model; None where it is not known.
    """

    num_train_steps: int
    train_batch_size: int
    vocab_size: int | None = None
    max_seq_length: int | None = None


def run_of_config(config: configs.PretrainingConfig) -> Run:
    """The run that a configuration describes."""
    return Run(
        config.run.num_train_steps,
        config.data.train_batch_size,
        config.model.encoder.vocab_size,
        config.model.max_seq_length,
    )


# A corpus.


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
    total = sum(file.num_bytes for file in files)
    if total <= max_bytes:
        chosen, bytes_of_each = list(files), max_bytes
    else:
        # The files in which equidistant bytes of the corpus lie.
        ends = np.cumsum([file.num_bytes for file in files])
        places = (np.arange(SAMPLE_PIECES) + 0.5) * total / SAMPLE_PIECES
        numbers = np.unique(np.searchsorted(ends, places, side="right"))
        chosen = [files[i] for i in numbers]
        bytes_of_each = max(1, max_bytes // len(chosen))
    texts = []
    num_read = 0.0
    for file in chosen:
        lines, read = _read_beginning(file.path, bytes_of_each, reading)
        texts.append(lines)
        num_read += min(read, file.num_bytes)
    share = num_read / total if total else 1.0
    description = f"{_bytes(num_read)} of {_bytes(total)}, " + (
        f"{len(chosen)} of {len(files)} file(s)"
        if len(chosen) < len(files)
        else f"{len(files)} file(s)"
    )
    if num_read < total:
        description += ", from the beginning of each"
    return Sample(texts, share, description, bad_input)


def _read_beginning(
    path: str, max_bytes: int, reading: corpus.Reading
) -> tuple[list[str], float]:
    """Lines of about `max_bytes` of text, and what they take in the file."""
    kept: list[str] = []
    num_text = 0
    num_read = 0.0
    for lines, num_bytes in corpus.read_lines(path, reading=reading):
        sizes = np.cumsum([len(line.encode()) + 1 for line in lines])
        num_kept = int(np.searchsorted(sizes, max_bytes - num_text)) + 1
        if num_kept < len(lines):
            kept += lines[:num_kept]
            num_read += num_bytes * sizes[num_kept - 1] / sizes[-1]
            break
        kept += lines
        num_text += int(sizes[-1]) if lines else 0
        num_read += num_bytes
        if num_text >= max_bytes:
            break
    return kept, num_read


def report_on_text(
    sample: Sample,
    tokenizer: tokenization.FullTokenizer,
    vocab_file: str,
    max_seq_length: int,
    run: Run | None = None,
) -> Report:
    """What a corpus will be through this vocabulary and these flags.

    Args:
      sample: See `take_sample`.
      tokenizer: With the flags of the build.
      vocab_file: What `tokenizer` was made from.
      max_seq_length: L.
      run: What the examples are for, if that is known.
    """
    report = Report()
    report.facts.append(("sample", sample.description))
    lines = [line for file in sample.files for line in file if line]
    words = _Words(lines, tokenizer)
    examples = _Examples(sample, tokenizer, max_seq_length)
    _describe_text(report, sample, words, examples)
    _check_special_tokens(report, tokenizer, lines)
    if words.num_words:
        _check_unknown(report, words, tokenizer)
        _check_case(report, words, tokenizer)
        _check_hangul(report, words, lines, tokenizer)
        _check_forms(report, words, lines)
        _try_other_flags(report, lines, tokenizer, vocab_file)
        _check_pieces(report, words)
    _check_examples(report, examples, max_seq_length)
    if sample.bad_input:
        report.warnings.append(
            f"{len(sample.bad_input)} damaged place(s) are left out: "
            f"{sample.bad_input[0]}"
        )
    num_examples = round(len(examples.lengths) / max(sample.share, 1e-12))
    report.facts.append(
        (
            "examples",
            f"about {num_examples:,} of "
            f"{max_seq_length} tokens, {examples.padding:.1%} of it padding",
        )
    )
    if run is not None:
        _check_run(
            report, run, num_examples, tokenizer.vocab_size, max_seq_length
        )
    return report


class _Words:
    """The words of some lines, and what the vocabulary makes of them.

    Attributes:
      counts: Word -> how often it occurs.
      num_words: Words.
      num_pieces: Tokens.
      unknown: [UNK] words -> how often.
      used: Ids that occur.
      known_characters: Characters of the vocabulary's entries.
      missing: Characters that no entry has -> how often.
      num_characters: Characters.
    """

    def __init__(self, lines: list[str], tokenizer):
        self.counts = _count_words(lines, tokenizer)
        words = list(self.counts)
        ids = tokenizer.tokenize(tf.constant(words, tf.string))
        ids = (
            [
                row.tolist()
                for row in np.split(
                    ids.flat_values.numpy(), ids.row_splits.numpy()[1:-1]
                )
            ]
            if words
            else []
        )
        unknown_id = tokenizer.unk_token_id
        self.num_words = sum(self.counts.values())
        self.num_pieces = 0
        self.unknown: collections.Counter[str] = collections.Counter()
        self.used: set[int] = set()
        for word, pieces in zip(words, ids, strict=True):
            count = self.counts[word]
            self.num_pieces += count * len(pieces)
            self.used.update(pieces)
            if unknown_id in pieces:
                self.unknown[word] += count
        self.known_characters = set().union(
            *(
                entry.removeprefix("##")
                for entry in tokenizer.vocab
                if not _BRACKETED.fullmatch(entry)
            )
        )
        self.num_characters = sum(
            len(word) * count for word, count in self.counts.items()
        )
        self.missing = self.missing_in(None)

    @property
    def unknown_share(self) -> float:
        return sum(self.unknown.values()) / max(self.num_words, 1)

    def missing_in(self, form) -> collections.Counter[str]:
        """Missing characters, were the text in a normal form (or None)."""
        missing: collections.Counter[str] = collections.Counter()
        for word, count in self.unknown.items():
            if form is not None:
                word = unicodedata.normalize(form, word)
            for character in word:
                if character not in self.known_characters:
                    missing[character] += count
        return missing

    def share_of(self, is_affected) -> float:
        """Share of the words for which a function holds."""
        affected = sum(
            count for word, count in self.counts.items() if is_affected(word)
        )
        return affected / max(self.num_words, 1)


def _count_words(lines: list[str], tokenizer) -> collections.Counter[str]:
    counts: collections.Counter[str] = collections.Counter()
    for start in range(0, len(lines), 10_000):
        words = tokenization.split_into_words(
            tf.constant(lines[start : start + 10_000], tf.string),
            tokenizer.do_lower_case,
            tokenizer.strip_accents,
        ).flat_values
        unique, _, numbers = tf.unique_with_counts(words)
        for word, number in zip(
            unique.numpy().tolist(), numbers.numpy().tolist(), strict=True
        ):
            counts[word.decode()] += number
    return counts


class _Examples:
    """The examples of a sample.

    Attributes:
      num_documents: Documents that have a token.
      num_lines: Lines that are not blank.
      num_tokens: Tokens of the text.
      lengths: Tokens of each example, [CLS] and [SEP] included.
      padding: Share of the positions that are padding.
      cut: Share of the text's tokens that no example has.
      longest_line: Tokens of the longest line.
    """

    def __init__(self, sample, tokenizer, max_seq_length):
        tokenize = pretraining_examples.CachingLineTokenizer(tokenizer)
        builder = pretraining_examples.ExampleBuilder(
            tokenizer, max_seq_length, random.Random(0)
        )
        self.num_documents = self.num_lines = self.num_tokens = 0
        self.longest_line = num_kept = 0
        self.lengths = []
        for lines in sample.files:
            in_document = False
            # The end of a sampled file may be missing.
            for line, packed in zip(
                [*lines, ""], tokenize([*lines, ""]), strict=True
            ):
                num_ids = pretraining_examples.count_ids(packed)
                if line:
                    in_document = True
                    segments = builder.add(packed, num_ids)
                else:
                    self.num_documents += in_document
                    in_document = False
                    segments = builder.end()
                self.num_lines += bool(line)
                self.num_tokens += num_ids
                self.longest_line = max(self.longest_line, num_ids)
                if segments is not None:
                    self.lengths.append(segments.num_tokens)
                    num_kept += segments.num_first + segments.num_second
        num_positions = len(self.lengths) * max_seq_length
        self.padding = 1 - sum(self.lengths) / max(num_positions, 1)
        self.cut = 1 - num_kept / max(self.num_tokens, 1)


def _describe_text(report, sample, words, examples) -> None:
    def per(total, number):
        return f"{total / max(number, 1):,.1f}"

    report.facts += [
        (
            "text",
            f"{examples.num_documents:,} documents, {examples.num_lines:,} "
            f"lines, {words.num_words:,} words, {examples.num_tokens:,} tokens",
        ),
        (
            "tokens",
            f"{words.num_pieces / max(words.num_words, 1):.2f} a word, "
            f"{per(examples.num_tokens, examples.num_lines)} a line, "
            f"{per(examples.num_tokens, examples.num_documents)} a document",
        ),
    ]


def _check_special_tokens(report, tokenizer, lines) -> None:
    vocab = tokenizer.vocab
    report.facts.append(
        (
            "special tokens",
            ", ".join(
                f"{token} {vocab.index(token)}"
                for token in tokenization.SPECIAL_TOKENS
            ),
        )
    )
    _check_vocab(report, tokenizer)
    markers = collections.Counter(
        marker for line in lines for marker in _MARKER.findall(line)
    )
    if markers:
        token, count = markers.most_common(1)[0]
        report.warnings.append(
            f"{sum(markers.values())} special token(s) stand in the text, such "
            f"as {token} ({count} times): in text they are words like any "
            "other, never the token"
        )


def _check_vocab(report, tokenizer) -> None:
    """Checks that need no text."""
    vocab = tokenizer.vocab
    if tokenizer.pad_token_id != 0:
        report.warnings.append(
            f"[PAD] is {tokenizer.pad_token_id} in the vocabulary and should "
            "be 0, as in every released one: other libraries count on it"
        )
    num_blank = vocab.count("")
    if num_blank:
        report.warnings.append(
            f"the vocabulary has {num_blank} blank line(s), the first on line "
            f"{vocab.index('') + 1}: an id that no text gets"
        )
    if not any(entry.startswith("##") for entry in vocab):
        report.warnings.append(
            "no entry of the vocabulary starts with ##: words that are no "
            "entry themselves become [UNK]; is this a WordPiece vocabulary?"
        )


def _check_unknown(report, words, tokenizer) -> None:
    report.facts.append(
        (
            "vocabulary",
            f"{tokenizer.vocab_size:,} entries, {len(words.used):,} of them in "
            "the sample",
        )
    )
    text = f"{words.unknown_share:.3%} of the words"
    if words.unknown:
        text += ", most often " + ", ".join(
            f"{_shortened(word)!r} ({count})"
            for word, count in words.unknown.most_common(_NUM_NAMED)
        )
    report.facts.append(("[UNK]", text))
    if words.unknown_share > _MAX_UNKNOWN:
        report.warnings.append(
            f"{words.unknown_share:.1%} of the words are [UNK]: is the "
            "vocabulary of this language, and are the flags its own?"
        )
    missing = words.missing
    share = sum(missing.values()) / max(words.num_characters, 1)
    if missing:
        named = ", ".join(
            f"{_printable(character)} U+{ord(character):04X} ({count})"
            for character, count in missing.most_common(_NUM_NAMED)
        )
        report.facts.append(
            (
                "missing characters",
                f"{len(missing)} kind(s), {share:.3%} of the text: {named}",
            )
        )
        if share > _MAX_MISSING_CHARACTERS:
            report.warnings.append(
                f"{share:.2%} of the characters are not in the vocabulary, "
                f"first of all {named.split(', ')[0]}: every word with one is "
                "[UNK]"
            )


def _check_case(report, words, tokenizer) -> None:
    entries = [
        entry.removeprefix("##")
        for entry in tokenizer.vocab
        if entry and not _BRACKETED.fullmatch(entry)
    ]
    num_entries = max(len(entries), 1)
    capitals = [entry for entry in entries if entry != entry.lower()]
    accented = [entry for entry in entries if entry != _without_marks(entry)]
    if tokenizer.do_lower_case:
        if len(capitals) > 0.02 * num_entries:
            report.warnings.append(
                f"text is lower-cased, but {len(capitals)} of the "
                f"{len(entries)} entries have capitals, such as "
                f"{capitals[len(capitals) // 2]!r}: for a cased vocabulary use "
                "--no-lower-case"
            )
        if tokenizer.strip_accents and len(accented) > 0.005 * num_entries:
            report.warnings.append(
                f"accents are stripped, but {len(accented)} of the "
                f"{len(entries)} entries have them, such as "
                f"{accented[len(accented) // 2]!r}: use --no-strip-accents"
            )
        return
    share = words.share_of(lambda word: word != word.lower())
    if share > 0.01 and not capitals:
        report.warnings.append(
            f"{share:.1%} of the words have capitals, but no entry of the "
            "vocabulary has: for an uncased vocabulary use --lower-case"
        )
    share = words.share_of(lambda word: word != _without_marks(word))
    if share > 0.01 and not accented:
        report.warnings.append(
            f"{share:.1%} of the words have accents, but no entry of the "
            "vocabulary has; accents are only stripped with --lower-case "
            "--strip-accents"
        )


def _without_marks(text: str) -> str:
    """Text without the non-spacing marks of its decomposition, composed."""
    kept = (
        character
        for character in unicodedata.normalize("NFD", text)
        if unicodedata.category(character) != "Mn"
    )
    return unicodedata.normalize("NFC", "".join(kept))


def _check_hangul(report, words, lines, tokenizer) -> None:
    num_jamo = sum(bool(_JAMO.search(entry)) for entry in tokenizer.vocab)
    num_syllables = sum(
        bool(_SYLLABLE.search(entry)) for entry in tokenizer.vocab
    )
    jamo = words.share_of(_JAMO.search)
    syllables = words.share_of(_SYLLABLE.search)
    if jamo > 0.001 and num_syllables > num_jamo:
        what = (
            f"Hangul is decomposed (NFD) in {jamo:.1%} of the words, but the "
            f"vocabulary has syllables (NFC) in {num_syllables} entries"
        )
        if sum(len(_JAMO.findall(line)) for line in lines) > sum(
            len(_SYLLABLE.findall(line)) for line in lines
        ):
            report.warnings.append(f"{what}: normalise the text to NFC")
        else:
            report.warnings.append(
                f"{what}: stripping accents decomposes Hangul, too; use "
                "--no-strip-accents"
            )
    elif syllables > 0.001 and num_jamo > num_syllables:
        report.warnings.append(
            f"Hangul is in syllables (NFC) in {syllables:.1%} of the words, "
            f"but the vocabulary has it decomposed (NFD) in {num_jamo} "
            "entries: build with --lower-case --strip-accents, or normalise "
            "the text to NFD"
        )


def _check_forms(report, words, lines) -> None:
    """Would the text be known in another normal form than its own?"""
    num_missing = sum(words.missing.values())
    if num_missing <= _MAX_MISSING_CHARACTERS * words.num_characters:
        return
    for form in ("NFC", "NFD"):
        if all(unicodedata.is_normalized(form, line) for line in lines):
            continue
        if sum(words.missing_in(form).values()) < num_missing / 2:
            report.warnings.append(
                f"most missing characters are known to the vocabulary once the "
                f"text is normalised to {form}: normalise it before building"
            )
            return


def _try_other_flags(report, lines, tokenizer, vocab_file) -> None:
    """Looks for flags that leave fewer words unknown."""
    some: list[str] = []
    num_bytes = 0
    # Lines from everywhere, always the same.
    for line in random.Random(0).sample(lines, len(lines)):
        some.append(line)
        num_bytes += len(line.encode())
        if num_bytes > _TRIAL_BYTES:
            break
    here = _Words(some, tokenizer).unknown_share
    if here < _MAX_UNKNOWN / 2:
        return
    flags_now = (tokenizer.do_lower_case, tokenizer.strip_accents)
    best, best_flags = here / 2, None
    for flags in ((True, True), (True, False), (False, False)):
        same = flags == flags_now or not (flags[0] or flags_now[0])
        if not same:
            other = tokenization.FullTokenizer(vocab_file, *flags)
            share = _Words(some, other).unknown_share
            if share < best:
                best, best_flags = share, flags
    if best_flags is not None:
        lower, strip = best_flags
        advice = f"--{'' if lower else 'no-'}lower-case"
        if lower:
            advice += f" --{'' if strip else 'no-'}strip-accents"
        report.warnings.append(
            f"with {advice}, {best:.2%} of the words would be [UNK] instead of "
            f"{here:.2%}"
        )


def _check_pieces(report, words) -> None:
    pieces = words.num_pieces / words.num_words
    if pieces > _MAX_PIECES_PER_WORD:
        report.warnings.append(
            f"a word takes {pieces:.1f} tokens on average: the vocabulary "
            "knows letters rather than words of this language"
        )


def _check_examples(report, examples, max_seq_length) -> None:
    if not examples.lengths:
        report.errors.append("the sample makes no examples: it has no tokens")
        return
    if examples.padding > _MAX_PADDING:
        report.warnings.append(
            f"{examples.padding:.0%} of the examples is padding, which is "
            "computed for nothing: documents are short; use a smaller "
            "--max-seq-length, or pack them together: "
            "--no-blanks-separate-docs if blank lines separate them, larger "
            "files if they are files"
        )
    if examples.cut > _MAX_CUT:
        report.warnings.append(
            f"{examples.cut:.0%} of the tokens are in no example: what does "
            "not fit into one is cut off, and the longest line has "
            f"{examples.longest_line:,} tokens for {max_seq_length}; give a "
            "sentence a line"
        )


def _check_run(report, run, num_examples, vocab_size, max_seq_length) -> None:
    for name, of_model, of_data in (
        ("vocab_size", run.vocab_size, vocab_size),
        ("max_seq_length", run.max_seq_length, max_seq_length),
    ):
        if of_model is not None and of_model != of_data:
            report.errors.append(
                f"expected {name}={of_data} in the run's configuration, "
                f"received {of_model}"
            )
    if not num_examples:
        return
    epochs = run.num_train_steps * run.train_batch_size / num_examples
    report.facts.append(
        (
            "epochs",
            f"{epochs:,.2f} in {run.num_train_steps:,} steps of "
            f"{run.train_batch_size} examples",
        )
    )
    if epochs > _MAX_EPOCHS:
        report.warnings.append(
            f"the run sees every example {epochs:,.0f} times: more text, or "
            "fewer steps"
        )
    if num_examples < run.train_batch_size:
        report.warnings.append(
            f"{num_examples} examples are fewer than the batch of "
            f"{run.train_batch_size}: a step sees some of them twice"
        )


def _bytes(number: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if number < 1000:
            return (
                f"{number:.3g} {unit}"
                if unit != "bytes"
                else (f"{number:.0f} {unit}")
            )
        number /= 1000
    return f"{number:.3g} GB"


def _shortened(word: str, length: int = 20) -> str:
    return word if len(word) <= length else word[: length - 3] + "..."


def _printable(character: str) -> str:
    """A character, a combining one on a dotted circle, quoted."""
    if unicodedata.combining(character):
        character = "\u25cc" + character
    return repr(character)


# TFRecords.


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
        first = 0
        for serialized in self._read_serialized(path):
            yield self._parse(serialized, path, first)
            first += len(serialized)

    def _read_serialized(self, path: str) -> Iterator[list[bytes]]:
        batch: list[bytes] = []
        num_records = 0
        try:
            for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
                batch.append(record)
                num_records += 1
                if len(batch) == self.BATCH:
                    yield batch
                    batch = []
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
        if batch:
            yield batch

    def _parse(self, serialized: list[bytes], path: str, first: int) -> Rows:
        names = pretraining_examples.FEATURE_NAMES
        spec = {name: tf.io.RaggedFeature(tf.int64) for name in names}
        records = np.arange(first, first + len(serialized))
        try:
            parsed = tf.io.parse_example(tf.constant(serialized), spec)
        except _PARSE_ERRORS:
            whole = []
            for i, record in enumerate(serialized):
                try:
                    tf.io.parse_example(tf.constant([record]), spec)
                    whole.append(i)
                except _PARSE_ERRORS:
                    self.errors.add(
                        f"are no examples with int64 {', '.join(names)}",
                        f"record {first + i} of {path}",
                    )
            records = records[whole]
            parsed = tf.io.parse_example(
                tf.constant([serialized[i] for i in whole], tf.string), spec
            )
        lengths = np.stack(
            [parsed[name].row_lengths().numpy() for name in names], axis=-1
        )
        if self.length is None and lengths.any():
            self.length = int(np.bincount(lengths.flat).argmax())
        fits = (lengths == (self.length or 0)).all(axis=-1)
        for row in np.flatnonzero(~fits):
            name, length = next(
                (name, length)
                for name, length in zip(names, lengths[row], strict=True)
                if length != self.length
            )
            self.errors.add(
                f"have {length} values of {name} instead of {self.length}",
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
    run: Run | None = None,
    num_samples: int = 3,
) -> Report:
    """Reads finished TFRecords from the first to the last.

    Checksums, features, lengths, ids, mask, segments and special tokens of
    every record are looked at. Exact duplicates are counted by hashes of 64
    bits, which takes some 60 bytes of memory a record.

    Args:
      files: TFRecord files.
      vocab: What they were built with.
      run: What they are for, if that is known.
      num_samples: Examples to show as text: the first of some files.

    Returns:
      The report; it has errors if a run over the data would end or train on
      nonsense.
    """
    report = Report()
    special = {
        token: list(vocab).index(token) for token in tokenization.SPECIAL_TOKENS
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
    _compare_with_manifests(report, num_examples)
    if not totals.num_examples:
        report.errors.append(
            f"the {len(files)} file(s) hold no example, {files[0]} first of all"
        )
    elif run is not None:
        _check_run(report, run, totals.num_examples, len(vocab), reader.length)
    return report


def _check_rows(rows: Rows, vocab_size, special, errors, doubts) -> None:
    """Checks each of some rows."""
    ids, mask, segments = rows.input_ids, rows.input_mask, rows.segment_ids
    if not ids.size:
        return
    length = ids.shape[1]
    num_tokens = mask.sum(axis=-1)
    positions = np.arange(length)
    errors.add_rows(
        f"have ids outside of 0 to {vocab_size - 1}, the vocabulary's",
        rows,
        ((ids < 0) | (ids >= vocab_size)).any(axis=-1),
    )
    is_prefix = (mask == (positions < num_tokens[:, np.newaxis])).all(axis=-1)
    is_prefix &= num_tokens > 0
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
    doubts.add_rows(
        f"have another id than [PAD] ({special['[PAD]']}) or another segment "
        "than 0 on padding",
        rows,
        is_prefix
        & (((ids != special["[PAD]"]) | (segments != 0)) & (mask == 0)).any(
            axis=-1
        ),
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
    report.facts.append(
        (
            "data",
            f"{num_files:,} file(s), {num_examples:,} examples of "
            f"{length or 0} tokens",
        )
    )
    if not num_examples:
        return
    padding = 1 - totals.num_tokens / (num_examples * length)
    num_unknown = int(totals.id_counts[special["[UNK]"]])
    unknown = num_unknown / max(totals.num_tokens, 1)
    duplicates = 1 - len(totals.hashes) / num_examples
    report.facts += [
        (
            "tokens",
            f"{totals.num_tokens:,}, {totals.num_tokens / num_examples:.1f} an "
            f"example; {padding:.1%} of the positions are padding",
        ),
        (
            "segments",
            f"two in {totals.num_two_segments / num_examples:.1%} of the "
            "examples",
        ),
        ("[UNK]", f"{unknown:.3%} of the tokens"),
        (
            "vocabulary",
            f"{len(totals.id_counts):,} entries, "
            f"{np.count_nonzero(totals.id_counts):,} of them in the data",
        ),
        ("duplicates", f"{duplicates:.2%} of the examples"),
    ]
    if padding > _MAX_PADDING:
        report.warnings.append(
            f"{padding:.0%} of the positions are padding, which is computed "
            "for nothing: build with a smaller --max-seq-length, or with "
            "--no-blanks-separate-docs"
        )
    if unknown > _MAX_UNKNOWN:
        report.warnings.append(
            f"{unknown:.1%} of the tokens are [UNK]: the vocabulary does not "
            "fit the text"
        )
    if duplicates > _MAX_DUPLICATES:
        report.warnings.append(
            f"{duplicates:.1%} of the examples repeat an earlier one token for "
            "token: build with --dedup"
        )


def _compare_with_manifests(report, num_examples: dict[str, int]) -> None:
    """Compares counts with the manifests that builds left beside the files."""
    for folder in sorted({os.path.dirname(path) for path in num_examples}):
        try:
            with tf.io.gfile.GFile(os.path.join(folder, MANIFEST)) as reader:
                shards = json.loads(reader.read())["shards"]
            expected = {shard["name"]: shard["examples"] for shard in shards}
        except (tf.errors.OpError, ValueError, KeyError, TypeError):
            continue
        for path, found in num_examples.items():
            if os.path.dirname(path) == folder:
                wanted = expected.get(os.path.basename(path), found)
                if wanted != found:
                    report.errors.append(
                        f"expected {wanted:,} examples in {path}, as "
                        f"{MANIFEST} says, found {found:,}"
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
    while tokens and tokens[-1] == tokenization.PAD_TOKEN:
        tokens.pop()
    return " ".join(tokens).replace(" ##", "")
