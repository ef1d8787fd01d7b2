"""What a quickstart run left behind -> its figures."""

import collections
import json
import math
import os
import statistics
import typing

import quickstart_steps

from electra_tf import errors, model_directory

# What they say, in the order of the table. {share} is the share of tokens that
# were not replaced.
METRICS = {
    "masked_lm_accuracy": (
        "How often the generator’s likeliest word for a masked position is "
        "the true one."
    ),
    "masked_lm_loss": (
        "How surprised the generator is by the true word: nats per masked "
        "position, lower is better."
    ),
    "sampled_masked_lm_accuracy": (
        "How often the word that the generator draws is the true one. Such a "
        "token counts as original."
    ),
    "disc_loss": "The discriminator’s loss: nats per token, lower is better.",
    "disc_auc": (
        "How well the probabilities rank replaced above original tokens: 0.5 "
        "is chance, 1 is perfect. As in the original code, padding counts as "
        "tokens that are rightly called original, which lifts the figure."
    ),
    "disc_accuracy": (
        "How often a token is judged rightly. Calling every token original "
        "would give {share}."
    ),
    "disc_precision": (
        "Accuracy over predicted replacements: how many of the tokens that "
        "were called replaced were. 0 if none was."
    ),
    "disc_recall": (
        "Accuracy over true replacements: how many of the replaced tokens "
        "were called replaced."
    ),
}
# What is timed -> what is done; the report itself comes on top.
STAGES = {step.name: "" for step in quickstart_steps.STEPS[:-1]}
# Model directory -> the command that fills it, but for its --model_dir.
_COMMANDS = [c for step in quickstart_steps.STEPS for c in step.commands]
_FINETUNE, _FROM_SCRATCH = (c for c in _COMMANDS if " finetune " in c)
RUNS = {
    "pretrain": next(c for c in _COMMANDS if " pretrain " in c),
    "finetune_pretrained": _FINETUNE,
    "finetune_from_scratch": _FROM_SCRATCH.partition(" --model_dir")[0],
}


class Build(typing.NamedTuple):
    """What a quickstart run left behind.

    Attributes:
      heldout: Held-out metrics of pre-training, by name.
      log: Lines of pre-training's metrics.jsonl.
      pretraining: Configuration of pre-training.
      pretrained: results.json of fine-tuning the pre-trained model.
      from_scratch: results.json of the same from random weights.
      confusion: How often (true label, predicted label) came, on test.
      seconds: Stage -> seconds.
      runs: Name of a run -> its last line in runs.jsonl.
    """

    heldout: dict[str, float]
    log: list[dict]
    pretraining: dict
    pretrained: dict
    from_scratch: dict
    confusion: collections.Counter
    seconds: dict[str, float]
    runs: dict[str, dict]


def read_build(build_dir: str) -> Build:
    """Reads everything but the models.

    Raises:
      ConfigError: If something is missing or damaged.
    """

    def read(*parts, parse=json.loads):
        path = os.path.join(build_dir, *parts)
        text = _read_text(build_dir, *parts)
        try:
            return parse(text)
        except json.JSONDecodeError as error:
            raise errors.ConfigError(f"Cannot read {path}: {error}") from None

    def read_lines(*parts):
        lines = read(
            *parts, parse=lambda text: list(map(json.loads, text.splitlines()))
        )
        if not lines:
            path = os.path.join(build_dir, *parts)
            raise errors.ConfigError(f"Expected lines in {path}, found none")
        return lines

    evaluation = ("pretrain", model_directory.EVAL_RESULTS_FILE)
    heldout = read(*evaluation)
    if missing := [name for name in METRICS if name not in heldout]:
        raise errors.ConfigError(
            f"Expected the metric {missing[0]} in "
            f"{os.path.join(build_dir, *evaluation)}: the "
            "report is about a model with a generator and a discriminator"
        )
    results = []
    for name, is_from_scratch in (
        ("finetune_pretrained", False),
        ("finetune_from_scratch", True),
    ):
        parts = (name, model_directory.RESULTS_FILE)
        path = os.path.join(build_dir, *parts)
        results.append(read(*parts))
        if "test" not in results[-1]:
            raise errors.ConfigError(
                f"Expected scores on a test set in {path}, found none: "
                "fine-tune with FinetuningDataConfig.test_file"
            )
        if (found := results[-1]["from_scratch"]) != is_from_scratch:
            raise errors.ConfigError(
                f"Expected FinetuningConfig.from_scratch={is_from_scratch} of "
                f"the run with {path}. Received: {found}"
            )
    pretrained, from_scratch = results
    best = model_directory.trial_dir("", pretrained["best_on_dev"])
    predictions = ("finetune_pretrained", best, "test_predictions.tsv")
    return Build(
        heldout=heldout,
        log=read_lines("pretrain", model_directory.METRICS_FILE),
        pretraining=read("pretrain", model_directory.CONFIG_FILE),
        pretrained=pretrained,
        from_scratch=from_scratch,
        confusion=count_predictions(
            _read_text(build_dir, *predictions),
            os.path.join(build_dir, *predictions),
        ),
        seconds={stage: _read_seconds(build_dir, stage) for stage in STAGES},
        runs={
            name: read_lines(name, model_directory.RUNS_FILE)[-1]
            for name in RUNS
        },
    )


def _read_text(build_dir: str, *parts: str) -> str:
    path = os.path.join(build_dir, *parts)
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        step = f"the stage {parts[-1]!r}"
        if parts[0] in RUNS:
            model_dir = os.path.join(build_dir, parts[0])
            step = f"{RUNS[parts[0]]} --model_dir={model_dir}"
        raise errors.ConfigError(
            f"Expected {path}, found none: run electra-tf quickstart, or the "
            f"step of it that writes this file: {step}"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise errors.ConfigError(f"Cannot read {path}: {error}") from None


def _read_seconds(build_dir: str, stage: str) -> float:
    text = _read_text(build_dir, "seconds", stage).strip()
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not (math.isfinite(seconds) and seconds >= 0):
        raise errors.ConfigError(
            "Expected a number of seconds in "
            f"{os.path.join(build_dir, 'seconds', stage)}. Received: {text!r}"
        )
    return seconds


def count_predictions(text: str, path: str) -> collections.Counter:
    """Counts (true label, predicted label) in a predictions file.

    Args:
      text: What is in the file: rows of tab-separated columns, of which the
        first two are "label" and "prediction".
      path: Where it comes from, for the error message.

    Raises:
      ConfigError: If the columns are others.
    """
    rows = [line.split("\t") for line in text.split("\n") if line]
    if not rows or rows[0][:2] != ["label", "prediction"]:
        raise errors.ConfigError(
            f"Expected the columns label and prediction in {path}. Received: "
            f"{' '.join(rows[0][:2]) if rows else 'an empty file'}"
        )
    return collections.Counter((row[0], row[1]) for row in rows[1:])


def accuracies(results: dict, split: str) -> list[float]:
    """Accuracy of each seed, as a fraction; results.json has per cent."""
    return [trial[split]["accuracy"] / 100.0 for trial in results["trials"]]


def summarize(build: Build) -> dict:
    """What summary.json holds; accuracies are fractions."""
    runs = {"pretrained": build.pretrained, "from_scratch": build.from_scratch}
    per_seed = {name: accuracies(run, "test") for name, run in runs.items()}
    majority = build.pretrained["baseline"]["test"]["accuracy"] / 100.0
    return {
        "heldout": {name: build.heldout[name] for name in METRICS},
        "classifier": {
            **{
                f"accuracy_{name}": statistics.fmean(values)
                for name, values in per_seed.items()
            },
            "accuracy_majority": majority,
            **{
                f"accuracy_{name}_per_seed": values
                for name, values in per_seed.items()
            },
            **{
                f"dev_accuracy_{name}_per_seed": accuracies(run, "dev")
                for name, run in runs.items()
            },
        },
        "seconds": dict(build.seconds),
    }


def in_short(build: Build) -> str:
    """The finding, in a sentence."""
    scores = summarize(build)["classifier"]
    pretrained = scores["accuracy_pretrained"]
    from_scratch = scores["accuracy_from_scratch"]
    if pretrained > from_scratch:
        finding = "Pre-training raises"
    elif pretrained < from_scratch:
        finding = "Pre-training did not help: it lowers"
    else:
        return (
            f"Pre-training leaves the test accuracy at {percent(pretrained)}."
        )
    num_seeds = len(scores["accuracy_pretrained_per_seed"])
    mean = f" (mean of {num_seeds} seeds)" if num_seeds > 1 else ""
    return (
        f"{finding} the test accuracy from {percent(from_scratch)} to "
        f"{percent(pretrained)}{mean}; always giving the commonest label "
        f"scores {percent(scores['accuracy_majority'])}."
    )


def percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"
