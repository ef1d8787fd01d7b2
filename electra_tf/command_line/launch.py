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
flags.DEFINE_multi_string(
    "gin_file",
    [],
    "gin file; given several times, later ones override earlier ones.",
)
flags.DEFINE_multi_string(
    "gin_param",
    [],
    "gin binding that overrides the files, such as "
    "--gin_param='RunConfig.num_train_steps=1000'.",
)
flags.DEFINE_string(
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
    stand_in: Callable[[], Base | None] = lambda: None,
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
    own = dict(bindings or {})

    def work(argv):
        if len(argv) > 1:
            raise errors.ConfigError(f"Unexpected argument {argv[1]!r}")
        try:
            files, params = _base(needed, translate, own, stand_in)
            params = [*params, *_given("gin_param")]
            run(*_configure(configurable, files, params, _BINDINGS | own))
        except ValueError as error:
            # A user knows the flag, not the field that it sets.
            line = str(error)
            for flag, parameter in own.items():
                line = re.sub(rf"\b{parameter}\b", f"--{flag}", line)
            error.args = (line,)
            raise

    def main(argv):
        logging.set_verbosity(logging.WARNING)
        return arguments.ended(command, lambda: work(argv), _OF_MEMORY)

    app.run(main, flags_parser=functools.partial(_parse_flags, command))


def _given(name: str):
    """The value of a flag; None without one of this name."""
    return flags.FLAGS[name].value if name in flags.FLAGS else None


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


def _base(
    needed: Sequence[str],
    translate: original_hparams.Translate,
    own: Mapping[str, str],
    stand_in: Callable[[], Base | None],
) -> Base:
    """The gin files, and bindings that stand in place of one."""
    # The original's flags that are nobody else's.
    of_original = [
        name
        for name in ("hparams", "data_dir", "model_name")
        if name not in own and _given(name) is not None
    ]
    if not of_original:
        if _given("gin_file"):
            return _given("gin_file"), ()
        if base := stand_in():
            return base
        missing = [name for name in needed if not _given(name)]
        if needed and not missing:
            return (), ()
        line = "Expected --gin_file, such as --gin_file=gin/small.gin"
        if needed:
            line = (
                f"Expected --gin_file, or --{', --'.join(needed)}. Received: "
                f"no --gin_file and no --{', no --'.join(missing)}"
            )
        raise errors.ConfigError(line)
    if _given("gin_file"):
        raise errors.ConfigError(
            f"Expected either --gin_file or --{of_original[0]}. Received: both"
        )
    for name in ("data_dir", "model_name"):
        if not _given(name):
            raise errors.ConfigError(
                f"Expected --data_dir and --model_name with --{of_original[0]},"
                f" as in the original. Received: no --{name}"
            )
    text = _given("hparams")
    hparams = {} if text is None else original_hparams.read(text)
    for name in _FLAGS_OF_HPARAMS:
        if name in own and _given(name) is not None:
            hparams[name] = _given(name)
    translated = translate(hparams, _given("data_dir"), _given("model_name"))
    return (), original_hparams.as_gin(translated)


def _configure(
    configurable,
    files: Sequence[str],
    params: list[str],
    bindings: Mapping[str, str],
):
    """The configuration, and what to call before step 1; prints its choices."""
    params += [
        f"{parameter} = {_given(name)!r}"
        for name, parameter in bindings.items()
        if _given(name) is not None
    ]
    config = gin_files.load(configurable, files, params)
    model_directory.refuse_other_run(config)
    uses_cpu = not config.run.num_gpus
    uses_cpu = uses_cpu and config.run.distribution_strategy != "tpu"
    # TensorFlow is not imported yet. Without a GPU it prints an error about
    # CUDA, which is none.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3" if uses_cpu else "2")
    config = _settle(config)
    if config.run.num_intra_op_threads:
        threads = str(config.run.num_intra_op_threads)
        os.environ["TF_NUM_INTRAOP_THREADS"] = threads
    if not config.run.num_gpus and config.run.distribution_strategy != "tpu":
        host_memory.keep_freed()
    named = ("gin_file", "gin_param", "hparams", "model_name", "data_dir")
    given = [
        f"--{name}={_given(name)}"
        for name in dict.fromkeys((*named, *bindings))
        if name in flags.FLAGS and flags.FLAGS[name].present
    ]
    return config, functools.partial(
        model_directory.begin, config, gin_files.operative_config(), given
    )


def _settle(config):
    """The configuration with what `RunConfig` leaves open, which is printed."""
    step = ()
    if isinstance(config, configs.PretrainingConfig):
        step = fastest.of_pretraining(config)
    before = model_directory.run_before(config.run)
    run, device = fastest.settle_devices(config.run)
    run, chosen = fastest.settle(run, *step, before=before)
    print(f"{device}, {run.dtype_policy}")
    if chosen:
        print(chosen)
    return dataclasses.replace(config, run=run)
