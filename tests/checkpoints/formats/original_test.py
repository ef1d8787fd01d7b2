"""Tests of electra_tf/checkpoints/formats/original.py."""

import dataclasses
import json
import re

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import configs
from electra_tf.checkpoints import reading, sizes
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.checkpoints.formats import (
    original,
)
from electra_tf.errors import CheckpointError
from tests import helpers, notices, original_configs
from tests.checkpoints import models

KERNEL = np.arange(6, dtype=np.float32).reshape(2, 3)


def kernel_at(path):
    return original.open_by_name(str(path))["electra/kernel"]


def test_reads_what_tensorflow_1_wrote(tmp_path):
    prefix = models.write_tf1(
        tmp_path / "model.ckpt-7",
        {"electra/kernel": KERNEL, "global_step": np.int64(7)},
    )
    for path in (prefix, prefix + ".index", tmp_path):
        np.testing.assert_array_equal(kernel_at(path), KERNEL)
    tensors = original.open_by_name(prefix)
    assert sorted(tensors) == ["electra/kernel", "global_step"]


def test_the_checkpoint_that_a_folder_names(tmp_path):
    folder, other = tmp_path / "there", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    models.write_tf1(folder / "model.ckpt-7", {"electra/kernel": KERNEL})
    models.write_tf1(other / "model.ckpt-7", {"electra/kernel": KERNEL + 1.0})
    state = folder / "checkpoint"
    # Moved, or a copy of one that has learned on: whole paths of elsewhere.
    for named in ("/gone/model.ckpt-7", f"{other}/model.ckpt-7"):
        state.write_text(f'model_checkpoint_path: "{named}"\n')
        np.testing.assert_array_equal(kernel_at(folder), KERNEL)
    for text, message in (
        ('model_checkpoint_path: "model.ckpt-9"\n', "Received: model.ckpt-9$"),
        ("damaged", "^Cannot read .*there/checkpoint, wh"),
    ):
        state.write_text(text)
        with pytest.raises(CheckpointError, match=message):
            kernel_at(folder)


@pytest.mark.parametrize(
    ("suffix", "size"),
    [(".index", 0), (".index", 10), (".data-00000-of-00001", 10)],
)
def test_what_cannot_be_read_is_named(tmp_path, suffix, size):
    (tmp_path / "empty").mkdir()
    tf.train.Checkpoint(x=tf.Variable(KERNEL)).write(str(tmp_path / "object"))
    for path, message in (
        ("nothing", "saved by variable name.*nothing"),
        ("empty", "saved by variable name.*empty"),
        ("object", "saved by variable name.*object"),
    ):
        with pytest.raises(CheckpointError, match=message):
            kernel_at(tmp_path / path)
    prefix = models.write_tf1(
        tmp_path / "model.ckpt-7", {"electra/kernel": KERNEL}
    )
    damaged = tmp_path / f"model.ckpt-7{suffix}"
    damaged.write_bytes(damaged.read_bytes()[:size])
    with pytest.raises(CheckpointError, match="^Cannot read checkpoint"):
        kernel_at(prefix)


def test_tensors_of_others_are_said(tmp_path):
    tensors = models.pretrained().tensors | {"parser/kernel": KERNEL}
    prefix = str(tmp_path / "model.ckpt-7")
    original.write_by_name(prefix, tensors)
    with notices.heard() as lines:
        read = original.read(prefix, models.HPARAMS)
    assert lines == [f"{prefix}: nothing reads parser (1)"]
    assert read.other_head == "parser/kernel"


@pytest.fixture
def written(tmp_path):
    """A folder with a pre-training checkpoint, slots included."""
    checkpoint = models.pretrained(slots=True)
    original.write(checkpoint, str(tmp_path))
    return tmp_path, checkpoint


def test_a_saver_of_tensorflow_1_restores_it(written):
    folder, checkpoint = written
    name = "electra/embeddings/word_embeddings"
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variable = tf.compat.v1.get_variable(
            name, checkpoint.tensors[name].shape, use_resource=False
        )
        step = tf.compat.v1.train.get_or_create_global_step()
        tf.compat.v1.train.Saver([variable, step]).restore(
            session, str(folder / "model.ckpt-7")
        )
        np.testing.assert_array_equal(
            session.run(variable), checkpoint.tensors[name]
        )
        assert session.run(step) == 7


@pytest.mark.parametrize(
    "checkpoint",
    [
        models.pretrained(),
        models.pretrained(untied=True),
        models.electric(),
        models.electric(untied=True),
        dataclasses.replace(models.electric(untied=True), is_electric=False),
    ],
    ids=["pair", "untied", "electric", "untied_electric", "two_towers"],
)
def test_hparams_build_the_same_model(tmp_path, checkpoint):
    original.write(checkpoint, str(tmp_path))
    read = original.read(str(tmp_path))
    models.assert_same_tensors(checkpoint, read)
    config = original_configs.electra_config(
        helpers.read_json(tmp_path / "hparams.json")
        | {"max_seq_length": helpers.LENGTH}
    )
    towers = sizes.tower_config(checkpoint.tensors, "it")
    assert config.encoder == checkpoint.discriminator
    assert config.generator == (towers or checkpoint.generator)
    assert config.two_tower_generator == (towers is not None)
    is_electric = towers is not None and checkpoint.is_electric is not False
    assert config.electric_objective == bool(read.is_electric) == is_electric
    assert config.untied_generator_embeddings == any(
        re.match("generator[^/]*/embeddings/", name)
        for name in checkpoint.tensors
    )


def test_hparams_name_the_generator_without_a_network(tmp_path):
    helpers.write_pretrained(tmp_path / "run", uniform_generator=True)
    discriminator = reading.read_checkpoint(tmp_path / "run")
    for name, checkpoint, expected in (
        ("run_7", dataclasses.replace(discriminator, global_step=7), True),
        ("alone", discriminator, None),
        ("pair", models.pretrained(slots=True), None),
    ):
        original.write(checkpoint, str(tmp_path / name))
        hparams = helpers.read_json(tmp_path / name / "hparams.json")
        assert hparams.get("uniform_generator") == expected


def test_hparams_have_the_options_of_question_answering(tmp_path):
    checkpoint = models.finetuned("question_answering")
    original.write(checkpoint, str(tmp_path))
    path = tmp_path / "hparams.json"
    hparams = helpers.read_json(path)
    assert hparams["joint_prediction"] is False
    assert hparams["answerable_classifier"] is False
    # As a run of the original leaves it, which knows no file of heads.
    (tmp_path / "head.json").unlink()
    theirs = {"qa_na_threshold": 0.5, "doc_stride": 64, "max_answer_length": 7}
    hparams["answerable_uses_start_logits"] = True  # Of no classifier.
    path.write_text(json.dumps(hparams | theirs))
    options = original.read(str(tmp_path)).head.question_answering
    assert theirs.items() <= dataclasses.asdict(options).items()
    assert not options.joint_prediction
    for wrong, message in (
        ({"joint_prediction": True}, "head has joint_prediction=False"),
        ({"doc_stride": "long"}, "^Cannot read the settings of .*doc_stride"),
    ):
        path.write_text(json.dumps(hparams | wrong))
        with pytest.raises(CheckpointError, match=message):
            original.read(str(tmp_path))


@pytest.mark.parametrize(
    ("checkpoint", "name", "expected"),
    [
        (models.electric(intermediate_size=8), "intermediate_size", 16),
        (models.electric(True, embedding_size=6), "embedding_size", 4),
        (models.electric(True, type_vocab_size=3), "type_vocab_size", 2),
        *(
            (
                dataclasses.replace(
                    models.pretrained(),
                    generator=dataclasses.replace(
                        models.GENERATOR, **{name: value}
                    ),
                ),
                name,
                expected,
            )
            for name, value, expected in (
                ("num_attention_heads", 2, 1),
                ("hidden_act", "relu", "gelu"),
            )
        ),
    ],
)
def test_refuses_generators_that_the_original_has_not(
    tmp_path, checkpoint, name, expected
):
    with pytest.raises(
        CheckpointError, match=f"with another {name} than {expected}. .*; leave"
    ):
        original.write(checkpoint, str(tmp_path))


def test_a_share_gives_every_part_back():
    for whole in (*range(1, 257), 384, 512, 768, 1024):
        for part in range(1, whole + 1):
            share = sizes.share(part, whole)
            assert configs.share_of(whole, share) == part, (part, whole)
            assert len(str(share)) <= len("0.3333")
    assert sizes.share(256, 768) == 0.3333
    assert sizes.share(1, 4) == 0.25
    assert sizes.share(36, 24) == 1.5
    assert configs.share_of(10**6, sizes.share(333_333, 10**6)) == 333_333


def test_without_settings_heads_are_64_wide(tmp_path):
    config = helpers.encoder_config(hidden_size=128)
    tensors = models.random_tensors(sizes.encoder_shapes(config, "electra"))
    original.write_by_name(str(tmp_path / "model.ckpt-0"), tensors)
    with notices.heard() as lines:
        read = reading.read_checkpoint(tmp_path)  # No file names the latest.
    assert read.discriminator == config
    assert config.num_attention_heads == 2
    assert (read.global_step, read.vocabulary) == (None, None)
    assert "num_attention_heads" in read.assumed
    (line,) = lines
    assert "so assumed: num_attention_heads=2, hidden_act=gelu (a" in line
    said = {"hidden_size": 128, "num_attention_heads": 4}
    said = models.HPARAMS["model_hparam_overrides"] | said
    hparams = models.HPARAMS | {"model_hparam_overrides": said}
    read = original.read(str(tmp_path / "model.ckpt-0"), hparams)
    assert read.discriminator.num_attention_heads == 4
    assert read.assumed == ()


def test_a_width_that_usual_heads_do_not_divide_takes_settings(tmp_path):
    original.write(models.pretrained(), str(tmp_path))
    (tmp_path / "hparams.json").unlink()
    with pytest.raises(
        CheckpointError,
        match="nothing says the num_attention_heads of the scope 'electra', "
        "and ELECTRA's, 64 wide, do not divide .* Received: hidden_size=8; "
        'write {"num_attention_heads": ...} to hparams.json',
    ):
        original.read(str(tmp_path))
    # Of generators the original decides it.
    for hparams in (models.HPARAMS, {"num_attention_heads": 2}):
        read = original.read(str(tmp_path), hparams)
        assert read.generator.num_attention_heads == 1
        assert read.discriminator.num_attention_heads == 2


def test_refuses_settings_of_another_model(written):
    folder, _ = written
    hparams = helpers.read_json(folder / "hparams.json")
    overrides = hparams.pop("model_hparam_overrides")
    for wrong, message in (
        (
            {"model_hparam_overrides": overrides | {"num_hidden_layers": 3}},
            "=3, but its",
        ),
        ({"model_hparam_override": overrides}, "unknown hparam .*Did you mean"),
    ):
        with pytest.raises(CheckpointError, match=message):
            original.read(str(folder), hparams | wrong)
    with pytest.raises(CheckpointError, match="num_hidden_layers=9, but its"):
        original.read(str(folder), overrides | {"num_hidden_layers": 9})


@pytest.mark.parametrize(
    ("kind", "num_outputs"),
    [("classification", 3), ("regression", 1), ("tagging", 5)],
)
def test_without_its_file_a_head_is_told_by_its_tensors(
    tmp_path, kind, num_outputs
):
    checkpoint = models.finetuned(kind, num_outputs)
    original.write(checkpoint, str(tmp_path))
    (tmp_path / "head.json").write_text("{}")
    with pytest.raises(CheckpointError, match="Cannot read .*head.json: .*kin"):
        original.read(str(tmp_path))
    (tmp_path / "head.json").unlink()
    found = original.read(str(tmp_path)).head
    # Nothing in the original tells tagging from classification.
    expected = "classification" if kind == "tagging" else kind
    assert (found.kind, found.num_outputs) == (expected, num_outputs)


def test_the_original_has_the_error_function_only(tmp_path):
    written = models.with_hidden_act(models.finetuned(), "gelu_new")
    (line,) = notices.of(original.write, written, str(tmp_path))
    assert "tanh approximation" in line
    read = original.read(str(tmp_path))
    assert read.discriminator == models.ENCODER
    models.assert_same_tensors(written, read)


def zeros(*shape):
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize(
    ("checkpoint", "changes", "message"),
    [
        (
            models.electric(untied=True),
            {"generator_rtl/embeddings/LayerNorm/beta": None},
            r"lacks 1 tensor\(s\), such as generator_rtl/embeddings/LayerN",
        ),
        (
            models.electric(),
            {
                name: tensor
                for name, tensor in models.electric(untied=True).tensors.items()
                if name.startswith("generator_rtl/")
            },
            "generator_ltr and generator_rtl must be of one size.* differ",
        ),
        (
            Checkpoint({}),
            {"roberta/embeddings/word_embeddings": zeros(2, 2)},
            "Expected an ELECTRA in .* Received: .*scopes roberta",
        ),
    ],
)
def test_refuses_tensors_of_no_whole_electra(
    tmp_path, checkpoint, changes, message
):
    tensors = checkpoint.tensors | changes
    tensors = {name: t for name, t in tensors.items() if t is not None}
    original.write_by_name(str(tmp_path / "model.ckpt-0"), tensors)
    with pytest.raises(CheckpointError, match=message):
        original.read(str(tmp_path), models.HPARAMS)
