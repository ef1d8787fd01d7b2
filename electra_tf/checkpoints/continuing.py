"""Pre-training that starts from a checkpoint of any format."""

import dataclasses
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.checkpoints import disentangled, hub, reading, sizes
from electra_tf.checkpoints.checkpoint import summarize
from electra_tf.model import electra
from electra_tf.text import vocabulary
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.training import optimization, replicas, saving


def start_from_init_checkpoint(
    config: configs.PretrainingConfig,
    vocab: Vocabulary,
    model: electra.PretrainingModel,
    optimizer: optimization.AdamWeightDecay,
    global_step: tf.Variable,
    loss_scale: optimization.LossScale | None = None,
) -> None:
    """Loads the checkpoints that a run starts from, and says what it loaded.

    Does nothing without one, and where the run goes on from a checkpoint of its
    own. To be called in the strategy's scope.

    Args:
      config: Of the run.
      vocab: Of the run.
      model: Its variables are assigned.
      optimizer: Its slots and step are assigned with `keep_global_step`.
      global_step: Of the run.
      loss_scale: Of the run; assigned with `keep_global_step`.

    Raises:
      ValueError: If the checkpoint cannot be read or does not fit.
    """
    if saving.is_under_way(config.run.model_dir):
        return
    if config.init_checkpoint:
        _start_all(config, vocab, model, optimizer, global_step, loss_scale)
    if config.init_generator_checkpoint:
        _start_generator(config, vocab, model)


def _say(lines: Sequence[str]) -> None:
    if replicas.is_chief(tf.distribute.get_strategy()):
        print("\n".join(lines))


def _start_generator(config, vocab, model) -> None:
    """Gives the generator the weights of a masked language model."""
    path = config.init_generator_checkpoint
    checkpoint = reading.read_checkpoint(path)
    scope = sizes.masked_lm_encoder(checkpoint.tensors)
    if scope is None:
        raise errors.ConfigError(
            "PretrainingConfig.init_generator_checkpoint must be a masked "
            f"language model. Received: {path}, with "
            f"{summarize(list(checkpoint.tensors))}"
        )
    theirs = checkpoint.encoders.get(scope)
    if theirs is not None:
        found = [
            f"{name}={ours} (there {other})"
            for name, ours, other in sizes.differences(
                model.config.generator, theirs
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
    tensors = _as_generator(checkpoint.tensors, scope)
    reading.assign_all(
        dataclasses.replace(checkpoint, tensors=tensors),
        variables,
        path,
        "the generator",
    )
    notes = _notes(config, vocab.tokens, checkpoint)
    if unused := sorted(tensors.keys() - {v.path for v in variables}):
        # Shared embeddings are the discriminator's, and may be another's there.
        if not config.init_checkpoint:
            raise errors.ConfigError(
                "PretrainingConfig.init_generator_checkpoint needs "
                "ElectraConfig.untied_generator_embeddings=True, or "
                "init_checkpoint to take the shared embeddings from. Received: "
                f"{path}, of which nothing would take {summarize(unused)}"
            )
        notes.append(
            f"from init_checkpoint, as they are shared: {summarize(unused)}"
        )
    lines = [f"generator from {path}: {len(variables)} variables"]
    _say(lines + [f"  note     {note}" for note in notes])


def _as_generator(
    tensors: Mapping[str, np.ndarray], scope: str
) -> dict[str, np.ndarray]:
    """Those of a masked language model, with a generator's names.

    Args:
      tensors: Of a checkpoint; name -> weights.
      scope: Of its encoder. A generator's may share the embedding tables.
    """
    tables = scope if sizes.has_tables(tensors, scope) else "electra"
    found = {}
    for name, tensor in tensors.items():
        first, _, rest = name.partition("/")
        of_table = rest.startswith("embeddings/")
        if first == "generator_predictions":
            found[name] = tensor
        elif first == (tables if of_table else scope):
            found[f"generator/{rest}"] = tensor
    return found


def _start_all(
    config, vocab, model, optimizer, global_step, loss_scale
) -> None:
    """Loads `config.init_checkpoint`."""
    path = config.init_checkpoint
    local_path = hub.local_path(path)
    checkpoint = reading.read_checkpoint(local_path)
    different = sizes.other_sizes(config.model, checkpoint, path)
    if different:
        raise errors.ConfigError(
            f"The model must have the sizes of init_checkpoint {path}. "
            f"Received: {', '.join(different)}"
        )
    step = checkpoint.global_step
    if config.keep_global_step and step is None:
        raise errors.ConfigError(
            "PretrainingConfig.keep_global_step needs a checkpoint that says "
            f"its step. Received: {path}, which does not"
        )
    if config.keep_global_step and step >= config.run.num_train_steps:
        raise errors.ConfigError(
            f"RunConfig.num_train_steps must exceed the step of {path}, {step},"
            " with keep_global_step. Received: "
            f"num_train_steps={config.run.num_train_steps}"
        )
    tensors = checkpoint.tensors
    if config.model.disentangled_embeddings:
        tensors = disentangled.unfold(tensors)
    if config.model.untied_generator_embeddings and checkpoint.generator:
        tensors = _with_own_tables(tensors, model.variables)
    checkpoint = dataclasses.replace(checkpoint, tensors=tensors)
    # A unigram generator draws by the run's own records.
    learned = [v for v in model.variables if v.name != "unigram_log_probs"]
    report = reading.assign(checkpoint, learned, path)
    if not report.used:
        raise errors.ConfigError(
            "PretrainingConfig.init_checkpoint must have variables of the "
            f"model. Received: {path}, with {summarize(report.unused)}"
        )
    title = reading.TITLES[reading.recognise(local_path)]
    lines = [f"started from {path}: {title}"]
    for what, names in report._asdict().items():
        listed = f": {summarize(names)}" if names else ""
        lines.append(f"  {what:8} {len(names)}{listed}")
    if config.keep_global_step:
        global_step.assign(step)
        # Fewer where steps in float16 were not taken.
        taken = checkpoint.iterations
        iterations = step if taken is None else taken
        num_found = optimizer.go_on(iterations, checkpoint.optimizer)
        num_slots = len(optimizer.slots())
        lines.append(
            f"  step     {step}, {num_found} of {num_slots} optimizer slots"
        )
    else:
        lines.append(
            "  step     0"
            + (f" (the checkpoint's: {step})" if step else "")
            + ", the learning rate warms up again"
        )
    notes = _notes(config, vocab.tokens, checkpoint)
    if (
        config.keep_global_step
        and loss_scale
        and not loss_scale.go_on(checkpoint.loss_scale)
    ):
        notes.append(
            f"the loss scale begins anew, at {loss_scale.INITIAL:g}: the "
            "checkpoint has none"
        )
    lines += [f"  note     {note}" for note in notes]
    _say(lines + _frozen_at_random(config, report.missing))


def _frozen_at_random(config, missing: Sequence[str]) -> list[str]:
    """A warning where a generator that rests was not trained before."""
    random = [name for name in missing if name.startswith("generator")]
    is_frozen = config.model.generator_training == "frozen"
    if not is_frozen or not random or config.init_generator_checkpoint:
        return []
    return [
        "warning: ElectraConfig.generator_training='frozen' keeps random "
        f"weights, as init_checkpoint {config.init_checkpoint} lacks "
        f"{summarize(random)}: init_generator_checkpoint names a trained "
        "generator"
    ]


def _with_own_tables(
    tensors: Mapping[str, np.ndarray], variables: Sequence[keras.Variable]
) -> dict[str, np.ndarray]:
    """Those of a generator that shares the tables, with a copy of these."""
    found = dict(tensors)
    for name in (v.path for v in variables):
        stored = sizes.stored_name(tensors, name)
        if stored in tensors:
            found[name] = tensors[stored]
    return found


def _notes(config, tokens, checkpoint) -> list[str]:
    """Remarks of the checkpoint, and where a token or activation is another."""
    notes = list(checkpoint.remarks)
    theirs = checkpoint.vocabulary.tokens if checkpoint.vocabulary else ()
    notes += vocabulary.other_tokens(tokens, theirs, config.data.vocab_file)
    ours = config.model.encoder.hidden_act
    if checkpoint.activations and checkpoint.activations != (ours,):
        notes.append(
            f"EncoderConfig.hidden_act={ours} (there "
            f"{'/'.join(checkpoint.activations)})"
        )
    return notes
