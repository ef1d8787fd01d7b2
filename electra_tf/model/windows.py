"""Texts longer than a model's inputs: windows that overlap, and one answer.

A row `[CLS] text [SEP]` of any length becomes windows `[CLS] part [SEP]`, each
some tokens behind the one before it, as BERT's run_squad.py cuts passages; what
a head says of the windows of a text is averaged, each counting alike or as much
as it has tokens. Training, evaluation and exported models all call `cut` and
`average`, so they are one function of the text. Not in the original.

Shapes: B texts, T tokens of the longest text, W windows of all texts, L tokens
of the longest window, M windows of the longest text.
"""

import dataclasses
import typing

import numpy as np
import tensorflow as tf

# Eight numbers of windows for each power of two; see `fill_up`.
_NUMBERS = np.unique(
    np.outer(np.arange(1, 17), 2 ** np.arange(22)).astype(np.int32)
)


@dataclasses.dataclass(frozen=True)
class Windows:
    """How texts are cut.

    Attributes:
      max_seq_length: Tokens of a window, [CLS] and [SEP] included.
      stride: Tokens from the start of a window to that of the next one; not
        more than a window has room for.
      max_windows: Of one text; what is behind them is not read.
      keeps_empty: Computes as many windows of every text as T tokens make, so
        that all shapes follow from those of the input, as XLA needs it.
      by_tokens: A window counts as much as it has tokens, [CLS] and [SEP]
        included; otherwise all count alike, also a last one of few words.
    """

    max_seq_length: int
    stride: int
    max_windows: int
    keeps_empty: bool = False
    by_tokens: bool = False

    def __post_init__(self):
        room = self.max_seq_length - 2
        if not (1 <= self.stride <= room and self.max_windows >= 1):
            raise ValueError(
                f"Expected a stride from 1 to the {room} tokens that a window "
                "has room for, and one window or more. Received: "
                f"stride={self.stride}, max_windows={self.max_windows}"
            )

    @property
    def most_tokens(self) -> int:
        """The longest T that is read whole, [CLS] and [SEP] included."""
        return self.max_seq_length + (self.max_windows - 1) * self.stride

    def about(self) -> dict[str, int | bool]:
        """What models keep of it, but for defaults; fit for JSON."""
        about = {"stride": self.stride, "max_windows": self.max_windows}
        if self.by_tokens:
            about["by_tokens"] = True
        return about

    def counts(self, num_tokens: np.ndarray) -> np.ndarray:
        """Windows of texts of some tokens <int>[...], with [CLS] and [SEP]."""
        more = np.maximum(0, num_tokens - self.max_seq_length)
        return 1 - (-more // self.stride)


class Cut(typing.NamedTuple):
    """Windows of all texts, those of the first text first.

    Attributes:
      features: `input_ids`, `input_mask` and `segment_ids` <int32>[W, L].
      text: <int32>[W], whose window it is; -1 for an empty one.
      num_texts: <int32>[], B.
      weight: <float32>[W], what it counts in the mean of its text.
    """

    features: dict[str, tf.Tensor]
    text: tf.Tensor
    num_texts: tf.Tensor
    weight: tf.Tensor


def cut(features: dict[str, tf.Tensor], windows: Windows) -> Cut:
    """Windows of single texts <int32>[B, T]; one for a text that fits."""
    input_ids, input_mask = features["input_ids"], features["input_mask"]
    sizes, known = tf.unstack(tf.shape(input_ids)), input_ids.shape
    num_texts, longest = (k or s for k, s in zip(known, sizes, strict=True))
    stride, length = windows.stride, tf.minimum(longest, windows.max_seq_length)
    num_tokens = tf.reduce_sum(input_mask, axis=-1)
    more = tf.maximum(0, longest - windows.max_seq_length)
    start = tf.range(1 - (-more // stride)) * stride
    position = tf.range(length)
    # The place in the text of each place in a window, [M, L].
    place = start[:, tf.newaxis] + position
    ids = tf.gather(input_ids, tf.minimum(place, longest - 1), axis=1)
    # A window ends with the text, or where it is full. [B, M].
    used = tf.minimum(num_tokens[:, tf.newaxis] - start, length)
    is_first = tf.equal(start, 0)
    # What is behind a window's start must be more than the overlap.
    overlap = windows.max_seq_length - stride
    exists = is_first | (used > overlap)
    used = tf.where(exists, used, 0)
    last = tf.gather(
        input_ids, tf.maximum(0, num_tokens - 1), axis=1, batch_dims=1
    )
    begins = tf.equal(position, 0)
    ends = tf.equal(position, used[:, :, tf.newaxis] - 1)
    ids = tf.where(begins, input_ids[:, :1, tf.newaxis], ids)
    ids = tf.where(ends, last[:, tf.newaxis, tf.newaxis], ids)
    mask = tf.cast(position < used[:, :, tf.newaxis], tf.int32)
    text = tf.where(exists, tf.range(num_texts)[:, tf.newaxis], -1)

    shape = tf.stack([-1, length])
    text = tf.reshape(text, [-1])
    window_features = {
        "input_ids": tf.reshape(ids * mask, shape),
        "input_mask": tf.reshape(mask, shape),
    }
    if not windows.keeps_empty:
        is_there = text >= 0
        window_features = {
            name: tf.boolean_mask(values, is_there)
            for name, values in window_features.items()
        }
        text = tf.boolean_mask(text, is_there)
    window_features["segment_ids"] = tf.zeros_like(window_features["input_ids"])
    weight = tf.ones_like(text, tf.float32)
    if windows.by_tokens:
        num_tokens = tf.reduce_sum(window_features["input_mask"], axis=-1)
        weight = tf.cast(num_tokens, tf.float32)
    return Cut(window_features, text, tf.convert_to_tensor(num_texts), weight)


def fill_up(of: Cut) -> Cut:
    """Adds empty windows, up to one of few numbers of them.

    What XLA compiles of a training step (kernels) it compiles anew for each W,
    which takes seconds and megabytes. Batches of 32 long texts have hundreds of
    numbers of windows; filled up they have some 35, for a twentieth more work.
    Dropout draws for the windows what it draws without.
    """
    num_windows = tf.shape(of.text)[0]
    place = tf.searchsorted(_NUMBERS, num_windows[tf.newaxis])[0]
    more = tf.gather(_NUMBERS, place) - num_windows
    return of._replace(
        features={
            name: tf.pad(values, [[0, more], [0, 0]])
            for name, values in of.features.items()
        },
        text=tf.pad(of.text, [[0, more]], constant_values=-1),
        weight=tf.pad(of.weight, [[0, more]]),
    )


def average(values: tf.Tensor, of: Cut) -> tf.Tensor:
    """The mean over each text's windows, as they weigh.

    Args:
      values: <float32>[W, ...].
      of: What the values are of.

    Returns:
      <float32>[B, ...]; 0 for a padding row whose window weighs nothing.
    """

    def sums(parts):
        return tf.math.unsorted_segment_sum(parts, of.text, of.num_texts)

    ones = [1] * (len(values.shape) - 1)
    weight = tf.reshape(of.weight, [-1, *ones])
    return tf.math.divide_no_nan(sums(values * weight), sums(weight))
