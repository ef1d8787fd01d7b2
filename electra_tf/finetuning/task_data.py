"""The files of a task -> its rows, whole or in folds, and what is odd in them.

Rows with the same texts are found, as the model reads them: white space, and
case where it is lowered, do not count. A row of dev that training has seen
scores better than a new one, and so does a row of a fold whose copy is in the
others. Texts longer than the model, and without a token, are counted.
"""

import dataclasses
import functools
import hashlib
import os
import typing
from collections.abc import Mapping, Sequence

import numpy as np

from electra_tf import configs, errors
from electra_tf.finetuning import digests
from electra_tf.model import heads
from electra_tf.model.windows import Windows
from electra_tf.tasks import features as features_lib
from electra_tf.tasks import text_tasks
from electra_tf.tasks.features import Features
from electra_tf.tasks.task import Task
from electra_tf.text import tokenization

# Tokens of a row without text, [CLS] and [SEP].
_NUM_BARE = 2


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
    def scored_splits(self) -> list[str]:
        """All with labels but "train"."""
        return [s for s in self.examples if s != "train" and s in self.labelled]

    @property
    def num_rows(self) -> dict[str, int]:
        """Split -> number of its examples."""
        return {split: len(rows) for split, rows in self.examples.items()}

    @functools.cached_property
    def digests(self) -> dict[str, str]:
        """Split -> the digest of its examples."""
        return {
            split: digests.of_values(rows)
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

    def keys(self, split: str) -> list[bytes] | None:
        """For each row a digest of its texts, which its copies have, too.

        None for a task that does not say what its texts are.
        """
        is_lower = self.tokenizer is not None and self.tokenizer.do_lower_case
        keys = []
        for example in self.examples[split]:
            texts = self.task.texts_of(example)
            if texts is None:
                return None
            digest = hashlib.blake2b(digest_size=16)
            for text in texts:
                text = " ".join(text.split())
                text = text.lower() if is_lower else text
                # No text has a line end any more.
                digest.update(f"{text}\n".encode("utf-8", "surrogatepass"))
            keys.append(digest.digest())
        return keys

    def about(self) -> dict:
        """What exporting needs to know of the task; fit for JSON."""
        about: dict = {
            "task_name": self.task.name,
            "has_pairs": self.has_pairs,
        }
        if reading := self.task.reading():
            about["reading"] = reading
        return about | self.of_texts() | self.task.description()

    def of_texts(self) -> dict:
        """What a model makes of a text, but for defaults; fit for JSON.

        Returns:
          "windows", see `Windows.about`, "pooling" and "hidden_activation".
        """
        found: dict = {}
        if self.windows is not None:
            found["windows"] = self.windows.about()
        if self.task.pooling != configs.DEFAULT_POOLING:
            found["pooling"] = self.task.pooling
        if self.task.hidden_activation is not None:
            found["hidden_activation"] = self.task.hidden_activation
        return found

    def make_head(self, config: configs.EncoderConfig) -> heads.Head:
        """The task's head, which reads of a text what the task says.

        Args:
          config: Of the encoder below.

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
        """The same, whose training rows have the weights of their classes.

        Scores and losses of other splits are those of rows that all count
        alike.

        Args:
          class_weights: See `Task.loss_weights`.

        Raises:
          ValueError: If the task has no classes, or lacks a label.
        """
        task = self.task
        weights, _ = task.loss_weights(self.examples["train"], class_weights)
        name = f"{task.name}_loss_weights"
        train = {**self.features["train"], name: weights}
        return dataclasses.replace(
            self, features={**self.features, "train": train}
        )


def read_rows(
    task: Task,
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
    wanted: Sequence[str],
    unwanted: Sequence[str] = (),
) -> TaskData:
    """Reads all splits of a task.

    Args:
      task: With files.
      tokenizer: Of their texts.
      max_seq_length: L of the features.
      wanted: Splits that must be there.
      unwanted: Splits that are not read.

    Raises:
      ValueError: If a file is missing, or cannot be read or used.
    """
    splits = [split for split in task.splits() if split not in unwanted]
    for split in wanted:
        if split not in splits:
            _refuse_missing(task, split)
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


def _refuse_missing(task: Task, split: str) -> None:
    """Says which file of a task is missing, and where it was looked for.

    Raises:
      ValueError: Always.
    """
    try:
        task.read_examples(split)
    except ValueError as error:
        if not task.looked_in:
            raise
        raise errors.ConfigError(
            f"Expected the files of the task {task.name!r} in "
            f"{task.looked_in}. {error}"
        ) from None
    raise errors.ConfigError(
        f"Expected the split {split!r} of the task {task.name!r}. Received: "
        f"{', '.join(task.splits()) or 'none'}"
    )


def hold_out(data: TaskData, fraction: float, seed: int) -> TaskData:
    """The set with a part of "train" as its "dev".

    With one label for each row, the part has the same share of each label. Rows
    with the same texts are in the same part.

    Args:
      data: With the split "train", a row of features for each example.
      fraction: Of the different rows of "train".
      seed: Of the choice.

    Raises:
      ConfigError: If a label has too few rows for both parts.
    """
    from sklearn import model_selection

    groups, labels = _groups_and_labels(data)
    cut: typing.Any = model_selection.ShuffleSplit
    if labels[0] is not None:
        cut = model_selection.StratifiedShuffleSplit
    parts = cut(n_splits=1, test_size=fraction, random_state=seed)
    try:
        ((_, heldout),) = parts.split(np.zeros(len(labels)), labels)
    except ValueError as error:
        raise errors.ConfigError(
            "FinetuningDataConfig.dev_fraction must leave rows of each label "
            f"in both parts of {len(labels)} different rows. Received: "
            f"dev_fraction={fraction}: {error}"
        ) from None
    return _of_fold(data, groups, heldout)


def cut_into_folds(data: TaskData, num_folds: int, seed: int) -> list[TaskData]:
    """The sets of all folds: each leaves another part out of training.

    With one label for each row, every part has the same share of each label.
    Rows with the same texts are in the same part, so that none is scored by a
    model that was trained on its copy; copies count once in these shares.

    Args:
      data: With the split "train", a row of features for each example.
      num_folds: Number of parts.
      seed: Of the order.

    Returns:
      For each part the set in which it is "dev".

    Raises:
      ConfigError: If a label, or the set, has fewer rows than there are parts.
    """
    from sklearn import model_selection

    groups, labels = _groups_and_labels(data)
    is_stratified = labels[0] is not None
    cut: typing.Any = model_selection.KFold
    if is_stratified:
        cut = model_selection.StratifiedKFold
    rarest = min(sorted(set(labels), key=str), key=labels.count)
    count = labels.count(rarest)
    if count < num_folds:
        has_copies = len(labels) < len(data.examples["train"])
        what = "different rows" if has_copies else "rows"
        what += f" of the label {rarest!r}" * is_stratified
        raise errors.ConfigError(
            "FinetuningDataConfig.folds must not exceed the rows of the "
            f"rarest label in training. Received: folds={num_folds}, but only "
            f"{count} {what}"
        )
    folds = cut(num_folds, shuffle=True, random_state=seed)
    return [
        _of_fold(data, groups, heldout)
        for _, heldout in folds.split(np.zeros(len(labels)), labels)
    ]


def _groups_and_labels(data: TaskData) -> tuple[np.ndarray, list]:
    """For each row of "train" the number <int>[N] of its group, the copies of
    one text; and the label of each group, by its first row, None where rows
    have not one label each."""
    examples = data.examples["train"]
    keys = data.keys("train") or range(len(examples))
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


def copies(data: TaskData) -> dict[str, dict]:
    """How many rows are copies; fit for JSON.

    Args:
      data: The task with its rows.

    Returns:
      Of "train" the rows that are copies of rows before them, and of every
      other split those that are in "train", too: "num_rows", of these
      "num_with_other_label", and "example", where such a row is and where the
      row of "train" is. Nothing for a task that does not say what its texts
      are.
    """
    keys = {split: data.keys(split) for split in data.examples}
    train = keys.get("train")
    if train is None or None in keys.values():
        return {}
    first: dict[bytes, int] = {}
    for row, key in enumerate(train):
        first.setdefault(key, row)
    train_rows = data.examples["train"]
    of_splits: dict[str, dict] = {}
    for split, of_split in keys.items():
        rows = data.examples[split]
        pairs = [
            (rows[row], train_rows[first[key]])
            for row, key in enumerate(of_split or ())
            if key in first and not (split == "train" and first[key] == row)
        ]
        others = [
            pair
            for pair in pairs
            if None not in (labels := [*map(_label, pair)])
            and labels[0] != labels[1]
        ]
        of_splits[split] = {
            "num_rows": len(pairs),
            "num_with_other_label": len(others),
        }
        if pairs:
            row, seen = (others or pairs)[0]
            places = [_place(row, split), _place(seen, "train")]
            of_splits[split]["example"] = places
    return of_splits


def _label(example: object) -> object:
    """The label, or labels, of a row; None where they are not known."""
    is_known = getattr(example, "has_label", True)
    is_known &= getattr(example, "has_labels", True)
    label = getattr(example, "labels", ()) or getattr(example, "label", None)
    return label if is_known else None


def _place(example: object, split: str) -> str:
    """Where a row is, in words."""
    source = getattr(example, "source", None)
    if source:
        path, row = source
        return f"row {row} of {os.path.basename(os.fspath(path))}"
    return f"example {getattr(example, 'eid', 0) + 1} of {split}"


def lines_on_copies(
    counts: Mapping[str, dict],
    num_rows: Mapping[str, int],
    has_folds: bool = False,
) -> list[str]:
    """What the user should know of copies, a line for each split.

    Args:
      counts: Of `copies`.
      num_rows: Split -> number of its rows.
      has_folds: Whether "train" is cut into folds.
    """
    lines = []
    for split, of_split in counts.items():
        if not of_split["num_rows"]:
            continue
        place, in_train = of_split["example"]
        if split != "train":
            what, advice = "are in train, too", "scores of these mean little"
        elif has_folds:
            what, advice = "are copies of others", "copies are in one fold"
        else:
            what, advice = "are copies of others", "they count as often"
        others = of_split["num_with_other_label"]
        if others:
            what += f", {others} of them with another label"
        lines.append(
            f"{split}: {of_split['num_rows']} of {num_rows[split]} rows {what}:"
            f" {place} is {in_train}; {advice}"
        )
    return lines


def long_texts(data: TaskData) -> dict:
    """What is done with long texts, and to how many; fit for JSON.

    Warns of those that are cut or have no token, and of windows.

    Args:
      data: Of any task; only those of texts are told of.

    Returns:
      "long_texts", and of windows "window_stride", "max_windows" and
      "weigh_windows"; by split
      "num_cut", the texts that lose their end, and "longest", the tokens of the
      longest text, where any is cut, and "num_without_tokens", where there are
      rows of which nothing is left but [CLS] and [SEP]; of windows also
      "num_windows", of all the split's texts, and "most_windows", of one.
    """
    if not isinstance(data.task, text_tasks.TextTask) or not data.tokenizer:
        return {}
    windows = data.windows
    counts: dict = {"long_texts": "windows" if windows else "cut"}
    most, way_on = data.max_seq_length, "--long_texts=windows reads all of a "
    way_on += "single text"
    if windows:
        most = windows.most_tokens
        way_on = "FinetuningDataConfig.max_windows reads more"
        counts["window_stride"] = windows.stride
        counts["max_windows"] = windows.max_windows
        counts["weigh_windows"] = windows.by_tokens
    for split, features in data.features.items():
        num_rows = data.num_rows[split]
        num_tokens = features["input_mask"].sum(axis=-1)
        lengths = _lengths_of_full_rows(data, split, num_tokens >= most)
        num_cut, longest = (
            int((lengths > most).sum()),
            int(max(lengths, default=0)),
        )
        of_split = counts[split] = {"num_cut": num_cut, "longest": longest}
        if num_bare := int((num_tokens <= _NUM_BARE).sum()):
            of_split["num_without_tokens"] = num_bare
            data.task.warn(
                f"{split}: {num_bare} of {num_rows} texts have no token, such "
                "as one of control characters alone: to the model they are "
                "[CLS] [SEP]"
            )
        if windows:
            of_texts = windows.counts(num_tokens)
            of_split["num_windows"] = int(of_texts.sum())
            of_split["most_windows"] = int(of_texts.max())
            if of_texts.max() > 1:
                data.task.warn(
                    f"{split}: {of_texts.sum()} windows of at most "
                    f"{windows.max_seq_length} tokens over {num_rows} texts, at"
                    f" most {of_texts.max()} a text; the next one begins "
                    f"{windows.stride} tokens later"
                )
        if num_cut:
            data.task.warn(
                f"{split}: {num_cut} of {num_rows} texts have more than {most} "
                f"tokens (up to {longest}) and are cut; {way_on}"
            )
    return counts


def _lengths_of_full_rows(
    data: TaskData, split: str, is_full: np.ndarray
) -> np.ndarray:
    """Tokens of the whole texts of the rows that may have been cut."""
    assert data.tokenizer is not None
    rows = [
        data.examples[split][row] for row in np.flatnonzero(is_full).tolist()
    ]
    first, second = (
        np.array([*map(len, features_lib.tokenize_all(texts, data.tokenizer))])
        for texts in ([e.text_a for e in rows], [e.text_b or "" for e in rows])
    )
    # [CLS] and [SEP]; a second text brings another one if it has a token.
    return 2 + first + second + (second > 0)
