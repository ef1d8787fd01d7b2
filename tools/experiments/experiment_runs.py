"""From a suite to the runs that it takes, at equal compute; runs nothing.

A *variant* is a row at a budget; each of its seeds is one folder, in which a
run is one model directory of run_pretraining or run_finetuning:

  <output_dir>/<suite>/<row>/<budget>/seed_<n>/pretraining      or, in two
                                              /first_stage      stages, both
                                              /<task>
                                              /<task>_mean      by all tokens'
                                                                mean

A variant that several suites, or rows, have in common is in the folder of the
first of them, and trained once.
"""

import contextlib
import dataclasses
import functools
import itertools
import json
import math
import os
import pathlib
import shlex
import sys
from collections.abc import Iterable

from experiment_suites import SUITES, TASKS, Row

from electra_tf import configs, errors, model_directory
from electra_tf import files as files_lib
from electra_tf.command_line import gin_files as gin_files_lib
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.model import costs

_GIN = pathlib.Path(__file__).parents[2] / "gin"
OWN_STEPS = "own_steps"
# Held-out evaluations of a pre-training run.
_NUM_EVALS = 5


@dataclasses.dataclass(frozen=True)
class Options:
    """What a user chose for all rows.

    Attributes:
      size_gin_file: Given after the row's file; '' for the row's own size.
      output_dir: Where the runs are.
      tasks: Names of `TASKS`.
      seeds: Of pre-training, and of the fine-tuning after it.
      gin_params: Bindings for all pre-training.
      finetuning_gin_file: Given after the task's files.
      finetuning_gin_params: Bindings for all fine-tuning.
      pooling: `FinetuningConfig.pooling` of the tasks on whole texts.
    """

    size_gin_file: str
    output_dir: str
    tasks: tuple[str, ...]
    # What is loaded once for all runs does not depend on them.
    seeds: tuple[int, ...] = dataclasses.field(compare=False)
    gin_params: tuple[str, ...] = ()
    finetuning_gin_file: str = "gin/experiments/finetuning.gin"
    finetuning_gin_params: tuple[str, ...] = ()
    pooling: str = configs.DEFAULT_POOLING


@dataclasses.dataclass(frozen=True)
class Stage:
    """One pre-training run of a variant, whatever its seed.

    Attributes:
      name: Of its folder.
      gin_files: In their order.
      gin_params: After them.
      config: What they load to; seed and folders are still those of the files.
      flops_per_step: As `costs.of_pretraining_step` counts.
    """

    name: str
    gin_files: tuple[str, ...]
    gin_params: tuple[str, ...]
    config: configs.PretrainingConfig
    flops_per_step: float

    @property
    def flops(self) -> float:
        """Of all steps."""
        return self.flops_per_step * self.config.run.num_train_steps


@dataclasses.dataclass(frozen=True)
class Variant:
    """A row at a budget.

    Attributes:
      row: Of a suite.
      budget: FLOPs; None for the steps of the gin files.
      folder: With a folder for each seed.
      stages: One, or two that follow each other; the last is fine-tuned. None
        of a row from scratch.
    """

    row: Row
    budget: float | None
    folder: str
    stages: tuple[Stage, ...]

    @property
    def num_train_steps(self) -> int:
        """Of the last stage, and with a budget of each."""
        if not self.stages:
            return 0
        return self.stages[-1].config.run.num_train_steps

    @property
    def flops(self) -> float:
        """Of all stages."""
        return sum(stage.flops for stage in self.stages)

    def seed_dir(self, seed: int) -> str:
        return os.path.join(self.folder, f"seed_{seed}")

    def stage_dir(self, seed: int, number: int = -1) -> str:
        return os.path.join(self.seed_dir(seed), self.stages[number].name)

    def task_dir(self, seed: int, task: str, options: Options) -> str:
        """Of what is fine-tuned on a task."""
        if (pooling := _pooling_of(task, options)) != configs.DEFAULT_POOLING:
            task = f"{task}_{pooling}"
        return os.path.join(self.seed_dir(seed), task)


@dataclasses.dataclass(frozen=True)
class Run:
    """One command, and how to see that it has been done.

    Attributes:
      title: For people.
      command: Arguments behind the Python interpreter.
      config: Of the run.
      needs: Model directories that must be finished before.
      kind: Runs of one kind take a time in proportion to their weight.
      weight: See `kind`.
    """

    title: str
    command: tuple[str, ...]
    config: configs.PretrainingConfig | finetuning_configs.FinetuningConfig
    needs: tuple[str, ...]
    kind: str
    weight: float

    @property
    def model_dir(self) -> str:
        return self.config.run.model_dir

    @property
    def log_file(self) -> str:
        return self.model_dir + ".log"

    @property
    def cost_file(self) -> str:
        """What the run took, interruptions included."""
        return _cost_file(self.model_dir)

    @property
    def num_train_steps(self) -> int:
        """Up to its end; 0 for fine-tuning, which counts epochs."""
        return self.config.run.stop_at_step or self.config.run.num_train_steps

    def is_finished(self) -> bool:
        """Whether all of it is done.

        Raises:
          ConfigError: If the folder holds another run.
          CheckpointError: If its results are damaged.
        """
        if isinstance(self.config, finetuning_configs.FinetuningConfig):
            name = model_directory.RESULTS_FILE
        elif self.config.data.heldout_files:
            name = model_directory.EVAL_RESULTS_FILE
        else:
            name = (
                f"{model_directory.CHECKPOINT_NAME}-{self.num_train_steps}"
                ".index"
            )
        path = os.path.join(self.model_dir, name)
        if not os.path.exists(path):
            return False
        model_directory.refuse_other_run(self.config)
        if name == model_directory.EVAL_RESULTS_FILE:
            results = files_lib.read_json(path, step=int)
            return results.get("step") == self.num_train_steps
        if name == model_directory.RESULTS_FILE:
            results = files_lib.read_json(
                path, trials=list, replaced_trials=list
            )
            # Those that others repeat do not count.
            num_trials = len(results.get("trials") or ()) - len(
                results.get("replaced_trials") or ()
            )
            return num_trials >= _num_trials(self.config)
        return True

    def cost(self) -> dict[str, float]:
        """See `cost_of`."""
        return cost_of(self.model_dir)

    def add_cost(self, **amounts: float) -> None:
        """Adds "seconds" and "cpu_seconds" of one process."""
        total = self.cost()
        for name, amount in amounts.items():
            total[name] = total.get(name, 0.0) + amount
        files_lib.write_json(self.cost_file, total, indent=None)

    def trials(self) -> list[dict]:
        """What is finished of fine-tuning, seed by seed, in order.

        Raises:
          ValueError: If results are damaged, or a trial is there twice.
        """
        found: list[dict] = []
        for number in itertools.count(1):
            path = os.path.join(
                model_directory.trial_dir(self.model_dir, number),
                model_directory.RESULTS_FILE,
            )
            if not os.path.isfile(path):
                break
            trial = files_lib.read_json(path, tasks=dict, trial=int)
            if trial.get("trial", number) != number:
                raise ValueError(
                    f"Expected trial {number} in {path}. Received: "
                    f"trial {trial['trial']}."
                )
            found.append(trial)
        return found

    def git_commit(self) -> str | None:
        """Of the code that worked on it last, if that is known."""
        return last_start(self.model_dir).get("git_commit")

    def origin(self) -> dict:
        """How its figures came about: seconds, commit and command."""
        return {
            "cpu_seconds": self.cost().get("cpu_seconds"),
            "git_commit": self.git_commit(),
            "command": f"python {shlex.join(self.command)}",
        }

    def step(self) -> int:
        """Steps of pre-training so far, as its last look says."""
        path = os.path.join(self.model_dir, model_directory.METRICS_FILE)
        try:
            with open(path, "rb") as file:
                file.seek(max(0, os.path.getsize(path) - 10_000))
                lines = file.read().splitlines()
        except OSError:
            return 0
        for line in reversed(lines):
            try:
                return int(json.loads(line)["step"])
            except (ValueError, KeyError, TypeError):
                continue
        return 0


def is_of_table(run: Run) -> bool:
    """Whether what is there of a run, if anything, is of its configuration.

    What is not is left out of tables, which this says.
    """
    try:
        model_directory.refuse_other_run(run.config)
    except errors.ConfigError as error:
        _say_once(f"not in the table: {error}")
        return False
    return True


def _num_trials(config) -> int:
    """Of a fine-tuning run, all settings and folds together."""
    return (
        config.num_trials
        * max(1, len(config.learning_rates))
        * max(1, len(config.num_train_epochs_options))
        * max(1, config.data.folds)
    )


def cost_of(model_dir: str) -> dict[str, float]:
    """Seconds and CPU seconds of a run so far; {} if they are not known.

    Raises:
      CheckpointError: If their file is damaged.
    """
    path = _cost_file(model_dir)
    if not os.path.exists(path):
        return {}
    return files_lib.read_json(path, seconds=float, cpu_seconds=float)


def _cost_file(model_dir: str) -> str:
    return f"{model_dir}.cost.json"


def last_start(model_dir: str) -> dict:
    """What runs.jsonl says of the process that worked on a run last.

    Returns:
      "time", "argv", "git_commit" and more; {} if that is not known. A line
      that was cut short is no line.
    """
    path = pathlib.Path(model_dir, model_directory.RUNS_FILE)
    if path.is_file():
        for line in reversed(path.read_text("utf-8", "replace").splitlines()):
            with contextlib.suppress(json.JSONDecodeError):
                record = json.loads(line)
                if isinstance(record, dict):
                    return record
    return {}


# What is compared -> the digest of it that a trial keeps. That of its initial
# weights has its dropout, too, by which rows of a table may differ.
_DIGESTS = {"rows": "rows", "initial weights": "tensors"}


def refuse_unlike(model_dirs: Iterable[str], what: str) -> None:
    """Refuses runs that are compared, but not of the same.

    Such as those of before and after the data were built again.

    Args:
      model_dirs: Of fine-tuning. What a run of an earlier version began with is
        not known, and taken for the same.
      what: "rows" or "initial weights".

    Raises:
      ValueError: If two of them differ.
    """
    first: tuple[str, object] | None = None
    for model_dir in model_dirs:
        path = os.path.join(
            model_directory.trial_dir(model_dir, 1), model_directory.TRIAL_FILE
        )
        if not os.path.isfile(path):
            continue
        digests = files_lib.read_json(path, digests=dict).get("digests") or {}
        found = digests.get(_DIGESTS[what])
        if found is None:
            continue
        if first and first[1] != found:
            raise ValueError(
                f"Expected the same {what} of all that is compared. Received: "
                f"others of {model_dir} than of {first[0]}; move what is of "
                "before the change away, and run it again."
            )
        first = first or (model_dir, found)


def gin_path(name: str) -> str:
    """A file below gin/, as a user in the working directory would name it."""
    path = str(_GIN / name)
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative


def budget_name(budget: float | None) -> str:
    """1e13 -> '1e13'."""
    if budget is None:
        return OWN_STEPS
    return f"{budget:g}".replace("e+", "e")


def variants(
    suite: str,
    budgets: tuple[float, ...],
    options: Options,
    rows: tuple[str, ...] = (),
) -> list[Variant]:
    """Rows of a suite at all budgets.

    A row that is the same run as one before it in the suite, at this size, is
    left out.

    Args:
      suite: Name of one of `SUITES`.
      budgets: FLOPs of a run; empty for the steps of the gin files.
      options: For all rows.
      rows: Names of some rows; empty for all.

    Raises:
      ValueError: If a name is unknown or a gin file does not load.
    """
    names = [row.name for row in SUITES[suite].rows]
    for name in rows:
        if name not in names:
            raise ValueError(
                f"Expected one of the rows {', '.join(names)}. Received: {name}"
            )
    found: list[Variant] = []
    for budget in budgets or (None,):
        for row in SUITES[suite].rows:
            if rows and row.name not in rows:
                continue
            variant = _variant(row, budget, options)
            if all(variant.folder != other.folder for other in found):
                found.append(variant)
            else:
                _say_once(
                    f"{suite}: {row.name} is, at this size, the same run as "
                    "one before it"
                )
    return found


@functools.cache
def _say_once(text: str) -> None:
    print(text, file=sys.stderr)


def _variant(row: Row, budget: float | None, options: Options) -> Variant:
    stages = _stages(row, budget, options)
    own = _fingerprint(stages)
    suite, name = next(
        (name, other.name)
        for name, suite in SUITES.items()
        for other in suite.rows
        if other == row or _fingerprint_of(other, budget, options) == own
    )
    folder = os.path.join(options.output_dir, suite, name, budget_name(budget))
    return Variant(row, budget, folder, stages)


@functools.cache
def _fingerprint_of(row: Row, budget: float | None, options: Options) -> str:
    """Of a row that was not asked for; '' if it cannot be loaded."""
    try:
        return _fingerprint(_stages(row, budget, options))
    except errors.ConfigError:
        return ""


def _fingerprint(stages: tuple[Stage, ...]) -> str:
    """What is learned: equal for equal runs."""
    records = []
    for stage in stages:
        record = model_directory.as_dict(stage.config)
        for name in ("init_checkpoint", "init_generator_checkpoint"):
            record[name] = bool(record[name])
        del record["run"]["model_dir"]
        records.append(record)
    return json.dumps(records, sort_keys=True)


@functools.cache
def _stages(
    row: Row, budget: float | None, options: Options
) -> tuple[Stage, ...]:
    """The pre-training of a row, all stages of as many steps."""
    from electra_tf.model import ablations  # Imports TensorFlow.

    stages: list[Stage] = []
    if row.from_scratch:
        return ()
    for name, gin_file in (
        ("first_stage", row.first_stage),
        ("pretraining", row.gin_file),
    ):
        if not gin_file:
            continue
        files = [gin_path(f"experiments/{gin_file}.gin")]
        files += [options.size_gin_file] if options.size_gin_file else []
        config = gin_files_lib.load(
            configs.PretrainingConfig, files, options.gin_params
        )
        per_step = costs.of_pretraining_step(
            ablations.networks(config.model), config.data.train_batch_size
        )
        stages.append(
            Stage(name, tuple(files), options.gin_params, config, per_step)
        )
    num_train_steps = None
    if budget is not None:
        total = sum(stage.flops_per_step for stage in stages)
        num_train_steps = max(1, round(budget / total))
    return tuple(_with_steps(stage, num_train_steps) for stage in stages)


def _with_steps(stage: Stage, num_train_steps: int | None) -> Stage:
    """A stage with all bindings of its own; None for the steps of its files."""
    run, optimizer = stage.config.run, stage.config.optimizer
    params = list(stage.gin_params)
    if num_train_steps is not None:
        params.append(f"RunConfig.num_train_steps={num_train_steps}")
        if optimizer.num_warmup_steps:
            # Warm-up keeps its share of the training.
            share = optimizer.warmup_steps(run.num_train_steps)
            share /= run.num_train_steps
            # A share cannot say that it is longer than the training.
            own = round(share * num_train_steps) if share > 1 else 0
            params.append(f"OptimizerConfig.num_warmup_steps={own}")
            share = min(share, 1.0)
            params.append(f"OptimizerConfig.warmup_proportion={share:.6g}")
    if not run.eval_steps and stage.config.data.heldout_files:
        steps = num_train_steps or run.num_train_steps
        params.append(f"RunConfig.eval_steps={math.ceil(steps / _NUM_EVALS)}")
    config = gin_files_lib.load(
        configs.PretrainingConfig, stage.gin_files, params
    )
    return dataclasses.replace(stage, gin_params=tuple(params), config=config)


def runs_of(variant: Variant, seed: int, options: Options) -> list[Run]:
    """Pre-training and fine-tuning of a variant with one seed, in order."""
    name = f"{variant.row.name} {budget_name(variant.budget)} seed {seed}"
    runs: list[Run] = []
    for number, stage in enumerate(variant.stages):
        start = {}
        if runs:  # Both networks start from the stage before.
            networks = ("init_checkpoint", "init_generator_checkpoint")
            start = dict.fromkeys(networks, runs[-1].model_dir)
        runs.append(
            make_run(
                f"{name} {stage.name}",
                (stage.gin_files, stage.gin_params, stage.config),
                seed,
                variant.stage_dir(seed, number),
                start,
                "pretraining",
                stage.flops,
            )
        )
    from_scratch = variant.row.from_scratch
    pretrained = pretrained_of(variant, options)
    for task in options.tasks:
        runs.append(
            make_run(
                f"{name} {task}",
                _finetuning_config(task, options, from_scratch),
                seed,
                variant.task_dir(seed, task, options),
                {"init_checkpoint": pretrained.stage_dir(seed)},
                task,
                1.0,
            )
        )
    return runs


def pretrained_of(variant: Variant, options: Options) -> Variant:
    """Whose network is fine-tuned: its own, or that which has its sizes."""
    if not variant.row.from_scratch:
        return variant
    row = dataclasses.replace(variant.row, from_scratch=False)
    return _variant(row, variant.budget, options)


def make_run(
    title: str,
    configuration: tuple,
    seed: int,
    model_dir: str,
    start: dict[str, str],
    kind: str,
    weight: float,
) -> Run:
    """One command.

    Args:
      title: See `Run`.
      configuration: gin files, bindings, and what they load to.
      seed: Of the run.
      model_dir: Of the run.
      start: Field of the configuration -> the model directory to start from.
      kind: See `Run`.
      weight: See `Run`.

    Raises:
      ValueError: If a binding sets one of these to something else.
    """
    files, params, config = configuration
    decided = {
        "RunConfig.seed": (config.run.seed, seed),
        "RunConfig.model_dir": (config.run.model_dir, model_dir),
    } | {
        f"{type(config).__name__}.{field}": (getattr(config, field), path)
        for field, path in start.items()
    }
    refuse_decided(
        params,
        [name for name, (given, ours) in decided.items() if given != ours],
    )
    config = dataclasses.replace(
        config,
        run=dataclasses.replace(config.run, seed=seed, model_dir=model_dir),
        **start,
    )
    params = [*params, f"RunConfig.seed={seed}"]
    for field, path in start.items():
        # In double quotes, which a shell command needs less.
        path = json.dumps(path)
        params.append(f"{type(config).__name__}.{field}={path}")
    what = type(config).__name__.removesuffix("Config").lower()
    return Run(
        title,
        _command(what, files, params, model_dir),
        config,
        tuple(set(start.values())),
        kind,
        weight,
    )


def refuse_decided(params: Iterable[str], names: Iterable[str]) -> None:
    """Refuses bindings that would have no effect.

    Args:
      params: Of the user.
      names: Such as "RunConfig.seed", of what the comparison decides itself.

    Raises:
      ValueError: If there is one.
    """
    for param in params:
        if param.partition("=")[0].strip() in names:
            raise ValueError(
                "Expected bindings of what the comparison leaves open. "
                f"Received: {param}"
            )


def _pooling_of(task: str, options: Options) -> str:
    """What a task is fine-tuned with, whose head may read every token."""
    whole = TASKS[task].of_whole_text
    return options.pooling if whole else configs.DEFAULT_POOLING


@functools.cache
def _finetuning_config(task: str, options: Options, from_scratch: bool):
    """gin files, bindings and configuration of all fine-tuning on a task."""
    # The task's own file is first: others are found beside it.
    files = [gin_path(TASKS[task].gin_file)]
    of_task = gin_path(f"experiments/finetuning/{task}.gin")
    if options.finetuning_gin_file:
        files += [of_task] if os.path.exists(of_task) else []
        files.append(options.finetuning_gin_file)
    params = options.finetuning_gin_params
    # The folder of a run names it.
    refuse_decided(params, ["FinetuningConfig.pooling"])
    pooling = _pooling_of(task, options)
    params += (f"FinetuningConfig.pooling={pooling!r}",)
    if from_scratch:
        params += ("FinetuningConfig.from_scratch=True",)
    config = gin_files_lib.load(
        finetuning_configs.FinetuningConfig, files, params
    )
    return tuple(files), params, config


def _command(
    what: str, files: tuple[str, ...], params: list[str], model_dir: str
) -> tuple[str, ...]:
    return (
        "-m",
        f"electra_tf.run_{what}",
        *(f"--gin_file={path}" for path in files),
        *(f"--gin_param={param}" for param in params),
        f"--model_dir={model_dir}",
    )


def budgets_on_disk(options: Options) -> list[float | None]:
    """Budgets of all runs that are there; None for the gin files' steps."""
    folders = pathlib.Path(options.output_dir).glob("*/*/*")
    found: list[float | None] = []
    for name in {folder.name for folder in folders}:
        with contextlib.suppress(ValueError):
            budget = None if name == OWN_STEPS else float(name)
            # "nan", "1e+13" and the like are no names of ours.
            if budget_name(budget) == name and (
                budget is None or 0 < budget < math.inf
            ):
                found.append(budget)
    return found


def seeds_on_disk(options: Options) -> tuple[int, ...]:
    """Seeds of all runs that are there."""
    folders = pathlib.Path(options.output_dir).glob("*/*/*/seed_*")
    names = {folder.name.removeprefix("seed_") for folder in folders}
    return tuple(sorted(int(name) for name in names if name.isdigit()))
