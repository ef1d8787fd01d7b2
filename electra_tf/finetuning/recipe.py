"""What the paper fine-tunes with, by the size of the encoder; no TensorFlow."""

import dataclasses
import typing

from electra_tf import configs


class Recipe(typing.NamedTuple):
    """Values of Table 7 of arXiv:2003.10555, as configure_finetuning.py has."""

    size: str
    learning_rate: float
    layerwise_lr_decay: float


SMALL = Recipe("small", 3e-4, 0.8)
BASE = Recipe("base", 1e-4, 0.8)
LARGE = Recipe("large", 5e-5, 0.9)


def for_size(hidden_size: int) -> Recipe:
    """The recipe of the paper's model that an encoder is at least as wide as.

    Args:
      hidden_size: Of the encoder; 256, 768 and 1024 in the paper.

    Returns:
      The recipe; that of the small model for narrower ones.
    """
    if hidden_size >= 1024:
        return LARGE
    return BASE if hidden_size >= 768 else SMALL


def complete(
    optimizer: configs.OptimizerConfig,
    hidden_size: int,
    learning_rate_is_given: bool = False,
) -> tuple[configs.OptimizerConfig, list[str]]:
    """An optimizer whose rates are chosen, by the encoder's size where None.

    Args:
      optimizer: May leave `learning_rate` and `layerwise_lr_decay` open.
      hidden_size: Of the encoder.
      learning_rate_is_given: Whether each trial brings its own.

    Returns:
      The optimizer, and a line for each choice made here.
    """
    recipe = for_size(hidden_size)
    changes: dict[str, typing.Any] = {}
    notes = []
    for name in ("learning_rate", "layerwise_lr_decay"):
        if getattr(optimizer, name) is None:
            value = getattr(recipe, name)
            changes[name] = value
            if name == "learning_rate" and learning_rate_is_given:
                continue
            notes.append(
                f"{name} {value:g}: the paper's for ELECTRA-"
                f"{recipe.size.capitalize()} (hidden size {hidden_size} here)"
            )
    return dataclasses.replace(optimizer, **changes), notes
