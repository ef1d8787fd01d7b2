"""Takes every checkpoint of the original through the formats and back.

The names and bits of what comes back must be those that the original wrote, its
optimizer slots and step included, so that it can train on from there. What a
format cannot hold is compared as far as it travels, and what is left behind
must be what the format is known not to hold, no less and no more.
"""

import dataclasses
import functools
import pathlib
import tempfile
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from electra_tf.checkpoints import sizes, verify
from electra_tf.checkpoints.checkpoint import Checkpoint, summarize
from electra_tf.checkpoints.formats import (
    electra_tf_format,
    huggingface,
    original,
)
from electra_tf.errors import CheckpointError
from tests.parity import comparison
from tests.parity.cases import Case
from tests.parity.check import Check

# Parts of the names of Electric's generator.
_TWO_TOWERS = (*sizes.TOWERS, "cloze_predictions")


def cases(golden_dir: pathlib.Path) -> Iterator[Case]:
    """Every checkpoint there is, through each format."""
    for index in sorted(golden_dir.rglob("*.index")):
        path = index.with_suffix("")
        folder = path.relative_to(golden_dir).parent.as_posix()
        for convert in (_to_electra_tf_and_back, _to_huggingface_and_back):
            name = convert.__name__.strip("_").replace("_and_back", "")
            yield Case(
                f"{folder}/{path.name} {name}",
                functools.partial(_compare, folder, path, convert),
            )


def _compare(case: str, path: pathlib.Path, convert) -> Iterator[Check]:
    with tempfile.TemporaryDirectory() as folder:
        format_name, wrong = convert(path, pathlib.Path(folder))
    yield Check(
        case,
        f"conversion: {path.name} to {format_name} and back "
        f"{summarize(wrong)}".rstrip(),
        float(len(wrong)),
        0.0,
    )


def _read(path: pathlib.Path) -> Checkpoint:
    hparams = None
    if (path.parent / "info.json").exists():
        # A run of the original keeps its settings on the command line only.
        info = comparison.read_json(path.parent / "info.json")
        stage = "finetuning" if "finetuned" in path.name else "pretraining"
        hparams = info[f"{stage}_hparams"] | {"vocab_size": 30522}
    return original.read(str(path), hparams)


def _to_electra_tf_and_back(path, folder) -> tuple[str, set[str]]:
    """The names that the original's files then have wrong."""
    electra_tf_format.write(_read(path), str(folder / "ours"))
    original.write(
        electra_tf_format.read(str(folder / "ours")), str(folder / "back")
    )
    before = tf.train.load_checkpoint(str(path))
    after = tf.train.load_checkpoint(str(folder / "back"))
    types = before.get_variable_to_dtype_map()
    differing = types.items() ^ after.get_variable_to_dtype_map().items()
    return "electra_tf", {name for name, _ in differing} | {
        name
        for name in types
        if after.has_tensor(name)
        and np.asarray(before.get_tensor(name)).tobytes()
        != np.asarray(after.get_tensor(name)).tobytes()
    }


def _to_huggingface_and_back(path, folder) -> tuple[str, set[str]]:
    """The names that differ, or are lost or kept against expectation."""
    # Nothing here says whether the vocabulary is lower-cased.
    read = dataclasses.replace(_read(path), vocabulary=None)
    sent = _write_what_travels(read, str(folder / "theirs"))
    there = huggingface.read(str(folder / "theirs"))
    unequal, absent = verify.unequal_tensors(read, there)
    invented = there.tensors.keys() - read.tensors.keys()
    wrong = set(unequal) | (set(absent) ^ _left_behind(read, sent)) | invented
    return "huggingface", wrong


def _write_what_travels(read: Checkpoint, path: str) -> Checkpoint:
    """Writes all that transformers can hold, and returns that."""
    try:
        huggingface.write(read, path)
    except CheckpointError as error:
        # Of a head that is not theirs it says how to leave it behind.
        if read.head is None or "--encoder-only" not in str(error):
            raise
        read = read.encoder_only()
        huggingface.write(read, path)
    return read


def _left_behind(read: Checkpoint, sent: Checkpoint) -> set[str]:
    """What of a checkpoint transformers is known not to hold."""
    left = read.optimizer.keys() | (read.tensors.keys() - sent.tensors.keys())
    if sizes.has_towers(sent.tensors):
        left |= {n for n in read.tensors if n.split("/")[0] in _TWO_TOWERS}
    if sent.head is not None:  # Theirs is one model for each task.
        ours = f"task_specific/{sent.head.task_name}/"
        left |= {
            name
            for name in read.tensors
            if name.startswith("task_specific/") and not name.startswith(ours)
        }
    return left
