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
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.command_line import original_settings
from electra_tf.errors import CheckpointError
from electra_tf.files import read_json, write_json
from electra_tf.model.task_head import TAGGING_SEGMENT, TaskHead
from electra_tf.text import vocabulary


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
    return dict(_open(prefix))


# Beside the weights: what the original's --hparams takes, ...
HPARAMS_FILE = "hparams.json"
# ... and what it never writes down of a fine-tuned head.
HEAD_FILE = "head.json"

# What is read of the former here; the rest `original_settings` looks at.
_HPARAMS = {
    **dict.fromkeys(("do_lower_case", "electric_objective"), bool),
    "two_tower_generator": bool,
    "max_seq_length": int,
}
# Of a head for question answering.
_QA_HPARAMS = tuple(
    field.name for field in dataclasses.fields(configs.QuestionAnsweringConfig)
)
_SLOTS = ("/adam_m", "/adam_v")


def recognise(path: str) -> bool:
    """Whether a path is a checkpoint that was saved by variable name."""
    prefix = tensor_files.find(path)
    return prefix is not None and not tensor_files.is_object_based(prefix)


def read(path: str, hparams: dict | None = None) -> Checkpoint:
    """Reads weights, optimizer slots, step, heads and what lies beside them.

    Beside the weights, `vocab.txt` and `hparams.json` are read where they are:
    the latter is what the original's --hparams takes, and says how many heads
    the attention has where these are not 64 wide.

    Args:
      path: See `read_original_checkpoint`.
      hparams: Take the place of hparams.json.

    Returns:
      The checkpoint. Of several fine-tuned heads, the first one by name is
      `head`; the others are among the tensors.

    Raises:
      CheckpointError: If it cannot be read, or is not an ELECTRA.
    """
    saved = _open(path)
    prefix = saved.prefix
    folder = os.path.dirname(prefix)
    sizes.refuse_other_architecture(saved, prefix)
    slots, tensors, unused = {}, {}, []
    for name in sorted(set(saved) - {"global_step"}):
        if name.endswith(_SLOTS):
            slots[name] = name
        elif name.split("/")[0] in sizes.SCOPES:
            tensors[name] = saved[name]
        else:
            unused.append(name)
    hparams_file = os.path.join(folder, HPARAMS_FILE)
    if hparams is None and os.path.exists(hparams_file):
        hparams = read_json(hparams_file)
    known = _known_settings(hparams, tensors, prefix)
    found = sizes.read_sizes(tensors, prefix, known)
    step = saved.get("global_step")
    hparams = hparams or {}
    if hparams and found.discriminator:
        theirs = original_settings.encoder_config(hparams)
        for name, ours, said in sizes.differences(found.discriminator, theirs):
            raise CheckpointError(
                f"The settings of {prefix} say {name}={said}, but its tensors "
                f"have {name}={ours}"
            )
    vocab_file = os.path.join(folder, vocabulary.VOCAB_FILE)
    vocab, lower = vocabulary.read(vocab_file), hparams.get("do_lower_case")
    notes: tuple[str, ...] = ()
    if vocab is not None and lower is not None:
        if vocab.do_lower_case not in (None, lower):
            notes = (
                f"{vocabulary.settings_file(vocab_file)} says do_lower_case="
                f"{vocab.do_lower_case}, the hparams {lower}, which counts",
            )
        vocab = dataclasses.replace(vocab, do_lower_case=lower)
    return dataclasses.replace(
        found,
        head=_read_head(tensors, hparams, folder, prefix),
        optimizer=saved.select(slots),
        global_step=None if step is None else int(step),
        vocabulary=vocab,
        unused=tuple(unused),
        max_seq_length=hparams.get("max_seq_length"),
        is_electric=hparams.get(
            "electric_objective",
            False if hparams.get("two_tower_generator") else None,
        ),
        notes=notes,
    )


def write(checkpoint: Checkpoint, path: str) -> None:
    """Writes a checkpoint that the original code reads and trains on from.

    Its names are those of the tensors, bit by bit as they are.

    Raises:
      CheckpointError: If the original has no such generator.
    """
    _refuse_other_generators(checkpoint)
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


def notes(checkpoint: Checkpoint) -> tuple[str, ...]:
    """What the original would compute otherwise, a line for the user each."""
    found = []
    if "gelu_new" in checkpoint.activations:
        found.append(
            "the original computes GELU with the error function, this model by "
            "its tanh approximation: outputs differ from about the fourth "
            "digit on"
        )
    if checkpoint.head is not None:
        found += _notes_of_head(checkpoint.head)
    return tuple(found)


def _notes_of_head(head: TaskHead) -> list[str]:
    """What the original would answer otherwise with a head."""
    name, found = head.task_name, []
    if head.pooling != configs.DEFAULT_POOLING:
        found.append(
            "the original's heads read the first token's vector, the head "
            f"{name!r} the {head.pooling} of all tokens': what the "
            "original answers with it is worth nothing"
        )
    if head.hidden_activation is not None:
        found.append(
            f"the original's heads have no hidden layer, the head {name!r} has "
            "one: what the original answers with it is worth nothing"
        )
    if head.kind == "tagging" and head.segment_of_words() != TAGGING_SEGMENT:
        found.append(
            f"the original reads a tagger's words in segment {TAGGING_SEGMENT},"
            f" the head {name!r} in segment {head.segment_of_words()}: it "
            "answers otherwise there"
        )
    if head.options.get("windows") is not None:
        found.append(
            f"the original cuts a long text, the head {name!r} reads it in "
            "windows: it answers otherwise there"
        )
    return found


def _refuse_other_generators(checkpoint: Checkpoint) -> None:
    """Its settings cannot say these sizes, so it would compute other things."""
    tensors, discriminator = checkpoint.tensors, checkpoint.discriminator
    towers = sizes.tower_config(tensors, "the checkpoint")
    config = checkpoint.generator or towers
    if config is None:
        return
    expectations: dict[str, typing.Any] = {
        "num_attention_heads": sizes.usual_heads(config.hidden_size),
        "intermediate_size": 4 * config.hidden_size,
    }
    if _has_tables_of_its_own(tensors):
        expectations["embedding_size"] = config.hidden_size
    if discriminator is not None:
        # All else is the discriminator's.
        for name in (
            "vocab_size",
            "max_position_embeddings",
            "type_vocab_size",
        ):
            expectations[name] = getattr(discriminator, name)
    if towers is None:
        # A generator alone has no settings beside it that say another.
        expectations["hidden_act"] = (
            _their_hidden_act(discriminator) if discriminator else "gelu"
        )
        config = dataclasses.replace(
            config, hidden_act=_their_hidden_act(config)
        )
    for name, expected in expectations.items():
        received = getattr(config, name)
        if received != expected:
            raise CheckpointError(
                f"The original has no generator of hidden_size="
                f"{config.hidden_size} with another {name} than {expected}"
                f"{'' if discriminator else ' and no discriminator'}. "
                f"Received: {received}; leave the generator behind with "
                "--encoder-only"
            )


def _their_hidden_act(config: configs.EncoderConfig) -> str:
    """What the original computes: it has one GELU, see `notes`."""
    return "gelu" if config.hidden_act == "gelu_new" else config.hidden_act


def _has_tables_of_its_own(tensors: Mapping[str, np.ndarray]) -> bool:
    """Whether a generator, or its towers, share no embeddings."""
    scopes = ("generator", *sizes.TOWERS)
    return any(sizes.has_tables(tensors, scope) for scope in scopes)


def write_by_name(prefix: str, *parts: Mapping[str, np.ndarray]) -> None:
    """Writes tensors as TensorFlow 1's Saver does.

    Args:
      prefix: Of the files.
      *parts: Name -> value.
    """
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


def _known_settings(hparams, tensors, prefix) -> dict[str, dict]:
    """What the original's settings say that no shape tells.

    Nothing of Electric's towers, of whose sizes only the shapes are kept.
    """
    heads = sizes.generator_heads(tensors, "generator")
    if hparams is None:
        return {"generator": heads}
    files.check_fields(hparams, f"The settings of {prefix}", **_HPARAMS)
    names = {*original_settings.PRETRAINING, *original_settings.FINETUNING}
    for name in hparams:
        if name not in names:
            raise CheckpointError(
                f"The settings of {prefix}: unknown hparam {name}."
                + errors.did_you_mean(name, sorted(names))
            )
    try:
        config = original_settings.encoder_config(hparams)
    except errors.ConfigError as error:
        raise CheckpointError(f"The settings of {prefix}: {error}") from None
    known = sizes.not_in_tensors(config)
    return {"electra": known, "generator": known | heads}


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
    said = {name: hparams[name] for name in _QA_HPARAMS if name in hparams}
    task_heads.check_options(head.kind, said, f"the settings of {source}")
    if not head.options["answerable_classifier"]:
        said.pop("answerable_uses_start_logits", None)  # Which it would use.
    for name, ours in head.options.items():
        if said.get(name, ours) != ours:
            raise CheckpointError(
                f"The settings of {source} say {name}={said[name]}, but its "
                f"head has {name}={ours}"
            )
    return dataclasses.replace(head, options=said | head.options)


def _hparams(checkpoint: Checkpoint) -> dict:
    """What the original's --hparams must say to build the same networks."""
    config = checkpoint.encoders["electra"]
    overrides = dataclasses.asdict(config)
    overrides["hidden_act"] = _their_hidden_act(config)
    if overrides["hidden_act"] == "gelu":
        del overrides["hidden_act"]  # The original's default.
    hparams: dict = {
        "model_size": next(
            (
                name
                for name, size in original_settings.MODEL_SIZES.items()
                if size["hidden_size"] == config.hidden_size
            ),
            "small",
        ),
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
    found: dict = {}
    towers = sizes.tower_config(tensors, "the checkpoint")
    if towers is not None and checkpoint.is_electric is False:
        found["two_tower_generator"] = True
    elif towers is not None:
        found = {"electra_objective": False, "electric_objective": True}
    elif sizes.masked_lm_encoder(tensors) == "electra":
        has_head = "discriminator_predictions/dense/kernel" in tensors
        found["untied_generator" if has_head else "electra_objective"] = False
    elif _is_of_uniform_generator(checkpoint):
        found["uniform_generator"] = True
    generator = towers or checkpoint.generator
    if generator is not None:
        for size, name in sizes.SHARES.items():
            part, whole = getattr(generator, size), getattr(config, size)
            found[name] = sizes.share(part, whole)
    if _has_tables_of_its_own(tensors):
        found["untied_generator_embeddings"] = True
    return found


def _is_of_uniform_generator(checkpoint: Checkpoint) -> bool:
    """Whether a run has trained a discriminator beside no network.

    Without a step it is of no run, but a discriminator that somebody published
    by itself.
    """
    heads = {name.split("/")[0] for name in checkpoint.tensors}
    return (
        checkpoint.global_step is not None
        and "discriminator_predictions" in heads
        and not heads & {"generator_predictions", "unigram_log_probs"}
    )


def _open(path: str | os.PathLike) -> tensor_files.TensorsOnDisk:
    """All tensors of a checkpoint that was saved by variable name."""
    prefix = tensor_files.find(path)
    if prefix is None:
        path = os.fspath(path).removesuffix(".index")
        if os.path.isdir(path):
            raise CheckpointError(
                f"{path} must be a checkpoint, or a folder with a file "
                "named 'checkpoint'. Received: a folder without one"
            )
        raise CheckpointError(
            f"No checkpoint at {path}: {path}.index is missing"
        )
    found = tensor_files.TensorsOnDisk(prefix)
    if any(name.endswith(tensor_files.OBJECT_SUFFIX) for name in found):
        raise CheckpointError(
            f"{prefix} must be a checkpoint that was saved by variable name, "
            "as the original ELECTRA does. Received: an object-based "
            "checkpoint of TensorFlow 2"
        )
    return found
