"""Texts -> means of a pre-trained encoder's vectors -> logistic regression.

The weights stay as pre-training left them: a text of any length is read in
windows, and the vectors of all its tokens are averaged, those of the embeddings
and of each layer side by side. That is what one does with an encoder who does
not want to train one, and it shows what is in the weights.
"""

import typing
from collections.abc import Sequence

import numpy as np
import tf_idf

# scikit-learn's `C`, for features of deviation 1.
STRENGTHS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
_BATCH = 64


def read(
    model_dir: str,
    texts: Sequence[str],
    max_windows: int = 32,
    report: typing.Callable[[int], None] = lambda done: None,
) -> np.ndarray:
    """The means of all texts.

    Args:
      model_dir: Of a pre-training run; any checkpoint that
        `Encoder.from_checkpoint` reads.
      texts: Of any length.
      max_windows: Of one text; what is behind them is not read.
      report: Is told how many texts are done.

    Returns:
      <float32>[texts, (1 + layers) * D].
    """
    import tensorflow as tf

    import electra_tf
    from electra_tf.model import windows as windows_lib

    encoder = electra_tf.Encoder.from_checkpoint(model_dir)
    length = encoder.config.max_position_embeddings
    windows = windows_lib.Windows(length, length - 2, max_windows)
    preprocessor = electra_tf.Preprocessor.from_checkpoint(
        model_dir, max_seq_length=windows.most_tokens
    )

    @tf.function(reduce_retracing=True)
    def means(batch):
        found = windows_lib.cut(preprocessor(batch), windows)
        outputs = encoder(found.features, return_layers=True)
        layers = [outputs["embedding_output"], *outputs["all_encoder_layers"]]
        vectors = tf.cast(tf.concat(layers, axis=-1), tf.float32)
        mask = tf.cast(found.features["input_mask"], tf.float32)
        sums = tf.einsum("wl,wld->wd", mask, vectors)

        def of_texts(values):
            return tf.math.unsorted_segment_sum(
                values, found.text, found.num_texts
            )

        return of_texts(sums) / of_texts(tf.reduce_sum(mask, -1))[:, tf.newaxis]

    # Texts of similar length together: the longest decides what a batch costs.
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    rows: list[np.ndarray] = [np.zeros(0)] * len(texts)
    for start in range(0, len(order), _BATCH):
        part = order[start : start + _BATCH]
        found = means(tf.constant([texts[i] for i in part])).numpy()
        for i, row in zip(part, found, strict=True):
            rows[i] = row
        report(start + len(part))
    return np.stack(rows)


def fit(
    train: tuple[np.ndarray, Sequence[str]],
    dev: tuple[np.ndarray, Sequence[str]],
    test: tuple[np.ndarray, Sequence[str]],
    strengths: Sequence[float] = STRENGTHS,
) -> tf_idf.Baseline:
    """One classifier for each strength, balanced or not, and the best on dev.

    Args:
      train: Means, and their labels.
      dev: Decides.
      test: Scored with the choice.
      strengths: To choose from.
    """
    # Takes seconds.
    from sklearn import preprocessing

    scaler = preprocessing.StandardScaler().fit(train[0])
    rows = [(scaler.transform(x), labels) for x, labels in (train, dev, test)]
    found = tf_idf.choose(rows[0], rows[1], strengths)
    on_test = 100.0 * found.model.score(*rows[2])
    return tf_idf.Baseline(
        found.strength, found.is_balanced, found.dev_accuracy, on_test
    )
