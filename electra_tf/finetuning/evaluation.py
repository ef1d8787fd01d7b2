"""A fine-tuned model and rows of features -> its head's outputs.

Shapes: N rows.
"""

import collections
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from electra_tf.finetuning import batches
from electra_tf.finetuning.features import Features
from electra_tf.model.finetuning_model import FinetuningModel
from electra_tf.model.heads import DISALLOWED_LOGIT

# Takes N rows of features; returns output name -> [N, ...], in their order.
Predictor = Callable[[Features], dict[str, np.ndarray]]


def make_predictor(
    model: FinetuningModel, task_name: str, batch_size: int
) -> Predictor:
    """A function from N rows to the head's outputs for them, without dropout.

    Args:
      model: The fine-tuned model.
      task_name: Whose head.
      batch_size: Rows of a step.

    Returns:
      A function of features; its result maps names to [N, ...], in the order
      of the rows.
    """

    # One trace for all shapes, which for a large model takes seconds each.
    steps: dict[str, Callable] = {}

    def make_step(spec):
        @tf.function(input_signature=[spec])
        def step(batch):
            return model(batch)["task_outputs"][task_name]

        return step

    def predict(features: Features) -> dict[str, np.ndarray]:
        dataset = batches.eval_dataset(features, batch_size)
        _, spec = dataset.element_spec
        # Splits may have features that others do not have.
        step = steps.setdefault(str(spec), make_step(spec))
        collected: dict[str, list[np.ndarray]] = collections.defaultdict(list)
        order = []
        for rows, batch in dataset:
            order.append(rows.numpy())
            for name, values in step(batch).items():
                collected[name].append(values.numpy())
        back = np.argsort(np.concatenate(order))
        return {
            name: _join(name, parts)[back] for name, parts in collected.items()
        }

    return predict


def _join(name: str, parts: list[np.ndarray]) -> np.ndarray:
    """The outputs of all batches, some of which were cut shorter than others.

    Args:
      name: Of the output; "start_logits" and "end_logits" rate positions.
      parts: [B, ...] each.

    Returns:
      [N, ...], filled up as positions behind the text are by the head.
    """
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) == 1:
        return np.concatenate(parts)
    whole = [max(sizes) for sizes in zip(*shapes, strict=True)]
    fill = DISALLOWED_LOGIT if name.endswith("_logits") else 0
    return np.concatenate(
        [
            np.pad(
                part,
                [(0, 0)]
                + [
                    (0, w - h)
                    for w, h in zip(whole, part.shape[1:], strict=True)
                ],
                constant_values=fill,
            )
            for part in parts
        ]
    )
