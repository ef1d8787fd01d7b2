"""An exported model -> answers as plain Python objects.

Knows a SavedModel by its signature and by the metadata beside it, so it asks
models of every kind that `serving` exports, and needs none of the code that
they were made with.

Shapes: B batch, T tokens (or words, or answers), C labels.
"""

import os
import pathlib
import re
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the ops)

from electra_tf import errors, files
from electra_tf.inference import exchange

# The folder beside a SavedModel that servers leave alone, and a file in it.
EXTRA_DIR = "assets.extra"
METADATA_FILE = "metadata.json"
# What TensorFlow raises for files that are damaged or cut short.
_LOAD_ERRORS = (
    *(tf.errors.OpError, OSError, ValueError, AttributeError),
    *(LookupError, RuntimeError),
)
_SIGNATURE = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY
# What there is for each of several tokens, words or answers, where the model
# gives their offsets or a mask.
ITEM_OUTPUTS = (
    *("tokens", "words", "answers", "labels", "probabilities", "scores"),
    *("starts", "ends", "sequence_output", "input_mask"),
)


class SavedModel:
    """One version of an exported model, whatever it takes and gives.

    Args:
      path: One version, or the folder of the versions, of which the newest is
        taken.

    Attributes:
      path: The version.
      metadata: What `serving` wrote beside it; {} without. Its notes, such as
        what had to be assumed, are given as warnings.
      signatures: Name -> what is called, from tensors to tensors.

    Raises:
      ValueError: If there is no SavedModel, it cannot be loaded, or what is
        beside it was changed.
    """

    def __init__(self, path: str):
        self.path = find_version(path)
        file = os.path.join(self.path, EXTRA_DIR, METADATA_FILE)
        self.metadata = {}
        if os.path.isfile(file):
            self.metadata = files.read_json(
                file, notes=list[str], labels=list[str]
            )
        for note in self.metadata.get("notes") or []:
            errors.warn(note)
        try:
            # Kept: the signatures do not keep what they belong to.
            self._loaded = tf.saved_model.load(self.path)
        except _LOAD_ERRORS as e:
            raise ValueError(
                f"Cannot load the SavedModel {self.path}: "
                f"{errors.first_line(e)}"
            ) from None
        self.signatures = self._loaded.signatures


class ExportedModel(SavedModel):
    """A SavedModel that answers texts.

    Args:
      path: See `SavedModel`.
      outputs: Which of its outputs are wanted; all if none is named.

    Attributes:
      input_names: Of the texts that it takes, in the order in which they are
        given.
      signature: The one of `signatures` that takes texts.
      num_cut: Texts that `predict` has not read to their end.

    Raises:
      ValueError: If there is no SavedModel, it does not take texts, or has no
        such output.
    """

    def __init__(self, path: str, outputs: Sequence[str] = ()):
        super().__init__(path)
        if _SIGNATURE not in self.signatures:
            raise ValueError(
                f"Expected a SavedModel with the signature {_SIGNATURE}. "
                f"Received: {self.path}, with "
                + (", ".join(sorted(self.signatures)) or "no signature")
            )
        self.signature = self.signatures[_SIGNATURE]
        specs = self.signature.structured_input_signature[1]
        for name, spec in specs.items():
            if spec.dtype != tf.string or spec.shape.rank != 1:
                raise ValueError(
                    "Expected a SavedModel that takes texts, <string>[B]. "
                    f"Received: {self.path}, whose {_SIGNATURE} takes {name} "
                    f"<{spec.dtype.name}>{spec.shape}"
                )
        known = [name for name in exchange.INPUT_NAMES if name in specs]
        self.input_names = known or sorted(specs)
        available = sorted(self.signature.structured_outputs)
        if unknown := sorted(set(outputs) - set(available)):
            raise ValueError(
                f"Expected outputs among {', '.join(available)}. Received: "
                + ", ".join(unknown)
            )
        self.num_cut = 0
        self._outputs = [n for n in available if not outputs or n in outputs]

    def predict(self, rows: Sequence[Sequence[bytes]]) -> list[dict]:
        """Answers texts.

        Args:
          rows: B rows with a text for each input.

        Returns:
          For each row its texts and its answers by their names; what JSON can
          hold. `scores` of named labels is label -> score, and what there is
          for each token or word is a list without padding.

        Raises:
          ValueError: If the model refuses the texts.
        """
        columns = {
            name: tf.constant([row[i] for row in rows], tf.string)
            for i, name in enumerate(self.input_names)
        }
        try:
            outputs = self.signature(**columns)
        except tf.errors.OpError as error:
            raise ValueError(
                f"{self.path} refused the texts: {errors.first_line(error)}"
            ) from None
        arrays = {name: value.numpy() for name, value in outputs.items()}
        for name, values in arrays.items():
            if values.dtype.kind == "f" and np.isnan(values).any():
                raise ValueError(
                    f"Expected numbers from {self.path}. Received: NaN in "
                    f"{name}: a training has destroyed its weights"
                )
        self.num_cut += int(np.sum(arrays.get("truncated", 0)))
        return [
            {
                name: text.decode("utf-8", errors="replace")
                for name, text in zip(self.input_names, row, strict=True)
            }
            | self._answer({name: a[i] for name, a in arrays.items()})
            for i, row in enumerate(rows)
        ]

    def _answer(self, outputs: dict[str, np.ndarray]) -> dict:
        """One row's outputs as Python objects."""
        is_item = None
        if "input_mask" in outputs:
            is_item = outputs["input_mask"] > 0
        elif "starts" in outputs:
            # Padding has the offset -1.
            is_item = outputs["starts"] >= 0
        answer = {}
        for name in self._outputs:
            value = outputs[name]
            if is_item is not None and name in ITEM_OUTPUTS:
                value = value[is_item]
            answer[name] = _to_python(value)
        labels = self.metadata.get("labels")
        if is_item is None and labels and "scores" in answer:
            scores = answer["scores"]
            answer["scores"] = dict(zip(labels, scores, strict=True))
        return answer


def numbered(folder: str) -> dict[int, str]:
    """What is called 1, 2, ... in a folder: number -> path."""
    return {
        int(path.name): str(path)
        for path in sorted(pathlib.Path(folder).glob("*"))
        # int() takes more digits than 0 to 9, isdigit() even more.
        if re.fullmatch("[0-9]{1,18}", path.name)
    }


def newest_version(folder: str) -> int | None:
    """The number of the newest SavedModel in a folder; None without any."""
    versions = numbered(folder).items()
    return max((n for n, path in versions if _is_model(path)), default=None)


def _is_model(path: str) -> bool:
    return os.path.isfile(os.path.join(path, "saved_model.pb"))


def find_version(path: str) -> str:
    """The SavedModel at a path, or the newest version below it.

    Raises:
      ValueError: If there is none.
    """
    if _is_model(path):
        return path
    version = newest_version(path)
    if version is None:
        raise ValueError(
            "Expected a SavedModel, or a folder of its versions 1, 2 and so "
            f"on, as electra-tf export writes them. Received: {path}"
        )
    return numbered(path)[version]


def _to_python(value):
    """A number, string or list; floats with the digits that float32 has."""
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if isinstance(value, np.floating | float):
        return float(f"{value:.7g}")
    if isinstance(value, np.ndarray | list):
        return [_to_python(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value
