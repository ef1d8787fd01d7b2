"""What run_pretraining and run_finetuning share: flags -> gin -> one call."""

import dataclasses
import functools
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence

from absl import app, flags, logging

from electra_tf import configs, errors, model_directory
from electra_tf.command_line import (
    arguments,
    fastest,
    gin_files,
    host_memory,
    original_hparams,
)

_OF_MEMORY = (
    "set a smaller RunConfig.micro_batch_size, which changes no result, or "
    "take fewer examples"
)
_GIN_FILE = flags.DEFINE_multi_string(
    "gin_file",
    [],
    "gin file; given several times, later ones override earlier ones.",
)
_GIN_PARAM = flags.DEFINE_multi_string(
    "gin_param",
    [],
    "gin binding that overrides the files, such as "
    "--gin_param='RunConfig.num_train_steps=1000'.",
)
_HPARAMS = flags.DEFINE_string(
    "hparams",
    None,
    "In place of --gin_file: the --hparams of the original's command of this "
    "name, as JSON or a file that holds it, with its --data_dir and "
    "--model_name; {} by default. --gin_param and the other flags override "
    "them.",
)
flags.DEFINE_string(
    "model_name", None, "With --hparams: the model's folder in models/."
)
flags.DEFINE_string("model_dir", None, "Overrides RunConfig.model_dir.")
flags.DEFINE_string(
    "distribution_strategy",
    None,
    "one_device, mirrored, multi_worker_mirrored or tpu; overrides "
    "RunConfig.distribution_strategy.",
)
flags.DEFINE_integer(
    "num_gpus",
    None,
    "GPUs of this host; 0 for the CPU, by default those that are there.",
)
flags.DEFINE_string(
    "tpu", None, "Name or address of a TPU; overrides RunConfig.tpu."
)
# Flags that take the place of the hparam of their name, since others follow
# from it: epochs and folder from the tasks, the vocabulary from the model.
_FLAGS_OF_HPARAMS = ("task_names", "init_checkpoint")
# Flag -> the parameter that it overrides.
_BINDINGS = {
    name: f"RunConfig.{name}"
    for name in ("model_dir", "distribution_strategy", "num_gpus", "tpu")
}

# gin files and, overriding them, single bindings.
Base = tuple[Sequence[str], Sequence[str]]


def launch(
    command: str,
    configurable: type,
    run: Callable[[object, Callable[[], None]], None],
    translate: original_hparams.Translate,
    bindings: Mapping[str, str] | None = None,
    needed: Sequence[str] = (),
    stand_in: Callable[[], Base | None] | None = None,
) -> None:
    """Runs a command: 0 on success, 1 and one line on a user's mistake.

    A run that was told to stop and saved leaves with
    `arguments.EXIT_STOPPED`.

    Args:
      command: Name of the entry module, for messages.
      configurable: The configuration to build from gin.
      run: Takes the configuration, and what to call before the first step.
      translate: What --hparams means.
      bindings: Flag of the entry module -> the parameter that it overrides,
        such as "RunConfig.seed".
      needed: Flags that do without a gin file; none where there must be one.
      stand_in: Asked, where there is no gin file, for what stands in its place.
    """

    def work(argv):
        if len(argv) > 1:
            raise errors.ConfigError(f"Unexpected argument {argv[1]!r}")
        files, params = _base(needed, translate, bindings or {}, stand_in)
        config, before_training, chosen = _configure(
            configurable, files, [*params, *_GIN_PARAM.value], bindings or {}
        )
        print(chosen)
        run(config, before_training)

    def in_flags(argv):
        """A user knows the flag, not the field that it sets."""
        try:
            work(argv)
        except ValueError as error:
            line = str(error)
            for flag, parameter in (bindings or {}).items():
                line = re.sub(rf"\b{parameter}\b", f"--{flag}", line)
            error.args = (line,)
            raise

    def main(argv):
        logging.set_verbosity(logging.WARNING)
        return arguments.ended(command, lambda: in_flags(argv), _OF_MEMORY)

    app.run(main, flags_parser=functools.partial(_parse_flags, command))


def _parse_flags(command: str, argv: list[str]) -> list[str]:
    """Takes the original's --data-dir for --data_dir.

    Leaves as `arguments.ArgumentParser` does: 0 after --help, 2 and one line
    after a flag that is none.
    """
    respelled = [arguments.respelled(arg, "-", "_") for arg in argv[1:]]
    try:
        return flags.FLAGS(argv[:1] + respelled)
    except flags.Error as error:
        line = " ".join(str(error).split())
        arguments.say(command, f"error: {line} (see --help)")
        sys.exit(arguments.EXIT_USAGE)
    except SystemExit:  # After --help, which absl takes for a failure.
        sys.exit(arguments.written(command))
    except OSError:  # Of --help, whose reader has gone.
        sys.exit(arguments.written(command, 1))


def _hush_tensorflow(run: configs.RunConfig) -> None:
    """Has TensorFlow, not imported yet, print less.

    Without a GPU that includes an error about CUDA, which is none.
    """
    uses_cpu = not run.num_gpus and run.distribution_strategy != "tpu"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3" if uses_cpu else "2")


def _base(
    needed: Sequence[str],
    translate: original_hparams.Translate,
    bindings: Mapping[str, str],
    stand_in: Callable[[], Base | None] | None,
) -> Base:
    """The gin files, and bindings that stand in place of one."""
    # The original's flags that are nobody else's.
    theirs = [
        name
        for name in ("hparams", "data_dir", "model_name")
        if name not in bindings and flags.FLAGS[name].value is not None
    ]
    if not theirs:
        if not _GIN_FILE.value:
            base = stand_in() if stand_in else None
            if base is not None:
                return base
            _require_flags(needed)
        return _GIN_FILE.value, ()
    if _GIN_FILE.value:
        raise errors.ConfigError(
            f"Expected either --gin_file or --{theirs[0]}. Received: both"
        )
    for name in ("data_dir", "model_name"):
        if not flags.FLAGS[name].value:
            raise errors.ConfigError(
                f"Expected --data_dir and --model_name with --{theirs[0]}, as "
                f"in the original. Received: no --{name}"
            )
    hparams = (
        {} if _HPARAMS.value is None else original_hparams.read(_HPARAMS.value)
    )
    hparams |= {
        name: flags.FLAGS[name].value
        for name in _FLAGS_OF_HPARAMS
        if name in bindings and flags.FLAGS[name].value is not None
    }
    bindings = translate(
        hparams,
        flags.FLAGS["data_dir"].value,
        flags.FLAGS["model_name"].value,
    )
    return (), original_hparams.as_gin(bindings)


def _require_flags(needed: Sequence[str]) -> None:
    """Refuses to run without --gin_file where the other flags do not do."""
    if not needed:
        raise errors.ConfigError(
            "Expected --gin_file, such as --gin_file=gin/small.gin"
        )
    missing = [name for name in needed if not flags.FLAGS[name].value]
    if missing:
        raise errors.ConfigError(
            "Expected --gin_file, or "
            + ", ".join(f"--{name}" for name in needed)
            + ". Received: no --gin_file and no "
            + ", no ".join(f"--{name}" for name in missing)
        )


def _configure(
    configurable,
    files: Sequence[str],
    params: list[str],
    bindings: Mapping[str, str],
):
    """The configuration; what to call before step 1; what was chosen."""
    bindings = _BINDINGS | dict(bindings)
    params += [
        f"{binding} = {flags.FLAGS[name].value!r}"
        for name, binding in bindings.items()
        if flags.FLAGS[name].value is not None
    ]
    config = gin_files.load(configurable, files, params)
    model_directory.refuse_other_run(config)
    _hush_tensorflow(config.run)
    config, chosen = _settle(config)
    if config.run.num_intra_op_threads:
        threads = str(config.run.num_intra_op_threads)
        os.environ["TF_NUM_INTRAOP_THREADS"] = threads
    if not config.run.num_gpus and config.run.distribution_strategy != "tpu":
        host_memory.keep_freed()
    named = ("gin_file", "gin_param", "hparams", "model_name", "data_dir")
    given = [
        f"--{name}={flags.FLAGS[name].value}"
        for name in dict.fromkeys((*named, *bindings))
        if name in flags.FLAGS and flags.FLAGS[name].present
    ]

    begin = functools.partial(
        model_directory.begin, config, gin_files.operative_config(), given
    )
    return config, begin, chosen


def _settle(config):
    """The configuration with what `RunConfig` leaves open, and what that is."""
    step = ()
    if isinstance(config, configs.PretrainingConfig):
        step = fastest.of_pretraining(config)
    before = model_directory.run_before(config.run)
    run, device = fastest.settle_devices(config.run)
    run, chosen = fastest.settle(run, *step, before=before)
    lines = filter(None, [f"{device}, {run.dtype_policy}", chosen])
    return dataclasses.replace(config, run=run), "\n".join(lines)
