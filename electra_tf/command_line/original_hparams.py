"""The original's --hparams -> the same run here; imports no TensorFlow.

The original's commands take settings as JSON on top of a model size:

    run_pretraining.py --data-dir DATA --model-name NAME \\
        --hparams '{"model_size": "base", ...}'

What its configure_pretraining.py and configure_finetuning.py make of them is
here, setting by setting: `PRETRAINING` and `FINETUNING` hold the name of each,
its default and where it goes. docs/differences.md has the same as tables.
"""

import dataclasses
import difflib
import json
import os
import typing
from collections.abc import Callable, Mapping

from electra_tf import configs, errors

# Table 6 of arXiv:2003.10555; heads are 64 wide and feed-forward layers 4
# times as wide as the hidden vector unless model_hparam_overrides says so.
MODEL_SIZES = {
    "small": {"hidden_size": 256, "num_hidden_layers": 12},
    "base": {"hidden_size": 768, "num_hidden_layers": 12},
    "large": {"hidden_size": 1024, "num_hidden_layers": 24},
}
# The only setting of pre-training that depends on the size by itself.
SMALL_EMBEDDING_SIZE = 128
# What no shape of a tensor tells of an encoder.
NOT_IN_TENSORS = (
    "num_attention_heads",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "initializer_range",
    "hidden_act",
)
# The original's get_activation knows these; None and "" are linear.
HIDDEN_ACTS = ("gelu", "relu", "tanh", "linear")
# What its debug mode sets.
_DEBUG_SIZES = {
    "num_hidden_layers": 3,
    "hidden_size": 144,
    "intermediate_size": 576,
    "num_attention_heads": 4,
}
_DEBUG_RUN = {
    "train_batch_size": 8,
    "num_train_steps": 20,
    "eval_batch_size": 4,
    "iterations_per_loop": 1,
    "num_eval_steps": 2,
}


class Hparam(typing.NamedTuple):
    """One setting of the original.

    Attributes:
      default: The original's.
      parameter: What it sets here; "" where that is nothing.
      why: How it is read, or why it sets nothing here.
      refused: Whether another value than the default changes what is learned,
        or what is to be done, and so may not be passed over.
      is_ours: Whether the value that gin/ has stands where none is given: for
        what changes no result, such as how often a line is printed.
    """

    default: object
    parameter: str = ""
    why: str = ""
    refused: bool = False
    is_ours: bool = False


class Translation(typing.NamedTuple):
    """What hparams say, in terms of this package.

    Attributes:
      bindings: Parameter -> value, as gin sets them.
      notes: A line for each setting that was given and has no effect.
    """

    bindings: dict[str, object]
    notes: list[str]


def _same(owner: str, name: str, default) -> tuple[str, Hparam]:
    return name, Hparam(default, f"{owner}.{name}")


_TPU = {
    "use_tpu": Hparam(
        False, "RunConfig.distribution_strategy", "True: 'tpu'", is_ours=True
    ),
    "tpu_name": Hparam(None, "RunConfig.tpu", is_ours=True),
    "num_tpu_cores": Hparam(1, why="all that the TPU has are used"),
    "tpu_job_name": Hparam(None, why="the cluster's resolver knows it"),
    "tpu_zone": Hparam(
        None, why="RunConfig.tpu takes the address of a TPU in another zone"
    ),
    "gcp_project": Hparam(
        None, why="RunConfig.tpu takes the address of a TPU in another project"
    ),
}

PRETRAINING: dict[str, Hparam] = {
    "debug": Hparam(
        False, "EncoderConfig", "True: a tiny network, 20 steps of 8 examples"
    ),
    "do_train": Hparam(
        True,
        why="a run trains, and evaluates at its end what "
        "PretrainingDataConfig.heldout_files names",
        refused=True,
    ),
    "do_eval": Hparam(
        False,
        why="a run evaluates at its end, or a finished one when it is run "
        "again, what PretrainingDataConfig.heldout_files names",
        refused=True,
    ),
    **dict(
        [
            _same("ElectraConfig", "electra_objective", True),
            _same("ElectraConfig", "electric_objective", False),
            _same("ElectraConfig", "gen_weight", 1.0),
            _same("ElectraConfig", "disc_weight", 50.0),
            _same("ElectraConfig", "mask_prob", 0.15),
            _same("OptimizerConfig", "learning_rate", 5e-4),
            _same("OptimizerConfig", "lr_decay_power", 1.0),
            _same("OptimizerConfig", "weight_decay_rate", 0.01),
            _same("OptimizerConfig", "num_warmup_steps", 10000),
        ]
    ),
    "iterations_per_loop": Hparam(
        200, "RunConfig.steps_per_loop", is_ours=True
    ),
    **dict(
        [
            _same("RunConfig", "save_checkpoints_steps", 1000),
            _same("RunConfig", "num_train_steps", 1000000),
            _same("PretrainingDataConfig", "num_eval_steps", 100),
            _same("RunConfig", "keep_checkpoint_max", 5),
        ]
    ),
    "model_size": Hparam(
        "small",
        "EncoderConfig",
        "widths, layers, heads; for small an embedding_size of 128",
    ),
    "model_hparam_overrides": Hparam(
        {}, "EncoderConfig", "each of the BertConfig's fields by its name"
    ),
    "embedding_size": Hparam(
        None, "EncoderConfig.embedding_size", "None: the hidden size"
    ),
    "vocab_size": Hparam(30522, "EncoderConfig.vocab_size"),
    "do_lower_case": Hparam(
        True, why="the TFRecords hold ids; it is a flag of their builder"
    ),
    **dict(
        [
            _same("ElectraConfig", "uniform_generator", False),
            _same("ElectraConfig", "two_tower_generator", False),
            _same("ElectraConfig", "untied_generator_embeddings", False),
            _same("ElectraConfig", "untied_generator", True),
            _same("ElectraConfig", "generator_layers", 1.0),
            _same("ElectraConfig", "generator_hidden_size", 0.25),
            _same("ElectraConfig", "disallow_correct", False),
            _same("ElectraConfig", "temperature", 1.0),
            _same("ElectraConfig", "max_seq_length", 128),
            _same("PretrainingDataConfig", "train_batch_size", 128),
            _same("PretrainingDataConfig", "eval_batch_size", 128),
        ]
    ),
    **_TPU,
    "pretrain_tfrecords": Hparam(
        "<data_dir>/pretrain_tfrecords/pretrain_data.tfrecord*",
        "PretrainingDataConfig.train_files",
    ),
    "vocab_file": Hparam(
        "<data_dir>/vocab.txt", "PretrainingDataConfig.vocab_file"
    ),
    "model_dir": Hparam(
        "<data_dir>/models/<model_name>", "RunConfig.model_dir"
    ),
    "results_txt": Hparam(
        "<model_dir>/results/unsup_results.txt",
        why="results are in <model_dir>/eval_results.json",
    ),
    "results_pkl": Hparam(
        "<model_dir>/results/unsup_results.pkl",
        why="results are in <model_dir>/eval_results.json",
    ),
    "max_predictions_per_seq": Hparam(
        None,
        why="follows from mask_prob and max_seq_length: "
        "int((mask_prob + 0.005) * max_seq_length)",
    ),
}

_OF_THE_CHECKPOINT = "the sizes are those of the checkpoint"
_IN_MODEL_DIR = "all that a run writes is in its model directory"

FINETUNING: dict[str, Hparam] = {
    "debug": Hparam(
        False,
        why="a quick run is one of few rows and epochs, and of a small "
        "checkpoint",
        refused=True,
    ),
    "log_examples": Hparam(False, why="no examples are logged"),
    "num_trials": Hparam(1, "FinetuningConfig.num_trials"),
    "do_train": Hparam(
        True,
        why="a run trains what is not trained yet, and scores it",
        refused=True,
    ),
    "do_eval": Hparam(True, why="every trial is scored"),
    "keep_all_models": Hparam(True, why="the model of every trial is kept"),
    "model_size": Hparam(
        "small",
        "OptimizerConfig",
        "large: rate 5e-5 and decay 0.9; " + _OF_THE_CHECKPOINT,
    ),
    "task_names": Hparam(
        ["chunk"],
        "FinetuningDataConfig.task_names",
        "a single task has epochs and a length of its own",
    ),
    "model_hparam_overrides": Hparam(
        {},
        why=_OF_THE_CHECKPOINT + "; what no shape tells is read from "
        "hparams.json beside it",
    ),
    "embedding_size": Hparam(None, why=_OF_THE_CHECKPOINT),
    "vocab_size": Hparam(30522, why=_OF_THE_CHECKPOINT),
    "do_lower_case": Hparam(
        True,
        "FinetuningDataConfig.do_lower_case",
        "not given: what the vocabulary was made for",
        is_ours=True,
    ),
    **dict(
        [
            _same("OptimizerConfig", "learning_rate", 1e-4),
            _same("OptimizerConfig", "weight_decay_rate", 0.01),
            _same("OptimizerConfig", "layerwise_lr_decay", 0.8),
            _same("FinetuningDataConfig", "num_train_epochs", 3.0),
            _same("OptimizerConfig", "warmup_proportion", 0.1),
        ]
    ),
    "save_checkpoints_steps": Hparam(
        1000000, "RunConfig.save_checkpoints_steps", is_ours=True
    ),
    "iterations_per_loop": Hparam(
        1000, "RunConfig.steps_per_loop", is_ours=True
    ),
    "use_tfrecords_if_existing": Hparam(True, why="features are made anew"),
    "write_test_outputs": Hparam(
        False, why="test sets that are there are predicted"
    ),
    "n_writes_test": Hparam(5, why="test sets are predicted by every trial"),
    **dict(
        [
            _same("FinetuningDataConfig", "max_seq_length", 128),
            _same("FinetuningDataConfig", "train_batch_size", 32),
            _same("FinetuningDataConfig", "eval_batch_size", 32),
        ]
    ),
    "predict_batch_size": Hparam(
        32, why="FinetuningDataConfig.eval_batch_size serves for both"
    ),
    "double_unordered": Hparam(True, "FinetuningDataConfig.double_unordered"),
    **dict(
        _same("QuestionAnsweringConfig", name, default)
        for name, default in (
            ("max_query_length", 64),
            ("doc_stride", 128),
            ("n_best_size", 20),
            ("max_answer_length", 30),
            ("answerable_classifier", True),
            ("answerable_uses_start_logits", True),
            ("answerable_weight", 0.5),
            ("joint_prediction", True),
            ("beam_size", 20),
            ("qa_na_threshold", -2.75),
        )
    ),
    **_TPU,
    "raw_data_dir": Hparam(
        "<data_dir>/finetuning_data/<task>",
        why="FinetuningDataConfig.data_dir is the folder of the tasks' folders",
        refused=True,
    ),
    "vocab_file": Hparam(
        "<data_dir>/models/<model_name>/vocab.txt, or <data_dir>/vocab.txt",
        "FinetuningDataConfig.vocab_file",
    ),
    "init_checkpoint": Hparam(
        "<data_dir>/models/<model_name>", "FinetuningConfig.init_checkpoint"
    ),
    "model_dir": Hparam(
        "<data_dir>/models/<model_name>/finetuning_models/<tasks>_model",
        "RunConfig.model_dir",
    ),
    **dict.fromkeys(
        (
            "results_txt",
            "results_pkl",
            "qa_eval_file",
            "qa_preds_file",
            "qa_na_file",
            "preprocessed_data_dir",
            "test_predictions",
        ),
        Hparam(None, why=_IN_MODEL_DIR),
    ),
}

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


class Reference(str):
    """A value that is one of gin's references, such as @RunConfig()."""


def read(text: str) -> dict:
    """Reads the value of --hparams: JSON, or the path of a file that holds it.

    Args:
      text: Such as '{"model_size": "base"}', or "hparams.json".

    Returns:
      Name -> value.

    Raises:
      configs.ConfigError: If there is no such file, or it is no JSON object,
        or has a key twice.
    """
    source = "--hparams"
    if not text.lstrip().startswith("{"):
        source = text
        try:
            with open(text, encoding="utf-8-sig") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            raise errors.ConfigError(
                "Expected JSON, or a file that holds it, as --hparams. "
                f"Received: {source!r} ({error})"
            ) from None

    def without_doubles(pairs):
        names = [name for name, _ in pairs]
        doubled = next((n for n in names if names.count(n) > 1), None)
        if doubled is not None:
            raise errors.ConfigError(
                f"Expected each name once in {source}. Received: {doubled} "
                "twice"
            )
        return dict(pairs)

    def refuse_constant(name):
        raise errors.ConfigError(
            f"Expected numbers in {source}. Received: {name}"
        )

    try:
        hparams = json.loads(
            text,
            object_pairs_hook=without_doubles,
            parse_constant=refuse_constant,
        )
    except (json.JSONDecodeError, RecursionError) as error:
        raise errors.ConfigError(
            f"Expected a JSON object in {source}. Received: {error}"
        ) from None
    if not isinstance(hparams, dict):
        raise errors.ConfigError(
            f"Expected a JSON object in {source}. Received: "
            f"{type(hparams).__name__}"
        )
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
      configs.ConfigError: If a setting is unknown, or cannot be had here.
    """
    _refuse_unknown(hparams, PRETRAINING)
    settings = {name: h.default for name, h in PRETRAINING.items()}
    model_dir = os.path.join(data_dir, "models", model_name)
    settings |= {
        "pretrain_tfrecords": os.path.join(
            data_dir, "pretrain_tfrecords/pretrain_data.tfrecord*"
        ),
        "vocab_file": os.path.join(data_dir, "vocab.txt"),
        "model_dir": model_dir,
    }
    if hparams.get("debug"):
        settings |= _DEBUG_RUN
    settings |= hparams
    settings = _with_one_objective(settings)
    # Not of all settings: small has an embedding_size unless one is given.
    encoder = encoder_config(hparams)
    bindings: dict[str, object] = {
        name: Reference(value) for name, value in _PRETRAINING_OBJECTS.items()
    }
    bindings |= {
        f"EncoderConfig.{name}": value
        for name, value in dataclasses.asdict(encoder).items()
    }
    bindings["RunConfig.steps_per_loop"] = 100  # As gin/pretraining.gin.
    bindings |= _bindings(hparams, settings, PRETRAINING)
    if settings["debug"]:
        bindings["RunConfig.steps_per_loop"] = settings["iterations_per_loop"]
    found = Translation(bindings, _notes(hparams, PRETRAINING))
    _refuse_other_predictions(settings)
    return found


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
      configs.ConfigError: If a setting is unknown, or cannot be had here.
    """
    _refuse_unknown(hparams, FINETUNING)
    settings = {name: h.default for name, h in FINETUNING.items()}
    task_names = hparams.get("task_names", settings["task_names"])
    if isinstance(task_names, str):
        task_names = task_names.split(",")
    pretrained = os.path.join(data_dir, "models", model_name)
    settings |= {
        "init_checkpoint": pretrained,
        "model_dir": os.path.join(
            pretrained,
            "finetuning_models",
            ",".join(map(str, typing.cast(list, task_names))) + "_model",
        ),
        # Beside the checkpoint, which is where it is looked for.
        "vocab_file": "",
    }
    beside = os.path.join(pretrained, "vocab.txt")
    shared = os.path.join(data_dir, "vocab.txt")
    if not os.path.isfile(beside) and os.path.isfile(shared):
        settings["vocab_file"] = shared
    settings |= of_task(typing.cast(list, task_names))
    settings |= of_model_size(hparams.get("model_size", "small"))
    settings |= hparams
    _refuse_overrides_that_no_shape_tells(settings)
    settings["task_names"] = tuple(typing.cast(list, task_names))
    bindings: dict[str, object] = {
        name: Reference(value) for name, value in _FINETUNING_OBJECTS.items()
    }
    bindings |= {
        "FinetuningDataConfig.data_dir": data_dir,
        "RunConfig.keep_checkpoint_max": 1,  # As gin/finetuning.gin.
    }
    bindings |= _bindings(hparams, settings, FINETUNING)
    return Translation(bindings, _notes(hparams, FINETUNING))


def of_task(task_names: typing.Sequence[str]) -> dict[str, object]:
    """Epochs and length of a single task (configure_finetuning.py).

    Args:
      task_names: Several tasks have the defaults.

    Returns:
      Setting -> value.
    """
    if len(task_names) != 1:
        return {}
    (name,) = task_names
    if name in ("rte", "sts"):
        return {"num_train_epochs": 10.0}
    # By the letters of the name: naturalqs has neither, and so keeps 128
    # tokens and 3 epochs.
    if "squad" in name or "qa" in name:
        return {"max_seq_length": 512, "num_train_epochs": 2.0}
    return {"max_seq_length": 256} if name == "chunk" else {}


def of_model_size(model_size: object) -> dict[str, object]:
    """Rates of fine-tuning by the model's size (configure_finetuning.py).

    Args:
      model_size: "small", "base" or "large".

    Returns:
      Setting -> value.
    """
    _require_model_size(model_size)
    if model_size == "large":
        return {"learning_rate": 5e-5, "layerwise_lr_decay": 0.9}
    return {}


def encoder_config(settings: Mapping) -> configs.EncoderConfig:
    """The encoder that the original builds from its settings.

    Args:
      settings: Of the original's pre-training or fine-tuning; the original's
        defaults stand in for what is not given.

    Returns:
      The discriminator's sizes.

    Raises:
      configs.ConfigError: If the model size or an override is unknown.
    """
    model_size = settings.get("model_size", "small")
    _require_model_size(model_size)
    overrides = settings.get("model_hparam_overrides") or {}
    if not isinstance(overrides, Mapping):
        raise errors.ConfigError(
            "Expected a JSON object as model_hparam_overrides. Received: "
            f"{overrides!r}"
        )
    sizes: dict[str, typing.Any] = MODEL_SIZES[model_size] | {
        "vocab_size": settings.get(
            "vocab_size", PRETRAINING["vocab_size"].default
        )
    }
    sizes |= overrides
    sizes.setdefault("num_attention_heads", max(1, sizes["hidden_size"] // 64))
    sizes.setdefault("intermediate_size", 4 * sizes["hidden_size"])
    if settings.get("debug"):
        sizes |= _DEBUG_SIZES
    # No field of the original's BertConfig.
    known = {field.name for field in dataclasses.fields(configs.EncoderConfig)}
    known -= {"embedding_size"}
    unknown = sorted(set(sizes) - known)
    if unknown:
        raise errors.ConfigError(
            f"model_hparam_overrides may set {', '.join(sorted(known))}. "
            f"Received: {', '.join(unknown)}" + _suggestion(unknown[0], known)
        )
    sizes["hidden_act"] = _hidden_act(sizes.get("hidden_act", "gelu"))
    sizes["embedding_size"] = settings.get(
        "embedding_size",
        SMALL_EMBEDDING_SIZE if model_size == "small" else None,
    )
    return configs.EncoderConfig(**sizes)


def electra_config(settings: Mapping) -> configs.ElectraConfig:
    """The pre-training model that the original builds from its settings.

    Settings of the run (batch size, paths, TPU) have no place in it and are
    passed over.

    Args:
      settings: Of the original's pre-training; the original's defaults stand
        in for what is not given.

    Returns:
      The model's configuration.

    Raises:
      configs.ConfigError: If a value does not fit.
    """
    return configs.ElectraConfig(
        encoder=encoder_config(settings),
        **_fields("ElectraConfig", _with_one_objective(settings), PRETRAINING),
    )


def optimizer_config(
    settings: Mapping, hparams: Mapping[str, Hparam] = PRETRAINING
) -> configs.OptimizerConfig:
    """The optimizer that the original builds from its settings.

    Args:
      settings: Of the original; its defaults stand in for what is not given.
      hparams: `PRETRAINING` or `FINETUNING`.

    Returns:
      The optimizer's configuration.

    Raises:
      configs.ConfigError: If a value does not fit.
    """
    return configs.OptimizerConfig(
        **_fields("OptimizerConfig", settings, hparams)
    )


def _with_one_objective(settings: Mapping) -> dict:
    """The original computes Electric, whatever the other setting says.

    That one is on by default, so somebody who asks for Electric may leave it.
    """
    if not settings.get("electric_objective"):
        return dict(settings)
    return dict(settings) | {"electra_objective": False}


def _fields(owner: str, settings: Mapping, hparams: Mapping[str, Hparam]):
    """Field of a class -> value."""
    return {
        hparam.parameter.removeprefix(f"{owner}."): settings.get(
            name, hparam.default
        )
        for name, hparam in hparams.items()
        if hparam.parameter.startswith(f"{owner}.")
    }


def _require_model_size(model_size: object) -> None:
    if model_size not in MODEL_SIZES:
        raise errors.ConfigError(
            f"model_size must be one of {', '.join(MODEL_SIZES)}. "
            f"Received: model_size={model_size!r}"
        )


def _hidden_act(received: object) -> str:
    """The activation that the original's get_activation takes a value for."""
    if received is None or received == "":
        return "linear"
    name = received.lower() if isinstance(received, str) else received
    if name not in HIDDEN_ACTS:
        raise errors.ConfigError(
            "model_hparam_overrides may ask for a hidden_act of "
            f"{', '.join(HIDDEN_ACTS)}, or for none, which is linear. "
            f"Received: hidden_act={received!r}"
        )
    return typing.cast(str, name)


def _suggestion(name: str, known: typing.Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f". Did you mean {close[0]}?" if close else ""


def _refuse_unknown(
    hparams: Mapping[str, object], known: Mapping[str, Hparam]
) -> None:
    for name in hparams:
        if name in ("data_dir", "model_name"):
            raise errors.ConfigError(
                f"Expected --{name} as a flag, as the original has it. "
                f"Received: {name} among the hparams"
            )
        if name not in known:
            raise errors.ConfigError(
                f"Unknown hparam {name}" + _suggestion(name, known)
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
        elif name == "tpu_name":
            value = value or ""
        elif name == "embedding_size":
            continue  # Part of the encoder's sizes.
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


def _refuse_overrides_that_no_shape_tells(settings: Mapping) -> None:
    """In fine-tuning the network is read from its checkpoint."""
    given = encoder_config(settings)
    assumed = encoder_config(
        dict(settings)
        | {
            "model_hparam_overrides": {
                name: value
                for name, value in (
                    settings["model_hparam_overrides"] or {}
                ).items()
                if name not in NOT_IN_TENSORS
            }
        }
    )
    folder = settings["init_checkpoint"]
    if not isinstance(folder, str):
        raise errors.ConfigError(
            "The hparam init_checkpoint must be a path: the sizes are read "
            f"there, FinetuningConfig.from_scratch leaves the weights. "
            f"Received: init_checkpoint={folder!r}"
        )
    if os.path.isfile(os.path.join(folder, "hparams.json")):
        return
    different = [
        f"{name}={getattr(given, name)!r}"
        for name in NOT_IN_TENSORS
        if getattr(given, name) != getattr(assumed, name)
    ]
    if different:
        raise errors.ConfigError(
            "The checkpoint must say what no shape of its tensors tells: write "
            f"these hparams to {os.path.join(folder, 'hparams.json')}. "
            f"Received: model_hparam_overrides with {', '.join(different)}"
        )


def _refuse_other_predictions(settings: Mapping) -> None:
    given = settings["max_predictions_per_seq"]
    if given is None:
        return
    derived = electra_config(settings).max_predictions_per_seq
    if given != derived:
        raise errors.ConfigError(
            "max_predictions_per_seq follows from mask_prob and "
            f"max_seq_length and must be {derived}. Received: {given!r}"
        )


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


# What --hparams means to a command.
Translate = Callable[[Mapping[str, object], str, str], Translation]
