"""Settings of the original -> configurations; imports no TensorFlow.

What its configure_pretraining.py and configure_finetuning.py have is here,
setting by setting: `PRETRAINING` and `FINETUNING` hold the name of each, its
default and where it goes. docs/guides/from-electra.md has the same as tables,
and how each is read.
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
# What no shape of a tensor tells of an encoder.
NOT_IN_TENSORS = (
    "num_attention_heads",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "initializer_range",
    "hidden_act",
)
# What the original's debug mode sets: the network, and the run.
_DEBUG_SIZES = {"num_hidden_layers": 3, "hidden_size": 144}
_DEBUG_SIZES |= {"intermediate_size": 576, "num_attention_heads": 4}
DEBUG_RUN = {"train_batch_size": 8, "num_train_steps": 20, "num_eval_steps": 2}
DEBUG_RUN |= {"eval_batch_size": 4, "iterations_per_loop": 1}


class Hparam(typing.NamedTuple):
    """One setting of the original.

    Attributes:
      default: The original's.
      parameter: What it sets here; "" where that is nothing.
      is_ours: Whether the value that gin/ has stands where none is given: for
        what changes no result, such as how often a line is printed.
    """

    default: object
    parameter: str = ""
    is_ours: bool = False


def _same(owner: type | str, names: str = "", **defaults) -> dict[str, Hparam]:
    """Settings that have the same name here; of `names` the default, too."""
    defaults |= {name: getattr(owner, name) for name in names.split()}
    owner = owner if isinstance(owner, str) else owner.__name__
    return {n: Hparam(value, f"{owner}.{n}") for n, value in defaults.items()}


def _unused(names: str = "", **defaults) -> dict[str, Hparam]:
    """Settings of what is done in another way here, or always."""
    defaults |= dict.fromkeys(names.split())
    return {name: Hparam(default) for name, default in defaults.items()}


def _gin(default: object, parameter: str) -> Hparam:
    return Hparam(default, parameter, is_ours=True)


_RUN = {
    "use_tpu": _gin(False, "RunConfig.distribution_strategy"),
    "tpu_name": _gin(None, "RunConfig.tpu"),
    **_unused(
        "tpu_job_name tpu_zone gcp_project results_txt results_pkl",
        num_tpu_cores=1,
    ),
    **_same("RunConfig", model_dir=""),
}

PRETRAINING: dict[str, Hparam] = {
    "debug": Hparam(False, "EncoderConfig"),
    **_unused(do_train=True, do_eval=False, do_lower_case=True),
    **_same(
        configs.ElectraConfig,
        "electra_objective electric_objective gen_weight disc_weight mask_prob "
        "uniform_generator two_tower_generator untied_generator_embeddings "
        "untied_generator generator_layers generator_hidden_size "
        "disallow_correct temperature",
        max_seq_length=128,
    ),
    **_same(
        configs.OptimizerConfig,
        "lr_decay_power weight_decay_rate",
        learning_rate=5e-4,
        num_warmup_steps=10000,
    ),
    "iterations_per_loop": Hparam(200, "RunConfig.steps_per_loop"),
    **_same(
        configs.RunConfig,
        "save_checkpoints_steps keep_checkpoint_max",
        num_train_steps=1000000,
    ),
    "model_size": Hparam("small", "EncoderConfig"),
    "model_hparam_overrides": Hparam({}, "EncoderConfig"),
    **_same("EncoderConfig", embedding_size=None, vocab_size=30522),
    **_same(
        configs.PretrainingDataConfig,
        "train_batch_size eval_batch_size num_eval_steps",
        vocab_file="",
    ),
    **_RUN,
    "pretrain_tfrecords": Hparam("", "PretrainingDataConfig.train_files"),
}

_EXPECTED = "FinetuningConfig.expected_encoder"

FINETUNING: dict[str, Hparam] = {
    **_unused(debug=False, log_examples=False, do_eval=True),
    **_same("FinetuningConfig", num_trials=1, init_checkpoint=""),
    "do_train": Hparam(True, "FinetuningDataConfig.eval_only"),
    "model_size": Hparam("small", _EXPECTED),
    "model_hparam_overrides": Hparam({}, _EXPECTED),
    "embedding_size": Hparam(None, _EXPECTED),
    "vocab_size": Hparam(30522, _EXPECTED),
    "do_lower_case": _gin(True, "FinetuningDataConfig.do_lower_case"),
    **_same(
        configs.OptimizerConfig,
        "weight_decay_rate",
        learning_rate=1e-4,
        layerwise_lr_decay=0.8,
        warmup_proportion=0.1,
    ),
    "save_checkpoints_steps": _gin(1000000, "RunConfig.save_checkpoints_steps"),
    "iterations_per_loop": _gin(1000, "RunConfig.steps_per_loop"),
    **_same(
        "FinetuningDataConfig",
        task_names=["chunk"],
        num_train_epochs=3.0,
        max_seq_length=128,
        train_batch_size=32,
        eval_batch_size=32,
        double_unordered=True,
        vocab_file="",
    ),
    **_same(
        configs.QuestionAnsweringConfig,
        "max_query_length doc_stride n_best_size max_answer_length "
        "answerable_classifier answerable_uses_start_logits answerable_weight "
        "joint_prediction beam_size qa_na_threshold",
    ),
    **_RUN,
    **_unused(
        "qa_eval_file qa_preds_file qa_na_file preprocessed_data_dir "
        "test_predictions",
        keep_all_models=True,
        use_tfrecords_if_existing=True,
        write_test_outputs=False,
        n_writes_test=5,
        predict_batch_size=32,
        raw_data_dir="",
    ),
}


def task_settings(task_names: Sequence[str]) -> dict[str, object]:
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


def size_settings(model_size: object) -> dict[str, object]:
    """Rates of fine-tuning by the model's size (configure_finetuning.py).

    Args:
      model_size: "small", "base" or "large".

    Returns:
      Setting -> value.
    """
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
    if not isinstance(model_size, str) or model_size not in MODEL_SIZES:
        raise errors.ConfigError(
            f"model_size must be one of {', '.join(MODEL_SIZES)}. "
            f"Received: model_size={model_size!r}"
        )
    overrides = settings.get("model_hparam_overrides") or {}
    # No field of the original's BertConfig.
    known = {field.name for field in dataclasses.fields(configs.EncoderConfig)}
    known -= {"embedding_size"}
    if not isinstance(overrides, Mapping) or overrides.keys() - known:
        unknown = min(set(overrides) - known, default="")
        raise errors.ConfigError(
            "Expected a JSON object as model_hparam_overrides, of "
            f"{', '.join(sorted(known))}. Received: {overrides!r}."
            + errors.did_you_mean(unknown, known)
        )
    sizes: dict[str, typing.Any] = MODEL_SIZES[model_size] | {
        "vocab_size": settings.get("vocab_size", 30522)
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
    # The original's get_activation takes None and "" for linear, and no case.
    hidden_act = sizes.get("hidden_act", "gelu") or "linear"
    sizes["hidden_act"] = str(hidden_act).lower()
    sizes["embedding_size"] = settings.get(
        "embedding_size", 128 if model_size == "small" else None
    )
    try:
        return configs.EncoderConfig(**sizes)
    except errors.ConfigError as error:  # gin adds where it was called.
        raise errors.ConfigError(errors.first_line(error)) from None


def is_number(value: object) -> bool:
    """Whether a value of JSON is a number; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
