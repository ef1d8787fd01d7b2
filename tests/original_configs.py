"""The configurations that the original builds from its settings."""

from collections.abc import Mapping

from electra_tf import configs
from electra_tf.command_line import original_settings
from electra_tf.command_line.original_settings import PRETRAINING


def electra_config(settings: Mapping) -> configs.ElectraConfig:
    """The pre-training model that the original builds from its settings.

    Settings of the run (batch size, paths, TPU) have no place in it and are
    passed over.

    Args:
      settings: Of the original's pre-training; the original's defaults stand
        in for what is not given.

    Returns:
      The model's configuration.

    Raises:
      configs.ConfigError: If a value does not fit.
    """
    return configs.ElectraConfig(
        encoder=original_settings.encoder_config(settings),
        **_fields(
            "ElectraConfig",
            original_settings.with_one_objective(settings),
            PRETRAINING,
        ),
    )


def optimizer_config(
    settings: Mapping,
    hparams: Mapping[str, original_settings.Hparam] = PRETRAINING,
) -> configs.OptimizerConfig:
    """The optimizer that the original builds from its settings.

    Args:
      settings: Of the original; its defaults stand in for what is not given.
      hparams: `PRETRAINING` or `FINETUNING`.

    Returns:
      The optimizer's configuration.

    Raises:
      configs.ConfigError: If a value does not fit.
    """
    return configs.OptimizerConfig(
        **_fields("OptimizerConfig", settings, hparams)
    )


def _fields(
    owner: str,
    settings: Mapping,
    hparams: Mapping[str, original_settings.Hparam],
):
    """Field of a class -> value."""
    return {
        hparam.parameter.removeprefix(f"{owner}."): settings.get(
            name, hparam.default
        )
        for name, hparam in hparams.items()
        if hparam.parameter.startswith(f"{owner}.")
    }
