"""Encoder outputs -> predictions and losses, one head for each task.

A head's variables have the names of the original's checkpoints, such as
task_specific/mnli/dense/kernel. All kernels are Glorot-uniform, as the original
gives no initializer to any of them. Losses are float32 under every policy.

Shapes: B batch, L length, D hidden, C classes, K beams.
"""

import re

import tensorflow as tf

from electra_tf import configs
from electra_tf.model import encoder, kernels, losses, windows

# On the text's vector, before the last layer; from the original.
HEAD_DROPOUT_PROB = 0.1

# Width of the hidden layers of the question answering head; from the original.
QA_HIDDEN_SIZE = 512

# Added to the logits of positions that cannot hold an answer.
DISALLOWED_LOGIT = -1000.0
# Below the log-probability of anything that is disallowed.
_NEVER = -1e9


class Head(encoder.Layer):
    """The layers and the loss of one task.

    Args:
      task_name: Prefix of the task's features; scope of its variables.
      hidden_size: Width of the encoder's outputs.
    """

    # The task's own features that a loss needs; a call returns them, too.
    labels: tuple[str, ...]

    def __init__(self, task_name: str, hidden_size: int):
        if not re.fullmatch(r"[A-Za-z0-9_.\-]+", task_name):
            raise ValueError(
                "Expected a task name of letters, digits and _ . - only. "
                f"Received: {task_name!r}."
            )
        super().__init__(name=task_name)
        self.task_name = task_name
        self.hidden_size = hidden_size

    def feature(self, features: dict[str, tf.Tensor], name: str) -> tf.Tensor:
        """One of the task's own features, e.g. "label_ids"."""
        return features[f"{self.task_name}_{name}"]

    def call(
        self,
        encoder_outputs,
        features,
        dropout_seed=None,
        teacher_forcing=False,
    ):
        """Predicts, and takes the loss where the features hold the labels.

        Args:
          encoder_outputs: Of `encoder.Encoder`.
          features: Those of `predict`; for a loss also `<task>_<label>` for
            each of `labels`.
          dropout_seed: <int32>[2], or None for no dropout.
          teacher_forcing: Whether predictions may look at the labels.

        Returns:
          What `predict` says and, where the features hold labels, those under
          their names and `loss` <float32>[B].
        """
        outputs = self.predict(
            encoder_outputs, features, dropout_seed, teacher_forcing
        )
        if f"{self.task_name}_{self.labels[0]}" in features:
            for name in self.labels:
                outputs[name] = self.feature(features, name)
            outputs["loss"] = self.loss(outputs, features)
        return outputs

    def predict(
        self, encoder_outputs, features, dropout_seed, teacher_forcing
    ) -> dict[str, tf.Tensor]:
        """Name -> what the task's scores need; takes what `call` takes."""
        raise NotImplementedError

    def loss(self, outputs, features) -> tf.Tensor:
        """<float32>[B], from predictions and labels."""
        raise NotImplementedError

    def weighted(self, row_losses: tf.Tensor, features) -> tf.Tensor:
        """Losses times `<task>_loss_weights` <float32>[B, ...], if there are
        any: training may have them, evaluation has none."""
        weights = features.get(f"{self.task_name}_loss_weights")
        return row_losses if weights is None else row_losses * weights

    def set_dropout(self, rate: float) -> None:
        """Another share of dropped activations, where the head drops any."""

    def metric_sums(
        self, outputs: dict[str, tf.Tensor], weights: tf.Tensor
    ) -> dict[str, losses.Sums]:
        """What accumulates over batches beside the loss; nothing by default.

        Args:
          outputs: Of `call`.
          weights: <float32>[B], 1 on this task's rows.

        Returns:
          Metric name -> losses.Sums.
        """
        del outputs, weights
        return {}


class PooledHead(Head):
    """A dense layer on one vector of the whole text.

    Args:
      task_name: Prefix of the task's features; scope of its variables.
      hidden_size: Width of the encoder's outputs.
      num_labels: Width of the dense layer; 1 for a number.
      hidden_activation: "gelu" puts a layer of the encoder's width before it,
        named "hidden", as Hugging Face's heads have one; None for none, as in
        the original.
      pooling: One of `configs.POOLINGS`; may be set before the first call.

    Raises:
      ValueError: If there is no such pooling.
    """

    def __init__(
        self,
        task_name: str,
        hidden_size: int,
        num_labels: int = 1,
        hidden_activation: str | None = None,
        pooling: str = configs.DEFAULT_POOLING,
    ):
        super().__init__(task_name, hidden_size)
        self.num_labels = num_labels
        if pooling not in configs.POOLINGS:
            raise ValueError(
                f"Expected a pooling of {', '.join(configs.POOLINGS)}. "
                f"Received: {pooling!r}."
            )
        self.pooling = pooling
        self.hidden: encoder.Dense | None = None
        if hidden_activation:
            self.hidden = encoder.Dense(
                hidden_size, hidden_size, None, "hidden"
            )
            self.hidden_dropout = encoder.Dropout(HEAD_DROPOUT_PROB)
        self.dense = encoder.Dense(hidden_size, num_labels, None, "dense")
        self.dropout = encoder.Dropout(HEAD_DROPOUT_PROB)

    def set_dropout(self, rate):
        self.dropout.rate = rate
        if self.hidden is not None:
            self.hidden_dropout.rate = rate

    def pool(self, encoder_outputs, features=None) -> tf.Tensor:
        """One vector <float>[B, D] of each row, or of each window.

        Raises:
          ValueError: If a mean is taken, and nothing says what is padding.
        """
        if self.pooling == configs.DEFAULT_POOLING:
            return encoder_outputs["pooled_output"]
        cut = encoder_outputs.get("windows")
        if cut is not None:
            features = cut.features
        if features is None:
            raise ValueError(
                f"Expected features with input_mask for pooling="
                f"{self.pooling!r}. Received: features=None."
            )
        return mean_of_tokens(
            encoder_outputs["sequence_output"], features["input_mask"]
        )

    def project(
        self, encoder_outputs, dropout_seed=None, features=None
    ) -> tf.Tensor:
        """The dense layer's output <float32>[B, outputs].

        The mean over the windows of each text, where `encoder_outputs` has
        "windows".

        Args:
          encoder_outputs: Of `encoder.Encoder`.
          dropout_seed: <int32>[2], or None for no dropout.
          features: `input_mask` <int32>[B, L]; what is read of a text may need
            none, see `pool`.
        """
        key, hidden_key = kernels.draw_keys(dropout_seed, 2)
        x = self.dropout(self.pool(encoder_outputs, features), key)
        if self.hidden is not None:
            x = kernels.activation(self.hidden(x))
            x = self.hidden_dropout(x, hidden_key)
        outputs = tf.cast(self.dense(x), tf.float32)
        cut = encoder_outputs.get("windows")
        return outputs if cut is None else windows.average(outputs, cut)


def mean_of_tokens(sequence: tf.Tensor, input_mask: tf.Tensor) -> tf.Tensor:
    """The mean vector of a row's tokens, [CLS] and [SEP] included.

    [B, D] of the dtype of `sequence`, summed in float32; 0 without tokens.
    """
    mask = tf.cast(input_mask, tf.float32)
    # A product that LiteRT has, too.
    sums = tf.linalg.matvec(
        tf.cast(sequence, tf.float32), mask, transpose_a=True
    )
    counts = tf.reduce_sum(mask, axis=-1, keepdims=True)
    return tf.cast(sums / tf.maximum(counts, 1.0), sequence.dtype)


class ClassificationHead(PooledHead):
    """One label for each text or pair of texts.

    `logits` <float32>[B, C] and `predictions` <int32>[B]; the labels are
    `label_ids` <int32>[B].
    """

    labels = ("label_ids",)

    def predict(self, encoder_outputs, features, dropout_seed, teacher_forcing):
        logits = self.project(encoder_outputs, dropout_seed, features)
        return {
            "logits": logits,
            "predictions": tf.argmax(logits, -1, output_type=tf.int32),
        }

    def loss(self, outputs, features):
        cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(
            outputs["label_ids"], outputs["logits"]
        )
        return self.weighted(cross_entropy, features)

    def metric_sums(self, outputs, weights):
        correct = outputs["predictions"] == outputs["label_ids"]
        return {"accuracy": losses.weighted_sums(correct, weights)}


class MultiLabelHead(PooledHead):
    """Any number of labels for each text or pair of texts.

    Each label is a decision of its own. Not in the original. `logits`
    <float32>[B, C] and `predictions` <int32>[B, C], 1 where the probability of
    the label exceeds 0.5; the labels are `label_ids` <int32>[B, C], 1 where a
    row has the label, and the loss is the mean over them.
    """

    labels = ("label_ids",)

    def predict(self, encoder_outputs, features, dropout_seed, teacher_forcing):
        logits = self.project(encoder_outputs, dropout_seed, features)
        predictions = tf.cast(logits > 0.0, tf.int32)
        return {"logits": logits, "predictions": predictions}

    def loss(self, outputs, features):
        labels = tf.cast(outputs["label_ids"], tf.float32)
        cross_entropy = tf.nn.sigmoid_cross_entropy_with_logits(
            labels, outputs["logits"]
        )
        return tf.reduce_mean(self.weighted(cross_entropy, features), axis=-1)

    def metric_sums(self, outputs, weights):
        correct = tf.reduce_all(
            outputs["predictions"] == outputs["label_ids"], axis=-1
        )
        return {"accuracy": losses.weighted_sums(correct, weights)}


class RegressionHead(PooledHead):
    """One number for each text or pair of texts.

    `predictions` <float32>[B]; the labels are `targets` <float32>[B], and the
    loss is the squared error.
    """

    labels = ("targets",)

    def predict(self, encoder_outputs, features, dropout_seed, teacher_forcing):
        numbers = self.project(encoder_outputs, dropout_seed, features)
        return {"predictions": numbers[:, 0]}

    def loss(self, outputs, features):
        return tf.square(outputs["predictions"] - outputs["targets"])


class TaggingHead(Head):
    """One label of `num_labels` for each word, read at its first token."""

    labels = ("labels", "labels_mask")

    def __init__(self, task_name: str, hidden_size: int, num_labels: int):
        super().__init__(task_name, hidden_size)
        self.num_labels = num_labels
        self.dense = encoder.Dense(hidden_size, num_labels, None, "dense")

    def predict(self, encoder_outputs, features, dropout_seed, teacher_forcing):
        """Tags a batch. No dropout here, as in the original.

        Of `<task>_labeled_positions` <int32>[B, L], the first tokens of words,
        come `logits` <float32>[B, L, C] and `predictions` <int32>[B, L], in the
        order of words, as `labels` <int32>[B, L] and `labels_mask` <float32>[B,
        L] are.
        """
        words = tf.gather(
            encoder_outputs["sequence_output"],
            self.feature(features, "labeled_positions"),
            batch_dims=1,
        )
        logits = tf.cast(self.dense(words), tf.float32)
        return {
            "logits": logits,
            "predictions": tf.argmax(logits, -1, output_type=tf.int32),
        }

    def loss(self, outputs, features):
        """The sum over the words."""
        word_losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            outputs["labels"], outputs["logits"]
        )
        return tf.reduce_sum(word_losses * outputs["labels_mask"], axis=-1)

    def metric_sums(self, outputs, weights):
        correct = outputs["predictions"] == outputs["labels"]
        word_weights = outputs["labels_mask"] * weights[:, tf.newaxis]
        return {"accuracy": losses.weighted_sums(correct, word_weights)}


class QuestionAnsweringHead(Head):
    """Start and end of the answer in a passage, and whether there is one.

    With joint prediction, the end is predicted from the start: from the true
    start when teaching, else from each of the `beam_size` best starts
    (arXiv:2003.10555, section 3.1, after XLNet).
    """

    labels = ("start_positions", "end_positions")

    def __init__(
        self,
        task_name: str,
        hidden_size: int,
        config: configs.QuestionAnsweringConfig,
    ):
        super().__init__(task_name, hidden_size)
        self.config = config
        # TF1 numbers the layers without a name.
        names = iter(["dense", *(f"dense_{i}" for i in range(1, 4))])

        def unnamed(input_size: int, units: int) -> encoder.Dense:
            return encoder.Dense(input_size, units, None, next(names))

        self.start = unnamed(hidden_size, 1)
        self.qa_hidden: encoder.Dense | None = None
        width = hidden_size
        if config.joint_prediction:
            width = QA_HIDDEN_SIZE
            self.qa_hidden = encoder.Dense(
                2 * hidden_size, width, None, "qa_hidden"
            )
        self.end = unnamed(width, 1)
        self.answerable_hidden = self.answerable = None
        if config.answerable_classifier:
            width = hidden_size
            if config.answerable_uses_start_logits:
                width = QA_HIDDEN_SIZE
                self.answerable_hidden = unnamed(2 * hidden_size, width)
            self.answerable = unnamed(width, 1)

    def predict(self, encoder_outputs, features, dropout_seed, teacher_forcing):
        """Looks for answers in a batch. No dropout here, as in the original.

        Args:
          encoder_outputs: Of `encoder.Encoder`.
          features: With `input_mask` and `segment_ids` <int32>[B, L].
          dropout_seed: Ignored.
          teacher_forcing: Predict the end from the true start.

        Returns:
          `start_logits` and `end_logits` <float32>[B, L] (the latter 0 where
          beams take its place), `answerable_logit` <float32>[B] (high where
          there is no answer), `start_top_log_probs` <float32> and
          `start_top_index` <int32> [B, K], `end_top_log_probs` and
          `end_top_index` [B, K, K] (0 where there are none).
        """
        config = self.config
        hidden = encoder_outputs["sequence_output"]
        batch_size, length = tf.shape(hidden)[0], tf.shape(hidden)[1]
        beam_size = config.beam_size
        # An answer lies in the second segment, its [SEP] included; position 0
        # stands for no answer.
        allowed = features["input_mask"] * features["segment_ids"]
        allowed += tf.one_hot(0, length, dtype=tf.int32)
        bias = (1.0 - tf.cast(allowed, tf.float32)) * DISALLOWED_LOGIT

        start_logits = _logit(self.start, hidden) + bias
        shapes = {"start": [batch_size, beam_size]}
        shapes["end"] = [batch_size, beam_size, beam_size]
        outputs = {}
        for name, shape in shapes.items():
            outputs[f"{name}_top_log_probs"] = tf.zeros(shape)
            outputs[f"{name}_top_index"] = tf.zeros(shape, tf.int32)
        if not config.joint_prediction:
            end_logits = _logit(self.end, hidden) + bias
        else:
            top_log_probs, top_index = _top_k(
                tf.nn.log_softmax(start_logits), beam_size
            )
            outputs["start_top_log_probs"] = top_log_probs
            outputs["start_top_index"] = top_index
            if teacher_forcing:
                starts = self.feature(features, "start_positions")
                end_logits = self._end_logits(hidden, starts[:, tf.newaxis])
                end_logits = end_logits[:, 0] + bias
            else:
                beams = self._end_logits(hidden, top_index)
                beams += bias[:, tf.newaxis]
                top_log_probs, top_index = _top_k(
                    tf.nn.log_softmax(beams), beam_size
                )
                outputs["end_top_log_probs"] = top_log_probs
                outputs["end_top_index"] = top_index
                end_logits = tf.zeros([batch_size, length])
        outputs["start_logits"] = start_logits
        outputs["end_logits"] = end_logits
        outputs["answerable_logit"] = self._answerable_logit(
            hidden, start_logits
        )
        return outputs

    def _end_logits(self, hidden, starts) -> tf.Tensor:
        """Scores every end for each start, <float32>[B, K, L].

        The original's hidden layer reads the vectors of start and end side by
        side. Here each half of its kernel meets its vectors once.
        """
        width = self.hidden_size
        assert self.qa_hidden is not None
        kernel = tf.cast(self.qa_hidden.kernel.value, hidden.dtype)
        bias = tf.cast(self.qa_hidden.bias.value, hidden.dtype)
        start_vectors = tf.gather(hidden, starts, batch_dims=1)
        from_start = tf.einsum("bkd,dh->bkh", start_vectors, kernel[:width])
        from_end = tf.einsum("bld,dh->blh", hidden, kernel[width:]) + bias
        both = from_start[:, :, tf.newaxis] + from_end[:, tf.newaxis]
        return _logit(self.end, kernels.activation(both))

    def _answerable_logit(self, hidden, start_logits) -> tf.Tensor:
        """The logit <float32>[B] of there being no answer."""
        if self.answerable is None:
            return tf.zeros([tf.shape(hidden)[0]])
        x = hidden[:, 0]
        if self.answerable_hidden is not None:
            start_probs = tf.cast(tf.nn.softmax(start_logits), hidden.dtype)
            expected_start = tf.einsum("bl,bld->bd", start_probs, hidden)
            x = tf.concat([x, expected_start], axis=-1)
            x = kernels.activation(self.answerable_hidden(x))
        return _logit(self.answerable, x)

    def loss(self, outputs, features):
        """Of start and end, and of `<task>_is_impossible` <int32>[B]."""
        cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits
        loss = 0.5 * (
            cross_entropy(outputs["start_positions"], outputs["start_logits"])
            + cross_entropy(outputs["end_positions"], outputs["end_logits"])
        )
        if self.answerable is not None:
            is_impossible = self.feature(features, "is_impossible")
            cross_entropy = tf.nn.sigmoid_cross_entropy_with_logits(
                tf.cast(is_impossible, tf.float32), outputs["answerable_logit"]
            )
            loss += self.config.answerable_weight * cross_entropy
        return loss

    def metric_sums(self, outputs, weights):
        starts = tf.argmax(outputs["start_logits"], -1, output_type=tf.int32)
        correct = starts == outputs["start_positions"]
        return {"start_accuracy": losses.weighted_sums(correct, weights)}


def _top_k(log_probs: tf.Tensor, k: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The k greatest and their places, in a row <float32>[..., L].

    What L lacks is the last place, so improbable that no answer is there.
    """
    length = tf.shape(log_probs)[-1]
    lacking = tf.maximum(k - length, 0)
    paddings = [[0, 0]] * (log_probs.shape.rank - 1) + [[0, lacking]]
    padded = tf.pad(log_probs, paddings, constant_values=_NEVER)
    top = tf.nn.top_k(padded, k)
    return top.values, tf.minimum(top.indices, length - 1)


def _logit(dense: encoder.Dense, x: tf.Tensor) -> tf.Tensor:
    """The only output of a dense layer, <float32>[...]."""
    return tf.cast(dense(x), tf.float32)[..., 0]
