"""Tests of finetuning/starting_point.py: whose head a run goes on with."""

import dataclasses
import types

import numpy as np
import pytest

from electra_tf import configs, errors
from electra_tf.checkpoints import checkpoint, reading
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.finetuning import preparation, starting_point, task_data
from electra_tf.model import heads, task_head
from electra_tf.tasks import text_tasks
from electra_tf.text import vocabulary
from tests import helpers, notices


def start_with_heads(hidden_activation, *names):
    """A checkpoint with heads for those names, the first of them described."""
    head = task_head.TaskHead(
        "classification", names[0], ("no", "yes"), 2, hidden_activation
    )
    tensors = {}
    for number, name in enumerate(names):
        tensors[f"task_specific/{name}/dense/kernel"] = np.full((8, 2), number)
        if hidden_activation:
            tensors[f"task_specific/{name}/hidden/kernel"] = np.ones((8, 8))
    found = checkpoint.Checkpoint(tensors, head=head)
    return starting_point.StartingPoint(
        configs.EncoderConfig(24, 8, 1, 1, 8), None, found, "old", True, None
    )


def test_a_kept_head_keeps_the_layer_in_front_of_its_last_one():
    start = start_with_heads("gelu", "theirs")
    task = text_tasks.ClassificationTask("own", ["no", "yes"])
    found = starting_point.with_head(start, task).checkpoint.tensors
    data = task_data.TaskData(task, {}, {}, frozenset())
    head = data.make_head(start.encoder_config)
    head.build()
    assert {v.path for v in head.variables} == {
        f"own/{layer}/{name}"
        for layer in ("hidden", "dense")
        for name in ("kernel", "bias")
    }
    assert "task_specific/own/hidden/kernel" in found
    assert data.about()["hidden_activation"] == "gelu"


class OwnHead(text_tasks.ClassificationTask):
    """Makes its head by itself, and says nothing of what it reads."""

    pooling_of_head = {}

    def make_head(self, config):
        return heads.ClassificationHead(
            self.name, config.hidden_size, 2, **self.pooling_of_head
        )


def test_a_head_of_ones_own_reads_what_model_json_says():
    task, encoder = (
        OwnHead("own", ["no", "yes"]),
        configs.EncoderConfig(24, 8, 1, 1, 8),
    )
    config = types.SimpleNamespace(pooling="mean", head_dropout=None)
    preparation.settle_heads(config, [task], encoder)
    data = task_data.TaskData(task, {}, {}, frozenset())
    assert data.make_head(encoder).pooling == data.about()["pooling"] == "mean"
    # It does not drop the layer of a head that it goes on with.
    start = start_with_heads("gelu", "theirs")
    task.pooling = "cls"
    starting_point.with_head(start, task)
    with pytest.raises(errors.ConfigError, match="whose head has none"):
        data.make_head(start.encoder_config)
    task.pooling_of_head = {"pooling": "mean"}
    config.pooling = "cls"
    with pytest.raises(errors.ConfigError, match="pooling='mean', as the head"):
        preparation.settle_heads(config, [task], encoder)


def test_a_head_that_is_not_gone_on_with_is_named(monkeypatch):
    start = start_with_heads(None, "cola", "sst")
    found = dataclasses.replace(
        start.checkpoint,
        discriminator=start.encoder_config,
        vocabulary=vocabulary.Vocabulary((*helpers.VOCAB, *"1234"), True),
    )
    monkeypatch.setattr(reading, "read_checkpoint", lambda *args: found)
    config = finetuning_configs.FinetuningConfig(
        "old",
        finetuning_configs.FinetuningDataConfig(
            task_names=("rte",), data_dir="data"
        ),
        configs.OptimizerConfig(1e-3),
        configs.RunConfig("new"),
    )
    (line,) = notices.of(starting_point.read, config)
    assert line.startswith("old: its head for cola is not used")
    from_scratch = dataclasses.replace(config, from_scratch=True)
    assert not notices.of(starting_point.read, from_scratch)
