"""A model directory: what a run writes there, and everybody reads.

First the names of its files; then the record of a run, config.json, and who may
go on with it; last what records of earlier versions mean.
"""

import dataclasses
import glob
import json
import math
import os
import platform
import re
import sys
import time
import typing
from collections.abc import Callable, Mapping, Sequence

from electra_tf import configs, errors, files
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
DIGESTS_FORMAT = 1
# In the results of a trial trained with patience: which weights it has.
BEST_STEP = "best_step"
# Folders below that of a run with checkpoints of their own.
PART_OF_RUN = re.compile(rf"trial_\d+|{BEST_DIR}")

# Counts up when a field of the record takes another meaning. 1, which records
# do not say: `warmup_proportion` put `num_warmup_steps` out of force.
RECORD_FORMAT = 2
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
    *("run.cluster_resolver", "run.kubernetes_selector"),
    "run.micro_batch_size",
    "run.num_parallel_parts",
    "run.jit_compile",
    "run.num_intra_op_threads",
    "data.eval_batch_size",
    "data.features_cache_dir",  # Of earlier versions.
    "data.data_service_address",
    "data.train_files",  # Moved; see `refuse_other_records`.
    "data.vocab_file",  # Its tokens are compared.
    "data.num_eval_steps",
    "data.heldout_files",
    # Every trial of fine-tuning says itself what it is.
    *("num_trials", "reseed_degenerate"),
    *("learning_rates", "num_train_epochs_options"),
    # Compared with the checkpoint when it is read.
    "expected_encoder",
)
# The class of a record -> what its folder holds.
_KINDS = {
    "PretrainingConfig": "a model of pre-training",
    "FinetuningConfig": "a fine-tuned model",
    "ConvertedCheckpoint": "a converted checkpoint",
}
# When it ends, which a run may decide anew before its rate knows of it.
_DECAY = ("num_decay_steps", "decay_proportion")
_OF_ITS_END = ("run.num_train_steps", *(f"optimizer.{n}" for n in _DECAY))
# What a branch chooses for itself: how long it is, and where it begins. Its
# vocabulary is compared token by token, and its first biases are the trunk's.
_OF_A_BRANCH = (
    *("class", "format", "init_checkpoint", "init_generator_checkpoint"),
    *("keep_global_step", "optimizer.schedule", *_OF_ITS_END),
    "data.biases_from_data",
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
# Share -> the size of the discriminator that it is one of.
_SHARES = {
    "generator_hidden_size": "hidden_size",
    "generator_layers": "num_hidden_layers",
}
_GENERATOR_LAYER = re.compile(
    r"generator(?:_ltr)?/encoder/layer_(\d+)/intermediate/dense/kernel"
)


def trial_dir(model_dir: str, number: int) -> str:
    """The folder of one trial of a fine-tuning run, counted from 1."""
    return os.path.join(model_dir, f"trial_{number}")


def trial_numbers(model_dir: str) -> list[int]:
    """Of the trials that have folders, in order; one may be missing."""
    names = os.listdir(model_dir) if os.path.isdir(model_dir) else ()
    found = (re.fullmatch(r"trial_([1-9]\d*)", name) for name in names)
    return sorted(int(match[1]) for match in found if match)


def weights_dir(folder: str) -> str:
    """Where the checkpoint is that is the model of a run, or of a trial.

    That is the folder itself, but for a finished trial that names its best
    step: it was trained with patience, and has the weights of that step.
    """
    path = os.path.join(folder, RESULTS_FILE)
    found = files.read_json(path) if os.path.isfile(path) else {}
    has_best = found.get(BEST_STEP) is not None
    return os.path.join(folder, BEST_DIR) if has_best else folder


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
    model_dir = config.run.model_dir
    try:
        os.makedirs(model_dir, exist_ok=True)
    except OSError as error:
        raise errors.ConfigError(
            f"Cannot make the model directory {model_dir}: {error.strerror}"
        ) from None
    write_json(os.path.join(model_dir, CONFIG_FILE), as_dict(config))
    write_atomically(
        os.path.join(model_dir, OPERATIVE_CONFIG_FILE), operative_config
    )
    record = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "argv": sys.argv,
        "flags": flags,
        "python": platform.python_version(),
        "versions": files.versions(_PACKAGES),
        "git_commit": files.git_commit(),
    }
    files.append_line(os.path.join(model_dir, RUNS_FILE), record)


def as_dict(config) -> dict:
    """A configuration as JSON keeps it, with its class."""
    kind = {"class": type(config).__name__, "format": RECORD_FORMAT}
    return kind | dataclasses.asdict(config)


def read_config(model_dir: str) -> dict:
    """The configuration in a model directory, in the terms of this version.

    Raises:
      ConfigError: If there is none.
    """
    return _read(model_dir)[0]


def read_pretraining_config(model_dir: str) -> configs.PretrainingConfig:
    """The configuration of a pre-training run, without what it started from.

    Raises:
      ConfigError: If there is none, or that of another kind of run.
    """
    record = read_config(model_dir)
    if record.get("class") != "PretrainingConfig":
        raise errors.ConfigError(
            "Expected the model directory of a pre-training run. Received: "
            f"{model_dir}, of a {record.get('class')}"
        )
    try:
        model = dict(record["model"])
        encoder = configs.EncoderConfig(**model.pop("encoder"))
        return configs.PretrainingConfig(
            model=configs.ElectraConfig(encoder=encoder, **model),
            data=configs.PretrainingDataConfig(**record["data"]),
            optimizer=configs.OptimizerConfig(**record["optimizer"]),
            run=dataclasses.replace(
                configs.RunConfig(**record["run"]), model_dir=model_dir
            ),
        )
    except (KeyError, TypeError) as error:
        raise errors.ConfigError(
            f"Expected the {CONFIG_FILE} of this version in "
            f"{model_dir}. Received: one with {error}"
        ) from None


def _read_json(model_dir: str) -> dict:
    path = os.path.join(model_dir, CONFIG_FILE)
    if not os.path.exists(path):
        raise errors.ConfigError(
            f"Expected a model directory with {CONFIG_FILE} at {model_dir}, "
            "found none: has the model been trained?"
        )
    parts = dict.fromkeys(("model", "data", "optimizer", "run"), dict)
    try:
        return files.read_json(path, **parts)
    except errors.CheckpointError as error:
        raise errors.ConfigError(str(error)) from None


def refuse_other_run(config) -> None:
    """Refuses a model directory that holds another run's model.

    Args:
      config: Dataclass with a `run: RunConfig`.

    Raises:
      ConfigError: If the directory has a checkpoint of a run that differs in
        what is learned, or holds something else.
    """
    model_dir = config.run.model_dir
    if not os.path.isdir(model_dir):
        return
    # What a run leaves that was killed over its very first file is nobody's.
    begun = re.compile(rf"{re.escape(CONFIG_FILE)}\.tmp\d+")
    if all(map(begun.fullmatch, os.listdir(model_dir))):
        return
    if not os.path.isfile(os.path.join(model_dir, CONFIG_FILE)):
        raise errors.ConfigError(
            f"Expected an empty or new model directory, found {model_dir} with "
            f"{len(os.listdir(model_dir))} entries but no {CONFIG_FILE}: "
            f"choose another --model_dir{_and_start_there(config)}"
        )
    if not _has_learned(model_dir):
        return
    record, cut = _read(model_dir)
    theirs = _with_defaults(record, config)
    ours_class, their_class = type(config).__name__, theirs.get("class")
    if their_class in _KINDS and their_class != ours_class:
        raise errors.ConfigError(
            f"{model_dir} holds {_KINDS[their_class]}: to start from it, name "
            f"it as {ours_class}.init_checkpoint and choose another --model_dir"
        )
    # As it comes back from a file: a tuple as a list.
    ours = json.loads(json.dumps(as_dict(config)))
    was_cut = {f"model.{size.name}": size for size in cut}
    may_differ: tuple[str, ...] = _MAY_DIFFER
    if ours.get("early_stopping_patience"):  # They decide when it ends.
        may_differ = tuple(n for n in _MAY_DIFFER if n != "run.eval_steps")
    if ours_class == "FinetuningConfig":
        may_differ += _MAY_MOVE
    if getattr(getattr(config, "data", None), "eval_only", False):
        may_differ += _MAY_DIFFER_IN_EVALUATION
    if _is_before_decay(config, theirs):
        may_differ += _OF_ITS_END
    found = []
    for name, a, b in differences(ours, theirs):
        reason = f"was {b!r}"
        if name in was_cut:
            size = was_cut[name]
            if size.is_given_by(typing.cast(float, a)):
                continue
            reason = (
                f"{size}: to go on there, --gin_param=ElectraConfig."
                f"{size.name}={size.fitting_share}"
            )
        if name == "run.dtype_policy" and a == configs.AUTO:  # Takes theirs.
            continue
        if name == "recipe" and _rates_are_given(ours, theirs):
            continue
        if not any(f"{name}.".startswith(f"{may}.") for may in may_differ):
            found.append(f"{name}={a!r} ({reason})")
    if found:
        raise errors.ConfigError(
            f"{model_dir} holds another run's model. This run differs in: "
            f"{', '.join(found)}. Choose another --model_dir, or the old "
            "values to continue that run"
        )


def _and_start_there(config) -> str:
    """What else to do where checkpoints lie that no run of ours has left."""
    if not glob.glob("*.index", root_dir=config.run.model_dir):
        return ""
    hint = (
        ", and to start from the checkpoint there name it as "
        f"{type(config).__name__}.init_checkpoint"
    )
    if isinstance(config, configs.PretrainingConfig):
        hint += " (with keep_global_step to go on at its step)"
    return hint


def _is_before_decay(config, theirs: dict) -> bool:
    """Whether nothing was learned yet that depends on when a run ends.

    So it is with 'warmup_stable_decay' until the first decay begins, ours or
    that of the record of the run that ours goes on with.
    """
    was = theirs.get("optimizer") or {}
    if (
        not isinstance(config, configs.PretrainingConfig)
        or was.get("schedule") != config.optimizer.schedule
        or config.optimizer.warmup_proportion
        or config.model.final_temperature is not None
    ):
        return False
    decay = {name: was[name] for name in _DECAY}
    before = dataclasses.replace(config.optimizer, **decay)
    names = " ".join(os.listdir(config.run.model_dir))
    saved = re.findall(rf"{CHECKPOINT_NAME}-(\d+)\.index", names)
    last_step = max(map(int, saved), default=math.inf)
    return all(
        last_step <= steps - (optimizer.decay_steps(steps) or steps)
        for optimizer, steps in (
            (config.optimizer, config.run.num_train_steps),
            (before, theirs["run"]["num_train_steps"]),
        )
    )


def run_before(run: configs.RunConfig) -> dict:
    """The record of the run that a run goes on with; empty if there is none."""
    if not _has_learned(run.model_dir):
        return {}
    return _read(run.model_dir)[0].get("run", {})


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


def trunk_of(config: configs.PretrainingConfig) -> dict:
    """The record of the run from whose step another goes on.

    Args:
      config: Of the run that goes on.

    Returns:
      The record; empty where there is none, or the step begins at 0.
    """
    folder = config.keep_global_step and folder_of(config.init_checkpoint)
    record = _read(folder)[0] if folder else {}
    return record if record.get("class") == "PretrainingConfig" else {}


def differences_from_trunk(
    config: configs.PretrainingConfig, digest: str
) -> list[str]:
    """What a run does otherwise than the run from whose step it goes on.

    Args:
      config: Of the run that goes on.
      digest: Of its records.

    Returns:
      Such as "run.seed=1 (there 2)"; nothing where no run's record is known.
    """
    theirs = trunk_of(config)
    if not theirs:
        return []
    ours = json.loads(json.dumps(as_dict(config)))
    left_out = _MAY_DIFFER + _OF_A_BRANCH
    found = [
        f"{name}={a!r} (there {b!r})"
        for name, a, b in differences(ours, _with_defaults(theirs, config))
        if not any(f"{name}.".startswith(f"{may}.") for may in left_out)
    ]
    found += _length_of_trunk(config, theirs)
    folder = folder_of(config.init_checkpoint)
    if read_train_data(folder or "").get("sha256", digest) != digest:
        found.append("the records")
    return found


def _length_of_trunk(
    config: configs.PretrainingConfig, theirs: dict
) -> list[str]:
    """Another length, where the trunk has followed its own from step 0 on."""
    ours, model = config.run.num_train_steps, config.model
    before = (theirs.get("run") or {}).get("num_train_steps") or ours
    warmup_steps = config.optimizer.warmup_steps
    follow = {
        "model.final_temperature": ours != before
        and model.final_temperature not in (None, model.temperature),
        "optimizer.warmup_proportion": warmup_steps(ours)
        != warmup_steps(before),
    }
    names = " and ".join(name for name, follows in follow.items() if follows)
    if not names:
        return []
    return [f"run.num_train_steps={ours} (there {before}, and {names} with it)"]


def refuse_other_records(config, digest: str) -> None:
    """Refuses to go on with other records than those that were learned.

    Args:
      config: Of pre-training.
      digest: Of its records, under whatever name they are.

    Raises:
      ConfigError: If the run in its model directory had others.
    """
    model_dir = config.run.model_dir
    if not _has_learned(model_dir):
        return
    known = read_train_data(model_dir)
    if not known:  # An earlier version's.
        before = read_config(model_dir).get("data", {}).get("train_files")
        if before != config.data.train_files:
            print(
                f"{model_dir} was trained on {before} and does not tell its "
                "records: those of train_files are taken for the same"
            )
    elif known.get("sha256") != digest:
        raise errors.ConfigError(
            f"{model_dir} holds a run on other records than those of "
            f"PretrainingDataConfig.train_files={config.data.train_files}: "
            "other files, or of other names, which are their order, or built "
            "again. Choose another --model_dir, or bring the old ones back"
        )


def read_train_data(model_dir: str) -> dict:
    """What `write_records_digest` wrote; nothing where it did not.

    Raises:
      CheckpointError: If the file is damaged.
    """
    path = os.path.join(model_dir, TRAIN_DATA_FILE)
    if not os.path.isfile(path):
        return {}
    try:
        return files.read_json(path, ("sha256",))
    except errors.CheckpointError as error:
        raise errors.CheckpointError(
            f"{error}. It says which records {model_dir} has learned from: "
            "bring it back, or remove it if you are sure that they are those "
            "of PretrainingDataConfig.train_files"
        ) from None


def write_records_digest(
    model_dir: str, digest: str, heldout: str | None = None
) -> None:
    """Writes what `refuse_other_records` compares, and what is held out."""
    write_json(
        os.path.join(model_dir, TRAIN_DATA_FILE),
        {"sha256": digest, "heldout": heldout},
        indent=None,
    )


def _has_learned(model_dir: str) -> bool:
    """Whether there are checkpoints, whatever "checkpoint" says, or scores."""
    trials = [trial_dir(model_dir, n) for n in trial_numbers(model_dir)]
    best = f"{BEST_DIR}/checkpoint"
    return any(
        glob.glob(pattern, root_dir=folder)
        for folder in (model_dir, *trials)
        for pattern in ("checkpoint", f"{CHECKPOINT_NAME}-*.index", best)
    ) or any(
        os.path.isfile(os.path.join(folder, RESULTS_FILE)) for folder in trials
    )


def differences(
    ours: dict, theirs: dict, prefix: str = ""
) -> Sequence[tuple[str, object, object]]:
    """Names and values in which two nested configurations differ."""
    found: list[tuple[str, object, object]] = []
    for name in sorted(set(ours) | set(theirs)):
        a, b = ours.get(name), theirs.get(name)
        if isinstance(a, dict) and isinstance(b, dict):
            found.extend(differences(a, b, f"{prefix}{name}."))
        elif a != b:
            found.append((prefix + name, a, b))
    return found


def _rates_are_given(*records: dict) -> bool:
    """Whether a recipe leaves nothing to choose, as both rates are set."""
    return all(
        record["optimizer"].get("layerwise_lr_decay") is not None
        and (
            record["optimizer"].get("learning_rate") is not None
            or record.get("learning_rates")
        )
        for record in records
    )


def _with_defaults(record: dict, config) -> dict:
    """A record with the defaults of fields that came after it was written.

    None stands for the defaults of what is another configuration now.
    """
    record = dict(record)
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            if record.get(field.name) is None and field.default is None:
                record[field.name] = {}
            if isinstance(record.get(field.name), dict):
                record[field.name] = _with_defaults(record[field.name], value)
        elif field.default is not dataclasses.MISSING:
            record.setdefault(field.name, field.default)
    return record


class CutSize(typing.NamedTuple):
    """A size of a generator that an earlier version made too small.

    It cut off what the original rounds: of 768 * 0.33333 it made 255, not 256.

    Attributes:
      name: Field of `configs.ElectraConfig`, a share.
      share: As recorded.
      whole: The size of the discriminator.
      size: What was trained.
      rounded: What the share stands for.
    """

    name: str
    share: float
    whole: int
    size: int
    rounded: int

    @property
    def fitting_share(self) -> float:
        """Rounded, it gives the size that was trained."""
        return self.size / self.whole

    def is_given_by(self, share: float) -> bool:
        """Whether a share gives the size that was trained."""
        return configs.share_of(self.whole, share) == self.size

    def __str__(self) -> str:
        size = (
            f"has {self.size} layer{'s' if self.size > 1 else ''}"
            if self.name == "generator_layers"
            else f"is {self.size} wide"
        )
        return (
            f"the generator {size}, cut by an earlier version where the "
            f"original has {self.rounded}"
        )


def _read(model_dir: str) -> tuple[dict, list[CutSize]]:
    """The record in the terms of this version, and what was cut."""
    record, cut = with_trained_sizes(
        _read_json(model_dir), lambda: _shapes_of_last_checkpoint(model_dir)
    )
    optimizer = record.get("optimizer")
    if record.get("format", 1) < RECORD_FORMAT and isinstance(optimizer, dict):
        record = record | {"format": RECORD_FORMAT}
        if optimizer.get("warmup_proportion") is not None:
            record["optimizer"] = optimizer | {"num_warmup_steps": 0}
    return record, cut


def with_trained_sizes(
    record: dict, read_shapes: Callable[[], Mapping[str, Sequence[int]]]
) -> tuple[dict, list[CutSize]]:
    """The record that gives a generator the sizes that were trained.

    Args:
      record: Of a run.
      read_shapes: Returns name of each variable -> its shape; called where an
        earlier version would have cut a size.

    Returns:
      The record, and what an earlier version cut: nothing in most.
    """
    candidates = _candidates(record)
    layers = {
        int(match[1]): shape[0]
        for name, shape in (read_shapes() if candidates else {}).items()
        if (match := _GENERATOR_LAYER.fullmatch(name))
    }
    if not layers:
        return record, []
    trained = {
        "generator_hidden_size": layers[0],
        "generator_layers": len(layers),
    }
    cut = [size for size in candidates if trained[size.name] == size.size]
    fitting = {size.name: size.fitting_share for size in cut}
    return record | {"model": record["model"] | fitting}, cut


def _candidates(record: dict) -> list[CutSize]:
    """What an earlier version would have cut of the sizes of a run."""
    if record.get("class") != "PretrainingConfig":
        return []
    found = []
    for name, whole_name in _SHARES.items():
        try:
            share = record["model"][name]
            whole = record["model"]["encoder"][whole_name]
            size, rounded = int(whole * share), configs.share_of(whole, share)
        except (KeyError, TypeError, ValueError):
            continue  # Whoever builds the configuration says what is wrong.
        if size != rounded:
            found.append(CutSize(name, share, whole, size, rounded))
    return found


def _shapes_of_last_checkpoint(model_dir: str) -> dict[str, Sequence[int]]:
    """Name -> shape of the model's variables; nothing if there are none."""
    # Late: most records need no look at the variables. TensorFlow's notes on
    # the machine would bury the one line that may follow.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    prefix = tf.train.latest_checkpoint(model_dir)
    if prefix is None:
        return {}
    try:
        shapes = tf.train.load_checkpoint(prefix).get_variable_to_shape_map()
    except (tf.errors.OpError, RuntimeError, ValueError):
        return {}  # Whoever reads the values says what is wrong.
    # TensorFlow writes the "/" of a name as ".S".
    return {
        key.removeprefix("model/").split("/")[0].replace(".S", "/"): shape
        for key, shape in shapes.items()
        if key.startswith("model/")
    }
