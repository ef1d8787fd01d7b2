"""Tests of reading and writing in checkpoints/formats/original.py."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import configs
from electra_tf.checkpoints import reading, sizes, verify
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.checkpoints.formats import (
    electra_tf_format,
    huggingface,
    original,
)
from electra_tf.errors import CheckpointError
from tests import helpers, original_configs
from tests.checkpoints import models

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n"


@pytest.fixture
def written(tmp_path):
    """A folder with a pre-training checkpoint, slots included."""
    checkpoint = models.pretrained(slots=True)
    original.write(checkpoint, str(tmp_path))
    return tmp_path, checkpoint


@pytest.mark.parametrize(
    "checkpoint",
    [
        models.pretrained(slots=True),
        models.finetuned("question_answering"),
        models.with_three_segments(),
    ],
    ids=["slots", "question_answering", "segments"],
)
def test_what_is_written_is_read_bit_by_bit(tmp_path, checkpoint):
    original.write(checkpoint, str(tmp_path))
    (tmp_path / "head.json").unlink(missing_ok=True)
    assert original.recognise(str(tmp_path))
    read = original.read(str(tmp_path))
    models.assert_same_tensors(checkpoint, read)
    for field in dataclasses.fields(checkpoint):
        if field.name not in ("tensors", "optimizer", "max_seq_length"):
            ours = getattr(checkpoint, field.name)
            assert getattr(read, field.name) == ours, field.name


def test_names_and_types_are_those_of_the_original(written):
    folder, checkpoint = written
    reader = tf.train.load_checkpoint(str(folder / "model.ckpt-7"))
    types = reader.get_variable_to_dtype_map()
    assert types.pop("global_step") == tf.int64
    assert set(types) == set(checkpoint.tensors) | set(checkpoint.optimizer)
    assert set(types.values()) == {tf.float32}
    assert tf.train.latest_checkpoint(str(folder)).endswith("model.ckpt-7")


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


@pytest.mark.parametrize("untied", [False, True])
def test_hparams_build_the_same_model(tmp_path, untied):
    checkpoint = models.pretrained(untied)
    original.write(checkpoint, str(tmp_path))
    config = original_configs.electra_config(
        helpers.read_json(tmp_path / "hparams.json")
        | {"max_seq_length": helpers.LENGTH}
    )
    assert config.encoder == checkpoint.discriminator
    assert config.generator == checkpoint.generator
    assert config.untied_generator_embeddings == untied


@pytest.mark.parametrize("untied", [False, True])
def test_towers_travel_with_hparams_that_build_them(tmp_path, untied):
    checkpoint = models.electric(untied)
    original.write(checkpoint, str(tmp_path))
    models.assert_same_tensors(checkpoint, original.read(str(tmp_path)))
    hparams = helpers.read_json(tmp_path / "hparams.json")
    config = original_configs.electra_config(
        hparams | {"max_seq_length": helpers.LENGTH}
    )
    assert config.electric_objective
    assert config.untied_generator_embeddings == untied
    tower = sizes.tower_config(checkpoint.tensors, "it")
    assert config.generator == tower
    assert tower.embedding_size == (4 if untied else 6)


def test_two_towers_without_electric_stay_without_it(tmp_path):
    checkpoint = dataclasses.replace(
        models.electric(untied=True), is_electric=False
    )
    original.write(checkpoint, str(tmp_path))
    assert original.read(str(tmp_path)).is_electric is False
    config = original_configs.electra_config(
        helpers.read_json(tmp_path / "hparams.json")
        | {"max_seq_length": helpers.LENGTH}
    )
    assert config.two_tower_generator and config.electra_objective
    assert not config.electric_objective
    original.write(models.electric(), str(tmp_path / "electric"))
    assert original.read(str(tmp_path / "electric")).is_electric


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
    ("untied", "name", "value", "expected"),
    [
        (False, "intermediate_size", 8, 16),
        (True, "embedding_size", 6, 4),
        (True, "type_vocab_size", 3, 2),
    ],
)
def test_refuses_towers_that_the_original_has_not(
    tmp_path, untied, name, value, expected
):
    with pytest.raises(
        CheckpointError,
        match=f"with another {name} than {expected}. Received: {value}; leave",
    ):
        original.write(models.electric(untied, **{name: value}), str(tmp_path))


def test_a_share_gives_every_part_back():
    for whole in range(1, 1025):
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
    read = original.read(str(tmp_path))  # No file names the latest one.
    assert read.discriminator == helpers.encoder_config(hidden_size=128)
    assert read.discriminator.num_attention_heads == 2
    assert "num_attention_heads" in read.assumed
    assert read.remarks == [
        "nothing beside the weights says it, so assumed: num_attention_heads=2,"
        " hidden_act=gelu (a file hparams.json beside a checkpoint of the "
        "original says it)"
    ]
    for format_, lost in (
        (electra_tf_format, []),
        (huggingface, []),
        (original, ["assumed=['num_attention_heads', 'hidden_act']"]),
    ):
        folder = str(tmp_path / format_.__name__)
        format_.write(read, folder)
        again = format_.read(folder)
        assert verify.lost_settings(read, again) == lost
        assert lost or again.remarks == read.remarks
    assert (read.global_step, read.vocabulary) == (None, None)
    read = original.read(
        str(tmp_path / "model.ckpt-0"),
        {
            "vocab_size": 20,
            "embedding_size": 6,
            "model_hparam_overrides": {
                "hidden_size": 128,
                "num_attention_heads": 4,
                "num_hidden_layers": 2,
                "intermediate_size": 16,
                "max_position_embeddings": 12,
            },
        },
    )
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
    hparams["model_hparam_overrides"]["num_hidden_layers"] = 3
    (folder / "hparams.json").write_text(json.dumps(hparams))
    with pytest.raises(
        CheckpointError, match="say num_hidden_layers=3, but its tensors have "
    ):
        original.read(str(folder))


def test_refuses_settings_that_the_original_does_not_know(written):
    folder, _ = written
    hparams = helpers.read_json(folder / "hparams.json")
    overrides = hparams.pop("model_hparam_overrides")
    unknown = {"model_hparam_override": overrides}
    with pytest.raises(CheckpointError, match="unknown hparam .*Did you mean"):
        original.read(str(folder), hparams | unknown)
    with pytest.raises(CheckpointError, match="num_hidden_layers=9, but its"):
        original.read(str(folder), overrides | {"num_hidden_layers": 9})


@pytest.mark.parametrize(
    ("kind", "num_outputs"),
    [("classification", 3), ("regression", 1), ("tagging", 5)],
)
def test_heads_travel(tmp_path, kind, num_outputs):
    checkpoint = models.finetuned(kind, num_outputs)
    original.write(checkpoint, str(tmp_path))
    read = original.read(str(tmp_path))
    models.assert_same_tensors(checkpoint, read)
    assert read.head == checkpoint.head
    (tmp_path / "head.json").write_text("{}")
    with pytest.raises(CheckpointError, match="Cannot read .*head.json: .*kin"):
        original.read(str(tmp_path))
    (tmp_path / "head.json").unlink()
    found = original.read(str(tmp_path)).head
    # Nothing in the original tells tagging from classification.
    expected = "classification" if kind == "tagging" else kind
    assert (found.kind, found.num_outputs) == (expected, num_outputs)


def test_refuses_a_missing_shard(written):
    folder, _ = written
    data = folder / "model.ckpt-7.data-00000-of-00001"
    shutil.move(data, folder / "model.ckpt-7.data-00000-of-00002")
    with pytest.raises(
        CheckpointError,
        match="Expected 2 data files beside .*model.ckpt-7.index. Received: 1; "
        "its data file .*data-00001-of-00002 is missing",
    ):
        original.read(str(folder))
    (folder / "model.ckpt-7.data-00000-of-00002").unlink()
    with pytest.raises(CheckpointError, match="0-of-00001 is missing"):
        original.read(str(folder))


@pytest.mark.parametrize("suffix", [".index", ".data-00000-of-00001"])
def test_refuses_a_pointer_in_place_of_weights(written, suffix):
    folder, _ = written
    (folder / f"model.ckpt-7{suffix}").write_bytes(POINTER)
    assert original.recognise(str(folder))
    with pytest.raises(CheckpointError, match="a Git LFS pointer; fetch"):
        original.read(str(folder))


def test_slots_that_are_cut_short_are_named_when_they_are_read(written):
    folder, _ = written
    read = original.read(str(folder))
    data = folder / "model.ckpt-7.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:10])
    with pytest.raises(CheckpointError, match="Cannot read checkpoint"):
        dict(original.read(str(folder)).optimizer)
    assert len(read.optimizer) == 2 * len(read.tensors)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("num_attention_heads", 2, 1),
        ("intermediate_size", 8, 16),
        ("type_vocab_size", 3, 2),
        ("hidden_act", "relu", "gelu"),
    ],
)
def test_refuses_a_generator_that_the_original_has_not(
    tmp_path, name, value, expected
):
    checkpoint = models.pretrained()
    generator = dataclasses.replace(checkpoint.generator, **{name: value})
    with pytest.raises(
        CheckpointError,
        match=f"with another {name} than {expected}. Received: {value}; leave",
    ):
        original.write(
            dataclasses.replace(checkpoint, generator=generator), str(tmp_path)
        )


def test_a_generator_alone_has_no_settings(tmp_path):
    both = models.pretrained(untied=True)
    alone = dataclasses.replace(
        both,
        discriminator=None,
        tensors={
            name: tensor
            for name, tensor in both.tensors.items()
            if name.startswith(("generator/", "generator_predictions/"))
        },
    )
    original.write(alone, str(tmp_path / "gelu"))
    assert original.read(str(tmp_path / "gelu")).generator == both.generator
    with pytest.raises(
        CheckpointError,
        match="another hidden_act than gelu and no discriminator. Received: re",
    ):
        original.write(
            models.with_hidden_act(alone, "relu"), str(tmp_path / "relu")
        )


def test_encoder_only():
    kept = models.pretrained(slots=True).encoder_only()
    assert {name.split("/")[0] for name in kept.tensors} == {"electra"}
    assert kept.generator is None
    assert kept.global_step is None
    assert kept.optimizer == {}
    with pytest.raises(CheckpointError, match="Received: a generator only"):
        dataclasses.replace(kept, discriminator=None).encoder_only()


@pytest.mark.parametrize("hidden_act", ["relu", "tanh", "linear"])
def test_other_activations_travel(tmp_path, hidden_act):
    written = models.with_hidden_act(models.pretrained(), hidden_act)
    original.write(written, str(tmp_path))
    hparams = helpers.read_json(tmp_path / "hparams.json")
    assert hparams["model_hparam_overrides"]["hidden_act"] == hidden_act
    read = original.read(str(tmp_path))
    assert (read.discriminator, read.generator) == (
        written.discriminator,
        written.generator,
    )
    assert original.notes(written) == ()
    hparams["model_hparam_overrides"]["hidden_act"] = "swish"
    (tmp_path / "hparams.json").write_text(json.dumps(hparams))
    with pytest.raises(
        CheckpointError,
        match="The settings of .*model.ckpt-0: .*Received: hidden_act='swish'",
    ):
        original.read(str(tmp_path))
    del hparams["model_hparam_overrides"]["hidden_act"]
    read = original.read(str(tmp_path), hparams)
    assert read.discriminator.hidden_act == "gelu"


def test_the_original_has_the_error_function_only(tmp_path):
    exact = models.finetuned()
    written = dataclasses.replace(
        exact,
        discriminator=dataclasses.replace(
            exact.discriminator, hidden_act="gelu_new"
        ),
    )
    original.write(written, str(tmp_path))
    read = original.read(str(tmp_path))
    assert read.discriminator == exact.discriminator
    models.assert_same_tensors(written, read)
    assert original.notes(exact) == ()
    (note,) = original.notes(written)
    assert "tanh approximation" in note


def zeros(*shape):
    return np.zeros(shape, np.float32)


BIAS = "encoder/layer_1/output/dense/bias"


@pytest.mark.parametrize(
    ("checkpoint", "changes", "message"),
    [
        (
            models.electric(untied=True),
            {"generator_rtl/embeddings/LayerNorm/beta": None},
            r"lacks 1 tensor\(s\), such as generator_rtl/embeddings/LayerN",
        ),
        (
            models.electric(untied=True),
            {"generator_ltr/embeddings/word_embeddings": None},
            "lacks the tensor generator_ltr/embeddings/word_embeddings",
        ),
        (
            models.electric(untied=True),
            {f"generator_ltr/{BIAS}": zeros(5)},
            r"must have the shape \[4\]. Received: \[5\]",
        ),
        (
            models.electric(untied=True),
            {"cloze_predictions/dense/kernel": zeros(4, 4)},
            r"must have the shape \[8, 4\]. Received: \[4, 4\]",
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
            models.finetuned(),
            {
                f"electra/{BIAS}": None,
                f"electra/{BIAS.replace('_1/', '_99999999/')}": zeros(8),
            },
            "expected the layers 0 to 2 .* number 99999999",
        ),
        (
            models.finetuned(),
            {"task_specific/letters/lstm/kernel": zeros(1)},
            "Expected a head of the original in task_specific/letters",
        ),
        (
            models.pretrained(),
            {f"generator/{BIAS}": None},
            rf"lacks 1 tensor\(s\), such as generator/{BIAS}",
        ),
        (
            models.pretrained(),
            {f"electra/{BIAS}": zeros(9)},
            r"must have the shape \[8\]. Received: \[9\]",
        ),
        *(
            (
                Checkpoint({}),
                {f"{name}/embeddings/word_embeddings": zeros(2, 2)},
                "Expected an ELECTRA in .* Received: a (BE|RoBE)RTa?",
            )
            for name in ("bert", "roberta")
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
