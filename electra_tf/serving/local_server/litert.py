"""Files for LiteRT as a server holds them: the same requests and answers.

The tokenizer runs in TensorFlow, as in a SavedModel; the model behind it in
LiteRT, whose weights are packed once and which starts an operation sooner.

Shapes: B batch, L length, C labels.
"""

import os
import queue
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from electra_tf import errors
from electra_tf.model import task_head
from electra_tf.serving import inputs as inputs_lib
from electra_tf.serving import on_device, server_files, signatures
from electra_tf.serving.inputs import TOKENS_AT_ONCE, Tensors
from electra_tf.serving.local_server.servable import Servable, ServingError
from electra_tf.text.tokenization import ENCODER_FEATURES

# What weights may be -> the file of an export with them.
FILES = {name.split(".")[1]: name for name in on_device.FILES}
# An interpreter answers one request at a time, and has weights of its own.
_MOST_INTERPRETERS = 4
# Of a model that an earlier version exported, which did not say it.
_NUM_SEGMENTS = 2
_KINDS = ("classification", "multi_label_classification", "regression")

Arrays = dict[str, np.ndarray]


class LiteRtServable(Servable):
    """A classifier or regressor of `export --format=litert`, as version 1.

    Args:
      folder: Of the export.
      name: What clients call the model; by default as its folder is called.
      weights: One of `FILES`.

    Raises:
      ConfigError: If there is no such model, or it needs what only the
        SavedModel does.
    """

    def __init__(
        self, folder: str, name: str | None = None, weights: str = "float32"
    ):
        self.name = server_files.model_name(folder, name)
        self.version = 1
        self.path = os.path.join(folder, FILES[weights])
        try:
            model = on_device.OnDeviceModel(self.path)
        except ValueError as error:
            raise errors.ConfigError(str(error)) from None
        self._check(model.metadata)
        self.notes = model.metadata.get("notes") or []
        self._model = _Signatures(model)
        self.signatures = self._model.definitions

    def warm_up(self) -> int:
        """Answers a short and a long text; returns their number."""
        names = self._model.input_names
        texts = sorted(signatures.SENTENCES, key=len)
        chosen = (texts[0], texts[-1])
        for text in chosen:
            self._model.signatures[signatures.DEFAULT](
                **{name: tf.constant([text]) for name in names}
            )
        return len(chosen)

    def _check(self, metadata: dict) -> None:
        kind = metadata.get("kind")
        what = None
        if kind not in _KINDS:
            what = f"a model for {kind}"
        elif metadata.get("windows"):
            what = "one that reads long texts in windows"
        if what:
            raise errors.ConfigError(
                "Expected a classifier or regressor of single rows with "
                f"--runtime=litert. Received: {self.path}, {what}: serve its "
                "SavedModel with --runtime=tensorflow"
            )


class _Signatures:
    """The signatures of a SavedModel, answered by LiteRT.

    Attributes:
      signatures: Name -> what is called, from tensors to tensors.
      definitions: Name -> SignatureDef.
      input_names: Of the texts.
    """

    def __init__(self, model: on_device.OnDeviceModel):
        metadata = model.metadata
        self._kind = metadata["kind"]
        self._labels = np.array(
            [label.encode() for label in metadata.get("labels") or []], object
        )
        self._longest = metadata["max_seq_length"]
        num_segments = metadata.get("type_vocab_size", _NUM_SEGMENTS)
        self._greatest = (model.tokenizer.vocab_size - 1, 1, num_segments - 1)
        self.input_names = ("text", "text_pair")[
            : 1 + bool(metadata.get("has_pairs"))
        ]
        self._runners: queue.SimpleQueue = queue.SimpleQueue()
        for _ in range(min(_MOST_INTERPRETERS, os.cpu_count() or 1)):
            self._runners.put(model.new_runner())

        def pack(*texts) -> Tensors:
            packed = inputs_lib.pack_texts(
                model.tokenizer, self._longest, *texts
            )
            return inputs_lib.pad(packed, 2)

        self._pack = signatures.string_function(pack, *self.input_names)
        self._define()

    def _define(self) -> None:
        def spec(dtype, *shape):
            return tf.TensorSpec([None, *shape], dtype)

        texts = dict.fromkeys(self.input_names, spec(tf.string))
        ids = dict.fromkeys(ENCODER_FEATURES, spec(tf.int32, None))
        of_examples = {"inputs": spec(tf.string)}
        if self._kind == "regression":
            answer = {"value": spec(tf.float32)}
            for_examples = {"outputs": spec(tf.float32)}
            method = tf.saved_model.REGRESS_METHOD_NAME
        else:
            scores = spec(tf.float32, len(self._labels))
            answer = {"label": spec(tf.string), "scores": scores}
            for_examples = {
                "classes": spec(tf.string, len(self._labels)),
                "scores": scores,
            }
            method = tf.saved_model.CLASSIFY_METHOD_NAME
        predict = tf.saved_model.PREDICT_METHOD_NAME
        self.definitions = {
            signatures.DEFAULT: _definition(texts, answer, predict),
            signatures.TOKENS: _definition(ids, answer, predict),
            signatures.BYTES: _definition(of_examples, for_examples, method),
        }
        self.signatures: dict[str, Callable[..., Tensors]] = {
            signatures.DEFAULT: self._answer_texts,
            signatures.TOKENS: self._answer_tokens,
            signatures.BYTES: self._answer_examples,
        }

    def _answer_texts(self, **texts: tf.Tensor) -> Tensors:
        packed = self._pack(*(texts[name] for name in self.input_names))
        return self._answer({k: v.numpy() for k, v in packed.items()})

    def _answer_tokens(self, **features: tf.Tensor) -> Tensors:
        arrays = {name: features[name].numpy() for name in ENCODER_FEATURES}
        shape = arrays["input_ids"].shape
        if any(values.shape != shape for values in arrays.values()):
            raise ServingError(
                "Expected as many values of one input as of the other."
            )
        if shape[1] > self._longest:
            raise ServingError(
                f"Expected at most {self._longest} tokens a row."
            )
        for (name, values), most in zip(
            arrays.items(), self._greatest, strict=True
        ):
            if ((values < 0) | (values > most)).any():
                raise ServingError(f"Expected {name} from 0 to {most}.")
        if not arrays["input_mask"].any(axis=1).all():
            raise ServingError("Expected input_mask to have a 1 in each row.")
        missing = [[0, 0], [0, max(0, 2 - shape[1])]]
        return self._answer({k: np.pad(v, missing) for k, v in arrays.items()})

    def _answer_examples(self, inputs: tf.Tensor) -> Tensors:
        feature = tf.io.FixedLenFeature([], tf.string)
        answer = self._answer_texts(
            **tf.io.parse_example(
                inputs, dict.fromkeys(self.input_names, feature)
            )
        )
        if self._kind == "regression":
            return {"outputs": answer["value"]}
        classes = np.tile(self._labels, (len(answer["scores"]), 1))
        return {"classes": tf.constant(classes), "scores": answer["scores"]}

    def _answer(self, features: Arrays) -> Tensors:
        (numbers,) = self._run(features).values()
        if self._kind == "regression":
            return {"value": tf.constant(numbers)}
        if self._kind == "multi_label_classification":
            separator = task_head.LABEL_SEPARATOR.encode()
            # As `logits > 0` has it.
            chosen = [
                separator.join(self._labels[row])
                for row in np.atleast_2d(numbers) > 0.5
            ]
        else:
            chosen = list(self._labels[numbers.argmax(axis=-1)])
        return {
            "label": tf.constant(chosen, tf.string, [len(numbers)]),
            "scores": tf.constant(numbers),
        }

    def _run(self, features: Arrays) -> Arrays:
        """What LiteRT says of any number of rows, some of them at a time."""
        num_rows, length = features["input_ids"].shape
        if not num_rows:
            columns = [] if self._kind == "regression" else [len(self._labels)]
            return {"": np.zeros([0, *columns], np.float32)}
        at_once = max(1, TOKENS_AT_ONCE // length)
        run = self._runners.get()
        try:
            parts = [
                run(**{k: v[i : i + at_once] for k, v in features.items()})
                for i in range(0, num_rows, at_once)
            ]
        finally:
            self._runners.put(run)
        return {
            name: np.concatenate([part[name] for part in parts])
            for name in parts[0]
        }


def _definition(inputs, outputs, method: str) -> meta_graph_pb2.SignatureDef:
    def infos(specs):
        return {
            name: meta_graph_pb2.TensorInfo(
                name=f"{name}:0",
                dtype=spec.dtype.as_datatype_enum,
                tensor_shape=spec.shape.as_proto(),
            )
            for name, spec in specs.items()
        }

    return meta_graph_pb2.SignatureDef(
        inputs=infos(inputs), outputs=infos(outputs), method_name=method
    )
