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

from electra_tf import configs
from electra_tf.checkpoint_conversion import sizes as sizes_lib
from electra_tf.checkpoint_conversion import (
    task_heads,
    tensor_files,
    vocabulary,
)
from electra_tf.checkpoint_conversion.checkpoint import (
    Checkpoint,
    CheckpointError,
    LoadReport,
    TaskHead,
    read_json,
)
from electra_tf.command_line import write_atomically

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
    sizes: dict[str, typing.Any] = MODEL_SIZES[model_size] | {
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
        tensors, prefix, _known_settings(hparams, tensors)
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
    config = checkpoint.generator
    if config is None:
        return
    heads = max(1, config.hidden_size // sizes_lib.HEAD_WIDTH)
    expectations = {
        "num_attention_heads": heads,
        "intermediate_size": 4 * config.hidden_size,
    }
    if "generator/embeddings/word_embeddings" in checkpoint.tensors:
        expectations["embedding_size"] = config.hidden_size
    for name, expected in expectations.items():
        received = getattr(config, name)
        if received != expected:
            raise CheckpointError(
                f"The original has no generator of hidden_size="
                f"{config.hidden_size} with another {name} than {expected}. "
                f"Received: {received}; leave the generator behind with "
                "--encoder-only"
            )


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


def _known_settings(hparams, tensors) -> dict[str, dict]:
    """What the original's settings say that no shape tells."""
    if hparams is None:
        return {}
    config = encoder_config_from_original(hparams)
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
    theirs = encoder_config_from_original(hparams)
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
    # The original has the error function only, see `notes`.
    del overrides["hidden_act"]
    hparams: dict = {
        "model_size": next(
            (
                name
                for name, size in MODEL_SIZES.items()
                if size["hidden_size"] == config.hidden_size
            ),
            DEFAULT_MODEL_SIZE,
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
    if "generator_ltr/encoder/layer_0/output/dense/kernel" in tensors:
        generator = sizes_lib.encoder_config(tensors, "generator_ltr", "it")
        found |= {"electra_objective": False, "electric_objective": True}
    elif sizes_lib.masked_lm_encoder(tensors) == "electra":
        found |= (
            {"untied_generator": False}
            if has_head
            else {"electra_objective": False}
        )
    if generator is not None:
        found["generator_hidden_size"] = share(
            generator.hidden_size, config.hidden_size
        )
        found["generator_layers"] = share(
            generator.num_hidden_layers, config.num_hidden_layers
        )
    if "generator/embeddings/word_embeddings" in tensors:
        found["untied_generator_embeddings"] = True
    return found


def share(part: int, whole: int) -> float:
    """A share of which int(whole * share) is the part, as both codes do it."""
    exact = part / whole
    return exact if int(whole * exact) == part else (part + 0.5) / whole


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
