"""A fine-tuned model -> a SavedModel that answers raw strings.

Tokenization, truncation, padding and the label names are in the graph, so that
whoever serves it needs TensorFlow and the ops of tensorflow_text, but none of
this package.

Shapes: B batch, L length, C labels.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Sequence

import tensorflow as tf

from electra_tf import configs, tokenization
from electra_tf.checkpoint_conversion import reading, task_heads, vocabulary
from electra_tf.command_line import write_atomically
from electra_tf.finetuning import finetune
from electra_tf.finetuning.model import FinetuningModel


class TextClassifier(tf.Module):
    """What the SavedModel holds.

    Args:
      model: The fine-tuned model.
      task_name: Whose head.
      tokenizer: The one that it was trained with.
      labels: C names.
      max_seq_length: Longer texts are cut.
      vocab_file: Goes along as an asset, for people.
    """

    def __init__(
        self,
        model: FinetuningModel,
        task_name: str,
        tokenizer: tokenization.FullTokenizer,
        labels: Sequence[str],
        max_seq_length: int,
        vocab_file: str,
    ):
        super().__init__(name="text_classifier")
        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length
        self.vocab_asset = tf.saved_model.Asset(vocab_file)
        # A Keras 3 model loses layers that it holds in lists when it is saved;
        # its variables in a list of their own do not.
        self.model_variables = [v.value for v in model.variables]
        self._call_model = lambda features: model(features)["task_outputs"][
            task_name
        ]["logits"]
        self._labels = tuple(labels)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def serving_default(self, text):
        """Classifies texts.

        Args:
          text: <string>[B], UTF-8.

        Returns:
          `label` <string>[B], the likeliest one, and `scores` <float32>[B, C],
          the probabilities in the order of the labels.
        """
        features = self.tokenizer.pack_inputs(
            [self.tokenizer.tokenize(text)], self.max_seq_length
        )
        # A batch of 0 has no longest row: the model needs a first token.
        padding = tf.maximum(0, 2 - tf.shape(features["input_ids"])[1])
        features = {
            name: tf.pad(values, [[0, 0], [0, padding]])
            for name, values in features.items()
        }
        scores = tf.nn.softmax(self._call_model(features))
        labels = tf.constant(self._labels)
        return {
            "label": tf.gather(labels, tf.argmax(scores, axis=-1)),
            "scores": scores,
        }


def load_classifier(
    model_dir: str, vocab_dir: str
) -> tuple[TextClassifier, dict]:
    """Rebuilds a model that was fine-tuned to classify texts.

    Args:
      model_dir: Of a fine-tuning run, whose trial that was best on dev is
        taken, or a fine-tuned checkpoint of any format.
      vocab_dir: An empty folder for the vocabulary, which must be there until
        the classifier is saved.

    Returns:
      The classifier, and what is known of it: task, labels, maximum length,
      scores.

    Raises:
      ValueError: If there is no such model, or no vocabulary with it.
    """
    checkpoint = reading.read_checkpoint(model_dir)
    head, config = checkpoint.head, checkpoint.discriminator
    if head is None or config is None or head.kind != "classification":
        raise configs.ConfigError(
            "Expected a model that was fine-tuned to classify texts. Received: "
            f"{model_dir}, with "
            + (f"a head for {head.kind}" if head else "no fine-tuned head")
        )
    found = checkpoint.vocabulary
    if found is None or found.do_lower_case is None:
        raise configs.ConfigError(
            f"Expected {model_dir} to say its vocabulary and whether text is "
            "lower-cased: convert it with tools/convert_checkpoint.py "
            "--vocab-file --do-lower-case"
        )
    vocabulary.write(found, vocab_dir)
    vocab_file = os.path.join(vocab_dir, vocabulary.VOCAB_FILE)
    model = FinetuningModel(config, [task_heads.make_head(head, config)])
    reading.assign_all(checkpoint, model.variables, model_dir, "the model")
    labels = list(head.labels or map(str, range(head.num_outputs or 0)))
    strip_accents = vocabulary.strips_accents(found)
    max_seq_length = checkpoint.max_seq_length or config.max_position_embeddings
    classifier = TextClassifier(
        model,
        head.task_name,
        tokenization.FullTokenizer(
            vocab_file, found.do_lower_case, strip_accents
        ),
        labels,
        max_seq_length,
        vocab_file,
    )
    return classifier, {
        "task": head.task_name,
        "labels": labels,
        "max_seq_length": max_seq_length,
        "do_lower_case": found.do_lower_case,
        "strip_accents": strip_accents,
        "scores": _scores(model_dir),
    }


def _scores(model_dir: str) -> dict | None:
    """Of a fine-tuning run's best trial; None for other checkpoints."""
    path = os.path.join(model_dir, finetune.RESULTS_FILE)
    if not os.path.isfile(path):
        return None
    with open(path, encoding="utf-8") as f:
        results = json.load(f)
    return results["trials"][results["best_on_dev"] - 1]


def export(model_dir: str, output_dir: str) -> str:
    """Writes the next version of a SavedModel.

    TF Serving polls for new versions, so it is written under another name and
    then renamed.

    Args:
      model_dir: See `load_classifier`.
      output_dir: Holds the versions 1, 2, ...

    Returns:
      Path of the new version.

    Raises:
      ValueError: If there is no finished fine-tuning run.
    """
    with tempfile.TemporaryDirectory() as vocab_dir:
        classifier, metadata = load_classifier(model_dir, vocab_dir)
        return _save(classifier, metadata, output_dir)


def _save(classifier: TextClassifier, metadata: dict, output_dir: str) -> str:
    os.makedirs(output_dir, exist_ok=True)
    versions = [int(name) for name in os.listdir(output_dir) if name.isdigit()]
    path = os.path.join(output_dir, str(max(versions, default=0) + 1))
    temporary = os.path.join(output_dir, f"tmp-{os.getpid()}")
    try:
        tf.saved_model.save(
            classifier,
            temporary,
            signatures={"serving_default": classifier.serving_default},
        )
        extra = os.path.join(temporary, "assets.extra")
        os.makedirs(extra)
        write_atomically(
            os.path.join(extra, "metadata.json"),
            json.dumps(metadata, indent=1) + "\n",
        )
        os.rename(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return path
