"""A sample of a corpus, or finished TFRecords -> a report, before a run does.

A report has facts to read, warnings of what makes a run worse, and errors that
would end one. Shapes: B rows, L length of an example.
"""

import collections
import contextlib
import itertools
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import numpy as np
import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.pretraining_data import batches, corpus, manifest
from electra_tf.pretraining_data import records as records_lib
from electra_tf.text import tokenization, vocabulary

# Text that a report on a corpus tokenizes, and files that it is taken from.
SAMPLE_BYTES = 2 << 20
SAMPLE_FILES = 32

# Above these shares a report warns. Vocabularies of a language leave far less
# of its text unknown.
_MAX_UNKNOWN = 0.01
_MAX_PADDING = 0.3
_MAX_DUPLICATES = 0.01
# And above this one nothing can be learned.
_MOSTLY_UNKNOWN = 0.5
# Words that are named.
_NUM_NAMED = 8
_BATCH = 1000


class Report:
    """What is known of data, in lines for people.

    Attributes:
      facts: Name -> what it is.
      errors: What would end a run, or train on nonsense.
    """

    def __init__(self):
        self.facts: dict[str, str] = {}
        self.errors: list[str] = []

    def show(self, facts_to: TextIO, consequence: str) -> None:
        """Prints facts in a column, and errors to stderr line by line.

        Args:
          facts_to: Takes the facts.
          consequence: Of the errors.

        Raises:
          ValueError: If there are errors.
        """
        width = max(map(len, self.facts), default=0) + 1
        for name, text in self.facts.items():
            print(f"{name + ':':{width}} {text}", file=facts_to)
        for line in self.errors:
            print(f"error: {line}", file=sys.stderr)
        if self.errors:
            raise ValueError(f"{len(self.errors)} problem(s) {consequence}.")


def take_sample(
    files: Sequence[corpus.CorpusFile],
    reading: corpus.Reading | None = None,
    max_bytes: int = SAMPLE_BYTES,
) -> list[list[str]]:
    """Reads the beginnings of files that are spread over a corpus.

    Args:
      files: The corpus; one of up to `max_bytes` is read whole.
      reading: How to read it; of damaged places it warns.
      max_bytes: Text to take, more or less.

    Returns:
      Lines of each file that was read; "" ends a document.

    Raises:
      ValueError: If a package is missing that reads such files.
    """
    bad_input: list[str] = []
    reading = (reading or corpus.Reading())._replace(
        on_bad_input=bad_input.append
    )
    ends = np.cumsum([file.num_bytes for file in files])
    # The files in which equidistant bytes of the corpus lie.
    places = (np.arange(SAMPLE_FILES) + 0.5) * ends[-1] / SAMPLE_FILES
    numbers = np.unique(np.searchsorted(ends, places, side="right"))
    bytes_of_file = max_bytes / len(numbers)
    if ends[-1] <= max_bytes:
        numbers, bytes_of_file = np.arange(len(files)), float("inf")
    sample = []
    for number in numbers:
        lines: list[str] = []
        batches_of_lines = corpus.read_lines(files[number].path, None, reading)
        num_bytes = 0
        for line in itertools.chain.from_iterable(
            b[0] for b in batches_of_lines
        ):
            lines.append(line)
            num_bytes += len(line.encode()) + 1
            if num_bytes > bytes_of_file:
                break
        sample.append(lines)
    if bad_input:
        errors.warn(
            f"{len(bad_input)} damaged place(s), which end the build, or are "
            f"left out with --on-bad-input=skip: {bad_input[0]}"
        )
    return sample


def report_on_text(
    sample: Sequence[Sequence[str]], tokenizer: tokenization.FullTokenizer
) -> Report:
    """What a corpus will be through this vocabulary and these flags.

    Args:
      sample: Lines of some files; "" ends a document.
      tokenizer: With the flags of the build.
    """
    report = Report()
    lines = [line for file in sample for line in file if line]
    counts = tokenization.count_words(
        [lines], tokenizer.do_lower_case, tokenizer.strip_accents
    )
    num_documents = sum(
        bool(line) and not after
        for file in sample
        for line, after in itertools.pairwise([*file, ""])
    )
    report.facts["sample"] = (
        f"{len(sample)} file(s), {num_documents:,} documents, {len(lines):,} "
        f"lines, {counts.total():,} words"
    )
    if not counts:
        report.errors.append("the sample has no word")
        return report
    _check_words(report, counts, tokenizer)
    strips_accents = tokenizer.do_lower_case and tokenizer.strip_accents
    for line in tokenization.lost_text(lines, strips_accents):
        errors.warn(line)
    return report


def _check_words(report, counts: collections.Counter[str], tokenizer) -> None:
    pieces = tokenizer.tokenize(tf.constant(list(counts), tf.string)).to_list()
    num_pieces = 0
    unknown: collections.Counter[str] = collections.Counter()
    for (word, count), ids in zip(counts.items(), pieces, strict=True):
        num_pieces += count * len(ids)
        if tokenizer.unk_token_id in ids:
            unknown[word] = count
    share = unknown.total() / counts.total()
    report.facts["[UNK]"] = (
        f"{share:.3%} of the words"
        + (", most often " * bool(unknown))
        + ", ".join(
            f"{word if len(word) <= 20 else word[:17] + '...'!r} ({count})"
            for word, count in unknown.most_common(_NUM_NAMED)
        )
    )
    if share > _MAX_UNKNOWN:
        errors.warn(
            f"{share:.1%} of the words are [UNK]: is the vocabulary of this "
            "language, and are the flags its own?",
        )
    if unknown.total() > _MOSTLY_UNKNOWN * num_pieces:
        report.errors.append(
            f"{unknown.total() / num_pieces:.0%} of the tokens would be [UNK], "
            "from which nothing can be learned"
        )


def report_on_records(
    pattern: str,
    vocab_file: str,
    config: configs.PretrainingConfig | None = None,
) -> Report:
    """Reads finished TFRecords from the first to the last.

    Exact duplicates are counted by hashes of 64 bits, which takes some 60
    bytes of memory a record.

    Args:
      pattern: A glob, globs separated by commas, or a builder's folder.
      vocab_file: What they were built with.
      config: Of the run that they are for, if that is known.

    Returns:
      The report; it has errors if a run over the data would train on nonsense.

    Raises:
      ValueError: If a run over the data would end: it names the first record
        that cannot be read or does not fit the model.
    """
    report = Report()
    if config is None:
        vocab = vocabulary.load(vocab_file)
        model = _model_of(pattern, len(vocab.tokens))
    else:
        model = config.model
        vocab = vocabulary.load_of_size(vocab_file, model.encoder.vocab_size)
    data = batches.PretrainingData(pattern, model, seed=0)
    files = data.records.files
    num_tokens = 0
    id_counts = np.zeros(len(vocab.tokens), np.int64)
    hashes: set[int] = set()
    odd: collections.Counter[str] = collections.Counter()
    for start in range(0, len(data), _BATCH):
        numbers = np.arange(start, min(start + _BATCH, len(data)))
        rows = data.read_features(numbers)
        ids, mask = rows["input_ids"], rows["input_mask"]
        real_ids = ids[mask == 1]
        num_tokens += len(real_ids)
        id_counts += np.bincount(real_ids, minlength=len(id_counts))
        hashes.update(hash(row.tobytes()) for row in ids)
        for kind, is_odd in _odd_rows(ids, mask, vocab):
            odd[kind] += int(is_odd.sum())
            if is_odd.any() and kind not in report.facts:
                path, number = data.records.locate(int(numbers[is_odd][0]))
                report.facts[kind] = f"record {number} of {path} is the first"
    for kind, count in (+odd).items():
        where = report.facts.pop(kind)
        report.errors.append(f"{count:,} record(s) {kind}: {where}")
    report.facts["data"] = (
        f"{len(files):,} file(s), {len(data):,} examples of "
        f"{model.max_seq_length} tokens"
    )
    padding = 1 - num_tokens / (len(data) * model.max_seq_length)
    _describe(report, padding, id_counts, vocab, 1 - len(hashes) / len(data))
    report.errors += manifest.differences(
        data.records.num_examples(), vocab_file
    )
    manifest.refuse_unfinished(files)
    manifest.treatment_of_text(files)  # Warns where it differs.
    if config is not None:
        num_steps = config.run.num_train_steps
        batch_size = config.data.train_batch_size
        report.facts["epochs"] = (
            f"{num_steps * batch_size / len(data):,.2f} in {num_steps:,} steps "
            f"of {batch_size} examples"
        )
    return report


def _model_of(pattern: str, vocab_size: int) -> Any:
    """What data must know of a model whose length is the first record's."""
    records = records_lib.Records(records_lib.match_files(pattern))
    length = 0
    with contextlib.suppress(
        # TensorFlow's message may quote bytes that are no UTF-8.
        tf.errors.InvalidArgumentError,
        UnicodeDecodeError,
    ):
        features = tf.io.parse_example(
            tf.constant(records.read(np.array([0]))), records_lib.FEATURES
        )
        length = int(features["input_ids"].row_lengths()[0])
    return types.SimpleNamespace(
        encoder=types.SimpleNamespace(vocab_size=vocab_size, type_vocab_size=2),
        max_seq_length=max(length, 1),  # What is no example is named later.
        num_position_draws=0,
        max_predictions_per_seq=0,
    )


def _odd_rows(
    ids: np.ndarray, mask: np.ndarray, vocab: vocabulary.Vocabulary
) -> Iterator[tuple[str, np.ndarray]]:
    """What no builder of this vocabulary writes, and <bool>[B], who has it."""
    num_tokens = mask.sum(axis=-1)
    is_token = np.arange(ids.shape[1]) < num_tokens[:, np.newaxis]
    yield (
        "have an input_mask that is not ones, then zeros",
        (mask != is_token).any(axis=-1),
    )
    last = ids[np.arange(len(ids)), np.maximum(num_tokens, 1) - 1]
    begins, ends = ids[:, 0] == vocab.cls_token_id, last == vocab.sep_token_id
    yield (
        "do not begin with [CLS] and end with [SEP], as of another vocabulary",
        ~(begins & ends),
    )
    yield (
        "have [MASK] in them: they were masked when they were built",
        (is_token & (ids == vocab.mask_token_id)).any(axis=-1),
    )


def _describe(report, padding, id_counts, vocab, duplicates) -> None:
    """Facts of all records, and what is wrong with them together."""
    num_tokens = id_counts.sum()
    special = id_counts[[0, vocab.cls_token_id, vocab.sep_token_id]].sum()
    if special == num_tokens:
        report.errors.append("padding, [CLS] and [SEP] alone: nothing to learn")
    unknown = id_counts[vocab.unk_token_id] / max(num_tokens - special, 1)
    report.facts["tokens"] = (
        f"{num_tokens:,}; {padding:.1%} of the positions are padding"
    )
    report.facts["[UNK]"] = f"{unknown:.3%} of the text's tokens"
    report.facts["duplicates"] = f"{duplicates:.2%} of the examples"
    if padding > _MAX_PADDING:
        errors.warn(
            f"{padding:.0%} of the positions are padding: build with a smaller "
            "--max-seq-length, or with --no-blanks-separate-docs",
        )
    if unknown > _MOSTLY_UNKNOWN:
        report.errors.append(
            f"{unknown:.0%} of the text's tokens are [UNK], from which nothing "
            "can be learned"
        )
    if _MAX_UNKNOWN < unknown <= _MOSTLY_UNKNOWN:
        errors.warn(
            f"{unknown:.1%} of the text's tokens are [UNK]: the vocabulary "
            "does not fit the text",
        )
    if duplicates > _MAX_DUPLICATES:
        errors.warn(
            f"{duplicates:.1%} of the examples repeat an earlier one token for "
            "token: build with --dedup",
        )
