"""The original's --hparams -> the same run here; imports no TensorFlow.

The original's commands take settings as JSON on top of a model size:

    run_pretraining.py --data-dir DATA --model-name NAME \\
        --hparams '{"model_size": "base", ...}'

`original_settings` has each of them, docs/guides/from-electra.md in tables.
"""

import dataclasses
import json
import os
import textwrap
import typing
from collections.abc import Callable, Mapping

from electra_tf import errors, files
from electra_tf.command_line import original_settings
from electra_tf.command_line.original_settings import (
    FINETUNING,
    PRETRAINING,
    Hparam,
)

# Type of a setting's default -> what its value may be.
_KINDS = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    dict: "a JSON object",
}
# What --hparams means to a command: hparams, data_dir, model_name -> gin's
# bindings.
Translate = Callable[[Mapping[str, object], str, str], list[str]]
# The objects that the original always has.
_OBJECTS = (
    "PretrainingConfig.model = @ElectraConfig()",
    "PretrainingConfig.data = @PretrainingDataConfig()",
    "PretrainingConfig.optimizer = @OptimizerConfig()",
    "PretrainingConfig.run = @RunConfig()",
    "ElectraConfig.encoder = @EncoderConfig()",
)
# Settings whose values are others here.
_CONVERTED: dict[str, Callable[[typing.Any], object]] = {
    "use_tpu": lambda value: "tpu" if value else "one_device",
    "tpu_name": lambda value: "" if value is None else value,
    "keep_checkpoint_max": lambda value: value or 0,  # 0, None: all are kept.
    "do_train": lambda value: not value,
}
_QUESTIONS = "FinetuningConfig.question_answering = @QuestionAnsweringConfig()"


def read(text: str) -> dict:
    """Reads the value of --hparams: JSON, or the path of a file that holds it.

    Args:
      text: Such as '{"model_size": "base"}', or "hparams.json".

    Returns:
      Name -> value.

    Raises:
      errors.ConfigError: If there is no such file, or it is no JSON object,
        or has a key twice.
    """
    source = "--hparams"
    try:
        if not text.lstrip().startswith("{"):
            source = text
            with open(text, encoding="utf-8-sig") as file:
                text = file.read()
        hparams = json.loads(text, object_pairs_hook=files.each_once)
        if not isinstance(hparams, dict):
            raise ValueError(f"found {textwrap.shorten(text, 60)}")
    except (OSError, ValueError, RecursionError) as error:
        raise errors.ConfigError(
            "Expected a JSON object, or a file that holds one, as --hparams. "
            f"Received: {source} ({error})"
        ) from None
    return hparams


def pretraining(
    hparams: Mapping[str, object], data_dir: str, model_name: str
) -> list[str]:
    """The run of the original's run_pretraining.py.

    Args:
      hparams: As the original takes them.
      data_dir: Its --data-dir.
      model_name: Its --model-name.

    Returns:
      The bindings of a `configs.PretrainingConfig`, as lines of a gin file.

    Raises:
      errors.ConfigError: If a setting is unknown, or cannot be had here.
    """
    _check(hparams, PRETRAINING, ("do_train", "do_eval"))
    records = "pretrain_tfrecords/pretrain_data.tfrecord*"
    settings: dict[str, typing.Any] = {
        "pretrain_tfrecords": os.path.join(data_dir, records),
        "vocab_file": os.path.join(data_dir, "vocab.txt"),
        "model_dir": os.path.join(data_dir, "models", model_name),
        "iterations_per_loop": 100,
    }
    if hparams.get("debug"):
        settings |= original_settings.DEBUG_RUN
    settings |= hparams
    # Electric is computed whatever the other setting says, which is on by
    # default.
    if settings.get("electric_objective"):
        settings["electra_objective"] = False
    bindings = _bindings(hparams, settings, PRETRAINING)
    # Not of all settings: small has an embedding_size unless one is given.
    encoder = original_settings.encoder_config(hparams)
    for name, value in dataclasses.asdict(encoder).items():
        bindings[f"EncoderConfig.{name}"] = value
    return [*_OBJECTS, *(f"{name} = {v!r}" for name, v in bindings.items())]


def finetuning(
    hparams: Mapping[str, object], data_dir: str, model_name: str
) -> list[str]:
    """The run of the original's run_finetuning.py.

    Args:
      hparams: As the original takes them.
      data_dir: Its --data-dir.
      model_name: Its --model-name.

    Returns:
      The bindings of a `configs.FinetuningConfig`, as lines of a gin file.

    Raises:
      errors.ConfigError: If a setting is unknown, or cannot be had here.
    """
    _check(hparams, FINETUNING, ("debug", "raw_data_dir"))
    names = hparams.get("task_names", FINETUNING["task_names"].default)
    if isinstance(names, str):
        names = [name.strip() for name in names.split(",")]
    if not isinstance(names, list) or not all(
        isinstance(name, str) and name for name in names or [None]
    ):
        raise errors.ConfigError(
            "The hparam task_names must be a list of names. Received: "
            f"task_names={names!r}"
        )
    pretrained = os.path.join(data_dir, "models", model_name)
    settings: dict[str, object] = {
        "init_checkpoint": pretrained,
        "model_dir": os.path.join(
            pretrained, "finetuning_models", ",".join(names) + "_model"
        ),
        "vocab_file": _vocab_file(hparams, data_dir, pretrained),
    }
    settings |= original_settings.task_settings(names)
    settings |= original_settings.size_settings(hparams.get("model_size"))
    settings |= dict(hparams) | {"task_names": tuple(names)}
    # The checkpoint must have width and layers of the model size, and what was
    # given by itself.
    encoder = original_settings.encoder_config(hparams)
    overrides: typing.Any = hparams.get("model_hparam_overrides") or ()
    fields = {"hidden_size", "num_hidden_layers", *overrides}
    fields |= {"vocab_size", "embedding_size"} & set(hparams)
    bindings = {
        "FinetuningDataConfig.data_dir": data_dir,
        "FinetuningConfig.recipe": "released",
        "RunConfig.keep_checkpoint_max": 1,  # As gin/finetuning.gin.
        **_bindings(hparams, settings, FINETUNING),
        "FinetuningConfig.expected_encoder": {
            name: getattr(encoder, name) for name in sorted(fields)
        },
    }
    return [_QUESTIONS, *(f"{name} = {v!r}" for name, v in bindings.items())]


def _vocab_file(hparams: Mapping, data_dir: str, pretrained: str) -> str:
    """The model's, that of all models, or "": beside the checkpoint."""
    beside = os.path.join(pretrained, "vocab.txt")
    if os.path.isfile(beside):
        # Where it is looked for anyway, with what is known of it.
        return beside if "init_checkpoint" in hparams else ""
    shared = os.path.join(data_dir, "vocab.txt")
    return shared if os.path.isfile(shared) else ""


def _check(
    hparams: Mapping[str, object],
    known: Mapping[str, Hparam],
    refused: tuple[str, ...],
) -> None:
    """Refuses unknown names, and values of no sense or that cannot be had."""
    for name, value in hparams.items():
        if name not in known:
            hint = errors.did_you_mean(name, known)
            raise errors.ConfigError(
                f"Unknown hparam {name}" + (hint and f".{hint}")
            )
        default, parameter, _ = known[name]
        if name == "keep_checkpoint_max" and value is None:
            continue
        kind = type(default)
        if kind in (int, float):
            fits = original_settings.is_number(value)
        else:
            fits = kind not in _KINDS or isinstance(value, kind)
        if not fits or (name == "init_checkpoint" and not value):
            raise errors.ConfigError(
                f"The hparam {name} must be {_KINDS[kind]}. Received: "
                f"{name}={value!r}"
            )
        if parameter or value == default:
            continue
        if name in refused:
            raise errors.ConfigError(
                f"The hparam {name} must be {default!r}: see "
                f"docs/guides/from-electra.md. Received: {name}={value!r}"
            )
        errors.warn(
            f"--hparams: {name}={value!r} has no effect, see "
            "docs/guides/from-electra.md"
        )


def _bindings(
    hparams: Mapping[str, object],
    settings: Mapping[str, object],
    known: Mapping[str, Hparam],
) -> dict[str, object]:
    """Parameter -> value, of all that set one parameter."""
    return {
        hparam.parameter: _CONVERTED.get(name, lambda value: value)(
            settings.get(name, hparam.default)
        )
        for name, hparam in known.items()
        if "." in hparam.parameter and (name in hparams or not hparam.is_ours)
    }
