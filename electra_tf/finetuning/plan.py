"""Which models a fine-tuning run trains; no TensorFlow."""

import dataclasses
import itertools

from electra_tf import configs


@dataclasses.dataclass(frozen=True)
class Trial:
    """One model of a run; its directory is <model_dir>/trial_<number>.

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

    @property
    def folder(self) -> str:
        return f"trial_{self.number}"

    def as_dict(self) -> dict:
        """For JSON, without what does not apply."""
        values = dataclasses.asdict(self)
        values["trial"] = values.pop("number")
        return {
            name: value for name, value in values.items() if value is not None
        }


def make_trials(config: configs.FinetuningConfig) -> list[Trial]:
    """Every learning rate with every number of epochs, seed and fold.

    Args:
      config: Of the run; its optimizer has a learning rate.

    Returns:
      The trials in the order in which they are run.
    """
    rates = config.learning_rates
    if not rates:
        assert config.optimizer.learning_rate is not None
        rates = (config.optimizer.learning_rate,)
    settings = itertools.product(
        rates,
        config.num_train_epochs_options or (config.data.num_train_epochs,),
        range(config.num_trials),
        range(1, config.data.folds + 1) if config.data.folds else (None,),
    )
    return [
        Trial(number, config.run.seed + repetition, rate, epochs, fold)
        for number, (rate, epochs, repetition, fold) in enumerate(settings, 1)
    ]


def reseeded(
    degenerate: Trial, trials: list[Trial], config: configs.FinetuningConfig
) -> Trial | None:
    """The trial that repeats a degenerate one with a new seed.

    Args:
      degenerate: Of `trials`.
      trials: All so far.
      config: Of the run.

    Returns:
      The trial, or None if it was repeated often enough.
    """
    attempts = 0
    first: Trial | None = degenerate
    while first is not None and first.replaces is not None:
        attempts += 1
        first = next(t for t in trials if t.number == first.replaces)
    if attempts >= config.reseed_degenerate:
        return None
    return dataclasses.replace(
        degenerate,
        number=len(trials) + 1,
        # No trial of the plan has it.
        seed=max(trial.seed for trial in trials) + 1,
        replaces=degenerate.number,
    )
