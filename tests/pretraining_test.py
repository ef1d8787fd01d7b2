"""Tests of the advice of pretraining.py."""

import dataclasses
import json
import os
import signal
import types

import pytest
import tensorflow as tf

from electra_tf import configs, errors, pretraining
from electra_tf.pretraining_data import batches
from electra_tf.text import vocabulary
from electra_tf.training import optimization
from tests import helpers
from tests import notices as heard
from tests.training import engine_test

CONFIG = helpers.pretraining_config("model", run={"num_train_steps": 10_000})


def changed(part, **changes):
    """CONFIG with other fields of a part of it."""
    other = dataclasses.replace(getattr(CONFIG, part), **changes)
    return dataclasses.replace(CONFIG, **{part: other})


HEALTHY = {"disc_recall": 0.4, "disc_auc": 0.9, "disc_accuracy": 0.95}
HEALTHY |= {"sampled_masked_lm_accuracy": 0.5, "replaced_rate": 0.07}
COLLAPSED = HEALTHY | {"disc_recall": 0.002, "disc_auc": 0.51}
TOO_GOOD = HEALTHY | {"sampled_masked_lm_accuracy": 0.9, "replaced_rate": 0.01}


@pytest.mark.parametrize(
    ("step", "metrics", "said"),
    [
        (5000, HEALTHY, {}),
        (5000, {"masked_lm_loss": 2.0}, {}),
        # Young.
        (900, COLLAPSED, {}),
        # It ranks well, and only its threshold is off.
        (5000, COLLAPSED | {"disc_auc": 0.8}, {}),
        # At the end a generator may be good.
        (6000, TOO_GOOD, {}),
        (5000, HEALTHY | {"skipped_steps": 20}, {}),
        (1000, COLLAPSED, {"collapsed": "auc without padding 0.51). Try"}),
        (1000, TOO_GOOD, {"generator_too_good": "90 % of its samples"}),
        (
            *(1000, HEALTHY | {"skipped_steps": 101}),
            {"skipped_steps": "101 of 1000 steps were not taken, as"},
        ),
    ],
)
def test_names_a_collapsed_discriminator(step, metrics, said):
    """Or a generator that is too good, or steps that were not taken."""
    lines = pretraining.advice(CONFIG, 0.0, step, metrics)
    assert lines.keys() == said.keys()
    assert all(said[name] in line for name, line in lines.items())
    assert all("--gin_param" in line for line in lines.values())


def test_a_short_run_is_young_for_longer():
    config = changed("run", num_train_steps=1000)
    assert pretraining.advice(config, 0.0, 499, COLLAPSED) == {}
    lines = pretraining.advice(config, 0.0, 500, COLLAPSED)
    assert lines.keys() == {"collapsed"}


@pytest.mark.parametrize(("auc", "is_said"), [(0.69, True), (0.85, False)])
def test_padding_hides_no_collapse(auc, is_said):
    """Of 100 tokens 40 are padding, 20 replaced: half the others are padding.

    Their auc of 1 is half of the mean.
    """
    metrics = COLLAPSED | {"disc_auc": auc, "replaced_rate": 1 / 3}
    found = pretraining.advice(CONFIG, 0.4, 1000, metrics)
    assert ("disc_auc without padding 0.38" in str(found)) == is_said
    assert bool(found) == is_said


MODEL = types.SimpleNamespace(trainable_variables=[])


@pytest.fixture
def train_data(tmp_path):
    for name, numbers in (("a", range(4)), ("b", ()), ("c", range(6))):
        helpers.write_tfrecords(
            tmp_path / f"{name}.tfrecord", [helpers.row(n) for n in numbers]
        )
    return batches.PretrainingData(f"{tmp_path}/*.tfrecord", CONFIG.model, 3)


def notices(config, train_data, heldout_data=None):
    """What a run warns of before it begins, a line each."""
    inputs = pretraining._Inputs(None, train_data, heldout_data, 0)
    return "\n".join(heard.of(pretraining._describe, config, MODEL, inputs))


def test_says_that_a_file_is_there_twice(train_data, tmp_path):
    helpers.write_tfrecords(
        tmp_path / "b.tfrecord", [helpers.row(n) for n in range(4)]
    )
    data = batches.PretrainingData(f"{tmp_path}/*.tfrecord", CONFIG.model, 3)
    line = f"such as {tmp_path}/b.tfrecord, which is {tmp_path}/a.tfrecord"
    assert line in notices(CONFIG, data)


def test_says_what_is_held_out_of_nothing(train_data):
    lines = notices(CONFIG, train_data, train_data)
    assert "2 of 3 held-out file(s) are trained on, too" in lines
    assert "the last 10 of 10 held-out examples are not scored" in lines


def test_says_that_a_generator_keeps_random_weights(train_data):
    model = helpers.electra_config(
        generator_training="frozen", untied_generator_embeddings=True
    )
    config = dataclasses.replace(CONFIG, model=model)
    assert "keeps random weights" in notices(config, train_data)
    config = dataclasses.replace(config, init_checkpoint="generator")
    assert "random weights" not in notices(config, train_data)


def test_says_what_the_manifests_know_better(tmp_path, train_data):
    counts = {"a.tfrecord": 4, "b.tfrecord": 0, "c.tfrecord": 7}
    helpers.write_manifest(tmp_path, counts | {"d.tfrecord": 1})
    folder = tmp_path / "heldout"
    folder.mkdir()
    helpers.write_tfrecords(folder / "a.tfrecord", [helpers.row(9)])
    helpers.write_manifest(folder, {"a.tfrecord": 2})
    other = tmp_path / "other_vocab.txt"
    other.write_text("\n".join(reversed(helpers.VOCAB)))
    config = changed("data", vocab_file=str(other))
    lines = notices(config, train_data)
    assert "expected 7 examples" in lines
    assert "d.tfrecord, as manifest.json says: it is missing" in lines
    assert "vocab.txt is not the vocabulary" in lines
    assert "expected 2 examples" not in lines
    heldout = batches.PretrainingData(f"{folder}/*", CONFIG.model, 3)
    lines = notices(config, train_data, heldout)
    assert "expected 2 examples" in lines and "heldout/a.tfrecord" in lines


@pytest.mark.parametrize("which", ["train_files", "heldout_files"])
def test_a_part_of_a_build_is_not_trained_on(tmp_path, train_data, which):
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "unfinished_build").touch()
    helpers.write_tfrecords(
        tmp_path / "part" / "pretrain_data.tfrecord-0-of-9", [helpers.row(1)]
    )
    files = {"train_files": f"{tmp_path}/c.tfrecord"}
    files |= {which: f"{tmp_path}/part"}
    vocab_file = helpers.write_vocab(tmp_path)
    config = changed("data", vocab_file=vocab_file, eval_batch_size=1, **files)
    with pytest.raises(errors.DataError, match="a part of one"):
        pretraining.pretrain(config, lambda: pytest.fail("it trains"))


@pytest.mark.parametrize(
    ("ids", "mask"), [([5], [0]), ([0], [1]), ([helpers.CLS, helpers.SEP], [1])]
)
def test_records_without_text_are_not_trained_on(tmp_path, ids, mask):
    row = helpers.row(1)
    half = len(row["input_ids"]) // 2
    row |= {"input_ids": (2 * ids)[:2] * half, "input_mask": mask * 2 * half}
    path = helpers.write_tfrecords(tmp_path / "a.tfrecord", [row] * 4)
    vocab_file = helpers.write_vocab(tmp_path)
    config = changed("data", train_files=path, vocab_file=vocab_file)
    with pytest.raises(errors.DataError, match="alone"):
        pretraining.pretrain(config, lambda: pytest.fail("it trains"))


@pytest.mark.parametrize(
    ("strategy", "tpu", "expected"),
    [
        ("tpu", "grpc://10.0.0.2:8470", True),
        ("tpu", "local", False),
        ("tpu", "", False),
        ("one_device", "name", False),
    ],
)
def test_the_host_of_a_tpu_with_a_name_makes_the_batches(
    tmp_path, train_data, strategy, tpu, expected
):
    files = dict.fromkeys(
        ("train_files", "heldout_files"), f"{tmp_path}/*.tfrecord"
    )
    vocab_file = helpers.write_vocab(tmp_path)
    config = changed("data", eval_batch_size=2, vocab_file=vocab_file, **files)
    run = helpers.run_config(
        tmp_path / "model", distribution_strategy=strategy, tpu=tpu
    )
    inputs = pretraining._read_inputs(dataclasses.replace(config, run=run))
    assert inputs.train_data.in_graph == expected
    assert inputs.heldout_data.in_graph == expected


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_last_evaluation(
    tmp_path, train_data, number, capsys
):
    model_dir = tmp_path / "model"
    run = helpers.run_config(model_dir, num_train_steps=2)
    engine = engine_test.one_weight_engine(run)
    engine.model.live_metrics = ("total_loss",)

    def heldout(*args):
        assert (model_dir / "model.ckpt-2.index").exists()
        os.kill(os.getpid(), number)
        return engine_test.numbers_dataset(*args)

    heldout_data = types.SimpleNamespace(dataset=heldout)
    inputs = pretraining._Inputs(None, train_data, heldout_data, 3)
    before = signal.getsignal(number)
    model_dir.mkdir()
    name = signal.Signals(number).name
    line = f"^{name} in the last evaluation: all steps are saved in {model_dir}"
    with pytest.raises(errors.Stopped, match=line):
        pretraining._train(dataclasses.replace(CONFIG, run=run), inputs, engine)
    assert f"{name}: leaving after these batches (" in capsys.readouterr().err
    assert signal.getsignal(number) is before


def test_evaluations_on_other_examples_are_not_compared(tmp_path):
    """Of two sets one may be harder: 2.5 there may be better than 1 here."""
    config = dataclasses.replace(CONFIG, run=helpers.run_config(tmp_path))
    vocab = vocabulary.Vocabulary(tuple(helpers.VOCAB))
    best = tmp_path / "best" / "eval_results.json"
    best.parent.mkdir()
    best.write_text('{"step": 3, "total_loss": 1.0}')

    def inputs(digest, num_steps=2):
        heldout = digest and types.SimpleNamespace(digest=digest)
        train = types.SimpleNamespace(digest="a")
        return pretraining._Inputs(vocab, train, heldout, num_steps)

    def begin(*args):
        return bool(heard.of(pretraining._note_inputs, config, inputs(*args)))

    # The same, with a break without any; then a mistake that came to nothing.
    assert [begin(name) for name in ("b", "b", None, "c", "b")] == (
        [False, False, False, True, False]
    )
    pretraining._note_heldout(config, inputs("b"))
    assert best.exists()
    assert begin("c")
    pretraining._note_heldout(config, inputs("c"))
    assert not best.exists() and not begin("c")
    # Fewer of the same are others, too.
    assert begin("c", 1)


def test_how_text_was_treated_is_of_this_run(tmp_path):
    """An earlier one, without a checkpoint, may have left it."""
    config = dataclasses.replace(CONFIG, run=helpers.run_config(tmp_path))
    tokens = tuple(helpers.VOCAB)
    train = types.SimpleNamespace(digest="a")

    def note(do_lower_case):
        vocab = vocabulary.Vocabulary(tokens, do_lower_case)
        inputs = pretraining._Inputs(vocab, train, None, 0)
        pretraining._note_inputs(config, inputs)
        return vocabulary.load(tmp_path / "vocab.txt").do_lower_case

    assert [note(False), note(None), note(True)] == [False, None, True]
    tf.train.Checkpoint(x=tf.Variable(1.0)).write(f"{tmp_path}/model.ckpt-3")
    # It goes on.
    assert note(None) is True


def test_pre_training_has_one_rate():
    for decay in (0.8, 1.5, None):
        config = changed("optimizer", layerwise_lr_decay=decay)
        with pytest.raises(errors.ConfigError, match=f"lr_decay={decay}$"):
            pretraining.pretrain(config, lambda: None)
    for decay in (0.0, 1.0, -1.0):
        config = changed("optimizer", layerwise_lr_decay=decay)
        optimization.refuse_layerwise_rates(config.optimizer)


def test_refuses_to_go_on_with_other_records_or_tokens(tmp_path):
    config = dataclasses.replace(CONFIG, run=helpers.run_config(tmp_path))
    tokens = tuple(helpers.VOCAB)
    learned = vocabulary.Vocabulary(tokens, do_lower_case=True)
    other = vocabulary.Vocabulary((*tokens[:-2], tokens[-1], tokens[-2]))
    inputs = types.SimpleNamespace(digest="a")
    inputs = pretraining._Inputs(learned, inputs, None, 0)
    pretraining._note_inputs(config, inputs)
    # Nothing was learned yet.
    pretraining._refuse_other_inputs(config, other, "b")
    (tmp_path / "model.ckpt-3.index").touch()
    pretraining._refuse_other_inputs(config, learned, "a")
    line = f"the model in {tmp_path} has learned, its vocab.txt. Received: an"
    with pytest.raises(errors.ConfigError, match=line):
        pretraining._refuse_other_inputs(config, other, "a")
    with pytest.raises(errors.ConfigError, match="a run on other records"):
        pretraining._refuse_other_inputs(config, learned, "b")


@pytest.mark.parametrize(
    ("beside_the_vocabulary", "beside_the_records", "expected"),
    [
        (None, None, (None, None)),
        ((False, False), None, (False, False)),
        # What the records were built with is what the model has learned.
        ((True, True), [(False, False)] * 2, (False, False)),
        (None, [(True, False)] * 2, (True, False)),
        # Two builds that differ: the vocabulary says it.
        ((True, True), [(False, False), (True, True)], (True, True)),
        ((True, True), [(False, False)], (True, True)),
    ],
)
def test_the_treatment_of_text_travels_with_the_model(
    tmp_path, beside_the_vocabulary, beside_the_records, expected
):
    def named(flags):
        names = ("do_lower_case", "strip_accents")
        return dict(zip(names, flags, strict=True))

    vocab_file = helpers.write_vocab(tmp_path)
    if beside_the_vocabulary:
        settings = json.dumps(named(beside_the_vocabulary))
        (tmp_path / "vocab.txt.json").write_text(settings)
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        helpers.write_tfrecords(folder / "x.tfrecord", [helpers.row(1)])
    for folder, flags in zip("ab", beside_the_records or (), strict=False):
        counts = {"x.tfrecord": 1}
        helpers.write_manifest(tmp_path / folder, counts, **named(flags))
    data = configs.PretrainingDataConfig(f"{tmp_path}/*/*.tfrecord", vocab_file)
    run = helpers.run_config(tmp_path / "model")
    config = dataclasses.replace(CONFIG, data=data, run=run)
    found = pretraining._read_inputs(config).vocab
    assert (found.do_lower_case, found.strip_accents) == expected
    vocabulary.write(found, str(tmp_path / "a"))
    again = vocabulary.load(tmp_path / "a" / "vocab.txt")
    assert again.lower_cases() == found.lower_cases()
    assert again.strips_accents() == found.strips_accents()
