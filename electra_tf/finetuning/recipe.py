"""What to fine-tune with, by the size of the encoder; no TensorFlow."""

import dataclasses
import typing

from electra_tf import configs
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

# For encoders narrower than ELECTRA-Small, which learn little at its rate and
# in as few epochs as it.
TINY = Rates(2e-3, 0.8)
_TINY_EPOCHS, _EPOCHS = 10.0, 3.0

# Where a value is from. One that is the same as the default is called so,
# whoever says it; a length that the checkpoint allows no longer is from there.
SOURCES = ("paper", "released code", "size", "given", "default", "checkpoint")
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


def _is_tiny(hidden_size: int) -> bool:
    return hidden_size < original_settings.MODEL_SIZES["small"]["hidden_size"]


def rates(recipe: str, hidden_size: int) -> Rates:
    """The rates of a recipe."""
    size = size_of(hidden_size)
    if recipe == "paper":
        return TINY if _is_tiny(hidden_size) else PAPER[size]
    chosen: dict[str, typing.Any] = {
        name: original_settings.FINETUNING[name].default
        for name in Rates._fields
    }
    return Rates(**chosen | original_settings.size_settings(size))


def complete(
    optimizer: configs.OptimizerConfig, recipe: str, hidden_size: int
) -> configs.OptimizerConfig:
    """An optimizer whose rates are chosen, by the encoder's size where None."""
    chosen: dict[str, typing.Any] = rates(recipe, hidden_size)._asdict()
    for name in Rates._fields:
        if getattr(optimizer, name) is not None:
            chosen[name] = getattr(optimizer, name)
    return dataclasses.replace(optimizer, **chosen)


def num_train_epochs(config: FinetuningConfig, hidden_size: int) -> float:
    """The epochs of a run, by the encoder's size where they are not given."""
    if config.data.num_train_epochs is not None:
        return config.data.num_train_epochs
    is_by_size = config.recipe == "paper" and _is_tiny(hidden_size)
    return _TINY_EPOCHS if is_by_size else _EPOCHS


def choices(config: FinetuningConfig, hidden_size: int) -> dict[str, Choice]:
    """What the models of a run learn with, and where each value is from.

    Args:
      config: Of the run; rates may be left open.

    Returns:
      Name of the parameter -> its value, a list where the run tries several.
    """
    released: dict[str, object] = {}
    if config.recipe == "released":
        released = {
            name: hparam.default
            for name, hparam in original_settings.FINETUNING.items()
        }
        released |= original_settings.task_settings(config.data.task_names)
        released |= rates("released", hidden_size)._asdict()
    tried = {
        "learning_rate": config.learning_rates,
        "num_train_epochs": config.num_train_epochs_options,
    }
    defaults = {
        field.name: field.default
        for owner in (config.optimizer, config.data)
        for field in dataclasses.fields(owner)
    } | OPTIMIZER
    optimizer = complete(config.optimizer, config.recipe, hidden_size)
    values = {name: getattr(optimizer, name) for name in _OF_OPTIMIZER}
    values |= {name: getattr(config.data, name) for name in _OF_DATA}
    values["num_train_epochs"] = num_train_epochs(config, hidden_size)
    defaults["num_train_epochs"] = _EPOCHS
    chosen = {}
    for name, value in values.items():
        if tried.get(name):
            source, value = "given", list(tried[name])
        elif name in released and value == released[name]:
            source = "released code"
        elif name in Rates._fields and getattr(config.optimizer, name) is None:
            source = "size" if _is_tiny(hidden_size) else "paper"
        elif name == "num_train_epochs" and (
            value != _EPOCHS and config.data.num_train_epochs is None
        ):
            source = "size"
        else:
            source = "default" if value == defaults[name] else "given"
        chosen[name] = Choice(value, source)
    return chosen
