"""Stretches of steps, with a look after each: Orbit's loop.

Orbit is a part of tf-models-official. Where that is not installed, as on a TPU
(docs/installing.md), a loop that does the same takes its place. Which of the
two it is nobody else knows.
"""

import dataclasses
import time
from collections.abc import Callable

import tensorflow as tf

Metrics = dict[str, float]


def make_global_step() -> tf.Variable:
    """The number of steps that were taken, of the first replica."""
    return tf.Variable(
        0,
        dtype=tf.int64,
        name="global_step",
        trainable=False,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


@dataclasses.dataclass(frozen=True)
class OuterLoop:
    """Takes steps up to the last one.

    Attributes:
      strategy: Where the replicas are.
      global_step: `train` counts it up.
      train: Takes a number of steps <int32>[]; returns metrics over them.
      look: Takes these metrics; what it adds to them is written, too.
      steps_to_next_look: Takes a step; returns how many steps to take from
        there.
      summary_dir: Where metrics are written for TensorBoard, if anywhere.
    """

    strategy: tf.distribute.Strategy
    global_step: tf.Variable
    train: Callable[[tf.Tensor], Metrics]
    look: Callable[[Metrics], None]
    steps_to_next_look: Callable[[int], int]
    summary_dir: str | None

    def run(self, last_step: int) -> None:
        """Takes the steps; what `look` raises ends it."""
        try:
            # By name: another package is called orbit, too.
            from orbit import AbstractTrainer, Controller
        except ImportError:
            self._run_alone(last_step)
            return

        class Trainer(AbstractTrainer):
            """What Orbit asks for steps."""

            def train(_, num_steps):  # noqa: N805
                return self.train(num_steps)

        Controller(
            global_step=self.global_step,
            trainer=Trainer(),
            strategy=self.strategy,
            train_actions=[self.look],
            steps_per_loop=self.steps_to_next_look,
            summary_dir=self.summary_dir,
        ).train(last_step)

    def _run_alone(self, last_step: int) -> None:
        """What Orbit does, as far as it is used here."""
        writer = (
            tf.summary.create_file_writer(self.summary_dir)
            if self.summary_dir
            else tf.summary.create_noop_writer()
        )
        step = int(self.global_step.numpy())
        last_time = time.monotonic()
        while step < last_step:
            num_steps = min(last_step - step, self.steps_to_next_look(step))
            metrics = self.train(tf.constant(num_steps, tf.int32))
            self.look(metrics)
            step = int(self.global_step.numpy())
            now = time.monotonic()
            metrics["steps_per_second"] = num_steps / (now - last_time)
            last_time = now
            with writer.as_default(step=step):
                for name, value in metrics.items():
                    tf.summary.scalar(name, value)
            writer.flush()
