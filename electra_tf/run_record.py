"""What a model directory says of the run that made it."""

import dataclasses
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time

from electra_tf import configs
from electra_tf.command_line import write_atomically

CONFIG_FILE = "config.json"
_PACKAGES = (
    "electra_tf",
    "tensorflow",
    "tensorflow-text",
    "keras",
    "tf-models-official",
    "gin-config",
    "numpy",
)
# What may differ between a run and its continuation: nothing that changes what
# is learned.
_MAY_DIFFER = (
    "run.model_dir",
    "run.stop_at_step",
    "run.save_checkpoints_steps",
    "run.steps_per_loop",
    "run.eval_steps",
    "run.keep_checkpoint_max",
    "run.keep_best_metric",
    "run.async_checkpoints",
    "run.distribution_strategy",
    "run.num_gpus",
    "run.tpu",
    "run.cluster_resolver",
    "run.kubernetes_selector",
    "run.micro_batch_size",
    "run.num_parallel_parts",
    "run.jit_compile",
    "run.num_intra_op_threads",
    "data.eval_batch_size",
    "data.features_cache_dir",
    "data.num_eval_steps",
    "data.heldout_files",
    # Every trial of fine-tuning says itself what it is.
    "num_trials",
    "reseed_degenerate",
    "learning_rates",
    "num_train_epochs_options",
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
    if not os.path.isdir(model_dir) or not os.listdir(model_dir):
        return
    if not os.path.isfile(os.path.join(model_dir, CONFIG_FILE)):
        raise configs.ConfigError(
            f"Expected an empty or new model directory, found {model_dir} with "
            f"{len(os.listdir(model_dir))} entries but no {CONFIG_FILE}: "
            "choose another --model_dir"
        )
    if not any(
        os.path.isfile(os.path.join(model_dir, folder, "checkpoint"))
        for folder in ("", "trial_1")
    ):
        return  # Nothing was learned there.
    theirs = _with_defaults(read_config(model_dir), config)
    ours_class, their_class = type(config).__name__, theirs.get("class")
    if their_class == "ConvertedCheckpoint":
        raise configs.ConfigError(
            f"{model_dir} holds a converted checkpoint: to start from it, name "
            f"it as {ours_class}.init_checkpoint and choose another --model_dir"
        )
    # As it comes back from a file: a tuple as a list.
    ours = json.loads(json.dumps(as_dict(config)))
    found = [
        f"{name}={a!r} (was {b!r})"
        for name, a, b in configs.differences(ours, theirs)
        if name not in _MAY_DIFFER
    ]
    if found:
        raise configs.ConfigError(
            f"{model_dir} holds another run's model. This run differs in: "
            f"{', '.join(found)}. Choose another --model_dir, or the old "
            "values to continue that run"
        )


def _with_defaults(record: dict, config) -> dict:
    """A record with the defaults of fields that came after it was written."""
    record = dict(record)
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            if isinstance(record.get(field.name), dict):
                record[field.name] = _with_defaults(record[field.name], value)
        elif field.default is not dataclasses.MISSING:
            record.setdefault(field.name, field.default)
    return record


def write(config, operative_config: str, flags: list[str]) -> None:
    """Writes what the run is made of into its model directory.

    config.json, operative_config.gin and a line in runs.jsonl (flags, versions,
    git commit, time).

    Args:
      config: Dataclass with a `run: RunConfig`.
      operative_config: gin's account of it.
      flags: Command-line flags.
    """
    model_dir = config.run.model_dir
    try:
        os.makedirs(model_dir, exist_ok=True)
    except OSError as error:
        raise configs.ConfigError(
            f"Cannot make the model directory {model_dir}: {error.strerror}"
        ) from None
    write_atomically(
        os.path.join(model_dir, CONFIG_FILE),
        json.dumps(as_dict(config), indent=1) + "\n",
    )
    write_atomically(
        os.path.join(model_dir, "operative_config.gin"), operative_config
    )
    record = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "argv": sys.argv,
        "flags": flags,
        "python": platform.python_version(),
        "versions": _versions(),
        "git_commit": git_commit(),
    }
    with open(os.path.join(model_dir, "runs.jsonl"), "a") as f:
        f.write(json.dumps(record) + "\n")


def as_dict(config) -> dict:
    """A configuration as JSON keeps it, with its class."""
    return {"class": type(config).__name__} | dataclasses.asdict(config)


def read_config(model_dir: str) -> dict:
    """The configuration in a model directory.

    Raises:
      ConfigError: If there is none.
    """
    path = os.path.join(model_dir, CONFIG_FILE)
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except FileNotFoundError:
        raise configs.ConfigError(
            f"Expected a model directory with {CONFIG_FILE} at {model_dir}, "
            "found none: has the model been trained?"
        ) from None
    except (OSError, json.JSONDecodeError) as error:
        raise configs.ConfigError(f"Cannot read {path}: {error}") from None


def _versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return versions


def git_commit() -> str | None:
    """Commit of the source tree, "-dirty" where it has changes."""
    try:
        result = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40"],
            cwd=os.path.dirname(os.path.abspath(__file__)),
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return result.stdout.strip()
