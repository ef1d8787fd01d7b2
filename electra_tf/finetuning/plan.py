"""What is decided about a run and its models before the first is trained.

`preparation` makes a `RunPlan` of the configuration. A model is trained by its
`TrialPlan` alone.
"""

import dataclasses
import itertools
import typing
from collections.abc import Mapping, Sequence

from electra_tf import configs, model_directory
from electra_tf.finetuning import digests, evaluation
from electra_tf.finetuning.configs import FinetuningConfig, FinetuningDataConfig
from electra_tf.finetuning.recipe import Choice
from electra_tf.finetuning.starting_point import StartingPoint
from electra_tf.finetuning.task_data import TaskData
from electra_tf.tasks import features


@dataclasses.dataclass(frozen=True)
class Trial:
    """What sets a model apart from the others of its run.

    Attributes:
      number: From 1.
      seed: Of the head's weights, the order of the rows, and dropout.
      learning_rate: Peak rate.
      num_train_epochs: Passes over the training rows.
      fold: The part that is left out of training and scored, from 1; None
        without cross-validation.
      replaces: The degenerate trial that this one repeats with another seed.
    """

    number: int
    seed: int
    learning_rate: float
    num_train_epochs: float
    fold: int | None = None
    replaces: int | None = None

    def as_dict(self) -> dict:
        """For JSON, without what does not apply."""
        values = dataclasses.asdict(self)
        values["trial"] = values.pop("number")
        return {
            name: value for name, value in values.items() if value is not None
        }


@dataclasses.dataclass(frozen=True)
class TrialPlan:
    """All that training and scoring one model needs, resolved.

    Attributes:
      trial: Its own choices.
      start: What the model begins with.
      tasks: In the order of the model's heads, with their rows.
      optimizer: With all rates.
      run: With the trial's directory, seed and number of steps.
      train_batch_size: Examples in one step.
      eval_batch_size: Examples in one evaluation step.
      bucketed: Whether batches are cut to their longest row.
      patience: Evaluations in a row without a better `run.keep_best_metric`
        after which training ends; 0 for never.
    """

    trial: Trial
    start: StartingPoint
    tasks: Sequence[TaskData]
    optimizer: configs.OptimizerConfig
    run: configs.RunConfig
    train_batch_size: int
    eval_batch_size: int
    bucketed: bool
    patience: int

    @property
    def digests(self) -> dict:
        """Of all that decides what is learned and scored; fit for JSON."""
        labels = {
            data.task.name: data.task.description().get("labels")
            for data in self.tasks
        }
        return {
            "format": model_directory.DIGESTS_FORMAT,
            "rows": {data.task.name: data.digests for data in self.tasks},
            "of_texts": {
                data.task.name: data.of_texts() for data in self.tasks
            },
            "labels": {
                name: digests.of_values(of_task or ())
                for name, of_task in labels.items()
            },
        } | self.start.digests


@dataclasses.dataclass(frozen=True)
class RunPlan:
    """What all trials of a run share, and which there are.

    Attributes:
      start: What every model begins with.
      folds: For each fold the tasks, in the order of the model's heads; one
        fold without cross-validation.
      data: Where the rows are from, how they are cut, sizes of batches.
      optimizer: With all rates; each trial brings its own peak rate.
      run: Of all trials together.
      trials: In the order in which they are run.
      reseed_degenerate: How often a degenerate one is repeated.
      patience: See `TrialPlan`.
      notes: What was chosen for the user, a line each.
      recipe: What the models learn with, and where each value is from.
      about_data: Task name -> what results.json says of its rows.
    """

    start: StartingPoint
    folds: Sequence[Sequence[TaskData]]
    data: FinetuningDataConfig
    optimizer: configs.OptimizerConfig
    run: configs.RunConfig
    trials: Sequence[Trial]
    reseed_degenerate: int
    patience: int
    notes: Sequence[str]
    recipe: Mapping[str, Choice]
    about_data: Mapping[str, dict]

    def of_trial(self, trial: Trial) -> TrialPlan:
        """The plan of one of `trials`, or of one that repeats it."""
        tasks = self.folds[(trial.fold or 1) - 1]
        num_rows = sum(features.num_rows(of.features["train"]) for of in tasks)
        data = dataclasses.replace(
            self.data, num_train_epochs=trial.num_train_epochs
        )
        run = dataclasses.replace(
            self.run,
            model_dir=model_directory.trial_dir(
                self.run.model_dir, trial.number
            ),
            seed=trial.seed,
            num_train_steps=data.num_train_steps(num_rows),
        )
        if self.patience:
            run = dataclasses.replace(
                run,
                eval_steps=run.eval_steps or data.steps_per_epoch(num_rows),
                keep_best_metric=evaluation.DEV_SCORE,
            )
        return TrialPlan(
            trial=trial,
            start=self.start,
            tasks=tasks,
            optimizer=dataclasses.replace(
                self.optimizer, learning_rate=trial.learning_rate
            ),
            run=run,
            train_batch_size=data.train_batch_size,
            eval_batch_size=data.eval_batch_size,
            bucketed=(
                data.bucketed and self.run.distribution_strategy != "tpu"
            ),
            patience=self.patience,
        )


def make_trials(
    config: FinetuningConfig, learning_rate: float | None
) -> list[Trial]:
    """Every learning rate with every number of epochs, seed and fold.

    Args:
      config: Of the run.
      learning_rate: Where the run does not try several.

    Returns:
      The trials in the order in which they are run.
    """
    settings = itertools.product(
        config.learning_rates or (typing.cast(float, learning_rate),),
        config.num_train_epochs_options or (config.data.num_train_epochs,),
        range(config.num_trials),
        range(1, config.data.folds + 1) if config.data.folds else (None,),
    )
    return [
        Trial(number, config.run.seed + repetition, rate, epochs, fold)
        for number, (rate, epochs, repetition, fold) in enumerate(settings, 1)
    ]
