"""Tables of one's own: the columns that count, split by split."""

import dataclasses

from electra_tf.finetuning.tasks import columns, table_files
from electra_tf.finetuning.tasks import labels as labels_lib
from electra_tf.finetuning.tasks.labels import OwnRow
from electra_tf.finetuning.tasks.table_files import Table


@dataclasses.dataclass
class OwnFiles:
    """The files of a task, and which columns count.

    Attributes:
      paths: Split -> file.
      train: The training file's rows.
      others: Those of the other splits, their header as a row.
      header_is_given: Whether it was said if there is a header.
      text_columns: Names of one or two columns.
      label_column: Name of the column of labels.
      skip_empty_texts: Leave rows without a text out.
      num_skipped: Split -> how many were, once it was read.
    """

    paths: dict[str, str]
    train: Table
    others: dict[str, Table]
    text_columns: list[str]
    label_column: str
    header_is_given: bool = False
    skip_empty_texts: bool = False

    def __post_init__(self):
        self._rows: dict[str, list[OwnRow]] = {}
        self.num_skipped: dict[str, int] = {}

    def rows(self, split: str) -> list[OwnRow]:
        """The rows of a split.

        Raises:
          ValueError: If the file cannot be read, lacks a column, or a row has
            no text or, in a file with labels, no label.
        """
        if split not in self.paths:
            raise ValueError(
                f"Expected one of the splits {', '.join(sorted(self.paths))}. "
                f"Received: {split!r}."
            )
        if split not in self._rows:
            self._rows[split] = self._read(split)
        return self._rows[split]

    def has_labels(self, split: str) -> bool:
        """Whether the rows of a split have labels; only "test" may not."""
        return self.rows(split)[0].label is not None

    def reading(self) -> dict:
        """See `Task.reading`."""
        return {
            "train_file": self.train.path,
            "columns": self.train.columns,
            "has_header": self.train.has_header,
            "text_columns": self.text_columns,
            "label_column": self.label_column,
        }

    def splits(self) -> list[str]:
        """All splits, those with labels first."""
        return sorted(
            self.paths,
            key=lambda split: (
                split != "train",
                not self.has_labels(split),
                list(self.paths).index(split),
            ),
        )

    def _read(self, split: str) -> list[OwnRow]:
        table = self.train
        if split != "train":
            table = columns.like_train(
                self.others.pop(split),
                self.train,
                [*self.text_columns, self.label_column],
                not self.header_is_given,
            )
        texts = [table.column(name, "text") for name in self.text_columns]
        label = None
        if split != "test" or columns.has_like(
            table, self.train, self.label_column
        ):
            # Refused where it is called otherwise.
            label = table.column(self.label_column, "labels")
        if split == "test" and label is not None:
            # A column of nothing stands for labels that are kept secret.
            values = (row.values[label] for row in table.rows)
            if all(value in (None, "") for value in values):
                label = None
        rows = []
        for row in table.rows:
            found = [row.values[i] for i in texts]
            value = None if label is None else row.values[label]
            for item in (*found, value):
                if isinstance(item, table_files.Json):
                    raise ValueError(
                        "Expected a text, or a list of texts. Received: "
                        f"{item[:40]} in {table.path!r}, row {row.number}."
                    )
            empty = [
                name
                for name, text in zip(self.text_columns, found, strict=True)
                if not labels_lib.items(text)
            ]
            if empty and self.skip_empty_texts:
                continue
            if empty:
                raise ValueError(
                    "Expected a text. Received: an empty one in "
                    f"{table.path!r}, row {row.number}, column {empty[0]!r} "
                    "(skip_empty_texts leaves such rows out)."
                )
            if label is not None and value is None:
                value = ""
            if isinstance(value, str):
                value = value.strip()
            rows.append(OwnRow(found, value, row.number))
        if not rows:
            raise ValueError(
                f"Expected texts. Received: none in {table.path!r}."
            )
        self.num_skipped[split] = len(table.rows) - len(rows)
        return rows
