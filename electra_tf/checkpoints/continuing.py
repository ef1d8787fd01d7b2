"""Pre-training that starts from a checkpoint of any format."""

import dataclasses
import re
from collections.abc import Sequence

import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.checkpoints import disentangled, reading, sizes
from electra_tf.checkpoints.checkpoint import summarize
from electra_tf.model import electra
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.training import optimization


def start_from_init_checkpoint(
    config: configs.PretrainingConfig,
    vocab: Vocabulary,
    model: electra.PretrainingModel,
    optimizer: optimization.AdamWeightDecay,
    global_step: tf.Variable,
) -> None:
    """Loads the checkpoints that a run starts from, and says what it loaded.

    Does nothing without one, and where the run has a checkpoint of its own. To
    be called in the strategy's scope.

    Args:
      config: Of the run.
      vocab: Of the run.
      model: Its variables are assigned.
      optimizer: Its slots and step are assigned with `keep_global_step`.
      global_step: Of the run.

    Raises:
      ValueError: If the checkpoint cannot be read or does not fit.
    """
    if tf.train.latest_checkpoint(config.run.model_dir):
        return
    if config.init_checkpoint:
        _start_all(config, vocab, model, optimizer, global_step)
    if config.init_generator_checkpoint:
        _start_generator(config, model)


def _say(lines: Sequence[str]) -> None:
    if tf.distribute.get_strategy().extended.should_checkpoint:  # The chief.
        print("\n".join(lines))


def _start_generator(
    config: configs.PretrainingConfig, model: electra.PretrainingModel
) -> None:
    """Gives the generator the weights of a masked language model."""
    path = config.init_generator_checkpoint
    checkpoint = reading.read_checkpoint(path)
    tensors = {
        re.sub("^electra/", "generator/", name): tensor
        for name, tensor in checkpoint.tensors.items()
        if name.startswith(("electra/", "generator_predictions/"))
    }
    if "generator_predictions/output_bias" not in tensors:
        raise errors.ConfigError(
            "PretrainingConfig.init_generator_checkpoint must be a masked "
            f"language model. Received: {path}, with "
            f"{summarize(list(checkpoint.tensors))}"
        )
    if checkpoint.discriminator is not None:
        found = [
            f"{name}={ours} (there {theirs})"
            for name, ours, theirs in sizes.differences(
                config.model.generator, checkpoint.discriminator
            )
        ]
        if found:
            raise errors.ConfigError(
                "The generator must have the sizes of "
                f"init_generator_checkpoint {path}. Received: "
                f"{', '.join(found)}"
            )
    variables = [
        v
        for v in model.variables
        if v.path.startswith(("generator/", "generator_predictions/"))
    ]
    reading.assign_all(
        dataclasses.replace(checkpoint, tensors=tensors),
        variables,
        path,
        "the generator",
    )
    _say([f"generator from {path}: {len(variables)} variables"])


def _start_all(config, vocab, model, optimizer, global_step) -> None:
    """Loads `config.init_checkpoint`."""
    path = config.init_checkpoint
    checkpoint = reading.read_checkpoint(path)
    different = sizes.other_sizes(config.model, checkpoint, path)
    if different:
        raise errors.ConfigError(
            f"The model must have the sizes of init_checkpoint {path}. "
            f"Received: {', '.join(different)}"
        )
    if config.model.disentangled_embeddings:
        checkpoint = dataclasses.replace(
            checkpoint, tensors=disentangled.unfold(checkpoint.tensors)
        )
    report = reading.assign(checkpoint, model.variables, path)
    if not report.used:
        raise errors.ConfigError(
            "PretrainingConfig.init_checkpoint must have variables of the "
            f"model. Received: {path}, with {summarize(report.unused)}"
        )
    lines = [f"started from {path}: {reading.TITLES[reading.recognise(path)]}"]
    lines.append(f"  used     {len(report.used)}: {summarize(report.used)}")
    for what, names in (("unused", report.unused), ("missing", report.missing)):
        listed = f": {summarize(names)}" if names else ""
        lines.append(f"  {what:8} {len(names)}{listed}")
    if config.keep_global_step:
        lines.append(_keep_step(config, checkpoint, optimizer, global_step))
    else:
        trained = checkpoint.global_step
        lines.append(
            "  step     0"
            + (f" (the checkpoint's: {trained})" if trained else "")
            + ", the learning rate warms up again"
        )
    note = [f"  note     {remark}" for remark in checkpoint.notes]
    note += _compare_vocabulary(config, vocab, checkpoint)
    ours = config.model.encoder.hidden_act
    if checkpoint.activations and checkpoint.activations != (ours,):
        note.append(
            f"  note     EncoderConfig.hidden_act={ours} (there "
            f"{'/'.join(checkpoint.activations)})"
        )
    _say([*lines, *note])


def _keep_step(config, checkpoint, optimizer, global_step) -> str:
    """Sets the step, and the optimizer's slots as far as there are any."""
    step = checkpoint.global_step
    if step is None:
        raise errors.ConfigError(
            "PretrainingConfig.keep_global_step needs a checkpoint that says "
            f"its step. Received: {config.init_checkpoint}, which does not"
        )
    if step >= config.run.num_train_steps:
        raise errors.ConfigError(
            "RunConfig.num_train_steps must exceed the step of "
            f"{config.init_checkpoint}, {step}, with keep_global_step. "
            f"Received: num_train_steps={config.run.num_train_steps}"
        )
    global_step.assign(step)
    optimizer.iterations.assign(step)
    slots = optimizer.slots()
    found = [name for name in slots if name in checkpoint.optimizer]
    for name in found:
        slots[name].assign(checkpoint.optimizer[name])
    return f"  step     {step}, {len(found)} of {len(slots)} optimizer slots"


def _compare_vocabulary(config, vocab, checkpoint) -> list[str]:
    """A remark where a token has another id there."""
    if checkpoint.vocabulary is None:
        return []
    tokens = vocab.tokens
    pairs = zip(tokens, checkpoint.vocabulary.tokens, strict=False)
    other = [i for i, (ours, theirs) in enumerate(pairs) if ours != theirs]
    if not other:
        return []
    first = other[0]
    return [
        f"  note     {len(other)} tokens of {config.data.vocab_file} are "
        f"others there, such as {tokens[first]!r} for "
        f"{checkpoint.vocabulary.tokens[first]!r} with the id {first}"
    ]
