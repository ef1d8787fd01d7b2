"""A fine-tuned model -> a SavedModel that answers raw strings.

Tokenization, truncation, padding and the label names are in the graph, so that
whoever serves it needs TensorFlow and the ops of tensorflow_text, but none of
this package.

Shapes: B batch, L length, C labels.
"""

import json
import os
import shutil
from collections.abc import Sequence

import tensorflow as tf

from electra_tf import configs, run_record, tokenization, training
from electra_tf.command_line import write_atomically
from electra_tf.finetuning import finetune, text_tasks
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


def load_classifier(model_dir: str) -> tuple[TextClassifier, dict]:
    """Rebuilds what a fine-tuning run trained.

    Args:
      model_dir: Of the run; its trial that was best on dev is taken.

    Returns:
      The classifier, and what is known of it: task, labels, maximum length,
      scores.

    Raises:
      ConfigError: If there is no finished fine-tuning run.
    """
    config = run_record.read_config(model_dir)
    if config.get("class") != "FinetuningConfig":
        raise configs.ConfigError(
            "Expected the model directory of a fine-tuning run. Received: "
            f"{model_dir}, of a {config.get('class')}"
        )
    results = _read_json(model_dir, finetune.RESULTS_FILE)
    about = _read_json(model_dir, "model.json")
    trial = results["best_on_dev"]
    data = config["data"]
    task = text_tasks.ClassificationTask(about["task_name"], about["labels"])
    model = finetune.build_model(
        configs.EncoderConfig(**about["encoder"]), task
    )
    trial_dir = os.path.join(model_dir, f"trial_{trial}")
    training.restore_variables(
        model.variables, finetune.find_checkpoint(trial_dir), "the model"
    )
    tokenizer = tokenization.FullTokenizer(
        data["vocab_file"], data["do_lower_case"], data["strip_accents"]
    )
    classifier = TextClassifier(
        model,
        task.name,
        tokenizer,
        task.labels,
        data["max_seq_length"],
        data["vocab_file"],
    )
    metadata = {
        "task": task.name,
        "labels": task.labels,
        "max_seq_length": data["max_seq_length"],
        "do_lower_case": data["do_lower_case"],
        "strip_accents": data["strip_accents"],
        "scores": results["trials"][trial - 1],
    }
    return classifier, metadata


def _read_json(model_dir: str, name: str) -> dict:
    path = os.path.join(model_dir, name)
    if not os.path.isfile(path):
        raise configs.ConfigError(
            f"Expected a finished fine-tuning run with {name} in {model_dir}: "
            "run python -m electra_tf.run_finetuning first"
        )
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def export(model_dir: str, output_dir: str) -> str:
    """Writes the next version of a SavedModel.

    TF Serving polls for new versions, so it is written under another name and
    then renamed.

    Args:
      model_dir: Of a fine-tuning run.
      output_dir: Holds the versions 1, 2, ...

    Returns:
      Path of the new version.

    Raises:
      ConfigError: If there is no finished fine-tuning run.
    """
    classifier, metadata = load_classifier(model_dir)
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
