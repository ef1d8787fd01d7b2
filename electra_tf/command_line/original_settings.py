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
# What the original's debug mode sets: the network, ...
_DEBUG_SIZES = {"num_hidden_layers": 3, "hidden_size": 144}
_DEBUG_SIZES |= {"intermediate_size": 576, "num_attention_heads": 4}
# ... and the run.
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


def _same(owner: str, **defaults) -> dict[str, Hparam]:
    """Settings that have the same name here."""
    return {
        name: Hparam(default, f"{owner}.{name}")
        for name, default in defaults.items()
    }


def _unused(**defaults) -> dict[str, Hparam]:
    """Settings of what is done in another way here, or always."""
    return {name: Hparam(default) for name, default in defaults.items()}


_TPU = {
    "use_tpu": Hparam(False, "RunConfig.distribution_strategy", is_ours=True),
    "tpu_name": Hparam(None, "RunConfig.tpu", is_ours=True),
    **_unused(num_tpu_cores=1, tpu_job_name=None, tpu_zone=None),
    **_unused(gcp_project=None, results_txt=None, results_pkl=None),
}

PRETRAINING: dict[str, Hparam] = {
    "debug": Hparam(False, "EncoderConfig"),
    **_unused(do_train=True, do_eval=False),
    **_same(
        "ElectraConfig",
        electra_objective=True,
        electric_objective=False,
        gen_weight=1.0,
        disc_weight=50.0,
        mask_prob=0.15,
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
    **_same("RunConfig", keep_checkpoint_max=5, model_dir=""),
    "model_size": Hparam("small", "EncoderConfig"),
    "model_hparam_overrides": Hparam({}, "EncoderConfig"),
    **_same("EncoderConfig", embedding_size=None, vocab_size=30522),
    **_unused(do_lower_case=True),
    **_same("PretrainingDataConfig", train_batch_size=128, eval_batch_size=128),
    **_same("PretrainingDataConfig", num_eval_steps=100, vocab_file=""),
    **_TPU,
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
    "do_lower_case": Hparam(
        True, "FinetuningDataConfig.do_lower_case", is_ours=True
    ),
    **_same(
        "OptimizerConfig",
        learning_rate=1e-4,
        weight_decay_rate=0.01,
        layerwise_lr_decay=0.8,
        warmup_proportion=0.1,
    ),
    "save_checkpoints_steps": Hparam(
        1000000, "RunConfig.save_checkpoints_steps", is_ours=True
    ),
    "iterations_per_loop": Hparam(
        1000, "RunConfig.steps_per_loop", is_ours=True
    ),
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
    **_same("RunConfig", model_dir=""),
    **_TPU,
    **_unused(keep_all_models=True, use_tfrecords_if_existing=True),
    **_unused(write_test_outputs=False, n_writes_test=5, predict_batch_size=32),
    **_unused(raw_data_dir="", qa_eval_file=None, qa_preds_file=None),
    **_unused(qa_na_file=None, preprocessed_data_dir=None),
    **_unused(test_predictions=None),
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
