"""From a suite to the runs that it takes, at equal compute; runs nothing.

A *variant* is a row at a budget; each of its seeds is one folder, in which a
run is one model directory of run_pretraining or run_finetuning:

  <output_dir>/<suite>/<row>/<budget>/seed_<n>/pretraining      or, in two
                                              /first_stage      stages, both
                                              /<task>

A variant that several suites, or rows, have in common is in the folder of the
first of them, and trained once.
"""

import dataclasses
import functools
import json
import math
import os
import pathlib
import sys

from experiment_suites import SUITES, TASKS, Row

from electra_tf import configs, errors, model_directory
from electra_tf import files as files_lib
from electra_tf.command_line import gin_files as gin_files_lib
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.model import flops

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
    """

    size_gin_file: str
    output_dir: str
    tasks: tuple[str, ...]
    # What is loaded once for all runs does not depend on them.
    seeds: tuple[int, ...] = dataclasses.field(compare=False)
    gin_params: tuple[str, ...] = ()
    finetuning_gin_file: str = "gin/experiments/finetuning.gin"
    finetuning_gin_params: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Stage:
    """One pre-training run of a variant, whatever its seed.

    Attributes:
      name: Of its folder.
      gin_files: In their order.
      gin_params: After them.
      config: What they load to; seed and folders are still those of the files.
      flops_per_step: As `flops.of_pretraining_step` counts.
    """

    name: str
    gin_files: tuple[str, ...]
    gin_params: tuple[str, ...]
    config: configs.PretrainingConfig
    flops_per_step: float


@dataclasses.dataclass(frozen=True)
class Variant:
    """A row at a budget.

    Attributes:
      row: Of a suite.
      budget: FLOPs; None for the steps of the gin files.
      folder: With a folder for each seed.
      stages: One, or two that follow each other; the last is fine-tuned.
    """

    row: Row
    budget: float | None
    folder: str
    stages: tuple[Stage, ...]

    @property
    def num_train_steps(self) -> int:
        """Of the last stage, and with a budget of each."""
        return self.stages[-1].config.run.num_train_steps

    @property
    def flops(self) -> float:
        """Of all stages, all steps."""
        return sum(
            s.flops_per_step * s.config.run.num_train_steps for s in self.stages
        )

    def seed_dir(self, seed: int) -> str:
        return os.path.join(self.folder, f"seed_{seed}")

    def stage_dir(self, seed: int, number: int = -1) -> str:
        return os.path.join(self.seed_dir(seed), self.stages[number].name)


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
        return self.model_dir + ".cost.json"

    @property
    def num_train_steps(self) -> int:
        """0 for fine-tuning, which counts epochs."""
        return self.config.run.num_train_steps

    def is_finished(self) -> bool:
        """Whether all of it is done.

        Raises:
          ConfigError: If the folder holds another run.
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
        if name != model_directory.EVAL_RESULTS_FILE:
            return True
        with open(path, encoding="utf-8") as file:
            return json.load(file)["step"] == self.num_train_steps

    def cost(self) -> dict[str, float]:
        """Seconds and CPU seconds of the run so far, if any are known."""
        try:
            with open(self.cost_file, encoding="utf-8") as file:
                return json.load(file)
        except (OSError, json.JSONDecodeError):
            return {}

    def add_cost(self, **amounts: float) -> None:
        """Adds "seconds" and "cpu_seconds" of one process."""
        total = self.cost()
        for name, amount in amounts.items():
            total[name] = total.get(name, 0.0) + amount
        files_lib.write_atomically(self.cost_file, json.dumps(total) + "\n")

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
    chosen = [SUITES[suite].row(name) for name in rows] or SUITES[suite].rows
    found: list[Variant] = []
    for budget in budgets or (None,):
        for row in SUITES[suite].rows:
            if row not in chosen:
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
    for suite_name, suite in SUITES.items():
        for other in suite.rows:
            if other == row or _fingerprint_of(other, budget, options) == own:
                folder = os.path.join(
                    options.output_dir,
                    suite_name,
                    other.name,
                    budget_name(budget),
                )
                return Variant(row, budget, folder, stages)
    raise AssertionError(row)


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
    names = [(row.first_stage, "first_stage")] if row.first_stage else []
    names.append((row.gin_file, "pretraining"))
    loaded = []
    for gin_file, name in names:
        files = [gin_path(f"experiments/{gin_file}.gin")]
        files += [options.size_gin_file] if options.size_gin_file else []
        config = gin_files_lib.load(
            configs.PretrainingConfig, files, options.gin_params
        )
        per_step = flops.of_pretraining_step(
            config.model, config.data.train_batch_size
        )
        loaded.append((name, tuple(files), config, per_step))
    total = sum(per_step for *_, per_step in loaded)
    return tuple(
        _stage(
            *one,
            options.gin_params,
            None if budget is None else max(1, round(budget / total)),
        )
        for one in loaded
    )


def _stage(
    name: str,
    files: tuple[str, ...],
    config: configs.PretrainingConfig,
    per_step: float,
    gin_params: tuple[str, ...],
    num_train_steps: int | None,
) -> Stage:
    """A stage with all bindings of its own."""
    run, optimizer = config.run, config.optimizer
    params: list[str] = []
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
    steps = num_train_steps or run.num_train_steps
    if not run.eval_steps and config.data.heldout_files:
        eval_steps = math.ceil(steps / _NUM_EVALS)
        params.append(f"RunConfig.eval_steps={eval_steps}")
    all_params = (*gin_params, *params)
    config = gin_files_lib.load(configs.PretrainingConfig, files, all_params)
    return Stage(name, files, all_params, config, per_step)


def runs_of(variant: Variant, seed: int, options: Options) -> list[Run]:
    """Pre-training and fine-tuning of a variant with one seed, in order."""
    name = f"{variant.row.name} {budget_name(variant.budget)} seed {seed}"
    runs: list[Run] = []
    for number, stage in enumerate(variant.stages):
        model_dir = variant.stage_dir(seed, number)
        config = dataclasses.replace(
            stage.config,
            run=dataclasses.replace(
                stage.config.run, seed=seed, model_dir=model_dir
            ),
        )
        params = [*stage.gin_params, f"RunConfig.seed={seed}"]
        needs: tuple[str, ...] = ()
        if number:
            # Both networks start from the stage before.
            needs = (variant.stage_dir(seed, number - 1),)
            config = dataclasses.replace(
                config,
                init_checkpoint=needs[0],
                init_generator_checkpoint=needs[0],
            )
            for field in ("init_checkpoint", "init_generator_checkpoint"):
                params.append(f"PretrainingConfig.{field}={_text(needs[0])}")
        runs.append(
            Run(
                f"{name} {stage.name}",
                _command("pretraining", stage.gin_files, params, model_dir),
                config,
                needs,
                "pretraining",
                stage.flops_per_step * stage.config.run.num_train_steps,
            )
        )
    for task in options.tasks:
        runs.append(_finetuning(name, task, variant, seed, options))
    return runs


def _finetuning(
    name: str, task: str, variant: Variant, seed: int, options: Options
) -> Run:
    pretrained = variant.stage_dir(seed)
    model_dir = os.path.join(variant.seed_dir(seed), task)
    files, shared, config = _finetuning_config(task, options)
    params = [
        *shared,
        f"RunConfig.seed={seed}",
        f"FinetuningConfig.init_checkpoint={_text(pretrained)}",
    ]
    config = dataclasses.replace(
        config,
        init_checkpoint=pretrained,
        run=dataclasses.replace(config.run, seed=seed, model_dir=model_dir),
    )
    return Run(
        f"{name} {task}",
        _command("finetuning", files, params, model_dir),
        config,
        (pretrained,),
        task,
        1.0,
    )


@functools.cache
def _finetuning_config(task: str, options: Options):
    """gin files, bindings and configuration of all fine-tuning on a task."""
    # The task's own file is first: others are found beside it.
    files = [gin_path(f"finetune/{task}.gin")]
    of_task = gin_path(f"experiments/finetuning/{task}.gin")
    if options.finetuning_gin_file:
        files += [of_task] if os.path.exists(of_task) else []
        files.append(options.finetuning_gin_file)
    params = options.finetuning_gin_params
    config = gin_files_lib.load(
        finetuning_configs.FinetuningConfig, files, params
    )
    return tuple(files), params, config


def _text(value: str) -> str:
    """As gin reads it; in double quotes, which a shell command needs less."""
    return json.dumps(value)


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
    found: list[float | None] = []
    for name in {
        p.name for p in pathlib.Path(options.output_dir).glob("*/*/*")
    }:
        if name == OWN_STEPS:
            found.append(None)
        else:
            try:
                found.append(float(name))
            except ValueError:
                continue
    return found


def seeds_on_disk(options: Options) -> tuple[int, ...]:
    """Seeds of all runs that are there."""
    folders = pathlib.Path(options.output_dir).glob("*/*/*/seed_*")
    names = {folder.name.removeprefix("seed_") for folder in folders}
    return tuple(sorted(int(name) for name in names if name.isdigit()))


def check_tasks(tasks: tuple[str, ...]) -> None:
    """Refuses names that are not in `TASKS`.

    Raises:
      ValueError: For the first of them.
    """
    for task in tasks:
        if task not in TASKS:
            raise ValueError(
                f"Expected tasks among {', '.join(TASKS)}. Received: {task}"
            )
