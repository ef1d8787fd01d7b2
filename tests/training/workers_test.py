"""Tests of training/workers.py; whole clusters are in end_to_end/."""

import itertools
import types

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.training import workers
from tests import helpers

ONE = types.SimpleNamespace(
    extended=types.SimpleNamespace(_in_multi_worker_mode=lambda: False)
)
TWO = types.SimpleNamespace(
    extended=types.SimpleNamespace(_in_multi_worker_mode=lambda: True),
    num_replicas_in_sync=2,
)


def config(folder="model", seed=3, learning_rate=1e-3, data="a"):
    return helpers.pretraining_config(
        folder,
        data={"train_files": f"{data}/*", "vocab_file": f"{data}/vocab.txt"},
        optimizer={"learning_rate": learning_rate},
        run={"seed": seed},
    )


@pytest.fixture
def beside(monkeypatch):
    """A function: what is refused of two workers, as both of them say it."""

    def refused(*workers_):
        def sums_of(own, others=None):
            """What a worker sends; received where `others` are given."""
            sent = []

            def exchange(strategy, values):
                sent.append(values)
                if len(sent) > 2:  # Who knew it first is gone.
                    raise tf.errors.InternalError(None, None, "aborted")
                other = 0 if others is None else others[len(sent) - 1]
                return values + other

            monkeypatch.setattr(workers, "_sum", exchange)
            try:
                workers.refuse_differences(TWO, *own)
            except errors.ConfigError as error:
                return sent, str(error)
            return sent, None

        said = []
        for own, other in (workers_, workers_[::-1]):
            sent, _ = sums_of(other)
            differ = np.array([sums_of(own)[0][0] != sent[0]], float)[0]
            said.append(sums_of(own, [sent[0], differ])[1])
        return said

    return refused


def test_workers_that_do_the_same_are_not_refused(beside):
    read = {"the training records": "12ab", "the held-out records": None}
    assert beside((config(), read), (config(), read)) == [None, None]
    # Folders are each worker's own.
    other = config("/mnt/model", data="b")
    assert beside((config(), read), (other, read)) == [None, None]


def test_another_seed_rate_or_data_are_refused(beside):
    ours = config(), {"the training records": "12ab", "the vocabulary": "5"}
    theirs = (
        config(seed=77, learning_rate=3e-3),
        {"the training records": "34cd", "the vocabulary": "5"},
    )
    for line in beside(ours, theirs):
        assert "in: the settings, by flags or gin files, the training" in line
        assert "the vocabulary" not in line


def test_one_process_has_nobody_to_ask():
    workers.refuse_differences(ONE, config(), {})


def test_a_lost_worker_is_said_in_one_line():
    with (
        pytest.raises(
            errors.TrainingError,
            match=r"^Another worker .* in model .TensorFlow: /job:w has gone.$",
        ),
        workers.lost("model"),
    ):
        raise tf.errors.UnavailableError(
            None,
            None,
            "Collective ops is aborted by: /job:w has gone. a\n",
        )


def test_other_code_is_refused(beside, monkeypatch):
    digests = itertools.cycle("ab")
    monkeypatch.setattr(workers, "_digest_of_code", lambda: next(digests))
    line, _ = beside((config(), {}), (config(), {}))
    assert "they differ in: the code of electra_tf. Start all" in line


def test_other_checkpoints_are_refused(beside, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.ckpt-3.index").write_text("weights")
    ours, theirs = (config(tmp_path / name) for name in ("a", "b"))
    assert beside((ours, {}), (theirs, {})) == [None, None]
    (tmp_path / "b" / "model.ckpt-3.index").write_text("other weights")
    for line in beside((ours, {}), (theirs, {})):
        assert "in: the checkpoints in RunConfig.model_dir, which all" in line
