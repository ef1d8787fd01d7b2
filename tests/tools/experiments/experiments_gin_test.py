"""Tests of gin/experiments: every row trains, and differs where it says.

The steps of all objectives are in tests/model. With ALL_EXPERIMENT_ROWS=1 in
the environment each row is trained for 20 steps, 200 seconds of a CPU:

    make test-experiments
"""

import ast
import dataclasses
import functools
import math
import os
import pathlib
import re

import keras
import pytest

from electra_tf import configs, model_directory, pretraining, validation
from electra_tf.command_line import gin_files
from electra_tf.training import metrics_log
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

_OF_SIZE = """
    hidden_size={0} embedding_size={0} intermediate_size={1}
    num_attention_heads={2} max_seq_length=512 learning_rate=0.0002
"""
_BASE = _OF_SIZE.format(768, 3072, 12) + "train_batch_size=256"
_LARGE = f"""
    {_OF_SIZE.format(1024, 4096, 16)} num_hidden_layers=24 mask_prob=0.25
    train_batch_size=2048
"""
_STAGE_1 = "'models/training_algorithms/two_stage_generator'"

# What a row has that the reference of its suite has not. Neither the unigram
# nor the uniform generator has a network whose width could matter.
DIFFERENCES = {
    name: {
        key: ast.literal_eval(value)
        for key, _, value in (field.partition("=") for field in fields.split())
    }
    for name, fields in {
        "objectives/electra": "",
        "objectives/electra_15": "discriminator_objective="
        "'replaced_token_detection_of_masked'",
        "objectives/replace_mlm": "discriminator_objective='replace_mlm' "
        "disc_weight=1.0",
        "objectives/all_tokens_mlm": "discriminator_objective='all_tokens_mlm' "
        "disc_weight=6.67",
        "objectives/bert": "electra_objective=False masked_token_prob=0.8 "
        "num_train_steps=1000000",
        "objectives/bert_released_masking": "electra_objective=False "
        "num_train_steps=1000000",
        "weight_sharing/none": "untied_generator_embeddings=True",
        "weight_sharing/token_embeddings": "",
        "weight_sharing/all_weights": "untied_generator=False",
        "generator_size/one_eighth": "generator_hidden_size=0.125",
        "generator_size/one_quarter": "",
        "generator_size/one_half": "generator_hidden_size=0.5",
        "generator_size/three_quarters": "generator_hidden_size=0.75",
        "generator_size/one": "generator_hidden_size=1.0",
        "generator_size/unigram": "unigram_generator=True "
        "generator_hidden_size=0.33333",
        "generator_size/uniform": "uniform_generator=True "
        "generator_hidden_size=0.33333",
        "training_algorithms/two_stage_generator": "electra_objective=False "
        "num_train_steps=400000",
        "training_algorithms/two_stage": f"init_checkpoint={_STAGE_1} "
        f"init_generator_checkpoint={_STAGE_1} generator_hidden_size=1.0 "
        "generator_training='frozen' untied_generator_embeddings=True "
        "num_train_steps=400000",
        "training_algorithms/adversarial": "generator_training='adversarial' "
        "distinct_positions=True",
        "models/small": "",
        "models/bert_small": "electra_objective=False masked_token_prob=0.8 "
        "num_train_steps=1450000",
        "models/small_plus_plus": "generator_hidden_size=1.0 "
        "max_seq_length=512 num_train_steps=4000000",
        "models/base": f"{_BASE} generator_hidden_size=0.33333 "
        "num_train_steps=766000",
        "models/base_plus_plus": f"{_BASE} generator_hidden_size=0.33333 "
        "num_train_steps=4000000",
        "models/large_400k": f"{_LARGE} num_train_steps=400000",
        "models/large_1_75m": f"{_LARGE} num_train_steps=1750000",
        "models/electric": f"{_BASE} electra_objective=False "
        "electric_objective=True two_tower_generator=True "
        "num_train_steps=700000",
        "newer_ideas/disentangled_embeddings": "disentangled_embeddings=True",
        "newer_ideas/distinct_positions": "distinct_positions=True",
        "newer_ideas/mask_prob_20": "mask_prob=0.2",
        "newer_ideas/mask_prob_40": "mask_prob=0.4",
        "newer_ideas/whole_words": "whole_word_masking=True",
    }.items()
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
    """Full name -> value in `config`, for all but `run.model_dir`."""
    return {
        name: value
        for name, value, _ in validation.differences(
            dataclasses.asdict(config), dataclasses.asdict(reference)
        )
        if name != "run.model_dir"
    }


def last_names(found):
    return {name.rpartition(".")[2]: value for name, value in found.items()}


def test_every_row_is_listed():
    assert sorted(DIFFERENCES) == ROWS


@pytest.mark.parametrize("row", ROWS)
def test_a_row_changes_what_it_is_about(row):
    config = load(row)
    found = differences(config, load(reference_of(row)))
    assert last_names(found) == DIFFERENCES[row]
    assert config.model.generator.hidden_size > 0  # Heads divide it, too.
    # Given after a row's file, tiny.gin changes sizes, data and the loop.
    sizes = r"model\.(encoder|max_seq_length)|optim|data|run"
    left = {name: v for name, v in found.items() if not re.match(sizes, name)}
    assert differences(load(row, TINY), load(reference_of(row), TINY)) == left


# --- Every row trains ---------------------------------------------------------

NUM_STEPS = 20
LENGTH = 16
# The generator's feed-forward layer and heads follow from its width: for the
# second of two stages those of the encoder must be the same.
SIZES = f"""
    EncoderConfig.vocab_size={len(helpers.VOCAB)}
    EncoderConfig.num_hidden_layers=1
    EncoderConfig.hidden_size=16 EncoderConfig.embedding_size=16
    EncoderConfig.intermediate_size=64 EncoderConfig.num_attention_heads=1
    EncoderConfig.max_position_embeddings={LENGTH}
    ElectraConfig.max_seq_length={LENGTH}
    OptimizerConfig.num_warmup_steps=0 OptimizerConfig.warmup_proportion=0.1
    PretrainingDataConfig.train_batch_size=2
    PretrainingDataConfig.eval_batch_size=2
    PretrainingDataConfig.num_eval_steps=1
    RunConfig.num_train_steps={NUM_STEPS} RunConfig.steps_per_loop={NUM_STEPS}
    RunConfig.save_checkpoints_steps={NUM_STEPS}
    RunConfig.async_checkpoints=False
    """.split()


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """A function that trains a row; gives its folder and its metrics."""
    folder = tmp_path_factory.mktemp("data")
    rows = [helpers.row(number, LENGTH) for number in range(50)]
    pattern = helpers.write_tfrecords(folder / "0.tfrecord", rows)
    vocab = helpers.write_vocab(folder)
    # Whole words need a token that continues one.
    tokens = [*helpers.VOCAB[:-1], "##a"]
    pathlib.Path(vocab).write_text("\n".join(tokens) + "\n")
    data = {"train_files": pattern, "heldout_files": pattern}
    data["vocab_file"] = vocab
    sized = {row: load(row, params=SIZES) for row in ROWS}

    @functools.cache
    def run(row):
        # Rows that differ in what SIZES sets are one run.
        first = next(r for r in ROWS if not differences(sized[r], sized[row]))
        if first != row:
            return run(first)
        params = [f"PretrainingDataConfig.{k} = '{v}'" for k, v in data.items()]
        if "init_checkpoint" in DIFFERENCES[row]:
            first_stage, _ = run(f"{row}_generator")
            params += [
                f"PretrainingConfig.{name} = '{first_stage}'"
                for name in ("init_checkpoint", "init_generator_checkpoint")
            ]
        folder = str(tmp_path_factory.mktemp("run"))
        params.append(f"RunConfig.model_dir = '{folder}'")
        config = load(row, params=[*SIZES, *params])
        keras.utils.set_random_seed(0)
        return folder, pretraining.pretrain(
            config, lambda: model_directory.write(config, "", [])
        )

    return run


@pytest.mark.skipif(
    not os.environ.get("ALL_EXPERIMENT_ROWS"),
    reason="minutes of a CPU: make test-experiments",
)
@pytest.mark.parametrize("row", ROWS)
def test_a_row_trains(row, train):
    folder, metrics = train(row)
    model = load(row).model
    expected = {"total_loss"}
    if not model.two_tower_generator:
        expected |= {"masked_lm_loss", "masked_lm_accuracy"}
    if model.has_binary_discriminator:
        expected |= {"disc_loss", "disc_auc", "disc_accuracy", "disc_recall"}
    elif model.has_discriminator:
        expected |= {"disc_loss", "disc_masked_lm_accuracy"}
    log = metrics_log.read(os.path.join(folder, "metrics.jsonl"))
    assert log[-1]["step"] == NUM_STEPS
    for found in (metrics, *log):
        assert expected <= found.keys()
        assert all(math.isfinite(found[name]) for name in expected)
