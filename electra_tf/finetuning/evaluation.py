"""A fine-tuned model and rows of its tasks -> its heads' outputs, and scores.

Shapes: N rows.
"""

import collections
import math
import statistics
import typing
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from electra_tf.finetuning import batches
from electra_tf.finetuning.task_data import TaskData
from electra_tf.model.finetuning_model import FinetuningModel
from electra_tf.model.heads import DISALLOWED_LOGIT
from electra_tf.tasks.features import Features

# In the log of a training: the mean over the tasks of their main metrics.
DEV_SCORE = "dev_score"


def make_predictor(
    model: FinetuningModel,
    task_name: str,
    batch_size: int,
    strategy: tf.distribute.Strategy | None = None,
    jit_compile: bool = False,
) -> Callable[[Features], dict[str, np.ndarray]]:
    """A function from N rows to the head's outputs for them, without dropout.

    Args:
      batch_size: Rows of a step, or windows where a row has several.
      strategy: Where the model is; each of its replicas answers all rows.
      jit_compile: Compile it with XLA, once for each shape of a batch.

    Returns:
      A function of features; its result maps names to [N, ...], in the order
      of the rows.
    """
    windows = getattr(model, "windows", None)
    costs = np.ones_like if windows is None else windows.counts
    strategy = strategy or tf.distribute.get_strategy()
    is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    length_step = batches.LENGTH_STEP
    if jit_compile or is_tpu:
        length_step = batches.COMPILED_LENGTH_STEP
    # One trace for all shapes, which for a large model takes seconds each.
    steps: dict[str, Callable] = {}

    @tf.autograph.experimental.do_not_convert
    def answer(batch):
        return model(batch, only=task_name)["task_outputs"][task_name]

    def make_step(spec):
        @tf.function(
            # A TPU has a program for each shape.
            input_signature=None if is_tpu else [spec],
            jit_compile=jit_compile and strategy.num_replicas_in_sync == 1,
        )
        def step(batch):
            return tf.nest.map_structure(
                lambda x: strategy.experimental_local_results(x)[0],
                strategy.run(answer, args=(batch,)),
            )

        return step

    def predict(features: Features) -> dict[str, np.ndarray]:
        dataset = batches.eval_dataset(
            features, batch_size, costs, length_step=length_step
        )
        _, spec = dataset.element_spec
        # Splits may have features that others do not have.
        step = steps.setdefault(str(spec), make_step(spec))
        collected: dict[str, list[tf.Tensor]] = collections.defaultdict(list)
        order = []
        for rows, batch in dataset:
            order.append(rows.numpy())
            for name, values in step(batch).items():
                # Not to NumPy, which would wait for the device each time.
                collected[name].append(values)
        back = np.argsort(np.concatenate(order))
        return {
            name: _join(name, [part.numpy() for part in parts])[back]
            for name, parts in collected.items()
        }

    return predict


def _join(name: str, parts: list[np.ndarray]) -> np.ndarray:
    """The outputs [N, ...] of all batches, the shorter ones filled up."""
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) == 1:
        return np.concatenate(parts)
    whole = np.max(list(shapes), axis=0)
    fill = DISALLOWED_LOGIT if name.endswith("_logits") else 0

    def padded(part):
        lacking = np.subtract([len(part), *whole], part.shape)
        return np.pad(part, [(0, n) for n in lacking], constant_values=fill)

    return np.concatenate([padded(part) for part in parts])


class Evaluation(typing.NamedTuple):
    """What a model said of its tasks' rows, and how good it was.

    Attributes:
      outputs: Task name -> split -> the head's outputs.
      scores: Task name -> split with labels -> metric -> score; None for one
        that is not finite.
      reports: Task name -> split with labels -> what each class shows, see
        `tasks.reports`; nothing for tasks without classes.
      degenerate: Names of the tasks whose rows of "dev" all got the same
        answer.
    """

    outputs: dict[str, dict[str, dict[str, np.ndarray]]]
    scores: dict[str, dict[str, dict[str, float | None]]]
    reports: dict[str, dict[str, dict]]
    degenerate: list[str]

    @property
    def dev_scores(self) -> dict[str, float]:
        """<task>_<metric> -> score, for the log."""
        return {
            f"{name}_{metric}": score
            for name, splits in self.scores.items()
            for metric, score in splits["dev"].items()
            if score is not None
        }


class Evaluator:
    """Asks a model about the rows of its tasks."""

    def __init__(
        self,
        model: FinetuningModel,
        tasks: Sequence[TaskData],
        batch_size: int,
        strategy: tf.distribute.Strategy | None = None,
        jit_compile: bool = False,
    ):
        how = batch_size, strategy, jit_compile
        self._predictors = [
            (data, make_predictor(model, data.task.name, *how))
            for data in tasks
        ]

    def begin_again(self, tasks: Sequence[TaskData]) -> None:
        """Goes on with other rows of the same tasks."""
        predictors = [predict for _, predict in self._predictors]
        self._predictors = list(zip(tasks, predictors, strict=True))

    def ask_dev(self) -> dict[str, float]:
        """Scores of "dev" by the model as it is now, for the log.

        Returns:
          <task>_<metric> -> score and, where all of them are finite,
          `DEV_SCORE`.
        """
        scores = self.ask(["dev"]).dev_scores
        main = [
            scores.get(f"{data.task.name}_{data.task.main_metric}")
            for data, _ in self._predictors
        ]
        known = [score for score in main if score is not None]
        if len(known) == len(main):
            scores[DEV_SCORE] = statistics.fmean(known)
        return scores

    def ask(self, splits: Sequence[str] | None = None) -> Evaluation:
        """Asks the model as it is now.

        Args:
          splits: Which rows, where a task has them; None for all but "train".

        Returns:
          What it says of them; "degenerate" of those of "dev" alone.
        """
        answers = Evaluation({}, {}, {}, [])
        for data, predict in self._predictors:
            name = data.task.name
            outputs = answers.outputs[name] = {
                split: predict(data.features[split])
                for split in data.examples
                if split != "train" and (splits is None or split in splits)
            }
            scores = answers.scores[name] = {}
            reports = answers.reports[name] = {}
            for split in outputs:
                if split not in data.labelled:
                    continue
                rows = (
                    *(outputs[split], data.examples[split]),
                    *(data.tokenizer, data.max_seq_length),
                )
                scores[split] = {
                    metric: float(value) if math.isfinite(value) else None
                    for metric, value in data.task.scores(*rows).items()
                }
                if report := data.task.report(*rows):
                    reports[split] = report
            if "dev" in outputs and data.task.is_degenerate(outputs["dev"]):
                answers.degenerate.append(name)
        return answers
