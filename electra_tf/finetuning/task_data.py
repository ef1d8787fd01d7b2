"""The files of a task -> its rows, whole or in folds."""

import dataclasses
import functools
import typing
from collections.abc import Mapping, Sequence

import numpy as np

from electra_tf import configs, errors
from electra_tf.finetuning import copies, digests
from electra_tf.model import heads
from electra_tf.model.windows import Windows
from electra_tf.tasks import text_tasks
from electra_tf.tasks.features import Features
from electra_tf.tasks.task import Task
from electra_tf.text import tokenization


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

    @property
    def do_lower_case(self) -> bool:
        """Whether rows that differ in case alone are the same to a model."""
        return self.tokenizer is not None and self.tokenizer.do_lower_case

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

    def remarks(self) -> list[str]:
        """What the files were taken for, and what is wrong with them."""
        return [self.task.origin] * bool(self.task.origin) + [
            f"{self.task.name}: {warning}"
            for warning in self.task.warnings(self.examples, self.features)
        ]


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
    if data.task.description().get("kind") == "classification":
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
    is_stratified = data.task.description().get("kind") == "classification"
    cut: typing.Any = model_selection.KFold
    if is_stratified:
        cut = model_selection.StratifiedKFold
    rarest = min(sorted(set(labels)), key=labels.count)
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
    """The group of each row of "train", see `_groups_of_copies`, and the label
    of each group, by its first row; 0 where rows have not one label each."""
    groups = _groups_of_copies(data)
    _, first_rows = np.unique(groups, return_index=True)
    if data.task.description().get("kind") != "classification":
        return groups, [0] * len(first_rows)
    examples = data.examples["train"]
    return groups, [examples[int(row)].label for row in first_rows]


def _groups_of_copies(data: TaskData) -> np.ndarray:
    """For each row of "train" a number <int>[N] that its copies have, too.

    They count the rows that are not copies of rows before them.
    """
    examples = data.examples["train"]
    found = copies.keys(data.task, examples, data.do_lower_case)
    if found is None:
        return np.arange(len(examples))
    numbers: dict = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in found])


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
