"""What the tests of serving share."""

import dataclasses
import json
import typing

import keras
import pytest
import tensorflow as tf

from electra_tf import model_directory
from electra_tf.model.finetuning_model import FinetuningModel
from electra_tf.serving import saved_model
from electra_tf.tasks import text_tasks
from electra_tf.training import saving
from tests import helpers
from tests.finetuning import runs
from tests.serving import native

LABELS = ["no", "perhaps", "yes"]
TEXTS = ["wa wb", "", "wc, wd? " * 20, "unknown words", "\u00c9"]

# What breaks servers: nothing, white space, no UTF-8, control characters,
# long words, many words, emoji, right to left, what JSON or graphs may mistake.
NASTY: list[bytes] = [
    b"",
    b" \t\r\n",
    b"wa \xff\xfe wb \xc3",
    b"wa\x00wb",
    "\u202ewa \u05e2\u05d1\u05e8\u05d9\u05ea wb".encode(),
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 wc \ufeff\ufffd".encode(),
    b'{"b64": "d2E="} [MASK] [SEP] \\ " \' <wa>',
    b"w" * 300,
    b"wa wb wc " * 50,
    "\u4e2d\u6587 \ud55c\uad6d\uc5b4 \u0130 \u03a3 \u00df".encode(),
]


class Exported(typing.NamedTuple):
    """A fine-tuned model and what was exported from it."""

    model_dir: typing.Any  # Of the run.
    model: typing.Any  # The best trial's.
    path: str  # The exported version.


def write_finetuned(folder):
    """A model directory as a fine-tuning run of two trials leaves it."""
    model_dir = folder / "finetuned"
    model_dir.mkdir()
    data = {"task_name": "letters", "max_seq_length": 8}
    data |= {"do_lower_case": True, "strip_accents": True}
    data["vocab_file"] = helpers.write_vocab(model_dir)
    run = helpers.finetuning_run_config(model_dir)
    config = runs.bare_config(data, run=run, num_trials=2)
    model_directory.write(config, "", [])
    encoder = helpers.encoder_config(initializer_range=0.5)
    task = text_tasks.ClassificationTask("letters", LABELS)
    for trial in (1, 2):
        keras.utils.set_random_seed(trial)
        model = FinetuningModel(encoder, [task.make_head(encoder)])
        tf.train.CheckpointManager(
            saving.checkpointed_variables(model),
            str(model_dir / f"trial_{trial}"),
            1,
        ).save()
    about = {"task_name": "letters", "kind": "classification"}
    about |= {"encoder": dataclasses.asdict(encoder), "labels": LABELS}
    (model_dir / "model.json").write_text(json.dumps(about))
    trials = [{"trial": 1}, {"trial": 2, "dev": {"accuracy": 90.0}}]
    results = {"best_on_dev": 2, "trials": trials}
    (model_dir / "results.json").write_text(json.dumps(results))
    return model_dir, model


@pytest.fixture(scope="session")
def exported(tmp_path_factory) -> Exported:
    """A classifier, exported once for all tests."""
    folder = tmp_path_factory.mktemp("serving")
    model_dir, model = write_finetuned(folder)
    path = saved_model.export(str(model_dir), str(folder / "letters"))
    return Exported(model_dir, model, path)


@pytest.fixture(scope="session")
def cpp_program(tmp_path_factory):
    """The C++ program, compiled; None without a compiler."""
    if native.compiler() is None:
        return None
    return native.build(tmp_path_factory.mktemp("cpp"))
