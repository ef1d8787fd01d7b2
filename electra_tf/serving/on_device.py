"""A checkpoint -> files for LiteRT (once TensorFlow Lite), for phones.

They take token ids, not texts: of the tokenizer's ops, LiteRT has none, and no
runtime that can be installed links those of TensorFlow in their place. The
vocabulary and its settings go along for whoever tokenizes on the device.

Shapes: B batch, L length, C labels, D hidden.
"""

import os
import pathlib
import shutil
import tempfile

import numpy as np
import tensorflow as tf

from electra_tf import errors, files
from electra_tf.command_line import silence
from electra_tf.inference import predictor
from electra_tf.serving import exportable, inputs, saved_model
from electra_tf.serving import signatures as signatures_lib
from electra_tf.serving.exportable import Source
from electra_tf.text import tokenization, vocabulary

# The signature for inputs of any B and L. That for one input of the greatest
# length, which accelerators want, is called so with the length behind it.
TOKENS = "tokens"

# Name of the file -> whether weights are rounded to 8 bits.
FILES = {"model.float32.tflite": False, "model.int8.tflite": True}
VOCAB_FILE = vocabulary.VOCAB_FILE


def export(model_dir: str, output_dir: str, **options) -> list[str]:
    """Writes a model in float32, and with weights of 8 bits.

    The latter is quantized dynamically: matrix products are of 8-bit integers,
    whose ranges are those of the weights and of the activations at hand.

    Args:
      model_dir: What to export, as in `exportable.load`.
      output_dir: Gets the files; those of an earlier export are replaced.
      **options: Of `exportable.load`, such as `kind` or `has_pairs`.

    Returns:
      Paths of the two models.

    Raises:
      ValueError: If there is no such model, or it cannot be converted.
    """
    with tempfile.TemporaryDirectory() as vocab_dir:
        source = exportable.load(model_dir, vocab_dir, **options)
        models = convert(source)
        with files.writing(output_dir):
            os.makedirs(output_dir, exist_ok=True)
            # Written last: without it nobody takes new models for earlier ones.
            metadata_file = pathlib.Path(output_dir, predictor.METADATA_FILE)
            metadata_file.unlink(missing_ok=True)
            for name, content in models.items():
                with files.whole_file(os.path.join(output_dir, name)) as path:
                    pathlib.Path(path).write_bytes(content)
            # With its settings.
            for name in (VOCAB_FILE, vocabulary.settings_file(VOCAB_FILE)):
                shutil.copy(os.path.join(vocab_dir, name), output_dir)
    metadata = source.metadata | {
        "signatures": [TOKENS, f"{TOKENS}_{source.max_seq_length}"],
        "bytes": {name: len(model) for name, model in models.items()},
        "git_commit": files.git_commit(),
        "versions": files.versions(["tensorflow"]),
    }
    files.write_json(str(metadata_file), metadata, ensure_ascii=False)
    return [os.path.join(output_dir, name) for name in models]


def convert(source: Source) -> dict[str, bytes]:
    """The models of `export`, by the names of their files.

    Their signatures take `input_ids`, `input_mask` and `segment_ids`
    <int32>[B, L]. They return, by kind,

    * classification, multi_label_classification: `scores` <float32>[B, C],
      probabilities in the order of the labels;
    * regression: `value` <float32>[B];
    * tagging: `scores` <float32>[B, L, C];
    * replaced_token_detection: `probabilities` <float32>[B, L];
    * encoding: `pooled_output` <float32>[B, D] and `sequence_output`
      <float32>[B, L, D];
    * question_answering: what the head says of every window.

    Args:
      source: The model.

    Raises:
      ValueError: If LiteRT lacks an op for it.
    """
    served = saved_model.make_served_model(source)

    def call(features):
        return signatures_lib.numbers(source, served.compute(features))

    length = source.max_seq_length
    signatures = {
        TOKENS: inputs.token_function(call, None, None),
        f"{TOKENS}_{length}": inputs.token_function(call, 1, length),
    }
    # Without the tokenizer.
    module = tf.Module()
    # In a list of their own: see `signatures.ServedModel`.
    module.model_variables = [v.value for v in source.keras_variables]
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures=signatures)
        return {
            name: _convert(folder, list(signatures), is_int8)
            for name, is_int8 in FILES.items()
        }


def _convert(folder: str, signatures: list[str], is_int8: bool) -> bytes:
    converter = tf.lite.TFLiteConverter.from_saved_model(
        folder, signature_keys=signatures
    )
    if is_int8:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    try:
        with silence.stderr():  # Where every op is told of.
            return converter.convert()
    # The converter's own error is no public class.
    except Exception as error:
        lines = str(error).splitlines()
        reason = next((x for x in lines if "ops:" in x or "error:" in x), "")
        raise ValueError(
            f"LiteRT cannot represent the model: {reason.strip()[:300]}"
        ) from None


class OnDeviceModel:
    """A file of `export` in LiteRT's interpreter, as a device would run it.

    Args:
      path: The .tflite file, the others of the export beside it.

    Attributes:
      metadata: What is beside the model.
      tokenizer: Of the vocabulary beside it.

    Raises:
      ValueError: If there are no such files.
    """

    def __init__(self, path: str):
        folder = os.path.dirname(path)
        metadata_file = os.path.join(folder, predictor.METADATA_FILE)
        vocab_file = os.path.join(folder, VOCAB_FILE)
        self.metadata = files.read_json(metadata_file, ["kind"])
        self.tokenizer = tokenization.FullTokenizer(
            vocabulary.Vocabulary(
                tuple(vocabulary.load_vocab(vocab_file)),
                self.metadata["do_lower_case"],
                self.metadata["strip_accents"],
                self.metadata["text_cleaning"],
            )
        )
        try:
            from ai_edge_litert.interpreter import Interpreter
        except ImportError:
            Interpreter = tf.lite.Interpreter
        self._interpreter = Interpreter(model_path=path, num_threads=1)
        self._run = self._interpreter.get_signature_runner(TOKENS)
        # As a graph: op by op a text would take thirty times as long.
        self._pack = tf.function(
            self._packed, autograph=False, reduce_retracing=True
        )

    def pack(self, *texts: list[str]) -> dict[str, np.ndarray]:
        """Texts as the model reads them.

        Args:
          *texts: B texts, and for pairs B more.

        Returns:
          Its inputs, <int32>[B, L].
        """
        packed, is_cut = self._pack(*(tf.constant(t, tf.string) for t in texts))
        if num_cut := int(np.sum(is_cut)):
            errors.warn(
                f"{num_cut} of {len(is_cut)} texts are cut: the model reads "
                f"{self.metadata['max_seq_length']} tokens"
            )
        return {name: values.numpy() for name, values in packed.items()}

    def _packed(self, *columns: tf.Tensor) -> tuple[dict, tf.Tensor]:
        length = self.metadata["max_seq_length"]
        if self.metadata.get("lower_cases_words"):
            tokens = self.tokenizer.tokenize_uncased(columns[0])
            packed = self.tokenizer.pack_inputs([tokens], length)
            is_cut = tokens.row_lengths() > length - 2
        else:
            packed, is_cut = inputs.pack_and_compare(
                self.tokenizer, length, *columns
            )
        if self.metadata["kind"] == "tagging":
            segment = self.metadata["segment"]
            packed["segment_ids"] = packed["input_mask"] * segment
        return inputs.pad(packed, 2), is_cut

    def __call__(self, features: dict[str, np.ndarray]) -> dict:
        """Runs the signature `tokens`.

        Args:
          features: `input_ids`, `input_mask` and `segment_ids` <int32>[B, L],
            at least one row.

        Returns:
          See `convert`; numpy arrays.
        """
        return self._run(**features)
