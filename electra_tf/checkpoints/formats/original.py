"""Checkpoints and settings of the original ELECTRA code (TensorFlow 1).

The original saves by variable name, and variables here have the same names, so
there is no table to go through: `electra/embeddings/word_embeddings` there is
`electra/embeddings/word_embeddings` here. Its settings are flat keyword
arguments (the `--hparams` of its commands) on top of a model size.
"""

import dataclasses
import os
import typing
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from electra_tf import configs, errors, files
from electra_tf.checkpoints import sizes, task_heads, tensor_files
from electra_tf.checkpoints.checkpoint import Checkpoint, summarize
from electra_tf.command_line import original_settings
from electra_tf.errors import CheckpointError
from electra_tf.files import read_json, write_json
from electra_tf.model.task_head import TAGGING_SEGMENT, TaskHead
from electra_tf.text import vocabulary

# Beside the weights: what the original's --hparams takes, ...
HPARAMS_FILE = "hparams.json"
# ... and what it never writes down of a fine-tuned head.
HEAD_FILE = "head.json"

# What is read of the former here; the rest `original_settings` looks at.
_HPARAMS = {
    **dict.fromkeys(("do_lower_case", "electric_objective"), bool),
    **{"two_tower_generator": bool, "max_seq_length": int},
}
_SLOTS = ("/adam_m", "/adam_v")


def recognise(path: str) -> bool:
    """Whether a path is a checkpoint that was saved by variable name."""
    prefix = tensor_files.find(path)
    return prefix is not None and not tensor_files.is_object_based(prefix)


def read(path: str, hparams: dict | None = None) -> Checkpoint:
    """Reads weights, optimizer slots, step, heads and what lies beside them.

    Beside the weights, `vocab.txt` and `hparams.json` are read where they are:
    the latter is what the original's --hparams takes, or fields of
    `configs.EncoderConfig` alone, and says how many heads the attention has
    where these are not 64 wide. Of several fine-tuned heads, the first one by
    name is `head`; the others are among the tensors.

    Args:
      path: Up to the step, as in "model_dir/model.ckpt-1000", or a folder whose
        file `checkpoint` names the latest one.
      hparams: Take the place of hparams.json.

    Raises:
      CheckpointError: If it cannot be read, or is not an ELECTRA.
    """
    saved = open_by_name(path)
    prefix = saved.prefix
    folder = os.path.dirname(prefix)
    sizes.refuse_other_architecture(saved, prefix)
    names = sorted(set(saved) - {"global_step"})
    slots = {name: name for name in names if name.endswith(_SLOTS)}
    tensors = {
        name: saved[name]
        for name in names
        if name not in slots and name.split("/")[0] in sizes.SCOPES
    }
    unused = tuple(n for n in names if n not in slots and n not in tensors)
    hparams_file = os.path.join(folder, HPARAMS_FILE)
    if hparams is None and os.path.exists(hparams_file):
        hparams = read_json(hparams_file)
    hparams = hparams or {}
    said = _encoder_settings(hparams, prefix)
    generator_says = {
        name: said[name]
        for name in sizes.NOT_IN_TENSORS
        if name in said and name != "num_attention_heads"
    }
    checkpoint = sizes.read_sizes(
        tensors, prefix, {"electra": said, "generator": generator_says}
    )
    if unused:
        errors.warn(f"{prefix}: nothing reads {summarize(unused)}")
    vocab_file = os.path.join(folder, vocabulary.VOCAB_FILE)
    vocab, lower = vocabulary.read(vocab_file), hparams.get("do_lower_case")
    if vocab is not None and lower is not None:
        if vocab.do_lower_case not in (None, lower):
            errors.warn(
                f"{os.path.basename(vocabulary.settings_file(vocab_file))} "
                f"says do_lower_case={vocab.do_lower_case}, the hparams "
                f"{lower}, which counts"
            )
        vocab = dataclasses.replace(vocab, do_lower_case=lower)
    step = saved.get("global_step")
    is_plain = False if hparams.get("two_tower_generator") else None
    return dataclasses.replace(
        checkpoint,
        head=_read_head(tensors, hparams, folder, prefix),
        optimizer=saved.select(slots),
        global_step=None if step is None else int(step),
        vocabulary=vocab,
        unused=unused,
        other_head=next((n for n in unused if n.endswith("/kernel")), ""),
        max_seq_length=hparams.get("max_seq_length"),
        is_electric=hparams.get("electric_objective", is_plain),
    )


def write(checkpoint: Checkpoint, path: str) -> None:
    """Writes a checkpoint that the original code reads and trains on from.

    Its names are those of the tensors, bit by bit as they are.

    Raises:
      CheckpointError: If the original has no such generator.
    """
    _refuse_other_generators(checkpoint)
    _warn_of_others(checkpoint)
    os.makedirs(path, exist_ok=True)
    name = f"model.ckpt-{checkpoint.global_step or 0}"
    step = {}
    if checkpoint.global_step is not None:
        step["global_step"] = np.array(checkpoint.global_step, np.int64)
    write_by_name(
        os.path.join(path, name),
        checkpoint.tensors,
        checkpoint.optimizer,
        step,
    )
    tensor_files.write_checkpoint_file(path, name)
    if checkpoint.vocabulary is not None:
        vocabulary.write(checkpoint.vocabulary, path)
    if checkpoint.discriminator is not None:
        write_json(os.path.join(path, HPARAMS_FILE), _hparams(checkpoint))
    if checkpoint.head is not None:
        write_json(
            os.path.join(path, HEAD_FILE), dataclasses.asdict(checkpoint.head)
        )


def _warn_of_others(checkpoint: Checkpoint) -> None:
    """Warns of what the original would compute otherwise."""
    if "gelu_new" in checkpoint.activations:
        errors.warn(
            "the original computes GELU with the error function, this model by "
            "its tanh approximation: outputs differ from about the fourth "
            "digit on"
        )
    if (head := checkpoint.head) is None:
        return
    is_moved = head.kind == "tagging" and head.segment_of_words() != (
        TAGGING_SEGMENT
    )
    others = {
        f"pooling={head.pooling}": head.pooling != configs.DEFAULT_POOLING,
        "a hidden layer": head.hidden_activation is not None,
        f"segment={head.segment}": is_moved,
        "windows": "windows" in head.options,
    }
    if any(others.values()):
        said = ", ".join(what for what, is_so in others.items() if is_so)
        errors.warn(
            f"the head {head.task_name!r} has {said}, unlike the original"
        )


def _refuse_other_generators(checkpoint: Checkpoint) -> None:
    """Its settings cannot say these sizes, so it would compute other things."""
    tensors, discriminator = checkpoint.tensors, checkpoint.discriminator
    towers = sizes.tower_config(tensors, "the checkpoint")
    config = checkpoint.generator or towers
    if config is None:
        return
    width = config.hidden_size
    # All that is not said here is the discriminator's.
    expected = sizes.as_dict(discriminator or config) | {
        "hidden_size": width,
        "num_hidden_layers": config.num_hidden_layers,
        "embedding_size": (
            width if _has_own_tables(tensors) else config.embedding_size
        ),
        "num_attention_heads": sizes.usual_heads(width),
        "intermediate_size": 4 * width,
    }
    received = sizes.as_dict(config)
    if towers is None:
        # A generator alone has no settings beside it that say another.
        expected["hidden_act"] = (
            _hidden_act(discriminator) if discriminator else "gelu"
        )
        received["hidden_act"] = _hidden_act(config)
    for name, value in expected.items():
        if received[name] != value:
            alone = "" if discriminator else " and no discriminator"
            raise CheckpointError(
                f"The original has no generator of hidden_size={width} with "
                f"another {name} than {value}{alone}. Received: "
                f"{received[name]}; leave the generator behind with "
                "--encoder-only"
            )


def _hidden_act(config: configs.EncoderConfig) -> str:
    """What the original computes: it has one GELU."""
    return "gelu" if config.hidden_act == "gelu_new" else config.hidden_act


def _has_own_tables(tensors: Mapping[str, np.ndarray]) -> bool:
    """Whether a generator, or its towers, share no embeddings."""
    scopes = ("generator", *sizes.TOWERS)
    return any(sizes.has_tables(tensors, scope) for scope in scopes)


def write_by_name(prefix: str, *parts: Mapping[str, np.ndarray]) -> None:
    """Writes tensors, name -> value, as TensorFlow 1's Saver does."""
    part_of = {name: part for part in parts for name in part}
    names = sorted(part_of)
    with tf.device("cpu"):
        tf.raw_ops.SaveV2(
            prefix=prefix,
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            # A constant would keep the array that it was made of as well.
            tensors=[
                tf.Variable(part_of[name][name]).read_value() for name in names
            ],
        )


def _encoder_settings(hparams: dict, prefix: str) -> dict[str, typing.Any]:
    """What the original's settings say of the encoder: field -> value."""
    source = f"The settings of {prefix}"
    files.check_fields(hparams, source, **_HPARAMS)
    names = {*original_settings.PRETRAINING, *original_settings.FINETUNING}
    fields = {field.name for field in dataclasses.fields(configs.EncoderConfig)}
    if unknown := hparams.keys() - names - fields:
        raise CheckpointError(
            f"{source}: unknown hparam {min(unknown)}."
            + errors.did_you_mean(min(unknown), sorted(names))
        )
    if not hparams or hparams.keys() & (fields - names):
        return {n: hparams[n] for n in fields & hparams.keys()}
    try:
        return dataclasses.asdict(original_settings.encoder_config(hparams))
    except errors.ConfigError as error:
        raise CheckpointError(f"{source}: {error}") from None


def _read_head(
    tensors: Mapping[str, np.ndarray], hparams: dict, folder: str, source: str
) -> TaskHead | None:
    tasks = task_heads.task_names(tensors)
    if not tasks:
        return None
    path = os.path.join(folder, HEAD_FILE)
    if os.path.exists(path):
        return task_heads.head_from_dict(read_json(path), path)
    head = task_heads.recognise(tensors, tasks[0], source)
    if head.kind != "question_answering":
        return head
    fields = dataclasses.fields(configs.QuestionAnsweringConfig)
    said = {f.name: hparams[f.name] for f in fields if f.name in hparams}
    task_heads.check_options(head.kind, said, f"the settings of {source}")
    if not head.options["answerable_classifier"]:
        said.pop("answerable_uses_start_logits", None)  # Which it would use.
    for name, value in head.options.items():
        if said.get(name, value) != value:
            raise CheckpointError(
                f"The settings of {source} say {name}={said[name]}, but its "
                f"head has {name}={value}"
            )
    return dataclasses.replace(head, options=said | head.options)


def _hparams(checkpoint: Checkpoint) -> dict:
    """What the original's --hparams must say to build the same networks."""
    config = checkpoint.encoders["electra"]
    overrides = dataclasses.asdict(config)
    overrides["hidden_act"] = _hidden_act(config)
    if overrides["hidden_act"] == "gelu":
        del overrides["hidden_act"]  # The original's default.
    model_sizes = {
        size["hidden_size"]: name
        for name, size in original_settings.MODEL_SIZES.items()
    }
    hparams: dict = {
        "model_size": model_sizes.get(config.hidden_size, "small"),
        "vocab_size": overrides.pop("vocab_size"),
        "embedding_size": overrides.pop("embedding_size"),
        "model_hparam_overrides": overrides,
    }
    if checkpoint.max_seq_length is not None:
        hparams["max_seq_length"] = checkpoint.max_seq_length
    vocab = checkpoint.vocabulary
    if vocab is not None and vocab.do_lower_case is not None:
        hparams["do_lower_case"] = vocab.do_lower_case
    head = checkpoint.head
    if head is None:
        hparams |= _generator_hparams(checkpoint)
    elif head.kind == "question_answering":
        hparams |= head.options  # The rest are the original's defaults.
    return hparams


def _generator_hparams(checkpoint: Checkpoint) -> dict:
    tensors, config = checkpoint.tensors, checkpoint.encoders["electra"]
    hparams: dict[str, typing.Any] = {}
    heads = {name.split("/")[0] for name in tensors}
    is_trained = "discriminator_predictions" in heads
    towers = sizes.tower_config(tensors, "the checkpoint")
    if towers is not None and checkpoint.is_electric is False:
        hparams["two_tower_generator"] = True
    elif towers is not None:
        hparams = {"electra_objective": False, "electric_objective": True}
    elif sizes.masked_lm_encoder(tensors) == "electra":
        hparams["untied_generator" if is_trained else "electra_objective"] = (
            False
        )
    elif (
        # Without a step it is of no run, but was published by itself.
        checkpoint.global_step is not None
        and is_trained
        and not heads & {"generator_predictions", "unigram_log_probs"}
    ):
        hparams["uniform_generator"] = True
    generator = towers or checkpoint.generator
    if generator is not None:
        for size, name in sizes.SHARES.items():
            part, whole = getattr(generator, size), getattr(config, size)
            hparams[name] = sizes.share(part, whole)
    if _has_own_tables(tensors):
        hparams["untied_generator_embeddings"] = True
    return hparams


def open_by_name(path: str | os.PathLike) -> tensor_files.TensorsOnDisk:
    """Name -> value, of a checkpoint that was saved by variable name.

    Raises:
      CheckpointError: If there is none, or it cannot be read.
    """
    prefix = tensor_files.find(path)
    if prefix is None or tensor_files.is_object_based(prefix):
        raise CheckpointError(
            "Expected a checkpoint that was saved by variable name, as the "
            "original ELECTRA does, or a folder whose file 'checkpoint' names "
            f"one. Received: {os.fspath(path)}"
        )
    return tensor_files.TensorsOnDisk(prefix)
