"""Checkpoints and settings of the original ELECTRA code (TensorFlow 1).

The original saves by variable name, and variables here have the same names, so
there is no table to go through: `electra/embeddings/word_embeddings` there is
`electra/embeddings/word_embeddings` here. Its settings are flat keyword
arguments (the `--hparams` of its commands) on top of a model size.
"""

import dataclasses
import os
import typing
from collections.abc import Iterable

import keras
import numpy as np
import tensorflow as tf

from electra_tf import configs

# Table 6 of arXiv:2003.10555; heads are 64 wide and feed-forward layers 4
# times as wide as the hidden vector unless model_hparam_overrides says so.
MODEL_SIZES = {
    "small": {"hidden_size": 256, "num_hidden_layers": 12},
    "base": {"hidden_size": 768, "num_hidden_layers": 12},
    "large": {"hidden_size": 1024, "num_hidden_layers": 24},
}
# The original's only setting that depends on the size by itself.
SMALL_EMBEDDING_SIZE = 128
# What the original takes where a setting is not given.
DEFAULT_MODEL_SIZE = "small"
DEFAULT_VOCAB_SIZE = 30522
DEFAULT_MAX_SEQ_LENGTH = 128
DEFAULT_LEARNING_RATE = 5e-4

# Settings that bear one name in the original and here.
ELECTRA_SETTINGS = (
    "mask_prob",
    "electra_objective",
    "electric_objective",
    "gen_weight",
    "disc_weight",
    "generator_layers",
    "generator_hidden_size",
    "untied_generator",
    "untied_generator_embeddings",
    "uniform_generator",
    "two_tower_generator",
    "disallow_correct",
    "temperature",
)
OPTIMIZER_SETTINGS = (
    "num_warmup_steps",
    "warmup_proportion",
    "lr_decay_power",
    "layerwise_lr_decay",
    "weight_decay_rate",
)


def encoder_config_from_original(config: dict) -> configs.EncoderConfig:
    """The encoder that the original builds from its settings.

    Args:
      config: Settings of the original's pre-training or fine-tuning; the
        original's defaults stand in for what is not given.

    Returns:
      The discriminator's sizes.

    Raises:
      configs.ConfigError: If the model size or an override is unknown.
    """
    model_size = config.get("model_size", DEFAULT_MODEL_SIZE)
    if model_size not in MODEL_SIZES:
        raise configs.ConfigError(
            f"model_size must be one of {', '.join(MODEL_SIZES)}. "
            f"Received: model_size={model_size!r}"
        )
    overrides = dict(config.get("model_hparam_overrides") or {})
    activation = overrides.pop("hidden_act", "gelu")
    if activation != "gelu":
        raise configs.ConfigError(
            "model_hparam_overrides may only ask for hidden_act='gelu'. "
            f"Received: hidden_act={activation!r}"
        )
    sizes = MODEL_SIZES[model_size] | {
        "vocab_size": config.get("vocab_size", DEFAULT_VOCAB_SIZE),
        "embedding_size": config.get(
            "embedding_size",
            SMALL_EMBEDDING_SIZE if model_size == "small" else None,
        ),
    }
    sizes |= overrides
    sizes.setdefault("num_attention_heads", max(1, sizes["hidden_size"] // 64))
    sizes.setdefault("intermediate_size", 4 * sizes["hidden_size"])
    known = {field.name for field in dataclasses.fields(configs.EncoderConfig)}
    unknown = sorted(set(sizes) - known)
    if unknown:
        raise configs.ConfigError(
            f"model_hparam_overrides may set {', '.join(sorted(known))}. "
            f"Received: {', '.join(unknown)}"
        )
    return configs.EncoderConfig(**sizes)


def electra_config_from_original(config: dict) -> configs.ElectraConfig:
    """The pre-training model that the original builds from its settings.

    Settings of the run (batch size, paths, TPU) have no place in it and are
    passed over.

    Args:
      config: Settings of the original's pre-training; the original's defaults
        stand in for what is not given.

    Returns:
      The model's configuration.

    Raises:
      configs.ConfigError: If a value does not fit.
    """
    settings = {
        name: config[name] for name in ELECTRA_SETTINGS if name in config
    }
    return configs.ElectraConfig(
        encoder=encoder_config_from_original(config),
        max_seq_length=config.get("max_seq_length", DEFAULT_MAX_SEQ_LENGTH),
        **settings,
    )


def optimizer_config_from_original(config: dict) -> configs.OptimizerConfig:
    """The optimizer that the original builds from its settings.

    Args:
      config: Settings of the original's pre-training, or all settings of its
        fine-tuning (whose defaults differ and are not filled in here).

    Returns:
      The optimizer's configuration.

    Raises:
      configs.ConfigError: If a value does not fit.
    """
    settings = {
        name: config[name] for name in OPTIMIZER_SETTINGS if name in config
    }
    return configs.OptimizerConfig(
        learning_rate=config.get("learning_rate", DEFAULT_LEARNING_RATE),
        **settings,
    )


# What TensorFlow raises for files that are damaged or cut short.
_READ_ERRORS = (tf.errors.OpError, RuntimeError, IndexError)


class LoadReport(typing.NamedTuple):
    """What became of the tensors of a checkpoint.

    Attributes:
      used: Variables that were loaded.
      unused: Tensors without a variable, such as optimizer slots.
      missing: Variables without a tensor; they keep their values.
    """

    used: tuple[str, ...]
    unused: tuple[str, ...]
    missing: tuple[str, ...]


def read_original_checkpoint(prefix: str) -> dict[str, np.ndarray]:
    """Reads all tensors of a checkpoint of the original.

    Args:
      prefix: Path up to the step, as in "model_dir/model.ckpt-1000"; the path
        of its .index file will do, and so will a folder with a `checkpoint`
        file, which stands for the latest one.

    Returns:
      Variable name -> value.

    Raises:
      ValueError: If there is no such checkpoint, or it cannot be read, or was
        not saved by name.
    """
    reader, shapes = _open(prefix)
    return _read(prefix, reader, shapes)


def load_original_checkpoint(
    prefix: str, variables: Iterable[keras.Variable]
) -> LoadReport:
    """Loads a checkpoint of the original into variables of the same names.

    Nothing is loaded unless everything that has a name in common fits. Names
    that are only in the checkpoint or only among the variables are no error:
    an encoder is loaded for fine-tuning from a whole pre-training checkpoint.
    The caller decides from the report.

    Args:
      prefix: See `read_original_checkpoint`.
      variables: To be assigned.

    Returns:
      The names that were used, unused and missing, sorted.

    Raises:
      ValueError: If the checkpoint cannot be read, or the shape of a tensor is
        not that of its variable.
    """
    reader, shapes = _open(prefix)
    by_name = {variable.path: variable for variable in variables}
    used = sorted(set(by_name) & set(shapes))
    for name in used:
        expected, received = tuple(by_name[name].shape), tuple(shapes[name])
        if expected != received:
            raise ValueError(
                f"{prefix}: variable {name} must have the shape "
                f"{list(expected)}. Received: {list(received)}. "
                "Is the checkpoint of another model size or vocabulary?"
            )
    for name, value in _read(prefix, reader, used).items():
        by_name[name].assign(value)
    return LoadReport(
        used=tuple(used),
        unused=tuple(sorted(set(shapes) - set(by_name))),
        missing=tuple(sorted(set(by_name) - set(shapes))),
    )


def _open(prefix: str):
    """A reader, and name -> shape of all tensors."""
    prefix = os.fspath(prefix).removesuffix(".index")
    if os.path.isdir(prefix):
        latest = tf.train.latest_checkpoint(prefix)
        if latest is None:
            raise ValueError(
                f"{prefix} must be a checkpoint, or a folder with a file "
                "named 'checkpoint'. Received: a folder without one"
            )
        prefix = latest
    if not tf.io.gfile.exists(prefix + ".index"):
        raise ValueError(
            f"No checkpoint at {prefix}: {prefix}.index is missing"
        )
    try:
        reader = tf.train.load_checkpoint(prefix)
        shapes = reader.get_variable_to_shape_map()
    except _READ_ERRORS as error:
        raise _unreadable(prefix, error) from None
    if any(name.endswith("/.ATTRIBUTES/VARIABLE_VALUE") for name in shapes):
        raise ValueError(
            f"{prefix} must be a checkpoint that was saved by variable name, "
            "as the original ELECTRA does. Received: an object-based "
            "checkpoint of TensorFlow 2"
        )
    return reader, shapes


def _read(prefix: str, reader, names: Iterable[str]) -> dict[str, np.ndarray]:
    try:
        return {name: reader.get_tensor(name) for name in names}
    except _READ_ERRORS as error:
        raise _unreadable(prefix, error) from None


def _unreadable(prefix: str, error: Exception) -> ValueError:
    # TensorFlow's message has a stack of lines; the first one tells.
    reason = str(error).splitlines()[0]
    return ValueError(f"Cannot read checkpoint {prefix}: {reason}")
