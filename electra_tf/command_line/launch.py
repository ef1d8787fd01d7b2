"""What run_pretraining and run_finetuning share: flags -> gin -> one call."""

import dataclasses
import functools
import os
import re
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence

from absl import logging

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


def make_parser(prog: str, description: str) -> arguments.ArgumentParser:
    """The flags that all runs have."""
    parser = arguments.ArgumentParser(prog=prog, description=description)
    parser.add_argument(
        "--gin-file",
        action="append",
        default=[],
        help="gin file; given several times, later ones override earlier ones.",
    )
    parser.add_argument(
        "--gin-param",
        action="append",
        default=[],
        help="gin binding that overrides the files, such as "
        "--gin_param='RunConfig.num_train_steps=1000'.",
    )
    parser.add_values(
        str,
        hparams="In place of --gin_file: the --hparams of the original's "
        "command of this name, as JSON or a file that holds it, with its "
        "--data_dir and --model_name; {} by default. --gin_param and the other "
        "flags override them.",
        model_name="With --hparams: the model's folder in models/.",
        model_dir="Overrides RunConfig.model_dir.",
        distribution_strategy="one_device, mirrored, multi_worker_mirrored or "
        "tpu; overrides RunConfig.distribution_strategy.",
        tpu="Name or address of a TPU; overrides RunConfig.tpu.",
    )
    parser.add_values(
        int,
        num_gpus="GPUs of this host; 0 for the CPU, by default those that are "
        "there.",
    )
    return parser


def launch(
    parser: arguments.ArgumentParser,
    configurable: type,
    run: Callable[[object, Callable[[], None], Namespace], None],
    translate: original_hparams.Translate,
    bindings: Mapping[str, str] | None = None,
    needed: Sequence[str] = (),
    stand_in: Callable[[Namespace], Base | None] = lambda args: None,
    argv: Sequence[str] | None = None,
) -> int:
    """Runs a command: 0 on success, 1 and one line on a user's mistake.

    Args:
      parser: Of `make_parser`, and the command's own flags.
      configurable: The configuration to build from gin.
      run: Takes the configuration, what to call before the first step, and
        the flags.
      translate: What --hparams means.
      bindings: Flag of the command -> the parameter that it overrides, such as
        "RunConfig.seed".
      needed: Flags that do without a gin file; none where there must be one.
      stand_in: Asked, where there is no gin file, for what stands in its place.
      argv: The arguments; those of the process by default.

    Returns:
      The exit code: see `arguments.ended`.
    """
    own = dict(bindings or {})

    def work():
        logging.set_verbosity(logging.WARNING)
        try:
            files, params = _base(args, needed, translate, own, stand_in)
            params = [*params, *args.gin_param]
            run(*_configure(args, configurable, files, params, own), args)
        except ValueError as error:
            # A user knows the flag, not the field that it sets.
            line = str(error)
            for flag, parameter in own.items():
                line = re.sub(rf"\b{parameter}\b", f"--{flag}", line)
            error.args = (line,)
            raise

    args = parser.parse_args(argv)
    return arguments.ended(parser.prog, work, _OF_MEMORY)


def _base(
    args: Namespace,
    needed: Sequence[str],
    translate: original_hparams.Translate,
    own: Mapping[str, str],
    stand_in: Callable[[Namespace], Base | None],
) -> Base:
    """The gin files, and bindings that stand in place of one."""
    given = vars(args)
    # The original's flags that are nobody else's.
    of_original = [
        name
        for name in ("hparams", "data_dir", "model_name")
        if name not in own and given.get(name) is not None
    ]
    if not of_original:
        if args.gin_file:
            return args.gin_file, ()
        if base := stand_in(args):
            return base
        missing = [name for name in needed if not given.get(name)]
        if needed and not missing:
            return (), ()
        line = "Expected --gin_file, such as --gin_file=gin/small.gin"
        if needed:
            line = (
                f"Expected --gin_file, or --{', --'.join(needed)}. Received: "
                f"no --gin_file and no --{', no --'.join(missing)}"
            )
        raise errors.ConfigError(line)
    if args.gin_file:
        raise errors.ConfigError(
            f"Expected either --gin_file or --{of_original[0]}. Received: both"
        )
    for name in ("data_dir", "model_name"):
        if not given.get(name):
            raise errors.ConfigError(
                f"Expected --data_dir and --model_name with --{of_original[0]},"
                f" as in the original. Received: no --{name}"
            )
    text = args.hparams
    hparams = {} if text is None else original_hparams.read(text)
    for name in _FLAGS_OF_HPARAMS:
        if name in own and given.get(name) is not None:
            hparams[name] = given.get(name)
    translated = translate(hparams, args.data_dir, args.model_name)
    return (), original_hparams.as_gin(translated)


def _configure(
    args: Namespace,
    configurable: type,
    files: Sequence[str],
    params: list[str],
    own: Mapping[str, str],
):
    """The configuration, and what to call before step 1; prints its choices."""
    given = vars(args)
    bindings = _BINDINGS | own
    params += [
        f"{parameter} = {given.get(name)!r}"
        for name, parameter in bindings.items()
        if given.get(name) is not None
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
    flags = [
        f"--{name}={given[name]}"
        for name in dict.fromkeys((*named, *bindings))
        if given.get(name) not in (None, [])
    ]
    return config, functools.partial(
        model_directory.begin, config, gin_files.operative_config(), flags
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
