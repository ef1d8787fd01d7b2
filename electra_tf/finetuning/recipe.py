"""What to fine-tune with, by the size of the encoder; no TensorFlow."""

import dataclasses
import typing
from collections.abc import Mapping

from electra_tf import configs, errors
from electra_tf.command_line import original_settings
from electra_tf.finetuning.configs import OPTIMIZER, FinetuningConfig


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
_WHOSE = {"paper": "the paper's", "released": "the released code's"}

# Where a value is from. One that is the same as the default is called so,
# whoever says it; a length that the checkpoint allows no longer is from there.
SOURCES = ("paper", "released code", "given", "default", "checkpoint")
# Of `configs.OptimizerConfig` and of `FinetuningDataConfig`: what decides how
# well a model learns.
_OF_OPTIMIZER = (
    *("learning_rate", "layerwise_lr_decay", "warmup_proportion"),
    *("num_warmup_steps", "weight_decay_rate", "lr_decay_power"),
)
_OF_DATA = ("num_train_epochs", "max_seq_length", "train_batch_size")


class Choice(typing.NamedTuple):
    """A value, and where it is from: one of `SOURCES`."""

    value: typing.Any
    source: str

    def __str__(self) -> str:
        return f"{listed(self.value)} ({self.source})"


def listed(value: object) -> str:
    """A value, or those that are tried: '0.0001 or 0.0003'."""
    values = value if isinstance(value, list) else [value]
    return " or ".join(
        f"{v:g}" if isinstance(v, int | float) else str(v) for v in values
    )


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
    size = size_of(hidden_size).capitalize()
    changes: dict[str, typing.Any] = {}
    notes = []
    for name, value in rates(recipe, hidden_size)._asdict().items():
        if getattr(optimizer, name) is None:
            changes[name] = value
            if name != "learning_rate" or not learning_rate_is_given:
                notes.append(
                    f"{name} {value:g}: {_WHOSE[recipe]} for ELECTRA-{size} "
                    f"(hidden size {hidden_size} here)"
                )
    return dataclasses.replace(optimizer, **changes), notes


def warn_of_grids(config: FinetuningConfig) -> None:
    """Warns of each single value that a grid takes the place of."""
    rate, epochs = config.optimizer.learning_rate, config.data.num_train_epochs
    given: dict = {"learning_rate": rate}
    if epochs != type(config.data).num_train_epochs:
        given["num_train_epochs"] = epochs
    for name, grid in _grids(config).items():
        value = given.get(name)
        if grid and value is not None and value not in grid:
            tried = ", ".join(f"{other:g}" for other in grid)
            errors.warn(
                f"{name} {value:g} gives way to {tried}, which are tried"
            )


def _grids(config: FinetuningConfig) -> dict[str, tuple[float, ...]]:
    """What is tried instead of a single value; empty where nothing is."""
    return {
        "learning_rate": config.learning_rates,
        "num_train_epochs": config.num_train_epochs_options,
    }


def warn_of_defaults(
    task_name: str, choices: Mapping[str, Choice], num_positions: int
) -> None:
    """Warns where the released code has other values for a task of its own.

    Args:
      task_name: Of the only task.
      choices: Of `choices`; what was given is meant.
      num_positions: Of the encoder, whose texts are no longer.
    """
    theirs: dict[str, typing.Any] = original_settings.of_task((task_name,))
    if "max_seq_length" in theirs:
        theirs["max_seq_length"] = min(theirs["max_seq_length"], num_positions)
    ours = {
        name: choices[name].value
        for name, value in theirs.items()
        if choices[name].source == "default" and choices[name].value != value
    }
    if ours:
        here, there = (
            ", ".join(f"{name} {listed(values[name])}" for name in ours)
            for values in (ours, theirs)
        )
        errors.warn(
            f"{task_name}: {here} by default; for this task alone the released "
            f"code, and gin/finetune/{task_name}.gin, have {there}"
        )


def choices(config: FinetuningConfig, hidden_size: int) -> dict[str, Choice]:
    """What the models of a run learn with, and where each value is from.

    Args:
      config: Of the run; rates may be left open.
      hidden_size: Of the encoder.

    Returns:
      Name of the parameter -> its value, a list where the run tries several.
    """
    released: dict[str, object] = {}
    if config.recipe == "released":
        released = {
            name: hparam.default
            for name, hparam in original_settings.FINETUNING.items()
        }
        released |= original_settings.of_task(config.data.task_names)
        released |= rates("released", hidden_size)._asdict()
    tried = _grids(config)
    defaults = {
        field.name: field.default
        for owner in (config.optimizer, config.data)
        for field in dataclasses.fields(owner)
    } | OPTIMIZER
    optimizer = config.optimizer
    chosen = rates(config.recipe, hidden_size)._asdict()
    values = {
        name: chosen[name]
        if name in chosen and getattr(optimizer, name) is None
        else getattr(optimizer, name)
        for name in _OF_OPTIMIZER
    }
    values |= {name: getattr(config.data, name) for name in _OF_DATA}
    found = {}
    for name, value in values.items():
        if tried.get(name):
            source, value = "given", list(tried[name])
        elif name in released and value == released[name]:
            source = "released code"
        elif name in Rates._fields and getattr(config.optimizer, name) is None:
            source = "paper"
        else:
            source = "default" if value == defaults[name] else "given"
        found[name] = Choice(value, source)
    return found
