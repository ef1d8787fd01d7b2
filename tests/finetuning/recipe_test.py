"""Tests of finetuning/recipe.py."""

import pytest

from electra_tf import configs
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.finetuning import recipe
from tests.finetuning import runs


@pytest.mark.parametrize(
    ("name", "hidden_size", "learning_rate", "decay"),
    [
        # Table 7 of the paper.
        ("paper", 256, 3e-4, 0.8),
        # Narrower than all of it.
        ("paper", 64, 2e-3, 0.8),
        ("paper", 768, 1e-4, 0.8),
        ("paper", 1024, 5e-5, 0.9),
        # tests/parity compares the others of configure_finetuning.py.
        ("released", 256, 1e-4, 0.8),
    ],
)
def test_rates_follow_the_size(name, hidden_size, learning_rate, decay):
    assert recipe.rates(name, hidden_size) == (learning_rate, decay)


def test_only_what_is_open_is_chosen():
    given = configs.OptimizerConfig(1e-2, layerwise_lr_decay=None)
    optimizer = recipe.complete(given, "paper", 768)
    assert (optimizer.learning_rate, optimizer.layerwise_lr_decay) == (
        1e-2,
        0.8,
    )
    given = configs.OptimizerConfig(None, layerwise_lr_decay=0.0)
    optimizer = recipe.complete(given, "released", 256)
    assert (optimizer.learning_rate, optimizer.layerwise_lr_decay) == (1e-4, 0)


def config(optimizer=None, recipe_name="paper", data=None, **changes):
    values = finetuning_configs.OPTIMIZER | (optimizer or {})
    optimizer = configs.OptimizerConfig(**values)
    return runs.bare_config(
        data, optimizer=optimizer, recipe=recipe_name, **changes
    )


def choices(config, hidden_size=256):
    return recipe.choices(config, hidden_size)


def test_every_choice_has_its_source():
    found = choices(
        config({"warmup_proportion": 0.2}, data={"num_train_epochs": 5.0})
    )
    assert found == {
        "learning_rate": (3e-4, "paper"),
        "layerwise_lr_decay": (0.8, "paper"),
        "warmup_proportion": (0.2, "given"),
        "num_warmup_steps": (0, "default"),
        "weight_decay_rate": (0.01, "default"),
        "lr_decay_power": (1.0, "default"),
        "num_train_epochs": (5.0, "given"),
        "max_seq_length": (128, "default"),
        "train_batch_size": (32, "default"),
    }
    assert str(found["learning_rate"]) == "0.0003 (paper)"
    assert {choice.source for choice in found.values()} <= set(recipe.SOURCES)
    grid = choices(config(learning_rates=(1e-4, 1e-3)))["learning_rate"]
    assert grid == ([1e-4, 1e-3], "given")
    assert str(grid) == "0.0001 or 0.001 (given)"
    # Three epochs are too few for an encoder narrower than ELECTRA-Small.
    for size, epochs in ((64, (10.0, "size")), (256, (3.0, "default"))):
        assert choices(config(), size)["num_train_epochs"] == epochs
    given = config(data={"num_train_epochs": 3.0})
    assert recipe.num_train_epochs(given, 64) == 3.0
    assert recipe.num_train_epochs(config(recipe_name="released"), 64) == 3.0
    # Nothing but rates and epochs is the recipe's.
    found = choices(config({"warmup_proportion": None}))
    assert found["warmup_proportion"] == (None, "given")


def test_what_the_released_code_has_is_called_so():
    tasks = {"train_file": "", "dev_file": "", "data_dir": "data"}
    tasks["task_names"] = ("rte",)
    found = choices(
        config(
            recipe_name="released",
            data=tasks | {"num_train_epochs": 10.0, "max_seq_length": 64},
        ),
        1024,
    )
    assert found["learning_rate"] == (5e-5, "released code")
    assert found["layerwise_lr_decay"] == (0.9, "released code")
    # configure_finetuning.py has 10 for RTE.
    assert found["num_train_epochs"] == (10.0, "released code")
    assert found["max_seq_length"] == (64, "given")
    assert found["num_warmup_steps"] == (0, "default")
