"""Signatures of models that say one thing of a text, or of a pair of texts.

Shapes: B batch, L length, C labels.
"""

import tensorflow as tf

from electra_tf.model import task_head
from electra_tf.model import windows as windows_lib
from electra_tf.serving import inputs
from electra_tf.serving import signatures as signatures_lib
from electra_tf.serving.inputs import Tensors


class _TextModel(signatures_lib.ServedModel):
    """A model of one text, or of two.

    Where the model was trained on windows of long texts, `serving_default` cuts
    them likewise, and gives the mean of what the head says. `tokens` takes what
    fits into the model.
    """

    def compute(self, features):
        source = self._source
        return source.model(features)["task_outputs"][source.task_name]

    def answer(self, outputs: Tensors) -> Tensors:
        """From the head's outputs to those of the default signature."""
        raise NotImplementedError

    def signatures(self):
        return {
            signatures_lib.DEFAULT: signatures_lib.string_function(
                self._answer_texts, *self.input_names
            ),
            signatures_lib.TOKENS: self.token_signature(self.answer),
        }

    def _answer_texts(self, *texts):
        windows = self._source.windows
        if windows is not None:
            return self._answer_long_texts(windows, *texts)
        features, truncated = inputs.pack_and_compare(
            self.tokenizer, self._source.max_seq_length, *texts
        )
        answer = self.answer(self._run(features))
        return answer | {signatures_lib.TRUNCATED: truncated}

    def _answer_long_texts(self, windows: windows_lib.Windows, text):
        """Answers with the mean over each text's windows, as training does."""
        features, truncated = inputs.pack_and_compare(
            self.tokenizer, windows.most_tokens, text
        )
        cut = windows_lib.cut(features, windows)
        outputs = self._run(cut.features)
        answer = self.answer(
            {
                name: windows_lib.average(values, cut)
                for name, values in outputs.items()
                if values.dtype.is_floating
            }
        )
        return answer | {signatures_lib.TRUNCATED: truncated}


class Classifier(_TextModel):
    """The likeliest label, and the probability of each.

    `serving_default` takes `text` <string>[B] (and `text_pair` <string>[B] for
    pairs) and returns `label` <string>[B], `scores` <float32>[B, C] in the
    order of the labels, and `truncated`. `tokens` returns the first two for
    token ids.
    """

    def answer(self, outputs):
        scores = tf.nn.softmax(outputs["logits"])
        labels = tf.constant(self._source.labels)
        return {
            "label": tf.gather(labels, tf.argmax(scores, axis=-1)),
            "scores": scores,
        }


class MultiLabelClassifier(Classifier):
    """Every label that is likelier than not, and the probability of each.

    Like `Classifier`, but `label` holds all labels of a text in their order,
    with a separator between them, or is empty.
    """

    def answer(self, outputs):
        scores = tf.sigmoid(outputs["logits"])
        is_chosen = outputs["logits"] > 0.0
        names = tf.where(is_chosen, tf.constant([self._source.labels]), "")
        chosen = tf.ragged.boolean_mask(names, is_chosen)
        return {
            "label": tf.strings.reduce_join(
                chosen, axis=-1, separator=task_head.LABEL_SEPARATOR
            ),
            "scores": scores,
        }


class Regressor(_TextModel):
    """A number in the unit of the labels that the model was trained with.

    `serving_default` takes what `Classifier` takes and returns `value`
    <float32>[B] and `truncated`; `tokens` returns the first.
    """

    def answer(self, outputs):
        return signatures_lib.numbers(self._source, outputs)
