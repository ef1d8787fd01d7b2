"""The plan of a trial -> its model, and the engine that trains it."""

import dataclasses
import functools
from collections.abc import Sequence

import tensorflow as tf

from electra_tf import configs
from electra_tf.checkpoints import reading
from electra_tf.finetuning import batches
from electra_tf.finetuning.plan import TrialPlan
from electra_tf.finetuning.task_data import TaskData
from electra_tf.model.finetuning_model import FinetuningModel
from electra_tf.tasks import features
from electra_tf.training import engine as engine_lib
from electra_tf.training import optimization, replicas


def make_engine(
    plan: TrialPlan, strategy: tf.distribute.Strategy
) -> engine_lib.Engine:
    """Model, optimizer and batches of a trial, as it begins."""
    start = plan.start
    # The thread that writes in the background never ends, and would keep this
    # model, its slots and a copy of both for as long as the trials go on.
    run = dataclasses.replace(plan.run, async_checkpoints=False)
    rows = [data.features["train"] for data in plan.tasks]
    train_features = features.combine(rows)
    replicas.set_policy(run)  # Seeds the new head.
    with strategy.scope():
        heads = [data.make_head(start.encoder_config) for data in plan.tasks]
        if start.head_dropout is not None:
            for head in heads:
                head.set_dropout(start.head_dropout)
        # Only a single task has windows.
        model = FinetuningModel(
            start.encoder_config, heads, plan.tasks[0].windows
        )
        if start.checkpoint is not None:
            variables, what = model.electra.variables, "the encoder"
            if start.keep_head:
                variables, what = model.variables, "the encoder and the head"
            reading.assign_all(start.checkpoint, variables, start.source, what)
        optimizer = optimization.AdamWeightDecay(
            plan.optimizer,
            run.num_train_steps,
            optimization.layerwise_scales(
                model.trainable_variables,
                start.encoder_config.num_hidden_layers,
                plan.optimizer,
            ),
        )
        return engine_lib.Engine(
            strategy,
            model,
            model.training_loss,
            optimizer,
            run,
            plan.train_batch_size,
            functools.partial(
                batches.train_dataset,
                train_features,
                run.seed,
                bucketed=plan.bucketed,
                length_step=(
                    batches.COMPILED_LENGTH_STEP
                    if run.jit_compile
                    else batches.LENGTH_STEP
                ),
            ),
        )


def trained_model(
    directory: str, encoder: configs.EncoderConfig, tasks: Sequence[TaskData]
) -> FinetuningModel:
    """The model of a finished trial, as exporting takes it.

    Args:
      directory: Of the trial.
      encoder: Its sizes.
      tasks: In the order of the model's heads.

    Raises:
      CheckpointError: If its weights are not there, or do not fit.
    """
    heads = [data.make_head(encoder) for data in tasks]
    model = FinetuningModel(encoder, heads, tasks[0].windows)
    checkpoint = reading.read_checkpoint(directory)
    reading.assign_all(checkpoint, model.variables, directory, "the model")
    return model
