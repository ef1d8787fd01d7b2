"""The encoder with the heads of one or several tasks on top.

Shapes: B batch, L length, T tasks, W windows.
"""

import typing
from collections.abc import Sequence

import keras
import tensorflow as tf

from electra_tf import configs
from electra_tf.model import encoder, heads, losses
from electra_tf.model import windows as windows_lib


class TaskSpecific(encoder.Layer):
    """The heads, under the scope that the original gives them."""

    def __init__(self, task_heads: Sequence[heads.Head]):
        super().__init__(name="task_specific")
        self.heads = list(task_heads)

    def call(
        self,
        encoder_outputs,
        features,
        dropout_seed=None,
        teacher_forcing=False,
        only=None,
    ):
        """Task name -> outputs of its head, called on the whole batch."""
        outputs = {}
        for index, head in enumerate(self.heads):
            if only not in (None, head.task_name):
                continue
            # Apart from the encoder's draws, and from the other heads'.
            seed = (
                None if dropout_seed is None else dropout_seed + [0, index + 1]
            )
            outputs[head.task_name] = head(
                encoder_outputs,
                features,
                dropout_seed=seed,
                teacher_forcing=teacher_forcing,
            )
        return outputs


class FinetuningModel(keras.Model):
    """ELECTRA's discriminator, fine-tuned on one or several tasks at once.

    Args:
      config: Sizes of the encoder.
      task_heads: One head for each task; a row's `task_id` counts them.
      windows: How texts longer than the encoder's inputs are cut; None for
        rows that fit. Only with heads on a whole text.
    """

    def __init__(
        self,
        config: configs.EncoderConfig,
        task_heads: Sequence[heads.Head],
        windows: windows_lib.Windows | None = None,
    ):
        super().__init__(name="finetuning_model", autocast=False)
        names = [head.task_name for head in task_heads]
        if not names or len(set(names)) < len(names):
            raise ValueError(
                "Expected one or more tasks of different names. "
                f"Received: {names}."
            )
        self.config = config
        self.windows = windows
        self.electra = encoder.Encoder(config, "electra")
        self.electra.build()
        self.task_specific = TaskSpecific(task_heads)
        self.task_specific.build()
        self.built = True

    @property
    def task_names(self) -> list[str]:
        return [head.task_name for head in self.task_specific.heads]

    def call(
        self,
        features,
        dropout_seed=None,
        teacher_forcing=False,
        return_layers=False,
        only=None,
    ):
        """One forward pass over a batch.

        Args:
          features: `input_ids`, `input_mask` and `segment_ids` <int32>[B, L],
            or where there are `windows` [B, any length];
            for a loss also the tasks' own features (see their heads) and, with
            several tasks or padding rows, `task_id` <int32>[B], which is the
            number of tasks in a padding row.
          dropout_seed: <int32>[2], or None for no dropout.
          teacher_forcing: True in training: question answering predicts the
            end of an answer from its true start.
          return_layers: Add the encoder's inner outputs to
            "encoder_outputs".
          only: Name of the task whose head is called, for rows without the
            features of the others; None for all heads.

        Returns:
          "task_outputs" (task name -> the head's outputs), "encoder_outputs"
          (of W windows, where there are any) and, where the features hold the
          labels of every task, "task_id" <int32>[B], "task_weights"
          <float32>[B, T] (1 for a row's own task), "per_example_loss"
          <float32>[B], 0 in padding rows, and "total_loss"
          <float32>[], their sum as in the original (not their mean).
        """
        cut = None
        encoded = features
        if self.windows is not None:
            cut = windows_lib.cut(features, self.windows)
            if dropout_seed is not None and not self.windows.keeps_empty:
                cut = windows_lib.fill_up(cut)
            encoded = cut.features
        encoder_outputs = self.electra(
            encoded["input_ids"],
            encoded["input_mask"],
            encoded["segment_ids"],
            dropout_seed=dropout_seed,
            return_layers=return_layers,
        )
        if cut is not None:
            encoder_outputs["windows"] = cut
        task_outputs = self.task_specific(
            encoder_outputs,
            features,
            dropout_seed=dropout_seed,
            teacher_forcing=teacher_forcing,
            only=only,
        )
        outputs: dict[str, typing.Any] = {
            "encoder_outputs": encoder_outputs,
            "task_outputs": task_outputs,
        }
        head_outputs = [task_outputs.get(name, {}) for name in self.task_names]
        if not all("loss" in head for head in head_outputs):
            return outputs
        task_losses = tf.stack([head["loss"] for head in head_outputs], axis=-1)
        task_id = features.get("task_id")
        if task_id is None:
            if len(task_outputs) > 1:
                raise ValueError(
                    f"Expected the feature 'task_id' for {len(task_outputs)} "
                    f"tasks. Received: {sorted(features)}."
                )
            task_id = tf.zeros(tf.shape(task_losses)[:1], tf.int32)
        # All zero in a padding row, whose task_id is the number of tasks.
        task_weights = tf.one_hot(task_id, len(task_outputs))
        per_example_loss = tf.reduce_sum(task_losses * task_weights, axis=-1)
        outputs["task_id"] = task_id
        outputs["task_weights"] = task_weights
        outputs["per_example_loss"] = per_example_loss
        outputs["total_loss"] = tf.reduce_sum(per_example_loss)
        return outputs

    def training_loss(self, features, dropout_seed, all_reduce_sum):
        """The engine's view of the model, see `engine.LossFunction`."""
        # Not needed: the loss is a sum over the batch, so the replicas' add up.
        del all_reduce_sum
        outputs = self(
            features, dropout_seed=dropout_seed, teacher_forcing=True
        )
        return outputs["total_loss"], self.metric_sums(outputs)

    def metric_sums(self, outputs) -> dict[str, losses.Sums]:
        """What accumulates over the batches of an evaluation.

        "loss", the mean over all real rows, and for each task "<task>_loss"
        and what its head adds, such as "<task>_accuracy". Nothing where the
        outputs hold no loss.
        """
        if "total_loss" not in outputs:
            return {}
        task_weights = outputs["task_weights"]
        sums = {
            "loss": losses.Sums(
                outputs["total_loss"], tf.reduce_sum(task_weights)
            )
        }
        for index, head in enumerate(self.task_specific.heads):
            task_outputs = outputs["task_outputs"][head.task_name]
            weights = task_weights[:, index]
            sums[f"{head.task_name}_loss"] = losses.SumsOfTask(
                tf.reduce_sum(task_outputs["loss"] * weights),
                tf.reduce_sum(weights),
            )
            for name, head_sums in head.metric_sums(
                task_outputs, weights
            ).items():
                sums[f"{head.task_name}_{name}"] = losses.SumsOfTask(*head_sums)
        return sums
