"""Pre-training that starts from a checkpoint of any format."""

import dataclasses
import re
from collections.abc import Sequence

import tensorflow as tf

from electra_tf import configs, errors, validation
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
    own. To be called in the strategy's scope. With `keep_global_step` step,
    slots and loss scale are assigned, too.

    Raises:
      ValueError: If the checkpoint cannot be read or does not fit.
    """
    if saving.is_under_way(config.run.model_dir):
        return
    if config.init_checkpoint:
        _start_all(config, vocab, model, optimizer, global_step, loss_scale)
    if config.init_generator_checkpoint:
        _start_generator(config, vocab, model)


def with_own_generator(config):
    """Without the other generator, where init_checkpoint has one itself."""
    tensors = reading.read_checkpoint(config.init_checkpoint).tensors
    if sizes.masked_lm_encoder(tensors) is None:
        return config
    return dataclasses.replace(config, init_generator_checkpoint="")


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
    generator = model.config.generator
    validation.require_same(
        sizes.as_dict(generator),
        sizes.as_dict(checkpoint.encoders.get(scope, generator)),
        f"init_generator_checkpoint {path} has other sizes",
        way_out="The generator must have those of the checkpoint",
    )
    own = ("generator/", "generator_predictions/")
    variables = [v for v in model.variables if v.path.startswith(own)]
    tensors = {
        re.sub(f"^{scope}/", "generator/", name): tensor
        for name, tensor in checkpoint.tensors.items()
    }
    tensors = {
        name: tensor
        for name, tensor in sizes.with_own_tables(tensors).items()
        if name.startswith(own)
    }
    checkpoint = dataclasses.replace(checkpoint, tensors=tensors)
    reading.assign_all(checkpoint, variables, path, "the generator")
    _warn_of_others(config, vocab.tokens, checkpoint)
    _say([f"generator from {path}: {len(variables)} variables"])
    unused = sorted(tensors.keys() - {v.path for v in variables})
    # Shared embeddings are the discriminator's, and may be another's there.
    if unused and not config.init_checkpoint:
        raise errors.ConfigError(
            "PretrainingConfig.init_generator_checkpoint needs ElectraConfig."
            "untied_generator_embeddings=True, or init_checkpoint to take the "
            f"shared embeddings from. Received: {path}, of which nothing would "
            f"take {summarize(unused)}"
        )


def _start_all(
    config, vocab, model, optimizer, global_step, loss_scale
) -> None:
    path = config.init_checkpoint
    local_path = hub.local_path(path)
    checkpoint = reading.read_checkpoint(local_path)
    sizes.require_same(config.model, checkpoint, f"init_checkpoint {path}")
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
        tensors = sizes.with_own_tables(tensors)
    checkpoint = dataclasses.replace(checkpoint, tensors=tensors)
    # A unigram generator draws by the run's own records.
    learned = [v for v in model.variables if v.name != "unigram_log_probs"]
    report = reading.assign(checkpoint, learned, path)
    if not report["used"]:
        raise errors.ConfigError(
            "PretrainingConfig.init_checkpoint must have variables of the "
            f"model. Received: {path}, with {summarize(report['unused'])}"
        )
    title = reading.TITLES[reading.recognise(local_path)]
    lines = [f"started from {path}: {title}"]
    for part, names in report.items():
        listed = f": {summarize(names)}" if names else ""
        lines.append(f"  {part:8} {len(names)}{listed}")
    _warn_of_others(config, vocab.tokens, checkpoint)
    if config.keep_global_step:
        global_step.assign(step)
        # Fewer where steps in float16 were not taken.
        taken = checkpoint.iterations
        num_slots = optimizer.go_on(
            step if taken is None else taken, checkpoint.optimizer
        )
        num_all = len(optimizer.slots())
        lines.append(
            f"  step     {step}, {num_slots} of {num_all} optimizer slots"
        )
        if loss_scale and not loss_scale.go_on(checkpoint.loss_scale):
            errors.warn(
                f"the loss scale begins anew, at {loss_scale.INITIAL:g}: the "
                "checkpoint has none"
            )
    else:
        there = f" (the checkpoint's: {step})" if step else ""
        lines.append(f"  step     0{there}, the learning rate warms up again")
    _say(lines)
    random = [n for n in report["missing"] if n.startswith("generator")]
    is_frozen = config.model.generator_training == "frozen"
    if is_frozen and random and not config.init_generator_checkpoint:
        errors.warn(
            "ElectraConfig.generator_training='frozen' keeps random weights, "
            f"as init_checkpoint {path} lacks {summarize(random)}: "
            "init_generator_checkpoint names a trained generator"
        )


def _warn_of_others(config, tokens, checkpoint) -> None:
    """Warns where a token or the activation is another than here."""
    there = checkpoint.vocabulary.tokens if checkpoint.vocabulary else ()
    vocabulary.warn_of_other_tokens(tokens, there, config.data.vocab_file)
    act = config.model.encoder.hidden_act
    if checkpoint.activations and checkpoint.activations != (act,):
        acts = "/".join(checkpoint.activations)
        errors.warn(f"EncoderConfig.hidden_act={act} (there {acts})")
