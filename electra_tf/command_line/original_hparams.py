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

# Bindings that stand whatever is given: what gin/pretraining.gin and
# gin/finetuning.gin make the configuration of.
_PRETRAINING_OBJECTS = {
    "PretrainingConfig.model": "@ElectraConfig()",
    "PretrainingConfig.data": "@PretrainingDataConfig()",
    "PretrainingConfig.optimizer": "@OptimizerConfig()",
    "PretrainingConfig.run": "@RunConfig()",
    "ElectraConfig.encoder": "@EncoderConfig()",
}
_FINETUNING_OBJECTS = {
    "FinetuningConfig.data": "@FinetuningDataConfig()",
    "FinetuningConfig.optimizer": "@OptimizerConfig()",
    "FinetuningConfig.run": "@RunConfig()",
    "FinetuningConfig.question_answering": "@QuestionAnsweringConfig()",
}
# Each has some hparams that the other has not.
_COMMANDS = {"pre-training": PRETRAINING, "fine-tuning": FINETUNING}
# Type of a setting's default -> what its value may be.
_KINDS = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    dict: "a JSON object",
}


class Translation(typing.NamedTuple):
    """What hparams say, in terms of this package.

    Attributes:
      bindings: Parameter -> value, as gin sets them.
      notes: A line for each setting that was given and has no effect.
    """

    bindings: dict[str, object]
    notes: list[str]


# What --hparams means to a command: hparams, data_dir, model_name -> a run.
Translate = Callable[[Mapping[str, object], str, str], Translation]


class Reference(str):
    """A value that is one of gin's references, such as @RunConfig()."""


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
) -> Translation:
    """The run of the original's run_pretraining.py.

    Args:
      hparams: As the original takes them.
      data_dir: Its --data-dir.
      model_name: Its --model-name.

    Returns:
      The bindings of a `configs.PretrainingConfig`, and notes.

    Raises:
      errors.ConfigError: If a setting is unknown, or cannot be had here.
    """
    _check(hparams, PRETRAINING)
    settings = {name: h.default for name, h in PRETRAINING.items()}
    settings |= {
        "pretrain_tfrecords": os.path.join(
            data_dir, "pretrain_tfrecords/pretrain_data.tfrecord*"
        ),
        "vocab_file": os.path.join(data_dir, "vocab.txt"),
        "model_dir": os.path.join(data_dir, "models", model_name),
    }
    if hparams.get("debug"):
        settings |= original_settings.DEBUG_RUN
    settings |= hparams
    settings = original_settings.with_one_objective(settings)
    # Not of all settings: small has an embedding_size unless one is given.
    encoder = original_settings.encoder_config(hparams)
    bindings: dict[str, object] = {
        name: Reference(value) for name, value in _PRETRAINING_OBJECTS.items()
    }
    bindings["RunConfig.steps_per_loop"] = 100  # As gin/pretraining.gin.
    bindings |= _bindings(hparams, settings, PRETRAINING)
    bindings |= {
        f"EncoderConfig.{name}": value
        for name, value in dataclasses.asdict(encoder).items()
    }
    if settings["debug"]:
        bindings["RunConfig.steps_per_loop"] = settings["iterations_per_loop"]
    return Translation(bindings, _notes(hparams, PRETRAINING))


def finetuning(
    hparams: Mapping[str, object], data_dir: str, model_name: str
) -> Translation:
    """The run of the original's run_finetuning.py.

    Args:
      hparams: As the original takes them.
      data_dir: Its --data-dir.
      model_name: Its --model-name.

    Returns:
      The bindings of a `configs.FinetuningConfig`, and notes.

    Raises:
      errors.ConfigError: If a setting is unknown, or cannot be had here.
    """
    _check(hparams, FINETUNING)
    settings = {name: h.default for name, h in FINETUNING.items()}
    task_names = _task_names(hparams.get("task_names", settings["task_names"]))
    pretrained = os.path.join(data_dir, "models", model_name)
    settings |= {
        "init_checkpoint": pretrained,
        "model_dir": os.path.join(
            pretrained, "finetuning_models", ",".join(task_names) + "_model"
        ),
        "vocab_file": _vocab_file(hparams, data_dir, pretrained),
    }
    settings |= original_settings.of_task(task_names)
    settings |= original_settings.of_model_size(
        hparams.get("model_size", "small")
    )
    settings |= hparams
    settings["task_names"] = task_names
    bindings: dict[str, object] = {
        name: Reference(value) for name, value in _FINETUNING_OBJECTS.items()
    }
    bindings |= {
        "FinetuningDataConfig.data_dir": data_dir,
        "FinetuningConfig.recipe": "released",
        "RunConfig.keep_checkpoint_max": 1,  # As gin/finetuning.gin.
    }
    bindings |= _bindings(hparams, settings, FINETUNING)
    bindings["FinetuningConfig.expected_encoder"] = (
        original_settings.expected_encoder(hparams)
    )
    return Translation(bindings, _notes(hparams, FINETUNING))


def as_gin(bindings: Mapping[str, object]) -> list[str]:
    """Bindings as lines of a gin file.

    Args:
      bindings: Parameter -> value.

    Returns:
      Such as "RunConfig.seed = 1".
    """
    return [
        f"{name} = {value if isinstance(value, Reference) else repr(value)}"
        for name, value in bindings.items()
    ]


def _vocab_file(hparams: Mapping, data_dir: str, pretrained: str) -> str:
    """The model's, that of all models, or "": beside the checkpoint."""
    beside = os.path.join(pretrained, "vocab.txt")
    if os.path.isfile(beside):
        # Where it is looked for anyway, with what is known of it.
        return beside if "init_checkpoint" in hparams else ""
    shared = os.path.join(data_dir, "vocab.txt")
    return shared if os.path.isfile(shared) else ""


def _task_names(received: object) -> tuple[str, ...]:
    names = received
    if isinstance(received, str):
        names = [name.strip() for name in received.split(",")]
    if (
        not isinstance(names, list)
        or not names
        or not all(isinstance(name, str) and name for name in names)
    ):
        raise errors.ConfigError(
            "The hparam task_names must be a list of names. Received: "
            f"task_names={received!r}"
        )
    return tuple(names)


def _check(hparams: Mapping[str, object], known: Mapping[str, Hparam]) -> None:
    """Refuses names that the original does not know, and values of no sense."""
    for name, value in hparams.items():
        if name in ("data_dir", "model_name"):
            raise errors.ConfigError(
                f"Expected --{name} as a flag, as the original has it. "
                f"Received: {name} among the hparams"
            )
        if name == "max_predictions_per_seq":
            raise errors.ConfigError(
                f"Unknown hparam {name}: it follows from mask_prob and "
                "max_seq_length, in the original as well"
            )
        if name not in known:
            for command, theirs in _COMMANDS.items():
                if name in theirs:
                    raise errors.ConfigError(
                        f"Unknown hparam {name}: it is one of {command}"
                    )
            hint = errors.did_you_mean(name, known)
            raise errors.ConfigError(
                f"Unknown hparam {name}" + (hint and f".{hint}")
            )
        kind = type(known[name].default)
        if name in ("model_size", "init_checkpoint") or kind not in _KINDS:
            continue  # With a line of its own, or without a type.
        if name == "keep_checkpoint_max" and value is None:
            continue
        if kind in (int, float):
            fits = original_settings.is_number(value)
        else:
            fits = isinstance(value, kind)
        if not fits:
            raise errors.ConfigError(
                f"The hparam {name} must be {_KINDS[kind]}. Received: "
                f"{name}={value!r}"
            )
    folder = hparams.get("init_checkpoint", "the default")
    if not isinstance(folder, str) or not folder:
        raise errors.ConfigError(
            "The hparam init_checkpoint must be a path: the sizes are read "
            "there, FinetuningConfig.from_scratch leaves the weights. "
            f"Received: init_checkpoint={folder!r}"
        )


def _bindings(
    hparams: Mapping[str, object],
    settings: Mapping[str, object],
    known: Mapping[str, Hparam],
) -> dict[str, object]:
    """Parameter -> value, of all that set one parameter."""
    bindings: dict[str, object] = {}
    for name, hparam in known.items():
        if "." not in hparam.parameter or (
            hparam.is_ours and name not in hparams
        ):
            continue
        value = settings[name]
        if name == "use_tpu":
            value = "tpu" if value else "one_device"
        elif name == "tpu_name" and value is None:
            value = ""
        elif name == "keep_checkpoint_max":
            value = value or 0
        elif name == "do_train":
            value = not value
        bindings[hparam.parameter] = value
    return bindings


def _notes(
    hparams: Mapping[str, object], known: Mapping[str, Hparam]
) -> list[str]:
    """Refuses what cannot be had, and names what has no effect."""
    notes = []
    for name, value in hparams.items():
        hparam = known[name]
        if hparam.parameter or value == hparam.default:
            continue
        if hparam.refused:
            raise errors.ConfigError(
                f"The hparam {name} must be {hparam.default!r}: {hparam.why}. "
                f"Received: {name}={value!r}"
            )
        notes.append(f"{name}={value!r} has no effect: {hparam.why}")
    return notes
