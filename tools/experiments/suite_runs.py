"""From a suite to the runs that it takes, at equal compute; runs nothing.

A *variant* is a row with its runs, each one command and one folder:

  <output_dir>/<gin file>/<budget>/seed_<n>/pretraining
                                           /<task>

without seed_<n> where one pre-trained model is fine-tuned with all seeds. A gin
file that several rows, stages or suites have in common is trained once.
"""

import dataclasses
import functools
import json
import math
import os
import pathlib
from collections.abc import Sequence

from suites import FROM_SCRATCH, Row, Suite

from electra_tf import configs, files, model_directory
from electra_tf.command_line import gin_files
from electra_tf.finetuning import configs as finetuning_configs
from electra_tf.model import costs

OWN_STEPS = "own_steps"
# Held-out evaluations of a pre-training run.
_NUM_EVALS = 5


@dataclasses.dataclass(frozen=True)
class Stage:
    """One pre-training run of a variant, whatever its seed.

    Attributes:
      folder: With a folder for each seed.
      gin_files: In their order.
      gin_params: After them.
      config: What they load to; seed and folders are still those of the files.
      flops_per_step: As `costs.of_pretraining_step` counts.
    """

    folder: str
    gin_files: tuple[str, ...]
    gin_params: tuple[str, ...]
    config: configs.PretrainingConfig
    flops_per_step: float

    @property
    def num_steps(self) -> int:
        return self.config.run.num_train_steps


@dataclasses.dataclass(frozen=True)
class Variant:
    """A row of a suite, and what is trained for it.

    Attributes:
      row: Of a suite.
      stages: One, or two that follow each other; the last is fine-tuned. None
        of a baseline.
      folder: Where what is fine-tuned is, with a folder for each seed.
    """

    row: Row
    stages: tuple[Stage, ...]
    folder: str

    @property
    def own_stages(self) -> tuple[Stage, ...]:
        """Those that the row learns from."""
        return () if FROM_SCRATCH in self.row.bindings else self.stages

    @property
    def flops(self) -> float:
        return sum(s.flops_per_step * s.num_steps for s in self.own_stages)


@dataclasses.dataclass(frozen=True)
class Run:
    """One command, and how to see that it has been done.

    Attributes:
      command: Arguments behind the Python interpreter.
      model_dir: Its folder.
      needs: Folders of the runs that must be finished before.
      config: Of the run; None of a baseline.
      title: For people.
      task: That is fine-tuned on; '' of pre-training.
    """

    command: tuple[str, ...]
    model_dir: str
    needs: tuple[str, ...]
    config: (
        configs.PretrainingConfig | finetuning_configs.FinetuningConfig | None
    )
    title: str = ""
    task: str = ""

    def is_finished(self) -> bool:
        """Whether all of its results exist.

        Raises:
          ConfigError: If the folder holds another run.
          CheckpointError: If the results are damaged.
        """
        if self.config is not None:
            model_directory.refuse_other_run(self.config)
        if not isinstance(self.config, configs.PretrainingConfig):
            needed = self.config.num_trials if self.config else 1
            return len(self.trials()) >= needed
        num_steps = self.config.run.num_train_steps
        if self.config.data.heldout_files:
            return self.heldout().get("step") == num_steps
        last = f"{model_directory.CHECKPOINT_NAME}-{num_steps}.index"
        return os.path.exists(os.path.join(self.model_dir, last))

    def trials(self) -> list[dict]:
        """What is there of fine-tuning, without what others repeat."""
        path = os.path.join(self.model_dir, model_directory.RESULTS_FILE)
        if not os.path.exists(path):
            return []
        results = files.read_json(path, ["trials"], replaced_trials=list)
        replaced = results.get("replaced_trials") or ()
        return [t for t in results["trials"] if t.get("trial") not in replaced]

    def scores(self, split: str, metric: str) -> list[float]:
        """A score of each model; no correlation at all is 0."""
        return [trial[split][metric] or 0.0 for trial in self.trials()]

    def heldout(self) -> dict:
        """Held-out metrics of pre-training; {} before its end."""
        path = os.path.join(self.model_dir, model_directory.EVAL_RESULTS_FILE)
        return files.read_json(path, step=int) if os.path.exists(path) else {}


def budget_name(budget: float | None) -> str:
    """1e13 -> '1e13'."""
    return OWN_STEPS if budget is None else f"{budget:g}".replace("e+", "e")


def variants(suite: Suite, rows: Sequence[str] = ()) -> list[Variant]:
    """Rows of a suite, all or those that are named.

    Raises:
      ConfigError: If a gin file does not load.
    """
    chosen = []
    for row in suite.rows:
        if not rows or row.name in rows:
            # Rows of one gin file share a run, such as objectives/electra; what
            # is fine-tuned in another way is in objectives/random_weights.
            stages = _stages(row, suite)
            if row.bindings or not stages:
                folder = _folder(f"{suite.name}/{row.name}", suite)
            else:
                folder = stages[-1].folder
            chosen.append(Variant(row, stages, folder))
    return chosen


def _folder(name: str, suite: Suite) -> str:
    return os.path.join(suite.output_dir, name, budget_name(suite.budget_flops))


@functools.cache
def _stages(row: Row, suite: Suite) -> tuple[Stage, ...]:
    """The pre-training of a row, all stages of as many steps."""
    from electra_tf.model import ablations  # Imports TensorFlow.

    stages: list[Stage] = []
    for path in filter(None, (row.first_stage, row.gin_file)):
        parent, name = pathlib.PurePath(path).with_suffix("").parts[-2:]
        folder = _folder(f"{parent}/{name}", suite)
        paths = tuple(filter(None, (f"gin/{path}", suite.size_gin_file)))
        config = gin_files.load(
            configs.PretrainingConfig, paths, suite.gin_params
        )
        per_step = costs.of_pretraining_step(
            ablations.networks(config.model), config.data.train_batch_size
        )
        stages.append(Stage(folder, paths, suite.gin_params, config, per_step))
    num_steps = None
    if suite.budget_flops is not None:
        total = sum(stage.flops_per_step for stage in stages)
        num_steps = round(suite.budget_flops / total) or 1 if stages else None
    return tuple(_with_steps(stage, num_steps) for stage in stages)


def _with_steps(stage: Stage, num_steps: int | None) -> Stage:
    """A stage with all bindings of its own; None for the steps of its files."""
    run, optimizer = stage.config.run, stage.config.optimizer
    params = list(stage.gin_params)
    if num_steps is not None:
        params.append(f"RunConfig.num_train_steps={num_steps}")
        if optimizer.num_warmup_steps:
            # Warm-up keeps its share of the training.
            share = optimizer.warmup_steps(run.num_train_steps)
            share = min(share / run.num_train_steps, 1.0)
            params.append("OptimizerConfig.num_warmup_steps=0")
            params.append(f"OptimizerConfig.warmup_proportion={share:.6g}")
    if not run.eval_steps and stage.config.data.heldout_files:
        steps = num_steps or run.num_train_steps
        params.append(f"RunConfig.eval_steps={math.ceil(steps / _NUM_EVALS)}")
    config = gin_files.load(configs.PretrainingConfig, stage.gin_files, params)
    return dataclasses.replace(stage, gin_params=tuple(params), config=config)


def seeds_of(suite: Suite) -> list[int | None]:
    """Of separate runs; None where seeds are trials of one run."""
    if suite.is_pretrained_once:
        return [None]
    return list(range(1, suite.num_seeds + 1))


def runs_of(variant: Variant, seed: int | None, suite: Suite) -> list[Run]:
    """Pre-training and fine-tuning of a variant with one seed, in order.

    The pre-training of a row from scratch, whose sizes it has, is among them.
    """
    row, of_seed = variant.row, "" if seed is None else f"seed_{seed}"
    name = f"{row.name} {budget_name(suite.budget_flops)} {of_seed}".strip()
    runs: list[Run] = []
    for stage in variant.stages:
        start = {}
        if runs:  # The networks start from the stage before.
            networks = ["init_checkpoint"]
            if stage.config.model.untied_generator:
                networks.append("init_generator_checkpoint")
            start = dict.fromkeys(networks, runs[-1].model_dir)
        run = _trained(
            (stage.gin_files, stage.gin_params, stage.config),
            seed,
            os.path.join(stage.folder, of_seed, "pretraining"),
            start,
        )
        number = f" {len(runs) + 1}" if len(variant.stages) > 1 else ""
        title = f"{name} pretraining{number}"
        runs.append(dataclasses.replace(run, title=title))
    start = {"init_checkpoint": runs[-1].model_dir} if runs else {}
    for task in suite.tasks:
        configuration = _finetuning(row, task, suite)
        model_dir = os.path.join(variant.folder, of_seed, task)
        if not row.gin_file:
            run = _baseline(configuration[2].data, model_dir)
        else:
            run = _trained(configuration, seed, model_dir, start)
        title = f"{name} {task}"
        runs.append(dataclasses.replace(run, title=title, task=task))
    return runs


def _trained(
    configuration: tuple,
    seed: int | None,
    model_dir: str,
    start: dict[str, str],
) -> Run:
    """A run of run_pretraining or run_finetuning.

    `start` has fields of the configuration and the model directories to start
    from; the seed is None for that of the gin files.
    """
    paths, params, config = configuration
    seed = config.run.seed if seed is None else seed
    config = dataclasses.replace(
        config,
        run=dataclasses.replace(config.run, seed=seed, model_dir=model_dir),
        **start,
    )
    what = type(config).__name__
    params = [*params, f"RunConfig.seed={seed}"]
    for field, path in start.items():
        # In double quotes, which a shell command needs less.
        params.append(f"{what}.{field}={json.dumps(path)}")
    command = (
        "-m",
        f"electra_tf.run_{what.removesuffix('Config').lower()}",
        *(f"--gin_file={path}" for path in paths),
        *(f"--gin_param={param}" for param in params),
        f"--model_dir={model_dir}",
    )
    return Run(command, model_dir, tuple(set(start.values())), config)


def _baseline(
    data: finetuning_configs.FinetuningDataConfig, model_dir: str
) -> Run:
    """A run of baselines.py on the rows of fine-tuning."""
    script = os.path.relpath(pathlib.Path(__file__).parent / "baselines.py")
    names = ("train_file", "dev_file", "test_file")
    rows = (f"--{name}={getattr(data, name)}" for name in names)
    command = (script, *rows, f"--output_dir={model_dir}")
    return Run(command, model_dir, (), None)


@functools.cache
def _finetuning(row: Row, task_name: str, suite: Suite) -> tuple:
    """gin files, bindings and configuration of fine-tuning on a task."""
    task = suite.tasks[task_name]
    names = task.gin_files
    if suite.size_gin_file:
        names += task.small_gin_files
    paths = tuple(f"gin/{name}" for name in names)
    params = task.bindings + suite.bindings
    if suite.is_pretrained_once:
        params += (f"FinetuningConfig.num_trials={suite.num_seeds}",)
    params += row.bindings + tuple(row.task_bindings.get(task_name, ()))
    params += suite.finetuning_gin_params
    config = gin_files.load(finetuning_configs.FinetuningConfig, paths, params)
    return paths, params, config
