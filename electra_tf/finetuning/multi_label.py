"""Tasks with any number of labels for each text or pair of texts.

Not in the original. Shapes: N rows, C labels.
"""

import collections
from collections.abc import Sequence

import numpy as np
import scipy.special

from electra_tf.finetuning import heads, metrics
from electra_tf.finetuning.text_tasks import TextExample, TextTask, listing


class MultiLabelTask(TextTask):
    """A task whose rows have any of the labels of a list, or none.

    Attributes:
      labels: The list; a label's id is its index.
    """

    main_metric = "micro_f1"

    def __init__(self, name: str, labels: Sequence[str]):
        super().__init__(name)
        self.labels = list(labels)

    def label_features(self, examples):
        """`<task>_label_ids` <int32>[N, C], 1 where a row has the label."""
        ids = {label: i for i, label in enumerate(self.labels)}
        wanted = np.zeros((len(examples), len(ids)), np.int32)
        for row, example in zip(wanted, examples, strict=True):
            for label in example.labels:
                if label not in ids:
                    path, number = example.source
                    raise ValueError(
                        f"Expected labels among {listing(self.labels)}. "
                        f"Received: {label!r} in {path!r}, row {number}."
                    )
                row[ids[label]] = 1
        return {f"{self.name}_label_ids": wanted}

    def make_head(self, config):
        return heads.MultiLabelHead(
            self.name, config.hidden_size, len(self.labels)
        )

    def scores(self, outputs, examples=(), tokenizer=None, max_seq_length=0):
        """F1 of all decisions and of each label, and whole rows that are right.

        A label is predicted where its probability exceeds 0.5.
        """
        del examples, tokenizer, max_seq_length
        labels, predictions = outputs["label_ids"], outputs["predictions"]
        exact = (labels == predictions).all(axis=-1)
        return {
            "micro_f1": metrics.f1(labels, predictions, "micro"),
            "macro_f1": metrics.f1(labels, predictions, "macro"),
            "exact_match": 100.0 * metrics.mean(exact),
            "loss": metrics.mean(outputs["loss"]),
        }

    @property
    def baseline_name(self):
        if "train" not in self.splits():
            return ""
        found = ", ".join(_commonest_set(self.read_examples("train")))
        return f"commonest labels {found!r}" if found else "no label"

    def baseline_scores(self, train_examples, examples):
        wanted = self.label_features(examples)[f"{self.name}_label_ids"]
        commonest = _commonest_set(train_examples)
        always = [int(label in commonest) for label in self.labels]
        scores = self.scores(
            {
                "label_ids": wanted,
                "predictions": np.broadcast_to(always, wanted.shape),
                "loss": np.zeros(0),
            }
        )
        del scores["loss"]
        return scores

    def is_degenerate(self, outputs):
        return len(np.unique(outputs["predictions"], axis=0)) == 1

    def description(self):
        return {"kind": "multi_label_classification", "labels": self.labels}

    def score_names(self):
        return list(self.labels)

    def scores_of_rows(self, outputs):
        probabilities = scipy.special.expit(outputs["logits"])
        for predictions, row in zip(
            outputs["predictions"], probabilities, strict=True
        ):
            found = [self.labels[i] for i in np.flatnonzero(predictions)]
            yield "|".join(found), [f"{value:.6f}" for value in row]


def _commonest_set(examples: Sequence[TextExample]) -> tuple[str, ...]:
    counts = collections.Counter(
        tuple(sorted(example.labels)) for example in examples
    )
    return max(sorted(counts), key=lambda labels: counts[labels])
