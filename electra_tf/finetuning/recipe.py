"""What to fine-tune with, by the size of the encoder; no TensorFlow."""

import dataclasses
import typing

from electra_tf import configs
from electra_tf.command_line import original_settings


class Rates(typing.NamedTuple):
    """What depends on the size of the encoder."""

    learning_rate: float
    layerwise_lr_decay: float


# Table 7 of arXiv:2003.10555.
PAPER = {
    "small": Rates(3e-4, 0.8),
    "base": Rates(1e-4, 0.8),
    "large": Rates(5e-5, 0.9),
}
_SOURCES = {"paper": "the paper's", "released": "the released code's"}


def size_of(hidden_size: int) -> str:
    """The paper's model that an encoder is at least as wide as.

    Args:
      hidden_size: Of the encoder; 256, 768 and 1024 in the paper.

    Returns:
      "small", "base" or "large"; "small" for narrower ones.
    """
    fitting = [
        name
        for name, sizes in original_settings.MODEL_SIZES.items()
        if sizes["hidden_size"] <= hidden_size
    ]
    return fitting[-1] if fitting else "small"


def rates(recipe: str, hidden_size: int) -> Rates:
    """The rates of a recipe.

    Args:
      recipe: One of `configs.RECIPES`.
      hidden_size: Of the encoder.
    """
    size = size_of(hidden_size)
    if recipe == "paper":
        return PAPER[size]
    chosen: dict[str, typing.Any] = {
        name: original_settings.FINETUNING[name].default
        for name in Rates._fields
    }
    return Rates(**chosen | original_settings.of_model_size(size))


def complete(
    optimizer: configs.OptimizerConfig,
    recipe: str,
    hidden_size: int,
    learning_rate_is_given: bool = False,
) -> tuple[configs.OptimizerConfig, list[str]]:
    """An optimizer whose rates are chosen, by the encoder's size where None.

    Args:
      optimizer: May leave `learning_rate` and `layerwise_lr_decay` open.
      recipe: One of `configs.RECIPES`.
      hidden_size: Of the encoder.
      learning_rate_is_given: Whether each trial brings its own.

    Returns:
      The optimizer, and a line for each choice made here.
    """
    size = size_of(hidden_size)
    changes: dict[str, typing.Any] = {}
    notes = []
    for name, value in rates(recipe, hidden_size)._asdict().items():
        if getattr(optimizer, name) is None:
            changes[name] = value
            if name == "learning_rate" and learning_rate_is_given:
                continue
            notes.append(
                f"{name} {value:g}: {_SOURCES[recipe]} for ELECTRA-"
                f"{size.capitalize()} (hidden size {hidden_size} here)"
            )
    return dataclasses.replace(optimizer, **changes), notes
