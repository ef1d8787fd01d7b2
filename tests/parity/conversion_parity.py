"""Takes every checkpoint of the original through the formats and back.

The names and bits of what comes back must be those that the original wrote, its
optimizer slots and step included, so that it can train on from there.
"""

import dataclasses
import pathlib
import tempfile
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from electra_tf.checkpoint_conversion import (
    electra_tf_format,
    huggingface,
    original,
    verify,
)
from tests.parity import comparison
from tests.parity.check import Check


def checks(golden_dir: pathlib.Path) -> Iterator[Check]:
    """Converts every checkpoint there is."""
    for index in sorted(golden_dir.rglob("*.index")):
        path = index.with_suffix("")
        case = path.relative_to(golden_dir).parent.name
        with tempfile.TemporaryDirectory() as folder:
            yield from _check(case, path, pathlib.Path(folder))


def _check(case, path, folder) -> Iterator[Check]:
    hparams = None
    if (path.parent / "info.json").exists():
        # A run of the original keeps its settings on the command line only.
        info = comparison.read_json(path.parent / "info.json")
        stage = "finetuning" if "finetuned" in path.name else "pretraining"
        hparams = info[f"{stage}_hparams"] | {"vocab_size": 30522}
    read = original.read(str(path), hparams)
    electra_tf_format.write(read, str(folder / "ours"))
    original.write(
        electra_tf_format.read(str(folder / "ours")), str(folder / "back")
    )
    before = tf.train.load_checkpoint(str(path))
    after = tf.train.load_checkpoint(str(folder / "back"))
    names = before.get_variable_to_dtype_map()
    wrong = set(names.items()) ^ set(after.get_variable_to_dtype_map().items())
    wrong |= {
        name
        for name in names
        if not after.has_tensor(name)
        or np.asarray(before.get_tensor(name)).tobytes()
        != np.asarray(after.get_tensor(name)).tobytes()
    }
    yield Check(
        case,
        f"conversion: {path.name} to electra_tf and back",
        float(len(wrong)),
        0.0,
        frozenset(),
    )
    head = read.head
    if head is not None and head.options.get("joint_prediction"):
        return  # transformers has no such head.
    # Nothing here says whether the vocabulary is lower-cased.
    huggingface.write(
        dataclasses.replace(read, vocabulary=None), str(folder / "theirs")
    )
    there = huggingface.read(str(folder / "theirs"))
    unequal, absent = verify.unequal_tensors(read, there)
    left = [
        name
        for name in absent
        if name in read.tensors
        and not name.startswith(("generator_", "cloze_"))
        and not (head and f"/{head.task_name}/" not in name)
    ]
    yield Check(
        case,
        f"conversion: {path.name} to huggingface and back",
        float(len(unequal) + len(left)),
        0.0,
        frozenset(),
    )
