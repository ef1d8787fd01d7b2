"""Settings of the original -> configurations; imports no TensorFlow.

What its configure_pretraining.py and configure_finetuning.py have is here,
setting by setting: `PRETRAINING` and `FINETUNING` hold the name of each, its
default and where it goes. docs/guides/from-electra.md has the same as tables.
"""

import dataclasses
import typing
from collections.abc import Mapping, Sequence

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
# What its debug mode sets: the network, ...
_DEBUG_SIZES = {
    "num_hidden_layers": 3,
    "hidden_size": 144,
    "intermediate_size": 576,
    "num_attention_heads": 4,
}
# ... and the run.
DEBUG_RUN = {
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


def _same(owner: str, **defaults) -> dict[str, Hparam]:
    """Settings that have the same name here."""
    return {
        name: Hparam(default, f"{owner}.{name}")
        for name, default in defaults.items()
    }


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
_RESULTS = "results are in <model_dir>/eval_results.json"

PRETRAINING: dict[str, Hparam] = {
    "debug": Hparam(
        False,
        "EncoderConfig",
        "True: a tiny network, 20 steps of 8 examples; the model directory is "
        "not wiped",
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
    **_same(
        "ElectraConfig",
        electra_objective=True,
        electric_objective=False,
        gen_weight=1.0,
        disc_weight=50.0,
        mask_prob=0.15,
    ),
    **_same(
        "OptimizerConfig",
        learning_rate=5e-4,
        lr_decay_power=1.0,
        weight_decay_rate=0.01,
        num_warmup_steps=10000,
    ),
    "iterations_per_loop": Hparam(
        200, "RunConfig.steps_per_loop", is_ours=True
    ),
    **_same("RunConfig", save_checkpoints_steps=1000, num_train_steps=1000000),
    **_same("PretrainingDataConfig", num_eval_steps=100),
    "keep_checkpoint_max": Hparam(
        5, "RunConfig.keep_checkpoint_max", "0 or None: all are kept"
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
        None,
        "EncoderConfig.embedding_size",
        "None: the hidden size; not given: 128 for small",
    ),
    "vocab_size": Hparam(
        30522,
        "EncoderConfig.vocab_size",
        "the vocabulary file must have as many entries; the original takes "
        "fewer",
    ),
    "do_lower_case": Hparam(
        True, why="the TFRecords hold ids; it is a flag of their builder"
    ),
    **_same(
        "ElectraConfig",
        uniform_generator=False,
        two_tower_generator=False,
        untied_generator_embeddings=False,
        untied_generator=True,
        generator_layers=1.0,
        generator_hidden_size=0.25,
        disallow_correct=False,
        temperature=1.0,
        max_seq_length=128,
    ),
    **_same("PretrainingDataConfig", train_batch_size=128, eval_batch_size=128),
    **_TPU,
    "pretrain_tfrecords": Hparam(
        "<data_dir>/pretrain_tfrecords/pretrain_data.tfrecord*",
        "PretrainingDataConfig.train_files",
    ),
    "vocab_file": Hparam(
        "<data_dir>/vocab.txt", "PretrainingDataConfig.vocab_file"
    ),
    "model_dir": Hparam(
        "<data_dir>/models/<model_name>",
        "RunConfig.model_dir",
        "the original goes on from weights that lie there; here they are an "
        "init_checkpoint",
    ),
    "results_txt": Hparam(
        "<model_dir>/results/unsup_results.txt", why=_RESULTS
    ),
    "results_pkl": Hparam(
        "<model_dir>/results/unsup_results.pkl", why=_RESULTS
    ),
}

_EXPECTED = "FinetuningConfig.expected_encoder"

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
        "FinetuningDataConfig.eval_only",
        "False: the models in the model directory are scored, none is trained",
    ),
    "do_eval": Hparam(True, why="every trial is scored"),
    "keep_all_models": Hparam(True, why="the model of every trial is kept"),
    "model_size": Hparam(
        "small",
        _EXPECTED,
        "width and layers that the checkpoint must have; large: rate 5e-5 and "
        "decay 0.9",
    ),
    "task_names": Hparam(
        ["chunk"],
        "FinetuningDataConfig.task_names",
        "a single task has epochs and a length of its own",
    ),
    "model_hparam_overrides": Hparam(
        {},
        _EXPECTED,
        "what the checkpoint must have; what no shape tells, hparams.json "
        "beside it says",
    ),
    "embedding_size": Hparam(
        None,
        _EXPECTED,
        "None: the hidden size; not given: that of the checkpoint, in the "
        "original 128 for small",
    ),
    "vocab_size": Hparam(30522, _EXPECTED, "not given: that of the checkpoint"),
    "do_lower_case": Hparam(
        True,
        "FinetuningDataConfig.do_lower_case",
        "not given: what the vocabulary was made for",
        is_ours=True,
    ),
    **_same(
        "OptimizerConfig",
        learning_rate=1e-4,
        weight_decay_rate=0.01,
        layerwise_lr_decay=0.8,
    ),
    **_same("FinetuningDataConfig", num_train_epochs=3.0),
    **_same("OptimizerConfig", warmup_proportion=0.1),
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
    **_same(
        "FinetuningDataConfig",
        max_seq_length=128,
        train_batch_size=32,
        eval_batch_size=32,
    ),
    "predict_batch_size": Hparam(
        32, why="FinetuningDataConfig.eval_batch_size serves for both"
    ),
    **_same("FinetuningDataConfig", double_unordered=True),
    **_same(
        "QuestionAnsweringConfig",
        max_query_length=64,
        doc_stride=128,
        n_best_size=20,
        max_answer_length=30,
        answerable_classifier=True,
        answerable_uses_start_logits=True,
        answerable_weight=0.5,
        joint_prediction=True,
        beam_size=20,
        qa_na_threshold=-2.75,
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
        "where there is neither, the one beside the checkpoint",
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
        Hparam(None, why="all that a run writes is in its model directory"),
    ),
}


def of_task(task_names: Sequence[str]) -> dict[str, object]:
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
    _sizes_of(model_size)
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
      errors.ConfigError: If the model size or an override is unknown.
    """
    model_size = settings.get("model_size", "small")
    overrides = settings.get("model_hparam_overrides") or {}
    if not isinstance(overrides, Mapping):
        raise errors.ConfigError(
            "Expected a JSON object as model_hparam_overrides. Received: "
            f"{overrides!r}"
        )
    sizes: dict[str, typing.Any] = _sizes_of(model_size) | {
        "vocab_size": settings.get(
            "vocab_size", PRETRAINING["vocab_size"].default
        )
    }
    sizes |= overrides
    width = sizes["hidden_size"]
    if not is_number(width):
        raise errors.ConfigError(
            "model_hparam_overrides must set hidden_size to a whole number. "
            f"Received: hidden_size={width!r}"
        )
    sizes.setdefault("num_attention_heads", max(1, width // 64))
    sizes.setdefault("intermediate_size", 4 * width)
    if settings.get("debug"):
        sizes |= _DEBUG_SIZES
    # No field of the original's BertConfig.
    known = {field.name for field in dataclasses.fields(configs.EncoderConfig)}
    known -= {"embedding_size"}
    unknown = sorted(set(sizes) - known)
    if unknown:
        raise errors.ConfigError(
            f"model_hparam_overrides may set {', '.join(sorted(known))}. "
            f"Received: {', '.join(unknown)}."
            + errors.did_you_mean(unknown[0], known)
        )
    sizes["hidden_act"] = _hidden_act(sizes.get("hidden_act", "gelu"))
    sizes["embedding_size"] = settings.get(
        "embedding_size",
        SMALL_EMBEDDING_SIZE if model_size == "small" else None,
    )
    try:
        return configs.EncoderConfig(**sizes)
    except errors.ConfigError as error:  # gin adds where it was called.
        raise errors.ConfigError(errors.first_line(error)) from None


def expected_encoder(hparams: Mapping) -> dict[str, object]:
    """What the checkpoint of a fine-tuning must have.

    Args:
      hparams: Of the original's fine-tuning, as they were given.

    Returns:
      Field of `configs.EncoderConfig` -> value: width and layers of the model
      size, and what was given by itself.

    Raises:
      errors.ConfigError: If the model size or an override is unknown.
    """
    encoder = encoder_config(hparams)
    names = {"hidden_size", "num_hidden_layers"}
    names |= set(hparams.get("model_hparam_overrides") or {})
    names |= {"vocab_size", "embedding_size"} & set(hparams)
    return {name: getattr(encoder, name) for name in sorted(names)}


def with_one_objective(settings: Mapping) -> dict:
    """The original computes Electric, whatever the other setting says.

    That one is on by default, so somebody who asks for Electric may leave it.
    """
    if not settings.get("electric_objective"):
        return dict(settings)
    return dict(settings) | {"electra_objective": False}


def is_number(value: object) -> bool:
    """Whether a value of JSON is a number; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _sizes_of(model_size: object) -> dict[str, int]:
    if not isinstance(model_size, str) or model_size not in MODEL_SIZES:
        raise errors.ConfigError(
            f"model_size must be one of {', '.join(MODEL_SIZES)}. "
            f"Received: model_size={model_size!r}"
        )
    return MODEL_SIZES[model_size]


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
