"""Tests of finetuning/digests.py."""

import dataclasses

import numpy as np

from electra_tf.finetuning import digests
from electra_tf.tasks.tagging import TaggingExample
from electra_tf.tasks.text_tasks import TextExample

ROWS = [
    TextExample(0, "wa wb", None, "yes", ("train.tsv", 2)),
    TextExample(1, "wc", None, "no", ("train.tsv", 3)),
]


def test_rows_are_the_same_wherever_they_stand():
    elsewhere = [
        row._replace(eid=row.eid + 7, source=("b.csv", 9)) for row in ROWS
    ]
    assert digests.of_values(elsewhere) == digests.of_values(ROWS)


def test_every_change_of_rows_is_seen():
    first, second = ROWS
    sets = [
        ROWS,
        [second, first],
        [first],
        [first._replace(label="no"), second._replace(label="yes")],
        [first._replace(text_a="wa wb "), second],
        [first._replace(text_b="wa"), second],
        [first._replace(text_a="wa", text_b="wb"), second],
        [first._replace(has_label=False), second],
        [first._replace(labels=("yes",)), second],
        [TaggingExample(0, ("wa", "wb"), ("O", "O"))],
        [TaggingExample(0, ("wa wb",), ("O", "O"))],
        [TaggingExample(0, ("wa", "wb"), ("O", "S-X"))],
    ]
    assert len(set(map(digests.of_values, sets))) == len(sets)


def test_examples_may_be_anything():
    @dataclasses.dataclass
    class Row:
        text: str
        weight: float = 1.0

    class Plain:
        def __init__(self, text):
            self.text = text

    def different(make):
        values = make("wa"), make("wa"), make("wb")
        a, again, b = (digests.of_values([value]) for value in values)
        return a == again and a != b

    assert different(Row)
    assert different(Plain)
    assert different(lambda text: {"text": [text]})
    assert different(lambda text: np.array([ord(c) for c in text]))
    assert different(lambda text: {text})
    # A field that a later version adds, with its default.
    assert digests.of_values([Row("wa")]) != digests.of_values([Row("wa", 2.0)])


def test_a_lone_surrogate_is_no_obstacle():
    assert digests.of_values(["\ud800"]) != digests.of_values(["?"])


def test_tensors():
    weights = {"a": np.zeros((2, 3), np.float32), "b": np.ones(2, np.float32)}
    found = digests.of_tensors(weights)
    assert found == digests.of_tensors(dict(reversed(weights.items())))
    others = [
        weights | {"b": np.array([1, 1 + 1e-6], np.float32)},
        weights | {"a": np.zeros((3, 2), np.float32)},
        {"a": weights["a"]},
        {"a": weights["a"], "c": weights["b"]},
        {},
    ]
    assert len({found, *map(digests.of_tensors, others)}) == 1 + len(others)
