"""Tests of finetuning/starting_point.py: whose head a run goes on with."""

import dataclasses
import pathlib
import shutil
import types

import numpy as np
import pytest

from electra_tf import configs, errors
from electra_tf.checkpoints import checkpoint, reading, sizes
from electra_tf.checkpoints.formats import electra_tf_format, original
from electra_tf.finetuning import preparation, starting_point, task_data
from electra_tf.model import heads, task_head
from electra_tf.tasks import tagging, text_tasks
from electra_tf.text import vocabulary
from tests import helpers, notices
from tests.checkpoints import models
from tests.finetuning import runs


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
    config = runs.bare_config(init_checkpoint="old")
    (line,) = notices.of(starting_point.read, config)
    assert line.startswith("old: its head for cola is not used")
    from_scratch = dataclasses.replace(config, from_scratch=True)
    assert not notices.of(starting_point.read, from_scratch)


def test_the_order_of_a_head_without_names():
    task = text_tasks.ClassificationTask("own", [*map(str, range(11))])
    head = task_head.TaskHead("classification", "old", None, 11)
    (note,) = notices.of(starting_point._adopt_labels, task, head, "model")
    assert task.labels == [*map(str, range(11))]
    assert note.startswith("nothing says which labels the head of model has: ")
    task.labels.pop()
    with pytest.raises(errors.ConfigError, match="Expected the 11 labels"):
        starting_point._adopt_labels(task, head, "model")


def started_with_head(pretrained, tmp_path, **head):
    """From a fine-tuned model whose head is changed a little, and kept."""
    whole = models.finetuned(head.pop("kind"), 1)
    changed = dataclasses.replace(whole.head, **head)
    electra_tf_format.write(
        dataclasses.replace(whole, head=changed), str(tmp_path / "model")
    )
    return starting_point.read(
        runs.make_config(
            pretrained,
            tmp_path / "finetuned",
            init_checkpoint=str(tmp_path / "model"),
            keep_head=True,
        )
    )


def test_a_tagger_that_is_kept_has_its_segment(tmp_path, pretrained):
    start = started_with_head(pretrained, tmp_path, kind="tagging", segment=0)
    task = tagging.TaggingTask("t", {}, as_original=False, labels=["label 0"])
    starting_point.with_head(start, task)
    example = tagging.TaggingExample(0, ("wa",), ("label 0",))
    features = task.features([example], start.tokenizer, 4)
    assert not features["segment_ids"].any()
    assert task.description()["segment"] == 0


def test_a_regression_that_is_kept_has_its_unit(tmp_path, pretrained):
    unit = {"min_value": 1.0, "max_value": 5.0, "scale": 4.0}
    start = started_with_head(
        pretrained,
        tmp_path,
        kind="regression",
        options=models.finetuned("regression", 1).head.options | unit,
    )
    task = text_tasks.RegressionTask("t", 4.0, 4.5, scale=0.5)
    starting_point.with_head(start, task)
    example = text_tasks.TextExample(0, "wa", None, "4.5", ("a.tsv", 1))
    (targets,) = task.label_features([example]).values()
    assert targets == pytest.approx([(4.5 - 1) / 4])
    assert task.in_units_of_labels([0.0, 1.0]) == pytest.approx([1, 5])


def test_what_is_only_assumed_of_the_encoder_must_be_said(tmp_path, pretrained):
    folder = tmp_path / "model"
    encoder = helpers.encoder_config(hidden_size=64)
    tensors = models.random_tensors(sizes.encoder_shapes(encoder, "electra"))
    whole = models.pretrained(
        tensors=tensors, discriminator=encoder, generator=None
    )
    original.write(whole, str(folder))
    (folder / original.HPARAMS_FILE).unlink()
    config = runs.make_config(
        pretrained,
        tmp_path / "finetuned",
        init_checkpoint=str(folder),
        expected_encoder={"num_attention_heads": 2},
    )
    with pytest.raises(ValueError, match="num_attention_heads=2 .was 1"):
        starting_point.read(config)
    config = dataclasses.replace(config, expected_encoder={})
    (note,) = notices.of(starting_point.read, config)
    assert "so assumed: num_attention_heads=1, hidden_act=gelu" in note


# --- The vocabulary ----------------------------------------------------------


def test_text_settings_come_with_the_vocabulary(pretrained, tmp_path):
    path = helpers.write_vocab(tmp_path)

    def settings(**data):
        config = runs.make_config(
            pretrained, tmp_path / "model", data={"vocab_file": path} | data
        )
        tokenizer = starting_point.read(config).tokenizer
        return tokenizer.do_lower_case, tokenizer.strip_accents

    assert settings() == (True, True)
    assert settings(do_lower_case=False) == (False, False)
    pathlib.Path(f"{path}.json").write_text(
        '{"do_lower_case": false, "strip_accents": false}'
    )
    assert settings() == (False, False)
    # Accents are kept without lower-casing, whatever is said of them.
    assert settings(strip_accents=True) == (False, False)
    assert settings(do_lower_case=True) == (True, True)
    # What is asked for counts, with a word on what was said before.
    pathlib.Path(f"{path}.json").write_text(
        '{"do_lower_case": true, "strip_accents": true,'
        ' "text_cleaning": "kcelectra"}'
    )
    with notices.heard() as said:
        assert settings(strip_accents=False, text_cleaning="none") == (
            True,
            False,
        )
    lines = " ".join(said)
    assert "says strip_accents=True: False counts" in lines
    assert "says text_cleaning='kcelectra': 'none' counts" in lines


def test_a_vocabulary_of_another_model_is_said_or_refused(pretrained, tmp_path):
    path = tmp_path / "vocab.txt"
    config = runs.make_config(
        pretrained, tmp_path / "run", {"vocab_file": str(path)}
    )
    shutil.copy(pretrained / "vocab.txt", pretrained / "pretrained")
    path.write_text("\n".join([*helpers.VOCAB[:5], *helpers.VOCAB[:4:-1]]))
    said = "".join(notices.of(starting_point.read, config))
    assert "others there, such as 'wo' for 'wa'" in said
    path.write_text("\n".join(helpers.VOCAB[:-1]))
    with pytest.raises(errors.CheckpointError, match="20 entries.* 19"):
        starting_point.read(config)
    (pretrained / "pretrained" / "vocab.txt").unlink()
