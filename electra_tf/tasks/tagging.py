"""Sequence tagging: one label for each word of a sentence.

Shapes: N sentences, L length.
"""

import functools
import itertools
import os
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from electra_tf.model import heads, task_head
from electra_tf.tasks import (
    conll,
    metrics,
    reports,
    tag_schemes,
    text_tasks,
)
from electra_tf.tasks import features as features_lib
from electra_tf.tasks.conll import NO_LABEL, OUTSIDE, Sentence
from electra_tf.tasks.task import Task
from electra_tf.text import tokenization, vocabulary

PREFIXES = ("B-", "I-", "E-", "S-")


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
      labels: Their labels; `NO_LABEL` for a word that has none, which is
        neither learned nor scored.
      has_labels: False where these stand for unknown ones.
    """

    eid: int
    words: tuple[str, ...]
    labels: tuple[str, ...]
    has_labels: bool = True


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
        if start is not None and (tag[0] in "BS" or tag == OUTSIDE):
            spans.append(Span(start, i - 1, tags[i - 1].partition("-")[2]))
            start = None
        if start is None and tag != OUTSIDE:
            start = i
    return spans


def strict_spans_of_tags(tags: Sequence[str]) -> list[Span]:
    """The spans that IOB1, BIO or BIOES tags mean, as conlleval takes them.

    Unlike `spans_of_tags`, a span ends where the kind changes: two names of
    different kinds may touch.

    Args:
      tags: E.g. ["I-LOC", "I-PER", "B-PER"].

    Returns:
      E.g. [Span(0, 0, "LOC"), Span(1, 1, "PER"), Span(2, 2, "PER")].
    """
    # Imports scikit-learn, which takes long.
    from seqeval.metrics.sequence_labeling import get_entities

    entities = get_entities(list(tags))
    return [Span(start, end, kind) for kind, start, end in entities]


def is_span_tag(tag: str) -> bool:
    """Whether it is O, or B-NP and the like."""
    return tag == OUTSIDE or (tag[:2] in PREFIXES and len(tag) > 2)


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
      tag_column: See `conll.read`.

    Attributes:
      segment: Of all tokens, unlike a text's; the original's, unless a head
        that was trained on another is kept.
      form: How the files write tags of spans, see `tag_schemes.form_of`; they
        are learned in BIOES.

    Raises:
      ValueError: If a file cannot be read.
    """

    segment = task_head.TAGGING_SEGMENT
    form = "B-PER"

    def __init__(
        self,
        name: str,
        files: Mapping[str, str | os.PathLike],
        is_token_level: bool = False,
        as_original: bool = True,
        labels: Sequence[str] | None = None,
        tag_column: int = -1,
    ):
        super().__init__(name)
        self.files = {
            split: os.fspath(path) for split, path in files.items() if path
        }
        self.is_token_level = is_token_level
        self.as_original = as_original
        self.tag_column = tag_column
        if labels is not None:
            self.labels = list(labels)

    # --- Files ----------------------------------------------------------------

    def splits(self):
        if self.source:
            return self.source.splits()
        splits = [s for s in ("train", "dev", "test") if s in self.files]
        return [s for s in splits if tf.io.gfile.exists(self.files[s])]

    def has_labels(self, split):
        if self.source:
            return self.source.has_labels(split)
        return split in self.files

    @functools.cached_property
    def scheme(self) -> str:
        """One of `task_head.SCHEMES`, that of the training file, in which
        answers are written; spans are learned in BIOES."""
        if self.is_token_level or self.as_original or "train" not in self.files:
            return "BIOES"
        tags = (sentence.tags for sentence in self.sentences("train"))
        return tag_schemes.scheme_of(tags, "B-PER")[0]

    @property
    def main_metric(self):
        return "accuracy" if self.is_token_level else "f1"

    @functools.cached_property
    def labels(self) -> list[str]:
        """The labels; a label's id is its index."""
        return sorted(
            {
                label
                for split, path in self.files.items()
                for sentence in self.sentences(split)
                for label in self.labels_of_tags(sentence, path)
            }
        )

    def read_examples(self, split):
        path, has_labels = self.files[split], self.has_labels(split)
        examples = []
        for sentence in self.sentences(split):
            labels = self.labels_of_tags(sentence, path)
            if unknown := set(labels) - {*self.labels, NO_LABEL}:
                raise ValueError(
                    f"Expected one of the labels "
                    f"{text_tasks.listing(self.labels)}. Received: "
                    f"{min(unknown)!r} in {path!r}, in the sentence that "
                    f"begins in row {sentence.row}."
                )
            examples.append(
                TaggingExample(
                    len(examples), sentence.words, labels, has_labels
                )
            )
        return examples

    def texts_of(self, example):
        return example.words

    def sentences(self, split: str) -> list[Sentence]:
        """The sentences of a split, as in its file."""
        if self.source:
            return self.source.sentences(split, self.labels[-1])
        path = self.files[split]
        return conll.read(path, self.tag_column, self.as_original)

    def labels_of_tags(self, sentence: Sentence, path: str) -> tuple[str, ...]:
        """The labels that the tags of a sentence of a file become."""
        if self.is_token_level:
            return sentence.tags
        # A span goes on behind a word without a label.
        tags = [tag for tag in sentence.tags if tag != NO_LABEL]
        if not self.as_original:
            tags = [tag_schemes.as_bioes(tag, self.form) for tag in tags]
        if strange := [tag for tag in tags if not is_span_tag(tag)]:
            raise ValueError(
                "Expected tags such as B-NP, I-NP or O for spans. Received: "
                f"{strange[0]!r} in {path!r}, in the sentence that begins in "
                f"row {sentence.row}."
            )
        to_spans = spans_of_tags if self.as_original else strict_spans_of_tags
        labels = iter(bioes_tags(to_spans(tags), len(tags)))
        return tuple(
            tag if tag == NO_LABEL else next(labels) for tag in sentence.tags
        )

    # --- Features -------------------------------------------------------------

    def features(self, examples, tokenizer, max_seq_length, is_training=False):
        """See `Task.features`; adds `<task>_labels` <int32>[N, L],
        `<task>_labels_mask` <float32>[N, L] and `<task>_labeled_positions`
        <int32>[N, L], in the order of words, to `<task>_eid`."""
        ids_of_label = {label: i for i, label in enumerate(self.labels)}
        words = [word for example in examples for word in example.words]
        tokens = iter(self.word_tokens(words, tokenizer))
        rows, labels, positions = [], [], []
        for example in examples:
            word_pieces = [next(tokens) for _ in example.words]
            row, places = self.pack(word_pieces, tokenizer, max_seq_length)
            tags: Iterable[str] = example.labels
            if not self.as_original:
                has_tokens = itertools.compress(tags, word_pieces)
                pairs = zip(has_tokens, places, strict=False)
                pairs = [pair for pair in pairs if pair[0] != NO_LABEL]
                tags, places = zip(*pairs, strict=True) if pairs else ((), ())
            # One word's tokens may exceed the row: the original stops there.
            if len(row) > max_seq_length:
                row = [*row[: max_seq_length - 1], tokenizer.sep_token_id]
                places = [p for p in places if p < max_seq_length - 1]
            rows.append(row)
            labels.append([ids_of_label[tag] for tag in tags][:max_seq_length])
            positions.append(places)

        def pad(values, dtype=np.int32):
            return features_lib.pad_rows(values, max_seq_length, dtype)

        ones = pad([[1] * len(row) for row in rows])
        mask = pad([[1] * len(places) for places in positions], np.float32)
        return {
            "input_ids": pad(rows),
            "input_mask": ones,
            "segment_ids": ones * self.segment,
            f"{self.name}_eid": np.array([e.eid for e in examples], np.int32),
            f"{self.name}_labels": pad(labels),
            f"{self.name}_labels_mask": mask,
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
        text = tf.constant(unique, tf.string)
        ids = tokenizer.tokenize_uncased(text).to_list()
        cleaned = tokenization.remove_control_characters(text).numpy()
        special = {
            vocabulary.CLS_TOKEN.encode(): [tokenizer.cls_token_id],
            vocabulary.SEP_TOKEN.encode(): [tokenizer.sep_token_id],
        }
        ids_of = {
            word: special.get(clean, pieces)
            for word, clean, pieces in zip(unique, cleaned, ids, strict=True)
        }
        return [ids_of[word] for word in words]

    def pack(
        self,
        words_tokens: Sequence[Sequence[int]],
        tokenizer: tokenization.FullTokenizer,
        max_seq_length: int,
    ) -> tuple[list[int], Sequence[int]]:
        """Packs the tokens of words as `[CLS] words [SEP]`.

        Returns token ids, and the positions of the words' first tokens. With
        `as_original` the row may be longer than `max_seq_length` after one long
        word; the original fails there.
        """
        special = (tokenizer.cls_token_id, tokenizer.sep_token_id)
        num_words = len(words_tokens) + 2  # With [CLS] and [SEP].
        row: list[int] = [tokenizer.cls_token_id]
        if self.as_original and num_words + 1 > max_seq_length:
            row = []
        positions: list[int] = []
        for tokens in words_tokens:
            num_next = num_words if self.as_original else len(tokens)
            if len(row) + num_next + 1 > max_seq_length:
                break
            if self.as_original:
                is_labeled = not any(token in special for token in tokens)
            else:
                is_labeled = bool(tokens)
            if is_labeled:
                positions.append(len(row))
            row += tokens
        row.append(tokenizer.sep_token_id)
        return row, positions

    def make_head(self, config):
        return heads.TaggingHead(
            self.name, config.hidden_size, len(self.labels)
        )

    # --- Scores ---------------------------------------------------------------

    def predicted_tags(
        self,
        outputs: dict[str, np.ndarray],
        examples: Sequence[TaggingExample],
        tokenizer: tokenization.FullTokenizer | None = None,
    ) -> list[list[str | None]]:
        """A tag for each word: None behind the cut and for `NO_LABEL`, and,
        without `as_original`, O for words that have no tokens.

        Without a tokenizer all are taken to have some.
        """
        has_tokens: Iterator[bool] = itertools.repeat(True)
        if tokenizer is not None and not self.as_original:
            words = [word for example in examples for word in example.words]
            has_tokens = map(bool, self.word_tokens(words, tokenizer))
        rows = []
        for example, seen in zip(
            examples, self._seen(outputs, "predictions"), strict=True
        ):
            tags = iter(seen)
            row: list[str | None] = []
            for label, is_seen in zip(example.labels, has_tokens, strict=False):
                if label == NO_LABEL:
                    row.append(None)
                else:
                    row.append(next(tags, None) if is_seen else OUTSIDE)
            rows.append(row)
        return rows

    def _seen(self, outputs, name: str) -> list[list[str]]:
        """The labels, or the predictions, of the words that the model saw."""
        nums = _num_words(outputs)
        return [
            [self.labels[i] for i in ids[:num]]
            for ids, num in zip(outputs[name], nums, strict=True)
        ]

    def _true_and_predicted(self, outputs, examples, tokenizer):
        """The tags of all words, unseen ones O; without examples the seen."""
        if not examples:
            return [self._seen(outputs, n) for n in ("labels", "predictions")]
        true, predicted = [], []
        tags = self.predicted_tags(outputs, examples, tokenizer)
        for example, row_tags in zip(examples, tags, strict=True):
            counted = [label != NO_LABEL for label in example.labels]
            true.append(list(itertools.compress(example.labels, counted)))
            answers = itertools.compress(row_tags, counted)
            predicted.append([tag or OUTSIDE for tag in answers])
        return [true, predicted]

    def scores(self, outputs, examples=(), tokenizer=None, max_seq_length=0):
        """Accuracy of words, or precision, recall and F1 of spans.

        All words count: one that the model did not see has the tag O. The
        original, and so `as_original`, leaves those out, and its scorer takes
        any tags for spans, see `spans_of_tags`; without it the scorer is
        seqeval, whose F1 over all words is otherwise there beside it.
        """
        # The original's scorer adds each loss twice.
        times = 2 if self.as_original else 1
        total_loss = float(np.sum(outputs["loss"], dtype=np.float64))
        loss = times * total_loss / max(1, int(_num_words(outputs).sum()))
        both = self._true_and_predicted(outputs, examples, tokenizer)
        scored = both
        if self.as_original:
            scored = self._true_and_predicted(outputs, (), None)
        if self.is_token_level:
            flat = (list(itertools.chain(*tags)) for tags in scored)
            return {"accuracy": metrics.accuracy(*flat), "loss": loss}
        scores = _span_scores(both, strict_spans_of_tags)
        if self.as_original:
            by_seqeval = {"seqeval_f1": scores["f1"]}
            scores = _span_scores(scored, spans_of_tags) | by_seqeval
        return scores | {"loss": loss}

    def report(self, outputs, examples=(), tokenizer=None, max_seq_length=0):
        """That of words, or that of spans as seqeval finds them."""
        both = self._true_and_predicted(outputs, examples, tokenizer)
        if not self.is_token_level:
            spans = (_spans(tags, strict_spans_of_tags) for tags in both)
            return reports.span_report(
                *([(place, place[1].kind) for place in of] for of in spans)
            )
        true, predicted = (list(itertools.chain(*tags)) for tags in both)
        labels = list(dict.fromkeys([*self.labels, *predicted]))
        ids = {label: i for i, label in enumerate(labels)}
        return reports.class_report(
            labels,
            np.array([ids[tag] for tag in true]),
            np.array([ids[tag] for tag in predicted]),
        )

    def baseline(self, train_examples, splits):
        """The commonest tag for all words, or no span."""
        if not self.is_token_level:
            scores = metrics.precision_recall_f1(0, 0, 1)
            scores |= {"seqeval_f1": 0.0} if self.as_original else {}
            name = f"{OUTSIDE} everywhere"
            return {"name": name} | dict.fromkeys(splits, scores)
        always = metrics.commonest(_labels_of(train_examples))
        return {"name": f"majority class {always!r}"} | {
            split: {"accuracy": metrics.accuracy(_labels_of(rows), always)}
            for split, rows in splits.items()
        }

    def is_degenerate(self, outputs):
        mask = outputs["labels_mask"] > 0
        return len(np.unique(outputs["predictions"][mask])) <= 1

    def prediction_table(
        self, examples, outputs, tokenizer=None, max_seq_length=0
    ):
        """See `Task.prediction_table`.

        Tags are in the scheme of the training file. Tags and words of a
        sentence are separated by spaces, those that have some themselves get
        no-break ones; words behind a cut have the prediction "-", which seqeval
        reads as O there. The score is that of the sentence's least sure word.
        """

        def rows():
            for example, tags, logits, num in zip(
                examples,
                self.predicted_tags(outputs, examples, tokenizer),
                outputs["logits"],
                _num_words(outputs),
                strict=True,
            ):
                best = tf.reduce_max(tf.nn.softmax(logits[:num]), -1)
                least = float(tf.reduce_min(best)) if num else 0.0
                labels = example.labels if example.has_labels else ()
                yield [
                    _cell(self._answers(labels)),
                    _cell(self._answers([tag or "-" for tag in tags])),
                    f"{least:.6f}",
                    _cell(example.words),
                ]

        return ["label", "prediction", "least_score", "text"], rows()

    def _answers(self, tags: Sequence[str]) -> list[str]:
        """Tags as the files have them."""
        return tag_schemes.in_scheme(tags, self.scheme, self.form or "B-PER")

    def look_at(self, split, examples, features):
        num_words = len(_labels_of(examples))
        mask = features[f"{self.name}_labels_mask"]
        if (num_lost := num_words - int(np.rint(mask.sum()))) > 0:
            self.warn(
                f"{split}: {num_lost} of {num_words} words got no tag: they "
                f"are behind {mask.shape[-1]} tokens, or have none"
            )

    def description(self):
        return {
            "kind": "tagging",
            "labels": self.labels,
            "is_token_level": self.is_token_level,
            "as_original": self.as_original,
            "scheme": self.scheme,
            "form": self.form,
            "segment": self.segment,
        }


def _cell(parts: Iterable[str]) -> str:
    return " ".join("\u00a0".join(part.split()) for part in parts)


def _num_words(outputs: dict[str, np.ndarray]) -> np.ndarray:
    """How many words of each row the model saw, <int>[N]."""
    return np.rint(outputs["labels_mask"].sum(-1)).astype(int)


def _spans(rows: Sequence[Sequence[str]], to_spans) -> set[tuple[int, Span]]:
    """The spans of all sentences, each with the sentence's number."""
    return {(row, s) for row, tags in enumerate(rows) for s in to_spans(tags)}


def _span_scores(true_and_predicted, to_spans) -> dict[str, float]:
    """Precision, recall and F1, as seqeval counts them with strict spans."""
    true, predicted = (_spans(rows, to_spans) for rows in true_and_predicted)
    num_right = len(true & predicted)
    return metrics.precision_recall_f1(num_right, len(predicted), len(true))


def _labels_of(examples: Sequence[TaggingExample]) -> list[str]:
    """Those of all words that have one."""
    tags = (tag for example in examples for tag in example.labels)
    return [tag for tag in tags if tag != NO_LABEL]
