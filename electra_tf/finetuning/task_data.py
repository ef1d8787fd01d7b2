"""The files of a task -> its rows, whole or in folds, and what is odd in them.

Rows with the same texts are found, as the model reads them: white space, and
case where it is lowered, do not count. A row of dev that training has seen
scores better than a new one, and so does a row of a fold whose copy is in the
others. Texts longer than the model, and without a token, are counted.
"""

import dataclasses
import functools
import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from electra_tf import configs, errors, files
from electra_tf.model import heads
from electra_tf.model.windows import Windows
from electra_tf.tasks import features as features_lib
from electra_tf.tasks import text_tasks
from electra_tf.tasks.features import Features
from electra_tf.tasks.task import Task
from electra_tf.text import tokenization

# Where an example comes from, and which one it is: not what it says.
_NO_CONTENT = ("source", "eid")


@dataclasses.dataclass(frozen=True)
class TaskData:
    """A task with its rows.

    Attributes:
      task: The task.
      examples: Split -> its examples. A run trains on "train" and chooses by
        "dev"; rows for a finished model may be of any split.
      features: Split -> what the model reads of them.
      labelled: The splits that can be scored.
      tokenizer: Of their texts.
      max_seq_length: L of the features.
    """

    task: Task
    examples: Mapping[str, Sequence]
    features: Mapping[str, Features]
    labelled: frozenset[str]
    tokenizer: tokenization.FullTokenizer | None = None
    max_seq_length: int = 0

    @property
    def num_rows(self) -> dict[str, int]:
        """Split -> number of its examples."""
        return {split: len(rows) for split, rows in self.examples.items()}

    @functools.cached_property
    def digests(self) -> dict[str, str]:
        """Split -> the digest of its examples, by their contents in order.

        They are of contents, not of files: rows that move to another line, or
        to another file, are the same.
        """
        return {
            split: files.sha256_of_values(map(_content, rows))
            for split, rows in self.examples.items()
        }

    @functools.cached_property
    def has_pairs(self) -> bool:
        """Whether any row has two texts."""
        return any(
            getattr(example, "text_b", None) is not None
            for rows in self.examples.values()
            for example in rows
        )

    @property
    def windows(self) -> Windows | None:
        """How long texts are cut into windows; None for a cut at the end."""
        # Question answering has windows of its own.
        if isinstance(self.task, text_tasks.TextTask):
            return self.task.windows
        return None

    def about(self) -> dict:
        """What exporting needs to know of the task; fit for JSON."""
        about: dict = {
            "task_name": self.task.name,
            "has_pairs": self.has_pairs,
        }
        if reading := self.task.reading():
            about["reading"] = reading
        return about | self.text_options() | self.task.description()

    def text_options(self) -> dict:
        """What a model makes of a text, but for defaults; fit for JSON.

        Returns:
          "windows", see `Windows.about`, "pooling" and "hidden_activation".
        """
        values: dict = {}
        if self.windows is not None:
            values["windows"] = self.windows.about()
        if self.task.pooling != configs.DEFAULT_POOLING:
            values["pooling"] = self.task.pooling
        if self.task.hidden_activation is not None:
            values["hidden_activation"] = self.task.hidden_activation
        return values

    def make_head(self, config: configs.EncoderConfig) -> heads.Head:
        """The task's head, which reads of a text what the task says.

        Raises:
          ConfigError: If the task makes another head than it is to go on with.
        """
        head = self.task.make_head(config)
        if isinstance(head, heads.PooledHead):
            head.pooling = self.task.pooling
            if self.task.hidden_activation and head.hidden is None:
                raise errors.ConfigError(
                    f"FinetuningConfig.keep_head: the head to go on with has "
                    f"a layer in front of its last one. Received: the task "
                    f"{self.task.name}, whose head has none"
                )
        return head

    def with_class_weights(
        self, class_weights: str | Mapping[str, float]
    ) -> "TaskData":
        """The same, whose training rows have the weights of their classes."""
        task = self.task
        weights, _ = task.loss_weights(self.examples["train"], class_weights)
        name = f"{task.name}_loss_weights"
        train = {**self.features["train"], name: weights}
        return dataclasses.replace(
            self, features={**self.features, "train": train}
        )


def _content(example: object) -> object:
    """What an example says, but for where it is from."""
    if hasattr(example, "_asdict"):
        example = example._asdict()
    values = getattr(example, "__dict__", example)
    if not isinstance(values, Mapping):
        return values
    return {k: v for k, v in values.items() if k not in _NO_CONTENT}


def read_rows(
    task: Task,
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
    wanted: Sequence[str],
    unwanted: Sequence[str] = (),
) -> TaskData:
    """Reads all splits of a task.

    Args:
      wanted: Splits that must be there.
      unwanted: Splits that are not read.

    Raises:
      ValueError: If a file is missing, or cannot be read or used.
    """
    splits = [split for split in task.splits() if split not in unwanted]
    missing = [split for split in wanted if split not in splits]
    if missing or not splits:
        received = f"none of the split {missing[0]!r}" if missing else "none"
        raise errors.ConfigError(
            f"Expected the files of the task {task.name!r} in "
            f"{task.looked_in}. Received: {received}"
        )
    examples = {split: task.read_examples(split) for split in splits}
    return TaskData(
        task,
        examples,
        {
            split: task.features(
                rows, tokenizer, max_seq_length, split == "train"
            )
            for split, rows in examples.items()
        },
        frozenset(filter(task.has_labels, splits)),
        tokenizer,
        max_seq_length,
    )


def parts(
    data: TaskData, folds: int, dev_fraction: float, seed: int
) -> list[TaskData]:
    """The sets that models are trained and scored on.

    With one label for each row, every part of "train" has the same share of
    each label. Rows with the same texts are in the same part, so that none is
    scored by a model that was trained on its copy; copies count once in these
    shares.

    Args:
      data: With the split "train", a row of features for each example.
      folds: Number of parts, each of which is the "dev" of one set; 0 for none.
      dev_fraction: Of the different rows of "train", to be the "dev" of the
        only set; 0 for none.
      seed: Of the choice.

    Raises:
      ConfigError: If a label, or the set, has too few rows for that.
    """
    if not folds and not dev_fraction:
        return [data]
    from sklearn import model_selection  # Takes long to import.

    groups, labels = _groups_and_labels(data)
    rarest = min(sorted(set(labels), key=str), key=labels.count)
    if (count := labels.count(rarest)) < folds:
        whose = "" if rarest is None else f" of the label {rarest!r}"
        raise errors.ConfigError(
            "FinetuningDataConfig.folds must not exceed the rows of the "
            f"rarest label in training. Received: folds={folds}, but only "
            f"{count} different rows{whose}"
        )
    kind = "KFold" if folds else "ShuffleSplit"
    options: dict = {"n_splits": folds, "shuffle": True}
    if dev_fraction:
        options = {"n_splits": 1, "test_size": dev_fraction}
    if rarest is not None:
        kind = f"Stratified{kind}"
    splitter = getattr(model_selection, kind)(random_state=seed, **options)
    try:
        cuts = list(splitter.split(np.zeros(len(labels)), labels))
    except ValueError as error:
        raise errors.ConfigError(
            "FinetuningDataConfig.dev_fraction must leave rows of each label "
            f"in both parts of {len(labels)} different rows. Received: "
            f"dev_fraction={dev_fraction}: {error}"
        ) from None
    return [_of_fold(data, groups, heldout) for _, heldout in cuts]


def _groups_and_labels(data: TaskData) -> tuple[np.ndarray, list]:
    """For each row of "train" the number <int>[N] of its group, the copies of
    one text; and the label of each group, by its first row, None where rows
    have not one label each."""
    examples = data.examples["train"]
    keys = _texts(data, "train") or range(len(examples))
    numbers: dict = {}
    groups = np.array([numbers.setdefault(k, len(numbers)) for k in keys])
    if data.task.description().get("kind") != "classification":
        return groups, [None] * len(numbers)
    _, first_rows = np.unique(groups, return_index=True)
    return groups, [examples[int(row)].label for row in first_rows]


def _of_fold(
    data: TaskData, groups: np.ndarray, heldout: np.ndarray
) -> TaskData:
    """The set whose "dev" are some groups of the rows of "train"."""
    whole = data.features["train"]
    examples: dict = {"train": (), "dev": (), **data.examples}
    features: dict = {"train": whole, "dev": whole, **data.features}
    is_dev = np.isin(groups, heldout)
    for name, rows in (
        ("train", np.flatnonzero(~is_dev)),
        ("dev", np.flatnonzero(is_dev)),
    ):
        examples[name] = [data.examples["train"][int(row)] for row in rows]
        features[name] = {key: values[rows] for key, values in whole.items()}
    return dataclasses.replace(
        data,
        examples=examples,
        features=features,
        labelled=data.labelled | {"train", "dev"},
    )


# --- What is odd in the rows -------------------------------------------------


def _texts(data: TaskData, split: str) -> list[tuple[str, ...]] | None:
    """The texts of each row; None for a task that does not say them."""
    is_lower = data.tokenizer is not None and data.tokenizer.do_lower_case
    rows = []
    for texts in map(data.task.texts_of, data.examples[split]):
        if texts is None:
            return None
        bare = (" ".join(text.split()) for text in texts)
        rows.append(tuple(t.lower() if is_lower else t for t in bare))
    return rows


def copies(data: TaskData, has_folds: bool = False) -> dict[str, dict]:
    """How many rows are copies; fit for JSON.

    Returns:
      Of "train" the rows that are copies of rows before them, and of every
      other split those that are in "train", too: "num_rows", and "line", where
      there are any, which says so. Nothing for a task that does not say what
      its texts are.
    """
    texts = {split: _texts(data, split) for split in data.examples}
    if texts.get("train") is None or None in texts.values():
        return {}
    first: dict[tuple[str, ...], int] = {}
    for row, row_texts in enumerate(texts["train"] or ()):
        first.setdefault(row_texts, row)
    counts: dict[str, dict] = {}
    for split, split_texts in texts.items():
        rows = [
            row
            for row, row_texts in enumerate(split_texts or ())
            if row_texts in first
            and (split, row) != ("train", first[row_texts])
        ]
        counts[split] = {"num_rows": len(rows)}
        if not rows:
            continue
        what, advice = "are in train, too", "scores of these mean little"
        if split == "train":
            what, advice = "are copies of others", "they count as often"
            advice = "copies are in one fold" if has_folds else advice
        example = data.examples[split][rows[0]]
        place = f"number {getattr(example, 'eid', 0) + 1}"
        if source := getattr(example, "source", None):
            place = f"row {source[1]} of {os.path.basename(source[0])}"
        counts[split]["line"] = (
            f"{split}: {len(rows)} of {data.num_rows[split]} rows {what}, such "
            f"as {place}; {advice}"
        )
    return counts


def warn_of_unread(data: TaskData) -> None:
    """Warns of rows that say nothing to the model, and of cut texts."""
    if data.tokenizer is None:
        return
    longest, advice = data.max_seq_length, "--long_texts=windows reads all"
    if data.windows:
        longest = data.windows.most_tokens
        advice = "FinetuningDataConfig.max_windows reads more"
    task = data.task
    for split, features in data.features.items():
        rows = data.examples[split]
        texts: Sequence = ()
        others: Iterable[str] = ()
        if isinstance(task, text_tasks.TextTask):
            texts = [e.text_a for e in rows], [e.text_b for e in rows]
        else:
            others = (text for e in rows for text in task.texts_of(e) or ())
        for line in features_lib.remarks(
            features, data.tokenizer, texts, longest, advice, others
        ):
            task.warn(f"{split}: {line}")
