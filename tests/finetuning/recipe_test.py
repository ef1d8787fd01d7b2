"""Tests of finetuning/recipe.py."""

import pytest

from electra_tf import configs
from electra_tf.finetuning import recipe


@pytest.mark.parametrize(
    ("hidden_size", "size"),
    [(64, "small"), (256, "small"), (768, "base"), (1024, "large")],
)
def test_the_size_is_that_of_the_widest_model_that_fits(hidden_size, size):
    assert recipe.size_of(hidden_size) == size


@pytest.mark.parametrize(
    ("name", "hidden_size", "learning_rate", "decay"),
    [
        # Table 7 of the paper.
        ("paper", 256, 3e-4, 0.8),
        ("paper", 768, 1e-4, 0.8),
        ("paper", 1024, 5e-5, 0.9),
        # configure_finetuning.py; tests/parity compares them as well.
        ("released", 256, 1e-4, 0.8),
        ("released", 768, 1e-4, 0.8),
        ("released", 1024, 5e-5, 0.9),
    ],
)
def test_rates_follow_the_size(name, hidden_size, learning_rate, decay):
    assert recipe.rates(name, hidden_size) == (learning_rate, decay)


def test_only_what_is_open_is_chosen_and_said():
    given = configs.OptimizerConfig(1e-2, layerwise_lr_decay=None)
    optimizer, notes = recipe.complete(given, "paper", 768)
    assert optimizer.learning_rate == 1e-2
    assert optimizer.layerwise_lr_decay == 0.8
    assert notes == [
        "layerwise_lr_decay 0.8: the paper's for ELECTRA-Base (hidden size 768 "
        "here)"
    ]
    given = configs.OptimizerConfig(None, layerwise_lr_decay=0.0)
    optimizer, notes = recipe.complete(given, "released", 256)
    assert (optimizer.learning_rate, optimizer.layerwise_lr_decay) == (1e-4, 0)
    assert notes == [
        "learning_rate 0.0001: the released code's for ELECTRA-Small (hidden "
        "size 256 here)"
    ]
    # In a grid, each trial says its own rate.
    assert recipe.complete(given, "paper", 256, True)[1] == []
