"""Tests of finetuning/recipe.py."""

import pytest

from electra_tf import configs
from electra_tf.finetuning import recipe


@pytest.mark.parametrize(
    ("hidden_size", "size", "learning_rate", "decay"),
    [
        (64, "small", 3e-4, 0.8),
        (256, "small", 3e-4, 0.8),
        (768, "base", 1e-4, 0.8),
        (1024, "large", 5e-5, 0.9),
    ],
)
def test_rates_follow_the_size(hidden_size, size, learning_rate, decay):
    found = recipe.for_size(hidden_size)
    assert found == recipe.Recipe(size, learning_rate, decay)


def test_only_what_is_open_is_chosen_and_said():
    given = configs.OptimizerConfig(1e-2, layerwise_lr_decay=None)
    optimizer, notes = recipe.complete(given, 768)
    assert optimizer.learning_rate == 1e-2
    assert optimizer.layerwise_lr_decay == 0.8
    assert notes == [
        "layerwise_lr_decay 0.8: the paper's for ELECTRA-Base (hidden size 768 "
        "here)"
    ]
    given = configs.OptimizerConfig(None, layerwise_lr_decay=0.0)
    optimizer, notes = recipe.complete(given, 256)
    assert (optimizer.learning_rate, optimizer.layerwise_lr_decay) == (3e-4, 0)
    assert len(notes) == 1
    # In a grid, each trial says its own rate.
    assert recipe.complete(given, 256, True)[1] == []
