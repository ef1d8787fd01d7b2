"""What a pre-training model is made of: arguments, runs, checkpoints."""

import dataclasses
import os
from collections.abc import Mapping

import numpy as np

from electra_tf import configs, errors, model_directory
from electra_tf.checkpoints import disentangled, sizes
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.keras_models import optimizers
from electra_tf.keras_models.encoder import sizes_from
from electra_tf.keras_models.preprocessor import Preprocessor
from electra_tf.model import electra
from electra_tf.training import optimization

_ENCODER_FIELDS = {f.name for f in dataclasses.fields(configs.EncoderConfig)}

# Of the paper's small model; the warm-up has its share of the steps, too.
DEFAULT_OPTIMIZER = configs.OptimizerConfig(
    learning_rate=5e-4, warmup_proportion=0.01
)


def model_config(
    preprocessor: Preprocessor, settings: dict
) -> configs.ElectraConfig:
    """The settings, by the class that they belong to."""
    encoder = {n: x for n, x in settings.items() if n in _ENCODER_FIELDS}
    encoder = {"vocab_size": preprocessor.vocabulary_size} | encoder
    known = {f.name for f in dataclasses.fields(configs.ElectraConfig)}
    unknown = set(settings) - _ENCODER_FIELDS - (known - {"encoder"})
    if unknown:
        raise ValueError(
            "Expected the settings of EncoderConfig and ElectraConfig. "
            f"Received: {', '.join(sorted(unknown))}"
        )
    if encoder["vocab_size"] != preprocessor.vocabulary_size:
        raise ValueError(
            "Expected vocab_size to be that of the preprocessor, "
            f"{preprocessor.vocabulary_size}. Received: "
            f"vocab_size={encoder['vocab_size']}"
        )
    model = {n: x for n, x in settings.items() if n not in _ENCODER_FIELDS}
    model = {"max_seq_length": preprocessor.max_seq_length} | model
    return configs.ElectraConfig(encoder=sizes_from(encoder), **model)


def optimizer_config(
    asked, learning_rate: float | None = None
) -> configs.OptimizerConfig:
    """What `PretrainingModel.compile` was asked for.

    Raises:
      ValueError: If it is neither "auto" nor a configuration, or has rates by
        layer.
    """
    config = DEFAULT_OPTIMIZER
    if isinstance(asked, configs.OptimizerConfig):
        optimization.refuse_layerwise_rates(asked)
        config = asked
    elif not isinstance(asked, str) or asked != "auto":
        raise ValueError(
            "Expected optimizer to be 'auto', a configs.OptimizerConfig or an "
            "optimization.AdamWeightDecay, the optimizer that ELECTRA has. "
            f"Received: optimizer={asked!r}"
        )
    if learning_rate is None:
        return config
    return dataclasses.replace(
        config, learning_rate=optimizers.peak_rate(learning_rate)
    )


def run_config(path: str | os.PathLike) -> configs.PretrainingConfig | None:
    """The configuration of a pre-training run; None where there was none."""
    folder = model_directory.folder_of(path)
    try:
        record = model_directory.read_config(folder) if folder else {}
    except errors.ConfigError:
        return None
    if folder is None or record.get("class") != "PretrainingConfig":
        return None
    return model_directory.read_pretraining_config(folder)


def settings_of(run: configs.PretrainingConfig) -> dict:
    """Of the model of a run, for `model_config`."""
    settings = dataclasses.asdict(run.model)
    return settings.pop("encoder") | settings


def settings_in(checkpoint: Checkpoint, source: str, asked: Mapping) -> dict:
    """What a checkpoint says of the model that it was trained as.

    Args:
      checkpoint: Of any format.
      source: What messages call it.
      asked: Settings that go before these. Of disentangled embeddings a
        checkpoint has a table for each network.

    Raises:
      CheckpointError: If it lacks one of the two networks.
    """
    generator, encoder = checkpoint.generator, checkpoint.discriminator
    if generator is None or encoder is None:
        missing = "generator" if generator is None else "discriminator"
        raise errors.CheckpointError(
            "Expected a checkpoint with a generator and a discriminator. "
            f"Received: {source}, without a {missing}"
        )
    settings = dataclasses.asdict(encoder) | {
        "generator_hidden_size": generator.hidden_size / encoder.hidden_size,
        "generator_layers": (
            generator.num_hidden_layers / encoder.num_hidden_layers
        ),
        "untied_generator_embeddings": (
            "generator/embeddings/word_embeddings" in checkpoint.tensors
            and not asked.get("disentangled_embeddings")
        ),
    }
    if checkpoint.max_seq_length is not None:
        settings["max_seq_length"] = checkpoint.max_seq_length
    return settings


def as_trained(
    checkpoint: Checkpoint, config: configs.ElectraConfig
) -> Checkpoint:
    """A checkpoint with the tables that a model of that kind trains."""
    if not config.disentangled_embeddings:
        return checkpoint
    return dataclasses.replace(
        checkpoint, tensors=disentangled.unfold(checkpoint.tensors)
    )


def slots_of(
    optimizer: optimization.AdamWeightDecay, config: configs.ElectraConfig
) -> dict:
    """The slots of a checkpoint; none of tables that it does not have."""
    if config.disentangled_embeddings or not optimizer.built:
        return {}
    return optimizer.slots()


def refuse_arguments(kwargs: Mapping) -> None:
    """Refuses arguments of Keras's `fit` that mean nothing here."""
    known = {"callbacks", "verbose", "validation_freq"}
    unknown = [name for name in kwargs if name not in known]
    if unknown:
        raise ValueError(
            f"Expected of fit's arguments {', '.join(sorted(known))}: there "
            f"are no labels. Received: {', '.join(unknown)}"
        )


def refuse_unknown_frequencies(network: electra.PretrainingModel) -> None:
    """Refuses a unigram generator that would draw all tokens alike."""
    if not network.config.unigram_generator:
        return
    if not np.any(network.unigram_log_probs.numpy()):
        raise ValueError(
            "Expected set_unigram_generator(model.data(...)) before a "
            "dataset, which does not tell how frequent tokens are. Received: "
            "unigram_generator=True without it"
        )


def refuse_other_generator(
    config: configs.ElectraConfig, checkpoint: Checkpoint, source: str
) -> None:
    """Refuses weights of a generator that is built otherwise here.

    Its heads are one for each 64 of its width, and it has the discriminator's
    activation, as in the original; neither is in a tensor's shape.

    Args:
      config: Of the model.
      checkpoint: Of both networks.
      source: What messages call it.

    Raises:
      CheckpointError: If the model would compute other things.
    """
    theirs, whole = checkpoint.generator, checkpoint.discriminator
    if not config.untied_generator or theirs is None or whole is None:
        return
    ignore = {"num_attention_heads"} & set(checkpoint.assumed)
    found = [
        f"{name}={there} (here {ours})"
        for name, ours, there in sizes.differences(
            config.generator, theirs, ignore
        )
    ]
    if theirs.hidden_act != whole.hidden_act:
        found.append(
            f"hidden_act={theirs.hidden_act} (that of the discriminator "
            f"{whole.hidden_act})"
        )
    if found:
        raise errors.CheckpointError(
            "Expected the generator that the original builds beside such a "
            f"discriminator. Received: {source}, whose generator has "
            f"{', '.join(found)}"
        )
