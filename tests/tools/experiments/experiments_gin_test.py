"""Tests of gin/experiments: every row trains, and differs where it says.

Some rows are trained here, for a few steps without a graph; the steps of all
objectives are in tests/model. With ALL_EXPERIMENT_ROWS=1 in the environment it
is all rows, for 20 steps in a graph, which takes 200 seconds of a CPU:

    make test-experiments
"""

import dataclasses
import math
import os
import pathlib
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf import configs, model_directory, pretraining, validation
from electra_tf.command_line import gin_files
from electra_tf.training import matmul_rate, metrics_log
from tests import helpers

FOLDER = helpers.ROOT / "gin" / "experiments"
TINY = FOLDER / "tiny.gin"

# Folders of rows; the others hold what rows are fine-tuned with.
REFERENCES = {
    "objectives": "electra",
    "weight_sharing": "token_embeddings",
    "generator_size": "one_quarter",
    "training_algorithms": "../objectives/electra",
    "models": "small",
    "newer_ideas": "../objectives/electra",
}
ROWS = sorted(
    f"{path.parent.name}/{path.stem}"
    for path in FOLDER.glob("*/*.gin")
    if path.parent.name != "finetuning"
)

_BASE = {
    "model.encoder.hidden_size": 768,
    "model.encoder.embedding_size": 768,
    "model.encoder.intermediate_size": 3072,
    "model.encoder.num_attention_heads": 12,
    "model.generator_hidden_size": 0.33333,
    "model.max_seq_length": 512,
    "optimizer.learning_rate": 2e-4,
    "data.train_batch_size": 256,
    "run.num_train_steps": 766000,
}
_LARGE = {
    "model.encoder.hidden_size": 1024,
    "model.encoder.embedding_size": 1024,
    "model.encoder.intermediate_size": 4096,
    "model.encoder.num_attention_heads": 16,
    "model.encoder.num_hidden_layers": 24,
    "model.max_seq_length": 512,
    "model.mask_prob": 0.25,
    "optimizer.learning_rate": 2e-4,
    "data.train_batch_size": 2048,
    "run.num_train_steps": 400000,
}
_STAGE_1 = "models/training_algorithms/two_stage_generator"

# What a row has that the reference of its suite has not.
DIFFERENCES: dict[str, dict[str, object]] = {
    "objectives/electra": {},
    "objectives/electra_15": {
        "model.discriminator_objective": "replaced_token_detection_of_masked"
    },
    "objectives/replace_mlm": {
        "model.discriminator_objective": "replace_mlm",
        "model.disc_weight": 1.0,
    },
    "objectives/all_tokens_mlm": {
        "model.discriminator_objective": "all_tokens_mlm",
        "model.disc_weight": 6.67,
    },
    "objectives/bert": {
        "model.electra_objective": False,
        "model.masked_token_prob": 0.8,
        "run.num_train_steps": 1000000,
    },
    "objectives/bert_released_masking": {
        "model.electra_objective": False,
        "run.num_train_steps": 1000000,
    },
    "weight_sharing/none": {"model.untied_generator_embeddings": True},
    "weight_sharing/token_embeddings": {},
    "weight_sharing/all_weights": {"model.untied_generator": False},
    "generator_size/one_eighth": {"model.generator_hidden_size": 0.125},
    "generator_size/one_quarter": {},
    "generator_size/one_half": {"model.generator_hidden_size": 0.5},
    "generator_size/three_quarters": {"model.generator_hidden_size": 0.75},
    "generator_size/one": {"model.generator_hidden_size": 1.0},
    # Neither has a generator network whose width could matter.
    "generator_size/unigram": {
        "model.unigram_generator": True,
        "model.generator_hidden_size": 0.33333,
    },
    "generator_size/uniform": {
        "model.uniform_generator": True,
        "model.generator_hidden_size": 0.33333,
    },
    "training_algorithms/two_stage_generator": {
        "model.electra_objective": False,
        "run.num_train_steps": 400000,
    },
    "training_algorithms/two_stage": {
        "init_checkpoint": _STAGE_1,
        "init_generator_checkpoint": _STAGE_1,
        "model.generator_hidden_size": 1.0,
        "model.generator_training": "frozen",
        "model.untied_generator_embeddings": True,
        "run.num_train_steps": 400000,
    },
    "training_algorithms/adversarial": {
        "model.generator_training": "adversarial",
        "model.distinct_positions": True,
    },
    "models/small": {},
    "models/bert_small": {
        "model.electra_objective": False,
        "model.masked_token_prob": 0.8,
        "run.num_train_steps": 1450000,
    },
    "models/small_plus_plus": {
        "model.generator_hidden_size": 1.0,
        "model.max_seq_length": 512,
        "run.num_train_steps": 4000000,
    },
    "models/base": _BASE,
    "models/base_plus_plus": _BASE | {"run.num_train_steps": 4000000},
    "models/large_400k": _LARGE,
    "models/large_1_75m": _LARGE | {"run.num_train_steps": 1750000},
    "models/electric": {
        key: value
        for key, value in _BASE.items()
        if key != "model.generator_hidden_size"
    }
    | {
        "model.electra_objective": False,
        "model.electric_objective": True,
        "model.two_tower_generator": True,
        "run.num_train_steps": 700000,
    },
    "newer_ideas/disentangled_embeddings": {
        "model.disentangled_embeddings": True
    },
    "newer_ideas/distinct_positions": {"model.distinct_positions": True},
    "newer_ideas/mask_prob_20": {"model.mask_prob": 0.2},
    "newer_ideas/mask_prob_40": {"model.mask_prob": 0.4},
    "newer_ideas/whole_words": {"model.whole_word_masking": True},
}


def path_of(row):
    return os.path.normpath(FOLDER / f"{row}.gin")


def reference_of(row):
    suite = row.split("/")[0]
    return os.path.normpath(f"{suite}/{REFERENCES[suite]}")


def load(row, *more_files, params=()):
    return gin_files.load(
        configs.PretrainingConfig, [path_of(row), *map(str, more_files)], params
    )


def differences(config, reference):
    """Name -> value in `config`, for what differs but for `run.model_dir`."""
    return {
        name: value
        for name, value, _ in validation.differences(
            dataclasses.asdict(config), dataclasses.asdict(reference)
        )
        if name != "run.model_dir"
    }


def test_every_row_is_listed():
    assert sorted(DIFFERENCES) == ROWS


@pytest.mark.parametrize("row", ROWS)
def test_a_row_changes_what_it_is_about(row):
    expected = DIFFERENCES[row]
    config = load(row)
    assert differences(config, load(reference_of(row))) == expected
    assert config.model.generator.hidden_size > 0  # Heads divide it, too.


@pytest.mark.parametrize("row", ROWS)
def test_the_size_for_two_cores_leaves_that_as_it_is(row):
    """Given after a row's file, tiny.gin changes sizes, data and the loop."""
    found = differences(load(row, TINY), load(reference_of(row), TINY))
    assert found == {
        name: value
        for name, value in DIFFERENCES[row].items()
        if not re.match(r"model\.(encoder|max_seq_length)|optim|data|run", name)
    }


def test_no_two_rows_share_a_model_dir():
    folders = [load(row).run.model_dir for row in ROWS]
    assert len(set(folders)) == len(folders)


@pytest.mark.parametrize("row", ROWS)
def test_a_row_says_what_it_reproduces_and_at_what_cost(row):
    with open(path_of(row), encoding="utf-8") as file:
        header = file.read().split("\ninclude ")[0]
    assert all(line.startswith("#") for line in header.split("\n") if line)
    header = " ".join(header.replace("#", " ").replace("\\", " ").split())
    title = header.split(" python ")[0]
    assert re.search(r"arXiv:\d{4}\.\d{5}|https://", title)
    if not row.startswith("newer_ideas/"):
        assert re.search(r"Tables? \d|Figure \d|section \d", title)
    command = (
        "python -m electra_tf.run_pretraining "
        f"--gin_file=gin/experiments/{row}.gin"
    )
    assert f"{command} " in header
    assert f"{command} --gin_file=gin/experiments/tiny.gin" in header
    suite, name = row.split("/")
    shown = name.removesuffix("_generator")  # Both stages are one row there.
    assert (
        "python tools/experiments/run_experiments.py "
        f"--suite={suite} --rows={shown}" in header
    )
    assert re.search(
        r"Paper: .* Cost: (about )?[\d.]+e\d\d FLOPs.* Ours: ", header
    )


# --- Every row trains ---------------------------------------------------------

ALL_ROWS = bool(os.environ.get("ALL_EXPERIMENT_ROWS"))
# Both networks, one, one after the other, and one against the other.
TRAINED = (
    ROWS
    if ALL_ROWS
    else (
        "objectives/electra",
        "objectives/bert",
        "training_algorithms/two_stage",
        "training_algorithms/adversarial",
    )
)
NUM_STEPS = 20 if ALL_ROWS else 2
LENGTH = 16
# The generator's feed-forward layer and heads follow from its width: for the
# second of two stages those of the encoder must be the same.
SIZES = (
    f"EncoderConfig.vocab_size = {len(helpers.VOCAB)}",
    "EncoderConfig.num_hidden_layers = 1",
    "EncoderConfig.hidden_size = 16",
    "EncoderConfig.embedding_size = 16",
    "EncoderConfig.intermediate_size = 64",
    "EncoderConfig.num_attention_heads = 1",
    f"EncoderConfig.max_position_embeddings = {LENGTH}",
    f"ElectraConfig.max_seq_length = {LENGTH}",
    "EncoderConfig.hidden_dropout_prob = 0.0",
    "EncoderConfig.attention_probs_dropout_prob = 0.0",
    "OptimizerConfig.learning_rate = 1e-3",
    "OptimizerConfig.num_warmup_steps = 0",
    "OptimizerConfig.warmup_proportion = 0.1",
    "PretrainingDataConfig.train_batch_size = 2",
    "PretrainingDataConfig.eval_batch_size = 2",
    "PretrainingDataConfig.num_eval_steps = 1",
    f"RunConfig.num_train_steps = {NUM_STEPS}",
    f"RunConfig.steps_per_loop = {NUM_STEPS}",
    f"RunConfig.save_checkpoints_steps = {NUM_STEPS}",
    "RunConfig.async_checkpoints = False",
)
NUMBERS = (
    "disc_weight",
    "generator_hidden_size",
    "mask_prob",
    "masked_token_prob",
)
BINARY = {"disc_loss", "disc_auc", "disc_accuracy", "disc_recall"}
TOKENS = {"disc_loss", "disc_masked_lm_accuracy"}
MASKED_LM = {"masked_lm_loss", "masked_lm_accuracy"}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Bindings for records of the length of this test."""
    folder = tmp_path_factory.mktemp("data")
    pattern = helpers.write_tfrecords(
        folder / "0.tfrecord",
        [helpers.row(number, LENGTH) for number in range(50)],
    )
    vocab = helpers.write_vocab(folder)
    # Whole words need a token that continues one.
    tokens = [*helpers.VOCAB[:-1], "##a"]
    pathlib.Path(vocab).write_text("\n".join(tokens) + "\n")
    return (
        f"PretrainingDataConfig.train_files = '{pattern}'",
        f"PretrainingDataConfig.heldout_files = '{pattern}'",
        f"PretrainingDataConfig.vocab_file = '{vocab}'",
    )


@pytest.fixture(scope="module")
def eager():
    """A few steps take less time than building their graph."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matmul_rate, "of_strategy", lambda strategy: 1e9)
        tf.config.run_functions_eagerly(not ALL_ROWS)
        yield
        tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="module")
def train(data, eager, tmp_path_factory):
    """A function that trains a row, or has trained one like it."""
    runs: dict[str, tuple[str, dict]] = {}

    def run(row):
        params = [*SIZES, *data]
        if "init_checkpoint" in DIFFERENCES[row]:
            first_stage, _ = run(f"{row}_generator")
            params += [
                f"PretrainingConfig.{name} = '{first_stage}'"
                for name in ("init_checkpoint", "init_generator_checkpoint")
            ]
        config = load(row, params=params)
        kind = dataclasses.asdict(config)
        del kind["run"]["model_dir"]
        if not ALL_ROWS:
            for name in NUMBERS:
                del kind["model"][name]
        if repr(kind) not in runs:
            folder = str(tmp_path_factory.mktemp("run"))
            config = dataclasses.replace(
                config, run=dataclasses.replace(config.run, model_dir=folder)
            )
            keras.utils.set_random_seed(0)
            metrics = pretraining.pretrain(
                config, lambda: model_directory.write(config, "", [])
            )
            runs[repr(kind)] = folder, metrics
        return runs[repr(kind)]

    return run


# Reading the records stays a graph, as it should.
@pytest.mark.dear
@pytest.mark.filterwarnings("ignore:Even though the:UserWarning")
@pytest.mark.parametrize("row", TRAINED)
def test_a_row_trains(row, train):
    folder, metrics = train(row)
    model = load(row).model
    expected = set() if model.two_tower_generator else MASKED_LM
    if model.has_discriminator:
        expected = expected | (
            BINARY if model.has_binary_discriminator else TOKENS
        )
    assert expected <= set(metrics)
    assert not (BINARY | TOKENS) & (set(metrics) - expected)
    log = metrics_log.read(os.path.join(folder, "metrics.jsonl"))
    assert log[-1]["step"] == NUM_STEPS
    for found in (metrics, *log):
        for name in ("total_loss", *expected):
            assert math.isfinite(found[name])


def weights(folder, prefix):
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(folder))
    return {
        name.removeprefix(f"model/{prefix}"): reader.get_tensor(name)
        for name in reader.get_variable_to_dtype_map()
        if name.startswith(f"model/{prefix}")
    }


@pytest.mark.dear
def test_the_second_stage_trains_one_of_two_equal_networks(train):
    first, _ = train("training_algorithms/two_stage_generator")
    second, _ = train("training_algorithms/two_stage")
    before = weights(first, "electra.S")
    frozen = weights(second, "generator.S")
    learned = weights(second, "electra.S")
    assert before and set(before) == set(learned) == set(frozen)
    for name, value in before.items():
        np.testing.assert_array_equal(frozen[name], value, name)
        assert (learned[name] != value).any(), name
