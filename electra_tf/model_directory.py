"""A model directory: what a run writes there, and everybody reads.

First the names of its files; then the record of a run, config.json, and who may
go on with it.
"""

import dataclasses
import glob
import os
import platform
import re
import sys
import time
import typing

from electra_tf import configs, errors, files, validation
from electra_tf.files import write_atomically, write_json

# Of every run.
CONFIG_FILE = "config.json"
OPERATIVE_CONFIG_FILE = "operative_config.gin"
RUNS_FILE = "runs.jsonl"
# Of pre-training: what it learns from, wherever that is.
TRAIN_DATA_FILE = "train_data.json"
METRICS_FILE = "metrics.jsonl"
CHECKPOINT_NAME = "model.ckpt"
# The checkpoint that was best on held-out examples.
BEST_DIR = "best"
# Of pre-training, and of its best checkpoint: metrics on held-out examples.
EVAL_RESULTS_FILE = "eval_results.json"
# Of fine-tuning: what exporting must know of tasks and encoder; the scores,
# those of one trial in its folder; the same as a table;
# and as a page for a browser.
MODEL_FILE = "model.json"
RESULTS_FILE = "results.json"
TABLE_FILE = "results.txt"
REPORT_FILE = "report.html"
# In the folder of a trial: its settings; its scores by class.
TRIAL_FILE = "trial.json"
REPORTS_FILE = "reports.json"
# In the settings of a trial: what its model learned from. The format counts up
# when the same contents get other digests.
DIGESTS = "digests"
DIGESTS_FORMAT = 2
# In the results of a trial trained with patience: which weights it has.
BEST_STEP = "best_step"
# Folders below that of a run with checkpoints of their own.
PART_OF_RUN = re.compile(rf"trial_\d+|{BEST_DIR}")

# Counts up when the record has other fields, or one takes another meaning.
RECORD_FORMAT = 4
_PACKAGES = (
    "electra_tf",
    "tensorflow",
    "tensorflow-text",
    "keras",
    "tf-models-official",
    "gin-config",
    "numpy",
)
# Of RunConfig: what decides what is learned.
_DECIDES = (
    *("num_train_steps", "seed", "dtype_policy"),
    "gradient_reduction_dtype",
)
# What may differ between a run and its continuation: nothing that changes what
# is learned. Files may move: digests of what is in them are compared.
_MAY_DIFFER = (
    *(
        f"run.{field.name}"
        for field in dataclasses.fields(configs.RunConfig)
        if field.name not in _DECIDES
    ),
    *("data.eval_batch_size", "data.num_eval_steps", "data.heldout_files"),
    *("data.train_files", "data.vocab_file"),
    # Every trial of fine-tuning says itself what it is.
    *("num_trials", "reseed_degenerate"),
    *("learning_rates", "num_train_epochs_options"),
    # Compared with the checkpoint when it is read.
    "expected_encoder",
)
# Of fine-tuning: where files are. Each trial knows what is in them.
_MAY_MOVE = (
    *("init_checkpoint", "data.data_dir"),
    *("data.train_file", "data.dev_file", "data.test_file"),
)
# With `data.eval_only` nothing is learned: all that decides no answer may.
_MAY_DIFFER_IN_EVALUATION = (
    *("optimizer", "recipe", "from_scratch", "keep_head", "dropout"),
    *("data.eval_only", "data.folds", "data.train_batch_size"),
    *("data.num_train_epochs", "data.bucketed", "data.double_unordered"),
    *("data.skip_empty_texts", "class_weights", "head_dropout"),
    *("run.seed", "run.eval_steps", "early_stopping_patience"),
)


def trial_dir(model_dir: str, number: int) -> str:
    """The folder of one trial of a fine-tuning run, counted from 1."""
    return os.path.join(model_dir, f"trial_{number}")


def trial_numbers(model_dir: str) -> list[int]:
    """Of the trials that have folders, in order; one may be missing."""
    names = glob.glob("trial_[1-9]*", root_dir=model_dir)
    numbers = (name.removeprefix("trial_") for name in names)
    return sorted(int(number) for number in numbers if number.isdecimal())


def weights_dir(folder: str) -> str:
    """Where the checkpoint is that is the model of a run, or of a trial.

    That is the folder itself, but for a finished trial that was trained with
    patience, and has the weights of its best step.
    """
    path = os.path.join(folder, RESULTS_FILE)
    results = files.read_json(path) if os.path.isfile(path) else {}
    is_best = results.get(BEST_STEP) is not None
    return os.path.join(folder, BEST_DIR) if is_best else folder


def begin(config, operative_config: str, flags: list[str]) -> None:
    """Makes a model directory a run's own, and writes what the run is made of.

    See `refuse_other_run` and `write`. No other process may write there until
    this one ends.

    Raises:
      ConfigError: If another run is writing there, or has a model there.
    """
    model_dir = config.run.model_dir
    _make(model_dir)
    if files.lock(model_dir) is None:
        raise errors.ConfigError(
            "Expected a model directory that no other run is using. Received: "
            f"{model_dir}, to which another process writes: wait for its end, "
            "or choose another --model_dir"
        )
    refuse_other_run(config)
    write(config, operative_config, flags)


def _make(model_dir: str) -> None:
    try:
        os.makedirs(model_dir, exist_ok=True)
    except OSError as error:
        raise errors.ConfigError(
            f"Cannot make the model directory {model_dir}: {error.strerror}"
        ) from None


def write(config, operative_config: str, flags: list[str]) -> None:
    """Writes what the run is made of into its model directory.

    config.json, operative_config.gin and a line in runs.jsonl (flags, versions,
    git commit, time).

    Args:
      config: Dataclass with a `run: RunConfig`.
      operative_config: gin's account of it.
      flags: Command-line flags.

    Raises:
      ConfigError: If the directory cannot be made.
      ValueError: If a file there cannot be written.
    """
    folder = config.run.model_dir
    _make(folder)
    write_json(os.path.join(folder, CONFIG_FILE), as_dict(config))
    write_atomically(
        os.path.join(folder, OPERATIVE_CONFIG_FILE), operative_config
    )
    record = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "argv": sys.argv,
        "flags": flags,
        "python": platform.python_version(),
        "versions": files.versions(_PACKAGES),
        "git_commit": files.git_commit(),
    }
    files.append_line(os.path.join(folder, RUNS_FILE), record)


def as_dict(config) -> dict:
    """A configuration as JSON keeps it, with its class."""
    kind = {"class": type(config).__name__, "format": RECORD_FORMAT}
    return kind | dataclasses.asdict(config)


def read_config(model_dir: str) -> dict:
    """The configuration in a model directory.

    Raises:
      ConfigError: If there is none, or one that another version wrote.
    """
    path = os.path.join(model_dir, CONFIG_FILE)
    if not os.path.exists(path):
        raise errors.ConfigError(
            f"Expected a model directory with {CONFIG_FILE} at {model_dir}, "
            "found none: has the model been trained?"
        )
    parts = dict.fromkeys(("model", "data", "optimizer", "run"), dict)
    try:
        record = files.read_json(path, ("class",), **parts)
        refuse_other_format(record, path)
    except errors.CheckpointError as error:
        raise errors.ConfigError(str(error)) from None
    return record


def refuse_other_format(record: dict, path: str) -> None:
    """Refuses a record that another version of this package wrote.

    Raises:
      CheckpointError: If it is one.
    """
    if record.get("format") != RECORD_FORMAT:
        raise errors.CheckpointError(
            f"Expected format {RECORD_FORMAT} in {path}. Received: "
            f"{record.get('format')}, of another version of electra_tf: train "
            "or convert again"
        )


def read_pretraining_config(model_dir: str) -> configs.PretrainingConfig:
    """The configuration of a pre-training run.

    Raises:
      ConfigError: If there is none, or that of another kind of run.
    """
    record = read_config(model_dir)
    if record["class"] != "PretrainingConfig":
        raise errors.ConfigError(
            "Expected the model directory of a pre-training run. Received: "
            f"{model_dir}, of a {record['class']}"
        )
    try:
        fields = set(record) - {"class", "format"}
        record["run"] = record["run"] | {"model_dir": model_dir}
        return exactly(
            configs.PretrainingConfig, {name: record[name] for name in fields}
        )
    except (KeyError, TypeError) as error:
        raise errors.ConfigError(
            f"Expected the {CONFIG_FILE} of this version in {model_dir}. "
            f"Received: one with {error}"
        ) from None


def exactly(cls, record: dict):
    """A configuration from a record of all its fields and no others.

    Raises:
      TypeError: If fields are missing or unknown.
    """
    names = {field.name for field in dataclasses.fields(cls)}
    if other := sorted(names ^ record.keys()):
        raise TypeError(f"other fields of {cls.__name__}: {', '.join(other)}")
    hints = typing.get_type_hints(cls)
    return cls(
        **{
            name: exactly(hints[name], value)
            if dataclasses.is_dataclass(hints[name])
            else value
            for name, value in record.items()
        }
    )


def refuse_other_run(config) -> None:
    """Refuses a model directory that holds another run's model.

    Args:
      config: Dataclass with a `run: RunConfig`.

    Raises:
      ConfigError: If the directory has a checkpoint of a run that differs in
        what is learned, or holds something else.
    """
    model_dir = config.run.model_dir
    kind = type(config).__name__
    names = os.listdir(model_dir) if os.path.isdir(model_dir) else []
    # What a run leaves that was killed over its very first file is nobody's.
    begun = re.compile(rf"{re.escape(CONFIG_FILE)}\.tmp\d+")
    if all(map(begun.fullmatch, names)):
        return
    if CONFIG_FILE not in names:
        raise errors.ConfigError(
            f"Expected an empty or new model directory, found {model_dir} with "
            f"{len(names)} entries but no {CONFIG_FILE}: choose another "
            f"--model_dir, and name a checkpoint to start from as {kind}."
            "init_checkpoint"
            + f" (electra-tf adapt --checkpoint={model_dir} goes on with a "
            "released model)" * (kind == "PretrainingConfig")
        )
    if not has_learned(model_dir):
        return
    record = read_config(model_dir)
    if record["class"] != kind:
        raise errors.ConfigError(
            f"{model_dir} holds a model of {record['class']}: to start from "
            f"it, name it as {kind}.init_checkpoint and choose another "
            "--model_dir"
        )
    may_differ = {*_MAY_DIFFER}
    if getattr(config, "early_stopping_patience", 0):
        may_differ.remove("run.eval_steps")  # They decide when it ends.
    if kind == "FinetuningConfig":
        may_differ.update(_MAY_MOVE)
        if config.data.eval_only:
            may_differ.update(_MAY_DIFFER_IN_EVALUATION)
    if config.run.dtype_policy == configs.AUTO:  # Takes the run's.
        may_differ.add("run.dtype_policy")
    validation.require_same(
        as_dict(config),
        record,
        f"{model_dir} holds another run's model",
        may_differ,
    )


def folder_of(path: str | os.PathLike) -> str | None:
    """The model directory that a path is, or is a part or checkpoint of.

    Args:
      path: Of a directory, of a trial or the best checkpoint in it, or the
        prefix of a checkpoint.
    """
    path = os.fspath(path).removesuffix(".index")
    if not os.path.isdir(path):
        if not os.path.exists(path + ".index"):
            return None
        path = os.path.dirname(path) or "."
    while not os.path.isfile(os.path.join(path, CONFIG_FILE)):
        path = os.path.abspath(path)
        if not PART_OF_RUN.fullmatch(os.path.basename(path)):
            return None
        path = os.path.dirname(path)
    return path


def has_learned(model_dir: str) -> bool:
    """Whether there are checkpoints, whatever "checkpoint" says, or scores."""
    trials = [trial_dir(model_dir, n) for n in trial_numbers(model_dir)]
    learned = [f"{BEST_DIR}/checkpoint", f"{CHECKPOINT_NAME}-*.index"]
    return any(
        glob.glob(pattern, root_dir=folder)
        for folder in (model_dir, *trials)
        for pattern in ("checkpoint", *learned, RESULTS_FILE)
    )
