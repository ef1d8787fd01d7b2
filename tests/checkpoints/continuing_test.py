"""Tests of runs that start from a checkpoint of another format."""

import dataclasses
import json
import re
import types
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf import (
    configs,
    errors,
    model_directory,
    pretraining,
    run_pretraining,
)
from electra_tf.checkpoints import continuing, reading
from electra_tf.checkpoints import sizes as sizes_lib
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.checkpoints.formats import (
    electra_tf_format,
    huggingface,
    original,
)
from electra_tf.command_line import gin_files
from electra_tf.finetuning import finetune, starting_point
from electra_tf.model import ablations, masking
from electra_tf.serving import saved_model
from electra_tf.text.vocabulary import load_of_size
from electra_tf.training import optimization
from tests import helpers, notices
from tests.checkpoints import models
from tests.finetuning import runs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Data, a vocabulary, and one checkpoint in three formats."""
    folder = tmp_path_factory.mktemp("continuing")
    helpers.write_tfrecords(
        folder / "train.tfrecord", [helpers.row(n) for n in range(30)]
    )
    helpers.write_vocab(folder)
    checkpoint = models.pretrained(slots=True)
    original.write(checkpoint, str(folder / "original"))
    electra_tf_format.write(checkpoint, str(folder / "electra_tf"))
    huggingface.write(checkpoint, str(folder / "huggingface"))
    return folder


def make_config(folder, model_dir, init="original", run=None, **changes):
    config = configs.PretrainingConfig(
        model=helpers.electra_config(),
        data=configs.PretrainingDataConfig(
            str(folder / "*.tfrecord"),
            str(folder / "vocab.txt"),
            train_batch_size=4,
        ),
        optimizer=configs.OptimizerConfig(1e-3, num_warmup_steps=4),
        run=helpers.run_config(
            model_dir, **({"num_train_steps": 1} | (run or {}))
        ),
        init_checkpoint=str(folder / init),
    )
    return dataclasses.replace(config, **changes)


def start(config, loss_scale=None):
    """What a run starts with: its model, optimizer and step."""
    keras.utils.set_random_seed(1)
    vocab = load_of_size(
        config.data.vocab_file, config.model.encoder.vocab_size
    )
    model = ablations.make_model(config.model, masking.SpecialIds.of(vocab))
    optimizer = optimization.AdamWeightDecay(
        config.optimizer, config.run.num_train_steps
    )
    optimizer.build(model.trainable_variables)
    step = tf.Variable(0, dtype=tf.int64)
    continuing.start_from_init_checkpoint(
        config, vocab, model, optimizer, step, loss_scale
    )
    return model, optimizer, step


def train(config):
    pretraining.pretrain(config, lambda: model_directory.write(config, "", []))


@pytest.mark.parametrize("init", ["original", "electra_tf", "huggingface"])
def test_every_format_is_taken(folder, tmp_path, init, capsys):
    model, optimizer, step = start(make_config(folder, tmp_path, init))
    tensors = models.pretrained().tensors
    for variable in model.variables:
        np.testing.assert_array_equal(variable.numpy(), tensors[variable.path])
    assert (int(step), int(optimizer.iterations)) == (0, 0)
    assert not any(np.any(slot) for slot in optimizer.slots().values())
    out = capsys.readouterr().out
    assert f"started from {folder / init}: " in out
    assert "used     82: discriminator_predictions (4), electra (39), " in out
    assert "missing  0" in out
    trained = "" if init == "huggingface" else " (the checkpoint's: 7)"
    assert f"step     0{trained}, the learning rate warms up again" in out


@pytest.mark.parametrize("init", ["original", "electra_tf"])
def test_the_step_is_kept_with_the_slots(folder, tmp_path, init, capsys):
    config = make_config(
        folder,
        tmp_path,
        init,
        keep_global_step=True,
        run={"num_train_steps": 8},
    )
    _, optimizer, step = start(config)
    assert (int(step), int(optimizer.iterations)) == (7, 7)
    assert float(optimizer.learning_rate) == pytest.approx(1e-3 / 8)
    expected = models.pretrained(slots=True).optimizer
    for name, slot in optimizer.slots().items():
        np.testing.assert_array_equal(slot.numpy(), expected[name])
    assert "step     7, 164 of 164 optimizer slots" in capsys.readouterr().out


@pytest.mark.dear
def test_a_run_goes_on_in_another_folder_as_in_its_own(folder, tmp_path):
    """In float16, whose first steps are not taken: the scaled loss is infinite.

    The first run is longer, but its rate does not fall before step 3.
    """

    def run(name, length, first="", **changes):
        config = make_config(
            folder,
            tmp_path / name,
            run={"num_train_steps": length, "dtype_policy": "mixed_float16"}
            | changes,
            model=helpers.electra_config(disc_weight=3000.0),
            optimizer=configs.OptimizerConfig(
                1e-3,
                num_warmup_steps=2,
                schedule=configs.WARMUP_STABLE_DECAY,
                num_decay_steps=3,
            ),
            init_checkpoint=first,
            keep_global_step=bool(first),
        )
        train(config)

    try:
        run("first", 9, stop_at_step=3)
        run("second", 6, str(tmp_path / "first"))
        run("straight", 6)
    finally:
        keras.config.set_dtype_policy("float32")
    helpers.assert_same_checkpoint(tmp_path / "second", tmp_path / "straight")
    read = reading.read_checkpoint(tmp_path / "first")
    skipped = read.loss_scale["skipped"]
    assert skipped > 0
    assert (read.global_step, read.iterations) == (3, 3 - skipped)


def test_other_networks_keep_their_weights(folder, tmp_path, capsys):
    path = "huggingface/discriminator"
    model, *_ = start(make_config(folder, tmp_path, path))
    before, *_ = start(make_config(folder, tmp_path, init_checkpoint=""))
    tensors = models.pretrained().tensors
    for ours, random in zip(model.variables, before.variables, strict=True):
        expected = random.numpy()
        if ours.path.startswith(("electra/", "discriminator_")):
            expected = tensors[ours.path]
        np.testing.assert_array_equal(ours.numpy(), expected)
    out = capsys.readouterr().out
    assert "used     43: discriminator_predictions (4), electra (39)" in out
    assert "missing  39: generator (34), generator_predictions (5)" in out


@pytest.mark.parametrize("is_theirs", [True, False])
def test_disentangled_embeddings_start_from_both_kinds(
    folder, tmp_path, is_theirs
):
    """From a run with such embeddings, and from one table for both networks."""
    first = tmp_path / "theirs"
    theirs = helpers.write_pretrained(
        first, helpers.encoder_config(), disentangled_embeddings=is_theirs
    )
    ours = helpers.electra_config(disentangled_embeddings=True)
    model, *_ = start(make_config(folder, tmp_path / "m", first, model=ours))
    expected = {v.path: v.numpy() for v in theirs.variables}
    for variable in model.variables:
        np.testing.assert_allclose(
            variable.numpy(), expected.get(variable.path, 0.0), atol=1e-6
        )
    assert is_theirs == (len(expected) == len(model.variables))


@pytest.mark.dear
def test_two_lengths_in_one_schedule(folder, tmp_path, capsys):
    """Short sequences first; the rest of the schedule with longer ones."""
    short = helpers.LENGTH - 4
    (tmp_path / "short").mkdir()
    helpers.write_tfrecords(
        tmp_path / "short" / "train.tfrecord",
        [helpers.row(n, short) for n in range(30)],
    )
    both = {"num_train_steps": 4}
    first = make_config(
        folder,
        tmp_path / "first",
        run=both | {"stop_at_step": 3},
        model=helpers.electra_config(max_seq_length=short),
        init_checkpoint="",
    )
    first = dataclasses.replace(
        first,
        data=dataclasses.replace(
            first.data, train_files=str(tmp_path / "short" / "*")
        ),
    )
    second = make_config(
        folder,
        tmp_path / "second",
        tmp_path / "first",
        run=both,
        keep_global_step=True,
    )
    train(first)
    train(second)
    assert "step     3, 164 of 164 optimizer slots" in capsys.readouterr().out
    log = [
        json.loads(line)
        for line in (tmp_path / "second" / "metrics.jsonl").open()
    ]
    assert [entry["step"] for entry in log] == [4]
    # The rate of the fourth of four steps, of which four warm up.
    assert log[0]["learning_rate"] == pytest.approx(1e-3 / 4 * 3 / 4)


# As the generator is that is as large, see ElectraConfig.generator.
EQUALLY_WIDE = helpers.encoder_config(
    embedding_size=8, intermediate_size=32, num_attention_heads=1
)
TWO_STAGE = helpers.electra_config(
    EQUALLY_WIDE,
    generator_hidden_size=1.0,
    generator_training="frozen",
    untied_generator_embeddings=True,
)


def from_generator(folder, tmp_path, path, model=TWO_STAGE):
    """The configuration of a run whose generator alone is trained before."""
    return make_config(
        folder,
        tmp_path,
        model=model,
        init_checkpoint="",
        init_generator_checkpoint=str(path),
    )


def assert_generator_is_that_of(model, trained, scope):
    """`scope` is its encoder's; of tables that it shares, "electra"."""
    theirs = {v.path: v.numpy() for v in trained.variables}
    ours = [v for v in model.variables if v.path.startswith("generator")]
    assert len(ours) == 37 + 5
    for variable in ours:
        path = variable.path.replace("generator/", f"{scope}/")
        if path not in theirs:
            path = path.replace("generator/", "electra/")
            assert "/embeddings/" in path
        np.testing.assert_array_equal(variable.numpy(), theirs[path])


def test_two_stages(folder, tmp_path):
    model_dir = folder / "stage_1"
    trained = helpers.write_pretrained(
        model_dir, EQUALLY_WIDE, electra_objective=False
    )
    config = from_generator(folder, tmp_path, model_dir)
    config = dataclasses.replace(config, init_checkpoint=str(model_dir))
    model, *_ = start(config)
    assert_generator_is_that_of(model, trained, "electra")
    theirs = {v.path: v.numpy() for v in trained.variables}
    for variable in model.variables:
        if variable.path.startswith("electra/"):
            np.testing.assert_array_equal(
                variable.numpy(), theirs[variable.path]
            )


def test_what_is_scored_has_its_own_generator(folder, tmp_path, monkeypatch):
    scored = []
    monkeypatch.setattr(pretraining, "evaluate", scored.append)
    for name, field in (
        ("original", "init_checkpoint"),
        ("huggingface/discriminator", "init_checkpoint"),
        ("original", "init_generator_checkpoint"),
    ):
        config = make_config(
            folder, tmp_path, name, init_generator_checkpoint="other"
        )
        params = [f"PretrainingConfig.{field}='{folder / name}'"]
        args = types.SimpleNamespace(eval_only=True, gin_param=params)
        run_pretraining._run(config, None, args)
    generators = [config.init_generator_checkpoint for config in scored]
    assert generators == ["", "other", "other"]


@pytest.mark.parametrize(
    ("untied", "name"), [(False, "init"), (True, "init_generator")]
)
def test_the_generator_of_a_joint_run_is_its_generator(
    folder, tmp_path, untied, name
):
    """Not the discriminator, though that is as large."""
    model_dir = folder / f"joint_{untied}_{name}"
    trained = helpers.write_pretrained(
        model_dir,
        EQUALLY_WIDE,
        generator_hidden_size=1.0,
        untied_generator_embeddings=untied,
    )
    inits = {"init_checkpoint": "", f"{name}_checkpoint": str(model_dir)}
    config = make_config(folder, tmp_path, model=TWO_STAGE, **inits)
    with warnings.catch_warnings(action="error"):
        model, *_ = start(config)
    assert_generator_is_that_of(model, trained, "generator")


def test_what_a_run_should_know_is_told(folder, tmp_path):
    path = "huggingface/discriminator"
    frozen = helpers.electra_config(
        generator_training="frozen", untied_generator_embeddings=True
    )
    said = notices.of(start, make_config(folder, tmp_path, path, model=frozen))
    assert (
        f"keeps random weights, as init_checkpoint {folder / path} lacks "
        "generator (37), generator_predictions (5): init_generator_checkpoint "
    ) in said[-1]
    other = dataclasses.replace(EQUALLY_WIDE, hidden_act="relu")
    helpers.write_pretrained(folder / "relu", other, electra_objective=False)
    said = notices.of(start, from_generator(folder, tmp_path, folder / "relu"))
    assert said == ["EncoderConfig.hidden_act=gelu (there relu)"]
    tokens = [*helpers.VOCAB[:-1], "other"]
    (tmp_path / "vocab.txt").write_text("\n".join(tokens))
    config = make_config(folder, tmp_path / "model")
    data = dataclasses.replace(
        config.data, vocab_file=str(tmp_path / "vocab.txt")
    )
    (line,) = notices.of(start, dataclasses.replace(config, data=data))
    assert "are others there, such as 'other' for 'wo' with the id 19" in line


@pytest.mark.parametrize(
    ("first", "changes", "messages"),
    [
        (
            # Every size that differs is named.
            "original",
            {
                "model": helpers.electra_config(
                    helpers.encoder_config(
                        num_hidden_layers=3, intermediate_size=32
                    ),
                    generator_hidden_size=1.0,
                    generator_layers=2 / 3,
                )
            },
            (
                "EncoderConfig.intermediate_size=32 (was 16), "
                "EncoderConfig.num_hidden_layers=3 (was 2), ",
                "generator.hidden_size=8 (was 4), generator.intermediate_size=",
                "ElectraConfig.generator_hidden_size=0.5",
            ),
        ),
        (
            "huggingface",
            {"keep_global_step": True},
            ("keep_global_step needs a checkpoint that says its step.",),
        ),
        (
            "original",
            {"keep_global_step": True},
            (", 7, with keep_global_step. Received: num_train_steps=1",),
        ),
    ],
    ids=["sizes", "no_step", "step"],
)
def test_refuses_what_does_not_fit(folder, tmp_path, first, changes, messages):
    config = make_config(folder, tmp_path / "model", first, **changes)
    with pytest.raises(errors.ConfigError) as caught:
        start(config)
    assert all(message in str(caught.value) for message in messages)


@pytest.mark.parametrize(
    ("first", "model", "message"),
    [
        (
            lambda path: helpers.write_pretrained(
                path, electra_objective=False
            ),
            TWO_STAGE,
            "embedding_size=8 (was 6), intermediate_size=32 (was 16), "
            "num_attention_heads=1 (was 2)",
        ),
        (
            lambda path: helpers.write_pretrained(
                path, EQUALLY_WIDE, electra_objective=False
            ),
            helpers.electra_config(EQUALLY_WIDE, generator_hidden_size=1.0),
            "of which nothing would take generator (5)",
        ),
        (
            lambda path: huggingface.write(
                models.pretrained().encoder_only(), str(path)
            ),
            TWO_STAGE,
            "init_generator_checkpoint must be a masked language model",
        ),
    ],
)
def test_refuses_what_is_no_generator_for_the_run(
    folder, tmp_path, first, model, message
):
    first(tmp_path / "first")
    config = from_generator(folder, tmp_path / "model", tmp_path / "first")
    config = dataclasses.replace(config, model=model)
    with pytest.raises(errors.ConfigError, match=re.escape(message)):
        start(config)


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("small", (64, 12, 1, 256)),
        ("base", (256, 12, 4, 1024)),
        ("large", (256, 24, 4, 1024)),
    ],
)
def test_takes_the_generators_of_the_release(name, sizes):
    """Table 6's; the released small model has one as wide as the other."""
    model = gin_files.load(
        configs.PretrainingConfig, [str(helpers.ROOT / "gin" / f"{name}.gin")]
    ).model
    fields = ("hidden_size", "num_hidden_layers", "num_attention_heads")
    released = zip((*fields, "intermediate_size"), sizes, strict=True)
    generator = dataclasses.replace(model.encoder, **dict(released))
    checkpoint = Checkpoint({}, model.encoder, generator)
    sizes_lib.require_same(model, checkpoint, "the release")
    assert sizes_lib.as_dict(model.generator) == sizes_lib.as_dict(generator)


@pytest.mark.dear
@pytest.mark.parametrize("init", ["original", "electra_tf", "huggingface"])
def test_finetuning_and_export_take_every_format(folder, tmp_path, init):
    rows = [("wa wb", "yes"), ("wc wd we", "no")] * 2
    for split in ("train", "dev"):
        helpers.write_tsv(tmp_path / f"{split}.tsv", rows)
    files = {f"{s}_file": str(tmp_path / f"{s}.tsv") for s in ("train", "dev")}
    sizes = {"max_seq_length": 8, "train_batch_size": 4}
    config = runs.bare_config(
        files | sizes | {"task_name": "letters", "num_train_epochs": 1.0},
        init_checkpoint=str(folder / init),
        optimizer=configs.OptimizerConfig(1e-2, num_warmup_steps=9),
        run=helpers.finetuning_run_config(tmp_path / "model"),
    )
    finetune.finetune(config, lambda: model_directory.write(config, "", []))
    read = reading.read_checkpoint(tmp_path / "model")
    name = "electra/embeddings/word_embeddings"
    np.testing.assert_array_equal(
        read.tensors[name], models.pretrained().tensors[name]
    )
    assert read.vocabulary.tokens == tuple(helpers.VOCAB)
    # What was fine-tuned here travels, and is exported from there too.
    huggingface.write(read, str(tmp_path / "hf"))
    path = saved_model.export(str(tmp_path / "hf"), str(tmp_path / "served"))
    metadata = helpers.read_json(f"{path}/assets.extra/metadata.json")
    assert metadata["labels"] == ["no", "yes"]
    assert metadata["max_seq_length"] == config.data.max_seq_length


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_vocabulary", "vocab_file must be given|name it with --vocab"),
        ("huggingface/generator", "a generator only"),
    ],
)
def test_finetuning_and_export_ask_for_what_they_lack(
    folder, tmp_path, path, message
):
    helpers.write_tsv(tmp_path / "train.tsv", [("wa", "yes"), ("wb", "no")])
    original.write(
        models.finetuned(vocabulary=None), str(folder / "no_vocabulary")
    )
    files = dict.fromkeys(
        ("train_file", "dev_file"), str(tmp_path / "train.tsv")
    )
    config = runs.bare_config(files, init_checkpoint=str(folder / path))
    with pytest.raises(errors.ConfigError, match=message):
        starting_point.read(config)
    with pytest.raises(ValueError, match=message):
        saved_model.export(config.init_checkpoint, str(tmp_path / "out"))
