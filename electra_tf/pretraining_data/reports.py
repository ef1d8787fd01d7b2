"""Reports on text or TFRecords, before a run finds out; no TensorFlow here.

`text_report` looks at a sample of a corpus through a vocabulary,
`records_report` at finished TFRecords. Both return a `Report`: facts to read,
warnings of what makes a run worse, errors that would end one.
"""

import sys
from typing import NamedTuple, TextIO

from electra_tf import configs

# Above these shares a report warns. Vocabularies of a language leave far less
# of its text unknown.
MAX_UNKNOWN = 0.01
# And above this one nothing can be learned.
MOSTLY_UNKNOWN = 0.5
MAX_PADDING = 0.3
# Epochs after which a model has long learned its examples by heart.
_MAX_EPOCHS = 100


class Report:
    """What was found, in lines for people.

    Attributes:
      facts: (name, what it is) pairs.
      warnings: What makes a run worse.
      errors: What would end a run, or train on nonsense.
    """

    def __init__(self):
        self.facts: list[tuple[str, str]] = []
        self.warnings: list[str] = []
        self.errors: list[str] = []

    def fact(self, name: str, text: str) -> None:
        """Adds to the facts."""
        self.facts.append((name, text))

    def print(self, facts_to: TextIO) -> None:
        """Prints facts in a column, then, to stderr, the rest line by line."""
        width = max((len(name) for name, _ in self.facts), default=0) + 1
        for name, text in self.facts:
            print(f"{name + ':':{width}} {text}", file=facts_to)
        for kind, lines in (("warning", self.warnings), ("error", self.errors)):
            for line in lines:
                print(f"{kind}: {line}", file=sys.stderr)


class Run(NamedTuple):
    """The pre-training run that data are for.

    Attributes:
      num_train_steps: Optimizer steps.
      train_batch_size: Examples in one step.
      vocab_size: Of the model; None where it is not known.
      max_seq_length: Of the model; None where it is not known.
    """

    num_train_steps: int
    train_batch_size: int
    vocab_size: int | None = None
    max_seq_length: int | None = None


def run_of_config(config: configs.PretrainingConfig) -> Run:
    """The run that a configuration describes."""
    return Run(
        config.run.num_train_steps,
        config.data.train_batch_size,
        config.model.encoder.vocab_size,
        config.model.max_seq_length,
    )


def check_run(report, run, num_examples, vocab_size, max_seq_length) -> None:
    """Compares examples with the run that they are for."""
    for name, of_model, of_data in (
        ("vocab_size", run.vocab_size, vocab_size),
        ("max_seq_length", run.max_seq_length, max_seq_length),
    ):
        if of_model is not None and of_model != of_data:
            report.errors.append(
                f"expected {name}={of_data} in the run's configuration, "
                f"received {of_model}"
            )
    if not num_examples:
        return
    epochs = run.num_train_steps * run.train_batch_size / num_examples
    report.fact(
        "epochs",
        f"{epochs:,.2f} in {run.num_train_steps:,} steps of "
        f"{run.train_batch_size} examples",
    )
    if epochs > _MAX_EPOCHS:
        report.warnings.append(
            f"the run sees every example {epochs:,.0f} times: more text, or "
            "fewer steps"
        )
    if num_examples < run.train_batch_size:
        report.warnings.append(
            f"{num_examples} examples are fewer than the batch of "
            f"{run.train_batch_size}: a step sees some of them twice"
        )
