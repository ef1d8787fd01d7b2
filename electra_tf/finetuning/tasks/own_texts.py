"""Tasks on texts of one's own: classes, numbers, or several labels a row."""

from collections.abc import Mapping

import numpy as np

from electra_tf.finetuning.tasks import labels as labels_lib
from electra_tf.finetuning.tasks import text_tasks
from electra_tf.finetuning.tasks.own_files import OwnFiles
from electra_tf.finetuning.tasks.table_files import Value
from electra_tf.finetuning.tasks.text_tasks import (
    MultiLabelTask,
    TextExample,
    number,
)
from electra_tf.model import task_head

# What empty texts become on the way through pandas.
_EMPTY_TEXTS = ("nan", "NaN", "<NA>", "None", "null")


class _OwnTextTask(text_tasks.TextTask):
    """Mixed into tasks with texts from files of one's own."""

    source: OwnFiles

    def reading(self):
        return self.source.reading()

    def splits(self):
        return self.source.splits()

    def has_labels(self, split):
        return self.source.has_labels(split)

    def read_examples(self, split):
        examples = []
        path = self.source.paths.get(split, "")
        for row in self.source.rows(split):
            texts = [
                " ".join(labels_lib.items(t)) if isinstance(t, list) else t
                for t in row.texts
            ]
            source = (path, row.number)
            text_a, text_b = (*texts, None)[:2]
            examples.append(
                TextExample(
                    eid=len(examples),
                    text_a=text_a,
                    text_b=text_b,
                    source=source,
                    has_label=row.label is not None,
                    **self.label_fields(row.label, source),
                )
            )
        self.label_features(examples)  # A label unknown in training raises.
        return examples

    def warnings(self, examples=None, features=None):
        found = [
            f"{split}: {count} rows without a text are left out"
            for split, count in self.source.num_skipped.items()
            if count
        ]
        for split, of_split in (examples or {}).items():
            texts = [t for e in of_split for t in (e.text_a, e.text_b)]
            num_empty = sum(text in _EMPTY_TEXTS for text in texts)
            if num_empty:
                found.append(
                    f"{split}: {num_empty} texts are such as 'nan': had they "
                    "none?"
                )
            if split != "train":
                labels = [e.label for e in of_split if e.has_label]
                found += labels_lib.one_for_all(split, labels)
        found += labels_lib.remarks(getattr(self, "labels", ()))
        return found + super().warnings(examples, features)

    def label_fields(self, label: Value, source: tuple[str, int]) -> dict:
        """`label`, and what else of an example comes from it."""
        if label is None:
            return {"label": self.unknown_label}
        if isinstance(label, list) or not label:
            received = "a list" if label else "an empty one"
            path, row = source
            raise ValueError(
                f"Expected a label. Received: {received} in {path!r}, row "
                f"{row}."
            )
        return {"label": label}

    @property
    def unknown_label(self) -> str:
        """Stands for the label where there is none."""
        raise NotImplementedError


class OwnClassification(_OwnTextTask, text_tasks.ClassificationTask):
    """One label a row; the labels are those of the training file, sorted."""

    main_metric = "macro_f1"

    def __init__(
        self, name: str, source: OwnFiles, trained: Mapping | None = None
    ):
        self.source = source
        if trained is not None:
            super().__init__(name, trained["labels"])
            return
        path = source.train.path
        labels = []
        for row in source.rows("train"):
            fields = self.label_fields(row.label, (path, row.number))
            labels.append(fields["label"])
        different = sorted(set(labels))
        if len(different) < 2:
            raise ValueError(
                "Expected two or more different labels. Received: "
                f"{path!r} with the label {different[0]!r} only."
            )
        super().__init__(name, different)

    @property
    def unknown_label(self):
        return self.labels[0]


class OwnRegression(_OwnTextTask, text_tasks.RegressionTask):
    """A number a row; the range is that of the training file."""

    def __init__(
        self, name: str, source: OwnFiles, trained: Mapping | None = None
    ):
        self.source = source
        if trained is not None:
            self.has_decimal_commas = trained["reading"]["has_decimal_commas"]
            names = ("min_value", "max_value", "scale")
            super().__init__(name, *(trained[value] for value in names))
            return
        path = source.train.path
        values = []
        rows = source.rows("train")
        self.has_decimal_commas = labels_lib.have_decimal_commas(
            [row.label for row in rows if isinstance(row.label, str)], path
        )
        for row in rows:
            fields = self.label_fields(row.label, (path, row.number))
            values.append(number(fields["label"]))
            if not np.isfinite(values[-1]):
                raise ValueError(
                    f"Expected a number. Received: {row.label!r} in {path!r}, "
                    f"row {row.number}."
                )
        least, most = min(values), max(values)
        if least == most:
            raise ValueError(
                "Expected two or more different numbers. Received: "
                f"{path!r} with {least} only."
            )
        if not task_head.float32_tells_apart(least, most):
            raise ValueError(
                "Expected labels that float32 tells apart, such as their "
                f"differences from one of them. Received: {path!r} with "
                f"{least:.15g} to {most:.15g}."
            )
        super().__init__(name, least, most, scale=most - least)

    def reading(self):
        commas = {"has_decimal_commas": self.has_decimal_commas}
        return super().reading() | commas

    def label_fields(self, label, source):
        fields = super().label_fields(label, source)
        if self.has_decimal_commas:
            fields["label"] = fields["label"].replace(",", ".")
        value = number(fields["label"])
        if np.isfinite(value) and not task_head.float32_tells_apart(
            value, value
        ):
            path, row = source
            raise ValueError(
                "Expected a number that float32 holds. Received: "
                f"{fields['label']} in {path!r}, row {row}."
            )
        return fields

    @property
    def unknown_label(self):
        return str(self.min_value)


class OwnMultiLabel(_OwnTextTask, MultiLabelTask):
    """Any labels a row: a list in JSON, or separated; none is allowed."""

    def __init__(
        self,
        name: str,
        source: OwnFiles,
        separator: str = "",
        is_guessed: bool = False,
        trained: Mapping | None = None,
    ):
        """Finds the labels.

        Args:
          name: See `Task`.
          source: The files.
          separator: Between the labels of a row; empty for the usual ones.
          is_guessed: Whether nothing but the separator says that rows may have
            several labels, so that one must have it.
          trained: `Task.description` of the task that was trained.

        Raises:
          ValueError: If there are no labels, or no separator between them where
            it must be.
        """
        self.source = source
        if trained is not None:
            self.separator = trained["reading"]["label_separator"]
            super().__init__(name, trained["labels"])
            return
        rows = source.rows("train")
        texts = [row.label for row in rows if isinstance(row.label, str)]
        self.separator = separator or labels_lib.separator_of(
            texts, source.train.path
        )
        self.has_separator = any(self.separator in text for text in texts)
        if is_guessed and separator and texts and not self.has_separator:
            raise ValueError(
                f"Expected labels with {separator!r} between them "
                f"(label_separator). Received: none in {source.train.path!r}, "
                f"column {source.label_column!r}, such as {texts[0]!r}."
            )
        labels = {label for row in rows for label in self._split(row.label)}
        if not labels:
            raise ValueError(
                "Expected labels. Received: none in "
                f"{source.train.path!r}, column {source.label_column!r}."
            )
        super().__init__(name, sorted(labels))

    def reading(self):
        return super().reading() | {"label_separator": self.separator}

    def warnings(self, examples=None, features=None):
        sign = task_head.LABEL_SEPARATOR
        divided = [label for label in self.labels if sign in label]
        return [
            f"the label {label!r} has the sign that stands between labels in "
            "predictions and in the report: go by the scores"
            for label in divided[:1]
        ] + super().warnings(examples, features)

    def label_fields(self, label, source):
        del source
        labels = tuple(self._split(label))
        joined = task_head.LABEL_SEPARATOR.join(labels)
        return {"label": joined, "labels": labels}

    def _split(self, label: Value) -> list[str]:
        if label is None:
            return []
        if isinstance(label, str):
            label = label.split(self.separator)
        return [part.strip() for part in label if part.strip()]
