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
import typing
from collections.abc import Mapping, Sequence

import tensorflow as tf

from electra_tf import configs, errors, model_directory, validation
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
from electra_tf.training import saving

CONVERTED_CLASS = "ConvertedCheckpoint"
# Class of a record -> where it has the length that was trained with.
_SECTIONS = {
    "PretrainingConfig": "model",
    "FinetuningConfig": "data",
    CONVERTED_CLASS: None,
}
# What is read of a record; what an encoder is, `configs.EncoderConfig` checks.
_FIELDS = {
    **dict.fromkeys(("model", "data", "encoder", "generator", "head"), dict),
    **dict.fromkeys(("max_seq_length", "global_step"), int),
    "is_electric": bool,
}


def recognise(path: str) -> bool:
    """Whether a path is a model directory, a trial in one, or a checkpoint."""
    return _model_dir(path) is not None


def read(path: str) -> Checkpoint:
    """Reads what a run trained, or what was converted.

    Args:
      path: Model directory (its last checkpoint; of a fine-tuning run the
        trial that was best on dev), directory of one trial or of the best
        checkpoint in it, or prefix of a checkpoint.
    """
    path = os.fspath(path).removesuffix(".index")
    model_dir = _model_dir(path)
    if model_dir is None:
        raise CheckpointError(f"Expected a model directory. Received: {path}")
    record_file = os.path.join(model_dir, model_directory.CONFIG_FILE)
    record = read_json(record_file, **_FIELDS)
    model_directory.refuse_other_format(record, record_file)
    section = _SECTIONS[record["class"]]
    check_fields(record, record_file, [section] if section else [])
    prefix = _prefix(path, model_dir, record)
    saved = tensor_files.TensorsOnDisk(prefix)
    tensors = dict(_part(saved, "model"))
    if not tensors:
        raise CheckpointError(
            f"Expected a checkpoint of electra_tf at {prefix}. Received: one "
            f"with {', '.join(sorted(saved)[:3])}"
        )
    optimizer: Mapping = _part(saved, "optimizer")
    if disentangled.DELTA in tensors:
        tensors, optimizer = disentangled.fold(tensors), {}
        errors.warn(
            "the discriminator's word embeddings are the sum of its two "
            "tables; the generator has its own, and the optimizer's slots stay "
            "behind"
        )
    known = _known_settings(record, model_dir)
    checkpoint = sizes.read_sizes(tensors, prefix, known)
    settings = record[section] if section else record
    electric = "electric_objective" if section == "model" else "is_electric"
    data = record.get("data") or {}
    return dataclasses.replace(
        checkpoint,
        head=_read_head(record, model_dir, prefix),
        optimizer=optimizer,
        global_step=record.get("global_step", _count(saved, "global_step")),
        iterations=_count(saved, "iterations"),
        loss_scale=dict(_part(saved, "loss_scale")),
        vocabulary=vocabulary.read(
            os.path.join(model_dir, vocabulary.VOCAB_FILE),
            data.get("do_lower_case"),
            data.get("strip_accents"),
        ),
        max_seq_length=settings.get("max_seq_length"),
        is_electric=settings.get(electric),
    )


def write(checkpoint: Checkpoint, path: str) -> None:
    """Writes a directory that fine-tuning, exporting and pre-training take."""
    os.makedirs(path, exist_ok=True)
    step = checkpoint.global_step or 0
    name = f"{model_directory.CHECKPOINT_NAME}-{step}"
    with tf.device("cpu"):
        parts: dict = {
            part: {n: tf.Variable(t) for n, t in tensors.items()}
            for part, tensors in (
                ("model", checkpoint.tensors),
                ("optimizer", checkpoint.optimizer),
                ("loss_scale", checkpoint.loss_scale),
            )
            if tensors
        }
        parts["global_step"] = tf.Variable(step, dtype=tf.int64)
        if checkpoint.iterations is not None:
            taken = checkpoint.iterations
            parts["iterations"] = tf.Variable(taken, dtype=tf.int64)
    tf.train.Checkpoint(**parts).write(os.path.join(path, name))
    tensor_files.write_checkpoint_file(path, name)
    if checkpoint.vocabulary is not None:
        vocabulary.write(checkpoint.vocabulary, path)
    parts = {
        "encoder": checkpoint.discriminator,
        "generator": checkpoint.generator,
        "head": checkpoint.head,
    }
    record = {
        "class": CONVERTED_CLASS,
        "format": model_directory.RECORD_FORMAT,
        **{n: v and dataclasses.asdict(v) for n, v in parts.items()},
        "max_seq_length": checkpoint.max_seq_length,
        "global_step": checkpoint.global_step,
        "is_electric": checkpoint.is_electric,
    }
    write_json(os.path.join(path, model_directory.CONFIG_FILE), record)


def _model_dir(path: str | os.PathLike) -> str | None:
    """The directory with the config.json of this package, if there is one."""
    folder = model_directory.folder_of(path)
    if folder is None:
        return None
    record = read_json(os.path.join(folder, model_directory.CONFIG_FILE))
    return folder if record.get("class") in tuple(_SECTIONS) else None


def _prefix(path: str, model_dir: str, record: dict) -> str:
    """The checkpoint that a path stands for."""
    if not os.path.isdir(path):
        return path
    is_run = os.path.abspath(path) == os.path.abspath(model_dir)
    if record["class"] == "FinetuningConfig" and is_run:
        name = model_directory.RESULTS_FILE
        results = _read_of_finetuning(
            model_dir, name, "best_on_dev", best_on_dev=int
        )
        path = model_directory.trial_dir(model_dir, results["best_on_dev"])
    folder = model_directory.weights_dir(path)
    saving.checkpoint_state(folder)  # Refuses what is damaged.
    prefix = tf.train.latest_checkpoint(folder)
    if prefix is None:
        raise CheckpointError(
            f"Expected a checkpoint in {folder}. Received: none that its file "
            "'checkpoint' names: the run, started again, names one"
        )
    return prefix


def _read_of_finetuning(
    model_dir: str, name: str, *needed: str, **kinds: typing.Any
) -> dict:
    """One of the files of a finished fine-tuning run; see `read_json`."""
    path = os.path.join(model_dir, name)
    if not os.path.isfile(path):
        raise CheckpointError(
            f"Expected a finished fine-tuning run with {name} in {model_dir}: "
            "run electra-tf finetune first"
        )
    return read_json(path, needed, **kinds)


def _part(
    saved: tensor_files.TensorsOnDisk, part: str
) -> tensor_files.TensorsOnDisk:
    """The tensors of one object of a checkpoint, by their paths."""
    keys = {}
    for key in sorted(saved):
        name = key.removesuffix(tensor_files.OBJECT_SUFFIX)
        if name != key and re.match(rf"{part}/.", name):
            name = name.removeprefix(f"{part}/")
            # TensorFlow writes the "/" of a path as ".S" and "." as "..".
            path = ".".join(p.replace(".S", "/") for p in name.split(".."))
            keys[path] = key
    return saved.select(keys)


def _count(saved: tensor_files.TensorsOnDisk, name: str) -> int | None:
    count = saved.get(name + tensor_files.OBJECT_SUFFIX)
    return None if count is None else int(count)


def _known_settings(record: dict, model_dir: str) -> dict[str, dict]:
    """Scope -> what no shape tells, as far as the run's files say."""
    exactly = model_directory.exactly
    try:
        if record["class"] == "PretrainingConfig":
            model = exactly(configs.ElectraConfig, record["model"])
            encoders = {"electra": model.encoder}
            if model.has_discriminator and model.has_own_generator:
                encoders["generator"] = model.generator
        else:
            kept = record
            if record["class"] == "FinetuningConfig":
                name = model_directory.MODEL_FILE
                kept = _read_of_finetuning(model_dir, name, "encoder")
            parts = {"electra": kept.get("encoder")}
            parts["generator"] = record.get("generator")
            encoders = {
                scope: exactly(configs.EncoderConfig, fields)
                for scope, fields in parts.items()
                if fields
            }
    except (KeyError, TypeError, errors.ConfigError) as error:
        raise CheckpointError(
            f"Expected the {model_directory.CONFIG_FILE} of this version in "
            f"{model_dir}. Received: one with {errors.first_line(error)}"
        ) from None
    return {s: sizes.not_in_tensors(c) for s, c in encoders.items()}


def _read_head(record: dict, model_dir: str, prefix: str) -> TaskHead | None:
    if record["class"] == "PretrainingConfig":
        return None
    if record["class"] == CONVERTED_CLASS:
        head = record.get("head")
        if head is None:
            return None
        return task_heads.head_from_dict(head, model_dir)
    name = model_directory.MODEL_FILE
    path = os.path.join(model_dir, name)
    model = _read_of_finetuning(model_dir, name, tasks=list[dict])
    tasks = model.get("tasks") or [model]
    for task in tasks:
        needed = ("task_name", "kind")
        check_fields(task, path, needed, task_name=str, labels=list[str])
    _require_labels_of_trial(tasks, path, prefix)
    # As in the original's checkpoints: of several heads the first by name.
    task = min(tasks, key=lambda task: task["task_name"])
    labels = task.get("labels")
    num_outputs = 1 if task["kind"] == "regression" else None
    options = {n: task[n] for n in task_heads.OPTIONS if n in task}
    fields = ("kind", "task_name", "labels", "hidden_activation", "segment")
    head = {name: task.get(name) for name in fields} | {
        "num_outputs": num_outputs if labels is None else len(labels),
        "options": task.get("options") or options,
    }
    return task_heads.head_from_dict(head, path)


def _require_labels_of_trial(
    tasks: Sequence[dict], path: str, prefix: str
) -> None:
    """Refuses labels, or an order of them, that a trial did not learn."""
    folder = os.path.dirname(prefix)
    if os.path.basename(folder) == model_directory.BEST_DIR:
        folder = os.path.dirname(folder)
    trial = os.path.join(folder, model_directory.TRIAL_FILE)
    if not os.path.isfile(trial):
        return
    name = model_directory.DIGESTS
    known = read_json(trial, **{name: dict}).get(name) or {}
    learned = known.get("labels") or {}
    labels = {
        name: sha256_of_values(task.get("labels") or ())
        for task in tasks
        if (name := task["task_name"]) in learned
    }
    validation.require_same(
        labels,
        {name: learned[name] for name in labels},
        f"{path} has other labels than {trial} was written with, or another "
        "order of them",
        way_out="They were changed since: bring the old ones back",
    )
