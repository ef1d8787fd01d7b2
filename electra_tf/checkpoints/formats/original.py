"""Checkpoints and settings of the original ELECTRA code (TensorFlow 1).

The original saves by variable name, and variables here have the same names, so
there is no table to go through: `electra/embeddings/word_embeddings` there is
`electra/embeddings/word_embeddings` here. Its settings are flat keyword
arguments (the `--hparams` of its commands) on top of a model size.
"""

import dataclasses
import glob
import json
import os
import re
import typing
from collections.abc import Iterable, Mapping

import keras
import numpy as np
import tensorflow as tf

from electra_tf import configs, errors
from electra_tf.checkpoints import sizes as sizes_lib
from electra_tf.checkpoints import task_heads, tensor_files
from electra_tf.checkpoints.checkpoint import Checkpoint, LoadReport
from electra_tf.command_line import original_settings
from electra_tf.errors import CheckpointError
from electra_tf.files import read_json, write_atomically
from electra_tf.model.heads import TaskHead
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
    reader, shapes = _open(prefix)
    return tensor_files.read_tensors(prefix, reader, shapes)


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
    for name, value in tensor_files.read_tensors(prefix, reader, used).items():
        by_name[name].assign(value)
    return LoadReport(
        used=tuple(used),
        unused=tuple(sorted(set(shapes) - set(by_name))),
        missing=tuple(sorted(set(by_name) - set(shapes))),
    )


# Beside the weights: what the original's --hparams takes, ...
HPARAMS_FILE = "hparams.json"
# ... and what it never writes down of a fine-tuned head.
HEAD_FILE = "head.json"

_SLOTS = ("/adam_m", "/adam_v")


def recognise(path: str) -> bool:
    """Whether a path is a checkpoint that was saved by variable name."""
    prefix = _find(path)
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
    prefix = _find(path) or os.fspath(path)
    folder = os.path.dirname(prefix)
    reader, shapes = _open(prefix)
    sizes_lib.refuse_other_architecture(shapes, prefix)
    slots, names, unused = [], [], []
    for name in sorted(set(shapes) - {"global_step"}):
        if name.endswith(_SLOTS):
            slots.append(name)
        elif name.split("/")[0] in sizes_lib.SCOPES:
            names.append(name)
        else:
            unused.append(name)
    tensors = tensor_files.read_tensors(prefix, reader, names)
    step = None
    if "global_step" in shapes:
        (step,) = tensor_files.read_tensors(
            prefix, reader, ["global_step"]
        ).values()
    hparams_file = os.path.join(folder, HPARAMS_FILE)
    if hparams is None and os.path.exists(hparams_file):
        hparams = read_json(hparams_file)
    sizes = sizes_lib.read_sizes(
        tensors, prefix, _known_settings(hparams, tensors, prefix)
    )
    if hparams and sizes.discriminator:
        _refuse_other_hparams(hparams, sizes.discriminator, prefix)
    return Checkpoint(
        tensors=tensors,
        discriminator=sizes.discriminator,
        generator=sizes.generator,
        head=_read_head(tensors, folder, prefix),
        optimizer=tensor_files.TensorsOnDisk(
            prefix, reader, {name: name for name in slots}
        ),
        global_step=None if step is None else int(step),
        vocabulary=vocabulary.read(
            os.path.join(folder, vocabulary.VOCAB_FILE),
            (hparams or {}).get("do_lower_case"),
        ),
        unused=tuple(unused),
        max_seq_length=(hparams or {}).get("max_seq_length"),
        assumed=sizes.assumed,
    )


def write(checkpoint: Checkpoint, path: str) -> None:
    """Writes a checkpoint that the original code reads and trains on from.

    Its names are those of the tensors, bit by bit as they are.

    Args:
      checkpoint: What to write.
      path: A folder.

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
        write_atomically(
            os.path.join(path, HPARAMS_FILE),
            json.dumps(_hparams(checkpoint), indent=1) + "\n",
        )
    if checkpoint.head is not None:
        write_atomically(
            os.path.join(path, HEAD_FILE),
            json.dumps(dataclasses.asdict(checkpoint.head), indent=1) + "\n",
        )


def notes(checkpoint: Checkpoint) -> tuple[str, ...]:
    """What the original would compute otherwise.

    Args:
      checkpoint: To be written.

    Returns:
      One line for the user each.
    """
    if "gelu_new" not in checkpoint.activations:
        return ()
    return (
        "the original computes GELU with the error function, this model by its "
        "tanh approximation: outputs differ from about the fourth digit on",
    )


def _refuse_other_generators(checkpoint: Checkpoint) -> None:
    """Its settings cannot say these sizes, so it would compute other things."""
    tensors, discriminator = checkpoint.tensors, checkpoint.discriminator
    towers = sizes_lib.tower_config(tensors, "the checkpoint")
    config = checkpoint.generator or towers
    if config is None:
        return
    heads = max(1, config.hidden_size // sizes_lib.HEAD_WIDTH)
    expectations: dict[str, typing.Any] = {
        "num_attention_heads": heads,
        "intermediate_size": 4 * config.hidden_size,
    }
    if _has_tables_of_its_own(tensors):
        expectations["embedding_size"] = config.hidden_size
    if discriminator is not None:
        # All else is the discriminator's.
        expectations |= {
            "vocab_size": discriminator.vocab_size,
            "max_position_embeddings": discriminator.max_position_embeddings,
            "type_vocab_size": discriminator.type_vocab_size,
        }
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
    scopes = ("generator", *sizes_lib.TOWERS)
    return any(sizes_lib.has_tables(tensors, scope) for scope in scopes)


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


def _find(path: str | os.PathLike) -> str | None:
    """The prefix that a path stands for, if there is a checkpoint."""
    prefix = os.fspath(path).removesuffix(".index")
    prefix = re.sub(r"\.data-\d{5}-of-\d{5}$", "", prefix)
    if os.path.isdir(prefix):
        latest = tf.train.latest_checkpoint(prefix)
        if latest is not None:
            return latest
        # Releases come without the file that names the latest one.
        found = glob.glob(os.path.join(glob.escape(prefix), "*.index"))
        return found[0].removesuffix(".index") if len(found) == 1 else None
    return prefix if tf.io.gfile.exists(prefix + ".index") else None


def _known_settings(hparams, tensors, prefix) -> dict[str, dict]:
    """What the original's settings say that no shape tells.

    Nothing of Electric's towers, of whose sizes only the shapes are kept.
    """
    if hparams is None:
        return {}
    try:
        config = original_settings.encoder_config(hparams)
    except errors.ConfigError as error:
        raise CheckpointError(f"The settings of {prefix}: {error}") from None
    known = {name: getattr(config, name) for name in sizes_lib.NOT_IN_TENSORS}
    kernel = tensors.get("generator/encoder/layer_0/intermediate/dense/kernel")
    width = 0 if kernel is None else kernel.shape[0]
    # The original's generator is always like this.
    heads = max(1, width // sizes_lib.HEAD_WIDTH)
    return {
        "electra": known,
        "generator": known | {"num_attention_heads": heads},
    }


def _refuse_other_hparams(hparams, config, prefix) -> None:
    """Compares the settings with what the tensors say."""
    theirs = original_settings.encoder_config(hparams)
    for name, ours, said in sizes_lib.differences(config, theirs):
        raise CheckpointError(
            f"The settings of {prefix} say {name}={said}, but its tensors have "
            f"{name}={ours}"
        )


def _read_head(tensors, folder: str, source: str) -> TaskHead | None:
    tasks = task_heads.task_names(tensors)
    if not tasks:
        return None
    path = os.path.join(folder, HEAD_FILE)
    if not os.path.exists(path):
        return task_heads.recognise(tensors, tasks[0], source)
    return head_from_dict(read_json(path), path)


def head_from_dict(record: dict, source: str) -> TaskHead:
    """A head from what JSON keeps of it.

    Args:
      record: `dataclasses.asdict` of the head.
      source: Path, for error messages.

    Raises:
      CheckpointError: If the record is of something else.
    """
    try:
        head = TaskHead(**record)
    except TypeError as error:
        raise CheckpointError(f"Cannot read {source}: {error}") from None
    if head.labels is not None:
        head = dataclasses.replace(head, labels=tuple(head.labels))
    return head


def _hparams(checkpoint: Checkpoint) -> dict:
    """What the original's --hparams must say to build the same networks."""
    config = checkpoint.discriminator
    assert config is not None
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
    if (
        checkpoint.vocabulary
        and checkpoint.vocabulary.do_lower_case is not None
    ):
        hparams["do_lower_case"] = checkpoint.vocabulary.do_lower_case
    if checkpoint.head is None:
        hparams |= _generator_hparams(checkpoint)
    return hparams


def _generator_hparams(checkpoint: Checkpoint) -> dict:
    tensors, config = checkpoint.tensors, checkpoint.discriminator
    assert config is not None
    has_head = "discriminator_predictions/dense/kernel" in tensors
    generator = checkpoint.generator
    found: dict = {}
    towers = sizes_lib.tower_config(tensors, "the checkpoint")
    if towers is not None:
        generator = towers
        # Towers with `electra_objective` look the same.
        found |= {"electra_objective": False, "electric_objective": True}
    elif sizes_lib.masked_lm_encoder(tensors) == "electra":
        found |= (
            {"untied_generator": False}
            if has_head
            else {"electra_objective": False}
        )
    if generator is not None:
        found["generator_hidden_size"] = sizes_lib.share(
            generator.hidden_size, config.hidden_size
        )
        found["generator_layers"] = sizes_lib.share(
            generator.num_hidden_layers, config.num_hidden_layers
        )
    if _has_tables_of_its_own(tensors):
        found["untied_generator_embeddings"] = True
    return found


def _open(prefix: str):
    """A reader, and name -> shape of all tensors."""
    prefix = os.fspath(prefix).removesuffix(".index")
    if os.path.isdir(prefix):
        latest = tf.train.latest_checkpoint(prefix)
        if latest is None:
            raise CheckpointError(
                f"{prefix} must be a checkpoint, or a folder with a file "
                "named 'checkpoint'. Received: a folder without one"
            )
        prefix = latest
    if not tf.io.gfile.exists(prefix + ".index"):
        raise CheckpointError(
            f"No checkpoint at {prefix}: {prefix}.index is missing"
        )
    reader, shapes = tensor_files.open_checkpoint(prefix)
    if any(name.endswith(tensor_files.OBJECT_SUFFIX) for name in shapes):
        raise CheckpointError(
            f"{prefix} must be a checkpoint that was saved by variable name, "
            "as the original ELECTRA does. Received: an object-based "
            "checkpoint of TensorFlow 2"
        )
    return reader, shapes
