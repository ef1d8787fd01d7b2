"""Tests of configs.py."""

import math

import pytest

from electra_tf import configs, errors
from electra_tf.finetuning import configs as finetuning_configs
from tests import helpers

ENCODER = {"vocab_size": 30522, "hidden_size": 256, "embedding_size": 128}
ENCODER |= {"num_hidden_layers": 12, "num_attention_heads": 4}
ENCODER |= {"intermediate_size": 1024}
DATA = {"train_files": "*.tfrecord", "vocab_file": "vocab.txt"}
FINETUNING_DATA = {"task_name": "cola", "train_file": "train.tsv"}
FINETUNING_DATA |= {"dev_file": "dev.tsv", "vocab_file": "vocab.txt"}


def encoder(**changes):
    return configs.EncoderConfig(**(ENCODER | changes))


def model(**changes):
    required = {"encoder": encoder(), "max_seq_length": 128}
    return configs.ElectraConfig(**(required | changes))


def generator(**changes):
    return model(**changes).generator


def optimizer(**changes):
    return configs.OptimizerConfig(**({"learning_rate": 5e-4} | changes))


def data(**changes):
    return configs.PretrainingDataConfig(**(DATA | changes))


def run(**changes):
    return configs.RunConfig(**({"model_dir": "model"} | changes))


def finetuning_data(**changes):
    return finetuning_configs.FinetuningDataConfig(
        **(FINETUNING_DATA | changes)
    )


def pretraining(**changes):
    parts = {
        "model": model(),
        "data": data(),
        "optimizer": optimizer(),
        "run": run(num_train_steps=10),
    }
    return configs.PretrainingConfig(**(parts | changes))


def finetuning(**changes):
    parts = {
        "init_checkpoint": "model",
        "data": finetuning_data(),
        "optimizer": optimizer(),
        "run": run(),
    }
    return finetuning_configs.FinetuningConfig(**(parts | changes))


NO_ELECTRA = {"electra_objective": False}
ELECTRIC = NO_ELECTRA | {"electric_objective": True}
REPLACE_MLM = {"discriminator_objective": "replace_mlm"}
ADVERSARIAL = {"generator_training": "adversarial"}
TASKS = {"train_file": "", "dev_file": "", "data_dir": "glue"}
# Each refused value, what its message names, and what it must be.
REFUSED = [
    (encoder, {"vocab_size": "128"}, "vocab_size must be int. Received: '12"),
    (encoder, {"hidden_size": True}, "hidden_size must be int. Received: Tr"),
    (encoder, {"embedding_size": "1"}, "size must be int or None"),
    (model, {"mask_prob": "0.15"}, "ElectraConfig.mask_prob must be float"),
    (data, {"train_files": ["a"]}, "train_files must be str"),
    (finetuning_data, {"do_lower_case": "False"}, "must be bool or None"),
    (finetuning, {"num_trials": "3"}, "num_trials must be int"),
    *(
        (make, {name: value}, f"{name} must be positive")
        for make, name in (
            (encoder, "embedding_size"),
            (optimizer, "learning_rate"),
            (finetuning_data, "num_train_epochs"),
        )
        for value in (0, -1)
    ),
    *(
        (make, {name: value}, f"{name} must be at least 0 and below 1")
        for make, name in (
            (encoder, "hidden_dropout_prob"),
            (optimizer, "beta_2"),
            (finetuning, "dropout"),
        )
        for value in (-0.1, 1.0)
    ),
    (optimizer, {"warmup_proportion": 1.01}, "must be between 0 and 1"),
    (model, {"mask_prob": 0.0}, "mask_prob must be between 0 and 1"),
    (model, {"masked_token_prob": 1.1}, "must be between 0 and 1"),
    (run, {"num_train_steps": -1}, "num_train_steps must be 0 or more"),
    *(
        (encoder, {"vocab_size": value}, "vocab_size must be an int of 64 bits")
        for value in (1e300, 2**63)
    ),
    *(
        (optimizer, changes, "schedule='warmup_stable_decay', and no other,")
        for changes in (
            {"schedule": "warmup_stable_decay"},
            {"num_decay_steps": 3},
            {"decay_proportion": 0.1},
        )
    ),
    (encoder, {"hidden_act": "swish"}, "hidden_act must be one of gelu, "),
    (encoder, {"num_attention_heads": 3}, "must divide hidden_size"),
    (model, {"disc_weight": -5.0}, "disc_weight must be 0 or more"),
    (model, {"max_seq_length": 6}, "must leave a token of max_seq"),
    (model, {"max_seq_length": 513}, "must not exceed EncoderConfig.max_posi"),
    (model, ELECTRIC | {"electra_objective": True}, "takes one of electra"),
    (
        model,
        NO_ELECTRA | {"uniform_generator": True},
        "needs electra_objective",
    ),
    (
        model,
        ELECTRIC | {"untied_generator": False},
        "needs electra_objective or",
    ),
    (model, {"discriminator_objective": "mlm"}, "one of replaced_token_det"),
    (model, REPLACE_MLM | NO_ELECTRA, "needs electra_objective"),
    (
        model,
        {"uniform_generator": True, "unigram_generator": True},
        "takes one of uniform",
    ),
    (model, {"generator_training": "frozen"}, "embeddings must be True"),
    (
        model,
        ADVERSARIAL | {"untied_generator": False},
        "needs untied_generator, not",
    ),
    (model, ADVERSARIAL | REPLACE_MLM, "needs a discriminator_objective that"),
    (generator, {"generator_layers": 0.01}, "must leave a layer and a width"),
    (generator, {"generator_hidden_size": 0.001}, "must leave a layer and a"),
    (generator, {"generator_hidden_size": 0.66667}, "of 171 with 2 heads"),
    (optimizer, {"learning_rate": math.inf}, "learning_rate must be positive"),
    (optimizer, {"learning_rate": 10**400}, "must be float or None"),
    (data, {"train_files": ""}, "train_files must be a glob"),
    (run, {"seed": 2**31}, "seed must be less than 2**31"),
    (run, {"model_dir": ""}, "model_dir must be a path"),
    (run, {"model_dir": "gs://b/m"}, "must be a folder of this machine"),
    (run, {"model_dir": "run[1]"}, "must be a path without [, ] and \\"),
    (run, {"distribution_strategy": "mirror"}, "must be one of one_device, "),
    (run, {"dtype_policy": "bfloat16"}, "must be one of float32, mixed_bfloat"),
    (pretraining, {"run": run(num_train_steps=0)}, "steps must be positive"),
    (pretraining, {"optimizer": optimizer(learning_rate=None)}, "be given"),
    (pretraining, {"keep_global_step": True}, "needs init_checkpoint"),
    (finetuning_data, {"task_name": ""}, "task_name must be given"),
    (finetuning_data, {"dev_file": ""}, "dev_file must be given, or --folds"),
    (
        finetuning_data,
        {"train_file": ""},
        "train_file must be given, or --task_names",
    ),
    (finetuning_data, {"folds": 5}, "dev_file must be empty with --folds"),
    (finetuning_data, {"dev_file": "", "folds": 1}, "must be 0, or 2 or more"),
    (finetuning_data, {"task_type": "clasification"}, "must be one of auto, "),
    (finetuning_data, {"text_columns": ["a", "b", "c"]}, "be one or two names"),
    (finetuning_data, {"task_names": "rte"}, "must be given with --task_names"),
    (
        finetuning_data,
        {"task_names": "rte", "data_dir": "glue"},
        "train_file must be empty with --task_names",
    ),
    (finetuning_data, TASKS | {"task_names": ["rte", "rte"]}, "be different"),
    (finetuning_data, {"long_texts": "slide"}, "must be one of cut, windows"),
    (finetuning_data, {"window_stride": 8}, "None without --long_texts"),
    (finetuning_data, {"weigh_windows": True}, "False without --long_texts"),
    *(
        (finetuning_data, {"long_texts": "windows"} | changes, rule)
        for changes, rule in (
            ({"window_stride": 127}, "at most the 126 tokens"),
            ({"window_stride": 0}, "window_stride must be positive"),
            ({"max_windows": 0}, "max_windows must be positive"),
            ({"max_seq_length": 2}, "must be 3 or more"),
        )
    ),
    (
        finetuning_data,
        {"eval_only": True, "dev_file": ""},
        "must be given with --eval_only, or --test_file",
    ),
    (
        finetuning,
        {
            "early_stopping_patience": 1,
            "run": helpers.finetuning_run_config("m", keep_best_metric="loss"),
        },
        "must be left alone with early_stopping_patience",
    ),
    (finetuning, {"learning_rates": [1e-4, 1e-4]}, "must be different posi"),
    (finetuning, {"learning_rates": [True]}, "must be a list of float"),
    (finetuning, {"reseed_degenerate": -1}, "must be 0 or more"),
    (finetuning, {"class_weights": "a=1,b=2,a=3"}, "positive number for each"),
    (finetuning, {"expected_encoder": {"width": 8}}, "made of fields of Encod"),
    *(
        (
            finetuning,
            {"run": helpers.finetuning_run_config("m", **{name: 5})},
            f"RunConfig.{name} must be 0 in fine-tuning, where {instead}",
        )
        for name, instead in (
            ("num_train_steps", "FinetuningDataConfig.num_train_epochs says"),
            ("stop_at_step", "a run that is stopped goes on"),
        )
    ),
]


@pytest.mark.parametrize(("make", "changes", "rule"), REFUSED)
def test_refuses(make, changes, rule):
    with pytest.raises(errors.ConfigError) as caught:
        make(**changes)
    # gin adds lines of its own.
    message = str(caught.value).splitlines()[0]
    assert rule in message and "Received: " in message


def test_the_longer_decay_counts():
    def steps(**changes):
        config = optimizer(schedule=configs.WARMUP_STABLE_DECAY, **changes)
        return config.decay_steps(50)

    assert optimizer().decay_steps(50) is None
    assert steps(decay_proportion=0.1) == 5
    assert steps(decay_proportion=0.1, num_decay_steps=6) == 6
    with pytest.raises(errors.ConfigError, match="the training steps, 50"):
        steps(num_decay_steps=51)


def test_a_list_may_be_one_value_or_text_with_commas():
    def names(value):
        data = finetuning_configs.FinetuningDataConfig(
            task_names=value, data_dir="glue"
        )
        return data.task_names

    assert names("rte") == ("rte",)
    assert names("rte, mrpc") == names(["rte", "mrpc"]) == ("rte", "mrpc")
    assert finetuning(learning_rates=1).learning_rates == (1.0,)
    assert finetuning(learning_rates=[1e-4, 2]).learning_rates == (1e-4, 2.0)


def test_takes_whole_numbers_of_both_kinds():
    steps = run(num_train_steps=1e6).num_train_steps
    assert steps == 1000000 and isinstance(steps, int)
    rate = optimizer(learning_rate=1).learning_rate
    assert rate == 1.0 and isinstance(rate, float)


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({}, 0),
        ({"num_warmup_steps": 7}, 7),
        # Not rounded, as in the original.
        ({"warmup_proportion": 0.1}, 100.5),
        ({"warmup_proportion": 0.0}, 0),
        # Of the two the longer one.
        ({"num_warmup_steps": 7, "warmup_proportion": 0.1}, 100.5),
        ({"num_warmup_steps": 200, "warmup_proportion": 0.1}, 200),
    ],
)
def test_warm_up_steps(changes, steps):
    assert optimizer(**changes).warmup_steps(1005) == steps


@pytest.mark.parametrize(
    ("num_examples", "epochs", "steps"),
    [
        (64, 3.0, 6),  # 2 full batches of 32 an epoch.
        (65, 3.0, 9),  # 3 batches, the last one filled up.
        (65, 0.5, 1),  # 1.5 batches, rounded down as in the original.
        (66, 0.9, 2),  # Of 2.7.
        (1, 0.1, 1),  # Never none.
    ],
)
def test_fine_tuning_steps(num_examples, epochs, steps):
    config = finetuning_data(train_batch_size=32, num_train_epochs=epochs)
    assert config.num_train_steps(num_examples) == steps
