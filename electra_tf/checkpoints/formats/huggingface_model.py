"""Models of transformers: built to write a checkpoint, run to compare one."""

import dataclasses
import os
import re
from collections.abc import Callable, Mapping

import numpy as np

from electra_tf import configs
from electra_tf.checkpoints import sizes as sizes_lib
from electra_tf.checkpoints import task_heads
from electra_tf.checkpoints.checkpoint import Checkpoint
from electra_tf.checkpoints.formats import huggingface
from electra_tf.errors import CheckpointError
from electra_tf.files import read_json
from electra_tf.text import vocabulary


def forward(
    path: str, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """What transformers itself computes.

    With one change, where `notes` advises it: a masked language model's head
    has the activation of its encoder.

    Args:
      path: As for `read`.
      inputs: `input_ids`, `input_mask` and `segment_ids` <int32>[B, L].

    Returns:
      Outputs under the names of `verify.forward`.

    Raises:
      ImportError: If transformers or torch is not installed.
    """
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    folder = huggingface._directory(path)
    assert folder is not None
    parts = [folder]
    if not os.path.isfile(os.path.join(folder, huggingface.CONFIG_FILE)):
        parts = [
            os.path.join(folder, name) for name in huggingface.SUBDIRECTORIES
        ]
    features = {
        name: torch.tensor(np.asarray(inputs[ours], np.int64))
        for name, ours in (
            ("input_ids", "input_ids"),
            ("attention_mask", "input_mask"),
            ("token_type_ids", "segment_ids"),
        )
    }
    outputs: dict[str, np.ndarray] = {}
    for part in (p for p in parts if os.path.isdir(p)):
        config = read_json(os.path.join(part, huggingface.CONFIG_FILE))
        architecture = (config.get("architectures") or ["ElectraModel"])[0]
        model = getattr(transformers, architecture).from_pretrained(
            part, local_files_only=True
        )
        is_generator = architecture == "ElectraForMaskedLM"
        if is_generator and huggingface._head_notes(model.config.hidden_act):
            model.generator_predictions.activation = (
                transformers.activations.ACT2FN[model.config.hidden_act]
            )
        with torch.no_grad():
            found = model.float().eval()(**features, output_hidden_states=True)
        prefix = "generator_" if is_generator else ""
        outputs[f"{prefix}sequence_output"] = found["hidden_states"][-1].numpy()
        name = {
            "ElectraForMaskedLM": "generator_logits",
            "ElectraForPreTraining": "discriminator_logits",
        }.get(architecture, "logits")
        for theirs, ours in (
            ("logits", name),
            ("start_logits", "start_logits"),
            ("end_logits", "end_logits"),
        ):
            if theirs in found:
                outputs[ours] = found[theirs].numpy()
    return outputs


# --- Writing -----------------------------------------------------------------


def _models(
    checkpoint: Checkpoint,
) -> dict[str, tuple[dict, Callable[[], dict[str, np.ndarray]]]]:
    """Subdirectory ("" for none) -> config.json and what makes the tensors."""
    tensors = checkpoint.tensors
    if checkpoint.head is not None:
        _require_discriminator(checkpoint)
        return {"": _finetuned_model(checkpoint)}
    found: dict = {}
    scope = sizes_lib.masked_lm_encoder(tensors)
    has_discriminator_head = "discriminator_predictions/dense/kernel" in tensors
    if scope is not None:
        config = (
            checkpoint.generator
            if scope == "generator"
            else checkpoint.discriminator
        )
        assert config is not None
        settings = _config(checkpoint, config, "ElectraForMaskedLM")
        if scope == "electra" and not has_discriminator_head:
            settings[huggingface._SCOPE_KEY] = "electra"
        found["generator"] = (
            settings,
            lambda: (
                _encoder(tensors, scope, config)
                | _head(tensors, "generator_predictions/")
            ),
        )
    if checkpoint.discriminator is not None and (
        scope != "electra" or has_discriminator_head
    ):
        found["discriminator"] = (
            _config(
                checkpoint,
                checkpoint.discriminator,
                "ElectraForPreTraining"
                if has_discriminator_head
                else "ElectraModel",
            ),
            lambda: (
                _encoder(tensors, "electra", checkpoint.discriminator)
                | _head(tensors, "discriminator_predictions/")
            ),
        )
    if not found:
        _require_discriminator(checkpoint)
    if len(found) == 1:
        return {"": next(iter(found.values()))}
    return found


def _require_discriminator(checkpoint: Checkpoint) -> None:
    if checkpoint.discriminator is None:
        raise CheckpointError(
            "Expected a discriminator, or a generator with its head. Received: "
            "a checkpoint with neither"
        )


def _config(
    checkpoint: Checkpoint, config: configs.EncoderConfig, architecture: str
) -> dict:
    """config.json of a model."""
    tokens = checkpoint.vocabulary.tokens if checkpoint.vocabulary else ()
    pad = vocabulary.PAD_TOKEN
    return {
        "architectures": [architecture],
        "model_type": "electra",
        **dataclasses.asdict(config),
        "layer_norm_eps": huggingface._LAYER_NORM_EPS,
        "position_embedding_type": "absolute",
        "classifier_dropout": huggingface._HEAD_DROPOUT_PROB,
        "summary_type": "first",
        "summary_use_proj": True,
        "summary_activation": "gelu",
        "summary_last_dropout": 0.1,
        "tie_word_embeddings": True,
        "pad_token_id": tokens.index(pad) if pad in tokens else 0,
        "torch_dtype": "float32",
    }


def _encoder(
    tensors: Mapping[str, np.ndarray],
    scope: str,
    config: configs.EncoderConfig | None,
) -> dict[str, np.ndarray]:
    """An encoder's tensors under their names there."""
    assert config is not None
    found: dict[str, np.ndarray] = {}
    for ours in sizes_lib.encoder_shapes(config, scope):
        rest = ours.removeprefix(f"{scope}/")
        number = re.search(r"/layer_(\d+)/", rest)
        if number is not None:
            theirs = huggingface._THEIR_NAMES[
                rest.replace(number[0], "/layer_{}/")
            ]
            theirs = theirs.format(number[1])
        else:
            theirs = huggingface._THEIR_NAMES[rest]
        # A generator without tables has a copy of the discriminator's there.
        value = tensors[ours if ours in tensors else f"electra/{rest}"]
        found[f"electra.{theirs}"] = _theirs(ours, value)
    return found


def _theirs(ours: str, value: np.ndarray) -> np.ndarray:
    return value.T if ours.endswith("/kernel") else value


def _head(
    tensors: Mapping[str, np.ndarray], scope: str
) -> dict[str, np.ndarray]:
    """Tensors of a head of pre-training under their names there."""
    return {
        theirs: _theirs(ours, tensors[ours])
        for ours, theirs in huggingface._HEAD_NAMES.items()
        if ours.startswith(scope) and ours in tensors
    }


def _finetuned_model(checkpoint: Checkpoint):
    """config.json of a fine-tuned model and what makes its tensors."""
    head, encoder = checkpoint.head, checkpoint.discriminator
    assert head is not None and encoder is not None
    config = _config(checkpoint, encoder, huggingface._CLASSES[head.kind])
    config["finetuning_task"] = head.task_name
    ours = task_heads.head_tensors(checkpoint.tensors, head.task_name)
    if head.kind == "question_answering":
        lacking = [
            what
            for option, what in huggingface._LACKING_OPTIONS.items()
            if head.options.get(option, True)
        ]
        if lacking:
            raise CheckpointError(
                "ElectraForQuestionAnswering lacks "
                + " and ".join(lacking)
                + f", which the head {head.task_name!r} has: leave the head "
                "behind with --encoder-only"
            )
        theirs = {
            "qa_outputs.weight": np.concatenate(
                [ours["dense/kernel"].T, ours["dense_1/kernel"].T]
            ),
            "qa_outputs.bias": np.concatenate(
                [ours["dense/bias"], ours["dense_1/bias"]]
            ),
        }
    else:
        labels = head.labels or huggingface._default_labels(head)
        if head.kind == "regression":
            labels = head.labels or ("LABEL_0",)
        config["num_labels"] = len(labels)
        config["id2label"] = {str(i): label for i, label in enumerate(labels)}
        config["label2id"] = {label: i for i, label in enumerate(labels)}
        if head.kind == "tagging":
            theirs = {
                "classifier.weight": ours["dense/kernel"].T,
                "classifier.bias": ours["dense/bias"],
            }
        else:
            config["problem_type"] = huggingface._PROBLEM_TYPES[head.kind]
            theirs = _write_classifier(ours, checkpoint)
    return (
        config,
        lambda: _encoder(checkpoint.tensors, "electra", encoder) | theirs,
    )


def _write_classifier(
    ours: Mapping[str, np.ndarray], checkpoint: Checkpoint
) -> dict[str, np.ndarray]:
    """The head for classification: out_proj(gelu(dense(x))).

    The original's head is one dense layer, y = x W + b, without the hidden
    layer. As gelu(y) - gelu(-y) = y Phi(y) + y Phi(-y) = y, a hidden layer that
    computes every y and every -y, and an output layer that subtracts the one
    from the other, is the same function. That takes two hidden channels for
    each label. With more labels than that, the hidden layer is x + c with c so
    large that gelu does not change it (see `_shifted_identity`), and the output
    layer subtracts c W.

    Args:
      ours: "dense/kernel" [D, C] and "dense/bias" [C], perhaps also
        "hidden/kernel" [D, D] and "hidden/bias" [D].
      checkpoint: For the encoder's last LayerNorm.

    Returns:
      The tensors under their names there.
    """
    kernel, bias = ours["dense/kernel"], ours["dense/bias"]
    if "hidden/kernel" in ours:
        return {
            "classifier.dense.weight": ours["hidden/kernel"].T,
            "classifier.dense.bias": ours["hidden/bias"],
            "classifier.out_proj.weight": kernel.T,
            "classifier.out_proj.bias": bias,
        }
    width, num_labels = kernel.shape
    if 2 * num_labels > width:
        return _shifted_identity(kernel, bias, checkpoint)
    weight = np.zeros((width, width), np.float32)
    hidden_bias = np.zeros(width, np.float32)
    for sign, start in ((1, 0), (-1, 1)):
        weight[start : 2 * num_labels : 2] = sign * kernel.T
        hidden_bias[start : 2 * num_labels : 2] = sign * bias
    return {
        "classifier.dense.weight": weight,
        "classifier.dense.bias": hidden_bias,
        "classifier.out_proj.weight": _subtraction(num_labels, width),
        "classifier.out_proj.bias": np.zeros(num_labels, np.float32),
    }


def _subtraction(num_labels: int, width: int) -> np.ndarray:
    """[C, D]: channel 2 i minus channel 2 i + 1, for each label i."""
    matrix = np.zeros((num_labels, width), np.float32)
    rows = np.arange(num_labels)
    matrix[rows, 2 * rows] = 1.0
    matrix[rows, 2 * rows + 1] = -1.0
    return matrix


def _shifted_identity(
    kernel: np.ndarray, bias: np.ndarray, checkpoint: Checkpoint
) -> dict[str, np.ndarray]:
    """A hidden layer that gelu leaves alone: x + c.

    x comes from a LayerNorm, so no channel of it is below
    beta - |gamma| sqrt(D - 1); c lifts that to 6, from where on gelu is the
    identity in float32.
    """
    config = checkpoint.discriminator
    assert config is not None
    width = config.hidden_size
    last = f"electra/encoder/layer_{config.num_hidden_layers - 1}/output"
    gamma = checkpoint.tensors[f"{last}/LayerNorm/gamma"].astype(np.float64)
    beta = checkpoint.tensors[f"{last}/LayerNorm/beta"].astype(np.float64)
    lowest = beta - np.abs(gamma) * np.sqrt(width - 1)
    shift = (6.0 - np.minimum(lowest, 6.0)).astype(np.float32)
    product = shift.astype(np.float64) @ kernel.astype(np.float64)
    return {
        "classifier.dense.weight": np.eye(width, dtype=np.float32),
        "classifier.dense.bias": shift,
        "classifier.out_proj.weight": kernel.T,
        "classifier.out_proj.bias": (bias - product).astype(np.float32),
    }


def _read_classifier(
    theirs: Mapping[str, np.ndarray],
) -> dict[str, np.ndarray]:
    """The head for classification; what `_write_classifier` made is undone."""
    weight, hidden_bias, out, bias = (
        theirs[f"classifier.{name}"]
        for name in (
            "dense.weight",
            "dense.bias",
            "out_proj.weight",
            "out_proj.bias",
        )
    )
    num_labels, width = out.shape
    if (
        2 * num_labels <= width
        and not bias.any()
        and np.array_equal(out, _subtraction(num_labels, width))
        and not weight[2 * num_labels :].any()
        and np.array_equal(
            weight[: 2 * num_labels : 2], -weight[1 : 2 * num_labels : 2]
        )
        and np.array_equal(
            hidden_bias[: 2 * num_labels : 2],
            -hidden_bias[1 : 2 * num_labels : 2],
        )
    ):
        return {
            "dense/kernel": weight[: 2 * num_labels : 2].T,
            "dense/bias": hidden_bias[: 2 * num_labels : 2],
        }
    return {
        "hidden/kernel": weight.T,
        "hidden/bias": hidden_bias,
        "dense/kernel": out.T,
        "dense/bias": bias,
    }
