"""Sequence tagging: one label for each word of a sentence.

Shapes: N sentences, L length.
"""

import os
import pathlib
import typing
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from electra_tf import tokenization, unicode_13_0
from electra_tf.finetuning import features as features_lib
from electra_tf.finetuning import heads, metrics
from electra_tf.finetuning.task import Task, read_lines

OUTSIDE = "O"
SPLITS = ("train", "dev", "test")

_PREFIXES = ("B-", "I-", "E-", "S-")

_PUNCTUATION = tokenization._character_class(unicode_13_0.PUNCTUATION)


class Span(typing.NamedTuple):
    """Words that belong together, the last one included."""

    start: int
    end: int
    kind: str


class TaggingExample(typing.NamedTuple):
    """A tagged sentence.

    Attributes:
      eid: Number of the sentence in its split.
      words: Its words.
      labels: Their labels.
    """

    eid: int
    words: tuple[str, ...]
    labels: tuple[str, ...]


def read_sentences(
    path: str | os.PathLike, keep_last_sentence: bool = False
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Reads sentences in the layout of CoNLL: word first, tag last, in a row.

    Args:
      path: A file with blank rows between sentences.
      keep_last_sentence: Keep a last sentence without a blank row behind it.
        The original drops it.

    Returns:
      Words and tags of each sentence.

    Raises:
      ValueError: If the file cannot be read or a row has no tag.
    """
    sentences = []
    words: list[str] = []
    tags: list[str] = []

    def end_sentence():
        if words:
            sentences.append((tuple(words), tuple(tags)))
            words.clear()
            tags.clear()

    for row, line in enumerate(read_lines(path), start=1):
        columns = line.split()
        if not columns:
            end_sentence()
            continue
        if columns[0] == "-DOCSTART-":
            continue
        if len(columns) < 2:
            raise ValueError(
                "Expected a word and a tag, separated by white space. "
                f"Received: {line!r} in {os.fspath(path)!r}, row {row}."
            )
        words.append(columns[0])
        tags.append(columns[-1])
    if keep_last_sentence:
        end_sentence()
    if not sentences:
        raise ValueError(
            "Expected sentences with a blank row after each. Received: none "
            f"in {os.fspath(path)!r}."
        )
    return sentences


def spans_of_tags(tags: Sequence[str]) -> list[Span]:
    """The spans that BIO or BIOES tags mean.

    Lenient, as in the original: any tag after "O" begins a span, only B, S and
    O end the one before, and a span is of its last word's kind.

    Args:
      tags: E.g. ["B-NP", "E-NP", "O"].

    Returns:
      E.g. [Span(0, 1, "NP")].
    """
    spans = []
    start = None
    for i, tag in enumerate([*tags, OUTSIDE]):
        is_first = tag[0] in "BS"
        if start is not None and (is_first or tag == OUTSIDE):
            spans.append(Span(start, i - 1, tags[i - 1].partition("-")[2]))
            start = None
        if start is None and tag != OUTSIDE:
            start = i
    return spans


def bioes_tags(spans: Iterable[Span], num_words: int) -> list[str]:
    """Tags: B(egin), I(nside), E(nd) or S(ingle) and the kind, or O."""
    tags = [OUTSIDE] * num_words
    for start, end, kind in spans:
        tags[start : end + 1] = [f"I-{kind}"] * (end + 1 - start)
        tags[end] = f"E-{kind}"
        tags[start] = f"B-{kind}" if end > start else f"S-{kind}"
    return tags


class TaggingTask(Task):
    """A task with a label for each word.

    Args:
      name: See `Task`.
      files: Split ("train" is required) -> file.
      is_token_level: Labels stand for themselves (parts of speech), rather
        than for spans (chunks, names). Spans are tagged BIOES whatever the
        files have.
      as_original: Follow the released code, which lower-cases and strips
        accents whatever the vocabulary, cuts sentences far too early, drops a
        last sentence without a blank row, gives a word without tokens the
        position of the next one, and counts the loss twice in its score. False
        does none of these.
      labels: The labels, where the files are not at hand; by default those of
        all splits, sorted.

    Raises:
      ValueError: If a file cannot be read.
    """

    def __init__(
        self,
        name: str,
        files: Mapping[str, str | os.PathLike],
        is_token_level: bool = False,
        as_original: bool = True,
        labels: Sequence[str] | None = None,
    ):
        super().__init__(name)
        self.files = {
            split: os.fspath(path) for split, path in files.items() if path
        }
        self.is_token_level = is_token_level
        self.as_original = as_original
        self._labels = None if labels is None else list(labels)

    @classmethod
    def in_folder(
        cls, name: str, data_dir: str | os.PathLike, **kwargs
    ) -> "TaggingTask":
        """The task of the files train.txt, dev.txt and test.txt of a folder."""
        paths = {
            split: pathlib.Path(data_dir) / f"{split}.txt" for split in SPLITS
        }
        files = {
            split: os.fspath(path)
            for split, path in paths.items()
            if split == "train" or tf.io.gfile.exists(os.fspath(path))
        }
        return cls(name, files, **kwargs)

    @property
    def labels(self) -> list[str]:
        """The labels; a label's id is its index."""
        if self._labels is None:
            self._labels = sorted(
                {
                    label
                    for split in self.files
                    for example in self.read_examples(split)
                    for label in example.labels
                }
            )
        return self._labels

    def read_examples(self, split):
        if split not in self.files:
            raise ValueError(
                f"Expected one of the splits {', '.join(sorted(self.files))}. "
                f"Received: {split!r}."
            )
        path = self.files[split]
        sentences = read_sentences(path, not self.as_original)
        return [
            TaggingExample(eid, words, self._labels_of_tags(tags, path))
            for eid, (words, tags) in enumerate(sentences)
        ]

    def _labels_of_tags(self, tags, path) -> tuple[str, ...]:
        if self.is_token_level:
            return tags
        for tag in tags:
            if tag != OUTSIDE and (tag[:2] not in _PREFIXES or len(tag) < 3):
                raise ValueError(
                    "Expected tags such as B-NP, I-NP or O for spans. "
                    f"Received: {tag!r} in {path!r}."
                )
        return tuple(bioes_tags(spans_of_tags(tags), len(tags)))

    def features(self, examples, tokenizer, max_seq_length, is_training=False):
        """See `Task.features`; adds `<task>_labels` <int32>[N, L],
        `<task>_labels_mask` <float32>[N, L] and `<task>_labeled_positions`
        <int32>[N, L], in the order of words, to `<task>_eid`."""
        del is_training
        ids_of_label = {label: i for i, label in enumerate(self.labels)}
        words = [word for example in examples for word in example.words]
        tokens = iter(self.word_tokens(words, tokenizer))
        rows, labels, positions = [], [], []
        for example in examples:
            words_tokens = [next(tokens) for _ in example.words]
            row, first_tokens, num_used = self.pack(
                words_tokens, tokenizer, max_seq_length
            )
            ids = [ids_of_label[label] for label in example.labels]
            if not self.as_original:
                ids = [
                    label
                    for label, of_word in zip(ids, words_tokens, strict=True)
                    if of_word
                ][:num_used]
            # One word's tokens may exceed the row: the original stops there.
            if len(row) > max_seq_length:
                row = [*row[: max_seq_length - 1], tokenizer.sep_token_id]
                first_tokens = [
                    p for p in first_tokens if p < max_seq_length - 1
                ]
            rows.append(row)
            labels.append(ids[:max_seq_length])
            positions.append(first_tokens)

        def pad(values, dtype=np.int32):
            return features_lib.pad_rows(values, max_seq_length, dtype)

        ones = pad([[1] * len(row) for row in rows])
        eids = [example.eid for example in examples]
        return {
            "input_ids": pad(rows),
            "input_mask": ones,
            # Segment 1, unlike a text's; from the original.
            "segment_ids": ones.copy(),
            f"{self.name}_eid": np.array(eids, np.int32),
            f"{self.name}_labels": pad(labels),
            f"{self.name}_labels_mask": pad(
                [[1] * len(of_row) for of_row in positions], np.float32
            ),
            f"{self.name}_labeled_positions": pad(positions),
        }

    def word_tokens(
        self, words: Sequence[str], tokenizer: tokenization.FullTokenizer
    ) -> list[list[int]]:
        """Token ids of each word.

        The original's own way lower-cases, strips accents, and splits at
        punctuation marks but not at CJK ideographs; its words "[CLS]" and
        "[SEP]" are the special tokens.
        """
        if not self.as_original:
            return features_lib.tokenize_all(words, tokenizer)
        unique = list(dict.fromkeys(words))
        text = tf.strings.regex_replace(
            tf.constant(unique, tf.string), tokenization._REMOVED, ""
        )
        cleaned = [word.decode("utf-8") for word in text.numpy()]
        text = tf.strings.lower(text, encoding="utf-8")
        text = tf_text.normalize_utf8(text, "NFD")
        text = tf.strings.regex_replace(
            text, tokenization._NONSPACING_MARKS, ""
        )
        text = tf.strings.regex_replace(text, _PUNCTUATION, r" \0 ")
        parts = tf.strings.split(text)
        pieces = tokenizer._word_pieces.tokenize(
            tokenization._hide_long_words(parts.flat_values)
        )
        ids = tf.RaggedTensor.from_row_splits(
            pieces.values, tf.gather(pieces.row_splits, parts.row_splits)
        ).to_list()
        special = {
            tokenization.CLS_TOKEN: [tokenizer.cls_token_id],
            tokenization.SEP_TOKEN: [tokenizer.sep_token_id],
        }
        ids_of = {
            word: special.get(clean, of_word)
            for word, clean, of_word in zip(unique, cleaned, ids, strict=True)
        }
        return [ids_of[word] for word in words]

    def pack(
        self,
        words_tokens: Sequence[Sequence[int]],
        tokenizer: tokenization.FullTokenizer,
        max_seq_length: int,
    ) -> tuple[list[int], list[int], int]:
        """Packs a sentence as `[CLS] words [SEP]`.

        Args:
          words_tokens: Token ids of each word.
          tokenizer: Knows the special tokens.
          max_seq_length: Where to cut. With `as_original` the row may be longer
            than this after one long word; the original fails there.

        Returns:
          Token ids, the positions of the words' first tokens, and the number of
          words that these are.
        """
        special = (tokenizer.cls_token_id, tokenizer.sep_token_id)
        num_words = len(words_tokens) + 2  # With [CLS] and [SEP].
        row: list[int] = [tokenizer.cls_token_id]
        if self.as_original and num_words + 1 > max_seq_length:
            row = []
        positions: list[int] = []
        for tokens in words_tokens:
            if self.as_original:
                if num_words + len(row) + 1 > max_seq_length:
                    break
                is_labeled = not any(token in special for token in tokens)
            else:
                if len(row) + len(tokens) + 1 > max_seq_length:
                    break
                is_labeled = bool(tokens)
            if is_labeled:
                positions.append(len(row))
            row += tokens
        row.append(tokenizer.sep_token_id)
        return row, positions, len(positions)

    def make_head(self, config):
        return heads.TaggingHead(
            self.name, config.hidden_size, len(self.labels)
        )

    def scores(self, outputs, examples=(), tokenizer=None, max_seq_length=0):
        """Accuracy of words, or precision, recall and F1 of spans."""
        del examples, tokenizer, max_seq_length
        num_words = np.rint(outputs["labels_mask"].sum(-1)).astype(int)
        total_loss = float(np.sum(outputs["loss"], dtype=np.float64))
        # The original's scorer adds each loss twice.
        times = 2 if self.as_original else 1
        loss = times * total_loss / max(1, int(num_words.sum()))
        rows = [
            (row_labels[:n], row_predictions[:n])
            for row_labels, row_predictions, n in zip(
                outputs["labels"],
                outputs["predictions"],
                num_words,
                strict=True,
            )
        ]
        if self.is_token_level:
            flat = [np.concatenate(x) for x in zip(*rows, strict=True)]
            return {"accuracy": metrics.accuracy(*flat), "loss": loss}
        num_correct = num_predicted = num_true = 0
        for row_labels, row_predictions in rows:
            true = set(self._spans_of_ids(row_labels))
            predicted = set(self._spans_of_ids(row_predictions))
            num_correct += len(true & predicted)
            num_predicted += len(predicted)
            num_true += len(true)
        found = metrics.precision_recall_f1(
            num_correct, num_predicted, num_true
        )
        return found | {"loss": loss}

    def _spans_of_ids(self, ids) -> list[Span]:
        return spans_of_tags([self.labels[i] for i in ids])
