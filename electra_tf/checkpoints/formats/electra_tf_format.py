"""Model directories of this package: of its runs, and of conversions.

A run's directory has config.json (see `model_directory`) and TensorFlow 2
checkpoints, in which `training.saving` keeps every variable under its path; the
paths are the original's names. A fine-tuning run has one checkpoint directory
per trial. A conversion has one directory, whose config.json (class
"ConvertedCheckpoint") says what there is.
"""

import dataclasses
import os
import re
import reprlib
import typing
from collections.abc import Sequence

import tensorflow as tf

from electra_tf import configs, errors, model_directory
from electra_tf.checkpoints import disentangled, sizes, task_heads, tensor_files
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.errors import CheckpointError
from electra_tf.files import (
    check_fields,
    read_json,
    sha256_of_values,
    write_json,
)
from electra_tf.model.task_head import TaskHead
from electra_tf.text import vocabulary
from electra_tf.text.vocabulary import Vocabulary
from electra_tf.training import saving

CONVERTED_CLASS = "ConvertedCheckpoint"
_CLASSES = ("PretrainingConfig", "FinetuningConfig", CONVERTED_CLASS)
# Where the record of a run has the length that it was trained with.
_SECTIONS = {"PretrainingConfig": "model", "FinetuningConfig": "data"}
# What is read of a record; what an encoder is, `configs.EncoderConfig` checks.
_FIELDS = {
    **dict.fromkeys(("model", "data", "encoder", "generator", "head"), dict),
    **dict.fromkeys(("max_seq_length", "global_step"), int),
    "is_electric": bool,
    "assumed": list[str],
}
# What a task's description says of its head beside kind and labels.
_HEAD_OPTIONS = tuple(task_heads.OPTIONS)


def recognise(path: str) -> bool:
    """Whether a path is a model directory, a trial in one, or a checkpoint."""
    return _model_dir(path) is not None


def read(path: str) -> Checkpoint:
    """Reads what a run trained, or what was converted.

    Args:
      path: Model directory (its last checkpoint; of a fine-tuning run the
        trial that was best on dev), directory of one trial or of the best
        checkpoint in it, or prefix of a checkpoint.

    Raises:
      CheckpointError: If there is none, or it cannot be read.
    """
    path = os.fspath(path).removesuffix(".index")
    model_dir = _model_dir(path)
    if model_dir is None:
        raise CheckpointError(
            f"Expected a model directory with {model_directory.CONFIG_FILE} at "
            f"{path}, found none"
        )
    record = _read_record(model_dir)
    prefix = _prefix(path, model_dir, record)
    tensors, optimizer, progress = _read_variables(prefix)
    notes: tuple[str, ...] = ()
    if disentangled.DELTA in tensors:
        tensors = disentangled.fold(tensors)
        notes = (
            "the discriminator's word embeddings are the sum of its two "
            "tables; the generator has its own, and the optimizer's slots stay "
            "behind",
        )
        optimizer = {}
    found = sizes.read_sizes(
        tensors, prefix, _known_settings(record, model_dir)
    )
    section = _SECTIONS.get(record["class"])
    return dataclasses.replace(
        found,
        head=_read_head(record, model_dir, prefix),
        optimizer=optimizer,
        global_step=record.get("global_step", progress["global_step"]),
        iterations=progress["iterations"],
        loss_scale=progress["loss_scale"],
        vocabulary=_read_vocabulary(record, model_dir),
        max_seq_length=(record[section] if section else record).get(
            "max_seq_length"
        ),
        is_electric=(
            record["model"].get("electric_objective")
            if section == "model"
            else record.get("is_electric")
        ),
        assumed=sizes.assumed_in(record) or found.assumed,
        notes=notes,
    )


def write(checkpoint: Checkpoint, path: str) -> None:
    """Writes a directory that fine-tuning, exporting and pre-training take."""
    os.makedirs(path, exist_ok=True)
    step = checkpoint.global_step
    name = f"{model_directory.CHECKPOINT_NAME}-{step or 0}"
    with tf.device("cpu"):
        parts: dict = {
            "model": {n: tf.Variable(t) for n, t in checkpoint.tensors.items()},
            "global_step": tf.Variable(step or 0, dtype=tf.int64),
        }
        if checkpoint.optimizer:
            slots = checkpoint.optimizer.items()
            parts["optimizer"] = {n: tf.Variable(t) for n, t in slots}
        if checkpoint.iterations is not None:
            taken = checkpoint.iterations
            parts["iterations"] = tf.Variable(taken, dtype=tf.int64)
        if checkpoint.loss_scale:
            parts["loss_scale"] = {
                n: tf.Variable(t) for n, t in checkpoint.loss_scale.items()
            }
    tf.train.Checkpoint(**parts).write(os.path.join(path, name))
    tensor_files.write_checkpoint_file(path, name)
    if checkpoint.vocabulary is not None:
        vocabulary.write(checkpoint.vocabulary, path)

    described = {
        "encoder": checkpoint.discriminator,
        "generator": checkpoint.generator,
        "head": checkpoint.head,
    }
    record = {
        "class": CONVERTED_CLASS,
        "format": model_directory.RECORD_FORMAT,
        **{n: v and dataclasses.asdict(v) for n, v in described.items()},
        "max_seq_length": checkpoint.max_seq_length,
        "global_step": checkpoint.global_step,
        "is_electric": checkpoint.is_electric,
        "assumed": list(checkpoint.assumed),
    }
    write_json(os.path.join(path, model_directory.CONFIG_FILE), record)


def _model_dir(path: str | os.PathLike) -> str | None:
    """The directory with the config.json of this package, if there is one."""
    folder = model_directory.folder_of(path)
    if folder is None:
        return None
    record = read_json(os.path.join(folder, model_directory.CONFIG_FILE))
    return folder if record.get("class") in _CLASSES else None


def _read_record(model_dir: str) -> dict:
    """What config.json says, in the types that are read here."""
    path = os.path.join(model_dir, model_directory.CONFIG_FILE)
    record = read_json(path, **_FIELDS)
    model_directory.refuse_other_format(record, path)
    section = _SECTIONS.get(record["class"])
    if section is not None and record.get(section) is None:
        raise CheckpointError(f"{path} lacks {section}")
    data = record.get("data") or {}
    check_fields(
        data,
        path,
        vocab_file=str,
        do_lower_case=bool,
        strip_accents=bool,
        max_seq_length=int,
    )
    of_model = {"max_seq_length": int, "electric_objective": bool}
    check_fields(record.get("model") or {}, path, **of_model)
    return record


def _prefix(path: str, model_dir: str, record: dict) -> str:
    """The checkpoint that a path stands for."""
    folder = path
    if not os.path.isdir(path):
        return path
    is_run = os.path.abspath(path) == os.path.abspath(model_dir)
    if record["class"] == "FinetuningConfig" and is_run:
        name = model_directory.RESULTS_FILE
        results = _read_of_finetuning(model_dir, name, best_on_dev=int)
        if results.get("best_on_dev") is None:
            raise CheckpointError(
                f"Expected best_on_dev, the number of a trial, in {name} of "
                f"{model_dir}"
            )
        folder = model_directory.trial_dir(model_dir, results["best_on_dev"])
    folder = model_directory.weights_dir(folder)
    saving.checkpoint_state(folder)  # Refuses what is damaged.
    prefix = tf.train.latest_checkpoint(folder)
    if prefix is None:
        whole = [p for p in saving.checkpoints_of(folder) if saving.is_whole(p)]
        if whole:
            raise CheckpointError(
                f"Expected the file 'checkpoint' in {folder} to name the last "
                "one. Received: none that is there. Whole are "
                f"{', '.join(map(os.path.basename, whole))}: the run, started "
                "again, goes on from the first of them and names it"
            )
        raise CheckpointError(
            f"Expected a checkpoint in {folder}, found none: has the model "
            "been trained?"
        )
    return prefix


def _read_of_finetuning(
    model_dir: str,
    name: str,
    needed: Sequence[str] = (),
    /,
    **kinds: typing.Any,
) -> dict:
    """One of the files of a finished fine-tuning run; see `read_json`."""
    path = os.path.join(model_dir, name)
    if not os.path.isfile(path):
        raise CheckpointError(
            f"Expected a finished fine-tuning run with {name} in {model_dir}: "
            "run electra-tf finetune first"
        )
    return read_json(path, needed, **kinds)


def _read_variables(prefix: str):
    """Tensors, optimizer slots, and how far an object-based checkpoint is."""
    saved = tensor_files.TensorsOnDisk(prefix)
    parts = ("model", "optimizer", "loss_scale")
    keys: dict[str, dict[str, str]] = {part: {} for part in parts}
    ours = re.compile(rf"({'|'.join(parts)})/(.+){tensor_files.OBJECT_SUFFIX}")
    for key in sorted(saved):
        if match := ours.fullmatch(key):
            part, name = match.groups()
            # TensorFlow writes the "/" of a path as ".S" and "." as "..".
            path = ".".join(p.replace(".S", "/") for p in name.split(".."))
            keys[part][path] = key
    if not keys["model"]:
        raise CheckpointError(
            f"Expected a checkpoint of electra_tf at {prefix}. Received: one "
            f"with {', '.join(sorted(saved)[:3])}"
        )
    progress: dict = {"loss_scale": dict(saved.select(keys["loss_scale"]))}
    for name in ("global_step", "iterations"):
        count = saved.get(name + tensor_files.OBJECT_SUFFIX)
        progress[name] = None if count is None else int(count)
    return (
        dict(saved.select(keys["model"])),
        saved.select(keys["optimizer"]),
        progress,
    )


def _known_settings(record: dict, model_dir: str) -> dict[str, dict]:
    """Scope -> what no shape tells, as far as the run's files say."""
    try:
        found: dict[str, configs.EncoderConfig] = {}
        if record["class"] == "FinetuningConfig":
            name = model_directory.MODEL_FILE
            about = _read_of_finetuning(model_dir, name, ("encoder",))
            found["electra"] = model_directory.exactly(
                configs.EncoderConfig, about["encoder"]
            )
        elif record["class"] == "PretrainingConfig":
            both = model_directory.model_of(record)
            found = {"electra": both.encoder}
            if (
                both.has_discriminator
                and both.has_generator_network
                and both.untied_generator
            ):
                found["generator"] = both.generator
        else:
            for scope, key in (("electra", "encoder"), ("generator",) * 2):
                if record[key] is not None:
                    found[scope] = model_directory.exactly(
                        configs.EncoderConfig, record[key]
                    )
        return {s: sizes.not_in_tensors(c) for s, c in found.items()}
    except (KeyError, TypeError, errors.ConfigError) as error:
        raise CheckpointError(
            f"Expected the {model_directory.CONFIG_FILE} of this version in "
            f"{model_dir}. Received: one with {errors.first_line(error)}"
        ) from None


def _read_head(record: dict, model_dir: str, prefix: str) -> TaskHead | None:
    if record["class"] == CONVERTED_CLASS:
        head = record.get("head")
        if head is None:
            return None
        return task_heads.head_from_dict(head, model_dir)
    if record["class"] == "PretrainingConfig":
        return None
    name = model_directory.MODEL_FILE
    about = _read_of_finetuning(model_dir, name, tasks=list[dict])
    tasks = about.get("tasks") or [about]
    path = os.path.join(model_dir, name)
    for of_task in tasks:
        needed = ("task_name", "kind")
        check_fields(of_task, path, needed, task_name=str, labels=list[str])
    _refuse_other_labels(tasks, path, prefix)
    # As in the original's checkpoints: of several heads the first by name.
    about = min(tasks, key=lambda of_task: of_task["task_name"])
    labels = about.get("labels")
    num_outputs = 1 if about["kind"] == "regression" else None
    head = {
        "kind": about["kind"],
        "task_name": about["task_name"],
        "labels": labels,
        "num_outputs": num_outputs if labels is None else len(labels),
        "hidden_activation": about.get("hidden_activation"),
        "options": about.get("options")
        or {name: about[name] for name in _HEAD_OPTIONS if name in about},
        "segment": about.get("segment"),
    }
    return task_heads.head_from_dict(head, path)


def _refuse_other_labels(tasks: Sequence[dict], path: str, prefix: str) -> None:
    """Refuses labels, or an order of them, that a trial did not learn.

    Args:
      tasks: What `path` says of them.
      path: Of the description of the run's models.
      prefix: Of the checkpoint in the folder of the trial.
    """
    folder = os.path.dirname(prefix)
    if os.path.basename(folder) == model_directory.BEST_DIR:
        folder = os.path.dirname(folder)
    trial = os.path.join(folder, model_directory.TRIAL_FILE)
    if not os.path.isfile(trial):
        return
    name = model_directory.DIGESTS
    known = read_json(trial, **{name: dict}).get(name) or {}
    check_fields(known, trial, labels=dict)
    for of_task in tasks:
        labels = of_task.get("labels") or ()
        digest = (known.get("labels") or {}).get(of_task["task_name"])
        if digest not in (None, sha256_of_values(labels)):
            raise CheckpointError(
                f"Expected in {path} the labels that {trial} was written "
                f"with, in their order. Received: {reprlib.repr(labels)}, "
                "changed since: bring the old ones back"
            )


def _read_vocabulary(record: dict, model_dir: str) -> Vocabulary | None:
    """Of the directory, with the treatment of text that the settings name."""
    data = record.get("data") or {}
    return vocabulary.read(
        os.path.join(model_dir, vocabulary.VOCAB_FILE),
        data.get("do_lower_case"),
        data.get("strip_accents"),
    )
