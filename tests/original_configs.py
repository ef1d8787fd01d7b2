"""The configurations that the original builds from its settings."""

from collections.abc import Mapping

from electra_tf import configs
from electra_tf.command_line import original_settings
from electra_tf.command_line.original_settings import PRETRAINING


def electra_config(settings: Mapping) -> configs.ElectraConfig:
    """The pre-training model that the original builds from its settings.

    The original's defaults stand in for what is not given. Settings of the run
    (batch size, paths, TPU) have no place in it and are passed over.
    """
    fields = _fields("ElectraConfig", settings, PRETRAINING)
    if fields["electric_objective"]:  # It goes first.
        fields["electra_objective"] = False
    encoder = original_settings.encoder_config(settings)
    return configs.ElectraConfig(encoder=encoder, **fields)


def optimizer_config(
    settings: Mapping,
    hparams: Mapping[str, original_settings.Hparam] = PRETRAINING,
) -> configs.OptimizerConfig:
    """The optimizer that the original builds from its settings.

    `hparams` are `PRETRAINING` or `FINETUNING`, whose defaults stand in for
    what is not given.
    """
    fields = _fields("OptimizerConfig", settings, hparams)
    return configs.OptimizerConfig(**fields)


def _fields(owner: str, settings: Mapping, hparams: Mapping):
    """Field of a class -> value."""
    return {
        hparam.parameter.removeprefix(f"{owner}."): settings.get(
            name, hparam.default
        )
        for name, hparam in hparams.items()
        if hparam.parameter.startswith(f"{owner}.")
    }
