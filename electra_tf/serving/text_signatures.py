"""Signatures of models that say one thing of a text, or of a pair of texts.

Shapes: B batch, L length, C labels.
"""

import tensorflow as tf

from electra_tf.model import task_head
from electra_tf.model import windows as windows_lib
from electra_tf.serving import inputs
from electra_tf.serving import signatures as signatures_lib
from electra_tf.serving.inputs import Tensors


class TextModel(signatures_lib.ServedModel):
    """Labels with their probabilities, or a number, for each text.

    `serving_default` takes `text` <string>[B] (and `text_pair` <string>[B] for
    pairs) and returns `truncated` and, of a regression, `value` <float32>[B] in
    the unit of the labels that the model was trained with, else `scores`
    <float32>[B, C], probabilities in the order of the labels, and `label`
    <string>[B]: the likeliest one, or of several labels a text all that are
    likelier than not, with a separator between them. `tokens` returns the same
    but `truncated` for token ids.

    Where the model was trained on windows of long texts, `serving_default` cuts
    them likewise, and gives the mean of what the head says. `tokens` takes what
    fits into the model.
    """

    def answer(self, outputs: Tensors) -> Tensors:
        answer = signatures_lib.numbers(self._source, outputs)
        labels = tf.constant(self._source.labels, tf.string)
        if self._source.kind == "classification":
            best = tf.argmax(answer["scores"], axis=-1)
            answer["label"] = tf.gather(labels, best)
        elif self._source.kind == "multi_label_classification":
            is_chosen = outputs["logits"] > 0.0
            names = tf.where(is_chosen, labels[tf.newaxis], "")
            answer["label"] = tf.strings.reduce_join(
                tf.ragged.boolean_mask(names, is_chosen),
                axis=-1,
                separator=task_head.LABEL_SEPARATOR,
            )
        return answer

    def answer_texts(self, *texts):
        windows, length = self._source.windows, self._source.max_seq_length
        if windows is not None:
            length = windows.most_tokens
        features, truncated = inputs.pack_and_compare(
            self.tokenizer, length, *texts
        )
        if windows is None:
            outputs = self._run(features)
        else:  # The mean over each text's windows, as in training.
            cut = windows_lib.cut(features, windows)
            outputs = {
                name: windows_lib.average(values, cut)
                for name, values in self._run(cut.features).items()
                if values.dtype.is_floating
            }
        return self.answer(outputs) | {signatures_lib.TRUNCATED: truncated}
